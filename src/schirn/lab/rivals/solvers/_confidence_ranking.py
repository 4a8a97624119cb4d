"""PML-lc and PML-fp: a ranking weighted by confidences, and confidences moved by its loss.

The pairs of a row need no loop over labels, and the weights are found in the coordinates of the
factored features, divided by the root of the ridge's own curvature: a few dozen steps of L-BFGS.
"""

from typing import NamedTuple, Protocol

import numpy as np
from scipy.optimize import minimize

from schirn._input import Array
from schirn._progress import track
from schirn.lab.rivals.solvers.prox import project_simplex
from schirn.linalg.arrays import row_slices
from schirn.linalg.row_space import RowSpace

_W_STEPS = 500
_P_STEPS = 200
_OUTSIDE = -1e6


class ConfidenceRankingResult(NamedTuple):
    """Coordinates w of the weights, confidences P (n x l), and scores of the training rows."""

    w: Array
    P: Array
    scores: Array
    n_iter: int
    objective: Array


class Structure(Protocol):
    """A convex term R(P) that ties the confidences together."""

    curvature: float
    """Largest curvature of R."""

    def update(self, P: Array) -> None:
        """Minimise R over what it has besides P."""

    def gradient(self, P: Array) -> Array:
        """Return dR/dP."""

    def price(self, P: Array) -> float:
        """Return R(P)."""


class LabelCorrelation:
    r"""gamma/4 sum_i sum_jk S_jk (P_ij/sqrt(s_j) - P_ik/sqrt(s_k))^2, s the column sums of S.

    S_jk is the cosine of two columns of candidates, so a candidate is doubted in rows that do not
    list the labels it usually comes with.
    """

    def __init__(self, space: RowSpace, Y: Array, gamma: float):
        norms = np.sqrt(np.maximum(Y.sum(axis=0), 1))
        S = (Y / norms).T @ (Y / norms)
        np.fill_diagonal(S, 0)
        roots = np.sqrt(np.maximum(S.sum(axis=0), np.finfo(S.dtype).tiny))
        self.L = gamma * (np.diag((S.sum(axis=0) > 0).astype(S.dtype)) - S / np.outer(roots, roots))
        self.curvature = 2 * gamma

    def update(self, P: Array) -> None:
        """Nothing but P enters."""

    def gradient(self, P: Array) -> Array:
        """Return P L."""
        return P @ self.L

    def price(self, P: Array) -> float:
        """Return 1/2 tr(P L P')."""
        return float(np.sum(self.gradient(P) * P, dtype=np.float64)) / 2


class FeaturePrototypes:
    r"""gamma/s sum_ij P_ij (||x_i - m_j||^2 - ||x_i - m||^2), m the mean row, s the variance.

    m_j is the mean of the rows with label j, weighted by their confidences, which minimises the
    term. A candidate is doubted in rows that are nearer to the mean of all rows than to m_j.
    """

    curvature = 0.0

    def __init__(self, space: RowSpace, Y: Array, gamma: float):
        n = space.shape[0]
        self.space = space
        self.mean = space.project(np.ones((n, 1), dtype=space.dtype)) / n
        variance = float(space.eigenvalues.sum()) / n - float(np.sum(self.mean**2))
        self.weight = gamma / max(variance, float(np.finfo(space.dtype).tiny))

    def update(self, P: Array) -> None:
        """Move the prototypes to the weighted means of their rows."""
        total = P.sum(axis=0)
        M = np.where(total > 0, self.space.project(P) / np.maximum(total, 1e-12), self.mean)
        squares = np.sum(M**2, axis=0) - np.sum(self.mean**2)
        self.D = self.weight * (squares - 2 * self.space.expand(M - self.mean))

    def gradient(self, P: Array) -> Array:
        """Return the weighted differences of squared distances."""
        return self.D

    def price(self, P: Array) -> float:
        """Return the sum of P times the differences."""
        return float(np.sum(P * self.D, dtype=np.float64))


