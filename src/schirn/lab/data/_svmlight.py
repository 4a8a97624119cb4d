"""Reader for multi-label svmlight files, with or without the header of the XMC repository."""

from __future__ import annotations

import io
import os
from pathlib import Path

import numpy as np
from scipy import sparse
from sklearn.datasets import load_svmlight_file

from schirn._files import reason_of
from schirn._text import read_text
from schirn.datasets import Dataset
from schirn.exceptions import DataError
from schirn.lab.data._content import dataset_from_file, densified, errors_named

# Indices above this do not fit into the arrays that hold them.
MOST = 2**62


def read_svmlight(
    path: str | os.PathLike[str],
    *,
    n_features: int | None = None,
    n_labels: int | None = None,
    zero_based: bool | None = None,
    max_bytes: int | None = None,
) -> Dataset:
    r"""Read lines such as ``1,5,7 3:0.5 9:1``: labels, then features.

    Parameters
    ----------
    path : path
        The first line may be the header "rows features labels" of the XMC repository.
    n_features, n_labels : int, optional
        Number of columns; by default from the header, else from the largest index.
    zero_based : bool, optional
        Whether features are counted from 0; by default with a header, or if the index 0 occurs.
        Labels are always counted from 0.
    max_bytes : int, optional
        Larger files raise DataError; by default ``SCHIRN_MAX_BYTES``, else 8 GiB.

    Returns
    -------
    Dataset

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from schirn.datasets import read_svmlight
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "tiny.svm")
    ...     _ = path.write_text("2 4 3\n0,2 1:0.5 3:1\n1 0:2\n")
    ...     read_svmlight(path)
    Dataset('tiny', n=2, d=4, l=3, sparse, y_true)
    """
    path = Path(path)
    text = read_text(path, max_bytes)
    header = _header(text.partition("\n")[0])
    if header:
        text = text.partition("\n")[2]
    sizes = header or (None, None, None)
    with errors_named(path):
        if not text.strip():
            raise DataError("the file has no rows.")
        try:
            X, labels = load_svmlight_file(
                io.BytesIO(text.encode()), multilabel=True, zero_based=True
            )
        except (ValueError, OverflowError) as error:
            raise DataError(f"not a file of svmlight rows ({reason_of(error)}).") from None
        if header and header[0] != X.shape[0]:
            raise DataError(
                f"{X.shape[0]} rows, but the header says {header[0]}; is the file truncated, or "
                "does it have empty lines?"
            )
        if not np.isfinite(X.data).all():
            raise DataError("a feature is not a finite number.")
        has_zero = bool((X.indices == 0).any())
        start = 0 if zero_based or (zero_based is None and (header or has_zero)) else 1
        X = _matrix(X.data, X.indices, X.indptr, start, n_features or sizes[1], "feature")
        indptr = np.cumsum([0, *map(len, labels)])
        numbers = np.array([label for row in labels for label in row], dtype=float)
        wrong = (numbers < 0) | (numbers > MOST) | (numbers != np.floor(numbers))
        if wrong.any():
            raise DataError(f"labels must be whole numbers from 0, found {numbers[wrong][0]:g}.")
        ones = np.ones(len(numbers), dtype=np.uint8)
        Y = _matrix(ones, numbers, indptr, 0, n_labels or sizes[2], "label")
        Y.data[:] = 1
        return dataset_from_file(path, max_bytes, X=X, y_true=densified(Y), zero_based=start == 0)


def _header(line: str) -> tuple[int, int, int] | None:
    """Return (rows, features, labels) of an XMC header line, or None."""
    tokens = line.split()
    if len(tokens) != 3 or not all(token.isascii() and token.isdigit() for token in tokens):
        return None
    # A longer number is not a size; the first row then contradicts it.
    rows, features, labels = (int(t) if len(t) <= 18 else MOST for t in tokens)
    return rows, features, labels


def _matrix(
    values: np.ndarray,
    numbers: np.ndarray,
    indptr: np.ndarray,
    start: int,
    width: int | None,
    what: str,
) -> sparse.csr_array:
    """Return a CSR matrix; raise DataError for an index outside the width."""
    indices = numbers.astype(np.int64) - start
    width = int(indices.max(initial=-1)) + 1 if width is None else width
    wrong = np.flatnonzero((indices < 0) | (indices >= width))
    if len(wrong):
        row = int(np.searchsorted(indptr, wrong[0], side="right"))
        raise DataError(
            f"row {row}: {what} {indices[wrong[0]] + start} is outside the {width} {what}s, "
            f"counted from {start}."
        )
    matrix = sparse.csr_array((values, indices, indptr), shape=(len(indptr) - 1, width))
    matrix.sum_duplicates()
    return matrix
