"""Choose the weight of each kind of column by how well it helps to predict left-out tags."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from schirn._input import Array
from schirn.labels.tags import Tags
from schirn.linalg.features import squared_distances
from schirn.linalg.leave_one_out import leave_one_out

_MAX_ROWS = 600
_MAX_TAGS = 100
_MIN_ROWS = 20
# Weights to try for one kind of column while the others are fixed.
_WEIGHTS = (0.25, 0.5, 1.0, 2.0)
_SWEEPS = 2
_RIDGES = 10.0 ** np.arange(-2, 1.01)
# A new weight must reduce the error by this share.
_GAIN = 0.005


def choose_weights(blocks: Sequence[Any], tags: Tags) -> Array:
    """Return the factors of blocks of features that best predict the tags of left-out rows.

    Kernel ridges with exp(-d/median), where d sums the weighted squared distances of all blocks,
    are compared by their squared leave-one-out error relative to the variance of each tag.
    Coordinate descent changes one weight at a time in two sweeps, starting from 1.

    Parameters
    ----------
    blocks : sequence of (n, d) arrays or CSR matrices
        Features of the same rows, each block of unit variance.
    tags : Tags
        At most 600 rows, drawn at random, and the 100 most frequent tags are used.
    """
    weights = np.ones(len(blocks))
    rng = np.random.RandomState(0)
    rows = np.sort(rng.permutation(tags.n_rows)[:_MAX_ROWS])
    frequent = np.argsort(-tags.counts, kind="stable")[:_MAX_TAGS]
    Y = tags.dense(frequent)[rows].astype(np.float64)
    Y = Y[:, Y.std(axis=0) > 0]
    if len(rows) < _MIN_ROWS or not Y.size:
        return weights
    samples = [block[rows] for block in blocks]
    distances = np.array([squared_distances(sample, sample) for sample in samples])
    best = _left_out_error(distances.sum(axis=0), Y)
    for k in _SWEEPS * list(range(len(blocks))):
        trials = [np.where(np.arange(len(blocks)) == k, weight, weights) for weight in _WEIGHTS]
        errors = [_left_out_error(np.tensordot(w**2, distances, 1), Y) for w in trials]
        if min(errors) < (1 - _GAIN) * best:
            best = min(errors)
            weights = trials[int(np.argmin(errors))]
    return weights


def _left_out_error(distances: Array, Y: Array) -> float:
    """Return the relative squared leave-one-out error of the best ridge."""
    width = np.median(distances[np.triu_indices(len(Y), 1)])
    K = np.exp(-distances / (width if width > 0 else 1.0))
    K = K - K.mean(axis=0) - K.mean(axis=0)[:, None] + K.mean()
    eigenvalues, U = np.linalg.eigh(K)
    centred = Y - Y.mean(axis=0)
    projected = U.T @ centred
    errors = []
    for ridge in _RIDGES:
        shrinkage = eigenvalues.clip(0) / (eigenvalues.clip(0) + ridge)
        fitted = U @ (shrinkage[:, None] * projected)
        scores = leave_one_out(centred, fitted, U**2 @ shrinkage + 1 / len(Y))
        errors.append(np.mean(((centred - scores) ** 2).sum(axis=0) / (centred**2).sum(axis=0)))
    return float(min(errors))
