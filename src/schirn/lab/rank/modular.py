"""Rank of an integer matrix modulo a prime, by blocked elimination in double precision.

Numbers modulo p are kept between -p/2 and p/2. For p below 2**23 a sum of 256 products stays below
2**53, so matrix products in float64 are exact and BLAS does the work.
"""

import math

import numpy as np
from scipy import sparse

Array = np.ndarray

PRIME_BITS = 23
_INNER = 256
_STRIP = 512
_NARROW = 16
_SHORT = 32
_EXTRA = 16
_SMALL = 2**19


def is_prime(n: int) -> bool:
    """Return True if n, at most a few million, is prime."""
    if n < 4 or n % 2 == 0:
        return n in (2, 3)
    return bool((n % np.arange(3, math.isqrt(n) + 1, 2)).all())


def random_prime(rng: np.random.Generator) -> int:
    """Draw a prime between 2**22 and 2**23, all equally likely."""
    while True:
        n = int(rng.integers(2 ** (PRIME_BITS - 1), 2**PRIME_BITS))
        if is_prime(n):
            return n


def is_combined(shape: tuple[int, int]) -> bool:
    """Return True if `rank_mod` replaces the longer side by random combinations of its lines."""
    k, m = sorted(shape)
    return m > k + 2 * _EXTRA and m * k > _SMALL


def dense_bytes(shape: tuple[int, int]) -> int:
    """Memory of `rank_mod`: the dense matrix, one panel, strips of rows."""
    k, m = sorted(shape)
    rows = k + 2 * _EXTRA if is_combined(shape) else m
    return 8 * (rows * k + min(_INNER, k) * (rows + k) + 3 * min(_STRIP, rows) * k)


def rank_mod(matrix: sparse.csr_array, p: int, rng: np.random.Generator) -> int:
    """Return the rank of an integer matrix modulo the prime p.

    A side that is much longer than the other is replaced by sparse random combinations of its
    lines, and a few dense combinations check that no rank was lost. They miss a loss with a
    probability below 2**-64.
    """
    tall = _centred(matrix if matrix.shape[0] >= matrix.shape[1] else matrix.T.tocsr(), p)
    if not is_combined(tall.shape):
        return len(_echelon(tall.astype(np.float64).toarray(), p)[0])
    k, checks = tall.shape[1], math.ceil(64 / math.log2(p))
    dense = np.empty((k + _EXTRA + checks, k))
    _sparse_combinations(tall, dense[:-checks], p, rng)
    _dense_combinations(tall, dense[-checks:], p, rng)
    columns, rows = _echelon(dense, p)
    if (rows < len(dense) - checks).all():
        return len(columns)
    _dense_combinations(tall, dense, p, rng)
    return len(_echelon(dense, p)[0])


