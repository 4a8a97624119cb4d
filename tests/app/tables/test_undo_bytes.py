"""Undo gives the file back byte for byte, however its cells were written."""

import csv
import io
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schirn.app.cli import main
from schirn.app.tables._changes import keyed_changes, read_changes, row_keys
from schirn.app.tables._files import open_table, write_copy
from schirn.app.tables._indicators import with_tag_column
from schirn.cleaning import Change, ChangeList

N_CELLS = 20
PIECES = ["beach", "dog", "a b", ";", " ", '""', "'", "é", "=1", "\t", "-", "\\"]


@st.composite
def raw_cells(draw):
    """Text of a CSV cell: quoted or not, in part, with doubled quotes, line breaks and spaces."""
    text = "".join(draw(st.lists(st.sampled_from(PIECES), max_size=5)))
    kind = draw(st.sampled_from(["plain", "quoted", "part", "inner", "break", "comma"]))
    if kind == "plain":
        return text.replace('"', "")
    if kind == "part":
        return f'"{text}"' + draw(st.sampled_from(["x", " ", 'y"z', ' "']))
    if kind == "inner":
        return "a" + text
    if kind == "break":
        return f'"{text}\n{text}"'
    if kind == "comma":
        return f'"{text},"'
    return f'"{text}"'


def changes_to(cells):
    """Remove, rename or add in every row."""
    changes = []
    for row, cell in enumerate(cells):
        tags = [tag.strip() for tag in cell.split(";") if tag.strip()]
        plain = [tag for tag in tags if tag.isalpha()]
        if plain and row % 3:
            changes.append(Change(row, "rename", plain[0], ["sea", "a, b", ""][row % 3]))
        else:
            changes.append(Change(row, "addition", "", ["new", 'so, "so"'][row % 2]))
    return changes


def restored(folder, content, suffix=".csv", columns="tags", listing=None):
    """Bytes of a table after changes in a copy were undone, with lists in a file."""
    source, copy, back = (folder / f"{name}{suffix}" for name in ("in", "out", "back"))
    source.write_bytes(content)
    table = open_table(source)
    cells = table.column(columns)
    how = table.cell_options(columns)
    listed = ChangeList.from_cells(cells, listing or changes_to(cells), **how)
    listed = keyed_changes(listed, table)
    listed.write(folder / "changes.csv")
    listed = read_changes(folder / "changes.csv")
    write_copy(str(copy), table, {columns: listed.apply(cells, **how)}, {})
    assert copy.read_bytes() != content
    changed = open_table(copy)
    keys = row_keys(changed, columns)
    undone = listed.undo(changed.column(columns), keys=keys, **how)
    raw = {columns: listed.raw_places(len(undone), keys)}
    write_copy(str(back), changed, {columns: undone}, {}, raw=raw)
    return back.read_bytes()


def test_unusual_cells_of_csv_come_back(tmp_path):
    """At least 3,000 cells."""
    n_cells = 0

    @settings(max_examples=200, deadline=None, database=None)
    @given(st.lists(raw_cells(), min_size=N_CELLS, max_size=N_CELLS))
    def run(raw):
        nonlocal n_cells
        lines = [f"{i},{cell},x" for i, cell in enumerate(raw)]
        text = "\n".join(["id,tags,rest", *lines, ""])
        rows = list(csv.reader(io.StringIO(text, newline="")))
        assert {len(row) for row in rows} == {3}
        content = text.encode()
        assert restored(tmp_path, content) == content
        n_cells += len(raw)

    run()
    assert n_cells >= 3_000


@pytest.mark.parametrize(
    "cells",
    [
        ['"beach"', "dog", '"be""ach";dog'],
        ['"beach;dog"x', 'do"g', '""'],
        ['"dog"', '"sea"', '"x"'],
    ],
)
def test_the_program_restores_bytes(tmp_path, cells, monkeypatch):
    monkeypatch.chdir(tmp_path)
    lines = [f"{i},{cell}" for i, cell in enumerate(cells)]
    (tmp_path / "items.csv").write_text("\n".join(["id,tags", *lines]), newline="")
    table = open_table("items.csv")
    changes = ChangeList.from_cells(
        table.column("tags"),
        [Change(i, "addition", "", "a, b") for i in range(len(cells))],
        spreadsheet=True,
    )
    keyed_changes(changes, table, "id").write("changes.csv")
    assert main(["apply", "changes.csv", "items.csv", "-o", "new.csv"]) == 0
    assert main(["undo", "changes.csv", "new.csv", "-o", "back.csv"]) == 0
    assert (tmp_path / "back.csv").read_bytes() == (tmp_path / "items.csv").read_bytes()


