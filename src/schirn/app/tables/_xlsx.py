"""Tables in .xlsx workbooks: the first sheet, with the names of the columns in its first row.

A copy is made from the parts of the workbook itself. Only changed cells are rewritten in the XML of
the sheet, so formulas keep their results, and texts their formats.
"""

from __future__ import annotations

import datetime
import re
import warnings
import zipfile
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from html import escape
from itertools import zip_longest
from pathlib import Path
from typing import Any, BinaryIO

from schirn._files import brief, byte_limit, check_limit, reason_of, unreadable_named
from schirn._input import is_missing
from schirn._optional import optional
from schirn._text import reject_document_type
from schirn.app.tables._table import Columns, RawCells, Table
from schirn.exceptions import DataError

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
_CHUNK = 65536
# The largest sheet of a spreadsheet program.
_MAX_ROWS = 1_048_576
_MAX_COLUMNS = 16_384
# A cell far from all others makes a small file large: beyond this size, at least one cell in a
# hundred must hold something.
_MAX_SPARSE = 10_000_000
_MAX_PADDING = 100
# Empty rows before a cell count as this many cells each.
_EMPTY_ROW = 100
_BYTES = 8
# Characters that XML 1.0 does not allow.
_FORBIDDEN = re.compile("[\0-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")


class XlsxTable(Table):
    """The first sheet of a workbook; a copy keeps the other sheets, formats and formulas."""

    def __init__(self, path: Path, max_bytes: int | None = None) -> None:
        self.path = path
        with unreadable_named(path, ".xlsx file"):
            rows = self._read(byte_limit(max_bytes))
        columns = list(zip_longest(*rows))
        while columns and all(map(is_missing, columns[-1])):
            columns.pop()
        self.columns = ["" if is_missing(column[0]) else str(column[0]) for column in columns]
        self.n_rows = max(len(rows) - 1, 0)
        cells = (list(column[1:]) for column in columns)
        self._cells = dict(zip(self.columns, cells, strict=True))

    def _read(self, limit: int) -> list[list[Any]]:
        """Return the cells of the first sheet; formulas count as their last results."""
        openpyxl = optional("openpyxl", "xlsx", "Reading .xlsx files")
        with zipfile.ZipFile(self.path) as archive:
            total = sum(entry.file_size for entry in archive.infolist())
            check_limit(self.path, "unpacks to", total, limit)
            for entry in archive.infolist():
                with archive.open(entry) as part:
                    chunks = iter(partial(part.read, _CHUNK), b"")
                    reject_document_type(f"{self.path}: {brief(entry.filename)}", chunks)
        with warnings.catch_warnings():
            # Warnings about extensions of the format, which contain no cells.
            warnings.simplefilter("ignore")
            book = openpyxl.load_workbook(self.path, data_only=True, read_only=True)
        try:
            if not book.worksheets:
                raise DataError(f"{self.path}: the workbook has no sheet with cells")
            sheet = book.worksheets[0]
            self._part: str = sheet._worksheet_path
            # The size recorded in a file may be wrong.
            sheet.reset_dimensions()
            return self._filled(sheet.iter_rows(values_only=True), limit)
        finally:
            book.close()

    def _filled(self, cells: Iterable[Sequence[Any]], limit: int) -> list[list[Any]]:
        """Return the rows up to the last cell that holds something; refuse mostly empty sheets."""
        rows: list[list[Any]] = []
        n_held = 0
        n_filled = 0
        n_columns = 0
        for i, row in enumerate(cells, start=1):
            if i > _MAX_ROWS or len(row) > _MAX_COLUMNS:
                raise DataError(
                    f"{self.path}: the first sheet has a cell beyond row {_MAX_ROWS:,} or column "
                    f"XFD, where no spreadsheet has cells"
                )
            n_present = len(row) - row.count(None)
            if not n_present:
                continue
            filled = list(row)
            while filled and is_missing(filled[-1]):
                filled.pop()
            n_filled += n_present
            n_held += len(filled)
            self._check_padding(f"the first {i:,} rows have", n_held, n_filled)
            if filled:
                n_empty = i - 1 - len(rows)
                if n_empty:
                    size = f"row {i:,} follows {n_empty:,} empty rows, and there are"
                    self._check_padding(size, n_empty * _EMPTY_ROW, n_filled)
                rows += [[] for _ in range(n_empty)]
                rows.append(filled)
                n_columns = max(n_columns, len(filled))
        n_rows = len(rows)
        size = f"the first sheet has {n_rows:,} rows of {n_columns:,} columns, but"
        self._check_padding(size, n_rows * n_columns, n_filled)
        check_limit(self.path, "unpacks to", n_rows * n_columns * _BYTES, limit)
        return rows

    def _check_padding(self, size: str, n_cells: int, n_filled: int) -> None:
        if n_cells > max(_MAX_SPARSE, _MAX_PADDING * n_filled):
            raise DataError(
                f"{self.path}: {size} only {n_filled:,} cells that hold something; delete the "
                f"cells that are far from all others"
            )

    def column(self, name: str) -> list[Any]:
        """Return the cells of a column: strings, numbers, booleans, dates and None."""
        return list(self._cells[name])

    def write(
        self, path: str, changed: Columns, added: Columns, raw: RawCells | None = None
    ) -> None:
        """Write a copy of the workbook; empty strings become empty cells."""
        super().write(path, without_empty(changed), without_empty(added))

    def _rewrite(self, stream: BinaryIO, changed: Columns, added: Columns, raw: RawCells) -> None:
        # From the number of a row to the numbers and values of its new cells.
        cells: dict[int, dict[int, Any]] = {}
        for name, values in changed.items():
            for i, value in enumerate(values):
                if value != self._cells[name][i]:
                    cells.setdefault(i + 2, {})[self.columns.index(name) + 1] = value
        for k, (name, values) in enumerate(added.items(), start=len(self.columns) + 1):
            for i, value in enumerate([name, *values], start=1):
                if value is not None:
                    cells.setdefault(i, {})[k] = value
        with zipfile.ZipFile(self.path) as source, zipfile.ZipFile(stream, "w") as copy:
            for entry in source.infolist():
                with unreadable_named(self.path, ".xlsx file"):
                    content = source.read(entry)
                if entry.filename == self._part:
                    content = _patched(self.path, content.decode(), cells).encode()
                copy.writestr(entry, content)

    def _reopened(self, copy: Path) -> XlsxTable:
        return XlsxTable(copy)


