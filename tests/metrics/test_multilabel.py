"""The ranking measures: hand-worked rows, a plain transcription, scikit-learn, invariances."""

import tracemalloc
from unittest import mock

import numpy as np
import pandas as pd
import pytest
import sklearn.metrics as reference
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import sparse

from schirn import metrics
from schirn.exceptions import InputError
from schirn.metrics import _input

RANKINGS = ("average_precision", "ranking_loss", "coverage", "one_error")


@st.composite
def tables(draw, min_labels=2):
    """Truth and scores with many ties; some rows are empty or full."""
    shape = (draw(st.integers(1, 7)), draw(st.integers(min_labels, 6)))
    truth = draw(hnp.arrays(np.int8, shape, elements=st.integers(0, 1)))
    scores = draw(hnp.arrays(np.float64, shape, elements=st.integers(-2, 2).map(lambda v: v / 4)))
    return truth, scores


def plain_position(scores, label):
    """Rank from 1 at the top; among equal scores the later label stands higher."""
    better = 0
    for other, value in enumerate(scores):
        if value > scores[label] or (value == scores[label] and other > label):
            better += 1
    return better + 1


def plain_rows(truth, scores, threshold, scale, empty_rows):
    """The field conventions, one row and one label at a time."""
    found = {name: [] for name in metrics.METRICS}
    for y, s in zip(truth.tolist(), scores.tolist(), strict=True):
        n_labels = len(y)
        true = [j for j in range(n_labels) if y[j]]
        false = [j for j in range(n_labels) if not y[j]]
        if true or empty_rows == "keep":
            depth = max((plain_position(s, j) for j in true), default=0)
            found["coverage"].append((depth - 1) / n_labels)
            found["hamming_loss"].append(plain_hamming(y, s, threshold, scale))
        if not true or not false:
            continue
        precisions = []
        for j in true:
            rank = plain_position(s, j)
            precisions.append(sum(plain_position(s, i) <= rank for i in true) / rank)
        found["average_precision"].append(sum(precisions) / len(true))
        wrong = sum(s[i] <= s[j] for i in true for j in false)
        found["ranking_loss"].append(wrong / (len(true) * len(false)))
        found["one_error"].append(0 if any(s[j] == max(s) for j in true) else 1)
    return found


def plain_hamming(y, s, threshold, scale):
    """Share of labels predicted wrongly in one row."""
    if scale == "row":
        low, high = min(s), max(s)
        guess = [high > low and (v - low) / (high - low) > threshold for v in s]
    else:
        guess = [v > threshold for v in s]
    return sum(bool(a) != b for a, b in zip(y, guess, strict=True)) / len(y)


@settings(max_examples=150, deadline=None)
@given(
    tables(min_labels=1),
    st.sampled_from([0.0, 0.25, 0.5, 0.9]),
    st.sampled_from(["none", "row"]),
    st.sampled_from(["drop", "keep"]),
    st.integers(1, 40),
)
def test_matches_the_plain_transcription_in_any_block_size(
    table, threshold, scale, empty_rows, cells
):
    truth, scores = table
    expected = plain_rows(truth, scores, threshold, scale, empty_rows)
    options = {
        "hamming_loss": {"threshold": threshold, "scale": scale, "empty_rows": empty_rows},
        "coverage": {"empty_rows": empty_rows},
    }
    with mock.patch.object(_input, "BLOCK_CELLS", cells):
        for name, metric in metrics.METRICS.items():
            chosen = options.get(name, {})
            if expected[name]:
                value = metric.function(truth, scores, **chosen)
                assert value == pytest.approx(np.mean(expected[name]), abs=1e-12)
            else:
                with pytest.raises(InputError, match="no row is left"):
                    metric.function(truth, scores, **chosen)


