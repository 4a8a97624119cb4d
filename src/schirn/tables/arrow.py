"""Tables that Arrow reads: Parquet files and folders, and Feather files."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from socket import gethostname
from typing import Any, BinaryIO, NamedTuple
from urllib.parse import unquote

import numpy as np

from schirn._files import (
    brief,
    brief_list,
    byte_limit,
    reason_of,
    too_large,
    whole_folder,
)
from schirn._input import Array
from schirn._optional import optional
from schirn.exceptions import DataError
from schirn.tables.table import Columns, Table
from schirn.tables.text import check_columns, check_size, unreadable_named

ARROW = (".feather", ".arrow", ".ipc")
"""Suffixes of files in Arrow's own format."""

_ROWS_AT_ONCE = 1024
# Size of the rows of numbers that are read or written together.
_ROWS_BYTES = 2**24
# Size of the blocks of numbers that are read together.
_BLOCK_BYTES = 50_000_000
_MAGIC = b"ARROW1"
_HIVE_NULL = "__HIVE_DEFAULT_PARTITION__"
# Where the package `datasets` keeps its description of the columns.
_FEATURES = b"huggingface"


class ArrowTable(Table):
    """Columns of an Arrow table; those that are not changed keep their types.

    Class labels of `datasets` are numbers with names in the description of the column. Their cells
    are the names.
    """

    lists = True

    def __init__(
        self, path: Path, table: Any, unread: Collection[str] = (), empty: bool = False
    ) -> None:
        self.unread = list(unread)
        self._arrow = optional("pyarrow", "table", "Reading this table")
        self.table = table
        with unreadable_named(path, "table"):
            self.columns = list(table.column_names)
            index = (table.schema.pandas_metadata or {}).get("index_columns", ())
            self.index_columns: Collection[str] = [name for name in index if isinstance(name, str)]
            self._features = _features(table.schema)
        check_columns(path, self.columns)
        self.path, self.n_rows = path, table.num_rows
        if not self.n_rows and not empty:
            raise DataError(f"{path}: the table has no rows")

    def column(self, name: str) -> list[Any]:
        """Return the values of a column."""
        cells = list(self.table.column(name).to_pylist())
        names = _class_names(self._features.get(name))
        if names is None:
            return cells
        return [self._named(cell, names, i, name) for i, cell in enumerate(cells)]

    def _named(self, cell: Any, names: list[str], i: int, column: str) -> Any:
        """Return the names of class labels."""
        if isinstance(cell, list):
            return [self._named(element, names, i, column) for element in cell]
        # Data sets for competitions have -1 where the label is a secret.
        if cell is None or cell == -1:
            return None
        if not 0 <= cell < len(names):
            raise DataError(
                f"{self.path}: row {i + 1}, column {brief(column)}: there is no class {cell}; the "
                f"column has {len(names)} classes"
            )
        return names[cell]

    def numbers(self, name: str) -> Array | None:
        """Return a column of numbers or truth values as floats, NaN for a missing cell."""
        kind, types = self.table.schema.field(name).type, self._arrow.types
        is_number = types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind)
        if not is_number or _class_names(self._features.get(name)) is not None:
            return None
        return np.asarray(self.table.column(name).to_numpy(), dtype=np.float64)

    def vectors(self, name: str) -> Array | None:
        """Return a column of lists of numbers as a matrix; None if it does not hold such lists."""
        column = self.table.column(name)
        if not self._arrow.types.is_nested(column.type):
            return None
        return stacked_lists(column)

    def holds(self, name: str, kind: str) -> bool:
        """Whether the cells of a column may be of a kind: "text" or "list"."""
        column, types = self.table.schema.field(name).type, self._arrow.types
        is_list = any(
            of(column) for of in (types.is_list, types.is_large_list, types.is_fixed_size_list)
        )
        is_number = types.is_integer(column) or types.is_floating(column)
        if kind == "list":
            return is_list
        return not is_list and (_class_names(self._features.get(name)) is not None or not is_number)

    def _rewrite(self, stream: BinaryIO, changed: Columns, added: Columns) -> None:
        table, path = self._with(self.table, changed, added), Path(stream.name)
        if path.suffix.lower() == ".parquet":
            self._write_parquet(self._pieces(table), stream)
        else:
            write_arrow(table, stream, path)

    def _write_parquet(self, pieces: Sequence[tuple[Path, Any]], target: Any) -> None:
        """Write rows of files as one file, with the columns that were not read."""
        if self.unread:
            _write_with_unread(pieces, self.unread, target)
            return
        arrow = self._arrow
        parquet = optional("pyarrow.parquet", "table", "Writing Parquet files")
        parquet.write_table(arrow.concat_tables([rows for _, rows in pieces]), target)

    def _pieces(self, table: Any) -> list[tuple[Path, Any]]:
        """Return each file with its rows of a table."""
        return [(self.path, table)]

    def _reopened(self, copy: Path) -> ArrowTable:
        limit = sys.maxsize
        is_parquet = copy.suffix.lower() == ".parquet"
        table = read_parquet(copy, limit, self.unread) if is_parquet else read_ipc(copy, limit)
        return ArrowTable(copy, table, self.unread, empty=True)

    def _compare(self, path: str, copy: Path, changed: Columns, added: Columns) -> None:
        super()._compare(path, copy, changed, added)
        if self.unread:
            _compare_unread(path, [file for file, _ in self._pieces(self.table)], copy, self.unread)

    def _compare_column(self, path: str, copy: Any, name: str, cells: list[Any] | None) -> None:
        if cells is None:
            column, twin = self.table.column(name), copy.table.column(name)
            if column.type == twin.type and column.equals(twin):
                return
        super()._compare_column(path, copy, name, cells)

    def _with(self, table: Any, changed: Columns, added: Columns) -> Any:
        """Return a table, of all rows or of one file, with changed and new columns."""
        for name, cells in changed.items():
            if name not in table.column_names:
                # One of the files of a folder may lack the column.
                if any(cell is not None for cell in cells):
                    table = table.append_column(name, new_column(cells))
                continue
            k = table.column_names.index(name)
            field = table.schema.field(k)
            names = _class_names(self._features.get(name))
            if names is not None:
                cells = self._classes(name, cells, names, table.column(k))
            kind, types = field.type, self._arrow.types
            try:
                if types.is_null(kind) and any(cell is not None for cell in cells):
                    column = new_column(cells)
                elif types.is_dictionary(kind):
                    column = self._arrow.array(cells, type=kind.value_type)
                    column = self._categories(column, table.column(k))
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

    def _classes(self, column: str, cells: list[Any], names: list[str], numbers: Any) -> list[Any]:
        """Return the numbers of class labels; a missing label stays as it was."""
        number: dict[Any, Any] = {name: k for k, name in enumerate(names)} | {None: None}

        def number_of(cell: Any, old: Any) -> Any:
            if isinstance(cell, list):
                return [number_of(element, None) for element in cell]
            if cell not in number:
                raise DataError(
                    f"{self.path}: {brief(cell)} is not among the {len(names)} classes of the "
                    f"column {brief(column)}; there are {brief_list(names, 6)}"
                )
            return old if cell is None and old == -1 else number[cell]

        return list(map(number_of, cells, numbers.to_pylist()))

    def _categories(self, column: Any, base: Any) -> Any:
        """Return a column as categories: those of the old column in their order, then new ones."""
        known = (value for chunk in base.chunks for value in chunk.dictionary.to_pylist())
        old = [value for value in known if value is not None]
        cells = column.to_pylist()
        used = {cell for cell in cells if cell is not None}
        values = [value for value in dict.fromkeys([*old, *cells]) if value in used]
        if old == sorted(old):
            values.sort()
        place = {value: i for i, value in enumerate(values)}
        array = self._arrow.array(values, type=column.type)
        # The index may be too small for more categories.
        for index in (base.type.index_type, self._arrow.int32()):
            if len(values) < 2 ** (index.bit_width - 1):
                break
        indices = self._arrow.array([place.get(cell) for cell in cells], type=index)
        return self._arrow.DictionaryArray.from_arrays(indices, array, ordered=base.type.ordered)