def without_empty(columns: Columns) -> dict[str, list[Any]]:
    """Return columns for a workbook: empty strings become empty cells."""
    return {
        name: [None if cell == "" else cell for cell in cells] for name, cells in columns.items()
    }


def _patched(path: Path, sheet: str, cells: Mapping[int, Mapping[int, Any]]) -> str:
    """Return the XML of a sheet with new cells in some rows."""
    data = _DATA.search(sheet)
    if data is None:
        raise DataError(f"{path}: the first sheet has no cells")
    prefix = data["prefix"] or ""

    def row(number: int, element: re.Match[str] | None) -> str:
        about = f' r="{number}"'
        content = ""
        if element is not None:
            # The `spans` of a row are a hint, which new cells would make wrong.
            about = re.sub(r"\s+spans\s*=\s*(\"[^\"]*\"|'[^']*')", "", element["attributes"])
            content = element["content"] or ""
        edits = cells[number]

        def cell(column: int, old: re.Match[str] | None) -> str:
            return _cell(path, prefix, number, column, edits[column], old)

        content = _merged(content, _CELL, edits, cell)
        return f"<{prefix}row{about}>{content}</{prefix}row>"

    rows = _merged(data["content"] or "", _ROW, cells, row)
    # The dimension of the sheet is a hint as well.
    head = re.sub(r"<(?:[\w.-]+:)?dimension\b[^>]*?/>", "", sheet[: data.start()])
    return f"{head}<{prefix}sheetData>{rows}</{prefix}sheetData>{sheet[data.end() :]}"


def _merged(
    content: str,
    pattern: re.Pattern[str],
    edits: Mapping[int, Any],
    make: Callable[[int, re.Match[str] | None], str],
) -> str:
    """Return the XML of rows or cells in the order of their numbers, with some replaced."""
    parts = []
    new = deque(sorted(edits))
    place = 0
    number = 0
    for element in pattern.finditer(content):
        number = _number(element) or number + 1
        parts.append(content[place : element.start()])
        while new and new[0] < number:
            parts.append(make(new.popleft(), None))
        if new and new[0] == number:
            parts.append(make(new.popleft(), element))
        else:
            parts.append(element[0])
        place = element.end()
    return "".join([*parts, content[place:], *(make(number, None) for number in new)])


def _number(element: re.Match[str]) -> int:
    """Return the number of a row such as 3, or of the column of a cell such as C3, or 0."""
    name = _attribute(element, "r") or "0"
    if name.isdecimal():
        return int(name)
    letters = optional("openpyxl.utils", "xlsx", "Writing .xlsx files")
    return int(letters.column_index_from_string(name.rstrip("0123456789")))


def _cell(
    path: Path, prefix: str, row: int, column: int, value: Any, old: re.Match[str] | None
) -> str:
    """Return the XML of a cell, in the style of the old one; strings never become formulas."""
    letters = optional("openpyxl.utils", "xlsx", "Writing .xlsx files")
    name = f"{letters.get_column_letter(column)}{row}"
    if old and re.search(r"<(?:[\w.-]+:)?f\b", old["content"] or ""):
        raise DataError(
            f"{path}: the cell {name} is a formula, so its tags cannot be changed; replace the "
            f"formula by its result first"
        )
    style = _attribute(old, "s") if old else None
    about = f'r="{name}"' + ("" if style is None else f' s="{style}"')
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
    """Write columns as a new workbook; strings never become formulas."""
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
