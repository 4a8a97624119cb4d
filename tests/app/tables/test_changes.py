"""The list of changes: apply, undo, files that a person edits."""

import csv
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schirn.app.tables._changes import foreign_separators, keyed_changes, read_changes, row_keys
from schirn.app.tables._files import open_table
from schirn.cleaning import Change, ChangeList, MissingTags, NoisyLabels
from schirn.cleaning.changes import apply_changes
from schirn.exceptions import InputError
from schirn.labels.cells import TagCells
from schirn.labels.matrix import label_lists

CELLS = ["beach;dgo", "dog; puppy ;cat", "", " sun ;moon;", "dog"]
CHANGES = [
    Change(1, "merge", "puppy", "dog", 0.8, "the same"),
    Change(0, "rename", "dgo", "dog", 0.9, "a typo"),
    Change(1, "removal", "cat", "", 0.7, "wrong"),
    Change(2, "addition", "", "sun", None, "missing"),
    Change(3, "removal", "moon", ""),
]
AFTER = ["beach;dog", "dog", "sun", " sun ;", "dog"]


@pytest.fixture
def listed():
    return ChangeList.from_cells(CELLS, CHANGES)


def test_changes_are_applied_and_undone(listed):
    assert listed.apply(CELLS) == AFTER
    assert listed.undo(AFTER) == CELLS
    assert listed.counts() == {"removal": 2, "addition": 1, "merge": 1, "rename": 1}
    assert [each.row for each in listed] == [0, 1, 1, 2, 3]
    assert repr(listed) == "ChangeList(2 removals, 1 additions, 1 merges, 1 renames, 4 rows)"


def test_undo_knows_how_the_column_held_tags_before():
    # Once the text is gone, all that is left looks like a list of JSON.
    cells = ["dog", "[]"]
    listed = ChangeList.from_cells(cells, [Change(0, "removal", "dog", "")])
    assert listed.apply(cells) == ["", "[]"]
    assert listed.undo(["", "[]"]) == cells


def test_the_file_says_the_same(listed, tmp_path):
    path = tmp_path / "changes.csv"
    listed.write(path)
    again = read_changes(path)
    assert (again.changes, again.cells, again.column) == (listed.changes, listed.cells, "tags")
    assert again.separator == ";"
    assert again.undo(again.apply(CELLS)) == CELLS


def read(path):
    with path.open(newline="", encoding="utf-8") as stream:
        return list(csv.DictReader(stream))


def edit(path, lines, **options):
    with path.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.DictWriter(stream, list(lines[0]), **options)
        writer.writeheader()
        writer.writerows(lines)
    return read_changes(path)


def test_a_person_deletes_lines_and_edits_what_comes_after(listed, tmp_path):
    listed.write(tmp_path / "c.csv")
    lines = read(tmp_path / "c.csv")
    assert [line["row"] for line in lines] == ["1", "2", "2", "3", "4"]
    del lines[2]
    lines[0]["after"] = "wolf"
    lines[1]["after"] = "puppy"  # changes nothing
    lines[2]["after"] = "sun;moon"
    # Spreadsheets sort, add columns, and separate cells as the country does.
    edited = edit(
        tmp_path / "c.csv", [{**line, "note": "ok"} for line in lines[::-1]], delimiter=";"
    )
    after = edited.apply(CELLS)
    assert after == ["beach;wolf", CELLS[1], "sun;moon", " sun ;", "dog"]
    assert edited.undo(after) == CELLS


def test_a_list_without_changes_changes_nothing(tmp_path):
    ChangeList.from_cells(CELLS, []).write(tmp_path / "c.csv")
    again = read_changes(tmp_path / "c.csv")
    assert len(again) == 0
    assert again.apply(CELLS) == again.undo(CELLS) == CELLS
    assert (tmp_path / "c.csv").read_text().startswith("row,change,before,after,confidence,why,")


