"""Judge the tags of texts by linear models and label centroids, on all sparse features.

Rows are judged in ten folds, each by models trained on the others. Three experts are combined, each
divided by its spread:

- a linear model: the mean of the log-odds of a ridge regression on the listed tags and of a label
  stack, which learns from the scores of all labels how tags occur together. The rate at which the
  label is listed where it is wrong turns them into log-odds of being correct;
- centroids: a row is compared with the mean row of the label, without assuming a noise model;
- a model of the linear scores, derived from the first expert.

Rates and score model come from `schirn.noise.scored_tags`. For a label that the texts never
mention, wrong and correct tags cannot be told apart; its rate, centroids and score model are shrunk
to the mean of all tags. The share of wrong tags among labels of similar frequency is subtracted: if
wrong tags fall on all labels alike, tags of rare labels are mostly wrong. Missing tags are ranked
by the linear model alone. See docs/ranking.md for measured quality.
"""

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import reduce
from itertools import chain
from typing import Any, NamedTuple, cast

import numpy as np
import scipy.sparse as sp
from scipy.optimize import brentq
from scipy.special import expit

from schirn._checkpoint import remembered
from schirn._input import Array, canonical, location
from schirn._progress import stage, track
from schirn.cleaning._storage import Needs
from schirn.cleaning.ranker import (
    Evidence,
    Ranker,
    RankingTask,
    UnlistedCells,
    likeliest_unlisted,
)
from schirn.exceptions import InputError
from schirn.labels.tags import Tags
from schirn.linalg.arrays import row_slices
from schirn.noise.model import Candidates
from schirn.noise.scored_tags import (
    ScoredCells,
    fit_score_model,
    label_informativeness,
    listing_rates,
    sample_unlisted,
)
from schirn.scale.blocks import (
    Block,
    FeatureRows,
    MemoryRows,
    RowStore,
    add_sums,
    candidate_cells,
)
from schirn.scale.cluster import DaskRows
from schirn.scale.copies import number_distinct, row_digests
from schirn.scale.input import check_blocks, summarise
from schirn.solvers.feature_ridges import FittedStack, fit_stack, stack_sums
from schirn.solvers.sieve import soft_logit
from schirn.solvers.sparse_ridges import Lesson, LessonSums, lesson_sums, solve_on_blocks

_FOLDS = 10
# Ridge weight, relative to the mean squared length of the rows, which is 1 for texts.
_RIDGE = 2.0
# Number of steps of conjugate gradients: later steps fit the wrong tags.
_STEPS = 5
# Number of sampled rows per label that do not list it.
_N_UNLISTED = 600
# Shift of the log-odds, in units of their spread, if the share of right minus wrong tags is 1.
_SHARES = 0.5
# Number of rows of a label at which its centroid score counts half.
_FEW_ROWS = 15
# Bytes per row and label: two scores, and intermediate results of a block.
_BYTES_PER_CELL = 16
# Positions of the scores in a fold model.
_CENTROIDS = 0
_LINEAR = 1


@dataclass(eq=False)
class TextRanker(Ranker):
    """Judge sparse rows, such as texts, without any matrix of rows x rows.

    The default of `find_noisy_labels` for texts. Rows of one group are in one fold, and tags known
    to be wrong are not used for training.

    Examples
    --------
    >>> import scipy.sparse as sp
    >>> from schirn import find_noisy_labels
    >>> from schirn.cleaning import TextRanker
    >>> words = sp.random_array((300, 40), density=0.1, rng=0, format="csr")
    >>> tags = (words[:, :5].toarray() > 0).astype(int)
    >>> find_noisy_labels(words, tags, method=TextRanker()).method
    'TextRanker'
    """

    def needs(self, task: RankingTask) -> Needs:
        """Return the needs: rows in main memory or on Dask workers.

        Parameters
        ----------
        task : RankingTask
            The tags to judge.

        Returns
        -------
        Needs
        """
        size = _BYTES_PER_CELL * task.tags.n_rows * len(task.columns)
        return Needs(("dask",), are_few=False, memory=size)

    def rank(self, X: Any, task: RankingTask) -> Evidence:
        """Judge each fold by models trained on the others, where the rows are stored.

        Parameters
        ----------
        X : (n, d) CSR matrix, or rows on Dask workers
            Features of the rows.
        task : RankingTask
            The tags to judge.

        Returns
        -------
        Evidence
        """
        if not len(task.judged_columns):
            return Evidence.empty(task)
        Y = _tag_matrix(task)
        if location(X) == "dask":
            with closing(DaskRows(X, Y, _as_it_is)) as rows:
                return rows.run(lambda: _rank_on_workers(rows, task))
        store = MemoryRows([Block(FeatureRows(sp.csr_array(X)), candidate_cells(Y))])
        name = f"labels-{task.columns[0]}-{len(task.columns)}"
        return Evidence.restore(remembered(name, lambda: _rank(store, task)))


