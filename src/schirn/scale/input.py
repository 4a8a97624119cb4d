"""Input validation for rows outside main memory: location, layout and candidates."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from schirn._input import are_usable, bad_value, first_bad, largest_value, location
from schirn.exceptions import InputError
from schirn.labels.matrix import (
    as_binary,
    as_labels,
    check_empty_rows,
    column_names,
    distinct_names,
)
from schirn.linalg.arrays import Array, is_device_array, like, namespace, on_gpu, to_numpy
from schirn.scale.blocks import Block, Layout

# Types of dense candidates that all device libraries can compare.
_DEVICE_TYPES = ("bool", "int8", "uint8", "int32", "int64", "float32", "float64")


def check_in_memory(name: str, X: Any) -> None:
    """Raise InputError for rows in files or on a GPU, which the method `name` does not support.

    Parameters
    ----------
    name : str
        Name of the method, for the error message.
    X : rows in any location
        Features of the rows.

    Raises
    ------
    InputError
    """
    if location(X) == "files":
        where = "in files"
        remedy = "load them"
    elif is_device_array(X) and on_gpu(X):
        where = "on a GPU"
        remedy = "copy them there (X.cpu() or X.get())"
    else:
        return
    raise InputError(
        f"{name} works in main memory, but the rows are {where}; {remedy}, or use a method that "
        f"trains where the rows are: Schirn or Sieve"
    )


def check_device_rows(model: Any, X: Array, reset: bool = False) -> Array:
    """Validate X on a device; float32 stays, any other type becomes float64.

    Parameters
    ----------
    model : PartialMultiLabelClassifier
        The method that gets X.
    X : (n, d) array on a device
        Features of the rows.
    reset : bool, default=False
        False compares the number of features with `fit`.

    Returns
    -------
    (n, d) array of floats
    """
    if X.ndim != 2 or 0 in X.shape:
        raise InputError(f"X must have rows and columns, got shape {tuple(X.shape)}")
    if not str(getattr(X, "layout", "strided")).endswith("strided"):
        raise InputError(
            f"sparse tensors ({X.layout}) are not supported; pass X.to_dense(), or a SciPy CSR "
            f"matrix, which is used in main memory"
        )
    if not reset and X.shape[1] != model.n_features_in_:
        raise InputError(
            f"X has {X.shape[1]} features, but {type(model).__name__} is expecting "
            f"{model.n_features_in_} features as input"
        )
    # Detached, so that no gradients flow into the network that computed X.
    X = X.detach() if hasattr(X, "detach") else X
    xp = namespace(X)
    X = X if X.dtype in (xp.float32, xp.float64) else xp.astype(X, xp.float64)
    dtype = "float32" if X.dtype == xp.float32 else "float64"
    fits = xp.abs(X) < largest_value(dtype, X.shape[0])
    if not bool(xp.all(fits)):
        row = int(xp.argmax(xp.astype(xp.any(~fits, axis=1), xp.int8)))
        values = to_numpy(X[row])
        column = int(xp.argmax(xp.astype(~fits[row], xp.int8)))
        raise bad_value(row, column, float(values[column]))
    return X


@dataclass(frozen=True, eq=False)
class BlockSummary:
    """Sizes, type and problems of a block."""

    n: int
    d: int
    dtype: str
    sparse: bool
    bad: tuple[int, int, float] | None
    """Row, column and value of the first entry that is not finite or too large."""
    n_labels: int
    empty: np.ndarray
    """Rows without candidates."""


def summarise(block: Block, state: Any) -> BlockSummary:
    """Summarise a block in one pass over its rows.

    Parameters
    ----------
    block : Block
        The block.
    state : object
        Not used.

    Returns
    -------
    BlockSummary
    """
    X = block.rows.X
    first = block.rows.first
    n, l = block.cells.shape
    empty = first + np.flatnonzero(np.bincount(block.cells.row, minlength=n) == 0)
    bad = None
    if not are_usable(X):
        row, column, value = first_bad(X)
        bad = first + row, column, value
    return BlockSummary(n, X.shape[1], X.dtype.name, sp.issparse(X), bad, l, empty)


def check_blocks(blocks: list[BlockSummary]) -> Layout:
    """Raise InputError for inconsistent or unusable blocks; return the layout.

    Parameters
    ----------
    blocks : list of BlockSummary
        Summary of each block.

    Returns
    -------
    Layout
    """
    first = blocks[0]
    for k, block in enumerate(blocks):
        if (block.d, block.sparse, block.n_labels) != (first.d, first.sparse, first.n_labels):
            raise InputError(
                f"block {k} has {block.d} features and {block.n_labels} labels "
                f"({'sparse' if block.sparse else 'dense'}), but block 0 has {first.d} and "
                f"{first.n_labels} ({'sparse' if first.sparse else 'dense'}); blocks must agree"
            )
        if block.bad is not None:
            raise bad_value(*block.bad)
    n = sum(block.n for block in blocks)
    empty = np.concatenate([block.empty for block in blocks])
    check_empty_rows(empty, (n, first.n_labels))
    # Compared as names: "float64" is larger than "float32".
    dtype = np.dtype(max(block.dtype for block in blocks))
    return Layout(n, first.d, dtype, first.sparse)


def sparse_candidates(y: Any, names: Any, X: Any = None) -> tuple[sp.csr_array, list[str]]:
    """Return candidates in any container as CSR of uint8, and the label names.

    Dense candidates of rows X on a device are searched there.

    Parameters
    ----------
    y : candidates in any container
        Candidates of the rows.
    names : list of str or None
        Names of the labels.
    X : array, optional
        Rows on a device.

    Returns
    -------
    Y : (n, l) CSR array
    names : list of str
    """
    if X is not None and (is_device_array(y) or isinstance(y, np.ndarray)) and y.ndim == 2:
        listed = _listed_on_device(y, X)
        if listed is not None:
            return listed, column_names(y.shape[1], distinct_names(names), "candidates")
    if is_device_array(y):
        y = to_numpy(y)
    if sp.issparse(y):
        known = distinct_names(names)
        Y = as_binary(y, "the candidates", names=known)
        return Y, column_names(Y.shape[1], known, "candidates")
    labels = as_labels(y, names=names)
    return sp.csr_array(labels.matrix), labels.names


def _listed_on_device(y: Array, X: Array) -> sp.csr_array | None:
    """Return a 0/1 array as CSR; None if it is empty, or its type or values are unsupported."""
    if 0 in y.shape or str(y.dtype).removeprefix("torch.") not in _DEVICE_TYPES:
        return None
    xp = namespace(X)
    y = like(y, X, "own")
    listed = y != 0
    if not bool(xp.all(y == listed)):
        return None
    label = to_numpy(xp.astype(xp.nonzero(listed)[1], xp.int32))
    indptr = np.concatenate([[0], np.cumsum(to_numpy(xp.sum(listed, axis=1)))])
    ones = np.ones(len(label), dtype=np.uint8)
    return sp.csr_array((ones, label, indptr), shape=y.shape)


def block_candidates(Y: Any, first: int) -> Any:
    """Return the candidates of one block as CSR; errors name the first row of the block.

    Parameters
    ----------
    Y : candidates in any container
        Candidates of the block.
    first : int
        Index of the first row of the block.

    Returns
    -------
    (n, l) CSR array
    """
    try:
        return sparse_candidates(Y, None)[0]
    except InputError as error:
        raise InputError(f"in the candidates from row {first} on: {error}") from None