def test_of_many_rows_that_differ_three_are_named(tmp_path):
    cells = [f"pan;wok {i}" for i in range(20)]
    listed = ChangeList.from_cells(cells, [Change(i, "removal", "pan", "") for i in range(20)])
    expected = r"^20 rows cannot be changed: row 1 holds .*; row 2 .*; row 3 .*; and 17 more$"
    with pytest.raises(InputError, match=expected) as caught:
        listed.apply(["chair"] * 20)
    assert len(str(caught.value)) < 400


def test_a_table_that_differs_at_a_changed_row_is_refused(listed):
    other = [*CELLS]
    other[4] = "cat"
    assert listed.apply(other) == [*AFTER[:4], "cat"]
    other[1], other[3] = "dog", ""
    expected = (
        "2 rows cannot be changed: row 2 holds 'dog', but .* expects 'dog; puppy ;cat'; row 4"
    )
    with pytest.raises(InputError, match=expected):
        listed.apply(other)
    with pytest.raises(InputError, match=r"row 3 holds '', but .* expects 'sun'"):
        listed.undo([*AFTER[:2], "", *AFTER[3:]])
    with pytest.raises(InputError, match="applied already"):
        listed.apply(AFTER)
    with pytest.raises(InputError, match="undone already"):
        listed.undo(CELLS)
    with pytest.raises(InputError, match="row 4 is to be changed, but the table has 3 rows"):
        listed.apply(CELLS[:3])


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (Change(0, "removal", "cat", ""), "row 1: 'cat' is not among the tags of 'beach;dgo'"),
        (Change(9, "removal", "dog", ""), "row 10 is to be changed, but the table has 5 rows"),
        (Change(-1, "removal", "dog", ""), "row 0 is to be changed"),
        (Change(0, "remove", "dgo", ""), "change must be removal, addition, merge, rename"),
        (Change(0, "removal", "", ""), "both before and after are empty"),
    ],
)
def test_impossible_changes_are_refused(change, words):
    with pytest.raises(InputError, match=words):
        ChangeList.from_cells(CELLS, [change])


def test_a_tag_is_changed_once_per_row():
    twice = [Change(4, "removal", "dog", ""), Change(4, "rename", "dog", "cat")]
    with pytest.raises(InputError, match="row 5: 'dog' is changed twice"):
        ChangeList.from_cells(CELLS, twice)


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("row", "0", "change 1: row must be a whole number from 1, not '0'"),
        ("row", "9" * 5000, "row must be a whole number"),
        ("row", "1.5", "row must be a whole number"),
        ("change", "delete", "change must be removal"),
        ("cell", "beach;dgo", "cell must stay as it was written"),
        ("cell", "[" * 100_000, "cell must stay as it was written"),
        ("cell", "{}", "neither a text of tags nor a list"),
        ("cell", '"other"', "change 2: another line has a different cell of row 2"),
        ("confidence", "high", "confidence must be a number"),
        ("column", "labels", "different columns or separators"),
        ("separator", "", "separator must be a text"),
    ],
)
def test_a_damaged_file_is_refused_with_the_line(listed, tmp_path, field, value, words):
    listed.write(tmp_path / "c.csv")
    lines = read(tmp_path / "c.csv")
    lines[0][field] = value
    if words.startswith("change 2"):
        lines[0]["row"] = "2"
    with pytest.raises(InputError, match=words):
        edit(tmp_path / "c.csv", lines)


def test_another_file_is_refused(tmp_path):
    (tmp_path / "t.csv").write_text("row,tags\n1,a\n")
    with pytest.raises(InputError, match="not a list of changes: there is no column 'change'"):
        read_changes(tmp_path / "t.csv")
    with pytest.raises(InputError, match=r"must end in \.csv"):
        read_changes(tmp_path / "t.xlsx")
    with pytest.raises(InputError, match="no such file"):
        read_changes(tmp_path / "none.csv")


