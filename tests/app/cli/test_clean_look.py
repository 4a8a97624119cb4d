"""`schirn clean` looks at the table: findings, merges, --strict and --expect."""

import json
import re
from pathlib import Path

import pytest
from app.cli.clean_helpers import make_items, read_csv, refused, write_csv

from schirn.app.cli import main
from schirn.app.tables._changes import read_changes

METHOD = ("--method", "CandidateRidge")


@pytest.fixture
def source(tmp_path):
    """160 items: two odd spellings, two copies, an empty text and a tag in all rows."""
    items = [(text, ["item", *tags], wrong) for text, tags, wrong in make_items()]
    for i, tag, other in (
        (3, "Beach", "beach"),
        (5, "sunsets", "sunset"),
        (9, "sunsets", "sunset"),
    ):
        text, tags, wrong = items[i]
        items[i] = (text, [*(t for t in tags if t != other), tag], wrong)
    for i, text in ((20, items[21][0]), (30, items[31][0].upper()), (40, "")):
        items[i] = (text, *items[i][1:])
    return write_csv(tmp_path / "items.csv", items)


MERGES = "from,to\nsunsets,sunset\nBeach,beach\n"


def clean(source, *argv):
    return main(["clean", source, "--text", "description", *METHOD, *map(str, argv)])


def test_findings_are_in_the_summary(source, capsys):
    assert clean(source) == 0
    out, err = capsys.readouterr()
    section = out.partition("\nTable checks\n")[2].partition("\n\n")[0].splitlines()
    assert [line.split("  ")[0] for line in section] == [
        "spelling", "copies", "empty texts", "tags in all rows", "tags in one row",
    ]  # fmt: skip
    assert "1 tag looks like another spelling: Beach (1 row) → beach" in section[0]
    assert "2 rows are copies of earlier ones" in section[1]
    # Spellings come before questions, which would be about single spellings.
    steps = out.partition("\nFirst fix the names of tags")[2]
    command = "schirn vocabulary"
    assert 0 < steps.index(command) < steps.index("\nNext, answer questions")
    assert command not in err


def test_a_cell_with_another_separator_comes_with_advice(tmp_path, capsys):
    items = make_items()
    items[0] = (items[0][0], ["beach,dog"], set())
    assert clean(write_csv(tmp_path / "items.csv", items)) == 0
    out = capsys.readouterr().out
    assert "1 tag contains ',' between the names of other tags: 'beach,dog'" in out
    assert "\nReplace ',' with ';' where it separates tags, and run again.\n" in out


def test_a_placeholder_is_dropped_as_advised(tmp_path, capsys):
    items = [(text, ["N/A"] if i % 8 == 0 else tags, set())
             for i, (text, tags, _) in enumerate(make_items())]  # fmt: skip
    source = write_csv(tmp_path / "items.csv", items)
    assert clean(source) == 0
    out = capsys.readouterr().out
    assert "1 tag seems to mean that there is none: N/A (20 rows)" in out
    lines = re.search(r"the lines '(.+)' and '(.+)' as --vocabulary", out)
    vocabulary = tmp_path / "v.csv"
    vocabulary.write_text("\n".join(lines.groups()) + "\n")
    assert clean(source, "--vocabulary", vocabulary, "--json") == 0
    document = json.loads(capsys.readouterr().out)
    assert document["vocabulary"]["changes"] == 20
    assert "placeholders" not in {finding["kind"] for finding in document["findings"]}


