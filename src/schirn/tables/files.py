"""Tables in files and folders: one way in, `open_table`, and one way out, `write_copy`.

A table is read cell by cell and written back as it was, apart from what was changed: the bytes of
CSV, the text of JSON values, the types of Parquet columns and the formulas of workbooks stay.
"""

from __future__ import annotations

import os
from collections.abc import Collection
from pathlib import Path

from schirn._checkpoint import is_open
from schirn._files import byte_limit, stamp_of
from schirn.exceptions import DataError
from schirn.tables.arrow import ArrowTable, parquet_files, read_arrow
from schirn.tables.csv_table import CsvTable
from schirn.tables.json_table import JsonlTable, JsonTable
from schirn.tables.table import LABEL_COLUMNS as LABEL_COLUMNS
from schirn.tables.table import Columns, Table
from schirn.tables.text import check_columns, check_size, format_suffix, is_packed
from schirn.tables.xlsx import XlsxTable

_JSON_LINES = (".jsonl", ".ndjson")
TEXT_TABLES = (".csv", ".tsv", *_JSON_LINES, ".json")
TABLES = (*TEXT_TABLES, ".parquet", ".xlsx")
"""Suffixes of tables; those of text may be followed by .gz."""


def text_cells(table: Table, column: str) -> list[str]:
    """Return the cells of a column that are texts; none if it holds numbers or lists."""
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
) -> Table:
    """Read a table from a file or a folder.

    Parameters
    ----------
    path : path
        A file in .csv, .tsv, .jsonl, .json, .parquet or .xlsx; text files may be packed with
        gzip (.csv.gz). A .json file is a list of objects. A folder holds .parquet files.
    encoding : str
        Encoding of a text file.
    delimiter : str, optional
        Character between CSV cells; by default a comma, or a tab for .tsv.
    max_bytes : int, optional
        Larger files raise DataError; by default ``SCHIRN_MAX_BYTES``, else 8 GiB.
    empty : bool
        Whether a file without rows is a table too.
    unread : collection of str
        Columns of numbers that stay in a Parquet file, or in the files of a folder.
    """
    path = Path(path)
    files, kind = [path], format_suffix(path)
    if path.is_dir():
        files, kind = parquet_files(path), ".parquet"
    elif kind not in TABLES or (is_packed(path) and kind not in TEXT_TABLES):
        raise DataError(
            f"{path}: a table must be .csv, .tsv, .jsonl, .json, .parquet or .xlsx, or a "
            f"folder of .parquet files"
        )
    for file in files if not unread else ():
        check_size(file, max_bytes)
    # Before they are read, so that no change goes unnoticed; a run with checkpoints is long.
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
    elif kind in _JSON_LINES:
        table = JsonlTable(path, encoding)
    else:
        table = CsvTable(path, encoding, delimiter or ("\t" if kind == ".tsv" else ","))
    check_columns(path, table.columns)
    if not table.n_rows and not empty:
        raise DataError(f"{path}: the table has no rows")
    table.stamps, table.is_whole = stamps, is_whole
    return table


def check_copy_name(path: str | os.PathLike[str], source: str | os.PathLike[str]) -> None:
    """Raise DataError unless a copy has the format of its table, by their names."""
    kind = ".parquet" if os.path.isdir(source) else format_suffix(Path(source))
    kinds = _JSON_LINES if kind in _JSON_LINES else (kind,)
    is_other = format_suffix(Path(path)) not in kinds
    if kind in TABLES and (is_other or (is_packed(Path(path)) and kind not in TEXT_TABLES)):
        raise DataError(
            f"{path}: a copy has the format of its table, so its name must end in "
            f"{' or '.join(kinds)}"
        )


def write_copy(path: str, table: Table, changed: Columns, added: Columns) -> None:
    """Write a copy of a table with changed and new columns.

    Everything else stays as it is in the file; the copy of a folder is one file.

    Parameters
    ----------
    path : str
        In the format of the table.
    table : Table
    changed, added : dict from str to list
    """
    table, changed = table.source(changed)
    check_copy_name(path, table.path)
    table.write(path, changed, added)
