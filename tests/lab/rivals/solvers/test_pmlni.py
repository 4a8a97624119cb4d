import numpy as np
import pytest
import scipy.sparse as sp
from reference.pmlni import minmax_features, plain_pmlni, value, with_bias

from schirn.lab.rivals.solvers._pmlni import pmlni
from schirn.lab.rivals.solvers._scaling import biased_row_space, identity, minmax

WEIGHTS = [(10, 0.5, 0.5), (1, 0.5, 0.1), (1, 2, 0.3), (1, 0.5, 1)]


def make(n, d, l, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.5)
    signal = X @ rng.normal(size=(d, l)) + rng.normal(size=(n, l))
    return X, (signal > 0.5).astype(np.uint8)


def solve(X, Y, lam, beta, gamma, scale=minmax, **options):
    space = biased_row_space(X, scale(X), ridge=lam)
    return pmlni(space, Y, lam=lam, beta=beta, gamma=gamma, **options)


@pytest.mark.parametrize("shape", [(80, 12, 5), (40, 70, 6), (12, 20, 30)])
@pytest.mark.parametrize("weights", WEIGHTS)
@pytest.mark.parametrize("scale", [minmax, identity])
def test_equals_the_plain_rounds(shape, weights, scale):
    X, Y = make(*shape)
    F = with_bias(minmax_features(X) if scale is minmax else X)
    U, V, n_iter, objective = plain_pmlni(F, Y, *weights)
    for features in (X, sp.csr_array(X)):
        result = solve(features, Y, *weights, scale=scale)
        assert result.n_iter == n_iter < 500
        size = np.linalg.norm(U + V)
        assert np.linalg.norm(result.U - U.T) < 1e-9 * size
        assert np.linalg.norm(result.V - V.T) < 1e-9 * size
        np.testing.assert_allclose(result.objective, objective, rtol=1e-6)


@pytest.mark.parametrize(("n", "d"), [(80, 12), (40, 70)])
@pytest.mark.parametrize("weights", WEIGHTS)
def test_optimality_conditions(n, d, weights):
    X, Y = make(n, d, 5)
    lam, beta, gamma = weights
    # A penalty that stays put converges to the optimum itself.
    result = solve(X, Y, *weights, mu=1.0, rho=1.0, max_iter=20_000, tol=1e-12, tol_change=1e-11)
    U, V, F = result.U, result.V, with_bias(minmax_features(X))
    G = F.T @ (Y - F @ (U + V)) - lam * (U + V)
    s = np.linalg.svd(U, compute_uv=False)
    assert np.linalg.norm(G, 2) <= beta * (1 + 1e-6)
    assert np.vdot(G, U) == pytest.approx(beta * s.sum(), rel=1e-6, abs=1e-9)
    assert np.abs(G).max() <= gamma * (1 + 1e-6)
    np.testing.assert_allclose(G[V != 0], gamma * np.sign(V[V != 0]), atol=1e-6)


@pytest.mark.parametrize("weights", WEIGHTS)
def test_growing_penalty_stops_near_the_optimum(weights):
    X, Y = make(80, 12, 5)
    F = with_bias(minmax_features(X))
    exact = solve(X, Y, *weights, mu=1.0, rho=1.0, max_iter=20_000, tol=1e-12, tol_change=1e-11)
    quick = solve(X, Y, *weights)
    best, found = (value(F, Y, (r.U + r.V).T, r.U.T, r.V.T, *weights) for r in (exact, quick))
    assert best <= found * (1 + 1e-12)
    assert found < best * 1.01


def test_noise_identifier_is_zero_where_entries_cost_more():
    X, Y = make(80, 12, 5)
    assert not solve(X, Y, 1, 0.5, 1.0).V.any()
    assert not solve(X, Y, 1, 0.5, 0.5).V.any()
    assert solve(X, Y, 1, 0.5, 0.1).V.any()


@pytest.mark.parametrize("gamma", [1e-12, 0.5e-12])
@pytest.mark.parametrize("shape", [(80, 12, 5), (40, 70, 6)])
def test_without_norms_it_is_ridge_regression(gamma, shape):
    X, Y = make(*shape)
    F = with_bias(minmax_features(X))
    result = solve(X, Y, 3.0, 1e-12, gamma)
    expected = np.linalg.solve(F.T @ F + 3.0 * np.eye(F.shape[1]), F.T @ Y)
    assert np.linalg.norm(result.U + result.V - expected) < 1e-9 * np.linalg.norm(expected)
    loo = [
        F[i] @ np.linalg.solve(rest.T @ rest + 3.0 * np.eye(F.shape[1]), rest.T @ labels)
        for i in range(5)
        for rest, labels in [(np.delete(F, i, axis=0), np.delete(Y, i, axis=0))]
    ]
    seen = F @ result.V
    np.testing.assert_allclose((result.loo_scores + seen)[:5], loo, atol=1e-8)


def test_leave_one_out_scores_are_near_those_of_a_refit():
    X, Y = make(60, 8, 4)
    features = minmax_features(X)
    refit, in_sample = [], []
    full = solve(features, Y, 10.0, 0.5, 0.5, scale=identity)
    for i in range(10):
        less = np.delete(features, i, axis=0), np.delete(Y, i, axis=0)
        U = solve(*less, 10.0, 0.5, 0.5, scale=identity).U
        refit.append(np.append(features[i], 1) @ U)
        in_sample.append(np.append(features[i], 1) @ full.U)
    error = np.abs(full.loo_scores[:10] - refit).max()
    assert error < 0.1 * np.abs(np.subtract(in_sample, refit)).max()


def test_single_precision():
    X, Y = make(80, 12, 5)
    for weights in WEIGHTS:
        wide, narrow = solve(X, Y, *weights), solve(X.astype(np.float32), Y, *weights)
        assert narrow.U.dtype == np.float32
        assert narrow.loo_scores.dtype == np.float32
        assert np.linalg.norm(narrow.U - wide.U) < 1e-3 * np.linalg.norm(wide.U + wide.V)
