import numpy as np
import pytest
import scipy.sparse as sp
from reference.fpml import plain_fpml

from schirn.lab.rivals.solvers._fpml import fpml
from schirn.linalg.row_space import row_space

WEIGHTS = [(1, 1, 10), (0.1, 1, 10), (1, 2, 3)]


def make(n, d, l, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.5)
    signal = X @ rng.normal(size=(d, l)) + rng.normal(size=(n, l))
    return X, (signal > 0.5).astype(np.uint8)


def solve(X, Y, k, lam1, lam2, lam3, **options):
    space = row_space(X, ridge=lam3 / lam2)
    options.setdefault("rng", np.random.RandomState(0))
    result = fpml(space, Y, k, lam1=lam1, lam2=lam2, lam3=lam3, **options)
    return result, space.coefficients(result.w)[0]


@pytest.mark.parametrize("shape", [(80, 12, 5, 3), (40, 70, 6, 4), (12, 20, 30, 8)])
@pytest.mark.parametrize("weights", WEIGHTS)
@pytest.mark.parametrize("container", [np.asarray, sp.csr_array])
def test_equals_the_plain_sweeps(shape, weights, container):
    *shape, k = shape
    X, Y = make(*shape)
    W, C, objective = plain_fpml(X, Y, k, *weights)
    result, found = solve(container(X), Y, k, *weights)
    assert result.n_iter == len(objective) < 100
    np.testing.assert_allclose(result.objective, objective, rtol=1e-10)
    np.testing.assert_allclose(result.S @ result.G.T, C, atol=1e-9)
    assert np.linalg.norm(found - W) < 1e-9 * np.linalg.norm(W)


@pytest.mark.parametrize("weights", WEIGHTS)
def test_no_step_raises_the_objective(weights):
    X, Y = make(40, 70, 6)
    every_step = plain_fpml(X, Y, 4, *weights, sweeps=10, every_step=True)[2]
    assert (np.diff(every_step) <= 1e-9 * every_step[:-1]).all()
    for start in ("random", "svd"):
        trace = solve(X, Y, 4, *weights, start=start)[0].objective
        assert (np.diff(trace) < 0).all()


def test_predictor_is_the_ridge_on_the_factored_labels():
    X, Y = make(80, 12, 5)
    result, W = solve(X, Y, 3, 1, 2, 3)
    C = result.S @ result.G.T
    assert np.linalg.matrix_rank(C) == 3
    expected = np.linalg.solve(X.T @ X + 1.5 * np.eye(12), X.T @ C)
    np.testing.assert_allclose(W, expected, atol=1e-10)


def test_svd_start_needs_fewer_sweeps_for_the_same_objective():
    X, Y = make(80, 12, 5)
    by_chance, by_svd = (solve(X, Y, 3, 1, 1, 10, start=s)[0] for s in ("random", "svd"))
    assert by_svd.n_iter < by_chance.n_iter
    assert by_svd.objective[0] < by_chance.objective[0]
    assert by_svd.objective[-1] == pytest.approx(by_chance.objective[-1], rel=1e-3)


def test_converged_factors_have_zero_gradients():
    X, Y = make(80, 12, 5)
    lam1, lam2, lam3 = 0.5, 2.0, 3.0
    result, W = solve(X, Y, 3, lam1, lam2, lam3, start="svd", tol=1e-15, max_iter=5000)
    S, G = result.S, result.G
    B = np.linalg.lstsq(S, X, rcond=None)[0].T
    C, XW = S @ G.T, X @ W
    scale = np.linalg.norm(Y.T @ S)
    by_S = (C - Y) @ G + lam1 * (S @ B.T - X) @ B + lam2 * (C - XW) @ G
    by_G = (C - Y).T @ S + lam2 * (C - XW).T @ S
    by_W = lam2 * X.T @ (XW - C) + lam3 * W
    for gradient in (by_S, by_G, by_W):
        assert np.linalg.norm(gradient) < 1e-4 * scale


@pytest.mark.parametrize("start", ["random", "svd"])
def test_more_components_than_rank(start):
    X, Y = make(30, 2, 2)
    result, W = solve(X, Y, 9, 1, 1, 10, start=start)
    assert np.isfinite(W).all()
    assert result.objective[-1] <= np.sum(Y) + np.sum(X**2)


def test_single_precision():
    X, Y = make(80, 12, 5)
    wide, _ = solve(X, Y, 3, 1, 1, 10, start="svd", max_iter=5, tol=0)
    narrow, _ = solve(X.astype(np.float32), Y, 3, 1, 1, 10, start="svd", max_iter=5, tol=0)
    assert narrow.w.dtype == narrow.S.dtype == np.float32
    np.testing.assert_allclose(narrow.S @ narrow.G.T, wide.S @ wide.G.T, atol=1e-3)
