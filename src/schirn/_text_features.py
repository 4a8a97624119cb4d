"""Features of texts: tf-idf weights of words, pairs of words and character n-grams."""

import unicodedata
from collections.abc import Iterable
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils.validation import check_is_fitted

from schirn._input import Array, as_plain, declare_parameters, is_missing
from schirn._progress import stage
from schirn._sklearn import BaseEstimator, TransformerMixin
from schirn.exceptions import InputError

_MAX_WORDS = 50_000
_MAX_CHARACTERS = 20_000
_N_GRAMS = (3, 5)
_MIN_TEXTS = 2
# Character sequences per text, on average.
_PER_TEXT = 128
# Texts whose character sequences are counted together.
_TEXTS = 50_000


# Attribute that caches what `transform` derives from the words and sequences.
_TERMS = "_remembered_terms"


def read_texts(X: Any) -> list[Any] | None:
    """Return the texts of a sequence, array or column of texts, or None if X is none of these.

    Parameters
    ----------
    X : object
        Missing texts may stand among others.

    Returns
    -------
    list or None

    Examples
    --------
    >>> read_texts(("a pan", None))
    ['a pan', None]
    >>> read_texts([[1.0, 2.0]]) is None
    True
    """
    X = as_plain(X)
    is_sequence = isinstance(X, list | tuple)
    if not (is_sequence or getattr(X, "ndim", 0) == 1) or not hasattr(X, "__iter__"):
        return None
    first = next((cell for cell in X if not is_missing(cell)), None)
    return list(X) if isinstance(first, str) else None


class TermCounter:
    """Counts known words, pairs of words and character sequences in texts."""

    def __init__(self, words: Array, characters: Array, idf: Array) -> None:
        if len(idf) != len(words) + len(characters):
            raise ValueError("there is not one weight per term")
        self.words = words
        self.idf = idf
        self._words = _vectorizer(vocabulary=words, ngram_range=(1, 2))
        # scikit-learn knows no empty vocabulary.
        self._characters = len(characters) and _vectorizer(
            vocabulary=characters, analyzer="char_wb", ngram_range=_N_GRAMS
        )

    def counts(self, texts: list[str]) -> "sp.csr_array":
        """Return how often each text has each term (n, features), in single precision."""
        blocks = [self._words.transform(texts)]
        if self._characters:
            tokens, spelled = _tokens(texts)
            blocks.append(tokens @ self._characters.transform(spelled))
        return sp.csr_array(sp.hstack(blocks, format="csr"))


