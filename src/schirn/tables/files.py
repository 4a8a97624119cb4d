"""Tables in files and folders: the one reader of their cells.

A table is read cell by cell and written back as it was, apart from what was changed: CSV cells stay
text, JSON values and Parquet columns keep their types. Text formats are here; `arrow` and `xlsx`
read the others, and `annotations` what annotation tools write as JSON.
"""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import json
import os
import re
import warnings
import zlib
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain, islice
from pathlib import Path
from typing import IO, Any, Protocol

import numpy as np

from schirn._files import (
    atomic_write,
    brief,
    brief_list,
    byte_limit,
    csv_rows,
    reason_of,
    spreadsheet_safe,
    whole_folder,
)
from schirn._input import Array, is_missing, whole_text
from schirn.exceptions import DataError
from schirn.tables.annotations import Verdict, make_record, make_task, recognise
from schirn.tables.arrow import (
    ARROW,
    STATE,
    ArrowTable,
    ParquetFolder,
    SavedDataset,
    parquet_files,
    read_ipc,
    read_parquet,
)
from schirn.tables.text import check_columns, check_size, format_suffix, is_packed, to_numbers
from schirn.tables.xlsx import XlsxTable

LABEL_COLUMNS = ("labels", "tags", "candidates", "label")
TEXT_TABLES = (".csv", ".tsv", ".jsonl", ".ndjson", ".json")
TABLES = (*TEXT_TABLES, ".parquet", *ARROW, ".xlsx")
"""Suffixes of tables; those of text may be followed by .gz."""

_LONGEST_CELL = 2**31 - 1
_LONGEST_LINE = 16 * 1024**2
_CHUNK = 1024**2
_ROWS_AT_ONCE = 1024


class Table(Protocol):
    """Columns by name; `write` puts changed and new columns into a copy."""

    columns: list[str]
    n_rows: int
    lists: bool
    """Whether a new column may hold a list; otherwise it holds text."""
    index_columns: Collection[str]
    """Columns that hold the index of a DataFrame."""
    tag_columns: Collection[str]
    """Columns that the format itself calls labels; none in a plain table."""

    def column(self, name: str) -> list[Any]:
        """Return the cells of a column."""

    def numbers(self, name: str) -> Array | None:
        """Return a column as floats, NaN for a missing cell; None if a cell is not a number."""

    def write(self, path: str, changed: dict[str, list[Any]], added: dict[str, list[Any]]) -> None:
        """Write a copy, whole or not at all."""


def holds_lists(table: Table, column: str) -> bool:
    """Whether a column holds lists, such as embeddings."""
    if hasattr(table, "holds"):
        return bool(table.holds(column, "list"))
    return any(isinstance(cell, list) for cell in table.column(column))


def text_cells(table: Table, column: str) -> list[str]:
    """Return the cells of a column that are texts; none if it holds numbers or lists."""
    if hasattr(table, "holds") and not table.holds(column, "text"):
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
        packed with gzip (.csv.gz). A .json file is a list of objects, an export of Label Studio, or
        records of Argilla. A folder holds .parquet or .jsonl files, or was written by
        `save_to_disk` of the package `datasets`.
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
        if unread:
            return ParquetFolder(path, max_bytes, unread)
        if kind == ".jsonl":
            return JsonlFolder(path, encoding, max_bytes)
        return (SavedDataset if kind == STATE else ParquetFolder)(path, max_bytes)
    suffix = format_suffix(path)
    if suffix not in TABLES or (is_packed(path) and suffix not in TEXT_TABLES):
        raise DataError(
            f"{path}: a table must be .csv, .tsv, .jsonl, .json, .parquet, .feather, .arrow or "
            f".xlsx, or a folder of .parquet or .jsonl files"
        )
    if suffix != ".parquet" or not unread:
        check_size(path, max_bytes)
    if suffix == ".parquet":
        return ArrowTable(path, read_parquet(path, byte_limit(max_bytes), unread), unread)
    if suffix in ARROW:
        return ArrowTable(path, read_ipc(path, byte_limit(max_bytes)))
    if suffix == ".xlsx":
        return XlsxTable(path, max_bytes, empty)
    if suffix == ".json":
        return JsonTable(path, encoding, empty)
    if suffix in (".jsonl", ".ndjson"):
        return JsonlTable(path, encoding, max_bytes, empty)
    delimiter = delimiter or ("\t" if suffix == ".tsv" else ",")
    return CsvTable(path, encoding, delimiter, text_columns, empty)