def _as_it_is(Y: "sp.csr_array", first: int) -> "sp.csr_array":
    return Y


def _tag_matrix(task: RankingTask, known_wrong: bool = True) -> "sp.csr_array":
    """Return the tags of the ranked labels (n, k), with or without tags known to be wrong."""
    tags = task.tags
    columns = task.columns
    is_ranked = np.isin(tags.column, columns) & (known_wrong | (task.known >= 0))
    cells = tags.row[is_ranked], np.searchsorted(columns, tags.column[is_ranked])
    ones = np.ones(len(cells[0]), dtype=np.float32)
    return sp.csr_array((ones, cells), shape=(tags.n_rows, len(columns)))


def _rank_on_workers(store: RowStore, task: RankingTask) -> Evidence:
    if not check_blocks(store.gather(summarise)).sparse:
        raise InputError("TextRanker needs sparse blocks of rows on Dask workers; use Sieve")
    return _rank(store, task)


def _rank(store: RowStore, task: RankingTask) -> Evidence:
    """Judge the cells of a task; the scores of all other cells stay in the blocks."""
    tags = task.tags
    columns = task.columns
    stage("looking for copies")
    copy_group = number_distinct(chain.from_iterable(store.gather(_digests)))
    _score_in_folds(store, task, task.groups_with_copies(copy_group))
    typical = _typical_scores(store, tags.counts[columns], tags.n_rows)

    def scores(row: Array, column: Array) -> tuple[Array, Array]:
        """Return linear scores of some cells, and centroid scores relative to untagged rows."""
        place = np.searchsorted(columns, column)
        values = np.empty((2, len(row)), dtype=np.float32)
        for cells, block in store.gather(_pick, row, place):
            values[:, cells] = block
        return values[_LINEAR], typical.compare(values[_CENTROIDS], place)

    is_judged = np.isin(tags.column, task.judged_columns)
    label = tags.column[is_judged]
    linear, centroids = scores(tags.row[is_judged], label)
    row, column = sample_unlisted(tags, task.judged_columns, _N_UNLISTED)
    unlisted, _ = scores(row, column)
    verdicts = _Verdicts(ScoredCells(label, linear, column, unlisted), centroids, tags)
    log_odds = np.zeros(len(tags.row))
    log_odds[is_judged] = verdicts.log_odds
    planted = verdicts.judge(*scores(*task.planted), task.planted[1])
    missing = None
    if task.n_unlisted is not None:
        stage("ranking missing tags")
        blocks = store.gather(_likeliest, columns, task.n_unlisted)
        missing = UnlistedCells.first(blocks, task.n_unlisted)
    return Evidence(log_odds, is_judged, planted, missing)


class _Verdicts:
    """Log-odds of tags from linear scores, listing rates, centroids and typical shares.

    Attributes
    ----------
    log_odds : (m,) float array
        Log-odds of the listed tags.
    """

    def __init__(self, cells: ScoredCells, centroids: Array, tags: Tags) -> None:
        n_labels = len(tags.names)
        linear = cells.score
        label = cells.label
        self._score_model = fit_score_model(cells, n_labels)
        self._informativeness = label_informativeness(cells, n_labels)
        self._log_rates = np.log(listing_rates(cells, tags.counts, tags.n_rows))
        self._shares = -2 * _SHARES * self._score_model.typical_shares
        log_odds = self._score_model.log_odds(linear, label)
        values = self._log_rates[label], centroids, expit(log_odds)
        self._neutral = [float(value.mean()) for value in values]
        experts = self._experts(linear, values, label)
        self._sum = ExpertSum(experts, float(log_odds.std()))
        z = self._sum(experts, self._shares[label])
        # The mean probability stays the same as in the score model.
        self._shift = shift_to_mean(z, self._neutral[-1])
        self.log_odds = z + self._shift

    def judge(self, linear: Array, centroids: Array, label: Array) -> Array:
        """Return the log-odds of other cells."""
        p = expit(self._score_model.log_odds(linear, label))
        values = self._log_rates[label], centroids, p
        experts = self._experts(linear, values, label)
        return self._sum(experts, self._shares[label]) + self._shift

    def _experts(self, linear: Array, values: Sequence[Array], label: Array) -> list[Array]:
        # If the texts say little about a label, its experts are shrunk to the mean.
        weight = self._informativeness[label]
        log_rate, centroid, p = (
            mean + weight * (value - mean)
            for mean, value in zip(self._neutral, values, strict=True)
        )
        return [linear - log_rate, centroid, p]


