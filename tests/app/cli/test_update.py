"""Three nights: new and changed rows, new tags, answers of people, and a killed program."""

import csv
import json
import os
import re
import shutil
import subprocess
import sys

import pytest
from app.cli.clean_helpers import make_items, read_csv, refused

from schirn.app.cli import main
from schirn.app.workflow import Decision, Decisions, TagState
from schirn.app.workflow._tag_state import LEAST_ROWS

ITEMS = make_items(300, seed=4)
KILLED = """
import os, signal, sys
from schirn.app.workflow import TagState
from schirn.app.cli import main
TagState.write = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
main(sys.argv[1:])
"""


def write(path, numbers, changed=(), extra=()):
    """The rows of a night; some have another text or one more tag."""
    with open(path, "w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream)
        writer.writerow(["sku", "title", "tags"])
        for i in numbers:
            text, tags, _ = ITEMS[i]
            text = f"new {text}" if i in changed else text
            writer.writerow([f"S{i}", text, ";".join([*tags, *["neon"] * (i in extra)])])


def fill_in(path, answers=None):
    """Answer questions by the truth, or as told."""
    lines = read_csv(path)
    for line in lines:
        truth = line["tag"] not in ITEMS[int(line["id"][1:])][2]
        line["right"] = (answers or {}).get((line["id"], line["tag"]), "yes" if truth else "no")
    with open(path, "w", newline="", encoding="utf-8") as stream:
        writer = csv.DictWriter(stream, lines[0])
        writer.writeheader()
        writer.writerows(lines)
    return lines


def update(*words):
    fixed = ["items.csv", "--model", "m.schirn", "--id", "sku", "--decisions", "d.jsonl"]
    return main(["update", *fixed, "-o", "clean.csv", *words])


def removed():
    """Removed tags, as (id, tag)."""
    cells = ((row["sku"], row["tags_removed"].split(";")) for row in read_csv("clean.csv"))
    return {(sku, tag) for sku, tags in cells for tag in tags if tag}


def check_decisions():
    """Every answer about a row that is still there is followed; none is lost."""
    rows = {row["sku"]: row["tags"].split(";") for row in read_csv("clean.csv")}
    for each in Decisions("d.jsonl"):
        if each.id in rows and each.answer in ("right", "wrong"):
            assert (each.tag in rows[each.id]) == (each.answer == "right"), each


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("nights")
    write(folder / "items.csv", range(200))
    words = ["--text", "title", "--id", "sku", "-o", str(folder / "m.schirn")]
    assert main(["fit", str(folder / "items.csv"), *words]) == 0
    return folder


@pytest.fixture
def place(trained, tmp_path, monkeypatch):
    shutil.copytree(trained, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def first_night():
    """Fifty answers in two steps."""
    assert update("--questions", "q1.csv") == 0
    fill_in("q1.csv")
    assert update("--answers", "q1.csv", "--questions", "q2.csv", "--name", "Ada") == 0
    fill_in("q2.csv")
    assert update("--answers", "q2.csv", "--name", "Ada") == 0


def test_the_summary_of_the_first_answers(place, capsys):
    assert update("--questions", "q.csv", "--number", "5") == 0
    assert "removed     0\n" in capsys.readouterr().out
    rows = read_csv("q.csv")
    answers = {(row["id"], row["tag"]): "no" for row in rows[:1]}
    fill_in("q.csv", answers)
    assert update("--answers", "q.csv") == 0
    out = capsys.readouterr().out
    assert "new, 0 restored)" in out
    assert "more removals  none at a precision of 90%" in out
    # What has changed is listed, not only counted.
    (said,) = [key for key, answer in answers.items() if answer == "no"]
    listed = out.partition("Removed since last time\n")[2].splitlines()[2:]
    assert any(line.split()[0] == said[0] and line.split()[-1] == said[1] for line in listed)


def test_a_document_has_the_estimate_of_the_report(place, capsys):
    assert update("--json") == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["answers"], report["wrong_share"]) == (0, None)
    assert report["wrong_share_interval"] == [0, 1]
    first_night()
    capsys.readouterr()
    assert update() == 0
    text = capsys.readouterr().out
    assert update("--json") == 0
    report = json.loads(capsys.readouterr().out)
    low, high = report["wrong_share_interval"]
    assert report["answers"] == 50
    assert 0 < low < high < 1
    # Answers of many nights are not draws from tonight's table.
    assert report["wrong_share"] is None
    assert report["removed_share"] == report["removed"] / report["tags"] > 0
    assert report["target_precision"] == 0.9
    assert report["sentence"] in text


def test_three_nights(place, capsys):
    first_night()
    check_decisions()
    one = removed()
    wrong = {(f"S{i}", tag) for i in range(200) for tag in ITEMS[i][2]}
    assert len(one & wrong) > 0.9 * len(one) > 10
    assert len(Decisions("d.jsonl")) == 50
    capsys.readouterr()

    # The second night: rows 0 and 1 are gone, 100 are new, some have changed; the program dies.
    decided = [(each.id, each.answer) for each in Decisions("d.jsonl")]
    numbers = {answer: int(sku[1:]) for sku, answer in decided if int(sku[1:]) > 5}
    changed = {*numbers.values(), 7}
    write("items.csv", range(2, 300), changed=changed, extra=(250, 20))
    before = (place / "m.state.npz").read_bytes()
    words = ["update", "items.csv", "--model", "m.schirn", "--id", "sku"]
    words += ["--decisions", "d.jsonl", "-o", "clean.csv", "--json"]
    died = subprocess.run([sys.executable, "-c", KILLED, *words], env=os.environ)
    assert died.returncode == -9
    assert (place / "m.state.npz").read_bytes() == before
    assert update("--json", "--questions", "q3.csv") == 0
    report = json.loads(capsys.readouterr().out)
    assert report["rows"] == 298
    assert report["new_rows"] == 100
    assert report["changed_rows"] == len(changed)
    assert report["gone_rows"] == 2
    assert report["judged_rows"] == 100 + len(changed) + (20 not in changed)
    assert report["unseen_tags"] == {"neon": 2}
    assert report["decisions"] == 50
    assert any("of the rows are new" in reason for reason in report["advice"])
    check_decisions()
    two = removed()
    rows = {f"S{i}" for i in range(2, 200) if i not in changed}
    # No verdict on an old row flips: nobody has answered since.
    assert {cell for cell in two if cell[0] in rows} == {cell for cell in one if cell[0] in rows}
    assert any(cell[0] not in {f"S{i}" for i in range(200)} for cell in two)
    # What was answered about rows that have changed is asked again, first, with the old answer.
    asked = read_csv("q3.csv")
    again = report["decisions_to_ask_again"]
    assert again == sum(int(sku[1:]) in changed for sku, _ in decided)
    assert all(line["before"].startswith("Ada said ") for line in asked[:again])
    assert not any(line["before"] for line in asked[again:])

    # The third night: Bob says the opposite about one tag, and is unsure about another.
    said = {(line["id"], line["tag"]): "no" for line in asked[again : again + 1]}
    said[asked[-1]["id"], asked[-1]["tag"]] = "?"
    fill_in("q3.csv", said)
    assert update("--answers", "q3.csv", "--name", "Bob") == 0
    (opposite,) = [key for key, answer in said.items() if answer == "no"]
    fill_in("q3.csv", {opposite: "yes", **{k: v for k, v in said.items() if v == "?"}})
    assert update("--answers", "q3.csv", "--name", "Eve") == 0
    out = capsys.readouterr().out
    assert "1 contradicted by a later one, which counts" in out
    store = Decisions("d.jsonl")
    assert store.latest(*opposite).who == "Eve"
    assert store.latest(asked[-1]["id"], asked[-1]["tag"]).answer == "unsure"
    check_decisions()
    # The table as it was before the update has every cell that the copy has, besides tags.
    pairs = zip(read_csv("items.csv"), read_csv("clean.csv"), strict=True)
    assert all((a["sku"], a["title"]) == (b["sku"], b["title"]) for a, b in pairs)


def test_verdicts_count_as_old_once_answers_allowed_removals(place):
    """Too few answers to remove anything make later ones not count for less."""
    assert update("--questions", "q1.csv") == 0
    fill_in("q1.csv")
    assert update("--answers", "q1.csv", "--questions", "q2.csv") == 0
    assert not TagState.read("m.state.npz").has_limit
    fill_in("q2.csv")
    assert update("--answers", "q2.csv") == 0
    assert TagState.read("m.state.npz").has_limit
    few_first = removed()
    # The same answers on the first night.
    (place / "m.state.npz").unlink()
    words = ["--text", "title", "--id", "sku", "-o", "m.schirn"]
    assert main(["fit", "items.csv", *words]) == 0
    assert update() == 0
    assert removed() == few_first


def test_missing_tags_of_new_rows(place, capsys):
    rows = [{"sku": "S900", "title": ITEMS[0][0], "tags": "neon"}]
    with open("items.csv", "a", newline="", encoding="utf-8") as stream:
        csv.DictWriter(stream, rows[0]).writerows(rows)
    assert update("--json", "--suggest", "--questions", "q.csv") == 0
    report = json.loads(capsys.readouterr().out)
    tags = [tag for sku, tag, p in report["missing"] if p >= 0.5]
    assert {sku for sku, *_ in report["missing"]} == {"S900"}
    assert set(tags) & ({*ITEMS[0][1]} - ITEMS[0][2])
    assert read_csv("clean.csv")[-1]["tags_suggested"].split(";") == tags
    (line,) = read_csv("q.csv")
    assert (line["id"], line["tag"] in tags) == ("S900", True)
    line["right"] = "yes"
    with open("q.csv", "w", newline="", encoding="utf-8") as stream:
        writer = csv.DictWriter(stream, line)
        writer.writeheader()
        writer.writerow(line)
    # What a person called missing is added, tonight and later.
    for words in (["--answers", "q.csv"], []):
        assert update(*words) == 0
        assert line["tag"] in read_csv("clean.csv")[-1]["tags"].split(";")
        assert line["tag"] in read_csv("clean.csv")[-1]["tags_added"]
    out = capsys.readouterr().out
    assert "Likely to be missing" not in out or line["tag"] not in out.split("missing")[1]


def test_a_night_after_a_crash_is_as_without_it(place):
    first_night()
    write("items.csv", range(250))
    shutil.copytree(place, place / "other")
    words = ["update", "items.csv", "--model", "m.schirn", "--id", "sku", "--decisions", "d.jsonl"]
    command = [sys.executable, "-c", KILLED, *words, "-o", "clean.csv"]
    assert subprocess.run(command, env=os.environ).returncode == -9
    assert update() == 0
    after = removed()
    os.chdir("other")
    assert update() == 0
    assert removed() == after


def test_leftovers_are_deleted_and_a_second_update_is_refused(place, capsys):
    leftover, busy = place / ".0123abcd.part.clean.csv", place / ".89abcdef.part.clean.csv"
    leftover.write_text("half")
    fcntl = pytest.importorskip("fcntl")
    with busy.open("wb") as other, open("m.schirn", "rb") as model:
        fcntl.flock(other, fcntl.LOCK_EX)
        assert update() == 0
        assert (leftover.exists(), busy.exists()) == (False, True)
        fcntl.flock(model, fcntl.LOCK_EX)
        capsys.readouterr()
        assert update() == 2
        assert "another update with this model is running" in capsys.readouterr().err


def test_training_again_keeps_verdicts_and_learns_from_the_answers(place, capsys):
    first_night()
    one = removed()
    words = ["--text", "title", "--id", "sku", "--decisions", "d.jsonl", "-o", "m.schirn"]
    assert main(["fit", "items.csv", *words]) == 0
    assert "decisions: 50 carried over" in capsys.readouterr().err
    state = TagState.read("m.state.npz")
    cells = zip(state.row[state.removed], state.column[state.removed], strict=True)
    assert {(state.ids[i], state.names[j]) for i, j in cells} == one
    assert update() == 0
    check_decisions()
    flipped = one ^ removed()
    assert len(flipped) < 0.2 * len(one)


def test_an_answer_that_is_taken_back_no_longer_counts(place):
    first_night()
    store = Decisions("d.jsonl")
    wrong = next(each for each in store if each.answer == "wrong")
    right = next(each for each in store if each.answer == "right")
    for each, answer in ((wrong, "right"), (right, "open")):
        store.add([each._replace(answer=answer, when="")])
    assert update() == 0
    check_decisions()
    assert (wrong.id, wrong.tag) not in removed()
    assert len(Decisions("d.jsonl")) == 49


def test_another_model_judges_all_rows_again(place, capsys):
    assert update() == 0
    words = ["--text", "title", "-o", "m.schirn", "--param", "max_iter=1"]
    assert main(["fit", "items.csv", *words]) == 0
    capsys.readouterr()
    words = ["--model", "m.schirn", "--id", "sku", "--json"]
    assert main(["update", "items.csv", *words]) == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["judged_rows"], report["new_rows"]) == (200, 0)


