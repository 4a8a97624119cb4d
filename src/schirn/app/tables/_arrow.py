"""Tables in Parquet files and folders of Parquet files."""

from __future__ import annotations

import hashlib
import os
import sys
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import unquote

import numpy as np

from schirn._files import brief, brief_list, check_limit, reason_of, unreadable_named
from schirn._input import Array, stacked_lists
from schirn._optional import optional
from schirn._text import check_columns
from schirn.app.tables._table import Columns, RawCells, Table
from schirn.exceptions import DataError

_ROWS_AT_ONCE = 1024
# Bytes of numbers that are read or written at once.
_ROWS_BYTES = 2**24
# Bytes of a block of numbers.
_BLOCK_BYTES = 50_000_000
# Names of codecs in files, and for the writer.
_CODECS = {
    "UNCOMPRESSED": "none",
    "SNAPPY": "snappy",
    "GZIP": "gzip",
    "BROTLI": "brotli",
    "ZSTD": "zstd",
    "LZ4": "lz4",
    "LZ4_RAW": "lz4",
}


class ArrowTable(Table):
    """Columns of an Arrow table; unchanged columns keep their types.

    Parameters
    ----------
    path : Path
        The file or folder.
    table : Arrow table
        The columns that were read.
    files : list of Path
        The Parquet files of the table.
    unread : collection of str
        Columns of numbers that stay in the files; see `number_blocks`.
    """

    lists = True

    def __init__(
        self, path: Path, table: Any, files: Sequence[Path] = (), unread: Collection[str] = ()
    ) -> None:
        self._arrow = optional("pyarrow", "table", "Reading this table")
        self.path = path
        self.table = table
        self._files = files
        self.unread = list(unread)
        with unreadable_named(path, "table"):
            self.columns = list(table.column_names)
            index = (table.schema.pandas_metadata or {}).get("index_columns", ())
            self.index_columns: Collection[str] = [name for name in index if isinstance(name, str)]
        check_columns(path, self.columns)
        self.n_rows = table.num_rows

    def column(self, name: str) -> list[Any]:
        """Return the values of a column."""
        return list(self.table.column(name).to_pylist())

    def numbers(self, name: str) -> Array | None:
        """Return a column of numbers or booleans as floats, NaN for a missing cell."""
        kind = self.table.schema.field(name).type
        types = self._arrow.types
        numbers = (types.is_integer, types.is_floating, types.is_boolean, types.is_decimal)
        if not any(of(kind) for of in numbers):
            return None
        return np.asarray(self.table.column(name).to_numpy(), dtype=np.float64)

    def vectors(self, name: str) -> Array | None:
        """Return a column of lists of numbers as a matrix; None if it does not hold such lists."""
        return stacked_lists(self.table.column(name))

    def holds(self, name: str, kind: str) -> bool:
        """Check whether the cells of a column may be of a kind: "text" or "list"."""
        column = self.table.schema.field(name).type
        types = self._arrow.types
        is_list = any(
            of(column) for of in (types.is_list, types.is_large_list, types.is_fixed_size_list)
        )
        is_number = types.is_integer(column) or types.is_floating(column)
        return is_list if kind == "list" else not (is_list or is_number)

    def _codecs(self, added: Iterable[str]) -> str | dict[str, str]:
        """Return the compression of columns in the first file; new ones use the most common one."""
        parquet = optional("pyarrow.parquet", "table", "Reading Parquet files")
        codecs: dict[str, str] = {}
        with parquet.ParquetFile(self._files[0]) as file:
            for k in range(min(1, file.num_row_groups)):
                for chunk in _column_chunks(file.metadata.row_group(k)):
                    codecs[chunk.path_in_schema] = _CODECS.get(chunk.compression, "snappy")
        if not codecs:
            return "snappy"
        usual = Counter(codecs.values()).most_common(1)[0][0]
        if set(codecs.values()) == {usual}:
            return usual
        for name in added:
            # Parquet names the leaves of a nested column.
            for leaf in ("", ".list.element", ".list.element.tag", ".list.element.confidence"):
                codecs[name + leaf] = usual
        return codecs

    def _rewrite(self, stream: BinaryIO, changed: Columns, added: Columns, raw: RawCells) -> None:
        table = self._with(changed, added)
        parquet = optional("pyarrow.parquet", "table", "Writing Parquet files")
        codecs = self._codecs(added)
        if not self.unread:
            parquet.write_table(table, stream, compression=codecs)
            return
        kinds = parquet.read_schema(self._files[0])
        start = 0
        names = [*kinds.names, *(name for name in table.column_names if name not in kinds.names)]
        fields = [(kinds if name in self.unread else table.schema).field(name) for name in names]
        schema = self._arrow.schema(fields, table.schema.metadata)
        with parquet.ParquetWriter(stream, schema, compression=codecs) as writer:
            for rows in _streamed(self._files, self.unread):
                block = table.slice(start, rows.num_rows)
                if block.num_rows != rows.num_rows:
                    raise DataError(f"{self.path}: the table has changed since it was read")
                for name in self.unread:
                    block = block.append_column(name, rows.column(name))
                writer.write_table(block.select(names).cast(schema))
                start += rows.num_rows

    def _reopened(self, copy: Path) -> ArrowTable:
        table = read_arrow(copy, [copy], sys.maxsize, self.unread)
        return ArrowTable(copy, table, [copy], self.unread)

    def _compare(self, path: str, copy: Any, changed: Columns, added: Columns) -> None:
        super()._compare(path, copy, changed, added)
        if _digests(self._files, self.unread) != _digests([copy.path], self.unread):
            names = brief_list(self.unread)
            raise DataError(f"{path}: {names} would change when read back; nothing was written")

    def _compare_column(self, path: str, copy: Any, name: str, cells: list[Any] | None) -> None:
        if cells is None:
            column = self.table.column(name)
            twin = copy.table.column(name)
            if column.type == twin.type and column.equals(twin):
                return
        super()._compare_column(path, copy, name, cells)

    def _with(self, changed: Columns, added: Columns) -> Any:
        """Return the table with changed and new columns."""
        table = self.table
        types = self._arrow.types
        for name, cells in changed.items():
            k = table.column_names.index(name)
            field = table.schema.field(k)
            kind = field.type
            try:
                if types.is_null(kind) and any(cell is not None for cell in cells):
                    column = new_column(cells)
                elif types.is_dictionary(kind):
                    column = self._categories(cells, table.column(k))
                else:
                    column = self._arrow.array(cells, type=kind)
            except self._arrow.ArrowException as error:
                reason = reason_of(error)
                raise DataError(
                    f"{self.path}: the column {name!r} holds {kind} only ({reason})"
                ) from error
            field = field.with_type(column.type)
            field = field.with_nullable(field.nullable or column.null_count > 0)
            table = table.set_column(k, field, column)
        for name, cells in added.items():
            table = table.append_column(name, new_column(cells))
        return table

    def _categories(self, cells: list[Any], column: Any) -> Any:
        """Return cells as categories: first the old ones in their order, then new ones."""
        old = [value for chunk in column.chunks for value in chunk.dictionary.to_pylist()]
        used = {cell for cell in cells if cell is not None}
        values = [value for value in dict.fromkeys([*old, *cells]) if value in used]
        if None not in old and old == sorted(old):
            values.sort()
        place = {value: i for i, value in enumerate(values)}
        indices = self._arrow.array([place.get(cell) for cell in cells], type=self._arrow.int32())
        categories = self._arrow.array(values, type=column.type.value_type)
        is_ordered = column.type.ordered
        return self._arrow.DictionaryArray.from_arrays(indices, categories, ordered=is_ordered)


