"""Nearest neighbours, reconstruction weights and label propagation.

Row i is written as a non-negative combination of its neighbours.
"""

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.optimize import nnls

from schirn._input import Array


class Neighbours(NamedTuple):
    """Indices and Euclidean distances of the k nearest rows, nearest first, (n, k) each."""

    indices: Array
    distances: Array


class NeighbourGraph(NamedTuple):
    """Symmetric edge weights S with a loop of weight one at every row, and directed degrees.

    `degree` sums the weights from a row to its own nearest rows and its loop. Where nearness is
    not mutual it differs from the row sum of S.
    """

    S: sp.csr_array
    degree: Array

    def laplacian(self) -> sp.csr_array:
        """diag(row sums of S) - S; loops cancel."""
        return sp.csr_array(sp.diags_array(self.S.sum(axis=1)) - self.S)


def nearest_neighbours(
    X: "Array | sp.csr_array", k: int, *, include_self: bool = False
) -> Neighbours:
    """The k nearest other rows of every row (fewer if there are not k others).

    >>> nearest_neighbours(np.array([[0.0], [1.0], [3.0]]), 1).indices.ravel().tolist()
    [1, 0, 1]
    """
    n = X.shape[0]
    k = min(k, n if include_self else n - 1)
    if k < 1:
        return Neighbours(np.zeros((n, 0), dtype=np.intp), np.zeros((n, 0)))
    from sklearn.neighbors import NearestNeighbors

    # Distances come from inner products, which lose digits where the rows lie far from zero.
    near_zero = X if sp.issparse(X) else X - X.mean(axis=0)
    search = NearestNeighbors(n_neighbors=k, algorithm="brute").fit(near_zero)
    distances, indices = search.kneighbors(near_zero if include_self else None)
    return Neighbours(indices, distances.astype(np.float64))


def neighbour_graph(X: "Array | sp.csr_array", k: int = 5) -> NeighbourGraph:
    """Edges to the k nearest rows with weights exp(-D / (2 s^2)), made symmetric.

    D is a squared distance and s the mean squared distance to the nearest row, so the weights
    change if all features are multiplied by a number. If every row has a copy, all weights are one.

    >>> neighbour_graph(np.array([[0.0], [1.0], [3.0]]), 1).S.toarray().round(3)
    array([[1.   , 0.882, 0.   ],
           [0.882, 1.   , 0.303],
           [0.   , 0.303, 1.   ]])
    """
    n = X.shape[0]
    nearest = nearest_neighbours(X, k)
    D = nearest.distances**2
    values: Any = X.data if sp.issparse(X) else X
    # Distances come from inner products, whose rounding errors make copies look different.
    D[np.finfo(values.dtype).eps * 1e3 * float(np.abs(values).max(initial=0)) ** 2 > D] = 0
    s = float(D[:, 0].mean()) if D.size else 0.0
    weights = np.exp(D / (-2 * s**2)) if s**2 > 0 else np.ones_like(D)
    rows = np.repeat(np.arange(n), D.shape[1])
    A = sp.csr_array((weights.ravel(), (rows, nearest.indices.ravel())), shape=(n, n))
    A = A + sp.eye_array(n)
    S = sp.csr_array((A + A.T) / 2).astype(values.dtype)
    return NeighbourGraph(S, A.sum(axis=1).astype(values.dtype))


def reconstruction_weights(X: "Array | sp.csr_array", neighbours: Array) -> sp.csr_array:
    """Non-negative weights that reconstruct each row of X from its neighbours, with sum one.

    Row i holds argmin ||x_i - sum_a w_a x_a||^2 over w >= 0, divided by its sum. A row that its
    neighbours cannot reconstruct at all stays zero.

    >>> X = np.array([[1.0, 1.0], [2.0, 0.0], [0.0, 1.0]])
    >>> reconstruction_weights(X, np.array([[1, 2], [0, 2], [0, 1]])).toarray().round(3)
    array([[0.   , 0.333, 0.667],
           [1.   , 0.   , 0.   ],
           [1.   , 0.   , 0.   ]])
    """
    n, k = neighbours.shape
    weights = np.zeros((n, k))
    for i in range(n if k else 0):
        weights[i] = nnls(*_neighbourhood(X, i, neighbours[i]))[0]
    total = weights.sum(axis=1, keepdims=True)
    weights = np.divide(weights, total, out=weights, where=total > 0)
    indptr = np.arange(0, n * k + 1, k) if k else np.zeros(n + 1, dtype=np.intp)
    T = sp.csr_array((weights.ravel(), neighbours.flatten(), indptr), shape=(n, n))
    T.eliminate_zeros()
    return T


def _neighbourhood(X: "Array | sp.csr_array", i: int, near: Array) -> tuple[Array, Array]:
    """The neighbours of a row as columns, and the row, without features that are 0 in all."""
    rows = X[np.append(near, i)].astype(np.float64)
    if sp.issparse(rows):
        rows = rows[:, np.unique(rows.indices)].toarray()
    # Whatever the scale of the features, SciPy must not take small slopes for zero.
    rows /= np.abs(rows).max(initial=np.finfo(np.float64).tiny)
    return rows[:-1].T, rows[-1]


def propagate_labels(
    T: sp.csr_array, Y: Array, *, alpha: float, max_iter: int = 1000, tol: float = 1e-5
) -> tuple[Array, Array]:
    """Iterate P <- alpha T P + (1 - alpha) Y on the candidates Y, with rows of sum one.

    Stops when the spectral norm of the change is below `tol`. Returns P and this norm in every
    round.

    >>> T = sp.csr_array(np.array([[0.0, 1.0], [1.0, 0.0]]))
    >>> propagate_labels(T, np.array([[1, 1], [1, 0]]), alpha=0.5)[0].round(2)
    array([[0.67, 0.33],
           [1.  , 0.  ]])
    """
    start = np.asarray(Y, dtype=np.float64)
    P, changes = start, []
    for _ in range(max_iter):
        previous, P = P, (alpha * (T @ P) + (1 - alpha) * start) * start
        total = P.sum(axis=1, keepdims=True)
        P = np.divide(P, total, out=P, where=total > 0)
        change = P - previous
        changes.append(float(np.sqrt(max(np.linalg.eigvalsh(change.T @ change)[-1], 0.0))))
        if changes[-1] < tol:
            break
    return P, np.array(changes)
