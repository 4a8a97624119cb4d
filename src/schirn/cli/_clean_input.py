"""What `schirn clean` learns from: texts, numbers or embeddings, and the columns beside them."""

import argparse
import shlex
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from schirn._files import read_npy
from schirn._input import suggest
from schirn.cleaning.find import text_features
from schirn.cli._output import note
from schirn.datasets.tables import LABEL_COLUMNS, Table
from schirn.exceptions import DataError, InputError

Array = np.ndarray

_ID_COLUMNS = ("id", "index", "row", "row_id", "item_id")
_YES = ("1", "1.0", "true", "yes", "y", "x")
_NO = ("", "0", "0.0", "false", "no", "n", "none", "nan")
_MOST_SHOWN = 2000


class Features(NamedTuple):
    """Rows to learn from, in words where they come from, and groups that stay together."""

    X: Any
    source: str
    is_text: bool
    groups: list[Any] | None


def label_column(path: str, table: Table, name: str | None) -> str:
    """The column of tags."""
    if name is not None:
        return known_column(path, table, name)
    found = [column for column in LABEL_COLUMNS if column in table.columns]
    if found:
        return found[0]
    there = ", ".join(map(repr, table.columns))
    raise InputError(f"{path}: which column holds the tags? Pass --labels; there are {there}")


def known_column(path: str, table: Table, name: str) -> str:
    """The name itself, if there is such a column."""
    if name in table.columns:
        return name
    raise InputError(f"{path}: there is no column {name!r}; {suggest(name, table.columns)}")


def _groups(args: argparse.Namespace, table: Table) -> list[Any] | None:
    """The column of groups; a row without one stands alone."""
    if not args.group:
        return None
    cells = table.column(known_column(args.data, table, args.group))
    return [None if isinstance(cell, str) and not cell.strip() else cell for cell in cells]


def read_features(args: argparse.Namespace, table: Table, labels: str) -> Features:
    """Texts, embeddings or numeric columns, as asked for."""
    groups = _groups(args, table)
    if args.text is not None:
        texts = shown_texts(args, table)
        return Features(text_features(texts), args.text, True, groups or _copies(texts, args.folds))
    if args.features is not None:
        return Features(_embeddings(args, table), args.features, False, groups)
    columns = _numeric_columns(args, table, labels)
    X = np.column_stack([_numbers(args.data, table, column) for column in columns])
    named = ", ".join(columns[:6]) + (f" and {len(columns) - 6} more" if len(columns) > 6 else "")
    return Features(X, named, False, groups)


def shown_texts(args: argparse.Namespace, table: Table) -> list[str]:
    """The text of each row: the text columns, else the cells that are not numbers."""
    if args.text is not None:
        names = [known_column(args.data, table, name) for name in _names(args.text)]
        columns = [table.column(name) for name in names]
    else:
        used = {args.labels, args.known_clean, args.group, args.image, args.features}
        names = [name for name in table.columns if name not in used]
        cells = [table.column(name) for name in names]
        columns = [column for column in cells if any(isinstance(c, str) for c in column)]
        columns = [column for column in columns if any(_number(c) is None for c in column if c)]
    texts = [" ".join(str(cell) for cell in row if cell) for row in zip(*columns, strict=True)]
    return texts or [""] * table.n_rows


def item_ids(args: argparse.Namespace, table: Table) -> list[str]:
    """The id of each row; row numbers where there is none, or where ids repeat."""
    rows = [str(i + 1) for i in range(table.n_rows)]
    if args.id is None:
        return rows
    ids = [str(cell) for cell in table.column(known_column(args.data, table, args.id))]
    if len(set(ids)) == len(ids):
        return ids
    seen: set[str] = set()
    twice = next(name for name in ids if name in seen or seen.add(name))  # type: ignore[func-returns-value]
    note(f"note: the id {twice!r} is there more than once; rows are counted from 1 instead")
    return rows


def known_clean(args: argparse.Namespace, table: Table) -> Array | None:
    """Truth values of the column of checked rows."""
    if args.known_clean is None:
        return None
    name = known_column(args.data, table, args.known_clean)
    values = []
    for i, cell in enumerate(table.column(name)):
        word = str(cell).strip().lower()
        if word not in (*_YES, *_NO):
            raise InputError(
                f"{args.data}: row {i + 1}, column {name!r}: {str(cell)[:40]!r} is neither yes nor "
                f"no; write 1 or 0"
            )
        values.append(word in _YES)
    return np.array(values)