def parquet_files(folder: Path) -> list[Path]:
    """Return the Parquet files of a folder, sorted, without names that begin with _ or ."""
    paths = sorted(path for path in folder.rglob("*.parquet") if path.is_file())
    hidden = ("_", ".")
    files = [
        path
        for path in paths
        if not any(part.startswith(hidden) for part in path.relative_to(folder).parts)
    ]
    if not files:
        raise DataError(f"{folder}: the folder holds no .parquet file")
    return files


def _read_numbers(path: str, groups: list[int], first: int, names: list[str]) -> Array:
    """Read numbers (n, d) of row groups of a file; `first` is their first row in the table."""
    parquet = optional("pyarrow.parquet", "table", "Reading Parquet files")
    with unreadable_named(Path(path), "Parquet file"), parquet.ParquetFile(path) as file:
        table = file.read_row_groups(groups, columns=names)
    return _numbers_of(table, names, path, first)


def _numbers_of(table: Any, names: Sequence[str], path: str, first: int) -> Array:
    """Return columns of numbers, or one column of lists, of rows that start at row `first`."""
    types = optional("pyarrow", "table", "Reading Parquet files").types
    columns = [table.column(name) for name in names]
    if len(columns) == 1 and types.is_nested(columns[0].type):
        matrix = stacked_lists(columns[0])
        if matrix is None:
            raise DataError(
                f"{path}: the column {names[0]!r} must hold lists of numbers, all of the same "
                f"length and not empty"
            )
        return matrix
    numbers = []
    for name, column in zip(names, columns, strict=True):
        try:
            values = np.asarray(column.to_numpy(), dtype=np.float64)
        except (TypeError, ValueError):
            raise DataError(
                f"{path}: the column {name!r} holds {column.type}, not numbers"
            ) from None
        if not np.isfinite(values).all():
            row = first + int(np.argmin(np.isfinite(values)))
            raise DataError(
                f"{path}: row {row + 1}, column {name!r}: not a number; fill it in, or choose "
                f"other columns"
            )
        numbers.append(values)
    return np.column_stack(numbers)


