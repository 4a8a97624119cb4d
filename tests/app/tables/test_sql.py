"""Tables in databases: a query comes in, changed tags go back in one transaction, or not at all."""

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
from schirn.app.tables import is_database, keyed_changes, open_table, read_changes, write_back
from schirn.cleaning import Change, ChangeList
from schirn.exceptions import DataError, InputError

ROWS = [
    (1, "a red pan", "pan;red"),
    (2, "an oak chair", "chair;dgo"),
    (3, 'it\'s; "quoted"', "lamp;'; DROP TABLE items; --"),
    (4, "nothing", None),
]
QUERY = "SELECT id, title, tags FROM items ORDER BY id"


@pytest.fixture(params=["sqlite", "duckdb"])
def address(request, tmp_path):
    pytest.importorskip("pyarrow")
    path = tmp_path / "my shop?.db"
    if request.param == "duckdb":
        connection = pytest.importorskip("duckdb").connect(str(path))
    else:
        connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE items (id INTEGER, title TEXT, tags TEXT, price DOUBLE)")
    connection.executemany("INSERT INTO items VALUES (?, ?, ?, 1.5)", ROWS)
    connection.commit()
    connection.close()
    return f"{request.param}:{path}"


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
    again = tags_in(address)
    with pytest.raises(InputError, match="expects"):
        write_back(address, "items.tags", changes, commit=True)
    assert tags_in(address) == again


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("DELETE FROM items WHERE id = 2", "not in the table any more"),
        ("INSERT INTO items VALUES (2, 'twice', 'chair;dgo', 1)", "more than once"),
    ],
)
def test_a_row_that_is_gone_or_not_unique_stops_everything(address, statement, message):
    changes = changes_for(address, EDITS)
    kind, _, path = address.partition(":")
    connection = sqlite3.connect(path) if kind == "sqlite" else sys.modules["duckdb"].connect(path)
    connection.execute(statement)
    connection.commit()
    connection.close()
    before = open_table(address, query="SELECT tags FROM items ORDER BY id, title").column("tags")
    with pytest.raises(InputError, match=message):
        write_back(address, "items.tags", changes, commit=True)
    after = open_table(address, query="SELECT tags FROM items ORDER BY id, title").column("tags")
    assert before == after


@pytest.mark.parametrize(
    ("target", "message"),
    [("tags", "must name a table"), ("items.", "must name a table"), ("nothing.tags", "nothing")],
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


def test_rows_need_ids(address):
    table = open_table(address, query=QUERY)
    changes = ChangeList.from_cells(table.column("tags"), EDITS)
    with pytest.raises(InputError, match="ids"):
        write_back(address, "items.tags", changes)


def test_the_program_cleans_a_database(address, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    kind, _, path = address.partition(":")
    connection = sqlite3.connect(path) if kind == "sqlite" else sys.modules["duckdb"].connect(path)
    rng = random.Random(0)
    words = {"pan": "steel fry", "chair": "oak seat"}
    for i in range(10, 90):
        tag = rng.choice(list(words))
        other = [name for name in words if name != tag and rng.random() < 0.2]
        row = (i, f"{words[tag]} {i}", ";".join([tag, *other]))
        connection.execute("INSERT INTO items VALUES (?, ?, ?, 2)", row)
    connection.execute("DELETE FROM items WHERE id < 10")
    connection.commit()
    connection.close()
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


KILLED = """
import sys, threading, os, signal, time
from schirn.app.tables import read_changes, write_back
changes = read_changes(sys.argv[2])
print("ready", flush=True)
write_back(sys.argv[1], "items.tags", changes, commit=True)
"""


@pytest.mark.slow
def test_a_killed_process_leaves_all_or_nothing(address, tmp_path):
    kind, _, path = address.partition(":")
    connection = sqlite3.connect(path) if kind == "sqlite" else sys.modules["duckdb"].connect(path)
    rows = [(i, "x", "one;two", 1.0) for i in range(10, 3010)]
    connection.executemany("INSERT INTO items VALUES (?, ?, ?, ?)", rows)
    connection.commit()
    connection.close()
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
