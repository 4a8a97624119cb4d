"""Tag cells such as "beach;dog", and tags kept as (row, column) pairs.

Pairs need no room for the cells that are empty, so tens of thousands of rare tags cost little.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from schirn._files import brief
from schirn._input import Array, as_plain, is_missing
from schirn.exceptions import InputError
from schirn.labels.matrix import (
    are_name_lists,
    as_binary,
    as_labels,
    column_names,
    distinct_names,
    name_rows,
)


class Tags(NamedTuple):
    """Rows and columns of the tags, sorted by row and column, and the names of the columns."""

    row: Array
    column: Array
    n_rows: int
    names: list[str]

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows and number of distinct tags."""
        return self.n_rows, len(self.names)

    @property
    def counts(self) -> Array:
        """Number of rows that carry each tag."""
        return np.bincount(self.column, minlength=len(self.names))

    def lists(self, row: Array, column: Array) -> Array:
        """Return whether each of these cells is listed."""
        listed, cells = self.row * len(self.names) + self.column, row * len(self.names) + column
        place = np.searchsorted(listed, cells).clip(max=len(listed) - 1)
        return np.asarray(listed[place] == cells)

    def dense(self, columns: Array | None = None, values: Array | None = None) -> Array:
        """Return the matrix of some or all columns: 1, or the value of the tag a row has."""
        columns = np.arange(len(self.names)) if columns is None else columns
        position = self._positions(columns)
        inside = position >= 0
        matrix = np.zeros((self.n_rows, len(columns)), np.uint8 if values is None else values.dtype)
        matrix[self.row[inside], position[inside]] = 1 if values is None else values[inside]
        return matrix

    def pick(self, matrix: "Array | sp.csr_array", columns: Array, default: Any) -> Array:
        """Return the entry of each tag in a matrix of some columns, `default` for other tags."""
        position = self._positions(columns)
        inside = position >= 0
        out = np.full(len(self.row), default, dtype=matrix.dtype)
        entries: Any = matrix[self.row[inside], position[inside]]
        # Depending on its version, SciPy returns entries of a CSR array as an array or sparse.
        out[inside] = entries.toarray().ravel() if sp.issparse(entries) else entries
        return out

    def _positions(self, columns: Array) -> Array:
        """Return the position of each tag in `columns`, -1 if it is not there."""
        position = np.full(len(self.names), -1)
        position[columns] = np.arange(len(columns))
        return position[self.column]


def read_tags(candidates: Any, names: Iterable[Any] | None, separator: str = ";") -> Tags:
    """Read tags from a matrix, a DataFrame, lists of names, or texts such as "beach;dog"."""
    check_separator(separator)
    names, candidates = distinct_names(names), as_plain(candidates)
    if not hasattr(candidates, "shape") or getattr(candidates, "ndim", 2) == 1:
        candidates = list(candidates)
    if isinstance(candidates, list) and (
        any(isinstance(row, str) for row in candidates) or are_name_lists(candidates)
    ):
        # Tags in a list are names already; only a text is split and stripped.
        rows = [
            split_tags(row, separator) if isinstance(row, str) or is_missing(row) else row
            for row in candidates
        ]
        columns, known = name_rows(rows, names, "tags")
        row_of = np.repeat(np.arange(len(rows)), [len(row) for row in columns])
        flat = np.array([j for row in columns for j in row], dtype=np.int64)
        return Tags(row_of, flat, len(rows), known)
    if sp.issparse(candidates):
        entries = sp.coo_array(as_binary(candidates, "the tags", names=names))
        known = column_names(entries.shape[1], names, "tags")
        row, column = entries.row.astype(np.int64), entries.col.astype(np.int64)
        return Tags(row, column, entries.shape[0], known)
    labels = as_labels(candidates, names=names, what="tags")
    row, column = np.nonzero(labels.matrix)
    return Tags(row, column, len(labels.matrix), labels.names)


