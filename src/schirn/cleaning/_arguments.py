"""Read the features and tags that a user passes, and refuse evident mistakes.

Such as another separator, dates as numbers, and broken sparse matrices.
"""

from collections.abc import Collection, Iterable, Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

from schirn._files import check_sparse, reason_of
from schirn._input import as_plain, entry, location
from schirn._input import check_same_order as check_same_order
from schirn.exceptions import InputError
from schirn.features.table import read_features
from schirn.labels.cells import TagCells
from schirn.labels.tags import Tags, read_tags

ANSWER_WORDS: dict[str, bool | None] = {
    **dict.fromkeys(("yes", "y", "right", "correct", "true", "1", "1.0"), True),
    **dict.fromkeys(("no", "n", "wrong", "incorrect", "false", "0", "0.0"), False),
    **dict.fromkeys(("?", "unsure", "unknown"), None),
}
"""Whether the tag is right, by the word of an answer in small letters; None if unsure."""
SEPARATORS = (";", ",", "|", "/", "\t")
# Below this share of the cells, the separator may be part of a tag.
_STRAY = 0.05
# The table uses another separator if it is in at least this many times as many cells.
_CLEARLY = 10

# By the kind of a NumPy type: what would become numbers without a warning.
_NO_FEATURES = {"c": "complex numbers", "M": "dates", "m": "durations"}
_LARGEST = float(np.finfo(np.float32).max)


def check_container(name: str, value: Any) -> None:
    """Raise InputError for a masked array, or a sparse matrix that points outside of itself.

    Parameters
    ----------
    name : str
        Name of the argument.
    value : object
        Its value; anything else passes.
    """
    if np.ma.is_masked(value):
        raise InputError(
            f"{name} is a masked array, whose mask would be ignored; replace the masked values, "
            f"for example with {name}.filled(0)",
            parameter=name,
        )
    if sp.issparse(value) and value.format in ("csr", "csc"):
        try:
            check_sparse(value)
        except ValueError as error:
            raise InputError(
                f"{name} is not a valid sparse matrix ({reason_of(error)}); build it again",
                parameter=name,
            ) from None


def checked_features(X: Any) -> tuple[Any, bool]:
    """Read the features of a user; booleans become numbers.

    Parameters
    ----------
    X : matrix, DataFrame, sequence of texts, or rows that are not in memory

    Returns
    -------
    tuple of (array or matrix, bool)
        The features, and whether they are already scaled.

    Raises
    ------
    InputError
        If there are no features, or if they would be misread.
    """
    if location(X) == "memory":
        _check_kind(X)
    try:
        X, _, is_scaled = read_features(X)
    except OverflowError as error:
        raise InputError(
            f"X holds a number that is too large ({reason_of(error)}); rescale the feature",
            parameter="X",
        ) from None
    if location(X) == "memory" and X.ndim == 2:
        if not X.shape[1]:
            raise InputError("X has no columns, so no tag can be judged", parameter="X")
        if X.dtype == bool:
            X = X.astype(np.float64)
    return X, is_scaled


def _check_kind(X: Any) -> None:
    """Raise InputError for an array or frame of what only looks like numbers."""
    dtypes = [X.dtype] if hasattr(X, "dtype") else getattr(X, "dtypes", ())
    kinds = {getattr(dtype, "kind", "") for dtype in dtypes}
    # In a frame with other columns, dates are categories or texts.
    kind = "c" if "c" in kinds else "".join(kinds)
    if kind in _NO_FEATURES:
        raise InputError(
            f"X holds {_NO_FEATURES[kind]}; convert them to numbers that describe the rows",
            parameter="X",
        )


def check_single(X: Any) -> None:
    """Raise InputError for a value beyond single precision, in which copies of rows are found.

    Parameters
    ----------
    X : (n, d) array or CSR matrix
        Features without NaN or infinity.
    """
    values = X.data if sp.issparse(X) else X
    if max(values.max(initial=0), -values.min(initial=0)) > _LARGEST:
        row, column, value = entry(X, int(np.flatnonzero(np.abs(values) > _LARGEST)[0]))
        raise InputError(
            f"X holds {value:g} at row {row}, column {column}, which is too large; is it a code "
            f"for a missing value? Remove it, or rescale the feature",
            parameter="X",
        )