def test_lists_numbers_and_missing_values():
    lists = [["dog", None, "a;b"], None, [], ("x",), np.array(["y"])]
    changes = [
        Change(0, "removal", "a;b", ""),
        Change(0, "addition", "", "c;d"),
        Change(1, "addition", "", "cat"),
        Change(3, "rename", "x", "z"),
        Change(4, "addition", "", "z"),
    ]
    made = ChangeList.from_cells(lists, changes)
    after = made.apply(lists)
    assert after == [["dog", None, "c;d"], ["cat"], [], ["z"], ["y", "z"]]
    assert made.undo(after) == [["dog", None, "a;b"], None, [], ["x"], ["y"]]

    numbers = [[7, 8], [9], [1]]
    changes = [Change(0, "removal", "7", ""), Change(1, "addition", "", "8")]
    made = ChangeList.from_cells(numbers, [*changes, Change(2, "rename", "1", "1")])
    assert made.apply(numbers) == [[8], [9, 8], [1]]
    assert made.undo([[8], [9, 8], [1]]) == numbers

    single = [7, None, np.nan, 8.5]
    changes = [Change(0, "rename", "7", "9"), Change(1, "addition", "", "7")]
    made = ChangeList.from_cells(single, [*changes, Change(3, "removal", "8.5", "")])
    assert made.apply(single)[:2] == [9, 7]
    assert made.apply(single)[3] is None
    with pytest.raises(InputError, match="row 1: a cell that holds one number has no room"):
        ChangeList.from_cells(single, [Change(0, "addition", "", "9")])
    with pytest.raises(InputError, match="neither a text of tags nor a list"):
        ChangeList.from_cells([{"a": 1}], [Change(0, "removal", "a", "")])


def test_no_formula_is_put_at_the_start_of_a_cell(tmp_path):
    cells = ["", "a;b", "=own;x", "x"]
    changes = [
        Change(0, "addition", "", "=cmd()"),
        Change(1, "rename", "a", "@cmd"),
        Change(2, "removal", "x", ""),
        Change(3, "addition", "", "+1"),
    ]
    made = ChangeList.from_cells(cells, changes)
    after = made.apply(cells, spreadsheet=True)
    assert after == ["'=cmd()", "'@cmd;b", "'=own", "x;+1"]
    assert made.undo(after, spreadsheet=True) == cells
    assert made.apply(cells)[0] == "=cmd()"
    made.write(tmp_path / "c.csv")
    cells_of_file = [cell for line in read(tmp_path / "c.csv") for cell in line.values()]
    assert not [cell for cell in cells_of_file if cell.startswith(("=", "+", "-", "@"))]
    assert read_changes(tmp_path / "c.csv").changes == made.changes


@pytest.mark.parametrize(
    "tag", ["'=1", "''", "'", "'tis", "-5", '"', "a,b\nc", "é\u2028x", "=" * 3]
)
def test_unusual_tags_survive_the_file(tag, tmp_path):
    made = ChangeList.from_cells([[tag], ["b"]], [Change(0, "removal", tag, "", 1.0, tag)])
    made.write(tmp_path / "c.csv")
    again = read_changes(tmp_path / "c.csv")
    assert (again.changes, again.cells) == (made.changes, {0: [tag]})


def test_a_null_character_cannot_be_listed(tmp_path):
    made = ChangeList.from_cells(["a\0b;c"], [Change(0, "removal", "a\0b", "")])
    with pytest.raises(InputError, match=r"a tag or id holds the character U\+0000; rename it"):
        made.write(tmp_path / "c.csv")


def test_half_of_a_surrogate_pair_cannot_be_listed(tmp_path):
    made = ChangeList.from_cells(["\ud800;a"], [Change(0, "removal", "\ud800", "")])
    with pytest.raises(InputError, match="a tag holds half of a surrogate pair; rename it"):
        made.write(tmp_path / "c.csv")
    assert not (tmp_path / "c.csv").exists()


tags = st.text(st.sampled_from("abc '=-é\n\""), max_size=4)