@pytest.mark.parametrize("words", [[], ["--drop-training"]])
def test_the_state_of_another_model_is_recognised(place, capsys, words):
    (place / "expect.toml").write_text("[drift]\ngone_rows = 1\n")
    write("items.csv", range(60))
    assert update("--expect", "expect.toml") == 0
    write("items.csv", range(100, 200))
    lines = [{**line, "shop": "one two"} for line in read_csv("items.csv")]
    with open("items.csv", "w", newline="", encoding="utf-8") as stream:
        writer = csv.DictWriter(stream, lines[0])
        writer.writeheader()
        writer.writerows(lines)
    capsys.readouterr()
    assert main(["fit", "items.csv", "--text", "title,shop", "-o", "m.schirn", *words]) == 0
    err = capsys.readouterr().err
    assert "note: m.state.npz belongs to the previous model" in err
    assert ("has seen their tags" in err) == bool(words)
    assert update("--json", "--expect", "expect.toml") == 0
    out, err = capsys.readouterr()
    report = json.loads(out)
    assert "note: m.state.npz was written for another model: all rows are judged again" in err
    assert ("m.schirn does not contain its training rows" in err) == bool(words)
    # Nothing is known about the training of this model, and the old one does not count.
    assert (report["tag_drift"], report["feature_drift"], report["advice"]) == (0, None, [])
    assert update() == 0
    assert "another model" not in capsys.readouterr().err


