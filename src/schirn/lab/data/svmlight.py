"""Reader for multi-label svmlight files, with or without the header of the XMC repository."""

from __future__ import annotations

import math
import os
from pathlib import Path

import numpy as np
from scipy import sparse

from schirn.datasets.dataset import Dataset, dataset_from_file, densified, errors_named
from schirn.exceptions import DataError
from schirn.tables.text import read_text

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
    lines = read_text(path, max_bytes).removesuffix("\n").split("\n")
    header = _header(lines[0])
    labels: list[list[int]] = []
    features: list[list[int]] = []
    values: list[float] = []
    with errors_named(path):
        for number, line in enumerate(lines, start=1):
            # After a header an empty line is a row without labels and features.
            if (header and number > 1) or (not header and line.strip()):
                with errors_named(f"line {number}"):
                    row_labels, row = _parse(line)
                labels.append(row_labels)
                features.append(list(row))
                values.extend(row.values())
        if not labels:
            raise DataError("the file has no rows.")
        if header and header[0] != len(labels):
            raise DataError(
                f"{len(labels)} rows, but the header says {header[0]}; is the file truncated?"
            )
        has_zero = any(0 in row for row in features)
        start = 0 if zero_based or (zero_based is None and (header or has_zero)) else 1
        sizes = header or (None, None, None)
        X = _matrix(values, features, start, n_features or sizes[1], "feature")
        ones = np.ones(sum(map(len, labels)), dtype=np.uint8)
        y_true = densified(_matrix(ones, labels, 0, n_labels or sizes[2], "label"))
        return dataset_from_file(path, max_bytes, X=X, y_true=y_true, zero_based=start == 0)


def _header(line: str) -> tuple[int, int, int] | None:
    """Return (rows, features, labels) of an XMC header line, or None."""
    tokens = line.split()
    if len(tokens) != 3 or not all(token.isascii() and token.isdigit() for token in tokens):
        return None
    # A longer number is not a size; the first row then contradicts it.
    rows, features, labels = (int(t) if len(t) <= 18 else MOST for t in tokens)
    return rows, features, labels


def _parse(line: str) -> tuple[list[int], dict[int, float]]:
    """Return the labels and the features of a line; one that starts with a feature has no labels.

    The values of a repeated feature add up.
    """
    tokens = line.partition("#")[0].split()
    labels = set()
    for text in tokens.pop(0).split(",") if tokens and ":" not in tokens[0] else []:
        try:
            label = int(float(text))
        except (ValueError, OverflowError):
            label = -1
        if not 0 <= label <= MOST or label != float(text):
            raise DataError(f"labels must be whole numbers from 0, found {text[:40]!r}.")
        labels.add(label)
    row: dict[int, float] = {}
    for token in tokens:
        index, _, text = token.partition(":")
        try:
            feature, value = int(index), float(text)
        except ValueError:
            feature, value = 0, np.nan
        if not math.isfinite(value) or abs(feature) > MOST:
            raise DataError(f"expected index:value, found {token[:40]!r}.")
        row[feature] = row.get(feature, 0.0) + value
    return sorted(labels), row


def _matrix(
    values: list[float] | np.ndarray,
    rows: list[list[int]],
    start: int,
    width: int | None,
    what: str,
) -> sparse.csr_array:
    """Return a CSR matrix; raise DataError for an index outside the width."""
    indptr = np.cumsum([0, *map(len, rows)])
    indices = np.array([index for row in rows for index in row], dtype=np.int64) - start
    width = int(indices.max(initial=-1)) + 1 if width is None else width
    wrong = np.flatnonzero((indices < 0) | (indices >= width))
    if len(wrong):
        row = int(np.searchsorted(indptr, wrong[0], side="right"))
        raise DataError(
            f"row {row}: {what} {indices[wrong[0]] + start} is outside the {width} {what}s, "
            f"counted from {start}."
        )
    matrix = sparse.csr_array((values, indices, indptr), shape=(len(rows), width))
    matrix.sort_indices()
    return matrix
