"""Tables with one 0/1 column per tag, presented as a single column of lists of tags."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from schirn._files import brief
from schirn._input import Array, is_missing, suggest
from schirn._text import to_numbers
from schirn.app.tables._table import Columns, RawCells, Table
from schirn.exceptions import InputError

_WORDS = {"1": "0", "1.0": "0.0", "true": "false", "True": "False", "TRUE": "FALSE", "yes": "no"}


def with_tag_column(table: Table, labels: str | None) -> Table:
    """Return a table in which 0/1 columns, such as "beach,dog", form one column of that name."""
    if labels is None or labels in table.columns:
        return table
    names = [name.strip() for name in labels.split(",")]
    if labels.startswith("["):
        try:
            names = [str(name) for name in json.loads(labels)]
        except (ValueError, TypeError):
            return table
    absent = [name for name in names if name not in table.columns]
    if len(absent) == len(names):
        return table
    if absent:
        hint = suggest(absent[0], table.columns)
        raise InputError(f"{table.path}: there is no column {brief(absent[0])}; {hint}")
    return IndicatorTable(table, labels, names)


class IndicatorTable(Table):
    """A table whose 0/1 columns are presented as one column of lists.

    Parameters
    ----------
    table : Table
        The original table.
    column : str
        Name of the new column.
    names : list of str
        The 0/1 columns, which are also the tags. Missing cells count as 0.
    """

    def __init__(self, table: Table, column: str, names: list[str]) -> None:
        self._table = table
        self._column = column
        self._names = names
        self.path = table.path
        self.n_rows = table.n_rows
        self.lists = table.lists
        self.spreadsheet = table.spreadsheet
        self.index_columns = table.index_columns
        self.columns = [*(name for name in table.columns if name not in names), column]
        self._is_set = np.column_stack([self._read(name) for name in names])

    def _read(self, name: str) -> Array:
        values = self._table.numbers(name)
        if values is None or not np.isin(values[~np.isnan(values)], (0, 1)).all():
            cells = self._table.column(name)
            i = next(i for i, cell in enumerate(cells) if not _is_indicator(cell))
            raise InputError(
                f"{self.path}: row {i + 1}, column {brief(name)}: {brief(cells[i])} is neither 0 "
                f"nor 1, so this column is not a tag"
            )
        return np.asarray(values == 1)

    def __getattr__(self, name: str) -> Any:
        # Other attributes, such as the encoding, come from the original table.
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._table, name)

    def column(self, name: str) -> list[Any]:
        """Return the cells of a column."""
        if name != self._column:
            return self._table.column(name)
        return [[self._names[j] for j in np.flatnonzero(row)] for row in self._is_set]

    def numbers(self, name: str) -> Array | None:
        """Return a column as floats, NaN for a missing cell; None if a cell is not a number."""
        return None if name == self._column else self._table.numbers(name)

    def holds(self, name: str, kind: str) -> bool:
        """Check whether a column may hold cells of a kind: "text" or "list"."""
        return kind == "list" if name == self._column else self._table.holds(name, kind)

    def prefix(self, column: str) -> str:
        """Return the prefix of the names of columns about the tags."""
        return "tags" if column == self._column else column

    def raw_cells(self, name: str, rows: Sequence[int]) -> dict[int, str]:
        """Return the texts of all 0/1 cells of each row, as a JSON list."""
        if name != self._column:
            return self._table.raw_cells(name, rows)
        texts = [self._table.raw_cells(indicator, rows) for indicator in self._names]
        return {row: json.dumps([column[row] for column in texts]) for row in texts[0]}

    def source(
        self, changed: Columns, raw: RawCells | None = None
    ) -> tuple[Table, Columns, RawCells]:
        """Return the original table, and the changes to its 0/1 columns."""
        raw = dict(raw or {})
        columns = {name: cells for name, cells in changed.items() if name != self._column}
        if self._column in changed:
            rows = [set(row) for row in changed[self._column]]
            unknown = sorted({tag for row in rows for tag in row} - set(self._names))
            if unknown:
                raise InputError(
                    f"{self.path}: there is no column {brief(unknown[0])}, so no row can get this "
                    f"tag; add the column with 0 in each row"
                )
            for j, name in enumerate(self._names):
                is_set = np.array([name in row for row in rows])
                if (is_set != self._is_set[:, j]).any():
                    columns[name] = self._changed(name, self._is_set[:, j], is_set)
            self._restore(columns, raw)
        return self._table, columns, raw

    def _restore(self, columns: dict[str, Any], raw: dict[str, Any]) -> None:
        """Give changed 0/1 cells their earlier texts, if these mean the same."""
        for row, text in raw.pop(self._column, {}).items():
            try:
                texts = json.loads(text)
                old_texts = dict(zip(self._names, texts, strict=True))
                cells = {name: self._table.parsed_cell(old_texts[name]) for name in self._names}
            except (ValueError, TypeError):
                continue
            for name, cell in cells.items():
                if name not in columns or self._table.column(name)[row] == columns[name][row]:
                    continue
                if _is_one(cell) == _is_one(columns[name][row]):
                    columns[name][row] = cell
                    raw.setdefault(name, {})[row] = old_texts[name]

    def _changed(self, name: str, was_set: Array, target: Array) -> list[Any]:
        """Return the cells of a 0/1 column; new cells use the most common form."""
        cells = self._table.column(name)
        forms: dict[bool, Any] = {}
        for value in (False, True):
            with_value = (c for c, is_set in zip(cells, was_set, strict=True) if is_set == value)
            counts = Counter(cell for cell in with_value if not is_missing(cell))
            forms[value] = max(counts, key=lambda cell: counts[cell], default=None)
        # A value that the column lacks gets the counterpart of the other, such as FALSE for TRUE.
        one = forms[True]
        zero = forms[False]
        if zero is None:
            forms[False] = _WORDS.get(one, "0") if isinstance(one, str) else type(one)(0)
        if one is None:
            ones = {zero_word: on for on, zero_word in _WORDS.items()}
            forms[True] = ones.get(zero, "1") if isinstance(zero, str) else type(zero or 1)(1)
        rows = zip(cells, was_set, target, strict=True)
        return [cell if old == new else forms[bool(new)] for cell, old, new in rows]


def _is_one(cell: Any) -> bool:
    """Check whether a 0/1 cell is 1."""
    value = to_numbers([cell])
    return value is not None and bool(value[0] == 1)


def _is_indicator(cell: Any) -> bool:
    value = to_numbers([cell])
    return value is not None and bool(np.isnan(value[0]) or value[0] in (0, 1))
