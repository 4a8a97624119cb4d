"""Tables in databases: a query comes in, changed tags go back in one transaction, or not at all."""

import contextlib
import itertools
import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import time

import pytest

from schirn.app.cli import main
from schirn.app.tables import (
    is_database,
    keyed_changes,
    local_path,
    open_table,
    read_changes,
    write_back,
)
from schirn.cleaning import Change, ChangeList
from schirn.exceptions import DataError, InputError

NUMBERS = itertools.count()
ROWS = [
    (1, "a red pan", "pan;red"),
    (2, "an oak chair", "chair;dgo"),
    (3, 'it\'s; "quoted"', "lamp;'; DROP TABLE items; --"),
    (4, "nothing", None),
]
QUERY = "SELECT id, title, tags FROM items ORDER BY id"


@pytest.fixture(params=["sqlite", "duckdb", "postgresql"])
def address(request, tmp_path):
    pytest.importorskip("pyarrow")
    if request.param == "postgresql":
        address = request.getfixturevalue("schema")
    else:
        pytest.importorskip(request.param if request.param == "duckdb" else "sqlite3")
        address = f"{request.param}:{tmp_path / 'my shop?.db'}"
    number = "DOUBLE PRECISION"
    run(address, f"CREATE TABLE items (id INTEGER, title TEXT, tags TEXT, price {number})")
    insert(address, [(*row, 1.5) for row in ROWS])
    return address


@pytest.fixture
def schema():
    """Address of an empty schema on the server of SCHIRN_POSTGRESQL."""
    server = os.environ.get("SCHIRN_POSTGRESQL")
    if not server:
        pytest.skip("SCHIRN_POSTGRESQL is not the address of a server")
    pytest.importorskip("psycopg")
    name = f"schirn_{os.getpid()}_{next(NUMBERS)}"
    run(server, f"CREATE SCHEMA {name}")
    yield f"{server}?options=-csearch_path%3D{name}"
    run(server, f"DROP SCHEMA {name} CASCADE")


def connect(address):
    kind, _, path = address.partition(":")
    if kind == "sqlite":
        return sqlite3.connect(path)
    if kind == "duckdb":
        return pytest.importorskip("duckdb").connect(path)
    return pytest.importorskip("psycopg").connect(address)


def run(address, statement, rows=None):
    connection = connect(address)
    if rows is None:
        connection.execute(statement)
    else:
        connection.cursor().executemany(statement, rows)
    connection.commit()
    connection.close()


def insert(address, rows):
    mark = "%s" if address.startswith("postgresql") else "?"
    run(address, f"INSERT INTO items VALUES ({', '.join([mark] * len(rows[0]))})", rows)


def tags_in(address):
    table = open_table(address, query=QUERY)
    return dict(zip(table.column("id"), table.column("tags"), strict=True))


def changes_for(address, edits):
    table = open_table(address, query=QUERY)
    changes = ChangeList.from_cells(table.column("tags"), edits)
    return keyed_changes(changes, table, "id")


EDITS = [
    Change(1, "rename", "dgo", "dog"),
    Change(2, "removal", "lamp", ""),
    Change(3, "addition", "", "new"),
]


def test_a_query_is_a_table(address):
    table = open_table(address, query=QUERY)
    assert list(table.columns) == ["id", "title", "tags"]
    assert table.column("title") == [title for _, title, _ in ROWS]
    assert table.column("tags") == [tags for _, _, tags in ROWS]
    assert table.numbers("id").tolist() == [1, 2, 3, 4]


def test_changes_go_in_and_out_again(address, tmp_path):
    before = tags_in(address)
    changes = changes_for(address, EDITS)
    changes.write(tmp_path / "c.csv")
    changes = read_changes(tmp_path / "c.csv")
    dry = write_back(address, "items.tags", changes)
    assert (dry.n_rows, dry.is_committed) == (3, False)
    assert tags_in(address) == before
    done = write_back(address, "items.tags", changes, commit=True)
    assert (done.n_rows, done.is_committed) == (3, True)
    after = tags_in(address)
    assert after[2] == "chair;dog"
    assert "lamp" not in after[3]
    assert "DROP TABLE" in after[3]
    assert after[4] == "new"
    assert after[1] == before[1]
    write_back(address, "items.tags", changes, undo=True, commit=True)
    assert tags_in(address) == before


