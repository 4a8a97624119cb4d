"""Proximal steps of Schirn: the rank term, and the rule that declares a candidate noise."""

from typing import Any, Literal, NamedTuple

import numpy as np
from scipy.linalg import svd

from schirn._input import Array
from schirn.linalg.arrays import namespace

RankTerm = Literal["high", "low", "none"]
NoiseRule = Literal["exact", "printed"]

# Ratios of squared singular values below which a direction of a Gram matrix is rounding noise, or
# so inaccurate that an SVD is needed.
_GRAM_ZERO = 1e-13
_GRAM_COARSE = 1e-10


class SingularMap(NamedTuple):
    """The matrix `right` with `G @ right` = U f(S) V' for G = U S V', and f(S) itself."""

    right: Array
    values: Array


def noise_threshold(alpha: float, rule: NoiseRule) -> float:
    """Return the value of C below which a candidate is noise.

    The noise step minimises (N - M)^2 + alpha |N| with M = Y - C. Over the binary values this
    gives N = 1 if M > (1 + alpha)/2 ("exact"). Shrinking first and taking the sign, as printed in
    the paper, gives M > alpha/2 ("printed"). On candidates M = 1 - C.

    Parameters
    ----------
    alpha : float
        Penalty for declaring a candidate noise.
    rule : {"exact", "printed"}

    Returns
    -------
    float

    Examples
    --------
    >>> noise_threshold(0.5, "exact"), noise_threshold(0.5, "printed")
    (0.25, 0.75)
    """
    return (1 - alpha) / 2 if rule == "exact" else 1 - alpha / 2


def shift_singular_values(G: Array, tau: float, term: RankTerm) -> SingularMap:
    """Raise ("high") or shrink ("low") the singular values of G by tau, without computing U.

    With G'G = V S^2 V', the result is G V f(S)/S V', which takes an l x l eigenproblem instead of
    an SVD. Null directions of G are unchanged.

    Parameters
    ----------
    G : (n, l) ndarray
    tau : float
        The shift, at least 0.
    term : {"high", "low"}

    Returns
    -------
    SingularMap
    """
    return _shifted(*right_singular_vectors(G), tau, term)


def shift_by_gram(
    gram: Any, tau: float, term: RankTerm, *, floor: float = 0.0, strict: bool = True
) -> Any:
    """Like `shift_singular_values`, but given only G'G, in any array library.

    Parameters
    ----------
    gram : (l, l) array
        G'G, preferably in double precision.
    tau : float
    term : {"high", "low"}
    floor : float
        Rounding error of the Gram matrix; smaller eigenvalues count as zero.
    strict : bool
        If True, return None if the Gram matrix resolves some direction worse than to 1e-5. If
        False, use it regardless.
    """
    xp = namespace(gram)
    squared, V = xp.linalg.eigh(gram)
    top = float(squared[-1])
    zero_ratio, coarse_ratio = _resolution(gram.dtype)
    zero = max(top * zero_ratio, floor)
    coarse = max(top * coarse_ratio, 10 * floor)
    if strict and bool(xp.any((squared > zero) & (squared < coarse))):
        return None
    s = xp.sqrt(xp.where(squared > zero, squared, 0 * squared))
    return _shifted(s, V, tau, term)


def _shifted(s: Any, V: Any, tau: float, term: RankTerm) -> SingularMap:
    xp = namespace(s)
    is_resolved = s > 0
    zeros = 0 * s
    ones = 1 + zeros
    shifted = s + tau if term == "high" else (s - tau) * (s > tau)
    values = xp.where(is_resolved, shifted, zeros)
    # Null directions are multiplied by 1.
    ratio = xp.where(is_resolved, values / xp.where(is_resolved, s, ones), ones)
    return SingularMap((V * ratio) @ V.T, values)


def right_singular_vectors(G: Array) -> tuple[Array, Array]:
    """Return the singular values (0 if not resolved) and right singular vectors of G.

    Parameters
    ----------
    G : (n, l) ndarray

    Returns
    -------
    s : (r,) ndarray
        Singular values, in any order.
    V : (l, r) ndarray
    """
    squared, V = np.linalg.eigh(G.T @ G)
    zero_ratio, coarse_ratio = _resolution(G.dtype)
    top = squared[-1] if squared.size else 0.0
    # The eigenvalues are in ascending order.
    n_null = int(np.searchsorted(squared, top * zero_ratio, side="right"))
    if n_null < len(squared) and squared[n_null] < top * coarse_ratio:
        _, s, Vt = svd(G, full_matrices=False, lapack_driver="gesdd", check_finite=False)
        floor = s[0] * max(G.shape) * np.finfo(G.dtype).eps
        return np.where(s > floor, s, 0), Vt.T
    # Rounding may make eigenvalues negative.
    s = np.sqrt(np.maximum(squared, 0))
    s[:n_null] = 0
    return s, V


def _resolution(dtype: Any) -> tuple[float, float]:
    """Ratios to the largest squared singular value that are rounding noise, and too inaccurate."""
    floor = 1.0 if str(dtype).endswith("float64") else 2.0**29
    return min(_GRAM_ZERO * floor, 1e-6), min(_GRAM_COARSE * floor, 1e-5)