class ParquetFolder(ArrowTable):
    """The Parquet files of a folder, sorted by path, as one table.

    Folders called name=value, as Spark and Hive write them, are a column.

    Parameters
    ----------
    folder : Path
    max_bytes : int or None
    unread : collection of str
        Columns of numbers that stay in the files, for others to read (`number_blocks`).
    """

    def __init__(self, folder: Path, max_bytes: int | None, unread: Collection[str] = ()) -> None:
        arrow = optional("pyarrow", "table", "Reading Parquet files")
        limit, files, tables = byte_limit(max_bytes), parquet_files(folder), []
        self._in_path: set[str] = set()
        self._files: dict[Path, Any] = {}
        for path in files:
            if not unread:
                check_size(path, max_bytes)
            table = read_parquet(path, limit, unread)
            limit -= table.nbytes
            check_columns(path, table.column_names)
            self._files[path] = table
            for part in path.relative_to(folder).parts[:-1]:
                key, equals, text = part.partition("=")
                if equals and key not in table.column_names:
                    value = None if text == _HIVE_NULL else unquote(text)
                    cells = arrow.array([value] * table.num_rows, type=arrow.string())
                    table = table.append_column(key, cells)
                    self._in_path.add(key)
            tables.append(table)
        # Columns that only some files have are missing in the others.
        with unreadable_named(folder, "folder: its files do not make one table"):
            joined = arrow.concat_tables(tables, promote_options="permissive")
        for key in self._in_path:
            k, column = joined.column_names.index(key), joined.column(key)
            texts = {text for text in column.to_pylist() if text is not None}
            if texts and all(text.isdecimal() and text.isascii() for text in texts):
                joined = joined.set_column(k, key, column.cast(arrow.int64()))
        super().__init__(folder, joined, unread)

    def write(self, path: str, changed: Columns, added: Columns) -> None:
        """Write a folder with files of the same names, or one file for a path in .parquet."""
        if path.endswith(".parquet"):
            super().write(path, changed, added)
            return
        fixed = sorted(self._in_path & set(changed))
        if fixed:
            raise DataError(
                f"{path}: the column {brief(fixed[0])} is in the names of the folders, where it "
                f"cannot be changed; write one file in .parquet"
            )
        self.check_unchanged()
        start = 0
        with whole_folder(path) as folder:
            for source, table in self._files.items():
                rows = slice(start, start + table.num_rows)
                start = rows.stop
                new, new_columns = (
                    {name: cells[rows] for name, cells in columns.items()}
                    for columns in (changed, added)
                )
                copy = folder / source.relative_to(self.path)
                copy.parent.mkdir(parents=True, exist_ok=True)
                self._write_parquet([(source, self._with(table, new, new_columns))], copy)
                part = ArrowTable(source, table, self.unread, empty=True)
                new = {name: cells for name, cells in new.items() if name in part.columns}
                part._compare(path, copy, new, new_columns)
            self.check_unchanged()

    def _pieces(self, table: Any) -> list[tuple[Path, Any]]:
        """Return each file with its rows of a table."""
        sizes = [file_table.num_rows for file_table in self._files.values()]
        starts = np.cumsum([0, *sizes]).tolist()
        files = zip(self._files, starts, sizes, strict=False)
        return [(path, table.slice(start, size)) for path, start, size in files]


