"""Kernels, and the row space of a kernel matrix with an intercept."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from schirn.linalg import RowSpace

Array = np.ndarray

_DISTANCE_SAMPLE = 1000
_EIGENVALUE_FLOOR = 1e-10


class Kernel(NamedTuple):
    """The inner product ("linear"), or exp(-||a - b||^2 / width) ("rbf")."""

    name: str
    width: float = 1.0

    def __call__(self, A: Any, B: Any) -> Array:
        """The kernel between the rows of A and the rows of B, dense."""
        products = A @ B.T
        products = products.toarray() if sp.issparse(products) else products
        if self.name == "linear":
            return products
        distance = _squares(A)[:, None] + _squares(B) - 2 * products
        np.maximum(distance, 0, out=distance)
        distance /= -self.width
        return np.exp(distance, out=distance)


def median_width(Z: Any, rng: np.random.RandomState) -> float:
    """The median squared distance of rows (of a sample), a width that fits any scale."""
    n = Z.shape[0]
    sample = Z[np.sort(rng.choice(n, min(n, _DISTANCE_SAMPLE), replace=False))]
    products = sample @ sample.T
    products = products.toarray() if sp.issparse(products) else products
    squares = _squares(sample)
    distance = (squares[:, None] + squares - 2 * products)[np.triu_indices(len(squares), 1)]
    distance = distance[distance > 1e-12 * max(float(squares.max(initial=0)), 1e-300)]
    return float(np.median(distance)) if len(distance) else 1.0


@dataclass(frozen=True, eq=False)
class KernelSpace(RowSpace):
    """The row space of the feature map of a kernel, centred, with its intercept column."""

    centre: Array
    """Mean of each column of the kernel matrix."""

    def transform(self, X: Array) -> Array:
        """Rows of F for the kernel between new rows and the training rows."""
        # The columns of U sum to zero, so constants added to a row of the kernel cancel.
        F = (X - self.centre) @ self._dual()
        return np.column_stack([F, np.ones(len(F), dtype=F.dtype)])

    def coefficients(self, w: Array) -> tuple[Array, Array]:
        """Weights A of the training rows and intercepts b: scores are kernel A + b."""
        A = self._dual() @ w[:-1]
        return A, w[-1] - self.centre @ A

    def _dual(self) -> Array:
        return self.basis / np.sqrt(self.eigenvalues[:-1])


def kernel_space(K: Array) -> KernelSpace:
    """Factor a kernel matrix.

    Examples
    --------
    >>> Z = np.array([[0.0], [1.0], [3.0]])
    >>> space = kernel_space(Kernel("linear")(Z, Z))
    >>> w = space.ridge(space.project(np.array([[1.0], [2.0], [4.0]])), 1e-9)
    >>> A, b = space.coefficients(w)
    >>> (Kernel("linear")(np.array([[2.0]]), Z) @ A + b).round(3)
    array([[3.]])
    """
    n, centre = len(K), K.mean(axis=0)
    centred = K - centre - centre[:, None] + centre.mean()
    eigenvalues, U = np.linalg.eigh(centred)
    keep = eigenvalues > max(eigenvalues[-1], 1e-300) * _EIGENVALUE_FLOOR
    eigenvalues, U = eigenvalues[keep], np.ascontiguousarray(U[:, keep])
    F = np.column_stack([U * np.sqrt(eigenvalues), np.ones(n, dtype=K.dtype)])
    penalty = np.append(np.ones_like(eigenvalues), K.dtype.type(0))
    with_ones = np.append(eigenvalues, K.dtype.type(n))
    return KernelSpace(F, with_ones, penalty, np.zeros(0), "kernel", U, F, centre)


def nystroem_map(kernel: Kernel, landmarks: Any) -> Array:
    """R with K(x, landmarks) R as features whose inner products approximate the kernel."""
    eigenvalues, V = np.linalg.eigh(kernel(landmarks, landmarks))
    keep = eigenvalues > max(eigenvalues[-1], 1e-300) * 1e-8
    return np.ascontiguousarray(V[:, keep] / np.sqrt(eigenvalues[keep]))


def _squares(A: Any) -> Array:
    if sp.issparse(A):
        return np.asarray(A.multiply(A).sum(axis=1)).ravel()
    return np.einsum("ij,ij->i", A, A)