def test_another_model_may_learn_from_other_columns(place, capsys):
    lines = [{**line, "shop": f"shop {k % 7}"} for k, line in enumerate(read_csv("items.csv"))]
    with open("items.csv", "w", newline="", encoding="utf-8") as stream:
        writer = csv.DictWriter(stream, lines[0])
        writer.writeheader()
        writer.writerows(lines)
    assert main(["fit", "items.csv", "--text", "title,shop", "-o", "m.schirn"]) == 0
    capsys.readouterr()
    assert update("--json") == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["changed_rows"], report["judged_rows"], report["doubts"]) == (0, 200, [])


def test_rows_that_are_as_in_training_are_not_new(place, capsys):
    nights = [
        {"numbers": range(200), "changed": range(60)},
        {"numbers": range(60, 200), "extra": range(60, 120)},
        {"numbers": range(200)},
    ]
    (place / "expect.toml").write_text("[drift]\ngone_rows = 0.5\n")
    advised = []
    for night in nights:
        write("items.csv", **night)
        assert update("--json", "--expect", "expect.toml") == 0
        advice = json.loads(capsys.readouterr().out)["advice"]
        advised.append([reason for reason in advice if "of the rows" in reason])
    words = "of the rows are new or have changed since training"
    assert advised == [[f"30% {words}"], [f"43% {words}"], []]
    assert not TagState.read("m.state.npz").is_fresh.any()


