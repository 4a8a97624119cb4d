"""Tables in databases: read by a query, and updated with changed tags in one transaction.

An address names a file of DuckDB or SQLite, such as ``duckdb:shop.db`` or ``sqlite:shop.db``, or a
database on a server of PostgreSQL, such as ``postgresql://localhost/shop``. The table is read by a
query, over a read-only connection. `write_back` replaces the tags of rows found by their ids,
either all of them or none.

Ids and tags of the changed rows are first sent to a temporary table. The database joins it with the
table, so that it reads the table only a few times, however many rows change.
"""

from __future__ import annotations

import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import parse_qsl, quote, urlsplit

from schirn._files import brief, reason_of
from schirn._optional import optional
from schirn._text import check_columns
from schirn.app.tables._arrow import ArrowTable
from schirn.app.tables._table import Columns, RawCells
from schirn.cleaning.changes import ChangeList
from schirn.exceptions import DataError, InputError

KINDS = ("duckdb", "sqlite", "postgresql")
"""Prefixes of addresses, before a colon."""
_FORMS = "duckdb:FILE, sqlite:FILE or postgresql://HOST/NAME"
# Number of rows fetched at once.
_BATCH = 10_000
# The temporary table of ids and tags, and its columns.
_SENT = "schirn_sent"
_SENT_ID = "schirn_id"
_SENT_TAGS = "schirn_tags"


def is_database(address: object) -> bool:
    """Check whether an address names a database, such as ``duckdb:shop.db``.

    Parameters
    ----------
    address : object
        A path or an address.

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


def local_path(address: str) -> str:
    """Return the path next to which files about a table are stored.

    Parameters
    ----------
    address : str
        A file, or a database.

    Returns
    -------
    str
        The file; for a database on a server, its name in the current folder.

    Examples
    --------
    >>> local_path("duckdb:data/shop.db"), local_path("postgresql://localhost/shop")
    ('data/shop.db', 'shop')
    """
    if not is_database(address):
        return address
    path = address.partition(":")[2]
    if not address.startswith("postgresql:"):
        return path
    return urlsplit(address).path.strip("/").replace("/", "-") or "postgresql"


class SqlTable(ArrowTable):
    """The result of a query; copies are written in another format, or with `write_back`."""

    def _rewrite(self, stream: BinaryIO, changed: Columns, added: Columns, raw: RawCells) -> None:
        raise DataError(f"{self.path}: a database is changed with write_back only")


def read_query(address: str, query: str | None, *, empty: bool = False) -> SqlTable:
    """Return the result of a query as a table.

    Parameters
    ----------
    address : str
        ``duckdb:FILE``, ``sqlite:FILE`` or ``postgresql://HOST/NAME``, opened read-only.
    query : str
        A SELECT statement. In DuckDB it may also read Parquet files and folders.
    empty : bool, default=False
        Allow results without rows.

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
    """Result of `write_back`, or of its dry run.

    Attributes
    ----------
    n_rows : int
        Number of rows whose tags are replaced.
    is_committed : bool
        False after a dry run, which ends with a rollback.
    is_done : bool
        Whether all rows already held the new tags, as after a first run.
    """

    n_rows: int
    is_committed: bool
    is_done: bool = False


