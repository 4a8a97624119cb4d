"""Swaps: a listed tag and a tag missing from the same row that are often confused.

Somebody lists "coat" where "jacket" is right. One such row says little, since many pairs of a wrong
and a missing tag have nothing to do with each other; many rows with the same pair of labels do.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from schirn._input import Array

# Of hundreds of pairs of labels, chance alone brings hardly any this far above its mean.
_DEVIATIONS = 3


class LabelSwap(NamedTuple):
    """All swaps of one label for another.

    Attributes
    ----------
    wrong, right : str
        The label to remove and the one to add.
    n_rows : int
        Number of rows.
    row : int
        The surest of them.
    """

    wrong: str
    right: str
    n_rows: int
    row: int


@dataclass(frozen=True, eq=False, repr=False)
class Swaps:
    """Pairs of a listed tag that looks wrong and a missing one to list instead, the surest first.

    Attributes
    ----------
    row, wrong_column, right_column : (k,) int arrays
    wrong_label, right_label : (k,) object arrays
        Names of the tag to remove and of the tag to add.
    label_names : list of str
    score : (k,) float array
        Between 0 and 1, but no probability: how suspicious the first tag is, times how likely the
        second one is missing, times how much the two labels are confused.
    """

    row: Array
    wrong_column: Array
    right_column: Array
    score: Array
    label_names: list[str]

    def __len__(self) -> int:
        return len(self.row)

    def __repr__(self) -> str:
        return f"Swaps({len(self)} ranked)"

    @property
    def wrong_label(self) -> Array:
        """Name of each tag to remove."""
        return np.array(self.label_names, dtype=object)[self.wrong_column]

    @property
    def right_label(self) -> Array:
        """Name of each tag to add."""
        return np.array(self.label_names, dtype=object)[self.right_column]

    def by_labels(self) -> list[LabelSwap]:
        """Return every pair of labels once, the surest first.

        Returns
        -------
        list of LabelSwap
        """
        rows: dict[tuple[int, int], list[int]] = {}
        columns = (self.row, self.wrong_column, self.right_column)
        for row, wrong, right in zip(*(column.tolist() for column in columns), strict=True):
            rows.setdefault((wrong, right), []).append(row)
        names = self.label_names
        return [
            LabelSwap(names[wrong], names[right], len(numbers), numbers[0])
            for (wrong, right), numbers in rows.items()
        ]

    def records(self) -> Iterator[dict[str, Any]]:
        """Yield one dictionary per swap.

        Yields
        ------
        dict
            With the keys "row", "wrong", "right" and "score".
        """
        columns = (self.row, self.wrong_label, self.right_label, self.score)
        for values in zip(*(column.tolist() for column in columns), strict=True):
            yield dict(zip(("row", "wrong", "right", "score"), values, strict=True))


def pair_by_row(listed_row: Array, p: Array, missing_row: Array, q: Array) -> tuple[Array, Array]:
    """Indices of all pairs of a suspicious listed tag and a likely missing one of the same row.

    The listed tag is no more likely correct than the average tag. The missing one is more likely
    correct than not: somebody is asked to add it.

    Parameters
    ----------
    listed_row, missing_row : int arrays
        The second one sorted.
    p, q : float arrays
        Probability that each tag is correct.
    """
    average = p.mean() if len(p) else 0.0
    suspicious = np.flatnonzero(p <= average)
    likely = np.flatnonzero(q > 0.5)
    rows = listed_row[suspicious]
    start, stop = (np.searchsorted(missing_row[likely], rows, s) for s in ("left", "right"))
    n_partners = stop - start
    index = np.repeat(np.arange(len(rows)), n_partners)
    turn = np.arange(len(index)) - np.repeat(np.cumsum(n_partners) - n_partners, n_partners)
    return suspicious[index], likely[start[index] + turn]


def best_pairs(score: Array, suspect: Array, missing: Array) -> Array:
    """Indices of the pairs with the highest scores, at most one for every tag."""
    best = np.argsort(-score, kind="stable")
    for tag in (suspect, missing):
        best = best[np.sort(np.unique(tag[best], return_index=True)[1])]
    return best


def confusion(wrong: Array, right: Array, counted: Array, n_labels: int) -> Array:
    """How much more often the two labels of each pair meet than by chance, from 0 to below 1.

    Of N counted pairs a → b, chance explains E = A B / (C + 1), where A counts the pairs a → other,
    B the pairs other → b and C the pairs other → other, and other is any label but a and b. The
    result is (N − 1 − E − 3√E) / √((N + A + 1)(N + B + 1)), or 0 if that is negative; N − 1 since
    no row vouches for itself.

    Parameters
    ----------
    wrong, right : (m,) int arrays
        Labels of each pair.
    counted : int array
        Indices of the pairs that count.
    n_labels : int
    """
    size = len(wrong)
    wrong = wrong.astype(np.int64)
    pairs = np.r_[wrong * n_labels + right, right * n_labels + wrong]
    kinds, kind = np.unique(pairs, return_inverse=True)
    counts = np.bincount(kind[counted], minlength=len(kinds))
    n = counts[kind[:size]]
    n_reversed = counts[kind[size:]]
    source, target = (np.bincount(x[counted], minlength=n_labels) for x in (wrong, right))
    a = source[wrong] - n
    b = target[right] - n
    n_involved = source[wrong] + source[right] + target[wrong] + target[right] - n - n_reversed
    chance = a * b / (len(counted) - n_involved + 1)
    excess = n - 1 - chance - _DEVIATIONS * np.sqrt(chance)
    return np.asarray(np.maximum(excess, 0) / np.sqrt((n + a + 1.0) * (n + b + 1.0)))
