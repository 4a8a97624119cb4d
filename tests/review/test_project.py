import json

import pytest
from review.review_helpers import write_project

from schirn.exceptions import DataError
from schirn.review import open_session
from schirn.review.project import read_project

TABLE = {"file": "table.csv", "column": "tags", "separator": ";"}


def test_reads_items_and_tags(folder):
    project = read_project(folder)
    assert [item.id for item in project.items] == ["a", "b", "c"]
    assert [project.labels[j] for j in project.column[3:]] == ["cat", "dog", "beach"]
    assert project.start.tolist() == [0, 3, 4, 6]
    assert project.confidence.tolist() == [0.52, 0.1, 0.95, 0.49, 0.4, 0.2]
    assert project.kept.tolist() == [True, False, True, False, False, False]


def test_an_item_may_have_no_tags(tmp_path):
    items = [("a", "", {}), ("b", "", {"x": 0.5}), ("c", "", {})]
    assert read_project(write_project(tmp_path / "p", items, ["x"])).start.tolist() == [0, 0, 1, 1]


def sentence(folder):
    with pytest.raises(DataError) as caught:
        read_project(folder)
    text = str(caught.value)
    assert "\n" not in text
    return text


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"format": "other"}, "the format is 'other'"),
        ({"version": 3}, "the version is 3, but this program reads versions 1 and 2"),
        ({"version": True}, "the version is True"),
        ({"table": "table.csv"}, "'table' does not describe a table"),
        ({"table": {"column": "tags"}}, "'table' does not describe a table"),
        ({"table": {**TABLE, "file": "../table.csv"}}, "'table' does not describe a table"),
        ({"table": {**TABLE, "file": "table./../x"}}, "'table' does not describe a table"),
        ({"table": {**TABLE, "separator": ""}}, "'table' does not describe a table"),
        ({"table": {**TABLE, "image": 3}}, "'table' does not describe a table"),
        ({"table": TABLE}, "table.csv: the table is missing"),
        ({"labels": "dog"}, "'labels' must be a list"),
        ({"labels": ["dog", "dog"]}, "'dog' is listed twice"),
        ({"labels": ["dog", "cat"]}, "line 1: the tag 'beach' is not among the labels"),
        ({"precision": 1.5}, "not 1.5"),
        ({"precision": True}, "not True"),
        ({"n_items": 4}, "3 items, but project.json announces 4"),
        ({"features": "../secret.npz"}, "must name a file in the folder"),
        ({"features": "gone.npz"}, "the features are missing"),
        ({"precision": 2}, "'precision' must be null or a number from 0 to 1, not 2"),
        ({"precision": "high"}, "'precision' must be"),
    ],
)
def test_damaged_head(folder, change, says):
    path = folder / "project.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    assert says in sentence(folder)


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("{", "not valid JSON lines"),
        ("[1]", "line 4: not an item"),
        ('{"id": "a", "tags": []}', "line 4: the id 'a' occurs twice"),
        ('{"id": "d", "tags": 1}', "'tags' must be a list, not 1"),
        ('{"id": "d", "tags": [{"label": ["x"]}]}', "is not among the labels"),
        ('{"id": "d", "tags": [{"label": "dog", "confidence": NaN, "kept": true}]}', "nan"),
        ('{"id": "d", "tags": [{"label": "dog", "confidence": 1, "kept": 1}]}', "'kept'"),
        (
            json.dumps({"id": "d", "tags": [{"label": "dog", "confidence": 1, "kept": True}] * 2}),
            "the item 'd' has the same tag twice",
        ),
        ('{"id": "d", "tags": [], "suggested": 1}', "'suggested' must be a list, not 1"),
        ('{"id": "d", "tags": [], "suggested": [{"label": "sea"}]}', "not among the labels"),
        ('{"id": "d", "tags": [], "suggested": [{"label": "dog"}]}', "needs a 'confidence'"),
        (
            '{"id": "d", "tags": [{"label": "dog", "confidence": 1, "kept": true}], '
            '"suggested": [{"label": "dog", "confidence": 1}]}',
            "the item 'd' has the same tag twice",
        ),
    ],
)
def test_damaged_items(folder, line, says):
    with (folder / "items.jsonl").open("a") as stream:
        stream.write(line)
    assert says in sentence(folder)


def test_foreign_folders(tmp_path, folder):
    assert "schirn clean" in sentence(tmp_path)
    (folder / "items.jsonl").unlink()
    assert "items.jsonl: the file is missing" in sentence(folder)
    (folder / "project.json").write_bytes(b"\xff\xfe")
    assert "not valid JSON" in sentence(folder)
    assert "nothing to review" in sentence(write_project(tmp_path / "n", [("a", "", {})], ["x"]))


def test_empty_lines_are_no_items(folder):
    path = folder / "items.jsonl"
    expected = read_project(folder)
    path.write_text("\n" + path.read_text("utf-8").replace("\n", "\n  \n"), "utf-8")
    found = read_project(folder)
    assert found.items == expected.items
    assert found.confidence.tolist() == expected.confidence.tolist()
    lines = path.read_text("utf-8").splitlines()
    path.write_text("\n".join([*lines, "{"]), "utf-8")
    with pytest.raises(DataError, match=r"items\.jsonl"):
        read_project(folder)


def test_half_of_a_surrogate_pair_is_repaired(tmp_path):
    items = [("a\ud83d", "half \ud83d", {"x\ud83d": 0.4})]
    project = read_project(write_project(tmp_path / "p", items, ["x\ud83d"]))
    assert (project.labels, project.items[0]) == (["x\ufffd"], ("a\ufffd", "half \ufffd"))
    json.dumps(open_session(tmp_path / "p", write=False).view(), ensure_ascii=False).encode()
