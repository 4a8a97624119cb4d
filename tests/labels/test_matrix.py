import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from schirn.exceptions import EmptyCandidatesWarning, InputError
from schirn.labels.matrix import as_labels, check_empty_rows, label_lists

M = [[1, 0, 1], [0, 0, 1], [0, 1, 0]]
LISTS = [["beach", "dog"], ["dog"], ["cat"]]
NAMES = ["beach", "cat", "dog"]


def check_candidates(y):
    matrix = as_labels(y).matrix
    check_empty_rows(np.flatnonzero(~matrix.any(axis=1)), matrix.shape)


def objects(rows):
    out = np.empty(len(rows), dtype=object)
    out[:] = rows
    return out


@pytest.mark.parametrize(
    "form",
    [
        np.array,
        lambda M: np.array(M, dtype=bool),
        lambda M: np.array(M, dtype=np.uint8),
        lambda M: np.array(M, dtype=np.float32),
        lambda M: np.array(M, dtype=object),
        lambda M: np.asfortranarray(M),
        sp.csr_array,
        sp.csr_matrix,
        sp.csc_array,
        sp.coo_array,
        lambda M: sp.csr_array(M).astype(bool),
        lambda M: sp.csr_array(M).astype(np.float32),
        list,
        tuple,
        lambda M: [tuple(row) for row in M],
        lambda M: [np.array(row) for row in M],
        iter,
    ],
)
def test_matrices(form):
    labels = as_labels(form(M))
    assert labels.matrix.tolist() == M
    assert labels.matrix.dtype == np.uint8
    assert labels.matrix.flags.c_contiguous
    assert labels.names == ["0", "1", "2"]
    assert as_labels(form(M), names=NAMES).names == NAMES


@pytest.mark.parametrize("y", [[1, 0, 1], (1, 0, 1), np.array([True, False, True]), [1.0, 0, 1]])
def test_one_label(y):
    labels = as_labels(y)
    assert labels.matrix.tolist() == [[1], [0], [1]]
    assert labels.names == ["0"]


@pytest.mark.parametrize(
    "form",
    [
        list,
        tuple,
        iter,
        lambda rows: [tuple(row) for row in rows],
        lambda rows: [set(row) for row in rows],
        lambda rows: [frozenset(row) for row in rows],
        lambda rows: [set(rows[0]), list(rows[1]), tuple(rows[2])],
        lambda rows: [np.array(row) for row in rows],
        lambda rows: [row * 2 for row in rows],
        objects,
        lambda rows: objects([np.array(row) for row in rows]),
        lambda rows: (row for row in rows),
        lambda rows: dict(enumerate(rows)).values(),
    ],
)
def test_lists_of_names(form):
    labels = as_labels(form(LISTS))
    assert labels.names == NAMES
    assert labels.matrix.tolist() == M
    assert labels.matrix.dtype == np.uint8
    known = as_labels(form(LISTS), names=["dog", "fox", "cat", "beach"])
    assert known.names == ["dog", "fox", "cat", "beach"]
    assert known.matrix.tolist() == [[1, 0, 0, 1], [1, 0, 0, 0], [0, 0, 1, 0]]


def test_series_of_lists():
    pd = pytest.importorskip("pandas")
    series = pd.Series(LISTS, index=[7, 8, 9])
    assert as_labels(series).matrix.tolist() == M
    assert as_labels(pd.Series([np.array(row) for row in LISTS])).names == NAMES
    assert as_labels(pd.Series([1, 0, 1])).matrix.tolist() == [[1], [0], [1]]


def test_numbers_in_sets_are_names():
    labels = as_labels([{3, 10}, {3}, set()])
    assert labels.names == ["10", "3"]
    assert labels.matrix.tolist() == [[1, 1], [0, 1], [0, 0]]


