"""The GLC solver against its plain transcription and the facts known about it."""

import numpy as np
import pytest
import scipy.sparse as sp
from reference.glc import cosine_laplacian, plain_glc

from schirn.lab.rivals.solvers._glc import glc, label_laplacian
from schirn.linalg.row_space import ridge, row_space

DEFAULTS = {"alpha": 1.0, "beta": 0.1, "gamma": 0.1, "eta": 1.0}


def data(n=60, d=9, l=6, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.6)
    truth = X @ rng.normal(size=(d, l)) > 1
    return X, (truth | (rng.random((n, l)) < 0.25)).astype(float)


def solve(X, Y, *, fit_intercept=False, **options):
    options = DEFAULTS | options
    space = row_space(X, ridge=options["eta"], fit_intercept=fit_intercept)
    return space, glc(space, Y, **options)


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("shape", [(60, 9), (30, 50)])
@pytest.mark.parametrize("manifold", ["weights", "outputs"])
@pytest.mark.parametrize(
    "options", [{}, {"alpha": 5.0, "beta": 0.3, "gamma": 2.0, "eta": 10.0}, {"max_iter": 40}]
)
def test_equals_the_plain_transcription(sparse, shape, manifold, options):
    X, Y = data(*shape)
    X = sp.csr_array(X) if sparse else X
    space, ours = solve(X, Y, manifold=manifold, **options)
    p = DEFAULTS | {k: v for k, v in options.items() if k in DEFAULTS}
    W, Z, J, E, objective, residual = plain_glc(
        X,
        Y,
        **p,
        L=cosine_laplacian(Y),
        outputs=manifold == "outputs",
        rounds=options.get("max_iter", 100),
    )
    assert E.any()
    assert np.abs(Z - np.eye(len(Z))).max() > 0.1
    np.testing.assert_allclose(space.coefficients(ours.w)[0], W, atol=1e-6 * np.abs(W).max())
    np.testing.assert_allclose(ours.Z, Z, atol=1e-6)
    np.testing.assert_allclose(ours.E, E, atol=1e-6)
    assert ours.n_iter == len(objective)
    np.testing.assert_allclose(ours.objective, objective, rtol=1e-6)
    np.testing.assert_allclose(ours.residual, residual, atol=1e-6)
    assert ours.rank == np.linalg.matrix_rank(J, tol=1e-9)


def test_constraints_hold_at_the_end():
    X, Y = data()
    _, ours = solve(X, Y)
    assert ours.n_iter < 100
    assert ours.residual[-1] < 1e-5
    assert ((ours.E >= 0) & (ours.E <= Y)).all()
    np.testing.assert_allclose(Y @ ours.Z + ours.E, Y, atol=1e-5)


@pytest.mark.parametrize("manifold", ["weights", "outputs"])
def test_weights_solve_their_equation(manifold):
    X, Y = data()
    space, ours = solve(X, Y, manifold=manifold, gamma=3.0, max_iter=1)
    # In the first round Z is the identity.
    W, L = space.coefficients(ours.w)[0], label_laplacian(Y)
    left = X.T @ X if manifold == "outputs" else np.eye(X.shape[1])
    gradient = X.T @ (X @ W - Y) + W + 3.0 * left @ W @ L
    np.testing.assert_allclose(gradient, 0, atol=1e-9)


@pytest.mark.parametrize("options", [{"alpha": 0.0, "beta": 50.0}, {"alpha": 1e-9, "beta": 1e9}])
def test_dear_noise_and_free_rank_give_ridge(options):
    X, Y = data()
    space, ours = solve(X, Y, gamma=0.0, **options)
    assert not ours.E.any()
    assert ours.rank == Y.shape[1]
    np.testing.assert_allclose(ours.w, ridge(space, Y, 1.0).w, atol=1e-4)


def test_a_large_alpha_ends_at_rank_zero():
    X, Y = data()
    _, ours = solve(X, Y, alpha=1e3)
    assert ours.rank == 0
    np.testing.assert_allclose(ours.Z, 0, atol=1e-4)
    np.testing.assert_allclose(ours.E, Y, atol=1e-4)


@pytest.mark.parametrize("manifold", ["weights", "outputs"])
@pytest.mark.parametrize("shape", [(40, 6), (40, 60)])
@pytest.mark.parametrize("fit_intercept", [False, True])
def test_leave_one_out_scores_are_exact(manifold, shape, fit_intercept):
    X, Y = data(*shape)
    options = {"manifold": manifold, "gamma": 2.0, "fit_intercept": fit_intercept, "max_iter": 1}
    _, ours = solve(X, Y, **options)
    L = label_laplacian(Y)
    for i in range(3):
        rest = np.arange(len(X)) != i
        W = weights(X[rest], Y[rest], L, manifold, fit_intercept)
        np.testing.assert_allclose(ours.loo_scores[i], X[i] @ W[:-1] + W[-1], atol=1e-8)


def weights(X, Y, L, manifold, fit_intercept):
    """W over the intercept for eta = 1 and gamma = 2, by one system for all of its entries."""
    A = np.column_stack([X, np.full(len(X), float(fit_intercept))])
    ridged = np.diag(np.append(np.ones(X.shape[1]), 0.0 if fit_intercept else 1.0))
    M, eye = A.T @ A, np.eye(len(L))
    graph = np.kron(M if manifold == "outputs" else ridged, 2.0 * L)
    system = np.kron(M + ridged, eye) + graph
    return np.linalg.solve(system, (A.T @ Y).ravel()).reshape(-1, len(L))


def test_nearest_labels_only():
    _, Y = data()
    full, near = label_laplacian(Y), label_laplacian(Y, 2)
    np.testing.assert_allclose(full, cosine_laplacian(Y), atol=1e-12)
    np.testing.assert_array_equal(near, near.T)
    np.testing.assert_allclose(near.sum(axis=1), 0, atol=1e-12)
    edges = (near - np.diag(np.diag(near)) < 0).sum(axis=1)
    assert edges.min() >= 2
    assert edges.sum() < 30
    np.testing.assert_array_equal(label_laplacian(Y, 5), full)


def test_a_label_without_candidates_has_no_edges():
    L = label_laplacian(np.array([[1.0, 0.0, 1.0], [1.0, 0.0, 0.0]]))
    assert not L[1].any()
    assert np.isfinite(L).all()


def test_single_precision_is_kept():
    X, Y = data()
    narrow, ours = solve(X.astype(np.float32), Y)
    space, wide = solve(X, Y)
    assert ours.w.dtype == ours.loo_scores.dtype == ours.E.dtype == np.float32
    np.testing.assert_allclose(narrow.expand(ours.w), space.expand(wide.w), atol=1e-2)


@pytest.mark.parametrize("X", [np.zeros((12, 3)), np.ones((12, 3)), np.eye(12)[:, :1]])
def test_features_that_say_nothing(X):
    Y = np.tile([1.0, 0.0, 1.0], (12, 1))
    _, ours = solve(X, Y)
    assert np.isfinite(ours.loo_scores).all()
    assert np.isfinite(ours.objective).all()
