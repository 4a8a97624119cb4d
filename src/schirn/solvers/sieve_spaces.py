"""The factorisations that Sieve needs: all rows, and the rest of a few inner splits."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from schirn.kernels import Kernel, kernel_space, median_width, nystroem_map
from schirn.linalg import RowSpace, row_space
from schirn.solvers.sieve import Part

Array = np.ndarray

_INNER_SPLITS = 3
_BLOCK_ROWS = 5000


class Expansion(NamedTuple):
    """How scores are made from scaled rows: kernel(rows, support) @ weights + offsets."""

    kernel: Kernel
    support: Any
    """Training rows or landmarks; None for a linear kernel, whose weights are per feature."""
    weights: Array
    """(experts, support rows or features, labels)"""
    offsets: Array
    """(experts, labels)"""

    def scores(self, Z: Any) -> list[Array]:
        """Ridge scores of every expert."""
        K = Z if self.support is None else self.kernel(Z, self.support)
        return [np.asarray(K @ w) + b for w, b in zip(self.weights, self.offsets, strict=True)]


class Split(NamedTuple):
    """An inner split: the factored rest, and the rows held out in its coordinates."""

    rest: Array
    held: Array
    space: RowSpace
    F_held: Array


class Spaces(NamedTuple):
    """The features of all rows, factored; nothing here depends on the labels."""

    whole: RowSpace
    splits: list[Split]
    kernel: Kernel
    support: Any
    nystroem: Array | None
    """From kernel values at the landmarks to features; None where the kernel is exact."""

    def parts(self, Y: Array, rates: "float | Array | None") -> list[Part]:
        """The ridge problems for candidates Y; splits without a candidate are left out."""
        parts = [Part(self.whole, Y, rates)]
        for split in self.splits:
            if Y[split.rest].any():
                known, known_held = rates, rates
                if isinstance(rates, np.ndarray):
                    known, known_held = rates[split.rest], rates[split.held]
                Y_held = Y[split.held]
                parts.append(
                    Part(split.space, Y[split.rest], known, split.F_held, Y_held, known_held)
                )
        return parts

    def rows(self, Z: Any) -> Array:
        """New rows in the coordinates of the whole space."""
        if self.support is None:
            return self.whole.transform(Z)
        K = self.kernel(Z, self.support)
        return self.whole.transform(K if self.nystroem is None else K @ self.nystroem)

    def expansion(self, coordinates: list[Array]) -> Expansion:
        """What predictions need for weights with these coordinates."""
        pairs = [self.whole.coefficients(w) for w in coordinates]
        R = self.nystroem
        weights = np.stack([W if R is None else R @ W for W, _ in pairs])
        return Expansion(self.kernel, self.support, weights, np.stack([b for _, b in pairs]))


def factor_spaces(
    Z: Any,
    *,
    kernel: str,
    max_kernel_rows: int,
    n_landmarks: int,
    rng: np.random.RandomState,
) -> Spaces:
    """Factor the features of all rows and of the inner splits.

    Parameters
    ----------
    Z : (n, d) scaled features
    kernel : "rbf" or "linear"
    max_kernel_rows : up to this many rows the kernel is exact and there are three splits; above,
        it is approximated from `n_landmarks` rows, and one hold-out of a quarter is enough.
    """
    n = Z.shape[0]
    order = rng.permutation(n)
    if n <= max_kernel_rows:
        held = np.array_split(order, min(_INNER_SPLITS, n))
    else:
        held = np.array_split(order, 4)[:1]
    function, support, R = Kernel("linear"), None, None
    if kernel == "linear":
        factor = _feature_factoring(Z)
    else:
        function = Kernel("rbf", median_width(Z, rng))
        if n <= max_kernel_rows:
            support = Z
            factor = _kernel_factoring(function(Z, Z).astype(np.float64))
        else:
            support = Z[np.sort(rng.choice(n, min(n, n_landmarks), replace=False))]
            R = nystroem_map(function, support)
            factor = _feature_factoring(_nystroem_features(Z, function, support, R))
    splits = []
    for rows in held:
        rest = np.setdiff1d(np.arange(n), rows)
        if len(rest):
            space, F = factor(rest, rows)
            splits.append(Split(rest, rows, space, F))
    return Spaces(factor(np.arange(n), rows[:0])[0], splits, function, support, R)


def _nystroem_features(Z: Any, kernel: Kernel, landmarks: Any, R: Array) -> Array:
    features = np.empty((Z.shape[0], R.shape[1]), dtype=np.float32)
    for i in range(0, Z.shape[0], _BLOCK_ROWS):
        features[i : i + _BLOCK_ROWS] = kernel(Z[i : i + _BLOCK_ROWS], landmarks) @ R
    return features


def _kernel_factoring(K: Array) -> Callable[[Array, Array], tuple[RowSpace, Array]]:
    def factor(rows: Array, held: Array) -> tuple[RowSpace, Array]:
        space = kernel_space(K if len(rows) == len(K) else K[np.ix_(rows, rows)])
        return space, space.transform(K[np.ix_(held, rows)])

    return factor


def _feature_factoring(Z: Any) -> Callable[[Array, Array], tuple[RowSpace, Array]]:
    def factor(rows: Array, held: Array) -> tuple[RowSpace, Array]:
        # The features are scaled, so a Gram matrix is accurate enough for any ridge of the grid.
        some = Z if len(rows) == Z.shape[0] else Z[rows]
        space = row_space(some, ridge=np.inf, fit_intercept=True)
        return space, space.transform(Z[held])

    return factor
