"""Proximal steps and projections of the compared methods."""

import numpy as np

from schirn._input import Array
from schirn.linalg.prox import right_singular_vectors, shift_singular_values


def soft_threshold(A: Array, t: float | Array) -> Array:
    """Minimise 1/2 ||B - A||^2 + t ||B||_1 over B, entry by entry.

    >>> soft_threshold(np.array([-3.0, 0.5, 2.0]), 1.0)
    array([-2.,  0.,  1.])
    """
    return np.sign(A) * np.maximum(np.abs(A) - t, 0)


def singular_value_threshold(A: Array, t: float) -> Array:
    """Minimise 1/2 ||B - A||_F^2 + t ||B||_* over B.

    >>> singular_value_threshold(np.diag([3.0, 1.0]), 2.0)
    array([[1., 0.],
           [0., 0.]])
    """
    return shrink_singular_values(A, t)[0]


def shrink_singular_values(A: Array, t: float) -> tuple[Array, float]:
    """As `singular_value_threshold`, through the smaller Gram matrix; also returns ||B||_*."""
    if A.shape[0] < A.shape[1]:
        left, values = shift_singular_values(A.T, t, "low")
        B = left.T @ A
    else:
        right, values = shift_singular_values(A, t, "low")
        B = A @ right
    return B, float(np.sum(values, dtype=np.float64))


def polar_factor(A: Array) -> Array:
    """U V' of A = U S V': the matrix with orthonormal rows or columns that is nearest to A.

    Null directions of A, for which the nearest matrix is not unique, stay zero.

    >>> polar_factor(np.array([[3.0, 0.0], [0.0, 0.0], [0.0, 2.0]]))
    array([[1., 0.],
           [0., 0.],
           [0., 1.]])
    """
    if A.shape[0] < A.shape[1]:
        return polar_factor(A.T).T
    s, V = right_singular_vectors(A)
    inverse = np.divide(1, s, out=np.zeros_like(s), where=s > 0)
    return A @ ((V * inverse) @ V.T)


def project_simplex(A: Array) -> Array:
    """The nearest matrix whose rows are non-negative with sum one.

    >>> project_simplex(np.array([[0.5, 0.75, -1.0], [3.0, 0.0, 0.0]]))
    array([[0.375, 0.625, 0.   ],
           [1.   , 0.   , 0.   ]])
    """
    falling = -np.sort(-A, axis=1)
    excess = np.cumsum(falling, axis=1) - 1
    count = np.count_nonzero(falling * np.arange(1, A.shape[1] + 1) > excess, axis=1)
    # In single precision, 1 vanishes beside a huge entry, and nothing would exceed the cut.
    count = np.maximum(count, 1)[:, None]
    cut = np.take_along_axis(excess, count - 1, axis=1) / count
    return np.maximum(A - cut.astype(A.dtype), 0)
