"""PML-MA: pseudo-labels aligned with a kernel ridge regression over a neighbour graph.

The paper aligns features and pseudo-labels through two projections P1 and P2. P2 is square and
orthogonal whenever the map has at least as many columns as there are labels, and then cancels:
W = P1 P2' solves a ridge regression on rows of weight 1 + alpha (degree), with targets that the
graph smooths. So the map, multiplied by the root of these weights, is factored once, and a round is
four products with the factor.
"""

import warnings

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from schirn._input import Array
from schirn._progress import track
from schirn.lab.rivals.solvers._anchors import AnchorResult
from schirn.lab.rivals.solvers.graph import NeighbourGraph
from schirn.lab.rivals.solvers.prox import polar_factor, singular_value_threshold
from schirn.linalg.row_space import RowSpace, row_space


def weighted_space(Phi: Array, graph: NeighbourGraph, alpha: float, gamma: float) -> RowSpace:
    """Factor the map with its rows multiplied by the roots of their weights."""
    return row_space(Phi * _roots(graph, alpha), ridge=gamma)


def pmlma(
    space: RowSpace,
    Y: Array,
    graph: NeighbourGraph,
    *,
    lam: float,
    alpha: float,
    beta: float,
    gamma: float,
    target_weight: float = 2.0,
    max_iter: int = 50,
    tol: float = 1e-4,
) -> AnchorResult:
    """Lower ||X W - R||^2 + ||Y - R Q'||^2 + lam ||R||_* + gamma ||W||^2 + the two terms below.

    beta ||X'D - V R'||^2 draws every row to the prototypes V = X'R / sum_i R_i of its labels, and
    alpha tr((X W)'Ds X W + R'Ds R - 2 (X W)'S R) smooths over the graph, for R on the candidates,
    an orthogonal Q, and D and Ds the diagonal matrices of the row sums of R and of the degrees.

    Parameters
    ----------
    space : RowSpace
        Of `weighted_space`, for this alpha and a ridge up to gamma.
    Y : (n, l) array
        Candidates, 0/1.
    graph : NeighbourGraph
    target_weight : float
        Weight of the candidates in the step of R: 2 in the released code, 1 by the objective.
    tol : float
        Stop when the relative fall of the objective in the round before the last is below it.
    """
    Y = np.ascontiguousarray(Y != 0, dtype=space.dtype)
    degree = graph.degree[:, None].astype(space.dtype)
    S = graph.S
    root = _roots(graph, alpha)
    l = Y.shape[1]
    squares = space.diagonal(np.ones_like(space.eigenvalues))[:, None] / root**2
    R = Y
    objective = list[float]()
    for n_iter in track(range(1, max_iter + 1), "round", may_stop=tol > 0):
        smooth = R + alpha * (S @ R)
        projected = space.project(np.hstack([smooth, R]) / root)
        w = space.ridge(projected[:, :l], gamma)
        size = R.sum(axis=0)
        v = projected[:, l:] / np.where(size > 0, size, np.inf)
        scores = space.expand(np.hstack([w, v])) / root
        XW = scores[:, :l]
        XV = scores[:, l:]
        VV = v.T @ v
        YQ = Y @ polar_factor(R.T @ Y)
        SXW = S @ XW
        target = smooth
        pull = XW + target_weight * YQ + alpha * SXW + beta * R.sum(axis=1, keepdims=True) * XV
        grad = 2 * (2 * R + alpha * degree * R + beta * (R @ VV) - pull)
        step = 2 * float(np.linalg.norm(2 * np.eye(l) + beta * VV)) + alpha * float(degree.max())
        shrunk = singular_value_threshold(R - grad / step, lam / step)
        # A pseudo-label above one is pushed back; one that reached zero stays there.
        pushed = np.maximum(R - 1, 0) / np.maximum(R, 1)
        R = np.where((Y > 0) & (R != 0), shrunk - pushed, 0)
        mass = R.sum(axis=1, keepdims=True)
        price = np.sum((XW - R) ** 2 + Y + R**2 - 2 * YQ * R, dtype=np.float64)
        price += lam * np.linalg.norm(R, axis=0).sum() + gamma * np.sum(w**2, dtype=np.float64)
        distances = mass**2 * squares + np.sum((R @ VV - 2 * mass * XV) * R, axis=1, keepdims=True)
        price += beta * distances.sum(dtype=np.float64)
        price += alpha * np.sum(degree * (XW**2 + R**2) - 2 * SXW * R, dtype=np.float64)
        objective.append(float(price))
        if not R.any():
            warnings.warn(
                f"lam={lam:g} shrinks all pseudo-labels to zero in round {n_iter}; the weights are "
                f"those of the round before, choose a smaller lam",
                ConvergenceWarning,
                stacklevel=4,
            )
            break
        if n_iter > 2 and objective[-3] - objective[-2] < tol * objective[-3]:
            break
    loo_scores = space.leave_one_out(target / root, XW * root, gamma) / root
    return AnchorResult(w, R, loo_scores, n_iter, np.array(objective))


def _roots(graph: NeighbourGraph, alpha: float) -> Array:
    return np.sqrt(1 + alpha * graph.degree)[:, None].astype(graph.S.dtype)
