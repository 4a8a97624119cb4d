"""Tables in .xlsx workbooks: the first sheet, with the names of the columns in its first row.

A copy is made of the parts of the workbook themselves. Only the cells that change are written anew
in the XML of the sheet, so formulas keep their results, and texts their formats.
"""

from __future__ import annotations

import datetime
import re
import warnings
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from html import escape
from pathlib import Path
from typing import Any, BinaryIO

from schirn._files import DAMAGE, brief, byte_limit, reason_of, too_large
from schirn._input import is_missing
from schirn._optional import optional
from schirn.exceptions import DataError
from schirn.tables.table import Columns, Table
from schirn.tables.text import check_columns

_ATTRIBUTES = r"""(?P<attributes>(?:\s+[\w:.-]+\s*=\s*(?:"[^"]*"|'[^']*'))*)\s*"""
_ROW = re.compile(
    rf"<(?P<prefix>[\w.-]+:)?row{_ATTRIBUTES}(?:/>|>(?P<content>.*?)</(?P=prefix)?row\s*>)", re.S
)
_CELL = re.compile(
    rf"<(?:[\w.-]+:)?c{_ATTRIBUTES}(?:/>|>(?P<content>.*?)</(?:[\w.-]+:)?c\s*>)", re.S
)
_DATA = re.compile(
    r"<(?P<prefix>[\w.-]+:)?sheetData\s*(?:/>|>(?P<content>.*)</[\w.:-]*sheetData\s*>)", re.S
)
_KINDS = (str, int, float, datetime.date, datetime.time)
# What XML 1.0 cannot hold.
_FORBIDDEN = re.compile("[\0-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")


