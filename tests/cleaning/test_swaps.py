"""Swaps: listed tags that look wrong, paired with the missing tags to list instead."""

import itertools
from pathlib import Path

import numpy as np
import pytest

from schirn import find_noisy_labels
from schirn.cleaning import MissingTags, NoisyLabels
from schirn.exceptions import InputError

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def titles():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT))
        yield pytest.importorskip("benchmarks.titles", reason="benchmarks/ is not here")


@pytest.fixture(scope="module")
def swapped(titles):
    """Titles of which many list "coat" instead of "jacket", or the like, and their ranking."""
    table = titles.make_titles(1000, confusable=0.8, swapped=0.8, random_state=3)
    return table, find_noisy_labels(table.texts, table.listed, label_names=table.labels)


def random_ranking(seed, n_rows=100, n_labels=8, unjudged=False):
    rng = np.random.default_rng(seed)
    listed = rng.random((n_rows, n_labels)) < 0.5
    row, column = np.nonzero(listed)
    names = [f"tag {j}" for j in range(n_labels)]
    missing_row, missing_column = np.nonzero(~listed & (rng.random(listed.shape) < 0.8))
    p, q = 0.4 + 0.6 * rng.random(len(row)), 0.45 * rng.random(len(missing_row))
    # Two labels are confused: the first one is listed where the second one is missing.
    confused = np.flatnonzero(listed[:, 0] & ~listed[:, 1])[::2]
    p[np.isin(row, confused) & (column == 0)] *= 0.3
    q[np.isin(missing_row, confused) & (missing_column == 1)] += 0.5
    missing = MissingTags(missing_row, missing_column, q, names)
    judged = rng.random(len(row)) < 0.8 if unjudged else np.ones(len(row), dtype=bool)
    return NoisyLabels.from_arrays(n_rows, names, row, column, p, judged, "test", missing=missing)


def one_per_tag(pairs):
    """The pairs in the order of their last values, at most one for every tag."""
    pairs = sorted(pairs, key=lambda pair: -pair[-1])
    for tag in (0, 1):
        first = {}
        for pair in pairs:
            first.setdefault(pair[tag], pair)
        pairs = list(first.values())
    return pairs


def plain_swaps(ranking):
    """The definition of swaps, one pair of tags after the other."""
    missing, pairs = ranking.missing, []
    average = ranking.confidence[ranking.judged].mean()
    for i, j in itertools.product(range(len(ranking.row)), range(len(missing.row))):
        p, q = ranking.confidence[i], missing.confidence[j]
        if ranking.judged[i] and ranking.row[i] == missing.row[j] and p <= average and q > 0.5:
            pairs.append((i, j, ranking.label[i], missing.label[j], (1 - p) * q))
    counted = one_per_tag(pairs)
    scores = []
    for i, j, wrong, right, weight in pairs:
        n = sum(pair[2:4] == (wrong, right) for pair in counted)
        a = sum(pair[2] == wrong and pair[3] != right for pair in counted)
        b = sum(pair[2] != wrong and pair[3] == right for pair in counted)
        others = sum(not {wrong, right} & set(pair[2:4]) for pair in counted)
        chance = a * b / (others + 1)
        excess = max(n - 1 - chance - 3 * chance**0.5, 0)
        score = weight * excess / ((n + a + 1) * (n + b + 1)) ** 0.5
        scores.append((i, j, wrong, right, score))
    best = [pair for pair in one_per_tag(scores) if pair[4] > 0]
    return [(int(ranking.row[i]), wrong, right, score) for i, _, wrong, right, score in best]


@pytest.mark.parametrize("seed", range(4))
def test_swaps_are_those_of_the_definition(seed):
    ranking = random_ranking(seed, unjudged=seed > 1)
    expected = plain_swaps(ranking)
    swaps = ranking.swaps()
    records = [tuple(each.values()) for each in swaps.records()]
    assert len(expected) > 2
    assert [each[:3] for each in records] == [each[:3] for each in expected]
    np.testing.assert_allclose(swaps.score, [each[3] for each in expected])


