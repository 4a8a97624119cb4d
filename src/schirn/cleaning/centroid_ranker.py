"""Judge tags of very many labels: only listed cells and a sample of the others are scored.

No array of rows x labels is ever built. With c tags, l labels and k sampled cells per label, memory
and time grow with c + k l.

1. Cells of one half of the rows are compared with the mean rows of the labels in the other half:
   all listed cells, and for each label some rows that do not list it.
2. A model of the scores (`schirn.noise.scored_tags`) estimates the probability of each tag.
3. The tags of a row inform each other: rows have similar numbers of wrong tags.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.special import expit, logit

from schirn._input import Array
from schirn._progress import stage, track
from schirn.cleaning.ranker import Evidence, Ranker, RankingTask
from schirn.labels.tags import Tags
from schirn.linalg.arrays import BLOCK_CELLS, rows_per_block
from schirn.noise.model import NoiseModel, cell_blocks, cell_posterior, count_tilt
from schirn.noise.scored_tags import ScoredCells, fit_score_model, sample_unlisted
from schirn.scale.copies import equal_rows

CENTROIDS = "label centroids"
"""Name of the ranker in results."""
# Minimum number of scored rows per label that do not list it; labels with more tags have more.
_N_UNLISTED = 20
# Number of rounds in which the distribution of the number of wrong tags converges.
_ROUNDS = 6


@dataclass(eq=False)
class CentroidRanker(Ranker):
    """Judge very many labels, without any array of rows x labels.

    The default of `find_noisy_labels` for more than 3,000 labels. With fewer labels, other rankers
    find more, because they learn how labels occur together. The tags of one half of the rows are
    judged by the mean rows of the labels in the other half. The ranker learns nothing from known
    tags, and does not look for missing tags.

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
        """Name of the ranker in results."""
        return CENTROIDS

    def rank(self, X: Any, task: RankingTask) -> Evidence:
        """Judge each half of the rows by the other.

        Parameters
        ----------
        X : (n, d) array or CSR matrix
            Features of the rows.
        task : RankingTask
            The tags to judge.

        Returns
        -------
        Evidence
        """
        tags = task.tags
        n_labels = len(tags.names)
        half = _halves(X, task)
        # Tags of the training rows of each half: the rows of the other half.
        training_tags = [_tags_of(tags, half != side) for side in range(2)]
        counts = np.stack([np.bincount(Y.indices, minlength=n_labels) for Y in training_tags])
        row, column = sample_unlisted(tags, task.judged_columns, _N_UNLISTED)
        has_centroid = counts[half[row], column] > 0
        row = row[has_centroid]
        column = column[has_centroid]
        # A tag cannot be judged if its label has no unlisted cell to compare with.
        is_judged = np.bincount(column, minlength=n_labels)[tags.column] > 0
        is_judged &= np.isin(tags.column, task.judged_columns)
        is_judged &= counts[half[tags.row], tags.column] > 0
        planted_row, planted_column = task.planted
        rows = np.r_[tags.row, row, planted_row]
        labels = np.r_[tags.column, column, planted_column]
        scores = np.zeros(len(rows))
        for side in track(range(2), "half"):
            cells = np.flatnonzero(half[rows] == side)
            scores[cells] = score_by_centroids(
                X, training_tags[side], half != side, rows[cells], labels[cells]
            )
        ends = np.cumsum([len(tags.row), len(row)])
        tag_scores, unlisted_scores, planted_scores = np.split(scores, ends)
        judged_scores = tag_scores[is_judged]
        scored = ScoredCells(tags.column[is_judged], judged_scores, column, unlisted_scores)
        score_model = fit_score_model(scored, n_labels)
        posterior = RowPosterior(
            score_model.log_odds(tag_scores, tags.column), is_judged, score_model.shares, tags
        )
        planted = posterior.judge_planted(
            task, score_model.log_odds(planted_scores, planted_column)
        )
        planted[counts[half[planted_row], planted_column] == 0] = np.nan
        return Evidence(posterior.log_odds, is_judged, planted)


