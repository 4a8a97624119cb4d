"""Roles of the columns of a table; `schirn clean` is tested in tests/cli."""

import json
import re

import numpy as np
import pytest

from schirn.app.tables._files import open_table
from schirn.app.workflow._columns import TagTable
from schirn.cleaning import NoisyLabels, Vocabulary, VocabularyLine
from schirn.exceptions import InputError


@pytest.fixture
def make(tmp_path):
    def make(rows, **roles):
        path = tmp_path / "t.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
        return TagTable(open_table(path), str(path), **roles)

    return make


def test_checked_rows_as_pandas_writes_them(make):
    cells = ["1.0", "0.0", "", "nan", "1", True, None]
    table = make([{"tags": "a", "ok": cell} for cell in cells], known_clean="ok")
    assert table.known_clean().tolist() == [True, False, False, False, True, True, False]
    assert make([{"tags": "a"}]).known_clean() is None


def test_numbers_are_learned_from_by_default(make):
    rows = [{"id": 7 * i, "tags": "a", "n": i, "x": i % 3, "word": "w"} for i in range(5)]
    found = make(rows).features()
    assert found.source == "x"
    np.testing.assert_array_equal(found.X[:, 0], [0, 1, 2, 0, 1])
    assert make(rows, columns=["n", "x"]).features().X.shape == (5, 2)


def test_rows_with_the_same_text_have_equal_features(make):
    rows = [{"tags": "a", "title": text, "g": f"g{i}"} for i, text in enumerate(["up", "me", "up"])]
    found = make(rows, text=["title"]).features()
    assert found.groups is None
    assert found.X[0].toarray().tolist() == found.X[2].toarray().tolist()
    assert make(rows, text=["title"], group="g").features().groups == ["g0", "g1", "g2"]


def test_texts_to_show_are_the_cells_of_words(make):
    rows = [{"tags": "a", "x": "1", "title": "A dog", "place": "beach"}, {"tags": "b", "x": "2"}]
    assert make(rows).texts() == ["A dog beach", ""]
    assert make([{"tags": "a", "x": 1}]).texts() == [""]


def test_columns_of_words_that_are_not_learned_from(make):
    rows = [
        {"tags": "a", "sku": f"A-{i}", "name": f"lamp no {i}", "about": f"A lamp {i} for all rooms",
         "brand": "Lux", "x": i % 3} for i in range(9)
    ]  # fmt: skip
    assert make(rows, text=["about"], id="name").more_text() == (["about"], ["name"])
    assert make(rows, text=["about", "name"]).more_text() == (["about", "name"], [])
    # Columns of numbers would be left out by --text.
    assert make(rows, text=["about"], columns=["x"]).more_text() == ([], [])


def test_ids_and_images(make):
    rows = [{"tags": "a", "x": 1, "file": "a.png"}, {"tags": "b", "x": 2, "file": ""}]
    table = make(rows, id="x", image="file")
    assert table.ids() == ["1", "2"]
    assert make(rows).ids() == ["1", "2"]
    first, second = table.images()
    assert (first.name, second) == ("a.png", None)
    assert make(rows).images() is None


@pytest.mark.parametrize(
    ("row", "roles", "words", "parameter"),
    [
        ({"x": 1}, {}, "which column holds the tags", "labels"),
        ({"tags": "a", "word": "w"}, {}, "a column of text such as 'word'", "text"),
        ({"tags": "a", "x": "?"}, {"columns": ["x"]}, "row 1, column 'x': '\\?'", "columns"),
        ({"tags": "a", "x": "?"}, {"features": "x"}, "row 1, column 'x': '\\?'", "features"),
        ({"tags": "a"}, {"features": "y.txt"}, "neither an .npy file nor", "features"),
        ({"tags": "a"}, {"group": "tag"}, "did you mean 'tags'", None),
    ],
)
def test_an_error_names_the_parameter(make, row, roles, words, parameter):
    with pytest.raises(InputError, match=words) as caught:
        make([row, row], **roles).features()
    assert caught.value.parameter == parameter


