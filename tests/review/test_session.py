import json
import threading

import numpy as np
import pytest
from review.review_helpers import write_project

from schirn.exceptions import DataError, InputError
from schirn.review import open_session
from schirn.review._state import review_order
from schirn.review.session import Conflict


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
        session.decide(action, *found[-1], view["seq"])
    return found


def test_nearest_to_the_threshold_first(session):
    order = decide(session, *["keep"] * 6)
    assert order == [
        ("b", "cat"), ("a", "dog"), ("c", "dog"), ("c", "beach"), ("a", "cat"), ("a", "beach"),
    ]  # fmt: skip
    assert asked(session) is None
    assert session.view()["progress"]["decided"] == 6


def test_order_has_variety_over_labels():
    confidence = np.concatenate([np.linspace(0.5, 0.519, 20), [0.53, 0.54]])
    column = np.array([0] * 20 + [1, 2])
    order = review_order(confidence, column, 0.5)
    assert order[0] == 0
    assert {20, 21} <= set(order[:8].tolist())
    assert sorted(order) == list(range(22))


def test_order_never_puts_a_sure_tag_before_many_doubtful_ones():
    confidence = np.array([0.5, 0.51, 0.52, 0.99])
    assert review_order(confidence, np.array([0, 0, 0, 1]), 0.5)[-1] == 3


def test_skipped_come_last_and_in_turn(session):
    decide(session, "skip", "skip", *["drop"] * 4)
    assert decide(session, "skip", "skip", "skip") == [("b", "cat"), ("a", "dog"), ("b", "cat")]
    assert session.view()["progress"]["skipped"] == 2


def test_undo_goes_back_step_by_step(session):
    first = decide(session, "keep", "skip", "drop")
    for pair in reversed(first):
        assert decide(session, "undo") == [pair]
        assert asked(session) == pair
    assert session.view()["last"] is None
    assert not session.status.any()
    with pytest.raises(Conflict, match="nothing to undo"):
        session.decide("undo", "a", "dog", session.sequence)


def test_what_was_undone_is_asked_again_at_once(session):
    decide(session, "skip", "skip", *["drop"] * 4)
    [pair] = decide(session, "skip")
    decide(session, "undo")
    assert asked(session) == pair
    # Also where a new model would ask something else first.
    session.use_confidence(np.full(6, 0.5), session.sequence)
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
        session.decide("undo", "a", "dog", 1)
    with pytest.raises(Conflict, match="nothing was undone"):
        session.decide("undo", "b", "cat", 2)
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
    assert list(session.final_tags()) == [
        {"id": "a", "tags": ["beach"], "removed": ["dog", "cat"], "added": [], "checked": ["dog"]},
        {"id": "b", "tags": ["cat"], "removed": [], "added": [], "checked": ["cat"]},
        {"id": "c", "tags": [], "removed": ["dog", "beach"], "added": [], "checked": []},
    ]


def test_new_confidences_change_open_tags_only(session, folder):
    decide(session, "drop")
    new = np.array([0.1, 0.9, 0.9, 0.9, 0.51, 0.9])
    session.use_confidence(new, 1)
    session.store_confidence()
    assert asked(session) == ("c", "dog")
    tags = {record["id"]: record["tags"] for record in session.final_tags()}
    assert tags == {"a": ["cat", "beach"], "b": [], "c": ["dog", "beach"]}
    again = open_session(folder, write=False)
    assert list(again.final_tags()) == list(session.final_tags())
    assert again.trained_to == 1


def test_what_cleaning_left_alone_stays(tmp_path):
    items = [("a", "", {"x": 0.5, "y": 0.8, "z": 0.3})]
    folder = write_project(tmp_path / "p", items, ["x", "y", "z"])
    path = folder / "items.jsonl"
    path.write_text(path.read_text().replace("false", "true"))
    session = open_session(folder, write=False)
    session.use_confidence(np.array([0.2, 0.2, 0.2]), 0)
    assert next(session.final_tags())["tags"] == ["x", "z"]


@pytest.mark.parametrize("content", [b"", b"PK no archive", None])
def test_a_damaged_store_of_confidences_is_ignored(session, folder, content):
    if content is None:
        np.savez(folder / "confidence.npz", confidence=np.zeros(6), seq=0, project="another")
    else:
        (folder / "confidence.npz").write_bytes(content)
    again = open_session(folder, write=False)
    assert again.confidence.tolist() == session.project.confidence.tolist()


def test_a_record_that_does_not_fit(session, folder):
    decide(session, "keep")
    path = folder / "journal.jsonl"
    session.journal.close()
    line = json.dumps({"seq": 2, "item": "a", "label": "dog", "action": "undo"})
    path.write_text(path.read_text() + line + "\n")
    with pytest.raises(DataError, match="record 2 does not fit"):
        open_session(folder)