class RowPosterior:
    """Log-odds of tags given the other tags of their rows.

    The number of wrong tags per row follows the count distribution of `schirn.noise.model`.

    Parameters
    ----------
    log_odds : (m,) float array
        Log-odds of each tag alone.
    is_judged : (m,) bool array
        True if the log-odds are known; other tags are as likely as any tag of their label.
    shares : (l,) float array
        Share of wrong tags of each label.
    tags : Tags
        The listed tags.
    """

    def __init__(self, log_odds: Array, is_judged: Array, shares: Array, tags: Tags) -> None:
        n, l = tags.shape
        # Rate at which labels are listed in rows where they are wrong, per label and overall.
        wrong = shares * tags.counts
        rates = np.clip(wrong / np.maximum(n - tags.counts + wrong, 1), 1e-9, 0.99)
        false = max(n * l - len(tags.row) + wrong.sum(), 1)
        rate = float(np.clip(wrong.sum() / false, 1e-9, 0.99))
        score_log_odds = np.where(is_judged, log_odds, logit(1 - shares)[tags.column])
        self._log_rates = np.log(rates)
        self._label = tags.column
        # Probability before a tag is known to be listed.
        self._p = expit(score_log_odds + self._log_rates[tags.column])
        self._indptr = np.searchsorted(tags.row, np.arange(n + 1))
        model = NoiseModel(rate, np.zeros(l + 1), np.log(rates / rate))
        blocks = cell_blocks(self._indptr)
        for _ in range(_ROUNDS):
            posterior = cell_posterior(self._p, self._indptr, self._label, model, blocks)
            tilt = count_tilt(posterior.noise_counts, posterior.true_counts, rate)
            model = model._replace(tilt=tilt)
        self._model = model
        q = cell_posterior(self._p, self._indptr, self._label, model, blocks).Q
        self.log_odds = np.asarray(logit(q))

    def judge_planted(self, task: RankingTask, log_odds: Array) -> Array:
        """Return log-odds of planted tags, each replacing the least likely tag of its row."""
        p = self._p.copy()
        label = self._label.copy()
        replaced = task.replaced(self.log_odds)
        label[replaced] = task.planted[1]
        p[replaced] = expit(log_odds + self._log_rates[task.planted[1]])
        return logit(cell_posterior(p, self._indptr, label, self._model).Q[replaced])


def _halves(X: Any, task: RankingTask) -> Array:
    """Assign each row to half 0 or 1 at random; copies and groups stay together."""
    stage("looking for copies")
    groups = task.groups_with_copies(equal_rows(X))
    groups = np.arange(X.shape[0]) if groups is None else groups
    groups = np.unique(groups, return_inverse=True)[1]
    rng = np.random.default_rng(task.random_state)
    return (rng.permutation(int(groups.max()) + 1) % 2)[groups]


def _tags_of(tags: Tags, rows: Array) -> sp.csr_array:
    """Return the tags of some rows as a matrix (n, l)."""
    chosen = rows[tags.row]
    cells = tags.row[chosen], tags.column[chosen]
    return sp.csr_array((np.ones(len(cells[0]), np.uint8), cells), shape=tags.shape)


def score_by_centroids(X: Any, Y: sp.csr_array, train: Array, rows: Array, labels: Array) -> Array:
    """Return the cosine between each row and the centred mean row of its label.

    The score is (x'm - x'g) / |m - g| for a row x of length one, the mean m of the training rows
    that list the label and the mean g of all training rows; it is 0 if the two means are equal.

    Parameters
    ----------
    X : (n, d) array or CSR matrix
        Features of all rows.
    Y : (n, l) CSR array
        Tags of the training rows, 1 each.
    train : (n,) bool array
        The training rows.
    rows, labels : int arrays
        The cells to score.

    Returns
    -------
    float array
    """
    centroids = _Centroids(X, Y, train)
    order = np.argsort(labels, kind="stable")
    distinct, starts = np.unique(labels[order], return_index=True)
    ends = np.r_[starts[1:], len(order)]
    step = rows_per_block(X.shape[1])
    scores = np.zeros(len(rows))
    for first in track(range(0, len(distinct), step), "block of labels"):
        last = min(first + step, len(distinct))
        cells = order[starts[first] : ends[last - 1]]
        scores[cells] = centroids.score(distinct[first:last], rows[cells], labels[cells])
    return scores


