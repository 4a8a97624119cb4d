"""Lines about tags: answers, contradictions, and what accepted lines do."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schirn.cleaning import Vocabulary, VocabularyLine
from schirn.exceptions import InputError


def yes(action, tag, target=""):
    return VocabularyLine(action, tag, target, accept="yes")


def rows_after(lines, rows, **options):
    return Vocabulary(lines).apply(rows, **options).rows


def test_only_accepted_lines_apply():
    lines = [VocabularyLine("merge", "a", "b"), VocabularyLine("drop", "c", accept="no")]
    assert rows_after(lines, [["a", "c"]]) == [["a", "c"]]


def test_merges_drops_and_implications():
    lines = [yes("merge", "Dog", "dog"), yes("drop", "misc"), yes("imply", "poodle", "dog")]
    rows = [["Dog", "misc"], ["Dog", "dog"], ["poodle"], ["cat"], []]
    applied = Vocabulary(lines).apply(rows)
    assert applied.rows == [["dog"], ["dog"], ["poodle", "dog"], ["cat"], []]
    assert applied.changes == [
        (0, "rename", "Dog", "dog", 0),
        (0, "removal", "misc", "", 1),
        (1, "merge", "Dog", "dog", 0),
        (2, "addition", "", "dog", 2),
    ]
    assert applied.counts == [2, 1, 1]


def test_all_names_of_a_dropped_tag_are_dropped_and_nothing_implies_it():
    lines = [yes("merge", "Node", "node"), yes("imply", "express", "Node")]
    lines += [yes("imply", "node", "js"), yes("merge", "JS", "js"), yes("drop", "node")]
    vocabulary = Vocabulary(lines)
    assert (vocabulary.merges, vocabulary.drops) == ({"JS": "js"}, {"node", "Node"})
    applied = vocabulary.apply([["Node", "JS"], ["node"], ["express"]])
    assert applied.rows == [["js"], [], ["express"]]
    assert applied.changes == [
        (0, "removal", "Node", "", 4),
        (0, "rename", "JS", "js", 3),
        (1, "removal", "node", "", 4),
    ]


def test_two_names_of_one_target_in_one_row():
    applied = Vocabulary([yes("merge", "a", "c"), yes("merge", "b", "c")]).apply([["a", "b"]])
    assert applied.rows == [["c"]]
    assert [change.change for change in applied.changes] == ["rename", "merge"]


def test_implied_tags_can_be_suggestions():
    applied = Vocabulary([yes("imply", "poodle", "dog")]).apply([["poodle"]], add_implied=False)
    assert applied.rows == [["poodle"]]
    assert applied.changes == []
    assert applied.suggestions == [(0, "addition", "", "dog", 0)]


def test_implications_are_read_with_names_after_merging():
    lines = [yes("imply", "Poodle", "hound"), yes("merge", "Poodle", "poodle")]
    lines += [yes("merge", "hound", "dog"), yes("imply", "dog", "animal")]
    assert rows_after(lines, [["poodle"]]) == [["poodle", "dog", "animal"]]
    applied = Vocabulary(lines).apply([["poodle"]])
    assert [change.line for change in applied.changes] == [0, 3]


def test_an_implication_between_names_of_one_tag_is_void():
    lines = [yes("imply", "Dog", "dog"), yes("merge", "Dog", "dog")]
    assert rows_after(lines, [["Dog"]]) == [["dog"]]


def test_rows_with_exclusive_tags_are_listed():
    applied = Vocabulary([yes("exclude", "day", "night")]).apply([["day"], ["night", "day"]])
    assert applied.conflicts == [(1, 0)]
    assert applied.changes == []


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (
            [("merge", "a", "b"), ("merge", "b", "c")],
            "lines 1 and 2: 'a' is merged into 'b', wh",
        ),
        (
            [("merge", "a", "b"), ("merge", "b", "a")],
            "lines 1 and 2: 'a' is merged into 'b', wh",
        ),
        (
            [("merge", "a", "b"), ("merge", "a", "c")],
            "lines 1 and 2: 'a' is merged into 'b' as",
        ),
        ([("merge", "a", "a")], "line 1: merge of 'a' with itself"),
        ([("merge", "a", "b"), ("drop", "a")], "lines 1 and 2: 'a' is merged and dropped"),
        ([("keep", "a"), ("drop", "a")], "lines 1 and 2: 'a' is kept and dropped"),
        (
            [("imply", "a", "b"), ("imply", "b", "a")],
            "lines 1 and 2: 'a' implies 'b', which",
        ),
        (
            [("imply", "a", "b"), ("imply", "b", "c"), ("imply", "c", "a")],
            "lines 1 and 3: 'a' implies 'b', which implies 'a' again",
        ),
        (
            [("imply", "a", "b"), ("imply", "b", "c"), ("exclude", "c", "a")],
            "line 3: 'a' excludes 'c', which it implies",
        ),
        (
            [("imply", "a", "b"), ("imply", "c", "a"), ("merge", "c", "b")],
            "lines 1 and 2: 'a' implies 'b', which implies 'a'",
        ),
    ],
)
def test_contradictions_name_their_lines(lines, message):
    with pytest.raises(InputError, match=message):
        Vocabulary([yes(*line) for line in lines])
    # As proposals, or rejected, they may stand together.
    Vocabulary([VocabularyLine(*line, accept="no") for line in lines])


def test_lines_of_a_file_are_named_by_their_number():
    records = [
        {"action": "merge", "tag": "a", "target": "b", "accept": "yes"},
        {"action": "merge", "tag": "b", "target": "c", "accept": "yes"},
    ]
    with pytest.raises(InputError, match="lines 2 and 3: 'a' is merged into 'b'"):
        Vocabulary.from_records(records, first=2)


def test_records_come_back():
    lines = [
        VocabularyLine("merge", "Dog", "dog", 1200, 34, 5, "case; 0% together", "yes", 0.87),
        VocabularyLine("drop", "misc", rows=3, evidence="used once", accept="no"),
        VocabularyLine("keep", "typescript"),
    ]
    records = Vocabulary(lines).to_records()
    assert records[0]["evidence"] == "confidence 0.87; case; 0% together"
    assert list(Vocabulary.from_records(records)) == lines


def test_old_merges_are_accepted_lines():
    vocabulary = Vocabulary.from_records([{"from": "Dog", "to": "dog", "why": "case"}])
    assert vocabulary.merges == {"Dog": "dog"}


@pytest.mark.parametrize(
    ("record", "message"),
    [
        ({"action": "melt", "tag": "a"}, "the action must be one of merge, imply"),
        ({"action": "merge", "tag": "a"}, "merge needs a tag and a target"),
        ({"action": "drop", "tag": ""}, "drop needs a tag"),
        ({"action": "drop", "tag": "a", "accept": "maybe"}, "accept must be yes, no or empty"),
    ],
)
def test_bad_records(record, message):
    with pytest.raises(InputError, match=message):
        Vocabulary.from_records([record])


@pytest.mark.parametrize(("text", "accept"), [("Y", "yes"), ("1", "yes"), ("No", "no"), ("", "")])
def test_answers(text, accept):
    record = {"action": "drop", "tag": "a", "accept": text}
    assert VocabularyLine.from_record(record).accept == accept


def test_answered_and_open_lines():
    vocabulary = Vocabulary([VocabularyLine("drop", name) for name in "abc"])
    vocabulary = vocabulary.answer({0: True, 1: False})
    assert [line.tag for line in vocabulary.answered] == ["a", "b"]
    assert [line.tag for line in vocabulary.open] == ["c"]
    assert vocabulary.drops == {"a"}
    assert vocabulary.answer({0: None}).drops == frozenset()


@pytest.mark.parametrize(
    "line",
    [
        ("merge", "b", "a"),
        ("drop", "kept"),
        ("merge", "kept", "x"),
        ("drop", "target"),
        ("merge", "target", "x"),
        ("imply", "gone", "x"),
        ("imply", "x", "gone"),
    ],
)
def test_what_answers_decide(line):
    lines = [VocabularyLine("merge", "a", "b", accept="no"), VocabularyLine("keep", "kept")]
    vocabulary = Vocabulary([*lines, yes("merge", "gone", "target")])
    assert vocabulary.decides(VocabularyLine(*line))
    assert not vocabulary.decides(VocabularyLine("imply", "a", "b"))
    assert not vocabulary.decides(VocabularyLine("merge", "x", "kept"))


NAMES = st.sampled_from("abcdefg")
LINES = st.lists(
    st.builds(
        VocabularyLine,
        st.sampled_from(["merge", "imply", "exclude", "drop"]),
        NAMES,
        NAMES,
        accept=st.just("yes"),
    ),
    max_size=6,
)


@given(LINES, st.lists(st.lists(NAMES, unique=True), max_size=6))
def test_applying_twice_changes_nothing_more(lines, rows):
    try:
        vocabulary = Vocabulary(lines)
    except InputError:
        return
    applied = vocabulary.apply(rows)
    again = vocabulary.apply(applied.rows)
    assert again.rows == applied.rows
    assert again.changes == []


@given(LINES, st.lists(st.lists(NAMES, unique=True), max_size=6))
def test_changes_tell_everything(lines, rows):
    try:
        vocabulary = Vocabulary(lines)
    except InputError:
        return
    applied = vocabulary.apply(rows)
    replayed = [list(row) for row in rows]
    for row, _, before, after, _ in applied.changes:
        names = replayed[row]
        if before:
            names.remove(before)
        if after and after not in names:
            names.append(after)
    assert list(map(sorted, replayed)) == list(map(sorted, applied.rows))
    changed = {(change.row, change.line) for change in applied.changes}
    assert sum(applied.counts) == len(changed)


def test_the_lines_of_a_circle_are_named():
    """Not a line that only leads into the circle."""
    lines = [
        VocabularyLine("imply", "a", "b", accept="yes"),
        VocabularyLine("imply", "c", "a", accept="yes"),
        VocabularyLine("imply", "b", "a", accept="yes"),
    ]
    with pytest.raises(InputError, match="lines 1 and 3"):
        Vocabulary(lines)