def test_without_a_state_nothing_is_known_about_training(place, capsys):
    (place / "m.state.npz").unlink()
    for _ in range(2):
        capsys.readouterr()
        assert update("--json") == 0
        assert json.loads(capsys.readouterr().out)["advice"] == []


def test_an_undo_lasts_if_it_is_kept(place, capsys):
    first_night()
    # A person undoes the list of the last night, and the table is again as it was.
    assert update("--changes", "c.csv") == 0
    one = removed()
    assert main(["apply", "c.csv", "items.csv", "-o", "applied.csv"]) == 0
    undo = ["undo", "c.csv", "applied.csv"]
    assert main([*undo, "-o", "items2.csv"]) == 0
    assert (place / "items2.csv").read_bytes() == (place / "items.csv").read_bytes()
    assert update() == 0
    assert removed() == one
    capsys.readouterr()
    keep = ["--keep", "d.jsonl", "--name", "Eve"]
    assert "add --output or --commit" in refused(capsys, *undo, *keep)
    assert main([*undo, "-o", "items2.csv", *keep]) == 0
    assert f"added {len(one)} decisions to d.jsonl" in capsys.readouterr().err
    assert update() == 0
    assert not removed() & one
    check_decisions()
    said = {(each.id, each.tag) for each in Decisions("d.jsonl") if each.who == "Eve"}
    assert said == one


def test_a_second_run_keeps_the_list_that_was_applied(place, capsys):
    first_night()
    start = (place / "items.csv").read_bytes()
    assert update("--changes", "c.csv") == 0
    listed = (place / "c.csv").read_bytes()
    assert main(["apply", "c.csv", "items.csv", "-o", "applied.csv"]) == 0
    os.replace("applied.csv", "items.csv")
    capsys.readouterr()
    assert update("--changes", "c.csv") == 0
    kept = "kept the previous list of changes, which differs, as c.csv.bak\n"
    assert kept in capsys.readouterr().err
    assert read_csv("c.csv") == []
    # A list without lines does not take the place of the one that is kept.
    assert update("--changes", "c.csv") == 0
    assert kept not in capsys.readouterr().err
    assert (place / "c.csv.bak").read_bytes() == listed
    os.replace("c.csv.bak", "c.csv")
    assert main(["undo", "c.csv", "items.csv", "-o", "undone.csv"]) == 0
    assert (place / "undone.csv").read_bytes() == start


def test_without_answers_nothing_is_removed(place, capsys):
    assert update() == 0
    assert removed() == set()
    assert "the number of wrong tags cannot be known" in capsys.readouterr().out


def test_expectations_stop_the_night(place, capsys):
    assert update() == 0
    write("items.csv", range(100, 300), extra=range(100, 300))
    (place / "expect.toml").write_text("[drift]\nnew_tags = 0\ntags = 0.05\nfeatures = 1\n")
    before = (place / "m.state.npz").read_bytes()
    capsys.readouterr()
    assert update("--expect", "expect.toml", "--json") == 4
    names = [each["name"] for each in json.loads(capsys.readouterr().out)["violations"]]
    assert names == ["drift.tags", "drift.new_tags", "drift.gone_rows"]
    assert (place / "m.state.npz").read_bytes() == before