@declare_parameters
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

    max_words: int = _MAX_WORDS
    max_characters: int = _MAX_CHARACTERS

    def fit(self, X: Iterable[Any], y: Any = None) -> "TextFeatures":
        """Learn the words and the character sequences.

        Parameters
        ----------
        X : sequence of str
            Texts; a missing one counts as empty.
        y : ignored

        Returns
        -------
        TextFeatures
            The object itself.
        """
        self._learn(X)
        return self

    def fit_transform(self, X: Iterable[Any], y: Any = None) -> "sp.csr_array":
        """Learn words and character sequences, and return the weights of the same texts.

        Parameters
        ----------
        X : sequence of str
            Texts; a missing one counts as empty.
        y : ignored
            For scikit-learn.

        Returns
        -------
        (n, d) CSR array
        """
        return self._weights(self._learn(X))

    def transform(self, X: Iterable[Any]) -> "sp.csr_array":
        """Return the weights (n, features) of texts; unknown words and sequences are left out.

        Parameters
        ----------
        X : sequence of str
            Texts; a missing one counts as empty.

        Returns
        -------
        (n, d) CSR array
        """
        check_is_fitted(self)
        return self._weights(self._terms.counts(_clean(X)))

    def _learn(self, X: Iterable[Any]) -> "sp.csr_array":
        """Learn the terms, and count them in the same texts."""
        stage("counting words")
        texts = _clean(X)
        words, self.words_ = _counts(texts, ngram_range=(1, 2), max_features=self.max_words)
        if not len(self.words_):
            raise InputError(
                "the texts have no words of two or more letters, so there is nothing to learn from"
            )
        self.idf_ = _idf(len(texts), np.bincount(words.indices)).astype(np.float32)
        return sp.csr_array(sp.hstack([words, self._learn_characters(texts)], format="csr"))

    def _weights(self, weights: "sp.csr_array") -> "sp.csr_array":
        """Turn counts into weights, in place."""
        weights.sort_indices()
        weights.data = self._terms.idf[weights.indices] * (1 + np.log(weights.data))
        # Words and sequences have unit length each, and so has the row.
        row = np.repeat(np.arange(weights.shape[0]), np.diff(weights.indptr))
        block = 2 * row + (weights.indices >= len(self.words_))
        squares = np.bincount(block, weights.data**2, minlength=2 * weights.shape[0])
        filled = (squares > 0).reshape(-1, 2).sum(axis=1).repeat(2)
        lengths = np.sqrt(np.where(squares > 0, squares * filled, 1)).astype(np.float32)
        weights.data /= lengths[block]
        return weights

    @property
    def _terms(self) -> TermCounter:
        # Not part of the fitted state: model files and pickles do without.
        terms: TermCounter | None = vars(self).get(_TERMS)
        if terms is None or terms.words is not self.words_:
            idf = np.concatenate([self.idf_, self.characters_idf_]).astype(np.float32)
            terms = TermCounter(self.words_, self.characters_, idf)
            setattr(self, _TERMS, terms)
        return terms

    def __getstate__(self) -> Any:
        return {k: v for k, v in super().__getstate__().items() if k != _TERMS}

    @property
    def n_characters(self) -> int:
        """Number of character sequences."""
        return len(self.characters_)

    def get_feature_names_out(self, input_features: Any = None) -> Array:
        """Return the words, and the character sequences behind a tilde, such as "~pan".

        Parameters
        ----------
        input_features : ignored
            For scikit-learn.

        Returns
        -------
        ndarray of str
        """
        check_is_fitted(self)
        sequences = [f"~{sequence}" for sequence in getattr(self, "characters_", ())]
        return np.array([*self.words_, *sequences], dtype=object)

    def _learn_characters(self, texts: list[str]) -> "sp.csr_array":
        """Choose the character sequences, and count them in the same texts."""
        stage("counting character sequences")
        tokens, spelled = _tokens(texts)
        letters, names = _spelling(spelled)
        totals = np.asarray(tokens.sum(axis=0)).ravel() @ letters
        order = np.argsort(-totals, kind="stable")[: self.max_characters]
        frequent = np.sort(order[totals[order] >= _MIN_TEXTS])
        letters = letters[:, frequent]
        n_texts = np.zeros(len(frequent), dtype=np.int64)
        for i in range(0, len(texts), _TEXTS):
            counts = sp.csr_array(tokens[i : i + _TEXTS] @ letters)
            n_texts += np.bincount(counts.indices, minlength=len(frequent))
        # In long texts, the sequences that most texts contain say little and cost most.
        order = np.argsort(n_texts, kind="stable")
        order = order[np.cumsum(n_texts[order]) <= _PER_TEXT * len(texts)]
        chosen = np.sort(order[n_texts[order] >= _MIN_TEXTS])
        self.characters_ = names[frequent[chosen]]
        self.characters_idf_ = _idf(len(texts), n_texts[chosen])
        return sp.csr_array(tokens @ letters[:, chosen])

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.input_tags.string = True
        return tags


def _idf(n: int, n_texts: Array) -> Array:
    """Inverse document frequency of terms that occur in some of n texts."""
    return np.asarray(np.log((1 + n) / (1 + n_texts)) + 1)


def _tokens(texts: list[str]) -> "tuple[sp.csr_array, Array]":
    """Return how often each text has each token, and the tokens: what lies between spaces."""
    return _counts(texts, analyzer=str.split)


def _spelling(tokens: Array) -> "tuple[sp.csr_array, Array]":
    """Return how often each token has each character sequence, and the sequences.

    A token is taken apart once, however many texts have it: the product with the counts of tokens
    is that of sequences in texts.
    """
    return _counts(tokens, analyzer="char_wb", ngram_range=_N_GRAMS)


def _vectorizer(**options: Any) -> Any:
    # Loaded on use: it takes longer than all of this package.
    from sklearn.feature_extraction.text import CountVectorizer

    return CountVectorizer(lowercase=False, dtype=np.float32, **options)


def _counts(documents: Any, **options: Any) -> "tuple[sp.csr_array, Array]":
    vectorizer = _vectorizer(**options)
    try:
        counts = vectorizer.fit_transform(documents)
    except ValueError:
        # No document has any term.
        return sp.csr_array((len(documents), 0), dtype=np.float32), np.array([], dtype=object)
    return sp.csr_array(counts), vectorizer.get_feature_names_out()


def _clean(texts: Iterable[Any]) -> list[str]:
    """Return texts in lower case and without accents."""
    if isinstance(texts, str):
        raise InputError("texts must be a sequence of texts, not one text")
    return ["" if is_missing(text) else _without_accents(str(text).lower()) for text in texts]


def _without_accents(text: str) -> str:
    if text.isascii():
        return text
    letters = unicodedata.normalize("NFKD", text)
    return "".join(letter for letter in letters if not unicodedata.combining(letter))
