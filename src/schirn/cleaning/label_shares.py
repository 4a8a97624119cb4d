"""Share of wrong tags among labels of similar frequency, from scores that need not be calibrated.

Wrong tags that are listed regardless of the features score below the median of the rows that do not
list the label half of the time. So the share of wrong tags is taken as twice the share of tags
below that median, as a smooth function of how many rows list a label: if wrong tags fall on all
labels alike, those of rare labels are mostly wrong.
"""

import numpy as np

Array = np.ndarray

# Labels that are this many times as frequent, as a power of two, still count for each other.
_WIDTH = 1.0


def wrong_shares(scores: Array, listed: Array, row: Array, column: Array) -> Array:
    """Return the share (k,) of wrong tags of labels as frequent as each label.

    Parameters
    ----------
    scores : (n, k) float array
        Scores of all cells: the higher, the more likely the label is correct.
    listed : (n, k) 0/1 array
    row, column : int arrays
        The tags to count.
    """
    n_tags, medians = np.bincount(column, minlength=scores.shape[1]), np.zeros(scores.shape[1])
    for j in np.flatnonzero(n_tags):
        medians[j] = np.median(scores[listed[:, j] == 0, j])
    return wrong_shares_of_tags(scores[row, column], column, medians)


def wrong_shares_of_tags(tags: Array, column: Array, medians: Array) -> Array:
    """Return the same from the scores of the tags and the medians (k,) of unlisted cells."""
    n_tags, below = np.bincount(column, minlength=len(medians)), is_below(tags, medians[column])
    sizes, place = np.unique(n_tags, return_inverse=True)
    doublings = np.log2(np.maximum(sizes, 1))
    nearness = np.exp(-(((doublings[:, None] - doublings) / _WIDTH) ** 2) / 2)
    n_below = nearness @ np.bincount(place[column], below, minlength=len(sizes))
    total = nearness @ np.bincount(place, n_tags, minlength=len(sizes))
    return np.clip(2 * n_below / np.maximum(total, 1e-9), 0, 1)[place]


def is_below(scores: Array, medians: Array) -> Array:
    """Return 1 for a score below the median, 0.5 for one at it, else 0."""
    return np.asarray((scores < medians) + 0.5 * (scores == medians))


def label_medians(scores: Array, column: Array, n_labels: int) -> Array:
    """Return the median score of the cells of each label."""
    order = np.lexsort((scores, column))
    ends = np.searchsorted(column[order], np.arange(n_labels + 1))
    first, size = ends[:-1], np.maximum(np.diff(ends), 1)
    ordered = np.r_[scores[order], 0.0]
    return np.asarray((ordered[first + (size - 1) // 2] + ordered[first + size // 2]) / 2)
