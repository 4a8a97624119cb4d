"""Cleaning a table in a database: seconds, peak memory, and whether every row comes back.

    python -m benchmarks.databases --rows 1000000
    python -m benchmarks.databases --rows 100000 --address postgresql://postgres@127.0.0.1:5432/test

Generates product titles in a database of each kind, and runs four commands, each in a process of
its own: `clean` removes the most suspicious tags, `apply` checks the list of changes and then
writes it back, and `undo` takes it back. After each of them, the tags in the database are compared
with the list. Peak memory is the maximum resident set size. A database of PostgreSQL must be empty.

`python -m benchmarks.soak --programs duckdb,sqlite` kills the program while it writes back.
"""

import argparse
import multiprocessing
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.titles import make_titles
from schirn.app.tables import open_table, read_changes

TARGET = "items.tags"
QUERY = "SELECT id, title, tags FROM items"
# Rows that are generated together.
_BLOCK = 50_000


class Cost(NamedTuple):
    """What a command took.

    Attributes
    ----------
    seconds : float
        Wall time.
    cpu : float
        CPU time of all threads.
    gigabytes : float
        Peak memory.
    """

    seconds: float
    cpu: float
    gigabytes: float


def main() -> None:
    """Print one line per database and command."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--share", type=float, default=0.1, help="share of the rows to change")
    parser.add_argument("--kinds", default="duckdb,sqlite", help="kinds of files, with commas")
    parser.add_argument("--address", help="address of an empty PostgreSQL database")
    args = parser.parse_args()
    print(f"{args.rows:,} titles, {int(args.share * args.rows):,} tags removed", flush=True)
    print(f"{'database':12} {'command':8} {'wall s':>8} {'CPU s':>8} {'peak GB':>8}", flush=True)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        addresses = [f"{kind}:{folder / kind}.db" for kind in args.kinds.split(",") if kind]
        if args.address:
            addresses.append(args.address)
        for address in addresses:
            kind = address.partition(":")[0]
            for command, cost in measure(address, folder, args.rows, args.share):
                print(
                    f"{kind:12} {command:8} {cost.seconds:8.1f} {cost.cpu:8.1f} "
                    f"{cost.gigabytes:8.2f}",
                    flush=True,
                )


def measure(address: str, folder: Path, n_rows: int, share: float) -> Any:
    """Yield the cost of each command, after a check of what it left in the database."""
    in_process(fill, address, n_rows)
    changes = folder / "changes.csv"
    read = ("--query", QUERY, "--labels", "tags", "--text", "title", "--id", "id")
    remove = ("--remove", int(share * n_rows), "--changes", changes)
    yield "clean", run("clean", address, *read, *remove)
    back = ("--write-back", TARGET)
    for command, how, is_changed in (
        ("apply", (), False),
        ("apply", ("--commit",), True),
        ("undo", ("--commit",), False),
    ):
        cost = run(command, changes, address, *back, *how)
        in_process(check, address, n_rows, changes, is_changed)
        yield command if how else "check", cost


def run(*words: object) -> Cost:
    """Run the program; return what it took."""
    command = [sys.executable, "-m", "schirn", *map(str, words), "--quiet"]
    start = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - start
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{' '.join(map(str, words))} ended with code {process.returncode}")
    return Cost(seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024 / 1e9)


def in_process(work: Any, *values: Any) -> None:
    """Run a function in a process of its own, since a process inherits the peak of its parent."""
    process = multiprocessing.get_context("spawn").Process(target=work, args=values)
    process.start()
    process.join()
    if process.exitcode:
        raise SystemExit(f"{work.__name__} ended with code {process.exitcode}")


def fill(address: str, n_rows: int) -> None:
    """Write titles with their listed tags into a new table."""
    connection = connect(address)
    connection.execute("CREATE TABLE items (id INTEGER, title TEXT, tags TEXT)")
    for seed, start in enumerate(range(0, n_rows, _BLOCK)):
        titles = make_titles(min(_BLOCK, n_rows - start), random_state=seed)
        rows = [
            (start + i, text, ";".join(titles.names_of(titles.listed[i])))
            for i, text in enumerate(titles.texts)
        ]
        insert(connection, rows)
    connection.commit()
    connection.close()


def connect(address: str) -> Any:
    """Open a database for writing."""
    kind, _, path = address.partition(":")
    if kind == "sqlite":
        import sqlite3

        return sqlite3.connect(path)
    if kind == "duckdb":
        import duckdb

        return duckdb.connect(path)
    import psycopg

    return psycopg.connect(address)


def insert(connection: Any, rows: list[tuple[int, str, str]]) -> None:
    """Append rows to the table."""
    name = type(connection).__module__.partition(".")[0]
    if name == "sqlite3":
        connection.executemany("INSERT INTO items VALUES (?, ?, ?)", rows)
    elif name.strip("_") == "duckdb":
        import pyarrow as pa

        columns = [pa.array(column) for column in zip(*rows, strict=True)]
        connection.register("titles", pa.table(columns, names=["id", "title", "tags"]))
        connection.execute("INSERT INTO items SELECT * FROM titles")
        connection.unregister("titles")
    else:
        with connection.cursor().copy("COPY items FROM STDIN") as copy:
            for row in rows:
                copy.write_row(row)


def check(address: str, n_rows: int, path: Path, is_changed: bool) -> None:
    """Raise SystemExit unless exactly the listed rows differ from the generated ones."""
    changes = read_changes(path)
    table = open_table(address, query=f"{QUERY} ORDER BY id")
    cells = table.column("tags")
    if table.column("id") != list(range(n_rows)):
        raise SystemExit(f"{address}: rows are lost or doubled")
    if is_changed:
        cells = changes.undo(cells, keys=[str(i) for i in range(n_rows)])
    for seed, start in enumerate(range(0, n_rows, _BLOCK)):
        titles = make_titles(min(_BLOCK, n_rows - start), random_state=seed)
        for i, listed in enumerate(titles.listed):
            if cells[start + i] != ";".join(titles.names_of(listed)):
                raise SystemExit(f"{address}: the tags of row {start + i} are not as expected")


if __name__ == "__main__":
    main()
