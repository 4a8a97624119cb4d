"""Proximal steps and thresholding rules on arrays."""

from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import numpy as np
from scipy.linalg import svd

from schirn._input import Array
from schirn.linalg.arrays import namespace

RankTerm = Literal["high", "low", "none"]
NoiseRule = Literal["exact", "printed"]

# Below these ratios of squared singular values a direction of a Gram matrix is rounding noise, or
# resolved so coarsely that an SVD takes over.
_GRAM_ZERO = 1e-13
_GRAM_COARSE = 1e-10


class SingularMap(NamedTuple):
    """The matrix `right` with `G @ right` = U f(S) V' for G = U S V', and f(S) itself."""

    right: Array
    values: Array


def soft_threshold(A: Array, t: float | Array) -> Array:
    """Minimise 1/2 ||B - A||^2 + t ||B||_1 over B, entry by entry.

    >>> soft_threshold(np.array([-3.0, 0.5, 2.0]), 1.0)
    array([-2.,  0.,  1.])
    """
    return np.sign(A) * np.maximum(np.abs(A) - t, 0)


def noise_threshold(alpha: float, rule: NoiseRule) -> float:
    """Value of C below which a candidate is noise.

    The noise step minimises (N - M)^2 + alpha |N| with M = Y - C. Over the binary values this
    gives N = 1 if M > (1 + alpha)/2 ("exact"). Shrinking first and taking the sign, as printed in
    the paper, gives M > alpha/2 ("printed"). On candidates M = 1 - C.

    >>> noise_threshold(0.5, "exact"), noise_threshold(0.5, "printed")
    (0.25, 0.75)
    """
    return (1 - alpha) / 2 if rule == "exact" else 1 - alpha / 2


def shift_singular_values(G: Array, tau: float, term: RankTerm) -> SingularMap:
    """Raise ("high") or shrink ("low") the singular values of G by tau, without its U.

    With G'G = V S^2 V' the result is G V f(S)/S V': an l x l eigenproblem instead of an SVD.
    Null directions of G stay untouched.
    """
    s, V = _right_singular(G)
    if term == "high":
        return _spectral_map(s, V, lambda s: s + tau)
    return _spectral_map(s, V, lambda s: np.maximum(s - tau, 0))


def shift_by_gram(
    gram: Any, tau: float, term: RankTerm, *, floor: float = 0.0, strict: bool = True
) -> Any:
    """As `shift_singular_values`, from G'G alone, in any array library.

    Parameters
    ----------
    gram : (l, l) array
        G'G, preferably in double precision.
    tau : float
    term : {"high", "low"}
    floor : float
        Rounding error of the Gram matrix; smaller eigenvalues count as zero.
    strict : bool
        Return None if the Gram matrix resolves some direction worse than to 1e-5; otherwise use
        it as it is.
    """
    xp = namespace(gram)
    squared, V = xp.linalg.eigh(gram)
    top = float(squared[-1])
    zero, coarse = (top * ratio for ratio in _resolution(gram.dtype))
    zero, coarse = max(zero, floor), max(coarse, 10 * floor)
    if strict and bool(xp.any((squared > zero) & (squared < coarse))):
        return None
    s = xp.sqrt(xp.where(squared > zero, squared, 0 * squared))
    if term == "high":
        return _spectral_map(s, V, lambda s: s + tau)
    return _spectral_map(s, V, lambda s: (s - tau) * (s > tau))


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
    s, V = _right_singular(A)
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
    # In single precision a huge entry hides the one, and nothing would be above the cut.
    count = np.maximum(count, 1)[:, None]
    cut = np.take_along_axis(excess, count - 1, axis=1) / count
    return np.maximum(A - cut.astype(A.dtype), 0)


def _spectral_map(s: Any, V: Any, f: Callable[[Any], Any]) -> SingularMap:
    xp = namespace(s)
    known = s > 0
    values = xp.where(known, f(s), 0 * s)
    ratio = xp.where(known, values / xp.where(known, s, 1 + 0 * s), 1 + 0 * s)
    return SingularMap((V * ratio) @ V.T, values)


def _right_singular(G: Array) -> tuple[Array, Array]:
    """Singular values (0 if not resolved) and right singular vectors of G."""
    squared, V = np.linalg.eigh(G.T @ G)
    top = squared[-1] if squared.size else 0.0
    zero, coarse = (top * ratio for ratio in _resolution(G.dtype))
    if np.any((squared > zero) & (squared < coarse)):
        _, s, Vt = svd(G, full_matrices=False, lapack_driver="gesdd", check_finite=False)
        V, s = Vt.T, np.where(s > s[0] * max(G.shape) * np.finfo(G.dtype).eps, s, 0)
        return s, V
    return np.sqrt(np.where(squared > zero, squared, 0)), V


def _resolution(dtype: Any) -> tuple[float, float]:
    """Ratios to the largest squared singular value: rounding noise, and too coarse."""
    floor = 1.0 if str(dtype).endswith("float64") else 2.0**29
    return min(_GRAM_ZERO * floor, 1e-6), min(_GRAM_COARSE * floor, 1e-5)
