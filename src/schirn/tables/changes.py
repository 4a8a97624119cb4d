"""A list of changes to the tags of a table, for a person or a program to look at beforehand.

The file has one line per change, as CSV or JSON lines:

    row           number of the row, from 1
    change        removal, addition, merge or rename
    before        the tag as it is; empty for an addition
    after         the tag as it will be; empty for a removal
    confidence    probability that the change is right
    why           the reason in words
    cell          the whole cell before all changes, as JSON
    column        name of the column of tags
    separator     text between the tags of a cell
    table_sha256  hash of the whole column before all changes

Lines may be deleted and `after` may be edited, since `after` simply takes the place of `before`.
The last four columns tell which table the list belongs to. A row is changed only if its cell is the
one in the list, and `undo` puts exactly this cell back.
"""

import hashlib
import json
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from schirn._files import (
    FORMULA,
    atomic_write,
    brief,
    brief_list,
    csv_rows,
    spreadsheet_safe,
)
from schirn._input import is_missing
from schirn.exceptions import DataError, InputError
from schirn.labels.tags import change_tags, check_separator, split_tags
from schirn.tables.files import open_table

if TYPE_CHECKING:
    from schirn.cleaning.found import NoisyLabels

KINDS = ("removal", "addition", "merge", "rename")
FIELDS = (
    *("row", "change", "before", "after", "confidence", "why"),
    *("cell", "column", "separator", "table_sha256"),
)
SUFFIXES = (".csv", ".jsonl")


class Change(NamedTuple):
    """One change to the tags of one row.

    Attributes
    ----------
    row : int
        Index of the row, from 0.
    change : {"removal", "addition", "merge", "rename"}
        For the reader. `before` and `after` decide what happens.
    before : str
        The tag as it is; "" for an addition.
    after : str
        The tag that takes its place; "" for a removal. A row that has this tag already gets no
        second one, which is a merge.
    confidence : float or None
        Probability that the change is right.
    why : str
        The reason in words.
    """

    row: int
    change: str
    before: str
    after: str
    confidence: float | None = None
    why: str = ""


