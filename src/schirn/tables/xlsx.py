"""Tables in .xlsx workbooks: the first sheet, with the names of the columns in its first row."""

from __future__ import annotations

import io
import warnings
import zipfile
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from schirn._files import DAMAGE, atomic_write, brief, byte_limit, reason_of, too_large
from schirn._input import Array, is_missing
from schirn._optional import optional
from schirn.exceptions import DataError
from schirn.tables.text import check_columns, to_numbers


class XlsxTable:
    """The first sheet of a workbook; a copy keeps the other sheets, formats and formulas."""

    lists = False
    tag_columns: Collection[str] = ()
    index_columns: Collection[str] = ()

    def __init__(self, path: Path, max_bytes: int | None, empty: bool) -> None:
        self._path = path
        _check_content(path, byte_limit(max_bytes))
        # Formulas count as what they were last computed to be.
        with self._workbook(data_only=True, read_only=True) as book:
            sheet = _first_sheet(path, book)
            # What a file says about its size may be wrong.
            sheet.reset_dimensions()
            rows = [list(row) for row in sheet.iter_rows(values_only=True)]
        while rows and all(map(is_missing, rows[-1])):
            rows.pop()
        header = rows[0] if rows else []
        width = max(
            (k + 1 for row in rows for k, c in enumerate(row) if not is_missing(c)), default=0
        )
        header = [*header, *[None] * (width - len(header))][:width]
        self.columns = ["" if is_missing(cell) else str(cell) for cell in header]
        check_columns(path, self.columns)
        self.n_rows = max(len(rows) - 1, 0)
        if not self.n_rows and not empty:
            raise DataError(f"{path}: the table has no rows")
        self._cells = {
            name: [row[k] if k < len(row) else None for row in rows[1:]]
            for k, name in enumerate(self.columns)
        }

    def column(self, name: str) -> list[Any]:
        """Return the cells of a column: texts, numbers, truth values, dates and None."""
        return list(self._cells[name])

    def numbers(self, name: str) -> Array | None:
        """Return a column as floats, NaN for a missing cell; None if a cell is not a number."""
        return to_numbers(self._cells[name])

    def write(self, path: str, changed: dict[str, list[Any]], added: dict[str, list[Any]]) -> None:
        """Write a copy of the workbook; texts are never formulas."""
        with self._workbook() as book:
            sheet = _first_sheet(self._path, book)
            columns = {self.columns.index(name) + 1: cells for name, cells in changed.items()}
            for k, (name, cells) in enumerate(added.items()):
                _put(path, sheet, 1, len(self.columns) + 1 + k, name)
                columns[len(self.columns) + 1 + k] = cells
            for k, cells in columns.items():
                before = self._cells[self.columns[k - 1]] if k <= len(self.columns) else None
                for i, cell in enumerate(cells):
                    if before is None or cell != before[i]:
                        _put(path, sheet, i + 2, k, cell)
            whole = io.BytesIO()
            book.save(whole)
        with atomic_write(path) as stream:
            stream.write(whole.getbuffer())

    @contextmanager
    def _workbook(self, **options: Any) -> Iterator[Any]:
        openpyxl = optional("openpyxl", "xlsx", "Reading .xlsx files")
        try:
            with warnings.catch_warnings():
                # About extensions of the format that hold no cells.
                warnings.simplefilter("ignore")
                book = openpyxl.load_workbook(self._path, **options)
        except (*DAMAGE, AttributeError, openpyxl.utils.exceptions.InvalidFileException) as error:
            raise DataError(
                f"{self._path}: not a readable .xlsx file ({reason_of(error)})"
            ) from error
        try:
            yield book
        finally:
            book.close()


def _check_content(path: Path, limit: int) -> None:
    """Raise DataError for a file that unpacks to more than the limit."""
    try:
        with zipfile.ZipFile(path) as archive:
            total = sum(entry.file_size for entry in archive.infolist())
    except DAMAGE as error:
        raise DataError(f"{path}: not a readable .xlsx file ({reason_of(error)})") from error
    if total > limit:
        raise DataError(f"{path}: {too_large(f'unpacks to {total:,} bytes', limit)}")


def _first_sheet(path: Path, book: Any) -> Any:
    if not book.worksheets:
        raise DataError(f"{path}: the workbook has no sheet with cells")
    return book.worksheets[0]


def _put(path: str, sheet: Any, row: int, column: int, value: Any) -> None:
    errors = optional("openpyxl.utils.exceptions", "xlsx", "Writing .xlsx files")
    try:
        cell = sheet.cell(row, column)
        cell.value = value
        if isinstance(value, str):
            # Otherwise a text that begins with = would be a formula.
            cell.data_type = "s"
    except (errors.IllegalCharacterError, AttributeError, ValueError) as error:
        raise DataError(
            f"{path}: row {row - 1}: {brief(value)} cannot be written ({reason_of(error)})"
        ) from error