def _copies(texts: list[str], folds: int) -> list[str] | None:
    """The texts as groups where some repeat: a copy must not vouch for its twin."""
    different = len(set(texts))
    if different == len(texts) or different < folds:
        return None
    note(f"note: {len(texts) - different:,} texts are copies of others; copies share a fold")
    return texts


def _embeddings(args: argparse.Namespace, table: Table) -> Array:
    """A matrix from an .npy file, or from a column of lists."""
    if args.features in table.columns:
        cells = table.column(args.features)
        sizes = {len(cell) if isinstance(cell, list) else -1 for cell in cells}
        if len(sizes) != 1 or -1 in sizes:
            raise InputError(
                f"{args.data}: the column {args.features!r} must hold lists of the same length"
            )
        if 0 in sizes:
            raise InputError(
                f"{args.data}: the column {args.features!r} holds only empty lists; fill them, or "
                f"choose another column with --features"
            )
        matrix = np.array(cells, dtype=object)
        try:
            return matrix.astype(np.float64)
        except (TypeError, ValueError):
            raise InputError(
                f"{args.data}: the column {args.features!r} holds more than numbers"
            ) from None
    path = Path(args.features)
    if path.suffix.lower() != ".npy":
        raise InputError(
            f"--features {args.features}: give an .npy file, or a column that holds lists"
        )
    matrix = read_npy(path)
    if (
        matrix.ndim != 2
        or matrix.dtype.kind not in "biuf"
        or 0 in matrix.shape
        or len(matrix) != table.n_rows
    ):
        raise DataError(
            f"{path}: {matrix.dtype} of shape {matrix.shape}, but {args.data} has {table.n_rows} "
            f"rows; give a matrix of numbers with one row each, and a column"
        )
    return np.asarray(matrix)


def _numeric_columns(args: argparse.Namespace, table: Table, labels: str) -> list[str]:
    """The columns asked for, or all that hold numbers and are not row numbers."""
    if args.columns is not None:
        return [known_column(args.data, table, name) for name in _names(args.columns)]
    used = {labels, args.id, args.known_clean, args.group, args.image}
    free = [name for name in table.columns if name not in used and name.lower() not in _ID_COLUMNS]
    chosen = [name for name in free if _mostly_numbers(table.column(name))]
    if not chosen:
        raise InputError(
            f"{args.data}: no column of numbers to learn from; name a column of text"
            f"{_longest_text(table, free)}, or a file of embeddings with --features"
        )
    return chosen


def _longest_text(table: Table, names: list[str]) -> str:
    """The advice to take the column with the longest texts, where there is one."""
    sizes = {
        name: sum(len(cell) for cell in table.column(name) if isinstance(cell, str))
        for name in names
    }
    best = max(sizes, key=lambda name: sizes[name], default="")
    return f" with --text, such as --text {shlex.quote(best)}" if best else " with --text"


def _mostly_numbers(cells: list[Any]) -> bool:
    """Whether all cells that are not empty are numbers, and more than a running number."""
    filled = [cell for cell in cells if cell is not None and str(cell).strip()]
    values = [_number(cell) for cell in filled]
    if not values or any(value is None for value in values):
        return False
    steps = np.diff(np.array(values, dtype=np.float64))
    return not (len(steps) > 1 and np.all(steps == 1))


def _numbers(path: str, table: Table, name: str) -> Array:
    values = []
    for i, cell in enumerate(table.column(name)):
        value = _number(cell)
        if value is None or not np.isfinite(value):
            raise InputError(
                f"{path}: row {i + 1}, column {name!r}: {str(cell)[:40]!r} is not a number; fill "
                f"it, or choose other columns with --columns"
            )
        values.append(value)
    return np.array(values)


def _number(cell: Any) -> float | None:
    try:
        return float(cell)
    except (TypeError, ValueError):
        return None


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",")]


def short(text: str) -> str:
    """A text that is cut where it is very long."""
    return text if len(text) <= _MOST_SHOWN else text[:_MOST_SHOWN] + " …"
