"""PAKS: purify the rows by a low-rank self-representation, then fit a ridge regression to them.

With X = U S V' every n x d matrix of the problem stays in the row space of X, so U and S replace
X, and a sparse or very wide X costs no more than its rank. The Z-step is an n x n matrix times
(X X' + 2I)^-1, which is two products with U. The n x n matrices are changed in place, by blocks of
rows, and the penalty M is made block by block from the candidates.
"""

from typing import Literal, NamedTuple

import numpy as np
import scipy.linalg

from schirn._input import Array
from schirn._progress import track
from schirn.linalg.arrays import row_slices
from schirn.linalg.leave_one_out import below_one
from schirn.linalg.row_space import RowSpace

Membership = Literal["jaccard", "disjoint"]


class PAKSResult(NamedTuple):
    """Coordinates w of W, row norms of the outliers E, and one trace entry per round."""

    w: Array
    outliers: Array
    rank: int
    loo_scores: Array
    n_iter: int
    objective: Array
    residual: Array
    purified: Array
    """Rows of Z X in coordinates of the row space."""

    def with_eta(self, space: RowSpace, Y: Array, eta: float) -> Array:
        """Coordinates of the W that another ridge weight gives on the purified rows."""
        Y = np.asarray(Y != 0, dtype=np.float64)
        return _coordinates(space, _ridge(self.purified, Y, eta).w)


def paks(
    space: RowSpace,
    Y: Array,
    *,
    alpha: float,
    beta: float,
    eta: float,
    gamma: float = 0.0,
    membership: Membership = "jaccard",
    mu: float = 1e-2,
    mu_max: float = 1e6,
    rho: float = 1.3,
    max_iter: int = 100,
    tol: float = 1e-4,
) -> PAKSResult:
    """Minimise ||Z||_* + alpha ||E||_{2,1} + beta ||M o Z||_1 s.t. X = Z X + E, then fit W to Z X.

    W minimises 1/2 ||Z X W - Y||_F^2 + (eta/2) ||W||_F^2. With gamma > 0 the first problem has
    gamma times the second one added to it, and W is fitted again in every round.

    Parameters
    ----------
    space : RowSpace
        The factored X; an intercept only centres it. The work is done in double precision.
    Y : (n, l) array
        Candidates, 0/1.
    tol : float
        Stop when no entry of Z - J and Z - Q (the copies of Z) exceeds it, and no row of X - Z X -
        E is longer than tol times the longest row of X.
    """
    F, s = _features(space)
    Y = np.asarray(Y != 0, dtype=np.float64)
    representation = _Representation(F / s, s, _Prior(Y, Y.sum(axis=1), membership), beta)
    L1 = np.zeros_like(F)
    E = np.zeros_like(F)
    w = np.zeros((len(s), Y.shape[1]))
    longest = max(float(_lengths(F).max(initial=0)), np.finfo(np.float64).tiny)
    trace = []
    for _ in track(range(max_iter), "round", may_stop=tol > 0):
        right = mu * (F - E) + L1 + gamma * (Y @ w.T)
        norms, gap = representation.advance(right, np.sqrt(gamma) * w, mu)
        ZF = representation.ZU * s
        E, L1, missing = _outliers(F - ZF, L1, alpha, mu)
        price = norms + alpha * float(_lengths(E).sum())
        if gamma:
            w = _ridge(ZF, Y, eta).w
            price += gamma / 2 * float(np.sum((ZF @ w - Y) ** 2) + eta * np.sum(w**2))
        trace.append((price, max(gap, missing / longest)))
        mu = min(rho * mu, mu_max)
        if trace[-1][1] < tol:
            break
    objective, residual = (np.array(column) for column in zip(*trace, strict=True))
    fitted = _ridge(ZF, Y, eta)
    loo_scores = fitted.leave_one_out(F, ZF, Y).astype(space.dtype)
    outliers = _lengths(E).astype(space.dtype)
    w = _coordinates(space, fitted.w)
    return PAKSResult(
        w, outliers, representation.rank, loo_scores, len(trace), objective, residual, ZF
    )


class _Prior(NamedTuple):
    """Rows of the penalty M, made when asked for: 0 for equal candidate sets, 1 for disjoint."""

    Y: Array
    sizes: Array
    membership: Membership

    def rows(self, rows: slice) -> Array:
        """Some rows of M."""
        shared = self.Y[rows] @ self.Y.T
        if self.membership == "jaccard":
            M = 1 - shared / np.maximum(self.sizes[rows, None] + self.sizes - shared, 1)
        else:
            M = (shared == 0).astype(np.float64)
        diagonal = np.arange(len(M))
        M[diagonal, diagonal + rows.start] = 0
        return M


