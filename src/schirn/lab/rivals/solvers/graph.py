"""Nearest neighbours, reconstruction weights and label propagation.

Row i is written as a non-negative combination of its neighbours. All rows are solved together:
the k x k Gram matrices of the neighbourhoods form one batch, and an active-set method moves every
row of the batch by one variable per round.
"""

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from schirn._input import Array
from schirn.linalg.arrays import rows_per_block


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


def nonnegative_least_squares(G: Array, b: Array, *, tol: float = 1e-10) -> Array:
    """Minimise w'G w/2 - b'w over w >= 0 for a batch of Gram matrices, by active sets.

    Parameters
    ----------
    G : (n, k, k) array
        Positive semidefinite.
    b : (n, k) array
    tol : float
        Largest positive slope b - G w left at a zero weight, with the largest diagonal entry of
        each G scaled to one.

    Examples
    --------
    >>> G, b = np.array([[[2.0, 1.0], [1.0, 2.0]]]), np.array([[2.0, -1.0]])
    >>> nonnegative_least_squares(G, b)
    array([[1., 0.]])
    """
    batch = _ActiveSets(G, b, tol)
    rows = np.arange(len(b))
    for _ in range(20 * b.shape[1]):
        rows = batch.advance(rows)
        if not len(rows):
            break
    return batch.w


class _ActiveSets:
    """Lawson and Hanson's method on a batch: which weights of every row are free."""

    def __init__(self, G: Array, b: Array, tol: float):
        n, k = b.shape
        size = np.einsum("ijj->ij", G).max(axis=1, initial=0)
        size = np.where(size > 0, size, 1.0)
        # A trace of ridge keeps the systems of repeated rows solvable.
        self.G = G / size[:, None, None] + 1e-13 * np.eye(k)
        self.b = b / size[:, None]
        self.tol = tol
        self.w = np.zeros((n, k))
        self.free = np.zeros((n, k), dtype=bool)
        self.refused = np.zeros((n, k), dtype=bool)
        self.entered = np.zeros(n, dtype=np.intp)

    def advance(self, rows: Array) -> Array:
        """Advance some rows by one round; return those not yet solved."""
        z = self._solve(rows)
        bad = self.free[rows] & (z <= 0)
        is_infeasible = bad.any(axis=1)
        self._step_back(rows[is_infeasible], z[is_infeasible], bad[is_infeasible])
        feasible = rows[~is_infeasible]
        self.w[feasible] = z[~is_infeasible]
        return np.concatenate([rows[is_infeasible], self._enter(feasible)])

    def _solve(self, rows: Array) -> Array:
        """Unconstrained solutions over the free weights; 0 at the others."""
        free = self.free[rows]
        block = free[:, :, None] & free[:, None, :]
        system = np.where(block, self.G[rows], np.eye(free.shape[1]))
        return np.linalg.solve(system, np.where(free, self.b[rows], 0.0)[:, :, None])[:, :, 0]

    def _step_back(self, rows: Array, z: Array, bad: Array) -> None:
        """Go from w towards z until the first weight reaches zero, and fix that weight there."""
        w = self.w[rows]
        room = np.full(w.shape, np.inf)
        np.divide(w, w - z, out=room, where=bad & (w > 0))
        room[bad & (w <= 0)] = 0
        step = room.min(axis=1, initial=np.inf)[:, None]
        hit = bad & (room <= step)
        self.w[rows] = np.where(hit, 0.0, np.maximum(w + step * (z - w), 0.0))
        self.free[rows] &= ~hit
        # A weight that returns to zero as soon as it is freed is at its optimum, up to rounding.
        self.refused[rows] |= hit & (w <= 0)

    def _enter(self, rows: Array) -> Array:
        """Free the weight with the largest slope; returns the rows that have one."""
        progress = self.free[rows, self.entered[rows]]
        self.refused[rows[progress]] = False
        slope = self.b[rows] - np.einsum("ijk,ik->ij", self.G[rows], self.w[rows])
        slope[self.free[rows] | self.refused[rows]] = -np.inf
        best = slope.argmax(axis=1)
        rising = slope[np.arange(len(rows)), best] > self.tol
        rows = rows[rising]
        best = best[rising]
        self.free[rows, best] = True
        self.entered[rows] = best
        return rows


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
    step = rows_per_block((k + 1) * X.shape[1])
    # A wide sparse X has no dense block; only its Gram matrices take memory.
    step = min(n, max(step, 64)) if sp.issparse(X) else step
    for i in range(0, n if k else 0, step):
        G, b = _neighbourhood_grams(X, np.arange(i, min(i + step, n)), neighbours[i : i + step])
        weights[i : i + step] = nonnegative_least_squares(G, b)
    total = weights.sum(axis=1, keepdims=True)
    weights = np.divide(weights, total, out=weights, where=total > 0)
    indptr = np.arange(0, n * k + 1, k) if k else np.zeros(n + 1, dtype=np.intp)
    T = sp.csr_array((weights.ravel(), neighbours.flatten(), indptr), shape=(n, n))
    T.eliminate_zeros()
    return T


def _neighbourhood_grams(
    X: "Array | sp.csr_array", rows: Array, neighbours: Array
) -> tuple[Array, Array]:
    """Gram matrices (m, k, k) of the neighbours of some rows, and products (m, k) with the row."""
    if sp.issparse(X):
        used, index = np.unique(np.column_stack([rows, neighbours]), return_inverse=True)
        A = X[used].astype(np.float64)
        K = (A @ A.T).toarray()
        index = index.reshape(len(rows), -1)
        centre = index[:, :1]
        around = index[:, 1:]
        return K[around[:, :, None], around[:, None, :]], K[around, centre]
    A = X[neighbours].astype(np.float64, copy=False)
    x = X[rows].astype(np.float64, copy=False)
    return A @ A.transpose(0, 2, 1), (A @ x[:, :, None])[:, :, 0]


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
    P = start
    changes = []
    for _ in range(max_iter):
        previous = P
        P = (alpha * (T @ P) + (1 - alpha) * start) * start
        total = P.sum(axis=1, keepdims=True)
        P = np.divide(P, total, out=P, where=total > 0)
        change = P - previous
        changes.append(float(np.sqrt(max(np.linalg.eigvalsh(change.T @ change)[-1], 0.0))))
        if changes[-1] < tol:
            break
    return P, np.array(changes)
