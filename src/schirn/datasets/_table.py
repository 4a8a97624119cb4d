"""Reader for CSV, TSV, Parquet and JSON-lines tables with a column of tags or 0/1 columns."""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from schirn._files import brief, brief_list
from schirn._input import is_missing
from schirn._optional import optional
from schirn.datasets._dataset import LARGE_LABELS, Dataset, dataset_from_file, label_matrix
from schirn.datasets._frame import LABEL_COLUMNS, read_frame
from schirn.exceptions import DataError


def read_table(
    path: str | os.PathLike[str],
    *,
    labels: str | Sequence[str] | None = None,
    truth: str | Sequence[str] | None = None,
    features: Sequence[str] | None = None,
    separator: str = ";",
    label_names: Sequence[str] | None = None,
    max_bytes: int | None = None,
) -> Dataset:
    r"""Read a table whose tags may be wrong: they become the candidates.

    Parameters
    ----------
    path : path
        ``.csv``, ``.tsv``, ``.jsonl``, each also with ``.gz``, or ``.parquet``.
    labels : str or list of str, optional
        One column of tags ("beach;dog", or a list in JSON lines), or several 0/1 columns. By
        default a column called labels, tags, candidates or label.
    truth : str or list of str, optional
        The true labels in the same form, where they are known.
    features : list of str, optional
        Feature columns; by default every numeric column that is not a label, and is not a column
        without a name that numbers the rows, as pandas writes it.
    separator : str
        What stands between two tags.
    label_names : list of str, optional
        All labels in the wanted order; by default those that occur, sorted.
    max_bytes : int, optional
        Larger files are refused; by default ``SCHIRN_MAX_BYTES``, else 8 GiB.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from schirn.datasets import read_table
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "photos.csv")
    ...     _ = path.write_text("red,blue,tags\n1,0,beach;dog\n0,1,dog\n")
    ...     photos = read_table(path)
    >>> photos.label_names, photos.candidates.tolist()
    (['beach', 'dog'], [[1, 1], [0, 1]])
    """
    path = Path(path)
    if not separator:
        raise DataError(
            f"{path}: separator='' is empty; pass what stands between two tags, such as ';'."
        )
    frame = read_frame(path, max_bytes, labels, truth)
    label_columns = _columns(path, frame, _default(path, frame, labels))
    truth_columns = _columns(path, frame, truth) if truth is not None else []
    tags = _Tags(path, frame, separator)
    names = list(label_names) if label_names is not None else []
    if tags.are_text(label_columns):
        every = tags.names([*label_columns, *truth_columns])
        names = names or every
        if not names:
            raise DataError(f"{path}: the column {brief(label_columns[0])} holds no tags.")
        _check_known(path, every, names)
    elif truth_columns and len(truth_columns) != len(label_columns):
        raise DataError(
            f"{path}: {len(label_columns)} label columns but {len(truth_columns)} true."
        )
    names = names or label_columns
    chosen = _feature_columns(path, frame, features, {*label_columns, *truth_columns})
    left_out = [str(c) for c in frame.columns if c not in {*chosen, *label_columns, *truth_columns}]
    return dataset_from_file(
        path,
        max_bytes,
        X=_numbers(path, frame, chosen),
        y_true=tags.matrix(truth_columns, names) if truth_columns else None,
        candidates=tags.matrix(label_columns, names),
        label_names=[str(name) for name in names],
        feature_names=[str(column) for column in chosen],
        description=f"Columns left out: {', '.join(left_out)}." if left_out else "",
    )