def test_a_row_with_other_tags_stops_everything(address):
    changes = changes_for(address, EDITS)
    write_back(address, "items.tags", changes, commit=True)
    run(address, "UPDATE items SET tags = 'chair' WHERE id = 2")
    again = tags_in(address)
    for undo in (False, True):
        words = "the row '2' holds 'chair', but the list of changes expects"
        with pytest.raises(InputError, match=words):
            write_back(address, "items.tags", changes, undo=undo, commit=True)
    assert tags_in(address) == again


HOLD = """
import sys, time
kind, path = sys.argv[1:]
connect = __import__({"sqlite": "sqlite3", "duckdb": "duckdb"}[kind]).connect
connection = connect(path)
connection.execute("BEGIN IMMEDIATE" if kind == "sqlite" else "BEGIN")
print("held", flush=True)
time.sleep(60)
"""


def test_a_database_that_another_program_holds_is_one_sentence(address, monkeypatch):
    if address.startswith("postgresql"):
        pytest.skip("a server lets many programs write")
    changes = changes_for(address, EDITS)
    # SQLite waits five seconds by itself.
    open_sqlite = sqlite3.connect
    monkeypatch.setattr(sqlite3, "connect", lambda *a, **b: open_sqlite(*a, timeout=0.05, **b))
    words = address.split(":", 1)
    holder = subprocess.Popen([sys.executable, "-c", HOLD, *words], stdout=subprocess.PIPE)
    try:
        assert holder.stdout.readline() == b"held\n"
        message = "another program is using this database; try again when it has finished"
        with pytest.raises(DataError, match=message):
            write_back(address, "items.tags", changes, commit=True)
    finally:
        holder.kill()
        holder.communicate()


def test_a_second_run_has_nothing_to_do(address, tmp_path, capsys):
    changes = changes_for(address, EDITS)
    changes.write(tmp_path / "c.csv")
    words = [str(tmp_path / "c.csv"), address, "--write-back", "items.tags", "--commit"]
    for command, said in (("apply", "already applied"), ("undo", "already undone")):
        assert main([command, *words]) == 0
        after = tags_in(address)
        assert "already" not in capsys.readouterr().out
        assert main([command, *words]) == 0
        assert said in capsys.readouterr().out
        assert main([command, *words, "--json"]) == 0
        document = json.loads(capsys.readouterr().out)
        assert (document["rows_changed"], document["already_done"]) == (0, True)
        assert tags_in(address) == after


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("DELETE FROM items WHERE id = 2", "no longer in the table"),
        ("INSERT INTO items VALUES (2, 'twice', 'chair;dgo', 1)", "more than once"),
    ],
)
def test_a_row_that_is_gone_or_not_unique_stops_everything(address, statement, message):
    changes = changes_for(address, EDITS)
    run(address, statement)
    before = open_table(address, query="SELECT tags FROM items ORDER BY id, title").column("tags")
    with pytest.raises(InputError, match=message):
        write_back(address, "items.tags", changes, commit=True)
    after = open_table(address, query="SELECT tags FROM items ORDER BY id, title").column("tags")
    assert before == after


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("tags", "must name a table"),
        ("items.", "must name a table"),
        ("nothing.tags", "nothing"),
        ("items.nope", "column.*nope"),
    ],
)
def test_bad_targets(address, target, message):
    with pytest.raises((InputError, DataError), match=message):
        write_back(address, target, changes_for(address, EDITS))


def test_reading_cannot_write(address):
    with pytest.raises(DataError):
        open_table(address, query="DELETE FROM items RETURNING id")
    assert len(tags_in(address)) == 4


@pytest.mark.parametrize(
    ("where", "query", "message"),
    [
        ("sqlite:none.db", QUERY, "no such file"),
        ("duckdb:none.db", QUERY, "no such file"),
        (None, None, "needs a query"),
        (None, "SELECT * FROM nothing", "nothing"),
        (None, "SELECT id FROM items WHERE id < 0", "no rows"),
        (None, "no SQL at all", "syntax"),
    ],
)
def test_bad_input_is_one_sentence(address, where, query, message):
    with pytest.raises((InputError, DataError), match=message):
        open_table(where or address, query=query)


