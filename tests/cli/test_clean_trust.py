import json

import numpy as np
import pandas as pd
import pytest
from cli.clean_helpers import make_items, read_csv, refused, write_csv

from schirn.cli import main
from schirn.datasets import load_digits_attributes


@pytest.fixture(scope="module")
def items():
    return make_items()


@pytest.fixture
def shop(items, tmp_path):
    """A table whose only numbers say nothing about the tags."""
    table = pd.read_csv(write_csv(tmp_path / "items.csv", items))
    table["price"] = np.random.default_rng(0).lognormal(size=len(table)).round(2)
    table.drop(columns="code").to_csv(tmp_path / "items.csv", index=False)
    return str(tmp_path / "items.csv")


def test_the_summary_and_the_report_say_how_far_to_trust(items, tmp_path, capsys):
    source, page = write_csv(tmp_path / "items.csv", items), tmp_path / "report.html"
    argv = ["clean", source, "--text", "description"]
    assert main([*argv, "--report", str(page)]) == 0
    printed = capsys.readouterr().out
    assert "How far to trust this" in printed
    assert "expected precision" in printed
    assert "planted wrong tags" in printed
    html = page.read_text("utf-8")
    assert "How far to trust this: <b>good</b>" in html
    assert main([*argv, "--json"]) == 0
    trust = json.loads(capsys.readouterr().out)["trust"]
    assert trust["level"] == "good"
    assert trust["caught"] > 0.9 > trust["flagged"]
    assert {label["name"] for label in trust["labels"]} == {t for _, tags, _ in items for t in tags}


def test_a_price_that_says_nothing_removes_nothing(shop, tmp_path, capsys):
    out = tmp_path / "cleaned.csv"
    argv = ["clean", shop, "--labels", "tags", "-o", str(out)]
    assert "learn from the text in 'description', or the numbers in price?" in refused(
        capsys, *argv
    )
    assert main([*argv, "--columns", "price"]) == 0
    printed = capsys.readouterr().out
    assert "Learn from other columns, from texts" in " ".join(printed.split())
    assert [row["tags"] for row in read_csv(out)] == [row["tags"] for row in read_csv(shop)]
    assert {row["tags_removed"] for row in read_csv(out)} == {""}


def test_the_precision_decides_what_is_removed(tmp_path, capsys):
    digits = load_digits_attributes(r=2).subset(range(300))
    np.save(tmp_path / "x.npy", digits.X)
    names = np.array(digits.label_names)
    tags = [";".join(names[row == 1]) for row in digits.candidates]
    pd.DataFrame({"tags": tags}).to_csv(tmp_path / "t.csv", index=False)
    argv = ["clean", str(tmp_path / "t.csv"), "--features", str(tmp_path / "x.npy"), "--json"]
    argv += ["--method", "CandidateRidge"]

    def report(*options):
        assert main([*argv, *options]) == 0
        return json.loads(capsys.readouterr().out)

    every, some, few = (report("--precision", p) for p in ("0", "0.7", "1"))
    assert every["removed"] >= some["removed"] >= few["removed"]
    assert every["removed"] > few["removed"]
    assert every["held_back"] == 0 < few["held_back"]
    assert "from 0 to 1, not '2'" in refused(capsys, *argv, "--precision", "2")


def test_rows_are_not_left_without_tags_unless_asked(tmp_path, capsys):
    items = make_items(600)
    # Ten rows list wrong tags only.
    names = sorted({tag for _, tags, _ in items for tag in tags})
    broken = [
        (text, [t for t in names if t not in tags][:1], set()) if i < 10 else (text, tags, wrong)
        for i, (text, tags, wrong) in enumerate(items)
    ]
    source = write_csv(tmp_path / "items.csv", broken)
    argv = ["clean", source, "--text", "description", "-o"]
    for name, options in (("kept.csv", []), ("empty.csv", ["--allow-empty"])):
        assert main([*argv, str(tmp_path / name), *options]) == 0
    assert all(row["tags"] for row in read_csv(tmp_path / "kept.csv"))
    assert sum(not row["tags"] for row in read_csv(tmp_path / "empty.csv")) >= 5
    assert "left without tags" in capsys.readouterr().out


def test_a_table_that_would_lose_most_tags_is_not_written(items, tmp_path, capsys):
    source, out = write_csv(tmp_path / "items.csv", items), tmp_path / "cleaned.csv"
    argv = ["clean", source, "--text", "description", "-o", str(out)]
    argv += ["--precision", "0", "--keep-threshold", "1", "--allow-empty"]
    words = refused(capsys, *argv)
    assert "would lose" in words
    assert "--force" in words
    assert not out.exists()
    assert main([*argv, "--force"]) == 0
    assert sum(not row["tags"] for row in read_csv(out)) > 10
