"""Batches, new and renamed tags, notes and several people, in one journal."""

import json
import threading

import numpy as np
import pytest
from review.review_helpers import write_project

from schirn.exceptions import DataError, InputError
from schirn.review import _browse as browse
from schirn.review import open_session
from schirn.review._state import DROP, KEEP, MAX_BATCH
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
    assert again.notes == session.notes
    assert browse.people(again) == browse.people(session)
    assert browse.tag_counts(again) == browse.tag_counts(session)


def test_a_batch_is_one_record_with_one_undo(session):
    before = tags(session)
    do(session, "batch", decision="drop", label="dog", items=["a", "c"])
    assert session.sequence == 1
    assert tags(session)["a"] == ["beach"]
    last = session.view()["last"]
    assert (last["action"], last["decision"], last["count"]) == ("batch", "drop", 2)
    same_after_replay(session)
    undo(session)
    assert tags(session) == before
    assert session.view()["last"] is None
    same_after_replay(session)


@pytest.mark.parametrize(
    "record",
    [
        {"label": "dog", "items": []},
        {"label": "dog", "items": ["a"] * 2},
        {"label": "dog", "items": ["a", "b"]},
        {"label": "dog", "items": ["z"]},
        {"label": "cow", "items": ["a"]},
        {"label": "dog", "items": ["a"] * (MAX_BATCH + 1)},
        {"label": "dog", "items": "a"},
        {"label": "dog", "items": ["a"], "decision": "skip"},
    ],
)
def test_bad_batches_change_nothing(session, record):
    with pytest.raises(InputError):
        do(session, "batch", **{"decision": "keep", **record})
    assert session.sequence == 0
    assert not session.status.any()


def test_a_batch_after_another_tab(session):
    session.decide("keep", "a", "dog", 0)
    record = {"action": "batch", "decision": "drop", "label": "dog", "items": ["a", "c"]}
    with pytest.raises(Conflict, match="another tab"):
        session.act(record, 0)
    assert session.sequence == 1


def test_adding_a_tag(session):
    do(session, "add", item="c", label="sea", person="Ada")
    record = list(session.final_tags())[2]
    assert (record["tags"], record["added"], record["checked"]) == (["sea"], ["sea"], ["sea"])
    chip = session.view()["current"]
    assert session.describe(session.find("c", "sea"))["confidence"] is None
    assert chip["label"] == "cat"
    same_after_replay(session)
    # A second time, in another row, it is a known tag.
    do(session, "add", item="d", label="sea")
    assert session.names.count("sea") == 1
    undo(session, "Ada")
    assert tags(session)["c"] == []
    with pytest.raises(InputError, match="no tag 'sea'"):
        session.find("c", "sea")
    assert tags(session)["d"] == ["sea"]
    same_after_replay(session)
    do(session, "add", item="c", label="sea", person="Bob")
    assert tags(session)["c"] == ["sea"]
    assert len(session.row) == len(session.project.row) + 2
    same_after_replay(session)


def test_adding_what_is_listed_or_suggested_keeps_it(session):
    do(session, "add", item="c", label="beach")
    do(session, "add", item="d", label="dog")
    assert len(session.row) == len(session.project.row)
    assert tags(session)["c"] == ["beach"]
    assert tags(session)["d"] == ["dog"]
    # What was added by mistake can also be dropped.
    do(session, "add", item="b", label="sea")
    session.decide("drop", "b", "sea", session.sequence)
    assert "sea" not in tags(session)["b"]
    same_after_replay(session)


@pytest.mark.parametrize(
    "name", ["", " x", "x ", "a\nb", "x" * 201, "half \ud83d", "\u202e", "tab\t", None, 3]
)
def test_what_cannot_be_a_tag(session, name):
    with pytest.raises(InputError):
        do(session, "add", item="a", label=name)
    with pytest.raises(InputError):
        do(session, "rename", label="dog", to=name)
    assert session.sequence == 0


