"""Ridge systems over rows that lie in blocks or on a device.

Blocks keep their rows of X as they are, dense or sparse. Two ways lead to the ridge solutions:

- `factor_blocks`: the Gram matrix X'X is a sum over blocks. Its eigenvectors V are computed once,
  and coordinates w in that basis become weights V w of the features before they travel to the
  blocks. On a device all rows are one block, which is replaced by F = X V.
- `iterative_factor`: conjugate gradients. Nothing of size d x d is formed, and a step costs two
  products with X. The systems of a round differ little from those of the round before, so the last
  solution is the first guess.
"""

import logging
from collections.abc import Callable
from copy import copy
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from schirn.exceptions import InputError
from schirn.linalg.arrays import Array
from schirn.linalg.conjugate_gradients import NormalSolution, conjugate_gradients
from schirn.linalg.row_space import (
    gram_is_accurate,
    gram_matrix,
    gram_spectrum,
    rounding,
    row_space,
    with_intercept,
)
from schirn.scale.blocks import Block, Coordinates, DenseRows, FeatureRows, Layout, RowStore

LOG = logging.getLogger("schirn")
# The Gram matrix of more features takes more than 3 GB.
MOST_FEATURES = 20_000
# Largest smaller side of X whose Gram matrix is decomposed: 1.2 GB and some minutes.
MOST_FACTORED = 12_000
_PROBES = 64


class Factor(NamedTuple):
    """A solver of ridge systems in coordinates, and the way from coordinates back to features."""

    coordinates: Coordinates
    coefficients: Callable[[Array], tuple[Array, Array]]
    """Weights W (d, l) and intercepts b (l,) for coordinates w."""
    leverage: Callable[[float], Any]
    """Message for `squares` of the rows: the diagonal of the ridge hat matrix of weight t."""


def choose_solver(shape: tuple[int, int], solver: str = "auto") -> tuple[str, str]:
    """Return the solver ("factor" or "cg") for an X of this shape, and the reason.

    >>> choose_solver((50_000, 300))[0]
    'factor'
    >>> choose_solver((50_000, 300_000))[0]
    'cg'
    """
    if solver != "auto":
        return solver, "requested"
    small = min(shape)
    gigabytes = small**2 * 8 / 1e9
    if small <= MOST_FACTORED:
        return "factor", f"the Gram matrix of side {small:,} fits ({gigabytes:.2g} GB)"
    return "cg", (
        f"the Gram matrix of side {small:,} would take {gigabytes:.2g} GB and "
        f"{9 * small**3:.1e} operations"
    )


def factor_blocks(store: RowStore, layout: Layout, *, ridge: float, fit_intercept: bool) -> Factor:
    """Factor X once, as `schirn.linalg.row_space.row_space` does for X in one piece.

    Parameters
    ----------
    store : RowStore
        Its blocks hold `FeatureRows`. With an intercept, dense blocks are centred. The one block
        of a device is replaced by its rows of F.
    layout : Layout
    ridge : float
        The smallest ridge weight that will be used.
    fit_intercept : bool
    """
    if layout.device:
        return _factor_device(store, ridge, fit_intercept)
    n, d, dtype, sparse = layout[:4]
    if d > MOST_FEATURES:
        raise InputError(
            f"X has {d:,} features, and above {MOST_FEATURES:,} the matrix of features by features "
            f'is too large to factor rows in blocks; use solver="cg", or reduce the features',
            parameter="solver",
        )
    mean = None
    if fit_intercept:
        (sums,) = store.step(column_sums)
        mean = sums / n
        if not sparse:
            store.prepare(centre, mean.astype(dtype))
    (K,) = store.step(gram)
    if not gram_is_accurate(K, ridge):
        raise InputError(
            f"the features differ so much in scale (the largest column has a sum of squares of "
            f"{K.diagonal().max():.3g}) that X'X is too coarse for this ridge weight "
            f"({ridge:.3g}), and rows in blocks allow no SVD; scale the features "
            f"(StandardScaler, or MaxAbsScaler for sparse ones) or raise lam",
            parameter="lam",
        )
    if mean is not None and sparse:
        K -= np.outer(mean, mean * n)
    eigenvalues, basis = gram_spectrum(K, rounding((n, d), dtype))
    basis = np.ascontiguousarray(basis, dtype=dtype)
    return _factor(eigenvalues.astype(dtype), basis, mean, n, sparse)


