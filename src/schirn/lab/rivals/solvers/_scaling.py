"""Scaling of features by their range, without densifying sparse ones.

After min-max scaling F = [X diag(a) + 1 c', 1] the zeros of X are no longer zero. For a sparse X
the shift c is kept apart: F is a sparse matrix plus one of rank one, and so is its Gram matrix.
"""

import warnings
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from schirn._input import Array
from schirn.linalg.row_space import DensifyWarning, RowSpace, row_space, space_of_gram


class Scaling(NamedTuple):
    """x -> x factor + shift, feature by feature."""

    factor: Array
    shift: Array

    def apply(self, X: "Array | sp.csr_array") -> "Array | sp.csr_array":
        """Scale the rows; a sparse X stays sparse and its shift must be zero."""
        if sp.issparse(X):
            return sp.csr_array(X * self.factor[None, :])
        return X * self.factor + self.shift

    def undo(self, W: Array) -> tuple[Array, Array]:
        """Return weights and intercepts for the raw features from the weights of [scaled, 1]."""
        return W[:-1] * self.factor[:, None], self.shift @ W[:-1] + W[-1]


def identity(X: "Array | sp.csr_array") -> Scaling:
    """Return the scaling that leaves the features unchanged."""
    d = X.shape[1]
    return Scaling(np.ones(d, dtype=X.dtype), np.zeros(d, dtype=X.dtype))


def minmax(X: "Array | sp.csr_array", low: float = -1.0, high: float = 1.0) -> Scaling:
    """Bring every feature to [low, high] by its smallest and largest value; a constant one to 0.

    >>> minmax(np.array([[0.0, 5.0], [4.0, 5.0]]))
    Scaling(factor=array([0.5, 0. ]), shift=array([-1.,  0.]))
    >>> minmax(np.array([[0.0, 5.0], [4.0, 5.0]]), 0, 1).apply(np.array([[3.0, 5.0]]))
    array([[0.75, 0.  ]])
    """
    least = X.min(axis=0)
    greatest = X.max(axis=0)
    if sp.issparse(X):
        least = least.toarray().ravel()
        greatest = greatest.toarray().ravel()
    span = greatest - least
    # The reciprocal of a tiny span overflows.
    varies = span > 2 * np.finfo(X.dtype).tiny
    factor = np.divide(high - low, span, out=np.zeros_like(span), where=varies)
    return Scaling(factor, np.where(varies, low - least * factor, 0).astype(X.dtype))


@dataclass(frozen=True, eq=False)
class BiasedSparse:
    """The matrix [Z + 1 shift', 1] for a sparse Z, as an operator."""

    Z: "sp.csr_array"
    shift: Array

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns, including the column of ones."""
        return self.Z.shape[0], self.Z.shape[1] + 1

    @property
    def dtype(self) -> np.dtype:
        """Floating type of the matrix."""
        return self.shift.dtype

    @property
    def T(self) -> "_Transposed":
        """The transpose, for products."""
        return _Transposed(self)

    def __matmul__(self, w: Array) -> Array:
        return self.Z @ w[:-1] + (self.shift @ w[:-1] + w[-1])

    def __getitem__(self, rows: slice) -> "BiasedSparse":
        return BiasedSparse(self.Z[rows], self.shift)

    def toarray(self) -> Array:
        """The dense matrix."""
        return with_ones(self.Z.toarray() + self.shift)

    def gram(self, how: str) -> Array:
        """F F' ("gram-rows") or F'F ("gram-columns")."""
        Z = self.Z
        c = self.shift
        if how == "gram-rows":
            cross = Z @ c
            K: Array = (Z @ Z.T).toarray()
            K += cross[:, None] + cross + (c @ c + 1)
            return K
        total = np.append(Z.sum(axis=0), Z.dtype.type(Z.shape[0]))
        shift = np.append(c, Z.dtype.type(0))
        K = sp.block_array([[Z.T @ Z, None], [None, sp.csr_array((1, 1))]]).toarray()
        K += np.outer(total, shift) + np.outer(shift, total) + np.outer(shift, shift) * len(self)
        K[-1, :-1] = K[:-1, -1] = total[:-1] + shift[:-1] * len(self)
        K[-1, -1] = len(self)
        return K

    def __len__(self) -> int:
        return self.Z.shape[0]


@dataclass(frozen=True, eq=False)
class _Transposed:
    F: BiasedSparse

    def __matmul__(self, B: Array) -> Array:
        total = B.sum(axis=0)
        return np.vstack([self.F.Z.T @ B + np.outer(self.F.shift, total), total])


def with_ones(X: "Array | sp.csr_array") -> "Array | sp.csr_array":
    """[X, 1] in the container of X."""
    ones = np.ones((X.shape[0], 1), dtype=X.dtype)
    return sp.csr_array(sp.hstack([X, ones])) if sp.issparse(X) else np.hstack([X, ones])


def biased_row_space(X: "Array | sp.csr_array", scaling: Scaling, *, ridge: float) -> RowSpace:
    """Factor [X scaled, 1]; the last column has a ridge like the others.

    Parameters
    ----------
    X : (n, d) array or CSR array
    scaling : Scaling
    ridge : float
        The smallest ridge weight that will be used, as in `row_space`.
    """
    if not sp.issparse(X):
        return row_space(with_ones(scaling.apply(X)), ridge=ridge)
    Z = sp.csr_array(X * scaling.factor[None, :])
    if not scaling.shift.any():
        return row_space(with_ones(Z), ridge=ridge)
    features = BiasedSparse(Z, scaling.shift)
    n, d = features.shape
    double = float(np.finfo(np.float64).eps)
    how = "gram-rows" if d > n else "gram-columns"
    # The shift makes one eigenvalue as large as all cells together, which single precision could
    # not tell apart from the ridge.
    K = BiasedSparse(Z.astype(np.float64), scaling.shift.astype(np.float64)).gram(how)
    if np.abs(K).sum(axis=0).max() * np.sqrt(double) > ridge:
        warnings.warn(
            f"a ridge weight of {ridge:g} is so small that the sparse X needs a dense SVD "
            f'({n * d * X.dtype.itemsize / 1e9:.2g} GB); raise lam or use scale="none"',
            DensifyWarning,
            stacklevel=3,
        )
        return row_space(features.toarray(), ridge=ridge)
    return space_of_gram(features, K, how, max(n, d) * double)