def test_a_tagger_merges_as_in_training(source, tmp_path, capsys):
    merges, model, verdicts = (str(tmp_path / name) for name in ("m.csv", "m.schirn", "v.csv"))
    Path(merges).write_text(MERGES)
    learn = ["fit", source, "--text", "description", "--id", "id", "--vocabulary", merges]
    assert main([*learn, "-o", model]) == 0
    assert main(["predict", model, source, "--disambiguate", "-o", verdicts]) == 0
    err = capsys.readouterr().err
    assert "not seen in training" not in err
    lines = read_csv(verdicts)
    assert f"wrote {len(lines):,} tags of 160 rows" in err
    assert not {"sunsets", "Beach"} & {line["label"] for line in lines}
    night = ["update", source, "--model", model, "--id", "id", "-o", str(tmp_path / "c.csv")]
    assert main([*night, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["unseen_tags"] == {}


def test_findings_are_in_json_and_on_the_report(source, tmp_path, capsys):
    assert clean(source, "--json", "--report", tmp_path / "r.html") == 0
    document = json.loads(capsys.readouterr().out)
    kinds = {finding["kind"]: finding for finding in document["findings"]}
    assert kinds["empty_texts"]["rows"] == [41]
    assert kinds["spelling"]["tags"] == ["Beach"]
    assert document["violations"] == []
    page = (tmp_path / "r.html").read_text("utf-8")
    assert "Table checks" in page
    assert "Beach (1 row) → beach" in page


def test_a_table_without_findings_says_nothing(tmp_path, capsys):
    source = write_csv(tmp_path / "items.csv", make_items(40))
    assert clean(source, "--strict") == 0
    assert "Table checks" not in capsys.readouterr().out


def test_a_vocabulary_is_applied(source, tmp_path, capsys):
    merges, copy, changes = tmp_path / "m.csv", tmp_path / "c.csv", tmp_path / "changes.csv"
    merges.write_text(MERGES)
    order = ("--remove-below", 0.5)
    assert clean(source, "--vocabulary", merges, *order, "-o", copy, "--changes", changes) == 0
    out = capsys.readouterr().out
    assert "spelling" not in out.partition("Table checks")[2]
    assert re.search(r"\nvocabulary +2 lines changed 3 tags in 3 rows\n", out)
    merges.with_name("drop.csv").write_text("action,tag,accept\ndrop,use::TODO,yes\n")
    assert clean(source, "--vocabulary", merges.with_name("drop.csv")) == 0
    said = capsys.readouterr().out
    assert "1 line changed 0 tags in 0 rows; not in the table: use::TODO\n" in said
    before, after = read_csv(source), read_csv(copy)
    names = {
        tag for row in after for name in ("tags", "tags_removed") for tag in row[name].split(";")
    }
    assert names - {""} == {"item", "beach", "dog", "sunset", "city"}
    for old, new in zip(before, after, strict=True):
        merged = old["tags"].replace("sunsets", "sunset").replace("Beach", "beach").split(";")
        kept, removed = new["tags"].split(";"), filter(None, new["tags_removed"].split(";"))
        assert sorted([*kept, *removed]) == sorted(merged)
        assert {old[k] == new[k] for k in ("id", "description", "code")} == {True}
    assert sum(len(row["tags_removed"]) > 0 for row in after) > 10
    # The list of changes makes the same copy of the original, and is undone exactly.
    counts = read_changes(changes).counts()
    assert counts["rename"] + counts["merge"] > 0
    applied, undone = tmp_path / "a.csv", tmp_path / "u.csv"
    assert main(["apply", str(changes), source, "-o", str(applied)]) == 0
    assert [row["tags"] for row in read_csv(applied)] == [row["tags"] for row in after]
    assert main(["undo", str(changes), str(applied), "-o", str(undone)]) == 0
    assert undone.read_bytes() == (tmp_path / "items.csv").read_bytes()


def test_lists_of_tags_are_merged(tmp_path):
    source, merges, copy = (tmp_path / name for name in ("t.jsonl", "m.csv", "c.jsonl"))
    rows = [{"text": text, "tags": tags} for text, tags, _ in make_items(40)]
    rows[0]["tags"], rows[1]["tags"] = ["Dog", "beach", "dog"], ["Dog"]
    source.write_text("".join(json.dumps(row) + "\n" for row in rows))
    merges.write_text("Dog,dog\n")
    argv = ["clean", str(source), "--text", "text", *METHOD, "--vocabulary", str(merges)]
    assert main([*argv, "-o", str(copy)]) == 0
    found = [json.loads(line)["tags"] for line in copy.read_text().splitlines()]
    assert found == [["beach", "dog"], ["dog"], *(row["tags"] for row in rows[2:])]


def test_fit_merges_too(source, tmp_path, capsys):
    merges = tmp_path / "m.csv"
    merges.write_text("Beach,beach\nsunsets,sunset\n")
    model = tmp_path / "m.schirn"
    argv = ["fit", source, "--text", "description", *METHOD, "-o", str(model), "--json"]
    counts = []
    for more in ([], ["--vocabulary", str(merges)]):
        assert main([*argv, *more]) == 0
        counts.append(json.loads(capsys.readouterr().out)["labels"])
    assert counts == [7, 5]
    argv = ["fit", "digits_attributes", "-o", str(model), "--vocabulary", str(merges)]
    assert "--vocabulary needs a table" in refused(capsys, *argv)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("sunsets,sunset\nsunset,dusk\n", "'sunset', which is merged into 'dusk'"),
        ("sunsets,sunset\nsunset,sunsets\n", "lines 1 and 2: 'sunsets' is merged"),
        ("action,tag,target,accept\nimply,a,b,yes\nimply,b,a,yes\n", "lines 2 and 3: 'a' implies"),
    ],
)
def test_bad_merges_are_refused(source, tmp_path, capsys, text, words):
    merges = tmp_path / "m.csv"
    merges.write_text(text)
    for command in ("clean", "fit"):
        more = ("-o", str(tmp_path / "m.schirn")) if command == "fit" else ()
        argv = (command, source, "--text", "description", "--vocabulary", str(merges), *more)
        assert words in refused(capsys, *argv)