def test_renaming_everywhere(session):
    do(session, "rename", label="dog", to="hound")
    assert tags(session)["a"] == ["hound", "beach"]
    assert session.view()["current"]["label"] == "cat"
    session.decide("drop", "a", "hound", session.sequence)
    with pytest.raises(InputError, match="no tag 'dog'"):
        session.decide("drop", "c", "dog", session.sequence)
    # The old name is free for a new tag.
    do(session, "add", item="b", label="dog")
    assert tags(session)["b"] == ["cats", "dog"]
    same_after_replay(session)
    assert [c[:4] for c in session.changes() if c.row in (0, 1)] == [
        (0, "removal", "dog", ""),
        (0, "removal", "cat", ""),
        (1, "removal", "cat", ""),
        (1, "addition", "", "dog"),
    ]


def test_an_old_page_does_not_act_on_a_renamed_tag(session):
    do(session, "rename", label="dog", to="hound")
    with pytest.raises(Conflict, match="have changed in another tab"):
        session.decide("drop", "a", "dog", 0)


def test_merging_into_an_existing_tag(session):
    do(session, "rename", label="cats", to="cat")
    # Row b had both: one of them was kept by the model, so the merged tag is kept.
    assert tags(session) == {"a": ["dog", "beach"], "b": ["cat"], "c": [], "d": []}
    shown = session.describe(session.find("b", "cat"))["tags"]
    assert [chip["label"] for chip in shown] == ["cat"]
    counts = {each["label"]: each for each in browse.tag_counts(session)}
    assert "cats" not in counts
    assert counts["cat"]["listed"] == 3
    kinds = {(c.row, c.change, c.before, c.after) for c in session.changes()}
    assert {(1, "merge", "cats", "cat"), (3, "removal", "cats", "")} <= kinds
    # The decision after the merge is about both.
    session.decide("drop", "b", "cat", session.sequence)
    assert tags(session)["b"] == []
    same_after_replay(session)
    undo(session)
    undo(session)
    assert tags(session)["b"] == ["cats"]
    same_after_replay(session)


def test_a_merge_keeps_what_a_person_kept(session):
    session.decide("keep", "b", "cats", 0)
    session.decide("drop", "b", "cat", 1)
    do(session, "rename", label="cats", to="cat")
    assert tags(session)["b"] == ["cat"]
    assert session.view()["progress"]["decided"] == 2
    same_after_replay(session)


def test_names_can_be_exchanged(session):
    for label, to in (("dog", "x"), ("beach", "dog"), ("x", "beach")):
        do(session, "rename", label=label, to=to)
    session.decide("keep", "c", "dog", session.sequence)
    assert tags(session)["c"] == ["dog"]
    assert [c[:4] for c in session.changes() if c.row == 2] == [
        (2, "removal", "dog", ""), (2, "rename", "beach", "dog"),
    ]  # fmt: skip
    assert session.changes().apply([["dog", "cat", "beach"], ["cat", "cats"],
                                    ["dog", "beach"], ["cats"]])[2] == ["dog"]  # fmt: skip


def test_renames_are_undone_in_turn(session):
    do(session, "rename", label="dog", to="hound", person="Ada")
    do(session, "rename", label="cat", to="kitten", person="Bob")
    with pytest.raises(InputError, match="Bob has done another rename since"):
        undo(session, "Ada")
    undo(session, "Bob")
    undo(session, "Ada")
    assert session.names == session.project.labels


def test_notes(session):
    do(session, "note", item="a", label="dog", text="<b>or a wolf?</b>", person="Ada")
    do(session, "note", item="a", label="", text="blurred")
    current = session.describe(session.find("a", "cat"))
    assert current["notes"] == [
        {"label": "dog", "person": "Ada", "text": "<b>or a wolf?</b>"},
        {"label": "", "person": "", "text": "blurred"},
    ]
    records = list(session.final_tags())
    assert records[0]["notes"] == ["dog: Ada: <b>or a wolf?</b>", "blurred"]
    assert records[1]["notes"] == []
    same_after_replay(session)
    do(session, "note", item="a", label="dog", text="", person="Ada")
    assert len(session.describe(session.find("a", "cat"))["notes"]) == 1
    undo(session, "Ada")
    assert len(session.describe(session.find("a", "cat"))["notes"]) == 2
    with pytest.raises(InputError, match="at most 5,000"):
        do(session, "note", item="a", label="", text="x" * 5001)
    with pytest.raises(InputError, match="no item 'z'"):
        do(session, "note", item="z", label="", text="x")


