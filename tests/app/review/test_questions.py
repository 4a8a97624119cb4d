"""What a review asks, what it knows after the answers, and what these allow."""

import json

import numpy as np
import pandas as pd
import pytest
from app.cli.clean_helpers import make_items, make_project, write_csv
from app.review.review_helpers import final_tags, keep_all, write_project

from schirn.app.cli import main
from schirn.app.review import open_session
from schirn.app.review._questions import DROP, KEEP, OPEN, SKIP, Interview
from schirn.app.review._session import Conflict
from schirn.cleaning.certificate import Certificate
from schirn.exceptions import InputError

LABELS = ["dog", "cat", "beach", "sea"]


@pytest.fixture
def folder(tmp_path):
    """300 items whose tags are wrong if their confidence is low, with 60 suggestions."""
    rng = np.random.default_rng(0)
    items = []
    for i in range(300):
        *listed, missing = rng.permutation(LABELS)[:4]
        tags = {label: float(np.clip(rng.beta(0.3, 0.3), 0.001, 0.999)) for label in listed[:2]}
        items.append((f"item {i}", f"Text {i}", tags, {missing: 0.9} if i < 60 else {}))
    return write_project(tmp_path / "project", items, LABELS)


@pytest.fixture
def session(folder):
    # The helper marks tags with a low confidence as removed, which `schirn clean` does not.
    keep_all(folder)
    session = open_session(folder)
    yield session
    session.journal.close()


def is_right(session, tag):
    return not session.project.listed[tag] or session.project.confidence[tag] >= 0.5


def answer(session, times, order="first", action=None):
    """Answer what is asked by the truth, unless told otherwise; return the tags."""
    asked = []
    for _ in range(times):
        view = session.view(order=order)
        pair = view["current"]["item"], view["current"]["label"]
        tag = session.find(*pair)
        session.decide(action or ("keep" if is_right(session, tag) else "drop"), *pair, view["seq"])
        asked.append(tag)
    return asked


def test_two_steps_of_questions_as_in_the_library(session):
    asked = answer(session, 50)
    ranking = session.project.ranking()
    expected = []
    for order in ("spread", "limit"):
        questions = ranking.questions(25, order=order)
        cells = list(zip(questions.row.tolist(), questions.label.tolist(), strict=True))
        expected += [session.find(f"item {i}", label) for i, label in cells]
        right = [is_right(session, tag) for tag in expected[-25:]]
        ranking = ranking.answered(questions, right)
    assert asked == expected
    known = session.known()
    assert known["first"]["listed"] == {"answered": 50, "size": 50}
    low, high = ranking.wrong_share_interval
    share = f"about {ranking.wrong_share:.0%} of the tags are wrong"
    assert f"{share} (90% interval: {low:.0%} to {high:.0%})" in known["line"]
    assert f"about {ranking.expected_wrong(100):.0f} of the next 100 suspects" in known["line"]
    assert known["remove"]["count"] == int((ranking.removed & np.isnan(ranking.answer)).sum())
    # Nothing more than what was answered is removed yet; the most suspicious tag comes next.
    assert known["removed"] == sum(not is_right(session, tag) for tag in asked)
    suspect = next(ranking.suspects(1).records())
    current = session.view()["current"]
    assert (current["item"], current["label"]) == (f"item {suspect['row']}", suspect["label"])


def test_two_answers_say_nothing_about_the_share(session):
    answer(session, 2)
    line = session.known()["line"]
    assert line == "Your answers will show how many tags are wrong, and which can be removed."
    answer(session, 8)
    assert "of the tags are wrong (90% interval: " in session.known()["line"]


def test_first_questions_hide_what_the_model_thinks(session):
    current = session.view()["current"]
    assert current["blind"]
    assert current["confidence"] is None
    # Neither removals nor suggestions show among the other tags.
    listed = session.project.listed[session.project.row == current["row"]]
    assert [tag["kept"] for tag in current["tags"]] == [True] * listed.sum()
    assert session.view(order="suspicious")["current"]["confidence"] is not None


