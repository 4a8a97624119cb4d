"""The default engine for very many labels: a row is compared with the mean row of each label."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from schirn._progress import track
from schirn.linalg.arrays import BLOCK_CELLS, release, row_pieces, row_slices, rows_per_block
from schirn.scale.memory import large_array

Array = np.ndarray


class Centroids(NamedTuple):
    """Rows that have been seen, and how they make the mean of each label."""

    X: Any
    weights: sp.csr_array
    """(l, n): each row that lists the label, divided by its length and by their number."""
    mean: Array
    """Mean of all rows of length one."""


def fit_centroids(X: Any, candidates: sp.csr_array) -> Centroids:
    """Prepare the means of the rows that list a label.

    Parameters
    ----------
    X : (n, d) array or CSR matrix
    candidates : (n, l) CSR array
    """
    inverse = 1 / np.maximum(_lengths(X), 1e-30)
    total = np.zeros(X.shape[1])
    for i, some in _row_blocks(X):
        total += np.asarray(inverse[i : i + some.shape[0]] @ some).ravel()
    counts = np.maximum(np.bincount(candidates.indices, minlength=candidates.shape[1]), 1)
    weights = sp.csr_array(candidates.T).astype(np.float32)
    weights.data = (inverse[weights.indices] / np.repeat(counts, np.diff(weights.indptr))).astype(
        np.float32
    )
    return Centroids(X, weights, total / X.shape[0])


def score_centroids(model: Centroids, X: Any, rows: Array, labels: Array) -> Array:
    """Cosine between a row and the mean of its label, both without what all rows have in common.

    The score is (x'm - x'g) / |m - g| for a row x of length one, the mean m of the rows that list
    the label and the mean g of all; it is 0 if the two means are equal.

    Parameters
    ----------
    model : Centroids
    X : (n, d) array or CSR matrix
    rows, labels : ndarray
        The cells to score.
    """
    lengths = np.maximum(_lengths(X), 1e-30)
    g = model.mean
    common = np.concatenate([np.asarray(some @ g).ravel() for _, some in _row_blocks(X)])
    order = np.argsort(labels, kind="stable")
    distinct, starts = np.unique(labels[order], return_index=True)
    ends = np.r_[starts[1:], len(order)]
    n_features = X.shape[1]
    sizes = np.diff(X.indptr) if sp.issparse(X) else np.full(X.shape[0], n_features)
    step = rows_per_block(n_features)
    scores = np.zeros(len(rows))
    buffer = np.zeros((min(step, len(distinct)), n_features), dtype=np.float32)
    for first in track(range(0, len(distinct), step), "block of labels"):
        some = distinct[first : first + step]
        M = model.weights[some] @ model.X
        if sp.issparse(M):
            # Only entries that are not zero are written, and cleared afterwards.
            line = np.repeat(np.arange(len(some)), np.diff(M.indptr))
            squares = np.bincount(line, M.data.astype(np.float64) ** 2, minlength=len(some))
            buffer[line, M.indices] = M.data
            dense = buffer
        else:
            dense, line = np.asarray(M), None
            squares = np.einsum("ij,ij->i", dense, dense, dtype=np.float64)
        off = squares - 2 * np.asarray(M @ g).ravel() + g @ g
        far = off > 1e-9 * (squares + g @ g)
        norm = np.sqrt(np.where(far, off, 1))
        cells = order[starts[first] : ends[min(first + step, len(distinct)) - 1]]
        for piece in _pieces(sizes[rows[cells]], BLOCK_CELLS):
            k = cells[piece]
            place = np.searchsorted(some, labels[k])
            x = X[rows[k]]
            if sp.issparse(x):
                of = np.repeat(np.arange(len(k)), np.diff(x.indptr))
                products = dense[place[of], x.indices] * x.data
                dots = np.bincount(of, products, minlength=len(k))
            else:
                dots = np.einsum("ij,ij->i", x, dense[place])
            found = (dots - common[rows[k]]) / (norm[place] * lengths[rows[k]])
            scores[k] = np.where(far[place], found, 0)
        if line is not None:
            buffer[line, M.indices] = 0
    return scores


def _lengths(X: Any) -> Array:
    """Euclidean length of each row."""
    if not sp.issparse(X):
        squares = (
            np.einsum("ij,ij->i", some, some, dtype=np.float64) for _, some in _row_blocks(X)
        )
        return np.sqrt(np.concatenate(list(squares)))
    line = np.repeat(np.arange(X.shape[0]), np.diff(X.indptr))
    return np.sqrt(np.bincount(line, X.data.astype(np.float64) ** 2, minlength=X.shape[0]))


def _row_blocks(X: Any) -> Iterator[tuple[int, Any]]:
    """First row and rows of each block: products in double precision copy no more than that."""
    if sp.issparse(X):
        return iter([(0, X)])
    return row_pieces(X)


def _pieces(sizes: Array, most: int) -> Iterator[slice]:
    """Slices of consecutive cells whose rows have at most `most` entries, or of single cells."""
    total, first = np.cumsum(sizes), 0
    while first < len(sizes):
        done = total[first - 1] if first else 0
        last = max(first + 1, int(np.searchsorted(total, done + most, side="right")))
        yield slice(first, last)
        first = last


def taken(X: Any, rows: Array) -> Any:
    """Some rows of X; those of a file may lie in a file again."""
    if not isinstance(X, np.memmap):
        return X[rows]
    out = large_array((len(rows), X.shape[1]), X.dtype)
    for block in row_slices(len(rows), X.shape[1]):
        some = rows[block]
        out[block] = X[some]
        release(X[some[0] : some[-1] + 1])
        release(out[block])
    return out