@pytest.mark.parametrize(
    "cells",
    [
        ["a, b, c"] * 82 + ["a; b"] * 6 + ["c"] * 12,
        ["a, b, c"] * 60 + ["a; b, c"] * 2 + ["c"] * 38,
        ["a|b"] * 90 + ["a;b"] * 5 + ["a;b|c"] * 4 + ["c"],
    ],
)
def test_another_separator_in_clearly_more_cells_is_named(make, cells):
    rows = [{"tags": cell} for cell in cells]
    with pytest.raises(InputError, match=r"give '[,|]' as the separator") as caught:
        make(rows)
    assert caught.value.parameter == "separator"
    # Whoever names the separator knows it.
    make(rows, separator=";").check_chosen_separator()
    with pytest.raises(InputError, match=r"none '/'; give '[,|]' as the separator"):
        make(rows, separator="/").check_chosen_separator()
    with pytest.raises(InputError, match=r"only 1 '/'; give '[,|]' as the separator"):
        make([*rows, {"tags": "a/b"}], separator="/").check_chosen_separator()


@pytest.mark.parametrize("separator", [";", ",", "|", "/", "; "])
def test_a_table_with_one_tag_per_cell_may_have_any_separator(make, separator):
    rows = [{"tags": f"tag {k % 7}"} for k in range(100)]
    rows += [{"tags": "a,b"}, {"tags": "a|b"}, {"tags": "a/b"}]
    make(rows, separator=separator).check_chosen_separator()


@pytest.mark.parametrize(
    "cells",
    [
        ["Washington, DC"] * 91 + ["Washington, DC;Rome"] * 9,
        ["Doe, Jane"] * 80 + ["Doe, Jane;Roe, Jo"] * 6 + ["anonymous"] * 14,
        ["a, b"] * 60 + ["a;b"] * 10 + ["c"] * 30,
        ["a, b"] * 50 + ["c"] * 50,
    ],
)
def test_commas_inside_of_names_are_no_separator(make, cells):
    assert make([{"tags": cell} for cell in cells]).separator == ";"


def merged(*names):
    return Vocabulary([VocabularyLine("merge", name, "dog", accept="yes") for name in names])


def test_an_implied_tag_that_is_removed_is_not_added(make):
    lines = [VocabularyLine("imply", "dog", "animal", accept="yes")]
    rows = [{"tags": "dog"}, {"tags": "dog;animal"}, {"tags": "cat"}, {"tags": "dog"}]
    table = make(rows, vocabulary=Vocabulary(lines))
    assert table.tags()[0] == ["dog", "animal"]
    row, column = np.array([0, 0, 1, 1, 2, 3, 3]), np.array([0, 2, 0, 2, 1, 0, 2])
    confidence = np.array([0.9, 0.2, 0.9, 0.2, 0.9, 0.9, 0.9])
    names = ["dog", "cat", "animal"]
    judged = np.ones(7, dtype=bool)
    ranking = NoisyLabels.from_arrays(4, names, row, column, confidence, judged, "Sieve")
    changes = table.changes(ranking.remove(below=0.5))
    assert [change[:4] for change in changes] == [
        (1, "removal", "animal", ""),
        (3, "addition", "", "animal"),
    ]
    cells = [row["tags"] for row in rows]
    assert changes.apply(cells) == ["dog", "dog", "cat", "dog;animal"]
    assert changes.undo(changes.apply(cells)) == cells


def test_implied_tags_that_are_only_suggested(make):
    lines = [VocabularyLine("imply", "dog", "animal", accept="yes")]
    table = make([{"tags": "dog"}], vocabulary=Vocabulary(lines), add_implied=False)
    assert table.tags() == [["dog"]]
    assert len(table.applied.suggestions) == 1


