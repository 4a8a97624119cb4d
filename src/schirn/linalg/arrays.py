"""Array libraries that solvers run on: NumPy, and PyTorch and CuPy through the array API standard.

A solver asks for the namespace of its input and writes each formula once. This module adds what
the standard lacks: conversion between libraries, and products of a few cells with a dense matrix.
"""

import mmap
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp

from schirn._optional import optional
from schirn.exceptions import InputError

# NumPy's A A' exploits symmetry by itself; elsewhere small products are not worth a loop.
_STRIPED = 256
_STRIPES = 8
# For fewer labels, splitting a matrix into halves takes longer than a product saves.
_HALVES = 512
# Numbers of a block of rows: 32 MB in double precision.
BLOCK_CELLS = 2**22
# Cells of a piece of a matrix that is multiplied in half precision.
_PIECE = 2**24

Array = Any
"""A two-dimensional array of NumPy, PyTorch or CuPy."""


def namespace(*arrays: Any) -> Any:
    """The functions for these arrays: `numpy`, or the library of the first foreign array.

    >>> namespace(np.zeros(2)) is np
    True
    """
    for array in arrays:
        if not isinstance(array, np.ndarray | np.generic | int | float) and not sp.issparse(array):
            compat = optional("array_api_compat", "gpu", "arrays that are not NumPy's")
            return compat.array_namespace(array)
    return np


def is_device_array(X: Any) -> bool:
    """Return True for an array of PyTorch or CuPy.

    >>> is_device_array(np.zeros(2))
    False
    """
    return type(X).__module__.partition(".")[0] in ("torch", "cupy")


def to_numpy(A: Any) -> np.ndarray:
    """A copy in main memory, or A itself if it is a NumPy array."""
    if type(A).__module__.partition(".")[0] == "torch":
        return A.detach().cpu().numpy()
    return A.get() if hasattr(A, "get") else np.asarray(A)


def like(values: Any, other: Array, dtype: Any = None) -> Array:
    """`values` as an array of the library and on the device of `other`.

    The result has the type of `other`, or `dtype`; dtype "own" keeps the type of the values.
    """
    own = isinstance(dtype, str) and dtype == "own"
    if isinstance(other, np.ndarray):
        return np.asarray(values, dtype=None if own else dtype or other.dtype)
    xp = namespace(other)
    kind = None if own else dtype or other.dtype
    return xp.asarray(values, dtype=kind, device=other.device)


def entries(values: Array, index: Array) -> Array:
    """Entries of a flat array at indices of at least 0.

    `take` of the standard first looks for negative indices, and NumPy's indexing is slow.

    >>> entries(np.array([5, 6, 7]), np.array([2, 0]))
    array([7, 5])
    """
    return values.take(index) if isinstance(values, np.ndarray) else values[index]


def cell_rows(indptr: np.ndarray, other: Array) -> Array:
    """Row of every cell of a CSR matrix, on the device of `other`.

    >>> cell_rows(np.array([0, 2, 2, 3]), np.zeros(0))
    array([0, 0, 2])
    """
    if isinstance(other, np.ndarray):
        return np.repeat(np.arange(len(indptr) - 1), np.diff(indptr))
    xp = namespace(other)
    cells = xp.arange(int(indptr[-1]), device=other.device)
    return xp.searchsorted(like(indptr, cells), cells, side="right") - 1


def flat_cells(Y: sp.csr_array, other: Array) -> Array:
    """Positions of the stored cells in a flattened (n, l) array, on the device of `other`.

    >>> flat_cells(sp.csr_array([[0, 1], [1, 1]]), np.zeros(0))
    array([1, 2, 3])
    """
    return cell_rows(Y.indptr, other) * Y.shape[1] + like(Y.indices, other, "own")


