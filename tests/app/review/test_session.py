import json
import threading

import pytest
from app.review.review_helpers import final_tags

from schirn.app.review import open_session
from schirn.app.review._session import Conflict
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
