"""Ranking again by answers: against a general optimiser, and refits without each answer."""

import numpy as np
import pytest
from scipy.optimize import minimize

from schirn.cleaning.correction import corrected_scores, describe_tags


def tags(m=300, n_labels=8, seed=0):
    rng = np.random.default_rng(seed)
    row, column = np.sort(rng.integers(0, 100, m)), rng.integers(0, n_labels, m)
    return rng, row, column, rng.normal(size=(2, m))


def plain_scores(X, column, index, right):
    """Minimise the objective of the module with a general optimiser."""
    e, n_labels = X.shape[1] - 2, column.max() + 1
    mean = np.array([0.5**0.5] * e + [0, 0])

    def eta(t):
        return t[0] + X @ t[1 : e + 3] + t[e + 3 :][column]

    def loss(t):
        z, (b, w, u) = eta(t)[index], (t[0], t[1 : e + 3], t[e + 3 :])
        penalty = 0.05 * b**2 + ((w - mean) ** 2).sum() + 1.5 * (u**2).sum()
        return (np.logaddexp(0, z) - right * z).sum() + penalty

    start = np.zeros(e + 3 + n_labels)
    return eta(minimize(loss, start, method="BFGS", options={"gtol": 1e-7}).x)


def test_agrees_with_a_general_optimiser():
    rng, row, column, experts = tags()
    X = describe_tags(experts, row, column, np.ones(300, bool))
    index = rng.choice(300, 60, replace=False)
    right = column[index] % 2 == 0
    scores, others = corrected_scores(X, column, index, right), np.setdiff1d(np.arange(300), index)
    expected = plain_scores(X, column, index, right)
    np.testing.assert_allclose(scores[others], expected[others], atol=1e-4)
    # One Newton step is close to a refit without the answer.
    refitted = [
        plain_scores(X, column, np.delete(index, k), np.delete(right, k))[index[k]]
        for k in range(5)
    ]
    np.testing.assert_allclose(scores[index[:5]], refitted, atol=0.15)


def test_learns_the_name_that_is_always_wrong():
    rng, row, column, experts = tags(m=4000, n_labels=20)
    wrong = (column == 7) | (rng.random(4000) < 0.1)
    X = describe_tags(experts[:1], row, column, np.ones(4000, bool))
    index = rng.choice(4000, 200, replace=False)
    before = X[:, 0]
    after = corrected_scores(X, column, index, ~wrong[index])
    worst = np.argsort(before)[:200], np.argsort(after)[:200]
    assert wrong[worst[1]].mean() > 0.8 > 0.3 > wrong[worst[0]].mean()


def test_no_clear_lesson_changes_nothing():
    rng, row, column, experts = tags(m=4000)
    X = describe_tags(experts, row, column, np.ones(4000, bool))
    assert corrected_scores(X, column, np.zeros(0, int), np.zeros(0, bool)) is None
    changes = 0
    for _ in range(40):
        index = rng.choice(4000, 50, replace=False)
        right = rng.random(50) < 1 / (1 + np.exp(-X[index, :2].sum(axis=1)))
        changes += corrected_scores(X, column, index, right) is not None
    assert changes <= 2


def test_learns_which_expert_is_right():
    rng, row, column, experts = tags(m=4000)
    X = describe_tags(experts, row, column, np.ones(4000, bool))
    index = rng.choice(4000, 200, replace=False)
    scores = corrected_scores(X, column, index, experts[1, index] > 0)
    assert np.corrcoef(scores, experts)[0, 1:] @ (-1, 1) > 0.5


def test_columns_are_standardised():
    _, row, column, experts = tags()
    used = np.arange(300) < 200
    X = describe_tags(3 * experts + 1, row, column, used)
    np.testing.assert_allclose(X[used].mean(axis=0), 0, atol=1e-9)
    np.testing.assert_allclose(X[used].std(axis=0), 1)
    expected = np.log(np.bincount(column)[column])
    np.testing.assert_allclose(X[:, 2], (expected - expected[used].mean()) / expected[used].std())


@pytest.mark.parametrize("is_right", [True, False])
def test_one_sided_answers_and_constant_features(is_right):
    column = np.zeros(50, int)
    X = describe_tags(np.zeros((1, 50)), np.arange(50), column, np.ones(50, bool))
    np.testing.assert_allclose(X, 0, atol=1e-12)
    assert corrected_scores(X, column, np.arange(30), np.full(30, is_right)) is None
