"""Features of texts against the vectorizers of scikit-learn."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.exceptions import NotFittedError
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.preprocessing import normalize

from schirn.exceptions import InputError
from schirn.features import TextFeatures


def texts(n=200, seed=0):
    rng = np.random.default_rng(seed)
    words = [
        "Café",
        "chair",
        "chairs",
        "chiar",
        "pan,",
        "C++",
        "a",
        "x1",
        "steel",
        "lamp",
        "日本語",
    ]
    return [" ".join(rng.choice(words, rng.integers(1, 7))) for _ in range(n)]


def reference(train, new):
    """Words and characters as two matrices of scikit-learn, side by side in rows of unit length."""
    common = {"sublinear_tf": True, "strip_accents": "unicode"}
    words = TfidfVectorizer(ngram_range=(1, 2), **common).fit(train)
    characters = TfidfVectorizer(analyzer="char_wb", ngram_range=(3, 5), min_df=2, **common)
    characters.fit(train)
    blocks = [words.transform(new), characters.transform(new)]
    return words, characters, normalize(sp.hstack(blocks))


def test_both_blocks_are_those_of_scikit_learn():
    train, new = texts(), [*texts(50, seed=1), "unknown", "", "a"]
    features = TextFeatures()
    words, characters, expected = reference(train, train)
    X = features.fit_transform(train)
    assert X.dtype == np.float32
    assert features.words_.tolist() == words.get_feature_names_out().tolist()
    assert features.characters_.tolist() == characters.get_feature_names_out().tolist()
    np.testing.assert_allclose(X.toarray(), expected.toarray(), atol=1e-6)
    expected = reference(train, new)[2]
    np.testing.assert_allclose(features.transform(new).toarray(), expected.toarray(), atol=1e-6)


def test_words_and_characters_have_the_same_share():
    features = TextFeatures().fit(["a red pan", "a red chair"])
    X = features.transform(["red", "", None, "zzz"]).toarray()
    n_words = len(features.words_)
    np.testing.assert_allclose((X[0, :n_words] ** 2).sum(), 0.5, rtol=1e-5)
    np.testing.assert_allclose((X**2).sum(axis=1), [1, 0, 0, 0], rtol=1e-5)


def test_a_typing_error_is_close_to_the_word():
    train = ["kitchen lamp", "garden chair", "kitchen pan", "garden bench"] * 3
    features = TextFeatures().fit(train)
    X, typo = features.transform(train), features.transform(["kitchne"])
    similarity = (X @ typo.T).toarray().ravel()
    assert similarity[0] > 0.2
    assert similarity[1] == 0


def test_the_most_frequent_features_are_kept():
    lines = ["red pan", "red chair", "red pan"]
    assert TextFeatures(max_words=2).fit(lines).words_.tolist() == ["pan", "red"]
    features = TextFeatures(max_characters=6).fit(lines)
    # All sequences of "red", which is in every text.
    assert features.characters_.tolist() == [" re", " red", " red ", "ed ", "red", "red "]


def test_without_characters_only_words_are_left():
    features = TextFeatures(max_characters=0).fit(["red pan", "red chair"])
    assert features.get_feature_names_out().tolist() == [
        "chair",
        "pan",
        "red",
        "red chair",
        "red pan",
    ]
    assert features.transform(["red pan"]).shape == (1, 5)


def test_sequences_of_long_texts_are_limited():
    rng = np.random.default_rng(0)
    words = ["".join(rng.choice(list("abcdefghij"), 6)) for _ in range(500)]
    long = [" ".join(rng.choice(words, 200)) for _ in range(40)]
    features = TextFeatures()
    X = features.fit_transform(long)
    n_words = len(features.words_)
    per_text = (X[:, n_words:] != 0).sum() / len(long)
    assert 100 < per_text <= 128
    # The rarer ones stay.
    n_texts = (X[:, n_words:] != 0).sum(axis=0)
    assert n_texts.max() < len(long) / 2


def test_features_have_distinct_names():
    features = TextFeatures().fit(["a red pan", "the red pan"])
    names = features.get_feature_names_out().tolist()
    assert len(set(names)) == len(names)
    assert {"pan", "~pan"} < set(names)


def test_texts_without_words_and_one_text_are_errors():
    with pytest.raises(InputError, match="no words of two or more letters"):
        TextFeatures().fit(["a", "!"])
    with pytest.raises(InputError, match="not one text"):
        TextFeatures().fit("red pan")
    with pytest.raises(NotFittedError):
        TextFeatures().transform(["red"])