def folder_format(folder: Path) -> str:
    """Return what a folder holds: ".parquet", ".jsonl", or "state.json" for a saved data set."""
    if (folder / STATE).is_file() and (folder / "dataset_info.json").is_file():
        return STATE
    if (folder / "dataset_dict.json").is_file():
        splits = sorted(path.parent.name for path in folder.glob(f"*/{STATE}"))
        raise DataError(
            f"{folder}: it holds the splits {brief_list(splits)}; give the folder of one, such as "
            f"{folder / (splits or ['train'])[0]}"
        )
    if parquet_files(folder):
        return ".parquet"
    if next(folder.rglob("*.jsonl"), None) is None:
        raise DataError(f"{folder}: the folder holds no .parquet and no .jsonl file")
    return ".jsonl"


class CsvTable:
    """Comma- or tab-separated text; every cell is kept as the text it is."""

    lists = False
    index_columns: Collection[str] = ()
    tag_columns: Collection[str] = ()

    def __init__(
        self,
        path: Path,
        encoding: str,
        delimiter: str,
        text_columns: Callable[[list[str]], Collection[str]] | None,
        empty: bool,
    ) -> None:
        self.encoding, self.delimiter = encoding, delimiter
        with _text(path, encoding) as stream:
            if encoding == "utf-8" and _starts_with(path, codecs.BOM_UTF8):
                self.encoding = "utf-8-sig"
            ends = re.search(r"\r\n|\n|\r", stream.read(_CHUNK))
            self.newline = ends[0] if ends else "\n"
        with _long_cells(), _text(path, encoding, checked=True) as stream:
            self._read(path, stream, text_columns)
        if not self.n_rows and not empty:
            raise DataError(f"{path}: the table has no rows")

    def _read(self, path: Path, stream: IO[str], text_columns: Any) -> None:
        """Read the header and the rows, all of the same length."""
        rows = self._rows(path, stream)
        self.columns = next(rows, [])
        check_columns(path, self.columns)
        text = self.columns if text_columns is None else text_columns(self.columns)
        text = set(text)
        self._cells: dict[str, Any] = {
            name: [] if name in text else _Numbers() for name in self.columns
        }
        self.n_rows = 0
        while block := list(islice(rows, _ROWS_AT_ONCE)):
            self.n_rows += len(block)
            for column, cells in zip(self._cells.values(), zip(*block, strict=True), strict=True):
                column.extend(cells)

    def _rows(self, path: Path, stream: IO[str]) -> Iterator[list[str]]:
        reader = csv.reader(stream, delimiter=self.delimiter)
        header: list[str] = []
        try:
            for row in reader:
                header = header or row
                width = len(header)
                if row and len(row) != width:
                    other = next((c for c in ";\t|" if width == 1 and c in header[0]), None)
                    raise DataError(
                        f"{path}: line {reader.line_num} has {len(row)} cells, but the header "
                        f"has {width}" + (f"; are they separated by {other!r}?" if other else ""),
                        parameter="delimiter" if other else None,
                    )
                if row:
                    yield row
        except csv.Error as error:
            raise DataError(f"{path}: line {reader.line_num}: {error}") from None

    def column(self, name: str) -> list[str]:
        """Return the cells of a column, as text."""
        return list(self._cells[name])

    def numbers(self, name: str) -> Array | None:
        """Return a column as floats, NaN for a missing cell; None if a cell is not a number."""
        cells = self._cells[name]
        return cells.values() if isinstance(cells, _Numbers) else to_numbers(cells)

    def write(self, path: str, changed: dict[str, list[Any]], added: dict[str, list[Any]]) -> None:
        """Write a copy; new cells that a spreadsheet would run get an apostrophe."""
        columns = [changed.get(name, self._cells[name]) for name in self.columns]
        columns += [[spreadsheet_safe(cell) for cell in cells] for cells in added.values()]
        rows = chain([[*self.columns, *added]], zip(*columns, strict=True))
        lines = csv_rows(rows, delimiter=self.delimiter, newline=self.newline)
        try:
            content = "".join(lines).encode(self.encoding)
        except UnicodeEncodeError as error:
            raise DataError(
                f"{path}: the encoding {self.encoding} of the table lacks the character "
                f"{error.object[error.start]!r}"
            ) from None
        with _writing(path) as stream:
            stream.write(content)


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


