"""Tables in databases: a query comes in as a table, and changed tags go back as one transaction.

An address names a file of DuckDB or SQLite, such as ``duckdb:shop.db`` or ``sqlite:shop.db``. The
table is read by a query, over a connection that cannot write. `write_back` replaces the tags of
rows that are found by their id, all of them or none.
"""

from __future__ import annotations

import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import quote

from schirn._files import brief, reason_of
from schirn._optional import optional
from schirn.app.tables._arrow import ArrowTable
from schirn.app.tables._table import Columns, RawCells
from schirn.cleaning.changes import ChangeList
from schirn.exceptions import DataError, InputError

KINDS = ("duckdb", "sqlite")
"""What an address may begin with, before a colon."""
# Rows that are read or updated together; old versions of SQLite take 999 parameters.
_BATCH = 900


def is_database(address: object) -> bool:
    """Return whether a text is the address of a database, such as ``duckdb:shop.db``.

    Parameters
    ----------
    address : object

    Returns
    -------
    bool

    Examples
    --------
    >>> is_database("duckdb:shop.db"), is_database("shop.csv")
    (True, False)
    """
    kind, colon, _ = str(address).partition(":")
    return bool(colon) and kind in KINDS


class SqlTable(ArrowTable):
    """The result of a query; copies are written in another format, or back with `write_back`."""

    def _rewrite(self, stream: BinaryIO, changed: Columns, added: Columns, raw: RawCells) -> None:
        raise DataError(f"{self.path}: a database is changed with write_back only")


def read_query(address: str, query: str | None, *, empty: bool = False) -> SqlTable:
    """Return the result of a query as a table.

    Parameters
    ----------
    address : str
        ``duckdb:FILE`` or ``sqlite:FILE``; the file is opened for reading only.
    query : str
        A SELECT statement. In DuckDB it may read Parquet files and folders as well.
    empty : bool, default=False
        Whether a result without rows is a table too.

    Returns
    -------
    Table

    Raises
    ------
    DataError
        If the database cannot be opened, or the query fails or has no rows.
    """
    if not query:
        raise InputError(
            f"{address}: a database needs a query, such as SELECT id, title, tags FROM items",
            parameter="query",
        )
    database = _database(address)
    with database.connected(read_only=True) as connection:
        result = database.arrow(connection, query)
    if not result.num_rows and not empty:
        raise DataError(f"{address}: the query returns no rows")
    return SqlTable(Path(address), result)


@dataclass(frozen=True)
class WrittenBack:
    """What `write_back` did, or would do.

    Attributes
    ----------
    n_rows : int
        Rows whose tags are replaced.
    is_committed : bool
        False after a dry run, which ends with a rollback.
    """

    n_rows: int
    is_committed: bool


def write_back(
    address: str,
    target: str,
    changes: ChangeList,
    *,
    undo: bool = False,
    commit: bool = False,
) -> WrittenBack:
    """Replace changed tags in a database, in one transaction.

    Each row is found by its id and changed only if its tags are those that the list expects. What
    was written is read back and compared before the transaction is committed; after any error, and
    if the process dies, the database is as it was.

    Parameters
    ----------
    address : str
        ``duckdb:FILE`` or ``sqlite:FILE``.
    target : str
        Table and column of the tags, such as "items.tags".
    changes : ChangeList
        Changes whose rows have ids (``keyed_changes(changes, table, "id")``).
    undo : bool, default=False
        Whether the changes are taken back.
    commit : bool, default=False
        False checks everything and writes nothing: the transaction is rolled back.

    Returns
    -------
    WrittenBack

    Raises
    ------
    InputError
        If a row is missing, occurs more than once, or has other tags than the list expects.

    Examples
    --------
    >>> import pathlib, sqlite3, tempfile
    >>> from schirn.app.tables import keyed_changes, open_table
    >>> from schirn.cleaning import Change, ChangeList
    >>> folder = tempfile.TemporaryDirectory()
    >>> address = f"sqlite:{pathlib.Path(folder.name, 'shop.db')}"
    >>> with sqlite3.connect(address.removeprefix("sqlite:")) as shop:
    ...     _ = shop.execute("CREATE TABLE items (id INTEGER, tags TEXT)")
    ...     _ = shop.execute("INSERT INTO items VALUES (7, 'beach;dgo')")
    >>> shop.close()
    >>> table = open_table(address, query="SELECT id, tags FROM items")
    >>> renamed = ChangeList.from_cells(table.column("tags"), [Change(0, "rename", "dgo", "dog")])
    >>> write_back(address, "items.tags", keyed_changes(renamed, table, "id"), commit=True)
    WrittenBack(n_rows=1, is_committed=True)
    >>> open_table(address, query="SELECT tags FROM items").column("tags")
    ['beach;dog']
    >>> folder.cleanup()
    """
    if changes.cells and not changes.id_column:
        raise InputError(
            "rows of a database are found by their ids; name the column of ids", parameter="id"
        )
    database = _database(address)
    table_name, dot, column = target.rpartition(".")
    if not dot or not table_name or not column:
        raise InputError(
            f"{brief(target)} must name a table and its column of tags, such as items.tags",
            parameter="write_back",
        )
    names = _Names(_quoted(table_name), _quoted(column), _quoted(changes.id_column or "id"))
    with database.connected(read_only=False) as connection:
        connection.execute("BEGIN")
        try:
            n_rows = _exchange(connection, names, changes, undo)
            connection.execute("COMMIT" if commit else "ROLLBACK")
        except BaseException as error:
            connection.execute("ROLLBACK")
            if isinstance(error, database.errors()):
                raise DataError(f"{address}: {reason_of(error)}") from None
            raise
    return WrittenBack(n_rows, commit)