def test_a_query_needs_a_database(tmp_path):
    (tmp_path / "t.csv").write_text("a,tags\n1,x\n")
    with pytest.raises(InputError, match="databases"):
        open_table(tmp_path / "t.csv", query="SELECT 1")
    assert not is_database(tmp_path / "t.csv")


@pytest.mark.parametrize(
    ("address", "path"),
    [
        ("items.csv", "items.csv"),
        ("sqlite:a/shop.db", "a/shop.db"),
        ("postgresql://ada@localhost:5432/shop?sslmode=require", "shop"),
        ("postgresql://localhost", "postgresql"),
    ],
)
def test_files_about_a_database_are_stored_near_it(address, path):
    assert local_path(address) == path


def test_an_empty_list_changes_nothing(address):
    before = open_table(address, query=QUERY).column("tags")
    written = write_back(address, "items.tags", ChangeList(), commit=True)
    assert (written.n_rows, written.is_committed) == (0, True)
    assert open_table(address, query=QUERY).column("tags") == before
    with pytest.raises(DataError, match="nothere"):
        write_back(address, "items.nothere", ChangeList())


def test_rows_need_ids(address):
    table = open_table(address, query=QUERY)
    changes = ChangeList.from_cells(table.column("tags"), EDITS)
    with pytest.raises(InputError, match="ids"):
        write_back(address, "items.tags", changes)


