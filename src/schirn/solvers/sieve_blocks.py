"""What a block of Sieve holds: features and candidates of several parts of its rows.

The first part has all rows of the block; the others are those that inner splits do not hold out,
each with coordinates of its own.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from schirn.linalg.arrays import Array, cells_product, eps, like, namespace, to_numpy
from schirn.scale.blocks import Cells, Coordinates, candidate_cells

_PIECE_CELLS = 2**22


class Features(NamedTuple):
    """Rows of features as they are, dense or sparse: the basis travels with the messages."""

    X: Any

    def expand(self, message: tuple[Array, Array]) -> Array:
        """(X W + b)'."""
        W, b = message
        if not sp.issparse(self.X):
            scores = namespace(self.X).matmul(W.T, self.X.T)
        else:
            scores = np.ascontiguousarray((self.X @ W).T)
        scores += b[:, None]
        return scores

    def project(self, label: Array, row: Array, values: Array, n_labels: int) -> Array:
        """B'X."""
        return cells_product(label, row, values, self.X, n_labels)


class Slice(NamedTuple):
    """Rows that lie one after the other among the features of a block."""

    start: int
    stop: int


class RowCells(NamedTuple):
    """Candidates sorted by label, for products, and row after row, for the posterior."""

    by_label: tuple[Any, ...]
    """The fields of `Cells`: a tuple whose length is its own can be weighed by a cluster."""
    order: np.ndarray
    """Places of the candidates, row after row, among those sorted by label."""
    indptr: np.ndarray
    label: np.ndarray

    @property
    def cells(self) -> Cells:
        """The candidates sorted by label."""
        return Cells(*self.by_label)


class Part(NamedTuple):
    """The rows of a block that one ridge problem learns from, and those held out from it."""

    rows: Any
    """`DenseRows` or `Features`; a `Slice` where the parts share one array of features."""
    candidates: RowCells
    rates: np.ndarray | None = None
    """Known rate at which false labels are listed in each row."""
    held: "Part | None" = None
    held_rows: np.ndarray | None = None
    """Rows held out, as places among the rows of all blocks, rising."""
    known: np.ndarray | None = None
    """1 for candidates that are certainly true, -1 for wrong ones, else 0."""


class Parts(NamedTuple):
    """What the rounds see of a block, but for shared features; the first part has all rows."""

    parts: tuple[Part, ...]
    order: np.ndarray
    """Place in the block of each row of the first part."""

    def on(self, X: Any) -> list[Part]:
        """The parts with their pieces of the shared features."""
        return [_on(part, X) for part in self.parts]


def _on(part: Part, X: Any) -> Part:
    rows, held = part.rows, part.held
    if isinstance(rows, Slice):
        rows = Features(X[rows.start : rows.stop])
    return part._replace(rows=rows, held=None if held is None else _on(held, X))


def row_cells(Y: Any, other: Array | None = None) -> RowCells:
    """The candidates of a 0/1 matrix (n, l), on the device of `other`."""
    cells = candidate_cells(Y, other)
    row, label = to_numpy(cells.row), to_numpy(cells.label)
    order = np.argsort(row, kind="stable")
    indptr = np.concatenate([[0], np.cumsum(np.bincount(row, minlength=cells.shape[0]))])
    return RowCells(tuple(cells), order, indptr, label[order])


def candidate_matrix(cells: Cells) -> sp.csr_array:
    """The candidates as a sparse 0/1 matrix."""
    place = to_numpy(cells.row), to_numpy(cells.label)
    return sp.csr_array((np.ones(len(cells)), place), shape=cells.shape)


def values_of(rows: Any) -> Array:
    """An array of the type and on the device of the rows."""
    X = rows[0]
    return X.data if sp.issparse(X) else X


def leverage_factors(rows: Any, where: Coordinates, lams: Sequence[float]) -> Array:
    """1/(1 - h) with the leverages h of the rows, (ridge weights, n)."""
    weights = np.stack([1 / (where.eigenvalues + t * where.penalty) for t in lams], axis=1)
    X = values_of(rows)
    xp = namespace(X)
    if where.basis is None:
        h = rows.squares(like(weights, X))
    else:
        basis, mean = like(where.basis, X), like(where.mean @ where.basis, X)
        inner, last = like(weights[:-1], X), like(weights[-1], X)
        n = rows.X.shape[0]
        step = max(1, _PIECE_CELLS // max(1, basis.shape[1]))
        pieces = [
            (rows.X[i : i + step] @ basis - mean) ** 2 @ inner for i in range(0, max(n, 1), step)
        ]
        h = xp.concat(pieces) + last
    largest = 1 - eps(h) ** 0.5
    return 1 / (1 - xp.clip(h.T, None, largest))


def expand(rows: Any, message: Any) -> Array:
    """Scores (columns, n) for a message in double precision."""
    X = values_of(rows)
    near = tuple(like(m, X) for m in message) if isinstance(message, tuple) else like(message, X)
    return rows.expand(near)


def projected(part: Part, values: Array, total: np.ndarray) -> np.ndarray:
    """B'F for values at the candidates, as `Coordinates.receive` takes it."""
    cells = part.candidates.cells
    product = part.rows.project(cells.label, cells.row, values, cells.shape[1])
    product = to_numpy(product).astype(np.float64)
    return np.column_stack([product, total]) if isinstance(part.rows, Features) else product


def own_cells(
    held: np.ndarray | None, rows: np.ndarray, labels: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Of cells (rows, labels) those whose row is held here, with the place of that row."""
    assert held is not None
    if not len(held):
        return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
    inside = slice(np.searchsorted(rows, held[0]), np.searchsorted(rows, held[-1], side="right"))
    rows, labels = rows[inside], labels[inside]
    place = np.searchsorted(held, rows)
    mine = held[place] == rows
    return place[mine], labels[mine]


def at(S: Array, cells: Cells) -> Array:
    """Entries of an (l, n) array at the candidates."""
    return take(S, cells.flat)


def take(S: Array, flat: Array) -> Array:
    """Entries of an (l, n) array that is read label after label."""
    xp = namespace(S)
    return xp.take(xp.reshape(S, (-1,)), flat, axis=0)
