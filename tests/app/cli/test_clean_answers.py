"""`schirn clean`: rank without claims, ask, take answers, remove by order."""

import csv
import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from app.cli.clean_helpers import make_items, read_csv, refused, write_csv

from schirn.app.cli import main
from schirn.cleaning import NoisyLabels


@pytest.fixture(scope="module")
def items():
    return make_items(300)


@pytest.fixture
def table(items, tmp_path):
    return write_csv(tmp_path / "items.csv", items)


def clean(table, *options):
    return main(["clean", table, "--text", "description", *map(str, options)])


def fill(path, items):
    """Answer all questions by the truth."""
    rows = read_csv(path)
    for row in rows:
        row["right"] = "no" if row["tag"] in items[int(row["row"]) - 1][2] else "yes"
    with path.open("w", newline="") as stream:
        writer = csv.DictWriter(stream, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return rows


def test_new_questions_do_not_overwrite_answers(items, table, tmp_path, capsys):
    path, words = tmp_path / "q.csv", ["--id", "id", "--decisions", tmp_path / "d.jsonl"]
    assert clean(table, "--questions", path, *words) == 0
    fill(path, items)
    before = path.read_bytes()
    for answers in ([], ["--answers", path]):
        assert clean(table, "--questions", path, *answers) == 2
        assert "has answers, which new questions would overwrite" in capsys.readouterr().err
    assert path.read_bytes() == before
    assert clean(table, "--questions", path, *words) == 0
    assert path.read_bytes() != before
    assert len((tmp_path / "d.jsonl").read_text("utf-8").splitlines()) == 25


def test_without_answers_nothing_is_removed_and_the_next_command_is_told(table, tmp_path, capsys):
    assert clean(table) == 0
    printed = capsys.readouterr().out
    assert "Most suspicious" in printed
    assert "similar rows have it" in printed
    assert "Without answers, the number of wrong tags cannot be known" in printed
    assert "Fifty answers take about five minutes" in printed
    assert f"schirn clean {table} --text description --questions q1.csv" in printed
    for word in ("expected", "trust", "certified", "precision"):
        assert word not in printed
    out = tmp_path / "cleaned.csv"
    assert clean(table, "-o", out, "--json") == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["removed"], document["wrong_share"], document["checked"]) == (0, None, True)
    assert document["wrong_share_interval"] == [0, 1]
    assert len(document["suspects"]) == 8
    assert [row["tags"] for row in read_csv(out)] == [row["tags"] for row in read_csv(table)]


def test_a_request_that_every_row_refuses_is_explained(items, tmp_path, capsys):
    one_tag_each = [(text, tags[:1], wrong) for text, tags, wrong in items]
    table = write_csv(tmp_path / "one.csv", one_tag_each)
    out = tmp_path / "out.csv"
    assert clean(table, "--remove", 3, "-o", out) == 0
    printed = capsys.readouterr().out
    assert "--remove 3 found no more, because every row keeps at least one tag" in printed
    assert clean(table, "--remove", 3, "--allow-empty", "-o", out) == 0
    printed = capsys.readouterr().out
    assert "removed            3 (" in printed
    assert "found no more" not in printed


def test_rows_are_named_by_id_or_numbered_from_one(table, items, tmp_path, capsys):
    rows = read_csv(table)

    def suspects(*words):
        capsys.readouterr()
        assert clean(table, "--json", *words) == 0
        return json.loads(capsys.readouterr().out)["suspects"]

    for suspect in suspects():
        assert suspect["label"] in rows[suspect["row"] - 1]["tags"].split(";")
        assert "id" not in suspect
    for suspect in suspects("--id", "id"):
        assert suspect["id"] == rows[suspect["row"] - 1]["id"]
    assert clean(table) == 0
    assert re.search(r"^ *row +text +tag +why", capsys.readouterr().out, re.MULTILINE)
    assert clean(table, "--id", "id") == 0
    printed = capsys.readouterr().out
    assert re.search(r"^ *id +text +tag +why", printed, re.MULTILINE)
    assert any(f"{suspect['id']} " in printed for suspect in suspects("--id", "id"))


