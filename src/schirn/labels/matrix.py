"""Read 0/1 matrices and lists of label names from many kinds of containers."""

import warnings
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from schirn._input import Array, as_plain, entry, is_missing, repeated, whole_text
from schirn.exceptions import EmptyCandidatesWarning, InputError
from schirn.labels.cells import TagCells


class Labels(NamedTuple):
    """A 0/1 matrix (n, l) of type uint8 and the names of its columns.

    Attributes
    ----------
    matrix : (n, l) uint8 array
        0/1 labels.
    names : list of str
        Names of the columns.
    """

    matrix: Array
    names: list[str]


def as_labels(y: Any, *, names: Iterable[Any] | None = None, what: str = "candidates") -> Labels:
    """Read labels from an array, a sparse matrix, a DataFrame, lists of names or texts of tags.

    Parameters
    ----------
    y : array-like of shape (n, l) or (n,), sparse matrix, DataFrame, list of lists of str, or texts
        0/1 or bool, one collection of label names per row, or one text such as "beach;dog".
    names : iterable of str, optional
        Known label names, to which the names or columns of `y` are matched; unknown names raise
        InputError. By default, the columns of a DataFrame, the sorted names of lists, or "0",
        "1", ...
    what : str
        Name of `y` in error messages.

    Returns
    -------
    Labels

    Examples
    --------
    >>> labels = as_labels([["dog", "beach"], ["cat"]])
    >>> labels.names, labels.matrix.tolist()
    (['beach', 'cat', 'dog'], [[1, 0, 1], [0, 1, 0]])
    """
    # Shortcut for the most common container.
    is_matrix = isinstance(y, np.ndarray) and y.dtype.kind in "biu" and y.ndim == 2
    if names is None and is_matrix and y.size and y.min() >= 0 and y.max() <= 1:
        matrix = np.ascontiguousarray(y, dtype=np.uint8)
        return Labels(matrix, [str(j) for j in range(y.shape[1])])
    return _read_labels(y, distinct_names(names), what)


def _read_labels(y: Any, names: list[str] | None, what: str) -> Labels:
    """Read labels from any container."""
    columns = None
    if not (sp.issparse(y) or (isinstance(y, np.ndarray) and y.dtype.kind in "biuf")):
        y = as_plain(y)
        y = list(y) if isinstance(y, Iterator) else y
        lists = _name_lists(y)
        if lists is not None:
            return _from_names(lists, names, what)
        columns = table_columns(y, f"the {what}")
    matrix = as_binary(y, f"the {what}", names=columns or names)
    if 0 in matrix.shape:
        raise InputError(f"the {what} must have rows and label columns, got shape {np.shape(y)}")
    matrix = matrix.toarray() if sp.issparse(matrix) else np.ascontiguousarray(matrix)
    if columns is not None and names is not None and columns != names:
        return Labels(in_order(matrix, columns, names, f"the {what}"), names)
    return Labels(matrix, column_names(matrix.shape[1], names or columns, what))


def table_columns(y: Any, what: str) -> list[str] | None:
    """Return the column names of a table, or None for an array."""
    # The columns of an Arrow table are arrays; those of a DataFrame are names.
    columns = getattr(y, "column_names", getattr(y, "columns", None))
    if columns is None:
        return None
    return _distinct(columns, f"{what} must not have two columns named {{!r}}; rename one")


def _distinct(names: Iterable[Any], complaint: str) -> list[str]:
    """Return names as strings; raise InputError with `complaint` if one is repeated."""
    texts = [whole_text(str(name)) for name in names]
    repeat = repeated(texts)
    if repeat is not None:
        raise InputError(complaint.format(repeat))
    return texts


def _name_lists(y: Any) -> list[Any] | None:
    """Return one collection of names per row, or None for numbers; texts of tags are split."""
    if y is None:
        raise InputError(
            "fit requires y to be passed, but the target y is None; pass the candidate labels"
        )
    if _are_tag_texts(y):
        cells = TagCells.of(list(y))
        return [cells.split(row) for row in y]
    return list(y) if are_name_lists(y) else None


