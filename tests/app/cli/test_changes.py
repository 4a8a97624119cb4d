"""`schirn clean --changes`, `--suggest` and `--add`; `schirn apply` and `schirn undo`."""

import csv
import gzip
import json
import re

import numpy as np
import pandas as pd
import pytest
from app.cli.clean_helpers import make_items, read_csv, refused, write_csv

from schirn.app.cli import main
from schirn.app.tables._changes import read_changes
from schirn.cleaning import Change, ChangeList


@pytest.fixture(scope="module")
def items():
    """A fifth of the correct tags is missing."""
    rng = np.random.default_rng(1)
    return [
        (text, [t for t in tags if t in wrong or rng.random() > 0.2], wrong)
        for text, tags, wrong in make_items(n=600)
    ]


@pytest.fixture(scope="module")
def cleaned(items, tmp_path_factory):
    """A table, its cleaned copy with suggestions and additions, and the list of changes."""
    folder = tmp_path_factory.mktemp("cleaned")
    write_csv(folder / "items.csv", items)
    argv = ["clean", str(folder / "items.csv"), "--text", "description", "--suggest"]
    argv += ["--add", "0.8", "-o", str(folder / "out.csv"), "--remove-below", "0.5"]
    assert main([*argv, "--changes", str(folder / "changes.csv")]) == 0
    return folder


def pairs(cell):
    return {k: float(v) for k, v in (pair.rsplit("=", 1) for pair in cell.split(";") if pair)}


def test_another_list_of_changes_is_kept(items, tmp_path, capsys):
    source = write_csv(tmp_path / "items.csv", items)
    argv = ["clean", source, "--text", "description", "--changes", str(tmp_path / "c.csv")]
    assert main([*argv, "--remove", "5"]) == 0
    first = (tmp_path / "c.csv").read_bytes()
    assert main([*argv, "--remove", "5"]) == 0
    assert not (tmp_path / "c.csv.bak").exists()
    capsys.readouterr()
    assert main([*argv, "--remove", "3"]) == 0
    assert f"as {tmp_path / 'c.csv.bak'}\n" in capsys.readouterr().err
    assert (tmp_path / "c.csv.bak").read_bytes() == first
    assert len(read_changes(tmp_path / "c.csv")) == 3


def test_suggestions_and_additions_are_columns(cleaned, items):
    lines = read_csv(cleaned / "out.csv")
    n_added = n_suggested = 0
    for line, old, (_, tags, _) in zip(lines, read_csv(cleaned / "items.csv"), items, strict=True):
        added, removed = (
            [tag for tag in line[f"tags_{name}"].split(";") if tag] for name in ("added", "removed")
        )
        kept = [tag for tag in tags if tag not in removed]
        assert line["tags"] == ";".join([*kept, *added])
        assert not set(added) & set(tags)
        suggested = pairs(line["tags_suggested_confidence"])
        assert ";".join(suggested) == line["tags_suggested"]
        assert all(0.5 <= value <= 0.8 for value in suggested.values())
        assert not set(suggested) & {*tags, *added}
        assert {k: line[k] for k in ("id", "description", "code")} == {
            k: old[k] for k in ("id", "description", "code")
        }
        n_added += len(added)
        n_suggested += len(suggested)
    assert n_added > 10
    assert n_suggested > 10


