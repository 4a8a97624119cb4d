"""Tables of numbers and tags as data sets."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from schirn._entry_points import tool
from schirn._files import brief, brief_list
from schirn._input import Array, is_missing
from schirn._text import to_numbers
from schirn.datasets import Dataset
from schirn.exceptions import DataError, InputError
from schirn.lab.data._content import dataset_from_file, densified, errors_named, label_matrix
from schirn.labels.cells import LABEL_COLUMNS, TagCells


def read_table(
    path: str | os.PathLike[str],
    *,
    labels: str | Sequence[str] | None = None,
    truth: str | Sequence[str] | None = None,
    features: Sequence[str] | None = None,
    separator: str = ";",
    label_names: Sequence[str] | None = None,
    encoding: str = "utf-8",
    delimiter: str | None = None,
    max_bytes: int | None = None,
) -> Dataset:
    r"""Read a table of numbers and tags; the tags, which may be wrong, become the candidates.

    Parameters
    ----------
    path : path
        ``.csv``, ``.tsv`` or ``.jsonl``, each also with ``.gz``, or ``.parquet``.
    labels : str or list of str, optional
        One column of tags ("beach;dog", or lists in JSON lines and Parquet), or several 0/1
        columns. By default the column called labels, tags, candidates or label.
    truth : str or list of str, optional
        The true labels in the same form, if they are known.
    features : list of str, optional
        Feature columns. By default every numeric column that has a name and is not a label.
    separator : str
        Text between two tags.
    label_names : list of str, optional
        All labels in the wanted order; by default those that occur, sorted.
    encoding : str
        Encoding of a text file.
    delimiter : str, optional
        Character between CSV cells; by default a comma, or a tab for ``.tsv``.
    max_bytes : int, optional
        Larger files raise DataError; by default ``SCHIRN_MAX_BYTES``, else 8 GiB.

    Returns
    -------
    Dataset

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
    with errors_named(path):
        if not separator:
            raise DataError(
                "separator='' is empty; pass the text between two tags, such as ';'.",
                parameter="separator",
            )
        if isinstance(labels, int):
            raise DataError(f"labels of a table are given by column name, not {labels!r}.")
        open_table = tool("open_table")
        if open_table is None:
            raise DataError("schirn.app, which reads tables, is not installed")
        table = open_table(path, encoding=encoding, delimiter=delimiter, max_bytes=max_bytes)
        reader = _TableReader(table, separator)
        content = reader.content(labels, truth, features, list(label_names or ()))
        return dataset_from_file(path, max_bytes, **content)


