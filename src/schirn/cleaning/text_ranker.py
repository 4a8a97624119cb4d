"""Judge the tags of many texts: label centroids and a linear model, both on all sparse features.

The rows are judged in folds, each by what the others have taught. Centroids follow noise that
depends on the label; a ridge regression on the listed tags weighs words against each other. Each
makes up for what the other misses, so that the log-odds are the sum of both, each divided by its
spread. As for fewer texts, the share of right minus wrong tags among labels as frequent is added:
where wrong tags fall on all labels alike, tags of rare labels are mostly wrong.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.special import logit

from schirn._checkpoint import remembered
from schirn._progress import stage, track
from schirn.cleaning.centroid_ranker import Cells, Law, judge_by_law, sample_unlisted
from schirn.cleaning.groups import with_copies
from schirn.cleaning.label_shares import wrong_shares
from schirn.cleaning.ranker import (
    Evidence,
    PlantedTags,
    Ranker,
    RankingTask,
    UnlistedCells,
    likeliest_unlisted,
)
from schirn.cleaning.storage import Needs
from schirn.linalg.arrays import row_slices
from schirn.solvers.candidates import Knowledge
from schirn.solvers.sieve import soft_logit
from schirn.solvers.sparse_ridges import linear_lams, solve_ridges

Array = np.ndarray

_FOLDS = 3
# Rows without the label that are sampled for each label, as for very many labels.
_N_UNLISTED = 20
# Spreads of the log-odds that a share of 1 counts for; where wrong tags follow the frequency of the
# labels, the share says nothing, and costs least if it counts for less than one.
_SHARE = 0.5
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
        """All rows must be in main memory."""
        return Needs(cells=_BYTES_PER_CELL * task.tags.n_rows * len(task.columns))

    def rank(self, X: Any, task: RankingTask) -> Evidence:
        """Judge each fold by what the others have taught."""
        if not len(task.judged_columns):
            return Evidence.empty(task)
        tags, columns = task.tags, task.columns
        name = f"labels-{columns[0]}-{len(columns)}"
        centroids, linear = remembered(name, lambda: _scores_in_folds(sp.csr_array(X), task))
        rng = np.random.default_rng(task.random_state)
        row, column = sample_unlisted(tags, task.judged_columns, _N_UNLISTED, rng)
        other = row, np.searchsorted(columns, column)
        judged = np.isin(tags.column, task.judged_columns)
        listed = tags.pick(centroids, columns, 0.0)
        cells = Cells(judged, np.where(judged, listed, 0), row, column, centroids[other])

        def score_planted(planted: PlantedTags) -> Array:
            return np.asarray(centroids[planted.row, np.searchsorted(columns, planted.column)])

        law, planted = judge_by_law(cells, task, score_planted, rng)
        experts = [logit(law.q), tags.pick(linear, columns, 0.0)]
        total = _Sum(*(expert[judged] for expert in experts))
        place = planted.row, np.searchsorted(columns, planted.column)
        log_odds = total(*experts)
        shares = np.zeros(len(tags.names))
        listed_at = np.searchsorted(columns, tags.column[judged])
        shares[columns] = wrong_shares(linear, tags.dense(columns), tags.row[judged], listed_at)
        # The mean stays, so that confidences are as high as without the shares.
        shares = shares[tags.column[judged]].mean() - shares
        shares *= 2 * _SHARE * float(np.std(log_odds[judged]))
        z = total(planted.log_odds, linear[place]) + shares[planted.column]
        planted = planted._replace(log_odds=z)
        unlisted = None
        if task.n_unlisted is not None:
            stage("ranking missing tags")
            both = _Sum(logit(law.before(centroids[other], column)), linear[other])
            unlisted = _likeliest(task, law, both, centroids, linear)
        return Evidence(log_odds + shares[tags.column], judged, planted, unlisted)


class _Sum:
    """Sum of two experts, each divided by its spread, on the scale of the first."""

    def __init__(self, first: Array, second: Array) -> None:
        self.centres = float(first.mean()), float(second.mean())
        self.spreads = [float(values.std()) or 1.0 for values in (first, second)]
        self.spread = 1.0
        self.spread = self.spreads[0] / (float(np.std(self(first, second))) or 1.0)

    def __call__(self, first: Array, second: Array) -> Array:
        """Log-odds of the same or of other cells."""
        (a, b), (s, t) = self.centres, self.spreads
        return np.asarray(a + self.spread * ((first - a) / s + (second - b) / t))


def _scores_in_folds(X: "sp.csr_array", task: RankingTask) -> tuple[Array, Array]:
    """Scores (n, k) of all cells by label centroids, and log-odds by ridges."""
    tags, columns = task.tags, task.columns
    stage("looking for copies")
    groups = with_copies(X, tags, task.groups)
    # By position: another seed or more rows at the end change the folds of no row.
    groups = np.arange(tags.n_rows) if groups is None else groups
    Y = sp.csr_array(tags.dense(columns, np.where(task.known < 0, 0, 1).astype(np.float32)))
    rng = np.random.RandomState(task.random_state)
    lams = linear_lams(X, Y, Knowledge(), trusting=True, rng=rng)
    centroids, linear = np.empty((2, *Y.shape), dtype=np.float32)
    for fold in track(range(_FOLDS), "fold"):
        test = groups % _FOLDS == fold
        train = ~test
        if not test.any() or not train.any():
            centroids[test], linear[test] = 0, 0
            continue
        centroids[test] = _centroid_scores(X[train], Y[train], X[test])
        for chosen, ridges in solve_ridges(X[train], Y[train], lams):
            W, b = ridges[-1]
            linear[test, chosen] = soft_logit(X[test] @ W + b)
    return centroids, linear


def _centroid_scores(X: "sp.csr_array", Y: "sp.csr_array", X_test: "sp.csr_array") -> Array:
    """Scores as those of `schirn.cleaning.centroids`, of all cells of the test rows."""
    g = np.asarray(X.mean(axis=0)).ravel()
    M = (X.T @ Y).toarray() / np.maximum(Y.sum(axis=0), 1).astype(X.dtype)
    M -= g[:, None]
    lengths = np.sqrt(np.einsum("ij,ij->j", M, M, dtype=np.float64))
    return np.asarray(X_test @ (M / np.maximum(lengths, 1e-9).astype(X.dtype)))


def _likeliest(
    task: RankingTask, law: Law, both: _Sum, centroids: Array, linear: Array
) -> UnlistedCells:
    """Return the likeliest unlisted cells, block by block."""
    tags, columns, blocks = task.tags, task.columns, []
    for rows in row_slices(tags.n_rows, len(columns)):
        shape = rows.stop - rows.start, len(columns)
        before = law.before(centroids[rows].ravel(), np.tile(columns, shape[0]))
        z = both(logit(before).reshape(shape), linear[rows])
        block = np.searchsorted(tags.row, (rows.start, rows.stop))
        row, column = tags.row[slice(*block)] - rows.start, tags.column[slice(*block)]
        inside = np.isin(column, columns)
        listed = np.zeros(shape, dtype=bool)
        listed[row[inside], np.searchsorted(columns, column[inside])] = True
        cells = likeliest_unlisted(z, listed, columns, int(task.n_unlisted or 0))
        blocks.append(cells._replace(row=cells.row + rows.start))
    cells = UnlistedCells(*map(np.concatenate, zip(*blocks, strict=True)))
    best = np.argsort(-cells.log_odds, kind="stable")[: task.n_unlisted]
    return UnlistedCells(*(values[best] for values in cells))