def as_binary(
    values: Any,
    what: str,
    *,
    names: Sequence[str] | None = None,
    first_row: int = 0,
    signed: bool = False,
) -> Any:
    """Read and validate a 0/1 matrix, for all label matrices of the package.

    Parameters
    ----------
    values : array-like of shape (n, l) or (n,), sparse matrix or DataFrame
    what : str
        Name of the matrix in error messages, such as "the candidates".
    names : list of str, optional
        Names of the columns, for error messages.
    first_row : int
        Index of the first row in error messages, for a block of a larger matrix.
    signed : bool
        Accept -1 in place of 0.

    Returns
    -------
    uint8 ndarray of shape (n, l), or csr_array without stored zeros or duplicates for sparse input
    """
    sparse = sp.issparse(values)
    if sparse:
        matrix: Any = sp.csr_array(values, copy=True)
        matrix.sum_duplicates()
    else:
        matrix = as_numbers(values, what, "a 0/1 matrix or one list of label names per row")
        matrix = matrix[:, None] if matrix.ndim == 1 else matrix
        if matrix.ndim != 2:
            raise InputError(f"{what} must have rows and label columns, got shape {matrix.shape}")
    stored = matrix.data if sparse else matrix
    wrong = (stored != 0) & (stored != 1) & ~(signed & (stored == -1))
    if wrong.any():
        i, j, value = entry(matrix, int(np.flatnonzero(wrong)[0]))
        label = repr(names[j]) if names is not None and j < len(names) else str(j)
        hint = "" if float(value).is_integer() or np.isnan(value) else ", a continuous value"
        hint = "; replace -1 by 0" if value == -1 else hint
        allowed = "0 or 1 (or -1 for 0)" if signed else "0 or 1"
        raise InputError(
            f"{what} must be {allowed}, but row {first_row + i}, label {label} holds {value}{hint}"
        )
    stored = (stored == 1 if signed else stored).astype(np.uint8, copy=False)
    if not sparse:
        return stored
    matrix.data = stored
    matrix.eliminate_zeros()
    return matrix


def as_numbers(values: Any, what: str, expected: str = "an array of numbers") -> Array:
    """Convert values to an array of bools, integers or floats, or raise InputError."""
    try:
        array = np.asarray(values.to_numpy() if hasattr(values, "to_numpy") else values)
        if array.dtype.kind in "OSU":
            array = array.astype(np.float64)
    except (TypeError, ValueError):
        array = None
    if array is None or array.dtype.kind not in "biuf":
        raise InputError(
            f"{what} must be {expected}, got {type(values).__name__} with rows of unequal length "
            f"or entries that are not numbers"
        ) from None
    return array


def check_empty_rows(empty: Array, shape: tuple[int, int]) -> None:
    """Warn about rows without candidates, given their indices; raise InputError if no row has any.

    `shape` is that of the candidates.
    """
    n, n_labels = shape
    if len(empty) == n:
        raise InputError("no row carries a candidate label, so there is nothing to learn from")
    if len(empty) and n_labels > 1:
        warnings.warn(
            f"{len(empty)} of {n} rows carry no candidate label (the first is row {empty[0]}, "
            f"counted from 0); all labels of these rows count as false",
            EmptyCandidatesWarning,
            stacklevel=4,
        )


def label_lists(matrix: Array, names: Sequence[str]) -> list[list[str]]:
    """Return the names of the labels that are set, row by row.

    Parameters
    ----------
    matrix : (n, l) 0/1 array
    names : sequence of str
        Names of the columns.

    Returns
    -------
    list of list of str

    Examples
    --------
    >>> label_lists(np.array([[1, 0], [1, 1]]), ["beach", "dog"])
    [['beach'], ['beach', 'dog']]
    """
    return [[names[j] for j in np.flatnonzero(row).tolist()] for row in np.asarray(matrix)]


def distinct_names(names: Iterable[Any] | None) -> list[str] | None:
    """Return label names as strings; raise InputError if one is repeated."""
    if names is None:
        return None
    return _distinct(names, "label_names holds {!r} twice; give each label its own name")