def test_a_rejected_night_replaces_nothing(place, capsys):
    assert update("--changes", "c.csv", "--questions", "q.csv") == 0
    write("items.csv", range(60))
    (place / "expect.toml").write_text("[drift]\ngone_rows = 0.2\n")
    files = [place / name for name in ("clean.csv", "c.csv", "q.csv", "m.state.npz")]
    before = [path.read_bytes() for path in files]
    capsys.readouterr()
    words = ["--expect", "expect.toml", "--changes", "c.csv", "--questions", "q.csv"]
    assert update(*words, "--json") == 4
    out, err = capsys.readouterr()
    report = json.loads(out)
    assert (report["violations"][0]["name"], report["gone_share"]) == ("drift.gone_rows", 0.7)
    assert [report[name] for name in ("output", "changes", "questions", "state")] == [None] * 4
    sentence = "drift.gone_rows: 70.00%, limit 0.2 of the rows of the last run"
    assert f"schirn: {sentence}\n" in err
    assert (report["error"], report["exit_code"]) == (sentence, 4)
    assert update(*words, "--json", "--log-json") == 4
    out, err = capsys.readouterr()
    lines = [json.loads(line) for line in err.splitlines()]
    assert ("error", sentence) in [(line["level"], line["message"]) for line in lines]
    assert "are written: an expectation is not met" in err
    assert [path.read_bytes() for path in files] == before


def empty_titles(path):
    """Rewrite the table as a broken export would: no item has a title."""
    lines = [{**line, "title": " "} for line in read_csv(path)]
    with open(path, "w", newline="", encoding="utf-8") as stream:
        writer = csv.DictWriter(stream, lines[0])
        writer.writeheader()
        writer.writerows(lines)


@pytest.mark.parametrize("is_first", [False, True])
def test_an_emptied_column_stops_the_night(place, capsys, is_first):
    if not is_first:
        assert update() == 0
    empty_titles("items.csv")
    before = (place / "m.state.npz").read_bytes()
    capsys.readouterr()
    assert update() == 4
    err = capsys.readouterr().err
    assert "drift.emptied: 100.00%, limit 0.2; share of its values that the column 'title'" in err
    assert "drift.changed_rows: 100.00%, limit 0.5; share of the rows of the last run" in err
    assert "a file for --expect: drift = {changed_rows = 1, emptied = 1}\n" in err
    assert "train again" not in err
    assert (place / "m.state.npz").read_bytes() == before
    assert (place / "clean.csv").exists() is not is_first
    (place / "expect.toml").write_text("[drift]\nemptied = 1.0\nchanged_rows = 1.0\n")
    assert update("--expect", "expect.toml") == 0


def empty_tags(share):
    """Rewrite the table as a broken export would: the first rows have no tags."""
    lines = read_csv("items.csv")
    for line in lines[: int(share * len(lines))]:
        line["tags"] = ""
    with open("items.csv", "w", newline="", encoding="utf-8") as stream:
        writer = csv.DictWriter(stream, lines[0])
        writer.writeheader()
        writer.writerows(lines)


@pytest.mark.parametrize("is_first", [False, True])
def test_emptied_tags_stop_the_night(place, capsys, is_first):
    if not is_first:
        assert update() == 0
    empty_tags(0.6)
    before = (place / "m.state.npz").read_bytes()
    capsys.readouterr()
    assert update() == 4
    err = capsys.readouterr().err
    assert "drift.emptied: 60.00%, limit 0.2; share of its values that the column 'tags'" in err
    assert "drift.lost_tags: 60" in err
    assert (place / "m.state.npz").read_bytes() == before
    # New rows that nobody has tagged yet have lost nothing.
    lines = [f"N{i},{text}," for i, (text, _, _) in enumerate(ITEMS)]
    write(place / "items.csv", range(200))
    with open("items.csv", "a", encoding="utf-8") as stream:
        stream.write("\n".join(lines))
    assert update("--json") == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["emptied_share"], report["lost_share"], report["doubts"]) == (0, 0, [])


def test_lost_tags_stop_the_night(place, capsys):
    assert update() == 0
    empty_tags(0.4)
    (place / "expect.toml").write_text("[drift]\nlost_tags = 0.3\nemptied = 0.4\n")
    capsys.readouterr()
    assert update("--expect", "expect.toml", "--json") == 4
    report = json.loads(capsys.readouterr().out)
    assert report["emptied_share"] == 0.4
    assert 0.3 < report["lost_share"] < 0.5
    share = f"{report['lost_share']:.0%}"
    assert report["doubts"] == [f"{share} of the tags of last night's rows are gone"]
    assert [each["name"] for each in report["violations"]] == ["drift.lost_tags"]


def test_tags_that_were_removed_or_renamed_are_not_lost(place, capsys):
    first_night()
    n_removed = len(removed())
    assert n_removed > 10
    rows = [{name: row[name] for name in ("sku", "title", "tags")} for row in read_csv("clean.csv")]
    with open("items.csv", "w", newline="", encoding="utf-8") as stream:
        writer = csv.DictWriter(stream, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    tag = rows[0]["tags"].split(";")[0]
    (place / "rules.csv").write_text(f"action,tag,target,accept\nmerge,{tag},other,yes\n")
    capsys.readouterr()
    assert update("--vocabulary", "rules.csv", "--json") == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["lost_share"], report["tags"]) == (
        0,
        sum(len(r["tags"].split(";")) for r in rows),
    )


