"""Check arrays, sparse matrices and DataFrames, and pass them on in row blocks."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from schirn._input import Array
from schirn.exceptions import InputError
from schirn.labels.matrix import as_binary, as_numbers

# One block of float64 takes 8 MiB; a metric holds about ten of them at a time.
BLOCK_CELLS = 2**20


def as_matrix(values: Any, name: str) -> Any:
    """Return a two-dimensional ndarray or CSR array of numbers; a vector becomes one column."""
    if sparse.issparse(values):
        return sparse.csr_array(values)
    matrix = as_numbers(values, name, "numbers with one row per sample and one column per label")
    matrix = matrix[:, None] if matrix.ndim == 1 else matrix
    if matrix.ndim != 2:
        raise InputError(
            f"{name} has shape {matrix.shape}; give one row per sample and one column per label."
        )
    return matrix


def same_table(first: Any, second: Any, names: tuple[str, str]) -> tuple[Any, Any]:
    """Return both inputs as matrices after checking that their rows and columns agree."""
    a = as_matrix(first, names[0])
    b = as_matrix(second, names[1])
    if a.shape != b.shape:
        raise InputError(
            f"{names[0]} has shape {a.shape} but {names[1]} has shape {b.shape}; "
            "give the same rows and labels for both."
        )
    _same_columns(first, second, names)
    return a, b


def _same_columns(first: Any, second: Any, names: tuple[str, str]) -> None:
    """Raise InputError for two DataFrames whose columns are in a different order."""
    if not (hasattr(first, "columns") and hasattr(second, "columns")):
        return
    for column, (a, b) in enumerate(zip(first.columns, second.columns, strict=True)):
        if a != b:
            raise InputError(
                f"column {column} is {a!r} in {names[0]} but {b!r} in {names[1]}; "
                "put the labels of both in the same order."
            )


def blocks(*matrices: Any) -> Iterator[tuple[int, tuple[Array, ...]]]:
    """Yield the first row number and the dense rows of each block of all matrices."""
    n_rows, n_columns = matrices[0].shape
    step = max(1, BLOCK_CELLS // max(1, n_columns))
    for start in range(0, n_rows, step):
        rows = [matrix[start : start + step] for matrix in matrices]
        yield start, tuple(m.toarray() if sparse.issparse(m) else m for m in rows)


def as_bool(block: Array, name: str, start: int) -> npt.NDArray[np.bool_]:
    """Return a block of 0 and 1, whose first row is row `start` of its matrix, as booleans."""
    if block.dtype == bool:
        return block
    return np.asarray(as_binary(block, name, first_row=start).view(bool))


def refuse_nan(block: Array, name: str, start: int) -> None:
    """Raise InputError for the first missing value of a block."""
    if block.dtype.kind != "f":
        return
    missing = np.isnan(block)
    if missing.any():
        row, column = np.argwhere(missing)[0]
        raise InputError(
            f"{name} is NaN at row {start + row}, column {column}; replace missing scores first."
        )
