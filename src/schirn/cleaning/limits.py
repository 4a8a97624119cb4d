"""Limits to what a row may lose."""

import numpy as np

Array = np.ndarray


def least_likely(row: Array, confidence: Array, removed: Array, most: int) -> Array:
    """Keep at most `most` removals per row, those with the lowest confidence."""
    order = np.lexsort((confidence, ~removed, row))
    first = np.searchsorted(row, row)
    rank = np.empty(len(row), dtype=int)
    rank[order] = np.arange(len(row))
    return removed & (rank - first < most)


def with_one_left(row: Array, confidence: Array, removed: Array, certain: Array) -> Array:
    """Keep the most likely tag of rows that would lose all, unless it is known to be wrong."""
    lost = np.ones(int(row.max(initial=-1)) + 1, dtype=bool)
    lost[row[~removed]] = False
    some = np.flatnonzero(lost[row])
    order = some[np.lexsort((confidence[some], certain[some] >= 0, row[some]))]
    last = order[np.append(row[order][1:] != row[order][:-1], True)[: len(order)]]
    removed = removed.copy()
    removed[last[certain[last] >= 0]] = False
    return removed
