"""Ranking again by answers: against a general optimiser, and refits without each answer."""

import numpy as np
import pytest
from scipy.optimize import minimize

from schirn.cleaning.correction import corrected_scores, describe_tags


def tags(m=300, n_labels=8, seed=0):
    rng = np.random.default_rng(seed)
    row, column = np.sort(rng.integers(0, 100, m)), rng.integers(0, n_labels, m)
    return rng, row, column, rng.normal(size=m)


def minimised(X, column, index, right, has_offsets=True):
    """Minimise the objective of the module with a general optimiser."""
    k, n_labels = X.shape[1] + 1, column.max() + 1 if has_offsets else 1
    place, mean = column if has_offsets else np.zeros_like(column), np.eye(k - 1)[0]

    def eta(t):
        return t[0] + X @ t[1:k] + has_offsets * t[k:][place]

    def loss(t):
        z, (b, w, u) = eta(t)[index], (t[0], t[1:k], t[k:])
        penalty = 0.05 * b**2 + 5 * ((w - mean) ** 2).sum() + 1.5 * (u**2).sum()
        return (np.logaddexp(0, z) - right * z).sum() + penalty

    start = np.zeros(k + n_labels)
    return eta(minimize(loss, start, method="BFGS", options={"gtol": 1e-7}).x)


def plain_scores(X, column, index, right):
    """Both regressions, weighed by the likelihood of each answer by the others."""
    scores, log_likelihood = [], []
    for x, has_offsets in ((X, True), (X[:, :1], False)):
        score = minimised(x, column, index, right, has_offsets)
        score[index] = [
            minimised(x, column, np.delete(index, k), np.delete(right, k), has_offsets)[index[k]]
            for k in range(len(index))
        ]
        scores.append(score)
        z = score[index]
        log_likelihood.append((right * z - np.logaddexp(0, z)).sum())
    weight = 1 / (1 + np.exp(log_likelihood[1] - log_likelihood[0]))
    return weight * scores[0] + (1 - weight) * scores[1], weight


@pytest.mark.parametrize("share", [0.5, 0.8, 1])
def test_agrees_with_a_general_optimiser(share):
    rng, row, column, score = tags()
    X = describe_tags(score, row, column, np.ones(300, bool))
    index = rng.choice(300, 40, replace=False)
    right = (column[index] % 2 == 0) == (rng.random(40) < share)
    scores, others = corrected_scores(X, column, index, right), np.setdiff1d(np.arange(300), index)
    expected, weight = plain_scores(X, column, index, right)
    assert (weight > 0.99) == (share == 1)
    np.testing.assert_allclose(scores[others], expected[others], atol=0.03)
    # One Newton step is close to a refit without the answer.
    np.testing.assert_allclose(scores[index], expected[index], atol=0.15)


def test_learns_the_name_that_is_always_wrong():
    rng, row, column, score = tags(m=4000, n_labels=20)
    wrong = (column == 7) | (rng.random(4000) < 0.1)
    X = describe_tags(score, row, column, np.ones(4000, bool))
    index = rng.choice(4000, 200, replace=False)
    before = X[:, 0]
    after = corrected_scores(X, column, index, ~wrong[index])
    worst = np.argsort(before)[:200], np.argsort(after)[:200]
    assert wrong[worst[1]].mean() > 0.8 > 0.3 > wrong[worst[0]].mean()


def test_answers_without_a_lesson_hardly_change_the_order():
    rng, row, column, score = tags(m=4000)
    X = describe_tags(score, row, column, np.ones(4000, bool))
    agreement = []
    for _ in range(40):
        index = rng.choice(4000, 50, replace=False)
        right = rng.random(50) < 1 / (1 + np.exp(-X[index, 0]))
        agreement.append(np.corrcoef(corrected_scores(X, column, index, right), score)[0, 1])
    assert np.mean(agreement) > 0.95


def test_columns_are_standardised():
    _, row, column, score = tags()
    used = np.arange(300) < 200
    X = describe_tags(3 * score + 1, row, column, used)
    np.testing.assert_allclose(X[used].mean(axis=0), 0, atol=1e-9)
    np.testing.assert_allclose(X[used].std(axis=0), 1)
    expected = np.log(np.bincount(column)[column])
    np.testing.assert_allclose(X[:, 1], (expected - expected[used].mean()) / expected[used].std())


@pytest.mark.parametrize("is_right", [True, False])
def test_one_sided_answers_and_constant_features(is_right):
    column = np.zeros(50, int)
    X = describe_tags(np.zeros(50), np.arange(50), column, np.ones(50, bool))
    np.testing.assert_allclose(X, 0, atol=1e-12)
    scores = corrected_scores(X, column, np.arange(30), np.full(30, is_right))
    assert (scores > 0).all() if is_right else (scores < 0).all()
