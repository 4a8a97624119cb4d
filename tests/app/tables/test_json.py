"""Tables in lists of JSON objects."""

import json

import pytest

from schirn.app.cli import main
from schirn.app.tables._files import open_table
from schirn.exceptions import DataError


def write(path, documents):
    path.write_text(json.dumps(documents))
    return path


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('[{"text": "a", "tags": [', "not JSON, or truncated"),
        ("", "the file is empty"),
        ("{}", "must be a list of objects, one per row, not {}"),
        ('{"a": 1}\n{"a": 2}\n', "such a file must be called .jsonl"),
        ("[1, 2]", "entry 1 is not an object: 1"),
        ("[]", "the table has no rows"),
        ("[" * 100_000, "not JSON, or truncated"),
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