class XlsxTable(Table):
    """The first sheet of a workbook; a copy keeps the other sheets, formats and formulas."""

    def __init__(self, path: Path, max_bytes: int | None, empty: bool) -> None:
        self.path = path
        _check_content(path, byte_limit(max_bytes))
        # Formulas count as what they were last computed to be.
        with self._workbook(data_only=True, read_only=True) as book:
            if not book.worksheets:
                raise DataError(f"{path}: the workbook has no sheet with cells")
            sheet = book.worksheets[0]
            self._part: str = sheet._worksheet_path
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

    def write(self, path: str, changed: Columns, added: Columns) -> None:
        """Write a copy of the workbook; an empty text is an empty cell."""
        super().write(path, without_empty(changed), without_empty(added))

    def _rewrite(self, stream: BinaryIO, changed: Columns, added: Columns) -> None:
        # From the number of a row to the number and content of its new cells.
        cells: dict[int, dict[int, Any]] = {}
        for name, values in changed.items():
            for i, value in enumerate(values):
                if value != self._cells[name][i]:
                    cells.setdefault(i + 2, {})[self.columns.index(name) + 1] = value
        for k, (name, values) in enumerate(added.items(), start=len(self.columns) + 1):
            for i, value in enumerate([name, *values], start=1):
                if value is not None:
                    cells.setdefault(i, {})[k] = value
        try:
            with zipfile.ZipFile(self.path) as source, zipfile.ZipFile(stream, "w") as copy:
                for entry in source.infolist():
                    content = source.read(entry)
                    if entry.filename == self._part:
                        content = _patched(self.path, content.decode(), cells).encode()
                    copy.writestr(entry, content)
        except DataError:
            raise
        except DAMAGE as error:
            raise DataError(f"{self.path}: cannot be copied ({reason_of(error)})") from error

    def _reopened(self, copy: Path) -> XlsxTable:
        return XlsxTable(copy, None, True)

    @contextmanager
    def _workbook(self, **options: Any) -> Iterator[Any]:
        openpyxl = optional("openpyxl", "xlsx", "Reading .xlsx files")
        try:
            with warnings.catch_warnings():
                # About extensions of the format that hold no cells.
                warnings.simplefilter("ignore")
                book = openpyxl.load_workbook(self.path, **options)
        except (*DAMAGE, AttributeError, openpyxl.utils.exceptions.InvalidFileException) as error:
            raise DataError(
                f"{self.path}: not a readable .xlsx file ({reason_of(error)})"
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


def without_empty(columns: Columns) -> dict[str, list[Any]]:
    """Return columns as a workbook has them: an empty text is an empty cell."""
    return {
        name: [None if cell == "" else cell for cell in cells] for name, cells in columns.items()
    }


def _patched(path: Path, sheet: str, cells: Mapping[int, Mapping[int, Any]]) -> str:
    """Return the XML of a sheet with other cells in some rows."""
    data = _DATA.search(sheet)
    if data is None:
        raise DataError(f"{path}: the first sheet has no cells")
    prefix, content = data["prefix"] or "", data["content"] or ""
    rows: list[str] = []
    missing_rows, place, number = dict(cells), 0, 0
    for row in _ROW.finditer(content):
        number = int(_attribute(row, "r") or number + 1)
        rows.append(content[place : row.start()])
        rows += [
            _row(path, prefix, n, "", missing_rows.pop(n))
            for n in sorted(missing_rows)
            if n < number
        ]
        edits, place = missing_rows.pop(number, None), row.end()
        # The columns that a row spans are a hint, which would be wrong with new cells.
        attributes = re.sub(r"\s+spans\s*=\s*(\"[^\"]*\"|'[^']*')", "", row["attributes"])
        rows.append(
            row[0]
            if edits is None
            else _row(path, prefix, number, row["content"] or "", edits, attributes)
        )
    rows.append(content[place:])
    rows += [_row(path, prefix, n, "", missing_rows[n]) for n in sorted(missing_rows)]
    data_xml = f"<{prefix}sheetData>{''.join(rows)}</{prefix}sheetData>"
    # The area of the cells is a hint as well.
    head = re.sub(r"<(?:[\w.-]+:)?dimension\b[^>]*?/>", "", sheet[: data.start()])
    return head + data_xml + sheet[data.end() :]


def _row(
    path: Path,
    prefix: str,
    number: int,
    content: str,
    cells: Mapping[int, Any],
    attributes: str | None = None,
) -> str:
    """Return the XML of a row with other cells."""
    letters = optional("openpyxl.utils", "xlsx", "Writing .xlsx files")
    parts, new_cells, place, column = [], dict(cells), 0, 0
    for cell in _CELL.finditer(content):
        name = re.match("[A-Z]+", _attribute(cell, "r") or "")
        column = letters.column_index_from_string(name[0]) if name else column + 1
        parts.append(content[place : cell.start()])
        place = cell.end()
        columns = [k for k in sorted(new_cells) if k < column]
        parts += [_cell(path, prefix, number, k, new_cells.pop(k), None) for k in columns]
        if column not in new_cells:
            parts.append(cell[0])
            continue
        if re.search(r"<(?:[\w.-]+:)?f\b", cell["content"] or ""):
            raise DataError(
                f"{path}: the cell {letters.get_column_letter(column)}{number} is a formula, so "
                f"its tags cannot be changed; replace the formula by its result first"
            )
        style = _attribute(cell, "s")
        parts.append(_cell(path, prefix, number, column, new_cells.pop(column), style))
    parts.append(content[place:])
    parts += [_cell(path, prefix, number, k, new_cells[k], None) for k in sorted(new_cells)]
    about = f' r="{number}"' if attributes is None else attributes
    return f"<{prefix}row{about}>{''.join(parts)}</{prefix}row>"


def _cell(path: Path, prefix: str, row: int, column: int, value: Any, style: str | None) -> str:
    """Return the XML of a cell; texts are never formulas."""
    letters = optional("openpyxl.utils", "xlsx", "Writing .xlsx files")
    about = f'r="{letters.get_column_letter(column)}{row}"'
    about += "" if style is None else f' s="{style}"'
    if value is None:
        return f"<{prefix}c {about}/>"
    if isinstance(value, bool | int | float):
        kind = ' t="b"' if isinstance(value, bool) else ""
        number = int(value) if isinstance(value, bool) else repr(value)
        return f"<{prefix}c {about}{kind}><{prefix}v>{number}</{prefix}v></{prefix}c>"
    if _FORBIDDEN.search(str(value)):
        raise DataError(
            f"{path}: row {row - 1}: {brief(value)} cannot be written, because no workbook can "
            f"hold this character"
        )
    text = escape(str(value), quote=False).replace("\r", "&#13;")
    return (
        f'<{prefix}c {about} t="inlineStr"><{prefix}is><{prefix}t xml:space="preserve">{text}'
        f"</{prefix}t></{prefix}is></{prefix}c>"
    )


def _attribute(element: re.Match[str], name: str) -> str | None:
    match = re.search(rf"\s{name}\s*=\s*[\"']([^\"']*)[\"']", element["attributes"])
    return None if match is None else match[1]


def write_workbook(stream: BinaryIO, columns: Mapping[str, list[Any]]) -> None:
    """Write columns as a new workbook; texts are never formulas."""
    openpyxl = optional("openpyxl", "xlsx", "Writing .xlsx files")
    book = openpyxl.Workbook()
    for k, (name, cells) in enumerate(columns.items(), start=1):
        for i, value in enumerate([name, *cells], start=1):
            if is_missing(value) or value == "":
                continue
            try:
                cell = book.active.cell(i, k, value if isinstance(value, _KINDS) else str(value))
            except ValueError as error:
                raise DataError(
                    f"row {i - 1}: {brief(value)} cannot be written ({reason_of(error)})"
                ) from error
            if isinstance(cell.value, str):
                cell.data_type = "s"
    book.save(stream)