class JsonlTable:
    """One JSON object per line."""

    lists = True
    index_columns: Collection[str] = ()
    tag_columns: Collection[str] = ()

    def __init__(self, path: Path, encoding: str, max_bytes: int | None, empty: bool) -> None:
        self.encoding = encoding
        self._set(path, *_objects(path, encoding, max_bytes), empty)

    def _set(
        self,
        path: Path,
        rows: list[dict[str, Any]],
        broken: int | None,
        empty: bool = False,
        unit: str = "line",
    ) -> None:
        if not rows and not empty:
            raise DataError(f"{path}: the table has no rows")
        self.rows, self.n_rows = rows, len(rows)
        self._is_broken = broken is not None
        if self._is_broken:
            warnings.warn(
                f"{path}: {unit} {broken} holds half of a character (a lone surrogate); such "
                f"halves are read as \N{REPLACEMENT CHARACTER}",
                stacklevel=4,
            )
        # From the column to the key as it is in the file.
        self._keys = {whole_text(key): key for row in rows for key in row}
        self.columns = list(self._keys)

    def column(self, name: str) -> list[Any]:
        """Return the values of a key; None where an object lacks it."""
        cells = [row.get(self._keys[name]) for row in self.rows]
        return [_whole(cell) for cell in cells] if self._is_broken else cells

    def numbers(self, name: str) -> Array | None:
        """Return a column as floats, NaN for a missing cell; None if a cell is not a number."""
        return to_numbers(self.column(name))

    def lines(self, changed: dict[str, list[Any]], added: dict[str, list[Any]]) -> Iterator[bytes]:
        """Yield the changed objects as lines."""
        for i, row in enumerate(self.rows):
            keys = {self._keys.get(name, name): cells for name, cells in changed.items()}
            own = {
                key: cells[i] for key, cells in keys.items() if key in row or cells[i] is not None
            }
            new = {key: cells[i] for key, cells in added.items()}
            whole = {**row, **own, **new}
            try:
                yield (json.dumps(whole, ensure_ascii=False) + "\n").encode(self.encoding)
            except UnicodeEncodeError:
                # Escapes such as half of a surrogate pair have no other form.
                yield (json.dumps(whole) + "\n").encode(self.encoding)

    def write(self, path: str, changed: dict[str, list[Any]], added: dict[str, list[Any]]) -> None:
        """Write a copy."""
        with _writing(path) as stream:
            stream.writelines(self.lines(changed, added))


class JsonTable(JsonlTable):
    """A list of JSON objects: rows, or what an annotation tool writes."""

    def __init__(self, path: Path, encoding: str, empty: bool) -> None:
        self.encoding = encoding
        self.documents = _json_list(path, encoding)
        self.form = recognise(path, self.documents)
        rows = [self.form.row(document) for document in self.documents]
        broken = next((k + 1 for k, row in enumerate(rows) if _whole(row) != row), None)
        self._set(path, rows, broken, empty, unit="object")
        self.tag_columns = self.form.tag_columns

    def write(self, path: str, changed: dict[str, list[Any]], added: dict[str, list[Any]]) -> None:
        """Write a copy, in the form of the original."""
        keys = {self._keys.get(name, name): cells for name, cells in changed.items()}
        documents = []
        for i, document in enumerate(self.documents):
            own = {key: cells[i] for key, cells in keys.items()}
            new = {key: cells[i] for key, cells in added.items()}
            documents.append(self.form.changed(document, own, new))
        write_json(path, documents, self.encoding)