class _Centroids:
    """Mean training rows of the labels, computed for one block of labels at a time."""

    def __init__(self, X: Any, Y: sp.csr_array, train: Array) -> None:
        self._X = X
        if sp.issparse(X):
            squares = np.asarray(X.multiply(X).sum(axis=1)).ravel()
            self._sizes = np.diff(X.indptr)
        else:
            squares = np.einsum("ij,ij->i", X, X, dtype=np.float64)
            self._sizes = np.full(X.shape[0], X.shape[1])
        self._lengths = np.maximum(np.sqrt(squares), 1e-30)
        inverse = train / self._lengths
        # In the precision of X: a product in another precision would copy X.
        dtype = np.result_type(X.dtype, np.float32)
        self._mean = np.asarray(inverse.astype(dtype) @ X).ravel() / max(train.sum(), 1)
        self._products = np.asarray(X @ self._mean).ravel()
        # Each row that lists the label, divided by its length and by the number of such rows.
        weights = sp.csr_array(Y.T).astype(np.float32)
        counts = np.diff(weights.indptr)
        values = inverse[weights.indices] / np.repeat(np.maximum(counts, 1), counts)
        weights.data = values.astype(np.float32)
        self._weights = weights
        self._buffer = np.zeros((0, X.shape[1]), dtype=np.float32)

    def score(self, block: Array, rows: Array, labels: Array) -> Array:
        """Score cells whose labels are in a block of sorted labels."""
        M = self._weights[block] @ self._X
        norms = self._distances(M)
        dense = self._dense(M)
        scores = np.zeros(len(rows))
        for piece in _pieces(self._sizes[rows], BLOCK_CELLS):
            row = rows[piece]
            place = np.searchsorted(block, labels[piece])
            norm = norms[place]
            dots = _row_products(self._X[row], dense, place) - self._products[row]
            cosines = dots / (np.where(norm > 0, norm, 1) * self._lengths[row])
            scores[piece] = np.where(norm > 0, cosines, 0)
        if sp.issparse(M):
            self._buffer[_entry_rows(M), M.indices] = 0
        return scores

    def _distances(self, M: Any) -> Array:
        """Return the distance of each mean row from the overall mean; 0 if they are equal."""
        g = self._mean
        if sp.issparse(M):
            squares = M.data.astype(np.float64) ** 2
            squares = np.bincount(_entry_rows(M), squares, minlength=M.shape[0])
        else:
            squares = np.einsum("ij,ij->i", M, M, dtype=np.float64)
        squared_distances = squares - 2 * np.asarray(M @ g).ravel() + g @ g
        is_apart = squared_distances > 1e-9 * (squares + g @ g)
        return np.sqrt(np.where(is_apart, squared_distances, 0))

    def _dense(self, M: Any) -> Array:
        """Return mean rows as an array; only nonzero entries are written, and cleared later."""
        if not sp.issparse(M):
            return np.asarray(M)
        if len(self._buffer) < M.shape[0]:
            self._buffer = np.zeros(M.shape, dtype=np.float32)
        self._buffer[_entry_rows(M), M.indices] = M.data
        return self._buffer


def _entry_rows(M: sp.csr_array) -> Array:
    """Return the row of each stored entry."""
    return np.repeat(np.arange(M.shape[0]), np.diff(M.indptr))


def _row_products(X: Any, dense: Array, place: Array) -> Array:
    """Return the product of each row of X with the row of `dense` at its place."""
    if not sp.issparse(X):
        return np.einsum("ij,ij->i", X, dense[place])
    row = _entry_rows(X)
    products = dense[place[row], X.indices] * X.data
    return np.bincount(row, products, minlength=X.shape[0])


def _pieces(sizes: Array, limit: int) -> Iterator[slice]:
    """Yield slices of cells whose rows have at most `limit` entries, or single cells."""
    total = np.cumsum(sizes)
    first = 0
    while first < len(sizes):
        n_before = total[first - 1] if first else 0
        last = max(first + 1, int(np.searchsorted(total, n_before + limit, side="right")))
        yield slice(first, last)
        first = last