def confidence_ranking(
    space: RowSpace,
    Y: Array,
    structure: Structure,
    *,
    lam: float,
    alpha: float,
    max_iter: int = 10,
    tol: float = 1e-4,
) -> ConfidenceRankingResult:
    """Minimise sum_ij P_ij E_ij(W) + lam/2 ||W||^2 + alpha/2 ||Y - P||^2 + R(P) over W and P.

    E_ij is the mean of max(0, 1 - f_ij + f_ik)^2 over the labels k outside the candidates of row i,
    with scores f = X W. 0 <= P <= Y, and the confidences of a row with candidates sum to at least
    one. Each step lowers the objective.

    Parameters
    ----------
    space : RowSpace
        The factored X, without an intercept.
    Y : (n, l) array
        Candidates, 0/1.
    structure : Structure
        The term R.
    tol : float
        Stop when the objective falls by less than this share of itself.
    """
    Y = np.ascontiguousarray(Y, dtype=space.dtype)
    P = Y
    w = np.zeros((space.shape[1], Y.shape[1]), dtype=space.dtype)
    objective: list[float] = []
    for _ in track(range(max_iter), "round", may_stop=tol > 0):
        w = _weight_step(space, Y, P, w, lam)
        scores = space.expand(w)
        E = ranking_errors(scores, Y, P)[0]
        structure.update(P)
        P = _confidence_step(Y, E, P, structure, alpha)
        price = float(np.sum(P * E + alpha / 2 * (Y - P) ** 2, dtype=np.float64))
        price += lam / 2 * float(np.sum(w**2, dtype=np.float64)) + structure.price(P)
        objective.append(price)
        if len(objective) > 1 and objective[-2] - price <= tol * abs(objective[-2]):
            break
    return ConfidenceRankingResult(w, P, scores, len(objective), np.array(objective))


def ranking_errors(scores: Array, Y: Array, P: Array) -> tuple[Array, Array]:
    """E (n x l), and the gradient of sum_ij P_ij E_ij with respect to the scores."""
    E = np.zeros_like(Y)
    gradient = np.zeros_like(Y)
    for rows in row_slices(len(Y), Y.shape[1] ** 2):
        f = scores[rows]
        absent = 1 - Y[rows]
        i, j = np.nonzero(Y[rows])
        share = 1 / np.maximum(absent.sum(axis=1), 1)[i]
        margins = np.maximum(1 - f[i, j][:, None] + f[i], 0) * absent[i]
        E[rows][i, j] = share * np.sum(margins**2, axis=1)
        pulls = (2 * share * P[rows][i, j])[:, None] * margins
        gradient[rows][i, j] = -pulls.sum(axis=1)
        starts = np.flatnonzero(np.diff(i, prepend=-1))
        if len(starts):
            gradient[rows][i[starts]] += np.add.reduceat(pulls, starts, axis=0)
    return E, gradient


def _weight_step(space: RowSpace, Y: Array, P: Array, w: Array, lam: float) -> Array:
    """Minimise sum_ij P_ij E_ij + lam/2 ||w||^2 over w."""
    roots = np.sqrt(space.eigenvalues + lam)[:, None]

    def value(u: Array) -> tuple[float, Array]:
        w = (u.reshape(roots.size, -1) / roots).astype(space.dtype)
        E, gradient = ranking_errors(space.expand(w), Y, P)
        loss = np.sum(P * E, dtype=np.float64) + lam / 2 * np.sum(w**2, dtype=np.float64)
        slope = (space.project(gradient) + lam * w) / roots
        return float(loss), slope.ravel().astype(np.float64)

    options = {"maxiter": _W_STEPS, "ftol": 1e-12, "gtol": 1e-8}
    start = (w * roots).ravel().astype(np.float64)
    u = minimize(value, start, jac=True, method="L-BFGS-B", options=options).x
    return (u.reshape(roots.size, -1) / roots).astype(space.dtype)


def _confidence_step(Y: Array, E: Array, P: Array, structure: Structure, alpha: float) -> Array:
    """Projected gradient steps on P; one step is exact if R is linear."""
    length = 1 / (alpha + structure.curvature)
    for _ in range(_P_STEPS):
        slope = E + alpha * (P - Y) + structure.gradient(P)
        P_old = P
        P = _feasible(P - length * slope, Y)
        if np.abs(P - P_old).max() <= 1e-9:
            break
    return P


def _feasible(P: Array, Y: Array) -> Array:
    """The nearest matrix between 0 and Y whose rows with candidates sum to at least one."""
    nearest = np.clip(P, 0, Y)
    short = np.flatnonzero((nearest.sum(axis=1) < 1) & (Y.sum(axis=1) > 0))
    # With sum one no entry can exceed one, so the nearest row lies on the simplex.
    nearest[short] = project_simplex(np.where(Y[short] > 0, P[short], P.dtype.type(_OUTSIDE)))
    return nearest