def shift_to_mean(log_odds: Array, mean: float) -> float:
    """Return the shift of log-odds for which the mean probability is `mean`.

    Parameters
    ----------
    log_odds : float array
        The log-odds to shift.
    mean : float
        Mean probability after the shift.

    Returns
    -------
    float
    """
    mean = min(max(mean, 1e-6), 1 - 1e-6)
    lowest = -20 - log_odds.max()
    highest = 20 - log_odds.min()
    return float(brentq(lambda shift: expit(log_odds + shift).mean() - mean, lowest, highest))


class ExpertSum:
    """A sum of several experts, each divided by its spread.

    Parameters
    ----------
    experts : sequence of float arrays
        Scores of each expert for the same cells.
    spread : float
        Spread of the sum over these cells.
    """

    def __init__(self, experts: Sequence[Array], spread: float) -> None:
        self.slopes = np.array([1 / (float(expert.std()) or 1.0) for expert in experts])
        self.spread = spread or 1.0
        self.slopes *= self.spread / (float(self(experts).std()) or 1.0)

    def __call__(self, experts: Sequence[Array], shift: Any = 0.0) -> Array:
        """Return the sum for the same or other cells; `shift` is in units of the spread."""
        return np.tensordot(self.slopes, np.array(experts), 1) + self.spread * shift


class _UnlistedScores(NamedTuple):
    """Mean and scale of the scores of rows without a label, to which other scores are compared."""

    mean: Array
    factor: Array

    def compare(self, scores: Array, place: Array) -> Array:
        """Return the scores of different labels on a common scale."""
        return (scores - self.mean[place]) * self.factor[place]


def _typical_scores(store: RowStore, n_listed: Array, n: int) -> _UnlistedScores:
    """Return mean and reciprocal spread of the centroid scores of rows without each label.

    Scores of labels with few tags are unreliable, and shrunk towards 0.
    """
    counts = np.maximum(n - n_listed, 1)
    total, squares = store.step(_unlisted_sums)
    mean = total / counts
    spread = np.sqrt(np.maximum(squares / counts - mean**2, 0))
    reliability = n_listed / (n_listed + _FEW_ROWS)
    return _UnlistedScores(mean, reliability / (spread + 1e-9))


def _unlisted_sums(block: Block, lesson: Lesson) -> tuple[Lesson, tuple[Array, Array]]:
    """Return sums of the centroid scores and of their squares over unlisted cells."""
    scores = cast(Array, lesson.scores)[_CENTROIDS]
    k = block.cells.shape[1]
    tag_scores = scores[block.cells.row, block.cells.label].astype(np.float64)
    sums = []
    for power in (1, 2):
        total = np.sum(scores**power, axis=0, dtype=np.float64)
        sums.append(total - np.bincount(block.cells.label, tag_scores**power, minlength=k))
    return lesson, (sums[0], sums[1])


def _score_in_folds(store: RowStore, task: RankingTask, groups: Array | None) -> None:
    """Store the scores (2, n, k) of all cells, by centroids and linear models, in the blocks."""
    # By position, so that neither the seed nor appended rows change the fold of a row.
    groups = np.arange(task.tags.n_rows) if groups is None else groups
    learned = _tag_matrix(task, known_wrong=False)
    forgotten = (_tag_matrix(task) - learned).nonzero()
    n, k = learned.shape
    squares, _ = store.step(_teach, np.zeros(n, dtype=bool), forgotten)
    weight = _RIDGE * squares / n
    for fold in track(range(_FOLDS), "fold"):
        held_out = groups % _FOLDS == fold
        # If all rows are in one fold, there is nothing to train on, and scores stay 0.
        if held_out.all() or not held_out.any():
            continue
        store.step(_teach, held_out, forgotten)
        sums = lesson_sums(store)
        store.step(_score, held_out, _CENTROIDS, slice(None), store.near(_centroids, sums))
        for columns, ridge in solve_on_blocks(store, sums, k, weight, _STEPS):
            store.step(_score, held_out, _LINEAR, columns, ridge)
    stage("learning how tags occur together")
    store.step(_teach, np.zeros(n, dtype=bool), forgotten)
    stack = store.near(_fit_stack, store.start(_sum_scores))
    store.step(_add_stack, stack)


