"""Judge tags of very many labels: only listed cells and a sample of the others are scored.

Nothing here has a row for each row of the table and a column for each label. With c tags, l labels
and k sampled cells per label, memory and time grow with c + k l, whatever the engine needs besides.

1. Half of the rows teach an engine, which scores cells of the other half: all listed ones, and for
   each label some rows that do not list it. Then the halves change places.
2. Wrong tags that are listed regardless of the features score below the median of the rows that do
   not list the label half of the time. So the share w of wrong tags of a label is taken as twice
   the share of its tags below that median, pulled towards that of labels as frequent.
3. The density of the scores of listed cells, divided by that of the others, is w + (1 - w) h, where
   h is the ratio of correct to wrong tags. Isotonic regression yields it, for each group of labels
   of similar frequency. The odds of a tag are h (1 - w) / w, with the w of its label.
4. The number of wrong tags per row follows the count law of `schirn.noise.model`, which lets the
   tags of a row inform each other.
5. Planted tags tell how suspicious random wrong tags look.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.special import expit, logit

from schirn._checkpoint import remembered
from schirn._input import Number
from schirn._progress import stage, track
from schirn.cleaning.centroids import fit_centroids, score_centroids, taken
from schirn.cleaning.groups import with_copies
from schirn.cleaning.ranker import MAX_CELLS, SELDOM, Evidence, PlantedTags, Ranker, RankingTask
from schirn.exceptions import InputError
from schirn.labels.tags import Tags
from schirn.noise.model import NoiseModel, cell_blocks, cell_posterior, count_tilt
from schirn.scale.copies import equal_rows

Array = np.ndarray
Fit = Callable[[Any, sp.csr_array], Any]
Score = Callable[[Any, Any, Array, Array], Any]

CENTROIDS = "label centroids"
"""What the default engine is called."""
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
    by an engine that has learned from the other half. It learns nothing from known tags, and does
    not look for missing ones.

    Parameters
    ----------
    fit : function from (X, candidates) to a model, optional
        Trains an engine on some rows; `candidates` is a 0/1 CSR array that has all labels. None
        compares each row with the mean of the rows that list the label.
    score : function from (model, X, rows, labels) to scores, optional
        Score of row `rows[k]` of X for label `labels[k]`, for all k: the higher, the more likely
        the label is correct. Scores should be comparable between labels. Cells that the engine
        leaves out, such as those outside its best hundred, may all get the same low score. It is
        called with all rows of X, but only with cells of those that the model has not seen.
    n_unlisted : int, default=20
        Number of rows without the label that are scored for each label; labels with more tags than
        this have more.

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

    fit: Fit | None = None
    score: Score | None = None
    n_unlisted: int = 20

    def __post_init__(self) -> None:
        if (self.fit is None) != (self.score is None):
            missing = "score" if self.score is None else "fit"
            raise InputError(
                "fit and score belong together: give both or neither", parameter=missing
            )
        Number(1, integer=True).check("n_unlisted", self.n_unlisted)

    @property
    def name(self) -> str:
        """What results call the engine."""
        return CENTROIDS if self.fit is None else getattr(self.fit, "__name__", "engine")

    def settings(self) -> dict[str, Any]:
        """Return the names of the functions, and how many cells are sampled."""
        engine = [getattr(each, "__qualname__", repr(each)) for each in (self.fit, self.score)]
        return {"engine": engine, "n_unlisted": self.n_unlisted}

    def rank(self, X: Any, task: RankingTask) -> Evidence:
        """Judge each half of the rows by an engine that has learned from the other."""
        rng = np.random.default_rng(task.random_state)
        halves = _Halves(X, task, self.fit or fit_centroids, self.score or score_centroids, rng)
        cells = halves.score_cells(task.judged_columns, self.n_unlisted)
        law, planted = judge_by_law(cells, task, halves.score_planted, rng)
        return Evidence(logit(law.q), cells.judged, planted)


class Cells(NamedTuple):
    """Held-out scores of the tags and of sampled cells that are not listed."""

    judged: Array
    """Whether each tag can be judged; the others have score 0."""
    listed: Array
    row: Array
    column: Array
    unlisted: Array
    """Row, label and score of the sampled cells, sorted by label."""


class Shares(NamedTuple):
    """Shares of wrong tags."""

    group: Array
    """Group of each label, the rarest first."""
    groups: Array
    """Share of each group."""
    each: Array
    """Share of each label."""


def _apparent_shares(cells: Cells, tags: Tags) -> Shares:
    """Share of wrong tags of each label, pulled towards the share of its group."""
    l = len(tags.names)
    column = tags.column[cells.judged]
    below = _is_below(cells.listed[cells.judged], column, cells, l)
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
    limits = _LEAST_SHARE, 1 - _LEAST_SHARE
    return Shares(group, np.clip(2 * mean, *limits), np.clip(each, *limits))


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


def _is_below(scores: Array, label: Array, cells: Cells, n_labels: int) -> Array:
    """1 if a tag scores below the median of the other cells of its label, 0.5 if at it, else 0."""
    order = np.lexsort((cells.unlisted, cells.column))
    ends = np.searchsorted(cells.column[order], np.arange(n_labels + 1))
    first, size = ends[:-1], np.maximum(np.diff(ends), 1)
    ordered = np.r_[cells.unlisted[order], 0.0]
    median = ((ordered[first + (size - 1) // 2] + ordered[first + size // 2]) / 2)[label]
    return np.asarray((scores < median) + 0.5 * (scores == median))


class _Halves:
    """Two halves of the rows, each scored by an engine that has learned from the other."""

    def __init__(
        self, X: Any, task: RankingTask, fit: Fit, score: Score, rng: np.random.Generator
    ) -> None:
        self.X, self.tags, self.fit, self.score, self.rng = X, task.tags, fit, score, rng
        stage("looking for copies")
        groups = with_copies(equal_rows(X), task.tags, task.groups)
        groups = np.arange(X.shape[0]) if groups is None else groups
        groups = np.unique(groups, return_inverse=True)[1]
        self.half = (rng.permutation(int(groups.max()) + 1) % 2)[groups]

    def scores(
        self, name: str, side: int, row: Array, column: Array, rows: Array, labels: Array
    ) -> Array:
        """Scores of cells `rows` and `labels` of one half; tags of the other are learned.

        Parameters
        ----------
        name : str
            Tells apart what is learned, for checkpoints.
        side : {0, 1}
        row, column : ndarray
            Tags to learn.
        rows, labels : ndarray
            Cells to score.
        """

        def compute() -> Any:
            train = np.flatnonzero(self.half != side)
            place = (np.cumsum(self.half != side) - 1)[row], column
            width = max(len(self.tags.names), int(column.max(initial=0)) + 1)
            Y = sp.csr_array((np.ones(len(row), np.uint8), place), shape=(len(train), width))
            Y.sum_duplicates()
            Y.data[:] = 1
            engine = self.fit(taken(self.X, train), Y)
            return np.asarray(self.score(engine, self.X, rows, labels), dtype=np.float64)

        scores = remembered(f"{name}-{side}", compute)
        if scores.shape != rows.shape or not np.isfinite(scores).all():
            raise InputError(
                f"score must return {len(rows):,} finite numbers, one per cell, but returned an "
                f"array of shape {scores.shape}"
                + (" with NaN or infinity" if scores.shape == rows.shape else ""),
                parameter="score",
            )
        return np.asarray(scores)

    def score_cells(self, columns: Array, n_unlisted: int) -> Cells:
        """Score all listed cells of some labels, and a sample of their other cells."""
        tags, l = self.tags, len(self.tags.names)
        row, column = sample_unlisted(tags, columns, n_unlisted, self.rng)
        judged, scored = np.zeros(len(tags.row), dtype=bool), np.zeros(len(row), dtype=bool)
        listed, unlisted = np.zeros(len(tags.row)), np.zeros(len(row))
        for side in track(range(2), "half"):
            taught = self.half[tags.row] != side
            # Judged: frequent enough, and seen by the engine.
            able = np.zeros(l, dtype=bool)
            able[columns] = np.bincount(tags.column[taught], minlength=l)[columns] > 0
            mine = np.flatnonzero(~taught & able[tags.column])
            sampled = np.flatnonzero((self.half[row] == side) & able[column])
            if not len(mine):
                continue
            rows = np.r_[tags.row[mine], row[sampled]]
            labels = np.r_[tags.column[mine], column[sampled]]
            scores = self.scores("half", side, tags.row[taught], tags.column[taught], rows, labels)
            listed[mine], unlisted[sampled] = scores[: len(mine)], scores[len(mine) :]
            judged[mine], scored[sampled] = True, True
        # Without a single cell to compare with, a tag cannot be judged.
        judged &= (np.bincount(column[scored], minlength=l) > 0)[tags.column]
        listed[~judged] = 0
        return Cells(judged, listed, row[scored], column[scored], unlisted[scored])

    def score_planted(self, planted: PlantedTags) -> Array:
        """Score cells that the caller has chosen."""
        scores = np.zeros(len(planted.row))
        for side in range(2):
            taught = self.half[self.tags.row] != side
            cells = self.half[planted.row] == side
            tags = self.tags.row[taught], self.tags.column[taught]
            scores[cells] = self.scores(
                "planted", side, *tags, planted.row[cells], planted.column[cells]
            )
        return scores


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


class Law(NamedTuple):
    """What the scores say about tags, and the posterior of all tags."""

    q: Array
    p: Array
    """Probability of each tag before the tags of its row are considered."""
    before: Callable[[Array, Array], Array]
    """The same of any cells, from their scores and labels, as if they were listed."""
    model: NoiseModel


def judge_by_law(
    cells: Cells,
    task: RankingTask,
    score_planted: Callable[[PlantedTags], Array],
    rng: np.random.Generator,
) -> tuple[Law, PlantedTags]:
    """Return the posterior of all tags, and planted tags with their log-odds.

    Parameters
    ----------
    cells : Cells
    task : RankingTask
    score_planted : function
        Scores of planted tags that the task names; otherwise sampled cells are planted.
    rng : Generator
    """
    tags = task.tags
    shares = _apparent_shares(cells, tags)
    stage("posterior")
    law = _law(cells, tags, shares)
    stage("judging planted tags")
    if isinstance(task.planted, PlantedTags):
        planted = task.plant(law.q, cells.judged & np.isin(tags.column, task.judged_columns))
        p = law.before(score_planted(planted), planted.column)
    else:
        planted, p = _plant(law, cells, task, shares.each, rng)
    return law, planted._replace(log_odds=logit(_judge_planted(law, tags, planted, p)))


def _law(cells: Cells, tags: Tags, shares: Shares) -> Law:
    """Compute the posterior of all tags from the shares of wrong tags."""
    n, l = tags.shape
    weight = _weights(cells, tags)
    ratios = []
    for k, share in enumerate(shares.groups):
        listed, unlisted = shares.group[tags.column] == k, shares.group[cells.column] == k
        scores = cells.listed[listed & cells.judged]
        ratios.append(_ratio(scores, cells.unlisted[unlisted], weight[unlisted], share))
    # Rate at which rows without the label list it all the same, for each label and for all.
    wrong = shares.each * tags.counts
    rates = np.clip(wrong / np.maximum(n - tags.counts + wrong, 1), 1e-9, 0.99)
    rate = float(np.clip(wrong.sum() / max(n * l - len(tags.row) + wrong.sum(), 1), 1e-9, 0.99))
    prior = logit(1 - shares.each) + np.log(rates)

    def before(score: Array, label: Array) -> Array:
        """Probability before a cell is known to be listed."""
        h = np.ones(len(score))
        for k, ratio in enumerate(ratios):
            cells = shares.group[label] == k
            if cells.any():
                h[cells] = ratio(score[cells])
        return np.asarray(expit(np.log(h) + prior[label]))

    p = np.where(cells.judged, before(cells.listed, tags.column), expit(prior[tags.column]))
    indptr = np.searchsorted(tags.row, np.arange(n + 1))
    model, blocks = NoiseModel(rate, np.zeros(l + 1), np.log(rates / rate)), cell_blocks(indptr)
    for _ in range(_ROUNDS):
        once = cell_posterior(p, indptr, tags.column, l, model, blocks)
        tilt = count_tilt(once.noise_counts, once.true_counts, rate)
        model = model._replace(tilt=tilt)
    q = cell_posterior(p, indptr, tags.column, l, model, blocks).Q
    return Law(q, p, before, model)


def _ratio(listed: Array, unlisted: Array, weight: Array, share: float) -> Callable[[Array], Array]:
    """The ratio h of the densities of correct and wrong tags as a rising function of the score."""
    if not len(listed):
        return np.ones_like
    # Here, since most programs that import the library have few labels.
    from sklearn.isotonic import IsotonicRegression

    scores, is_listed = np.r_[listed, unlisted], np.zeros(len(listed) + len(unlisted))
    is_listed[: len(listed)] = 1
    found = IsotonicRegression(y_min=1e-6, y_max=1 - 1e-6, out_of_bounds="clip").fit(
        scores, is_listed, sample_weight=np.r_[np.ones(len(listed)), np.maximum(weight, 1e-9)]
    )

    def ratio(score: Array) -> Array:
        p = found.predict(score)
        h = (p / (1 - p) - share) / (1 - share)
        return np.asarray(np.clip(h, _LEAST_RATIO, 1 / _LEAST_RATIO), dtype=np.float64)

    return ratio


def _weights(cells: Cells, tags: Tags) -> Array:
    """Weights of the unlisted cells that give each label the weight that it has among the tags."""
    l = len(tags.names)
    counts = np.bincount(tags.column[cells.judged], minlength=l)
    sampled = np.bincount(cells.column, minlength=l)
    return np.asarray((counts / np.maximum(sampled, 1))[cells.column])


def _plant(
    law: Law, cells: Cells, task: RankingTask, shares: Array, rng: np.random.Generator
) -> tuple[PlantedTags, Array]:
    """Plant sampled cells in the place of tags that are probably wrong; also their probability."""
    tags, l = task.tags, len(task.tags.names)
    wrong = np.where(cells.judged, SELDOM + 1 - law.q, 0)
    total = np.r_[0.0, np.cumsum(wrong)]
    indptr = np.searchsorted(tags.row, np.arange(tags.n_rows + 1))
    low, high = total[indptr[cells.row]], total[indptr[cells.row + 1]]
    # Labels are planted as often as they are listed wrongly.
    sampled = np.maximum(np.bincount(cells.column, minlength=l), 1)
    weight = np.where(high > low, (shares * tags.counts / sampled)[cells.column], 0)
    if not weight.sum():
        return PlantedTags(), np.zeros(0)
    cost = float((np.diff(indptr).astype(float) ** 2).sum() / len(tags.row))
    count = min(task.planted, len(tags.row), max(1, int(MAX_CELLS / cost)))
    k = rng.choice(len(weight), count, p=weight / weight.sum())
    target = low[k] + rng.random(len(k)) * (high[k] - low[k])
    tag = np.searchsorted(total, target, side="right") - 1
    tag = np.clip(tag, indptr[cells.row[k]], indptr[cells.row[k] + 1] - 1)
    planted = PlantedTags(tag, cells.row[k], cells.column[k])
    return planted, law.before(cells.unlisted[k], cells.column[k])


def _judge_planted(law: Law, tags: Tags, planted: PlantedTags, p_planted: Array) -> Array:
    """Posterior of planted tags, from their probability before the row is considered."""
    if not len(planted.row):
        return np.zeros(0)
    indptr = np.searchsorted(tags.row, np.arange(tags.n_rows + 1))
    # Rows of the planted tags, one after the other, with one tag exchanged.
    first, size = indptr[planted.row], np.diff(indptr)[planted.row]
    starts = np.r_[0, np.cumsum(size)]
    within = np.arange(starts[-1]) - np.repeat(starts[:-1], size)
    source = np.repeat(first, size) + within
    p, label = law.p[source], tags.column[source]
    place = starts[:-1] + planted.replaced - first
    p[place], label[place] = p_planted, planted.column
    return np.asarray(cell_posterior(p, starts, label, len(tags.names), law.model).Q[place])
