"""A kernel map on anchors: the features of PML-MA and PML-PLR.

Every feature is scaled to [-1, 1] first. Distances do not change with the shift of that scaling,
so sparse rows are only multiplied and stay sparse.
"""

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from schirn._input import Array
from schirn.lab.rivals.solvers._scaling import Scaling, minmax, with_ones
from schirn.linalg.arrays import row_slices
from schirn.linalg.features import Kernel, squared_distances

MOST_ANCHORS = 4000


class AnchorMap(NamedTuple):
    """x -> [k(x) - centre, 1], where k(x) holds exp(-||x - a||^2 / width) for all anchors a."""

    factor: Array
    shift: Array
    """Zero if the training rows are sparse."""
    anchors: "Array | sp.csr_array"
    width: float
    centre: Array

    def scaled(self, X: Any) -> "Array | sp.csr_array":
        """The scaled features; sparse rows become dense if the training rows were."""
        if sp.issparse(X) and self.shift.any():
            X = X.toarray()
        return Scaling(self.factor, self.shift).apply(X)

    def transform(self, X: "Array | sp.csr_array") -> Array:
        """The map of some rows, with as many columns as anchors and one more."""
        K = Kernel("rbf", self.width)(self.scaled(X), self.anchors)
        return np.asarray(with_ones(K - self.centre))

    def scores(self, X: "Array | sp.csr_array", W: Array) -> Array:
        """The map times W, block by block."""
        return np.vstack([self.transform(X[s]) @ W for s in row_slices(X.shape[0], len(W))])


class AnchorResult(NamedTuple):
    """Coordinates w of W in the row space, the pseudo-labels, and the trace."""

    w: Array
    pseudo_labels: Array
    loo_scores: Array
    """Scores of each row by the weights fitted to all others, with their targets held fixed."""
    n_iter: int
    objective: Array
    C: "sp.csr_array | None" = None
    """The matrix that reconstructs the candidates in PML-PLR."""


def anchor_map(
    X: "Array | sp.csr_array", n_anchors: int, rng: np.random.RandomState
) -> tuple[AnchorMap, Array]:
    """Learn the map of X; return it with the map of X itself.

    Parameters
    ----------
    X : (n, d) array or CSR array
    n_anchors : int
        Number of training rows drawn as anchors. With all of them nothing is random.
    rng : RandomState

    Examples
    --------
    >>> X = np.array([[0.0, 1.0], [2.0, 3.0], [4.0, 7.0]])
    >>> found, Phi = anchor_map(X, 2, np.random.RandomState(0))
    >>> Phi.shape, bool(np.allclose(found.transform(X), Phi))
    ((3, 3), True)
    """
    n = X.shape[0]
    scaling = minmax(X)
    if sp.issparse(X):
        scaling = Scaling(scaling.factor, np.zeros_like(scaling.shift))
    Z = scaling.apply(X)
    anchors = Z if n_anchors >= n else Z[np.sort(rng.permutation(n)[:n_anchors])]
    D = squared_distances(Z, anchors)
    width = 2 * float(D.mean(dtype=np.float64))
    # Rows that are all alike.
    width = width if width > 0 else 1.0
    K = np.exp(D / -width, out=D)
    centre = K.mean(axis=0, dtype=np.float64).astype(K.dtype)
    K -= centre
    return AnchorMap(*scaling, anchors, width, centre), np.asarray(with_ones(K))
