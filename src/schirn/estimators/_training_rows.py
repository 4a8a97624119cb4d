"""Recognise rows that a model was trained on, their copies and edited versions.

A model tends to reproduce the labels it was trained on, including the wrong ones, for the same row
and for the row with one more word. A fitted method therefore keeps a sketch of its training rows,
and scores the rows that it recognises as if they had been left out of training.

Sparse rows, such as texts, are compared as sets of features, in which rare features weigh most: a
paragraph that ends every description says nothing about a row. The share of positions at which the
smallest hashes of two sets agree estimates the weight of A ∩ B divided by that of A ∪ B (weighted
MinHash); rows are compared if two neighbouring hashes agree. Dense rows are compared by their
distance after standardisation and a random projection; a copy is much closer than any other row.
"""

from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.spatial import cKDTree

from schirn._input import Array

# 48 hashes estimate a similarity of 0.6 with a standard error of 0.07.
_N_HASHES = 48
# Two rows are versions of the same row if their feature sets overlap by this share of the union and
# by this share of the smaller set, which stays high if something was only added or deleted.
_SIMILARITY = 0.5
_CONTAINMENT = 0.7
# Maximum number of training rows compared with a new row per matching pair of hashes.
_MOST_CANDIDATES = 8
# Weight of a feature that all rows have: it only matters for rows without other features.
_LEAST_WEIGHT = 1e-3
_N_DIRECTIONS = 16
# A copy is closer than this share of the median distance to the nearest neighbour.
_NEARNESS = 0.2
_MOST_DISTANCES = 2000
_SEED = 2047


class _Sketch(NamedTuple):
    """The fields of `TrainingRows`, which are part of the format of model files."""

    hashes: Array
    sizes: Array
    weights: Array
    points: Array
    mean: Array
    deviation: Array
    radius: float


