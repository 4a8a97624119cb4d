"""The PML-MA solver against the released steps, and what must hold for any input."""

import numpy as np
import pytest
import scipy.sparse as sp
from reference.kernel_map import kernel_map
from reference.kernel_map import neighbour_graph as plain_graph
from reference.pmlma import plain_pmlma
from sklearn.exceptions import ConvergenceWarning

from schirn.lab.rivals.solvers._anchors import anchor_map
from schirn.lab.rivals.solvers._pmlma import pmlma, weighted_space
from schirn.lab.rivals.solvers.graph import neighbour_graph

DEFAULTS = {"lam": 2.0, "alpha": 0.1, "beta": 0.05, "gamma": 1.0}


def data(n=60, d=5, l=4, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.7)
    truth = X @ rng.normal(size=(d, l)) > 1
    return X, (truth | (rng.random((n, l)) < 0.25)).astype(np.uint8)


def solve(X, Y, **options):
    options = DEFAULTS | options
    found, Phi = anchor_map(X, X.shape[0], np.random.RandomState(0))
    graph = neighbour_graph(found.scaled(X))
    space = weighted_space(Phi, graph, options["alpha"], options["gamma"])
    return space, pmlma(space, Y, graph, **options)


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"target_weight": 1.0, "lam": 5.0},
        {"alpha": 0.0, "beta": 0.0},
        {"alpha": 1.0, "beta": 1.0, "gamma": 0.1},
    ],
)
def test_equals_the_released_steps(sparse, options):
    """The two projections of the released code, with a random start, cancel."""
    X, Y = data()
    Phi, _ = kernel_map(X, X, np.arange(len(X)))
    graph = plain_graph(X)
    W, R, loss = plain_pmlma(Phi, Y, *graph, **(DEFAULTS | options), rounds=12, tol=0)
    space, ours = solve(
        sp.csr_array(X) if sparse else X, Y, **options, max_iter=len(loss), tol=-np.inf
    )
    np.testing.assert_allclose(space.coefficients(ours.w)[0], W, atol=1e-8 * np.abs(W).max())
    np.testing.assert_allclose(ours.pseudo_labels, R, atol=1e-8)
    np.testing.assert_allclose(ours.objective, loss, rtol=1e-8)


def test_stops_one_round_after_the_objective_stalls():
    X, Y = data()
    _, ours = solve(X, Y)
    falls = -np.diff(ours.objective) / ours.objective[:-1]
    assert 3 < ours.n_iter < 50
    assert falls[-2] < 1e-4
    assert (falls[:-2] >= 1e-4).all()


def test_pseudo_labels_stay_on_the_candidates():
    X, Y = data()
    Y[:, 2] = 0
    Y[7] = 0
    _, ours = solve(X, Y)
    assert not ours.pseudo_labels[Y == 0].any()
    assert np.isfinite(ours.pseudo_labels).all()
    assert np.isfinite(ours.objective).all()


def test_leave_one_out_scores_are_exact():
    """Rows are scored by the ridge on the others, with their weights and smoothed targets."""
    X, Y = data(n=40)
    _, Phi = anchor_map(X, len(X), np.random.RandomState(0))
    graph = neighbour_graph(anchor_map(X, len(X), np.random.RandomState(0))[0].scaled(X))
    _, ours = solve(X, Y, max_iter=1)
    weight = 1 + DEFAULTS["alpha"] * graph.degree
    target = (Y + DEFAULTS["alpha"] * (graph.S @ Y)) / weight[:, None]
    for i in range(3):
        rest = np.arange(len(X)) != i
        A, c = Phi[rest], weight[rest, None]
        system = A.T @ (c * A) + DEFAULTS["gamma"] * np.eye(A.shape[1])
        W = np.linalg.solve(system, A.T @ (c * target[rest]))
        np.testing.assert_allclose(ours.loo_scores[i], Phi[i] @ W, atol=1e-8)


def test_too_large_a_weight_of_the_rank_warns():
    X, Y = data()
    with pytest.warns(ConvergenceWarning, match="lam=1000 shrinks all pseudo-labels to zero in r"):
        _, ours = solve(X, Y, lam=1000.0)
    assert not ours.pseudo_labels.any()
    assert np.isfinite(ours.loo_scores).all()


def test_single_precision_is_kept():
    X, Y = data()
    _, narrow = solve(X.astype(np.float32), Y, max_iter=8)
    _, wide = solve(X, Y, max_iter=8)
    assert narrow.w.dtype == narrow.pseudo_labels.dtype == narrow.loo_scores.dtype == np.float32
    np.testing.assert_allclose(narrow.loo_scores, wide.loo_scores, atol=1e-3)
