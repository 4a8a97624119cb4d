"""What annotation tools write: read as tables, changed, and judged for these tools.

The files in `annotations/` were written by the tools themselves, see `annotations/write.py`.
"""

import csv
import json
from pathlib import Path

import pytest

from schirn.cli import main
from schirn.exceptions import DataError
from schirn.tables.files import open_table

FILES = Path(__file__).parent / "annotations"
NAMES = ("label_studio", "label_studio_min")


def read(path):
    return json.loads(Path(path).read_text())


def write(path, documents):
    path.write_text(json.dumps(documents))
    return path


def choices(tags, name="topics"):
    value = {"choices": tags}
    return {"from_name": name, "to_name": "text", "type": "choices", "value": value}


def task(*answers, text="a pan", **more):
    return {"data": {"text": text}, "annotations": [{"result": list(a)} for a in answers], **more}


@pytest.mark.parametrize("name", NAMES)
def test_files_of_the_tools_are_tables(name):
    table = open_table(FILES / f"{name}.json")
    assert table.tag_columns == ["topics"]
    tags = table.column("topics")
    assert all(isinstance(cell, list) and cell for cell in tags)
    assert {tag for cell in tags for tag in cell} == {"kitchen", "garden", "office", "lights"}
    assert table.column("text")[0] == "small steel pan with lid"
    assert table.numbers("price") is not None
    # Of several people, one row has the tags of all, apart from what was skipped.
    if name != "label_studio_min":
        assert tags[25] == ["office", "garden"]


@pytest.mark.parametrize("name", NAMES)
def test_a_copy_without_changes_is_the_same(name, tmp_path):
    table = open_table(FILES / f"{name}.json")
    table.write(str(tmp_path / "copy.json"), {"topics": table.column("topics")}, {})
    assert read(tmp_path / "copy.json") == read(FILES / f"{name}.json")


@pytest.mark.parametrize("name", NAMES)
def test_changes_are_applied_and_undone(name, tmp_path, capsys):
    source, changes = str(FILES / f"{name}.json"), str(tmp_path / "changes.csv")
    copy, back = str(tmp_path / "copy.json"), str(tmp_path / "back.json")
    orders = ["--remove", "8"]
    assert main(["clean", source, "--text", "text", *orders, "--changes", changes]) == 0
    with open(changes, newline="") as stream:
        removed = list(csv.DictReader(stream))
    assert len(removed) >= 7
    assert {line["column"] for line in removed} == {"topics"}
    assert main(["apply", changes, source, "-o", copy]) == 0
    before, after = open_table(source).column("topics"), open_table(copy).column("topics")
    gone = {int(line["row"]) - 1: line["before"] for line in removed}
    for i, tags in enumerate(before):
        assert after[i] == [tag for tag in tags if tag != gone.get(i)]
    assert main(["undo", changes, copy, "-o", back]) == 0
    assert read(back) == read(source)
    capsys.readouterr()


def test_clean_tags_of_label_studio_are_predictions(tmp_path, capsys):
    source, out = FILES / "label_studio.json", tmp_path / "tasks.json"
    argv = ["clean", str(source), "--text", "text", "--to", "label-studio", "-o", str(out)]
    assert main([*argv, "--remove", "8", "--json"]) == 0
    removed = json.loads(capsys.readouterr().out)["removed"]
    found = 0
    for before, after in zip(read(source), read(out), strict=True):
        # What people said is as it was.
        assert after["annotations"] == before["annotations"]
        (prediction,) = after["predictions"]
        assert prediction["model_version"] == "schirn Sieve"
        assert 0 <= prediction["score"] <= 1
        (result,) = prediction["result"]
        assert (result["from_name"], result["to_name"]) == ("topics", "text")
        assert result["type"] == "choices"
        listed = before["annotations"][0]["result"][0]["value"]["choices"]
        gone = after["data"]["topics_removed"]
        assert result["value"]["choices"] == [tag for tag in listed if tag not in gone]
        assert set(after["data"]["topics_confidence"]) == set(listed)
        found += len(gone)
        for tag in gone:
            assert prediction["score"] <= 1 - after["data"]["topics_confidence"][tag] + 1e-3
    assert found == removed > 0
    # The tasks can be judged again; the earlier verdict is replaced.
    tasks = read(out)
    for each in tasks:
        for key in ("topics_removed", "topics_confidence", "topics_note"):
            del each["data"][key]
    again = write(tmp_path / "again.json", tasks)
    argv = ["clean", str(again), "--text", "text", "--remove", "8", "--to", "label-studio"]
    assert main([*argv, "-o", str(tmp_path / "second.json")]) == 0
    assert read(tmp_path / "second.json") == read(out)
    assert not list(tmp_path.glob("*.xml"))