def parquet_files(folder: Path) -> list[Path]:
    """Return the Parquet files of a folder, sorted; names that begin with _ or . do not count."""
    paths = sorted(path for path in folder.rglob("*.parquet") if path.is_file())
    hidden = ("_", ".")
    return [
        path
        for path in paths
        if not any(part.startswith(hidden) for part in path.relative_to(folder).parts)
    ]


class NumberBlock(NamedTuple):
    """Rows of a Parquet file whose numbers are read together."""

    path: str
    groups: list[int]
    first: int
    """Index of the first row among those of all files."""
    names: list[str]
    """Columns of numbers, or one column of lists of numbers."""

    def read(self) -> Array:
        """Return the numbers (n, d); lists of single precision stay so."""
        parquet = optional("pyarrow.parquet", "table", "Reading Parquet files")
        try:
            with parquet.ParquetFile(self.path) as file:
                table = file.read_row_groups(self.groups, columns=self.names)
        except FileNotFoundError:
            raise DataError(
                f"{self.path}: there is no such file on {gethostname()}; put the folder where all "
                f"workers see it under the same path"
            ) from None
        except Exception as error:
            raise DataError(f"{self.path}: cannot be read ({reason_of(error)})") from error
        return _numbers_of(table, self.names, self.path, self.first)