def test_the_test_of_a_ranking_is_explained(table, capsys):
    assert clean(table) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert re.search(r"tags put on random rows as a test: \d+% of them are among", printed)
    assert "the most suspicious 10% (by chance, 10% would be)" in printed


def test_rows_with_a_repeated_id_are_numbered_everywhere(table, capsys):
    lines = Path(table).read_text("utf-8").splitlines()
    Path(table).write_text("\n".join([*lines, lines[1]]) + "\n", "utf-8")
    assert clean(table, "--id", "id") == 0
    printed, notes = capsys.readouterr()
    assert "the id '0000' occurs more than once; rows are numbered from 1" in notes
    assert re.search(r"^ *row +text +tag +why", printed, re.MULTILINE)
    # The next commands leave the useless option out.
    assert "--questions q1.csv" in printed
    assert "--id" not in printed
    assert clean(table, "--id", "id", "--json") == 0
    assert "id" not in json.loads(capsys.readouterr().out)["suspects"][0]


def test_a_weak_ranking_says_at_once_what_helps(table, tmp_path, capsys, monkeypatch):
    advice = "columns not used: description; try --text code,description"
    assert main(["clean", str(table), "--text", "code"]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert "few removals are likely unless very many tags are wrong" in printed
    assert advice in printed
    folder = str(tmp_path / "p")
    argv = ["review", str(table), "--text", "code", "--project", folder, "--terminal"]
    monkeypatch.setattr("builtins.input", lambda *_: "q")
    assert main(argv) == 0
    assert advice in capsys.readouterr().out
    assert main(["clean", str(table), "--text", "description"]) == 0
    assert "few removals are likely" not in " ".join(capsys.readouterr().out.split())


def test_columns_that_could_help_are_named_if_nothing_can_be_removed(table, tmp_path, capsys):
    path = tmp_path / "q.csv"
    argv = ["clean", str(table), "--text", "code", "--method", "CandidateRidge"]
    assert main([*argv, "--questions", str(path)]) == 0
    rows = read_csv(path)
    with path.open("w", newline="") as stream:
        writer = csv.DictWriter(stream, list(rows[0]))
        writer.writeheader()
        writer.writerows({**row, "right": "yes"} for row in rows)
    capsys.readouterr()
    assert main([*argv, "--answers", str(path)]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert "columns not used: description; try --text code,description" in printed
    # The advice holds without asking again, whether rows have ids or not.
    argv[3] = "code,description"
    for more in ([], ["--id", "id"]):
        assert main([*argv, "--answers", str(path), "--json", *more]) == 0
        assert json.loads(capsys.readouterr().out)["answers"] == len(rows)
    # The row itself must not have changed in the columns that were shown.
    content = Path(table).read_bytes()
    Path(table).write_bytes(content.replace(b",00", b",changed 00"))
    assert main([*argv, "--answers", str(path)]) == 2
    assert "has changed since" in capsys.readouterr().err


@pytest.mark.parametrize(("share", "is_chance"), [(0.07, True), (0.104, True), (0.2, False)])
def test_a_ranking_no_better_than_chance_is_called_so(
    table, tmp_path, capsys, monkeypatch, share, is_chance
):
    # How well a ranking does on a table without any signal is left to chance.
    monkeypatch.setattr(NoisyLabels, "planted_among_suspects", lambda ranking: share)
    report = tmp_path / "r.html"
    assert clean(table, "--report", report) == 0
    words = "10% would be, so this ranking is no better than chance"
    assert (words in " ".join(capsys.readouterr().out.split())) == is_chance
    assert (words in report.read_text("utf-8")) == is_chance


def test_the_whole_loop(table, items, tmp_path, capsys):
    first, second, out = (tmp_path / name for name in ("q1.csv", "q2.csv", "cleaned.csv"))
    assert clean(table, "--questions", first, "--id", "id") == 0
    assert f"--answers {first}" in capsys.readouterr().err
    rows = fill(first, items)
    assert list(rows[0]) == ["row", "id", "text", "tag", "other_tags", "right", "question"]
    assert len(rows) == 25
    assert [int(row["row"]) for row in rows] == sorted(int(row["row"]) for row in rows)
    assert clean(table, "--answers", first, "--questions", second, "--number", "30") == 0
    assert "Based on 25 answers, about" in capsys.readouterr().out
    assert len(fill(second, items)) == 30
    pages = ("--report", tmp_path / "r.html", "--changes", tmp_path / "c.csv")
    assert clean(table, "--answers", first, "--answers", second, "-o", out, *pages, "--json") == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["answers"], document["checked"]) == (55, True)
    low, high = document["wrong_share_interval"]
    n_wrong, n_tags = (sum(len(item[k]) for item in items) for k in (2, 1))
    assert low <= n_wrong / n_tags <= high
    removed = [set(filter(None, row["tags_removed"].split(";"))) for row in read_csv(out)]
    right = sum(len(gone & item[2]) for gone, item in zip(removed, items, strict=True))
    assert right >= 0.85 * sum(map(len, removed))
    assert right >= 0.3 * n_wrong
    assert "Based on 55 answers" in (tmp_path / "r.html").read_text("utf-8")
    assert len(read_csv(tmp_path / "c.csv")) == sum(map(len, removed))
    assert "tags_note" not in read_csv(out)[0]
    # The summary and the report count the removals at other targets alike.
    assert clean(table, "--answers", first, "--answers", second) == 0
    printed = " ".join(capsys.readouterr().out.split())
    targets = re.findall(r"(\d+%): ([\d,]+) in all \((\d+%) wrong\)", printed)
    assert targets
    report = (tmp_path / "r.html").read_text("utf-8")
    for target, count, share in targets:
        line = f'<tr><th scope="row">{target}</th><td>{count}</td><td>{share} ('
        assert line in report


def test_ordered_removals_are_not_checked_anywhere(table, tmp_path, capsys):
    out, page, changes = (tmp_path / name for name in ("c.csv", "r.html", "changes.csv"))
    options = ("-o", out, "--report", page, "--changes", changes)
    assert clean(table, "--remove", "12", *options) == 0
    assert "12 (" in (printed := capsys.readouterr().out)
    assert "not checked" in printed
    rows = read_csv(out)
    assert sum(len(row["tags_removed"].split(";")) for row in rows if row["tags_removed"]) == 12
    assert all((row["tags_note"] == "not checked") == bool(row["tags_removed"]) for row in rows)
    assert "not checked" in page.read_text("utf-8")
    assert all("not checked" in row["why"] for row in read_csv(changes))
    assert clean(table, "--remove-below", "0.3", "--json") == 0
    document = json.loads(capsys.readouterr().out)
    assert document["removed"] > 0
    assert not document["checked"]


def test_missing_tags_are_asked_and_added(items, tmp_path, capsys):
    rng = np.random.default_rng(0)
    dropped = [(t, [x for x in tags if x in wrong or rng.random() > 0.15], wrong)
               for t, tags, wrong in items]  # fmt: skip
    table, path, out = (
        write_csv(tmp_path / "t.csv", dropped),
        tmp_path / "q.csv",
        tmp_path / "c.csv",
    )
    assert clean(table, "--suggest", "--questions", path, "--number", "20") == 0
    rows = read_csv(path)
    for row in rows:
        _, tags, wrong = items[int(row["row"]) - 1]
        row["right"] = "yes" if row["tag"] in set(tags) - wrong else "no"
    with path.open("w", newline="") as stream:
        writer = csv.DictWriter(stream, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    assert clean(table, "--suggest", "--answers", path, "-o", out) == 0
    yes = {(row["row"], row["tag"]) for row in rows if row["right"] == "yes"}
    copy = read_csv(out)
    for number, tag in yes:
        assert tag in copy[int(number) - 1]["tags"].split(";")
        assert tag in copy[int(number) - 1]["tags_added"].split(";")
    assert "tags_suggested" in copy[0]
    assert clean(table, "--add", "0.8", "-o", tmp_path / "added.csv") == 0
    assert "not checked" in capsys.readouterr().out


def test_swaps_are_shown_with_suggestions(items, tmp_path, capsys):
    # Every fifth row lists "dog" instead of "beach".
    truth = [(text, [x for x in tags if x not in wrong], wrong) for text, tags, wrong in items]
    confused = [
        (text, ["dog" if i % 5 == 0 and x == "beach" else x for x in tags], wrong)
        for i, (text, tags, wrong) in enumerate(truth)
        if "dog" not in tags or i % 5
    ]
    table = write_csv(tmp_path / "t.csv", confused)
    assert clean(table, "--suggest", "--questions", tmp_path / "q.csv") == 0
    printed = capsys.readouterr().out
    assert "Possible swaps, not checked: 1 of 1 pair of tags" in printed
    assert printed.count("dog → beach") == 1
    assert clean(table, "--json") == 0
    swap = json.loads(capsys.readouterr().out)["swaps"][0]
    assert (swap["wrong"], swap["right"]) == ("dog", "beach")
    assert "beach" not in confused[swap["row"] - 1][1]
    assert clean(table) == 0
    assert "→" not in capsys.readouterr().out


def test_a_price_that_says_nothing_removes_nothing(items, tmp_path, capsys):
    frame = pd.read_csv(write_csv(tmp_path / "items.csv", items))
    frame["price"] = np.random.default_rng(0).lognormal(size=len(frame)).round(2)
    frame.drop(columns="code").to_csv(tmp_path / "items.csv", index=False)
    shop, out = str(tmp_path / "items.csv"), tmp_path / "cleaned.csv"
    argv = ["clean", shop, "--labels", "tags", "-o", str(out)]
    assert main([*argv, "--columns", "price"]) == 0
    assert [row["tags"] for row in read_csv(out)] == [row["tags"] for row in read_csv(shop)]
    assert {row["tags_removed"] for row in read_csv(out)} == {""}


def test_rows_are_not_left_without_tags_unless_asked(tmp_path, capsys):
    items = make_items(600)
    # Ten rows list wrong tags only.
    names = sorted({tag for _, tags, _ in items for tag in tags})
    broken = [
        (text, [t for t in names if t not in tags][:1], set()) if i < 10 else (text, tags, wrong)
        for i, (text, tags, wrong) in enumerate(items)
    ]
    source = write_csv(tmp_path / "items.csv", broken)
    argv = ["clean", source, "--text", "description", "--remove-below", "0.5", "-o"]
    for name, options in (("kept.csv", []), ("empty.csv", ["--allow-empty"])):
        assert main([*argv, str(tmp_path / name), *options]) == 0
    assert all(row["tags"] for row in read_csv(tmp_path / "kept.csv"))
    assert sum(not row["tags"] for row in read_csv(tmp_path / "empty.csv")) >= 5
    assert "left without tags" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--suggest"], "--suggest needs --questions to ask, or --output"),
        (["--certify"], "give their file with --questions"),
        (["--certify", "--questions", "q.csv"], "no tag is to be removed"),
        (["--remove", "3", "--remove-below", "0.5"], "only one of remove and remove_below"),
        (["--remove", "-1"], "--remove"),
        (["--remove-below", "2"], "from 0 to 1, not '2'"),
        (["--precision", "0"], "precision must be above 0"),
        (["--questions", "q.txt"], "must end in .csv"),
        (["--answers", "none.csv"], "no such file of answers; --questions writes one"),
    ],
)
def test_refused(table, options, words, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert words in refused(capsys, "clean", table, "--text", "description", *options)


def test_answers_that_remove_nothing_else_are_followed_by_a_next_step(table, tmp_path, capsys):
    questions = tmp_path / "q1.csv"
    assert clean(table, "--questions", questions) == 0
    rows = read_csv(questions)
    for k, row in enumerate(rows):
        row["right"] = "no" if k == 3 else "yes"
    with questions.open("w", newline="") as stream:
        writer = csv.DictWriter(stream, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    capsys.readouterr()
    report = tmp_path / "r.html"
    copy = tmp_path / "out.csv"
    assert clean(table, "--answers", questions, "-o", copy, "--report", report) == 0
    printed = capsys.readouterr().out
    assert "nor at lower ones down to 50%; answer more, decide frequent tags by rule, or" in printed
    assert "Next, answer more questions:" in printed
    assert "--questions q2.csv" in printed
    assert re.search(r"left out +code\n", printed)
    page = report.read_text("utf-8")
    assert "no target down to 50% would remove others: answer more" in page
