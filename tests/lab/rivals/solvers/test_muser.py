"""The MUSER solver against explicit factors, and the optimality of its steps."""

import numpy as np
import pytest
from reference.muser import plain_feature_subspace, plain_muser, plain_objective

from schirn.lab.rivals.solvers._muser import muser
from schirn.lab.rivals.solvers.graph import neighbour_graph
from schirn.linalg.row_space import row_space

WEIGHTS = {"alpha": 3.0, "beta": 0.4, "gamma": 0.7}


def data(n=40, d=6, l=5, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    truth = X @ rng.normal(size=(d, l)) > 0.5
    return X, (truth | (rng.random((n, l)) < 0.25)).astype(float)


def solve(X, Y, c, m, fit_intercept=False, **options):
    options = WEIGHTS | options
    L = neighbour_graph(X).laplacian()
    space = row_space(X, ridge=options["gamma"], fit_intercept=fit_intercept)
    return space, L, muser(space, Y, L, n_components=c, n_directions=m, **options)


@pytest.mark.parametrize(("c", "m"), [(3, 2), (5, 5), (4, 1)])
def test_equals_explicit_factors(c, m):
    X, Y = data()
    space, L, ours = solve(X, Y, c, m, max_iter=8, tol=0)
    U, P, Q, W, objective = plain_muser(X, Y, L.toarray(), c, m, **WEIGHTS, rounds=8)
    np.testing.assert_allclose(ours.objective, objective, rtol=1e-7)
    np.testing.assert_allclose(ours.U @ ours.P, U @ P, atol=1e-6)
    B = space.coefficients(ours.w)[0]
    np.testing.assert_allclose(B @ ours.P, Q @ W @ P, atol=1e-6)
    assert ours.rank == np.linalg.matrix_rank(B, tol=1e-8) == m
    np.testing.assert_allclose(Q.T @ Q, np.eye(m), atol=1e-12)


def test_no_factor_nearby_is_better():
    """At the end of the rounds a small change of any factor raises the objective."""
    X, Y = data()
    _, L, ours = solve(X, Y, 3, 2, max_iter=5000, tol=1e-15)
    Q, W = plain_feature_subspace(X, ours.U, 2, WEIGHTS["gamma"])
    best = plain_objective(X, Y, L.toarray(), ours.U, ours.P, Q, W, **WEIGHTS)
    assert best == pytest.approx(ours.objective[-1], rel=1e-9)
    rng = np.random.default_rng(1)
    for _ in range(50):
        factors = [ours.U, ours.P, Q, W]
        changed = [A + 1e-3 * rng.normal(size=A.shape) for A in factors]
        changed[2] = np.linalg.qr(changed[2])[0] * np.sign(np.diag(np.linalg.qr(changed[2])[1]))
        assert plain_objective(X, Y, L.toarray(), *changed, **WEIGHTS) > best


def test_the_objective_falls():
    X, Y = data(n=80, l=7, seed=2)
    _, _, ours = solve(X, Y, 4, 2, fit_intercept=True, max_iter=30, tol=0)
    assert (np.diff(ours.objective) <= 1e-9 * ours.objective[0]).all()


def test_leave_one_out_scores_leave_the_row_out():
    """With U and P fixed and no bound on the rank they are those of a ridge without the row."""
    X, Y = data(n=25)
    _, _, ours = solve(X, Y, 5, 5)
    for i in (0, 11, 24):
        rest = np.arange(25) != i
        A = X[rest].T @ X[rest] + WEIGHTS["gamma"] * np.eye(X.shape[1])
        B = np.linalg.solve(A, X[rest].T @ ours.U[rest])
        np.testing.assert_allclose(ours.loo_scores[i], X[i] @ B @ ours.P, atol=1e-8)


def test_rows_without_candidates_and_copies_of_labels_are_no_trouble():
    X, Y = data()
    Y[:, 1] = Y[:, 0]
    Y[:, 2] = 0
    Y[:5] = 0
    _, _, ours = solve(X, Y, 5, 3)
    assert np.isfinite(ours.loo_scores).all()
