"""Candidate labels in every container users have: arrays, sparse matrices, tables, name lists."""

import warnings
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from schirn._input import is_missing, repeated
from schirn.exceptions import EmptyCandidatesWarning, InputError

Array = np.ndarray


class Labels(NamedTuple):
    """A 0/1 matrix (n, l) of type uint8 and the names of its columns."""

    matrix: Array
    names: list[str]


def as_labels(y: Any, *, names: Iterable[Any] | None = None, what: str = "candidates") -> Labels:
    """Read labels from an array, a sparse matrix, a DataFrame or a list of lists of names.

    Parameters
    ----------
    y : 0/1 or bool array (n, l) or (n,), scipy sparse matrix, DataFrame, or one collection of
        label names per row
    names : the known label names. Names and columns are matched to them; an unknown one is an
        error. None takes them from y (columns of a table, sorted names of lists, "0", "1", ...).
    what : how the error messages call y.

    Examples
    --------
    >>> labels = as_labels([["dog", "beach"], ["cat"]])
    >>> labels.names, labels.matrix.tolist()
    (['beach', 'cat', 'dog'], [[1, 0, 1], [0, 1, 0]])
    """
    names = _as_names(names)
    if isinstance(y, Iterator):
        y = list(y)
    if _is_name_lists(y):
        return _from_names(list(y), names, what)
    found = [str(column) for column in y.columns] if hasattr(y, "columns") else None
    twice = repeated(found or [])
    if twice is not None:
        raise InputError(f"the {what} have two columns named {twice!r}; give each label one name")
    matrix = _binary(y, found or names, what)
    if found is None or names is None or found == names:
        return _named(matrix, names or found, what)
    return Labels(_reorder(matrix, found, names, what), names)


def check_candidates(labels: Labels) -> None:
    """Refuse a matrix without a single candidate; warn about rows without one."""
    matrix = labels.matrix
    if not matrix.any():
        raise InputError("no row carries a candidate label, so there is nothing to learn from")
    empty = np.flatnonzero(~matrix.any(axis=1))
    if len(empty) and matrix.shape[1] > 1:
        warn_empty_rows(len(empty), len(matrix), int(empty[0]))


def warn_empty_rows(n_empty: int, n: int, first: int) -> None:
    """Warn about rows without a candidate."""
    warnings.warn(
        f"{n_empty} of {n} rows carry no candidate label (the first is row {first}); they are "
        f"used as rows whose labels are all false",
        EmptyCandidatesWarning,
        stacklevel=5,
    )


def label_lists(matrix: Array, names: Sequence[str]) -> list[list[str]]:
    """The names of the labels that are set, row by row.

    >>> label_lists(np.array([[1, 0], [1, 1]]), ["beach", "dog"])
    [['beach'], ['beach', 'dog']]
    """
    return [[names[j] for j in np.flatnonzero(row).tolist()] for row in np.asarray(matrix)]


def _as_names(names: Iterable[Any] | None) -> list[str] | None:
    """Label names as texts, each one once."""
    if names is None:
        return None
    found = [str(name) for name in names]
    twice = repeated(found)
    if twice is not None:
        raise InputError(f"label_names holds {twice!r} twice; give each label its own name")
    return found


def _is_name_lists(y: Any) -> bool:
    """Whether y holds one collection of names per row (strings anywhere, sets, or nothing)."""
    if sp.issparse(y) or hasattr(y, "columns"):
        return False
    if isinstance(y, np.ndarray) and y.dtype != object:
        return False
    if not isinstance(y, Iterable) or isinstance(y, str):
        return False
    rows = list(y)
    if any(isinstance(row, set | frozenset) for row in rows):
        return True
    lists = [row for row in rows if isinstance(row, list | tuple | np.ndarray)]
    if lists and not any(len(row) for row in lists):
        return True
    return any(isinstance(name, str) for row in lists for name in row)


def _names_of(row: Iterable[Any]) -> list[str]:
    """The names of a row as texts, without missing ones."""
    return [str(name) for name in row if not is_missing(name)]


def _from_names(rows: list[Collection[Any]], names: list[str] | None, what: str) -> Labels:
    for i, row in enumerate(rows):
        if isinstance(row, str) or not isinstance(row, Collection):
            raise InputError(f"row {i} of the {what} is {row!r}, not a list of label names")
    named = [_names_of(row) for row in rows]
    known = sorted(set().union(*named)) if names is None else names
    column = {name: j for j, name in enumerate(known)}
    matrix = np.zeros((len(rows), len(known)), dtype=np.uint8)
    for i, row in enumerate(named):
        for name in row:
            j = column.get(name)
            if j is None:
                raise InputError(
                    f"row {i} of the {what} names the label {name!r}, which was not there "
                    f"in training; known labels are {_some(known)}"
                )
            matrix[i, j] = 1
    return Labels(matrix, known)


def _binary(y: Any, names: Sequence[str] | None, what: str) -> Array:
    """The values of y as a C-ordered uint8 matrix, all 0 or 1."""
    if sp.issparse(y):
        y = y.toarray()
    try:
        values = np.asarray(y.to_numpy() if hasattr(y, "to_numpy") else y)
        numeric = values if values.dtype.kind in "biuf" else values.astype(np.float64)
    except (TypeError, ValueError):
        raise InputError(
            f"the {what} must be a 0/1 matrix or one list of label names per row, "
            f"got {type(y).__name__} with rows of unequal length or entries that are not numbers"
        ) from None
    if numeric.ndim == 1:
        numeric = numeric[:, None]
    if numeric.ndim != 2 or 0 in numeric.shape:
        raise InputError(f"the {what} must have rows and label columns, got shape {values.shape}")
    wrong = (numeric != 0) & (numeric != 1)
    if wrong.any():
        i, j = (int(k) for k in np.argwhere(wrong)[0])
        label = repr(names[j]) if names is not None and j < len(names) else str(j)
        value = numeric[i, j]
        kind = "" if float(value).is_integer() or np.isnan(value) else ", a continuous value"
        raise InputError(
            f"the {what} must be 0 or 1, but row {i}, label {label} holds {value}{kind}"
        )
    return np.ascontiguousarray(numeric, dtype=np.uint8)


def _named(matrix: Array, names: list[str] | None, what: str) -> Labels:
    if names is None:
        return Labels(matrix, [str(j) for j in range(matrix.shape[1])])
    if len(names) != matrix.shape[1]:
        raise InputError(
            f"the {what} have {matrix.shape[1]} label columns, but {len(names)} are expected"
        )
    return Labels(matrix, names)


def _reorder(matrix: Array, found: list[str], names: list[str], what: str) -> Array:
    """Columns of a table brought into the order known from training; absent ones are 0."""
    unknown = [name for name in found if name not in set(names)]
    if unknown:
        raise InputError(
            f"the {what} have a column {unknown[0]!r}, which was not there in training; "
            f"known labels are {_some(names)}"
        )
    out = np.zeros((len(matrix), len(names)), dtype=np.uint8)
    out[:, [names.index(name) for name in found]] = matrix
    return out


def _some(names: Sequence[str], most: int = 8) -> str:
    more = f", ... ({len(names)} in all)" if len(names) > most else ""
    return ", ".join(map(repr, names[:most])) + more
