"""Kernels, how they score new rows, and the Nyström map."""

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from schirn.linalg.arrays import Array, is_device_array, like, namespace, to_numpy
from schirn.linalg.row_space import gram_spectrum

_DISTANCE_SAMPLE = 1000
# Share of the rows from which on a feature of sparse rows is frequent.
_FREQUENT = 0.1


class Kernel(NamedTuple):
    """A kernel: "linear", the inner product, or "rbf", exp(-||a - b||^2 / width)."""

    name: str
    width: float = 1.0

    def __call__(self, A: Any, B: Any) -> Array:
        """The kernel between the rows of A and the rows of B, dense."""
        if self.name == "linear":
            return sparse_products(A, B) if sp.issparse(A) and sp.issparse(B) else A @ B.T
        distance = squared_distances(A, B)
        xp = namespace(distance)
        if xp is not np:
            return xp.exp(distance / -self.width)
        # The largest matrix of a fit: no copies.
        distance /= -self.width
        return np.exp(distance, out=distance)


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
        """Ridge scores of every expert."""
        K = Z if self.support is None else self.kernel(Z, on_device(self.support, Z))
        if sp.issparse(Z) or isinstance(Z, np.ndarray):
            pairs = zip(self.weights, self.offsets, strict=True)
            return [np.asarray(K @ W) + b for W, b in pairs]
        pairs = zip(like(self.weights, K), like(self.offsets, K), strict=True)
        return [K @ W + b for W, b in pairs]


def sparse_products(A: Any, B: Any) -> np.ndarray:
    """Products A B' of sparse rows, dense.

    Features of many rows would take most of the time of a sparse product; those are dense.
    """
    frequent = np.bincount(A.indices, minlength=A.shape[1]) > _FREQUENT * A.shape[0]
    columns = np.flatnonzero(frequent)
    rare = sp.csr_array(A[:, ~frequent] @ B[:, ~frequent].T).toarray()
    rare += A[:, columns].toarray() @ B[:, columns].toarray().T
    return np.asarray(rare)


def pick(Z: Any, rows: np.ndarray) -> Any:
    """The given rows of an array of any library."""
    if not is_device_array(Z):
        return Z[rows]
    return namespace(Z).take(Z, like(rows, Z, "own"), axis=0)


def on_device(support: Any, Z: Any) -> Any:
    """Training rows or landmarks on the device of Z."""
    if sp.issparse(Z) or isinstance(Z, np.ndarray):
        return support
    return like(support.toarray() if sp.issparse(support) else support, Z)


def squared_distances(A: Any, B: Any) -> Array:
    """Squared distances between the rows of A and the rows of B, dense.

    >>> squared_distances(np.array([[0.0, 0.0]]), np.array([[3.0, 4.0], [0.0, 1.0]]))
    array([[25.,  1.]])
    """
    products = A @ B.T
    products = products.toarray() if sp.issparse(products) else products
    xp = namespace(products)
    if xp is not np:
        return xp.clip(_squares(A)[:, None] + _squares(B) - 2 * products, 0, None)
    products *= -2
    products += _squares(A)[:, None] + _squares(B)
    return np.maximum(products, 0, out=products)


def width_sample(n: int, rng: np.random.RandomState) -> np.ndarray:
    """Sorted indices of the rows whose distances are measured."""
    return np.sort(rng.choice(n, min(n, _DISTANCE_SAMPLE), replace=False))


def sample_width(sample: Any) -> float:
    """Median squared distance of all pairs of distinct rows; 1 if all are equal."""
    sample = sample if sp.issparse(sample) else to_numpy(sample)
    products = sample @ sample.T
    products = products.toarray() if sp.issparse(products) else products
    squares = _squares(sample)
    distance = (squares[:, None] + squares - 2 * products)[np.triu_indices(len(squares), 1)]
    distance = distance[distance > 1e-12 * max(float(squares.max(initial=0)), 1e-300)]
    return float(np.median(distance)) if len(distance) else 1.0


def nystroem_map(kernel: Kernel, landmarks: Any) -> Array:
    """R such that inner products of the features K(x, landmarks) R approximate the kernel.

    In double precision, so that the smallest eigenvalues are no rounding errors.
    """
    xp = namespace(landmarks)
    exact = landmarks.astype(np.float64) if xp is np else xp.astype(landmarks, xp.float64)
    eigenvalues, V = gram_spectrum(kernel(exact, exact), 1e-8)
    R = V / eigenvalues**0.5
    return np.ascontiguousarray(R) if xp is np else R


def _squares(A: Any) -> Array:
    if sp.issparse(A):
        return np.asarray(A.multiply(A).sum(axis=1)).ravel()
    if not isinstance(A, np.ndarray):
        return namespace(A).sum(A * A, axis=1)
    return np.einsum("ij,ij->i", A, A)
