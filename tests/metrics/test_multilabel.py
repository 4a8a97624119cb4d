"""The ranking measures: hand-worked rows, a plain transcription, scikit-learn, invariances."""

import tracemalloc

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import sparse

from schirn import metrics
from schirn.exceptions import InputError

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


def plain_rows(truth, scores, threshold, empty_rows):
    """The field conventions, one row and one label at a time."""
    found = {name: [] for name in metrics.METRICS}
    for y, s in zip(truth.tolist(), scores.tolist(), strict=True):
        n_labels = len(y)
        true = [j for j in range(n_labels) if y[j]]
        false = [j for j in range(n_labels) if not y[j]]
        if true or empty_rows == "keep":
            depth = max((plain_position(s, j) for j in true), default=0)
            found["coverage"].append((depth - 1) / n_labels)
            found["hamming_loss"].append(plain_hamming(y, s, threshold))
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


def plain_hamming(y, s, threshold):
    """Share of labels predicted wrongly in one row."""
    guess = [v > threshold for v in s]
    return sum(bool(a) != b for a, b in zip(y, guess, strict=True)) / len(y)


@settings(max_examples=150, deadline=None)
@given(
    tables(min_labels=1),
    st.sampled_from([0.0, 0.25, 0.5, 0.9]),
    st.sampled_from(["drop", "keep"]),
)
def test_matches_the_plain_transcription(table, threshold, empty_rows):
    truth, scores = table
    expected = plain_rows(truth, scores, threshold, empty_rows)
    options = {
        "hamming_loss": {"threshold": threshold, "empty_rows": empty_rows},
        "coverage": {"empty_rows": empty_rows},
    }
    for name, metric in metrics.METRICS.items():
        chosen = options.get(name, {})
        if expected[name]:
            value = metric.function(truth, scores, **chosen)
            assert value == pytest.approx(np.mean(expected[name]), abs=1e-12)
        else:
            with pytest.raises(InputError, match="no row is left"):
                metric.function(truth, scores, **chosen)


@pytest.mark.parametrize("empty_rows", ["drop", "keep"])
def test_blocks_of_rows_change_nothing(empty_rows):
    rng = np.random.default_rng(0)
    truth, scores = rng.random((7, 6)) < 0.4, rng.integers(0, 4, (7, 6)) / 4
    truth[2], truth[5] = 0, 1
    # Two million cells, of which a block holds one.
    tall = [np.repeat(table, 50_000, axis=0) for table in (truth, scores)]
    expected = metrics.evaluate(truth, scores, empty_rows=empty_rows)
    assert metrics.evaluate(*tall, empty_rows=empty_rows) == pytest.approx(expected, abs=1e-12)


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
    assert metrics.hamming_loss(truth, scores) == pytest.approx(2 / 4)


def test_tied_label_order_decides_average_precision():
    assert metrics.average_precision([[0, 1]], [[0.3, 0.3]]) == 1.0
    assert metrics.average_precision([[1, 0]], [[0.3, 0.3]]) == 0.5


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


def test_threshold_is_strict():
    truth = [[1, 0, 0]]
    assert metrics.hamming_loss(truth, [[0.5, 0.2, 0.1]]) == pytest.approx(1 / 3)
    assert metrics.hamming_loss(truth, [[0.5, 0.2, 0.1]], threshold=0.4) == 0


@pytest.mark.parametrize("kind", [bool, np.int8, np.uint8, np.int64])
def test_predictions_are_taken_as_they_are(kind):
    truth = np.array([[1, 1, 1], [1, 0, 0]])
    assert metrics.hamming_loss(truth, truth.astype(kind), threshold=2) == 0
    assert metrics.hamming_loss(truth, sparse.csr_array(truth.astype(kind))) == 0
    assert metrics.hamming_loss(truth, truth.astype(float)) == 0


@settings(max_examples=60, deadline=None)
@given(tables(), st.sampled_from(["field", "random"]))
def test_rankings_ignore_increasing_maps_of_the_scores(table, convention):
    truth, scores = table
    truth = np.vstack([truth, np.arange(truth.shape[1]) == 0])
    scores = np.vstack([scores, np.linspace(0, 1, truth.shape[1])])
    for name in RANKINGS:
        function = metrics.METRICS[name].function
        value = function(truth, scores, convention=convention)
        assert function(truth, np.exp(3 * scores) - 7, convention=convention) == value
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


def test_sparse_tables_are_never_dense_as_a_whole():
    n, n_labels = 20_000, 1000
    first, second = ((k * np.arange(n) % n_labels, np.arange(n + 1)) for k in (1, 7))
    truth, scores = (
        sparse.csr_array((np.ones(n), *cells), shape=(n, n_labels)) for cells in (first, second)
    )
    for function in (metrics.average_precision, metrics.ranking_loss):
        tracemalloc.start()
        function(truth, scores)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 8 * n * n_labels / 2


def test_precision_at_k():
    truth = [[1, 0, 1, 0], [0, 0, 0, 1], [0, 0, 0, 0]]
    scores = [[0.9, 0.8, 0.7, 0.1], [0.4, 0.3, 0.2, 0.4], [0.9, 0.8, 0.7, 0.6]]
    assert metrics.precision_at_k(truth, scores) == 1
    assert metrics.precision_at_k(truth, scores, k=2) == 0.5
    assert metrics.precision_at_k(truth, scores, k=3) == pytest.approx((2 / 3 + 1 / 3) / 2)
    assert metrics.precision_at_k(truth, scores, np.int64(4)) == pytest.approx((2 / 4 + 1 / 4) / 2)


@pytest.mark.parametrize("k", [0, 5, -1, 1.5, True, "2"])
def test_precision_at_k_refuses(k):
    with pytest.raises(InputError, match="k must be an integer of at least 1 and at most 4"):
        metrics.precision_at_k([[1, 0, 1, 0]], [[0.9, 0.8, 0.7, 0.1]], k=k)


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
