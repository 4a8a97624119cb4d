"""Swaps: a listed tag and a tag missing from the same row that are often confused.

Somebody lists "coat" where "jacket" is right. One such row is weak evidence, because many pairs of
a wrong and a missing tag are unrelated; many rows with the same pair of labels are strong evidence.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from schirn._input import Array

# Standard deviations above the expected number of rows that chance rarely reaches, even among
# hundreds of pairs of labels.
_DEVIATIONS = 3


class LabelSwap(NamedTuple):
    """All swaps of one label for another.

    Attributes
    ----------
    wrong, right : str
        The label to remove and the label to add.
    n_rows : int
        Number of rows.
    row : int
        The most certain of these rows.
    """

    wrong: str
    right: str
    n_rows: int
    row: int


@dataclass(frozen=True, eq=False, repr=False)
class Swaps:
    """Pairs of a listed tag that looks wrong and a missing tag to list instead.

    The most certain pairs come first.

    Attributes
    ----------
    row, wrong_column, right_column : (k,) int arrays
        Row, label to remove and label to add of each swap.
    wrong_label, right_label : (k,) object arrays
        Names of the tag to remove and of the tag to add.
    label_names : list of str
        Name of each label.
    score : (k,) float array
        Probability that the first tag is wrong, times the probability that the second tag is
        missing, times the confusion of the two labels. Between 0 and 1, but not a probability.
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
        """Return each pair of labels once, the most certain first.

        Returns
        -------
        list of LabelSwap
        """
        rows: dict[tuple[int, int], list[int]] = {}
        pairs = zip(self.wrong_column.tolist(), self.right_column.tolist(), strict=True)
        for row, pair in zip(self.row.tolist(), pairs, strict=True):
            rows.setdefault(pair, []).append(row)
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
        wrong = self.wrong_label.tolist()
        right = self.right_label.tolist()
        score = self.score.tolist()
        for k, row in enumerate(self.row.tolist()):
            yield {"row": row, "wrong": wrong[k], "right": right[k], "score": score[k]}


def pair_by_row(listed_row: Array, p: Array, missing_row: Array, q: Array) -> tuple[Array, Array]:
    """Return all pairs of a suspicious listed tag and a likely missing tag of the same row.

    The listed tag is at most as likely to be correct as the average tag. The missing tag is more
    likely correct than not, because a person is asked to add it.

    Parameters
    ----------
    listed_row, missing_row : int arrays
        Row of each listed and missing tag; `missing_row` is sorted.
    p, q : float arrays
        Probability that each listed and missing tag is correct.

    Returns
    -------
    listed, missing : int arrays
        Indices of the tags of each pair.
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
    """Return the indices of the pairs with the highest scores, at most one per tag."""
    best = np.argsort(-score, kind="stable")
    for tag in (suspect, missing):
        best = best[np.sort(np.unique(tag[best], return_index=True)[1])]
    return best


def confusion(wrong: Array, right: Array, counted: Array, n_labels: int) -> Array:
    """Return the excess over chance with which the two labels of each pair meet, in [0, 1).

    Of N counted pairs a → b, chance explains E = A B / (C + 1), where A counts the pairs a → other,
    B the pairs other → b and C the pairs other → other, and other is any label but a and b. The
    result is (N − 1 − E − 3√E) / √((N + A + 1)(N + B + 1)), or 0 if that is negative. It uses
    N − 1 because no row is evidence for itself.

    Parameters
    ----------
    wrong, right : (m,) int arrays
        Labels of each pair.
    counted : int array
        Indices of the pairs that count.
    n_labels : int
        Number of labels.

    Returns
    -------
    (m,) float array
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
