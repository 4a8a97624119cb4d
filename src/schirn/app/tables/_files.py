"""Tables in files and folders, read by `open_table` and written by `write_copy`.

A table is read cell by cell, and a copy only differs in the changed cells: the bytes of CSV, the
text of JSON values, the types of Parquet columns and the formulas of workbooks stay the same.
"""

from __future__ import annotations

import json
import os
from collections.abc import Collection
from pathlib import Path
from typing import Any, BinaryIO

from schirn._checkpoint import is_open
from schirn._files import (
    atomic_write,
    brief_list,
    byte_limit,
    csv_rows,
    spreadsheet_safe,
    spreadsheet_text,
    stamp_of,
)
from schirn._input import is_missing, whole_text
from schirn._text import check_columns, check_size, format_suffix, is_packed, pack
from schirn.app.tables._arrow import ArrowTable, parquet_files, read_arrow, write_parquet
from schirn.app.tables._csv_table import CsvTable
from schirn.app.tables._json_table import JsonlTable, JsonTable
from schirn.app.tables._sql import is_database, read_query
from schirn.app.tables._table import Columns, RawCells, Table, inexact, is_same
from schirn.app.tables._xlsx import XlsxTable, without_empty, write_workbook
from schirn.exceptions import DataError, InputError

TEXT_TABLES = (".csv", ".tsv", ".jsonl", ".ndjson", ".json")
TABLES = (*TEXT_TABLES, ".parquet", ".xlsx")
"""Suffixes of tables; suffixes of text formats may be followed by .gz."""


def is_table_name(path: str | os.PathLike[str]) -> bool:
    """Check whether a file name is a table's; only text formats may be compressed."""
    kind = format_suffix(Path(path))
    return kind in TABLES and (kind in TEXT_TABLES or not is_packed(Path(path)))


def text_cells(table: Table, column: str) -> list[str]:
    """Return the cells of a column that are strings; none if it holds numbers or lists."""
    if not table.holds(column, "text"):
        return []
    return [cell for cell in table.column(column) if isinstance(cell, str)]


def open_table(
    path: str | os.PathLike[str],
    *,
    encoding: str = "utf-8",
    delimiter: str | None = None,
    max_bytes: int | None = None,
    empty: bool = False,
    unread: Collection[str] = (),
    query: str | None = None,
) -> Table:
    """Read a table from a file or a folder.

    Parameters
    ----------
    path : path
        A .csv, .tsv, .jsonl, .json, .parquet or .xlsx file, a folder of .parquet files, or a
        database: ``duckdb:FILE``, ``sqlite:FILE`` or ``postgresql://HOST/NAME``. Text files may be
        compressed with gzip (.csv.gz). A .json file must be a list of objects.
    encoding : str, default="utf-8"
        Encoding of a text file.
    delimiter : str, optional
        Character between CSV cells; by default a comma, or a tab for .tsv.
    max_bytes : int, optional
        Larger files raise DataError; by default ``SCHIRN_MAX_BYTES`` or 8 GiB.
    empty : bool, default=False
        Allow files without rows.
    unread : collection of str
        Columns of numbers to leave unread in a Parquet file or in the files of a folder.
    query : str, optional
        Query that selects the table from a database.

    Returns
    -------
    Table
    """
    if is_database(path):
        return read_query(str(path), query, empty=empty)
    if query is not None:
        raise InputError(
            f"{path}: a query is for databases, such as duckdb:shop.db", parameter="query"
        )
    path = Path(path)
    files = [path]
    kind = format_suffix(path)
    if path.is_dir():
        files = parquet_files(path)
        kind = ".parquet"
    elif not is_table_name(path):
        raise DataError(
            f"{path}: a table must be .csv, .tsv, .jsonl, .json, .parquet or .xlsx, or a "
            f"folder of .parquet files"
        )
    for file in files if not unread else ():
        check_size(file, max_bytes)
    # Stamped before the files are read, so that no change during a long run goes unnoticed.
    is_whole = is_open()
    stamps = {file: stamp_of(file, is_whole=is_whole) for file in files}
    table: Table
    if kind == ".parquet":
        columns = read_arrow(path, files, byte_limit(max_bytes), unread)
        table = ArrowTable(path, columns, files, unread)
    elif kind == ".xlsx":
        table = XlsxTable(path, max_bytes)
    elif kind == ".json":
        table = JsonTable(path, encoding)
    elif kind in (".jsonl", ".ndjson"):
        table = JsonlTable(path, encoding)
    else:
        table = CsvTable(path, encoding, delimiter or ("\t" if kind == ".tsv" else ","))
    check_columns(path, table.columns)
    if not table.n_rows and not empty:
        raise DataError(f"{path}: the table has no rows")
    table.stamps = stamps
    table.is_whole = is_whole
    return table


