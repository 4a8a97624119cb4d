"""Exact elimination: shrink a sparse 0/1 matrix, then eliminate the rest modulo a prime."""

import heapq
import math

import numpy as np
from scipy import sparse

from schirn._input import Array

# Operations of the dense elimination that take as long as one update of a sparse row.
UPDATE_COST = 6_000
# Bytes of an entry in the sparse elimination: a dict item, a set item and a place in the queue.
ENTRY_BYTES = 200
# Maximum number of updates of the sparse elimination: about twenty seconds.
MAX_UPDATES = 20_000_000
# For primes below 2**23, sums of up to 256 products of numbers below p / 2 are exact in float64.
PRIME_BITS = 23
_PANEL = 128
_STRIP = 512
# 2**-64 bounds the probability that random combinations lose rank unnoticed.
LOSS_BITS = 64
_SMALL = 2**19


def remove_singletons(Y: sparse.csr_array) -> tuple[int, sparse.csr_array]:
    """Remove singletons, empty lines and duplicates until none remain.

    A row with a single entry is a pivot: removing its column lowers the rank by one. The same holds
    with rows and columns exchanged. Returns the number of pivots and the remaining matrix.
    """
    pivots = 0
    shape = None
    while Y.shape != shape:
        shape = Y.shape
        for _ in range(2):
            columns = _single_columns(Y)
            pivots += len(columns)
            Y = Y[:, np.setdiff1d(np.arange(Y.shape[1]), columns)]
            Y = Y[np.diff(Y.indptr) > 0].T.tocsr()
        for _ in range(2):
            Y = _distinct_rows(Y).T.tocsr()
    return pivots, Y


def _single_columns(Y: sparse.csr_array) -> Array:
    """Return the columns that become the only one of a row as others of them are removed."""
    by_column = Y.tocsc()
    length = np.diff(Y.indptr).astype(np.int64)
    # The sum of the column numbers of a row is its column once only one is left.
    total = np.add.reduceat(np.append(Y.indices, 0).astype(np.int64), Y.indptr[:-1])
    removed = [np.empty(0, dtype=np.int64)]
    single = np.flatnonzero(length == 1)
    while len(single):
        columns = np.unique(total[single])
        removed.append(columns)
        entries = by_column[:, columns]
        np.subtract.at(length, entries.indices, 1)
        np.subtract.at(total, entries.indices, np.repeat(columns, np.diff(entries.indptr)))
        single = np.unique(entries.indices[length[entries.indices] == 1])
    return np.concatenate(removed)


def _distinct_rows(Y: sparse.csr_array) -> sparse.csr_array:
    """Return the first of every group of equal rows."""
    Y.sort_indices()
    ends = Y.indptr.tolist()
    first: dict[bytes, int] = {}
    for i in range(Y.shape[0]):
        first.setdefault(Y.indices[ends[i] : ends[i + 1]].tobytes(), i)
    return Y[list(first.values())]


def eliminate_sparse(Y: sparse.csr_array, *, max_bytes: int) -> tuple[int, sparse.csr_array]:
    """Eliminate with pivots 1 and -1 while that is cheaper than a dense elimination.

    The shortest row comes first, with its shortest column. The pivots keep all entries integer, so
    every step is exact. Returns the number of pivots and the remaining matrix.
    """
    if Y.nnz * ENTRY_BYTES > max_bytes:
        return 0, Y.astype(np.int64)
    rows = [dict.fromkeys(line, 1) for line in _lines(Y)]
    columns = [set(line) for line in _lines(Y.T.tocsr())]
    queue = [(len(row), i) for i, row in enumerate(rows)]
    heapq.heapify(queue)
    pivots = 0
    updates = 0
    entries = Y.nnz
    while queue and entries * ENTRY_BYTES <= max_bytes and updates < MAX_UPDATES:
        length, i = heapq.heappop(queue)
        if len(rows[i]) != length:
            continue
        units = [(len(columns[j]), j) for j, value in rows[i].items() if abs(value) == 1]
        height, j = min(units, default=(0, -1))
        # Beyond this, the dense elimination of one more column is cheaper.
        limit = (min(Y.shape) - pivots) ** 2 // UPDATE_COST
        if j < 0 or (length - 1) * (height - 1) > limit:
            continue
        pivots += 1
        updates += length * height
        pivot_row = rows[i]
        rows[i] = {}
        for k in pivot_row:
            columns[k].discard(i)
        entries -= length
        for changed in list(columns[j]):
            row = rows[changed]
            entries -= len(row)
            factor = row[j] * pivot_row[j]
            for k, value in pivot_row.items():
                row[k] = row.get(k, 0) - factor * value
                if row[k]:
                    columns[k].add(changed)
                else:
                    del row[k]
                    columns[k].discard(changed)
            entries += len(row)
            heapq.heappush(queue, (len(row), changed))
    try:
        return pivots, _as_sparse([row for row in rows if row])
    except OverflowError:
        return 0, Y.astype(np.int64)


def _lines(Y: sparse.csr_array) -> list[list[int]]:
    """Return the column numbers of every row."""
    return [line.tolist() for line in np.split(Y.indices, Y.indptr[1:-1])]


