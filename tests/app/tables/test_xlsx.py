"""Workbooks: read, written back with their other sheets, and damaged."""

import re
import zipfile

import pytest

from schirn.app.cli import main
from schirn.app.tables._files import open_table
from schirn.cleaning import Change, ChangeList
from schirn.datasets import load
from schirn.exceptions import DataError

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


def test_results_of_formulas_and_formats_of_texts_stay(tmp_path):
    source, copy, back = (tmp_path / f"{name}.xlsx" for name in ("t", "c", "b"))
    workbook(source, ROWS, D1="twice", D2="=B2*2")
    # As a spreadsheet saves it: with the last result, and with a word in bold.
    with zipfile.ZipFile(source) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    name = "xl/worksheets/sheet1.xml"
    bold = "<is><r><rPr><b/></rPr><t>oak</t></r><r><t> chair</t></r></is>"
    sheet = re.sub(r"(<f>B2\*2</f>)<v ?/?>(</v>)?", r"\1<v>7</v>", parts[name].decode())
    sheet = re.sub(r'<c r="A3"[^>]*>.*?</c>', f'<c r="A3" t="inlineStr">{bold}</c>', sheet)
    parts[name] = sheet.encode()
    with zipfile.ZipFile(source, "w") as archive:
        for part, content in parts.items():
            archive.writestr(part, content)
    opened = open_table(source)
    assert opened.column("twice")[0] == 7
    opened.write(
        str(copy), {"tags": ["pan", None, "a & <b>\r\n"]}, {"tags_removed": ["oven", "", ""]}
    )
    after = open_table(copy)
    assert after.column("twice")[0] == 7
    assert after.column("tags") == ["pan", None, "a & <b>\r\n"]
    with zipfile.ZipFile(copy) as archive:
        assert bold in archive.read(name).decode()
        assert {part: archive.read(part) for part in parts if part != name} == {
            part: content for part, content in parts.items() if part != name
        }
    after.write(str(back), {"tags": opened.column("tags")}, {})
    assert open_table(back).column("tags") == opened.column("tags")


def test_a_formula_is_not_replaced(tmp_path):
    source = workbook(tmp_path / "t.xlsx", ROWS, C2='="pan"&";oven"')
    opened = open_table(source)
    with pytest.raises(DataError, match="the cell C2 is a formula, so its tags cannot be changed"):
        opened.write(str(tmp_path / "c.xlsx"), {"tags": ["pan", "chair", None]}, {})
    assert not (tmp_path / "c.xlsx").exists()


def test_a_row_that_loses_all_tags_gets_them_back(tmp_path, capsys):
    source, done, back = (str(tmp_path / f"{name}.xlsx") for name in ("t", "c", "b"))
    opened = open_table(workbook(source, [*ROWS, ["y", 1, "@dog;pan"]]))
    changes = [Change(1, "removal", "chair", ""), Change(3, "removal", "pan", "")]
    changes.append(Change(2, "addition", "", "=x"))
    made = ChangeList.from_cells(opened.column("tags"), changes)
    made.write(tmp_path / "c.csv")
    assert main(["apply", str(tmp_path / "c.csv"), source, "-o", done]) == 0
    # In a workbook, text is text.
    assert open_table(done).column("tags") == ["pan;oven", None, "=x", "@dog"]
    assert main(["undo", str(tmp_path / "c.csv"), done, "-o", back]) == 0
    assert open_table(back).column("tags") == opened.column("tags")


def test_a_workbook_is_a_data_set(tmp_path):
    data = load(workbook(tmp_path / "t.xlsx", ROWS[:3]))
    assert data.feature_names == ["price"]
    assert data.candidates.tolist() == [[0, 1, 1], [1, 0, 0]]


def test_empty_rows_and_columns(tmp_path):
    rows = [["a", None, "b"], [1, None, 2], [None, None, None], [3, 5, 4], [None], [None]]
    opened = open_table(workbook(tmp_path / "t.xlsx", rows))
    assert opened.columns == ["a", "", "b"]
    assert opened.column("b") == [2, None, 4]


@pytest.mark.parametrize("part", ["xl/worksheets/sheet1.xml", "xl/styles.xml", "_rels/.rels"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_document_types_are_refused_in_every_part(tmp_path, part, encoding):
    source = workbook(tmp_path / "t.xlsx", ROWS)
    declared = '<!-- x --><!DOCTYPE x [<!ENTITY e SYSTEM "file:///etc/passwd">]>'
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(tmp_path / "e.xlsx", "w") as new:
        for entry in old.infolist():
            text = re.sub(r"^<\?xml.*?\?>", "", old.read(entry).decode())
            is_changed = entry.filename == part
            content = (declared + text).encode(encoding) if is_changed else text.encode()
            new.writestr(entry.filename, content)
    with pytest.raises(DataError, match=f"'{part}': document types and entities are not accepted"):
        open_table(tmp_path / "e.xlsx")


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


def test_a_cell_below_many_empty_rows_is_refused(tmp_path):
    path = workbook(tmp_path / "t.xlsx", ROWS, A150000="x")
    with pytest.raises(DataError, match="row 150,000 follows 149,995 empty rows"):
        open_table(path)
    opened = open_table(workbook(tmp_path / "t.xlsx", ROWS, A90000="x"))
    assert opened.n_rows == 89_999
    assert opened.column("title")[-2:] == [None, "x"]
