"""Reader for multi-label svmlight files, with or without the header of the XMC repository."""

from __future__ import annotations

import math
import os
from pathlib import Path

import numpy as np
from scipy import sparse

from schirn.datasets._dataset import LARGE_LABELS, Dataset, dataset_from_file
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
    first = 1 if header else 0
    rows = _SparseLines(path)
    for number, line in enumerate(lines[first:], start=first + 1):
        # After a header an empty line is a row without labels and features.
        if header or line.strip():
            rows.add(number, line)
    if not rows.count:
        raise DataError(f"{path}: the file has no rows.")
    if header and header[0] != rows.count:
        raise DataError(
            f"{path}: {rows.count} rows, but the header says {header[0]}; is the file truncated?"
        )
    start = 0 if zero_based or (zero_based is None and (header or rows.has_zero)) else 1
    width = n_features or (header[1] if header else None)
    n_labels = n_labels or (header[2] if header else None)
    X = rows.matrix(rows.values, rows.features, rows.feature_ends, start, width, "feature")
    ones = np.ones(len(rows.labels), dtype=np.uint8)
    y_true = rows.matrix(ones, rows.labels, rows.label_ends, 0, n_labels, "label")
    y_true.data[:] = 1
    small = y_true.shape[0] * y_true.shape[1] <= LARGE_LABELS
    labels = y_true.toarray() if small else y_true
    return dataset_from_file(path, max_bytes, X=X, y_true=labels, zero_based=start == 0)


class _SparseLines:
    """Labels and features, collected line by line."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.labels: list[int] = []
        self.features: list[int] = []
        self.values: list[float] = []
        self.label_ends, self.feature_ends = [0], [0]

    @property
    def count(self) -> int:
        return len(self.label_ends) - 1

    @property
    def has_zero(self) -> bool:
        return 0 in self.features

    def add(self, number: int, line: str) -> None:
        """Parse one line; a line that starts with a feature has no labels."""
        tokens = line.partition("#")[0].split()
        if tokens and ":" not in tokens[0]:
            self.labels.extend(self._label(number, text) for text in tokens.pop(0).split(","))
        for token in tokens:
            index, _, text = token.partition(":")
            try:
                feature, value = int(index), float(text)
            except ValueError:
                feature, value = 0, np.nan
            if not math.isfinite(value) or abs(feature) > MOST:
                raise DataError(
                    f"{self.path}, line {number}: expected index:value, found {token[:40]!r}."
                )
            self.features.append(feature)
            self.values.append(value)
        self.label_ends.append(len(self.labels))
        self.feature_ends.append(len(self.features))

    def _label(self, number: int, text: str) -> int:
        """Return one label index."""
        try:
            label = int(float(text))
        except (ValueError, OverflowError):
            label = -1
        if not 0 <= label <= MOST or label != float(text):
            raise DataError(
                f"{self.path}, line {number}: labels must be whole numbers from 0, "
                f"found {text[:40]!r}."
            )
        return label

    def matrix(
        self,
        values: list[float] | np.ndarray,
        columns: list[int],
        ends: list[int],
        start: int,
        width: int | None,
        what: str,
    ) -> sparse.csr_array:
        """Return a CSR matrix; raise DataError for an index outside the width."""
        indices = np.array(columns, dtype=np.int64) - start
        width = int(indices.max(initial=-1)) + 1 if width is None else width
        wrong = np.flatnonzero((indices < 0) | (indices >= width))
        if len(wrong):
            row = int(np.searchsorted(ends, wrong[0], side="right"))
            raise DataError(
                f"{self.path}, row {row}: {what} {columns[wrong[0]]} is outside the {width} "
                f"{what}s, counted from {start}."
            )
        matrix = sparse.csr_array((values, indices, ends), shape=(self.count, width))
        matrix.sum_duplicates()
        return matrix


def _header(line: str) -> tuple[int, int, int] | None:
    """Return (rows, features, labels) of an XMC header line, or None."""
    tokens = line.split()
    if len(tokens) != 3 or not all(token.isascii() and token.isdigit() for token in tokens):
        return None
    # A longer number is not a size; the first row then contradicts it.
    rows, features, labels = (int(t) if len(t) <= 18 else MOST for t in tokens)
    return rows, features, labels