class _Tags:
    """Label columns of a table: one column of tags, or one 0/1 column per label."""

    def __init__(self, path: Path, frame: Any, separator: str) -> None:
        self.path, self.frame, self.separator = path, frame, separator

    def are_text(self, columns: list[str]) -> bool:
        """Tell a column of tags from 0/1 columns."""
        return len(columns) == 1 and not _is_numeric(self.frame[columns[0]])

    def names(self, columns: Iterable[str]) -> list[str]:
        """Return all tags that occur, sorted."""
        return sorted({tag for column in columns for tags in self._split(column) for tag in tags})

    def matrix(self, columns: list[str], names: list[str]) -> Any:
        """Return the 0/1 matrix of the columns."""
        if not self.are_text(columns):
            return label_matrix(_numbers(self.path, self.frame, columns), f"{self.path}: labels")
        place = {name: column for column, name in enumerate(names)}
        rows = [sorted({place[tag] for tag in tags}) for tags in self._split(columns[0])]
        indptr = np.cumsum([0, *map(len, rows)])
        indices = np.array([column for row in rows for column in row], dtype=np.int64)
        ones = np.ones(len(indices), dtype=np.uint8)
        matrix = sparse.csr_array((ones, indices, indptr), shape=(len(rows), len(names)))
        return matrix.toarray() if len(rows) * len(names) <= LARGE_LABELS else matrix

    def _split(self, column: str) -> list[list[str]]:
        """Return the tags of each row; an empty or missing cell has none."""
        return [self._cell(value) for value in self.frame[column]]

    def _cell(self, value: Any) -> list[str]:
        if isinstance(value, (list, tuple, np.ndarray)):
            tags = [str(tag) for tag in value if not is_missing(tag)]
        else:
            tags = [] if is_missing(value) else str(value).split(self.separator)
        return [tag.strip() for tag in tags if tag.strip()]


def _default(path: Path, frame: Any, labels: str | Sequence[str] | None) -> str | Sequence[str]:
    """Return the label columns asked for, or the one with a usual name."""
    if labels is not None:
        return labels
    for column in LABEL_COLUMNS:
        if column in frame.columns:
            return column
    raise DataError(
        f"{path}: which column holds the labels? Pass labels=; "
        f"there are {brief_list(frame.columns)}.",
        parameter="labels",
    )


def _columns(path: Path, frame: Any, columns: str | Sequence[str]) -> list[str]:
    """Return a list of columns that exist."""
    if isinstance(columns, int):
        raise DataError(f"{path}: labels of a table are given by column name, not {columns!r}.")
    wanted = [columns] if isinstance(columns, str) else list(columns)
    for column in wanted:
        if column not in frame.columns:
            raise DataError(
                f"{path}: there is no column {column!r}; there are {brief_list(frame.columns)}."
            )
    return wanted


def _feature_columns(
    path: Path, frame: Any, features: Sequence[str] | None, labels: set[str]
) -> list[str]:
    """Return the feature columns."""
    if features is not None:
        return _columns(path, frame, features)
    numeric = [c for c in frame.columns if c not in labels and _is_numeric(frame[c])]
    chosen = [column for column in numeric if not _numbers_rows(frame, column)]
    for column in [c for c in numeric if c not in chosen]:
        warnings.warn(
            f"{path}: the column {brief(column)} has no name and numbers the rows, so it is left "
            f"out; give it a name to learn from it",
            stacklevel=3,
        )
    if not chosen:
        raise DataError(f"{path}: no numeric column is left for the features.")
    return chosen


def _numbers_rows(frame: Any, column: str) -> bool:
    """Tell the index that pandas writes: no name, and a different whole number in each row."""
    if not re.fullmatch(r"(Unnamed: \d+(\.\d+)*)?", column):
        return False
    return frame[column].dtype.kind in "iu" and bool(frame[column].is_unique)


def _numbers(path: Path, frame: Any, columns: list[str]) -> np.ndarray:
    """Return columns as floats; a cell that is no finite number is named."""
    matrix = np.empty((len(frame), len(columns)))
    for place, column in enumerate(columns):
        if not _is_numeric(frame[column]):
            raise DataError(f"{path}: the column {brief(column)} is not numeric.")
        matrix[:, place] = frame[column].to_numpy(dtype=float, na_value=np.nan)
    wrong = np.argwhere(~np.isfinite(matrix))
    if len(wrong):
        row, place = wrong[0]
        raise DataError(
            f"{path}: row {row + 1}, column {brief(columns[place])}: {matrix[row, place]} is not a "
            f"number; fill or remove such cells first."
        )
    return matrix


def _is_numeric(column: Any) -> bool:
    """Tell whether a column holds numbers or truth values."""
    types = optional("pandas", "table", "Reading tables").api.types
    return bool(types.is_numeric_dtype(column) or types.is_bool_dtype(column))


def _check_known(path: Path, found: list[str], names: Sequence[str]) -> None:
    """Raise for a tag that is not in the list of label names."""
    unknown = sorted(set(found) - set(names))
    if unknown:
        raise DataError(f"{path}: the tag {brief(unknown[0])} is not among label_names.")
