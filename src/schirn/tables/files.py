"""Tables in files and folders: one way in, `open_table`, and one way out, `write_copy`.

A table is read cell by cell and written back as it was, apart from what was changed: the bytes of
CSV, the text of JSON values, the types of Parquet columns and the formulas of workbooks stay.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Collection, Iterable, Sequence
from pathlib import Path
from typing import Any, BinaryIO

from schirn._checkpoint import is_open
from schirn._files import (
    Stamp,
    atomic_write,
    brief_list,
    byte_limit,
    csv_rows,
    spreadsheet_safe,
    spreadsheet_text,
)
from schirn._input import is_missing, whole_text
from schirn.exceptions import DataError
from schirn.tables.annotations import LabelStudioTasks, Verdict, make_task
from schirn.tables.arrow import (
    ARROW,
    ArrowTable,
    ParquetFolder,
    parquet_files,
    read_ipc,
    read_parquet,
    table_of,
    write_arrow,
)
from schirn.tables.csv_table import CsvTable
from schirn.tables.json_table import (
    JsonlFolder,
    JsonlTable,
    JsonTable,
    json_documents,
    jsonl_files,
)
from schirn.tables.table import LABEL_COLUMNS as LABEL_COLUMNS
from schirn.tables.table import Columns, Table, inexact, is_same
from schirn.tables.text import check_lines, check_size, format_suffix, is_packed, pack
from schirn.tables.xlsx import XlsxTable, without_empty, write_workbook

TEXT_TABLES = (".csv", ".tsv", ".jsonl", ".ndjson", ".json")
TABLES = (*TEXT_TABLES, ".parquet", *ARROW, ".xlsx")
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
    text_columns: Callable[[list[str]], Collection[str]] | None = None,
    empty: bool = False,
    unread: Collection[str] = (),
) -> Table:
    """Read a table from a file or a folder.

    Parameters
    ----------
    path : path
        A file in .csv, .tsv, .jsonl, .json, .parquet, .feather, .arrow or .xlsx; text files may be
        packed with gzip (.csv.gz). A .json file is a list of objects or an export of Label Studio.
        A folder holds .parquet or .jsonl files.
    encoding : str
        Encoding of a text file.
    delimiter : str, optional
        Character between CSV cells; by default a comma, or a tab for .tsv.
    max_bytes : int, optional
        Larger files raise DataError; by default ``SCHIRN_MAX_BYTES``, else 8 GiB.
    text_columns : function from the list of columns to those needed as text, optional
        CSV cells of other columns are kept only as numbers. By default all cells are kept.
    empty : bool
        Whether a text file without rows is a table too.
    unread : collection of str
        Columns of numbers that stay in a Parquet file, or in the files of a folder.
    """
    path = Path(path)
    if path.is_dir():
        kind = folder_format(path)
        files = jsonl_files(path) if kind == ".jsonl" else parquet_files(path)
    else:
        kind, files = format_suffix(path), [path]
        if kind not in TABLES or (is_packed(path) and kind not in TEXT_TABLES):
            raise DataError(
                f"{path}: a table must be .csv, .tsv, .jsonl, .json, .parquet, .feather, .arrow "
                f"or .xlsx, or a folder of .parquet or .jsonl files"
            )
        if kind != ".parquet" or not unread:
            check_size(path, max_bytes)
    # Before they are read, so that no change goes unnoticed; a run with checkpoints is long.
    stamps = {file: Stamp.of(file, is_whole=is_open()) for file in files}
    table: Table
    if path.is_dir() and kind == ".jsonl":
        table = JsonlFolder(path, encoding, max_bytes)
    elif path.is_dir():
        table = ParquetFolder(path, max_bytes, unread)
    elif kind == ".parquet":
        table = ArrowTable(path, read_parquet(path, byte_limit(max_bytes), unread), unread, empty)
    elif kind in ARROW:
        table = ArrowTable(path, read_ipc(path, byte_limit(max_bytes)), empty=empty)
    elif kind == ".xlsx":
        table = XlsxTable(path, max_bytes, empty)
    elif kind == ".json":
        table = JsonTable(path, encoding, empty)
    elif kind in (".jsonl", ".ndjson"):
        table = JsonlTable(path, encoding, max_bytes, empty)
    else:
        check_lines(path, encoding)
        delimiter = delimiter or ("\t" if kind == ".tsv" else ",")
        table = CsvTable(path, encoding, delimiter, text_columns, empty)
    table.stamps = stamps
    return table


def folder_format(folder: Path) -> str:
    """Return what a folder holds: ".parquet" or ".jsonl"."""
    if parquet_files(folder):
        return ".parquet"
    if jsonl_files(folder):
        return ".jsonl"
    hint = ""
    if any(folder.rglob("*.arrow")):
        hint = "; write a data set of the package datasets with its to_parquet"
    raise DataError(f"{folder}: the folder holds no .parquet and no .jsonl file{hint}")


def write_copy(
    path: str, table: Table, changed: Columns, added: Columns, *, separator: str = ";"
) -> None:
    """Write a copy of a table with changed and new columns, in the format of its name.

    In the format of the table, everything else stays as it is in the file. In another format, texts
    stay texts, apart from columns of numbers that are written the same way again.

    Parameters
    ----------
    path : str
    table : Table
    changed, added : dict from str to list
    separator : str, default=";"
        Text between the elements of a list in a format without lists.
    """
    table, changed = table.source(changed)
    if is_format_of(path, table.path):
        table.write(path, changed, added)
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
        # No cell of another format is a formula by its text.
        for name, cells in new.items():
            new[name] = [spreadsheet_text(c) if isinstance(c, str) else c for c in cells]
    names = (*table.columns, *added)
    columns = {name: new[name] if name in new else table.column(name) for name in names}
    kind = format_suffix(Path(path))
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
        copy = open_table(stream.name, empty=True)
        for name, cells in columns.items():
            for i, (cell, want) in enumerate(zip(copy.column(name), cells, strict=True)):
                if not (is_same(cell, want) or str(cell) == str(want)):
                    raise inexact(path, i + 1, name, cell, want)


def is_format_of(path: str | os.PathLike[str], source: Path) -> bool:
    """Whether a copy with this name has the format of a file or folder."""
    target = Path(path)
    if not source.is_dir():
        return format_suffix(target) == format_suffix(source)
    return (
        target.suffix.lower() in (folder_format(source), "") or format_suffix(target) not in TABLES
    )


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
            packed.write(json_list(rows).encode())
        elif kind in (".jsonl", ".ndjson"):
            packed.writelines(json_line(row).encode() + b"\n" for row in rows)
        elif kind == ".xlsx":
            write_workbook(packed, columns)
        else:
            write_arrow(table_of(columns), packed, path)


def write_verdicts(
    path: str,
    table: Table,
    verdicts: Sequence[Verdict],
    added: dict[str, list[Any]],
    *,
    column: str,
    shown: str,
    by: str,
) -> None:
    """Write verdicts on the rows of a table for Label Studio, as its JSON.

    Parameters
    ----------
    path : str
    table : Table
        Tasks of Label Studio are copied, with the verdicts beside what people said. Rows of any
        other table become new tasks.
    verdicts : list of Verdict
    added : dict
        Further columns.
    column : str
        The column of tags, which is the control that the verdicts answer.
    shown : str
        Column to look at.
    by : str
        Who judges, the model_version of the predictions.
    """
    new = [{name: cells[i] for name, cells in added.items()} for i in range(table.n_rows)]
    table.check_unchanged()
    with atomic_write(path) as stream:
        if isinstance(table, JsonTable) and isinstance(table.form, LabelStudioTasks):
            form = table.form
            tasks = [
                form.judged(form.changed(document, {}, extra), column, verdict, by)
                for document, extra, verdict in zip(table.documents, new, verdicts, strict=True)
            ]
            table.write_documents(stream, tasks)
        else:
            columns = {name: table.column(name) for name in table.columns}
            tasks = []
            for i, verdict in enumerate(verdicts):
                cells = {name: None if is_missing(c[i]) else c[i] for name, c in columns.items()}
                tasks.append(make_task({**cells, **new[i]}, column, shown, verdict, by))
            with pack(stream, Path(path)) as packed:
                packed.write(json_list(tasks).encode())
        stream.flush()
        table.check_unchanged()
        encoding = table.encoding if isinstance(table, JsonTable) else "utf-8"
        copies = json_documents(Path(stream.name), encoding)
        for i, (copy, task) in enumerate(zip(copies, tasks, strict=True), start=1):
            if not is_same(copy, json.loads(json_line(task))):
                raise DataError(f"{path}: task {i} would not be read back, so nothing was written")


def json_list(documents: Iterable[dict[str, Any]]) -> str:
    """Return the text of a list of JSON objects, one per line."""
    return "[\n" + ",\n".join(map(json_line, documents)) + "\n]\n"


def json_line(document: dict[str, Any]) -> str:
    """Return the text of a JSON object; half of a surrogate pair stays an escape."""
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
