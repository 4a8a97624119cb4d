"""A large square matrix split at the singular value one, through its Gram matrix."""

from typing import NamedTuple

import numpy as np
from scipy.sparse.linalg import ArpackError, LinearOperator, eigsh

Array = np.ndarray

# A top singular value estimated below this is taken to be below one.
_SURELY_INSIDE = 0.98


class Split(NamedTuple):
    """U (S - 1)_+ V' of A = U S V', the sum of (S - 1)_+, and the rank."""

    outer: Array
    excess: float
    rank: int


def split_at_one(A: Array, *, expect_all_inside: bool = False) -> Split:
    """Write A as its projection on the ball of spectral norm one plus the rest.

    A is overwritten with the projection U min(S, 1) V'; the rest is the prox of the nuclear norm.
    Only singular values above one are used, and those a Gram matrix resolves well whatever the
    small ones are.

    Parameters
    ----------
    expect_all_inside : look for the top singular value alone before the full decomposition.

    Examples
    --------
    >>> A = np.diag([3.0, 0.5])
    >>> split_at_one(A).outer
    array([[2., 0.],
           [0., 0.]])
    >>> A
    array([[1. , 0. ],
           [0. , 0.5]])
    """
    if np.linalg.norm(A) <= 1 or (expect_all_inside and _surely_inside(A)):
        return Split(np.zeros_like(A), 0.0, 0)
    squares, V = np.linalg.eigh(A.T @ A)
    first = int(np.searchsorted(squares, 1.0, side="right"))
    roots, V = np.sqrt(squares[first:]), V[:, first:]
    outer = ((A @ V) * (1 - 1 / roots)) @ V.T
    A -= outer
    return Split(outer, float(np.sum(roots - 1)), len(roots))


def _surely_inside(A: Array) -> bool:
    """Whether the top singular value, by Lanczos steps, is clearly below one."""
    n = len(A)
    if n < 32:
        return False
    gram = LinearOperator((n, n), matvec=lambda v: A.T @ (A @ v), dtype=A.dtype)
    start = np.random.default_rng(0).normal(size=n)
    try:
        top = eigsh(gram, k=1, tol=1e-3, v0=start, return_eigenvectors=False)[0]
    except ArpackError:
        return False
    return bool(top < _SURELY_INSIDE**2)