def write_copy(
    path: str,
    table: Table,
    changed: Columns,
    added: Columns,
    *,
    separator: str = ";",
    raw: RawCells | None = None,
) -> None:
    """Write a copy of a table with changed and new columns, in the format given by its suffix.

    In the table's own format, everything else stays unchanged; the copy of a folder is a single
    file. In another format, strings stay strings, unless a whole column holds numbers that would be
    written as the same strings again.

    Parameters
    ----------
    path : str
        File to write.
    table : Table
        The table to copy.
    changed, added : dict from str to list
        New cells of columns, and new columns.
    separator : str, default=";"
        Text between the elements of a list in a format without lists.
    raw : dict from str to dict from int to str, optional
        Text of changed cells in the table's own format; see `Table.raw_cells`.
    """
    table, changed, raw = table.source(changed, raw)
    kind = format_suffix(Path(path))
    source_kind = ".parquet" if table.path.is_dir() else format_suffix(table.path)
    if kind == source_kind:
        table.write(path, changed, added, raw)
        return
    unread = getattr(table, "unread", ())
    if unread:
        raise DataError(
            f"{path}: the columns {brief_list(unread)} are too large to be written in another "
            f"format; write .parquet"
        )
    table.check_unchanged()
    new: dict[str, list[Any]] = {**changed, **added}
    if table.spreadsheet:
        # In other formats, the text of a cell never makes it a formula.
        for name, cells in new.items():
            new[name] = [spreadsheet_text(c) if isinstance(c, str) else c for c in cells]
    names = (*table.columns, *added)
    columns = {name: new[name] if name in new else table.column(name) for name in names}
    if kind in (".csv", ".tsv", ".xlsx"):
        columns = {name: [_flat(c, separator) for c in cells] for name, cells in columns.items()}
    if kind in (".csv", ".tsv"):
        columns = {
            name: [_csv_text(cell, name in new) for cell in cells]
            for name, cells in columns.items()
        }
    elif kind == ".xlsx":
        columns = without_empty(columns)
    with atomic_write(path) as stream:
        _write_new(stream, Path(path), kind, columns)
        stream.flush()
        table.check_unchanged()
        copy = open_table(stream.name, empty=True)
        if copy.columns != list(columns) or copy.n_rows != table.n_rows:
            raise DataError(f"{path}: other columns or rows would be read back; nothing written")
        for name, cells in columns.items():
            for i, (cell, want) in enumerate(zip(copy.column(name), cells, strict=True), start=1):
                if not (is_same(cell, want) or str(cell) == str(want)):
                    raise inexact(path, i, name, cell, want)


def _write_new(stream: BinaryIO, path: Path, kind: str, columns: dict[str, list[Any]]) -> None:
    """Write columns as a new table."""
    rows = (dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True))
    with pack(stream, path) as packed:
        if kind in (".csv", ".tsv"):
            lines = csv_rows(
                [list(columns), *zip(*columns.values(), strict=True)],
                delimiter="\t" if kind == ".tsv" else ",",
            )
            packed.writelines(line.encode() for line in lines)
        elif kind == ".json":
            packed.write(("[\n" + ",\n".join(map(_json_line, rows)) + "\n]\n").encode())
        elif kind in (".jsonl", ".ndjson"):
            packed.writelines(_json_line(row).encode() + b"\n" for row in rows)
        elif kind == ".xlsx":
            write_workbook(packed, columns)
        else:
            write_parquet(columns, packed)


def _json_line(document: dict[str, Any]) -> str:
    """Return the text of a JSON object; unpaired surrogates stay escaped."""
    text = json.dumps(document, ensure_ascii=False, default=str)
    return text if whole_text(text) == text else json.dumps(document, default=str)


def _flat(cell: Any, separator: str) -> Any:
    """Return a cell for a format without lists and dictionaries."""
    if isinstance(cell, dict):
        return separator.join(f"{key}={value:.4g}" for key, value in cell.items())
    if not isinstance(cell, list | tuple):
        return cell
    is_tags = all(isinstance(element, str) and separator not in element for element in cell)
    return separator.join(cell) if is_tags else json.dumps(cell, default=str)


def _csv_text(cell: Any, is_new: bool) -> str:
    text = "" if is_missing(cell) else str(cell)
    return spreadsheet_safe(text) if is_new else text
