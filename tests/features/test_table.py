"""Features of texts and tables."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from schirn.exceptions import InputError
from schirn.features import TableFeatures, TextFeatures
from schirn.tables.files import open_table

TABLE = {
    "title": ["red pan", "red chair", None],
    "text": ["for eggs", "of oak", "new"],
    "price": ["12.5", 80, "3"],
    "vector": [[1, 2], [3, 4], [5, 6]],
}


def test_texts_become_weights_of_words_and_pairs_in_rows_of_unit_length():
    texts = ["a red pan", "a red chair", "", None]
    found = TextFeatures().fit_transform(texts)
    assert sp.issparse(found)
    assert found.shape == (4, 5)
    np.testing.assert_allclose(sp.linalg.norm(found, axis=1), [1, 1, 0, 0])


def test_new_texts_get_the_weights_that_training_texts_have():
    texts = ["a red pan", "a red chair", "Café au lait in a red pan"]
    features = TextFeatures().fit(texts)
    trained = features.fit_transform(texts)
    assert abs(features.transform(texts[::-1]) - trained[[2, 1, 0]]).max() == 0
    assert features.transform(["cafe and nothing else"]).nnz == 1
    names = features.get_feature_names_out()
    assert names[features.transform(["pan"]).indices].tolist() == ["pan"]


def test_the_most_frequent_words_are_kept():
    features = TextFeatures(max_words=2).fit(["red pan", "red chair", "red pan"])
    assert sorted(features.get_feature_names_out()) == ["pan", "red"]


def test_texts_without_words_and_one_text_are_errors():
    with pytest.raises(InputError, match="no words of two or more letters"):
        TextFeatures().fit(["a", "!"])
    with pytest.raises(InputError, match="not one text"):
        TextFeatures().fit("red pan")
    with pytest.raises(NotFittedError):
        TextFeatures().transform(["red"])


@pytest.mark.parametrize("kind", ["dict", "rows", "frame", "file"])
def test_every_kind_of_table_gives_the_same_features(kind, tmp_path):
    table = {"title": TABLE["title"], "price": ["12.5", "80", "3"]}
    given = table
    if kind == "rows":
        given = [dict(zip(table, row, strict=True)) for row in zip(*table.values(), strict=True)]
    elif kind == "frame":
        given = pytest.importorskip("pandas").DataFrame(table)
    elif kind == "file":
        path = tmp_path / "t.csv"
        path.write_text("title,price\nred pan,12.5\nred chair,80\n,3\n")
        given = open_table(path)
    words = TableFeatures(text="title").fit_transform(given).toarray()
    np.testing.assert_array_equal(words, TextFeatures().fit_transform(table["title"]).toarray())
    numbers = TableFeatures(columns=["price"]).fit_transform(given)
    assert numbers.tolist() == [[12.5], [80.0], [3.0]]


def test_several_columns_of_text_are_joined():
    features = TableFeatures(text=["title", "text"])
    assert features.texts(TABLE) == ["red pan for eggs", "red chair of oak", "new"]
    assert features.fit(TABLE).source() == "title, text"
    assert "pan for" in features.get_feature_names_out()


def test_vectors_are_stacked_and_must_keep_their_length():
    features = TableFeatures(vectors="vector")
    assert features.fit_transform(TABLE).tolist() == TABLE["vector"]
    assert features.get_feature_names_out().tolist() == ["vector0", "vector1"]
    assert features.transform({"vector": [np.array([7, 8])]}).tolist() == [[7, 8]]
    with pytest.raises(InputError, match="lists of 3 numbers, but lists of 2 in training"):
        features.transform({"vector": [[1, 2, 3]]})


@pytest.mark.parametrize("cells", [[[1], [1, 2]], [[], []], ["a", "b"], [[1], ["x"]], [[10**400]]])
def test_vectors_that_do_not_fit_are_named(cells):
    with pytest.raises(InputError, match="'v' must hold lists of numbers"):
        TableFeatures(vectors="v").fit({"v": cells})


def test_a_cell_that_is_no_number_is_named():
    for cell in ("dear", "", None, "inf"):
        with pytest.raises(InputError, match=r"row 2, column 'p': .* is not a number"):
            TableFeatures(columns=["p"]).fit({"p": [1, cell]})


def test_what_to_learn_from_must_be_clear():
    with pytest.raises(InputError, match="give one of text, columns, vectors and image, not none"):
        TableFeatures().fit(TABLE)
    with pytest.raises(InputError, match="not text and columns"):
        TableFeatures(text="title", columns=["price"]).fit(TABLE)
    with pytest.raises(InputError, match="there is no column 'titel'; did you mean 'title'"):
        TableFeatures(text="titel").fit(TABLE)
    with pytest.raises(InputError, match="columns is empty"):
        TableFeatures(columns=[]).fit(TABLE)
    with pytest.raises(InputError, match="not ndarray"):
        TableFeatures(columns=["a"]).fit(np.eye(2))


def test_the_transformers_can_be_cloned():
    features = TableFeatures(columns=["price"]).fit(TABLE)
    again = clone(features)
    assert again.columns == ["price"]
    assert not hasattr(again, "n_features_")
    assert features.get_feature_names_out().tolist() == ["price"]