@settings(max_examples=150, deadline=None)
@given(tables(), st.booleans(), st.integers(1, 40), st.data())
def test_equals_scikit_learn(table, weighted, cells, data):
    truth, scores = table
    whole = st.integers(1, 5).map(float)
    weight = data.draw(hnp.arrays(np.float64, len(truth), elements=whole)) if weighted else None
    pairs = [
        (metrics.average_precision, reference.label_ranking_average_precision_score, scores),
        (metrics.ranking_loss, reference.label_ranking_loss, scores),
        (metrics.coverage, reference.coverage_error, scores),
        (metrics.hamming_loss, reference.hamming_loss, scores > 0.5),
    ]
    with mock.patch.object(_input, "BLOCK_CELLS", cells):
        for ours, theirs, shown in pairs:
            value = ours(truth, scores, convention="sklearn", sample_weight=weight)
            assert value == pytest.approx(theirs(truth, shown, sample_weight=weight), abs=1e-12)


def test_hand_worked_row_without_ties():
    truth, scores = [[0, 1, 0, 1, 0]], [[0.5, 0.9, 0.7, 0.6, 0.1]]
    # Ranking: 1 (true), 2, 3 (true), 0, 4.
    assert metrics.average_precision(truth, scores) == pytest.approx((1 / 1 + 2 / 3) / 2)
    assert metrics.ranking_loss(truth, scores) == pytest.approx(1 / 6)
    assert metrics.coverage(truth, scores) == pytest.approx((3 - 1) / 5)
    assert metrics.one_error(truth, scores) == 0
    assert metrics.hamming_loss(truth, scores) == pytest.approx(1 / 5)


def test_hand_worked_row_with_ties():
    truth, scores = [[1, 0, 1, 0]], [[0.5, 0.5, 0.2, 0.2]]
    # Later labels stand higher: 1, 0 (true), 3, 2 (true).
    assert metrics.average_precision(truth, scores) == pytest.approx((1 / 2 + 2 / 4) / 2)
    # Label 0 ties with 1; label 2 is below 1 and ties with 3.
    assert metrics.ranking_loss(truth, scores) == pytest.approx(3 / 4)
    assert metrics.coverage(truth, scores) == pytest.approx(3 / 4)
    assert metrics.one_error(truth, scores) == 0
    assert metrics.one_error(truth, scores, convention="sklearn") == 1
    assert metrics.hamming_loss(truth, scores) == pytest.approx(2 / 4)


def test_tied_label_order_decides_average_precision():
    assert metrics.average_precision([[0, 1]], [[0.3, 0.3]]) == 1.0
    assert metrics.average_precision([[1, 0]], [[0.3, 0.3]]) == 0.5
    assert metrics.average_precision([[0, 1]], [[0.3, 0.3]], convention="sklearn") == 0.5


def test_empty_and_full_rows():
    truth = [[1, 0, 0, 0], [0, 0, 0, 0], [1, 1, 1, 1]]
    scores = [[0.1, 0.9, 0.0, 0.0], [0.9, 0.0, 0.0, 0.0], [0.9, 0.2, 0.3, 0.4]]
    assert metrics.average_precision(truth, scores) == 0.5
    assert metrics.ranking_loss(truth, scores) == pytest.approx(1 / 3)
    assert metrics.one_error(truth, scores) == 1
    # Depths 2 and 4; the empty row adds depth 0 when it is kept.
    assert metrics.coverage(truth, scores) == pytest.approx((1 / 4 + 3 / 4) / 2)
    kept = metrics.coverage(truth, scores, empty_rows="keep")
    assert kept == pytest.approx(((2 + 0 + 4) / 3 - 1) / 4)
    assert metrics.hamming_loss(truth, scores) == pytest.approx((2 / 4 + 3 / 4) / 2)
    kept = metrics.hamming_loss(truth, scores, empty_rows="keep")
    assert kept == pytest.approx((2 / 4 + 1 / 4 + 3 / 4) / 3)


def test_threshold_is_strict_and_rows_can_be_scaled():
    truth = [[1, 0, 0]]
    assert metrics.hamming_loss(truth, [[0.5, 0.2, 0.1]]) == pytest.approx(1 / 3)
    assert metrics.hamming_loss(truth, [[0.5, 0.2, 0.1]], threshold=0.4) == 0
    assert metrics.hamming_loss(truth, [[-1.0, -2.0, -3.0]], scale="row", threshold=0.9) == 0
    for threshold in (0.5, -0.1):
        flat = metrics.hamming_loss(truth, [[7.0] * 3], scale="row", threshold=threshold)
        assert flat == pytest.approx(1 / 3)