def test_a_threshold_of_an_earlier_version_has_no_effect(session):
    before = tags(session)
    do(session, "threshold", value=0.45)
    assert tags(session) == before
    same_after_replay(session)
    undo(session)
    same_after_replay(session)


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


def test_second_opinions_are_blind(session):
    assert session.view("Bob", second=True)["current"] is None
    session.decide("keep", "a", "dog", 0, "Ada")
    current = session.view("Bob", second=True)["current"]
    assert (current["item"], current["label"]) == ("a", "dog")
    assert current["votes"] == {}
    assert current["decision"] is current["kept"] is None
    assert all(chip["decision"] is None for chip in current["tags"])
    # In the ordinary queue nobody is asked again.
    assert session.view("Bob")["current"]["label"] == "cat"
    assert session.view("Ada", second=True)["current"] is None


def test_agreement_and_disagreements(session):
    for who, actions in (("Ada", "kkdd"), ("Bob", "kddd")):
        pairs = [("a", "dog"), ("a", "beach"), ("b", "cat"), ("c", "dog")]
        for (item, label), key in zip(pairs, actions, strict=True):
            action = {"k": "keep", "d": "drop"}[key]
            session.decide(action, item, label, session.sequence, who)
    found = browse.people(session)
    assert found["people"] == ["Ada", "Bob"]
    [cell] = found["disagreements"]
    assert (cell["item"], cell["label"]) == ("a", "beach")
    assert cell["votes"] == {"Ada": "keep", "Bob": "drop"}
    assert session.view()["disagreements"] == 1
    # A tie is the model's, which keeps it; a third person decides.
    assert "beach" in tags(session)["a"]
    session.decide("drop", "a", "beach", session.sequence, "Cy")
    assert "beach" not in tags(session)["a"]
    do(session, "settle", item="a", label="beach", decision="keep", person="Ada")
    assert "beach" in tags(session)["a"]
    assert browse.people(session)["total"] == 0
    same_after_replay(session)
    with pytest.raises(InputError, match="no disagreement"):
        do(session, "settle", item="a", label="beach", decision="keep")
    undo(session, "Ada")
    assert session.view()["disagreements"] == 1
    same_after_replay(session)


@pytest.mark.parametrize("name", ["x" * 61, "a\nb", None, 3, "\u0000"])
def test_names_that_are_none(session, name):
    with pytest.raises(InputError, match="a name has at most 60"):
        session.decide("keep", "a", "dog", 0, name)
    assert session.sequence == 0


def test_search(session):
    def found(words, scope="all"):
        return [row["item"] for row in browse.search(session, words, scope, 0)["rows"]]

    assert found("DOG") == ["a", "c", "d"]
    assert found("dog", "text") == ["a"]
    assert found("dog beach") == ["a", "c"]
    assert found("c", "id") == ["c"]
    assert found("cats", "tag") == ["b", "d"]
    assert found("  ") == found("nothing") == []
    do(session, "rename", label="cats", to="kitten")
    assert found("kit", "tag") == ["b", "d"]
    do(session, "add", item="c", label="kite")
    assert found("kit", "tag") == ["b", "c", "d"]
    undo(session)
    assert found("kit", "tag") == ["b", "d"]
    with pytest.raises(InputError, match="the scope must be one of"):
        browse.search(session, "x", "everywhere", 0)


def test_batches_list_the_most_suspicious_first(session):
    listed = browse.batch(session, "dog", "suspicious", 0)
    assert [cell["item"] for cell in listed["cells"]] == ["c"]
    assert (listed["total"], listed["cells"][0]["confidence"]) == (1, 0.4)
    session.decide("keep", "a", "dog", 0)
    assert [c["item"] for c in browse.batch(session, "dog", "decided", 0)["cells"]] == ["a"]
    assert [c["item"] for c in browse.batch(session, "dog", "suggested", 0)["cells"]] == ["d"]
    assert [c["item"] for c in browse.batch(session, "dog", "removed", 0)["cells"]] == ["c"]
    assert browse.batch(session, "dog", "all", 0)["total"] == 3
    assert browse.batch(session, "dog", "all", 2)["cells"][0]["item"] in "acd"
    for label, show in (("cow", "all"), ("dog", "odd")):
        with pytest.raises(InputError):
            browse.batch(session, label, show, 0)