def test_the_orders(session):
    answer(session, 50)
    confidence = session.questions.confidence(session.status)
    open_tags = np.flatnonzero(session.project.listed & (session.status == 0))

    def tag(order):
        current = session.view(order=order)["current"]
        return session.find(current["item"], current["label"])

    assert confidence[tag("suspicious")] == confidence[open_tags].min()
    assert not session.project.listed[tag("suggested")]
    # One tag at a time: the label stays, also after a question that checks the rest.
    asked = answer(session, 9, "tag")
    labels = {session.name(k) for k in asked if k not in session.questions.checks(session.status)}
    assert len(labels) == 1
    with pytest.raises(InputError, match="the order must be one of"):
        session.view(order="odd")


@pytest.mark.slow
def test_every_fifth_question_checks_the_rest(session, folder):
    answer(session, 50)
    flags = []
    for _ in range(10):
        current = session.view(order="suspicious")["current"]
        flags.append(current["check"])
        # What the model thinks would sway the answer.
        assert current["blind"] == current["check"]
        answer(session, 1, "suspicious")
    assert flags == [False, False, False, False, True] * 2
    assert len(session.questions.checks(session.status)) == 2
    session.undo(session.sequence)
    assert session.view(order="suspicious")["current"]["check"]
    assert not session.view(order="suggested")["current"]["check"]
    answer(session, 1, "suspicious")
    assert open_session(folder, write=False).known() == session.known()
    # After a removal, a check could end its certificate.
    answer(session, 4, "suspicious")
    assert session.view(order="suspicious")["current"]["check"]
    remove(session)
    assert not session.view(order="suspicious")["current"]["check"]


@pytest.mark.slow
def test_checks_estimate_the_share_although_the_suspects_were_chosen(folder):
    keep_all(folder)
    project = open_session(folder, write=False).project
    rng = np.random.default_rng(1)
    n_covered = 0
    widths = []
    for _ in range(20):
        interview = Interview(project)
        listed = interview.tags["listed"]
        # The most suspicious tags are hardly worse than the others.
        is_right = rng.random(len(project.row)) < 0.6 + 0.2 * project.confidence
        verdict = np.where(is_right, KEEP, DROP)
        status = np.zeros(len(project.row), dtype=np.uint8)
        while (status[steps := interview.steps("listed", status)] == OPEN).any():
            status[steps] = verdict[steps]
        after_steps = interview.ranking(status).wrong_share_interval
        suspects = iter(listed[project.ranking().worklist.order])
        for _ in range(100):
            tag = interview.next_check(status)
            while tag is None or status[tag] != OPEN:
                tag = next(suspects)
            status[tag] = verdict[tag]
        low, high = interview.ranking(status).wrong_share_interval
        n_covered += low <= (~is_right[listed]).mean() <= high
        widths.append((high - low) / (after_steps[1] - after_steps[0]))
    # Binomial(20, 0.9) is below 15 in 1% of tests.
    assert n_covered >= 15
    assert np.mean(widths) < 0.95


def test_removal_needs_answers_and_can_be_undone(session, folder):
    assert session.known()["remove"] == {"count": 0, "new": 0}
    answer(session, 24)
    # Within the first step nothing is offered.
    assert session.known()["remove"]["count"] == 0
    answer(session, 26)
    before, count = session.final(), session.known()["remove"]["count"]
    assert count > 50
    with pytest.raises(Conflict, match="answers have changed"):
        session.apply_answers("remove", count + 1, session.sequence)
    session.apply_answers("remove", count, session.sequence)
    assert (before & ~session.final()).sum() == count
    assert session.known()["remove"]["new"] == 0
    gone = np.flatnonzero(before & ~session.final())
    assert np.mean([not is_right(session, tag) for tag in gone]) > 0.8
    # A later answer has the last word.
    session.decide("keep", *_pair(session, gone[0]), session.sequence)
    assert session.final()[gone[0]]
    view = session.view()
    again = open_session(folder, write=False)
    assert again.view() == view
    for _ in range(2):
        session.undo(session.sequence)
    np.testing.assert_array_equal(session.final(), before)
    assert session.known()["certificate"] is None


def _pair(session, tag):
    return session.project.ids[session.project.row[tag]], session.name(tag)


def remove(session):
    session.apply_answers("remove", session.known()["remove"]["count"], session.sequence)