@pytest.fixture
def items(tmp_path):
    """The same rows as CSV."""
    table = open_table(FILES / "label_studio.json")
    with (tmp_path / "items.csv").open("w", newline="") as stream:
        lines = csv.writer(stream)
        lines.writerow(["id", "description", "tags"])
        for k, (text, tags) in enumerate(
            zip(table.column("text"), table.column("topics"), strict=True)
        ):
            lines.writerow([f"n{k}", text, ";".join(tags)])
    return str(tmp_path / "items.csv")


def test_rows_of_any_table_become_tasks(items, tmp_path, capsys):
    argv = ["clean", items, "--text", "description", "--suggest", "--remove", "8"]
    assert main([*argv, "--to", "label-studio", "-o", str(tmp_path / "tasks.json")]) == 0
    table = open_table(tmp_path / "tasks.json")
    # The verdicts are read back as tags if nobody has annotated the tasks.
    assert table.tag_columns == ["predictions.tags"]
    judged = table.column("predictions.tags")
    assert judged[25] == ["office"]
    assert read(tmp_path / "tasks.json")[25]["data"]["tags"] == "office;garden"
    config = (tmp_path / "tasks.config.xml").read_text()
    assert '<Text name="description" value="$description"/>' in config
    assert '<Choices name="tags" toName="description" choice="multiple">' in config
    assert '<Choice value="garden"/>' in config
    capsys.readouterr()


def test_where_predictions_cannot_be_written(items, capsys):
    assert main(["clean", items, "--to", "argilla"]) == 2
    assert "invalid choice: 'argilla'" in capsys.readouterr().err
    assert main(["clean", items, "--to", "label-studio"]) == 2
    assert "give a name in .json with --output" in capsys.readouterr().err


def test_a_model_learns_from_an_export(tmp_path, capsys):
    model = str(tmp_path / "m.schirn")
    assert main(["fit", str(FILES / "label_studio_min.json"), "--text", "text", "-o", model]) == 0
    assert "topics" not in capsys.readouterr().err
    out = str(tmp_path / "tagged.json")
    assert main(["predict", model, str(FILES / "label_studio.json"), "-o", out]) == 0
    assert read(out)[0]["data"]["topics_predicted"] == ["kitchen"]
    capsys.readouterr()


def test_tags_of_several_people(tmp_path):
    path = write(tmp_path / "t.json", [task([choices(["a", "b"])], [choices(["b", "c"])])])
    table = open_table(path)
    assert table.column("topics") == [["a", "b", "c"]]
    table.write(str(tmp_path / "c.json"), {"topics": [["b", "d"]]}, {})
    first, second = read(tmp_path / "c.json")[0]["annotations"]
    assert first["result"][0]["value"] == {"choices": ["b", "d"]}
    assert second["result"][0]["value"] == {"choices": ["b"]}


def test_tags_for_a_task_without_an_answer(tmp_path):
    tasks = [task([choices(["a"])]), task(), task([], text="b")]
    table = open_table(write(tmp_path / "t.json", tasks))
    assert table.column("topics") == [["a"], [], []]
    table.write(str(tmp_path / "c.json"), {"topics": [[], ["a"], ["a"]]}, {})
    assert open_table(tmp_path / "c.json").column("topics") == [[], ["a"], ["a"]]
    assert read(tmp_path / "c.json")[0]["annotations"][0]["result"] == []


