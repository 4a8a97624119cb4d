r"""Comma- or tab-separated text, as a whole or in blocks of rows.

`csv` reads the cells, and the text of each row is kept for a copy: only changed cells are written,
and everything else is copied, with its quotes and line ends.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import BinaryIO

from schirn._files import brief
from schirn._text import open_text, text_writer
from schirn.app.tables._table import Columns, RawCells, Table
from schirn.exceptions import DataError

_LONGEST_CELL = 2**31 - 1
# The cells of a row and its text, with the empty lines before it.
Record = tuple[list[str], str]


class CsvTable(Table):
    """Comma- or tab-separated text; each cell is kept as its text."""

    spreadsheet = True

    def __init__(self, path: Path, encoding: str, delimiter: str) -> None:
        self.path = path
        self.encoding = encoding
        self.delimiter = delimiter
        with open_text(path, encoding) as text:
            records = csv_records(path, text.lines(""), delimiter)
            self._set(next(records, ([], ""))[0], records)

    def _set(self, columns: list[str], records: Iterable[Record]) -> None:
        rows = [row for row, _ in records if row]
        self.columns = columns
        self.n_rows = len(rows)
        cells = map(list, zip(*rows, strict=True)) if rows else ([] for _ in columns)
        self._cells = dict(zip(columns, cells, strict=True))

    def column(self, name: str) -> list[str]:
        """Return the cells of a column, as text."""
        return list(self._cells[name])

    def holds(self, name: str, kind: str) -> bool:
        """Check whether a column may hold cells of a kind; all cells are strings."""
        return kind == "text"

    def raw_cells(self, name: str, rows: Sequence[int]) -> dict[int, str]:
        """Return the text of cells, including quotes."""
        j = self.columns.index(name)
        chosen = set(rows)
        raw = {}
        with open_text(self.path, self.encoding) as text:
            records = csv_records(self.path, text.lines(""), self.delimiter)
            next(records, None)
            for i, (row, line) in enumerate(records):
                if row and i in chosen:
                    raw[i] = line[slice(*self._places(row, line)[j])]
        return raw

    def parsed_cell(self, raw: str) -> str:
        """Return the cell with this text; raise ValueError if it is not exactly one cell."""
        try:
            # One line more shows whether a quote is still open.
            records = list(
                csv.reader([*io.StringIO(raw, newline=""), "\n"], delimiter=self.delimiter)
            )
        except csv.Error as error:
            raise ValueError(str(error)) from None
        if not raw and len(self.columns) > 1:
            return ""
        if len(records) != 2 or len(records[0]) != 1:
            raise ValueError(raw)
        return records[0][0]

    def _rewrite(self, stream: BinaryIO, changed: Columns, added: Columns, raw: RawCells) -> None:
        places = {self.columns.index(name): cells for name, cells in changed.items()}
        texts = {self.columns.index(name): cells for name, cells in raw.items()}
        always = {j for j in places if self._is_always_quoted(j)}
        with (
            open_text(self.path, self.encoding) as text,
            text_writer(stream, Path(stream.name), text) as write,
        ):
            records = csv_records(self.path, text.lines(""), self.delimiter)
            write(self._rewritten(*next(records, ([], "")), {}, list(added)))
            for i, (row, line) in enumerate(records):
                edits = {j: cells[i] for j, cells in places.items() if row and cells[i] != row[j]}
                raw_edits = {j: texts[j][i] for j in edits if i in texts.get(j, ())}
                new = [cells[i] for cells in added.values()] if row else []
                write(self._rewritten(row, line, edits, new, always, raw_edits))

    def _is_always_quoted(self, j: int) -> bool:
        """Check whether all cells of a column are quoted, even if they need no quotes."""
        is_needed = True
        with open_text(self.path, self.encoding) as text:
            for row, line in csv_records(self.path, text.lines(""), self.delimiter):
                if row and line[slice(*self._places(row, line)[j])][:1] != '"':
                    return False
                is_needed &= not row or self._needs_quotes(row[j])
        return not is_needed

    def _rewritten(
        self,
        row: list[str],
        line: str,
        edits: Mapping[int, str],
        new: Iterable[str],
        always: Collection[int] = (),
        raw: Mapping[int, str] = MappingProxyType({}),
    ) -> str:
        """Return the text of a row with edited cells, and new cells at its end.

        `raw` has the text of some of the edited cells.
        """
        pieces = []
        start = 0
        places = self._places(row, line) if edits else []
        for j in sorted(edits):
            first, last = places[j]
            is_style = line[first : first + 1] == '"' and not self._needs_quotes(row[j])
            text = raw.get(j)
            if text is None:
                text = self._raw(edits[j], is_style or j in always)
            pieces += [line[start:first], text]
            start = last
        end = len(line.rstrip("\r\n"))
        pieces += [line[start:end], *(self.delimiter + self._raw(cell) for cell in new), line[end:]]
        return "".join(pieces)

    def _places(self, row: list[str], line: str) -> list[tuple[int, int]]:
        """Return where each cell starts and ends in the text of a row."""
        mark = re.escape(self.delimiter)
        # As in `csv`: a quote counts at the start of a cell, and text after the closing quote is
        # part of the cell.
        cell = rf'(?>"(?:[^"]++|"")*+"[^{mark}\r\n]*+|(?!")[^{mark}\r\n]*+)'
        places = [match.span(1) for match in re.finditer(rf"(?:\A[\r\n]*+|{mark})({cell})", line)]
        if len(places) != len(row):
            raise DataError(f"{self.path}: {brief(line)} is not a row of the table")
        return places

    def _needs_quotes(self, cell: str) -> bool:
        # An empty line would not be a row.
        is_special = '"' in cell or self.delimiter in cell or "\n" in cell or "\r" in cell
        return is_special or (not cell and len(self.columns) == 1)

    def _raw(self, cell: str, always: bool = False) -> str:
        doubled = cell.replace('"', '""')
        return f'"{doubled}"' if always or self._needs_quotes(cell) else cell

    def _reopened(self, copy: Path) -> CsvTable:
        return CsvTable(copy, self.encoding, self.delimiter)


class CsvBlock(CsvTable):
    """Some rows of a CSV text.

    Parameters
    ----------
    path : Path
        Name of the table in error messages.
    delimiter : str
        Character between cells.
    header : Record
        The header.
    records : list of Record
        The rows.
    first : int
        Number of the first row; 1 for the first block, which has the header.
    """

    def __init__(
        self, path: Path, delimiter: str, header: Record, records: list[Record], first: int
    ) -> None:
        self.path = path
        self.delimiter = delimiter
        self.first_row = first
        self._header = header
        self._records = records
        self._set(header[0], records)

    def copy(self, added: Columns) -> str:
        """Return the text of the rows with new columns; raise DataError if reading it differs."""
        lines = [self._rewritten(*self._header, {}, [*added])]
        rows = zip(*added.values(), strict=True)
        for row, line in self._records:
            lines.append(self._rewritten(row, line, {}, next(rows, ()) if row else ()))
        records = csv_records(self.path, io.StringIO("".join(lines), newline=""), self.delimiter)
        header = next(records, ([], ""))
        copy = CsvBlock(self.path, self.delimiter, header, list(records), self.first_row)
        self._compare(str(self.path), copy, {}, added)
        return "".join(lines if self.first_row == 1 else lines[1:])


def csv_records(path: Path, lines: Iterable[str], delimiter: str) -> Iterator[Record]:
    """Yield the header and the rows of CSV lines, which all have the same length, with their texts.

    Empty lines after the last row are a record without cells.
    """
    raw: list[str] = []
    is_over = False

    def watched() -> Iterator[str]:
        nonlocal is_over
        for line in lines:
            raw.append(line)
            yield line
        # One line more shows whether a quote is still open.
        is_over = True
        yield "\n"

    reader = csv.reader(watched(), delimiter=delimiter)
    header: list[str] = []
    # The limit applies to the whole process.
    limit = csv.field_size_limit(_LONGEST_CELL)
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
                yield row, "".join(raw)
                raw.clear()
    except csv.Error as error:
        raise DataError(f"{path}: line {reader.line_num}: {error}") from None
    finally:
        csv.field_size_limit(limit)
    if raw:
        yield [], "".join(raw)