def _centred(matrix: sparse.csr_array, p: int) -> sparse.csr_array:
    """Return the matrix with its entries modulo p between -p/2 and p/2."""
    values = matrix.data.astype(np.int64) % p
    values -= p * (values > p // 2)
    return sparse.csr_array((values, matrix.indices, matrix.indptr), shape=matrix.shape)


def _sparse_combinations(
    tall: sparse.csr_array, out: Array, p: int, rng: np.random.Generator
) -> None:
    """Fill `out` with combinations of about twenty rows or more; every row enters three or more."""
    m, wide = tall.shape[0], len(out)
    times = max(3, math.ceil(20 * wide / m))
    positions = (rng.integers(wide, size=m * times), np.repeat(np.arange(m), times))
    # Small weights keep the sums of long columns far below 2**63.
    weights = rng.integers(1, 2**10, size=m * times)
    mix = sparse.coo_array((weights, positions), shape=(wide, m)).tocsr()
    for top in range(0, wide, _STRIP):
        strip = (mix[top : top + _STRIP] @ tall).toarray()
        out[top : top + _STRIP] = strip % p
    _centre(out, p)


def _dense_combinations(
    tall: sparse.csr_array, out: Array, p: int, rng: np.random.Generator
) -> None:
    """Fill `out` with uniformly random combinations of all rows."""
    half, width = p // 2, 64
    # Up to 2**18 products of numbers below 2**22 fit into 63 bits.
    blocks = [tall[at : at + 2**18].T.tocsr() for at in range(0, tall.shape[0], 2**18)]
    for top in range(0, len(out), width):
        rows = out[top : top + width]
        rows[:] = 0
        for block in blocks:
            weights = rng.integers(half + 1 - p, half + 1, size=(block.shape[1], len(rows)))
            rows += ((block @ weights) % p).T
    _centre(out, p)


def _centre(x: Array, p: int) -> Array:
    """Reduce integers below 2**53 to the range -p/2 to p/2 (or just beyond), in place.

    The quotient may be off by one if a number lies half-way; a multiple of p always becomes 0.
    """
    step = x * (1.0 / p)
    np.rint(step, out=step)
    step *= p
    x -= step
    return x


def _echelon(a: Array, p: int) -> tuple[Array, Array]:
    """Eliminate in place; return the pivot columns and the original indices of the pivot rows.

    Among the rows that can serve as a pivot, an upper one is preferred.
    """
    order = np.arange(len(a))
    columns: list[int] = []
    for left in range(0, a.shape[1], _INNER):
        right = min(left + _INNER, a.shape[1])
        found = _eliminate(a, order, len(columns), left, right, p)
        _update(a, len(columns), found, right, a.shape[1], p)
        columns += found
    return np.array(columns, dtype=np.int64), order[: len(columns)]


def _eliminate(a: Array, order: Array, top: int, left: int, right: int, p: int) -> list[int]:
    """Eliminate columns left:right of the rows from top on; return the pivot columns.

    The pivot rows move up to top; below the pivots, their columns keep the multipliers.
    """
    if right - left <= _NARROW:
        return _eliminate_narrow(a, order, top, left, right, p)
    middle = (left + right) // 2
    first = _eliminate(a, order, top, left, middle, p)
    _update(a, top, first, middle, right, p)
    return first + _eliminate(a, order, top + len(first), middle, right, p)


def _update(a: Array, top: int, pivots: list[int], left: int, right: int, p: int) -> None:
    """Apply the elimination of the pivot columns to columns left:right."""
    if not pivots or left >= right:
        return
    low = top + len(pivots)
    multipliers = a[top:, pivots]
    block = a[top:low, left:right].copy()
    _solve_unit_lower(multipliers[: len(pivots)], block, p)
    a[top:low, left:right] = block
    _subtract_product(a[low:, left:right], multipliers[len(pivots) :], block, p)


def _eliminate_narrow(a: Array, order: Array, top: int, left: int, right: int, p: int) -> list[int]:
    """Eliminate a few columns, one at a time."""
    pivots: list[int] = []
    panel = a[top:, left:right].copy()
    origin = np.arange(len(panel))
    for j in range(panel.shape[1]):
        row = len(pivots)
        found = np.flatnonzero(panel[row:, j])
        if not len(found):
            continue
        swap = [row, row + int(found[0])]
        panel[swap] = panel[swap[::-1]]
        origin[swap] = origin[swap[::-1]]
        below, pivot = panel[row + 1 :], panel[row]
        below[:, j] = _centre(below[:, j] * pow(int(pivot[j]), -1, p), p)
        rest = below[:, j + 1 :]
        rest -= np.multiply.outer(below[:, j], pivot[j + 1 :])
        _centre(rest, p)
        pivots.append(left + j)
    moved = np.flatnonzero(origin != np.arange(len(origin)))
    a[top + moved] = a[top + origin[moved]]
    order[top + moved] = order[top + origin[moved]]
    a[top:, left:right] = panel
    return pivots


def _subtract_product(c: Array, a: Array, b: Array, p: int) -> None:
    """Compute c -= a @ b modulo p, in place, in strips of rows; b has at most 256 rows."""
    for top in range(0, len(c), _STRIP):
        strip = c[top : top + _STRIP] - a[top : top + _STRIP] @ b
        c[top : top + _STRIP] = _centre(strip, p)


def _solve_unit_lower(lower: Array, block: Array, p: int) -> None:
    """Replace block by the solution of lower @ x = block; the diagonal of lower counts as 1."""
    k = len(lower)
    if k <= _SHORT:
        for i in range(1, k):
            block[i] = _centre(block[i] - lower[i, :i] @ block[:i], p)
        return
    half = k // 2
    _solve_unit_lower(lower[:half, :half], block[:half], p)
    _subtract_product(block[half:], lower[half:, :half], block[:half], p)
    _solve_unit_lower(lower[half:, half:], block[half:], p)