def _numbers_of(table: Any, names: Sequence[str], path: str, first: int) -> Array:
    """Return columns of numbers, or one column of lists, of a table that starts at row `first`."""
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


def stacked_lists(column: Any) -> Array | None:
    """Return an Arrow column of lists as a matrix, in single precision if it has that; or None."""
    # Without a Python object per number.
    compute = optional("pyarrow.compute", "table", "Reading Parquet files")
    sizes = compute.unique(compute.list_value_length(column)).to_pylist()
    numbers = compute.list_flatten(column)
    if len(sizes) != 1 or not sizes[0] or numbers.null_count:
        return None
    values = numbers.to_numpy()
    if values.dtype.kind not in "biuf":
        return None
    values = values.reshape(-1, sizes[0])
    return values if values.dtype == np.float32 else values.astype(np.float64)


class ParquetNumbers(NamedTuple):
    """Columns of numbers, or one column of lists, that stay in Parquet files."""

    files: list[Path]
    names: list[str]
    dtype: np.dtype
    n_rows: int
    n_bytes: int
    """Size of the matrix in memory."""

    @classmethod
    def of(cls, path: Path, names: Sequence[str]) -> ParquetNumbers | None:
        """Numbers in a Parquet file or folder; None if a file lacks a column or it holds others."""
        arrow = optional("pyarrow", "table", "Reading Parquet files")
        parquet = optional("pyarrow.parquet", "table", "Reading Parquet files")
        files, types = parquet_files(path) if path.is_dir() else [path], arrow.types
        n_rows, n_values, single = 0, 0, True
        for source in files:
            try:
                with parquet.ParquetFile(source) as file:
                    schema, about = file.schema_arrow, file.metadata
            except (OSError, arrow.ArrowException):
                return None
            for name in names:
                if name not in schema.names:
                    return None
                kind = schema.field(name).type
                is_list = types.is_nested(kind) and hasattr(kind, "value_type")
                inner = kind.value_type if is_list else kind
                if not (types.is_floating(inner) or types.is_integer(inner)):
                    return None
                if is_list and len(names) > 1:
                    return None
                single &= is_list and types.is_float32(inner)
            n_rows += about.num_rows
            for k in range(about.num_row_groups):
                n_values += sum(chunk.num_values for chunk in _chunks(about.row_group(k), names))
        dtype = np.dtype(np.float32 if single else np.float64)
        return cls(files, list(names), dtype, n_rows, n_values * dtype.itemsize)

    def blocks(self) -> Iterator[Array]:
        """Yield the rows of all files, some at a time."""
        first = 0
        for path in self.files:
            with unreadable_named(path, "Parquet file"):
                for table in _streamed(path, self.names):
                    numbers = _numbers_of(table, self.names, str(path), first)
                    yield numbers.astype(self.dtype, copy=False)
                    first += table.num_rows


def _chunks(group: Any, names: Sequence[str]) -> list[Any]:
    """Return what a row group of a Parquet file says about these columns."""
    chunks = [group.column(j) for j in range(group.num_columns)]
    return [chunk for chunk in chunks if chunk.path_in_schema.split(".")[0] in names]


