"""Automatic scaling of features, kernels, and the Nyström approximation."""

from dataclasses import dataclass
from functools import reduce
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from schirn.linalg.arrays import (
    Array,
    is_device_array,
    like,
    namespace,
    piece_rows,
    row_pieces,
    to_numpy,
)
from schirn.linalg.row_space import gram_spectrum

# Non-negative data with a smaller share of non-zero values are treated as word counts.
_TEXT_DENSITY = 0.2
# A mean up to this share of a column's norm counts as zero.
_CENTRED = 1e-5
_DISTANCE_SAMPLE = 1000
# A sparse feature is frequent if it is non-zero in at least this share of the rows.
_FREQUENT = 0.1
SCORE_ERROR = 5e-4
"""Largest error of ridge scores in single precision; scores of candidates are about 1."""
# Number of support rows above which single precision is worth a copy of the weights.
_SINGLE_SUPPORT = 1000
# Products of larger values may overflow.
_LARGEST_SINGLE = 1e15
# Number of rows at a time, so that their kernel fits into the cache.
_SINGLE_ROWS = 512


class FeatureScale(NamedTuple):
    """Learned scaling of X.

    - "text": x -> sign(x) log(1 + |x|) idf, then every row to length 1
    - "spread": x -> x / (standard deviation sqrt(number of varying features))
    - "none": x

    A scaling learned from sparse data does not centre, so that the data stay sparse; kernels and
    intercepts absorb the mean. A scaling learned from dense data makes sparse rows dense.

    Attributes
    ----------
    kind : {"text", "spread", "none"}
    weights : (d,) array
        Factor of each feature; empty for "none".
    shift : (d,) array
        Subtracted from each feature before "spread" scaling; zeros if X was sparse.
    """

    kind: str
    weights: np.ndarray
    shift: np.ndarray

    def transform(self, X: Any) -> Any:
        """Scale rows, in the container of X.

        Parameters
        ----------
        X : (n, d) array or sparse matrix

        Returns
        -------
        (n, d) array or CSR array
        """
        if self.kind == "none":
            return X
        if self.kind == "spread":
            if sp.issparse(X) and not self.shift.any():
                return sp.csr_array(X * self.weights[None, :])
            X = X.toarray() if sp.issparse(X) else X
            return (X - like(self.shift, X)) * like(self.weights, X)
        return self._dense_text(X) if is_device_array(X) else self._sparse_text(X)

    def _sparse_text(self, X: Any) -> sp.csr_array:
        X = sp.csr_array(X, copy=True)
        X.data = np.sign(X.data) * np.log1p(np.abs(X.data))
        X = sp.csr_array(X * self.weights[None, :])
        lengths = np.sqrt(X.multiply(X).sum(axis=1))
        lengths[lengths == 0] = 1
        return sp.csr_array(X / lengths[:, None])

    def _dense_text(self, X: Array) -> Array:
        """Apply "text" scaling to dense arrays of PyTorch and CuPy."""
        xp = namespace(X)
        X = xp.sign(X) * xp.log1p(xp.abs(X)) * like(self.weights, X)
        lengths = xp.linalg.vector_norm(X, axis=1, keepdims=True)
        return X / xp.where(lengths == 0, xp.ones_like(lengths), lengths)


@dataclass(frozen=True, eq=False)
class FeatureStatistics:
    """Statistics that determine the scaling; `merge` combines the statistics of several blocks."""

    n: int
    dtype: np.dtype
    sparse: bool
    negative: bool
    filled: np.ndarray
    """Number of non-zero values of each feature."""
    mean: np.ndarray
    square: np.ndarray
    """Sum of squared deviations from the mean."""

    def merge(self, other: "FeatureStatistics") -> "FeatureStatistics":
        """Return the statistics of the rows of both.

        Parameters
        ----------
        other : FeatureStatistics

        Returns
        -------
        FeatureStatistics
        """
        n = self.n + other.n
        gap = other.mean - self.mean
        share = other.n / max(n, 1)
        mean = self.mean + share * gap
        square = self.square + other.square + gap**2 * self.n * share
        negative = self.negative or other.negative
        filled = self.filled + other.filled
        return FeatureStatistics(n, self.dtype, self.sparse, negative, filled, mean, square)

    def scale(self, kind: str = "auto") -> FeatureScale:
        """Return the scaling for these statistics; see `learn_scale`.

        Parameters
        ----------
        kind : {"auto", "text", "spread", "none"}

        Returns
        -------
        FeatureScale
        """
        none = np.zeros(0, dtype=self.dtype)
        if kind == "auto":
            density = self.filled.sum() / max(1, self.n * len(self.filled))
            kind = "text" if density < _TEXT_DENSITY and not self.negative else "spread"
        if kind == "text":
            weights = np.log((1 + self.n) / (1 + self.filled)) + 1
            return FeatureScale(kind, weights.astype(self.dtype), none)
        if kind == "spread":
            deviation = np.sqrt(self.square / max(self.n, 1))
            weights = deviation_factor(self.mean, deviation, self.n).astype(self.dtype)
            weights /= np.sqrt(float(max(1, int(np.count_nonzero(weights)))))
            shift = self.mean.astype(self.dtype)
            if self.sparse:
                shift = np.zeros_like(weights)
            return FeatureScale(kind, weights, shift)
        return FeatureScale("none", none, none)


