"""Rules that turn scores into 0/1 predictions."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from schirn.exceptions import InputError
from schirn.noise.thresholds import (
    LabelThreshold,
    cardinality_threshold,
    label_threshold,
    scale_rows,
)

S = np.array([[0.9, 0.2, 0.5], [0.5, 0.5, 0.1]])
matrices = arrays(
    float,
    st.tuples(st.integers(1, 6), st.integers(1, 6)),
    elements=st.floats(-5, 5, allow_subnormal=False),
)


def test_one_number_cuts_strictly():
    predicted = label_threshold(0.5, 3).apply(S)
    assert predicted.dtype == np.int8
    assert predicted.tolist() == [[1, 0, 0], [0, 0, 0]]


@pytest.mark.parametrize("form", [list, tuple, np.array])
def test_one_number_per_label(form):
    assert label_threshold(form([0.95, 0.1, 0.3]), 3).apply(S).tolist() == [[0, 1, 1], [0, 1, 0]]


@pytest.mark.parametrize("rule", [0, np.float32(0), np.int64(0), np.array(0.0), -np.inf])
def test_kinds_of_numbers(rule):
    assert label_threshold(rule, 3).apply(S).all()


def test_infinity_predicts_nothing():
    assert not label_threshold(np.inf, 3).apply(S).any()


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        ("top-1", [[1, 0, 0], [1, 0, 0]]),
        ("top-2", [[1, 0, 1], [1, 1, 0]]),
        ("top-3", [[1, 1, 1], [1, 1, 1]]),
        ("top-99", [[1, 1, 1], [1, 1, 1]]),
    ],
)
def test_top_k_takes_the_first_of_equal_scores(rule, expected):
    assert label_threshold(rule, 3).apply(S).tolist() == expected


def test_the_first_of_many_equal_scores():
    predicted = label_threshold("top-3", 500).apply(np.zeros((2, 500)))
    assert [np.flatnonzero(row).tolist() for row in predicted] == [[0, 1, 2]] * 2


@given(matrices, st.integers(1, 8))
def test_top_k_takes_k_of_the_best(scores, k):
    predicted = label_threshold(f"top-{k}", scores.shape[1]).apply(scores).astype(bool)
    assert (predicted.sum(axis=1) == min(k, scores.shape[1])).all()
    for row, chosen in zip(scores, predicted, strict=True):
        assert chosen.all() or row[chosen].min() >= row[~chosen].max()


def cardinality_rule(scores, cardinality):
    return cardinality_threshold(scores, cardinality)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("cardinality", [0.0, 0.1, 0.25, 1.0, 1.5, 2.9, 4.0])
def test_cardinality_gives_as_many_labels(cardinality, dtype):
    scores = np.random.default_rng(0).normal(size=(20, 4)).astype(dtype)
    predicted = cardinality_rule(scores, cardinality).apply(scores)
    assert predicted.sum() == round(20 * cardinality)
    assert scores[predicted == 1].min(initial=9) > scores[predicted == 0].max(initial=-9)


@pytest.mark.parametrize(("cardinality", "count"), [(-1.0, 0), (0.0, 0), (3.0, 6), (7.0, 6)])
def test_cardinality_outside_its_range(cardinality, count):
    assert cardinality_rule(S, cardinality).apply(S).sum() == count
    far = np.array([[1e9, -1e9, 0.0]])
    assert cardinality_rule(S, cardinality).apply(far).all() == (count == 6)


def test_a_cardinality_of_all_cells_but_one():
    assert cardinality_rule(np.array([[0.1, 0.3, 0.2]]), 2.0).cut == pytest.approx(0.15)
    assert cardinality_rule(np.array([[0.7]]), 1.0).cut == -np.inf
    assert cardinality_rule(np.array([[0.7]]), 0.0).cut == np.inf


def test_tied_scores_fall_below_the_cut():
    scores = np.array([[1.0, 1.0], [1.0, 0.0]])
    assert cardinality_rule(scores, 0.5).apply(scores).sum() == 0
    assert cardinality_rule(scores, 1.5).apply(scores).tolist() == [[1, 1], [1, 0]]


def test_the_cut_lies_in_the_middle_of_the_gap():
    assert cardinality_rule(np.array([[0.0, 1.0, 4.0, 6.0]]), 2.0).cut == 2.5


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_neighbouring_numbers_are_told_apart(dtype):
    values = [dtype(1)]
    for _ in range(5):
        values.append(np.nextafter(values[-1], dtype(2)))
    for below, above in pairwise(values):
        scores = np.array([[below, above]])
        assert cardinality_rule(scores, 1.0).apply(scores).tolist() == [[0, 1]]


@given(matrices, st.floats(0, 6))
def test_cardinality_never_gives_more(scores, cardinality):
    predicted = cardinality_rule(scores, cardinality).apply(scores)
    wanted = round(cardinality * len(scores))
    assert predicted.sum() <= wanted
    if len(np.unique(scores)) == scores.size:
        assert predicted.sum() == min(wanted, scores.size)


def test_rows_are_scaled_before_the_cut():
    scores = np.array([[1.0, 2.0, 3.0], [40.0, 20.0, 39.0], [5.0, 5.0, 5.0]])
    predicted = label_threshold("row-0.9", 3).apply(scores)
    assert predicted.tolist() == [[0, 0, 1], [1, 0, 1], [0, 0, 0]]


@given(matrices)
def test_scaled_rows_run_from_zero_to_one(scores):
    scaled = scale_rows(scores)
    flat = np.ptp(scores, axis=1) == 0
    assert not scaled[flat].any()
    assert (scaled[~flat].min(axis=1) == 0).all()
    assert (scaled[~flat].max(axis=1) == 1).all()


def test_a_cut_that_depends_on_the_row():
    rule = LabelThreshold(np.asarray(0.25), slopes=np.array([0.5, 0.25, 0.25]))
    scores = np.array([[1.0, 0.5, 0.5], [1.0, 1.0, 0.0], [0.5, 0.0, 0.0]])
    # The cuts are 1, 1 and 0.5; labels at them are predicted.
    predicted = rule.apply(scores)
    assert predicted.dtype == np.int8
    assert predicted.tolist() == [[1, 0, 0], [1, 1, 0], [1, 0, 0]]


@pytest.mark.parametrize(
    "rule",
    [
        label_threshold(0.5, 3),
        label_threshold([0.95, 0.1, 0.3], 3),
        label_threshold("top-2", 3),
        label_threshold("row-0.5", 3),
        LabelThreshold(np.asarray(0.1), slopes=np.array([0.5, 0.25, 0.25])),
    ],
)
def test_tensors_have_the_labels_of_arrays(rule):
    torch = pytest.importorskip("torch", reason="torch is not installed")
    found = rule.apply(torch.asarray(S))
    assert found.dtype == torch.int64
    assert found.tolist() == rule.apply(S).tolist()


@pytest.mark.parametrize(
    "rule",
    [
        "half",
        "",
        "top",
        "top-",
        "top-0",
        "top--1",
        "top-1.5",
        "top-1-2",
        "top-²",
        "row-",
        "row-nan",
        "row-0.9.9",
        "Top-1",
    ],
)
def test_unknown_words_are_quoted(rule):
    with pytest.raises(InputError, match=r'is unknown; give a number.*"top-3"') as error:
        label_threshold(rule, 3)
    assert repr(rule) in str(error.value)


@pytest.mark.parametrize(
    "rule",
    [
        [0.1, 0.2],
        [0.1] * 4,
        [],
        [[0.1, 0.2, 0.3]],
        [[0.1], [0.2, 0.3]],
        ["a", "b", "c"],
        float("nan"),
        [0.1, float("nan"), 0.2],
        None,
        {"a": 1},
        1j,
    ],
    ids=repr,
)
def test_wrong_numbers_are_quoted(rule):
    with pytest.raises(InputError) as error:
        label_threshold(rule, 3)
    assert str(error.value).endswith(f"one number or 3 numbers (one per label), got {rule!r}")


def test_rules_that_learn_need_rows():
    with pytest.raises(InputError, match=r'^threshold "cardinality" is learned .* of a model$'):
        label_threshold("cardinality", 3)


def test_scores_are_left_alone():
    before = S.copy()
    for rule in (0.5, "top-2", "row-0.5"):
        label_threshold(rule, 3).apply(S)
    cardinality_rule(S, 1.0).apply(S)
    np.testing.assert_array_equal(S, before)
    assert LabelThreshold(np.asarray(0.5)).top is None
