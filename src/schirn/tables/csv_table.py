r"""Comma- or tab-separated text.

`csv` reads the cells. A copy is made of the text itself: one regular expression matches a record
and captures the cells that change, and everything else is copied, with its quotes and line ends.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from itertools import chain, islice, zip_longest
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from schirn._files import brief
from schirn._input import Array
from schirn.exceptions import DataError
from schirn.tables.table import Columns, Table, inexact
from schirn.tables.text import check_columns, open_text, text_blocks, text_writer, to_numbers

_LONGEST_CELL = 2**31 - 1
_ROWS_AT_ONCE = 1024


class CsvTable(Table):
    """Comma- or tab-separated text; every cell is kept as the text it is."""

    spreadsheet = True

    def __init__(
        self,
        path: Path,
        encoding: str,
        delimiter: str,
        text_columns: Callable[[list[str]], Collection[str]] | None = None,
        empty: bool = False,
    ) -> None:
        self.path, self.encoding, self.delimiter = path, encoding, delimiter
        self.n_rows = 0
        with self._rows(path) as rows:
            self.columns = next(rows, [])
            check_columns(path, self.columns)
            text = set(self.columns if text_columns is None else text_columns(self.columns))
            self._cells: dict[str, Any] = {
                name: [] if name in text else _Numbers() for name in self.columns
            }
            while block := list(islice(rows, _ROWS_AT_ONCE)):
                self.n_rows += len(block)
                columns = zip(*block, strict=True)
                for cells, column in zip(columns, self._cells.values(), strict=True):
                    column.extend(cells)
        if not self.n_rows and not empty:
            raise DataError(f"{path}: the table has no rows")

    @contextmanager
    def _rows(self, path: Path) -> Iterator[Iterator[list[str]]]:
        """Open the header and the rows, all of the same length."""
        with long_cells(), open_text(path, self.encoding) as stream:
            yield checked_rows(path, stream, self.delimiter)

    def column(self, name: str) -> list[str]:
        """Return the cells of a column, as text."""
        return list(self._cells[name])

    def numbers(self, name: str) -> Array | None:
        """Return a column as floats, NaN for a missing cell; None if a cell is not a number."""
        cells = self._cells[name]
        return cells.values() if isinstance(cells, _Numbers) else to_numbers(cells)

    def holds(self, name: str, kind: str) -> bool:
        """Whether a column may hold cells of a kind: all of them are texts."""
        return kind == "text"

    def _rewrite(self, stream: BinaryIO, changed: Columns, added: Columns) -> None:
        names = [name for name in changed if list(changed[name]) != self.column(name)]
        names.sort(key=self.columns.index)
        always = self._quoted_columns(names)
        new = zip(*added.values(), strict=True)
        with text_writer(stream, self.path, self.encoding) as write:
            for i, record in enumerate(self._records(names), start=-1):
                text, place, pieces = record.string, record.start(), list[str]()
                for k, name in enumerate(names if i >= 0 else (), start=1):
                    cell, old = changed[name][i], self._cells[name][i]
                    if cell != old:
                        is_style = record[k][:1] == '"' and not self._needs_quotes(old)
                        raw = self._raw(cell, always=is_style or name in always)
                        pieces += [text[place : record.start(k)], raw]
                        place = record.end(k)
                pieces.append(text[place : record.start("end")])
                for cell in (added if i < 0 else next(new)) if added else ():
                    pieces += [self.delimiter, self._raw(cell)]
                write("".join([*pieces, record["end"]]))

    def _quoted_columns(self, names: list[str]) -> set[str]:
        """Return the columns whose cells are all quoted, and not only those that need it."""
        need, all_quoted = set(names), set(names)
        for i, record in enumerate(self._records(names) if names else (), start=-1):
            for k, name in enumerate(names, start=1):
                is_quoted = record[k][:1] == '"'
                if not is_quoted:
                    all_quoted.discard(name)
                elif not self._needs_quotes(name if i < 0 else self._cells[name][i]):
                    need.discard(name)
        return all_quoted - need

    def _needs_quotes(self, cell: str) -> bool:
        # A line without a character would be no row.
        is_special = '"' in cell or self.delimiter in cell or "\n" in cell or "\r" in cell
        return is_special or (not cell and len(self.columns) == 1)

    def _raw(self, cell: str, always: bool = False) -> str:
        doubled = cell.replace('"', '""')
        return f'"{doubled}"' if always or self._needs_quotes(cell) else cell

    def _records(self, names: list[str]) -> Iterator[re.Match[str]]:
        """Yield a match for each record, with a group for each of these columns."""
        mark = re.escape(self.delimiter)
        # As csv reads it: a quote counts at the start of a cell, and what follows the closing one
        # is part of the cell.
        cell = rf'(?>"(?:[^"]++|"")*+"[^{mark}\r\n]*+|(?!")[^{mark}\r\n]*+)'
        places = [self.columns.index(name) for name in names]
        pattern, start, width = r"[\r\n]*+", 0, len(self.columns)
        for place in places:
            pattern += rf"(?:{cell}{mark}){{{place - start}}}({cell})"
            pattern += mark if place < width - 1 else ""
            start = place + 1
        if start < width:
            pattern += rf"{cell}(?:{mark}{cell}){{{width - start - 1}}}"
        # Empty lines belong to the line end before them, which may go on in the next block.
        in_block = re.compile(pattern + r"(?P<end>[\r\n]++(?!\Z))")
        at_end = re.compile(pattern + r"(?P<end>[\r\n]++|\Z)")
        buffer = ""
        for block in chain(text_blocks(self.path, self.encoding), [""]):
            buffer, place = buffer + block, 0
            rule = in_block if block else at_end
            while place < len(buffer) and (record := rule.match(buffer, place)):
                yield record
                place = record.end()
            buffer = buffer[place:]
        if buffer:
            raise DataError(f"{self.path}: {brief(buffer)} is no row of the table")

    def _compare(self, path: str, copy: Path, changed: Columns, added: Columns) -> None:
        columns = [changed.get(name, self._cells[name]) for name in self.columns]
        intended = chain([[*self.columns, *added]], zip(*columns, *added.values(), strict=True))
        with self._rows(copy) as rows:
            for i, (cells, want) in enumerate(zip_longest(rows, intended, fillvalue=())):
                if tuple(cells) != tuple(want):
                    names = [*self.columns, *added]
                    pairs = zip_longest(names, cells, want)
                    name, cell, text = next(triple for triple in pairs if triple[1] != triple[2])
                    raise inexact(path, i, name, cell, text)


@contextmanager
def long_cells() -> Iterator[None]:
    """Let `csv` read cells of any length."""
    limit = csv.field_size_limit(_LONGEST_CELL)
    try:
        yield
    finally:
        # The limit belongs to the whole process.
        csv.field_size_limit(limit)


def checked_rows(path: Path, stream: Iterable[str], delimiter: str) -> Iterator[list[str]]:
    """Yield the header and the rows of CSV lines; raise DataError if their lengths differ."""
    is_over = False

    def lines() -> Iterator[str]:
        nonlocal is_over
        yield from stream
        # One line more shows whether a quote is still open.
        is_over = True
        yield "\n"

    reader = csv.reader(lines(), delimiter=delimiter)
    header: list[str] = []
    try:
        for row in reader:
            header = header or row
            width = len(header)
            if row and is_over:
                raise DataError(f"{path}: a quotation mark is opened but never closed")
            if row and len(row) != width:
                mark = next((c for c in ";\t|" if width == 1 and c in header[0]), None)
                raise DataError(
                    f"{path}: line {reader.line_num} has {len(row)} cells, but the header "
                    f"has {width}" + (f"; are they separated by {mark!r}?" if mark else ""),
                    parameter="delimiter" if mark else None,
                )
            if row:
                yield row
    except csv.Error as error:
        raise DataError(f"{path}: line {reader.line_num}: {error}") from None


class _Numbers:
    """A CSV column of which only the numbers are kept: 8 bytes per cell."""

    def __init__(self) -> None:
        self._blocks: list[Array] | None = []

    def extend(self, cells: tuple[str, ...]) -> None:
        values = None if self._blocks is None else to_numbers(cells)
        if self._blocks is None or values is None:
            self._blocks = None
        else:
            self._blocks.append(values)

    def values(self) -> Array | None:
        return None if self._blocks is None else np.concatenate(self._blocks)
