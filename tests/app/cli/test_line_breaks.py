"""Cells with line breaks come back from every command that writes CSV."""

import csv
import json

import pytest
from app.cli.clean_helpers import make_items, read_csv

from schirn.app.cli import main
from schirn.app.tables._files import open_table, write_copy


@pytest.mark.parametrize("cell", ["a\rb", "a\nb", "a\r\nb", "\r", "\n", "", '"', 'a","b', " a "])
def test_every_cell_is_read_back(cell, tmp_path):
    rows = [["1", cell], [cell, cell]]
    lines = [json.dumps({"id": name, "text": text}) for name, text in rows]
    (tmp_path / "t.jsonl").write_text("".join(f"{line}\n" for line in lines))
    write_copy(str(tmp_path / "t.csv"), open_table(tmp_path / "t.jsonl"), {}, {})
    with (tmp_path / "t.csv").open(newline="", encoding="utf-8") as stream:
        assert list(csv.reader(stream)) == [["id", "text"], *rows]


@pytest.mark.parametrize(("newline", "sign"), [("\n", "\r"), ("\r", "\n")])
def test_a_lone_sign_of_another_line_end_stays_in_its_cell(newline, sign, tmp_path, capsys):
    items = make_items(n=120, names=["beach", f"wet{sign}dog", "sunset", "city"])
    lines = ["id,text,tags"]
    lines += [
        f'{i},"{text}{sign}end","{";".join(tags)}"' for i, (text, tags, _) in enumerate(items)
    ]
    table = tmp_path / "items.csv"
    table.write_text(newline.join(lines) + newline, "utf-8", newline="")
    before = read_csv(table)
    names = ("clean.csv", "changes.csv", "applied.csv", "back.csv", "m.schirn", "tags.csv")
    cleaned, changes, applied, back, model, tags = (str(tmp_path / name) for name in names)
    options = ["--text", "text", "--remove-below", "0.5"]
    assert main(["clean", str(table), *options, "-o", cleaned, "--changes", changes]) == 0
    assert main(["apply", changes, str(table), "-o", applied]) == 0
    assert main(["undo", changes, applied, "-o", back]) == 0
    assert main(["fit", str(table), "--text", "text", "-o", model]) == 0
    assert main(["predict", model, str(table), "-o", tags]) == 0
    for path in (cleaned, applied, back, tags):
        assert [(x["id"], x["text"]) for x in read_csv(path)] == [
            (x["id"], x["text"]) for x in before
        ]
    assert read_csv(back) == before
    tag = f"wet{sign}dog"
    assert tag in {line["before"] for line in read_csv(changes)} <= {"beach", "sunset", "city", tag}