@pytest.mark.slow
def test_a_certificate_is_that_of_the_library(session):
    answer(session, 50)
    questions = session.questions.ranking(session.status)
    remove(session)
    expected = questions.certify()
    while not session.certificate().certified:
        assert session.view(order="certify")["current"]["blind"]
        asked = expected.questions(1)
        [tag] = answer(session, 1, "certify", "drop")
        assert (session.project.row[tag], session.name(tag)) == (asked.row[0], asked.label[0])
        expected = expected.answered(asked, [False])
    assert expected.certified
    assert session.certificate().e_value == expected.e_value
    assert "With 95% confidence, at least 9" in session.known()["certificate"]["words"]
    # Other decisions do not harm it, as long as they are about other tags.
    others = np.flatnonzero(session.project.listed & (session.status == 0) & session.final())[:3]
    for tag, action in zip(others.tolist(), ("keep", "drop", "skip"), strict=True):
        session.decide(action, *_pair(session, tag), session.sequence)
    session.verify(session.certificate())
    # One of the set that was not drawn, though, changes what is removed.
    member = session.questions.number(expected.order[-1])
    session.decide("keep", *_pair(session, member), session.sequence)
    with pytest.raises(InputError, match="other tags were removed"):
        session.verify(session.certificate())
    session.undo(session.sequence)
    session.verify(session.certificate())


@pytest.mark.slow
def test_a_certificate_that_fails_says_so(session):
    answer(session, 50)
    remove(session)
    assert "no answers about these yet" in session.known()["certificate"]["words"]
    answer(session, 20, "certify", "keep")
    known = session.known()["certificate"]
    assert not known["certified"]
    assert session.certificate().more_answers is None
    assert "20 answers so far; it is probably out of reach" in known["words"]


def test_drawing_again_after_answers_needs_more_evidence(session, folder):
    answer(session, 50)
    remove(session)
    session.undo(session.sequence)
    remove(session)
    assert session.certificate().draw == 0
    answer(session, 1, "certify")
    session.undo(session.sequence)
    session.undo(session.sequence)
    remove(session)
    # What was answered and taken back is not known to the second draw.
    assert session.certificate().draw == 0
    answer(session, 1, "certify")
    remove(session)
    assert session.certificate().draw == 1
    assert open_session(folder, write=False).certificate().draw == 1


def test_answers_that_were_taken_back_give_no_second_chance(session, folder):
    """Answer, undo all, and leave out of the next set what was seen to be right."""
    answer(session, 50)
    members = session.questions.ready("listed", session.status).tolist()
    session.act({"action": "remove", "tags": members}, session.sequence)
    first = session.certificate()
    drawn = [session.questions.number(tag) for tag in first.order]
    for k, tag in enumerate(drawn[:20]):
        decide(session, tag, "keep" if k % 4 == 0 else "drop")
    for _ in range(21):
        session.undo(session.sequence)
    assert session.certificate() is None
    for tag in drawn[:20:4]:
        decide(session, tag, "keep")
    members = [tag for tag in members if tag not in drawn[:20:4]]
    session.act({"action": "remove", "tags": members}, session.sequence)
    second = session.certificate()
    assert second.draw == 1
    assert second.needed > 10 * first.needed
    # What was seen to be wrong is not drawn first again.
    assert second.order[:15] != [tag for k, tag in enumerate(first.order[:20]) if k % 4]
    assert open_session(folder, write=False).certificate().order == second.order


def decide(session, tag, action):
    session.decide(action, *_pair(session, tag), session.sequence)


def test_changed_answers_are_counted_in_the_certificate(session):
    answer(session, 50)
    remove(session)
    answer(session, 12, "certify", "drop")
    assert session.certificate().n_changed == 0
    answer(session, 1, "certify", "keep")
    session.undo(session.sequence)
    answer(session, 1, "certify", "drop")
    certificate = session.certificate()
    assert certificate.n_changed == 1
    assert "13 answers, 1 of them changed" in certificate.sentence
    assert Certificate.from_json(certificate.to_json()).n_changed == 1


def test_one_answer_about_missing_tags_says_what_comes(session):
    answer(session, 1, "suggested")
    line = session.known("suggested")["line"]
    assert line == "Your answers will show which missing tags can be added."