def write_back(
    address: str,
    target: str,
    changes: ChangeList,
    *,
    undo: bool = False,
    commit: bool = False,
) -> WrittenBack:
    """Replace changed tags in a database, in one transaction.

    Each row is found by its id and changed only if its tags are those that the list expects. The
    new tags are read back and compared before the transaction is committed; after any error, and if
    the process dies, the database is unchanged. Nothing is written if all rows already hold the new
    tags.

    Parameters
    ----------
    address : str
        ``duckdb:FILE``, ``sqlite:FILE`` or ``postgresql://HOST/NAME``.
    target : str
        Table and column of the tags, such as "items.tags".
    changes : ChangeList
        Changes whose rows have ids (``keyed_changes(changes, table, "id")``).
    undo : bool, default=False
        Revert the changes.
    commit : bool, default=False
        Commit the transaction; False checks everything, and then rolls it back.

    Returns
    -------
    WrittenBack

    Raises
    ------
    InputError
        If a row is missing, occurs more than once, or has tags that differ from the list.

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
    WrittenBack(n_rows=1, is_committed=True, is_done=False)
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
    names = _Names(_quoted(table_name), _quoted(column), _quoted(changes.id_column))
    with database.connected(read_only=False) as connection:
        connection.execute(database.begin)
        try:
            n_rows, is_done = _exchange(database, connection, names, changes, undo)
            connection.execute("COMMIT" if commit else "ROLLBACK")
        except BaseException as error:
            # A failed commit may have ended the transaction.
            with suppress(*database.errors()):
                connection.execute("ROLLBACK")
            if isinstance(error, database.errors()):
                raise database.failure(error) from None
            raise
    return WrittenBack(n_rows, commit, is_done)


@dataclass(frozen=True)
class _Names:
    """Quoted names of a table, of its column of tags and of its column of ids."""

    table: str
    tags: str
    id: str

    @property
    def full_tags(self) -> str:
        """The tags with the name of the table; without, SQLite reads an unknown name as a text."""
        return f"{self.table}.{self.tags}"

    @property
    def key(self) -> str:
        """The id as text."""
        return f"CAST({self.table}.{self.id} AS TEXT)"


def _exchange(
    database: _Database, connection: Any, names: _Names, changes: ChangeList, undo: bool
) -> tuple[int, bool]:
    """Replace the tags of all rows of a list, and check what was written.

    Returns the number of rows, and whether they all had the new tags before.
    """
    if not changes.cells:
        # An empty list names no column of ids; the table and its tags must exist all the same.
        connection.execute(f"SELECT {names.full_tags} FROM {names.table} WHERE 1 = 0")
        return 0, False
    keys = {changes.keys[row]: None for row in changes.cells}
    # Created from an empty query, so that ids and tags get the types of the table's columns.
    connection.execute(
        f"CREATE TEMPORARY TABLE {_SENT} AS SELECT {names.key} AS {_SENT_ID}, "
        f"{names.full_tags} AS {_SENT_TAGS} FROM {names.table} WHERE 1 = 0"
    )
    database.send(connection, keys)
    old_cells = _cells_of(connection, names)
    cells = list(old_cells.values())
    exchange, reverse = changes.apply, changes.undo
    if undo:
        exchange, reverse = reverse, exchange
    try:
        new_cells = exchange(cells, keys=list(old_cells))
    except InputError:
        # An id is missing, or a row has other tags than the list expects.
        if not _fits(reverse, cells, list(old_cells)):
            raise
        return 0, True
    new = {
        key: cell for key, old, cell in zip(old_cells, cells, new_cells, strict=True) if cell != old
    }
    connection.execute(f"DELETE FROM {_SENT}")
    database.send(connection, new)
    connection.execute(
        f"UPDATE {names.table} SET {names.tags} = {_SENT_TAGS} FROM {_SENT} "
        f"WHERE {names.key} = {_SENT_ID}"
    )
    # Read back, because triggers and columns of limited length may change the written tags.
    written = _cells_of(connection, names)
    different = [key for key, cell in new.items() if written.get(key) != cell]
    if different:
        raise DataError(f"the row {brief(different[0])} would be read back with other tags")
    connection.execute(f"DROP TABLE {_SENT}")
    return len(new), False


def _fits(exchange: Callable[..., list[Any]], cells: list[Any], keys: list[str]) -> bool:
    """Return whether all rows of a list have the tags that it expects."""
    try:
        exchange(cells, keys=keys)
    except InputError:
        return False
    return True


def _cells_of(connection: Any, names: _Names) -> dict[str, Any]:
    """Return the tags of the rows with the sent ids; raise InputError if an id is not unique."""
    cells: dict[str, Any] = {}
    rows = connection.execute(
        f"SELECT {names.key}, {names.full_tags} FROM {names.table} "
        f"WHERE {names.key} IN (SELECT {_SENT_ID} FROM {_SENT})"
    )
    for batch in _batches(rows):
        for key, cell in batch:
            if key in cells:
                raise InputError(f"the id {brief(key)} occurs more than once", parameter="id")
            cells[key] = cell
    return cells


def _batches(rows: Any) -> Iterator[list[tuple[Any, ...]]]:
    """Yield the rows of a result in batches."""
    while batch := rows.fetchmany(_BATCH):
        yield batch


def _arrow_table(
    address: str, names: Sequence[str], batches: Iterable[list[tuple[Any, ...]]]
) -> Any:
    """Return rows as an Arrow table, converted batch by batch to save memory."""
    check_columns(Path(address), names)
    arrow = optional("pyarrow", "table", "Reading this table")
    tables = [arrow.Table.from_arrays([arrow.nulls(0) for _ in names], names=names)]
    for batch in batches:
        columns = [arrow.array(cells) for cells in zip(*batch, strict=True)]
        tables.append(arrow.Table.from_arrays(columns, names=names))
    return arrow.concat_tables(tables, promote_options="permissive")


def _quoted(name: str) -> str:
    """Quote the name of a table or column for SQL; dots separate a schema."""
    return ".".join('"' + part.replace('"', '""') + '"' for part in name.split("."))


class _Database(ABC):
    """A kind of database."""

    begin = "BEGIN"

    def __init__(self, address: str) -> None:
        self.address = address
        self.path = address.partition(":")[2]

    @abstractmethod
    def connected(self, *, read_only: bool) -> Any:
        """Context manager for a connection without a transaction."""

    @abstractmethod
    def arrow(self, connection: Any, query: str) -> Any:
        """Return the result of a query as an Arrow table."""

    @abstractmethod
    def send(self, connection: Any, cells: Mapping[str, Any]) -> None:
        """Put ids and tags into the temporary table."""

    @abstractmethod
    def errors(self) -> tuple[type[Exception], ...]:
        """Return the exceptions of this kind of database."""

    def failure(self, error: BaseException) -> DataError:
        """Return the error to raise instead of one of the driver."""
        if self.is_locked(error):
            return DataError(
                f"{self.address}: another program is using this database; try again when it "
                f"has finished ({reason_of(error)})"
            )
        return DataError(f"{self.address}: {reason_of(error)}")

    def is_locked(self, error: BaseException) -> bool:
        """Whether an error means that another program holds the database."""
        return False


class _DuckDb(_Database):
    """A file of DuckDB."""

    @contextmanager
    def connected(self, *, read_only: bool) -> Iterator[Any]:
        duckdb = optional("duckdb", "sql", "Reading a database of DuckDB")
        try:
            connection = duckdb.connect(self.path, read_only=read_only)
        except duckdb.Error as error:
            raise self.failure(error) from None
        try:
            yield connection
        finally:
            connection.close()

    def arrow(self, connection: Any, query: str) -> Any:
        optional("pyarrow", "table", "Reading this table")
        try:
            result = connection.sql(query)
            if result is None:
                raise DataError(f"{self.address}: the query returns no table")
            return result.to_arrow_table()
        except self.errors() as error:
            raise self.failure(error) from None

    def send(self, connection: Any, cells: Mapping[str, Any]) -> None:
        # DuckDB's `executemany` runs one statement per row.
        arrow = optional("pyarrow", "table", "Writing to DuckDB")
        columns = [arrow.array(list(cells), type=arrow.string()), arrow.array(list(cells.values()))]
        connection.register("schirn_rows", arrow.table(columns, names=["id", "tags"]))
        connection.execute(f"INSERT INTO {_SENT} SELECT * FROM schirn_rows")
        connection.unregister("schirn_rows")

    def errors(self) -> tuple[type[Exception], ...]:
        error: type[Exception] = optional("duckdb", "sql", "Reading a database of DuckDB").Error
        return (error,)

    def is_locked(self, error: BaseException) -> bool:
        # DuckDB has no code for this.
        return "Conflicting lock is held" in str(error)


class _Sqlite(_Database):
    """A file of SQLite, read with Python's standard library."""

    @contextmanager
    def connected(self, *, read_only: bool) -> Iterator[Any]:
        if read_only:
            self._recover()
        connection = self._open("ro" if read_only else "rw")
        try:
            yield connection
        finally:
            connection.close()

    def _open(self, mode: str) -> sqlite3.Connection:
        uri = f"file:{quote(self.path)}?mode={mode}"
        try:
            # `write_back` begins and ends transactions itself.
            return sqlite3.connect(uri, uri=True, isolation_level=None)
        except sqlite3.Error as error:
            raise self.failure(error) from None

    def _recover(self) -> None:
        """Let SQLite roll back the unfinished transaction of a killed program.

        SQLite does so when a database is read, but not over a read-only connection.
        """
        if not Path(f"{self.path}-journal").exists():
            return
        with closing(self._open("rw")) as connection:
            try:
                connection.execute("SELECT 1 FROM sqlite_master").fetchone()
            except sqlite3.Error as error:
                raise DataError(
                    f"{self.address}: another program is writing to this database, or was "
                    "killed while writing, and its unfinished changes cannot be rolled back "
                    f"({reason_of(error)})"
                ) from None

    def arrow(self, connection: Any, query: str) -> Any:
        arrow = optional("pyarrow", "table", "Reading this table")
        try:
            cursor = connection.execute(query)
            names = [column[0] for column in cursor.description or ()]
            return _arrow_table(self.address, names, _batches(cursor))
        except (sqlite3.Error, arrow.ArrowException) as error:
            raise self.failure(error) from None

    def send(self, connection: Any, cells: Mapping[str, Any]) -> None:
        connection.executemany(f"INSERT INTO {_SENT} VALUES (?, ?)", cells.items())

    def errors(self) -> tuple[type[Exception], ...]:
        return (sqlite3.Error,)

    def is_locked(self, error: BaseException) -> bool:
        code = getattr(error, "sqlite_errorcode", None)
        # The upper bits say more about the primary code.
        return code is not None and code & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


