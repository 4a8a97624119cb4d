"""Count the terms of texts: each token is taken apart once, however many texts have it."""

import re
import threading
from collections.abc import Sequence
from itertools import chain

import numpy as np
import scipy.sparse as sp

from schirn._input import Array

_WORD = re.compile(r"\b\w\w+\b")
# Tokens that are remembered, with their words and character sequences.
_MOST_TOKENS = 100_000


class TermCounter:
    """Counts known words, pairs of words and character sequences in texts.

    A token is what lies between spaces. Its words and its character sequences are looked up when
    it occurs for the first time, so that common tokens cost no more than a step in a dictionary.

    Parameters
    ----------
    words : sequence of str
        Words, and pairs of words with a space between them.
    characters : sequence of str
        Character sequences; a space stands for the beginning or end of a token.
    n_grams : (int, int)
        Least and greatest length of the sequences.
    """

    def __init__(
        self, words: Sequence[str], characters: Sequence[str], n_grams: tuple[int, int]
    ) -> None:
        self.n_features = len(words) + len(characters)
        # Several threads may use one model.
        self._lock = threading.Lock()
        pairs = {j: word.split(" ") for j, word in enumerate(words) if " " in word}
        number = {word: k for k, word in enumerate(dict.fromkeys(chain(*pairs.values())))}
        self._n_numbers = len(number) + 1
        keys = [
            number[first] * self._n_numbers + number[second] for first, second in pairs.values()
        ]
        order = np.argsort(keys)
        # The last key is larger than all others, so that a search always ends at a key.
        self._pair_keys = np.append(np.array(keys, dtype=np.int64)[order], np.iinfo(np.int64).max)
        self._pair_columns = np.array([*pairs], dtype=np.int32)[order]
        column = {word: j for j, word in enumerate(words) if j not in pairs}
        column |= {f" {each}": len(words) + j for j, each in enumerate(characters)}
        self._tokens = _Tokens(number, column, n_grams if len(characters) else None)

    def counts(self, texts: Sequence[str]) -> "sp.csr_array":
        """Return how often each text has each term (n, features), in single precision."""
        with self._lock:
            return self._counts(texts)

    def _counts(self, texts: Sequence[str]) -> "sp.csr_array":
        if len(self._tokens) > _MOST_TOKENS:
            self._tokens.forget()
        tokens = self._tokens
        lists = [[tokens[token] for token in text.split()] for text in texts]
        sizes = np.fromiter(map(len, lists), np.int64, len(lists))
        flat = np.fromiter(chain.from_iterable(lists), np.int64, int(sizes.sum()))
        distinct, place = np.unique(flat, return_inverse=True)
        owner = np.repeat(np.arange(len(texts)), sizes)
        pair_owner, pairs = self._pairs(distinct, place, owner)
        known, pair_place = np.unique(pairs, return_inverse=True)
        # First factor: the tokens and pairs of each text; second: the terms of each of them.
        cells = np.concatenate([owner, pair_owner]), np.append(place, len(distinct) + pair_place)
        n_parts = len(distinct) + len(known)
        ones = np.ones(len(cells[0]), dtype=np.float32)
        in_text = sp.csr_array((ones, cells), shape=(len(texts), n_parts))
        terms = [tokens.columns[k] for k in distinct.tolist()]
        columns = np.fromiter(chain(*terms, self._pair_columns[known].tolist()), np.int32)
        indptr = np.zeros(n_parts + 1, dtype=np.int32)
        np.cumsum([*map(len, terms), *([1] * len(known))], out=indptr[1:])
        parts = np.ones(len(columns), dtype=np.float32), columns, indptr
        in_token = sp.csr_array(parts, shape=(n_parts, self.n_features))
        return sp.csr_array(in_text @ in_token)

    def _pairs(self, distinct: Array, place: Array, owner: Array) -> tuple[Array, Array]:
        """Return the text of each known pair of successive words, and which pair it is."""
        words = [self._tokens.words[k] for k in distinct.tolist()]
        sizes = np.fromiter(map(len, words), np.int64, len(words))
        numbers = np.fromiter(chain.from_iterable(words), np.int64, int(sizes.sum()))
        starts = (np.cumsum(sizes) - sizes)[place]
        lengths = sizes[place]
        before = np.cumsum(lengths) - lengths
        number = numbers[np.repeat(starts - before, lengths) + np.arange(int(lengths.sum()))]
        owner = np.repeat(owner, lengths)
        keys = number[:-1] * self._n_numbers + number[1:]
        pairs = np.searchsorted(self._pair_keys, keys)
        known = (self._pair_keys[pairs] == keys) & (owner[:-1] == owner[1:])
        return owner[:-1][known], pairs[known]


class _Tokens(dict[str, int]):
    """Numbers of tokens, and what each consists of; a new token is taken apart."""

    def __init__(
        self, number: dict[str, int], column: dict[str, int], n_grams: tuple[int, int] | None
    ) -> None:
        super().__init__()
        self._number, self._column, self._n_grams = number, column, n_grams
        self.words: list[list[int]] = []
        self.columns: list[list[int]] = []

    def __missing__(self, token: str) -> int:
        words = _WORD.findall(token)
        terms = words
        if self._n_grams is not None:
            # The space in front tells a sequence from a word.
            sequences = character_sequences(token, *self._n_grams)
            terms = [*words, *(f" {each}" for each in sequences)]
        self.words.append([self._number.get(word, len(self._number)) for word in words])
        self.columns.append([self._column[term] for term in terms if term in self._column])
        self[token] = len(self)
        return self[token]

    def forget(self) -> None:
        """Forget all tokens."""
        self.clear()
        self.words.clear()
        self.columns.clear()


def character_sequences(token: str, least: int, most: int) -> list[str]:
    """Return the character sequences of a token with a space on both sides.

    >>> character_sequences("ab", 3, 5)
    [' ab', 'ab ', ' ab ']
    """
    padded = f" {token} "
    sequences = []
    for length in range(least, most + 1):
        if length >= len(padded):
            sequences.append(padded)
            break
        sequences += [padded[i : i + length] for i in range(len(padded) - length + 1)]
    return sequences
