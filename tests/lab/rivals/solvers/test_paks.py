"""The PAKS solver against its plain transcription and the facts known about it."""

import numpy as np
import pytest
import scipy.sparse as sp
from reference.paks import plain_paks, ridge

from schirn.lab.rivals.solvers._paks import (
    paks,
    split_at_one,
)
from schirn.linalg.row_space import row_space

DEFAULTS = {"alpha": 0.1, "beta": 0.01, "eta": 1.0}


def data(n=50, d=8, l=5, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.6)
    truth = X @ rng.normal(size=(d, l)) > 1
    return X, (truth | (rng.random((n, l)) < 0.25)).astype(float)


def solve(X, Y, *, fit_intercept=False, solver=paks, **options):
    space = row_space(X, ridge=0.1, fit_intercept=fit_intercept)
    return space, solver(space, Y, **(DEFAULTS | options))


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("shape", [(50, 8), (30, 60)])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"alpha": 0.02, "beta": 0.3, "eta": 20.0},
        {"membership": "disjoint", "beta": 0.1},
        {"gamma": 0.5},
        {"mu": 0.5, "rho": 1.05},
    ],
)
def test_equals_the_plain_transcription(sparse, shape, options):
    X, Y = data(*shape)
    Y[[3, 7]] = 0
    _, E, J, W, objective = plain_paks(X, Y, **(DEFAULTS | options), rounds=30, tol=0)
    assert np.linalg.matrix_rank(J, tol=1e-9) > 0
    space, ours = solve(sp.csr_array(X) if sparse else X, Y, **options, max_iter=30, tol=0)
    scale = np.abs(W).max()
    np.testing.assert_allclose(space.coefficients(ours.w)[0], W, atol=1e-6 * scale)
    np.testing.assert_allclose(ours.outliers, np.linalg.norm(E, axis=1), atol=1e-6)
    assert ours.rank == np.linalg.matrix_rank(J, tol=1e-9)
    np.testing.assert_allclose(ours.objective, objective, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("membership", ["jaccard", "disjoint"])
def test_blocks_of_rows_change_nothing(monkeypatch, membership):
    X, Y = data()
    options = {"membership": membership, "beta": 0.3, "max_iter": 30, "tol": 0}
    _, whole = solve(X, Y, **options)
    monkeypatch.setattr("schirn.linalg.arrays.BLOCK_CELLS", 7 * len(X))
    _, ours = solve(X, Y, **options)
    np.testing.assert_allclose(ours.w, whole.w, atol=1e-9)
    np.testing.assert_allclose(ours.objective, whole.objective, rtol=1e-9)


def test_stops_about_where_the_transcription_does():
    X, Y = data()
    _, ours = solve(X, Y)
    plain = plain_paks(X, Y, **DEFAULTS)[-1]
    assert abs(ours.n_iter - len(plain)) <= 2
    assert ours.residual[-1] < 1e-4 <= ours.residual[-2]


def test_an_outlying_row_is_given_up():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 2)) @ rng.normal(size=(2, 10))
    Y = np.ones((60, 2))
    X[5] += 3 * rng.normal(size=10)
    _, ours = solve(X, Y, alpha=0.05)
    assert ours.outliers.argmax() == 5
    assert ours.outliers[5] > 5 * np.delete(ours.outliers, 5).max()


@pytest.mark.parametrize("shape", [(40, 6), (30, 50)])
@pytest.mark.parametrize("fit_intercept", [False, True])
def test_leave_one_out_scores_are_exact(shape, fit_intercept):
    X, Y = data(*shape)
    A = X - X.mean(axis=0) if fit_intercept else X
    options = {"max_iter": 20, "tol": 0}
    ZX = plain_paks(A, Y, **DEFAULTS, rounds=20, tol=0)[0] @ A
    space, ours = solve(X, Y, fit_intercept=fit_intercept, **options)
    for i in range(3):
        rest = np.arange(len(X)) != i
        np.testing.assert_allclose(
            ours.loo_scores[i], A[i] @ ridge(ZX[rest], Y[rest], 1.0), atol=1e-6
        )
    W, b = space.coefficients(ours.w)
    np.testing.assert_allclose(X @ W + b, A @ ridge(ZX, Y, 1.0), atol=1e-6)


def test_split_at_one_is_the_singular_value_shrinkage():
    rng = np.random.default_rng(0)
    A = rng.normal(size=(60, 60)) / 8
    U, s, Vt = np.linalg.svd(A)
    assert s[0] > 1.1
    inner = A.copy()
    found = split_at_one(inner)
    np.testing.assert_allclose(found.outer, (U * np.maximum(s - 1, 0)) @ Vt, atol=1e-10)
    np.testing.assert_allclose(inner, (U * np.minimum(s, 1)) @ Vt, atol=1e-10)
    assert found.rank == np.sum(s > 1)
    np.testing.assert_allclose(found.excess, np.maximum(s - 1, 0).sum())


def test_a_matrix_inside_the_ball_is_left_alone():
    A = np.random.default_rng(0).normal(size=(60, 60)) / 30
    inner = A.copy()
    found = split_at_one(inner)
    np.testing.assert_array_equal(inner, A)
    assert np.linalg.norm(A) > 1
    assert found.rank == found.excess == 0
    assert not found.outer.any()


def test_single_precision_is_kept():
    X, Y = data()
    narrow, ours = solve(X.astype(np.float32), Y)
    space, wide = solve(X, Y)
    assert ours.w.dtype == ours.loo_scores.dtype == np.float32
    np.testing.assert_allclose(narrow.expand(ours.w), space.expand(wide.w), atol=1e-4)


@pytest.mark.parametrize("X", [np.zeros((12, 3)), np.ones((12, 3)), np.eye(12)[:, :1]])
@pytest.mark.parametrize("fit_intercept", [False, True])
def test_features_that_say_nothing(X, fit_intercept):
    Y = np.tile([1.0, 0.0, 1.0], (12, 1))
    _, ours = solve(X, Y, fit_intercept=fit_intercept)
    assert np.isfinite(ours.loo_scores).all()
    assert np.isfinite(ours.objective).all()
