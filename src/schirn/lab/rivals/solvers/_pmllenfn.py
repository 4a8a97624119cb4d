"""PML-LENFN: candidates weighted by near and far rows, and a ridge guided by a sigmoid layer.

With the features factored once and the l x l Laplacian diagonalised once, the Sylvester equation
of the weights is a division. The hidden weights V only occur in products with the features, so they
too are coordinates in the row space, and a round is four products with the factor.
"""

from typing import Any, NamedTuple

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from scipy.special import expit

from schirn._input import Array
from schirn._progress import track
from schirn.linalg.arrays import row_slices
from schirn.linalg.features import squared_distances
from schirn.linalg.leave_one_out import leave_one_out
from schirn.linalg.row_space import RowSpace


class NearFar(NamedTuple):
    """Mean candidates of the near rows, and mean absences of the far rows, (n, l) each."""

    near: Array
    far: Array

    def enhance(self, Y: Array, a0: float, b0: float) -> Array:
        """The enhanced labels: the candidates, weighted by what near and far rows list."""
        Y = (Y != 0).astype(self.near.dtype)
        return Y * (a0 * Y + (1 - a0 - b0) * self.near + b0 * self.far)


class PMLLENFNResult(NamedTuple):
    """Coordinates w of W in the row space, and the trace."""

    w: Array
    loo_scores: Array
    """Scores of each row by the weights fitted to all others, with the hidden layer fixed."""
    n_iter: int
    objective: Array


def near_and_far(
    Z: "Array | sp.csr_array", Y: Array, *, nu: float, include_self: bool = True
) -> NearFar:
    """Compute the labels listed by rows near to each row, and by rows far from it.

    The similarity of two rows is exp(-D / (2 s^2)) for their distance D and the mean distance s to
    the nearest row. Near rows are within the share nu of a row's range of similarities below the
    largest, far rows within that share above the smallest.

    Parameters
    ----------
    Z : (n, d) array or CSR array
        Scaled rows.
    Y : (n, l) array
        Candidates, 0/1.
    nu : float
    include_self : bool
        Count a row among its own near rows, as the released code does. Its similarity to itself is
        the largest, and often no other row is near then.

    Examples
    --------
    >>> Z, Y = np.array([[0.0], [1.0], [9.0]]), np.array([[1, 0], [1, 1], [0, 1]])
    >>> near_and_far(Z, Y, nu=0.2, include_self=False).near
    array([[1., 1.],
           [1., 0.],
           [1., 1.]])
    """
    n = len(Y)
    values: Any = Z.data if sp.issparse(Z) else Z
    candidates = (Y != 0).astype(values.dtype)
    if n == 1 and not include_self:
        return NearFar(np.ones_like(candidates), np.ones_like(candidates))
    blocks = row_slices(n, n)
    # Distances come from inner products, whose rounding errors make copies look different.
    zero = np.finfo(values.dtype).eps * 1e3 * float(np.abs(values).max(initial=0)) ** 2
    nearest = 0.0
    for rows in track(blocks, "distances of block", minor=True):
        D = _distances(Z, rows, zero)
        D[np.arange(len(D)), np.arange(rows.start, rows.stop)] = np.inf
        nearest += float(D.min(axis=1).sum(dtype=np.float64)) if n > 1 else 0.0
    width = 2 * (nearest / n) ** 2
    closest = np.empty_like(candidates)
    farthest = np.empty_like(candidates)
    for rows in track(blocks, "near and far rows of block", minor=True):
        D = _distances(Z, rows, zero)
        T = np.exp(D / -width) if width > 0 else (D == 0).astype(D.dtype)
        itself = np.arange(len(T)), np.arange(rows.start, rows.stop)
        T[itself] = 1.0
        counted = np.ones_like(T, dtype=bool)
        counted[itself] = include_self
        least = T.min(axis=1, keepdims=True, where=counted, initial=1.0)
        largest = T.max(axis=1, keepdims=True, where=counted, initial=0.0)
        band = nu * (largest - least)
        is_near = ((largest - band <= T) & counted).astype(T.dtype)
        is_far = ((least + band >= T) & counted).astype(T.dtype)
        closest[rows] = is_near @ candidates / is_near.sum(axis=1, keepdims=True)
        farthest[rows] = 1 - is_far @ candidates / is_far.sum(axis=1, keepdims=True)
    return NearFar(closest, farthest)


