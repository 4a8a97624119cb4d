import numpy as np
import pytest
import scipy.sparse as sp

from schirn.exceptions import InputError
from schirn.labels.cells import change_tags, split_tags
from schirn.labels.tags import read_tags


@pytest.mark.parametrize(
    ("cell", "tags"),
    [
        ("beach; dog", ["beach", "dog"]),
        (" ;; beach ;", ["beach"]),
        ("NA", ["NA"]),
        ("", []),
        (None, []),
        (float("nan"), []),
        (["beach", " dog", "", None, float("nan"), 8], ["beach", "dog", "8"]),
        (("a", "b"), ["a", "b"]),
        (np.array(["a", "b"]), ["a", "b"]),
        (8, ["8"]),
    ],
)
def test_cells_are_split(cell, tags):
    assert split_tags(cell, ";") == tags


@pytest.mark.parametrize("cell", [{"a": 1}, b"dog"])
def test_cells_that_hold_no_tags(cell):
    with pytest.raises(InputError, match="is neither a text of tags nor a list of them"):
        split_tags(cell, ";")
    with pytest.raises(InputError, match="is nested in a list of tags; each tag must be a text"):
        split_tags(["b", ["a"]], ";")


@pytest.mark.parametrize(
    ("cell", "left"),
    [
        ("beach; dog ;cat", "beach;cat"),
        ("dog", ""),
        (["beach", " dog", None, 8], ["beach", None, 8]),
        (8, 8),
        (None, None),
    ],
)
def test_tags_are_taken_out_of_a_cell(cell, left):
    assert change_tags(cell, {"dog": []}, [], ";") == left


def test_a_number_that_is_removed_leaves_an_empty_cell():
    assert change_tags(8, {"8": []}, [], ";") is None


@pytest.mark.parametrize(
    ("cell", "changed"),
    [
        # A rename keeps spaces and place; a merge leaves one of the two.
        ("beach; dgo ;cat", "beach; dog ;cat"),
        ("dgo;dog;dgo", "dog"),
        ("dog;dgo", "dog"),
        (["beach", " dgo", None, "dog"], ["beach", None, "dog"]),
        (["dgo", 8], ["dog", 8]),
    ],
)
def test_tags_are_replaced(cell, changed):
    assert change_tags(cell, {"dgo": ["dog"]}, [], ";") == changed


def test_tags_change_places():
    assert change_tags("a;b", {"a": ["b"], "b": ["a"]}, [], ";") == "b;a"


@pytest.mark.parametrize(
    ("cell", "separator", "changed"),
    [
        ("", ";", "sun;dog"),
        (" ; ", ";", "sun;dog"),
        ("beach", ";", "beach;sun;dog"),
        ("beach; cat", ";", "beach; cat; sun; dog"),
        ("beach | cat", "|", "beach | cat | sun | dog"),
        ("beach;cat;", ";", "beach;cat;sun;dog;"),
        ("dog;sun", ";", "dog;sun"),
        ([], ";", ["sun", "dog"]),
        (["dog", None], ";", ["dog", None, "sun"]),
    ],
)
def test_tags_are_added_as_the_others_are_set_apart(cell, separator, changed):
    assert change_tags(cell, {}, ["sun", "dog", "sun"], separator) == changed


def test_a_number_has_room_for_one_tag():
    assert change_tags(8, {"8": ["9"]}, [], ";", int) == 9
    assert change_tags(None, {}, ["9"], ";", int) == 9
    with pytest.raises(InputError, match="one number has no room for '9'"):
        change_tags(8, {}, ["9"], ";", int)


ROWS = [["beach", "dog"], [], ["dog"]]


@pytest.mark.parametrize(
    "given",
    [
        ROWS,
        ["beach|dog", "", "dog"],
        ["dog | beach", None, ["dog"]],
        np.array([[1, 1], [0, 0], [0, 1]]),
        sp.csr_array([[1, 1], [0, 0], [0, 1]]),
    ],
)
def test_tags_from_any_container(given):
    tags = read_tags(given, ["beach", "dog"], "|")
    assert tags.row.tolist() == [0, 0, 2]
    assert tags.column.tolist() == [0, 1, 1]
    assert tags.names == ["beach", "dog"]
    assert (tags.shape, tags.counts.tolist()) == ((3, 2), [1, 2])


def test_some_columns_of_the_tags():
    tags = read_tags(ROWS, None)
    columns = np.array([1])
    assert tags.dense(columns).tolist() == [[1], [0], [1]]
    assert tags.dense(columns, np.array([5.0, 6.0, 7.0])).tolist() == [[6], [0], [7]]
    assert tags.pick(np.array([[0.1], [0.2], [0.3]]), columns, 0.5).tolist() == [0.5, 0.1, 0.3]


@pytest.mark.parametrize("form", [np.array, sp.csr_array])
def test_a_cell_that_is_neither_0_nor_1(form):
    with pytest.raises(InputError, match="the tags must be 0 or 1, but row 1, label 'b' holds 2"):
        read_tags(form([[0, 1], [1, 2]]), ["a", "b"])


@pytest.mark.parametrize("separator", ["", None, 3])
def test_a_separator_that_cannot_split(separator):
    with pytest.raises(InputError, match="separator must be a text") as caught:
        read_tags(["a;b"], None, separator)
    assert caught.value.parameter == "separator"