def _factor(eigenvalues: Array, basis: Array, mean: Array | None, n: int, sparse: bool) -> Factor:
    dtype, shift = basis.dtype, None
    penalty = np.ones_like(eigenvalues)
    if mean is not None:
        eigenvalues, penalty = with_intercept(eigenvalues, n)
        mean = mean.astype(dtype)
        # Dense blocks are centred already.
        shift = mean if sparse else np.zeros_like(mean)

    def leverage(t: float) -> tuple[Array, Array, float]:
        weights = 1 / (eigenvalues + t * penalty)
        A = basis * np.sqrt(weights[: basis.shape[1]]).astype(dtype)
        if shift is None:
            return A, np.zeros(A.shape[1], dtype=dtype), 0.0
        return A, shift @ A, float(weights[-1])

    coordinates = Coordinates(eigenvalues, penalty, n, basis, shift)
    return Factor(coordinates, replace(coordinates, mean=mean).send, leverage)


def _factor_device(store: RowStore, ridge: float, fit_intercept: bool) -> Factor:
    (X,) = store.gather(lambda block, state: block.rows.X)
    space = row_space(X, ridge=ridge, fit_intercept=fit_intercept)
    store.prepare(lambda block: block._replace(rows=DenseRows(space.F)))
    coordinates = Coordinates(space.eigenvalues, space.penalty, X.shape[0])
    return Factor(
        coordinates,
        space.coefficients,
        lambda t: 1 / (space.eigenvalues + t * space.penalty),
    )


def column_sums(block: Block, state: Any) -> tuple[Any, tuple[Any, ...]]:
    """Sums of the columns, in double precision."""
    X = block.rows.X
    return state, (X.T @ np.ones(X.shape[0]) if sp.issparse(X) else X.sum(0, dtype=np.float64),)


def centre(block: Block, mean: Array) -> Block:
    """The block with the mean subtracted from its dense rows."""
    X = block.rows.X
    centred = np.subtract(X, mean, out=X) if block.in_place else X - mean
    return block._replace(rows=FeatureRows(centred, block.rows.first))


def gram(block: Block, state: Any) -> tuple[Any, tuple[Any, ...]]:
    """X'X of the block, in double precision."""
    return state, (gram_matrix(block.rows.X),)


class FeatureCoordinates(Coordinates):
    """Features themselves as coordinates, centred if there is an intercept.

    `eigenvalues` holds the diagonal of X'X, which preconditions the systems.

    Attributes
    ----------
    last : NormalSolution or None
        The solution that the next systems start from.
    n_steps : int
        Steps of conjugate gradients so far; each takes two products with X.
    """

    def __init__(
        self, store: RowStore, n: int, mean: Array | None, diagonal: Array, dtype: np.dtype
    ):
        penalty = np.ones(len(diagonal) + (mean is not None), dtype=dtype)
        if mean is not None:
            penalty[-1] = 0
        basis = sp.csr_array(sp.identity(len(diagonal), dtype))
        super().__init__(diagonal.astype(dtype), penalty, n, basis, mean)
        self._store = store
        self.last: NormalSolution | None = None
        self.n_steps = 0

    def solve(self, rhs: Array, mu: float, ridge: float) -> tuple[Array, Array]:
        """w with (mu F'F + ridge) w = rhs, and F'F w, starting from the last solution."""
        features = rhs if self.mean is None else rhs[:-1]
        self.last = conjugate_gradients(
            self._normal,
            features,
            mu=mu,
            ridge=ridge,
            diagonal=self.eigenvalues,
            start=self.last,
        )
        if self.mean is None:
            return self.last
        # Centred features and the column of ones are orthogonal.
        w, product = self.last
        intercept = rhs[-1:] / (mu * self.n_rows)
        return np.concatenate([w, intercept]), np.concatenate([product, self.n_rows * intercept])

    def _normal(self, p: Array) -> Array:
        """X'X p of the centred features."""
        self.n_steps += 1
        if self.mean is not None:
            p = np.concatenate([p, np.zeros((1, p.shape[1]), dtype=p.dtype)])
        (total,) = self._store.step(normal_product, self.send(p))
        return self.receive(total)[: len(self.eigenvalues)]


