"""Read the tags that a user passes, and refuse evident mistakes: rows out of order, separators."""

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

from schirn._input import as_plain
from schirn.exceptions import InputError
from schirn.labels.cells import TagCells
from schirn.labels.tags import Tags, read_tags

ANSWER_WORDS: dict[str, bool | None] = {
    **dict.fromkeys(("yes", "y", "right", "correct", "true", "1", "1.0"), True),
    **dict.fromkeys(("no", "n", "wrong", "incorrect", "false", "0", "0.0"), False),
    **dict.fromkeys(("?", "unsure", "unknown"), None),
}
"""Whether the tag is right, by the word of an answer in small letters; None if unsure."""
SEPARATORS = (";", ",", "|", "/", "\t")
_DEFAULT = SEPARATORS[0]
# Below this share of the cells, the separator may be part of a tag.
_STRAY = 0.05
# The table uses another separator if it is in at least this many times as many cells.
_CLEARLY = 10


def check_same_order(first: tuple[str, Any], *others: tuple[str, Any]) -> None:
    """Raise InputError if an argument has the rows of the first in another order, by their index.

    Rows are matched by position. Only an index with the same values in another order is evidently
    a mistake; arguments with other values, or without an index, pass.

    Parameters
    ----------
    first : tuple of str and object
        Name and value of the argument whose order counts.
    *others : tuple of str and object
        Names and values of the arguments to compare with it.
    """
    name, value = first
    index = _index(value)
    if index is None:
        return
    for other_name, other in others:
        other_index = _index(other)
        if other_index is None or len(other_index) != len(index) or index.equals(other_index):
            continue
        if Counter(index.tolist()) == Counter(other_index.tolist()):
            raise InputError(
                f"{other_name} has the index of {name} in another order, but rows are matched by "
                f"position; {_remedy(name, index, other_name, other_index)}",
                parameter=other_name,
            )


def _remedy(name: str, index: Any, other_name: str, other_index: Any) -> str:
    """Return what to do about an index in another order."""
    plain = f"{other_name}.to_numpy()"
    aligned = f"{other_name}.loc[{name}.index]"
    if not index.is_unique:
        return f"pass {plain} if the positions are right, and otherwise sort both alike"
    if any(_is_default(each) for each in (index, other_index)):
        # A new index numbers the rows of a table as they stand: positions are probably right.
        return f"pass {plain} if the positions are right, or {aligned} if the index is"
    return f"pass {aligned}, or {plain} if the positions are right"


def _is_default(index: Any) -> bool:
    """Return whether an index is that of a pandas object made without one."""
    parts = [getattr(index, name, None) for name in ("start", "step", "stop")]
    return parts == [0, 1, len(index)]


def _index(value: Any) -> Any:
    """Return the index of a pandas object, or of a ranking of one; None for anything else."""
    # A list has an `index` too, which is a method.
    index = getattr(value, "index", None)
    return index if hasattr(index, "get_indexer") else None


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
    """Raise InputError if most strings have another separator instead of this one.

    A separator that the user chose is only refused if no string contains it.
    """
    texts = [row for row in rows if isinstance(row, str)]
    if separator != _DEFAULT and any(separator in text for text in texts):
        return
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