class _PostgreSql(_Database):
    """A database on a server of PostgreSQL."""

    # The transaction fails if somebody else changes a row between reading and writing it.
    begin = "BEGIN ISOLATION LEVEL REPEATABLE READ"

    @contextmanager
    def connected(self, *, read_only: bool) -> Iterator[Any]:
        psycopg = self._driver()
        try:
            connection = psycopg.connect(self.address, autocommit=not read_only)
        except psycopg.Error as error:
            raise self.failure(error) from None
        try:
            # Read as text, because Arrow has no type for them.
            text = optional("psycopg.types.string", "postgresql", "Reading PostgreSQL").TextLoader
            connection.adapters.register_loader("uuid", text)
            if read_only:
                connection.read_only = True
            yield connection
        finally:
            connection.close()

    def arrow(self, connection: Any, query: str) -> Any:
        arrow = optional("pyarrow", "table", "Reading this table")
        try:
            # The rows of a named cursor stay on the server until they are fetched.
            with connection.cursor(name=_SENT) as cursor:
                cursor.execute(query)
                names = [column.name for column in cursor.description or ()]
                return _arrow_table(self.address, names, _batches(cursor))
        except (*self.errors(), arrow.ArrowException) as error:
            raise self.failure(error) from None

    def send(self, connection: Any, cells: Mapping[str, Any]) -> None:
        json = optional("psycopg.types.json", "postgresql", "Writing to PostgreSQL")
        column = connection.execute(f"SELECT {_SENT_TAGS} FROM {_SENT}").description[0]
        kind = connection.adapters.types.get(column.type_code)
        wrap = {"json": json.Json, "jsonb": json.Jsonb}.get(kind.name if kind else "")
        with connection.cursor().copy(f"COPY {_SENT} FROM STDIN") as copy:
            for key, cell in cells.items():
                copy.write_row((key, wrap(cell) if wrap and cell is not None else cell))

    def errors(self) -> tuple[type[Exception], ...]:
        return (self._driver().Error,)

    def _driver(self) -> Any:
        return optional("psycopg", "postgresql", "Reading a database of PostgreSQL")


_CLASSES: dict[str, type[_Database]] = {
    "duckdb": _DuckDb,
    "sqlite": _Sqlite,
    "postgresql": _PostgreSql,
}


def _database(address: str) -> _Database:
    """Return the database of an address."""
    kind, _, path = str(address).partition(":")
    if kind not in _CLASSES:
        raise InputError(f"{address}: the address of a database is {_FORMS}")
    if kind == "postgresql":
        _check_server(address)
    elif not Path(path).is_file():
        raise DataError(f"{address}: there is no such file")
    return _CLASSES[kind](address)


def _check_server(address: str) -> None:
    """Raise InputError for an address with a password, which messages would print."""
    try:
        parts = urlsplit(address)
        has_password = parts.password is not None
    except ValueError as error:
        raise InputError(f"not the address of a database ({reason_of(error)})") from None
    if has_password or any(name == "password" for name, _ in parse_qsl(parts.query)):
        raise InputError(
            "the address of a database must not hold a password, which other users could see; set "
            "PGPASSWORD, or write it to ~/.pgpass"
        )
