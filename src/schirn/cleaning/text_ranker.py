"""Judge the tags of many texts: label centroids and a linear model, both on all sparse features.

The rows are judged in folds, each by what the others have taught. Centroids follow noise that
depends on the label; a ridge regression on the listed tags weighs words against each other. Each
makes up for what the other misses, so that the log-odds are the sum of both, each divided by its
spread. As for fewer texts, the share of right minus wrong tags among labels as frequent is added:
where wrong tags fall on all labels alike, tags of rare labels are mostly wrong.
"""

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import chain
from typing import Any, cast

import numpy as np
import scipy.sparse as sp
from scipy.special import logit

from schirn._checkpoint import remembered
from schirn._input import canonical, location
from schirn._progress import stage, track
from schirn.cleaning.centroid_ranker import Cells, judge_by_law, sample_unlisted
from schirn.cleaning.groups import with_copies
from schirn.cleaning.label_shares import label_medians, wrong_shares_of_tags
from schirn.cleaning.ranker import (
    Evidence,
    Ranker,
    RankingTask,
    UnlistedCells,
    likeliest_unlisted,
)
from schirn.cleaning.storage import Needs
from schirn.exceptions import InputError
from schirn.linalg.arrays import row_slices
from schirn.scale.blocks import Block, FeatureRows, MemoryRows, RowStore, candidate_cells
from schirn.scale.cluster import DaskRows
from schirn.scale.copies import number_distinct, row_digests
from schirn.scale.input import check_blocks, summarise
from schirn.solvers.sieve import soft_logit
from schirn.solvers.sparse_ridges import Lesson, LessonSums, lesson_sums, solve_on_blocks

Array = np.ndarray

_FOLDS = 5
# Weight of the ridges, for rows of unit length.
_WEIGHT = 2.0
# Rows without the label that are sampled for each label.
_N_UNLISTED = 200
# Spreads of the log-odds that a share of 1 counts for; where wrong tags follow the frequency of the
# labels, the share says nothing, and costs least if it counts for less than one.
_SHARE = 0.5
# Rows that list a label of which half is known.
_FEW_ROWS = 5
# Bytes per row and label: two scores, and what is made of them block by block.
_BYTES_PER_CELL = 16