class _TableReader:
    """The columns of a table as features and labels."""

    def __init__(self, table: Any, separator: str) -> None:
        self.table = table
        self.separator = separator
        named = _named(table.columns)
        self.names = {k: name for k, name in named.items() if name not in table.index_columns}
        self._tags: dict[str, list[list[str]]] = {}

    def content(
        self,
        labels: str | Sequence[str] | None,
        truth: str | Sequence[str] | None,
        features: Sequence[str] | None,
        label_names: list[str],
    ) -> dict[str, Any]:
        """Return the arguments of `Dataset`."""
        label_columns = self.existing(self.default_label() if labels is None else labels)
        truth_columns = [] if truth is None else self.existing(truth)
        taken = {*label_columns, *truth_columns}
        chosen = self.features(taken) if features is None else self.existing(features)
        names = self.label_names(label_columns, truth_columns, label_names)
        left_out = [name for name in self.names if name not in {*chosen, *taken}]
        return {
            "X": self.matrix(chosen),
            "y_true": self.labels(truth_columns, names) if truth_columns else None,
            "candidates": self.labels(label_columns, names),
            "label_names": names,
            "feature_names": chosen,
            "description": f"Columns left out: {', '.join(left_out)}." if left_out else "",
        }

    def default_label(self) -> str:
        """Return the label column with a usual name."""
        column = next((name for name in LABEL_COLUMNS if name in self.names), None)
        if column is None:
            raise DataError(
                f"which column holds the labels? Pass labels=; choose from "
                f"{brief_list(self.names)}.",
                parameter="labels",
            )
        return column

    def existing(self, columns: str | Sequence[str]) -> list[str]:
        """Return a list of columns after checking that they exist."""
        for name in _as_list(columns):
            if name not in self.names:
                raise DataError(
                    f"there is no column {name!r}; choose from {brief_list(self.names)}."
                )
        return _as_list(columns)

    def features(self, taken: set[str]) -> list[str]:
        """Return the numeric columns that have a name and are no labels."""
        # A column without a name is the index that pandas writes.
        free = [name for name, column in self.names.items() if column and name not in taken]
        chosen = [name for name in free if self._numbers(name) is not None]
        if not chosen:
            raise DataError("no numeric column is left for the features.")
        return chosen

    def matrix(self, columns: list[str]) -> Array:
        """Return columns as floats; raise DataError for a cell that is not a finite number."""
        matrix = np.empty((self.table.n_rows, len(columns)))
        for j, name in enumerate(columns):
            values = self._numbers(name)
            if values is None:
                raise DataError(f"the column {brief(name)} is not numeric.")
            matrix[:, j] = values
        wrong = np.argwhere(~np.isfinite(matrix))
        if len(wrong):
            i, j = wrong[0]
            raise DataError(
                f"row {i + 1}, column {brief(columns[j])}: {matrix[i, j]} is not a "
                f"number; fill or remove such cells first."
            )
        return matrix

    def holds_tags(self, columns: list[str]) -> bool:
        """Check whether the labels are one column of tags, rather than one 0/1 column per label.

        Strings are tags unless all of them are 0, 1, -1, true or false; numbers are never tags.
        """
        if len(columns) != 1:
            return False
        cells = self.table.column(self.names[columns[0]])
        filled = [cell for cell in cells if not is_missing(cell)]
        if filled and not any(isinstance(cell, str | list) for cell in filled):
            return False
        values = to_numbers(cells)
        finite = [] if values is None else values[~np.isnan(values)]
        return not len(finite) or not np.isin(finite, (-1, 0, 1)).all()

    def label_names(self, labels: list[str], truth: list[str], names: list[str]) -> list[str]:
        """Return all labels: the names that the caller gave, else tags or columns."""
        if self.holds_tags(labels):
            tags = {tag for name in (*labels, *truth) for cell in self.tags(name) for tag in cell}
            names = names or sorted(tags)
            if not names:
                raise DataError(f"the column {brief(labels[0])} holds no tags.")
            unknown = sorted(tags - set(names))
            if unknown:
                raise DataError(f"the tag {brief(unknown[0])} is not among label_names.")
        elif truth and len(truth) != len(labels):
            raise DataError(f"{len(labels)} label columns but {len(truth)} true.")
        return names or labels

    def tags(self, name: str) -> list[list[str]]:
        """Return the tags of each row."""
        if name not in self._tags:
            rows = []
            cells = self.table.column(self.names[name])
            tags = TagCells.of(cells, self.separator, **self.table.cell_options(self.names[name]))
            for i, cell in enumerate(cells):
                try:
                    rows.append(tags.split(cell))
                except InputError as error:
                    raise DataError(f"row {i + 1}, column {brief(name)}: {error}") from None
            self._tags[name] = rows
        return self._tags[name]

    def labels(self, columns: list[str], names: list[str]) -> Any:
        """Return the 0/1 matrix of label columns."""
        if not self.holds_tags(columns):
            return label_matrix(self.matrix(columns), "the labels")
        column = {name: j for j, name in enumerate(names)}
        rows = [sorted({column[tag] for tag in tags}) for tags in self.tags(columns[0])]
        indptr = np.cumsum([0, *map(len, rows)])
        indices = np.array([j for row in rows for j in row], dtype=np.int64)
        ones = np.ones(len(indices), dtype=np.uint8)
        return densified(sparse.csr_array((ones, indices, indptr), shape=(len(rows), len(names))))

    def _numbers(self, name: str) -> Array | None:
        return self.table.numbers(self.names[name])


def _named(columns: Iterable[str]) -> dict[str, str]:
    """Return the columns under their names; one without a name gets the name pandas gives it."""
    return {name or f"Unnamed: {k}": name for k, name in enumerate(columns)}


def _as_list(columns: str | Sequence[str]) -> list[str]:
    return [columns] if isinstance(columns, str) else list(columns)