def check_separator(separator: Any) -> None:
    """Raise InputError unless tags can be split at `separator`."""
    if not isinstance(separator, str) or not separator:
        raise InputError(
            f"separator must be a text of at least one character, not {separator!r}",
            parameter="separator",
        )


def split_tags(cell: Any, separator: str) -> list[str]:
    """Return the tags of one cell of a table: a text, a list, a number or a missing value.

    >>> split_tags("beach; dog;", ";"), split_tags(["beach", None, 8], ";")
    (['beach', 'dog'], ['beach', '8'])
    """
    if isinstance(cell, str):
        pieces = cell.split(separator)
    elif isinstance(cell, list | tuple | np.ndarray):
        nested = next((tag for tag in cell if isinstance(tag, list | tuple | dict)), None)
        if nested is not None:
            raise InputError(
                f"{brief(nested)} is nested in a list of tags; each tag must be a text"
            )
        pieces = [_text(tag) for tag in cell if not is_missing(tag)]
    else:
        pieces = [] if is_missing(cell) else [_text(cell)]
    return [tag for tag in map(str.strip, pieces) if tag]


def change_tags(
    cell: Any,
    replaced: Mapping[str, Sequence[str]],
    added: Sequence[str],
    separator: str,
    value: Callable[[str], Any] = str,
) -> Any:
    """Return a cell with some tags replaced, by nothing or by others, and some added at the end.

    A text keeps the spaces around its tags. No tag is put in that the cell has already.

    Parameters
    ----------
    cell : object
        A text, a list, a number or a missing value, as for `split_tags`.
    replaced : dict from str to list of str
        Tags to replace and what takes their place.
    added : list of str
    separator : str
    value : function from str to object
        Turns a new tag into an element of a list, or into a cell that is neither text nor list.

    Examples
    --------
    >>> change_tags("beach; dgo; cat", {"dgo": ["dog"], "cat": []}, ["sun"], ";")
    'beach; dog; sun'
    """
    present = {tag for tag in split_tags(cell, separator) if tag not in replaced}

    def new(tags: Iterable[str]) -> list[str]:
        found = [tag for tag in dict.fromkeys(tags) if tag not in present]
        present.update(found)
        return found

    if isinstance(cell, str):
        pieces = []
        for piece in cell.split(separator):
            tag = piece.strip()
            if tag not in replaced:
                pieces.append(piece)
            else:
                before, after = piece.split(tag, 1)
                pieces += [before + name + after for name in new(replaced[tag])]
        if replaced:
            pieces = separator.join(pieces).strip().split(separator)
        more = new(added)
        if not more:
            return separator.join(pieces) if replaced else cell
        last = max((k for k, piece in enumerate(pieces) if piece.strip()), default=None)
        if last is None:
            return separator.join(more)
        # As the other tags are set apart: "beach | dog" becomes "beach | dog | sun".
        before = after = ""
        if last > 0:
            after = pieces[0][len(pieces[0].rstrip()) :]
            before = pieces[1][: len(pieces[1]) - len(pieces[1].lstrip())]
        joined = f"{after}{separator}{before}".join([pieces[last].rstrip(), *more])
        return separator.join([*pieces[:last], joined, *pieces[last + 1 :]])
    if isinstance(cell, list | tuple | np.ndarray):
        elements: list[Any] = []
        for element in cell:
            tag = "" if is_missing(element) else _text(element).strip()
            elements += map(value, new(replaced[tag])) if tag in replaced else [element]
        return [*elements, *map(value, new(added))]
    kept = [] if is_missing(cell) or _text(cell) in replaced else [cell]
    gained = new(tag for tags in (*replaced.values(), added) for tag in tags)
    if len(kept) + len(gained) > 1:
        raise InputError(f"a cell that holds one number has no room for {brief(gained[-1])}")
    return next(iter([*kept, *map(value, gained)]), None)


def _text(tag: Any) -> str:
    if isinstance(tag, str | int | float | np.number):
        return str(tag)
    raise InputError(f"{brief(tag)} is neither a text of tags nor a list of them")