class JsonlFolder(JsonlTable):
    """The .jsonl files of a folder, sorted by name, as one table."""

    def __init__(self, folder: Path, encoding: str, max_bytes: int | None) -> None:
        self.encoding = encoding
        paths = sorted(folder.rglob("*.jsonl"))
        if not paths:
            raise DataError(f"{folder}: the folder holds no .jsonl file")
        files = [(path, *_objects(path, encoding, max_bytes)) for path in paths]
        self._sizes = {path.relative_to(folder).as_posix(): len(rows) for path, rows, _ in files}
        broken = [(path, line) for path, _, line in files if line is not None]
        where, line = broken[0] if broken else (folder, None)
        self._set(where, [row for _, rows, _ in files for row in rows], line)

    def write(self, path: str, changed: dict[str, list[Any]], added: dict[str, list[Any]]) -> None:
        """Write a folder with files of the same names, or one file for a path in .jsonl."""
        if path.endswith(".jsonl"):
            super().write(path, changed, added)
            return
        lines = self.lines(changed, added)
        with whole_folder(path) as folder:
            for name, size in self._sizes.items():
                target = folder / name
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(b"".join(islice(lines, size)))


@contextmanager
def _text(
    path: Path, encoding: str, *, newline: str = "", checked: bool = False
) -> Iterator[IO[str]]:
    """Open a text file, packed with gzip or not, after looking through it unless it was checked."""
    try:
        wide = codecs.lookup(encoding).name.startswith(("utf-16", "utf-32"))
        io.TextIOWrapper(io.BytesIO(), encoding)
    except LookupError:
        raise DataError(f"there is no encoding {encoding!r}; try utf-8 or latin-1") from None
    try:
        if not checked:
            _check_lines(path, wide)
        with _open(path) as raw:
            codec = "utf-8-sig" if encoding == "utf-8" else encoding
            yield io.TextIOWrapper(raw, codec, newline=newline)
    except UnicodeError:
        raise _wrong_encoding(path, encoding) from None
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise DataError(f"{path}: not a readable gzip file, or truncated ({error}).") from error


def _open(path: Path) -> Any:
    return gzip.open(path) if is_packed(path) else path.open("rb")


@contextmanager
def _writing(path: str) -> Iterator[Any]:
    """Open a file for writing, whole or not at all, packed with gzip if its name ends in .gz."""
    with atomic_write(path) as stream:
        if not is_packed(Path(path)):
            yield stream
            return
        with gzip.GzipFile(fileobj=stream, mode="wb", mtime=0) as packed:
            yield packed


def _wrong_encoding(path: Path, encoding: str) -> DataError:
    with _open(path) as stream:
        raw = stream.read()
    try:
        raw.decode(encoding)
    except UnicodeDecodeError as error:
        line, byte = raw[: error.start].count(b"\n") + 1, raw[error.start]
        return DataError(
            f"{path}: line {line} is not {encoding} text (byte 0x{byte:02x}); give the encoding of "
            f"the file, such as latin-1",
            parameter="encoding",
        )
    except UnicodeError as error:
        return DataError(f"{path}: not {encoding} text ({error})", parameter="encoding")
    return DataError(f"{path}: not {encoding} text", parameter="encoding")


