"""Support for several array libraries: NumPy, and PyTorch and CuPy through the array API standard.

A solver gets the namespace of its input and writes each formula once. This module adds what the
standard lacks: conversion between libraries, and products of a few cells with a dense matrix.
"""

import mmap
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import numpy as np
import scipy.sparse as sp
from threadpoolctl import ThreadpoolController

from schirn._optional import optional
from schirn.exceptions import InputError

# Size of a block of rows in numbers: 32 MB in double precision. Blocks on devices are larger by the
# factor below, for fewer kernel launches.
BLOCK_CELLS = 2**22
_DEVICE_BLOCKS = 16
# A product with fewer operations is done before a second thread has started.
_SMALL_PRODUCT = 2e7
# Cache of namespaces by array type: looking one up takes as long as a small product.
_LIBRARIES: dict[type, Any] = {np.ndarray: np}

Array = Any
"""A two-dimensional array of NumPy, PyTorch or CuPy."""


def namespace(array: Any) -> Any:
    """Return the array namespace of an array: `numpy`, or that of another library.

    Parameters
    ----------
    array : array, sparse matrix or number
        Of NumPy, PyTorch, CuPy or another library that array-api-compat knows.

    Returns
    -------
    module
        Its functions have the names of the array API standard.

    Examples
    --------
    >>> namespace(np.zeros(2)) is np
    True
    """
    kind = type(array)
    if kind not in _LIBRARIES:
        _LIBRARIES[kind] = _library(array)
    return _LIBRARIES[kind]


def _library(array: Any) -> Any:
    """Find the namespace of an array whose type is not cached yet."""
    if isinstance(array, np.ndarray | np.generic | int | float) or sp.issparse(array):
        return np
    compat = optional("array_api_compat", "gpu", "arrays that are not NumPy's")
    return compat.array_namespace(array)


def is_device_array(X: Any) -> bool:
    """Return True for an array of PyTorch or CuPy.

    Parameters
    ----------
    X : object

    Returns
    -------
    bool

    Examples
    --------
    >>> is_device_array(np.zeros(2))
    False
    """
    return type(X).__module__.partition(".")[0] in ("torch", "cupy")


def to_numpy(A: Any) -> np.ndarray:
    """Copy A to main memory; return A itself if it is a NumPy array.

    Parameters
    ----------
    A : array of any library

    Returns
    -------
    ndarray
    """
    if type(A).__module__.partition(".")[0] == "torch":
        return A.detach().cpu().numpy()
    return A.get() if hasattr(A, "get") else np.asarray(A)


def like(values: Any, other: Array, dtype: Any = None) -> Array:
    """Convert `values` to an array of the same library and on the same device as `other`.

    Parameters
    ----------
    values : array-like
    other : array
        Determines library, device and type.
    dtype : dtype, "own" or None
        Type of the result; None takes the type of `other`, "own" keeps that of the values.

    Returns
    -------
    array
    """
    kind = None if isinstance(dtype, str) and dtype == "own" else dtype or other.dtype
    if isinstance(other, np.ndarray):
        return np.asarray(values, dtype=kind)
    xp = namespace(other)
    if isinstance(values, np.ndarray) and hasattr(other, "to"):
        # Otherwise PyTorch would wait for all pending work. The values are read before it returns.
        return xp.asarray(values).to(device=other.device, dtype=kind, non_blocking=True)
    return xp.asarray(values, dtype=kind, device=other.device)


def pick(X: Any, rows: np.ndarray) -> Any:
    """Return the given rows of an array of any library, or of a CSR array.

    Parameters
    ----------
    X : (n, d) array or CSR array
    rows : (m,) ndarray of int

    Returns
    -------
    (m, d) array or CSR array
    """
    if not is_device_array(X):
        return X[rows]
    return namespace(X).take(X, like(rows, X, "own"), axis=0)


def take_cells(S: Array, flat: Array) -> Array:
    """Return entries of an (n, l) array, or of a stack of such arrays, at flat positions.

    Parameters
    ----------
    S : (..., n, l) array
    flat : (c,) array of int
        Positions in a flattened (n, l) array.

    Returns
    -------
    (..., c) array

    Examples
    --------
    >>> take_cells(np.array([[1, 2], [3, 4]]), np.array([3, 0]))
    array([4, 1])
    """
    xp = namespace(S)
    return xp.take(xp.reshape(S, (*S.shape[:-2], -1)), flat, axis=-1)


