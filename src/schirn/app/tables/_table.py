"""Base class of tables: columns, and copies that are read back before they appear."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import Any, BinaryIO

from schirn._files import atomic_write, brief, stamp_of
from schirn._input import Array, is_missing
from schirn._text import to_numbers
from schirn.exceptions import DataError

Columns = Mapping[str, list[Any]]
RawCells = Mapping[str, Mapping[int, str]]
"""Text that cells must get in the file, by column and row."""


class Table(ABC):
    """Columns by name; `write` puts changed and new columns into a copy.

    Attributes
    ----------
    path : Path
        The file or folder.
    columns : list of str
        Names of the columns.
    n_rows : int
        Number of rows.
    lists : bool
        True if new columns may hold lists; otherwise they hold text.
    spreadsheet : bool
        True for CSV cells, which spreadsheets run if they look like formulas.
    index_columns : collection of str
        Columns that hold the index of a DataFrame.
    stamps : dict from Path to tuple
        Files and their `stamp_of`, which must stay the same until the copy is written.
    is_whole : bool
        True if the stamps cover the whole files.
    first_row : int
        Number of the first row; larger than 1 for later blocks of a longer table.
    """

    path: Path
    columns: list[str]
    n_rows: int
    lists = False
    spreadsheet = False
    index_columns: Collection[str] = ()
    stamps: Mapping[Path, tuple[Any, ...]] = MappingProxyType({})
    is_whole = False
    first_row = 1

    @abstractmethod
    def column(self, name: str) -> list[Any]:
        """Return the cells of a column.

        Parameters
        ----------
        name : str
            Name of the column.

        Returns
        -------
        list
        """

    def numbers(self, name: str) -> Array | None:
        """Return a column as floats, NaN for a missing cell; None if a cell is not a number.

        Parameters
        ----------
        name : str
            Name of the column.

        Returns
        -------
        (n,) float array or None
        """
        return to_numbers(self.column(name))

    def holds(self, name: str, kind: str) -> bool:
        """Check whether a column may hold cells of a kind.

        Parameters
        ----------
        name : str
            Name of the column.
        kind : {"text", "list"}
            Kind of cells.

        Returns
        -------
        bool
        """
        cell_type = str if kind == "text" else list
        return any(isinstance(cell, cell_type) for cell in self.column(name))

    def cell_options(self, name: str) -> dict[str, Any]:
        """Return the options of `TagCells.of` for a column.

        Parameters
        ----------
        name : str
            Name of the column.

        Returns
        -------
        dict
            Keyword arguments.
        """
        lists = self.holds(name, "list") and not self.holds(name, "text")
        return {"spreadsheet": self.spreadsheet, "lists": lists}

    def prefix(self, column: str) -> str:
        """Return the prefix of the names of columns about the tags in a column.

        Parameters
        ----------
        column : str
            Name of the column of tags.

        Returns
        -------
        str
        """
        return column

    def source(
        self, changed: Columns, raw: RawCells | None = None
    ) -> tuple[Table, Columns, RawCells]:
        """Return the table in the file, and the changes to it.

        Parameters
        ----------
        changed : dict from str to list
            New cells of columns.
        raw : dict from str to dict from int to str, optional
            The text of some of these cells.

        Returns
        -------
        (Table, dict, dict)
        """
        return self, changed, raw or {}

    def raw_cells(self, name: str, rows: Sequence[int]) -> dict[int, str]:
        """Return the text of cells in the file; empty if the format has no text.

        Parameters
        ----------
        name : str
            Name of the column.
        rows : sequence of int
            Sorted row indices.

        Returns
        -------
        dict from int to str
        """
        return {}

    def parsed_cell(self, raw: str) -> Any:
        """Return the cell for a text of `raw_cells`; raise ValueError if there is none.

        Parameters
        ----------
        raw : str
            Text of the cell in the file.

        Returns
        -------
        str, list or None
        """
        raise ValueError(raw)

    def write(
        self, path: str, changed: Columns, added: Columns, raw: RawCells | None = None
    ) -> None:
        """Write a copy in the format of the table, completely or not at all.

        All other cells are copied unchanged. The copy is read back and compared before it gets its
        name.

        Parameters
        ----------
        path : str
            File to write.
        changed, added : dict from str to list
            New cells of columns, and new columns.
        raw : dict from str to dict from int to str, optional
            Text of changed cells, which is used if it still represents the cell.

        Raises
        ------
        DataError
            If the table has changed since it was read, or if a cell would be read back differently.
        """
        self.check_unchanged()
        with atomic_write(path) as stream:
            self._rewrite(stream, changed, added, self._checked_raw(changed, raw or {}))
            stream.flush()
            self.check_unchanged()
            with warnings.catch_warnings():
                # The warnings were shown when the table was read.
                warnings.simplefilter("ignore")
                copy = self._reopened(Path(stream.name))
            self._compare(path, copy, changed, added)

    def _checked_raw(self, changed: Columns, raw: RawCells) -> RawCells:
        """Leave out texts that do not represent the new cells."""
        checked: dict[str, dict[int, str]] = {}
        for name, texts in raw.items():
            cells = changed.get(name)
            if cells is None:
                continue
            checked[name] = {}
            for row, text in texts.items():
                with suppress(ValueError, RecursionError):
                    cell = self.parsed_cell(text)
                    if type(cell) is type(cells[row]) and cell == cells[row]:
                        checked[name][row] = text
        return checked

    def _rewrite(self, stream: BinaryIO, changed: Columns, added: Columns, raw: RawCells) -> None:
        """Write the copy."""
        raise NotImplementedError

    def _compare(self, path: str, copy: Any, changed: Columns, added: Columns) -> None:
        """Raise DataError for the first cell of a copy that differs from the intended one."""
        if copy.columns != [*self.columns, *added]:
            raise DataError(f"{path}: the columns would be {brief(copy.columns)}; nothing written")
        if copy.n_rows != self.n_rows:
            raise DataError(f"{path}: {copy.n_rows:,} rows would be read back; nothing written")
        for name in copy.columns:
            self._compare_column(path, copy, name, changed.get(name, added.get(name)))

    def _reopened(self, copy: Path) -> Any:
        """Read a copy."""
        raise NotImplementedError

    def _compare_column(self, path: str, copy: Any, name: str, cells: list[Any] | None) -> None:
        """Compare a column of the copy with new cells or, if None, with this table."""
        intended = self.column(name) if cells is None else cells
        for i, (cell, want) in enumerate(zip(copy.column(name), intended, strict=True)):
            if cell != want and not is_same(cell, want):
                raise inexact(path, self.first_row + i, name, cell, want)

    def check_unchanged(self) -> None:
        """Raise DataError if a file of the table has changed since it was read."""
        for file, stamp in self.stamps.items():
            current = None
            with suppress(OSError):
                current = stamp_of(file, is_whole=self.is_whole)
            if current != stamp:
                raise DataError(f"{file}: the file has changed since it was read; run again")


def inexact(path: str, row: int, name: str, cell: Any, intended: Any) -> DataError:
    """Return the error about a cell that would be read back differently."""
    return DataError(
        f"{path}: row {row}, column {brief(name)}: {brief(intended)} would be read back as "
        f"{brief(cell)}, so nothing was written"
    )


def is_same(cell: Any, want: Any) -> bool:
    """Check whether two cells have the same value; missing values are equal."""
    if is_missing(cell) or is_missing(want):
        return is_missing(cell) and is_missing(want)
    if isinstance(want, dict) and isinstance(cell, list):
        # Arrow represents a dictionary of confidences as a list.
        want = [{"tag": tag, "confidence": value} for tag, value in want.items()]
    if isinstance(want, dict) and isinstance(cell, dict):
        return cell.keys() == want.keys() and all(is_same(cell[key], want[key]) for key in cell)
    if isinstance(want, list | tuple) and isinstance(cell, list | tuple):
        return len(cell) == len(want) and all(map(is_same, cell, want))
    return bool(cell == want)
