import numpy as np
import pytest
import scipy.sparse as sp
from reference.pmllrs import plain_pmllrs

from schirn.lab.rivals.solvers._pmllrs import pmllrs
from schirn.linalg.row_space import row_space

WEIGHTS = [(1, 0.1, 0.01, 1.0), (1, 0.5, 1, 1.0), (2, 0.2, 0.1, 0.1), (1, 0.3, 0.05, 10.0)]


def make(n, d, l, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.5)
    signal = X @ rng.normal(size=(d, l)) + rng.normal(size=(n, l))
    return X, (signal > 0.5).astype(np.uint8)


def solve(X, Y, eta, beta, gamma, mu, fit_intercept=False, **options):
    space = row_space(X, ridge=mu / eta, fit_intercept=fit_intercept)
    result = pmllrs(space, Y, eta=eta, beta=beta, gamma=gamma, mu=mu, **options)
    return result, space.coefficients(result.w)[0]


def value(X, W, P, Q, eta, beta, gamma):
    norms = np.linalg.norm(P, "nuc") + gamma * np.linalg.norm(W, "nuc")
    return eta / 2 * np.sum((P - X @ W) ** 2) + norms + beta * np.abs(Q).sum()


@pytest.mark.parametrize("shape", [(80, 12, 5), (40, 70, 6), (12, 20, 30)])
@pytest.mark.parametrize("weights", WEIGHTS)
@pytest.mark.parametrize("container", [np.asarray, sp.csr_array])
def test_equals_the_plain_rounds(shape, weights, container):
    X, Y = make(*shape)
    W, P, Q, n_iter, objective = plain_pmllrs(X, Y, *weights)
    result, found = solve(container(X), Y, *weights)
    assert result.n_iter == n_iter < 200
    assert np.linalg.norm(found - W) < 1e-6 * np.linalg.norm(W)
    np.testing.assert_allclose(result.P, P, atol=1e-6)
    np.testing.assert_allclose(result.Q, Q, atol=1e-6)
    np.testing.assert_allclose(result.objective, objective, rtol=1e-6, atol=1e-6)


def test_labels_are_split_and_residuals_vanish():
    X, Y = make(80, 12, 5)
    result, _ = solve(X, Y, 1, 0.1, 0.01, 1.0)
    assert np.linalg.norm(Y - result.P - result.Q) < 1e-6 * np.linalg.norm(Y)
    assert result.residual[-1] < 1e-6 * np.linalg.norm(Y) < result.residual[0]


@pytest.mark.parametrize("shape", [(80, 12, 5), (40, 70, 6)])
def test_fixed_penalty_finds_the_optimum(shape):
    X, Y = make(*shape)
    eta, beta, gamma = 1.0, 0.4, 0.5
    result, W = solve(X, Y, eta, beta, gamma, 1.0, rho=1.0, max_iter=20_000, tol=1e-10)
    P = result.P
    # The predictor is optimal for its labels: the gradient is in gamma times the subgradients.
    G = eta * X.T @ (P - X @ W)
    assert np.linalg.norm(G, 2) <= gamma * (1 + 1e-6)
    assert np.vdot(G, W) == pytest.approx(gamma * np.linalg.norm(W, "nuc"), rel=1e-6)
    # Convex: no other split of the labels and no other predictor is better.
    best = value(X, W, P, Y - P, eta, beta, gamma)
    rng = np.random.default_rng(1)
    others = [(0 * P, W), (P, 0 * W), (Y, np.linalg.lstsq(X, Y, rcond=None)[0])]
    for mu in (1e-3, 1.0, 10.0):
        other, V = solve(X, Y, eta, beta, gamma, mu)
        others.append((other.P, V))
    for size in (1e-1, 1e-2, 1e-3):
        step = rng.normal(size=P.shape)
        others.append((P + size * step, W))
        others.append((P * (1 - size), W * (1 - size)))
        others.append((P + size * (X @ W - P), W))
    for P_other, W_other in others:
        assert best <= value(X, W_other, P_other, Y - P_other, eta, beta, gamma) * (1 + 1e-9)


def test_dear_noise_leaves_the_candidates_alone():
    X, Y = make(80, 12, 5)
    result, _ = solve(X, Y, 1, 50.0, 0.01, 1.0)
    np.testing.assert_allclose(result.P, Y, atol=1e-5)
    assert np.abs(result.Q).max() < 1e-5


def test_intercept_is_free():
    X, Y = make(80, 12, 5)
    shifted, _ = solve(X + 7.0, Y, 1, 0.3, 0.1, 1.0, fit_intercept=True)
    centred, W = solve(X, Y, 1, 0.3, 0.1, 1.0, fit_intercept=True)
    np.testing.assert_allclose(shifted.P, centred.P, atol=1e-7)
    mean = (centred.P - X @ W).mean(axis=0)
    np.testing.assert_allclose(centred.w[-1], centred.P.mean(axis=0), atol=1e-6)
    assert np.abs(mean).max() > 0.01


def test_single_precision():
    X, Y = make(80, 12, 5)
    wide, _ = solve(X, Y, 1, 0.3, 0.1, 1.0)
    narrow, _ = solve(X.astype(np.float32), Y, 1, 0.3, 0.1, 1.0)
    assert narrow.P.dtype == narrow.w.dtype == np.float32
    np.testing.assert_allclose(narrow.P, wide.P, atol=1e-3)