class TrainingRows(_Sketch):
    """Sketch of the training rows: hashes of sparse rows, projections of dense rows.

    Attributes
    ----------
    hashes : (n, 48) uint32 array
        The smallest hashes of each row; empty for dense rows.
    sizes : (n,) float32 array
        Total weight of the features of each row; empty for dense rows.
    weights : (d,) float32 array
        Weight of each feature, the logarithm of the number of rows per row that has it; empty for
        dense rows.
    points : (n, k) float32 array
        Projections of the rows; empty for sparse rows.
    mean, deviation : (d,) float32 array
        Mean and standard deviation of the features; empty for sparse rows.
    radius : float
        Distance within which a dense row is a copy.
    """

    @classmethod
    def of(cls, X: Any) -> "TrainingRows":
        """Compute the sketch of the rows of X.

        Parameters
        ----------
        X : (n, d) array or CSR array

        Returns
        -------
        TrainingRows
        """
        no_points = np.zeros((0, 0), dtype=np.float32)
        nothing = np.zeros(0, dtype=np.float32)
        if sp.issparse(X):
            X = sp.csr_array(X)
            counts = np.maximum(np.bincount(X.indices, minlength=X.shape[1]), 1)
            weights = np.log(X.shape[0] / counts)
            weights = np.maximum(weights, _LEAST_WEIGHT).astype(np.float32)
            hashes = _smallest_hashes(X, weights)
            return cls(hashes, _sizes(X, weights), weights, no_points, nothing, nothing, 0.0)
        mean = X.mean(axis=0, dtype=np.float64).astype(np.float32)
        deviation = X.std(axis=0, dtype=np.float64).astype(np.float32)
        deviation[deviation == 0] = 1
        points = _projected(X, mean, deviation)
        no_hashes = np.zeros((0, _N_HASHES), dtype=np.uint32)
        return cls(no_hashes, nothing, nothing, points, mean, deviation, _radius(points))

    def find(self, X: Any) -> Array:
        """Find the training rows that rows of X are versions of.

        Parameters
        ----------
        X : (m, d) array or CSR array

        Returns
        -------
        (m,) int array
            Index of the same, copied or edited training row; -1 if there is none.
        """
        n_rows = X.shape[0]
        if sp.issparse(X) != bool(len(self.sizes)) or not n_rows:
            return np.full(n_rows, -1)
        if sp.issparse(X):
            X = sp.csr_array(X)
            return self._find_sets(_smallest_hashes(X, self.weights), _sizes(X, self.weights))
        tree = cKDTree(self.points)
        distance, index = tree.query(_projected(X, self.mean, self.deviation))
        return np.where(distance <= self.radius, index, -1)

    def copy_groups(self) -> Array:
        """Number the training rows such that a row shares its number with its copies and edits.

        Each row joins the first row that it is a version of. Versions of versions are not followed,
        because short texts would be linked, word by word, to unrelated texts.

        Returns
        -------
        (n,) int array
            Index of the first row of the group.
        """
        n_rows = max(len(self.sizes), len(self.points))
        first, second = self._similar_sets() if len(self.sizes) else self._near_points()
        order = np.lexsort((first, second))
        group = np.arange(n_rows)
        for head, row in zip(first[order].tolist(), second[order].tolist(), strict=True):
            if group[row] == row and group[head] == head:
                group[row] = head
        return group

    def _similar_sets(self) -> tuple[Array, Array]:
        """Pairs of an earlier and a later version: rows that share two neighbouring hashes."""
        first = []
        second = []
        for band in self._bands:
            for k in range(1, _MOST_CANDIDATES + 1):
                is_together = band.keys[k:] == band.keys[:-k]
                candidate = band.rows[:-k][is_together]
                row = band.rows[k:][is_together]
                similarity = (self.hashes[candidate] == self.hashes[row]).mean(axis=1)
                is_same = _are_versions(similarity, self.sizes[candidate], self.sizes[row])
                is_same &= self.sizes[row] > 0
                first.append(candidate[is_same])
                second.append(row[is_same])
        return np.concatenate(first), np.concatenate(second)

    def _near_points(self) -> tuple[Array, Array]:
        """Pairs of an earlier and a later dense row that are closer than the radius."""
        points, head, place = np.unique(self.points, axis=0, return_index=True, return_inverse=True)
        equal = np.flatnonzero(head[place] != np.arange(len(place)))
        near = cKDTree(points).query_pairs(self.radius, output_type="ndarray")
        pairs = np.sort(head[near], axis=1)
        return np.r_[pairs[:, 0], head[place[equal]]], np.r_[pairs[:, 1], equal]

    @cached_property
    def _bands(self) -> list["_Band"]:
        """The rows by each pair of neighbouring hashes."""
        return [_Band.of(_pair(self.hashes, k)) for k in range(0, _N_HASHES, 2)]

    @cached_property
    def _signatures(self) -> "_Band":
        """The rows by all of their hashes."""
        return _Band.of(_signature(self.hashes))

    def _find_sets(self, hashes: Array, sizes: Array) -> Array:
        """Return the most similar training row of each feature set, or -1 if none is close."""
        best = np.full(len(hashes), -1)
        most_similar = np.zeros(len(hashes))
        # A copy has all hashes of its row, and is found however common its features are.
        bands = [(self._signatures, _signature(hashes), 1)]
        for k, band in enumerate(self._bands):
            bands.append((band, _pair(hashes, 2 * k), _MOST_CANDIDATES))
        for band, targets, n_candidates in bands:
            first = np.searchsorted(band.keys, targets)
            for k in range(n_candidates):
                place = np.minimum(first + k, len(band.keys) - 1)
                is_open = (band.keys[place] == targets) & (sizes > 0) & (most_similar < 1)
                rows = np.flatnonzero(is_open)
                candidate = band.rows[place[rows]]
                similarity = (self.hashes[candidate] == hashes[rows]).mean(axis=1)
                is_same = _are_versions(similarity, self.sizes[candidate], sizes[rows])
                is_better = is_same & (similarity > most_similar[rows])
                best[rows[is_better]] = candidate[is_better]
                most_similar[rows[is_better]] = similarity[is_better]
        return best


