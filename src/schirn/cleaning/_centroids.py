"""Scores for very many labels: a row is compared with the mean row of each label."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp

from schirn._input import Array
from schirn._progress import track
from schirn.linalg.arrays import BLOCK_CELLS, rows_per_block


def score_by_centroids(X: Any, Y: sp.csr_array, train: Array, rows: Array, labels: Array) -> Array:
    """Cosine between a row and the mean of its label, both without what all rows have in common.

    The score is (x'm - x'g) / |m - g| for a row x of length one, the mean m of the training rows
    that list the label and the mean g of all training rows; it is 0 if the two means are equal.

    Parameters
    ----------
    X : (n, d) array or CSR matrix
    Y : (n, l) CSR array
        Tags of the training rows, 1 each.
    train : (n,) bool array
        The training rows.
    rows, labels : int arrays
        The cells to score.
    """
    if sp.issparse(X):
        squares = np.asarray(X.multiply(X).sum(axis=1)).ravel()
    else:
        squares = np.einsum("ij,ij->i", X, X, dtype=np.float64)
    lengths = np.maximum(np.sqrt(squares), 1e-30)
    inverse = train / lengths
    # In the precision of X, which a product in another one would copy.
    dtype = np.result_type(X.dtype, np.float32)
    g = np.asarray(inverse.astype(dtype) @ X).ravel() / max(train.sum(), 1)
    # Each row that lists the label, divided by its length and by the number of such rows.
    weights = sp.csr_array(Y.T).astype(np.float32)
    counts = np.maximum(np.diff(weights.indptr), 1)
    weights.data = (inverse[weights.indices] / np.repeat(counts, np.diff(weights.indptr))).astype(
        np.float32
    )
    common = np.asarray(X @ g).ravel()
    order = np.argsort(labels, kind="stable")
    distinct, starts = np.unique(labels[order], return_index=True)
    ends = np.r_[starts[1:], len(order)]
    n_features = X.shape[1]
    sizes = np.diff(X.indptr) if sp.issparse(X) else np.full(X.shape[0], n_features)
    step = rows_per_block(n_features)
    scores = np.zeros(len(rows))
    buffer = np.zeros((min(step, len(distinct)), n_features), dtype=np.float32)
    for first in track(range(0, len(distinct), step), "block of labels"):
        block = distinct[first : first + step]
        M = weights[block] @ X
        if sp.issparse(M):
            # Only entries that are not zero are written, and cleared afterwards.
            line = np.repeat(np.arange(len(block)), np.diff(M.indptr))
            squares = np.bincount(line, M.data.astype(np.float64) ** 2, minlength=len(block))
            buffer[line, M.indices] = M.data
            dense = buffer
        else:
            dense = np.asarray(M)
            line = None
            squares = np.einsum("ij,ij->i", dense, dense, dtype=np.float64)
        squared_distance = squares - 2 * np.asarray(M @ g).ravel() + g @ g
        is_apart = squared_distance > 1e-9 * (squares + g @ g)
        norm = np.sqrt(np.where(is_apart, squared_distance, 1))
        cells = order[starts[first] : ends[min(first + step, len(distinct)) - 1]]
        for piece in _pieces(sizes[rows[cells]], BLOCK_CELLS):
            k = cells[piece]
            place = np.searchsorted(block, labels[k])
            x = X[rows[k]]
            if sp.issparse(x):
                of = np.repeat(np.arange(len(k)), np.diff(x.indptr))
                products = dense[place[of], x.indices] * x.data
                dots = np.bincount(of, products, minlength=len(k))
            else:
                dots = np.einsum("ij,ij->i", x, dense[place])
            cosines = (dots - common[rows[k]]) / (norm[place] * lengths[rows[k]])
            scores[k] = np.where(is_apart[place], cosines, 0)
        if line is not None:
            buffer[line, M.indices] = 0
    return scores


def _pieces(sizes: Array, limit: int) -> Iterator[slice]:
    """Slices of consecutive cells whose rows have at most `limit` entries, or of single cells."""
    total = np.cumsum(sizes)
    first = 0
    while first < len(sizes):
        n_before = total[first - 1] if first else 0
        last = max(first + 1, int(np.searchsorted(total, n_before + limit, side="right")))
        yield slice(first, last)
        first = last