@settings(max_examples=60, deadline=None)
@given(data=st.data(), lists=st.booleans(), spreadsheet=st.booleans())
def test_undo_gives_the_original_back(data, lists, spreadsheet):
    joined = st.lists(tags, max_size=4)
    column = joined if lists else joined.map("; ".join)
    cells = data.draw(st.lists(column, min_size=1, max_size=5))
    split = TagCells.of(cells, spreadsheet=spreadsheet).split
    changes, intended = [], []
    for row, cell in enumerate(cells):
        after = {tag: tag for tag in split(cell)}
        for tag in sorted(after):
            if data.draw(st.booleans()):
                after[tag] = data.draw(tags).strip()
                changes.append(Change(row, "rename", tag, after[tag]))
        new = data.draw(tags).strip()
        if new:
            changes.append(Change(row, "addition", "", new))
        intended.append({*after.values(), new} - {""})
    made = ChangeList.from_cells(cells, changes, spreadsheet=spreadsheet)
    after = made.apply(cells, spreadsheet=spreadsheet)
    assert [set(split(cell)) for cell in after] == intended
    assert made.undo(after, spreadsheet=spreadsheet) == cells


def test_rows_are_found_wherever_they_are(tmp_path):
    """By id, or by the other cells; what was edited is named, and the rest can be changed."""
    source = tmp_path / "t.csv"
    rows = [f"{i},text {i},a;{'bc'[i % 2]}" for i in range(6)]
    source.write_text("\n".join(["id,text,tags", *rows]) + "\n")
    changes = [Change(i, "removal", "b", "") for i in (0, 2, 4)]
    table = open_table(source)
    for id_column in (None, "id"):
        made = ChangeList.from_cells(table.column("tags"), changes)
        made = keyed_changes(made, table, id_column)
        made.write(tmp_path / "c.csv")
        listed = read_changes(tmp_path / "c.csv")
        assert (listed.keys, listed.id_column) == (made.keys, id_column or "")
        # A row more in front, the others in reverse order, and a column that cleaning adds.
        other = tmp_path / "o.csv"
        header = "id,text,tags,tags_removed"
        moved = ["9,new,a;b", *rows[:0:-1], rows[0]]
        other.write_text("\n".join([header, *(f"{row}," for row in moved)]) + "\n")
        opened = open_table(other)
        keys = row_keys(opened, "tags", listed.id_column)
        cells = opened.column("tags")
        after = listed.apply(cells, keys=keys)
        assert after == ["a;b", "a;c", "a", "a;c", "a", "a;c", "a"]
        assert listed.undo(after, keys=keys) == cells
        # One row is gone, and one has other tags.
        other.write_text("\n".join(["id,text,tags", rows[5], "2,text 2,b", rows[0]]) + "\n")
        opened, conflicts = open_table(other), []
        keys = row_keys(opened, "tags", listed.id_column)
        after = listed.apply(opened.column("tags"), keys=keys, conflicts=conflicts)
        assert after == ["a;c", "b", "a"]
        name, other_name = ("the row '4'", "the row '2'") if id_column else ("row 5", "row 2")
        assert conflicts == [
            f"{other_name} holds 'b', but the list of changes expects 'a;b'",
            f"{name} is no longer in the table",
        ]
        with pytest.raises(InputError, match=f"2 rows cannot be changed: {other_name} holds"):
            listed.apply(opened.column("tags"), keys=keys)


def test_ids_that_are_there_twice():
    made = ChangeList.from_cells(["a;b", "b"], [Change(0, "removal", "a", "")])
    made = replace(made, keys={0: "x"}, id_column="id")
    with pytest.raises(InputError, match="the row 'x' is in the table 2 times"):
        made.apply(["a;b", "a;b"], keys=["x", "x"])


def test_a_decimal_comma_and_another_column(listed, tmp_path):
    listed.write(tmp_path / "c.csv")
    lines = [{**line, "seen by": "me"} for line in read(tmp_path / "c.csv")]
    lines[0]["confidence"] = "0,9"
    edited = edit(tmp_path / "c.csv", lines, delimiter=";")
    assert edited.changes[0].confidence == 0.9
    assert edited.apply(CELLS) == AFTER


def make_ranking():
    row, column = np.array([0, 0, 1, 2]), np.array([0, 1, 1, 0])
    confidence, judged = np.array([0.9, 0.02, 0.3, 0.7]), np.ones(4, dtype=bool)
    names = ["beach", "dog"]
    missing = MissingTags(np.array([1, 2]), np.array([0, 1]), np.array([0.95, 0.65]), names)
    return NoisyLabels.from_arrays(
        *(3, names, row, column, confidence, judged, "Sieve"),
        known=np.array([0, 0, -1, 0]),
        missing=missing,
        keep_one=False,
    )


