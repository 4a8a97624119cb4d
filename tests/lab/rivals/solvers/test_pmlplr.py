"""The PML-PLR solver against its plain transcription, and what must hold for any input."""

import numpy as np
import pytest
import scipy.sparse as sp
from lab.rivals.solvers.test_pmlma import data
from reference.kernel_map import kernel_map, polar
from reference.kernel_map import neighbour_graph as plain_graph
from reference.pmlni import minmax_features
from reference.pmlplr import plain_pmlplr

from schirn.lab.rivals.solvers._anchors import anchor_map
from schirn.lab.rivals.solvers._pmlplr import pmlplr
from schirn.lab.rivals.solvers.graph import neighbour_graph
from schirn.linalg.row_space import row_space

DEFAULTS = {"alpha": 0.1, "beta": 0.05, "lam": 0.5}


def solve(X, Y, reconstruct=True, seed=0, **options):
    options = DEFAULTS | options
    found, Phi = anchor_map(X, X.shape[0], np.random.RandomState(0))
    Z = found.scaled(X)
    space = row_space(Phi, ridge=options["lam"])
    L = neighbour_graph(Z).laplacian()
    rng = np.random.RandomState(seed)
    return space, pmlplr(space, Y, L, Z if reconstruct else None, rng=rng, **options)


def plain(X, Y, rounds, reconstruct=True, seed=0, ratio=0.8, **options):
    rank = int(np.ceil(ratio * Y.shape[1]))
    rng = np.random.RandomState(seed)
    H = rng.standard_normal((rank, len(X)))
    P = polar(rng.uniform(size=(rank, Y.shape[1])))
    Phi, _ = kernel_map(X, X, np.arange(len(X)))
    _, S = plain_graph(X)
    options = DEFAULTS | options
    Z = minmax_features(X)
    return plain_pmlplr(
        Z, Phi, Y, S, H, P, **options, reconstruct=reconstruct, rounds=rounds, tol=-np.inf
    )


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize(
    ("reconstruct", "options"),
    [(True, {}), (True, {"beta": 0.01, "ratio": 0.5, "alpha": 2.0}), (False, {})],
)
def test_equals_the_plain_transcription(sparse, reconstruct, options):
    X, Y = data()
    W, F, C, loss = plain(X, Y, 3, reconstruct, **options)
    space, ours = solve(
        sp.csr_array(X) if sparse else X, Y, reconstruct, **options, max_iter=3, tol=-np.inf
    )
    np.testing.assert_allclose(space.coefficients(ours.w)[0], W, atol=1e-5 * np.abs(W).max())
    np.testing.assert_allclose(ours.pseudo_labels, F, atol=1e-5)
    np.testing.assert_allclose(ours.objective, loss, rtol=1e-6)
    if reconstruct:
        np.testing.assert_allclose(ours.C.toarray(), C, atol=1e-5)
        np.testing.assert_allclose(ours.C.sum(axis=1), 1)
        assert ours.C.nnz < C.size


def test_candidates_are_rotated_to_the_pseudo_labels():
    """Q'Y is nearer to F than Y is: one round with F = Y leaves the candidates as they are."""
    X, Y = data()
    _, ours = solve(X, Y, reconstruct=False, beta=0.0, max_iter=1)
    space, _ = solve(X, Y, reconstruct=False, max_iter=1)
    XW = space.expand(space.ridge(space.project(Y.astype(float)), DEFAULTS["lam"]))
    expected = np.where(Y == 1, np.clip((XW + Y) / 2, 0, 1), 0)
    np.testing.assert_allclose(ours.pseudo_labels, expected, atol=1e-10)


def test_without_the_reconstruction_pseudo_labels_stay_within_the_candidates():
    X, Y = data()
    Y[:, 2] = 0
    Y[7] = 0
    _, ours = solve(X, Y, reconstruct=False, beta=5.0)
    assert ((ours.pseudo_labels >= 0) & (ours.pseudo_labels <= Y)).all()
    assert ours.C is None
    assert ours.n_iter >= 6


def test_a_label_without_candidates_stays_at_zero():
    X, Y = data()
    Y[:, 2] = 0
    _, ours = solve(X, Y)
    assert not ours.pseudo_labels[Y == 0].any()
    assert np.isfinite(ours.loo_scores).all()
    assert np.isfinite(ours.objective).all()


def test_leave_one_out_scores_are_exact():
    X, Y = data(n=40)
    _, Phi = anchor_map(X, len(X), np.random.RandomState(0))
    _, ours = solve(X, Y, max_iter=1)
    for i in range(3):
        rest = np.arange(len(X)) != i
        A = Phi[rest]
        W = np.linalg.solve(A.T @ A + DEFAULTS["lam"] * np.eye(A.shape[1]), A.T @ Y[rest])
        np.testing.assert_allclose(ours.loo_scores[i], Phi[i] @ W, atol=1e-8)


@pytest.mark.parametrize("reconstruct", [True, False])
def test_single_precision_is_kept(reconstruct):
    X, Y = data()
    _, narrow = solve(X.astype(np.float32), Y, reconstruct, max_iter=3)
    _, wide = solve(X, Y, reconstruct, max_iter=3)
    assert narrow.w.dtype == narrow.pseudo_labels.dtype == narrow.loo_scores.dtype == np.float32
    np.testing.assert_allclose(narrow.loo_scores, wide.loo_scores, atol=1e-2)