@pytest.mark.parametrize("nothing", [None, np.nan, np.float32("nan")])
def test_a_missing_name_is_no_label(nothing):
    labels = as_labels([["dog", nothing], ["cat"], {nothing}])
    assert labels.names == ["cat", "dog"]
    assert labels.matrix.tolist() == [[0, 1], [1, 0], [0, 0]]


def test_rows_without_names():
    assert as_labels([[], ["a"]]).matrix.tolist() == [[0], [1]]
    assert as_labels([[], []], names=["a", "b"]).matrix.tolist() == [[0, 0], [0, 0]]
    assert as_labels([[]], names=["a"]).matrix.tolist() == [[0]]
    with pytest.raises(InputError, match="no row carries a candidate"):
        check_candidates([[], []])


def test_tables():
    pd = pytest.importorskip("pandas")
    table = pd.DataFrame(M, columns=NAMES, index=[5, 6, 7])
    for form in (table, table.astype(bool), table.astype(float), table.astype("Int64")):
        labels = as_labels(form)
        assert labels.names == NAMES
        assert labels.matrix.tolist() == M
        assert labels.matrix.flags.c_contiguous
    assert as_labels(pd.DataFrame(M)).names == ["0", "1", "2"]


def test_columns_of_a_table_are_matched_by_name():
    pd = pytest.importorskip("pandas")
    table = pd.DataFrame(M, columns=NAMES)
    assert as_labels(table[["dog", "beach", "cat"]], names=NAMES).matrix.tolist() == M
    labels = as_labels(table[["dog", "beach"]], names=NAMES)
    assert labels.names == NAMES
    assert labels.matrix.tolist() == [[1, 0, 1], [0, 0, 1], [0, 0, 0]]
    with pytest.raises(
        InputError, match="a column 'dog', which is not among the known labels"
    ) as error:
        as_labels(table, names=["beach", "cat", "fox"])
    assert "known labels 'beach', 'cat', 'fox'" in str(error.value)


def test_unknown_names():
    with pytest.raises(InputError) as error:
        as_labels(LISTS, names=["beach", "dog"])
    assert str(error.value) == (
        "row 2 of the candidates names the label 'cat', which is not among the known "
        "labels 'beach', 'dog'"
    )
    many = [f"label {j}" for j in range(20)]
    with pytest.raises(InputError, match=r"'label 7', \.\.\. \(20 in all\)$"):
        as_labels([["x"]], names=many)


@pytest.mark.parametrize(
    ("y", "names", "message"),
    [
        ([[0, 1], [2, 0]], None, "must be 0 or 1, but row 1, label 0 holds 2"),
        ([[0, 1], [1, -1]], ["a", "b"], "row 1, label 'b' holds -1"),
        ([[0, 0.5]], None, "row 0, label 1 holds 0.5"),
        ([[0, np.nan]], None, "row 0, label 1 holds nan"),
        ([[0, np.inf]], None, "row 0, label 1 holds inf"),
        ([0, 1, 3], None, "row 2, label 0 holds 3"),
        (sp.csr_array([[0, 1], [7, 0]]), None, "row 1, label 0 holds 7"),
        ([[1, 2], [3]], None, "got list with rows of unequal length"),
        (["dog", 1], None, "got list with .*entries that are not numbers"),
        ("dog", None, "got str with"),
        (np.array([["a"], ["b"]]), None, "got ndarray with"),
        (np.zeros((2, 2, 2)), None, r"must have rows and label columns, got shape \(2, 2, 2\)"),
        (np.zeros((3, 0)), None, r"got shape \(3, 0\)"),
        (np.zeros((0, 3)), None, r"got shape \(0, 3\)"),
        ([], None, r"got shape \(0,\)"),
        (1, None, r"got shape \(\)"),
        (
            np.zeros((2, 3)),
            ["a", "b"],
            "the candidates have 3 label columns, but label_names has 2 names",
        ),
        ([["a"], "b"], None, "row 1 of the candidates is 'b', not a list of label names"),
        ([["a"], None], None, "row 1 of the candidates is None, not a list"),
        ([{"a"}, 3], None, "row 1 of the candidates is 3, not a list"),
    ],
)
def test_errors_say_where_and_what(y, names, message):
    with pytest.raises(InputError, match=message):
        as_labels(y, names=names)