def test_suggestions_are_asked_and_added(session):
    assert not session.final()[~session.project.listed].any()
    asked = answer(session, 50, "suggested")
    assert not session.project.listed[asked].any()
    known = session.known()
    assert known["complete"] == {"count": 10, "new": 10}
    session.apply_answers("complete", 10, session.sequence)
    assert session.final()[~session.project.listed].all()
    assert sum(len(record["added"]) for record in final_tags(session)) == 60
    # Answers about other tags than those listed do not count among these.
    progress = session.view()["progress"]
    assert (progress["decided"], progress["suggested"], session.n_decided) == (0, 0, 50)
    known = session.known("suggested")
    assert known["added"] == 60
    assert known["line"] == "Of the 20 likeliest missing tags answered, 20 were correct."
    for change in session.changes():
        assert change.change == "addition"
        if change.confidence is not None:
            assert change.confidence > 0.5
            assert change.why.startswith(f"{change.confidence:.1%} likely to be correct")


def test_the_next_suspects_are_those_that_are_not_removed(session):
    answer(session, 50)
    ranking, count = session.questions.ranking(session.status), session.known()["remove"]["count"]
    remove(session)
    ahead = ranking.worklist.order[~ranking.removed[ranking.worklist.order]][:100]
    expected = (1 - ranking.confidence[ahead]).sum()
    assert f"about {expected:.0f} of the next 100 suspects are wrong" in session.known()["line"]
    # The undo button speaks about the tags that the removal added to an earlier one.
    assert session.view()["last"]["count"] == count
    answer(session, 1, "certify")
    before = set(session.chosen["listed"].tolist())
    remove(session)
    new = set(session.chosen["listed"].tolist()) - before
    assert session.view()["last"]["count"] == len(new)


@pytest.mark.slow
def test_a_certificate_leaves_the_share_of_wrong_tags_alone(session, folder):
    answer(session, 50)
    expected = session.questions.ranking(session.status).wrong_share_interval
    remove(session)
    while session.view(order="certify")["current"] is not None:
        answer(session, 1, "certify", "drop")
    # The page stops asking once the certificate holds.
    assert session.certificate().certified
    assert (session.status[session.chosen["listed"]] == 0).any()
    assert session.known()["certificate"]["words"].startswith("The certificate holds. With")
    ranking = session.questions.ranking(session.status)
    # The set was chosen, so its answers make no difference but to the predictions.
    assert ranking.wrong_share_interval == pytest.approx(expected, abs=0.03)
    assert open_session(folder, write=False).known()["line"] == session.known()["line"]


@pytest.fixture
def swapped(tmp_path):
    """40 items of which the first 20 list "coat" where "jacket" is right."""
    items = []
    for i in range(40):
        tags, missing = {"dog": 0.9, "coat": 0.1 + i / 1000}, {"jacket": 0.9, "sea": 0.6}
        items.append((f"item {i}", f"Text {i}", tags, missing if i < 20 else {}))
    folder = write_project(tmp_path / "swaps", items, [*LABELS, "coat", "jacket"])
    session = open_session(folder)
    yield session
    session.journal.close()


def test_swaps_are_asked_and_undone(swapped):
    session = swapped
    assert session.known()["swaps"] == 20
    view = session.view(order="swaps")
    current = view["current"]
    assert (current["label"], current["swap"]) == ("coat", "jacket")
    assert session.view(order="suspicious")["current"]["swap"] is None
    cell = {"item": current["item"], "label": "coat", "to": "jacket"}
    session.act({"action": "swap", **cell}, view["seq"])
    tags = {record["id"]: record for record in final_tags(session)}[current["item"]]
    assert (tags["removed"], tags["added"]) == (["coat"], ["jacket"])
    assert session.known()["answers"] == 1
    assert session.known()["swaps"] == 19
    again = open_session(session.project.folder, write=False)
    np.testing.assert_array_equal(again.final(), session.final())
    session.undo(session.sequence)
    assert session.view(order="swaps")["current"]["item"] == current["item"]
    assert not session.final()[~session.project.listed].any()
    # Without the button, the second tag is asked once the first one is dropped.
    session.decide("drop", current["item"], "coat", session.sequence)
    view = session.view(order="swaps")
    assert (view["current"]["item"], view["current"]["label"]) == (current["item"], "jacket")
    session.decide("keep", current["item"], "jacket", session.sequence)
    # A tag that is kept is no part of a swap.
    current = session.view(order="swaps")["current"]
    session.decide("keep", current["item"], "coat", session.sequence)
    assert session.known()["swaps"] < 19
    for wrong, right in (("jacket", "coat"), ("coat", "dog"), ("coat", "fish")):
        with pytest.raises(InputError):
            session.act({"action": "swap", **cell, "label": wrong, "to": right}, session.sequence)