def test_nothing_is_added_unless_asked(items, tmp_path, capsys):
    source = write_csv(tmp_path / "items.csv", items)
    argv = ["clean", source, "--text", "description"]
    assert main([*argv, "--suggest", "-o", str(tmp_path / "out.csv")]) == 0
    capsys.readouterr()
    for line, (_, tags, _) in zip(read_csv(tmp_path / "out.csv"), items, strict=True):
        assert set(filter(None, line["tags"].split(";"))) <= set(tags)
        assert "tags_added" not in line
    changes = str(tmp_path / "c.csv")
    assert main([*argv, "--json", "--add", "0.9", "--changes", changes]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["added"] == read_changes(changes).counts()["addition"] > 0
    assert not report["checked"]
    assert "or --output to write columns" in refused(capsys, *argv, "--suggest")
    assert "needs --output for the copy" in refused(capsys, *argv, "--add", "0.9")


def test_the_list_makes_the_copy_and_undo_the_original(cleaned, tmp_path, capsys):
    source, changes = str(cleaned / "items.csv"), str(cleaned / "changes.csv")
    applied, back = str(tmp_path / "applied.csv"), str(tmp_path / "back.csv")
    assert main(["apply", changes, source]) == 0
    checked = capsys.readouterr()
    assert "nothing is written without --output" in checked.err
    assert "checked" in checked.out
    assert main(["apply", changes, source, "-o", applied]) == 0
    out = capsys.readouterr().out
    assert "removals" in out
    assert "additions" in out
    tags = [line["tags"] for line in read_csv(cleaned / "out.csv")]
    assert [line["tags"] for line in read_csv(applied)] == tags
    assert main(["undo", changes, applied, "-o", back, "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["n_changes"] == report["removals"] + report["additions"] > 20
    with open(back, "rb") as first, open(source, "rb") as second:
        assert first.read() == second.read()
    # The copy that schirn clean wrote has more columns; its tags are undone as well.
    assert main(["undo", changes, str(cleaned / "out.csv"), "-o", back]) == 0
    assert [x["tags"] for x in read_csv(back)] == [x["tags"] for x in read_csv(source)]


def test_the_list_can_be_read_by_people(cleaned):
    lines = read_csv(cleaned / "changes.csv")
    before = read_csv(cleaned / "items.csv")
    for line in lines:
        row = before[int(line["row"]) - 1]
        assert json.loads(line["cell"]) == row["tags"]
        assert 0.5 < float(line["confidence"]) <= 1
        assert "likely to be correct (TextRanker, not checked)" in line["why"]
        assert line["change"] == ("removal" if line["before"] else "addition")
        assert line["column"] == "tags"


RECORDS = [
    {"id": 1, "tags": ["dog", "dgo"], "x": {"a": [1, None]}},
    {"id": 2, "tags": None, "x": 0.1},
    {"id": 3, "tags": ["cat"], "x": "é"},
]
CHANGES = [
    Change(0, "merge", "dgo", "dog", 0.9, "a typo"),
    Change(1, "addition", "", "sun"),
    Change(2, "rename", "cat", "kitten"),
]
AFTER = [["dog"], ["sun"], ["kitten"]]


def write_jsonl(path, records):
    path.write_text("".join(json.dumps(r, ensure_ascii=False) + "\n" for r in records), "utf-8")


def write_changes(folder, cells, changes, name="changes.csv", **options):
    ChangeList.from_cells(cells, changes, **options).write(folder / name)
    return str(folder / name)


def test_jsonl_and_parquet(tmp_path):
    cells = [record["tags"] for record in RECORDS]
    changes = write_changes(tmp_path, cells, CHANGES)
    write_jsonl(tmp_path / "t.jsonl", RECORDS)
    frame = pd.DataFrame(RECORDS).drop(columns="x")
    frame["when"] = pd.to_datetime(["2020-01-01"] * 3)
    frame.to_parquet(tmp_path / "t.parquet")
    for table in ("t.jsonl", "t.parquet"):
        source, out, back = (str(tmp_path / f"{p}{table}") for p in ("", "out_", "back_"))
        assert main(["apply", changes, source, "-o", out]) == 0
        assert main(["undo", changes, out, "-o", back]) == 0
    assert (tmp_path / "back_t.jsonl").read_bytes() == (tmp_path / "t.jsonl").read_bytes()
    lines = (tmp_path / "out_t.jsonl").read_text("utf-8").splitlines()
    assert [json.loads(line)["tags"] for line in lines] == AFTER
    assert [json.loads(line)["x"] for line in lines] == [record["x"] for record in RECORDS]
    changed = pd.read_parquet(tmp_path / "out_t.parquet")
    assert [list(tags) for tags in changed["tags"]] == AFTER
    pd.testing.assert_frame_equal(pd.read_parquet(tmp_path / "back_t.parquet"), frame)


def test_a_row_without_the_key_gets_the_tag(tmp_path):
    write_jsonl(tmp_path / "t.jsonl", [{"tags": "a"}, {"id": 2}])
    changes = write_changes(tmp_path, ["a", None], [Change(1, "addition", "", "b")])
    assert main(["apply", changes, str(tmp_path / "t.jsonl"), "-o", str(tmp_path / "o.jsonl")]) == 0
    lines = (tmp_path / "o.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in lines] == [{"tags": "a"}, {"id": 2, "tags": "b"}]


def test_packed_tables_other_encodings_and_separators(tmp_path):
    text = "id|tags\r\n007|Café, sun\r\n008|Café\r\n"
    (tmp_path / "t.csv.gz").write_bytes(gzip.compress(text.encode("latin-1")))
    change = [Change(0, "rename", "sun", "Été")]
    changes = write_changes(tmp_path, ["Café, sun", "Café"], change, separator=",")
    reading = ["--encoding", "latin-1", "--delimiter", "|"]
    source, out, back = (str(tmp_path / f"{name}t.csv.gz") for name in ("", "out_", "back_"))
    assert main(["apply", changes, source, "-o", out, *reading]) == 0
    expected = text.replace("sun", "Été")
    assert gzip.decompress((tmp_path / "out_t.csv.gz").read_bytes()).decode("latin-1") == expected
    assert main(["undo", changes, out, "-o", back, *reading]) == 0
    assert gzip.decompress((tmp_path / "back_t.csv.gz").read_bytes()).decode("latin-1") == text


def test_a_character_that_the_table_cannot_hold(tmp_path, capsys):
    (tmp_path / "t.csv").write_bytes("id,tags\n1,Café\n".encode("latin-1"))
    changes = write_changes(tmp_path, ["Café"], [Change(0, "addition", "", "寿司")])
    words = refused(
        *(capsys, "apply", changes, str(tmp_path / "t.csv"), "--encoding", "latin-1"),
        *("-o", str(tmp_path / "o.csv")),
    )
    assert "the encoding latin-1 of the table lacks the character '寿'" in words
    assert not (tmp_path / "o.csv").exists()


def test_a_parquet_column_of_numbers(tmp_path, capsys):
    frame = pd.DataFrame({"tags": [[7, 8], [9]]})
    frame.to_parquet(tmp_path / "t.parquet")
    source, out = str(tmp_path / "t.parquet"), str(tmp_path / "o.parquet")
    cells = [[7, 8], [9]]
    changes = write_changes(tmp_path, cells, [Change(1, "addition", "", "7")])
    assert main(["apply", changes, source, "-o", out]) == 0
    assert [list(tags) for tags in pd.read_parquet(out)["tags"]] == [[7, 8], [9, 7]]
    capsys.readouterr()
    changes = write_changes(tmp_path, cells, [Change(1, "addition", "", "dog")])
    words = refused(capsys, "apply", changes, source, "-o", out)
    assert "the column 'tags' holds list<" in words


def test_a_parquet_column_of_categories(tmp_path):
    cells = ["b", "a;b", "b", None, "c"]
    frame = pd.DataFrame({"tags": pd.Categorical(cells), "x": range(5)})
    frame.to_parquet(tmp_path / "t.parquet")
    wanted = [Change(1, "removal", "a", ""), Change(3, "addition", "", "d")]
    wanted += [Change(4, "rename", "c", "0")]
    changes = write_changes(tmp_path, cells, wanted)
    source, out, back = (str(tmp_path / f"{name}t.parquet") for name in ("", "out_", "back_"))
    assert main(["apply", changes, source, "-o", out]) == 0
    after = pd.read_parquet(out)["tags"]
    assert after.tolist() == ["b", "b", "b", "d", "0"]
    assert after.cat.categories.tolist() == ["0", "b", "d"]
    assert main(["undo", changes, out, "-o", back]) == 0
    pd.testing.assert_frame_equal(pd.read_parquet(back), frame)


def test_more_categories_than_the_index_holds(tmp_path):
    cells = [f"t{i:03d}" for i in range(127)] + [""] * 40
    frame = pd.DataFrame({"tags": pd.Categorical(cells[:127] + [None] * 40)})
    frame.to_parquet(tmp_path / "t.parquet")
    new = [Change(127 + i, "addition", "", f"u{i:03d}") for i in range(40)]
    changes = write_changes(tmp_path, [cell or None for cell in cells], new)
    source, out = str(tmp_path / "t.parquet"), str(tmp_path / "o.parquet")
    assert main(["apply", changes, source, "-o", out]) == 0
    after = pd.read_parquet(out)["tags"]
    assert after.tolist() == [*cells[:127], *(f"u{i:03d}" for i in range(40))]
    assert isinstance(after.dtype, pd.CategoricalDtype)


def test_another_table_is_refused(tmp_path, capsys):
    cells = ["dog;cat", "dog", "sun"]
    changes = write_changes(tmp_path, cells, [Change(0, "removal", "cat", "")])
    table, out = tmp_path / "t.csv", str(tmp_path / "o.csv")

    def write(column, cells):
        with table.open("w", newline="", encoding="utf-8") as stream:
            csv.writer(stream).writerows([[column, "x"], *((cell, "1") for cell in cells)])

    write("tags", ["dog;cow", "dog", "sun"])
    words = refused(capsys, "apply", changes, str(table), "-o", out)
    assert "t.csv: row 1 holds 'dog;cow', but the list of changes expects 'dog;cat'" in words
    write("labels", cells)
    words = refused(capsys, "apply", changes, str(table), "-o", out)
    assert "there is no column 'tags', which" in words
    assert not (tmp_path / "o.csv").exists()
    # Other rows may differ.
    write("tags", ["dog;cat", "cow"])
    assert main(["apply", changes, str(table), "-o", out]) == 0
    capsys.readouterr()
    assert [line["tags"] for line in read_csv(out)] == ["dog", "cow"]


def test_paths_are_checked_before_the_work(items, tmp_path, capsys):
    source = write_csv(tmp_path / "items.csv", items[:20])
    changes = write_changes(tmp_path, [""], [])
    before = (tmp_path / "items.csv").read_bytes(), (tmp_path / "changes.csv").read_bytes()
    for argv, words in (
        (["apply", changes, source, "-o", source], "is the input, which is never changed"),
        (["apply", changes, source, "-o", changes], "is the input, which is never changed"),
        (["apply", changes, source, "-o", "x.txt"], "must end as that of a table: .csv, .tsv"),
        (["apply", source, changes], "not a list of changes"),
        (["undo", str(tmp_path / "no.csv"), source], "there is no such file"),
        (["undo", changes, str(tmp_path / "no.csv")], "there is no such file"),
        (["clean", source, "--changes", "c.txt"], "must end in .csv"),
        (["clean", source, "--changes", source], "is the input"),
        (["clean", source, "-o", "a.csv", "--changes", "a.csv"], "both the copy and the list"),
        (["clean", source, "--add", "2"], "must be a number from 0 to 1"),
    ):
        assert words in refused(capsys, *argv)
    after = (tmp_path / "items.csv").read_bytes(), (tmp_path / "changes.csv").read_bytes()
    assert before == after


def test_a_list_without_changes_copies_the_table(items, tmp_path, capsys):
    source, out = write_csv(tmp_path / "items.csv", items[:20]), str(tmp_path / "o.csv")
    changes = write_changes(tmp_path, [""], [])
    assert main(["apply", changes, source, "-o", out]) == 0
    assert "no changes" in capsys.readouterr().out
    assert (tmp_path / "o.csv").read_bytes() == (tmp_path / "items.csv").read_bytes()


def test_formulas_do_not_reach_the_spreadsheet(tmp_path):
    (tmp_path / "t.csv").write_text("id,tags\n1,\n2,=own;x\n")
    new = [Change(0, "addition", "", "=HYPERLINK(0)"), Change(1, "removal", "x", "")]
    changes = write_changes(tmp_path, ["", "=own;x"], new)
    assert "\n1,addition,,'=HYPERLINK(0)," in (tmp_path / "changes.csv").read_text()
    source, out, back = (str(tmp_path / f"{name}t.csv") for name in ("", "out_", "back_"))
    assert main(["apply", changes, source, "-o", out]) == 0
    assert [line["tags"] for line in read_csv(out)] == ["'=HYPERLINK(0)", "'=own"]
    assert main(["undo", changes, out, "-o", back]) == 0
    assert (tmp_path / "back_t.csv").read_bytes() == (tmp_path / "t.csv").read_bytes()


def test_hostile_tags_are_suggested_and_added_as_text(items, tmp_path, capsys):
    """Tags that a spreadsheet would run, a terminal would obey or a page would show as markup."""
    names = {"beach": "=1+1", "dog": "@x", "sunset": "\x1b[31mred", "city": "<b>bold</b>"}
    renamed = [(text, [names[t] for t in tags], wrong) for text, tags, wrong in items]
    source = write_csv(tmp_path / "items.csv", renamed)
    out, page, changes = (tmp_path / name for name in ("out.csv", "r.html", "c.csv"))
    argv = ["clean", source, "--text", "description", "--suggest", "--add", "0.9"]
    argv += ["-o", str(out), "--report", str(page), "--changes", str(changes)]
    assert main(argv) == 0
    assert "\x1b" not in capsys.readouterr().out
    before, after = read_csv(source), read_csv(out)
    new = [line[name] for line in after for name in line if name.startswith("tags_")]
    new += [
        line["tags"] for line, old in zip(after, before, strict=True) if line["tags"] != old["tags"]
    ]
    assert not [cell for cell in new if cell.startswith(("=", "+", "-", "@"))]
    assert any(cell.startswith("'=") for cell in new)
    assert "<b>bold" not in page.read_text("utf-8")
    applied, back = str(tmp_path / "applied.csv"), tmp_path / "back.csv"
    assert main(["apply", str(changes), source, "-o", applied]) == 0
    assert [line["tags"] for line in read_csv(applied)] == [line["tags"] for line in after]
    assert main(["undo", str(changes), applied, "-o", str(back)]) == 0
    assert back.read_bytes() == (tmp_path / "items.csv").read_bytes()


def test_an_edited_list_is_counted_and_checked(tmp_path, capsys):
    table = tmp_path / "t.csv"
    table.write_text('id,tags\n1,"dgo,beach"\n2,"dog,cat"\n3,"dog,beach"\n', "utf-8")
    cells = ["dgo,beach", "dog,cat", "dog,beach"]
    wanted = [Change(0, "removal", "dgo", "dog; cat"), Change(1, "removal", "cat", "")]
    wanted.append(Change(2, "removal", "beach", "beach"))
    changes = str(tmp_path / "c.csv")
    ChangeList.from_cells(cells, wanted, separator=",").write(changes)
    assert main(["apply", changes, str(table), "-o", str(tmp_path / "o.csv")]) == 0
    said = capsys.readouterr()
    assert "1 removal, 1 rename\n" in said.out
    assert re.search(r"rows changed +2\n", said.out)
    (warning,) = [line for line in said.err.splitlines() if "note:" in line]
    assert "row 1 gets the new tag 'dog; cat', which contains ';'" in warning
    assert read_csv(tmp_path / "o.csv")[0]["tags"] == "dog; cat,beach"