def feature_statistics(X: Any) -> FeatureStatistics:
    """Compute the statistics of the rows of X.

    Parameters
    ----------
    X : (n, d) array or CSR array

    Returns
    -------
    FeatureStatistics
    """
    n, d = X.shape
    if not sp.issparse(X) and n > (step := piece_rows(X, d)):
        pieces = (feature_statistics(A) for _, A in row_pieces(X, step))
        return reduce(FeatureStatistics.merge, pieces)
    values = X.data if sp.issparse(X) else X
    filled = to_numpy((X != 0).sum(axis=0))
    dtype = to_numpy(values[:0]).dtype
    negative = bool((values < 0).any())
    return FeatureStatistics(n, dtype, sp.issparse(X), negative, filled, *moments(X))


def learn_scale(X: Any, kind: str = "auto") -> FeatureScale:
    """Choose and learn the scaling of X.

    Parameters
    ----------
    X : (n, d) array or CSR array
    kind : {"auto", "text", "spread", "none"}
        "auto" chooses "text" if X has no negative value and is mostly zero, else "spread".

    Returns
    -------
    FeatureScale

    Examples
    --------
    >>> learn_scale(np.array([[1.0, -2.0], [3.0, 2.0]])).kind
    'spread'
    >>> learn_scale(sp.csr_array(np.eye(8))).kind
    'text'
    """
    return feature_statistics(X).scale(kind)


def has_unit_rows(X: Any) -> bool:
    """Return True for sparse rows of norm 1, such as tf-idf weights, which are already scaled.

    Empty rows are ignored; if all rows are empty, the result is False.

    Parameters
    ----------
    X : (n, d) array or sparse matrix

    Returns
    -------
    bool

    Examples
    --------
    >>> has_unit_rows(sp.csr_array([[0.6, 0.8], [0.0, 0.0]]))
    True
    """
    if not sp.issparse(X):
        return False
    squares = np.asarray(X.multiply(X).sum(axis=1)).ravel()
    squares = squares[squares > 0]
    return squares.size > 0 and bool(np.all(np.abs(squares - 1) < 1e-3))


def standard_factor(X: Any) -> Array:
    """Return the reciprocal standard deviation of every feature; 0 for a constant feature.

    Parameters
    ----------
    X : (n, d) array or CSR array

    Returns
    -------
    (d,) ndarray

    Examples
    --------
    >>> standard_factor(np.array([[0.0, 5.0], [4.0, 5.0]]))
    array([0.5, 0. ])
    """
    n = X.shape[0]
    mean, square = moments(X)
    return deviation_factor(mean, np.sqrt(square / n), n).astype(X.dtype)


def moments(X: Any) -> tuple[Array, Array]:
    """Return the mean and the sum of squared deviations of every feature, in double precision.

    Parameters
    ----------
    X : (n, d) array or CSR array

    Returns
    -------
    mean : (d,) ndarray
    square : (d,) ndarray
        Sums of squared deviations.
    """
    if sp.issparse(X):
        return _sparse_moments(X)
    double = namespace(X).astype(X, namespace(X).float64, copy=False)
    mean = double.mean(0)
    return to_numpy(mean), to_numpy(((double - mean) ** 2).sum(0))


def _sparse_moments(X: sp.csr_array) -> tuple[Array, Array]:
    n, d = X.shape
    mean = np.bincount(X.indices, weights=X.data, minlength=d) / n
    zeros = n - np.bincount(X.indices, minlength=d)
    deviation = X.data - mean[X.indices]
    square = np.bincount(X.indices, weights=deviation**2, minlength=d)
    return mean, square + zeros * mean**2