@dataclass(eq=False)
class TextRanker(Ranker):
    """Judge many sparse rows, such as texts, without any matrix of rows x rows.

    `find_noisy_labels` takes it by itself for more than 8,000 texts. Rows of one group are in one
    fold, and tags that are known to be wrong are not learned. Rows should have unit length, as
    those of `TextFeatures`.

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
        """Rows may be in main memory or on Dask workers."""
        size = _BYTES_PER_CELL * task.tags.n_rows * len(task.columns)
        return Needs(("dask",), are_few=False, memory=size)

    def rank(self, X: Any, task: RankingTask) -> Evidence:
        """Judge each fold by what the others have taught, where the rows are."""
        if not len(task.judged_columns):
            return Evidence.empty(task)
        listed = _listed(task)
        if location(X) == "dask":
            with closing(DaskRows(X, listed, _as_it_is)) as rows:
                return rows.run(lambda: _rank_on_workers(rows, task))
        name = f"labels-{task.columns[0]}-{len(task.columns)}"
        return Evidence.restore(remembered(name, lambda: _rank(_in_one_block(X, listed), task)))


def fold_scores(X: Any, task: RankingTask, groups: Array | None) -> Array:
    """Return the scores (2, n, k) of the labels to rank, by centroids and by ridges.

    Parameters
    ----------
    X : (n, d) CSR array
    task : RankingTask
    groups : (n,) int array, optional
        Rows that must be in one fold.
    """
    store = _in_one_block(X, _listed(task))
    _score_in_folds(store, task, groups)
    return cast(Array, store.gather(lambda block, lesson: lesson.scores)[0])


def _in_one_block(X: Any, listed: "sp.csr_array") -> MemoryRows:
    return MemoryRows([Block(FeatureRows(sp.csr_array(X)), candidate_cells(listed))])


def _as_it_is(listed: "sp.csr_array", first: int) -> "sp.csr_array":
    return listed


def _listed(task: RankingTask, known_wrong: bool = True) -> "sp.csr_array":
    """Return the tags of the labels to rank (n, k), with or without those known to be wrong."""
    tags, columns = task.tags, task.columns
    shown = np.isin(tags.column, columns) & (known_wrong | (task.known >= 0))
    cells = tags.row[shown], np.searchsorted(columns, tags.column[shown])
    ones = np.ones(len(cells[0]), dtype=np.float32)
    return sp.csr_array((ones, cells), shape=(tags.n_rows, len(columns)))


def _rank_on_workers(store: RowStore, task: RankingTask) -> Evidence:
    if not check_blocks(store.gather(summarise)).sparse:
        raise InputError("TextRanker needs sparse blocks of rows on Dask workers; use Sieve")
    return _rank(store, task)


def _rank(store: RowStore, task: RankingTask) -> Evidence:
    """Judge the cells of a task; the scores of all others stay in the blocks."""
    tags, columns = task.tags, task.columns
    stage("looking for copies")
    same = number_distinct(chain.from_iterable(store.gather(_digests)))
    _score_in_folds(store, task, with_copies(same, tags, task.groups))

    def scores(row: Array, column: Array) -> Array:
        """Scores (2, cells) by centroids and by ridges."""
        values = np.empty((2, len(row)), dtype=np.float32)
        for place, block in store.gather(_pick, row, np.searchsorted(columns, column)):
            values[:, place] = block
        return values

    rng = np.random.default_rng(task.random_state)
    row, column = sample_unlisted(tags, task.judged_columns, _N_UNLISTED, rng)
    other = scores(row, column)
    judged = np.isin(tags.column, task.judged_columns)
    listed = np.zeros((2, len(tags.row)))
    listed[:, judged] = scores(tags.row[judged], tags.column[judged])
    cells = Cells(judged, listed[0], row, column, other[0])
    law = judge_by_law(cells, tags)
    experts = [logit(law.q), listed[1]]
    total = WeightedSum([expert[judged] for expert in experts], (1, 1))
    place = np.searchsorted(columns, tags.column[judged])
    medians = label_medians(other[1], np.searchsorted(columns, column), len(columns))
    shares = np.zeros(len(tags.names))
    shares[columns] = 2 * _SHARE * wrong_shares_of_tags(listed[1, judged], place, medians)
    # The mean stays, so that confidences are as high as without the shares.
    shares = shares[tags.column[judged]].mean() - shares
    log_odds = total(*experts, shift=shares[tags.column])
    first, second = scores(*task.planted)
    planted = total(law.judge_planted(task, first), second, shift=shares[task.planted[1]])
    unlisted = None
    if task.n_unlisted is not None:
        stage("ranking missing tags")
        both = WeightedSum([logit(law.before(other[0], column)), other[1]], (1, 1))
        blocks = store.gather(_likeliest, law.before, both, columns, task.n_unlisted)
        unlisted = UnlistedCells.first(blocks, task.n_unlisted)
    return Evidence(log_odds, judged, planted, unlisted)


class WeightedSum:
    """Log-odds by several experts: a weighted sum, each expert divided by its spread.

    Parameters
    ----------
    experts : sequence of float arrays
        What they say about the same cells.
    weights : sequence of float
        How much each of them counts.
    like : float array, optional
        Log-odds whose mean and spread the sum gets; those of the first expert by default.
    """

    def __init__(
        self, experts: Sequence[Array], weights: Sequence[float], like: Array | None = None
    ) -> None:
        like = experts[0] if like is None else like
        self.centres = [float(expert.mean()) for expert in experts]
        spreads = [float(expert.std()) or 1.0 for expert in experts]
        self.slopes = [weight / spread for weight, spread in zip(weights, spreads, strict=True)]
        self.mean, self.spread = float(like.mean()), float(like.std()) or 1.0
        self.unit = float(self._total(experts).std()) or 1.0

    def __call__(self, *experts: Array, shift: Any = 0.0) -> Array:
        """Log-odds of the same or other cells; `shift` is in units of the spread."""
        return self.mean + self.spread * (self._total(experts) / self.unit + shift)

    def _total(self, experts: Sequence[Array]) -> Array:
        parts = zip(experts, self.centres, self.slopes, strict=True)
        return np.sum([slope * (expert - centre) for expert, centre, slope in parts], axis=0)


def compared_with_unlisted(scores: Array, Y: Array) -> Array:
    """Scores (n, k) relative to those of the rows that do not list a label.

    From each score their mean is subtracted, and it is divided by their spread, so that the scores
    of different labels can be compared. A label that few rows list is hardly known: its scores are
    drawn towards 0.

    Parameters
    ----------
    scores : (n, k) float array
    Y : (n, k) 0/1 array
        Listed tags.
    """
    n_listed, unlisted = Y.sum(axis=0), Y == 0
    counts = np.maximum(len(Y) - n_listed, 1)
    mean = scores.sum(axis=0, where=unlisted, dtype=np.float64) / counts
    squares = np.square(scores - mean).sum(axis=0, where=unlisted) / counts
    known = n_listed / (n_listed + _FEW_ROWS)
    return np.asarray((scores - mean) * (known / (np.sqrt(squares) + 1e-9)))


def _score_in_folds(store: RowStore, task: RankingTask, groups: Array | None) -> None:
    """Leave the scores (2, n, k) of all cells, by centroids and by ridges, in the blocks."""
    # By position: another seed or more rows at the end change the folds of no row.
    groups = np.arange(task.tags.n_rows) if groups is None else groups
    learned = _listed(task, known_wrong=False)
    forgotten = (_listed(task) - learned).nonzero()
    for fold in track(range(_FOLDS), "fold"):
        held_out = groups % _FOLDS == fold
        if held_out.all() or not held_out.any():
            continue
        store.step(_teach, held_out, forgotten)
        sums = lesson_sums(store)
        store.step(_score, held_out, 0, slice(None), store.near(_centroids, sums))
        for columns, ridge in solve_on_blocks(store, sums, learned.shape[1], _WEIGHT):
            store.step(_score, held_out, 1, columns, ridge)


def _centroids(sums: LessonSums) -> tuple[Array, Array | None]:
    """Directions from the mean of all rows to that of the rows that list a label, as columns.

    Products with them are scores as those of `schirn.cleaning.centroids`.
    """
    dtype = sums.cross.dtype
    M = sums.cross / np.maximum(sums.labels, 1).astype(dtype)
    M -= (sums.features / sums.n)[:, None].astype(dtype)
    lengths = np.sqrt(np.einsum("ij,ij->j", M, M, dtype=np.float64))
    M /= np.maximum(lengths, 1e-9).astype(dtype)
    return M, None


def _digests(block: Block, lesson: Any) -> list[bytes]:
    return list(row_digests(canonical(block.rows.X)))


def _teach(
    block: Block, lesson: Lesson | None, held_out: Array, forgotten: tuple[Array, Array]
) -> tuple[Lesson, tuple[Any, ...]]:
    """Take the rows that are not held out."""
    X, cells, first = block.rows.X, block.cells, block.rows.first
    n, k = cells.shape
    # A tag that is known to be wrong is not learned.
    is_learned = ~np.isin((cells.row + first) * k + cells.label, forgotten[0] * k + forgotten[1])
    places = cells.row[is_learned], cells.label[is_learned]
    Y = sp.csr_array((np.ones(len(places[0]), dtype=X.dtype), places), shape=(n, k))
    train = ~held_out[first : first + n]
    scores = np.zeros((2, n, k), dtype=np.float32) if lesson is None else lesson.scores
    return Lesson(X[train], Y[train], scores), (None,)


def _score(
    block: Block,
    lesson: Lesson,
    held_out: Array,
    expert: int,
    columns: slice,
    weights: tuple[Array, Array | None],
) -> tuple[Lesson, tuple[Any, ...]]:
    """Score the rows that are held out, by centroids or by a ridge."""
    W, b = weights
    X, first = block.rows.X, block.rows.first
    test = np.flatnonzero(held_out[first : first + X.shape[0]])
    scores = cast(Array, lesson.scores)
    scores = scores if block.in_place else scores.copy()
    product = X[test] @ W
    scores[expert, test, columns] = product if b is None else soft_logit(product + b)
    return lesson._replace(scores=scores), (None,)


def _pick(block: Block, lesson: Lesson, row: Array, column: Array) -> tuple[Array, Array]:
    """Return which cells are in this block, and their scores."""
    scores: Any = lesson.scores
    place = np.flatnonzero((row >= block.rows.first) & (row < block.rows.first + scores.shape[1]))
    return place, scores[:, row[place] - block.rows.first, column[place]]


def _likeliest(
    block: Block, lesson: Lesson, before: Any, both: WeightedSum, columns: Array, count: int
) -> UnlistedCells:
    """Return the likeliest unlisted cells of a block, some rows at a time."""
    scores, parts = cast(Array, lesson.scores), []
    listed = np.zeros(block.cells.shape, dtype=bool)
    listed[block.cells.row, block.cells.label] = True
    for rows in row_slices(len(listed), len(columns)):
        centroids, linear = scores[:, rows]
        first = logit(before(centroids.ravel(), np.tile(columns, len(linear))))
        z = both(first.reshape(linear.shape), linear)
        cells = likeliest_unlisted(z, listed[rows], columns, count)
        parts.append(cells._replace(row=cells.row + rows.start + block.rows.first))
    return UnlistedCells.first(parts, count)
