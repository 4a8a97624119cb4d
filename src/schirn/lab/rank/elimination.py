"""Sparse elimination: shrink a 0/1 matrix by steps that lower its rank by a known number.

Every step is exact over the integers: nothing is rounded and no prime is involved.
"""

import heapq
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from scipy import sparse

Array = np.ndarray

# Operations of a dense elimination that take as long as one update of a sparse row.
UPDATE_COST = 6_000
# Bytes that the elimination holds per entry: a dict item, a set item and a heap entry.
ENTRY_BYTES = 200
# Updates after which the elimination stops in any case: about twenty seconds.
MAX_UPDATES = 20_000_000


class Remainder(NamedTuple):
    """A sparse integer matrix; `values` is an object array if int64 is too small."""

    indptr: Array
    indices: Array
    values: Array
    shape: tuple[int, int]

    def modulo(self, p: int) -> sparse.csr_array:
        """Return the matrix modulo p, with entries from 0 to p - 1."""
        values = (self.values % p).astype(np.int64)
        return sparse.csr_array((values, self.indices, self.indptr), shape=self.shape)


def remove_singletons(Y: sparse.csr_array) -> tuple[int, sparse.csr_array]:
    """Remove singletons, empty lines and duplicates until none is left.

    A row with a single entry is a pivot: removing its column lowers the rank by one. The same holds
    with rows and columns exchanged. Returns the number of pivots and the remaining matrix.
    """
    pivots = 0
    while True:
        found, Y = _remove_single_entries(Y)
        pivots += found
        fewer = _distinct_rows(_distinct_rows(Y).T.tocsr()).T.tocsr()
        if fewer.shape == Y.shape:
            return pivots, Y
        Y = fewer


def _remove_single_entries(Y: sparse.csr_array) -> tuple[int, sparse.csr_array]:
    """Remove rows with one entry until there is none, then columns.

    Removing a column changes only the lengths of rows, and vice versa, so one pass over each side
    is enough.
    """
    columns, rows_left = _pivot_columns(Y)
    Y = Y[rows_left][:, np.setdiff1d(np.arange(Y.shape[1]), columns)].T.tocsr()
    rows, columns_left = _pivot_columns(Y)
    Y = Y[columns_left][:, np.setdiff1d(np.arange(Y.shape[1]), rows)].T.tocsr()
    return len(columns) + len(rows), Y


def _pivot_columns(Y: sparse.csr_array) -> tuple[Array, Array]:
    """Return the columns removed by single entries of rows, and the rows that keep entries."""
    by_column = Y.tocsc()
    length = np.diff(Y.indptr).astype(np.int64)
    # The sum of the column numbers of a row is its column once only one is left.
    total = np.add.reduceat(np.append(Y.indices, 0).astype(np.int64), Y.indptr[:-1])
    taken: list[Array] = []
    fresh = np.flatnonzero(length == 1)
    while len(fresh):
        columns = np.unique(total[fresh])
        taken.append(columns)
        start, size = by_column.indptr[columns], np.diff(by_column.indptr)[columns]
        ends = np.cumsum(size)
        rows = by_column.indices[np.arange(ends[-1]) + np.repeat(start - ends + size, size)]
        np.subtract.at(length, rows, 1)
        np.subtract.at(total, rows, np.repeat(columns, size))
        fresh = np.unique(rows[length[rows] == 1])
    return np.concatenate([np.empty(0, np.int64), *taken]), np.flatnonzero(length)


def _distinct_rows(Y: sparse.csr_array) -> sparse.csr_array:
    """Return the first of every group of equal, non-empty rows."""
    Y.sort_indices()
    indices, ends = Y.indices, Y.indptr.tolist()
    first: dict[bytes, int] = {}
    for i in range(Y.shape[0]):
        if ends[i] < ends[i + 1]:
            first.setdefault(indices[ends[i] : ends[i + 1]].tobytes(), i)
    return Y if len(first) == Y.shape[0] else Y[list(first.values())]


