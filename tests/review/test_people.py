"""Answers of several people in one journal."""

import threading

import numpy as np
import pytest
from review.review_helpers import write_project

from schirn.exceptions import DataError, InputError
from schirn.review import open_session
from schirn.review._state import DROP, KEEP
from schirn.review.session import Conflict


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


def do(session, action, person="", **record):
    return session.act({"action": action, **record}, session.sequence, person)


def undo(session, person=""):
    return session.undo(session.sequence, person)


def tags(session):
    return {record["id"]: record["tags"] for record in session.final_tags()}


def same_after_replay(session):
    """The journal alone gives the same state."""
    again = open_session(session.project.folder, write=False)
    assert again.view() == session.view()
    assert again.view("Ada") == session.view("Ada")
    assert list(again.final_tags()) == list(session.final_tags())
    assert again.votes == session.votes


def test_each_person_has_their_own_votes_and_undo(session):
    session.decide("keep", "a", "dog", 0, "Ada")
    session.decide("drop", "c", "dog", 1, "Bob")
    # Undo takes back what Ada did, although Bob came later.
    assert session.view("Ada")["last"]["item"] == "a"
    undo(session, "Ada")
    assert session.view("Ada")["current"]["item"] == "a"
    assert session.view("Bob")["last"]["item"] == "c"
    assert session.status[session.find("c", "dog")] == DROP
    same_after_replay(session)
    with pytest.raises(Conflict, match="nothing to undo"):
        undo(session, "Cy")


def test_the_majority_decides_and_a_tie_is_asked_of_a_third_person(session):
    session.decide("keep", "a", "beach", 0, "Ada")
    session.decide("drop", "a", "beach", 1, "Bob")
    # A tie leaves the tag as it was, and only who has not voted is asked.
    assert "beach" in tags(session)["a"]
    questions = {}
    for who in ("Ada", "Cy"):
        asked = []
        while (current := session.view(who)["current"]) is not None:
            asked.append((current["item"], current["label"]))
            session.decide("keep", *asked[-1], session.sequence, who)
        questions[who] = asked
    assert ("a", "beach") not in questions["Ada"]
    assert questions["Cy"] == [("a", "beach")]
    assert session.status[session.find("a", "beach")] == KEEP
    same_after_replay(session)


def test_removals_are_undone_in_turn(session):
    do(session, "remove", "Ada", tags=[1])
    do(session, "remove", "Bob", tags=[3])
    with pytest.raises(InputError, match="Bob has done another remove since"):
        undo(session, "Ada")
    undo(session, "Bob")
    undo(session, "Ada")
    assert session.chosen["listed"] is None


@pytest.mark.parametrize("name", ["x" * 61, "a\nb", None, 3, "\u0000"])
def test_names_that_are_none(session, name):
    with pytest.raises(InputError, match="a name has at most 60"):
        session.decide("keep", "a", "dog", 0, name)
    assert session.sequence == 0


@pytest.mark.parametrize(
    "record",
    [
        {"action": "rename", "label": "dog", "to": "x"},
        {"action": "keep", "item": "z", "label": "dog"},
        {"action": "swap", "item": "d", "label": "dog", "to": "cats"},
        {"action": "remove", "tags": []},
        {"action": "remove", "tags": [1, 1]},
        {"action": "remove", "tags": [99]},
        {"action": "remove", "tags": [True]},
        {"action": "complete", "tags": [0]},
        {"action": "undo", "of": 1},
        {"action": "keep", "item": "a", "label": "dog", "person": 7},
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
    """Whatever several people do, the journal gives the same state, and undo leads back."""
    rng = np.random.default_rng(0)
    start = list(session.final_tags())
    people = ["Ada", "Bob", ""]
    for _ in range(240):
        who = people[rng.integers(3)]
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
                undo(session, who)
            else:
                session.act(records[rng.integers(len(records))], session.sequence, who)
        except (InputError, Conflict):
            continue
    same_after_replay(session)
    assert session.sequence > 60
    while session.history:
        # The latest first, whoever did it, since removals must be undone in turn.
        undo(session, session.history[-1].person)
    assert list(session.final_tags()) == start
    same_after_replay(session)


def test_status_is_what_the_votes_say(session):
    tag = session.find("a", "dog")
    for who, action, expected in (
        ("Ada", "keep", KEEP), ("Bob", "drop", 0), ("Cy", "drop", DROP), ("Ada", "drop", DROP),
        ("Bob", "skip", DROP),
    ):  # fmt: skip
        session.decide(action, "a", "dog", session.sequence, who)
        assert session.status[tag] == expected, (who, action)


def test_people_at_the_same_time(session):
    people = [f"person {k}" for k in range(16)]

    def vote(who):
        session.decide("keep", "a", "dog", 0, who)
        session.decide("drop", "c", "dog", 0, who)

    threads = [threading.Thread(target=vote, args=(who,)) for who in people]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert session.sequence == 32
    assert sorted(session.votes[session.find("a", "dog")]) == sorted(people)
    same_after_replay(session)
