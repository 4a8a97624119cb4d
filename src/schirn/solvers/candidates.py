"""Candidate cells of rows, what is known about them, and splits of the rows.

Values of the candidates are arrays with one entry per candidate, row by row.
"""

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from schirn.linalg.arrays import (
    Array,
    cell_rows,
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


@dataclass(frozen=True, eq=False)
class Candidates:
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
    """On a device, if they are sparse: order of the cells by label; labels and rows so ordered."""
    blocks: list[CellBlock] | None = None
    """Blocks for `cell_posterior`, kept on a device and for few rows."""

    def project(self, values: Array, X: Any) -> Array:
        """X'B in double precision for the (n, l) matrix B with these values at the candidates."""
        xp, l = namespace(values), self.shape[1]
        if isinstance(self.label, np.ndarray):
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
        if self.by_label is None:
            product = X.T @ self.dense(values, X)
        else:
            order, label, row = self.by_label
            product = cells_product(label, row, xp.astype(values[order], X.dtype), X, l).T
        return xp.astype(product, xp.float64)

    def dense(self, values: Array, other: Array) -> Array:
        """The (n, l) matrix with these values at the candidates, of the type of `other`."""
        xp, (n, l) = namespace(other), self.shape
        B = xp.zeros(n * l, dtype=other.dtype, device=other.device)
        B[self.flat] = xp.astype(values, other.dtype)
        return xp.reshape(B, (n, l))

    def total(self, values: Array) -> np.ndarray:
        """Sum of the values of each label."""
        if isinstance(self.label, np.ndarray):
            return np.bincount(self.label, values, minlength=self.shape[1])
        # A product: sums by atomic additions would differ from run to run.
        kind = {"dtype": namespace(values).float64, "device": values.device}
        return to_numpy(self.project(values, namespace(values).ones((self.shape[0], 1), **kind)))[0]

    def between(self, first: int, last: int) -> "Candidates":
        """The candidates of the rows from `first` to before `last`."""
        indptr = self.indptr[first : last + 1]
        cells = slice(indptr[0], indptr[-1])
        label, l, keeps_blocks = self.label[cells], self.shape[1], self.blocks is not None
        return _candidates(indptr - indptr[0], label, l, keeps_blocks)

    @property
    def size(self) -> int:
        """Number of candidates."""
        return int(self.indptr[-1])


def make_candidates(Y: sp.csr_array, X: Any = None) -> Candidates:
    """The candidates of a 0/1 CSR matrix, where the features X of its rows are.

    Rows without features are few, those of a kernel matrix.
    """
    other = dense_part(X)
    label = like(Y.indices, other, "own")
    label = namespace(label).astype(label, namespace(label).int64)
    keeps_blocks = X is None or is_device_array(other)
    return _candidates(Y.indptr.astype(np.int64), label, Y.shape[1], keeps_blocks)


def _candidates(indptr: np.ndarray, label: Array, l: int, keeps_blocks: bool) -> Candidates:
    n, row = len(indptr) - 1, cell_rows(indptr, label)
    blocks = cell_blocks(indptr, label) if keeps_blocks else None
    by_label = None
    if is_device_array(label) and n * l > _DENSE_CELLS * len(label):
        order = namespace(label).argsort(label, stable=True)
        by_label = order, label[order], row[order]
    cells = Candidates(indptr, (n, l), np.zeros(l), label, row, row * l + label, by_label, blocks)
    return replace(cells, listed=cells.total(namespace(label).ones_like(label)))


class Knowledge(NamedTuple):
    """What the user knows about the rows beforehand."""

    known: np.ndarray | None = None
    """1 for labels known to be true, -1 for wrong ones, 0 for the others, (n, l)."""
    votes: VoteModel | None = None
    groups: np.ndarray | None = None
    """Rows of one group never judge each other."""


NOTHING_KNOWN = Knowledge()


def knowledge_of(knowledge: Knowledge, rows: np.ndarray) -> Knowledge:
    """What is known about the given rows, except known labels."""
    votes, groups = knowledge.votes, knowledge.groups
    if votes is not None and votes.log_ratio is not None:
        votes = votes._replace(log_ratio=votes.log_ratio[rows])
    return Knowledge(None, votes, None if groups is None else groups[rows])


@dataclass(frozen=True, eq=False)
class RowLabels:
    """Candidates of some rows, and what is known about them."""

    candidates: Candidates
    known: np.ndarray | None = None
    """1 for candidates known to be true, -1 for wrong ones, 0 for the others."""
    votes: VoteModel | None = None


def row_labels(
    candidates: Candidates, rows: np.ndarray, knowledge: Knowledge, known: bool = True
) -> RowLabels:
    """The candidates of the given rows, with what is known about them.

    Parameters
    ----------
    candidates : Candidates
        Those of these rows.
    rows : ndarray
        Which rows of the data they are.
    knowledge : Knowledge
    known : bool
        Whether to use the known labels.
    """
    labels = None
    if known and knowledge.known is not None:
        labels = knowledge.known[rows][to_numpy(candidates.row), to_numpy(candidates.label)]
    votes = None if knowledge.votes is None else knowledge_of(knowledge, rows).votes
    return RowLabels(candidates, labels, votes)


@dataclass(frozen=True, eq=False)
class Split:
    """Rows to learn from, and rows held out; the first split holds out none."""

    train: RowLabels
    rows: np.ndarray
    """Which rows of the data are learned from."""
    held: RowLabels | None = None
    drawn: np.ndarray | None = None
    """Positions of the rows held out, in the order of the draw."""


def dense_part(X: Any) -> Array:
    """X, or the stored values of a sparse X: an array of its type and on its device."""
    if X is None:
        return np.empty(0)
    return X.data if sp.issparse(X) else X


def ones_like(values: Array, size: int) -> Array:
    """As many ones, of the type and on the device of `values`."""
    return namespace(values).ones(size, dtype=values.dtype, device=values.device)


def piece_rows(other: Array, width: int) -> int:
    """Rows of a piece of a product; devices take more of them, for fewer launches."""
    cells = PIECE_CELLS if isinstance(other, np.ndarray) else 16 * PIECE_CELLS
    return max(1, cells // max(1, width))


def take_cells(S: Array, flat: Array) -> Array:
    """Entries of (n, l) arrays at flat positions; S may be a stack of them."""
    xp = namespace(S)
    return xp.take(xp.reshape(S, (*S.shape[:-2], -1)), flat, axis=-1)
