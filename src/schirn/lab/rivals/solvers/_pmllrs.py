"""PML-LRS: low-rank true labels, sparse wrong ones, a low-rank predictor, by multipliers.

Nuclear and Frobenius norms do not change under a rotation of the features, so the predictor lives
in the row space of X. There X'X is diagonal and the ridge step, whose weight mu grows in every
round, is a division.
"""

from typing import NamedTuple

import numpy as np

from schirn._input import Array
from schirn._progress import track
from schirn.lab.rivals.solvers.prox import shrink_singular_values, soft_threshold
from schirn.linalg.row_space import RowSpace


class PMLLRSResult(NamedTuple):
    """Coordinates w of the predictor, true labels P, wrong labels Q, one trace entry per round."""

    w: Array
    P: Array
    Q: Array
    ridge: float
    """The ridge weight that pulls on w as hard as the nuclear norm does."""
    n_iter: int
    objective: Array
    residual: Array


def pmllrs(
    space: RowSpace,
    Y: Array,
    *,
    eta: float = 1.0,
    beta: float = 0.1,
    gamma: float = 0.01,
    mu: float = 1.0,
    mu_max: float = 1e10,
    rho: float = 1.1,
    max_iter: int = 200,
    tol: float = 1e-6,
) -> PMLLRSResult:
    """Minimise eta/2 ||P - X W||_F^2 + ||P||_* + beta ||Q||_1 + gamma ||W||_* with P + Q = Y.

    The copies J of P and Z of W carry the nuclear norms. An intercept is not part of W's norm.

    Parameters
    ----------
    space : RowSpace
        The factored X, for ridge weights from mu/eta up.
    Y : (n, l) array
        Candidates, 0/1.
    tol : float
        Stop when Y - P - Q and P - J relative to Y, and W - Z relative to W, are below it.
    """
    Y = np.ascontiguousarray(Y, dtype=space.dtype)
    inner = slice(0, space.shape[1] - (space.mean is not None))
    eigenvalues = space.eigenvalues[:, None]
    penalty = space.penalty[:, None]
    P = Y.copy()
    XW = np.zeros_like(Y)
    L1 = np.zeros_like(Y)
    L2 = np.zeros_like(Y)
    w = np.zeros((space.shape[1], Y.shape[1]), dtype=space.dtype)
    L3 = np.zeros_like(w[inner])
    tol = max(tol, 10 * float(np.finfo(space.dtype).eps))
    trace = []
    for _ in track(range(max_iter), "round", may_stop=tol > 0):
        J, rank_P = shrink_singular_values(P + L2 / mu, 1 / mu)
        Z, rank_W = shrink_singular_values(w[inner] + L3 / mu, gamma / mu)
        Q = soft_threshold(Y - P + L1 / mu, beta / mu)
        P = (eta * XW + L1 - L2 + mu * (Y - Q + J)) / (eta + 2 * mu)
        w = eta * space.project(P)
        w[inner] += mu * Z - L3
        w /= eta * eigenvalues + mu * penalty
        XW = space.expand(w)
        gaps = Y - P - Q, P - J, w[inner] - Z
        for L, gap in zip((L1, L2, L3), gaps, strict=True):
            L += mu * gap
        mu = min(rho * mu, mu_max)
        sizes = [float(np.linalg.norm(gap)) for gap in gaps]
        loss = eta / 2 * float(np.sum((P - XW) ** 2, dtype=np.float64))
        sparse = beta * float(np.sum(np.abs(Q), dtype=np.float64))
        trace.append((loss + rank_P + sparse + gamma * rank_W, max(sizes[:2])))
        close = max(sizes[:2]) <= tol * np.linalg.norm(Y)
        if close and sizes[2] <= tol * np.linalg.norm(w[inner]):
            break
    objective, residual = np.array(trace).T
    pull = _equal_ridge(space, w[inner], rank_W, gamma / eta)
    return PMLLRSResult(w, P, Q, pull, len(trace), objective, residual)


def _equal_ridge(space: RowSpace, w: Array, nuclear: float, weight: float) -> float:
    """The t with t ||w||_F^2 = weight ||w||_*, bounded below by the rounding error."""
    floor = float(space.eigenvalues.max(initial=1) * np.sqrt(np.finfo(space.dtype).eps))
    square = float(np.sum(w**2, dtype=np.float64))
    return max(weight * nuclear / square if square > 0 else 0.0, floor)