def iterative_factor(store: RowStore, layout: Layout, *, fit_intercept: bool) -> Factor:
    """Serve the ridge systems of `factor_blocks` by conjugate gradients, without factoring X."""
    n = layout.n
    sums, squares = store.step(column_sums_and_squares)
    mean = (sums / n).astype(layout.dtype) if fit_intercept else None
    if mean is not None:
        squares = np.maximum(squares - sums**2 / n, 0)
    coordinates = FeatureCoordinates(store, n, mean, squares, layout.dtype)

    def leverage(t: float) -> tuple[Array, Array, float]:
        A = _sketch(store, coordinates, t)
        if mean is None:
            return A, np.zeros(A.shape[1], dtype=A.dtype), 0.0
        return A[:-1], mean @ A[:-1], 1 / n

    return Factor(coordinates, coordinates.send, leverage)


def _sketch(store: RowStore, coordinates: FeatureCoordinates, t: float) -> Array:
    """A with A A' near (X'X + t)^-1, so that ||A'x||^2 is near the leverage of a row x.

    With random signs Z the mean of (X'Z + sqrt(t) Z0)(X'Z + sqrt(t) Z0)' is X'X + t.
    """
    (total,) = store.step(probe, _PROBES)
    B = coordinates.receive(total)
    signs = np.random.default_rng(0).choice([-1.0, 1.0], size=B.shape).astype(B.dtype)
    B = B + np.sqrt(t) * coordinates.penalty[:, None] * signs
    # The solutions of these systems are no first guess for those of the rounds, nor the reverse.
    coordinates = copy(coordinates)
    coordinates.last = None
    w, _ = coordinates.solve(B, 1.0, t)
    return w / np.sqrt(B.dtype.type(_PROBES))


def normal_product(block: Block, state: Any, message: Any) -> tuple[Any, tuple[Any, ...]]:
    """(X W + b)'X of the block, and the sums of the scores."""
    scores = block.rows.expand(message)
    return state, (_times_rows(scores, block.rows.X),)


def column_sums_and_squares(block: Block, state: Any) -> tuple[Any, tuple[Any, ...]]:
    """Sums and sums of squares of the columns, in double precision."""
    _, (sums,) = column_sums(block, state)
    X = block.rows.X
    if sp.issparse(X):
        return state, (sums, X.astype(np.float64).power(2).T @ np.ones(X.shape[0]))
    return state, (sums, np.einsum("ij,ij->j", X, X, dtype=np.float64))


def probe(block: Block, state: Any, count: int) -> tuple[Any, tuple[Any, ...]]:
    """Z'X for random signs Z of the rows, and the sums of Z."""
    X = block.rows.X
    rng = np.random.default_rng([1, block.rows.first])
    Z = rng.choice([-1.0, 1.0], size=(count, X.shape[0])).astype(X.dtype)
    return state, (_times_rows(Z, X),)


def _times_rows(scores: Array, X: Any) -> Array:
    """Scores times X, with the sums of the scores as the last column."""
    product = (X.T @ scores.T).T if sp.issparse(X) else scores @ X
    return np.column_stack([product, scores.sum(axis=1)])
