"""The NLR solver against its plain transcription and the facts known about it."""

import numpy as np
import pytest
import scipy.sparse as sp
from reference.nlr import plain_nlr

from schirn.lab.rivals.solvers._nlr import nlr
from schirn.linalg.row_space import row_space


def data(n=60, d=9, l=6, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.6)
    truth = X @ rng.normal(size=(d, l)) > 1
    return X, (truth | (rng.random((n, l)) < 0.25)).astype(float)


def solve(X, Y, *, beta, gamma, lam, fit_intercept=False, **rest):
    space = row_space(X, ridge=gamma / (1 + beta), fit_intercept=fit_intercept)
    return space, nlr(space, Y, beta=beta, gamma=gamma, lam=lam, **rest)


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("shape", [(60, 9), (30, 50)])
@pytest.mark.parametrize(
    ("beta", "gamma", "lam"), [(100.0, 100.0, 2.1), (10.0, 60.0, 1.7), (1.0, 100.0, 1.9)]
)
def test_equals_the_plain_transcription(sparse, shape, beta, gamma, lam):
    X, Y = data(*shape)
    X = sp.csr_array(X) if sparse else X
    space, ours = solve(X, Y, beta=beta, gamma=gamma, lam=lam)
    W1, W2, N, objective = plain_nlr(X, Y, beta, gamma, lam)
    assert 0 < N.sum() < Y.sum()
    np.testing.assert_array_equal(ours.N, N)
    for w, W in ((ours.w1, W1), (ours.w2, W2)):
        np.testing.assert_allclose(space.coefficients(w)[0], W, atol=1e-6 * np.abs(W).max())
    np.testing.assert_allclose(ours.objective, objective, rtol=1e-8)
    assert ours.n_iter == 100


def test_badly_scaled_features_take_the_svd():
    X, Y = data()
    X = X * np.logspace(-2, 5, X.shape[1])
    space, ours = solve(X, Y, beta=100.0, gamma=10.0, lam=2.1)
    assert space.how == "svd"
    W1, _, N, _ = plain_nlr(X, Y, 100.0, 10.0, 2.1)
    np.testing.assert_array_equal(ours.N, N)
    np.testing.assert_allclose(space.expand(ours.w1), X @ W1, atol=1e-6)


def test_intercept_is_an_unpenalised_column_of_ones():
    X, Y = data()
    space, ours = solve(X, Y, beta=1.0, gamma=1.0, lam=1.5, fit_intercept=True)
    # A column of size c has the ridge weight 1/c^2 next to that of the others.
    wide = np.column_stack([X - X.mean(axis=0), np.full(len(X), 1e4)])
    W1, _, N, _ = plain_nlr(wide, Y, 1.0, 1.0, 1.5)
    np.testing.assert_array_equal(ours.N, N)
    np.testing.assert_allclose(space.expand(ours.w1), wide @ W1, atol=1e-5)


def test_noise_is_where_the_second_classifier_wins():
    X, Y = data()
    lam = 1.7
    space, ours = solve(X, Y, beta=1.0, gamma=1.0, lam=lam)
    margin = space.expand(ours.w1 - ours.w2)
    np.testing.assert_array_equal(ours.N, (Y == 1) & (margin < 1 - lam / 2))


def test_noise_free_sweeps_approach_the_joint_solution():
    X, Y = data()
    beta, gamma = 0.5, 1.0
    space, ours = solve(X, Y, beta=beta, gamma=gamma, lam=50.0, max_iter=500)
    assert not ours.N.any()
    M, eye, one = X.T @ X, np.eye(X.shape[1]), np.ones(Y.shape)
    total = np.linalg.solve((1 + 2 * beta) * M + gamma * eye, (1 + 2 * beta) * X.T @ one)
    difference = np.linalg.solve(M + gamma * eye, X.T @ (2 * Y - 1))
    W1, W2 = space.coefficients(ours.w1)[0], space.coefficients(ours.w2)[0]
    np.testing.assert_allclose(W1 + W2, total, atol=1e-9)
    np.testing.assert_allclose(W1 - W2, difference, atol=1e-9)