@dataclass(frozen=True)
class ParquetNumbers:
    """Columns of numbers, or one column of lists, that stay in Parquet files."""

    path: Path
    files: list[Path]
    names: list[str]
    dtype: np.dtype
    n_bytes: int
    """Size of the matrix in memory."""

    @classmethod
    def of(cls, path: Path, names: Sequence[str]) -> ParquetNumbers | None:
        """Find numbers in a Parquet file or folder; None if a column is absent or not numeric."""
        arrow = optional("pyarrow", "table", "Reading Parquet files")
        parquet = optional("pyarrow.parquet", "table", "Reading Parquet files")
        files = parquet_files(path) if path.is_dir() else [path]
        types = arrow.types
        n_values = 0
        single = True
        for source in files:
            try:
                with parquet.ParquetFile(source) as file:
                    schema = file.schema_arrow
                    about = file.metadata
            except (OSError, arrow.ArrowException):
                return None
            for name in names:
                kind = schema.field(name).type if name in schema.names else arrow.null()
                is_list = len(names) == 1 and types.is_nested(kind) and hasattr(kind, "value_type")
                inner = kind.value_type if is_list else kind
                if not (types.is_floating(inner) or types.is_integer(inner)):
                    return None
                single &= is_list and types.is_float32(inner)
            for k in range(about.num_row_groups):
                n_values += sum(chunk.num_values for chunk in _chunks(about.row_group(k), names))
        dtype = np.dtype(np.float32 if single else np.float64)
        return cls(path, files, list(names), dtype, n_values * dtype.itemsize)

    def blocks(self) -> Iterator[Array]:
        """Yield the rows of all files in blocks."""
        first = 0
        for table in _streamed(self.files, self.names):
            numbers = _numbers_of(table, self.names, str(self.path), first)
            yield numbers.astype(self.dtype, copy=False)
            first += table.num_rows


def _chunks(group: Any, names: Sequence[str]) -> list[Any]:
    """Return the metadata of these columns in a row group of a Parquet file."""
    chunks = _column_chunks(group)
    return [chunk for chunk in chunks if chunk.path_in_schema.split(".")[0] in names]


def _column_chunks(group: Any) -> list[Any]:
    """Return the metadata of all columns in a row group of a Parquet file."""
    return [group.column(j) for j in range(group.num_columns)]