def _streamed(path: Path, names: Sequence[str]) -> Iterator[Any]:
    """Yield these columns of a Parquet file, some rows at a time."""
    arrow = optional("pyarrow", "table", "Reading Parquet files")
    parquet = optional("pyarrow.parquet", "table", "Reading Parquet files")
    # Through a small buffer: by default pyarrow holds whole column chunks, however few rows are
    # asked for.
    with parquet.ParquetFile(path, buffer_size=2**20, pre_buffer=False) as file:
        about = file.metadata
        size = sum(about.row_group(k).total_byte_size for k in range(about.num_row_groups))
        at_once = max(1, _ROWS_BYTES * about.num_rows // max(size, 1))
        for batch in file.iter_batches(at_once, columns=list(names), use_threads=False):
            yield arrow.Table.from_batches([batch])


def _write_with_unread(
    pieces: Iterable[tuple[Path, Any]], unread: Sequence[str], target: Any
) -> None:
    """Write one file: rows of files with the columns that were not read, some rows at a time.

    Parameters
    ----------
    pieces : pairs of the file and the other columns of its rows
    unread : list of str
    target : path or stream
    """
    parquet = optional("pyarrow.parquet", "table", "Writing Parquet files")
    writer = None
    try:
        for path, table in pieces:
            start, kinds = 0, parquet.read_schema(path)
            # A file without rows is written as well.
            empty = kinds.empty_table().select(list(unread))
            for rows in chain(_streamed(path, unread), [empty]):
                block = table.slice(start, rows.num_rows)
                if len(block) != len(rows):
                    break
                start += len(rows)
                if writer is not None and not len(rows):
                    continue
                for name in unread:
                    block = block.append_column(kinds.field(name), rows.column(name))
                order = [name for name in kinds.names if name in block.column_names]
                order += [name for name in block.column_names if name not in order]
                block = block.select(order)
                if writer is None:
                    writer = parquet.ParquetWriter(target, block.schema)
                writer.write_table(block.cast(writer.schema))
            if start != table.num_rows:
                raise DataError(f"{path}: the file was changed while its tags were judged")
    finally:
        if writer is not None:
            writer.close()


def _compare_unread(path: str, sources: list[Path], copy: Path, names: Sequence[str]) -> None:
    """Raise DataError if columns that were not read differ between files and their copy."""
    arrow = optional("pyarrow", "table", "Reading Parquet files")
    copies, buffer, first = _streamed(copy, names), None, 0
    for table in chain.from_iterable(_streamed(source, names) for source in sources):
        while buffer is None or buffer.num_rows < table.num_rows:
            block = next(copies, None)
            if block is None:
                raise DataError(f"{path}: rows would be lost, so nothing was written")
            buffer = block if buffer is None else arrow.concat_tables([buffer, block])
        if not table.cast(buffer.schema).equals(buffer.slice(0, table.num_rows)):
            rows = f"rows {first + 1:,} to {first + table.num_rows:,}"
            raise DataError(f"{path}: {brief_list(names)} would differ in {rows}; nothing written")
        buffer, first = buffer.slice(table.num_rows), first + table.num_rows


def number_blocks(folder: Path, names: Sequence[str]) -> list[NumberBlock]:
    """Return blocks of about 50 MB of these columns, in the order of the rows of the folder."""
    parquet = optional("pyarrow.parquet", "table", "Reading Parquet files")
    blocks, first = [], 0
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
                    blocks.append(NumberBlock(os.path.abspath(path), groups, first, list(names)))
                first += n
                groups, size, n = [], 0, 0
    return blocks


def write_arrow(table: Any, stream: BinaryIO, path: Path) -> None:
    """Write a Parquet file, or one in Arrow's own format, as its name says."""
    suffix = path.suffix.lower()
    if suffix == ".parquet":
        optional("pyarrow.parquet", "table", "Writing Parquet files").write_table(table, stream)
        return
    ipc = optional("pyarrow.ipc", "table", "Writing Arrow files")
    # Feather files are compressed by those who write them, so that of a copy is as well; polars
    # cannot read compressed texts of its own type.
    is_packed = suffix == ".feather" and "_view" not in str(table.schema.types)
    options = ipc.IpcWriteOptions(compression="lz4" if is_packed else None)
    with ipc.new_file(stream, table.schema, options=options) as writer:
        writer.write_table(table)


def table_of(columns: Mapping[str, list[Any]]) -> Any:
    """Return new columns as an Arrow table.

    Texts that are numbers, and would be written the same way again, become numbers.
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
    return arrow.table(arrays)


def new_column(cells: list[Any], usual: Any = "string") -> Any:
    """Return a new column: lists of tags with their confidences, or else of the usual type.

    The package `datasets` has no maps, so a dictionary is a list of pairs with names.
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
    """Return texts as numbers if all of them would be written the same way again."""
    filled = [cell for cell in cells if cell != ""]
    try:
        if filled and all(isinstance(c, str) and str(kind(c)) == c for c in filled):
            return [kind(cell) if cell else None for cell in cells]
    except ValueError:
        pass
    return cells


def read_parquet(path: Path, limit: int, unread: Collection[str] = ()) -> Any:
    """Read a file batch by batch, up to the limit."""
    arrow = optional("pyarrow", "table", "Reading Parquet files")
    parquet = optional("pyarrow.parquet", "table", "Reading Parquet files")
    with unreadable_named(path, "Parquet file"), parquet.ParquetFile(path) as file:
        schema = file.schema_arrow
        names = [name for name in schema.names if name not in unread]
        groups = [file.metadata.row_group(k) for k in range(file.metadata.num_row_groups)]
        total = sum(group.total_byte_size for group in groups)
        if total > limit and not unread:
            raise DataError(f"{path}: {too_large(f'unpacks to {total:,} bytes', limit)}")
        # These sizes count a long text of a dictionary once, however many rows repeat it.
        options = {"columns": names} if unread else {}
        batches = file.iter_batches(batch_size=_ROWS_AT_ONCE, **options)
        if unread:
            schema = arrow.schema([schema.field(name) for name in names], schema.metadata)
        return arrow.Table.from_batches(list(_limited(path, batches, limit)), schema=schema)


def read_ipc(path: Path, limit: int) -> Any:
    """Read a file of batches, which may be in the form of a file or of a stream."""
    arrow = optional("pyarrow", "table", "Reading Arrow files")
    ipc = optional("pyarrow.ipc", "table", "Reading Arrow files")
    with unreadable_named(path, "Arrow file"), arrow.memory_map(str(path)) as source:
        if source.read(len(_MAGIC)) == _MAGIC:
            reader = ipc.open_file(source)
            stored = (reader.get_batch(k) for k in range(reader.num_record_batches))
        else:
            source.seek(0)
            reader = ipc.open_stream(source)
            stored = iter(reader)
        batches = list(_limited(path, map(_checked, stored), limit))
        return arrow.Table.from_batches(batches, schema=reader.schema)


def _checked(batch: Any) -> Any:
    # Arrow trusts the offsets in a file, even to count bytes.
    batch.validate(full=True)
    return batch


def _limited(path: Path, batches: Any, limit: int) -> Iterator[Any]:
    size = 0
    for batch in batches:
        size += batch.nbytes
        if size > limit:
            reason = too_large(f"unpacks to over {limit:,} bytes", limit)
            raise DataError(f"{path}: {reason}")
        yield batch


def _features(schema: Any) -> dict[str, Any]:
    """Return the description of the columns by the package `datasets`, if there is one."""
    try:
        features = json.loads((schema.metadata or {})[_FEATURES])["info"]["features"]
    except (LookupError, TypeError, ValueError, RecursionError):
        return {}
    return features if isinstance(features, dict) else {}


def _class_names(feature: Any) -> list[str] | None:
    """Return the names of a column of class labels, or of lists of them."""
    if isinstance(feature, list):
        return _class_names(feature[0]) if len(feature) == 1 else None
    if not isinstance(feature, dict):
        return None
    if feature.get("_type") in ("Sequence", "List", "LargeList"):
        return _class_names(feature.get("feature"))
    names = feature.get("names")
    if feature.get("_type") != "ClassLabel" or not isinstance(names, list) or not names:
        return None
    return [str(name) for name in names]