def test_a_large_beta_stops_early():
    X, Y = data()
    space, ours = solve(X, Y, beta=100.0, gamma=1e-2, lam=50.0)
    _, later = solve(X, Y, beta=100.0, gamma=1e-2, lam=50.0, max_iter=5000)
    joint = space.ridge(space.project(2 * Y - 1), 1e-2)
    np.testing.assert_allclose(later.w1 - later.w2, joint, atol=1e-6)
    gap = np.linalg.norm(ours.w1 - ours.w2 - joint) / np.linalg.norm(joint)
    assert gap > 0.05


def test_noise_may_appear_after_sweeps_without_change():
    X, Y = data(30, 50)
    _, ours = solve(X, Y, beta=100.0, gamma=100.0, lam=2.1, tol=1e-12)
    first = int(np.flatnonzero(ours.n_noise)[0])
    assert first >= 2
    assert (ours.n_noise[:first] == 0).all()


def test_tolerance_stops_when_all_three_stand_still():
    X, Y = data()
    _, ours = solve(X, Y, beta=0.1, gamma=1.0, lam=1.5, tol=1e-10)
    assert ours.n_iter < 100
    _, full = solve(X, Y, beta=0.1, gamma=1.0, lam=1.5)
    np.testing.assert_allclose(ours.w1, full.w1, atol=1e-8)
    np.testing.assert_array_equal(ours.N, full.N)
    assert len(ours.objective) == len(ours.n_noise) == ours.n_iter


def without_each_row(X, Y, **options):
    scores = np.empty_like(Y)
    for i in range(len(X)):
        rest = np.arange(len(X)) != i
        space, part = solve(X[rest], Y[rest], **options)
        scores[i] = X[i] @ space.coefficients(part.w1)[0]
    return scores


def test_leave_one_out_scores_are_exact_at_convergence():
    X, Y = data(n=40, d=6)
    options = {"beta": 1.0, "gamma": 1.0, "lam": 50.0, "max_iter": 200}
    _, ours = solve(X, Y, **options)
    np.testing.assert_allclose(ours.loo_scores, without_each_row(X, Y, **options), atol=1e-9)


@pytest.mark.parametrize("shape", [(40, 6), (40, 60)])
@pytest.mark.parametrize("sweeps", [3, 100])
def test_leave_one_out_scores_are_close_before(shape, sweeps):
    X, Y = data(*shape)
    options = {"beta": 100.0, "gamma": 10.0, "lam": 50.0, "max_iter": sweeps}
    space, ours = solve(X, Y, **options)
    expected = without_each_row(X, Y, **options)
    error = np.linalg.norm(ours.loo_scores - expected)
    assert error < 0.25 * np.linalg.norm(space.expand(ours.w1) - expected)


def test_single_precision_is_kept():
    X, Y = data()
    narrow, ours = solve(X.astype(np.float32), Y, beta=1.0, gamma=1.0, lam=1.5)
    space, wide = solve(X, Y, beta=1.0, gamma=1.0, lam=1.5)
    assert ours.w1.dtype == ours.loo_scores.dtype == np.float32
    np.testing.assert_allclose(narrow.expand(ours.w1), space.expand(wide.w1), atol=1e-3)
    np.testing.assert_allclose(ours.loo_scores, wide.loo_scores, atol=1e-3)


@pytest.mark.parametrize("X", [np.zeros((12, 3)), np.ones((12, 3)), np.eye(12)[:, :1]])
def test_features_that_say_nothing(X):
    Y = np.tile([1.0, 0.0, 1.0], (12, 1))
    _, ours = solve(X, Y, beta=100.0, gamma=10.0, lam=2.1)
    assert np.isfinite(ours.loo_scores).all()
    assert np.isfinite(ours.objective).all()
    assert not ours.N[:, 1].any()
