"""How likely a listed tag is to be correct, given scores that need not be calibrated.

Wrong tags that are listed regardless of the features score like the rows that do not list the
label. This yields three estimates; the first and the last are smooth functions of how many rows
list a label:

- the typical share w of wrong tags among labels as frequent. Half of the wrong tags score below the
  median of the rows that do not list the label, so w is twice the share of tags below that median;
- the share v of the label itself, drawn towards w;
- the ratio r(s) of how often listed and unlisted cells have the score s: a rising function.

Among labels as frequent, r = w + (1 - w) h, where h(s) is the ratio of correct to wrong tags. The
odds of a tag with score s are h(s) (1 - v) / v.

If the scores are log-odds of being listed, `listing_rates` tells how often rows that lack a label
list it, by Bayes' rule. Of a label that the features say nothing about, listed and unlisted cells
score alike (`label_informativeness`): its tags may be all wrong or all correct.
"""

from dataclasses import dataclass

import numpy as np
from scipy.special import expit, logit

from schirn._input import Array
from schirn.labels.tags import Tags
from schirn.noise.informativeness import cell_aucs, informativeness

# Labels whose frequencies differ by up to this power of two inform the estimates of each other.
_WIDTH = 1.5
# Numbers of frequencies per doubling, and of scores, at which ratios are estimated.
_PER_DOUBLING = 4
_BINS = 256
# Least share of wrong tags of a label, and of right ones; also the least ratio of correct to wrong
# tags that a score can stand for, whose inverse is the largest.
_LEAST_SHARE = 0.01
# Steps of Bayes' rule in `listing_rates`. After many, all labels have one rate.
_RATE_STEPS = 3
# Pseudo-count of wrong tags per label, at the rate of all labels.
_PSEUDO_TAGS = 5.0
# Below the first AUC, the features say nothing about a label; above the second, they say enough.
# Labels with few tags get the benefit of the doubt: this many standard errors are added.
_AUC_RANGE = (0.5, 0.8)
_DOUBT = 6.0
# Attempts to draw a row that does not list a label.
_TRIES = 30
# More unlisted cells are sampled of frequent labels, but at most this many times as many.
_MOST_UNLISTED = 25


def unclaimed_shares(
    scores: Array, Y: Array, row: Array, column: Array, confidence: Array
) -> Array:
    """Return by how much confidences understate the share of wrong tags.

    Parameters
    ----------
    scores : ndarray of shape (n, k)
        Scores of all cells: the higher, the more likely the label is correct.
    Y : ndarray of shape (n, k)
        0/1.
    row, column : ndarray
        The tags to count.
    confidence : ndarray
        Probability that each of these tags is correct.

    Returns
    -------
    ndarray of shape (k,)
        Among the labels as frequent as each label.
    """
    n_tags = np.bincount(column, minlength=scores.shape[1])
    medians = np.zeros(scores.shape[1])
    for j in np.flatnonzero(n_tags):
        medians[j] = np.median(scores[Y[:, j] == 0, j])
    n_wrong = 2 * _count_below(scores[row, column], column, medians)
    n_claimed = np.bincount(column, 1 - confidence, minlength=len(n_tags))
    return _typical_shares(n_tags, n_wrong) - _typical_shares(n_tags, n_claimed)


@dataclass(frozen=True, eq=False)
class ScoredCells:
    """Scores of listed tags, and of cells that are not listed.

    Attributes
    ----------
    label, score : ndarray
        Label and score of the tags that can be judged.
    unlisted_label, unlisted_score : ndarray
        The same of a sample of the cells that are not listed.
    """

    label: Array
    score: Array
    unlisted_label: Array
    unlisted_score: Array


@dataclass(frozen=True, eq=False)
class ScoreModel:
    """What scores say about listed tags.

    Attributes
    ----------
    typical_shares : ndarray of shape (l,)
        Share of wrong tags of labels as frequent as each label.
    shares : ndarray of shape (l,)
        The share of each label itself, drawn towards the typical one.
    frequency : ndarray of shape (l,)
        Which row of `ratios` each label has.
    score : ndarray
    ratios : ndarray
        Ratio of listed to unlisted cells at these scores, (frequencies, scores).
    """

    typical_shares: Array
    shares: Array
    frequency: Array
    score: Array
    ratios: Array

    def log_odds(self, score: Array, label: Array) -> Array:
        """Return the log-odds that listed tags with these scores are correct.

        Parameters
        ----------
        score, label : ndarray of shape (m,)

        Returns
        -------
        ndarray of shape (m,)
        """
        ratio = np.empty(len(score))
        frequency = self.frequency[label]
        for k in np.unique(frequency):
            cells = frequency == k
            ratio[cells] = np.interp(score[cells], self.score, self.ratios[k])
        typical = self.typical_shares[label]
        h = np.clip((ratio - typical) / (1 - typical), _LEAST_SHARE, 1 / _LEAST_SHARE)
        return np.asarray(np.log(h) + logit(1 - self.shares[label]))