@dataclass(frozen=True)
class _Names:
    """Quoted names of a table, of its column of tags and of its column of ids."""

    table: str
    tags: str
    id: str


def _exchange(connection: Any, names: _Names, changes: ChangeList, undo: bool) -> int:
    """Replace the tags of all rows of a list, and check what was written; return their number."""
    keys = [changes.keys[row] for row in sorted(changes.cells)]
    old_cells = _cells_of(connection, names, keys)
    cells = list(old_cells.values())
    exchange = changes.undo if undo else changes.apply
    new_cells = exchange(cells, keys=list(old_cells))
    new = {
        key: cell for key, old, cell in zip(old_cells, cells, new_cells, strict=True) if cell != old
    }
    statement = f"UPDATE {names.table} SET {names.tags} = ? WHERE CAST({names.id} AS TEXT) = ?"
    pairs = [(cell, key) for key, cell in new.items()]
    for start in range(0, len(pairs), _BATCH):
        connection.executemany(statement, pairs[start : start + _BATCH])
    written = _cells_of(connection, names, list(new))
    different = [key for key, cell in new.items() if written.get(key) != cell]
    if different:
        raise DataError(f"the row {brief(different[0])} would be read back with other tags")
    return len(new)


def _cells_of(connection: Any, names: _Names, keys: Sequence[str]) -> dict[str, Any]:
    """Return the tags of rows by their ids; raise InputError for an id that is not unique."""
    cells: dict[str, Any] = {}
    for start in range(0, len(keys), _BATCH):
        batch = list(keys[start : start + _BATCH])
        marks = ", ".join("?" * len(batch))
        query = (
            f"SELECT CAST({names.id} AS TEXT), {names.tags} FROM {names.table} "
            f"WHERE CAST({names.id} AS TEXT) IN ({marks})"
        )
        for key, cell in connection.execute(query, batch).fetchall():
            if key in cells:
                raise InputError(f"the id {brief(key)} occurs more than once", parameter="id")
            cells[key] = cell
    return cells


def _quoted(name: str) -> str:
    """Return the name of a table or column as SQL quotes it; dots separate a schema."""
    return ".".join('"' + part.replace('"', '""') + '"' for part in name.split("."))


class _Database(ABC):
    """A kind of database."""

    def __init__(self, path: str) -> None:
        self.path = path

    @abstractmethod
    def connected(self, *, read_only: bool) -> Any:
        """Context manager of a connection without a transaction."""

    @abstractmethod
    def arrow(self, connection: Any, query: str) -> Any:
        """Return the result of a query as an Arrow table."""

    @abstractmethod
    def errors(self) -> tuple[type[Exception], ...]:
        """Return the exceptions of this kind of database."""


class _DuckDb(_Database):
    """A file of DuckDB."""

    @contextmanager
    def connected(self, *, read_only: bool) -> Iterator[Any]:
        duckdb = optional("duckdb", "sql", "Reading a database of DuckDB")
        try:
            connection = duckdb.connect(self.path, read_only=read_only)
        except duckdb.Error as error:
            raise DataError(f"duckdb:{self.path}: {reason_of(error)}") from None
        try:
            yield connection
        finally:
            connection.close()

    def arrow(self, connection: Any, query: str) -> Any:
        optional("pyarrow", "table", "Reading this table")
        try:
            result = connection.sql(query)
            if result is None:
                raise DataError(f"duckdb:{self.path}: the query returns no table")
            return result.to_arrow_table()
        except self.errors() as error:
            raise DataError(f"duckdb:{self.path}: {reason_of(error)}") from None

    def errors(self) -> tuple[type[Exception], ...]:
        error: type[Exception] = optional("duckdb", "sql", "Reading a database of DuckDB").Error
        return (error,)


class _Sqlite(_Database):
    """A file of SQLite, which Python itself reads."""

    @contextmanager
    def connected(self, *, read_only: bool) -> Iterator[Any]:
        mode = "ro" if read_only else "rw"
        uri = f"file:{quote(self.path)}?mode={mode}"
        try:
            # Transactions begin and end where `write_back` says.
            connection = sqlite3.connect(uri, uri=True, isolation_level=None)
        except sqlite3.Error as error:
            raise DataError(f"sqlite:{self.path}: {reason_of(error)}") from None
        try:
            yield connection
        finally:
            connection.close()

    def arrow(self, connection: Any, query: str) -> Any:
        arrow = optional("pyarrow", "table", "Reading this table")
        try:
            cursor = connection.execute(query)
            names = [column[0] for column in cursor.description or ()]
            columns: list[list[Any]] = [[] for _ in names]
            while rows := cursor.fetchmany(_BATCH):
                for cells, values in zip(columns, zip(*rows, strict=True), strict=True):
                    cells.extend(values)
            return arrow.table(dict(zip(names, columns, strict=True)))
        except (sqlite3.Error, arrow.ArrowException) as error:
            raise DataError(f"sqlite:{self.path}: {reason_of(error)}") from None

    def errors(self) -> tuple[type[Exception], ...]:
        return (sqlite3.Error,)


_CLASSES: dict[str, type[_Database]] = {"duckdb": _DuckDb, "sqlite": _Sqlite}


def _database(address: str) -> _Database:
    """Return the database of an address."""
    kind, _, path = str(address).partition(":")
    if kind not in _CLASSES:
        raise InputError(f"{address}: a database is {' or '.join(f'{k}:FILE' for k in KINDS)}")
    if not Path(path).is_file():
        raise DataError(f"{address}: there is no such file")
    return _CLASSES[kind](path)
