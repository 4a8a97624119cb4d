"""Rows with nearly the same text, and the tags in which they differ."""

import itertools
import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schirn.cleaning import ChangeList, find_duplicates, find_noisy_labels
from schirn.cleaning.duplicates import near_copies
from schirn.exceptions import InputError

TEXTS = ["Red dress, size M", "red dress size m", "size M: red dress!", "blue coat", "", ""]


def test_groups_and_majority():
    tags = ["dress;red", "dress;red;sale", "dress", "coat", "a", "b"]
    duplicates = find_duplicates(TEXTS, tags)
    assert duplicates.n_rows == 2
    assert [group.rows for group in duplicates] == [[0, 1, 2]]
    found = [(tag.tag, tag.rows, tag.is_likely) for tag in duplicates[0].differing]
    assert found == [("red", [0, 1], True), ("sale", [1], False)]
    changes = [change[:4] for change in duplicates.changes()]
    assert changes == [(1, "removal", "sale", ""), (2, "addition", "", "red")]


def test_changes_are_applied_and_undone():
    tags = ["dress;red", "dress; red;sale", "dress", "coat", "a", "b"]
    duplicates = find_duplicates(TEXTS, tags)
    listed = ChangeList.from_cells(tags, duplicates.changes())
    fixed = listed.apply(tags)
    assert fixed == ["dress;red", "dress; red", "dress;red", "coat", "a", "b"]
    assert len(find_duplicates(TEXTS, fixed)) == 0
    assert listed.undo(fixed) == tags


def test_a_divided_group_is_left_alone_without_a_ranking():
    duplicates = find_duplicates(["one text", "One text"], ["a", "a;b"])
    assert duplicates[0].differing[0].is_likely is None
    assert duplicates.changes() == []


def test_a_ranking_decides_where_a_group_is_divided():
    rng = np.random.default_rng(0)
    words = {"pan": "steel fry lid handle", "lamp": "bulb shade light desk"}
    texts = []
    tags = []
    for i in range(200):
        kind = ("pan", "lamp")[i % 2]
        texts.append(" ".join([*rng.choice(words[kind].split(), 3), f"w{i}", f"v{i}"]))
        tags.append([kind])
    texts += ["steel lid handle fry", "steel fry lid, handle"]
    tags += [["pan", "lamp"], ["pan"]]
    ranking = find_noisy_labels(texts, tags)
    duplicates = find_duplicates(texts, tags, ranking=ranking)
    group = next(group for group in duplicates if group.rows == [200, 201])
    assert [(tag.tag, tag.is_likely) for tag in group.differing] == [("lamp", False)]
    assert (200, "removal", "lamp", "") in [change[:4] for change in duplicates.changes()]


def test_nearly_the_same_text():
    texts = [f"word{k} one two three four five six seven eight nine" for k in range(2)]
    assert len(find_duplicates(texts, ["a", "b"])) == 1
    assert len(find_duplicates(texts, ["a", "b"], similarity=0.9)) == 0


def test_texts_without_spaces_are_compared_by_letters():
    texts = ["赤いドレスのサイズは中です", "赤いドレスのサイズは中です。", "青いコートは大きい"]
    assert [group.rows for group in find_duplicates(texts, ["a", "b", "c"])] == [[0, 1]]


@given(
    st.lists(st.frozensets(st.sampled_from("abcdef")), max_size=12),
    st.sampled_from([0.5, 0.6, 0.8, 1.0]),
)
def test_every_pair_that_is_similar_enough_is_seen(words, similarity):
    leaders = near_copies(words, similarity)
    for row, leader in enumerate(leaders.tolist()):
        assert leader <= row
        assert leaders[leader] == leader
    # Two leaders are never similar: the later one would have joined the earlier.
    heads = [row for row in range(len(words)) if leaders[row] == row and words[row]]
    for one, other in itertools.combinations(heads, 2):
        share = len(words[one] & words[other]) / len(words[one] | words[other])
        assert share < similarity


def test_many_rows_take_seconds():
    rng = np.random.default_rng(0)
    texts = [" ".join(f"w{k}" for k in rng.integers(3000, size=12)) for _ in range(20_000)]
    texts += texts[:1000]
    start = time.process_time()
    duplicates = find_duplicates(texts, [["a"]] * 20_000 + [["b"]] * 1000)
    assert time.process_time() - start < 10
    assert len(duplicates) == 1000


def test_bad_input():
    with pytest.raises(InputError, match="X has 1 rows"):
        find_duplicates(["a"], ["a", "b"])
    with pytest.raises(InputError, match="not one text"):
        find_duplicates("a", ["a"])
    with pytest.raises(InputError, match="similarity"):
        find_duplicates(["a"], ["a"], similarity=0)