def test_rankings_become_changes():
    assert [each.why for each in make_ranking().changes()] == ["called wrong"]
    ranking = make_ranking().remove(1).add(above=0.9)
    changes = ranking.changes(["dog;beach", "dog", "beach"])
    by = "likely to be correct (Sieve, not checked)"
    assert changes.changes == [
        Change(0, "removal", "dog", "", 0.98, f"2.0% {by}"),
        Change(1, "removal", "dog", "", 1.0, "called wrong"),
        Change(1, "addition", "", "beach", 0.95, f"95.0% {by}"),
    ]
    assert changes.apply(["dog;beach", "dog", "beach"]) == ["beach", "beach", "beach"]
    own = ranking.changes()
    assert own.apply([["beach", "dog"], ["dog"], ["beach"]]) == label_lists(
        ranking.clean, ranking.label_names
    )
    with pytest.raises(InputError, match="2 cells, but the ranking is about 3 rows"):
        ranking.changes(["a", "b"])


def test_changes_are_made_in_the_container_that_came_in():
    pd = pytest.importorskip("pandas", reason="pandas is not installed")
    pl = pytest.importorskip("polars", reason="polars is not installed")
    pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    texts, lists = ["a;b", "b", "c"], [["a", "b"], ["b"], []]
    changes = ChangeList.from_cells(texts, [Change(0, "removal", "a", "")])
    of_lists = ChangeList.from_cells(lists, [Change(0, "removal", "a", "")])
    for dtype in (object, "str", "category"):
        column = pd.Series(texts, index=[7, 3, 9], name="tags", dtype=dtype)
        after = apply_changes(column, changes)
        assert after.index.tolist() == [7, 3, 9]
        assert (after.name, after.dtype.name) == ("tags", column.dtype.name)
        assert after.tolist() == ["b", "b", "c"]
        assert column.tolist() == texts
    nested = apply_changes(pd.Series(lists, index=list("xyz")), of_lists)
    assert nested.to_dict() == {"x": ["b"], "y": ["b"], "z": []}
    assert apply_changes(tuple(texts), changes) == ("b", "b", "c")
    assert apply_changes(np.array(texts), changes).tolist() == ["b", "b", "c"]
    assert apply_changes(np.array(texts, dtype=object), changes).dtype == object
    for column in (pl.Series("tags", texts), pl.Series("tags", texts, dtype=pl.Categorical)):
        after = apply_changes(column, changes)
        assert (after.name, after.dtype) == ("tags", column.dtype)
        assert after.to_list() == ["b", "b", "c"]
    assert apply_changes(pl.Series("tags", lists), of_lists).to_list() == [["b"], ["b"], []]
    assert apply_changes(pa.array(lists), of_lists).to_pylist() == [["b"], ["b"], []]
    assert apply_changes(pa.chunked_array([texts]), changes).to_pylist() == ["b", "b", "c"]


def test_edited_lines_are_counted_by_what_they_do():
    lines = [
        Change(0, "removal", "dgo", "dog"),
        Change(1, "rename", "puppy", ""),
        Change(3, "merge", "sun", "sun"),
    ]
    listed = ChangeList.from_cells(CELLS, lines)
    assert listed.apply(CELLS) == ["beach;dog", "dog;cat", "", " sun ;moon;", "dog"]
    assert listed.counts() == {"removal": 1, "addition": 0, "merge": 0, "rename": 1}


def test_new_tags_with_another_separator_are_found():
    cells = ["dgo,beach", "black, white", "red|blue", "tcp/ip"]
    lines = [
        Change(0, "removal", "dgo", "dog; cat"),
        Change(0, "addition", "", "red|blue"),
        Change(1, "addition", "", "and/or"),
    ]
    listed = ChangeList.from_cells(cells, lines, separator=",")
    assert foreign_separators(listed, cells) == [(0, "dog; cat", ";")]
    assert foreign_separators(ChangeList(), cells) == []
