"""Ranking again by answers: against a general optimiser, and refits without each answer."""

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import ndtri

from schirn.cleaning._correction import corrected_normal_scores, describe_tags


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


def plain_normal_scores(X, column, index, right):
    """Both regressions, weighed by the likelihood of each answer by the others, and refits."""
    parts = ((X, True), (X[:, :1], False))
    full = [minimised(x, column, index, right, has_offsets) for x, has_offsets in parts]
    refits = [
        [
            minimised(x, column, np.delete(index, k), np.delete(right, k), has_offsets)
            for k in range(len(index))
        ]
        for x, has_offsets in parts
    ]
    z = np.array([[score[i] for score, i in zip(part, index, strict=True)] for part in refits])
    log_likelihood = (right * z - np.logaddexp(0, z)).sum(axis=1)
    weight = 1 / (1 + np.exp(log_likelihood[1] - log_likelihood[0]))

    def scores(corrected):
        score = weight * corrected + (1 - weight) * full[1]
        return ndtri((np.argsort(np.argsort(score)) + 0.5) / len(score))

    expected = scores(full[0])
    for i, corrected in zip(index, refits[0], strict=True):
        expected[i] = scores(corrected)[i]
    return expected, weight


@pytest.mark.parametrize("share", [0.5, 0.8, 1])
def test_agrees_with_a_general_optimiser(share):
    rng, row, column, score = tags()
    X = describe_tags(score, row, column)
    index = rng.choice(300, 40, replace=False)
    right = (column[index] % 2 == 0) == (rng.random(40) < share)
    scores = corrected_normal_scores(X, column, index, right)
    others = np.setdiff1d(np.arange(300), index)
    expected, weight = plain_normal_scores(X, column, index, right)
    assert (weight > 0.99) == (share == 1)
    np.testing.assert_allclose(scores[others], expected[others], atol=0.1)
    # One Newton step is close to a refit without the answer.
    np.testing.assert_allclose(scores[index], expected[index], atol=0.15)


def test_a_sample_of_the_tags_is_enough_to_rank_answered_ones(monkeypatch):
    rng, row, column, score = tags(m=4000, n_labels=20)
    X = describe_tags(score, row, column)
    index = rng.choice(4000, 60, replace=False)
    right = (column[index] % 3 > 0) & (rng.random(60) < 0.9)
    sampled = corrected_normal_scores(X, column, index, right)
    monkeypatch.setattr("schirn.cleaning._correction._SAMPLE", 10**6)
    np.testing.assert_allclose(sampled, corrected_normal_scores(X, column, index, right), atol=0.05)


def test_learns_the_name_that_is_always_wrong():
    rng, row, column, score = tags(m=4000, n_labels=20)
    wrong = (column == 7) | (rng.random(4000) < 0.1)
    X = describe_tags(score, row, column)
    index = rng.choice(4000, 200, replace=False)
    before = X[:, 0]
    after = corrected_normal_scores(X, column, index, ~wrong[index])
    worst = np.argsort(before)[:200], np.argsort(after)[:200]
    assert wrong[worst[1]].mean() > 0.8 > 0.3 > wrong[worst[0]].mean()


def test_answers_without_a_lesson_hardly_change_the_order():
    rng, row, column, score = tags(m=4000)
    X = describe_tags(score, row, column)
    agreement = []
    for _ in range(40):
        index = rng.choice(4000, 50, replace=False)
        right = rng.random(50) < 1 / (1 + np.exp(-X[index, 0]))
        after = corrected_normal_scores(X, column, index, right)
        agreement.append(np.corrcoef(after, score)[0, 1])
    assert np.mean(agreement) > 0.95


def test_features_are_standardised():
    _, row, column, score = tags()
    X = describe_tags(3 * score + 1, row, column)
    np.testing.assert_allclose(X.mean(axis=0), 0, atol=1e-9)
    np.testing.assert_allclose(X.std(axis=0), 1)
    expected = np.log(np.bincount(column)[column])
    np.testing.assert_allclose(X[:, 1], (expected - expected.mean()) / expected.std())


@pytest.mark.parametrize("is_right", [True, False])
def test_one_sided_answers_and_constant_features(is_right):
    column = np.zeros(50, int)
    X = describe_tags(np.zeros(50), np.arange(50), column)
    np.testing.assert_allclose(X, 0, atol=1e-12)
    scores = corrected_normal_scores(X, column, np.arange(30), np.full(30, is_right))
    assert np.isfinite(scores).all()
