"""One factorisation of features that lie in blocks of rows, or on a device.

Blocks keep their rows of X as they are, dense or sparse. The Gram matrix X'X is a sum over blocks,
its eigenvectors V are found once, and coordinates w in that basis become weights V w of the
features before they travel to the blocks. On a device all rows are one block and F = X V is kept.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from schirn._input import first_bad
from schirn.exceptions import InputError
from schirn.linalg.arrays import Array, eps, like, namespace, to_numpy
from schirn.linalg.row_space import _gram as gram_matrix
from schirn.linalg.row_space import _gram_is_accurate as gram_is_accurate
from schirn.scale.blocks import Block, Coordinates, DenseRows, FeatureRows, Place

_PIECE_CELLS = 2**20
# The Gram matrix of more features takes more than 3 GB.
MOST_FEATURES = 20_000


class Factor(NamedTuple):
    """Coordinates of a factored X, and the ways from coordinates back to features."""

    coordinates: Coordinates
    coefficients: Callable[[Array], tuple[Array, Array]]
    """Weights W (d, l) and intercepts b (l,) for coordinates w."""
    leverage: Callable[[float], Any]
    """What `Rows.squares` needs for the diagonal of the ridge hat matrix of weight t."""


class Seen(NamedTuple):
    """What one look at a block tells."""

    n: int
    d: int
    dtype: str
    sparse: bool
    bad: tuple[int, int, float] | None
    """Row, column and value of the first entry that is not finite."""
    n_labels: int
    n_cells: int
    n_empty: int
    first_empty: int


def look(block: Block, state: Any) -> Seen:
    """Sizes, type and flaws of a block."""
    X, first = block.rows
    (n, l), cells = block.cells.shape, block.cells
    listed = np.bincount(cells.row, minlength=n)
    empty = np.flatnonzero(listed == 0)
    return Seen(
        n,
        X.shape[1],
        X.dtype.name,
        sp.issparse(X),
        first_bad(X, first),
        l,
        len(cells),
        len(empty),
        first + int(empty[0]) if len(empty) else -1,
    )


def factor_blocks(
    place: Place,
    n: int,
    d: int,
    dtype: np.dtype,
    sparse: bool,
    *,
    ridge: float,
    fit_intercept: bool,
) -> Factor:
    """Factor the rows of a place whose blocks hold `FeatureRows`.

    Parameters
    ----------
    place : where the blocks live; dense rows are centred there if there is an intercept
    n, d, dtype, sparse : rows, features, type and storage of X
    ridge : the smallest ridge weight that will be used

    See Also
    --------
    schirn.linalg.row_space.row_space : the same for X in one piece
    """
    if d > MOST_FEATURES:
        raise InputError(
            f"X has {d:,} features, and above {MOST_FEATURES:,} the matrix of features by features "
            f'is too large to factor rows in blocks; take solver="cg", or reduce the features'
        )
    mean = None
    if fit_intercept:
        (total,) = place.step(column_sums)
        mean = total / n
        if not sparse:
            place.prepare(centre, mean.astype(dtype))
    (K,) = place.step(gram)
    if not gram_is_accurate(K, ridge):
        raise InputError(
            f"the features are scaled so widely (the largest column has a sum of squares of "
            f"{K.diagonal().max():.3g}) that X'X is too coarse for this ridge weight "
            f"({ridge:.3g}), and rows in blocks have no other way; scale the features "
            f"(StandardScaler, or MaxAbsScaler for sparse ones) or raise lam"
        )
    if mean is not None and sparse:
        K -= np.outer(mean, mean * n)
    eigenvalues, basis = np.linalg.eigh(K)
    keep = eigenvalues > eigenvalues[-1] * _rounding(max(n, len(K)), dtype)
    eigenvalues, basis = eigenvalues[keep], np.ascontiguousarray(basis[:, keep], dtype=dtype)
    return _factor(eigenvalues.astype(dtype), basis, mean, n, sparse)


def _factor(eigenvalues: Array, basis: Array, mean: Array | None, n: int, sparse: bool) -> Factor:
    dtype = basis.dtype
    penalty = np.ones_like(eigenvalues)
    shift = None
    if mean is not None:
        eigenvalues, penalty = np.append(eigenvalues, dtype.type(n)), np.append(penalty, 0)
        # Dense blocks have lost their mean already.
        shift = mean.astype(dtype) if sparse else np.zeros(len(mean), dtype=dtype)
    coordinates = Coordinates(eigenvalues, penalty.astype(dtype), n, basis, shift)

    def coefficients(w: Array) -> tuple[Array, Array]:
        if mean is None:
            return basis @ w, np.zeros(w.shape[1], dtype=dtype)
        W = basis @ w[:-1]
        return W, w[-1] - mean.astype(dtype) @ W

    def leverage(t: float) -> tuple[Array, Array, float]:
        weights = 1 / (eigenvalues + t * penalty)
        A = basis * np.sqrt(weights[: basis.shape[1]]).astype(dtype)
        if shift is None:
            return A, np.zeros(A.shape[1], dtype=dtype), 0.0
        return A, shift @ A, float(weights[-1])

    return Factor(coordinates, coefficients, leverage)


def column_sums(block: Block, state: Any) -> tuple[Any, tuple[Any, ...]]:
    """Sums of the columns, in double precision."""
    X = block.rows.X
    return state, (X.T @ np.ones(X.shape[0]) if sp.issparse(X) else X.sum(0, dtype=np.float64),)


def centre(block: Block, mean: Array) -> Block:
    """The block with the mean taken off its dense rows."""
    X, first = block.rows
    centred = np.subtract(X, mean, out=X) if block.in_place else X - mean
    return block._replace(rows=FeatureRows(centred, first))


def gram(block: Block, state: Any) -> tuple[Any, tuple[Any, ...]]:
    """X'X of the block, in double precision."""
    return state, (gram_matrix(block.rows.X, "gram-columns"),)