def test_the_clean_copy_may_replace_the_table_and_the_model_be_trained_again(place, capsys):
    first_night()
    n_removed = len(removed())
    capsys.readouterr()
    assert update("--json") == 0
    answers = json.loads(capsys.readouterr().out)["answers"]
    rows = [{name: row[name] for name in ("sku", "title", "tags")} for row in read_csv("clean.csv")]
    with open("items.csv", "w", newline="", encoding="utf-8") as stream:
        writer = csv.DictWriter(stream, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    for train in (False, True):
        if train:
            words = ["--text", "title", "--id", "sku", "-o", "m.schirn"]
            assert main(["fit", "items.csv", *words]) == 0
        capsys.readouterr()
        assert update("--json") == 0
        report = json.loads(capsys.readouterr().out)
        assert report["answers"] == answers
        assert TagState.read("m.state.npz").departed.sum() == n_removed
        assert train or report["removed"] == 0


def test_another_separator_is_refused(place, capsys):
    text = (place / "items.csv").read_text()
    (place / "items.csv").write_text(text.replace(";", "|"))
    before = (place / "m.state.npz").read_bytes()
    words = ("update", "items.csv", "--model", "m.schirn", "--id", "sku")
    err = refused(capsys, *words)
    assert "most cells of 'tags' contain '|' and none ';', the separator in training" in err
    assert (place / "m.state.npz").read_bytes() == before


def test_a_mark_that_tags_had_in_training_is_no_separator(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    lines = [f"S{i};{text};{tags[0]}, {i % 2}" for i, (text, tags, _) in enumerate(ITEMS)]
    (tmp_path / "a.csv").write_text("\n".join(["sku;title;tags", *lines]))
    read = ["a.csv", "--id", "sku", "--delimiter", ";"]
    words = ["--text", "title", "--separator", ";", "-o", "m.schirn"]
    assert main(["fit", *read, *words]) == 0
    capsys.readouterr()
    assert main(["update", *read, "--model", "m.schirn", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["unseen_tags"] == {}


def test_changed_rows_stop_the_night(place, capsys):
    assert update() == 0
    write("items.csv", range(200), changed=range(150))
    (place / "expect.toml").write_text("[drift]\nchanged_rows = 0.5\n")
    capsys.readouterr()
    assert update("--expect", "expect.toml", "--json") == 4
    report = json.loads(capsys.readouterr().out)
    assert report["changed_share"] == 0.75
    assert report["doubts"] == ["75% of last night's rows have changed"]
    assert [each["name"] for each in report["violations"]] == ["drift.changed_rows"]


def without_half(line, k):
    return None if k % 2 else line


def with_other_separator(line, k):
    return {**line, "tags": line["tags"].replace(";", "|")} if k % 2 else line


def with_one_joined_cell(line, k):
    tags = [tag for tag in dict.fromkeys(name for _, names, _ in ITEMS for name in names)]
    return {**line, "tags": " | ".join(tags[:2])} if k == 7 else line


@pytest.mark.parametrize(
    ("edit", "limits"),
    [
        (without_half, ["gone_rows = 1"]),
        (with_other_separator, ["lost_tags = 1", "joined_tags = "]),
        (with_one_joined_cell, ["joined_tags = 1"]),
    ],
)
def test_an_incomplete_export_stops_the_night_without_a_file(place, capsys, edit, limits):
    assert update() == 0
    before = (place / "m.state.npz").read_bytes()
    lines = filter(None, [edit(line, k) for k, line in enumerate(read_csv("items.csv"))])
    with open("items.csv", "w", newline="", encoding="utf-8") as stream:
        writer = csv.DictWriter(stream, ["sku", "title", "tags"])
        writer.writeheader()
        writer.writerows(lines)
    capsys.readouterr()
    assert update("--quiet") == 4
    err = capsys.readouterr().err
    assert err.count("schirn: drift.") == len(limits)
    hint = err.partition("allow it at the top of a file for --expect: ")[2].splitlines()[0]
    assert (place / "m.state.npz").read_bytes() == before
    assert update("--json") == 4
    names = [each["name"] for each in json.loads(capsys.readouterr().out)["violations"]]
    assert names == [f"drift.{limit.split()[0]}" for limit in limits]
    assert all(limit in hint for limit in limits)
    # What the hint says works as it is, and in a file that has the section already.
    (place / "expect.toml").write_text("[drift]\nnew_tags = 10_000\n")
    assert update("--quiet", "--expect", "expect.toml") == 4
    added = capsys.readouterr().err.partition("add to [drift] in expect.toml: ")[2].strip()
    assert added.split(" and ") == hint.removeprefix("drift = {").removesuffix("}").split(", ")
    (place / "expect.toml").write_text(f"{hint}\n[findings]\n")
    assert update("--expect", "expect.toml") == 0


def test_rows_that_lose_their_text_keep_their_verdicts(place, capsys):
    first_night()
    before = removed()
    lines = read_csv("items.csv")
    rows = sorted({sku for sku, _ in before})[:20]
    rows += [line["sku"] for line in lines if line["sku"] not in rows][:15]
    emptied = {sku: " " if k % 2 else "" for k, sku in enumerate(rows)}
    with open("items.csv", "w", newline="", encoding="utf-8") as stream:
        writer = csv.DictWriter(stream, lines[0])
        writer.writeheader()
        writer.writerows({**x, "title": emptied.get(x["sku"], x["title"])} for x in lines)
    for _ in range(2):
        capsys.readouterr()
        assert update("--json", "--questions", "q.csv", "--number", "200") == 0
        out, err = capsys.readouterr()
        words = "their tags are not judged, and earlier verdicts stay"
        assert f"note: {len(rows)} rows without text: {words}" in err
        report = json.loads(out)
        assert report["rows_without_features"] == len(rows) > LEAST_ROWS
        assert report["feature_drift"] is None
        verdicts = [{cell for cell in cells if cell[0] in emptied} for cells in (removed(), before)]
        assert verdicts[0] == verdicts[1]
        assert not {line["id"] for line in read_csv("q.csv")} & {*emptied}


def test_the_last_tag_of_a_row_is_counted_and_may_be_removed(place, capsys):
    lines = read_csv("items.csv")
    wrong = {f"S{i}": sorted(ITEMS[i][2])[0] for i in range(200) if ITEMS[i][2]}
    alone = [*wrong][:15]
    for line in lines:
        if line["sku"] in alone:
            line["tags"] = wrong[line["sku"]]
    with open("items.csv", "w", newline="", encoding="utf-8") as stream:
        writer = csv.DictWriter(stream, lines[0])
        writer.writeheader()
        writer.writerows(lines)
    first_night()
    capsys.readouterr()
    assert update() == 0
    assert "would be removed, but each row keeps one tag" in capsys.readouterr().out
    assert update("--json") == 0
    before = json.loads(capsys.readouterr().out)
    assert before["last_tags"] > 5
    assert update("--json", "--allow-empty") == 0
    after = json.loads(capsys.readouterr().out)
    assert after["last_tags"] == 0
    assert after["removed"] == before["removed"] + before["last_tags"]
    rows = {row["sku"]: row["tags"] for row in read_csv("clean.csv")}
    assert sum(not rows[sku] for sku in alone) >= before["last_tags"] - 1


def test_counts_of_a_document_agree_with_the_list_of_changes(place, capsys):
    assert update("--questions", "q.csv") == 0
    tags = [name for _, names, _ in ITEMS for name in names]
    line = read_csv("items.csv")[3]
    missing = next(tag for tag in tags if tag not in line["tags"].split(";"))
    wrong = read_csv("items.csv")[5]["tags"].split(";")[0]
    Decisions("d.jsonl").add([Decision("S3", missing, "right"), Decision("S5", wrong, "wrong")])
    old = line["tags"].split(";")[0]
    (place / "rules.csv").write_text(f"action,tag,target,accept\nmerge,{old},other,yes\n")
    capsys.readouterr()
    assert update("--json", "--changes", "c.csv", "--vocabulary", "rules.csv") == 0
    report = json.loads(capsys.readouterr().out)
    changes = [line["change"] for line in read_csv("c.csv")]
    assert report["n_changes"] == len(changes)
    assert (report["added"], report["removed"]) == (
        changes.count("addition"),
        changes.count("removal"),
    )
    assert (report["added"], report["removed"]) == (1, 1)
    assert report["n_changes"] > report["added"] + report["removed"]


def test_the_report_counts_a_tag_that_came_back(place, capsys):
    line = read_csv("items.csv")[3]
    tag = line["tags"].split(";")[0]
    Decisions("d.jsonl").add([Decision("S3", tag, "right")])
    assert update() == 0
    assert "\nadded " not in capsys.readouterr().out
    # Somebody deletes the tag that was called right.
    lines = read_csv("items.csv")
    lines[3]["tags"] = ";".join(line["tags"].split(";")[1:])
    with open("items.csv", "w", newline="", encoding="utf-8") as stream:
        writer = csv.DictWriter(stream, lines[0])
        writer.writeheader()
        writer.writerows(lines)
    assert update() == 0
    assert re.search(r"^added +1$", capsys.readouterr().out, re.M)
    check_decisions()


def test_restored_tags_stop_the_night(place, capsys):
    assert update("--questions", "q.csv") == 0
    lines = fill_in("q.csv")
    assert any(line["right"] == "no" for line in lines)
    assert update("--answers", "q.csv") == 0
    (place / "expect.toml").write_text("[drift]\nrestored = 0.5\n")
    store = Decisions("d.jsonl")
    wrong = [each for each in store if each.answer == "wrong"]
    store.add([each._replace(answer="right", when="") for each in wrong])
    before = (place / "m.state.npz").read_bytes()
    # What people call right is not restored by mistake.
    assert update("--expect", "expect.toml") == 0
    (place / "m.state.npz").write_bytes(before)
    store.add([each._replace(answer="open", when="") for each in wrong])
    capsys.readouterr()
    assert update("--expect", "expect.toml", "--json") == 4
    report = json.loads(capsys.readouterr().out)
    assert report["restored_share"] > 0.5
    assert [each["name"] for each in report["violations"]] == ["drift.restored"]


def test_new_questions_do_not_lose_answers(place, capsys):
    """One file for questions and answers, filled in while the job runs every night."""
    assert update("--questions", "ask.csv") == 0
    asked = [
        {**line, "right": "yes" if k < 10 else ""} for k, line in enumerate(fill_in("ask.csv"))
    ]
    said = {(line["id"], line["tag"]): line["right"] for line in asked}
    fill_in("ask.csv", said)
    capsys.readouterr()
    fixed = ["update", "items.csv", "--model", "m.schirn", "--id", "sku", "--questions", "ask.csv"]
    assert "ask.csv: has answers, which new questions would overwrite" in refused(capsys, *fixed)
    assert update("--questions", "ask.csv", "--name", "Ada") == 0
    assert "reading the answers in ask.csv" in capsys.readouterr().err
    assert {(each.id, each.tag) for each in Decisions("d.jsonl")} == {
        cell for cell, right in said.items() if right
    }
    new = fill_in("ask.csv")
    assert not {(line["id"], line["tag"]) for line in new} & {
        c for c, right in said.items() if right
    }
    assert update("--answers", "ask.csv", "--questions", "ask.csv") == 0
    assert len(Decisions("d.jsonl")) == 10 + len(new)
    # Nobody has filled it in since.
    assert update("--answers", "ask.csv", "--questions", "ask.csv") == 0
    assert len(Decisions("d.jsonl")) == 10 + len(new)


def test_what_changed_since_last_night_counts_changed_rows(place, capsys):
    first_night()
    one = removed()
    rows = sorted({int(sku[1:]) for sku, _ in one})[:10]
    write("items.csv", range(200), changed=rows)
    capsys.readouterr()
    assert update("--json") == 0
    report = json.loads(capsys.readouterr().out)
    pairs = [{tuple(cell) for cell in report[f"{name}_since"]} for name in ("removed", "restored")]
    assert pairs == [removed() - one, one - removed()]


def test_features_that_shift_are_seen(place, capsys):
    lines = read_csv("items.csv")
    with open("items.csv", "a", newline="", encoding="utf-8") as stream:
        for i in range(40):
            words = " ".join(["zebra", "quartz", f"w{i}", "fjord"])
            csv.writer(stream).writerow([f"T{i}", words, lines[i]["tags"]])
    assert update("--json") == 0
    report = json.loads(capsys.readouterr().out)
    assert report["feature_drift"] > 0.2
    assert any("the features have shifted by" in reason for reason in report["advice"])


def test_fit_suggests_the_update(place, capsys):
    words = ["--text", "title", "-o", "m.schirn"]
    assert main(["fit", "items.csv", *words, "--id", "sku"]) == 0
    assert "schirn update items.csv --model m.schirn --id sku" in capsys.readouterr().out


def test_what_cannot_be_updated_is_refused(place, capsys):
    model = ("update", "items.csv", "--model", "m.schirn", "--id")
    assert "no column 'sk'" in refused(capsys, *model, "sk")
    assert "--answers needs --decisions" in refused(capsys, *model, "sku", "--answers", "q.csv")
    assert "must end in .csv" in refused(capsys, *model, "sku", "--questions", "q.txt")
    for content in (b"{}\n", (place / "m.state.npz").read_bytes()[:-200]):
        (place / "m.state.npz").write_bytes(content)
        assert "not the state of an update, damaged" in refused(capsys, *model, "sku")
    (place / "m.state.npz").unlink()
    (place / "twice.csv").write_text("sku,title,tags\nA,x,dog\nA,y,dog\n")
    words = ("update", "twice.csv", "--model", "m.schirn", "--id", "sku")
    assert "the id 'A' occurs more than once" in refused(capsys, *words)
    (place / "other.csv").write_text("sku,text,tags\nA,x,dog\nB,y,dog\n")
    words = ("update", "other.csv", "--model", "m.schirn", "--id", "sku")
    assert "there is no column 'title', which m.schirn learned from" in refused(capsys, *words)