@pytest.fixture
def table(tmp_path):
    items = make_items(400)
    return write_csv(tmp_path / "items.csv", items), items


def type_answers(monkeypatch, items, extra=(), most=50):
    """Answer the first questions by the truth; return what was printed before each input."""
    import builtins

    import schirn.app.cli._terminal as terminal

    printed, waiting = [], list(extra)
    monkeypatch.setattr(terminal, "say", lambda text="": printed.append(text))

    def reply(prompt):
        if waiting:
            return waiting.pop(0)
        if prompt.endswith("[y/n] "):
            return "y"
        if sum("[y/n/u/b/q]" in each for each in printed) >= most:
            raise EOFError
        printed.append(prompt)
        label = prompt.split(": ")[1].split("?")[0]
        text = next(each for each in reversed(printed) if each.startswith("\npicture"))
        wrong = next(item[2] for item in items if item[0] == text.strip())
        return "n" if label in wrong else "y"

    monkeypatch.setattr(builtins, "input", reply)
    return printed


@pytest.mark.slow
def test_from_a_table_to_a_certificate_in_the_terminal(table, tmp_path, capsys, monkeypatch):
    path, items = table
    argv = ["review", path, "--labels", "tags", "--text", "description", "--terminal"]
    printed = type_answers(monkeypatch, items, ["b", "x", "u", "b"])
    assert main(argv) == 0
    assert "There is nothing to undo." in printed
    assert [line for line in printed if line.startswith("question ")][-1] == "question 50 of 50"
    assert any("of the tags are wrong (90% interval: " in line for line in printed)
    assert "Not yet certified" in printed[-1]
    assert "schirn review" in capsys.readouterr().err
    # The same command goes on; one without options as well.
    type_answers(monkeypatch, items, most=150)
    assert main(["review", path, "--terminal", "--order", "certify"]) == 0
    out = tmp_path / "cleaned.csv"
    assert main(["review", path, "--export", str(out)]) == 0
    assert "wrote the certificate to" in capsys.readouterr().err
    certificate = tmp_path / "cleaned.csv.certificate.json"
    assert Certificate.from_json(certificate.read_text()).certified
    check = ["certificate", "check", str(certificate), str(out)]
    assert main([*check, "--original", path]) == 0
    assert main(check) == 0
    removed = json.loads(certificate.read_text())["changes"][0]
    frame = pd.read_csv(out)
    frame.loc[removed[0], "tags"] += f";{removed[1]}"
    frame.to_csv(out, index=False)
    capsys.readouterr()
    assert main(check) == 3
    assert f"'{removed[1]}' of row {removed[0] + 1} is not changed" in capsys.readouterr().out
    document = json.loads((tmp_path / "items-review" / "project.json").read_text())
    assert document["command"] == ["--labels", "tags", "--text", "description"]


@pytest.mark.slow
def test_the_terminal_says_when_nothing_else_can_be_removed(table, tmp_path, capsys, monkeypatch):
    path, items = table
    argv = ["review", path, "--labels", "tags", "--text", "description", "--terminal"]
    printed = type_answers(monkeypatch, items, ["n", "q"])
    assert main(argv) == 0
    assert printed[-1].startswith("Only tags that you called wrong are removed")
    out = str(tmp_path / "cleaned.csv")
    assert main(["review", path, "--export", out]) == 0
    assert "1 tags decided by hand, 1 removed, 0 added" in capsys.readouterr().err
    # All fifty answers, and no to the offer: the export mentions it.
    type_answers(monkeypatch, items)
    monkeypatch.setattr("schirn.app.cli._terminal._offer_changes", lambda session: None)
    assert main(argv) == 0
    assert main(["review", path, "--export", out]) == 0
    assert "the answers allow removing" in capsys.readouterr().err