def rows_per_block(width: int) -> int:
    """Number of rows of `width` numbers that are handled at a time."""
    return max(1, BLOCK_CELLS // max(1, width))


def row_slices(n: int, width: int) -> list[slice]:
    """Slices of n rows of `width` numbers, each a block.

    >>> row_slices(5, BLOCK_CELLS // 3)
    [slice(0, 3, None), slice(3, 5, None)]
    """
    step = rows_per_block(width)
    return [slice(i, min(i + step, n)) for i in range(0, n, step)]


def row_pieces(X: Any, step: int | None = None) -> Iterator[tuple[int, Any]]:
    """First row and rows of each piece of X, by default a block.

    Pages of a file are released after use.

    >>> [(first, piece.shape) for first, piece in row_pieces(np.zeros((5, 2)), 3)]
    [(0, (3, 2)), (3, (2, 2))]
    """
    step = rows_per_block(X.shape[1]) if step is None else step
    for i in range(0, max(X.shape[0], 1), step):
        piece = X[i : i + step]
        yield i, piece
        release(piece)


def release(A: Any) -> None:
    """Take the pages of an array that is mapped from a file out of memory; the file keeps them."""
    base = A
    while isinstance(base, np.ndarray) and not isinstance(base, np.memmap):
        base = base.base
    # A mapping in mode "c" keeps what was written in memory alone.
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
    """`values`, such as the weights of a model, on the device of X or in main memory."""
    if isinstance(X, np.ndarray) or sp.issparse(X):
        return to_numpy(values)
    if type(values) is type(X) and values.device == X.device and values.dtype == X.dtype:
        return values
    return like(to_numpy(values), X)


def eps(A: Array) -> float:
    """The rounding unit of the type of A."""
    return float(namespace(A).finfo(A.dtype).eps)


def symmetric_product(A: Array, B: Array) -> Array:
    """A B where it is known to be symmetric; stripes skip most of the lower half.

    >>> A = np.array([[1.0, 2.0], [3.0, 4.0]])
    >>> symmetric_product(A, A.T)
    array([[ 5., 11.],
           [11., 25.]])
    """
    xp, l = namespace(A), A.shape[0]
    if xp is np or l < _STRIPED:
        return A @ B
    width = -(-l // _STRIPES)
    out = xp.empty((l, l), dtype=A.dtype, device=A.device)
    for i in range(0, l, width):
        out[i : i + width, i:] = A[i : i + width] @ B[:, i:]
        out[i:, i : i + width] = out[i : i + width, i:].T
    return out


def near_identity_product(A: Array, scale: float, B: Array, out: Array | None = None) -> Array:
    """A B for an A near `scale` times the identity.

    A GPU computes a large (A - scale I) B by `product_by_halves`, unless it is allowed to use TF32,
    which is faster. That product is small, and so are its errors beside those of scale B.

    >>> near_identity_product(np.array([[1.0, 0.2], [0.2, 1.0]]), 1.0, np.eye(2))
    array([[1. , 0.2],
           [0.2, 1. ]])
    """
    xp, l = namespace(B), A.shape[0]
    split = l >= _HALVES and multiplies_halves(B)
    if not split or _torch().backends.cuda.matmul.allow_tf32:
        return xp.matmul(A, B, out=out)
    return product_by_halves(A - scale * xp.eye(l, dtype=A.dtype, device=A.device), B, scale, out)


def multiplies_halves(A: Array) -> bool:
    """Return True if `product_by_halves` works for arrays like A, and pays."""
    if not on_gpu(A) or str(A.dtype) != "torch.float32":
        return False
    return "dtype" in _torch().ops.aten.mm.overloads()


def product_by_halves(A: Array, B: Array, shift: float = 0.0, out: Array | None = None) -> Array:
    """A B + shift B, with A B to four or five digits, from products in half precision, for PyTorch.

    A GPU multiplies half precision ten times faster than single precision. Each factor is split
    into a high and a low half, and A B is the sum of three products; that of the two low halves is
    too small to count. The GPU cuts sums off rather than rounds them, which costs the other digits.
    """
    torch = _torch()
    (l, k), n = A.shape, B.shape[1]
    options = {"dtype": torch.float16, "device": B.device}
    # Half precision is fast for sizes that are multiples of 8, and pieces should stay in the cache.
    k8, step = -(-k // 8) * 8, -(-max(1, min(n, _PIECE // k)) // 64) * 64
    scale_A, scale_B = _power_above(A), _power_above(B)
    left, right = torch.zeros(l, 3, k8, **options), torch.zeros(3, k8, step, **options)
    high = left[:, 0, :k].copy_(A / scale_A)
    left[:, 1, :k] = high
    left[:, 2, :k] = A / scale_A - high
    out = torch.empty(l, n, dtype=B.dtype, device=B.device) if out is None else out
    for i in range(0, n, step):
        piece = B[:, i : i + step]
        scaled, m = piece / scale_B, piece.shape[1]
        high = right[0, :k, :m].copy_(scaled)
        torch.sub(scaled, high, out=right[1, :k, :m])
        right[2, :k, :m] = high
        product = _mm(left.reshape(l, -1), right.reshape(-1, step))[:, :m]
        if shift:
            torch.add(shift * piece, product, alpha=scale_A * scale_B, out=out[:, i : i + m])
        else:
            torch.mul(product, scale_A * scale_B, out=out[:, i : i + m])
    return out


def _power_above(A: Array) -> float:
    """The smallest power of two that no entry of A exceeds."""
    largest = float(namespace(A).linalg.vector_norm(A, ord=np.inf))
    return 2.0 ** np.ceil(np.log2(largest)) if 0 < largest < np.inf else 1.0


def _mm(A: Array, B: Array) -> Array:
    """A B in single precision for factors in half precision."""
    torch = _torch()
    return torch.mm(A, B, out_dtype=torch.float32) if on_gpu(A) else A.float() @ B.float()


def on_gpu(A: Array) -> bool:
    """Return True if A lies on a GPU."""
    kind = type(A).__module__.partition(".")[0]
    return kind == "cupy" or (kind == "torch" and A.device.type != "cpu")


def cells_product(labels: Array, rows: Array, values: Array, F: Array, n_labels: int) -> Array:
    """B'F for the n x l matrix B that holds `values` at (rows, labels) and is 0 elsewhere.

    The cells are sorted by label, so the order of summation is fixed in all libraries.

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
    torch = _torch()
    with warnings.catch_warnings():
        # PyTorch calls its CSR format beta; tests check the one product used here. Some releases
        # also warn that they do not check the cells, although they were asked not to.
        warnings.filterwarnings("ignore", message="Sparse (CSR tensor support|invariant checks)")
        B = torch.sparse_csr_tensor(starts, rows, values, shape, check_invariants=False)
    return B @ F


def _torch() -> Any:
    return optional("torch", "deep", "PyTorch arrays")


def pick_device(torch: Any, device: str) -> str:
    """Return the PyTorch device to use; "auto" is a GPU if one is available."""
    there = torch.cuda.is_available()
    if device == "cuda" and not there:
        raise InputError(
            "device='cuda' was asked for, but PyTorch sees no CUDA device here; "
            "use device='auto' or 'cpu'",
            parameter="device",
        )
    return ("cuda" if there else "cpu") if device == "auto" else device