def test_tags_that_nobody_judged_have_no_confidence(make, tmp_path):
    rows = [{"tags": "dog;rare"}, {"tags": "rare"}, {"tags": "cat;rare"}]
    table = make(rows)
    row, column = np.array([0, 0, 1, 2, 2]), np.array([0, 2, 2, 1, 2])
    judged = np.array([True, False, False, True, False])
    confidence = np.where(judged, 0.75, 0.5)
    names = ["dog", "cat", "rare"]
    ranking = NoisyLabels.from_arrays(3, names, row, column, confidence, judged, "Sieve")
    ranking = ranking.answered(ranking.questions_about([(2, "rare")]), [True])
    table.write_clean(str(tmp_path / "copy.jsonl"), ranking)
    lines = (tmp_path / "copy.jsonl").read_text().splitlines()
    cells = [json.loads(line)["tags_confidence"] for line in lines]
    assert [list(cell) for cell in cells] == [["dog"], [], ["cat", "rare"]]
    assert cells[2]["rare"] == 1
    path = tmp_path / "t.csv"
    path.write_text("tags,id\ndog;rare,1\nrare,2\ncat;rare,3\n")
    TagTable(open_table(path), str(path)).write_clean(str(tmp_path / "copy.csv"), ranking)
    lines = (tmp_path / "copy.csv").read_text().splitlines()
    assert [re.sub(r"=[\d.]+", "", line.rpartition(",")[2]) for line in lines[1:]] == [
        "dog", "", "cat;rare",
    ]  # fmt: skip


def test_a_merged_tag_that_is_removed_goes_in_all_its_spellings(make, tmp_path):
    rows = [{"tags": cell} for cell in ("Dog; dog;cat", "Dog;cat", "DOG", "cat;Dog;dog")]
    table = make(rows, vocabulary=merged("Dog", "DOG"))
    assert table.tags() == [["dog", "cat"], ["dog", "cat"], ["dog"], ["cat", "dog"]]
    row, column = np.array([0, 0, 1, 1, 2, 3, 3]), np.array([0, 1, 0, 1, 1, 0, 1])
    removed = np.array([False, True, False, True, False, False, False])
    confidence = np.where(removed, 0.25, 0.75)
    judged = np.ones(7, dtype=bool)
    ranking = NoisyLabels.from_arrays(4, ["cat", "dog"], row, column, confidence, judged, "Sieve")
    ranking = ranking.remove(below=0.5)
    table.write_clean(str(tmp_path / "copy.jsonl"), ranking)
    copy = [json.loads(line) for line in (tmp_path / "copy.jsonl").read_text().splitlines()]
    assert [line["tags"] for line in copy] == ["cat", "cat", "dog", "cat;dog"]
    assert [line["tags_removed"] for line in copy] == ["dog", "dog", "", ""]
    assert copy[0]["tags_confidence"] == {"dog": 0.25, "cat": 0.75}
    assert [line["tags_note"] for line in copy] == ["not checked"] * 2 + [""] * 2
    changes = table.changes(ranking)
    assert changes.counts() == {"removal": 3, "addition": 0, "merge": 1, "rename": 1}
    cells = [row["tags"] for row in rows]
    assert changes.undo(changes.apply(cells)) == cells


def test_lines_about_tags_that_no_row_has(make):
    table = make([{"tags": "dog"}], vocabulary=merged("dgo"))
    assert table.tags() == [["dog"]]
    assert table.applied.counts == [0]


def test_all_columns_that_are_not_learned_from_are_named(make):
    rows = [
        {"id": i, "tags": "a", "title": f"lamp {i}", "x": i % 3, "page": f"https://x.org/{i}"}
        for i in range(9)
    ]
    assert make(rows, text=["title"]).features().left_out == ["x", "page"]


def test_a_column_that_no_name_resembles_is_answered_with_all_of_them(make):
    rows = [{"section": "s", "summary": "t", "tags": "a"}]
    with pytest.raises(InputError, match="'description'; choose from section, summary, tags"):
        make(rows, text=["description"])
