"""Tags stored as (row, column) pairs.

Pairs take no memory for empty cells, so that tens of thousands of rare tags are cheap.
"""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from schirn._input import Array, as_plain, is_missing
from schirn.labels.cells import TagCells, check_separator
from schirn.labels.matrix import (
    are_name_lists,
    as_binary,
    as_labels,
    column_names,
    distinct_names,
    name_rows,
)


class Tags(NamedTuple):
    """Rows and columns of the tags, sorted by row and column, and the column names."""

    row: Array
    column: Array
    n_rows: int
    names: list[str]

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows and number of columns (distinct tags)."""
        return self.n_rows, len(self.names)

    @property
    def counts(self) -> Array:
        """Number of rows that carry each tag."""
        return np.bincount(self.column, minlength=len(self.names))

    def lists(self, row: Array, column: Array) -> Array:
        """Return True for each of these cells that is listed."""
        tag_cells = self.row * len(self.names) + self.column
        cells = row * len(self.names) + column
        place = np.searchsorted(tag_cells, cells).clip(max=len(tag_cells) - 1)
        return np.asarray(tag_cells[place] == cells)

    def dense(self, columns: Array | None = None, values: Array | None = None) -> Array:
        """Return a dense matrix of some or all columns that holds 1, or a value, for each tag."""
        columns = np.arange(len(self.names)) if columns is None else columns
        position = self._positions(columns)
        is_chosen = position >= 0
        entries = np.uint8(1) if values is None else values[is_chosen]
        matrix = np.zeros((self.n_rows, len(columns)), entries.dtype)
        matrix[self.row[is_chosen], position[is_chosen]] = entries
        return matrix

    def matched(self, names: Sequence[str]) -> "tuple[Array, list[tuple[int, str]]]":
        """Return the 0/1 matrix of tags with these names, and the row and name of all other tags.

        >>> tags = read_tags(["beach;fog", "dog"], None)
        >>> matrix, others = tags.matched(["beach", "dog"])
        >>> matrix.tolist(), others
        ([[1, 0], [0, 1]], [(0, 'fog')])
        """
        place = {name: j for j, name in enumerate(names)}
        column = np.array([place.get(name, -1) for name in self.names], dtype=np.int64)[self.column]
        known = column >= 0
        matrix = np.zeros((self.n_rows, len(names)), dtype=np.uint8)
        matrix[self.row[known], column[known]] = 1
        unmatched = zip(self.row[~known].tolist(), self.column[~known].tolist(), strict=True)
        return matrix, [(row, self.names[j]) for row, j in unmatched]

    def pick(self, matrix: "Array | sp.csr_array", columns: Array, default: Any) -> Array:
        """Look up each tag in a matrix of some columns; tags in other columns get `default`."""
        position = self._positions(columns)
        is_chosen = position >= 0
        picked = np.full(len(self.row), default, dtype=matrix.dtype)
        entries: Any = matrix[self.row[is_chosen], position[is_chosen]]
        # Depending on its version, SciPy returns entries of a CSR array dense or sparse.
        picked[is_chosen] = entries.toarray().ravel() if sp.issparse(entries) else entries
        return picked

    def _positions(self, columns: Array) -> Array:
        """Return the position of each tag's column in `columns`, or -1 if it is absent."""
        position = np.full(len(self.names), -1)
        position[columns] = np.arange(len(columns))
        return position[self.column]


def read_tags(candidates: Any, names: Iterable[Any] | None, separator: str = ";") -> Tags:
    """Read tags from a matrix, a DataFrame, lists of names, or texts such as "beach;dog".

    `Tags` are returned unchanged.
    """
    if isinstance(candidates, Tags):
        return candidates
    check_separator(separator)
    names = distinct_names(names)
    candidates = as_plain(candidates)
    if not hasattr(candidates, "shape") or getattr(candidates, "ndim", 2) == 1:
        candidates = list(candidates)
    if isinstance(candidates, list) and (
        any(isinstance(row, str) for row in candidates) or are_name_lists(candidates)
    ):
        # Elements of lists are names as they are; only texts are split and stripped.
        cells = TagCells.of(candidates, separator)
        rows = [
            cells.split(row) if isinstance(row, str) or is_missing(row) else row
            for row in candidates
        ]
        columns, known = name_rows(rows, names, "tags")
        row_of = np.repeat(np.arange(len(rows)), [len(row) for row in columns])
        flat = np.array([j for row in columns for j in row], dtype=np.int64)
        return Tags(row_of, flat, len(rows), known)
    if sp.issparse(candidates):
        entries = sp.coo_array(as_binary(candidates, "the tags", names=names))
        known = column_names(entries.shape[1], names, "tags")
        row = entries.row.astype(np.int64)
        column = entries.col.astype(np.int64)
        return Tags(row, column, entries.shape[0], known)
    labels = as_labels(candidates, names=names, what="tags")
    row, column = np.nonzero(labels.matrix)
    return Tags(row, column, len(labels.matrix), labels.names)