def column_names(n_columns: int, names: list[str] | None, what: str) -> list[str]:
    """Return the column names after checking their number; "0", "1", ... by default."""
    if names is None:
        return [str(j) for j in range(n_columns)]
    if len(names) != n_columns:
        raise InputError(
            f"the {what} have {n_columns} label columns, but label_names has {len(names)} names; "
            f"each column needs one name"
        )
    return names


def _are_tag_texts(y: Any) -> bool:
    """Whether y holds one text of tags per row, such as "beach;dog", and not only numbers."""
    if isinstance(y, str) or sp.issparse(y) or hasattr(y, "columns") or getattr(y, "ndim", 1) != 1:
        return False
    if isinstance(y, np.ndarray) and y.dtype.kind not in "OU":
        return False
    rows = [row for row in y if not is_missing(row)] if isinstance(y, Iterable) else []
    return bool(rows) and all(isinstance(row, str) for row in rows) and not _are_numbers(rows)


def _are_numbers(texts: list[str]) -> bool:
    try:
        return bool(np.isfinite(np.array(texts, dtype=np.float64)).all())
    except ValueError:
        return False


def are_name_lists(y: Any) -> bool:
    """Whether y holds one collection of names per row (strings anywhere, sets, or nothing)."""
    if sp.issparse(y) or hasattr(y, "columns"):
        return False
    if isinstance(y, np.ndarray) and y.dtype != object:
        return False
    return isinstance(y, Iterable) and not isinstance(y, str) and _hold_names(list(y))


def _hold_names(rows: list[Any]) -> bool:
    if any(isinstance(row, set | frozenset) for row in rows):
        return True
    lists = [row for row in rows if isinstance(row, list | tuple | np.ndarray)]
    if lists and not any(len(row) for row in lists):
        return True
    return any(isinstance(name, str) for row in lists for name in row)


def name_rows(
    rows: Sequence[Any], names: list[str] | None, what: str
) -> tuple[list[list[int]], list[str]]:
    """Return the sorted column indices of each row of names, and the column names.

    Missing names are ignored; repeated names count once.
    """
    for i, row in enumerate(rows):
        if isinstance(row, str) or not isinstance(row, Iterable):
            raise InputError(f"row {i} of the {what} is {row!r}, not a list of label names")
    row_names = [{whole_text(str(name)) for name in row if not is_missing(name)} for row in rows]
    known = sorted(set().union(*row_names)) if names is None else names
    column = {name: j for j, name in enumerate(known)}
    for i, row in enumerate(row_names):
        unknown = sorted(name for name in row if name not in column)
        if unknown:
            raise InputError(
                f"row {i} of the {what} names the label {unknown[0]!r}, which is not among the "
                f"known labels {_some(known)}"
            )
    return [sorted(column[name] for name in row) for row in row_names], known


def _from_names(rows: list[Any], names: list[str] | None, what: str) -> Labels:
    columns, known = name_rows(rows, names, what)
    matrix = np.zeros((len(rows), len(known)), dtype=np.uint8)
    for i, row in enumerate(columns):
        matrix[i, row] = 1
    return Labels(matrix, known)


def in_order(
    values: Array, columns: list[str], names: Sequence[str], what: str, default: float = 0
) -> Array:
    """Return the columns of a table in the order of `names`; absent ones get the default."""
    place = {name: j for j, name in enumerate(names)}
    unknown = [name for name in columns if name not in place]
    if unknown:
        raise InputError(
            f"{what} must not have a column {unknown[0]!r}, which is not among the known labels "
            f"{_some(names)}"
        )
    ordered = np.full((len(values), len(names)), default, dtype=np.result_type(values, default))
    ordered[:, [place[name] for name in columns]] = values
    return ordered


def _some(names: Sequence[str], limit: int = 8) -> str:
    ending = f", ... ({len(names)} in all)" if len(names) > limit else ""
    return ", ".join(map(repr, names[:limit])) + ending
