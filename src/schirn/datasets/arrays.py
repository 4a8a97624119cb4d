"""Features in archives of arrays, as dense or CSR matrices."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from schirn._files import check_sparse, reason_of
from schirn.datasets.dataset import errors_named
from schirn.exceptions import DataError


def features_of(path: Path, arrays: dict[str, np.ndarray]) -> Any:
    """Return X from the dense key or the CSR arrays, or None if the file has neither."""
    with errors_named(path):
        if "X" in arrays:
            if arrays["X"].ndim != 2 or arrays["X"].dtype.kind not in "iufb":
                raise DataError(f"X must be a matrix of numbers, not {arrays['X'].shape}.")
            return arrays["X"]
        keys = ("data", "indices", "indptr", "shape")
        missing = [key for key in keys if key not in arrays]
        if len(missing) == len(keys):
            return None
        if missing:
            raise DataError(f"the sparse features lack the key {missing[0]!r}.")
        data, indices, indptr, shape = (arrays[key] for key in keys)
        if shape.shape != (2,) or shape.dtype.kind not in "iu" or data.dtype.kind not in "iufb":
            raise DataError("the sparse features are not a matrix of numbers.")
        return checked_csr("X", data, indices, indptr, (int(shape[0]), int(shape[1])))


def checked_csr(
    key: str, data: np.ndarray, indices: np.ndarray, indptr: np.ndarray, shape: tuple[int, int]
) -> sparse.csr_array:
    """Return a checked CSR matrix."""
    for name, values in (("indices", indices), ("indptr", indptr)):
        if values.ndim != 1 or values.dtype.kind not in "iu":
            raise DataError(f"{name} of {key} must be a list of whole numbers.")
    try:
        matrix = sparse.csr_array((data, indices, indptr), shape=shape)
        check_sparse(matrix)
    except (ValueError, TypeError, IndexError, OverflowError) as error:
        raise DataError(f"the sparse matrix {key} is damaged ({reason_of(error)}).") from error
    matrix.sort_indices()
    return matrix
