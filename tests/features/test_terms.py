"""Terms are counted as scikit-learn counts them."""

import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer

from schirn._text_features import TermCounter
from schirn.features import TextFeatures

TEXTS = ["a red pan", "red red pan!", "pan-red x", "", "  red\tpan\nred ", "un_der été ab"]


def reference(words, characters, texts):
    """Counts of words, pairs and character sequences by scikit-learn."""
    blocks = [
        CountVectorizer(vocabulary=words, ngram_range=(1, 2), lowercase=False),
        CountVectorizer(
            vocabulary=characters, analyzer="char_wb", ngram_range=(3, 5), lowercase=False
        ),
    ]
    return np.hstack([block.fit_transform(texts).toarray() for block in blocks])


@settings(max_examples=60, deadline=None)
@given(st.lists(st.text(alphabet="ab -_.é1\n", max_size=20), min_size=1, max_size=6))
def test_counts(texts):
    fitted = [
        CountVectorizer(ngram_range=(1, 2), lowercase=False),
        CountVectorizer(analyzer="char_wb", ngram_range=(3, 5), lowercase=False),
    ]
    words, characters = (f.fit(TEXTS).get_feature_names_out().tolist() for f in fitted)
    counter = TermCounter(words, characters, np.ones(len(words) + len(characters)))
    for batch in (TEXTS, texts, TEXTS):
        counts = counter.counts(batch).toarray()
        np.testing.assert_array_equal(counts, reference(words, characters, batch))


def test_weights_are_those_of_scikit_learn():
    features = TextFeatures(max_characters=0).fit(TEXTS)
    expected = TfidfVectorizer(
        sublinear_tf=True, ngram_range=(1, 2), strip_accents="unicode", dtype=np.float32
    )
    np.testing.assert_allclose(
        features.transform(TEXTS).toarray(), expected.fit_transform(TEXTS).toarray(), atol=1e-6
    )


def test_a_pair_is_known_although_its_words_are_not():
    counter = TermCounter(["red pan", "pan"], [], np.ones(2))
    assert counter.counts(["red pan pan", "red"]).toarray().tolist() == [[1, 2], [0, 0]]


@pytest.mark.parametrize("n_threads", [8])
def test_threads_share_a_model(n_threads):
    texts = [f"word{i} pan{i % 7} red" for i in range(300)]
    features = TextFeatures().fit(texts)
    expected = features.transform(texts).toarray()
    features = TextFeatures().fit(texts)
    wrong = []

    def work():
        for i in range(0, 300, 10):
            weights = features.transform(texts[i : i + 10]).toarray()
            wrong.extend(np.argwhere(weights != expected[i : i + 10]))

    threads = [threading.Thread(target=work) for _ in range(n_threads)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