def dense_part(X: Any) -> Array:
    """Return X, or the stored values of a sparse X, an array that has its type and device."""
    return X.data if sp.issparse(X) else X


def cell_rows(indptr: np.ndarray, other: Array) -> Array:
    """Return the row of every stored cell of a CSR matrix, on the device of `other`.

    Parameters
    ----------
    indptr : (n + 1,) ndarray
        Row pointers of a CSR matrix.
    other : array
        Determines the device.

    Returns
    -------
    (nnz,) array of int

    Examples
    --------
    >>> cell_rows(np.array([0, 2, 2, 3]), np.zeros(0))
    array([0, 0, 2])
    """
    if isinstance(other, np.ndarray):
        return np.repeat(np.arange(len(indptr) - 1), np.diff(indptr))
    xp = namespace(other)
    cells = xp.arange(int(indptr[-1]), device=other.device)
    return xp.searchsorted(like(indptr, cells), cells, side="right") - 1


def flat_cells(Y: sp.csr_array, other: Array) -> Array:
    """Return positions of stored cells in a flattened (n, l) array, on the device of `other`.

    Parameters
    ----------
    Y : (n, l) CSR array
    other : array
        Determines the device.

    Returns
    -------
    (nnz,) array of int

    Examples
    --------
    >>> flat_cells(sp.csr_array([[0, 1], [1, 1]]), np.zeros(0))
    array([1, 2, 3])
    """
    return cell_rows(Y.indptr, other) * Y.shape[1] + like(Y.indices, other, "own")


