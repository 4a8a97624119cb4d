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
    kept = np.unique(row[~removed])
    order = np.lexsort((confidence, certain >= 0, row))
    last = order[np.r_[row[order][1:] != row[order][:-1], True]]
    rescued = last[~np.isin(row[last], kept) & (certain[last] >= 0)]
    removed = removed.copy()
    removed[rescued] = False
    return removed