def test_swaps_in_the_terminal(swapped, capsys, monkeypatch):
    import builtins

    from schirn.app.cli._terminal import ask

    keys, prompts = iter("sxysq"), []
    monkeypatch.setattr(builtins, "input", lambda prompt: prompts.append(prompt) or next(keys))
    assert ask(swapped, "swaps") == 5
    assert "s: swap it for jacket" in capsys.readouterr().out
    assert prompts[0] == "Is the tag right: coat? [s/y/n/u/b/q] "
    final = open_session(swapped.project.folder, write=False)
    assert sum(len(record["added"]) for record in final_tags(final)) == 2


def test_the_terminal_shows_what_the_page_shows(swapped, capsys, monkeypatch):
    from schirn.app.cli._terminal import ask

    monkeypatch.setattr("builtins.input", lambda prompt: "q")
    current = swapped.view(order="suspicious")["current"]
    assert ask(swapped, "suspicious") == 0
    lines = capsys.readouterr().out.splitlines()
    row = current["item"].split()[-1]
    assert lines[2:6] == [f"Text {row}", f"item: item {row}", f"id: item {row}", "other tags: dog"]
    source = "according to the model, which has not been checked"
    assert lines[6] == f"{source}, {current['confidence']:.0%} likely to be correct"
    # Like the page, the first questions hide the opinion of the model.
    assert ask(swapped, "first") == 0
    assert "likely to be correct" not in capsys.readouterr().out


def test_the_terminal_takes_a_question_mark_and_names_its_keys(swapped, capsys, monkeypatch):
    from schirn.app.cli._terminal import ask

    typed = iter(["maybe", "not sure", "", "?", "Yes", "wrong", "quit"])
    monkeypatch.setattr("builtins.input", lambda prompt: next(typed))
    assert ask(swapped, "suspicious") == 2
    allowed = "is not one of the answers: y (yes), n (no), u (unsure), b (back), q (quit)"
    lines = [line for line in capsys.readouterr().out.splitlines() if allowed in line]
    assert lines == [f"{text} {allowed}" for text in ("'maybe'", "'not sure'", "''")]
    status = {
        name: swapped.status[step.tags[0]]
        for name, step in zip("uyn", swapped.history, strict=True)
    }
    assert status == {"u": SKIP, "y": KEEP, "n": DROP}


def test_mistakes_about_the_table(table, tmp_path, capsys, monkeypatch):
    path, _ = table

    def refused(*argv):
        assert main(["review", *argv]) == 2
        return capsys.readouterr().err

    assert "no such table" in refused(str(tmp_path / "none.csv"))
    empty = tmp_path / "empty.csv"
    empty.write_text("description,tags\n")
    assert "has no rows" in refused(str(empty), "--text", "description")
    assert "has not been reviewed yet" in refused(path, "--export", str(tmp_path / "x.csv"))
    assert make_project(path, tmp_path / "p", "--text", "description") == 0
    message = refused(str(tmp_path / "p"), "--text", "description", "--labels=tags")
    assert "is a project with its own options; leave out --labels and --text" in message
    assert "leave out --project" in refused(str(tmp_path / "p"), "--project", str(tmp_path))
    # Those of a configuration are for tables.
    monkeypatch.chdir(tmp_path)
    (tmp_path / "schirn.toml").write_text('labels = "tags"\ntext = ["description"]\nid = "id"\n')
    assert main(["review", "p", "--export", str(tmp_path / "x.csv")]) == 0
    (tmp_path / "schirn.toml").unlink()
    # Where the images are may change.
    moved = ["review", str(tmp_path / "p"), "--image-root", str(tmp_path)]
    assert main([*moved, "--changes", str(tmp_path / "d.csv")]) == 0
    capsys.readouterr()
    argv = (path, "--project", str(tmp_path / "p"), "--terminal")
    assert "to other options" in refused(*argv, "--text", "code")
    with open(path, "a") as stream:
        stream.write("x,new row,dog,1\n")
    assert "belongs to another version" in refused(*argv)
