import json
import threading

import pytest
from app.review.review_helpers import final_tags, keep_all, sign, write_project

from schirn.app.review import open_session
from schirn.app.review._session import Conflict
from schirn.app.workflow import read_vocabulary
from schirn.exceptions import DataError, InputError


@pytest.fixture
def session(folder):
    session = open_session(folder)
    yield session
    session.journal.close()


def asked(session):
    current = session.view()["current"]
    return current and (current["item"], current["label"])


def decide(session, *actions):
    """Act on what is asked; return what was asked."""
    found = []
    for action in actions:
        view = session.view()
        target = view["last"] if action == "undo" else view["current"]
        found.append((target["item"], target["label"]))
        if action == "undo":
            session.undo(view["seq"], of=target["of"])
        else:
            session.decide(action, *found[-1], view["seq"])
    return found


def test_most_suspicious_first(session):
    order = decide(session, *["keep"] * 6)
    assert order == [
        ("a", "cat"), ("c", "beach"), ("c", "dog"), ("b", "cat"), ("a", "dog"), ("a", "beach"),
    ]  # fmt: skip
    assert asked(session) is None
    assert session.view()["progress"]["decided"] == 6


def test_skipped_come_last_and_in_turn(session):
    decide(session, "skip", "skip", *["drop"] * 4)
    assert decide(session, "skip", "skip", "skip") == [("a", "cat"), ("c", "beach"), ("a", "cat")]
    assert session.view()["progress"]["skipped"] == 2


def test_undo_goes_back_step_by_step(session):
    first = decide(session, "keep", "skip", "drop")
    for pair in reversed(first):
        assert decide(session, "undo") == [pair]
        assert asked(session) == pair
    assert session.view()["last"] is None
    assert not session.status.any()
    with pytest.raises(Conflict, match="nothing to undo"):
        session.undo(session.sequence)


def test_what_was_undone_is_asked_again_at_once(session):
    decide(session, "skip", "skip", *["drop"] * 4)
    [pair] = decide(session, "skip")
    decide(session, "undo")
    assert asked(session) == pair


def test_replay_gives_the_same_state(session, folder):
    decide(session, "keep", "drop", "undo", "skip", "drop", "undo")
    view, status = session.view(), session.status.tolist()
    session.journal.close()
    again = open_session(folder, write=False)
    assert again.view() == view
    assert again.status.tolist() == status
    assert again.sequence == 6


def test_two_tabs_do_not_overwrite_each_other(session):
    session.decide("keep", "b", "cat", 0)
    with pytest.raises(Conflict, match="another tab"):
        session.decide("drop", "b", "cat", 0)
    session.decide("drop", "a", "dog", 0)
    with pytest.raises(Conflict, match="nothing was undone"):
        session.undo(1)
    with pytest.raises(Conflict, match="nothing was undone"):
        session.undo(2, of=1)
    with pytest.raises(Conflict, match="an earlier session"):
        session.decide("keep", "c", "dog", 99)
    assert session.sequence == 2
    assert session.decide("drop", "b", "cat", 2) == 3


def test_many_threads_are_put_in_line(session, folder):
    numbers = []

    def act(action):
        try:
            numbers.append(session.decide(action, "b", "cat", 0))
        except Conflict:
            numbers.append(None)

    threads = [threading.Thread(target=act, args=(a,)) for a in ("keep", "drop") * 8]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(filter(None, numbers)) == [1]
    assert len((folder / "journal.jsonl").read_text().splitlines()) == 2


def test_unknown_pairs_and_actions(session):
    for wrong in (("keep", "a", "bird"), ("keep", "z", "dog"), ("burn", "a", "dog")):
        with pytest.raises(InputError):
            session.decide(*wrong, 0)
    assert session.sequence == 0


def test_final_tags(session):
    decide(session, "keep", "drop", "skip")
    assert list(final_tags(session)) == [
        {"id": "a", "tags": ["dog", "cat", "beach"], "removed": [], "added": [],
         "checked": ["cat"]},
        {"id": "b", "tags": [], "removed": ["cat"], "added": [], "checked": []},
        {"id": "c", "tags": [], "removed": ["dog", "beach"], "added": [], "checked": ["beach"]},
    ]  # fmt: skip


