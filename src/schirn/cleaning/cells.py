"""Columns of tags in a table: read them, remove tags, and describe the verdicts in new columns."""

from typing import Any, NamedTuple

import numpy as np

from schirn.cleaning.found import NoisyLabels
from schirn.exceptions import InputError
from schirn.labels.tags import split_tags, without_tags


class TagColumn:
    """The tags of each row, from texts such as "beach;dog" or from lists."""

    def __init__(self, cells: list[Any], separator: str, name: str) -> None:
        self.cells, self.separator = cells, separator
        self.tags: list[list[str]] = []
        for i, cell in enumerate(cells):
            try:
                self.tags.append(split_tags(cell, separator))
            except InputError as error:
                raise InputError(f"row {i + 1}, column {name!r}: {error}") from None
        if not any(self.tags):
            raise InputError(f"the column {name!r} holds no tags, so there is nothing to clean")

    def kept(self, removed: list[set[str]]) -> list[Any]:
        """Return the cells without the removed tags; a row that loses none keeps its cell."""
        return [
            without_tags(cell, gone, self.separator) if gone else cell
            for cell, gone in zip(self.cells, removed, strict=True)
        ]


class NewColumns(NamedTuple):
    """Cells of the two new columns: removed tags, and the confidence of each tag."""

    removed: list[Any]
    confidence: list[Any]


def removed_sets(found: NoisyLabels) -> list[set[str]]:
    """Return the removed tags of each row."""
    sets: list[set[str]] = [set() for _ in range(found.n_rows)]
    for k in np.flatnonzero(found.removed).tolist():
        sets[found.row[k]].add(found.label_names[found.column[k]])
    return sets


def confidences(found: NoisyLabels) -> list[dict[str, float]]:
    """Return the confidence of each tag, row by row."""
    maps: list[dict[str, float]] = [{} for _ in range(found.n_rows)]
    for i, j, value in zip(found.row, found.column, found.confidence.tolist(), strict=True):
        maps[i][found.label_names[j]] = round(value, 4)
    return maps


def new_columns(tags: TagColumn, found: NoisyLabels, *, lists: bool) -> NewColumns:
    """Return removed tags and confidences, in the order of the tags of each row.

    Parameters
    ----------
    tags : TagColumn
    found : NoisyLabels
    lists : bool
        Whether the table can hold lists; removed tags are a list only if the tags were lists too.
    """
    gone, numbers = removed_sets(found), confidences(found)
    first = next((cell for cell in tags.cells if cell is not None), "")
    text = not lists or isinstance(first, str)
    removed: list[Any] = []
    confidence: list[Any] = []
    for i, row in enumerate(tags.tags):
        unique = list(dict.fromkeys(row))
        out = [tag for tag in unique if tag in gone[i]]
        values = {tag: numbers[i][tag] for tag in unique}
        removed.append(tags.separator.join(out) if text else out)
        joined = tags.separator.join(f"{tag}={value:.4g}" for tag, value in values.items())
        confidence.append(values if lists else joined)
    return NewColumns(removed, confidence)
