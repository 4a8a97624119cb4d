"""GLC: a low-rank label coefficient matrix and a label graph, by alternating multipliers.

W enters the other steps only through Y'X W, so in the row space of X all its work is done on
matrices with one row per singular direction. The Sylvester equation of the weights splits in the
eigenvectors U of the label Laplacian: column j of W U is a ridge regression with its own weight.
"""

from typing import Literal, NamedTuple

import numpy as np

from schirn._input import Array
from schirn._progress import track
from schirn.lab.rivals.solvers.prox import soft_threshold
from schirn.linalg.leave_one_out import leave_one_out
from schirn.linalg.prox import shift_singular_values
from schirn.linalg.row_space import RowSpace

Manifold = Literal["weights", "outputs"]


class GLCResult(NamedTuple):
    """Coordinates w of W, label coefficients Z, noise E, and one trace entry per round."""

    w: Array
    Z: Array
    E: Array
    rank: int
    loo_scores: Array
    n_iter: int
    objective: Array
    residual: Array


class _Smoother(NamedTuple):
    """Column j of W U is (F'B U)_j / (scale_j S^2 + ridge_j)."""

    U: Array
    scale: Array
    den: Array

    def weights(self, YZf: Array) -> Array:
        """Coordinates of W U for the target Y Z."""
        return (YZf @ self.U) / self.den

    def leave_one_out(self, space: RowSpace, target: Array, w: Array) -> Array:
        """Exact scores of each row by the weights fitted to all the others."""
        h = self.scale * space.diagonal(1 / self.den)
        return leave_one_out(target @ self.U / self.scale, space.expand(w), h) @ self.U.T


def glc(
    space: RowSpace,
    Y: Array,
    *,
    alpha: float,
    beta: float,
    gamma: float,
    eta: float,
    manifold: Manifold = "weights",
    n_neighbors: int | None = None,
    mu: float = 1e-2,
    mu_max: float = 1e4,
    rho: float = 1.1,
    max_iter: int = 100,
    tol: float = 1e-5,
) -> GLCResult:
    """Minimise 1/2 ||X W - Y Z||_F^2 + alpha ||Z||_* + beta ||E||_1 + (eta/2) ||W||_F^2 + M/2.

    Subject to Y = Y Z + E and 0 <= E <= Y. The manifold term M is gamma tr(W L W') or, with
    `manifold="outputs"`, gamma tr(XW L (XW)'), for the Laplacian L of the label graph.

    Parameters
    ----------
    space : RowSpace
        The factored X; its ridge must cover eta.
    Y : (n, l) array
        Candidates, 0/1.
    n_neighbors : int or None
        Keep the edges to this many nearest labels; None keeps all.
    tol : float
        Stop when no entry of Y - Y Z - E and of Z - J (a copy of Z) exceeds it.
    """
    Y = np.ascontiguousarray(Y != 0, dtype=space.dtype)
    G = Y.T @ Y
    Yf = space.project(Y)
    squares, Q = np.linalg.eigh(G)
    smoother = _smoother(space, label_laplacian(Y, n_neighbors), gamma, eta, manifold)
    Z = np.eye(len(G), dtype=space.dtype)
    J = Z
    L2 = np.zeros_like(Z)
    E = np.zeros_like(Y)
    L1 = np.zeros_like(Y)
    trace = []
    for _ in track(range(max_iter), "round", may_stop=tol > 0):
        target = Z
        w = smoother.weights(Yf @ Z)
        R = Yf.T @ (w @ smoother.U.T) + mu * (G + J) - L2 + Y.T @ (L1 - mu * E)
        Z = Q @ ((Q.T @ R) / ((1 + mu) * squares + mu)[:, None])
        shrink, values = shift_singular_values(Z + L2 / mu, alpha / mu, "low")
        J = (Z + L2 / mu) @ shrink
        remainder = Y - Y @ Z
        E = np.clip(soft_threshold(remainder + L1 / mu, beta / mu), 0, Y)
        remainder -= E
        L1 += mu * remainder
        L2 = L2 + mu * (Z - J)
        mu = min(rho * mu, mu_max)
        residual = float(max(np.abs(remainder).max(initial=0), np.abs(Z - J).max(initial=0)))
        price = alpha * float(values.sum()) + beta * float(E.sum(dtype=np.float64))
        trace.append((_fit_term(smoother, w, Yf @ Z, G, Z) + price, residual))
        if residual < tol:
            break
    objective, residuals = (np.array(column) for column in zip(*trace, strict=True))
    loo_scores = smoother.leave_one_out(space, Y @ target, w)
    rank = int(np.count_nonzero(values))
    return GLCResult(w @ smoother.U.T, Z, E, rank, loo_scores, len(trace), objective, residuals)


def label_laplacian(Y: Array, n_neighbors: int | None = None) -> Array:
    """Laplacian of the label graph whose edges are the cosines of the candidate columns.

    With `n_neighbors` an edge is kept if either end has it among its largest ones.

    >>> label_laplacian(np.array([[1.0, 1.0, 0.0], [0.0, 0.0, 1.0]]))
    array([[ 1., -1.,  0.],
           [-1.,  1.,  0.],
           [ 0.,  0.,  0.]])
    """
    norms = np.sqrt(np.sum(Y, axis=0))
    S = (Y.T @ Y) / np.maximum(np.outer(norms, norms), 1)
    np.fill_diagonal(S, 0)
    if n_neighbors is not None and n_neighbors < len(S) - 1:
        nearest = np.argsort(-S, axis=1, kind="stable")[:, :n_neighbors]
        keep = np.zeros(S.shape, dtype=bool)
        np.put_along_axis(keep, nearest, True, axis=1)
        S = np.where(keep | keep.T, S, 0)
    return np.diag(S.sum(axis=1)) - S


def _smoother(space: RowSpace, L: Array, gamma: float, eta: float, manifold: Manifold) -> _Smoother:
    """The ridge weights of all directions and all eigenvectors of the Laplacian."""
    eigenvalues, U = np.linalg.eigh(L)
    stiff = gamma * np.maximum(eigenvalues, 0)
    ones = np.ones_like(stiff)
    scale, ridge = (ones, eta + stiff) if manifold == "weights" else (1 + stiff, eta * ones)
    den = np.outer(space.eigenvalues, scale) + np.outer(space.penalty, ridge)
    return _Smoother(U, scale, den)


def _fit_term(smoother: _Smoother, w: Array, YZf: Array, G: Array, Z: Array) -> float:
    """1/2 ||X W - Y Z||_F^2 with the ridge and manifold terms, for coordinates w of W U."""
    quadratic = np.sum(smoother.den * w**2, dtype=np.float64)
    cross = np.sum(w * (YZf @ smoother.U), dtype=np.float64)
    return float(quadratic - 2 * cross + np.sum(Z * (G @ Z), dtype=np.float64)) / 2
