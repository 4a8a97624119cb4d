"""Files of change lists, and the matching rows of a table.

The file has one line per change, as CSV:

    row           number of the row, from 1
    change        removal, addition, merge or rename
    before        the present tag; empty for an addition
    after         the new tag; empty for a removal
    confidence    probability that the change is right
    why           the reason in words
    key           name of the row in the column of ids, or a hash of its other cells
    cell          the whole cell before all changes, as JSON
    raw           the text of this cell in the file, with quotes and escapes, as JSON; empty if
                  the format has no text
    column        name of the column of tags
    separator     text between the tags of a cell
    id_column     name of the column of ids; empty if the key is a hash

The columns from `key` on identify the rows and the column that the list belongs to.
"""

import hashlib
import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from schirn._files import brief, spreadsheet_text
from schirn._input import is_missing
from schirn._text import header_delimiter
from schirn.app.tables._files import open_table
from schirn.app.tables._table import Table
from schirn.cleaning import SEPARATORS, Vocabulary
from schirn.cleaning.changes import FIELDS, Change, ChangeList, canonical_cell, check_change
from schirn.cleaning.vocabulary import apply_vocabulary
from schirn.exceptions import DataError, InputError
from schirn.labels.cells import TagCells, check_separator, split_tags

ADDED_COLUMNS = ("removed", "confidence", "added", "note", "suggested", "suggested_confidence")
"""Endings of the names of columns that cleaning adds, after the name of the column of tags."""


def read_changes(path: str | os.PathLike[str]) -> ChangeList:
    """Read a change list written by `ChangeList.write` and possibly edited by a person.

    Parameters
    ----------
    path : path
        A .csv file. Its cells may be separated by commas, semicolons or tabs, because spreadsheets
        change the separator.

    Returns
    -------
    ChangeList
    """
    if Path(path).suffix.lower() != ".csv":
        raise InputError(f"{path}: the name of a list of changes must end in .csv")
    table = open_table(path, empty=True, delimiter=header_delimiter(path))
    absent = [name for name in FIELDS if name not in table.columns]
    if absent:
        raise DataError(f"{path}: not a list of changes: there is no column {absent[0]!r}")
    columns = [table.column(name) for name in FIELDS]
    changes: list[Change] = []
    cells: dict[int, Any] = {}
    keys: dict[int, str] = {}
    raw: dict[int, str] = {}
    about: set[tuple[str, ...]] = set()
    for k, line in enumerate(zip(*columns, strict=True)):
        where = f"{path}: change {k + 1}"
        try:
            edit, cell, key, text, of = _parsed(line)
        except InputError as error:
            raise DataError(f"{where}: {error}") from None
        if edit.row in cells and canonical_cell(cells[edit.row]) != canonical_cell(cell):
            raise DataError(f"{where}: another line has a different cell of row {edit.row + 1}")
        changes.append(edit)
        cells[edit.row] = cell
        if key:
            keys[edit.row] = key
        if text is not None:
            raw[edit.row] = text
        about.add(of)
    if len(about) > 1:
        raise DataError(
            f"{path}: the lines belong to different columns or separators; apply one list "
            f"after the other"
        )
    changes.sort(key=lambda edit: edit.row)
    column, separator, id_column = about.pop() if about else ("tags", ";", "")
    return ChangeList(changes, column, separator, cells, keys, id_column, raw)


def keyed_changes(changes: ChangeList, table: Table, id_column: str | None = None) -> ChangeList:
    """Return a change list with the keys of its rows and the original text of its cells.

    Parameters
    ----------
    changes : ChangeList
        The changes.
    table : Table
        The table before the changes.
    id_column : str, optional
        A column of ids; see `row_keys`.

    Returns
    -------
    ChangeList
    """
    rows = sorted(changes.cells)
    keys = row_keys(table, changes.column, id_column, rows)
    return replace(
        changes,
        keys=dict(zip(rows, keys, strict=True)),
        id_column=id_column or "",
        raw=table.raw_cells(changes.column, rows) if changes.column in table.columns else {},
    )


def row_keys(
    table: Table, column: str, id_column: str | None = None, rows: Sequence[int] | None = None
) -> list[str]:
    """Return keys by which rows can be found after others were inserted or deleted.

    Parameters
    ----------
    table : Table
        The table.
    column : str
        The column of tags, which may change.
    id_column : str, optional
        A column of ids. By default the key is a hash of all cells except lists, tags and the
        columns that cleaning adds.
    rows : list of int, optional
        The rows; by default all.

    Returns
    -------
    list of str
    """
    rows = range(table.n_rows) if rows is None else rows
    if id_column:
        ids = table.column(id_column)
        return ["" if is_missing(ids[row]) else str(ids[row]) for row in rows]
    skipped = (column, *(f"{table.prefix(column)}_{name}" for name in ADDED_COLUMNS))
    names = [name for name in table.columns if name not in skipped]
    columns = [table.column(name) for name in names if not table.holds(name, "list")]
    keys = []
    for row in rows:
        text = repr([cells[row] for cells in columns]) if columns else ""
        keys.append(hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:16])
    return keys