def test_swaps_of_titles(swapped):
    table, ranking = swapped
    swaps = ranking.swaps(50)
    assert len(swaps) == 50
    assert (np.diff(swaps.score) <= 0).all()
    assert 0 < swaps.score[-1] < swaps.score[0] < 1
    is_wrong = table.truth[swaps.row, swaps.wrong_column] == 0
    is_missing = table.truth[swaps.row, swaps.right_column] == 1
    assert (is_wrong & is_missing).mean() > 0.95
    assert (table.listed[swaps.row, swaps.wrong_column] == 1).all()
    assert (table.listed[swaps.row, swaps.right_column] == 0).all()
    names = np.array(table.labels)
    np.testing.assert_array_equal(swaps.wrong_label, names[swaps.wrong_column])
    np.testing.assert_array_equal(swaps.right_label, names[swaps.right_column])
    everything = ranking.swaps()
    labels = set(zip(everything.wrong_label, everything.right_label, strict=True))
    assert {("coat", "jacket"), ("jacket", "coat")} < labels
    assert repr(swaps) == "Swaps(50 ranked)"
    first = next(swaps.records())
    assert (first["wrong"], first["score"]) == (swaps.wrong_label[0], swaps.score[0])


def test_every_tag_is_in_one_swap(swapped):
    swaps = swapped[1].swaps()
    for column in (swaps.wrong_column, swaps.right_column):
        assert len(np.unique(np.c_[swaps.row, column], axis=0)) == len(swaps)
    assert len(swapped[1].swaps(0)) == 0
    assert len(swapped[1].swaps(10**6)) == len(swaps)


def test_hardly_any_swaps_where_no_labels_are_confused(titles, swapped):
    table = titles.make_titles(1000, dropped=0.08, random_state=3)
    ranking = find_noisy_labels(table.texts, table.listed, label_names=table.labels)
    assert len(ranking.swaps()) < 0.1 * len(swapped[1].swaps())


def test_answered_swaps_are_not_proposed_again(swapped):
    ranking = swapped[1]
    swaps = ranking.swaps(2)
    asked = [
        ranking.questions_about(zip(swaps.row.tolist(), labels, strict=True), kind)
        for labels, kind in ((swaps.wrong_label, "listed"), (swaps.right_label, "missing"))
    ]
    half = ranking.answered(asked[0], [False, True])
    pairs = set(zip(half.swaps().row.tolist(), half.swaps().wrong_label, strict=True))
    cells = list(zip(swaps.row.tolist(), swaps.wrong_label, strict=True))
    assert cells[0] in pairs
    assert cells[1] not in pairs
    both = half.answered(asked[1], [True, False])
    pairs = set(zip(both.swaps().row.tolist(), both.swaps().wrong_label, strict=True))
    assert not pairs & set(cells)


def test_without_pairs_there_are_no_swaps():
    names = ["coat", "jacket"]
    row, column, judged = np.array([0]), np.array([0]), np.ones(1, dtype=bool)
    nothing_missing = NoisyLabels.from_arrays(
        1, names, row, column, np.array([0.1]), judged, "test"
    )
    assert len(nothing_missing.swaps()) == 0
    assert list(nothing_missing.swaps().records()) == []
    missing = MissingTags(row, np.array([1]), np.array([0.9]), names)
    one_row = NoisyLabels.from_arrays(
        1, names, row, column, np.array([0.1]), judged, "test", missing=missing
    )
    assert len(one_row.swaps()) == 0
    unjudged = NoisyLabels.from_arrays(
        1, names, row, column, np.array([0.1]), ~judged, "test", missing=missing
    )
    assert len(unjudged.swaps()) == 0


def test_a_table_with_a_single_kind_of_swap():
    names, rows = ["coat", "jacket"], np.arange(4)
    coat, jacket, judged = np.zeros(4, dtype=int), np.ones(4, dtype=int), np.ones(4, dtype=bool)
    missing = MissingTags(rows, jacket, np.full(4, 0.9), names)
    ranking = NoisyLabels.from_arrays(
        4, names, rows, coat, np.full(4, 0.1), judged, "test", missing=missing
    )
    swaps = ranking.swaps()
    np.testing.assert_array_equal(swaps.row, rows)
    # Three other rows, of which none is due to chance; four pairs with either label.
    np.testing.assert_allclose(swaps.score, 0.9 * 0.9 * 3 / 5)


@pytest.mark.parametrize("k", [-1, 1.5, "all"])
def test_number_of_swaps(swapped, k):
    with pytest.raises(InputError, match="k"):
        swapped[1].swaps(k)
