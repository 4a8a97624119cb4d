"""Rows of Sieve: their candidates, what the user knows about them, and splits of them.

Values of the candidates are arrays with one entry per candidate, row by row.
"""

from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from schirn.linalg.arrays import (
    Array,
    cells_product,
    is_device_array,
    like,
    namespace,
    row_pieces,
    to_numpy,
)
from schirn.noise.model import CellBlock, cell_blocks
from schirn.noise.votes import VoteModel

# Cells per piece of a product, for memory.
PIECE_CELLS = 2**22
# Devices use a dense product if there are at most this many cells per candidate.
_DENSE_CELLS = 64


class Candidates(NamedTuple):
    """The candidate cells of some rows, row by row."""

    indptr: np.ndarray
    shape: tuple[int, int]
    listed: np.ndarray
    """Number of candidates of each label."""
    label: Array
    """This and the following lie on the device of the features."""
    row: Array
    flat: Array
    """Positions of the cells in a flattened (n, l) array."""
    by_label: tuple[Array, Array, Array] | None = None
    """On a device: order of the cells by label; labels and rows in that order."""
    blocks: list[CellBlock] | None = None
    """Blocks for `cell_posterior`, kept on a device and for few rows."""

    def project(self, values: Array, X: Any) -> Array:
        """X'B in double precision for the (n, l) matrix B with these values at the candidates."""
        xp, (n, l) = namespace(values), self.shape
        if self.by_label is None:
            # Row by row, so that X is read once and in order.
            total = np.zeros((l, X.shape[1]))
            for i, piece in row_pieces(X, piece_rows(dense_part(X), X.shape[1])):
                ends = self.indptr[i : i + piece.shape[0] + 1]
                cells = slice(ends[0], ends[-1])
                B = sp.csr_array(
                    (values[cells], self.label[cells], ends - ends[0]), (piece.shape[0], l)
                )
                product = B.T @ piece
                total += product.toarray() if sp.issparse(product) else product
            return total.T
        if n * l <= _DENSE_CELLS * self.size:
            product = X.T @ self.dense(values, X)
        else:
            order, label, row = self.by_label
            product = cells_product(label, row, xp.take(values, order), X, l).T
        return xp.astype(product, xp.float64)

    def dense(self, values: Array, X: Array) -> Array:
        """The (n, l) matrix with these values at the candidates, of the type of X."""
        xp, (n, l) = namespace(X), self.shape
        B = xp.zeros(n * l, dtype=X.dtype, device=X.device)
        B[self.flat] = xp.astype(values, X.dtype)
        return xp.reshape(B, (n, l))

    def total(self, values: Array) -> np.ndarray:
        """Sum of the values of each label."""
        if self.by_label is None:
            return np.bincount(self.label, values, minlength=self.shape[1])
        # Sums by atomic additions would differ from run to run.
        xp, ends = namespace(values), np.cumsum(self.listed).tolist()
        ordered = xp.take(values, self.by_label[0])
        sums = [xp.sum(ordered[i:j]) for i, j in pairwise([0, *ends])]
        return to_numpy(xp.stack(sums)).astype(np.float64)

    @property
    def size(self) -> int:
        """Number of candidates."""
        return int(self.indptr[-1])


