"""Texts as rows of every estimator."""

import numpy as np
import pytest

import schirn
from schirn.datasets import make_partial_multilabel
from schirn.exceptions import InputError
from schirn.features import TextFeatures

COLOURS = ("red", "blue", "green")
THINGS = ("chair", "table", "lamp", "pan")


@pytest.fixture(scope="module")
def titles():
    """Titles that name a colour and a thing: these words are the tags, and some wrong ones."""
    rng = np.random.default_rng(0)
    words = [(rng.choice(COLOURS), rng.choice(THINGS)) for _ in range(120)]
    texts = [f"a {colour} {thing} number {k}" for k, (colour, thing) in enumerate(words)]
    tags = [[*pair, *rng.choice(THINGS, rng.integers(2))] for pair in words]
    return texts, [sorted(set(row)) for row in tags]


@pytest.mark.parametrize("name", ["Sieve", "Schirn", "CandidateRidge"])
def test_texts_are_rows(titles, name):
    texts, tags = titles
    model = schirn.methods()[name]().fit(texts, tags)
    predicted = model.decision_function(["one green lamp", "red pans"])
    best = [{model.label_names_[j] for j in np.argsort(-row)[:2]} for row in predicted]
    assert best[0] == {"green", "lamp"}
    assert "red" in best[1]
    features = TextFeatures().fit_transform(texts)
    options = {"features": "none"} if name == "Sieve" else {}
    same = schirn.methods()[name](**options).fit(features, tags)
    np.testing.assert_allclose(same.predict_proba(features), model.predict_proba(texts))
    np.testing.assert_allclose(same.disambiguate(features, tags), model.disambiguate(texts, tags))


def test_every_container_of_texts(titles, tmp_path):
    pandas = pytest.importorskip("pandas", reason="tables need pandas")
    texts, tags = titles
    model = schirn.CandidateRidge(lam=1.0).fit(texts, tags)
    expected = model.decision_function(texts)
    for rows in (tuple(texts), np.array(texts), np.array(texts, object), pandas.Series(texts)):
        again = schirn.CandidateRidge(lam=1.0).fit(rows, tags)
        np.testing.assert_array_equal(again.decision_function(rows), expected)
    schirn.save(model, tmp_path / "model.schirn")
    loaded = schirn.load(tmp_path / "model.schirn")
    np.testing.assert_allclose(loaded.decision_function(texts), expected)
    assert loaded.predict_labels(texts[:1])


def test_missing_texts_are_empty(titles):
    texts, tags = titles
    model = schirn.CandidateRidge(lam=1.0).fit([None, *texts[1:]], tags)
    assert np.isfinite(model.decision_function([texts[0], None])).all()


def test_many_texts_need_no_landmarks(titles):
    texts, tags = titles
    model = schirn.Sieve(max_kernel_rows=50, n_landmarks=30).fit(texts, tags)
    assert model.expansion_.kernel.name == "linear"
    assert model.expansion_.support is None


def test_rows_that_the_model_does_not_know(titles):
    texts, tags = titles
    data = make_partial_multilabel(n_samples=60, n_features=5, n_labels=4, random_state=0)
    numbers = schirn.CandidateRidge(lam=1.0).fit(data.X, data.candidates)
    with pytest.raises(
        InputError, match="X holds texts, but CandidateRidge was fitted to rows of 5"
    ):
        numbers.predict(["a pan"])
    model = schirn.CandidateRidge(lam=1.0).fit(texts, tags)
    with pytest.raises(ValueError, match="5 features"):
        model.predict(data.X)
    with pytest.raises(InputError, match="not one text"):
        model.predict("a pan")
    # A second fit forgets the words of the first.
    model.fit(data.X, data.candidates)
    assert not hasattr(model, "text_features_")
