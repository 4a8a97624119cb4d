"""The commands of docs/nightly.md, one after the other, on a table that changes every night."""

import csv
import io
import re
from pathlib import Path

from app.cli.clean_helpers import make_items, read_csv

from schirn.app.cli import main
from schirn.app.workflow import Decisions
from schirn.app.workflow import _nightly as nightly
from schirn.app.workflow._tag_state import LEAST_ROWS

PAGE = (Path(__file__).parents[3] / "docs" / "nightly.md").read_text("utf-8")
ITEMS = make_items(160, seed=2)


def write_table(n_rows):
    with open("items.csv", "w", newline="", encoding="utf-8") as stream:
        rows = [(f"A{i}", text, ";".join(tags)) for i, (text, tags, _) in enumerate(ITEMS[:n_rows])]
        csv.writer(stream).writerows([("sku", "title", "tags"), *rows])


def fill_in(name):
    lines = read_csv(name)
    for line in lines:
        line["right"] = "no" if line["tag"] in ITEMS[int(line["id"][1:])][2] else "yes"
    with open(name, "w", newline="", encoding="utf-8") as stream:
        writer = csv.DictWriter(stream, lines[0])
        writer.writeheader()
        writer.writerows(lines)


def test_the_commands_of_the_page(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.stdin", io.StringIO())
    options, expected = re.findall(r"```toml\n(.*?)```", PAGE, re.S)
    Path("schirn.toml").write_text(options)
    Path("expect.toml").write_text(expected)
    commands = re.findall(r"^\$ schirn (.*)$", PAGE, re.M)
    assert len(commands) == 8
    for k, command in enumerate(commands):
        write_table(100 + 5 * k)
        assert main(command.split()) == 0, capsys.readouterr().err
        for name in re.findall(r"--questions (\S+)", command):
            fill_in(name)
    store = Decisions("decisions.jsonl")
    assert len(store) == 50
    assert {each.who for each in store} == {"Ada"}
    rows = {row["sku"]: row["tags"].split(";") for row in read_csv("cleaned.csv")}
    assert len(rows) == 135
    assert all((each.tag in rows[each.id]) == (each.answer == "right") for each in store)


def test_the_numbers_of_the_page():
    shares = nightly.ADVICE
    for words in (
        f"more than {shares['rows']:.0%} of the rows",
        f"more than {shares['tags']} (total variation",
        f"more than {shares['features']} standard",
        f"more than {shares['unseen_tags']:.0%} of the tags",
        f"needs at least {LEAST_ROWS} new rows",
        f"also be removed at {0.9 + 0.1 * nightly.MARGIN:.3f}",
        f"also be kept at {0.9 - 0.1 * nightly.MARGIN:.3f}",
    ):
        assert words in " ".join(PAGE.split())