def test_a_record_that_does_not_fit(session, folder):
    decide(session, "keep")
    session.journal.append({"item": "a", "label": "dog", "action": "undo", "of": 2})
    session.journal.close()
    with pytest.raises(DataError, match="record 2 does not fit"):
        open_session(folder)


def test_the_target_may_be_changed_at_any_time(session, folder):
    questions = session.questions
    before = session.view()["known"]
    assert before["precision"] == 0.9
    steps = questions.steps("listed", session.status)
    session.act({"action": "target", "precision": 0.7}, session.sequence)
    assert session.view()["known"]["precision"] == 0.7
    assert session.view()["last"]["precision"] == 0.7
    # The questions stay the same, so that answers stay those of their rounds.
    assert questions.steps("listed", session.status) == steps
    for wrong in (0, 1.5, "0.7", None, True):
        with pytest.raises(InputError, match="target must be between 0 and 1"):
            session.act({"action": "target", "precision": wrong}, session.sequence)
    reopened = open_session(folder, write=False)
    assert reopened.known()["precision"] == 0.7
    session.undo(session.sequence)
    assert session.known()["precision"] == 0.9


def test_the_page_knows_what_each_target_would_do(session):
    assert session.known()["trade_off"] == []
    while (current := session.view()["current"]) is not None:
        session.decide("drop", current["item"], current["label"], session.sequence)
    lines = session.known()["trade_off"]
    assert [line["precision"] for line in lines] == [0.95, 0.9, 0.8, 0.7, 0.6, 0.5]
    assert all(line["removed"] for line in lines)
    json.dumps(lines, allow_nan=False)


def give_rule(session, label, rule):
    return session.act({"action": "rule", "label": label, "rule": rule}, session.sequence)


def tags_of(session):
    return {record["id"]: record["tags"] for record in final_tags(session)}


def test_rules_decide_all_tags_of_a_name(session, folder):
    before = tags_of(session)
    give_rule(session, "dog", "drop")
    give_rule(session, "beach", "keep")
    assert tags_of(session) == {"a": ["beach"], "b": [], "c": ["beach"]}
    assert session.view()["known"]["rules"] == 2
    last = session.view()["last"]
    assert (last["label"], last["rule"]) == ("beach", "keep")
    # Nothing but cats is left to ask about.
    assert {label for _, label in decide(session, "keep", "skip")} == {"cat"}
    reopened = open_session(folder, write=False)
    assert tags_of(reopened) == tags_of(session)
    for _ in range(4):
        session.undo(session.sequence)
    assert tags_of(session) == before
    assert session.questions.rules == {}


def test_removals_by_rule_are_counted_apart(session):
    session.decide("drop", "a", "dog", 0)
    give_rule(session, "dog", "drop")
    known = session.known()
    assert (known["dropped"], known["by_rule"]) == (1, 1)
    assert {line["removed"] for line in known["trade_off"]} == {1}


def test_an_answer_wins_over_a_rule(session):
    session.decide("keep", "a", "dog", 0)
    give_rule(session, "dog", "drop")
    assert tags_of(session)["a"] == ["dog", "beach"]
    assert tags_of(session)["c"] == []


def test_a_rule_is_taken_back_by_ask(session):
    before = tags_of(session)
    give_rule(session, "dog", "drop")
    give_rule(session, "dog", "ask")
    assert tags_of(session) == before
    assert session.view()["known"]["rules"] == 0


def test_the_download_lists_what_a_rule_removes(session):
    give_rule(session, "dog", "drop")
    reasons = {change.row: change.why for change in session.changes() if change.before == "dog"}
    assert reasons == {0: "a rule drops every dog", 2: "a rule drops every dog"}


def test_the_rules_of_a_review_are_a_vocabulary(session, tmp_path):
    give_rule(session, "dog", "drop")
    give_rule(session, "beach", "keep")
    session.write_vocabulary(tmp_path / "v.csv")
    vocabulary = read_vocabulary(tmp_path / "v.csv")
    assert vocabulary.drops == {"dog"}
    assert vocabulary.keeps == {"beach"}


