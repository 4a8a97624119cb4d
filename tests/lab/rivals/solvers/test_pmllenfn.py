"""The PML-LENFN solver against its plain transcription, and what must hold for any input."""

import numpy as np
import pytest
import scipy.sparse as sp
from lab.rivals.solvers.test_pmlma import data
from reference.pmllenfn import enhanced_labels, label_laplacian, plain_pmllenfn
from reference.pmlni import minmax_features, with_bias

from schirn.lab.rivals.solvers._pmllenfn import near_and_far, pmllenfn
from schirn.lab.rivals.solvers._scaling import biased_row_space, minmax

WEIGHTS = {"lam1": 5.0, "lam2": 1.0, "lam3": 0.01, "lam4": 10.0}


def start(X, l, k=None, seed=0):
    rng = np.random.RandomState(seed)
    k = l if k is None else k
    return rng.standard_normal((k, l)), rng.standard_normal((X.shape[1] + 1, k))


def solve(X, J, U, V, **options):
    options = WEIGHTS | options
    space = biased_row_space(X, minmax(X), ridge=options["lam1"] / 2)
    v = space.project(space.X @ V.astype(X.dtype)) / space.eigenvalues[:, None]
    return space, pmllenfn(space, J, U.astype(X.dtype), v, **options)


@pytest.mark.parametrize("include_self", [True, False])
@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("block", [2**21, 7 * 60])
def test_enhanced_labels_equal_the_plain_ones(include_self, sparse, block, monkeypatch):
    monkeypatch.setattr("schirn.linalg.arrays.BLOCK_CELLS", block)
    X, Y = data()
    expected = enhanced_labels(minmax_features(X), Y, 0.5, 0.2, 0.3, include_self)
    assert len(np.unique(expected)) > 30
    scaled = minmax(X).apply(sp.csr_array(X) if sparse else X)
    found = near_and_far(scaled, Y, nu=0.3, include_self=include_self).enhance(Y, 0.5, 0.2)
    np.testing.assert_allclose(found, expected, atol=1e-10)


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("shape", [(60, 5), (30, 50)])
@pytest.mark.parametrize("options", [{}, {"lam1": 0.5, "lam2": 0.1, "step": 0.01, "lam4": 0.1}])
def test_equals_the_plain_transcription(sparse, shape, options):
    X, Y = data(*shape)
    F = with_bias(minmax_features(X))
    J = enhanced_labels(minmax_features(X), Y)
    U, V = start(X, Y.shape[1])
    # Only the part of V in the row space matters; the solver has no other.
    inside = np.linalg.pinv(F) @ F @ V
    W, _, loss = plain_pmllenfn(F, J, U, inside, **(WEIGHTS | options), rounds=15, tol=-np.inf)
    space, ours = solve(
        sp.csr_array(X) if sparse else X, J, U, V, **options, max_iter=15, tol=-np.inf
    )
    np.testing.assert_allclose(space.coefficients(ours.w)[0], W, atol=1e-7 * np.abs(W).max())
    np.testing.assert_allclose(ours.objective, loss, rtol=1e-7)


def test_stops_when_the_objective_stalls():
    X, Y = data()
    _, ours = solve(X, Y.astype(float), *start(X, Y.shape[1]), tol=0.05)
    falls = -np.diff(ours.objective) / ours.objective[:-1]
    assert 6 <= ours.n_iter < 200
    assert falls[-1] < 0.05
    assert (falls[4:-1] >= 0.05).all()


def test_leave_one_out_scores_are_exact():
    """Row i is scored by the Sylvester equation of the other rows, with their targets."""
    X, Y = data(n=40)
    J = Y.astype(float)
    U, V = start(X, Y.shape[1])
    _, ours = solve(X, J, U, V, max_iter=1)
    F = with_bias(minmax_features(X))
    target = 1 / (1 + np.exp(-F @ V)) @ U + J
    L = label_laplacian(J)
    e, Z = np.linalg.eigh((L + L.T) / 2)
    for i in range(3):
        rest = np.arange(len(X)) != i
        A = F[rest]
        W = np.column_stack(
            [
                np.linalg.solve(
                    2 * A.T @ A + (WEIGHTS["lam1"] + WEIGHTS["lam2"] * value) * np.eye(A.shape[1]),
                    A.T @ target[rest] @ Z[:, j],
                )
                for j, value in enumerate(e)
            ]
        )
        np.testing.assert_allclose(ours.loo_scores[i], F[i] @ W @ Z.T, atol=1e-8)


def test_copies_are_near_and_rows_that_are_all_alike_harmless():
    X, Y = data(n=20)
    twice = near_and_far(np.vstack([X, X]), np.vstack([Y, 1 - Y]), nu=0.2, include_self=False)
    np.testing.assert_allclose(twice.near[:20], 1 - Y)
    np.testing.assert_allclose(twice.near[20:], Y)
    same = near_and_far(np.ones((20, 3)), Y, nu=0.2)
    np.testing.assert_allclose(same.near, np.tile(Y.mean(axis=0), (20, 1)))
    alone = near_and_far(np.ones((1, 3)), Y[:1], nu=0.2, include_self=False)
    assert (alone.near == 1).all()
    assert (alone.far == 1).all()


def test_a_label_without_candidates_and_single_precision():
    X, Y = data()
    Y[:, 1] = 0
    J = Y.astype(np.float32)
    _, narrow = solve(X.astype(np.float32), J, *start(X, Y.shape[1]), max_iter=20)
    _, wide = solve(X, J.astype(float), *start(X, Y.shape[1]), max_iter=20)
    assert narrow.w.dtype == narrow.loo_scores.dtype == np.float32
    np.testing.assert_allclose(narrow.loo_scores, wide.loo_scores, atol=1e-3)
