"""Tables of text in blocks of rows: read once, from a file or a pipe, in constant memory.

A copy with new columns is made block by block. Every block is read back before it is written.
"""

from __future__ import annotations

import gzip
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

from schirn._text import CHUNK, EXACT, Text, check_columns, text_writer
from schirn.app.tables._csv_table import CsvBlock, csv_records
from schirn.app.tables._json_table import JsonlBlock
from schirn.app.tables._table import Columns, Table

BLOCK_ROWS = 4096
_HEADS = {b"PAR1": ".parquet", b"PK": ".xlsx", b"[": ".json", b"{": ".jsonl"}


def unpacked(stream: Any) -> Any:
    """Return a stream that can be peeked into, unpacked if its content is packed with gzip."""
    return gzip.GzipFile(fileobj=stream) if stream.peek(2)[:2] == b"\x1f\x8b" else stream


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
        self._text = Text(stream, path, encoding)
        self._path = path
        self._delimiter = delimiter or ("\t" if kind == ".tsv" else ",")
        self._is_csv = kind in (".csv", ".tsv")
        self.n_rows = 0

    @property
    def is_exact(self) -> bool:
        """Whether the encoding gives the same bytes again; other tables are read as a whole."""
        return self._text.codec in EXACT

    def blocks(self, size: int = BLOCK_ROWS) -> Iterator[CsvBlock | JsonlBlock]:
        """Yield blocks of rows; the first has the header, the last what follows the last row."""
        for block in self._csv_blocks(size) if self._is_csv else self._jsonl_blocks(size):
            self.n_rows += block.n_rows
            yield block

    def copy(self, file: BinaryIO, path: Path, columns: Callable[[Table], Columns]) -> None:
        """Write the rows with new columns.

        Parameters
        ----------
        file : binary stream
        path : Path
            Name of the file, which tells whether it is packed.
        columns : function from a block to its new columns
        """
        with text_writer(file, path, self._text) as write:
            for block in self.blocks():
                write(block.copy(columns(block)))

    def _csv_blocks(self, size: int) -> Iterator[CsvBlock]:
        records = csv_records(self._path, self._text.lines(""), self._delimiter)
        header = next(records, ([], ""))
        first = 1
        check_columns(self._path, header[0])
        while (block := list(islice(records, size))) or first == 1:
            yield CsvBlock(self._path, self._delimiter, header, block, first)
            first += max(len(block), 1)

    def _jsonl_blocks(self, size: int) -> Iterator[JsonlBlock]:
        lines = self._text.lines("\n")
        first = 1
        while (block := list(islice(lines, size))) or first == 1:
            yield JsonlBlock(self._path, self._text.codec, block, first)
            first += max(len(block), 1)