@pytest.mark.parametrize(("label", "rule"), [("dog", "burn"), ("doog", "keep"), (None, "keep")])
def test_rules_that_make_no_sense(session, label, rule):
    with pytest.raises(InputError):
        give_rule(session, label, rule)
    assert session.sequence == 0


def test_a_rule_of_the_vocabulary_is_fixed(folder):
    head = json.loads((folder / "project.json").read_text("utf-8"))
    head["table"]["vocabulary"] = [{"action": "keep", "tag": "dog", "accept": "yes"}]
    head.pop("sha256")
    sign(folder, head)
    session = open_session(folder)
    lines = {line["label"]: line for line in session.labels()}
    assert (lines["dog"]["rule"], lines["dog"]["fixed"]) == ("keep", True)
    assert tags_of(session)["c"] == ["dog"]
    with pytest.raises(InputError, match="the vocabulary keeps 'dog'"):
        give_rule(session, "dog", "drop")
    labels = {label for _, label in decide(session, *["keep"] * 4)}
    assert labels == {"cat", "beach"}
    assert asked(session) is None
    session.journal.close()


def test_what_is_known_about_each_name(session):
    lines = {line["label"]: line for line in session.labels()}
    assert {label: line["rows"] for label, line in lines.items()} == {
        "dog": 2, "cat": 2, "beach": 2,
    }  # fmt: skip
    assert all(line["suspicious"] is None for line in lines.values())
    decide(session, "drop", "keep", "drop", "skip", "keep", "keep")
    lines = {line["label"]: line for line in session.labels()}
    assert all(line["suspicious"] == 0 for line in lines.values())
    assert (lines["cat"]["answered"], lines["cat"]["wrong"]) == (1, 1)
    assert (lines["dog"]["answered"], lines["dog"]["wrong"]) == (2, 1)


def test_questions_drawn_before_a_rule_speak_for_the_other_tags(tmp_path):
    labels = ["a", "b", "c"]
    items = [
        (
            f"item {i}",
            f"Row {i}",
            {name: 0.101 + 0.002 * i + 0.2 * j for j, name in enumerate(labels)},
        )
        for i in range(60)
    ]
    session = open_session(write_project(tmp_path / "project", items, labels))
    steps = session.questions.steps("listed", session.status)
    give_rule(session, "a", "keep")
    free = session.questions.steps("listed", session.status)
    assert free == [tag for tag in steps if session.name(tag) != "a"]
    assert 0 < len(free) < len(steps)
    for tag in free:
        item = session.project.ids[session.project.row[tag]]
        action = "drop" if session.name(tag) == "b" else "keep"
        session.decide(action, item, session.name(tag), session.sequence)
    ranking = session.questions.ranking(session.status)
    assert ranking.n_in_share == 120
    design = ranking.answers.samples[0].round
    assert (design.n_drawn, design.n_open) == (len(free), 120)
    low, high = ranking.wrong_share_interval
    assert low <= 1 / 2 <= high
    # The second step follows, and asks about no tag that a rule decides.
    later = session.questions.steps("listed", session.status)[len(free) :]
    assert later
    assert "a" not in {session.name(tag) for tag in later}
    progress = session.known()["first"]["listed"]
    assert progress == {"answered": len(free), "size": len(free) + len(later)}
    session.journal.close()


def test_a_rule_ends_a_removal_at_once_and_undo_brings_it_back(larger):
    keep_all(larger)
    session = open_session(larger)
    tags = session.questions.tags["listed"][:20].tolist()
    session.act({"action": "remove", "tags": tags}, session.sequence)
    assert session.certificate() is not None
    removed = session.final()
    give_rule(session, "label 1", "keep")
    assert session.certificate() is None
    assert session.known()["removed"] == 0
    session.undo(session.sequence)
    assert session.certificate() is not None
    assert (session.final() == removed).all()
    session.journal.close()