def test_names_that_occur_twice(tmp_path):
    path = write(tmp_path / "t.json", [task([choices(["a"], name="text")])])
    table = open_table(path)
    assert table.column("text") == ["a pan"]
    assert table.column("annotations.text") == [["a"]]


def test_which_of_several_controls(tmp_path, capsys):
    both = [choices(["a"]), choices(["b"], name="colours")]
    path = write(tmp_path / "t.json", [task(both)] * 3)
    assert main(["clean", str(path), "--text", "text"]) == 2
    assert "which column holds the tags" in capsys.readouterr().err
    assert open_table(path).column("colours") == [["b"]] * 3


def test_choices_about_a_region_are_not_tags(tmp_path):
    region = choices(["a"])
    region["value"] |= {"start": 0, "end": 3}
    path = write(tmp_path / "t.json", [task([region, choices(["b"])])])
    assert open_table(path).column("topics") == [["b"]]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('[{"data": {"text": "a"}, "annotations": [', "not JSON, or truncated"),
        ("", "the file is empty"),
        ("{}", "must be a list of objects, one per row, not {}"),
        ('{"a": 1}\n{"a": 2}\n', "such a file must be called .jsonl"),
        ("[1, 2]", "entry 1 is not an object: 1"),
        ("[]", "the table has no rows"),
        ("[" * 100_000, "not JSON, or truncated"),
        (json.dumps([task([]), {"text": "b"}]), "entry 2 is not a task of Label Studio"),
        (json.dumps([task() | {"annotations": [3]}]), "entry 1 of annotations has no list"),
        (json.dumps([task() | {"annotations": [{"result": "x"}]}]), "task 1: entry 1 of annot"),
    ],
)
def test_files_that_no_tool_writes(tmp_path, content, message):
    (tmp_path / "t.json").write_text(content)
    with pytest.raises(DataError) as raised:
        open_table(tmp_path / "t.json")
    assert message in str(raised.value)
    assert "t.json: " in str(raised.value)


def test_plain_rows(tmp_path):
    rows = [{"a": 1, "tags": ["x"]}, {"a": 2.5, "note": "é\ud83d"}]
    with pytest.warns(UserWarning, match="object 2 holds half of a character"):
        table = open_table(write(tmp_path / "t.json", rows))
    assert table.columns == ["a", "tags", "note"]
    assert table.column("tags") == [["x"], None]
    table.write(str(tmp_path / "c.json.gz"), {"tags": [[], None]}, {"new": ["p", "q"]})
    with pytest.warns(UserWarning, match="half of a character"):
        copy = open_table(tmp_path / "c.json.gz")
    assert copy.column("tags") == [[], None]
    assert copy.column("new") == ["p", "q"]
    wide = tmp_path / "wide.json"
    wide.write_text('[{"tags": "ü"}]', encoding="utf-16")
    table = open_table(wide, encoding="utf-16")
    table.write(str(wide), {"tags": ["ö"]}, {})
    assert json.loads(wide.read_text(encoding="utf-16")) == [{"tags": "ö"}]


def test_nested_rows_are_not_tags(tmp_path, capsys):
    rows = [{"text": "a b c", "tags": {"x": [1]}}, {"text": "b c d", "tags": [["y"]]}]
    path = str(write(tmp_path / "t.json", rows))
    assert main(["clean", path, "--text", "text"]) == 2
    assert "row 1, column 'tags': {'x': [1]} is neither a text" in capsys.readouterr().err


def test_tasks_that_nobody_has_answered(tmp_path, capsys):
    tasks = [{"id": 1, "data": {"text": "hello", "extra": 1}}, {"data": {"text": "b"}, "more": 2}]
    path = write(tmp_path / "t.json", tasks)
    assert open_table(path).columns == ["id", "text", "extra"]
    assert main(["clean", str(path), "--text", "text"]) == 2
    assert "nobody has annotated a task" in capsys.readouterr().err
    choice = {
        "from_name": "topics",
        "to_name": "text",
        "type": "choices",
        "value": {"choices": ["a"]},
    }
    answered = [{**tasks[0], "annotations": [{"result": [choice]}]}, tasks[1]]
    assert open_table(write(tmp_path / "u.json", answered)).column("topics") == [["a"], []]
