"""PML-NI: a low-rank classifier plus a sparse noise identifier, by augmented multipliers.

With the factored features every ridge weight lam + mu is a division, so nothing is refactored
when mu grows. And where gamma >= beta the noise identifier is zero in every round: after the
singular value step the largest singular value left over, hence the largest entry, is at most
beta/mu, and the soft threshold gamma/mu removes it. The nuclear norm does not depend on the
basis, so the rounds then run on coordinates in the row space and no longer see the features.
"""

from typing import NamedTuple

import numpy as np

from schirn._input import Array
from schirn._progress import track
from schirn.lab.rivals.solvers.prox import shrink_singular_values, soft_threshold
from schirn.linalg.row_space import RowSpace


class PMLNIResult(NamedTuple):
    """Classifier U and noise identifier V (both D x l), and scores of the training rows."""

    U: Array
    V: Array
    loo_scores: Array
    """Scores by U, each row left out with the pull of the two norms held fixed."""
    n_iter: int
    objective: Array


def pmlni(
    space: RowSpace,
    Y: Array,
    *,
    lam: float,
    beta: float,
    gamma: float,
    mu: float = 1e-4,
    mu_max: float = 1e10,
    rho: float = 1.1,
    max_iter: int = 500,
    tol: float = 1e-7,
    tol_change: float = 1e-5,
) -> PMLNIResult:
    """Minimise 1/2 ||Y - F W||_F^2 + lam/2 ||W||_F^2 + beta ||U||_* + gamma ||V||_1, W = U + V.

    Parameters
    ----------
    space : RowSpace
        The factored features F, with the column of ones, for ridge weights from lam up.
    Y : (n, l) array
        Candidates, 0/1.
    tol : float
        Stop when ||W - U - V||_F < tol ||W||_F and U has settled.
    tol_change : float
        U has settled, and mu may grow, when mu ||U - U_old||_F < tol_change ||W||_F.
    """
    Y = np.ascontiguousarray(Y, dtype=space.dtype)
    # mu spans many powers of ten, so the rounds are in double precision whatever the features.
    eigenvalues = _double(space.eigenvalues[:, None])
    Yf = _double(space.project(Y))
    # V's entries are those of the features, so its rounds need the basis.
    basis = None if gamma >= beta else _basis(space)
    YX = Yf if basis is None else basis @ Yf
    U = np.zeros_like(YX)
    V = np.zeros_like(YX)
    L = np.zeros_like(YX)
    square = float(np.sum(Y, dtype=np.float64))
    objective = []
    for _ in track(range(max_iter), "round", may_stop=tol > 0):
        W, w = _ridge_step(YX + mu * (U + V) + L, eigenvalues, lam + mu, basis)
        size = float(np.linalg.norm(W))
        U_old = U
        U, nuclear = shrink_singular_values(W - V - L / mu, beta / mu)
        if basis is not None:
            V = soft_threshold(W - U - L / mu, gamma / mu)
        settled = mu * float(np.linalg.norm(U - U_old)) < tol_change * size
        gap = U + V - W
        loss = square + float(np.sum((eigenvalues * w - 2 * Yf) * w, dtype=np.float64))
        norms = beta * nuclear + gamma * float(np.sum(np.abs(V), dtype=np.float64))
        objective.append((loss + lam * size**2) / 2 + norms)
        if settled and float(np.linalg.norm(gap)) < tol * size:
            break
        if settled:
            mu = min(rho * mu, mu_max)
        L += mu * gap
    u, v = (U, V) if basis is None else (basis.T @ U, basis.T @ V)
    u = u.astype(space.dtype, copy=False)
    v = v.astype(space.dtype, copy=False)
    loo = space.leave_one_out(Y, space.expand(u + v), lam)
    if basis is None:
        U = space.coefficients(u)[0]
        return PMLNIResult(U, np.zeros_like(U), loo, len(objective), np.array(objective))
    U = U.astype(space.dtype, copy=False)
    V = V.astype(space.dtype, copy=False)
    return PMLNIResult(U, V, loo - space.expand(v), len(objective), np.array(objective))


def _basis(space: RowSpace) -> Array:
    """The right singular vectors of F, D x r."""
    B = space.coefficients(np.eye(space.shape[1], dtype=space.dtype))[0]
    return np.ascontiguousarray(_double(B))


def _double(A: Array) -> Array:
    return A.astype(np.float64, copy=False)


def _ridge_step(M: Array, eigenvalues: Array, c: float, basis: Array | None) -> tuple[Array, Array]:
    """(F'F + c I)^-1 M, and its coordinates in the row space.

    Without a basis M and W are coordinates themselves.
    """
    if basis is None:
        w = M / (eigenvalues + c)
        return w, w
    m = basis.T @ M
    w = m / (eigenvalues + c)
    return M / c - basis @ (w * (eigenvalues / c)), w
