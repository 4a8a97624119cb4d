"""Schirn: sparse noise under a high-rank prediction, by augmented Lagrange multipliers.

The rounds work on matrices of n + r rows: the n rows of the paper's matrix, and below them its
projection F' on the row space of X. All updates but the noise step are linear, so the projections
follow the same recursions, and of N only the changed entries are ever projected: a round costs
one product with F, not two, and no factorisation. Columns are contiguous, because labels are few.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from schirn.linalg import RowSpace
from schirn.prox import NoiseRule, RankTerm, noise_threshold, shift_singular_values
from schirn.solvers.candidates import CandidateCells

Array = np.ndarray


class SchirnResult(NamedTuple):
    """Coordinates w of W in the row space, the noise N, and one trace entry per round."""

    w: Array
    N: Array
    n_iter: int
    objective: Array
    residual: Array
    n_noise: Array


def schirn(
    space: RowSpace,
    Y: Array,
    *,
    alpha: float,
    beta: float,
    lam: float,
    noise_rule: NoiseRule = "exact",
    rank_term: RankTerm = "high",
    mu: float = 1e-4,
    mu_max: float = 10.0,
    rho: float = 1.1,
    max_iter: int = 100,
    tol: float = 0.0,
    callback: Callable[[int], None] | None = None,
) -> SchirnResult:
    """Minimise ||C - (Y - N)||_F^2 + alpha ||N||_1 - beta ||C||_* + lam ||W||_F^2, C = X W.

    N is binary and at most Y. With `rank_term="low"` the nuclear norm is added instead of
    subtracted, with "none" it is left out.

    Parameters
    ----------
    space : the factored X; its ridge must cover 2 lam / mu for the largest mu.
    Y : (n, l) candidates, 0/1
    tol : stop when ||X W - C||_F <= tol ||C||_F and N no longer changes; 0 runs all rounds.
    callback : called with the number of finished rounds.
    """
    n = space.shape[0]
    candidates = CandidateCells(Y, space)
    C = np.ones_like(candidates.stack)
    C[n:] = space.project(C[:n])
    L, G, XW = C.copy("F"), np.empty_like(C), np.empty_like(C)
    at_candidates = candidates.at(C)
    threshold = noise_threshold(alpha, noise_rule)
    lambdas, penalty = space.eigenvalues[:, None], space.penalty[:, None]
    sign = {"high": -1, "low": 1, "none": 0}[rank_term]
    trace = []
    for n_iter in range(1, max_iter + 1):
        # eq. (10), in the row space
        w = (mu * C[n:] - L[n:]) / (mu * lambdas + 2 * lam * penalty)
        space.expand(w, out=XW[:n])
        np.multiply(lambdas, w, out=XW[n:])
        # eq. (15)
        changed = candidates.update(at_candidates < threshold)
        # eq. (17), the matrix G before its division by 2 + mu
        np.multiply(XW, mu, out=G)
        G += L
        G += candidates.stack
        G += candidates.stack
        square, nuclear = _rank_step(space, G, beta, mu, rank_term, C)
        # eq. (19) and (20)
        XW -= C
        residual = float(np.linalg.norm(XW[:n]))
        XW *= mu
        L += XW
        mu = min(mu_max, rho * mu)
        at_candidates = candidates.at(C)
        n_noise = int(np.count_nonzero(candidates.noise))
        inside = float(at_candidates @ ~candidates.noise)
        loss = square - 2 * inside + candidates.n_cells - n_noise
        ridge = lam * float(np.vdot(w, penalty * w))
        trace.append((loss + alpha * n_noise + sign * beta * nuclear + ridge, residual, n_noise))
        if callback is not None:
            callback(n_iter)
        if tol and not changed and residual <= tol * np.sqrt(square):
            break
    objective, residuals, noises = (np.array(column) for column in zip(*trace, strict=True))
    return SchirnResult(w, candidates.matrix(), n_iter, objective, residuals, noises)


def _rank_step(
    space: RowSpace, G: Array, beta: float, mu: float, term: RankTerm, C: Array
) -> tuple[float, float]:
    """eq. (18): C from shifting the singular values of G/(2 + mu) by 2 beta/(2 + mu).

    Returns ||C||_F^2 and ||C||_*. The division is folded into the l x l matrix.
    """
    n, scale = space.shape[0], 1 / (2 + mu)
    if term == "none" or beta == 0:
        np.multiply(G, scale, out=C)
        return float(np.linalg.norm(C[:n]) ** 2), 0.0
    if n < G.shape[1]:
        left, values = shift_singular_values(G[:n].T, 2 * beta, term)
        np.matmul(left * scale, G[:n], out=C[:n])
        C[n:] = space.project(C[:n])
    else:
        right, values = shift_singular_values(G[:n], 2 * beta, term)
        right *= scale
        # The map is symmetric; the transposed product keeps columns contiguous.
        np.matmul(right, G.T, out=C.T)
    values = values.astype(np.float64) * scale
    return float(values @ values), float(values.sum())