def _as_sparse(rows: list[dict[int, int]]) -> sparse.csr_array:
    """Return rows as a matrix without empty columns; OverflowError if an entry is too large."""
    values = np.array([value for row in rows for value in row.values()], dtype=np.int64)
    names, columns = np.unique([j for row in rows for j in row], return_inverse=True)
    ends = np.cumsum([0, *map(len, rows)])
    return sparse.csr_array((values, columns, ends), shape=(len(rows), len(names)))


def is_combined(shape: tuple[int, int]) -> bool:
    """Return True if `rank_mod` replaces the longer side by random combinations of its lines."""
    k, m = sorted(shape)
    return m > k + 2 * LOSS_BITS and m * k > _SMALL


def dense_bytes(shape: tuple[int, int]) -> int:
    """Memory of `rank_mod`: the dense matrix, panels and strips of rows."""
    k, m = sorted(shape)
    rows = k + 2 * LOSS_BITS if is_combined(shape) else m
    return 8 * (rows * k + 4 * min(_PANEL, k) * (rows + k) + 3 * min(_STRIP, rows) * k)


def rank_mod(matrix: sparse.csr_array, p: int, rng: np.random.Generator) -> int:
    """Return the rank of an integer matrix modulo the prime p.

    A side that is much longer than the other is replaced by sparse random combinations of its
    lines. Dense combinations below them take no pivot unless rank was lost; they miss a loss with a
    probability below 2**-64.
    """
    tall = matrix if matrix.shape[0] >= matrix.shape[1] else matrix.T.tocsr()
    tall = sparse.csr_array((tall.data % p, tall.indices, tall.indptr), shape=tall.shape)
    if not is_combined(tall.shape):
        return len(_pivot_rows(tall.toarray().astype(np.float64), p))
    times = 3
    while True:
        combinations, checks = _combine(tall, times, p, rng)
        pivot_rows = _pivot_rows(combinations, p)
        if max(pivot_rows, default=0) < len(combinations) - checks:
            return len(pivot_rows)
        times *= 4


def _combine(
    tall: sparse.csr_array, times: int, p: int, rng: np.random.Generator
) -> tuple[Array, int]:
    """Return combinations in which each row enters equally often, and how many are dense."""
    m, k = tall.shape
    # Small weights keep the sums of long columns below 2**63.
    bound = min(p, 2**10)
    checks = math.ceil(LOSS_BITS / math.log2(bound))
    n_sparse = k + checks
    times = max(times, math.ceil(20 * n_sparse / m))
    places = (rng.integers(n_sparse, size=m * times), np.repeat(np.arange(m), times))
    weights = rng.integers(1, bound, size=m * times)
    mix = sparse.coo_array((weights, places), shape=(n_sparse, m)).tocsr()
    combinations = np.empty((n_sparse + checks, k))
    for top in range(0, n_sparse, _STRIP):
        strip = mix[top : min(top + _STRIP, n_sparse)] @ tall
        combinations[top : top + strip.shape[0]] = strip.toarray() % p
    combinations[n_sparse:] = (tall.T @ rng.integers(bound, size=(m, checks))).T % p
    return combinations, checks


def _pivot_rows(a: Array, p: int) -> list[int]:
    """Eliminate a dense matrix in place, panel by panel; return the rows of the pivots.

    Among the rows that can serve as a pivot, an upper one is preferred.
    """
    _centre(a, p)
    pivot_rows: list[int] = []
    for start in range(0, a.shape[1], _PANEL):
        panel = a[:, start : start + _PANEL]
        trailing = a[:, start + _PANEL :]
        rows, columns = _reduce(panel.copy(), p)
        pivot_rows += rows
        block = np.hstack([panel[np.ix_(rows, columns)], np.eye(len(rows))])
        order = _reduce(block, p)[0]
        weights = _centre(panel[:, columns] @ block[order, len(rows) :], p)
        # The rows of the pivots become zero here.
        basis = trailing[rows]
        for top in range(0, len(a), _STRIP):
            strip = trailing[top : top + _STRIP]
            strip[:] = _centre(strip - weights[top : top + _STRIP] @ basis, p)
    return pivot_rows


def _reduce(a: Array, p: int) -> tuple[list[int], list[int]]:
    """Reduce a dense matrix in place (Gauss and Jordan); return rows and columns of the pivots."""
    rows: list[int] = []
    columns: list[int] = []
    free = np.ones(len(a), dtype=bool)
    for j in range(a.shape[1]):
        candidates = np.flatnonzero((a[:, j] != 0) & free)
        if not len(candidates):
            continue
        i = int(candidates[0])
        pivot = _centre(a[i, j:] * pow(int(a[i, j]), -1, p), p)
        multiples = a[:, j].copy()
        multiples[i] = 0
        a[:, j:] -= np.multiply.outer(multiples, pivot)
        _centre(a[:, j:], p)
        a[i, j:] = pivot
        free[i] = False
        rows.append(i)
        columns.append(j)
    return rows, columns


def _centre(x: Array, p: int) -> Array:
    """Reduce integers below 2**53 to the range -p/2 to p/2 (or just beyond), in place.

    The quotient may be off by one if a number lies half-way; a multiple of p always becomes 0.
    """
    step = x * (1.0 / p)
    np.rint(step, out=step)
    step *= p
    x -= step
    return x