def read_candidates(
    candidates: Any, names: Sequence[str] | None, separator: str, parameter: str = "candidates"
) -> Tags:
    """Read the tags of a table; blank tags in lists and blank columns do not count.

    Parameters
    ----------
    candidates : matrix, DataFrame, or sequence of lists or strings
        Tags of the rows.
    names : sequence of str or None
        Names of the columns of a matrix.
    separator : str
        Text between the tags of a string.
    parameter : str
        Name of the argument in messages.

    Returns
    -------
    Tags

    Raises
    ------
    InputError
        If most strings evidently have another separator.
    """
    plain = as_plain(candidates)
    is_matrix = sp.issparse(plain) or getattr(plain, "ndim", 1) != 1 or hasattr(plain, "columns")
    if isinstance(plain, Tags) or is_matrix or hasattr(plain, "column_names"):
        tags = read_tags(plain, names, separator)
        return tags if isinstance(plain, Tags) else _without_blank_columns(tags)
    rows = list(plain)
    _check_separator(rows, separator, parameter)
    return read_tags([_without_blanks(row) for row in rows], names, separator)


def _check_separator(rows: list[Any], separator: str, parameter: str) -> None:
    """Raise InputError if most strings have another separator instead of this one."""
    texts = [row for row in rows if isinstance(row, str)]
    dominant = other_separator(texts, separator)
    if dominant is not None and not TagCells.of(texts, separator).notation:
        mark, count = dominant
        raise InputError(
            f"most strings of {parameter} contain {mark!r} and {count} {separator!r}; pass "
            f"separator={mark!r} if it separates tags, and otherwise a list of tags per row",
            parameter="separator",
        )


def _without_blank_columns(tags: Tags) -> Tags:
    """Return the tags of a frame without those of columns that have no name."""
    has_name = np.array([bool(name.strip()) for name in tags.names], dtype=bool)
    if has_name.all():
        return tags
    is_named = has_name[tags.column]
    column = (np.cumsum(has_name) - 1)[tags.column[is_named]]
    names = [name for name in tags.names if name.strip()]
    return Tags(tags.row[is_named], column, tags.n_rows, names)


def _without_blanks(row: Any) -> Any:
    """Return a list of tags without blank ones, such as those of ''.split(';')."""
    if not isinstance(row, list | tuple | set | frozenset | np.ndarray):
        return row
    if not any(isinstance(tag, str) and not tag.strip() for tag in row):
        return row
    return [tag for tag in row if not (isinstance(tag, str) and not tag.strip())]


def other_separator(
    cells: Iterable[Any], separator: str, usual: Collection[str] = ()
) -> tuple[str, str] | None:
    """Return the mark that most cells have instead of the separator; usually None.

    Few cells have the separator: at most 5%, or a tenth as many as have the other, and most of
    these do not contain both, as names such as "Washington, DC" would.

    Parameters
    ----------
    cells : iterable
        The cells; only texts count.
    separator : str
        The separator that the reader expects.
    usual : collection of str
        Cells that are as they should be, whatever they contain.

    Returns
    -------
    tuple of str or None
        The mark, and in words how many cells have the separator: "none" or "only 3".
    """
    texts = [cell for cell in cells if isinstance(cell, str) and cell.strip()]
    with_separator = [cell for cell in texts if separator in cell]
    n_own = len(with_separator)
    count = f"only {n_own:,}" if n_own else "none"
    for mark in SEPARATORS:
        n_other = sum(mark in cell and cell not in usual for cell in texts)
        if mark == separator or 2 * n_other <= len(texts):
            continue
        n_both = sum(mark in cell for cell in with_separator)
        is_rare = _CLEARLY * n_own <= n_other and 2 * n_both < n_own
        if n_own <= _STRAY * len(texts) or is_rare:
            return mark, count
    return None