def factor_device(X: Array, *, ridge: float, fit_intercept: bool) -> tuple[DenseRows, Factor]:
    """Factor an array of PyTorch or CuPy where it is; as `schirn.linalg.row_space.row_space`."""
    xp = namespace(X)
    (n, d), double = X.shape, xp.float64
    mean = xp.mean(xp.astype(X, double), axis=0) if fit_intercept else None
    centred = X if mean is None else X - xp.astype(mean, X.dtype)
    K = _device_gram(centred.T if d > n else centred)
    if gram_is_accurate(_like_numpy(K), ridge):
        squared, U = xp.linalg.eigh(K)
        keep = squared > float(squared[-1]) * _rounding(max(n, d), X.dtype)
        squared, U = squared[keep], U[:, keep]
        if d > n:
            V, F = None, xp.astype(U * xp.sqrt(squared), X.dtype)
        else:
            V = xp.astype(U, X.dtype)
            F = centred @ V
    else:
        U, s, Vt = xp.linalg.svd(xp.astype(centred, double), full_matrices=False)
        keep = s > float(s[0]) * max(n, d) * eps(s)
        squared = s[keep] ** 2
        V, F = xp.astype(Vt[keep].T, X.dtype), xp.astype(U[:, keep] * s[keep], X.dtype)
    return _device_factor(centred, xp.astype(squared, X.dtype), V, F, mean)


def _device_factor(
    centred: Array, eigenvalues: Array, V: Array | None, F: Array, mean: Array | None
) -> tuple[DenseRows, Factor]:
    xp, n = namespace(F), F.shape[0]
    penalty = xp.ones_like(eigenvalues)
    rank = eigenvalues.shape[0]
    if mean is not None:
        mean, one = xp.astype(mean, F.dtype), xp.ones_like(eigenvalues[:1])
        eigenvalues, penalty = xp.concat([eigenvalues, n * one]), xp.concat([penalty, 0 * one])
        F = xp.concat([F, xp.ones_like(F[:, :1])], axis=1)

    def coefficients(w: Array) -> tuple[Array, Array]:
        inner = w[:rank]
        if V is None:
            W = centred.T @ (F[:, :rank] @ (inner / eigenvalues[:rank, None]))
        else:
            W = V @ inner
        return W, 0 * w[0] if mean is None else w[-1] - mean @ W

    def leverage(t: float) -> Array:
        return 1 / (eigenvalues + t * penalty)

    return DenseRows(F), Factor(Coordinates(eigenvalues, penalty, n), coefficients, leverage)


def _device_gram(A: Array) -> Array:
    """A'A in double precision, a few rows at a time."""
    xp, d = namespace(A), A.shape[1]
    step = max(1, 16 * _PIECE_CELLS // max(1, d))
    K = xp.zeros((d, d), dtype=xp.float64, device=A.device)
    for i in range(0, A.shape[0], step):
        piece = xp.astype(A[i : i + step], xp.float64)
        K += piece.T @ piece
    return K


def _like_numpy(K: Array) -> Array:
    """The row of largest sums of K, which is all that its accuracy depends on."""
    return to_numpy(namespace(K).sum(abs(K), axis=0))[None, :]


def _rounding(longest: int, dtype: Any) -> float:
    """Ratio of squared singular values at which X, or its Gram matrix, is rounding noise."""
    single = str(dtype).endswith("float32")
    own = np.finfo(np.float32 if single else np.float64).eps
    return max(longest * float(np.finfo(np.float64).eps), (16 * float(own)) ** 2)


def device_bad(X: Array) -> tuple[int, int, float] | None:
    """As for blocks, for an array on a device."""
    xp = namespace(X)
    if bool(xp.isfinite(xp.sum(X))) or bool(xp.all(xp.isfinite(X))):
        return None
    row = int(xp.argmax(xp.astype(xp.any(~xp.isfinite(X), axis=1), xp.int8)))
    values = to_numpy(X[row])
    column = int(np.flatnonzero(~np.isfinite(values))[0])
    return row, column, float(values[column])


def device_float(X: Array) -> Array:
    """X in single or double precision: float32 stays, anything else becomes float64."""
    # Weights that are being trained elsewhere must not be trained from here.
    X = X.detach() if hasattr(X, "detach") else X
    xp = namespace(X)
    return X if X.dtype in (xp.float32, xp.float64) else xp.astype(X, xp.float64)


def near(values: Any, X: Any) -> Any:
    """Weights of a model where X is: on its device, or in main memory."""
    if isinstance(X, np.ndarray) or sp.issparse(X):
        return to_numpy(values)
    if type(values) is type(X) and values.device == X.device and values.dtype == X.dtype:
        return values
    return like(to_numpy(values), X)
