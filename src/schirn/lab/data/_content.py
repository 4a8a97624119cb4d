"""Shared by all readers: checked labels and features, and errors that name the file."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from schirn._files import byte_limit, too_large
from schirn._text import base_name
from schirn.datasets import Dataset
from schirn.exceptions import DataError, InputError
from schirn.labels.matrix import as_binary

# A 0/1 matrix with more cells is kept as CSR: 50 MB as bytes, 400 MB as floats.
LARGE_LABELS = 50_000_000

# Bytes per label (name, column and model), so that a number in a file cannot create millions.
LABEL_BYTES = 1024


def dataset_from_file(path: Path, max_bytes: int | None = None, **content: Any) -> Dataset:
    """Return a data set named after its file; errors about its content name the file.

    Raises DataError if the labels would exceed the size limit.
    """
    limit = byte_limit(max_bytes)
    for name in ("y_true", "candidates"):
        labels = content.get(name)
        if labels is not None and labels.shape[1] * LABEL_BYTES > limit:
            needed = f"{labels.shape[1]:,} labels of {LABEL_BYTES} bytes each"
            raise DataError(f"{path}: {too_large(needed, limit)}", parameter="max_bytes")
    with errors_named(path):
        return Dataset(name=base_name(path), **content)


@contextmanager
def errors_named(where: object) -> Iterator[None]:
    """Put a file or a line in front of the messages of errors that do not name it yet."""
    try:
        yield
    except DataError as error:
        if str(error).startswith(str(where)):
            raise
        raise DataError(f"{where}: {error}", parameter=error.parameter) from None


def label_matrix(values: Any, where: str) -> Any:
    """Return 0/1 labels as uint8, dense or (large or already sparse) CSR; -1 counts as 0."""
    if np.ndim(values) != 2:
        shape = np.shape(values)
        raise DataError(f"{where} must be a matrix (rows × labels), not of shape {shape}.")
    try:
        labels = as_binary(values, where, signed=True)
    except InputError as error:
        raise DataError(str(error)) from None
    return sparse.csr_array(labels) if math.prod(labels.shape) > LARGE_LABELS else labels


def densified(labels: Any) -> Any:
    """Return a sparse label matrix as an array, unless it is too large."""
    if sparse.issparse(labels) and math.prod(labels.shape) <= LARGE_LABELS:
        return labels.toarray()
    return labels