def with_vocabulary(
    changes: Iterable[Change],
    rows: Sequence[Sequence[str]],
    vocabulary: Vocabulary,
    add_implied: bool = True,
) -> list[Change]:
    """Return changes to the tags of a table: a vocabulary's, and others made after it.

    Parameters
    ----------
    changes : iterable of Change
        Removals and additions, after the vocabulary.
    rows : sequence of list of str
        The tags of each row, before the vocabulary.
    vocabulary : Vocabulary
        The vocabulary.
    add_implied : bool, default=True
        Add implied tags.

    Returns
    -------
    list of Change
    """
    names = vocabulary.merges
    applied = apply_vocabulary(vocabulary, rows, add_implied)
    all_changes: list[Change] = []
    removed: set[tuple[int, str]] = set()
    for change in changes:
        removed.add((change.row, change.before))
        row = rows[change.row]
        spellings = [tag for tag in row if names.get(tag, tag) == change.before]
        if not spellings and change.before in applied.rows[change.row]:
            # A tag that was only implied is simply not added.
            continue
        tags = dict.fromkeys(spellings or [change.before])
        all_changes += [change._replace(before=tag) for tag in tags]
    for edit in applied.changes:
        if edit.after and (edit.row, edit.after) in removed:
            continue
        line = vocabulary[edit.line]
        why = f"{line.reason}; line {line.number or edit.line + 1} of the vocabulary"
        all_changes.append(Change(edit.row, edit.change, edit.before, edit.after, None, why))
    return all_changes


def foreign_separators(
    changes: ChangeList, cells: Sequence[Any], **how: Any
) -> list[tuple[int, str, str]]:
    """Return tags that the changes bring to a table although another separator is in them.

    Such a tag is probably two, typed with the wrong separator. A slash is often part of a name.

    Parameters
    ----------
    changes : ChangeList
        The changes.
    cells : sequence
        The column before the changes.
    **how
        Representation of the tags, as in `ChangeList.apply`.

    Returns
    -------
    list of tuple of int and two str
        Row from 0, tag and separator.
    """
    marks = [mark for mark in SEPARATORS if mark not in (changes.separator, "/")]
    found = []
    for change in changes:
        for tag in split_tags(change.after, changes.separator):
            mark = next((mark for mark in marks if mark in tag), None)
            if mark is not None and tag != change.before:
                found.append((change.row, tag, mark))
    if not found:
        return []
    form = TagCells.of(cells, changes.separator, **how)
    known = {tag for cell in cells for tag in form.split(cell)}
    return [line for line in found if line[1] not in known]


def _parsed(line: Sequence[str]) -> tuple[Change, Any, str, str | None, tuple[str, ...]]:
    """Parse a line: change, cell before, key, raw cell, and the fields shared by all lines."""
    texts = {name: spreadsheet_text(text) for name, text in zip(FIELDS, line, strict=True)}
    row = texts["row"].strip()
    text = texts["cell"]
    if not (row.isdecimal() and len(row) < 19 and int(row)):
        raise InputError(f"row must be a whole number from 1, not {brief(texts['row'])}")
    try:
        cell = json.loads(text)
    except (ValueError, RecursionError):
        raise InputError(f"cell must stay as it was written, not {brief(text)}") from None
    raw = _raw_text(texts["raw"])
    # Spreadsheets in some locales write a decimal comma.
    number = texts["confidence"].strip().replace(",", ".")
    try:
        confidence = float(number) if number else None
    except ValueError:
        raise InputError(f"confidence must be a number, not {brief(number)}") from None
    about = tuple(texts[name] for name in ("column", "separator", "id_column"))
    check_separator(about[1])
    # Raises if this is not a cell of tags.
    split_tags(cell, about[1])
    kind, old, new = (texts[name].strip() for name in FIELDS[1:4])
    edit = Change(int(row) - 1, kind, old, new, confidence, texts["why"])
    check_change(edit)
    return edit, cell, texts["key"], raw, about


def _raw_text(text: str) -> str | None:
    """Return the raw cell in a line of a file; None if there is none."""
    if not text:
        return None
    try:
        raw = json.loads(text)
    except (ValueError, RecursionError):
        raw = None
    if not isinstance(raw, str):
        raise InputError(f"raw must stay as it was written, or be empty, not {brief(text)}")
    return raw
