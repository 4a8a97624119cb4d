"""Reading what callers hand in: arrays, sparse matrices and tables, in row blocks."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from schirn.exceptions import InputError

Array = npt.NDArray[Any]

# One block of float64 takes 8 MiB; a metric holds about ten of them at a time.
BLOCK_CELLS = 2**20


def choice(name: str, value: Any, allowed: Sequence[str]) -> None:
    """Refuse an option that is not one of `allowed`."""
    if not isinstance(value, str) or value not in allowed:
        raise InputError(f"{name} is {value!r}; use one of {', '.join(map(repr, allowed))}.")


def as_matrix(values: Any, name: str) -> Any:
    """Two-dimensional numeric ndarray or CSR array; one dimension becomes one column."""
    if sparse.issparse(values):
        matrix = sparse.csr_array(values)
    else:
        try:
            matrix = np.asarray(values)
            if matrix.dtype == object:
                matrix = matrix.astype(float)
        except (TypeError, ValueError) as error:
            raise InputError(
                f"{name} is not a table of numbers with one row per item and one column per label; "
                f"hand in an array, a CSR matrix or a DataFrame ({error})."
            ) from error
        if matrix.ndim == 1:
            matrix = matrix.reshape(-1, 1)
    if matrix.ndim != 2:
        raise InputError(f"{name} has shape {matrix.shape}; use one row per item, one column each.")
    if matrix.dtype.kind not in "biuf":
        raise InputError(f"{name} has dtype {matrix.dtype}; hand in numbers.")
    return matrix


def same_table(first: Any, second: Any, names: tuple[str, str]) -> tuple[Any, Any]:
    """Both inputs as matrices, after checking that rows and columns belong together."""
    a, b = as_matrix(first, names[0]), as_matrix(second, names[1])
    if a.shape != b.shape:
        raise InputError(
            f"{names[0]} has shape {a.shape} but {names[1]} has shape {b.shape}; "
            "hand in the same rows and labels for both."
        )
    _same_columns(first, second, names)
    return a, b


def _same_columns(first: Any, second: Any, names: tuple[str, str]) -> None:
    """Refuse two DataFrames whose columns are not in the same order."""
    if not (hasattr(first, "columns") and hasattr(second, "columns")):
        return
    for column, (a, b) in enumerate(zip(first.columns, second.columns, strict=True)):
        if a != b:
            raise InputError(
                f"column {column} is {a!r} in {names[0]} but {b!r} in {names[1]}; "
                "put the labels of both in the same order."
            )


def blocks(*matrices: Any) -> Iterator[tuple[int, tuple[Array, ...]]]:
    """First row and dense blocks of all matrices, together, from top to bottom."""
    n_rows, n_columns = matrices[0].shape
    step = max(1, BLOCK_CELLS // max(1, n_columns))
    for start in range(0, n_rows, step):
        parts = [matrix[start : start + step] for matrix in matrices]
        yield start, tuple(p.toarray() if sparse.issparse(p) else p for p in parts)


def as_bool(block: Array, name: str, start: int) -> npt.NDArray[np.bool_]:
    """Turn a block of 0 and 1 into booleans."""
    if block.dtype == bool:
        return block
    truth = block == 1
    wrong = ~(truth | (block == 0))
    if wrong.any():
        row, column = np.argwhere(wrong)[0]
        raise InputError(
            f"{name} holds {block[row, column].item()!r} at row {start + row}, column {column}; "
            "use only 0 and 1."
        )
    return truth


def refuse_nan(block: Array, name: str, start: int) -> None:
    """Refuse a block with a missing value, saying where it is."""
    if block.dtype.kind != "f":
        return
    missing = np.isnan(block)
    if missing.any():
        row, column = np.argwhere(missing)[0]
        raise InputError(
            f"{name} is NaN at row {start + row}, column {column}; replace missing scores first."
        )


def as_weights(sample_weight: Any, n_rows: int) -> npt.NDArray[np.float64] | None:
    """Row weights as floats, or None."""
    if sample_weight is None:
        return None
    try:
        weights = np.asarray(sample_weight, dtype=float)
    except (TypeError, ValueError) as error:
        raise InputError(f"sample_weight is not a list of numbers ({error}).") from error
    if weights.shape != (n_rows,):
        raise InputError(
            f"sample_weight has shape {weights.shape} but there are {n_rows} rows; "
            "give one weight per row."
        )
    bad = ~(np.isfinite(weights) & (weights >= 0))
    if bad.any():
        row = int(np.argmax(bad))
        raise InputError(
            f"sample_weight is {weights[row].item()!r} at row {row}; use finite weights >= 0."
        )
    return weights
