"""Ridge systems over rows in blocks or on a device.

Blocks keep their rows of X unchanged, dense or sparse. The Gram matrix X'X is a sum over blocks.
Its eigenvectors V are computed once, and coordinates w in that basis become weights V w of the
features before they are sent to the blocks. On a device all rows are one block, which is replaced
by F = X V.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from schirn.exceptions import InputError
from schirn.linalg.arrays import Array
from schirn.linalg.row_space import (
    column_sums,
    gram_is_accurate,
    gram_matrix,
    gram_spectrum,
    rounding,
    row_space,
    with_intercept,
)
from schirn.scale.blocks import Block, Coordinates, DenseRows, FeatureRows, Layout, RowStore

LOG = logging.getLogger("schirn")
# Maximum number of features; the Gram matrix of more takes over 3 GB.
MOST_FEATURES = 20_000


@dataclass(frozen=True, eq=False)
class Factor:
    """A solver of ridge systems in coordinates, and the conversion back to features."""

    coordinates: Coordinates
    coefficients: Callable[[Array], tuple[Array, Array]]
    """Weights W (d, l) and intercepts b (l,) for coordinates w."""
    leverage: Callable[[float], Any]
    """Message for `squares` of the rows: the diagonal of the ridge hat matrix of weight t."""


def factor_blocks(store: RowStore, layout: Layout, *, ridge: float, fit_intercept: bool) -> Factor:
    """Factor X once, as `schirn.linalg.row_space.row_space` does for an undivided X.

    Parameters
    ----------
    store : RowStore
        Store whose blocks hold `FeatureRows`. With an intercept, dense blocks are centred. The
        single block of a device is replaced by its rows of F.
    layout : Layout
        Shape and type of X.
    ridge : float
        The smallest ridge weight that will be used.
    fit_intercept : bool
        True fits an intercept.

    Returns
    -------
    Factor
    """
    if layout.device:
        return _factor_device(store, ridge, fit_intercept)
    n = layout.n
    d = layout.d
    dtype = layout.dtype
    sparse = layout.sparse
    if d > MOST_FEATURES:
        raise InputError(
            f"X has {d:,} features, and above {MOST_FEATURES:,} the matrix of features by features "
            f"is too large to factor rows in blocks; reduce the features, or use Sieve"
        )
    mean = None
    if fit_intercept:
        (sums,) = store.step(column_totals)
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
    eigenvalues = eigenvalues.astype(dtype)
    basis = np.ascontiguousarray(basis, dtype=dtype)
    penalty = np.ones_like(eigenvalues)
    shift = None
    if mean is not None:
        eigenvalues, penalty = with_intercept(eigenvalues, n)
        mean = mean.astype(dtype)
        # Dense blocks are already centred.
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
        coordinates, space.coefficients, lambda t: 1 / (space.eigenvalues + t * space.penalty)
    )


def column_totals(block: Block, state: Any) -> tuple[Any, tuple[Any, ...]]:
    """Return the sums of the columns of a block.

    Parameters
    ----------
    block : Block
        The block.
    state : object
        State of the block, returned unchanged.

    Returns
    -------
    state : object
    sums : ((d,) array,)
    """
    return state, (column_sums(block.rows.X),)


def centre(block: Block, mean: Array) -> Block:
    """Subtract the mean from the dense rows of a block.

    Parameters
    ----------
    block : Block
        The block.
    mean : (d,) array
        Mean of all rows.

    Returns
    -------
    Block
    """
    X = block.rows.X
    centred = np.subtract(X, mean, out=X) if block.in_place else X - mean
    return block._replace(rows=FeatureRows(centred, block.rows.first))


def gram(block: Block, state: Any) -> tuple[Any, tuple[Any, ...]]:
    """Return X'X of a block in double precision.

    Parameters
    ----------
    block : Block
        The block.
    state : object
        State of the block, returned unchanged.

    Returns
    -------
    state : object
    sums : ((d, d) array,)
    """
    return state, (gram_matrix(block.rows.X),)
