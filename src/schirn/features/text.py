"""Features of texts: tf-idf weights of words, pairs of words and character n-grams."""

from collections.abc import Iterable
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from schirn._input import Array, is_missing
from schirn.exceptions import InputError
from schirn.features.output import arrays_of, as_output

_MAX_WORDS, _MAX_CHARACTERS = 50_000, 20_000
_N_GRAMS, _MIN_TEXTS = (3, 5), 2
# Character sequences per text, on average.
_PER_TEXT = 128


class TextFeatures(TransformerMixin, BaseEstimator):
    """Turn texts into tf-idf weights of their words and characters, in rows of unit length.

    Words and pairs of words are one block of features; sequences of three to five characters
    within a word, which typing errors and inflections leave mostly unchanged, are the other. Each
    block has the same share of the squared length of a row. The weights are in single precision
    and need no further scaling: use them with ``Sieve(features="none")``.

    Parameters
    ----------
    max_words : int
        Number of words and pairs to keep, the most frequent ones.
    max_characters : int
        Number of character sequences to keep, the most frequent ones; 0 leaves them out.

    Attributes
    ----------
    words_ : ndarray of str
        Words and pairs of words, one per feature.
    idf_ : ndarray
        Inverse document frequency of each.
    characters_ : ndarray of str
        Character sequences that occur in at least two texts, one per feature; a space stands for
        the beginning or end of a word.
    characters_idf_ : ndarray
        Inverse document frequency of each.

    Examples
    --------
    >>> from schirn.features import TextFeatures
    >>> features = TextFeatures().fit(["a red pan", "a red chair"])
    >>> features.words_.tolist()
    ['chair', 'pan', 'red', 'red chair', 'red pan']
    >>> features.characters_.tolist()
    [' a ', ' re', ' red', ' red ', 'ed ', 'red', 'red ']
    """

    def __init__(
        self, *, max_words: int = _MAX_WORDS, max_characters: int = _MAX_CHARACTERS
    ) -> None:
        self.max_words = max_words
        self.max_characters = max_characters

    def fit(self, X: Iterable[Any], y: Any = None) -> "TextFeatures":
        """Learn the words and the character sequences.

        Parameters
        ----------
        X : sequence of str
            Texts; a missing one counts as empty.
        y : ignored
        """
        arrays_of(self, X, learn=True)
        return self

    def fit_transform(self, X: Iterable[Any], y: Any = None) -> "sp.csr_array":
        """Learn words and character sequences, and return the weights of the same texts."""
        texts = _clean(X)
        vectorizer = _word_vectorizer(max_features=self.max_words)
        try:
            words = sp.csr_array(vectorizer.fit_transform(texts))
        except ValueError:
            raise InputError(
                "the texts have no words of two or more letters, so there is nothing to learn from"
            ) from None
        self.words_, self.idf_ = vectorizer.get_feature_names_out(), vectorizer.idf_
        counts = self._learn_characters(texts)
        return as_output(self, self._joined(words, counts), X)

    def transform(self, X: Iterable[Any]) -> "sp.csr_array":
        """Return the weights (n, features) of texts; unknown words and sequences are left out."""
        check_is_fitted(self)
        texts = _clean(X)
        vectorizer = _word_vectorizer(vocabulary=self.words_.tolist())
        vectorizer.idf_ = self.idf_
        words = sp.csr_array(vectorizer.transform(texts))
        counts = None
        if self.n_characters:
            tokens, spelled = _tokens(texts)
            counts = tokens @ _spelling(spelled, vocabulary=self.characters_.tolist())[0]
        return as_output(self, self._joined(words, counts), X)

    @property
    def n_characters(self) -> int:
        """Number of character sequences; models of version 0.2 have none."""
        return len(getattr(self, "characters_", ()))

    def get_feature_names_out(self, input_features: Any = None) -> Array:
        """Return the words, and the character sequences behind a tilde, such as "~pan"."""
        check_is_fitted(self)
        sequences = [f"~{each}" for each in getattr(self, "characters_", ())]
        return np.array([*self.words_, *sequences], dtype=object)

    def _learn_characters(self, texts: list[str]) -> "sp.csr_array":
        """Choose the character sequences; return how often each text has each of them."""
        tokens, spelled = _tokens(texts)
        letters, names = _spelling(spelled)
        totals = np.asarray(tokens.sum(axis=0)).ravel() @ letters
        order = np.argsort(-totals, kind="stable")[: self.max_characters]
        frequent = np.sort(order[totals[order] >= _MIN_TEXTS])
        counts = sp.csr_array(tokens @ letters[:, frequent])
        n_texts = np.bincount(counts.indices, minlength=len(frequent))
        # Of long texts, the sequences that most of them have say little and cost most.
        order = np.argsort(n_texts, kind="stable")
        order = order[np.cumsum(n_texts[order]) <= _PER_TEXT * len(texts)]
        chosen = np.sort(order[n_texts[order] >= _MIN_TEXTS])
        self.characters_ = names[frequent[chosen]]
        self.characters_idf_ = np.log((1 + len(texts)) / (1 + n_texts[chosen])) + 1
        return sp.csr_array(counts[:, chosen])

    def _joined(self, words: "sp.csr_array", counts: "sp.csr_array | None") -> "sp.csr_array":
        """Return both blocks, each of unit length, in rows of unit length."""
        if counts is not None:
            characters = sp.csr_array(counts, dtype=np.float32)
            characters.data = 1 + np.log(characters.data)
            characters.data *= self.characters_idf_.astype(np.float32)[characters.indices]
            words = sp.csr_array(sp.hstack([words, with_unit_rows(characters)]))
        words.sort_indices()
        return with_unit_rows(words)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.input_tags.string = True
        return tags


