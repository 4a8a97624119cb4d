"""Tables that are written back as they were read: cells and their order stay as they are."""

import codecs
import csv
import io
import json
import os
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

from schirn._files import (
    VARIABLE,
    atomic_write,
    byte_limit,
    disk_errors_named,
    followed,
    spreadsheet_safe,
)
from schirn._optional import optional
from schirn.exceptions import DataError

_LONGEST_CELL = 2**31 - 1
_LONGEST_LINE = 16 * 1024**2
_BLOCK = 1024**2


class Table(Protocol):
    """Columns by name; `write` puts changed and new columns into a copy."""

    columns: list[str]
    n_rows: int
    lists: bool
    """Whether a new column may hold a list; else it holds text."""

    def column(self, name: str) -> list[Any]:
        """The cells of a column."""

    def write(self, path: str, changed: dict[str, list[Any]], added: dict[str, list[Any]]) -> None:
        """Write a copy, whole or not at all."""


def read_rows(path: str, *, encoding: str, delimiter: str | None) -> Table:
    """Read a .csv, .tsv, .jsonl or .parquet file, or a folder of .jsonl files."""
    place = Path(path)
    if not place.exists():
        raise DataError(f"{path}: there is no such file")
    suffix = place.suffix.lower()
    if place.is_dir():
        return JsonlFolder(place, encoding)
    if suffix in (".csv", ".tsv"):
        default = "\t" if suffix == ".tsv" else ","
        return CsvTable(place, encoding, delimiter or default)
    if suffix in (".jsonl", ".ndjson"):
        return JsonlTable(place, encoding)
    if suffix == ".parquet":
        return ParquetTable(place)
    raise DataError(f"{path}: a table must be .csv, .tsv, .jsonl, .parquet or a folder of .jsonl")


def decode(path: Path, encoding: str) -> str:
    """The text of a file, or a sentence that names the first line that is not in the encoding."""
    try:
        wide = codecs.lookup(encoding).name.startswith(("utf-16", "utf-32"))
    except LookupError:
        raise DataError(f"there is no encoding {encoding!r}; try utf-8 or latin-1") from None
    check_lines(path, wide=wide)
    raw = path.read_bytes()
    if not raw.strip():
        raise DataError(f"{path}: the file is empty")
    try:
        return raw.decode("utf-8-sig" if encoding == "utf-8" else encoding)
    except UnicodeDecodeError as error:
        line = raw[: error.start].count(b"\n") + 1
        raise DataError(
            f"{path}: line {line} is not {encoding} text (byte 0x{raw[error.start]:02x}); "
            f"name the encoding of the file, such as --encoding latin-1"
        ) from None


