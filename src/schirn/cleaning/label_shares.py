"""Share of wrong tags of each label, from scores that need not be calibrated.

Wrong tags that are listed regardless of the features score below the median of the rows that do not
list the label half of the time. So the share of wrong tags of a label is taken as twice the share
of its tags below that median, pulled towards that of labels as frequent.
"""

from typing import NamedTuple

import numpy as np
from scipy.special import logit

Array = np.ndarray

# A label is never taken to be all wrong or all right.
_LEAST_SHARE = 0.01
# Labels of similar frequency share a group that has this many tags; the most frequent are one.
_LEAST_TAGS, _MOST_ROWS = 500, 128


class LabelShares(NamedTuple):
    """Shares of wrong tags."""

    group: Array
    """Group of each label, the rarest first."""
    groups: Array
    """Share of each group."""
    each: Array
    """Share of each label."""
    total: float
    """Share of all tags."""

    @property
    def log_odds(self) -> Array:
        """Log-odds that a tag of each label is correct, relative to those of all tags."""
        return np.asarray(logit(1 - self.each) - logit(1 - self.total))


def shares_by_scores(scores: Array, listed: Array, row: Array, column: Array) -> LabelShares:
    """Return the shares of labels of which all cells are scored.

    Parameters
    ----------
    scores : (n, k) float array
        The higher, the more likely the label is correct.
    listed : (n, k) 0/1 array
    row, column : int arrays
        The tags that are judged; a label without any gets the share of its group.
    """
    median = np.zeros(scores.shape[1])
    for j in np.unique(column):
        median[j] = np.median(scores[listed[:, j] == 0, j])
    below = is_below(scores[row, column], median[column])
    return label_shares(below, column, (listed == 0).sum(axis=0))


def is_below(scores: Array, medians: Array) -> Array:
    """1 if a tag scores below the median of the other cells of its label, 0.5 if at it, else 0."""
    return np.asarray((scores < medians) + 0.5 * (scores == medians))


def label_shares(below: Array, label: Array, n_others: Array) -> LabelShares:
    """Share of wrong tags of each label, pulled towards the share of its group.

    Parameters
    ----------
    below : (m,) float array
        What `is_below` tells of each tag.
    label : (m,) int array
    n_others : (l,) int array
        Number of cells that make the median of each label.
    """
    l = len(n_others)
    number = np.bincount(label, minlength=l)
    share = np.bincount(label, below, minlength=l) / np.maximum(number, 1)
    group = _by_frequency(number)
    n = np.maximum(np.bincount(group, number), 1)
    mean = np.bincount(group, number * share) / n
    # What chance adds to the variance: a coin toss per tag, and the median of few cells.
    coin = np.maximum(mean * (1 - mean), 1e-9)[group]
    chance = coin / np.maximum(number, 1) + mean[group] ** 2 / (n_others + 2)
    # Variance between the labels of a group, by moments, in units of the coin toss.
    excess = number * ((share - mean[group]) ** 2 - chance * (1 - number / n[group]))
    several = number > 1
    between = excess[several].sum() / max(((number - 1) * coin)[several].sum(), 1e-9)
    between = coin * np.clip(between, 1e-4, 1.0)
    pulled = mean[group] + between / (between + chance) * (share - mean[group])
    limits = _LEAST_SHARE, 1 - _LEAST_SHARE
    each = np.clip(2 * np.where(number, pulled, mean[group]), *limits)
    total = float(np.clip((number * each).sum() / max(number.sum(), 1), *limits))
    return LabelShares(group, np.clip(2 * mean, *limits), each, total)


def _by_frequency(number: Array) -> Array:
    """A group of labels per doubling of their tags, joined until each has enough tags."""
    doublings = np.floor(np.log2(np.clip(number, 1, 2 * _MOST_ROWS))).astype(np.int64)
    tags = np.bincount(doublings, number)
    group, k, total = np.zeros(len(tags), dtype=np.int64), 0, 0
    for i, more in enumerate(tags):
        if total >= _LEAST_TAGS:
            k, total = k + 1, 0
        group[i] = k
        total += more
    if total < _LEAST_TAGS:
        group[group == k] = max(k - 1, 0)
    return group[doublings]