def test_a_missing_value_of_a_table_is_placed_by_name():
    pd = pytest.importorskip("pandas")
    table = pd.DataFrame({"a": [0, 1], "b": [1, np.nan]})
    with pytest.raises(InputError, match="row 1, label 'b' holds nan"):
        as_labels(table)


def test_errors_use_the_word_for_y():
    with pytest.raises(InputError, match=r"^the labels must be 0 or 1"):
        as_labels([[2]], what="labels")
    with pytest.raises(InputError, match=r"^row 0 of the labels names"):
        as_labels([["x"]], names=["a"], what="labels")


def test_the_input_is_left_alone():
    y = np.array(M, dtype=np.uint8)
    labels = as_labels(y, names=NAMES)
    assert y.tolist() == M
    labels.names.append("new")
    assert NAMES == ["beach", "cat", "dog"]


def test_rows_without_candidates_are_announced():
    matrix = np.array([[1, 0], [0, 0], [0, 1], [0, 0]], dtype=np.uint8)
    with pytest.warns(
        EmptyCandidatesWarning, match=r"^2 of 4 rows .*first is row 1, counted from 0\)"
    ):
        check_candidates(matrix)


def test_no_warning_without_reason():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_candidates(M)
        check_candidates([1, 0, 0])


@pytest.mark.parametrize("y", [np.zeros((3, 2)), np.zeros(3)])
def test_nothing_to_learn_from(y):
    with pytest.raises(InputError, match="no row carries a candidate label"):
        check_candidates(y)


@given(
    st.lists(st.lists(st.text(max_size=3), max_size=4, unique=True), min_size=1, max_size=6).filter(
        lambda rows: any(rows)
    )
)
def test_names_survive_the_way_there_and_back(rows):
    labels = as_labels(rows)
    assert label_lists(labels.matrix, labels.names) == [sorted(row) for row in rows]


def test_label_lists_of_predictions():
    assert label_lists(np.array(M, dtype=bool), NAMES) == LISTS
    assert label_lists(np.zeros((2, 3)), NAMES) == [[], []]


def test_two_columns_of_one_name_are_refused():
    pd = pytest.importorskip("pandas")
    table = pd.DataFrame([[1, 0], [0, 1]], columns=["dog", "dog"])
    with pytest.raises(InputError, match="two columns named 'dog'"):
        as_labels(table)


@pytest.mark.parametrize("names", [np.array([10, 20, 30]), (10, 20, 30), iter([10, 20, 30])])
def test_names_may_come_in_any_container_and_need_not_be_texts(names):
    labels = as_labels(M, names=names)
    assert labels.names == ["10", "20", "30"]
    assert as_labels([{10}, {20, 30}], names=[10, 20, 30]).matrix.tolist() == [[1, 0, 0], [0, 1, 1]]


def test_names_of_a_table_are_compared_with_any_container():
    pd = pytest.importorskip("pandas")
    table = pd.DataFrame(M, columns=NAMES)
    for y in (table, table[NAMES[::-1]]):
        assert as_labels(y, names=table.columns).matrix.tolist() == M


@pytest.mark.parametrize("y", [M, LISTS])
def test_a_name_given_twice_is_refused(y):
    with pytest.raises(InputError, match="label_names holds 'dog' twice"):
        as_labels(y, names=["dog", "cat", "dog"])


@pytest.mark.parametrize("names", [None, ["dog", "x\ud83d"]])
def test_half_of_a_surrogate_pair_in_a_name_is_repaired(names, tmp_path):
    """No file can hold such a name, so a model that learned it could not be saved."""
    labels = as_labels([["x\ud83d"], ["dog"]], names=names)
    assert labels.names == ["dog", "x\ufffd"]
    assert labels.matrix.tolist() == [[0, 1], [1, 0]]