def _streamed(files: Iterable[Path], names: Sequence[str]) -> Iterator[Any]:
    """Yield these columns of Parquet files in blocks of rows."""
    arrow = optional("pyarrow", "table", "Reading Parquet files")
    parquet = optional("pyarrow.parquet", "table", "Reading Parquet files")
    for path in files if names else ():
        # With a small buffer: by default pyarrow holds whole column chunks, even for a few rows.
        with (
            unreadable_named(path, "Parquet file"),
            parquet.ParquetFile(path, buffer_size=2**20, pre_buffer=False) as file,
        ):
            about = file.metadata
            size = sum(about.row_group(k).total_byte_size for k in range(about.num_row_groups))
            at_once = max(1, _ROWS_BYTES * about.num_rows // max(size, 1))
            for batch in file.iter_batches(at_once, columns=list(names), use_threads=False):
                yield arrow.Table.from_batches([batch])


def _digests(files: Iterable[Path], names: Sequence[str]) -> list[bytes]:
    """Return a hash of the numbers in each of these columns."""
    digests = [hashlib.blake2b() for _ in names]
    for rows in _streamed(files, names):
        for digest, column in zip(digests, rows.columns, strict=True):
            matrix = stacked_lists(column) if hasattr(column.type, "value_type") else None
            values = column.to_numpy() if matrix is None else matrix
            digest.update(np.ascontiguousarray(values).data)
    return [digest.digest() for digest in digests]


def number_blocks(folder: Path, names: Sequence[str]) -> list[tuple[str, Callable[[], Array]]]:
    """Return files and readers of blocks of about 50 MB, in row order.

    Each reader returns columns of numbers, or one column of lists of numbers, as a matrix (n, d).
    """
    parquet = optional("pyarrow.parquet", "table", "Reading Parquet files")
    blocks: list[tuple[str, Callable[[], Array]]] = []
    first = 0
    for path in parquet_files(folder):
        with parquet.ParquetFile(path) as file:
            missing = [name for name in names if name not in file.schema_arrow.names]
            about = file.metadata
        if missing:
            raise DataError(f"{path}: there is no column {brief(missing[0])}")
        groups: list[int] = []
        size = n = 0
        for k in range(about.num_row_groups):
            group = about.row_group(k)
            groups.append(k)
            size += sum(chunk.total_uncompressed_size for chunk in _chunks(group, names))
            n += group.num_rows
            if size >= _BLOCK_BYTES or k == about.num_row_groups - 1:
                if n:
                    file_name = os.path.abspath(path)
                    read = partial(_read_numbers, file_name, groups, first, list(names))
                    blocks.append((file_name, read))
                first += n
                groups = []
                size = 0
                n = 0
    return blocks


def write_parquet(columns: Mapping[str, list[Any]], stream: BinaryIO) -> None:
    """Write new columns as a Parquet file.

    Strings become numbers if the numbers would be written as the same strings again.
    """
    arrow = optional("pyarrow", "table", "Writing this table")
    arrays = {}
    for name, cells in columns.items():
        for kind in (int, float):
            cells = _exact_numbers(cells, kind)
        try:
            arrays[name] = new_column(cells, None)
        except arrow.ArrowException:
            arrays[name] = arrow.array([None if cell is None else str(cell) for cell in cells])
    parquet = optional("pyarrow.parquet", "table", "Writing Parquet files")
    parquet.write_table(arrow.table(arrays), stream)


def new_column(cells: list[Any], usual: Any = "string") -> Any:
    """Return a new column: lists of tags with their confidences, or cells of the usual type.

    A dictionary becomes a list of named pairs, because the package `datasets` has no maps.
    """
    arrow = optional("pyarrow", "table", "Writing this table")
    first = next((cell for cell in cells if cell is not None), None)
    if isinstance(first, dict):
        pairs = [[{"tag": k, "confidence": v} for k, v in cell.items()] for cell in cells]
        kind = arrow.struct([("tag", arrow.string()), ("confidence", arrow.float64())])
        return arrow.array(pairs, type=arrow.list_(kind))
    if usual is not None and isinstance(first, list):
        usual = arrow.list_(arrow.string())
    return arrow.array(cells, type=usual)


def _exact_numbers(cells: list[Any], kind: type) -> list[Any]:
    """Return strings as numbers if all numbers would be written as the same strings again."""
    filled = [cell for cell in cells if cell != ""]
    try:
        if filled and all(isinstance(c, str) and str(kind(c)) == c for c in filled):
            return [kind(cell) if cell else None for cell in cells]
    except ValueError:
        pass
    return cells


def read_arrow(path: Path, files: Sequence[Path], limit: int, unread: Collection[str]) -> Any:
    """Read the Parquet files of a table as one, up to a limit in bytes.

    Folders named name=value, as written by Spark, become a column of text. If a file lacks a
    column, its cells are missing.
    """
    arrow = optional("pyarrow", "table", "Reading this table")
    tables = []
    for file in files:
        table = _read_parquet(file, limit, unread)
        limit -= table.nbytes
        check_columns(file, table.column_names)
        for part in file.parts[len(path.parts) : -1]:
            key, equals, text = part.partition("=")
            if equals and key not in table.column_names:
                table = table.append_column(key, [[unquote(text)] * table.num_rows])
        tables.append(table)
    if len(tables) == 1:
        return tables[0]
    with unreadable_named(path, "folder: its files do not make one table"):
        return arrow.concat_tables(tables, promote_options="permissive")


def _read_parquet(path: Path, limit: int, unread: Collection[str]) -> Any:
    """Read a file batch by batch, up to the limit."""
    arrow = optional("pyarrow", "table", "Reading Parquet files")
    parquet = optional("pyarrow.parquet", "table", "Reading Parquet files")
    with unreadable_named(path, "Parquet file"), parquet.ParquetFile(path) as file:
        schema = file.schema_arrow
        groups = [file.metadata.row_group(k) for k in range(file.metadata.num_row_groups)]
        if not unread:
            check_limit(path, "unpacks to", sum(group.total_byte_size for group in groups), limit)
        # These sizes count a long string of a dictionary only once, even if many rows repeat it.
        options = {}
        if unread:
            fields = [field for field in schema if field.name not in unread]
            schema = arrow.schema(fields, schema.metadata)
            options = {"columns": schema.names}
        batches = file.iter_batches(batch_size=_ROWS_AT_ONCE, **options)
        return arrow.Table.from_batches(list(_limited(path, batches, limit)), schema=schema)


def _limited(path: Path, batches: Any, limit: int) -> Iterator[Any]:
    size = 0
    for batch in batches:
        # Validate, because Arrow trusts the offsets in a file, even to count bytes.
        batch.validate(full=True)
        size += batch.nbytes
        check_limit(path, "unpacks to at least", size, limit)
        yield batch
