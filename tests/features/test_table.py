"""Features of tables: one kind of column, or several together."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.metrics import roc_auc_score

import schirn
from schirn.app.tables._files import open_table
from schirn.exceptions import InputError
from schirn.features import TableFeatures, TextFeatures

TABLE = {
    "title": ["red pan", "red chair", None],
    "text": ["for eggs", "of oak", "new"],
    "price": ["12.5", 80, "3"],
    "vector": [[1, 2], [3, 4], [5, 6]],
}
KINDS = {"text": "title", "columns": ["price"], "categories": ["brand"], "vectors": "vector"}


@pytest.fixture(scope="module")
def mixed():
    """A table of 120 things, a quarter of them with a second, wrong tag after the right one."""
    rng = np.random.default_rng(0)
    things, brands = ["pan", "chair", "lamp"], ["Tefo", "Holz", "Lux"]
    kind = rng.integers(3, size=120)
    prices = [
        f"{20 * k + x:.2f}".replace(".", ",") for k, x in zip(kind, rng.random(120), strict=True)
    ]
    second = (kind + rng.integers(1, 3, size=120)) % 3
    tags = [
        [things[k]] + [things[j]] * (i % 4 == 0)
        for i, (k, j) in enumerate(zip(kind, second, strict=True))
    ]
    return {
        "title": [
            f"a {things[k]} of steel number{i}" if i % 3 else f"some item{i}"
            for i, k in enumerate(kind)
        ],
        "price": ["" if i % 10 == 1 else price for i, price in enumerate(prices)],
        "brand": [brands[k] if i % 5 else "Other" for i, k in enumerate(kind)],
        "vector": (np.eye(3)[kind] + rng.normal(size=(120, 3))).tolist(),
        "tags": [";".join(each) for each in tags],
    }


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


def test_what_to_learn_from_must_be_clear():
    with pytest.raises(InputError, match="give columns to learn from: text, columns, categories"):
        TableFeatures().fit(TABLE)
    with pytest.raises(InputError, match="pictures cannot be combined with other columns"):
        TableFeatures(text="title", image="file").fit(TABLE)
    with pytest.raises(InputError, match="there is no column 'titel'; did you mean 'title'"):
        TableFeatures(text="titel").fit(TABLE)
    with pytest.raises(InputError, match="columns is empty"):
        TableFeatures(columns=[]).fit(TABLE)
    with pytest.raises(InputError, match="not ndarray"):
        TableFeatures(columns=["a"]).fit(np.eye(2))


@pytest.mark.parametrize("kinds", [list(KINDS), ["text", "columns"], ["columns", "vectors"]])
def test_each_kind_has_the_same_variance(mixed, kinds):
    features = TableFeatures(**{kind: KINDS[kind] for kind in kinds})
    X = features.fit_transform(mixed)
    assert sp.issparse(X) == ("text" in kinds)
    assert features.is_scaled
    X = X.toarray() if sp.issparse(X) else X
    names, start = features.get_feature_names_out().tolist(), 0
    for kind in kinds:
        alone = TableFeatures(**{kind: KINDS[kind]}).fit(mixed)
        end = start + alone.n_features_
        assert names[start:end] == alone.get_feature_names_out().tolist()
        assert X[:, start:end].var(axis=0).sum() == pytest.approx(1, rel=1e-4)
        start = end
    assert start == X.shape[1] == len(names)
    again = features.transform(mixed)
    np.testing.assert_allclose(again.toarray() if sp.issparse(again) else again, X, atol=1e-6)


def test_a_kind_that_says_nothing_counts_less(mixed):
    rng = np.random.default_rng(1)
    table = mixed | {"noise": rng.normal(size=len(mixed["title"])).tolist()}
    features = TableFeatures(text="title", columns=["noise"])
    equal = features.fit(table).scales_
    learned = features.fit(table, mixed["tags"]).scales_
    assert learned[1] / learned[0] < 0.6 * equal[1] / equal[0]
    with pytest.raises(InputError, match="the table has 120 rows, but there are tags for 1"):
        features.fit(table, ["pan"])


def test_names_that_readers_understand(mixed):
    features = TableFeatures(**KINDS).fit(mixed)
    names = features.readable_names()
    assert len(names) == features.n_features_
    assert {"pan", "price", "price is missing", "brand=Tefo"} < set(names)
    assert not any(name.startswith(("~", "vector")) for name in names)
    assert features.source() == "title, price, brand, vector"


def test_a_table_in_memory_is_cleaned_as_it_is(mixed):
    frame = pytest.importorskip("pandas").DataFrame(mixed).drop(columns=["tags", "vector"])
    ranking = schirn.find_noisy_labels(frame, mixed["tags"])
    right = [mixed["tags"][i].split(";")[0] for i in ranking.row] == np.array(ranking.label)
    assert roc_auc_score(right, ranking.confidence) > 0.97
    columns = {name: mixed[name] for name in frame.columns}
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    for table in (columns, rows):
        same = schirn.find_noisy_labels(table, mixed["tags"])
        np.testing.assert_allclose(same.confidence, ranking.confidence, atol=1e-6)
    wrong = int(np.flatnonzero(~right)[0])
    why = ranking.reasons(frame).explain(int(ranking.row[wrong]), ranking.label[wrong])
    assert why.words[0].contribution < 0
    two = {"a": [[1], [2]], "b": [[1], [2]]}
    with pytest.raises(InputError, match="both 'a' and 'b' hold lists"):
        schirn.find_noisy_labels(two, ["x", "y"])


def test_the_transformers_can_be_cloned():
    features = TableFeatures(columns=["price"]).fit(TABLE)
    again = clone(features)
    assert again.columns == ["price"]
    assert not hasattr(again, "n_features_")
    assert features.get_feature_names_out().tolist() == ["price"]