def eliminate_sparse(Y: sparse.csr_array, *, max_bytes: int) -> tuple[int, Remainder]:
    """Eliminate with pivots 1 and -1 while that is cheaper than a dense elimination.

    The shortest row or column comes first; in it, the pivot whose other line is shortest. A pivot
    is skipped if its updates, (row - 1) × (column - 1), would take longer than the dense
    elimination of one more column. Returns the number of pivots and the remaining matrix.
    """
    most = max_bytes // ENTRY_BYTES
    if not 0 < Y.nnz <= most:
        return 0, Remainder(Y.indptr, Y.indices, np.ones(Y.nnz, dtype=np.int64), Y.shape)
    table = _Table(Y)
    pivots = 0
    while table.heap and table.entries <= most and table.updates < MAX_UPDATES:
        found = table.next_pivot()
        if found is not None:
            table.eliminate(*found)
            pivots += 1
    return pivots, table.remainder()


class _Table:
    """Rows as dicts, columns as sets of rows, and a heap of both by length."""

    def __init__(self, Y: sparse.csr_array) -> None:
        indices, ends = Y.indices.tolist(), Y.indptr.tolist()
        self.rows = {i: dict.fromkeys(indices[ends[i] : ends[i + 1]], 1) for i in range(Y.shape[0])}
        by_column = Y.tocsc()
        indices, ends = by_column.indices.tolist(), by_column.indptr.tolist()
        self.columns = {j: set(indices[ends[j] : ends[j + 1]]) for j in range(Y.shape[1])}
        self.updates, self.entries = 0, Y.nnz
        self.heap: list[tuple[int, int, int]] = []
        self._push(0, self.rows)
        self._push(1, self.columns)

    def next_pivot(self) -> tuple[int, int] | None:
        """Return the best pivot of the shortest line, or None if it has none."""
        length, side, at = heapq.heappop(self.heap)
        rows, columns = self.rows, self.columns
        line = columns.get(at, ()) if side else rows.get(at, ())
        if len(line) != length or not length:
            return None
        if side:
            ones = [(len(rows[i]), i) for i in line if abs(rows[i][at]) == 1]
        else:
            ones = [(len(columns[j]), j) for j, value in rows[at].items() if abs(value) == 1]
        if not ones:
            return None
        other, best = min(ones)
        worth = min(len(rows), len(columns)) ** 2 // UPDATE_COST
        if (length - 1) * (other - 1) > worth:
            return None
        return (best, at) if side else (at, best)

    def eliminate(self, i: int, j: int) -> None:
        """Subtract row i from all rows with an entry in column j; remove both."""
        rows, columns = self.rows, self.columns
        pivot_row = rows.pop(i)
        sign = pivot_row.pop(j)
        changed = columns.pop(j)
        changed.discard(i)
        for k in pivot_row:
            columns[k].discard(i)
        self.updates += (len(pivot_row) + 1) * (len(changed) + 1)
        self.entries -= len(pivot_row) + 1
        for other in changed:
            row = rows[other]
            self.entries -= len(row)
            factor = sign * row.pop(j)
            for k, value in pivot_row.items():
                new = row.get(k, 0) - factor * value
                if new:
                    row[k] = new
                    columns[k].add(other)
                else:
                    del row[k]
                    columns[k].discard(other)
            self.entries += len(row)
            if not row:
                del rows[other]
        for k in [k for k in pivot_row if not columns[k]]:
            del columns[k]
        self._push(0, changed)
        self._push(1, pivot_row)

    def _push(self, side: int, lines: Iterable[int]) -> None:
        """Record the lengths of new or changed lines."""
        table = self.columns if side else self.rows
        for at in lines:
            if at in table:
                heapq.heappush(self.heap, (len(table[at]), side, at))

    def remainder(self) -> Remainder:
        """Return the remaining matrix, lines renumbered."""
        number = {j: new for new, j in enumerate(self.columns)}
        rows = list(self.rows.values())
        indptr = np.cumsum([0, *map(len, rows)])
        indices = np.fromiter((number[j] for row in rows for j in row), np.int64, int(indptr[-1]))
        exact = [value for row in rows for value in row.values()]
        small = all(-(2**62) < value < 2**62 for value in exact)
        values = np.array(exact, dtype=np.int64 if small else object)
        return Remainder(indptr, indices, values, (len(rows), len(number)))
