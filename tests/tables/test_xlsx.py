"""Workbooks: read, written back with their other sheets, and damaged."""

import zipfile

import pytest

from schirn.datasets import load
from schirn.exceptions import DataError
from schirn.tables.files import open_table

openpyxl = pytest.importorskip("openpyxl", reason="openpyxl is not installed")


def workbook(path, rows, **cells):
    book = openpyxl.Workbook()
    for row in rows:
        book.active.append(row)
    for place, value in cells.items():
        book.active[place] = value
    book.create_sheet("notes")["A1"] = "=1+1"
    book.save(path)
    return path


ROWS = [
    ["title", "price", "tags"],
    ["red pan", 3.5, "pan;oven"],
    ["chair", 80, "chair"],
    ["x", None, None],
]


def test_cells_keep_their_types(tmp_path):
    opened = open_table(workbook(tmp_path / "t.xlsx", ROWS))
    assert opened.columns == ROWS[0]
    assert opened.column("tags") == ["pan;oven", "chair", None]
    assert opened.column("price") == [3.5, 80, None]
    assert opened.numbers("price").tolist()[:2] == [3.5, 80.0]
    assert opened.numbers("title") is None


def test_a_copy_keeps_formats_formulas_and_other_sheets(tmp_path):
    source = workbook(tmp_path / "t.xlsx", ROWS, D1="twice", D2="=B2*2")
    book = openpyxl.load_workbook(source)
    book.active["A2"].font = openpyxl.styles.Font(bold=True)
    book.save(source)
    opened = open_table(source)
    clean = ["pan", "chair", None]
    opened.write(str(tmp_path / "c.xlsx"), {"tags": clean}, {"tags_removed": ["oven", "", "=1"]})
    copy = openpyxl.load_workbook(tmp_path / "c.xlsx")
    assert copy.active["A2"].font.bold
    assert copy.active["D2"].value == "=B2*2"
    assert copy["notes"]["A1"].value == "=1+1"
    assert [cell.value for cell in copy.active["C"]] == ["tags", *clean]
    # A tag that looks like a formula is text.
    assert copy.active["E4"].value == "=1"
    assert copy.active["E4"].data_type == "s"
    assert open_table(tmp_path / "c.xlsx").column("tags") == clean


def test_a_workbook_is_a_data_set(tmp_path):
    data = load(workbook(tmp_path / "t.xlsx", ROWS[:3]))
    assert data.feature_names == ["price"]
    assert data.candidates.tolist() == [[0, 1, 1], [1, 0, 0]]


def test_empty_rows_and_columns(tmp_path):
    rows = [["a", None, "b"], [1, None, 2], [None, None, None], [3, 5, 4], [None], [None]]
    opened = open_table(workbook(tmp_path / "t.xlsx", rows))
    assert opened.columns == ["a", "", "b"]
    assert opened.column("b") == [2, None, 4]


def test_workbooks_that_cannot_be_read(tmp_path):
    path = tmp_path / "t.xlsx"
    with pytest.raises(DataError, match="3 columns are called 'a'"):
        open_table(workbook(path, [["a", "a", "a"], [1, 2, 3]]))
    with pytest.raises(DataError, match="the table has no rows"):
        open_table(workbook(path, [["a", "b"]]))
    whole = path.read_bytes()
    for content in (b"PK", whole[:200], whole[:-60], b"a,b\n1,2\n"):
        path.write_bytes(content)
        with pytest.raises(DataError, match=r"t\.xlsx: not a readable \.xlsx file"):
            open_table(path)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("other.txt", "no workbook")
    with pytest.raises(DataError, match=r"t\.xlsx: not a readable \.xlsx file"):
        open_table(path)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("xl/workbook.xml", " " * 1_000_000)
    with pytest.raises(DataError, match="more than max_bytes=10,000"):
        open_table(path, max_bytes=10_000)


def test_a_character_that_no_workbook_holds(tmp_path):
    opened = open_table(workbook(tmp_path / "t.xlsx", ROWS))
    with pytest.raises(DataError, match=r"row 1: 'a\\x01' cannot be written"):
        opened.write(str(tmp_path / "c.xlsx"), {"tags": ["a\x01", None, None]}, {})
    assert not (tmp_path / "c.xlsx").exists()
