"""`schirn review --terminal`: the questions of the review page, one line of input each."""

from functools import partial
from typing import Any

from schirn._files import brief, shortened
from schirn._progress import printable
from schirn.app.review import CERTIFY, FIRST, Session
from schirn.cleaning import ANSWER_WORDS
from schirn.cleaning.questions import LISTED
from schirn.program import output

# Questions are asked even with --quiet.
say = partial(output.say, always=True)
_ACTIONS = {"y": "keep", "n": "drop", "u": "skip", "s": "swap"}
_MEANINGS = {"s": "swap", "y": "yes", "n": "no", "u": "unsure", "b": "back", "q": "quit"}
_KEY_OF_ANSWER = {True: "y", False: "n", None: "u"}
_KEYS = {
    **{word: _KEY_OF_ANSWER[right] for word, right in ANSWER_WORDS.items()},
    **{word: key for key, word in _MEANINGS.items()},
    **{key: key for key in _MEANINGS},
}
_MAX_TEXT = 600
_MAX_CELL = 200


def ask(session: Session, order: str) -> int:
    """Ask until no tag is left or the person quits; return the number of decided tags.

    Parameters
    ----------
    session : Session
        The review; its journal is closed at the end.
    order : str
        Order of the questions; see `Session.current`.

    Returns
    -------
    int
    """
    say("Is the tag right? y: yes, n: no, u or ?: unsure, b: back, q: quit")
    try:
        while _ask_one(session, order):
            known: Any = session.known(order)
            is_certifying = order == CERTIFY and known["certificate"] is not None
            say(known["certificate"]["words"] if is_certifying else known["line"])
        if order != CERTIFY:
            # A different set of tags would need another certificate.
            _offer_changes(session)
        certificate = session.known()["certificate"]
        if certificate is not None:
            say(certificate["words"])
    finally:
        session.journal.close()
    return session.n_decided


def _ask_one(session: Session, order: str) -> bool:
    """Ask one question; return whether to continue."""
    view = session.view(order=order)
    current = view["current"]
    certificate = view["known"]["certificate"]
    if order == CERTIFY and certificate is not None and certificate["certified"]:
        return False
    if current is None:
        say("No questions are left.")
        return False
    other_tags = [tag["label"] for tag in current["tags"] if not tag["current"] and tag["kept"]]
    say(f"\n{printable(current['text'][:_MAX_TEXT]) or '(no text)'}")
    say(f"item: {printable(current['item'])}")
    if current["image"]:
        say(f"image: {printable(current['image'])}")
    for name, cell in current["others"]:
        say(f"{printable(name)}: {printable(shortened(cell, _MAX_CELL))}")
    if other_tags:
        say(f"other tags: {printable(', '.join(other_tags))}")
    if current["confidence"] is not None:
        is_answered = view["known"]["answers"] > 0
        source = "the answers so far" if is_answered else "the model, which has not been checked"
        say(f"according to {source}, {current['confidence']:.0%} likely to be correct")
    if current["earlier"]:
        say(f"before the row changed, {printable(current['earlier'])}")
    if current["check"]:
        say("spot check: every fifth question is about a tag drawn at random from all tags")
    question = "Is the tag missing" if current["suggested"] else "Is the tag right"
    keys = "y/n/u/b/q"
    swap = current["swap"]
    if swap is not None:
        say(f"s: swap it for {printable(swap)}")
        keys = f"s/{keys}"
    first = view["known"]["first"][LISTED]
    if order == FIRST:
        number = first["answered"] + 1
        size = first["size"]
        conclusion = (
            f"all {size} questions are answered; press q to see what can be removed, or continue"
        )
        say(f"question {number} of {size}" if number <= size else conclusion)
    prompt = f"{question}: {printable(current['label'])}? [{keys}] "
    key = _read(prompt, tuple(keys.split("/")))
    if key == "q":
        return False
    if key != "b":
        record = {"action": _ACTIONS[key], "item": current["item"], "label": current["label"]}
        session.act(record | ({"to": swap} if key == "s" else {}), view["seq"])
    elif view["last"] is None:
        say("There is nothing to undo.")
    else:
        session.undo(view["seq"])
    return True


def _offer_changes(session: Session) -> None:
    """Ask whether to apply the changes that the answers allow."""
    known: Any = session.known()
    by_rule = f" or that a rule drops ({known['by_rule']:,})" if known["by_rule"] else ""
    if known["answers"] and not known["remove"]["count"]:
        say(
            f"Only tags that you called wrong{by_rule} are removed: the answers allow no others at "
            f"a precision of {known['precision']:.0%}. Answer more questions, or lower --precision."
        )
    for action, verb in (("remove", "Remove"), ("complete", "Add")):
        new = known[action]["new"]
        count = known[action]["count"]
        condition = ", for a new certificate" if action == "remove" and known["certificate"] else ""
        share = f"at a target precision of {known['precision']:.0%}{condition}"
        question = f"{verb} {new:,} {'tag' if new == 1 else 'tags'} {share}?"
        if new and _read(f"\n{question} [y/n] ", ("y", "n", "q")) == "y":
            session.apply_answers(action, count, session.sequence)


def _read(prompt: str, keys: tuple[str, ...]) -> str:
    """Read one of the given keys, or its meaning; the end of the input counts as "q"."""
    while True:
        try:
            typed = input(prompt).strip().lower()
        except EOFError:
            say()
            return "q"
        key = _KEYS.get(typed)
        if key in keys:
            return key
        allowed = ", ".join(f"{each} ({_MEANINGS[each]})" for each in keys)
        say(f"{printable(brief(typed))} is not one of the answers: {allowed}")