@dataclass(frozen=True, eq=False, repr=False)
class ChangeList:
    """Changes to the tags of one table, which can be applied and undone.

    `NoisyLabels.changes` and `ChangeList.from_cells` make one, `ChangeList.read` reads one.

    Attributes
    ----------
    changes : list of Change
        Sorted by row.
    column : str
        Name of the column of tags.
    separator : str
        Text between the tags of a cell.
    cells : dict from int to object
        The cell of each changed row before the changes.
    table_sha256 : str
        Hash of the whole column before the changes.

    Examples
    --------
    >>> from schirn.cleaning import Change, ChangeList
    >>> tags = ["beach;dgo", "dog", "beach;cat"]
    >>> wanted = [Change(0, "rename", "dgo", "dog"), Change(2, "removal", "cat", "")]
    >>> changes = ChangeList.from_cells(tags, wanted)
    >>> changes.apply(tags)
    ['beach;dog', 'dog', 'beach']
    >>> changes.undo(changes.apply(tags)) == tags
    True
    """

    changes: list[Change] = field(default_factory=list)
    column: str = "tags"
    separator: str = ";"
    cells: dict[int, Any] = field(default_factory=dict)
    table_sha256: str = ""

    def __len__(self) -> int:
        return len(self.changes)

    def __iter__(self) -> Iterator[Change]:
        return iter(self.changes)

    def __repr__(self) -> str:
        made = ", ".join(f"{n} {name}s" for name, n in self.counts().items() if n)
        return f"ChangeList({made or 'no changes'}, {len(self.cells)} rows)"

    def counts(self) -> dict[str, int]:
        """Return the number of removals, additions, merges and renames."""
        found = Counter(each.change for each in self.changes)
        return {kind: found[kind] for kind in KINDS}

    @classmethod
    def from_cells(
        cls,
        cells: Iterable[Any],
        changes: Iterable[Change],
        *,
        column: str = "tags",
        separator: str = ";",
    ) -> "ChangeList":
        """List changes to a column of tags.

        Parameters
        ----------
        cells : sequence
            The column: texts such as "beach;dog", lists of tags, numbers or missing values.
        changes : sequence of Change
        column : str, default="tags"
            Name of the column.
        separator : str, default=";"
            Text between the tags of a cell.

        Raises
        ------
        InputError
            If a change is about a row or a tag that is not in the column.
        """
        check_separator(separator)
        cells, ordered = list(cells), sorted(changes, key=lambda each: each.row)
        for each in ordered:
            _check(each)
            _check_row(each.row, len(cells))
        own = {each.row: _plain(cells[each.row]) for each in ordered}
        made = cls(ordered, column, separator, own, column_hash(cells))
        made.apply(cells)
        return made

    def apply(self, cells: Iterable[Any], *, spreadsheet: bool = False) -> list[Any]:
        """Return the column with all changes made.

        Parameters
        ----------
        cells : sequence
            The column before the changes.
        spreadsheet : bool, default=False
            Whether the cells go to a CSV file. A changed cell that a spreadsheet would run as a
            formula then gets an apostrophe in front.

        Raises
        ------
        InputError
            If a cell differs from what the list says; the message names the rows.
        """
        return self._exchange(list(cells), spreadsheet, forward=True)

    def undo(self, cells: Iterable[Any], *, spreadsheet: bool = False) -> list[Any]:
        """Return the column as it was before the changes.

        Parameters
        ----------
        cells : sequence
            What `apply` returned.
        spreadsheet : bool, default=False
            As given to `apply`.

        Raises
        ------
        InputError
            If a cell differs from what `apply` made of it; the message names the rows.
        """
        return self._exchange(list(cells), spreadsheet, forward=False)

    def fits(self, cells: Iterable[Any]) -> bool:
        """Whether the whole column is the one for which the changes were listed."""
        return not self.changes or column_hash(cells) == self.table_sha256

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write the list to a .csv or .jsonl file, completely or not at all.

        In CSV, a text that a spreadsheet would run as a formula gets an apostrophe in front, which
        `read` takes away.
        """
        is_csv = _suffix(path) == ".csv"
        lines = [*csv_rows([FIELDS])] if is_csv else []
        for each in self.changes:
            confidence = None if each.confidence is None else round(float(each.confidence), 6)
            values = (*each[1:4], confidence, each.why)
            cell, about = self.cells[each.row], (self.column, self.separator, self.table_sha256)
            if is_csv:
                text = json.dumps(cell, ensure_ascii=False)
                lines += csv_rows([[each.row + 1, *map(escaped, (*values, text, *about))]])
            else:
                line = dict(zip(FIELDS, (each.row + 1, *values, cell, *about), strict=True))
                lines.append(json.dumps(line) + "\n")
        try:
            content = "".join(lines).encode()
        except UnicodeEncodeError:
            raise InputError(
                f"{path}: a tag holds half of a surrogate pair, which CSV cannot; write .jsonl"
            ) from None
        with atomic_write(path) as stream:
            stream.write(content)

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> "ChangeList":
        """Read a list that `write` wrote and that a person may have edited.

        Cells of CSV may be separated by commas, semicolons or tabs, as spreadsheets like to do.
        """
        is_csv = _suffix(path) == ".csv"
        if not is_csv and Path(path).is_file() and not Path(path).stat().st_size:
            return cls()
        table = open_table(path, empty=True)
        for delimiter in ";\t" if is_csv else "":
            if len(table.columns) == 1:
                table = open_table(path, empty=True, delimiter=delimiter)
        absent = [name for name in FIELDS if name not in table.columns]
        if absent and (table.n_rows or is_csv):
            raise DataError(f"{path}: not a list of changes: there is no column {absent[0]!r}")
        lines = zip(*(table.column(name) for name in FIELDS), strict=True) if not absent else ()
        changes: list[Change] = []
        cells: dict[int, Any] = {}
        about: set[tuple[str, ...]] = set()
        for k, line in enumerate(lines):
            where = f"{path}: change {k + 1}"
            try:
                each, cell, of = _parsed(line, is_csv)
            except InputError as error:
                raise DataError(f"{where}: {error}") from None
            if each.row in cells and _canonical(cells[each.row]) != _canonical(cell):
                raise DataError(f"{where}: another line has a different cell of row {each.row + 1}")
            changes.append(each)
            cells[each.row] = cell
            about.add(of)
        if len(about) > 1:
            raise DataError(
                f"{path}: the lines belong to different columns, separators or tables; apply one "
                f"list after the other"
            )
        changes.sort(key=lambda each: each.row)
        column, separator, table_sha256 = about.pop() if about else ("tags", ";", "")
        return cls(changes, column, separator, cells, table_sha256)

    def _exchange(self, cells: list[Any], spreadsheet: bool, forward: bool) -> list[Any]:
        """Put the new cells in the place of the old ones, or the other way round."""
        if self.changes:
            _check_row(self.changes[-1].row, len(cells))
        after = self._after(cells, spreadsheet)
        old, new = (self.cells, after) if forward else (after, self.cells)
        differ = [row for row in old if _canonical(cells[row]) != _canonical(old[row])]
        if differ:
            row, others = differ[0], [str(row + 1) for row in differ[1:]]
            done = all(_canonical(cells[row]) == _canonical(new[row]) for row in differ)
            why = ""
            if done:
                why = "; it seems that the changes were " + ("applied" if forward else "undone")
                why += " already"
            elif others:
                noun = "row differs" if len(others) == 1 else "rows differ"
                why = f"; {len(others):,} other {noun}: {brief_list(others)}"
            raise InputError(
                f"row {row + 1} holds {brief(cells[row])}, but the list of changes expects "
                f"{brief(old[row])}{why}"
            )
        for row, cell in new.items():
            cells[row] = cell
        return cells

    def _after(self, cells: list[Any], spreadsheet: bool) -> dict[int, Any]:
        """The changed cells."""
        filled = [cell for cell in cells if not is_missing(cell)]
        first = filled[0] if filled else ""
        # What takes the place of a missing value to which a tag is added.
        empty: Any = "" if isinstance(first, str) else [] if np.ndim(first) else None
        numbers = all(_holds_numbers(cell) for cell in filled)
        after = {}
        for row, lines in groupby(self.changes, key=lambda each: each.row):
            cell = self.cells[row]
            try:
                after[row] = new = self._changed(cell, list(lines), empty, numbers)
            except InputError as error:
                raise InputError(f"row {row + 1}: {error}") from None
            if spreadsheet and isinstance(new, str) and new != cell:
                after[row] = spreadsheet_safe(new)
        return after

    def _changed(self, cell: Any, lines: list[Change], empty: Any, numbers: bool) -> Any:
        """One cell after its changes."""
        base = empty if is_missing(cell) else cell
        listed = split_tags(base, self.separator)
        replaced: dict[str, list[str]] = {}
        added: list[str] = []
        for each in lines:
            # A text may be edited to several tags; a tag of a list may hold the separator.
            after = each.after if isinstance(base, str) else [each.after]
            tags = split_tags(after, self.separator)
            if not each.before:
                added += tags
            elif each.before in replaced:
                raise InputError(f"{brief(each.before)} is changed twice")
            elif each.before not in listed:
                raise InputError(f"{brief(each.before)} is not among the tags of {brief(cell)}")
            else:
                replaced[each.before] = tags
        own = {str(tag): tag for tag in (base if isinstance(base, list) else [base])}

        def value(tag: str) -> Any:
            return own.get(tag, _number(tag) if numbers else tag)

        return change_tags(base, replaced, added, self.separator, value)


def changes_of(
    found: "NoisyLabels",
    cells: Iterable[Any] | None = None,
    *,
    add: float | None = None,
    column: str = "tags",
    separator: str = ";",
) -> ChangeList:
    """List removals and additions; see `NoisyLabels.changes`."""
    if cells is None:
        cells = [[] for _ in range(found.n_rows)]
        for row, label in zip(found.row.tolist(), found.label, strict=True):
            cells[row].append(label)
    cells = list(cells)
    if len(cells) != found.n_rows:
        raise InputError(
            f"there are {len(cells):,} cells, but the verdicts are about {found.n_rows:,} rows",
            parameter="cells",
        )
    gone = np.flatnonzero(found.removed)
    changes = []
    for row, label, p in zip(
        found.row[gone], found.label[gone], found.confidence[gone], strict=True
    ):
        why = f"{_percent(p)} likely to be correct ({found.method})" if p else "known to be wrong"
        changes.append(Change(int(row), "removal", str(label).strip(), "", 1 - float(p), why))
    if add is not None:
        for record in found.suggestions(add).records():
            p = record["confidence"]
            why = f"not listed, but {_percent(p)} likely to be correct ({found.method})"
            changes.append(
                Change(record["row"], "addition", "", str(record["label"]).strip(), p, why)
            )
    return ChangeList.from_cells(cells, changes, column=column, separator=separator)


def column_hash(cells: Iterable[Any]) -> str:
    """Hash of a column of tags, whatever the format of its table."""
    found = hashlib.sha256()
    for cell in cells:
        found.update(_canonical(cell).encode() + b"\n")
    return found.hexdigest()


def _plain(cell: Any) -> Any:
    """A cell as JSON knows it; a missing value is None."""
    if isinstance(cell, list | tuple | np.ndarray):
        return [_plain(element) for element in cell]
    if is_missing(cell):
        return None
    return cell.item() if isinstance(cell, np.generic) else cell


def _canonical(cell: Any) -> str:
    try:
        return json.dumps(_plain(cell))
    except (TypeError, ValueError):
        raise InputError(f"{brief(cell)} is neither a text of tags nor a list of them") from None


def _check(each: Change) -> None:
    """Raise InputError for a change that says nothing."""
    if each.change not in KINDS:
        raise InputError(f"change must be {', '.join(KINDS)}, not {brief(each.change)}")
    if not each.before and not each.after:
        raise InputError("both before and after are empty; delete the line to skip it")


def _check_row(row: int, n_rows: int) -> None:
    if not 0 <= row < n_rows:
        raise InputError(
            f"row {row + 1:,} is to be changed, but the table has {n_rows:,} rows; is it another "
            f"table?"
        )


def _parsed(line: Sequence[Any], is_csv: bool) -> tuple[Change, Any, tuple[str, ...]]:
    """Change, cell before, and column, separator and hash of one line of a file."""
    values = dict(zip(FIELDS, line, strict=True))
    row, cell, confidence = values["row"], values["cell"], values["confidence"]
    names = ("change", "before", "after", "why", "column", "separator", "table_sha256")
    texts = {name: "" if values[name] is None else values[name] for name in names}
    for name, text in texts.items():
        if not isinstance(text, str):
            raise InputError(f"{name} must be a text, not {brief(text)}")
    if is_csv:
        texts = {name: unescaped(text) for name, text in texts.items()}
        row = int(row) if row.strip().isdecimal() and len(row) < 19 else row
        try:
            cell = json.loads(unescaped(cell))
        except (ValueError, RecursionError):
            raise InputError(f"cell must stay as it was written, not {brief(cell)}") from None
    if not isinstance(row, int) or isinstance(row, bool) or row < 1:
        raise InputError(f"row must be a whole number from 1, not {brief(row)}")
    try:
        confidence = None if confidence in ("", None) else float(confidence)
    except (TypeError, ValueError):
        raise InputError(f"confidence must be a number, not {brief(confidence)}") from None
    about = texts["column"], texts["separator"], texts["table_sha256"]
    check_separator(about[1])
    # Raises if this is no cell of tags.
    split_tags(cell, about[1])
    kind, before, after = (texts[name].strip() for name in names[:3])
    each = Change(row - 1, kind, before, after, confidence, texts["why"])
    _check(each)
    return each, cell, about


def _suffix(path: str | os.PathLike[str]) -> str:
    suffix = Path(path).suffix.lower()
    if suffix not in SUFFIXES:
        raise InputError(
            f"{path}: the name of a list of changes must end in {' or '.join(SUFFIXES)}"
        )
    return suffix


def escaped(value: Any) -> Any:
    """A cell of CSV that no spreadsheet runs, and from which `unescaped` gets the text back."""
    if not isinstance(value, str):
        return value
    return f"'{value}" if value.startswith(FORMULA) or unescaped(value) != value else value


def unescaped(text: str) -> str:
    """Return the text of a cell that `escaped` made."""
    return text[1:] if text[:1] == "'" and text[1:2] in (*FORMULA, "'") else text


def _percent(p: float) -> str:
    return "less than 0.1%" if p < 0.001 else f"{p:.1%}"


def _holds_numbers(cell: Any) -> bool:
    elements = cell if isinstance(cell, list | tuple | np.ndarray) else [cell]
    return not any(isinstance(element, str) for element in elements)


def _number(tag: str) -> Any:
    for kind in (int, float):
        try:
            return kind(tag)
        except ValueError:
            pass
    return tag
