"""Tags as they come, one entry per row and tag: tens of thousands of rare ones cost nothing."""

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from schirn._input import is_missing
from schirn.exceptions import InputError
from schirn.labels.matrix import (
    _as_names,
    _is_name_lists,
    _named,
    _names_of,
    _some,
    as_labels,
)

Array = np.ndarray


class Tags(NamedTuple):
    """Rows and columns of the tags, sorted by row, and the names of the columns."""

    row: Array
    column: Array
    n_rows: int
    names: list[str]

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and kinds of tags."""
        return self.n_rows, len(self.names)

    @property
    def counts(self) -> Array:
        """How many rows carry each tag."""
        return np.bincount(self.column, minlength=len(self.names))

    def dense(self, columns: Array, values: Array | None = None) -> Array:
        """The matrix of some columns: 1, or a value of its own, where there is a tag, else 0."""
        place = self._places(columns)
        inside = place >= 0
        matrix = np.zeros((self.n_rows, len(columns)), np.uint8 if values is None else values.dtype)
        matrix[self.row[inside], place[inside]] = 1 if values is None else values[inside]
        return matrix

    def pick(self, matrix: Array, columns: Array, default: Any) -> Array:
        """One entry per tag of a matrix of some columns, a default for tags of others."""
        place = self._places(columns)
        inside = place >= 0
        out = np.full(len(self.row), default, dtype=matrix.dtype)
        out[inside] = matrix[self.row[inside], place[inside]]
        return out

    def _places(self, columns: Array) -> Array:
        """For each tag its place among some columns, -1 outside them."""
        place = np.full(len(self.names), -1)
        place[columns] = np.arange(len(columns))
        return place[self.column]


def read_tags(candidates: Any, names: Iterable[Any] | None, separator: str = ";") -> Tags:
    """Tags from a matrix, a table, lists of names, or texts such as "beach;dog"."""
    if not isinstance(separator, str) or not separator:
        raise InputError(
            f"separator must be a text of at least one character, not {separator!r}",
            parameter="separator",
        )
    names = _as_names(names)
    if not hasattr(candidates, "shape") or getattr(candidates, "ndim", 2) == 1:
        candidates = list(candidates)
    if isinstance(candidates, list) and (
        any(isinstance(row, str) for row in candidates) or _is_name_lists(candidates)
    ):
        return _from_lists([_split(row, separator) for row in candidates], names)
    if sp.issparse(candidates):
        return _from_sparse(candidates, names)
    labels = as_labels(candidates, names=names, what="tags")
    row, column = np.nonzero(labels.matrix)
    return Tags(row, column, len(labels.matrix), labels.names)


def _split(cell: Any, separator: str) -> Any:
    """The tags of a cell; none where it is missing."""
    if is_missing(cell):
        return []
    if not isinstance(cell, str):
        return cell
    return [tag.strip() for tag in cell.split(separator) if tag.strip()]


def _from_lists(rows: list[Any], names: list[str] | None) -> Tags:
    for i, row in enumerate(rows):
        if isinstance(row, str) or not hasattr(row, "__iter__"):
            raise InputError(f"row {i} of the tags is {row!r}, not a list of label names")
    unique = [set(_names_of(row)) for row in rows]
    known = sorted(set().union(*unique)) if names is None else names
    place = {name: j for j, name in enumerate(known)}
    columns = []
    for i, row in enumerate(unique):
        unknown = [name for name in row if name not in place]
        if unknown:
            raise InputError(
                f"row {i} of the tags names the label {min(unknown)!r}, which is not in "
                f"label_names; these are {_some(known)}"
            )
        columns.append(sorted(place[name] for name in row))
    row_of = np.repeat(np.arange(len(rows)), [len(row) for row in columns])
    flat = np.array([j for row in columns for j in row], dtype=np.int64)
    return Tags(row_of, flat, len(rows), known)


def _from_sparse(matrix: Any, names: list[str] | None) -> Tags:
    matrix = sp.csr_array(matrix, copy=True)
    matrix.sum_duplicates()
    matrix.eliminate_zeros()
    entries = sp.coo_array(matrix)
    bad = np.flatnonzero(entries.data != 1)
    if len(bad):
        i, j, value = entries.row[bad[0]], entries.col[bad[0]], entries.data[bad[0]]
        raise InputError(f"the tags must be 0 or 1, but row {i}, label {j} holds {value}")
    # A matrix without rows has the right number of columns for the check of the names.
    known = _named(np.empty((0, matrix.shape[1])), names, "tags").names
    row, column = entries.row.astype(np.int64), entries.col.astype(np.int64)
    return Tags(row, column, matrix.shape[0], known)