def with_unit_rows(X: "sp.csr_array") -> "sp.csr_array":
    """Scale the rows of a matrix to unit length, in place; rows of zeros stay."""
    squares = np.asarray(X.multiply(X).sum(axis=1)).ravel()
    lengths = np.sqrt(np.where(squares > 0, squares, 1)).astype(X.dtype)
    X.data /= np.repeat(lengths, np.diff(X.indptr))
    return X


def _word_vectorizer(**options: Any) -> Any:
    # Loaded on use: it takes longer than all of this package.
    from sklearn.feature_extraction.text import TfidfVectorizer

    return TfidfVectorizer(
        sublinear_tf=True, ngram_range=(1, 2), lowercase=False, dtype=np.float32, **options
    )


def _tokens(texts: list[str]) -> "tuple[sp.csr_array, Array]":
    """Return how often each text has each token, and the tokens: what lies between spaces."""
    return _counts(texts, analyzer=str.split)


def _spelling(tokens: Array, **options: Any) -> "tuple[sp.csr_array, Array]":
    """Return how often each token has each character sequence, and the sequences.

    A token is taken apart once, however many texts have it: the product with the counts of tokens
    is that of sequences in texts.
    """
    return _counts(tokens, analyzer="char_wb", ngram_range=_N_GRAMS, **options)


def _counts(documents: Any, **options: Any) -> "tuple[sp.csr_array, Array]":
    from sklearn.feature_extraction.text import CountVectorizer

    vectorizer = CountVectorizer(lowercase=False, dtype=np.float32, **options)
    try:
        counts = vectorizer.fit_transform(documents)
    except ValueError:
        # No document has any term.
        return sp.csr_array((len(documents), 0), dtype=np.float32), np.array([], dtype=object)
    return sp.csr_array(counts), vectorizer.get_feature_names_out()


def _clean(texts: Iterable[Any]) -> list[str]:
    """Return texts in lower case and without accents."""
    from sklearn.feature_extraction.text import strip_accents_unicode

    if isinstance(texts, str):
        raise InputError("texts must be a sequence of texts, not one text")
    return ["" if is_missing(text) else strip_accents_unicode(str(text).lower()) for text in texts]
