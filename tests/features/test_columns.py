"""Columns of numbers and categories, through the features of a table."""

import numpy as np
import pytest

from schirn.exceptions import InputError
from schirn.features import TableFeatures


def fit(cells, **kinds):
    return TableFeatures(**(kinds or {"columns": ["p"]})).fit({"p": cells})


def test_missing_numbers_become_the_median_and_a_feature():
    features = fit(["1", "", 5, None, "NA", "2"])
    table = {"p": ["7", None]}
    assert features.transform(table).tolist() == [[7, 0], [2, 1]]
    assert features.get_feature_names_out().tolist() == ["p", "p is missing"]
    assert features.notes(table) == ["p: 1 missing value was filled with the median"]
    full = fit([1, 2, 4])
    assert full.transform(table).tolist() == [[7], [2]]
    assert full.notes({"p": [1]}) == []


@pytest.mark.parametrize(
    ("cells", "values"),
    [
        (["12,50", "3", "-1,5"], [12.5, 3, -1.5]),
        (["1.250,5", "3,25", 4], [1250.5, 3.25, 4]),
        (["1,250", "3,5", "0"], [1.25, 3.5, 0]),
        (["1.5", "2"], [1.5, 2]),
    ],
)
def test_decimal_commas_are_read(cells, values):
    features = TableFeatures(columns=["p"])
    assert features.fit_transform({"p": cells})[:, 0].tolist() == values
    said = [f"p: commas were read as decimal points, as in {cells[0]}"]
    assert features.notes({"p": cells}) == (said if "," in cells[0] else [])


@pytest.mark.parametrize("cells", [["1,250", "2,000"], ["1,5", "1,5,5"], ["1,5", "a,b"], ["1,5 €"]])
def test_commas_that_may_mean_something_else_are_errors(cells):
    with pytest.raises(InputError, match=r"column 'p': .* is not a number"):
        fit(cells)


def test_a_comma_means_what_it_meant_in_training():
    features = fit(["12,5", "3"])
    assert features.transform({"p": ["1,250", "2.5"]}).tolist() == [[1.25], [2.5]]
    assert fit(["12.5", "3"]).transform({"p": ["1,25", "2"]}).tolist() == [[1.25], [2]]


def test_cells_that_are_no_numbers_are_named():
    for cell in ("dear", "inf", "1_000"):
        with pytest.raises(InputError, match=r"row 2, column 'p': .* is not a number"):
            fit([1, cell])
    with pytest.raises(InputError, match="the column 'p' holds no numbers"):
        fit(["", None])


def test_values_far_away_do_not_flatten_the_others():
    cells = [*np.linspace(0, 1, 50), 1e9]
    table = {"p": cells, "q": ["a", "b"] * 25 + ["a"]}
    X = TableFeatures(columns=["p"], categories="q").fit_transform(table).toarray()
    assert np.ptp(X[:50, 0]) > 0.3 * np.ptp(X[:, 0])
    constant = TableFeatures(columns=["p"], categories="q").fit_transform({**table, "p": [3] * 51})
    assert not constant.toarray()[:, 0].any()


def test_categories_of_two_rows_become_features():
    features = fit(["red", " red", "blue", "blue", "rare", "", None], categories="p")
    assert features.get_feature_names_out().tolist() == ["p=blue", "p=red"]
    found = features.transform({"p": ["red", "rare", "new", None]}).toarray()
    assert found.tolist() == [[0, 1], [0, 0], [0, 0], [0, 0]]
    with pytest.raises(InputError, match="no category of 'p' occurs twice"):
        fit(["a", "b", None], categories=["p"])


def test_the_cell_that_keeps_commas_from_being_read_is_named():
    with pytest.raises(InputError, match="row 3, column 'p': 'EUR 12,50' is not a number"):
        fit(["48,65", "1,50", "EUR 12,50", "3,20"])
