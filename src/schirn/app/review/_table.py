"""The table of a review project: a full copy, with access to cells and images of rows."""

import os
import shutil
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from schirn._files import brief, disk_errors_named, file_hash, shortened
from schirn._input import is_missing
from schirn.app.tables import Table, open_table, with_tag_column, write_copy
from schirn.app.workflow import is_inside
from schirn.exceptions import DataError
from schirn.labels.cells import TagCells
from schirn.program.page import image_type

MAX_IMAGE_BYTES = 32 * 1024**2
_MAX_CELL = 2000


@dataclass(frozen=True)
class TableRoles:
    """Roles of the columns of a table, and options for reading its cells."""

    column: str
    """Column of tags."""
    separator: str
    text: tuple[str, ...] = ()
    image: str | None = None
    image_root: str | None = None
    file: str = ""
    """Name of the copy in the project folder."""
    encoding: str = "utf-8"
    delimiter: str | None = None
    vocabulary: tuple[dict[str, Any], ...] = ()
    """Lines of the vocabulary; the accepted ones were applied before the tags were ranked."""
    add_implied: bool = True
    id: str | None = None
    """Column of ids, if items are named by their ids."""
    content: tuple[str, ...] = ()
    """Columns that the ranking learned from."""
    sha256: str = ""
    """Hash of the copy."""


def write_project_table(
    folder: Path, table: Table, source: str, roles: TableRoles
) -> dict[str, Any]:
    """Write the whole table into a project folder; return its entry in project.json.

    Parameters
    ----------
    folder : Path
        The project folder.
    table : Table
        The table.
    source : str
        Path of the table.
    roles : TableRoles
        Roles of the columns.

    Returns
    -------
    dict from str to JSON value
    """
    path = Path(source)
    suffixes = path.suffixes[-2:] if path.suffix.lower() == ".gz" else path.suffixes[-1:]
    if path.is_dir():
        # A folder becomes a single file.
        suffixes = [".parquet"]
    name = "table" + "".join(suffixes).lower()
    if path.is_dir():
        write_copy(str(folder / name), table, {}, {})
    else:
        # The file is copied unchanged, so it need not be read again.
        original = table.source({})[0]
        original.check_unchanged()
        target = folder / name
        # `shutil.copyfile` would name the table in the error of a full disk.
        with open(path, "rb") as stream, disk_errors_named(target), open(target, "wb") as copy:
            shutil.copyfileobj(stream, copy)
        original.check_unchanged()
    root = roles.image_root
    if roles.image is not None:
        root = os.path.realpath(root or path.parent)
    encoding = getattr(table, "encoding", "utf-8")
    delimiter = getattr(table, "delimiter", None)
    roles = replace(roles, file=name, image_root=root, encoding=encoding, delimiter=delimiter)
    return asdict(replace(roles, sha256=file_hash(folder / name)))


def read_roles(folder: Path, head: Any) -> TableRoles:
    """Read the roles of the columns from project.json.

    Parameters
    ----------
    folder : Path
        The project folder.
    head : dict
        Entry of the table in project.json.

    Returns
    -------
    TableRoles
    """
    lists = {name: tuple(head[name]) for name in ("text", "content", "vocabulary")}
    # Only the file name counts: a project must not lead out of its folder.
    roles = TableRoles(**{**head, **lists, "file": Path(head["file"]).name})
    if not (folder / roles.file).is_file():
        raise DataError(
            f"{folder / roles.file}: the table is missing; start the review again from the table"
        )
    return roles


