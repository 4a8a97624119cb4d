"""The state of a review: what records do, and what undo does."""

import numpy as np
import pytest
from app.review.review_helpers import final_tags, write_project

from schirn.app.review import open_session
from schirn.app.review._session import Conflict, Session
from schirn.exceptions import DataError, InputError


@pytest.fixture
def session(tmp_path):
    items = [
        ("a", "A dog on the beach.", {"dog": 0.52, "cat": 0.1, "beach": 0.95}),
        ("b", "Two cats", {"cat": 0.49, "cats": 0.6}),
        ("c", "Nobody is here.", {"dog": 0.4, "beach": 0.2}),
        ("d", "Cats again", {"cats": 0.3}, {"dog": 0.9}),
    ]
    labels = ["dog", "cat", "beach", "cats"]
    session = open_session(write_project(tmp_path / "project", items, labels))
    yield session
    session.journal.close()


def same_after_replay(session):
    """The journal alone gives the same state."""
    again = open_session(session.project.folder, write=False)
    assert again.view() == session.view()
    assert list(final_tags(again)) == list(final_tags(session))
    assert again.person == session.person


def test_the_latest_answer_counts(session):
    tag, folder = session.find("a", "dog"), session.project.folder
    session.decide("keep", "a", "dog", 0)
    session.journal.close()
    with open_session(folder, name="Ada").journal as journal:
        ada = Session(session.project, journal, name="Ada")
        ada.decide("drop", "a", "dog", 1)
        assert (ada.final()[tag], ada.n_decided, ada.person[tag]) == (False, 1, "Ada")
        same_after_replay(ada)
        ada.undo(2)
        assert (ada.final()[tag], ada.n_decided, ada.person[tag]) == (True, 1, "")
        ada.undo(3)
        assert (ada.final()[tag], ada.n_decided) == (True, 0)
        with pytest.raises(Conflict, match="nothing to undo"):
            ada.undo(4)
        same_after_replay(ada)


def test_tags_removed_at_once_are_asked_about_for_a_certificate_only(session):
    asked = set()
    for item, label in (("a", "beach"), ("b", "cat")):
        session.decide("skip", item, label, session.sequence)
        asked.add(session.find(item, label))
    session.act({"action": "remove", "tags": [1, 5, 6]}, session.sequence)
    for _ in range(8):
        tag = session.current(order="suspicious")
        assert tag not in (1, 5, 6)
        action = "skip" if tag in asked else "keep"
        asked.add(tag)
        item = session.project.ids[session.project.row[tag]]
        session.decide(action, item, session.name(tag), session.sequence)
    assert session.current(order="certify") in (1, 5, 6)
    # Undone, they are asked about again.
    while session.chosen["listed"] is not None:
        session.undo(session.sequence)
    session.decide("keep", "a", "dog", session.sequence)
    assert session.current(order="suspicious") in (1, 5, 6)


@pytest.mark.parametrize("name", ["x" * 61, "a\nb", "\u0000"])
def test_names_that_are_none(session, name):
    with pytest.raises(InputError, match="a name has at most 60"):
        open_session(session.project.folder, name=name, write=False)


@pytest.mark.parametrize(
    "record",
    [
        {"action": "rename", "label": "dog", "to": "x"},
        {"action": "keep", "item": "z", "label": "dog"},
        {"action": "swap", "item": "d", "label": "dog", "to": "cats"},
        {"action": "remove", "tags": []},
        {"action": "remove", "tags": [1, 1]},
        {"action": "remove", "tags": [99]},
        {"action": "complete", "tags": [0]},
        {"action": "undo", "of": 1},
        {"action": ["keep"], "item": "a", "label": "dog"},
        {"item": "a"},
    ],
)
def test_records_that_do_not_fit(session, record):
    session.journal.append(record)
    session.journal.close()
    with pytest.raises(DataError, match="record 1 does not fit"):
        open_session(session.project.folder)


def test_random_actions_replay_and_undo_to_the_start(session):
    """Whatever people do, the journal gives the same state, and undo leads back."""
    rng = np.random.default_rng(0)
    start = list(final_tags(session))
    for _ in range(240):
        item = "abcd"[rng.integers(4)]
        label = session.project.labels[rng.integers(4)]
        records = [
            {"action": "keep", "item": item, "label": label},
            {"action": "drop", "item": item, "label": label},
            {"action": "skip", "item": item, "label": label},
            {"action": "swap", "item": "d", "label": "cats", "to": "dog"},
            {"action": "remove", "tags": rng.permutation(7)[: rng.integers(1, 7)].tolist()},
            {"action": "complete", "tags": [8]},
        ]
        try:
            if rng.random() < 0.25:
                session.undo(session.sequence)
            else:
                session.act(records[rng.integers(len(records))], session.sequence)
        except (InputError, Conflict):
            continue
    same_after_replay(session)
    assert session.sequence > 60
    while session.history:
        session.undo(session.sequence)
    assert list(final_tags(session)) == start
    same_after_replay(session)