def _check_lines(path: Path, wide: bool) -> None:
    """Raise DataError for a binary file or a very long line, before the file is in memory."""
    if not wide and _starts_with(path, codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
        raise DataError(
            f"{path}: this is UTF-16 text; give its encoding, utf-16", parameter="encoding"
        )
    line, length = 1, 0
    with _open(path) as stream:
        while block := stream.read(_CHUNK):
            if b"\0" in block and not wide:
                raise DataError(f"{path}: this is a binary file, not text")
            if b"\n" not in block:
                block = block.replace(b"\r", b"\n")
            # A block is far shorter than the limit, so only lines that began before it count.
            first = block.find(b"\n")
            length += len(block) if first < 0 else first
            if length > _LONGEST_LINE:
                raise DataError(
                    f"{path}: line {line:,} is longer than {_LONGEST_LINE:,} bytes; is this a "
                    f"table with one row per line?"
                )
            if first >= 0:
                line, length = line + block.count(b"\n"), len(block) - 1 - block.rfind(b"\n")


def _starts_with(path: Path, *marks: bytes) -> bool:
    with _open(path) as stream:
        return bool(stream.read(4).startswith(marks))


def _objects(
    path: Path, encoding: str, max_bytes: int | None
) -> tuple[list[dict[str, Any]], int | None]:
    """Return the objects, and the first line with half of a surrogate pair."""
    rows, broken = [], None
    check_size(path, max_bytes)
    with _text(path, encoding, newline="\n") as stream:
        for number, line in enumerate(stream, start=1):
            if not line.strip():
                continue
            try:
                row = json.loads(line)
            except (ValueError, RecursionError) as error:
                raise DataError(f"{path}: line {number} is not JSON ({error})") from None
            if not isinstance(row, dict):
                raise DataError(f"{path}: line {number} is not a JSON object: {line[:40]!r}")
            rows.append(row)
            if broken is None and ("\\ud" in line or "\\uD" in line) and _whole(row) != row:
                broken = number
    return rows, broken


def _json_list(path: Path, encoding: str) -> list[dict[str, Any]]:
    """Return the objects of a JSON list."""
    with _text(path, encoding, checked=True) as stream:
        text = stream.read()
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        if text.lstrip().startswith("{") and "Extra data" in str(error):
            raise DataError(
                f"{path}: one JSON object per line; such a file must be called .jsonl"
            ) from None
        raise DataError(f"{path}: not JSON, or truncated ({reason_of(error)})") from None
    if not isinstance(found, list):
        raise DataError(f"{path}: must be a list of objects, one per row, not {brief(found)}")
    wrong = next((k for k, row in enumerate(found) if not isinstance(row, dict)), None)
    if wrong is not None:
        raise DataError(f"{path}: entry {wrong + 1} is not an object: {brief(found[wrong])}")
    return found


def write_json(path: str, documents: list[dict[str, Any]], encoding: str = "utf-8") -> None:
    """Write a list of JSON objects, one per line."""

    def text(ascii: bool) -> str:
        lines = (json.dumps(each, ensure_ascii=ascii, default=str) for each in documents)
        return "[\n" + ",\n".join(lines) + "\n]\n"

    try:
        content = text(False).encode(encoding)
    except UnicodeEncodeError:
        # Escapes such as half of a surrogate pair have no other form.
        content = text(True).encode(encoding)
    with _writing(path) as stream:
        stream.write(content)


def write_verdicts(
    path: str,
    table: Table,
    tool: str,
    verdicts: Sequence[Verdict],
    added: dict[str, list[Any]],
    *,
    column: str,
    shown: Sequence[str],
    by: str,
) -> None:
    """Write verdicts on the rows of a table for an annotation tool, as its JSON.

    Parameters
    ----------
    path : str
    table : Table
        What the tool wrote itself is copied, with the verdicts beside what people said. Rows of any
        other table become new tasks or records.
    tool : {"label-studio", "argilla"}
    verdicts : list of Verdict
    added : dict
        Further columns.
    column : str
        The column of tags, which is the control or question that the verdicts answer.
    shown : list of str
        Columns to look at; Label Studio takes the first.
    by : str
        Who judges: model_version of Label Studio, agent of Argilla.
    """
    new = [{name: cells[i] for name, cells in added.items()} for i in range(table.n_rows)]
    if isinstance(table, JsonTable) and table.form.tool == tool:
        documents = [
            table.form.judged(table.form.changed(document, {}, extra), column, verdict, by)
            for document, extra, verdict in zip(table.documents, new, verdicts, strict=True)
        ]
        write_json(path, documents)
        return
    columns = {name: table.column(name) for name in table.columns}
    ids = columns.get("id", range(1, table.n_rows + 1))
    documents = []
    for i, verdict in enumerate(verdicts):
        row = {name: None if is_missing(cells[i]) else cells[i] for name, cells in columns.items()}
        if tool == "label-studio":
            documents.append(make_task({**row, **new[i]}, column, shown[0], verdict, by))
            continue
        fields = {name: "" if row[name] is None else str(row[name]) for name in shown}
        others = {name: cell for name, cell in row.items() if name not in (*shown, "id")}
        metadata = {name: cell for name, cell in others.items() if cell is not None}
        documents.append(make_record(ids[i], fields, {**metadata, **new[i]}, column, verdict, by))
    write_json(path, documents)


def _whole(value: Any) -> Any:
    """Return a JSON value whose texts every file can hold."""
    if isinstance(value, str):
        return whole_text(value)
    if isinstance(value, list):
        return [_whole(item) for item in value]
    if isinstance(value, dict):
        return {whole_text(key): _whole(item) for key, item in value.items()}
    return value


@contextmanager
def _long_cells() -> Iterator[None]:
    """Allow cells of any length; the limit belongs to the whole process, so it is put back."""
    before = csv.field_size_limit(_LONGEST_CELL)
    try:
        yield
    finally:
        csv.field_size_limit(before)