def test_strict_stops_before_judging(source, tmp_path, capsys):
    copy = tmp_path / "c.csv"
    assert clean(source, "--strict", "-o", copy) == 4
    out, err = capsys.readouterr()
    assert out == ""
    assert "schirn: findings.spelling: 1, limit 0; 1 tag looks like another spelling" in err
    assert "no tag was ranked" in err
    assert not copy.exists()


def test_strict_as_json(source, capsys):
    assert clean(source, "--strict", "--json") == 4
    document = json.loads(capsys.readouterr().out)
    assert "findings.copies" in {violation["name"] for violation in document["violations"]}
    assert "removed" not in document


def test_expectations_allow_findings(source, tmp_path, capsys):
    expect = tmp_path / "expect.toml"
    kinds = ("spelling", "copies", "empty_texts", "tags_in_all_rows")
    limits = "".join(f"{kind} = 2\n" for kind in (*kinds, "tags_in_one_row"))
    expect.write_text(f"[findings]\n{limits}")
    assert clean(source, "--strict", "--expect", expect) == 0
    expect.write_text(f"[findings]\n{limits}".replace("spelling = 2", "spelling = 0"))
    capsys.readouterr()
    assert clean(source, "--strict", "--expect", expect) == 4
    assert capsys.readouterr().err.count("findings.") == 1
    # Without --strict, the tags are ranked before the expectations are checked.
    assert clean(source, "--expect", expect, "-o", tmp_path / "copy.csv") == 4
    out, err = capsys.readouterr()
    assert "removed" in out
    assert "are written: an expectation is not met" in err
    assert not (tmp_path / "copy.csv").exists()


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["--expect", "no.toml"], "no.toml: there is no such file"),
        (["--vocabulary", "no.csv"], "no.csv: there is no such file"),
        (["--vocabulary", "m.csv", "--changes", "m.csv"], "is the input"),
        (["--vocabulary", "m.csv", "--implied", "perhaps"], "invalid choice"),
    ],
)
def test_bad_paths(source, tmp_path, capsys, monkeypatch, argv, words):
    monkeypatch.chdir(tmp_path)
    assert words in refused(capsys, "clean", "items.csv", "--text", "description", *argv)


@pytest.mark.parametrize("delimiter", [";", "\t", "|"])
def test_a_delimiter_that_is_evidently_another(tmp_path, capsys, delimiter):
    source = tmp_path / "t.csv"
    for text in ("a dog", "a dog, wet"):
        rows = (("id", "text", "tags"), ("1", text, "dog"), ("2", text, "dog"))
        source.write_text("".join(delimiter.join(row) + "\n" for row in rows))
        message = refused(capsys, "clean", str(source))
        assert f"separated by {delimiter!r}?" in message
        assert "(see --delimiter)" in message


def test_a_few_semicolons_do_not_hide_that_commas_separate_the_tags(tmp_path, capsys):
    source = write_csv(tmp_path / "items.csv", make_items(), separator=",")
    text = (tmp_path / "items.csv").read_text().replace("beach,dog", "beach;dog", 1)
    (tmp_path / "items.csv").write_text(text)
    message = refused(capsys, "clean", source, "--text", "description")
    assert "contain ',' and only 1 ';'" in message
    for command in ("clean", "vocabulary"):
        message = refused(capsys, command, source, "--text", "description", "--separator", "|")
        assert "contain ',' and none '|'" in message
    # Told to use it, the program does, and finds what it is.
    assert clean(source, "--separator", ";", "--strict") == 4
    assert "findings.separator" in capsys.readouterr().err