class _Representation:
    """The matrix Z with the multipliers L2 and L3 of its copies J, of this rank, and Q."""

    def __init__(self, U: Array, s: Array, prior: _Prior, beta: float):
        n = len(U)
        self.U = U
        self.s = s
        self.prior = prior
        self.beta = beta
        self.Z = np.zeros((n, n))
        self.L2 = np.zeros((n, n))
        self.L3 = np.zeros((n, n))
        self.ZU = np.zeros_like(U)
        self.rank = 0

    def advance(self, right: Array, b: Array, mu: float) -> tuple[float, float]:
        """One round: J and Q from Z, then Z from them.

        Returns the norms of J and Q, and the largest entry of Z - J and Z - Q.

        Z solves Z [mu (X X' + 2I) + F b b'F'] = right F' + mu (J + Q) - L2 - L3 for F = U S. With
        L2 and L3 already moved by the steps of J and Q, the last three terms are
        B = 2 mu Z - L2 - L3; outside the columns of U, Z is B / (2 mu).
        """
        for rows in self._blocks():
            self.L2[rows] += mu * self.Z[rows]
        low = split_at_one(self.L2)
        self.rank = low.rank
        Q, B, price = self._sparse_copy(mu)
        BU = B @ self.U
        self.ZU = _divide(BU + right * self.s, self.s, b, mu)
        C = self.ZU - BU / (2 * mu)
        gap = max([self._move(rows, low.outer, Q, B, C, mu) for rows in self._blocks()])
        return low.excess / mu + self.beta * price, gap

    def _sparse_copy(self, mu: float) -> tuple[Array, Array, float]:
        """Q = soft(Z + L3/mu, beta M/mu), the matrix B, and ||M o Q||_1; moves L3."""
        Q = np.empty_like(self.Z)
        B = np.empty_like(self.Z)
        price = 0.0
        for rows in self._blocks():
            M = self.prior.rows(rows)
            Z = self.Z[rows]
            free = self.L3[rows] + mu * self.Z[rows]
            held = np.clip(free, -self.beta * M, self.beta * M)
            Q[rows] = (free - held) / mu
            B[rows] = 2 * mu * Z - self.L2[rows] - held
            self.L3[rows] = held
            price += float(np.sum(M * np.abs(Q[rows])))
        return Q, B, price

    def _move(self, rows: slice, muJ: Array, Q: Array, B: Array, C: Array, mu: float) -> float:
        """Set some rows of Z and move their multipliers; returns the largest Z - J and Z - Q."""
        Z = B[rows] / (2 * mu) + C[rows] @ self.U.T
        step = mu * (Z - self.Z[rows])
        self.Z[rows] = Z
        self.L2[rows] += step
        self.L3[rows] += step
        return float(max(np.abs(Z - muJ[rows] / mu).max(), np.abs(Z - Q[rows]).max()))

    def _blocks(self) -> list[slice]:
        return row_slices(len(self.Z), len(self.Z))


class _Ridge(NamedTuple):
    """Coordinates w of the ridge regression on Z F, and the inverse of its system."""

    w: Array
    inverse: Array

    def leave_one_out(self, F: Array, ZF: Array, Y: Array) -> Array:
        """Scores F w of each row by the weights fitted to all other rows of Z F, exactly."""
        solved = ZF @ self.inverse
        h = below_one(np.sum(solved * ZF, axis=1))
        pull = np.sum(solved * F, axis=1) / (1 - h)
        return F @ self.w - pull[:, None] * (Y - ZF @ self.w)


def _ridge(ZF: Array, Y: Array, eta: float) -> _Ridge:
    inverse = scipy.linalg.inv(ZF.T @ ZF + eta * np.eye(ZF.shape[1]), check_finite=False)
    return _Ridge(inverse @ (ZF.T @ Y), inverse)


def _divide(R: Array, s: Array, b: Array, mu: float) -> Array:
    """R [mu (S^2 + 2) + S b b'S]^-1, by an l x l system where b is not zero."""
    D = mu * (s**2 + 2)
    quotient = R / D
    if not b.any():
        return quotient
    Sb = s[:, None] * b
    small = np.eye(b.shape[1]) + Sb.T @ (Sb / D[:, None])
    inner = scipy.linalg.solve(small, (quotient @ Sb).T, assume_a="pos", check_finite=False)
    return quotient - inner.T @ (Sb.T / D)


def _outliers(residual: Array, L1: Array, alpha: float, mu: float) -> tuple[Array, Array, float]:
    """E = rows of X - Z X + L1/mu shrunk by alpha/mu, the new L1, and the longest row missed."""
    T = residual + L1 / mu
    held = (alpha / np.maximum(mu * _lengths(T), alpha))[:, None]
    E = (1 - held) * T
    return E, mu * held * T, float(_lengths(residual - E).max(initial=0))


def _lengths(A: Array) -> Array:
    return np.sqrt(np.einsum("ij,ij->i", A, A))


def _features(space: RowSpace) -> tuple[Array, Array]:
    """F = U S without the intercept column, and S, in double precision."""
    inner = space.penalty > 0
    F = space.expand(np.eye(len(inner), dtype=space.dtype)[:, inner])
    return np.ascontiguousarray(F, np.float64), np.sqrt(space.eigenvalues[inner].astype(np.float64))


def _coordinates(space: RowSpace, w: Array) -> Array:
    """The coordinates with a zero for the intercept column, in the type of the space."""
    full = np.zeros((len(space.penalty), w.shape[1]), dtype=space.dtype)
    full[space.penalty > 0] = w
    return full


class Split(NamedTuple):
    """U (S - 1)_+ V' of A = U S V', the sum of (S - 1)_+, and the rank."""

    outer: Array
    excess: float
    rank: int


def split_at_one(A: Array) -> Split:
    """Write A as its projection on the ball of spectral norm one plus the rest.

    A is overwritten with the projection U min(S, 1) V'; the rest is the prox of the nuclear norm.
    Only singular values above one are used, and those a Gram matrix resolves well whatever the
    small ones are.

    Examples
    --------
    >>> A = np.diag([3.0, 0.5])
    >>> split_at_one(A).outer
    array([[2., 0.],
           [0., 0.]])
    >>> A
    array([[1. , 0. ],
           [0. , 0.5]])
    """
    if np.linalg.norm(A) <= 1:
        return Split(np.zeros_like(A), 0.0, 0)
    squares, V = np.linalg.eigh(A.T @ A)
    first = int(np.searchsorted(squares, 1.0, side="right"))
    roots = np.sqrt(squares[first:])
    V = V[:, first:]
    outer = ((A @ V) * (1 - 1 / roots)) @ V.T
    A -= outer
    return Split(outer, float(np.sum(roots - 1)), len(roots))