def fit_score_model(cells: ScoredCells, n_labels: int) -> ScoreModel:
    """Fit the model to the scores of tags and of sampled cells that are not listed.

    Parameters
    ----------
    cells : ScoredCells
    n_labels : int

    Returns
    -------
    ScoreModel
    """
    n_unlisted = np.bincount(cells.unlisted_label, minlength=n_labels)
    # Without a single cell to compare with, tags say nothing about the scores.
    compared = n_unlisted[cells.label] > 0
    label = cells.label[compared]
    score = cells.score[compared]
    n_tags = np.bincount(label, minlength=n_labels)
    medians = _label_medians(cells.unlisted_score, cells.unlisted_label, n_labels)
    below = _count_below(score, label, medians)
    typical = _typical_shares(n_tags, 2 * below)
    shares = _own_shares(typical, n_tags, below, n_unlisted)
    frequency = np.rint(_PER_DOUBLING * np.log2(np.maximum(n_tags, 1))).astype(np.int64)
    # Each label has the weight that it has among the tags.
    weight = (n_tags / np.maximum(n_unlisted, 1))[cells.unlisted_label]
    scores = np.r_[score, cells.unlisted_score]
    edges = np.quantile(scores if len(scores) else [0.0], np.linspace(0, 1, _BINS + 1))
    tag_histogram = _histogram(score, frequency[label], edges, frequency.max())
    unlisted_histogram = _histogram(
        cells.unlisted_score, frequency[cells.unlisted_label], edges, frequency.max(), weight
    )
    ratios = _rising_ratios(tag_histogram, unlisted_histogram)
    bounds = _LEAST_SHARE, 1 - _LEAST_SHARE
    centres = (edges[:-1] + edges[1:]) / 2
    typical = np.clip(typical, *bounds)
    shares = np.clip(shares, *bounds)
    return ScoreModel(typical, shares, frequency, centres, ratios)


def listing_rates(cells: ScoredCells, n_listed: Array, n_rows: int) -> Array:
    """Return the rate at which rows that lack a label list it all the same.

    Parameters
    ----------
    cells : ScoredCells
        Scores are log-odds that a row lists the label.
    n_listed : ndarray of shape (l,)
        Number of rows that list each label.
    n_rows : int

    Returns
    -------
    ndarray of shape (l,)
    """
    l = len(n_listed)
    label = cells.label
    p = expit(cells.score)
    # Rows that do not list a label are taken to lack it. Each sampled cell stands for several.
    n_unlisted = np.bincount(cells.unlisted_label, minlength=l)
    weight = ((n_rows - n_listed) / np.maximum(n_unlisted, 1))[cells.unlisted_label]
    mean = np.sum(weight * expit(cells.unlisted_score)) / max(weight.sum(), 1e-9)
    rates = np.full(l, max(float(mean), 1e-9))
    n_tags = np.bincount(label, minlength=l)
    for _ in range(_RATE_STEPS):
        correct = np.bincount(label, p / (p + (1 - p) * rates[label]), minlength=l)
        wrong = n_tags - correct
        lacking = n_rows - correct
        common = max(wrong[n_tags > 0].sum() / max(lacking[n_tags > 0].sum(), 1e-9), 1e-9)
        rates = (wrong + _PSEUDO_TAGS) / (lacking + _PSEUDO_TAGS / common)
    return rates


def label_informativeness(cells: ScoredCells, n_labels: int) -> Array:
    """Return how much the scores say about each label, by the AUC of its tags.

    Parameters
    ----------
    cells : ScoredCells
    n_labels : int

    Returns
    -------
    ndarray of shape (n_labels,)
        From 0 (nothing) to 1 (enough).
    """
    measured = cell_aucs(*_arrays_of(cells), n_labels)
    auc = np.where(measured.has_pairs, measured.auc, 1.0)
    return np.asarray(
        informativeness(auc + _DOUBT * measured.standard_errors(), auc_range=_AUC_RANGE)
    )


def _arrays_of(cells: ScoredCells) -> tuple[Array, Array, Array, Array]:
    return cells.label, cells.score, cells.unlisted_label, cells.unlisted_score


def _count_below(scores: Array, label: Array, medians: Array) -> Array:
    """Return how many tags of each label score below its median; those at the median count half."""
    below = (scores < medians[label]) + 0.5 * (scores == medians[label])
    return np.bincount(label, below, minlength=len(medians))


def _typical_shares(n_tags: Array, n_wrong: Array) -> Array:
    """Return the share of wrong tags among labels as frequent as each label."""
    sizes, place = np.unique(n_tags, return_inverse=True)
    nearness = _nearness(np.log2(np.maximum(sizes, 1)))
    wrong, total = (np.bincount(place, c, minlength=len(sizes)) for c in (n_wrong, n_tags))
    return np.clip((nearness @ wrong) / np.maximum(nearness @ total, 1e-9), 0, 1)[place]