@pytest.mark.parametrize("kind", [bool, np.int8, np.uint8, np.int64])
def test_predictions_are_taken_as_they_are(kind):
    truth = np.array([[1, 1, 1], [1, 0, 0]])
    for scale in ("none", "row"):
        loss = metrics.hamming_loss(truth, truth.astype(kind), threshold=2, scale=scale)
        assert loss == 0
    assert metrics.hamming_loss(truth, sparse.csr_array(truth.astype(kind))) == 0
    assert metrics.hamming_loss(truth, truth.astype(float)) == 0


@settings(max_examples=60, deadline=None)
@given(tables(), st.sampled_from(["field", "sklearn"]))
def test_rankings_ignore_increasing_maps_of_the_scores(table, convention):
    truth, scores = table
    truth = np.vstack([truth, np.arange(truth.shape[1]) == 0])
    scores = np.vstack([scores, np.linspace(0, 1, truth.shape[1])])
    for name in RANKINGS:
        function = metrics.METRICS[name].function
        value = function(truth, scores, convention=convention)
        assert function(truth, np.exp(3 * scores) - 7, convention=convention) == value
        assert function(truth, (4 * scores).astype(int), convention=convention) == value
        assert function(truth, scores.astype(np.float32), convention=convention) == value


def test_permuting_labels_without_ties_changes_nothing():
    rng = np.random.default_rng(3)
    truth, scores = rng.random((30, 9)) < 0.4, rng.random((30, 9))
    order = rng.permutation(9)
    before, after = (
        metrics.evaluate(truth, scores),
        metrics.evaluate(truth[:, order], scores[:, order]),
    )
    assert after == pytest.approx(before)


def test_weights_act_as_repeated_rows():
    rng = np.random.default_rng(4)
    truth, scores = rng.random((12, 5)) < 0.5, rng.integers(0, 4, (12, 5)) / 4
    times = rng.integers(0, 4, 12)
    weighted = metrics.evaluate(truth, scores, sample_weight=times)
    repeated = metrics.evaluate(np.repeat(truth, times, 0), np.repeat(scores, times, 0))
    assert weighted == pytest.approx(repeated)
    assert weighted != pytest.approx(metrics.evaluate(truth, scores))


def test_every_kind_of_table_gives_the_same():
    rng = np.random.default_rng(5)
    truth, scores = (rng.random((20, 6)) < 0.4).astype(int), rng.integers(0, 5, (20, 6)) / 5
    expected = metrics.evaluate(truth, scores)
    names = list("abcdef")
    for y in (
        truth.astype(bool),
        truth.tolist(),
        np.asfortranarray(truth.astype(float)),
        sparse.csr_array(truth),
        sparse.csr_matrix(truth),
        sparse.coo_array(truth),
        pd.DataFrame(truth, columns=names),
        pd.DataFrame(truth, columns=names).astype("boolean"),
    ):
        assert metrics.evaluate(y, scores) == expected
        assert metrics.evaluate(y, sparse.csr_array(scores)) == expected
        assert metrics.evaluate(y, pd.DataFrame(scores, columns=names)) == expected


def test_one_column_and_one_dimension():
    assert metrics.hamming_loss([1, 1, 0], [0.9, 0.1, 0.9]) == 0.5
    assert metrics.coverage([[1], [0]], [0.9, 0.1]) == 0
    with pytest.raises(InputError, match="no row is left to score for average_precision"):
        metrics.average_precision([1, 0], [0.9, 0.1])


def test_infinite_scores_rank_but_do_not_scale():
    truth, scores = [[1, 0, 0]], [[0.5, -np.inf, -np.inf]]
    assert metrics.average_precision(truth, scores) == 1
    with pytest.raises(InputError, match="finite"):
        metrics.hamming_loss(truth, scores, scale="row")


