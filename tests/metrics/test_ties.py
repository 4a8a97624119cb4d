"""Ties: values expected in a random order, and scores that owe their metrics to a rule."""

from itertools import permutations

import numpy as np
import pytest

from schirn import metrics

NAMES = ("average_precision", "ranking_loss", "coverage", "one_error")


def expected(name, truth, scores):
    """Mean of the field's metric over all orders of the columns, which break ties by position."""
    orders = list(permutations(range(len(truth))))
    values = []
    for order in orders:
        # Distinct scores in the order of (score, position).
        rank = np.lexsort((order, scores))
        distinct = np.empty(len(truth))
        distinct[rank] = np.arange(len(truth))
        values.append(getattr(metrics, name)([truth], [distinct]))
    return np.mean(values)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("seed", range(12))
def test_the_random_convention_is_the_mean_over_all_orders(name, seed):
    rng = np.random.RandomState(seed)
    truth = rng.permutation([1, 0, *rng.randint(0, 2, 3)])
    scores = rng.randint(0, 3, 5).astype(float)
    value = getattr(metrics, name)([truth], [scores], convention="random")
    assert value == pytest.approx(expected(name, truth, scores), abs=1e-12)


@pytest.mark.parametrize("name", NAMES)
def test_without_ties_the_random_convention_is_that_of_the_field(name):
    rng = np.random.RandomState(0)
    truth, scores = rng.randint(0, 2, (40, 6)), rng.rand(40, 6)
    function = getattr(metrics, name)
    assert function(truth, scores, convention="random") == pytest.approx(function(truth, scores))
    assert metrics.tied_rows(truth, scores) == 0


def test_a_constant_predictor_is_flattered_by_the_field_and_not_by_chance():
    rng = np.random.RandomState(0)
    truth = rng.rand(200, 8) < 0.25
    constant = np.zeros((200, 8))
    assert metrics.one_error(truth, constant) == 0
    assert metrics.one_error(truth, constant, convention="random") > 0.6
    assert metrics.tied_rows(truth, constant) == 1


def test_empty_rows_count_the_same_in_both_conventions():
    truth, scores = [[1, 0, 0], [0, 0, 0]], [[0.3, 0.2, 0.1], [0.1, 0.2, 0.3]]
    values = [
        metrics.coverage(truth, scores, empty_rows="keep", convention=convention)
        for convention in ("field", "random")
    ]
    assert values == [pytest.approx((0 - 1 / 3) / 2)] * 2


def test_ties_among_true_labels_only_do_not_count():
    # The two true labels share the second score, below a third one.
    assert metrics.tied_rows([[1, 1, 1, 0]], [[3.0, 2.0, 2.0, 1.0]]) == 0
    assert metrics.tied_rows([[1, 1, 1, 0]], [[3.0, 2.0, 2.0, 2.0]]) == 1


def test_ties_among_false_labels_only_do_not_count():
    assert metrics.tied_rows([[1, 0, 0]], [[2.0, 1.0, 1.0]]) == 0
    assert metrics.tied_rows([[1, 0, 0]], [[1.0, 1.0, 0.0]]) == 1
