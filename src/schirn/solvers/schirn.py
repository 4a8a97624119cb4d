"""Schirn: sparse noise under a high-rank prediction, by augmented Lagrange multipliers.

The rounds keep, beside the n x l matrices, their projections on the row space of X (names ending
in `f`, F'N and so on). All updates but the noise step are linear, so the projections follow the
same recursions and only the changed entries of N are ever projected: a round costs one product
with F, not two, and no factorisation.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from schirn.linalg import RowSpace
from schirn.prox import NoiseRule, RankTerm, noise_threshold, shift_singular_values

Array = np.ndarray


class SchirnResult(NamedTuple):
    """Coordinates w of W in the row space, the noise N, and one trace entry per round."""

    w: Array
    N: Array
    n_iter: int
    objective: Array
    residual: Array
    n_noise: Array


class _Candidates:
    """The candidate cells of Y, which of them are noise, and the target Y - N."""

    def __init__(self, Y: Array, space: RowSpace):
        self.space, self.shape, self.dtype = space, Y.shape, space.dtype
        self.cells = np.flatnonzero(Y)
        self.noise = np.zeros(len(self.cells), dtype=bool)
        self.kept = np.ascontiguousarray(Y != 0, dtype=space.dtype)
        self.kept_f = space.project(self.kept)

    def update(self, noise: Array) -> int:
        """Take over the new noise cells; return how many changed."""
        changed = np.flatnonzero(noise != self.noise)
        if not len(changed):
            return 0
        cells, step = self.cells[changed], np.where(noise[changed], -1, 1).astype(self.dtype)
        self.kept.ravel()[cells] += step
        if len(changed) * 4 > self.kept.size:
            self.kept_f = self.space.project(self.kept)
        else:
            where = np.divmod(cells, self.shape[1])
            self.kept_f += self.space.project(sp.csr_array((step, where), shape=self.shape))
        self.noise = noise
        return len(changed)

    def matrix(self) -> Array:
        """N as a boolean matrix."""
        N = np.zeros(self.shape, dtype=bool)
        N.ravel()[self.cells[self.noise]] = True
        return N


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
    n, l = Y.shape
    candidates = _Candidates(Y, space)
    C, L = np.ones((n, l), dtype=space.dtype), np.ones((n, l), dtype=space.dtype)
    Cf = space.project(C)
    Lf = Cf.copy()
    G = np.empty_like(C)
    w = np.zeros_like(Cf)
    at_candidates = C.ravel()[candidates.cells]
    threshold = noise_threshold(alpha, noise_rule)
    lambdas, penalty = space.eigenvalues[:, None], space.penalty[:, None]
    trace = []
    for n_iter in range(1, max_iter + 1):
        # eq. (10), in the row space
        w = (mu * Cf - Lf) / (mu * lambdas + 2 * lam * penalty)
        XW = space.expand(w)
        # eq. (15)
        changed = candidates.update(at_candidates < threshold)
        # eq. (17), the matrix G before its division by 2 + mu
        np.multiply(XW, mu, out=G)
        G += L
        G += candidates.kept
        G += candidates.kept
        XWf = lambdas * w
        Gf = 2 * candidates.kept_f + Lf + mu * XWf
        C, Cf, square, nuclear = _rank_step(space, G, Gf, beta, mu, rank_term, C)
        # eq. (19) and (20)
        np.subtract(XW, C, out=XW)
        residual = float(np.linalg.norm(XW))
        XW *= mu
        L += XW
        Lf += mu * (XWf - Cf)
        mu = min(mu_max, rho * mu)
        at_candidates = C.ravel()[candidates.cells]
        n_noise = int(candidates.noise.sum())
        inside = float(at_candidates[~candidates.noise].sum(dtype=np.float64))
        loss = square - 2 * inside + len(candidates.cells) - n_noise
        sign = {"high": -1, "low": 1, "none": 0}[rank_term]
        ridge = lam * float(np.sum(penalty * w**2, dtype=np.float64))
        trace.append((loss + alpha * n_noise + sign * beta * nuclear + ridge, residual, n_noise))
        if callback is not None:
            callback(n_iter)
        if tol and not changed and residual <= tol * np.sqrt(square):
            break
    objective, residuals, noises = (np.array(column) for column in zip(*trace, strict=True))
    return SchirnResult(w, candidates.matrix(), n_iter, objective, residuals, noises)


def _rank_step(
    space: RowSpace, G: Array, Gf: Array, beta: float, mu: float, term: RankTerm, out: Array
) -> tuple[Array, Array, float, float]:
    """eq. (18): shift the singular values of G/(2 + mu) by 2 beta/(2 + mu).

    Returns C, F'C, ||C||_F^2 and ||C||_*. The division is folded into the l x l matrix.
    """
    scale = 1 / (2 + mu)
    if term == "none" or beta == 0:
        np.multiply(G, scale, out=out)
        return out, Gf * scale, float(np.vdot(out, out)), 0.0
    if G.shape[0] < G.shape[1]:
        left, values = shift_singular_values(G.T, 2 * beta, term)
        np.matmul(left.T * scale, G, out=out)
        Cf = space.project(out)
    else:
        right, values = shift_singular_values(G, 2 * beta, term)
        right *= scale
        np.matmul(G, right, out=out)
        Cf = Gf @ right
    values = values.astype(np.float64) * scale
    return out, Cf, float(values @ values), float(values.sum())
