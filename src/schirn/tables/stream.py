"""Tables of text in blocks of rows: read once, from a file or a pipe, in constant memory.

A copy with new columns is made block by block. Every block is read back before it is written.
"""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import json
from collections.abc import Callable, Iterator
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

from schirn._files import brief, spreadsheet_text
from schirn.exceptions import DataError
from schirn.tables.csv_table import checked_rows, long_cells
from schirn.tables.files import json_line
from schirn.tables.json_table import JsonlTable, parse_lines
from schirn.tables.table import Columns, Table, inexact, is_same
from schirn.tables.text import (
    CHUNK,
    LONGEST_LINE,
    check_columns,
    format_suffix,
    lacking,
    mark_of,
    pack,
)

BLOCK_ROWS = 4096
# Texts that are the same bytes again, whatever they hold.
_EXACT = ("utf-8", "ascii", "iso8859-1")
_HEADS = {b"PAR1": ".parquet", b"ARROW1": ".arrow", b"PK": ".xlsx", b"[": ".json", b"{": ".jsonl"}


def unpacked(stream: Any) -> Any:
    """Return a stream that can be peeked into, unpacked if its content is packed with gzip."""
    stream = io.BufferedReader(_Unclosed(stream))
    if stream.peek(2)[:2] == b"\x1f\x8b":
        return io.BufferedReader(gzip.GzipFile(fileobj=stream))
    return stream