def _own_shares(typical: Array, n_tags: Array, n_below: Array, n_unlisted: Array) -> Array:
    """Return the share of wrong tags of each label, drawn towards that of labels as frequent."""
    mean = typical / 2
    share = n_below / np.maximum(n_tags, 1)
    # What chance adds to the variance: a coin toss per tag, and the median of few cells.
    coin = np.maximum(mean * (1 - mean), 1e-9)
    chance = coin / np.maximum(n_tags, 1) + mean**2 / (n_unlisted + 2)
    # Variance between labels, by moments, in units of the coin toss.
    several = n_tags > 1
    excess = (n_tags * ((share - mean) ** 2 - chance))[several].sum()
    between = excess / max(((n_tags - 1) * coin)[several].sum(), 1e-9)
    between = coin * np.clip(between, 1e-4, 1.0)
    return np.where(n_tags, 2 * (mean + between / (between + chance) * (share - mean)), typical)


def _histogram(
    scores: Array, frequency: Array, edges: Array, largest: int, weight: Array | None = None
) -> Array:
    """Return how many cells of each frequency have each score."""
    place = frequency * _BINS + np.searchsorted(edges[1:-1], scores)
    return np.bincount(place, weight, (largest + 1) * _BINS).reshape(largest + 1, _BINS)


def _rising_ratios(tag_histogram: Array, unlisted_histogram: Array) -> Array:
    """Return rising ratios of two histograms (frequencies, scores), smooth over frequencies."""
    # Imported here because most programs that import the library judge no tags.
    from sklearn.isotonic import isotonic_regression

    nearness = _nearness(np.arange(len(tag_histogram)) / _PER_DOUBLING)
    total = nearness @ (tag_histogram + unlisted_histogram)
    smooth = nearness @ tag_histogram
    if not total.any():
        # Nothing is known: each score is as frequent among the tags as elsewhere.
        return np.ones(total.shape)
    # A score that no cell has takes the share of the others.
    total += 1e-9 * total.sum(axis=1, keepdims=True)
    shares = smooth / total
    rising = [
        isotonic_regression(share, sample_weight=weight, y_min=1e-6, y_max=1 - 1e-6)
        for share, weight in zip(shares, total, strict=True)
    ]
    return np.array([share / (1 - share) for share in rising])


def _nearness(doublings: Array) -> Array:
    return np.asarray(np.exp(-(((doublings[:, None] - doublings) / _WIDTH) ** 2) / 2))


def _label_medians(scores: Array, column: Array, n_labels: int) -> Array:
    """Return the median score of the cells of each label."""
    order = np.lexsort((scores, column))
    ends = np.searchsorted(column[order], np.arange(n_labels + 1))
    first = ends[:-1]
    size = np.maximum(np.diff(ends), 1)
    ordered = np.r_[scores[order], 0.0]
    return np.asarray((ordered[first + (size - 1) // 2] + ordered[first + size // 2]) / 2)


def sample_unlisted(tags: Tags, columns: Array, count: int) -> tuple[Array, Array]:
    """Sample rows that do not list a label, at least `count` with replacement for each.

    Labels that nearly all rows list may have fewer. The draws follow from label and number alone,
    so that another seed changes none of them, and a few more rows change few.

    Parameters
    ----------
    tags : Tags
    columns : ndarray
        Labels.
    count : int

    Returns
    -------
    row, column : ndarray
        The sampled cells.
    """
    counts = np.clip(tags.counts[columns], count, _MOST_UNLISTED * count)
    column = np.repeat(columns, counts)
    number = np.arange(len(column)) - np.repeat(np.cumsum(counts) - counts, counts)
    keys = (column.astype(np.uint64) << np.uint64(32)) + number.astype(np.uint64)
    row = _consistent_draws(keys, tags.n_rows)
    clash = np.arange(len(column))
    for _ in range(_TRIES):
        clash = clash[tags.lists(row[clash], column[clash])]
        keys[clash] += np.uint64(1 << 24)
        row[clash] = _consistent_draws(keys[clash], tags.n_rows)
    free = np.ones(len(row), dtype=bool)
    free[clash] = ~tags.lists(row[clash], column[clash])
    return row[free], column[free]


def _consistent_draws(keys: Array, n: int) -> Array:
    """Return a number below n for each key: jump consistent hashing (Lamping and Veach, 2014).

    If n grows by 1, one key in n + 1 gets the new number, and all others keep theirs.
    """
    keys = keys.copy()
    numbers, jumps = np.zeros((2, len(keys)), dtype=np.int64)
    moving = np.arange(len(keys))
    while len(moving):
        numbers[moving] = jumps[moving]
        keys[moving] = keys[moving] * np.uint64(2862933555777941757) + np.uint64(1)
        uniform = ((keys[moving] >> np.uint64(33)).astype(np.float64) + 1) / 2**31
        jumps[moving] = ((numbers[moving] + 1) / uniform).astype(np.int64)
        moving = moving[jumps[moving] < n]
    return numbers