class Rows(NamedTuple):
    """Features and candidates of some rows, and what the user knows about them."""

    X: Any
    """Features; None for rows of a kernel matrix."""
    candidates: Candidates
    indices: np.ndarray
    """Index of each row among all rows; sorted for rows held out."""
    rates: np.ndarray | None = None
    """Known rate at which false labels are listed in each row."""
    known: Any = None
    """1 for candidates known to be true, -1 for wrong ones, 0 for the others."""
    votes: VoteModel | None = None
    weights: np.ndarray | None = None
    """Weights of the rows; None is 1."""
    counts: np.ndarray | None = None
    """How often each row counts in statistics; None is once."""

    def project(self, values: Array) -> Array:
        """X'B for the (n, l) matrix B with these values at the candidates; B if there is no X."""
        c = self.candidates
        return c.dense(values, values) if self.X is None else c.project(values, self.X)

    @property
    def n_rows(self) -> int:
        """Number of rows, each as often as it counts; so do the following."""
        return self.candidates.shape[0] if self.counts is None else int(self.counts.sum())

    def sum(self, A: Array) -> float:
        """Sum of all cells (n, l), in double precision."""
        return double_sum(A if self.counts is None else A * self.counts[:, None])

    def cell_sum(self, values: Array) -> float:
        """Sum of values of the candidates, in double precision."""
        return double_sum(
            values if self.counts is None else values * self.counts[self.candidates.row]
        )

    def some(self, index: np.ndarray) -> tuple["Rows", np.ndarray]:
        """Some rows for `posterior`, also repeated, and the positions of their candidates."""
        c = self.candidates
        sizes = np.diff(c.indptr)[index]
        indptr = np.append(0, np.cumsum(sizes))
        cells = np.arange(indptr[-1]) + np.repeat(c.indptr[index] - indptr[:-1], sizes)
        own = c._replace(label=to_numpy(c.label)[cells], indptr=indptr, blocks=None)
        rates = None if self.rates is None else self.rates[index]
        return self._replace(candidates=own, rates=rates), cells


def make_rows(
    X: Any,
    Y: sp.csr_array,
    index: np.ndarray,
    rates: Any = None,
    known: np.ndarray | None = None,
    first: int = 0,
) -> Rows:
    """Some rows of a block with their candidates.

    Parameters
    ----------
    X : array or CSR array of shape (m, d), or None
        Features of these rows.
    Y : CSR array of shape (n, l)
        Candidates of all rows of the block.
    index : ndarray of shape (m,)
        Which rows of the block these are.
    rates : float or ndarray of shape (n,), optional
    known : ndarray of shape (n, l), optional
    first : int
        Index of the first row of the block among all rows.
    """
    n, l = len(index), Y.shape[1]
    own = Y[index]
    label, indptr = own.indices.astype(np.int64), own.indptr.astype(np.int64)
    row = np.repeat(np.arange(n), np.diff(indptr))
    near = dense_part(X)
    labels, rows, flat = (like(a, near, "own") for a in (label, row, row * l + label))
    listed = np.bincount(label, minlength=l)
    candidates = Candidates(indptr, (n, l), listed, labels, rows, flat)
    if X is None or is_device_array(near):
        candidates = candidates._replace(blocks=cell_blocks(indptr, near))
    if is_device_array(near):
        # Sorting 16-bit integers takes a tenth of the time.
        order = np.argsort(label.astype(np.min_scalar_type(l)), kind="stable")
        by_label = tuple(like(a, near, "own") for a in (order, label[order], row[order]))
        candidates = candidates._replace(by_label=by_label)
    own_rates = rates[index] if isinstance(rates, np.ndarray) else None
    certain = None if known is None else known[index][row, label]
    return Rows(X, candidates, index + first, own_rates, certain)


class Split(NamedTuple):
    """Rows to learn from, rows held out (None if there are none), and the values of the round."""

    train: Rows
    held: Rows | None = None
    factors: Any = None
    """1/(1 - h) with the leverage h of each row, (e, n), if the ridges need it."""
    p: Any = None
    """Probability of each candidate; with votes, given these."""
    q: Any = None
    """Posterior of each candidate."""
    S: Any = None
    """Leave-one-out scores (e, n, l); between rounds, the log-odds (n, l) of all rows."""
    S_held: Any = None
    """Scores (e, m, l) of the rows held out."""


def dense_part(X: Any) -> Array:
    """X, or the stored values of a sparse X: an array of its type and on its device."""
    if X is None:
        return np.empty(0)
    return X.data if sp.issparse(X) else X


def piece_rows(near: Array, width: int) -> int:
    """Rows of a piece of a product; devices take more of them, for fewer launches."""
    cells = PIECE_CELLS if isinstance(near, np.ndarray) else 16 * PIECE_CELLS
    return max(1, cells // max(1, width))


def double_sum(values: Array) -> float:
    """Sum in double precision."""
    xp = namespace(values)
    return float(xp.sum(values, dtype=xp.float64))
