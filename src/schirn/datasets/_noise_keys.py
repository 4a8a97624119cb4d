"""Random keys for drawing labels: the smallest keys of a row win.

With exponential keys -log(u)/w the winners are a weighted draw without replacement; subtracting
Gumbel noise from a log weight is the same draw on the log scale.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import linalg, sparse

Keys = Callable[[np.ndarray, np.ndarray], np.ndarray]

# Sharpness of the softmax over standardised scores: high enough to prefer the confusable
# labels, low enough that two draws differ.
SHARPNESS = 3.0

# The closed form needs a square matrix of this side at most (3.2 GB).
MAX_GRAM = 20_000


def uniform_keys(random: Any) -> Keys:
    """Return uniform keys, read from the stream row by row over the negatives only."""

    def keys(rows: np.ndarray, negative: np.ndarray) -> np.ndarray:
        return np.asarray(random.random_sample(int(negative.sum())))

    return keys


def label_keys(truth: Any, random: Any) -> Keys:
    """Return keys whose weights follow co-occurrence with the row's true labels."""
    counts = sparse.csr_array(truth.astype(np.float64))
    together = sparse.csr_array(counts.T @ counts)
    frequency = together.diagonal()
    given = sparse.diags_array(1 / np.maximum(frequency, 1)) @ together
    # A small share of the overall frequency keeps every label possible.
    floor = (frequency + 1) / (frequency.sum() + len(frequency))

    def keys(rows: np.ndarray, negative: np.ndarray) -> np.ndarray:
        weights = (counts[rows] @ given).toarray() + floor
        return np.asarray(random.exponential(size=int(negative.sum())) / weights[negative])

    return keys


def feature_keys(truth: Any, X: Any, random: Any) -> Keys:
    """Return keys whose weights follow the scores of a ridge regression on the truth."""
    from sklearn.preprocessing import maxabs_scale

    features = maxabs_scale(X)
    weights = ridge_weights(features, truth)

    def keys(rows: np.ndarray, negative: np.ndarray) -> np.ndarray:
        scores = np.asarray(features[rows] @ weights)
        spread = scores.std(axis=1, keepdims=True)
        scores = (scores - scores.mean(axis=1, keepdims=True)) / np.where(spread > 0, spread, 1)
        return np.asarray(-SHARPNESS * scores[negative] - random.gumbel(size=int(negative.sum())))

    return keys


def ridge_weights(X: Any, truth: Any) -> np.ndarray:
    """Minimise |XW - Y|^2 + |W|^2 in the smaller of the two dimensions of X."""
    n_samples, n_features = X.shape
    labels = truth.astype(np.float64)
    if min(X.shape) > MAX_GRAM:
        from sklearn.linear_model import Ridge

        found = Ridge(fit_intercept=False, solver="sparse_cg").fit(X, labels.toarray())
        # Of a single label scikit-learn returns a vector.
        return np.atleast_2d(found.coef_).T
    if n_features <= n_samples:
        return np.asarray(linalg.solve(_gram(X.T, X), _dense(X.T @ labels), assume_a="pos"))
    dual = linalg.solve(_gram(X, X.T), labels.toarray(), assume_a="pos")
    return np.asarray(X.T @ dual)


def _gram(left: Any, right: Any) -> np.ndarray:
    """Return left @ right + I as a dense array."""
    gram = _dense(left @ right)
    return gram + np.eye(len(gram))


def _dense(matrix: Any) -> np.ndarray:
    """Return a float array, whatever the container."""
    return np.asarray(matrix.toarray() if sparse.issparse(matrix) else matrix, dtype=np.float64)
