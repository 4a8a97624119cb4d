"""Closed forms for scores of rows that are left out of their own fit.

`leave_one_out` computes them for a linear smoother with leverages h. Kernel ridges need one inverse
per ridge weight: argmin ||K a + b - Q||^2 + lam a'Ka with a free intercept b has the dual weights
a = M Q, where M is the leading block of the inverse of [[K + lam I, 1], [1', 0]]. Centring K does
not change M and preserves digits if all rows are similar. Everything else follows from M: the
scores of a group G of rows, left out of its own fit,

    S_G = Q_G - (M_GG)^-1 a_G,

and the fit to the rows P without the rows O, with M_PP - M_PO (M_OO)^-1 M_OP in place of M.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from scipy.linalg import get_lapack_funcs

from schirn.linalg.arrays import Array, eps

# Above this many rows, single precision saves time; it is used if the condition number of K + lam I
# is below the bound.
_SINGLE_ROWS = 1000
_SINGLE_CONDITION = 1e6
# Lower bound of the diagonal of M, against rounding errors.
_SMALLEST = 1e-12
# Number of rows processed at a time where a whole matrix would need new memory.
_PIECE = 256


def leave_one_out(Q: Any, fitted: Array, leverage: Array, smallest: float | None = None) -> Array:
    """Score each row by the fit to all other rows: Q - (Q - fitted)/(1 - h).

    This is exact for least squares with a fixed quadratic penalty, where the fit to the other rows
    equals the fit to all rows with Q_i replaced by its own prediction.

    Parameters
    ----------
    Q : (n, l) array or float
        Targets.
    fitted : (n, l) or (e, n, l) array
        Fitted values of one fit, or of e fits to the same targets.
    leverage : array of shape (n,), (e, n) or that of `fitted`
        Diagonal h of the matrix that turns Q into `fitted`.
    smallest : float, optional
        Lower bound of 1 - h, see `below_one`.

    Examples
    --------
    The mean of three numbers has leverages of 1/3; without a number, it is the mean of the others.

    >>> Q = np.array([[0.0], [1.0], [5.0]])
    >>> leave_one_out(Q, np.full((3, 1), 2.0), np.full(3, 1 / 3)).round(9).ravel()
    array([3. , 2.5, 0.5])
    """
    room = 1 - below_one(leverage, smallest)
    return Q - (Q - fitted) / (room if room.ndim == fitted.ndim else room[..., None])


def below_one(leverage: Array, smallest: float | None = None) -> Array:
    """Clip leverages to at most 1 - `smallest`, by default the root of the machine epsilon.

    A row unlike all others predicts itself: its leverage is 1 up to rounding.

    Parameters
    ----------
    leverage : array
    smallest : float, optional
        Lower bound of 1 - h.

    Returns
    -------
    array
    """
    # The method `clip` also exists in PyTorch without array-api-compat.
    return leverage.clip(None, 1 - (eps(leverage) ** 0.5 if smallest is None else smallest))


class KernelInverse:
    """Inverses of a kernel matrix, one per ridge weight, each with a free intercept.

    Parameters
    ----------
    K : array of shape (n, n)
        Kernel matrix of the training rows.
    lams : sequence of float
        Ridge weights, greater than 0.
    groups : ndarray of shape (n,), optional
        Group of each row; rows of the same group are left out together. By default, each row is
        left out separately.

    Examples
    --------
    >>> K = np.array([[2.0, 1.0, 0.0], [1.0, 2.0, 0.0], [0.0, 0.0, 2.0]])
    >>> inverse = KernelInverse(K, [1.0])
    >>> Q = np.array([[1.0], [1.0], [0.0]])
    >>> A, b = inverse.expansion(Q)[0]
    >>> (K @ A + b).round(3).ravel().tolist()
    [0.9, 0.9, 0.2]
    """

    def __init__(self, K: Array, lams: Sequence[float], groups: np.ndarray | None = None) -> None:
        n = len(K)
        C, mean = _centred(K)
        # Bound of the largest eigenvalue of C; for K it would be far larger because of the mean.
        # Computed in pieces, since allocating memory takes longer than summing.
        pieces = (abs(C[i : i + _PIECE]) for i in range(0, n, _PIECE))
        norm = max(float(piece.sum(axis=1).max()) for piece in pieces)
        double = n < _SINGLE_ROWS or norm > _SINGLE_CONDITION * min(lams)
        dtype = np.float64 if double else np.float32
        C = C.astype(dtype, copy=False)
        mean = mean.astype(dtype, copy=False)
        # Smaller weights would be lost in the rounding errors of K or C.
        least = max(n * eps(K) * float(abs(K.diagonal()).max()), 16 * eps(C) * norm)
        self._inverses = []
        self._intercepts = []
        self._groups = groups
        for lam in lams:
            A: Any = C.copy()
            A.flat[:: n + 1] += float(max(lam, least))
            M = _inverse(A)
            total = M.sum(axis=1)
            M -= total[:, None] * (total / total.sum())
            self._inverses.append(M)
            self._intercepts.append(1 / n - mean @ M)

    def fit(self, Q: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return leave-one-out scores (e, n, l) for targets Q; no rows are held out.

        Parameters
        ----------
        Q : (n, l) array
            Targets.

        Returns
        -------
        left_out : (e, n, l) array
        held_out : (e, 0, l) array
        """
        return self.hold_out(np.arange(0)).fit(Q)

    def expansion(self, Q: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
        """Return dual weights A (n, l) and intercepts b (l,) of every ridge; scores are K A + b.

        Parameters
        ----------
        Q : (n, l) array
            Targets.

        Returns
        -------
        list of ((n, l) array, (l,) array)
        """
        q = Q.astype(self._inverses[0].dtype)
        return [
            ((M @ q).astype(np.float64), (intercept @ q).astype(np.float64))
            for M, intercept in zip(self._inverses, self._intercepts, strict=True)
        ]

    def hold_out(self, held: np.ndarray) -> "HeldOutInverse":
        """Return the same ridges, trained without some rows.

        Parameters
        ----------
        held : (m,) ndarray of int
            Indices of the rows.

        Returns
        -------
        HeldOutInverse
        """
        return HeldOutInverse(self._inverses, held, self._groups)


class HeldOutInverse:
    """Ridges without the rows `held`, by elimination from the inverses of all rows."""

    def __init__(
        self, inverses: Sequence[np.ndarray], held: np.ndarray, groups: np.ndarray | None
    ) -> None:
        held = np.sort(held)
        train = np.setdiff1d(np.arange(len(inverses[0])), held)
        groups = None if groups is None else groups[train]
        self._ridges = []
        for M in inverses:
            columns = M.take(held, axis=0)
            coupling = cross = columns.take(train, axis=1)
            if len(held):
                cross = _inverse(columns.take(held, axis=1)) @ coupling
                M = M.take(train, axis=0).take(train, axis=1)
            diagonal = (M.diagonal() - np.sum(coupling * cross, axis=0)).astype(np.float64)
            diagonal = np.maximum(diagonal, _SMALLEST)
            blocks = [] if groups is None else _group_inverses(M, coupling, cross, groups)
            self._ridges.append((M, coupling, cross, diagonal, blocks))

    def fit(self, Q: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return leave-one-out scores of the training rows and scores of the held-out rows."""
        left_out = []
        held_out = []
        for M, coupling, cross, diagonal, blocks in self._ridges:
            q = Q.astype(M.dtype)
            # R = (M_OO)^-1 M_OP gives the held-out scores -R Q and the correction -M_PO R Q.
            held = cross @ q
            a = (M @ q - coupling.T @ held).astype(np.float64)
            S = Q - a / diagonal[:, None]
            for rows, inverses in blocks:
                S[rows] = Q[rows] - inverses @ a[rows]
            left_out.append(S)
            held_out.append(-held.astype(np.float64))
        return np.stack(left_out), np.stack(held_out)


def left_out_scores(
    K: Array, Q: Array, lams: Iterable[float], groups: np.ndarray | None = None
) -> Iterator[Array]:
    """Yield leave-one-out scores for many ridge weights, from a single eigendecomposition.

    Parameters
    ----------
    K : ndarray of shape (n, n)
    Q : ndarray of shape (n, l)
        Targets.
    lams : sequence of float
    groups : ndarray of shape (n,), optional
        As in `KernelInverse`.
    """
    if groups is not None:
        yield from (KernelInverse(K, [lam], groups).fit(Q)[0][0] for lam in lams)
        return
    eigenvalues, U = np.linalg.eigh(_centred(K)[0])
    eigenvalues = np.maximum(eigenvalues, 0)
    total = U.sum(axis=0)
    UQ = U.T @ Q
    for lam in lams:
        d = 1 / (eigenvalues + lam)
        ones = U @ (d * total)
        scale = ones.sum()
        a = U @ (d[:, None] * UQ) - np.outer(ones, (d * total) @ UQ) / scale
        diagonal = (U * U) @ d - ones**2 / scale
        yield Q - a / np.maximum(diagonal, _SMALLEST)[:, None]


def _centred(K: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Centre the rows and columns of K; return the result and the mean of the rows."""
    mean = K.mean(axis=0, dtype=np.float64)
    C = K
    remainder = mean
    # In single precision, the residual mean after the first pass would make C indefinite.
    for _ in range(1 if K.dtype == np.float64 else 2):
        C = C - remainder.astype(K.dtype)
        C -= (remainder - remainder.mean()).astype(K.dtype)[:, None]
        remainder = C.mean(axis=0, dtype=np.float64)
    return C, mean.astype(K.dtype)


def _group_inverses(
    M: np.ndarray, coupling: np.ndarray, cross: np.ndarray, groups: np.ndarray
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Rows (g, k) of groups of k > 1 members, and inverses of blocks of M - coupling' cross."""
    inverses = []
    for rows in groups_by_size(groups):
        blocks = M[rows[:, :, None], rows[:, None, :]]
        blocks = (blocks - coupling.T[rows] @ cross.T[rows].transpose(0, 2, 1)).astype(np.float64)
        if rows.shape[1] == len(groups):
            # The only group contains all rows, and M 1 = 0 makes the block singular. With this
            # term, the mean of Q scores the group.
            blocks += np.trace(blocks[0]) / len(groups) ** 2
        inverses.append((rows, np.linalg.inv(blocks)))
    return inverses


def groups_by_size(groups: np.ndarray) -> list[np.ndarray]:
    """Rows (g, k) of all groups with the same number k > 1 of members."""
    order = np.argsort(groups, kind="stable")
    starts = np.flatnonzero(np.r_[True, np.diff(groups[order]) != 0])
    sizes = np.diff(np.r_[starts, len(order)])
    return [order[starts[sizes == k][:, None] + np.arange(k)] for k in np.unique(sizes) if k > 1]


def _inverse(A: np.ndarray) -> np.ndarray:
    """Invert a positive definite matrix, which is overwritten."""
    potrf, potri = get_lapack_funcs(("potrf", "potri"), (A,))
    # The transpose of the symmetric A is A in the column order that LAPACK expects.
    factor, failed = potrf(A.T, lower=1, overwrite_a=1, clean=0)
    if not failed:
        inverse, failed = potri(factor, lower=1, overwrite_c=1)
    if failed:
        raise np.linalg.LinAlgError("the kernel matrix is not positive definite")
    # LAPACK fills only the lower triangle; mirroring it block by block is cheap.
    for start in range(0, len(inverse), _PIECE):
        block = slice(start, start + _PIECE)
        inverse[block, block.stop :] = inverse[block.stop :, block].T
        lower = np.tril(inverse[block, block])
        inverse[block, block] = lower + np.tril(lower, -1).T
    return inverse.T
