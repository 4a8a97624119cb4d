"""`set_output` of scikit-learn: DataFrames of pandas and polars."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn import config_context
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.pipeline import make_pipeline

import schirn
from schirn import CandidateRidge, find_noisy_labels
from schirn.features import KernelFeatures, TableFeatures, TagPipeline, TextFeatures

pd = pytest.importorskip("pandas", reason="pandas is not installed")

TABLE = {
    "title": ["red pan", "oak chair", "old pan", "red chair"] * 5,
    "price": [1.0, 2.0, 4.0, 8.0] * 5,
    "vector": [[1.0, 2.0], [3.0, 4.0], [5.0, 5.0], [0.0, 1.0]] * 5,
}
TAGS = [["pan"], ["chair"], ["pan"], ["chair", "red"]] * 5
DENSE = [
    (KernelFeatures(n_landmarks=5), np.random.RandomState(0).randn(20, 3)),
    (TableFeatures(columns=["price"]), TABLE),
    (TableFeatures(vectors="vector"), TABLE),
]
WORDS = [(TextFeatures(), TABLE["title"]), (TableFeatures(text="title"), TABLE)]


@pytest.mark.parametrize("kind", ["pandas", "polars"])
@pytest.mark.parametrize(("transformer", "X"), DENSE, ids=["kernel", "columns", "vectors"])
def test_dense_features(transformer, X, kind):
    frames = pytest.importorskip(kind, reason=f"{kind} is not installed")
    plain = clone(transformer).fit(X)
    framed = clone(transformer).set_output(transform=kind)
    for found in (framed.fit_transform(X), framed.transform(X)):
        assert isinstance(found, frames.DataFrame)
        assert list(found.columns) == plain.get_feature_names_out().tolist()
        np.testing.assert_array_equal(found.to_numpy(), plain.transform(X))
    back = framed.set_output(transform="default").transform(X)
    assert isinstance(back, np.ndarray)


@pytest.mark.parametrize(("transformer", "X"), WORDS, ids=["texts", "table"])
def test_words_stay_sparse(transformer, X):
    framed = clone(transformer).set_output(transform="pandas")
    with pytest.raises(ValueError, match="sparse"):
        framed.fit_transform(X)
    assert sp.issparse(framed.set_output(transform="default").fit_transform(X))


def test_the_index_is_kept():
    frame = pd.DataFrame(TABLE, index=range(100, 120))
    features = TableFeatures(columns=["price"]).set_output(transform="pandas")
    assert features.fit_transform(frame).index.tolist() == list(range(100, 120))


def test_float32_is_kept():
    X = np.random.RandomState(0).randn(20, 3).astype(np.float32)
    found = KernelFeatures(n_landmarks=5).set_output(transform="pandas").fit_transform(X)
    assert {str(kind) for kind in found.dtypes} == {"float32"}


def test_in_a_column_transformer():
    frame = pd.DataFrame(TABLE)
    parts = [
        ("words", TextFeatures(), "title"),
        ("kernel", KernelFeatures(n_landmarks=3), ["price"]),
    ]
    model = make_pipeline(ColumnTransformer(parts), CandidateRidge(lam=1.0)).fit(frame, TAGS)
    assert "words__red pan" in model[0].get_feature_names_out()
    assert model.predict(frame).shape == (20, 3)


@pytest.mark.parametrize("kind", ["pandas", "polars"])
def test_a_setting_for_all_transformers_changes_no_result(kind, tmp_path):
    pytest.importorskip(kind, reason=f"{kind} is not installed")
    tagger = TagPipeline(text="title").fit(TABLE, TAGS)
    wanted, found = tagger.predict_proba(TABLE), find_noisy_labels(TABLE["title"], TAGS)
    numbers = TagPipeline(columns=["price"]).fit(TABLE, TAGS)
    with config_context(transform_output=kind):
        same = TagPipeline(text="title").fit(TABLE, TAGS)
        np.testing.assert_array_equal(same.predict_proba(TABLE), wanted)
        np.testing.assert_array_equal(tagger.predict_proba(TABLE), wanted)
        again = find_noisy_labels(TABLE["title"], TAGS)
        np.testing.assert_array_equal(again.confidence, found.confidence)
        other = TagPipeline(columns=["price"]).fit(TABLE, TAGS)
        np.testing.assert_array_equal(other.predict_proba(TABLE), numbers.predict_proba(TABLE))
        schirn.save(other, tmp_path / "m.schirn")


def test_the_output_is_not_part_of_a_model_file(tmp_path):
    tagger = TagPipeline(text="title").fit(TABLE, TAGS)
    tagger.features_.set_output(transform="pandas")
    schirn.save(tagger, tmp_path / "m.schirn")
    loaded = schirn.load(tmp_path / "m.schirn")
    assert sp.issparse(loaded.features_.transform(TABLE))