def test_counts_of_tags(session):
    counts = {each["label"]: each for each in browse.tag_counts(session)}
    assert counts["dog"] == {
        "label": "dog", "listed": 2, "suspicious": 1, "removed": 1, "suggested": 1, "decided": 0
    }  # fmt: skip
    assert next(iter(counts)) == "cat"


@pytest.mark.parametrize(
    "record",
    [
        {"action": "rename", "label": "cow", "to": "x"},
        {"action": "batch", "label": "dog", "items": [1], "decision": "keep"},
        {"action": "add", "item": "z", "label": "x"},
        {"action": "note", "item": "a", "label": "dog", "text": 7},
        {"action": "remove", "tags": []},
        {"action": "remove", "tags": [1, 1]},
        {"action": "remove", "tags": [99]},
        {"action": "remove", "tags": [True]},
        {"action": "complete", "tags": [0]},
        {"action": "settle", "item": "a", "label": "dog", "decision": "keep"},
        {"action": "undo", "of": 1},
        {"action": "keep", "item": "a", "label": "dog", "person": 7},
        {"action": ["keep"], "item": "a", "label": "dog"},
        {"item": "a"},
    ],
)
def test_records_that_do_not_fit(session, record):
    session.journal.close()
    path = session.journal.path
    path.write_text(path.read_text() + json.dumps({"seq": 1, **record}) + "\n")
    with pytest.raises(DataError, match="record 1 does not fit"):
        open_session(session.project.folder)


def test_random_actions_replay_and_undo_to_the_start(session):
    """Whatever several people do, the journal gives the same state, and undo leads back."""
    rng = np.random.default_rng(0)
    start = list(session.final_tags())
    people = ["Ada", "Bob", ""]
    for step in range(120):
        who = people[rng.integers(3)]
        item = "abcd"[rng.integers(4)]
        names = [chip["label"] for chip in session.chips("abcd".index(item), session.final())]
        label = names[rng.integers(len(names))] if names else "dog"
        records = [
            {"action": "keep", "item": item, "label": label},
            {"action": "drop", "item": item, "label": label},
            {"action": "skip", "item": item, "label": label},
            {"action": "batch", "decision": "drop", "label": label, "items": [item]},
            {"action": "add", "item": item, "label": f"new {rng.integers(3)}"},
            {"action": "rename", "label": label, "to": f"name {rng.integers(4)}"},
            {"action": "note", "item": item, "label": "", "text": f"note {step}"},
            {"action": "remove", "tags": rng.permutation(7)[: rng.integers(1, 7)].tolist()},
            {"action": "complete", "tags": [8]},
            {"action": "settle", "item": item, "label": label, "decision": "keep"},
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
        # The latest first, whoever did it, since renames and removals must be undone in turn.
        undo(session, session.history[-1].person)
    assert list(session.final_tags()) == start
    assert session.names[:4] == session.project.labels
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
        session.act({"action": "note", "item": "a", "label": "dog", "text": who}, 0, who)

    threads = [threading.Thread(target=vote, args=(who,)) for who in people]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert session.sequence == 32
    assert sorted(session.votes[session.find("a", "dog")]) == sorted(people)
    assert browse.people(session)["people"] == sorted(people)
    same_after_replay(session)


def test_a_batch_that_a_crash_cut_short_was_never_made(session):
    do(session, "rename", label="dog", to="hound")
    do(session, "batch", decision="drop", label="hound", items=["a", "c"])
    session.journal.close()
    path = session.journal.path
    path.write_bytes(path.read_bytes()[:-30])
    with pytest.warns(UserWarning, match="incomplete last line"):
        again = open_session(session.project.folder)
    assert again.sequence == 1
    assert not again.status.any()
    assert again.names[0] == "hound"
    do(again, "batch", decision="keep", label="hound", items=["a", "c"])
    again.journal.close()