def _distances(Z: "Array | sp.csr_array", rows: slice, zero: float) -> Array:
    D = squared_distances(Z[rows], Z)
    D[zero > D] = 0
    return np.sqrt(D, out=D)


def pmllenfn(
    space: RowSpace,
    J: Array,
    U: Array,
    v: Array,
    *,
    lam1: float,
    lam2: float,
    lam3: float,
    lam4: float,
    step: float = 1e-3,
    max_iter: int = 200,
    tol: float = 1e-3,
) -> PMLLENFNResult:
    """Lower ||X W - J||^2 + ||X W - h(X V) U||^2 + the penalties below, for the sigmoid h.

    lam1 ||W||^2 + lam2 tr(W L W') + lam3 ||U||^2 + lam4 ||V||^2, with the Laplacian L of the labels
    that are listed together.

    Parameters
    ----------
    space : RowSpace
        The factored features, for a ridge up to lam1 / 2.
    J : (n, l) array
        Enhanced labels.
    U : (k, l) array
        First weights of the hidden units.
    v : (r, k) array
        Coordinates of the first V in the row space.
    step : float
        Length of the gradient steps of V.
    tol : float
        Stop from round 6 on when the relative fall of the objective is below it.
    """
    stiffness, basis = np.linalg.eigh(_laplacian(J))
    # The Laplacian is not exactly positive semidefinite.
    ridge = np.maximum(lam1 + lam2 * stiffness, 1e-3 * lam1)
    den = 2 * space.eigenvalues[:, None] + ridge
    H = expit(space.expand(v))
    objective = list[float]()
    eye = np.eye(len(U), dtype=U.dtype)
    for n_iter in track(range(1, max_iter + 1), "round", may_stop=tol > 0):
        target = H @ U + J
        # The columns of W are those of w basis'.
        w = (space.project(target) @ basis) / den
        XW = space.expand(w) @ basis.T
        U = scipy.linalg.solve(
            H.T @ H + lam3 * eye, H.T @ XW, assume_a="pos", overwrite_a=True, check_finite=False
        )
        slope = H * (1 - H) * ((H @ U - XW) @ U.T)
        v = v - step * (space.project(slope) + lam4 * v)
        H = expit(space.expand(v))
        price = np.sum((XW - J) ** 2 + (XW - H @ U) ** 2, dtype=np.float64)
        price += np.sum((lam1 + lam2 * stiffness) * w**2, dtype=np.float64)
        price += lam3 * np.sum(U**2, dtype=np.float64) + lam4 * np.sum(v**2, dtype=np.float64)
        objective.append(float(price))
        if n_iter > 5 and objective[-2] - objective[-1] < tol * objective[-2]:
            break
    # Column j of W basis is a ridge regression of weight ridge_j / 2 on the target / 2.
    h = 2 * space.diagonal(1 / den)
    loo_scores = leave_one_out(target @ basis / 2, XW @ basis, h) @ basis.T
    return PMLLENFNResult(w @ basis.T, loo_scores, len(objective), np.array(objective))


def _laplacian(J: Array) -> Array:
    """Symmetric part of the Laplacian of C_ij = J_i'J_j / J_i'J_i over label columns."""
    G = J.T @ J
    squares = np.diag(G)[:, None]
    C = np.divide(G, squares, out=np.zeros_like(G), where=squares > 0)
    L = np.diag(C.sum(axis=1)) - C
    return (L + L.T) / 2
