"""Cells of a column of tags: split them, and put back what is kept."""

from typing import Any, NamedTuple

import numpy as np

from schirn.cleaning.found import NoisyLabels
from schirn.exceptions import InputError

Array = np.ndarray


class TagColumn:
    """The tags of each row, from texts such as "beach;dog" or from lists."""

    def __init__(self, cells: list[Any], separator: str, name: str) -> None:
        self.cells, self.separator = cells, separator
        self.pieces = [_pieces(cell, separator, name, i) for i, cell in enumerate(cells)]
        self.tags = [[tag for tag in map(str.strip, row) if tag] for row in self.pieces]
        if not any(self.tags):
            raise InputError(f"the column {name!r} holds no tags, so there is nothing to clean")

    def kept(self, removed: list[set[str]]) -> list[Any]:
        """The cells without the removed tags; a row that loses nothing keeps its cell."""
        return [
            self._without(i, gone) if gone else cell
            for i, (cell, gone) in enumerate(zip(self.cells, removed, strict=True))
        ]

    def _without(self, i: int, gone: set[str]) -> Any:
        cell = self.cells[i]
        if not isinstance(cell, str):
            return [tag for tag in cell if str(tag).strip() not in gone]
        pieces = [piece for piece in self.pieces[i] if piece.strip() not in gone]
        return self.separator.join(pieces).strip()


class NewColumns(NamedTuple):
    """Cells of the two new columns."""

    removed: list[Any]
    confidence: list[Any]


def removed_sets(found: NoisyLabels) -> list[set[str]]:
    """The removed tags of each row."""
    sets: list[set[str]] = [set() for _ in range(found.n_rows)]
    for k in np.flatnonzero(found.removed).tolist():
        sets[found.row[k]].add(found.label_names[found.column[k]])
    return sets


def confidences(found: NoisyLabels) -> list[dict[str, float]]:
    """The confidence of each tag, row by row."""
    maps: list[dict[str, float]] = [{} for _ in range(found.n_rows)]
    for i, j, value in zip(found.row, found.column, found.confidence.tolist(), strict=True):
        maps[i][found.label_names[j]] = round(value, 4)
    return maps


def new_columns(tags: TagColumn, found: NoisyLabels, *, lists: bool) -> NewColumns:
    """Removed tags and confidences, in the order of the tags of each row."""
    gone, numbers = removed_sets(found), confidences(found)
    text = not lists or isinstance(_first_cell(tags.cells), str)
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


def _first_cell(cells: list[Any]) -> Any:
    return next((cell for cell in cells if cell is not None), "")


def _pieces(cell: Any, separator: str, name: str, i: int) -> list[str]:
    """The parts of a cell, with the spaces around them."""
    if cell is None or cell != cell:
        return []
    if isinstance(cell, str):
        return cell.split(separator)
    if isinstance(cell, list) and all(isinstance(tag, str | int) for tag in cell):
        return [str(tag) for tag in cell]
    raise InputError(
        f"row {i + 1}, column {name!r}: {str(cell)[:60]!r} is neither a text of tags nor a list"
    )