def rows_per_block(width: int) -> int:
    """Return the number of rows of `width` numbers that make up a block.

    Parameters
    ----------
    width : int

    Returns
    -------
    int
    """
    return max(1, BLOCK_CELLS // max(1, width))


def piece_rows(other: Array, width: int) -> int:
    """Return the number of rows of `width` numbers to multiply at a time, on the device of `other`.

    Parameters
    ----------
    other : array
        Pieces are larger on a device than in main memory, for fewer kernel launches.
    width : int

    Returns
    -------
    int
    """
    factor = 1 if isinstance(other, np.ndarray) else _DEVICE_BLOCKS
    return max(1, factor * BLOCK_CELLS // max(1, width))


def row_slices(n: int, width: int) -> list[slice]:
    """Split n rows of `width` numbers into slices, each of one block.

    Parameters
    ----------
    n : int
    width : int

    Returns
    -------
    list of slice

    Examples
    --------
    >>> row_slices(5, BLOCK_CELLS // 3)
    [slice(0, 3, None), slice(3, 5, None)]
    """
    step = rows_per_block(width)
    return [slice(i, min(i + step, n)) for i in range(0, n, step)]


def row_pieces(X: Any, step: int | None = None) -> Iterator[tuple[int, Any]]:
    """Yield the first row and the rows of each piece of X; a piece is a block by default.

    Memory pages of a mapped file are released after use.

    Parameters
    ----------
    X : (n, d) array
    step : int, optional
        Number of rows of a piece.

    Yields
    ------
    first : int
        Index of the first row of the piece.
    rows : (step, d) array

    Examples
    --------
    >>> [(first, piece.shape) for first, piece in row_pieces(np.zeros((5, 2)), 3)]
    [(0, (3, 2)), (3, (2, 2))]
    """
    step = rows_per_block(X.shape[1]) if step is None else step
    for i in range(0, max(X.shape[0], 1), step):
        piece = X[i : i + step]
        yield i, piece
        release(piece)


def release(A: Any) -> None:
    """Release the memory pages of an array that is mapped from a file.

    Parameters
    ----------
    A : array
        Anything but a memory-mapped array is ignored.
    """
    base = A
    while isinstance(base, np.ndarray) and not isinstance(base, np.memmap):
        base = base.base
    # A mapping in mode "c" keeps changes only in memory, so its pages must not be dropped.
    if not isinstance(base, np.memmap) or base.mode == "c" or not A.flags.c_contiguous:
        return
    pages: Any = base._mmap  # type: ignore[attr-defined]
    if pages is None or not hasattr(pages, "madvise") or not A.size:
        return
    first = np.frombuffer(pages, dtype=np.uint8).__array_interface__["data"][0]
    start = A.__array_interface__["data"][0] - first
    stop = start + A.nbytes
    start -= start % mmap.PAGESIZE
    pages.madvise(mmap.MADV_DONTNEED, start, stop - start)


def near(values: Any, X: Any) -> Any:
    """Move `values`, such as the weights of a model, to the device of X.

    Parameters
    ----------
    values : array
    X : array or sparse matrix

    Returns
    -------
    array of the library and the type of X
    """
    if isinstance(X, np.ndarray) or sp.issparse(X):
        return to_numpy(values)
    if type(values) is type(X) and values.device == X.device and values.dtype == X.dtype:
        return values
    return like(to_numpy(values), X)


def eps(A: Array) -> float:
    """Return the machine epsilon of the type of A.

    Parameters
    ----------
    A : array of floats

    Returns
    -------
    float
    """
    return float(namespace(A).finfo(A.dtype).eps)


def on_gpu(A: Array) -> bool:
    """Return True if A is on a GPU.

    Parameters
    ----------
    A : object

    Returns
    -------
    bool
    """
    kind = type(A).__module__.partition(".")[0]
    return kind == "cupy" or (kind == "torch" and A.device.type != "cpu")


def cells_product(labels: Array, rows: Array, values: Array, F: Array, n_labels: int) -> Array:
    """Return B'F for the n x l matrix B that holds `values` at (rows, labels) and 0 elsewhere.

    The cells must be sorted by label, which fixes the order of summation in all libraries.

    Parameters
    ----------
    labels : (c,) array of int, ascending
    rows : (c,) array of int
    values : (c,) array
    F : (n, r) array, or sparse matrix in main memory
    n_labels : int

    Returns
    -------
    (n_labels, r) array

    Examples
    --------
    >>> F = np.array([[1.0, 2.0], [3.0, 4.0]])
    >>> cells_product(np.array([0, 1]), np.array([1, 0]), np.array([2.0, 1.0]), F, 3)
    array([[6., 8.],
           [1., 2.],
           [0., 0.]])
    """
    shape = (n_labels, F.shape[0])
    if isinstance(F, np.ndarray) or sp.issparse(F):
        starts = np.searchsorted(labels, np.arange(n_labels + 1))
        product = sp.csr_array((values, rows, starts), shape=shape) @ F
        return product.toarray() if sp.issparse(product) else product
    xp = namespace(F)
    starts = xp.searchsorted(xp.asarray(labels, copy=True), like(np.arange(n_labels + 1), labels))
    if type(F).__module__.startswith("torch"):
        return _torch_cells_product(starts, rows, values, F, shape)
    sparse = optional("cupyx.scipy.sparse", "gpu", "CuPy arrays")
    return sparse.csr_matrix((values, rows, starts), shape=shape) @ F


def _torch_cells_product(
    starts: Array, rows: Array, values: Array, F: Array, shape: tuple[int, int]
) -> Array:
    torch = optional("torch", "deep", "PyTorch arrays")
    with warnings.catch_warnings():
        # PyTorch warns that its CSR format is in beta; tests cover the one product used here. Some
        # releases also warn about skipped invariant checks, although skipping was requested.
        warnings.filterwarnings("ignore", message="Sparse (CSR tensor support|invariant checks)")
        B = torch.sparse_csr_tensor(starts, rows, values, shape, check_invariants=False)
    return B @ F


def pick_device(torch: Any, device: str) -> str:
    """Return the PyTorch device to use; "auto" means a GPU if one is available.

    Parameters
    ----------
    torch : module
    device : {"auto", "cpu", "cuda"}

    Returns
    -------
    str

    Raises
    ------
    InputError
        If a GPU is requested and none is available.
    """
    has_gpu = torch.cuda.is_available()
    if device == "cuda" and not has_gpu:
        raise InputError(
            "device='cuda' was requested, but PyTorch finds no CUDA device; "
            "use device='auto' or 'cpu'",
            parameter="device",
        )
    return ("cuda" if has_gpu else "cpu") if device == "auto" else device


@contextmanager
def threads_for(operations: float) -> Iterator[None]:
    """Context manager that limits BLAS to one thread if products have few operations.

    Parameters
    ----------
    operations : float
        Number of multiplications and additions of the smallest product that matters.
    """
    if operations >= _SMALL_PRODUCT:
        yield
        return
    with _controller().limit(limits=1, user_api="blas"):
        yield


@cache
def _controller() -> ThreadpoolController:
    return ThreadpoolController()