def _sum_scores(block: Block, lesson: Lesson) -> tuple[Lesson, tuple[Any, ...]]:
    S = cast(Array, lesson.scores)[_LINEAR]
    c = Candidates(lesson.Q)
    return lesson, (S.shape[0], c.total(lesson.Q.data), stack_sums(S, lesson.Q.data, c))


def _fit_stack(groups: Sequence[tuple[Any, ...]]) -> FittedStack:
    n, total, sums = reduce(add_sums, groups)
    return fit_stack(sums, total, n)


def _add_stack(block: Block, lesson: Lesson, stack: FittedStack) -> tuple[Lesson, tuple[None]]:
    """Replace the ridge scores by the mean of their log-odds and the stack's log-odds."""
    scores = cast(Array, lesson.scores)
    scores = scores if block.in_place else scores.copy()
    for rows in row_slices(*lesson.Q.shape):
        S = scores[_LINEAR, rows]
        stacked = stack.left_out(S, lesson.Q[rows].toarray())
        scores[_LINEAR, rows] = (soft_logit(S) + soft_logit(stacked)) / 2
    return lesson._replace(scores=scores), (None,)


def _centroids(sums: LessonSums) -> tuple[Array, Array | float]:
    """Return directions from the overall mean row to the mean row of each label, as columns.

    For rows of length 1, products with these directions are the scores of `CentroidRanker`.
    """
    dtype = sums.cross.dtype
    M = sums.cross / np.maximum(sums.labels, 1).astype(dtype)
    M -= (sums.features / sums.n)[:, None].astype(dtype)
    lengths = np.sqrt(np.einsum("ij,ij->j", M, M, dtype=np.float64))
    M /= np.maximum(lengths, 1e-9).astype(dtype)
    return M, 0.0


def _digests(block: Block, lesson: Any) -> list[bytes]:
    return list(row_digests(canonical(block.rows.X)))


def _teach(
    block: Block, lesson: Lesson | None, held_out: Array, forgotten: tuple[Array, Array]
) -> tuple[Lesson, tuple[Any, ...]]:
    """Make the rows that are not held out the training rows of the fold model."""
    X = block.rows.X
    cells = block.cells
    first = block.rows.first
    n, k = cells.shape
    # Tags known to be wrong are not used for training.
    is_learned = ~np.isin((cells.row + first) * k + cells.label, forgotten[0] * k + forgotten[1])
    places = cells.row[is_learned], cells.label[is_learned]
    Y = sp.csr_array((np.ones(len(places[0]), dtype=X.dtype), places), shape=(n, k))
    train = ~held_out[first : first + n]
    scores = np.zeros((2, n, k), dtype=np.float32) if lesson is None else lesson.scores
    return Lesson(X[train], Y[train], scores), (float(np.sum(X.data**2, dtype=np.float64)), None)


def _score(
    block: Block,
    lesson: Lesson,
    held_out: Array,
    expert: int,
    columns: slice,
    weights: tuple[Array, Array | float],
) -> tuple[Lesson, tuple[Any, ...]]:
    """Score the held-out rows, by centroids or by a ridge."""
    W, b = weights
    X = block.rows.X
    first = block.rows.first
    test = np.flatnonzero(held_out[first : first + X.shape[0]])
    scores = cast(Array, lesson.scores)
    scores = scores if block.in_place else scores.copy()
    scores[expert, test, columns] = X[test] @ W + b
    return lesson._replace(scores=scores), (None,)


def _pick(block: Block, lesson: Lesson, row: Array, column: Array) -> tuple[Array, Array]:
    """Return the positions of the cells in this block, and their scores."""
    scores: Any = lesson.scores
    place = np.flatnonzero((row >= block.rows.first) & (row < block.rows.first + scores.shape[1]))
    return place, scores[:, row[place] - block.rows.first, column[place]]


def _likeliest(block: Block, lesson: Lesson, columns: Array, count: int) -> UnlistedCells:
    """Return the likeliest unlisted cells of a block, some rows at a time."""
    scores = cast(Array, lesson.scores)[_LINEAR]
    parts = []
    Y = np.zeros(block.cells.shape, dtype=bool)
    Y[block.cells.row, block.cells.label] = True
    for rows in row_slices(len(Y), len(columns)):
        cells = likeliest_unlisted(scores[rows], Y[rows], columns, count)
        parts.append(cells._replace(row=cells.row + rows.start + block.rows.first))
    return UnlistedCells.first(parts, count)
