"""Text tables in blocks of rows: read once, from a file or a pipe, in constant memory.

A copy with new columns is made block by block. Each block is read back before it is written.
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
    """Return a stream with `peek`, decompressed if its content is compressed with gzip."""
    return gzip.GzipFile(fileobj=stream) if stream.peek(2)[:2] == b"\x1f\x8b" else stream


def format_of(stream: Any) -> str:
    """Guess the format of a stream, and return its suffix."""
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
        The decompressed text.
    path : Path
        Name of the table in error messages.
    kind : {".csv", ".tsv", ".jsonl", ".ndjson"}
        Suffix of the format.
    encoding : str
        Encoding of the text.
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
        """True if encoding restores the same bytes; otherwise the table must be read whole."""
        return self._text.codec in EXACT

    def blocks(self, size: int = BLOCK_ROWS) -> Iterator[CsvBlock | JsonlBlock]:
        """Yield blocks of rows; the first has the header, the last also any text after the rows."""
        for block in self._csv_blocks(size) if self._is_csv else self._jsonl_blocks(size):
            self.n_rows += block.n_rows
            yield block

    def copy(self, file: BinaryIO, path: Path, columns: Callable[[Table], Columns]) -> None:
        """Write the rows with new columns.

        Parameters
        ----------
        file : binary stream
            Stream to write to.
        path : Path
            Name of the file; its suffix determines whether it is compressed.
        columns : callable
            Function that returns the new columns of a block.
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