def test_memory_stays_bounded_by_the_block():
    rng = np.random.default_rng(6)
    truth, scores = rng.random((6000, 100)) < 0.1, rng.random((6000, 100))
    with mock.patch.object(_input, "BLOCK_CELLS", 10_000):
        metrics.evaluate(truth, scores)
        tracemalloc.start()
        metrics.evaluate(truth, scores)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert peak < scores.nbytes / 2


def test_precision_at_k():
    truth = [[1, 0, 1, 0], [0, 0, 0, 1], [0, 0, 0, 0]]
    scores = [[0.9, 0.8, 0.7, 0.1], [0.4, 0.3, 0.2, 0.4], [0.9, 0.8, 0.7, 0.6]]
    assert metrics.precision_at_k(truth, scores) == 1
    assert metrics.precision_at_k(truth, scores, k=2) == 0.5
    assert metrics.precision_at_k(truth, scores, k=3) == pytest.approx((2 / 3 + 1 / 3) / 2)
    assert metrics.precision_at_k(truth, scores, np.int64(4)) == pytest.approx((2 / 4 + 1 / 4) / 2)


@pytest.mark.parametrize("k", [0, 5, -1, 1.5, True, "2"])
def test_precision_at_k_refuses(k):
    with pytest.raises(InputError, match="from 1 to 4"):
        metrics.precision_at_k([[1, 0, 1, 0]], [[0.9, 0.8, 0.7, 0.1]], k=k)


@pytest.mark.parametrize(
    ("scores", "field", "strict"),
    [
        ([0.9, 0.1, 0.2], 0, 0),
        ([0.1, 0.9, 0.2], 1, 1),
        ([0.9, 0.9, 0.2], 0, 1),
        ([0.1, 0.9, 0.9], 1, 1),
        ([0.5, 0.5, 0.5], 0, 1),
    ],
)
def test_one_error_of_one_row_with_ties(scores, field, strict):
    assert metrics.one_error([[1, 0, 0]], [scores]) == field
    assert metrics.one_error([[1, 0, 0]], [scores], convention="sklearn") == strict


def test_strict_one_error_looks_at_every_row_alone():
    truth = [[1, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]]
    scores = [[3, 1, 2], [1, 3, 2], [1, 3, 3], [1, 2, 3]]
    assert metrics.one_error(truth, scores, convention="sklearn") == 0.5
    assert metrics.one_error(truth, scores) == 0.25


def test_one_error_of_labels_that_are_all_tied_true():
    assert metrics.one_error([[1, 1, 0]], [[0.9, 0.9, 0.1]], convention="sklearn") == 0


def test_weights_count_in_precision_at_k():
    truth, scores = [[1, 0], [1, 0]], [[0.9, 0.1], [0.1, 0.9]]
    assert metrics.precision_at_k(truth, scores) == 0.5
    assert metrics.precision_at_k(truth, scores, sample_weight=[3, 1]) == 0.75


@pytest.mark.parametrize(
    ("scores", "loss"),
    [
        ([[True, False, False]], 0),
        ([[1, 0, 0]], 0),
        # Integers beyond 0 and 1 are scores, cut at the threshold 1.5.
        ([[2, 0, 1]], 0),
        ([[1, -1, 2]], 2 / 3),
        ([[0, -1, 1]], 1 / 3),
        # So are floats, whatever they are.
        ([[1.0, 0.0, 0.0]], 1 / 3),
        ([[2.0, 0.0, 1.0]], 0),
    ],
)
def test_what_counts_as_predictions(scores, loss):
    found = metrics.hamming_loss([[1, 0, 0]], scores, threshold=1.5)
    assert found == pytest.approx(loss)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int64])
def test_rows_of_small_integers_are_scaled_like_floats(dtype):
    scores = np.array([[100, 0, 40], [0, 127, 90]], dtype=dtype)
    if dtype != np.uint8:
        scores[:, 1] -= 100
    truth = np.array([[1, 0, 1], [0, 1, 1]])
    loss = metrics.hamming_loss(truth, scores, scale="row", threshold=0.5)
    assert loss == metrics.hamming_loss(truth, scores.astype(float), scale="row", threshold=0.5)