@pytest.mark.filterwarnings("ignore:.*holds half of a character")
@pytest.mark.parametrize(
    "text",
    [
        '{"id": 1, "tags": [ "b\\u0065ach",  "dog" ]}\n{"id": 2, "tags":["dog"]}\n',
        '{"id": 1}\n{"tags": ["dog"], "id": 2}\n{"tags": [], "id": 3}\n',
        '{"id": 1, "tags": "dog;\\ud83d"}\n{"id": 2, "tags": "\\ude00 ;\\ud83d\\ude00"}\n',
        '{"id": 1, "tags": ["dog", "\\ud83d"]}\n{"id": 2, "tags": ["\\ude00"]}\n',
        '{"id": 1, "tags": null}\n{"id": 2, "tags": ["dog"], "tags": ["cat"]}\n{"tags" : []}\n',
    ],
)
def test_values_of_json_come_back(tmp_path, text):
    rows = [json.loads(line) for line in text.splitlines()]
    listing = [Change(i, "addition", "", "new") for i in range(len(rows))]
    content = text.encode()
    assert restored(tmp_path, content, ".jsonl", listing=listing) == content
    content = ("[" + ",\n".join(text.splitlines()) + "]").encode()
    assert restored(tmp_path, content, ".json", listing=listing) == content


def test_indicators_come_back(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = 'id,beach,dog\n1,"1",0\n2,1.0,\n3,0,true\n4,1,"false"\n5, 1,0\n'
    (tmp_path / "items.csv").write_text(text)
    header = "row,change,before,after,confidence,why,key,cell,raw,column,separator,id_column"
    lines = [header]
    table = with_tag_column(open_table("items.csv"), "beach,dog")
    cells = table.column("beach,dog")
    changes = []
    for i, cell in enumerate(cells):
        for tag in ("beach", "dog"):
            pair = (tag, "") if tag in cell else ("", tag)
            changes.append(Change(i, "removal" if tag in cell else "addition", *pair))
    listed = ChangeList.from_cells(cells, changes, column="beach,dog", lists=True)
    keyed_changes(listed, table, "id").write("changes.csv")
    assert lines[0] == (tmp_path / "changes.csv").read_text().splitlines()[0]
    assert main(["apply", "changes.csv", "items.csv", "-o", "new.csv"]) == 0
    assert (tmp_path / "new.csv").read_text() != text
    assert main(["undo", "changes.csv", "new.csv", "-o", "back.csv"]) == 0
    assert (tmp_path / "back.csv").read_text() == text


def test_a_raw_cell_that_does_not_fit_is_not_used(tmp_path, monkeypatch):
    """A list that a person edited, and a copy in another format."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "items.csv").write_text('id,tags\n1,"beach"\n2,"dog;cat"\n')
    table = open_table("items.csv")
    changes = [Change(0, "addition", "", "x"), Change(1, "removal", "dog", "")]
    listed = ChangeList.from_cells(table.column("tags"), changes, spreadsheet=True)
    keyed_changes(listed, table, "id").write("changes.csv")
    text = (tmp_path / "changes.csv").read_text()
    assert json.dumps('"beach"').replace('"', '""') in text
    edited = text.replace(
        json.dumps('"beach"').replace('"', '""'), json.dumps("b,c\nd").replace('"', '""')
    )
    (tmp_path / "changes.csv").write_text(edited)
    assert main(["apply", "changes.csv", "items.csv", "-o", "new.csv"]) == 0
    assert main(["undo", "changes.csv", "new.csv", "-o", "back.csv"]) == 0
    assert open_table("back.csv").column("tags") == ["beach", "dog;cat"]
    assert main(["apply", "changes.csv", "items.csv", "-o", "new.jsonl"]) == 0
    assert main(["undo", "changes.csv", "new.jsonl", "-o", "back.jsonl"]) == 0
    assert open_table("back.jsonl").column("tags") == ["beach", "dog;cat"]


def test_the_codecs_of_parquet_stay(tmp_path):
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")

    def codecs(path):
        group = parquet.ParquetFile(path).metadata.row_group(0)
        chunks = [group.column(j) for j in range(group.num_columns)]
        return {chunk.path_in_schema: chunk.compression for chunk in chunks}

    columns = arrow.table({"id": ["1", "2"], "tags": [["a"], ["b", "c"]], "n": [1.0, 2.0]})
    path, copy = tmp_path / "in.parquet", tmp_path / "out.parquet"
    for options in (
        "zstd",
        "none",
        "gzip",
        {"id": "zstd", "n": "snappy", "tags.list.element": "zstd"},
    ):
        parquet.write_table(columns, path, compression=options)
        table = open_table(path)
        changed = {"tags": [["a", "x"], ["b"]]}
        write_copy(str(copy), table, changed, {"more": [{"x": 0.5}, {}]})
        before, after = codecs(path), codecs(copy)
        assert before == {name: codec for name, codec in after.items() if name in before}
        usual = max(before.values(), key=list(before.values()).count)
        assert {after[name] for name in set(after) - set(before)} == {usual}