class ProjectTable:
    """The copy of the table in a project folder, read when first needed.

    Parameters
    ----------
    folder : Path
        The project folder.
    roles : TableRoles
        Roles of the columns.
    n_rows : int
        Number of items of the project.
    image_root : str, optional
        Folder of the image files; by default the folder named in the project.
    table : Table, optional
        The table, if it was read before.
    """

    def __init__(
        self,
        folder: Path,
        roles: TableRoles,
        n_rows: int,
        image_root: str | None = None,
        *,
        table: Table | None = None,
    ):
        self.folder = folder
        self.roles = roles
        self._n_rows = n_rows
        self._opened = table
        self._image_root = image_root or roles.image_root
        self.path = folder / roles.file

    @cached_property
    def table(self) -> Table:
        """The table as it was cleaned."""
        roles = self.roles
        table = self._opened
        if table is None:
            if file_hash(self.path) != roles.sha256:
                raise DataError(
                    f"{self.path}: damaged or edited (wrong checksum); start the review again from "
                    f"the table"
                )
            table = open_table(self.path, encoding=roles.encoding, delimiter=roles.delimiter)
            table = with_tag_column(table, roles.column)
        needed = (roles.column, *roles.text, *filter(None, [roles.image]))
        absent = [name for name in needed if name not in table.columns]
        if absent or table.n_rows != self._n_rows:
            what = f"{table.n_rows:,} rows, but the project has {self._n_rows:,} items"
            if absent:
                what = f"there is no column {brief(absent[0])}"
            raise DataError(f"{self.path}: {what}; start the review again from the table")
        return table

    @cached_property
    def _columns(self) -> dict[str, list[Any]]:
        return {name: self.table.column(name) for name in self.table.columns}

    @property
    def cell_options(self) -> dict[str, Any]:
        """Options for reading the column of tags."""
        return self.table.cell_options(self.roles.column)

    @property
    def cells(self) -> list[Any]:
        """The column of tags before all changes."""
        return self._columns[self.roles.column]

    def others(self, row: int) -> Iterator[tuple[str, str]]:
        """Yield name and cell of the columns other than tags, text, image and id.

        Parameters
        ----------
        row : int
            Number of the row, from 0.

        Yields
        ------
        tuple of str
            Name and cell.
        """
        columns = {self.roles.column, *self.roles.text, self.roles.image, self.roles.id}
        for name, cells in self._columns.items():
            if name not in columns and not is_missing(cells[row]) and cells[row] != "":
                yield name, _short(cells[row])

    def image_name(self, row: int) -> str | None:
        """Return the cell that names the image of a row.

        Parameters
        ----------
        row : int
            Number of the row, from 0.

        Returns
        -------
        str or None
        """
        if self.roles.image is None:
            return None
        cell = self._columns[self.roles.image][row]
        return None if is_missing(cell) or cell == "" else str(cell)

    @cached_property
    def tags(self) -> list[list[str]]:
        """The tags of each row before all changes."""
        cells = TagCells.of(self.cells, self.roles.separator, **self.cell_options)
        return [cells.split(cell) for cell in self.cells]

    def image_file(self, row: int) -> tuple[Path, str] | None:
        """Return path and type of the image of a row; None if it cannot be shown.

        The file must be named in the table, lie inside the folder of images even after following
        links, and be an image of at most 32 MiB.

        Parameters
        ----------
        row : int
            Number of the row, from 0.

        Returns
        -------
        tuple of Path and str, or None
        """
        name = self.image_name(row)
        root = self._image_root
        if name is None or root is None or "\0" in name:
            return None
        folder = os.path.realpath(root)
        if not is_inside(name, folder):
            return None
        path = Path(os.path.realpath(os.path.join(folder, name)))
        try:
            if not path.is_file() or path.stat().st_size > MAX_IMAGE_BYTES:
                return None
            with path.open("rb") as stream:
                kind = image_type(stream.read(12))
        except (OSError, ValueError):
            return None
        return None if kind is None else (path, kind)


def _short(cell: Any) -> str:
    """Return a cell as a string that fits on the page."""
    if isinstance(cell, list | tuple) and len(cell) > 8:
        start = ", ".join(_short(value)[:40] for value in cell[:4])
        return f"{start}, … ({len(cell):,} values)"
    return shortened(f"{cell:.6g}" if isinstance(cell, float) else str(cell), _MAX_CELL)