def deviation_factor(mean: Array, deviation: Array, n: int) -> Array:
    """Return reciprocals of standard deviations; 0 for constant features.

    Parameters
    ----------
    mean : (d,) ndarray
    deviation : (d,) ndarray
        Standard deviations.
    n : int
        Number of rows.

    Returns
    -------
    (d,) ndarray
    """
    # The mean of equal values has a rounding error, so a constant feature may deviate from it.
    varies = deviation > n * np.finfo(np.float64).eps * np.abs(mean)
    return np.divide(1, deviation, out=np.zeros(len(mean)), where=varies)


def is_centred(X: "Array | sp.csr_array") -> bool:
    """Return True if every column has mean zero, as after StandardScaler; False for sparse X.

    Parameters
    ----------
    X : (n, d) array or sparse matrix

    Returns
    -------
    bool

    Examples
    --------
    >>> is_centred(np.array([[1.0, 5.0], [-1.0, -5.0]])), is_centred(np.eye(2))
    (True, False)
    """
    if sp.issparse(X) or len(X) < 2:
        return False
    mean = np.abs(X.mean(axis=0, dtype=np.float64))
    with np.errstate(over="ignore"):
        length = np.sqrt(np.einsum("ij,ij->j", X, X, dtype=np.float64) / len(X))
    if not length.any() or not np.isfinite(length).all():
        return False
    return bool((mean <= _CENTRED * length).all())


# ---- Kernels


class Kernel(NamedTuple):
    """A kernel: "linear", the inner product, or "rbf", exp(-||a - b||^2 / width).

    Attributes
    ----------
    name : {"linear", "rbf"}
    width : float
        Width of the RBF kernel; ignored by the linear kernel.
    """

    name: str
    width: float = 1.0

    def __call__(self, A: Any, B: Any) -> Array:
        """Compute the dense kernel matrix between the rows of A and the rows of B."""
        if self.name == "linear":
            return sparse_products(A, B) if sp.issparse(A) and sp.issparse(B) else A @ B.T
        # In place: this is the largest matrix of a fit.
        distance = squared_distances(A, B)
        distance /= -self.width
        return namespace(distance).exp(distance, out=distance)


class KernelExpansion(NamedTuple):
    """Scores of scaled rows: kernel(rows, support) @ weights + offsets."""

    kernel: Kernel
    support: Any
    """Training rows or landmarks; None for a linear kernel, whose weights are per feature."""
    weights: np.ndarray
    """(experts, support rows or features, labels)"""
    offsets: np.ndarray
    """(experts, labels)"""

    def scores(self, Z: Any) -> list[Array]:
        """Return the ridge scores of every expert.

        With many support rows, kernel and scores are computed in single precision if that changes
        scores by less than `SCORE_ERROR`. This depends only on the model, so that a row has the
        same scores in every batch.

        Parameters
        ----------
        Z : (m, d) array or CSR array
            Scaled rows.

        Returns
        -------
        list of (m, l) arrays
        """
        is_dense = isinstance(Z, np.ndarray) and len(Z) > 0
        if is_dense and self._is_single() and np.abs(Z).max() < _LARGEST_SINGLE:
            return self._single_scores(Z)
        K = Z if self.support is None else self.kernel(Z, on_device(self.support, Z))
        if sp.issparse(Z) or isinstance(Z, np.ndarray):
            pairs = zip(self.weights, self.offsets, strict=True)
            return [np.asarray(K @ W) + b for W, b in pairs]
        pairs = zip(like(self.weights, K), like(self.offsets, K), strict=True)
        return [K @ W + b for W, b in pairs]

    def _is_single(self) -> bool:
        """Return True if single precision is faster and accurate enough."""
        if not isinstance(self.support, np.ndarray) or self.kernel.name != "rbf":
            return False
        if len(self.support) < _SINGLE_SUPPORT:
            return False
        # Kernel values are at most 1, with a rounding error of half a unit in the last place.
        largest = np.abs(self.weights).sum(axis=1).max()
        return bool(largest * np.finfo(np.float32).eps / 2 < SCORE_ERROR)

    def _single_scores(self, Z: np.ndarray) -> list[np.ndarray]:
        """Ridge scores of all experts from one product in single precision."""
        n_experts, _, n_labels = self.weights.shape
        support = self.support.astype(np.float32)
        weights = np.concatenate(list(self.weights), axis=1).astype(np.float32)
        factor = np.float32(1 / self.kernel.width)
        # The exponent is 2 a'b - a'a - b'b, divided by the width.
        directions = np.ascontiguousarray(2 * factor * support.T)
        lengths = factor * _squares(support)
        scores = np.empty((len(Z), n_experts * n_labels), dtype=np.float32)
        buffer = np.empty((min(len(Z), _SINGLE_ROWS), len(support)), dtype=np.float32)
        for start in range(0, len(Z), _SINGLE_ROWS):
            rows = Z[start : start + _SINGLE_ROWS].astype(np.float32)
            K = np.matmul(rows, directions, out=buffer[: len(rows)])
            K -= lengths
            K -= (factor * _squares(rows))[:, None]
            np.minimum(K, 0, out=K)
            np.exp(K, out=K)
            np.matmul(K, weights, out=scores[start : start + _SINGLE_ROWS])
        scores = scores.astype(Z.dtype, copy=False)
        experts = np.split(scores, n_experts, axis=1)
        return [S + b.astype(Z.dtype) for S, b in zip(experts, self.offsets, strict=True)]