class _Unclosed(io.RawIOBase):
    """A stream that stays open for others, such as stdin."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        content = self._stream.read(len(buffer))
        buffer[: len(content)] = content
        return len(content)


def format_of(stream: Any) -> str:
    """Return the suffix of the format in which a stream seems to be written."""
    head = stream.peek(CHUNK)[:4096].removeprefix(b"\xef\xbb\xbf").lstrip()
    for start, suffix in _HEADS.items():
        if head.startswith(start):
            return suffix
    first = head.partition(b"\n")[0]
    return ".tsv" if b"\t" in first and b"," not in first else ".csv"


class RowStream:
    """The rows of a table in .csv, .tsv or .jsonl, in blocks.

    Parameters
    ----------
    stream : binary stream with `peek`
        The unpacked text.
    path : Path
        Name of the table in error messages.
    kind : {".csv", ".tsv", ".jsonl", ".ndjson"}
    encoding : str
    delimiter : str, optional
        Character between CSV cells; by default a comma, or a tab for .tsv.

    Attributes
    ----------
    mark, codec : bytes, str
        Byte order mark and encoding of the text.
    """

    def __init__(
        self,
        stream: Any,
        path: Path,
        kind: str,
        *,
        encoding: str = "utf-8",
        delimiter: str | None = None,
    ) -> None:
        self._stream, self.path = stream, path
        self.delimiter = delimiter or ("\t" if kind == ".tsv" else ",")
        self.is_csv = kind in (".csv", ".tsv")
        self.mark, self.codec = mark_of(stream.peek(4)[:4], encoding)
        self.n_rows = 0

    @property
    def is_exact(self) -> bool:
        """Whether the encoding gives the same bytes again; other tables are read as a whole."""
        return self.codec in _EXACT

    def blocks(self, size: int = BLOCK_ROWS) -> Iterator[CsvBlock | JsonlBlock]:
        """Yield blocks of rows; the first has the header, the last what follows the last row."""
        yield from self._csv_blocks(size) if self.is_csv else self._jsonl_blocks(size)

    def copy(self, file: BinaryIO, path: Path, columns: Callable[[Table], Columns]) -> None:
        """Write the rows with new columns, in their format or as JSON lines.

        Parameters
        ----------
        file : binary stream
        path : Path
            Name of the file, which tells the format.
        columns : function from a block to its new columns
        """
        is_json = self.is_csv and format_suffix(path) == ".jsonl"
        mark, codec = (b"", "utf-8") if is_json else (self.mark, self.codec)
        with pack(file, path) as packed:
            packed.write(mark)
            for block in self.blocks():
                added = columns(block)
                if is_json and isinstance(block, CsvBlock):
                    text = block.as_json(added)
                else:
                    text = block.copy(added)
                try:
                    packed.write(text.encode(codec))
                except UnicodeEncodeError as error:
                    raise lacking(self.path, codec, error) from None

    def _csv_blocks(self, size: int) -> Iterator[CsvBlock]:
        raw: list[str] = []

        def lines() -> Iterator[str]:
            for line in self._lines(""):
                raw.append(line)
                yield line

        def records() -> Iterator[tuple[list[str], str]]:
            for row in checked_rows(self.path, lines(), self.delimiter):
                yield row, "".join(raw)
                raw.clear()

        with long_cells():
            pairs = records()
            header = next(pairs, ([], ""))
            check_columns(self.path, header[0])
            is_first = True
            while (block := list(islice(pairs, size))) or is_first:
                self.n_rows += len(block)
                head = header[1] if is_first else ""
                yield CsvBlock(self, header[0], block, head)
                is_first = False
            if raw:
                # Empty lines after the last row.
                yield CsvBlock(self, header[0], [], "".join(raw))

    def _jsonl_blocks(self, size: int) -> Iterator[JsonlBlock]:
        lines, first = self._lines("\n"), 1
        while (block := list(islice(lines, size))) or first == 1:
            table = JsonlBlock(self, block, first)
            first += max(len(block), 1)
            self.n_rows += table.n_rows
            yield table

    def _lines(self, newline: str) -> Iterator[str]:
        """Yield lines with their ends."""
        self._stream.read(len(self.mark))
        decode = codecs.getincrementaldecoder(self.codec)().decode
        open_line, number = "", 1
        while True:
            block = self._stream.read(CHUNK)
            try:
                text = open_line + decode(block, not block)
            except UnicodeError as error:
                raise DataError(
                    f"{self.path}: not {self.codec} text after line {number} ({error}); give its "
                    f"encoding, such as latin-1",
                    parameter="encoding",
                ) from None
            if "\0" in text:
                raise DataError(f"{self.path}: this is a binary file, not text")
            lines = io.StringIO(text, newline=newline).readlines()
            if not block:
                yield from lines
                return
            # An open line, or one whose \r may be followed by \n.
            open_line = lines.pop() if lines else ""
            if len(open_line) > LONGEST_LINE:
                raise DataError(
                    f"{self.path}: line {number + len(lines):,} is longer than {LONGEST_LINE:,} "
                    f"characters; is this a table with one row per line?"
                )
            yield from lines
            number += len(lines)


class CsvBlock(Table):
    """Rows of a CSV stream, with the text from which they were read."""

    spreadsheet = True

    def __init__(
        self, rows: RowStream, columns: list[str], records: list[tuple[list[str], str]], head: str
    ) -> None:
        self.path, self.columns, self.n_rows = rows.path, columns, len(records)
        self._records, self._head, self._delimiter = records, head, rows.delimiter
        self._first = rows.n_rows - len(records)

    def column(self, name: str) -> list[str]:
        """Return the cells of a column, as text."""
        j = self.columns.index(name)
        return [row[j] for row, _ in self._records]

    def holds(self, name: str, kind: str) -> bool:
        """Whether a column may hold cells of a kind: all of them are texts."""
        return kind == "text"

    def as_json(self, added: Columns) -> str:
        """Return the rows with new columns as JSON lines."""
        names, new = [*self.columns, *added], zip(*added.values(), strict=True)
        lines = []
        for (row, _), cells in zip(self._records, new, strict=True):
            # JSON needs no apostrophe before what looks like a formula.
            document = dict(zip(names, [*row, *map(spreadsheet_text, cells)], strict=True))
            lines.append(json_line(document) + "\n")
        return "".join(lines)

    def copy(self, added: Columns) -> str:
        """Return the text of the rows with new columns; raise DataError if it is not read back."""
        new = list(zip(*added.values(), strict=True))
        rows = [
            self._extended(raw, cells) for (_, raw), cells in zip(self._records, new, strict=True)
        ]
        text = "".join(rows)
        lines = csv.reader(io.StringIO(text, newline=""), delimiter=self._delimiter)
        copies = [row for row in lines if row]
        intended = [[*row, *cells] for (row, _), cells in zip(self._records, new, strict=True)]
        if copies != intended:
            pairs = zip(copies, intended, strict=False)
            i = next((k for k, (row, want) in enumerate(pairs) if row != want), len(copies) - 1)
            triples = zip([*self.columns, *added], copies[i], intended[i], strict=False)
            name, cell, want = next(cells for cells in triples if cells[1] != cells[2])
            raise inexact(str(self.path), self._first + i + 1, name, cell, want)
        head = self._head
        return (self._extended(head, [*added]) if head.strip() else head) + text

    def _extended(self, raw: str, cells: Any) -> str:
        body = raw.rstrip("\r\n")
        return body + "".join(self._delimiter + self._quoted(c) for c in cells) + raw[len(body) :]

    def _quoted(self, cell: str) -> str:
        if self._delimiter in cell or '"' in cell or "\n" in cell or "\r" in cell:
            return '"' + cell.replace('"', '""') + '"'
        return cell


class JsonlBlock(JsonlTable):
    """Rows of a stream of JSON lines, with their text."""

    def __init__(self, rows: RowStream, lines: list[str], first: int) -> None:
        self.path, self.encoding = rows.path, rows.codec
        self._lines, self._first = lines, first
        self._set(rows.path, *parse_lines(rows.path, lines, first), empty=True)

    def copy(self, added: Columns) -> str:
        """Return the text of the rows with new keys; raise DataError if it is not read back."""
        new = (dict(zip(added, cells, strict=True)) for cells in zip(*added.values(), strict=True))
        rows = iter(self.rows)
        lines = []
        for number, line in enumerate(self._lines, start=self._first):
            if line.strip():
                document = {**next(rows), **next(new)}
                line = self._rewritten(line, document)
                if not is_same(json.loads(line), document):
                    raise DataError(f"{self.path}: line {number}: {brief(line)} is not read back")
            lines.append(line)
        return "".join(lines)

    @cached_property
    def _is_ascii(self) -> bool:
        # For a whole table, all blocks would have to be read first.
        return all(map(str.isascii, self._lines))
