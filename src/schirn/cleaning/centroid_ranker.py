"""Judge tags of very many labels: only listed cells and a sample of the others are scored.

Nothing here has a row for each row of the table and a column for each label. With c tags, l labels
and k sampled cells per label, memory and time grow with c + k l.

1. Cells of one half of the rows are compared with the mean rows of the labels in the other half:
   all listed cells, and for each label some rows that do not list it.
2. Wrong tags that are listed regardless of the features score below the median of the rows that do
   not list the label half of the time. So the share w of wrong tags of a label is taken as twice
   the share of its tags below that median, pulled towards that of labels as frequent.
3. The density of the scores of listed cells, divided by that of the others, is w + (1 - w) h, where
   h is the ratio of correct to wrong tags. Isotonic regression yields it, for each group of labels
   of similar frequency. The odds of a tag are h (1 - w) / w, with the w of its label.
4. The number of wrong tags per row follows the count law of `schirn.noise.model`, which lets the
   tags of a row inform each other.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.special import expit, logit

from schirn._progress import stage, track
from schirn.cleaning.centroids import score_by_centroids
from schirn.cleaning.groups import with_copies
from schirn.cleaning.label_shares import is_below, label_medians
from schirn.cleaning.ranker import Evidence, Ranker, RankingTask
from schirn.labels.tags import Tags
from schirn.noise.model import NoiseModel, cell_blocks, cell_posterior, count_tilt
from schirn.scale.copies import equal_rows

Array = np.ndarray
CENTROIDS = "label centroids"
"""What results call the ranker."""
# Rows without the label that are scored for each label; labels with more tags have more.
_N_UNLISTED = 20
_ROUNDS = 6
_TRIES = 30
# The smallest ratio of correct to wrong tags that a score stands for; the largest is its inverse.
_LEAST_RATIO = 1e-3
# A label is never taken to be all wrong or all right.
_LEAST_SHARE = 0.01
# Labels of similar frequency share a group that has this many tags; the most frequent are one.
_LEAST_TAGS, _MOST_ROWS = 500, 128
# Frequent labels have more unlisted cells than others, but at most this many times as many.
_MOST_UNLISTED = 25


@dataclass(eq=False)
class CentroidRanker(Ranker):
    """Judge very many labels, without any array of rows x labels.

    `find_noisy_labels` takes it by itself for more than 3,000 labels. With fewer, `Sieve` finds
    more, because it learns how labels occur together. The tags of one half of the rows are judged
    by the mean rows of the labels in the other half. It learns nothing from known tags, and does
    not look for missing ones.

    Examples
    --------
    >>> from schirn import find_noisy_labels
    >>> from schirn.cleaning import CentroidRanker
    >>> from schirn.datasets import make_partial_multilabel
    >>> data = make_partial_multilabel(
    ...     n_samples=400, n_features=30, n_labels=40, cardinality=2, r=2, random_state=0
    ... )
    >>> ranking = find_noisy_labels(data.X, data.candidates, method=CentroidRanker())
    >>> ranking.method, ranking.clean_sparse.shape
    ('label centroids', (400, 40))
    """

    @property
    def name(self) -> str:
        """What results call the ranker."""
        return CENTROIDS

    def rank(self, X: Any, task: RankingTask) -> Evidence:
        """Judge each half of the rows by the other."""
        rng, tags = np.random.default_rng(task.random_state), task.tags
        stage("looking for copies")
        groups = with_copies(equal_rows(X), tags, task.groups)
        groups = np.arange(X.shape[0]) if groups is None else groups
        groups = np.unique(groups, return_inverse=True)[1]
        half = (rng.permutation(int(groups.max()) + 1) % 2)[groups]
        # Tags of the training rows for each half, which has the other number.
        listed = [_tags_of(tags, half != side) for side in range(2)]
        counts = np.stack([np.bincount(Y.indices, minlength=len(tags.names)) for Y in listed])

        row, column = sample_unlisted(tags, task.judged_columns, _N_UNLISTED, rng)
        scored = counts[half[row], column] > 0
        row, column = row[scored], column[scored]
        # Without a single cell to compare with, a tag cannot be judged.
        judged = np.bincount(column, minlength=len(tags.names))[tags.column] > 0
        judged &= np.isin(tags.column, task.judged_columns)
        judged &= counts[half[tags.row], tags.column] > 0
        planted = task.planted
        rows, labels = np.c_[(tags.row, tags.column), (row, column), planted]
        scores = np.zeros(len(rows))
        for side in track(range(2), "half"):
            cells = np.flatnonzero(half[rows] == side)
            scores[cells] = score_by_centroids(
                X, listed[side], half != side, rows[cells], labels[cells]
            )
        tag_scores, unlisted, planted_scores = np.split(
            scores, np.cumsum([len(tags.row), len(row)])
        )
        law = judge_by_law(Cells(judged, tag_scores, row, column, unlisted), tags)
        z = np.where(
            counts[half[planted[0]], planted[1]], law.judge_planted(task, planted_scores), np.nan
        )
        return Evidence(logit(law.q), judged, z)


def _tags_of(tags: Tags, rows: Array) -> sp.csr_array:
    """The tags of some rows, (n, l)."""
    chosen = rows[tags.row]
    cells = tags.row[chosen], tags.column[chosen]
    return sp.csr_array((np.ones(len(cells[0]), np.uint8), cells), shape=tags.shape)


@dataclass(frozen=True, eq=False)
class Cells:
    """Held-out scores of the tags and of sampled cells that are not listed."""

    judged: Array
    """Whether each tag can be judged."""
    listed: Array
    row: Array
    column: Array
    unlisted: Array
    """Row, label and score of the sampled cells, sorted by label."""


def _apparent_shares(cells: Cells, tags: Tags) -> tuple[Array, Array, Array]:
    """Group (l,) of each label, the rarest first, and share of wrong tags of groups and labels.

    The share of a label is pulled towards that of its group.
    """
    l = len(tags.names)
    column = tags.column[cells.judged]
    medians = label_medians(cells.unlisted, cells.column, l)
    below = is_below(cells.listed[cells.judged], medians[column])
    number, n_others = (np.bincount(c, minlength=l) for c in (column, cells.column))
    share = np.bincount(column, below, minlength=l) / np.maximum(number, 1)
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
    each = 2 * np.where(number, pulled, mean[group])
    least, most = _LEAST_SHARE, 1 - _LEAST_SHARE
    return group, np.clip(2 * mean, least, most), np.clip(each, least, most)


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


def sample_unlisted(
    tags: Tags, columns: Array, count: int, rng: np.random.Generator
) -> tuple[Array, Array]:
    """Rows that do not list a label, at least `count` draws with replacement for each."""
    counts = np.clip(tags.counts[columns], count, _MOST_UNLISTED * count)
    column = np.repeat(columns, counts)
    row = rng.integers(tags.n_rows, size=len(column))
    clash = np.arange(len(row))
    for _ in range(_TRIES):
        clash = clash[tags.lists(row[clash], column[clash])]
        row[clash] = rng.integers(tags.n_rows, size=len(clash))
    free = np.ones(len(row), dtype=bool)
    free[clash] = ~tags.lists(row[clash], column[clash])
    return row[free], column[free]


@dataclass(frozen=True, eq=False)
class Law:
    """What the scores say about tags, and the posterior of all tags."""

    q: Array
    indptr: Array
    p: Array
    """Probability of each tag before the tags of its row are considered."""
    before: Callable[[Array, Array], Array]
    """The same of any cells, from their scores and labels, as if they were listed."""
    model: NoiseModel

    def judge_planted(self, task: RankingTask, scores: Array) -> Array:
        """Return the log-odds of planted tags."""
        p, label, replaced = self.p.copy(), task.tags.column.copy(), task.replaced(self.q)
        p[replaced], label[replaced] = self.before(scores, task.planted[1]), task.planted[1]
        return logit(cell_posterior(p, self.indptr, label, self.model).Q[replaced])


def judge_by_law(cells: Cells, tags: Tags) -> Law:
    """Return the posterior of all tags, by the shares of wrong tags."""
    group, group_shares, wrong_shares = _apparent_shares(cells, tags)
    stage("posterior")
    n, l = tags.shape
    # Each label has the weight that it has among the tags.
    counts = np.bincount(tags.column[cells.judged], minlength=l)
    weight = (counts / np.maximum(np.bincount(cells.column, minlength=l), 1))[cells.column]
    ratios = []
    for k, share in enumerate(group_shares):
        listed, unlisted = group[tags.column] == k, group[cells.column] == k
        scores = cells.listed[listed & cells.judged]
        ratios.append(_ratio(scores, cells.unlisted[unlisted], weight[unlisted], share))
    # Rate at which rows without the label list it all the same, for each label and for all.
    wrong = wrong_shares * tags.counts
    rates = np.clip(wrong / np.maximum(n - tags.counts + wrong, 1), 1e-9, 0.99)
    rate = float(np.clip(wrong.sum() / max(n * l - len(tags.row) + wrong.sum(), 1), 1e-9, 0.99))
    prior = logit(1 - wrong_shares) + np.log(rates)

    def before(score: Array, label: Array) -> Array:
        """Probability before a cell is known to be listed."""
        h = np.ones(len(score))
        for k, ratio in enumerate(ratios):
            cells = group[label] == k
            if cells.any():
                h[cells] = ratio(score[cells])
        return np.asarray(expit(np.log(h) + prior[label]))

    p = np.where(cells.judged, before(cells.listed, tags.column), expit(prior[tags.column]))
    indptr = np.searchsorted(tags.row, np.arange(n + 1))
    model, blocks = NoiseModel(rate, np.zeros(l + 1), np.log(rates / rate)), cell_blocks(indptr)
    for _ in range(_ROUNDS):
        once = cell_posterior(p, indptr, tags.column, model, blocks)
        tilt = count_tilt(once.noise_counts, once.true_counts, rate)
        model = model._replace(tilt=tilt)
    q = cell_posterior(p, indptr, tags.column, model, blocks).Q
    return Law(q, indptr, p, before, model)


def _ratio(listed: Array, unlisted: Array, weight: Array, share: float) -> Callable[[Array], Array]:
    """The ratio h of the densities of correct and wrong tags as a rising function of the score."""
    if not len(listed):
        return np.ones_like
    # Here, since most programs that import the library have few labels.
    from sklearn.isotonic import IsotonicRegression

    scores, is_listed = np.r_[listed, unlisted], np.zeros(len(listed) + len(unlisted))
    is_listed[: len(listed)] = 1
    curve = IsotonicRegression(y_min=1e-6, y_max=1 - 1e-6, out_of_bounds="clip").fit(
        scores, is_listed, sample_weight=np.r_[np.ones(len(listed)), np.maximum(weight, 1e-9)]
    )

    def ratio(score: Array) -> Array:
        p = curve.predict(score)
        h = (p / (1 - p) - share) / (1 - share)
        return np.asarray(np.clip(h, _LEAST_RATIO, 1 / _LEAST_RATIO), dtype=np.float64)

    return ratio