def sparse_products(A: Any, B: Any) -> np.ndarray:
    """Return the dense product A B' of sparse rows.

    Frequent features, which would dominate the time of a sparse product, are multiplied densely.

    Parameters
    ----------
    A : (m, d) CSR array
    B : (n, d) CSR array

    Returns
    -------
    (m, n) ndarray
    """
    frequent = np.bincount(A.indices, minlength=A.shape[1]) > _FREQUENT * A.shape[0]
    columns = np.flatnonzero(frequent)
    rare = sp.csr_array(A[:, ~frequent] @ B[:, ~frequent].T).toarray()
    rare += A[:, columns].toarray() @ B[:, columns].toarray().T
    return np.asarray(rare)


def on_device(support: Any, Z: Any) -> Any:
    """Move training rows or landmarks to the device of Z.

    Parameters
    ----------
    support : (n, d) array or CSR array
    Z : (m, d) array or sparse matrix

    Returns
    -------
    (n, d) array or CSR array
    """
    if sp.issparse(Z) or isinstance(Z, np.ndarray):
        return support
    return like(support.toarray() if sp.issparse(support) else support, Z)


def squared_distances(A: Any, B: Any) -> Array:
    """Return the squared distances between the rows of A and the rows of B.

    Parameters
    ----------
    A : (m, d) array or CSR array
    B : (n, d) array or CSR array

    Returns
    -------
    (m, n) array

    Examples
    --------
    >>> squared_distances(np.array([[0.0, 0.0]]), np.array([[3.0, 4.0], [0.0, 1.0]]))
    array([[25.,  1.]])
    """
    products = A @ B.T
    products = products.toarray() if sp.issparse(products) else products
    products *= -2
    products += _squares(A)[:, None] + _squares(B)
    xp = namespace(products)
    if xp is np:
        return np.maximum(products, 0, out=products)
    return xp.clip(products, 0, None)


def width_sample(n: int, rng: np.random.RandomState) -> np.ndarray:
    """Draw the rows whose distances determine the kernel width; return sorted indices.

    Parameters
    ----------
    n : int
        Number of rows.
    rng : RandomState

    Returns
    -------
    ndarray of int
    """
    return np.sort(rng.choice(n, min(n, _DISTANCE_SAMPLE), replace=False))


def sample_width(sample: Any) -> float:
    """Return the median squared distance over pairs of distinct rows; 1 if all are equal.

    Parameters
    ----------
    sample : (m, d) array or CSR array

    Returns
    -------
    float
    """
    xp = namespace(sample)
    largest = max(float(xp.max(_squares(sample))), 1e-300)
    distance = xp.triu(squared_distances(sample, sample), k=1)
    # Sort instead of calling `median`: with an even count, PyTorch returns the lower middle value.
    distance = xp.sort(distance[distance > 1e-12 * largest])
    n = len(distance)
    return float(distance[(n - 1) // 2] + distance[n // 2]) / 2 if n else 1.0


def nystroem_map(kernel: Kernel, landmarks: Any) -> Array:
    """Return R such that inner products of the features K(x, landmarks) R approximate the kernel.

    Computed in double precision, so that small eigenvalues are not rounding errors.

    Parameters
    ----------
    kernel : Kernel
    landmarks : (p, d) array or CSR array

    Returns
    -------
    (p, r) array
    """
    xp = namespace(landmarks)
    exact = landmarks.astype(np.float64) if xp is np else xp.astype(landmarks, xp.float64)
    eigenvalues, V = gram_spectrum(kernel(exact, exact), 1e-8)
    R = V / eigenvalues**0.5
    return np.ascontiguousarray(R) if xp is np else R


def _squares(A: Any) -> Array:
    if sp.issparse(A):
        return np.asarray(A.multiply(A).sum(axis=1)).ravel()
    return namespace(A).einsum("ij,ij->i", A, A)