class _Band(NamedTuple):
    """Rows sorted by a key, so that equal keys are found by bisection."""

    keys: Array
    rows: Array

    @classmethod
    def of(cls, keys: Array) -> "_Band":
        """Sort the rows by their keys."""
        rows = np.argsort(keys, kind="stable")
        return cls(keys[rows], rows.astype(np.int32))


def _are_versions(similarity: Array, size: Array, other_size: Array) -> Array:
    """Check which pairs of feature sets with this similarity and these sizes are versions."""
    n_both = similarity / (1 + similarity) * (size + other_size)
    smaller = np.minimum(size, other_size)
    return np.asarray((similarity >= _SIMILARITY) & (n_both >= _CONTAINMENT * smaller))


def _sizes(X: Any, weights: Array) -> Array:
    """Return the total weight of the features of each sparse row."""
    total = np.r_[0.0, np.cumsum(weights[X.indices], dtype=np.float64)]
    return np.diff(total[X.indptr]).astype(np.float32)


def _smallest_hashes(X: Any, weights: Array) -> Array:
    """Return the weighted MinHash signatures (n, 48) of sparse rows.

    A feature of weight w gets an exponential variable with rate w. The smallest one of a row
    belongs to each feature with a probability proportional to its weight, and identifies it,
    because different features have different values. Positive floats have the order of their bits.
    """
    random = np.random.default_rng(_SEED)
    factors = random.integers(1, 2**63, size=_N_HASHES, dtype=np.uint64) | np.uint64(1)
    shifts = random.integers(0, 2**63, size=_N_HASHES, dtype=np.uint64)
    smallest = np.full((X.shape[0], _N_HASHES), np.iinfo(np.uint32).max, dtype=np.uint32)
    filled = np.flatnonzero(np.diff(X.indptr))
    if not len(filled):
        return smallest
    starts = X.indptr[filled]
    columns, place = np.unique(X.indices, return_inverse=True)
    weights = weights[columns].astype(np.float64)
    columns = columns.astype(np.uint64)
    for k in range(_N_HASHES):
        # Multiplication modulo 2**64; the upper half of the bits is well mixed.
        upper = (columns * factors[k] + shifts[k]) >> np.uint64(32)
        uniform = (upper + 0.5) / 2**32
        of_column = (-np.log(uniform) / weights).astype(np.float32).view(np.uint32)
        smallest[filled, k] = np.minimum.reduceat(of_column[place], starts)
    return smallest


def _signature(hashes: Array) -> Array:
    """Combine all hashes of each row into one number."""
    factors = np.random.default_rng(_SEED).integers(0, 2**63, size=_N_HASHES, dtype=np.uint64)
    return (hashes.astype(np.uint64) * (factors | np.uint64(1))).sum(axis=1, dtype=np.uint64)


def _pair(hashes: Array, band: int) -> Array:
    """Combine two neighbouring hashes of each row into one number."""
    upper = hashes[:, band].astype(np.uint64) << np.uint64(32)
    return upper | hashes[:, band + 1]


def _projected(X: Array, mean: Array, deviation: Array) -> Array:
    """Standardise the rows and project them onto k random directions."""
    n_features = X.shape[1]
    if n_features <= _N_DIRECTIONS:
        return ((X - mean) / deviation).astype(np.float32)
    shape = (n_features, _N_DIRECTIONS)
    directions = np.random.default_rng(_SEED).standard_normal(shape)
    # Scaling the directions instead of the rows saves a copy of X.
    directions /= np.sqrt(n_features) * deviation[:, None]
    return (X @ directions.astype(X.dtype) - mean @ directions).astype(np.float32)


def _radius(points: Array) -> float:
    """Return the distance below which two points count as copies."""
    sample = points[:: -(-len(points) // _MOST_DISTANCES)]
    if len(sample) < 2:
        return 0.0
    distance = cKDTree(sample).query(sample, k=2)[0][:, 1]
    positive = distance[distance > 0]
    # The lower bound tolerates rounding errors of identical rows.
    return max(_NEARNESS * float(np.median(positive)) if len(positive) else 0.0, 1e-5)
