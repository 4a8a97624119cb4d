"""Exact rank of large sparse 0/1 matrices: sparse elimination, then primes."""

import functools
import math
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from schirn._input import Array
from schirn.exceptions import InputError
from schirn.lab.rank._elimination import (
    LOSS_BITS,
    PRIME_BITS,
    dense_bytes,
    eliminate_sparse,
    is_combined,
    rank_mod,
    remove_singletons,
)
from schirn.labels.matrix import as_binary

MAX_BYTES = 2**31
ENOUGH = 1e-6
MAX_PRIMES = 5


class RankReport(NamedTuple):
    """The rank of a matrix and how it was found.

    Attributes
    ----------
    rank : int
    proven : bool
        Whether the rank is certain. If not, it is a lower bound.
    risk : float
        Upper bound on the probability that the true rank is larger.
    singletons : int
        Pivots that were the only entry of a row or a column.
    eliminated : int
        Pivots of the sparse elimination.
    remainder : tuple of int
        Shape of the matrix left for the dense elimination.
    primes : tuple of int
        The primes of the dense elimination.
    """

    rank: int
    proven: bool
    risk: float
    singletons: int
    eliminated: int
    remainder: tuple[int, int]
    primes: tuple[int, ...]


def exact_rank(Y: Any, *, max_bytes: int = MAX_BYTES, random_state: int | None = 0) -> int:
    """Return the rank of a 0/1 matrix over the rational numbers.

    Parameters
    ----------
    Y : 0/1 or bool array (n, l) or scipy sparse matrix
        A sparse matrix is never made dense as a whole.
    max_bytes : int
        Memory limit of each of the two eliminations; removing singletons takes a few times the
        memory of Y.
    random_state : int or None
        Seed of the primes and of the random combinations.

    Returns
    -------
    int

    Raises
    ------
    InputError
        If Y is not a 0/1 matrix, or if the dense elimination needs more than `max_bytes`; the
        message states how much.

    Notes
    -----
    Rows and columns with a single entry are pivots. They are removed repeatedly, as are duplicates
    and empty lines. Elimination with pivots 1 and -1 follows while it is cheap. Both stages are
    exact. The remainder is eliminated modulo a random prime between 2**22 and 2**23, as a dense
    square matrix of the size of its shorter side.

    The rank modulo a prime is never larger than the rank. It is smaller only for primes that
    divide every largest non-zero minor of the remainder. By Hadamard's bound on such a minor these
    are few among the 268,216 primes, so two to five primes are drawn, until the probability that
    all of them are among those few is below 1e-6. The result is proven if nothing remains, if the
    remainder has full rank, or if the bound rules such primes out; otherwise it is a lower bound.
    `rank_report` states which.

    Examples
    --------
    >>> from schirn.lab.rank._exact import exact_rank
    >>> exact_rank([[1, 1, 0], [0, 1, 1], [1, 0, 1]])
    3
    """
    return rank_report(Y, max_bytes=max_bytes, random_state=random_state).rank


def rank_report(Y: Any, *, max_bytes: int = MAX_BYTES, random_state: int | None = 0) -> RankReport:
    """Return the rank of a 0/1 matrix and how it was found.

    Parameters and method are the same as in `exact_rank`.

    Parameters
    ----------
    Y : 0/1 or bool array (n, l) or scipy sparse matrix
    max_bytes : int
        Memory limit of each of the two eliminations.
    random_state : int or None, default=0
        Seed of the random primes.

    Returns
    -------
    RankReport

    Examples
    --------
    >>> from schirn.lab.rank._exact import rank_report
    >>> report = rank_report([[1, 0, 0], [1, 1, 1], [0, 1, 1]])
    >>> report.rank, report.singletons, report.proven
    (2, 2, True)
    """
    if np.ndim(Y) != 2:
        raise InputError(f"the rank needs a matrix with rows and columns, got shape {np.shape(Y)}")
    matrix = sparse.csr_array(as_binary(Y, "the matrix")).astype(np.int8)
    singletons, core = remove_singletons(matrix)
    eliminated, remainder = eliminate_sparse(core, max_bytes=max_bytes)
    known = singletons + eliminated
    if not min(remainder.shape):
        return RankReport(known, True, 0.0, singletons, eliminated, remainder.shape, ())
    _check_memory(max_bytes, remainder.shape)
    rng = np.random.default_rng(random_state)
    # Few of the primes can divide every largest non-zero minor, because their product is bounded.
    bits = _minor_bits(core)
    large = primes_below(2**PRIME_BITS)
    large = large[large > 2 ** (PRIME_BITS - 1)]
    primes = rng.choice(large, MAX_PRIMES, replace=False).tolist()
    share = min(1.0, bits // (PRIME_BITS - 1) / len(large))
    rank = 0
    risk = 1.0
    full = min(remainder.shape)
    used: list[int] = []
    for p in primes:
        rank = max(rank, rank_mod(remainder, p, rng))
        used.append(p)
        risk = share ** len(used)
        if rank == full or risk == 0 or (len(used) > 1 and risk < ENOUGH):
            break
    if rank == full:
        risk = 0.0
    elif is_combined(remainder.shape):
        risk += 2.0**-LOSS_BITS
    return RankReport(
        known + rank, risk == 0, risk, singletons, eliminated, remainder.shape, tuple(used)
    )


@functools.cache
def primes_below(limit: int) -> Array:
    """Return all primes below a limit."""
    flags = np.arange(limit) > 1
    for i in range(2, math.isqrt(limit) + 1):
        if flags[i]:
            flags[i * i :: i] = False
    return np.flatnonzero(flags)


def _minor_bits(core: sparse.csr_array) -> float:
    """Return the binary logarithm of Hadamard's bound on every minor of a 0/1 matrix."""
    k = min(core.shape)
    lengths = (np.diff(core.indptr), np.bincount(core.indices, minlength=core.shape[1]))
    # The largest lengths bound the minors of any size, because no line is empty; the margin covers
    # rounding.
    return min(float(np.log2(np.sort(size)[-k:]).sum()) / 2 for size in lengths) + 1e-6


def _check_memory(max_bytes: int, shape: tuple[int, int]) -> None:
    """Raise InputError if the dense elimination of the remainder does not fit into memory."""
    needed = dense_bytes(shape)
    if needed > max_bytes:
        raise InputError(
            f"the rank needs {needed / 1e9:.3g} GB for a dense remainder of {shape[0]} x "
            f"{shape[1]}, more than the {max_bytes / 1e9:.3g} GB allowed; raise max_bytes",
            parameter="max_bytes",
        )