def test_the_program_cleans_a_database(address, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    rng = random.Random(0)
    rows = []
    words = {"pan": "steel fry", "chair": "oak seat"}
    for i in range(10, 90):
        tag = rng.choice(list(words))
        other = [name for name in words if name != tag and rng.random() < 0.2]
        rows.append((i, f"{words[tag]} {i}", ";".join([tag, *other]), 2))
    insert(address, rows)
    run(address, "DELETE FROM items WHERE id < 10")
    before = tags_in(address)
    read = ["--query", QUERY, "--labels", "tags", "--text", "title", "--id", "id"]
    assert main(["clean", address, *read, "--remove", "5", "--changes", "c.csv", "--quiet"]) == 0
    assert tags_in(address) == before
    assert main(["apply", "c.csv", address, "--write-back", "items.tags"]) == 0
    assert "nothing is written without --commit" in capsys.readouterr().err
    assert tags_in(address) == before
    assert main(["apply", "c.csv", address, "--write-back", "items.tags", "--commit"]) == 0
    after = tags_in(address)
    assert sum(before[key] != after[key] for key in before) == 5
    capsys.readouterr()
    undo = ["undo", "c.csv", address, "--write-back", "items.tags", "--commit", "--json"]
    assert main(undo) == 0
    assert json.loads(capsys.readouterr().out)["committed"] is True
    assert tags_in(address) == before
    assert main(["fit", address, *read, "-o", "m.schirn", "--quiet"]) == 0
    assert main(["update", address, "--query", QUERY, "--model", "m.schirn", "--id", "id"]) == 0
    assert main(["predict", "m.schirn", address, "--query", QUERY, "-o", "out.csv"]) == 0
    assert len((tmp_path / "out.csv").read_text().splitlines()) == 81


def test_options_of_databases_and_files_are_told_apart(address, tmp_path, capsys):
    (tmp_path / "t.csv").write_text("id,tags\n1,x\n")
    changes_for(address, EDITS).write(tmp_path / "c.csv")
    listed = str(tmp_path / "c.csv")
    assert main(["apply", listed, address]) == 2
    assert "--write-back" in capsys.readouterr().err
    assert main(["apply", listed, str(tmp_path / "t.csv"), "--write-back", "items.tags"]) == 2
    assert "only a database" in capsys.readouterr().err
    assert main(["review", address]) == 2
    assert "a review needs a file" in capsys.readouterr().err


def test_writing_back_reads_the_table_a_few_times(address):
    # With a statement per row, it would take minutes.
    run(address, "DELETE FROM items")
    n = 20_000
    connection = connect(address)
    numbers = {
        "sqlite": f"WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {n}) "
        "SELECT i FROM n",
        "duckdb": f"SELECT range + 1 AS i FROM range({n})",
        "postgresql": f"SELECT i FROM generate_series(1, {n}) AS s(i)",
    }[address.partition(":")[0]]
    connection.execute(f"INSERT INTO items SELECT i, 'x', 'one;two', 1.0 FROM ({numbers}) AS n")
    connection.commit()
    connection.close()
    changes = changes_for(address, [Change(i, "removal", "two", "") for i in range(0, n, 2)])
    start = time.process_time()
    assert write_back(address, "items.tags", changes, commit=True).n_rows == n // 2
    assert time.process_time() - start < 10
    tags = tags_in(address)
    assert [tags[i] for i in (1, 2, 3)] == ["one", "one;two", "one"]
    assert len(tags) == n


def test_lists_and_a_primary_key_in_duckdb(tmp_path):
    pytest.importorskip("pyarrow")
    address = f"duckdb:{tmp_path / 'lists.db'}"
    run(address, "CREATE TABLE items (id INTEGER PRIMARY KEY, tags TEXT[])")
    insert(address, [(1, ["a", "b;c"]), (2, None), (3, ["a"])])
    lists_go_in_and_out(address)


@pytest.mark.parametrize("kind", ["TEXT[]", "JSONB", "JSON"])
def test_lists_and_uuids_in_postgresql(schema, kind):
    pytest.importorskip("pyarrow")
    run(schema, f"CREATE TABLE items (id UUID PRIMARY KEY, tags {kind}, price NUMERIC(8, 2))")
    name = "00000000-0000-0000-0000-00000000000"
    lists = (["a", "b;c"], None, ["a"])
    if kind != "TEXT[]":
        lists = [None if cell is None else json.dumps(cell) for cell in lists]
    insert(schema, [(f"{name}{i}", cell, 1.25 * i) for i, cell in enumerate(lists)])
    lists_go_in_and_out(schema)
    table = open_table(schema, query="SELECT * FROM items ORDER BY id")
    assert table.numbers("price").tolist() == [0, 1.25, 2.5]


def lists_go_in_and_out(address):
    query = "SELECT id, tags FROM items ORDER BY id"
    table = open_table(address, query=query)
    before = table.column("tags")
    assert before == [["a", "b;c"], None, ["a"]]
    edits = [
        Change(0, "removal", "b;c", ""),
        Change(1, "addition", "", "new"),
        Change(2, "removal", "a", ""),
    ]
    changes = ChangeList.from_cells(before, edits)
    changes = keyed_changes(changes, table, "id")
    write_back(address, "items.tags", changes, commit=True)
    assert open_table(address, query=query).column("tags") == [["a"], ["new"], []]
    write_back(address, "items.tags", changes, undo=True, commit=True)
    assert open_table(address, query=query).column("tags") == before


@pytest.mark.parametrize("query", ["DELETE FROM items RETURNING id", "COMMIT; DELETE FROM items"])
def test_reading_postgresql_cannot_write(schema, query):
    run(schema, "CREATE TABLE items (id INTEGER)")
    insert(schema, [(1,)])
    with pytest.raises(DataError):
        open_table(schema, query=query)
    assert open_table(schema, query="SELECT id FROM items").n_rows == 1


@pytest.mark.parametrize(
    "address",
    ["postgresql://ada:secret@localhost/shop", "postgresql://localhost/shop?password=secret"],
)
def test_passwords_are_not_part_of_an_address(address):
    with pytest.raises(InputError, match="PGPASSWORD") as error:
        open_table(address, query="SELECT 1")
    assert "secret" not in str(error.value)


def test_a_server_that_does_not_answer_is_one_sentence():
    pytest.importorskip("psycopg")
    with pytest.raises(DataError, match="port 1"):
        open_table("postgresql://127.0.0.1:1/shop", query="SELECT 1")


def test_a_row_that_somebody_else_changes_stops_everything(schema, monkeypatch):
    pytest.importorskip("pyarrow")
    run(schema, "CREATE TABLE items (id INTEGER, tags TEXT)")
    insert(schema, [(1, "a;b"), (2, "a;b")])
    table = open_table(schema, query="SELECT * FROM items")
    edits = [Change(0, "removal", "b", ""), Change(1, "removal", "b", "")]
    changes = keyed_changes(ChangeList.from_cells(table.column("tags"), edits), table, "id")

    def apply(self, cells, **options):
        run(schema, "UPDATE items SET tags = 'c' WHERE id = 2")
        return ["a" for _ in cells]

    monkeypatch.setattr(ChangeList, "apply", apply)
    with pytest.raises(DataError, match="concurrent"):
        write_back(schema, "items.tags", changes, commit=True)
    tags = open_table(schema, query="SELECT tags FROM items ORDER BY id").column("tags")
    assert tags == ["a;b", "c"]


def test_columns_with_the_same_name_are_an_error(address):
    if address.startswith("duckdb"):
        pytest.skip("DuckDB gives them different names")
    with pytest.raises(DataError, match="2 columns are called"):
        open_table(address, query="SELECT id, title AS id FROM items")


def test_numbers_of_several_kinds_are_one_column(address):
    run(address, "DELETE FROM items")
    insert(address, [(i, None, None, i if i % 2 else None) for i in range(10_001)])
    insert(address, [(10_001, "late", "late", 0.5)])
    table = open_table(address, query="SELECT * FROM items ORDER BY id")
    assert table.n_rows == 10_002
    assert table.column("title")[-2:] == [None, "late"]
    assert table.numbers("price")[-1] == 0.5
    assert table.numbers("price")[1] == 1


KILLED = """
import sys, threading, os, signal, time
from schirn.app.tables import read_changes, write_back
changes = read_changes(sys.argv[2])
print("ready", flush=True)
write_back(sys.argv[1], "items.tags", changes, commit=True)
"""


HALF_WRITTEN = """
import os, signal, sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
# With hardly any cache, the first rows are written to the file before the transaction ends.
connection.execute("PRAGMA cache_size = 1")
connection.execute("BEGIN")
connection.execute("UPDATE items SET tags = 'gone', title = title || hex(zeroblob(2000))")
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="there is no kill -9 here")
def test_what_a_killed_program_began_is_taken_back(tmp_path):
    path = tmp_path / "shop.db"
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE items (id INTEGER PRIMARY KEY, title TEXT, tags TEXT)")
        rows = [(i, "a pan", "one;two") for i in range(2000)]
        connection.executemany("INSERT INTO items VALUES (?, ?, ?)", rows)
        connection.commit()
    subprocess.run([sys.executable, "-c", HALF_WRITTEN, path], check=False)
    assert (tmp_path / "shop.db-journal").exists()
    table = open_table(f"sqlite:{path}", query="SELECT id, title, tags FROM items")
    assert set(table.column("tags")) == {"one;two"}
    assert table.n_rows == 2000


@pytest.mark.slow
def test_a_killed_process_leaves_all_or_nothing(address, tmp_path):
    insert(address, [(i, "x", "one;two", 1.0) for i in range(10, 3010)])
    table = open_table(address, query=QUERY)
    edits = [Change(i, "removal", "two", "") for i in range(4, table.n_rows)]
    changes = ChangeList.from_cells(table.column("tags"), edits)
    keyed_changes(changes, table, "id").write(tmp_path / "c.csv")
    rng = random.Random(0)
    outcomes = set()
    for _ in range(8):
        process = subprocess.Popen(
            [sys.executable, "-c", KILLED, address, str(tmp_path / "c.csv")],
            stdout=subprocess.PIPE,
            env=os.environ,
        )
        assert process.stdout.readline() == b"ready\n"
        time.sleep(rng.random() * 0.3)
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()
        cells = list(tags_in(address).values())[4:]
        assert len(set(cells)) == 1, "half of the rows were written"
        outcomes |= set(cells)
        if cells[0] == "one":
            changed = read_changes(tmp_path / "c.csv")
            write_back(address, "items.tags", changed, undo=True, commit=True)
    assert outcomes <= {"one", "one;two"}
