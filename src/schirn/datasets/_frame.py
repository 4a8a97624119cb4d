"""Table files as data frames whose tags stay the texts that they are in the file."""

from __future__ import annotations

import io
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from schirn._files import brief, byte_limit, too_large
from schirn._optional import optional
from schirn.datasets._text import (
    check_size,
    format_suffix,
    is_packed,
    read_bytes,
    unreadable_named,
)
from schirn.exceptions import DataError

PARQUET_ROWS = 1024
LABEL_COLUMNS = ("labels", "tags", "candidates", "label")

Columns = str | Sequence[str] | None

# A cell without a number in CSV files; as a tag each of these is a word.
_EMPTY = (
    *("", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN"),
    *("<NA>", "N/A", "NA", "NULL", "NaN", "None", "n/a", "nan", "null"),
)
_TRUTH_VALUES = {
    **dict.fromkeys(("0", "0.0", "false"), 0.0),
    **dict.fromkeys(("1", "1.0", "true"), 1.0),
    **dict.fromkeys(("-1", "-1.0"), -1.0),
}


def read_frame(path: Path, max_bytes: int | None, labels: Columns, truth: Columns) -> Any:
    """Read a file into a data frame; `labels` and `truth` are the columns asked for."""
    optional("pandas", "table", "Reading tables")
    check_size(path, max_bytes)
    suffix = format_suffix(path)
    if suffix not in (".csv", ".tsv", ".jsonl", ".parquet"):
        raise DataError(f"{path}: a table must be .csv, .tsv, .parquet or .jsonl.")
    if suffix == ".parquet":
        frame = _parquet(path, byte_limit(max_bytes))
    else:
        source: Any = io.BytesIO(read_bytes(path, max_bytes)) if is_packed(path) else path
        with unreadable_named(path, "table"):
            if suffix == ".jsonl":
                frame = _json_lines(source, labels, truth)
            else:
                frame = _csv(source, "\t" if suffix == ".tsv" else ",", labels, truth)
    if frame.empty:
        raise DataError(f"{path}: the table has no rows.")
    frame.columns = [str(column) for column in frame.columns]
    if not frame.columns.is_unique:
        twice = frame.columns[frame.columns.duplicated()][0]
        raise DataError(f"{path}: two columns are called {brief(twice)}; rename one of them.")
    return frame


def _single(columns: Columns) -> list[str]:
    """Return the column where there is only one; several hold 0 and 1, never tags."""
    if isinstance(columns, str):
        return [columns]
    return list(columns) if isinstance(columns, Sequence) and len(columns) == 1 else []


def _json_lines(source: Any, labels: Columns, truth: Columns) -> Any:
    """Read JSON lines; a text in a column of tags stays a text."""
    pandas = optional("pandas", "table", "Reading tables")
    tags = [*(LABEL_COLUMNS if labels is None else _single(labels)), *_single(truth)]
    kept = dict.fromkeys(tags, object)
    frame = pandas.read_json(source, lines=True, compression=None, dtype=kept)
    return frame.infer_objects()


def _csv(source: Any, separator: str, labels: Columns, truth: Columns) -> Any:
    """Read CSV; the cells of a column of tags stay texts unless they are all 0 and 1."""
    pandas = optional("pandas", "table", "Reading tables")
    options: dict[str, Any] = {"sep": separator, "compression": None}
    header = list(pandas.read_csv(source, nrows=0, **options).columns)
    if isinstance(source, io.BytesIO):
        source.seek(0)
    if labels is None:
        labels = next((column for column in LABEL_COLUMNS if column in header), None)
    tags = [column for column in (*_single(labels), *_single(truth)) if column in header]
    numbers = {column: list(_EMPTY) for column in header if column not in tags}
    options.update(dtype=dict.fromkeys(tags, str), na_values=numbers, keep_default_na=False)
    frame = pandas.read_csv(source, **options)
    values = {column: _truth_values(frame[column]) for column in tags}
    return frame if None in values.values() else frame.assign(**values)


def _truth_values(cells: Any) -> list[float] | None:
    """Return the numbers of a 0/1 column, NaN where one is missing; None for tags."""
    words = cells.fillna("").str.strip()
    values = [float("nan") if word in _EMPTY else _TRUTH_VALUES.get(word.lower()) for word in words]
    known = [value for value in values if value is not None]
    return known if len(known) == len(values) and not all(map(math.isnan, known)) else None


def _parquet(path: Path, limit: int) -> Any:
    """Read a Parquet file piece by piece, up to the limit."""
    arrow = optional("pyarrow", "table", "Reading Parquet files")
    parquet = optional("pyarrow.parquet", "table", "Reading Parquet files")
    with unreadable_named(path, "table"), parquet.ParquetFile(path) as file:
        groups = [file.metadata.row_group(k) for k in range(file.metadata.num_row_groups)]
        total = sum(group.total_byte_size for group in groups)
        if total > limit:
            raise DataError(f"{path}: {too_large(f'unpacks to {total:,} bytes', limit)}")
        # Those sizes are before dictionaries are filled in: a long text may stand in every row.
        pieces, size = [], 0
        for piece in file.iter_batches(batch_size=PARQUET_ROWS):
            size += piece.nbytes
            if size > limit:
                raise DataError(f"{path}: {too_large(f'unpacks to over {limit:,} bytes', limit)}")
            pieces.append(piece)
        return arrow.Table.from_batches(pieces, schema=file.schema_arrow).to_pandas()