def check_lines(path: Path, *, wide: bool = False) -> None:
    """Look through a file before it is in memory: its size, its longest line, binary content."""
    limit = byte_limit()
    if path.stat().st_size > limit:
        raise DataError(
            f"{path}: is larger than {limit:,} bytes; split it, or raise {VARIABLE} where there is "
            f"memory for more"
        )
    if not wide and _starts_with(path, codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
        raise DataError(f"{path}: this is UTF-16 text; pass --encoding utf-16")
    line, length = 1, 0
    with path.open("rb") as stream:
        while block := stream.read(_BLOCK):
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


class CsvTable:
    """Comma- or tab-separated text; every cell is kept as the text it is."""

    lists = False

    def __init__(self, path: Path, encoding: str, delimiter: str) -> None:
        text = decode(path, encoding)
        self.encoding, self.delimiter = encoding, delimiter
        if encoding == "utf-8" and _starts_with(path, codecs.BOM_UTF8):
            self.encoding = "utf-8-sig"
        ends = re.search(r"\r\n|\n|\r", text)
        self.newline = ends[0] if ends else "\n"
        with _long_cells():
            self.columns, self.rows = self._parse(path, text)
        self.n_rows = len(self.rows)
        if not self.n_rows:
            raise DataError(f"{path}: the table has no rows")

    def _parse(self, path: Path, text: str) -> tuple[list[str], list[list[str]]]:
        """The header and the rows, all of the same length."""
        reader = csv.reader(io.StringIO(text, newline=""), delimiter=self.delimiter)
        header: list[str] = []
        rows = []
        try:
            for row in reader:
                if not row:
                    continue
                if not header:
                    header = row
                elif len(row) != len(header):
                    raise DataError(
                        f"{path}: line {reader.line_num} has {len(row)} cells, but the header "
                        f"has {len(header)}"
                    )
                else:
                    rows.append(row)
        except csv.Error as error:
            raise DataError(f"{path}: line {reader.line_num}: {error}") from None
        _check_header(path, header)
        return header, rows

    def column(self, name: str) -> list[str]:
        """The cells of a column, as text."""
        k = self.columns.index(name)
        return [row[k] for row in self.rows]

    def write(self, path: str, changed: dict[str, list[Any]], added: dict[str, list[Any]]) -> None:
        """Write a copy; new cells that a spreadsheet would run get an apostrophe."""
        places = {self.columns.index(name): cells for name, cells in changed.items()}
        buffer = io.StringIO(newline="")
        writer = csv.writer(buffer, delimiter=self.delimiter, lineterminator=self.newline)
        writer.writerow([*self.columns, *added])
        for i, row in enumerate(self.rows):
            cells = [places[k][i] if k in places else cell for k, cell in enumerate(row)]
            writer.writerow([*cells, *(spreadsheet_safe(new[i]) for new in added.values())])
        # A tag never comes from outside of the file, so its encoding has all characters.
        with atomic_write(path) as stream:
            stream.write(buffer.getvalue().encode(self.encoding))


class JsonlTable:
    """One JSON object per line."""

    lists = True

    def __init__(self, path: Path, encoding: str) -> None:
        self.encoding = encoding
        self.rows = _objects(path, encoding)
        self.columns = list(dict.fromkeys(key for row in self.rows for key in row))
        self.n_rows = len(self.rows)

    def column(self, name: str) -> list[Any]:
        """The values of a key; None where an object lacks it."""
        return [row.get(name) for row in self.rows]

    def lines(self, changed: dict[str, list[Any]], added: dict[str, list[Any]]) -> Iterator[bytes]:
        """The changed objects as lines."""
        for i, row in enumerate(self.rows):
            own = {key: cells[i] for key, cells in changed.items() if key in row}
            new = {key: cells[i] for key, cells in added.items()}
            whole = {**row, **own, **new}
            try:
                yield (json.dumps(whole, ensure_ascii=False) + "\n").encode(self.encoding)
            except UnicodeEncodeError:
                # Escapes such as half of a surrogate pair have no other form.
                yield (json.dumps(whole) + "\n").encode(self.encoding)

    def write(self, path: str, changed: dict[str, list[Any]], added: dict[str, list[Any]]) -> None:
        """Write a copy."""
        with atomic_write(path) as stream:
            stream.writelines(self.lines(changed, added))


class JsonlFolder(JsonlTable):
    """The .jsonl files of a folder, in the order of their names, as one table."""

    def __init__(self, folder: Path, encoding: str) -> None:
        self.encoding = encoding
        self.parts = {
            path.relative_to(folder).as_posix(): _objects(path, encoding)
            for path in sorted(folder.rglob("*.jsonl"))
        }
        if not self.parts:
            raise DataError(f"{folder}: the folder holds no .jsonl file")
        self.rows = [row for rows in self.parts.values() for row in rows]
        self.columns = list(dict.fromkeys(key for row in self.rows for key in row))
        self.n_rows = len(self.rows)

    def write(self, path: str, changed: dict[str, list[Any]], added: dict[str, list[Any]]) -> None:
        """Write a folder with files of the same names, or one file for a path in .jsonl."""
        if path.endswith(".jsonl"):
            super().write(path, changed, added)
            return
        lines = self.lines(changed, added)
        with whole_folder(path) as folder:
            for name, rows in self.parts.items():
                target = folder / name
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(b"".join(next(lines) for _ in rows))


class ParquetTable:
    """A Parquet file; columns that are not changed keep their types."""

    def __init__(self, path: Path) -> None:
        self._arrow = optional("pyarrow", "table", "Reading Parquet files")
        self._parquet = optional("pyarrow.parquet", "table", "Reading Parquet files")
        try:
            self.table = self._parquet.read_table(path)
        except Exception as error:
            reason = (str(error).strip() or type(error).__name__).splitlines()[0]
            raise DataError(f"{path}: not a readable Parquet file ({reason})") from error
        self.columns = list(self.table.column_names)
        _check_header(path, self.columns)
        self.n_rows = self.table.num_rows
        if not self.n_rows:
            raise DataError(f"{path}: the table has no rows")
        self.lists = True

    def column(self, name: str) -> list[Any]:
        """The values of a column."""
        return list(self.table.column(name).to_pylist())

    def write(self, path: str, changed: dict[str, list[Any]], added: dict[str, list[Any]]) -> None:
        """Write a copy."""
        table = self.table
        for name, cells in changed.items():
            k = self.columns.index(name)
            field = table.schema.field(k)
            kind = field.type
            if self._arrow.types.is_dictionary(kind):
                kind = kind.value_type
            table = table.set_column(k, field.name, self._arrow.array(cells, type=kind))
        for name, cells in added.items():
            table = table.append_column(name, self._new(cells))
        with atomic_write(path) as stream:
            self._parquet.write_table(table, stream)

    def _new(self, cells: list[Any]) -> Any:
        """A new column: text, lists of text, or a map from tag to number."""
        arrow = self._arrow
        if cells and isinstance(cells[0], dict):
            kind = arrow.map_(arrow.string(), arrow.float64())
            return arrow.array([list(cell.items()) for cell in cells], type=kind)
        is_list = cells and isinstance(cells[0], list)
        return arrow.array(cells, type=arrow.list_(arrow.string()) if is_list else arrow.string())


@contextmanager
def whole_folder(path: str) -> Iterator[Path]:
    """A folder that appears under its name only when the block ends well."""
    import shutil
    import tempfile

    target = followed(path)
    part = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
    try:
        with disk_errors_named(path):
            yield part
        umask = os.umask(0)
        os.umask(umask)
        part.chmod(0o777 & ~umask)
        if target.is_dir():
            target.rmdir()
        os.replace(part, target)
    except BaseException:
        shutil.rmtree(part, ignore_errors=True)
        raise


def _starts_with(path: Path, *marks: bytes) -> bool:
    with path.open("rb") as stream:
        return stream.read(4).startswith(marks)


def _objects(path: Path, encoding: str) -> list[dict[str, Any]]:
    rows = []
    for number, line in enumerate(decode(path, encoding).split("\n"), start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise DataError(f"{path}: line {number} is not JSON ({error})") from None
        if not isinstance(row, dict):
            raise DataError(f"{path}: line {number} is not a JSON object: {line[:40]!r}")
        rows.append(row)
    return rows


def _check_header(path: Path, header: Sequence[str]) -> None:
    name, times = Counter(header).most_common(1)[0] if header else ("", 0)
    if times > 1:
        raise DataError(f"{path}: {times:,} columns are called {name[:60]!r}; rename them")


@contextmanager
def _long_cells() -> Iterator[None]:
    """Allow cells of any length; the limit belongs to the whole process, so it is put back."""
    before = csv.field_size_limit(_LONGEST_CELL)
    try:
        yield
    finally:
        csv.field_size_limit(before)
