"""Lists of changes to the tags of rows, to be reviewed before they are applied.

Lines of a list may be deleted and `after` may be edited, because `after` simply replaces `before`.
A row is found by its key, wherever it is now, and changed only if its cell is the one in the list.
`undo` restores exactly this cell, byte for byte in a copy of the same format.
"""

import json
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from schirn._files import (
    atomic_write,
    brief,
    csv_rows,
    spreadsheet_safe,
)
from schirn._input import as_plain, is_missing
from schirn._optional import optional
from schirn.cleaning.policy import DROP
from schirn.cleaning.questions import cells_of
from schirn.exceptions import InputError
from schirn.labels.cells import TagCells, check_separator, split_tags

if TYPE_CHECKING:
    from schirn.cleaning.noisy_labels import NoisyLabels

KINDS = ("removal", "addition", "merge", "rename")
# Columns of the file in the order of `ChangeList.write`. schirn.app.tables.read_changes, which
# documents them, reads them in the same order.
FIELDS = (
    "row",
    "change",
    "before",
    "after",
    "confidence",
    "why",
    "key",
    "cell",
    "raw",
    "column",
    "separator",
    "id_column",
)
_DONE = ("undone", "applied")


class Change(NamedTuple):
    """One change to the tags of one row.

    Attributes
    ----------
    row : int
        Index of the row, from 0.
    change : {"removal", "addition", "merge", "rename"}
        Kind of change, for the reader. `before` and `after` determine what happens.
    before : str
        The present tag; "" for an addition.
    after : str
        The tag that replaces it; "" for a removal. If the row already has this tag, it is not
        added twice: the two tags are merged.
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

    `NoisyLabels.changes` and `ChangeList.from_cells` build one;
    `schirn.app.tables.read_changes` reads one from a file.

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
    keys : dict from int to str
        Key by which each changed row is found even if it has moved: its id, or a hash of its other
        cells. Rows without a key are found by their number.
    id_column : str
        Name of the column of ids, if the keys are ids.
    raw : dict from int to str
        The original text of these cells in the table's file, if the format has one.

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
    keys: dict[int, str] = field(default_factory=dict)
    id_column: str = ""
    raw: dict[int, str] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.changes)

    def __iter__(self) -> Iterator[Change]:
        return iter(self.changes)

    def __repr__(self) -> str:
        words = ", ".join(f"{n} {name}s" for name, n in self.counts().items() if n)
        return f"ChangeList({words or 'no changes'}, {len(self.cells)} rows)"

    def counts(self) -> dict[str, int]:
        """Return the number of removals, additions, merges and renames.

        `before` and `after` count, because lines may be edited: a removal with another tag in
        `after` is a rename, and a line that changes nothing is none of these.

        Returns
        -------
        dict from str to int
        """
        counter = Counter(map(_kind, self.changes))
        return {kind: counter[kind] for kind in KINDS}

    @classmethod
    def from_cells(
        cls,
        cells: Iterable[Any],
        changes: Iterable[Change],
        *,
        column: str = "tags",
        separator: str = ";",
        **how: Any,
    ) -> "ChangeList":
        """List changes to a column of tags.

        Parameters
        ----------
        cells : sequence
            The column: strings such as "beach;dog", lists of tags, numbers or missing values.
        changes : sequence of Change
            The changes to list.
        column : str, default="tags"
            Name of the column.
        separator : str, default=";"
            Text between the tags of a cell.
        **how
            Representation of the tags in the cells, as in `apply`.

        Returns
        -------
        ChangeList

        Raises
        ------
        InputError
            If a change is about a row or a tag that is not in the column.
        """
        check_separator(separator)
        cells = list(cells)
        ordered = sorted(changes, key=lambda change: change.row)
        for change in ordered:
            check_change(change)
            if not 0 <= change.row < len(cells):
                raise _no_row(change.row, len(cells))
        changed_cells = {change.row: _plain(cells[change.row]) for change in ordered}
        listing = cls(ordered, column, separator, changed_cells)
        listing.apply(cells, **how)
        return listing

    def apply(
        self,
        cells: Iterable[Any],
        *,
        keys: Sequence[str] | None = None,
        conflicts: list[str] | None = None,
        **how: Any,
    ) -> list[Any]:
        """Return the column with all changes made.

        Parameters
        ----------
        cells : sequence
            The column before the changes.
        keys : sequence of str, optional
            Keys of the rows. By default rows are found by number.
        conflicts : list of str, optional
            Rows that cannot be changed are skipped, and the reasons appended here.
        **how
            ``spreadsheet=True``: the cells come from a CSV file, in which a cell that a spreadsheet
            would run as a formula starts with an apostrophe that is not part of the tag.
            ``lists=True``: the column can only hold lists, even if all its cells are missing.

        Returns
        -------
        list
            The cells after the changes.

        Raises
        ------
        InputError
            If a row is not found, or its cell differs from the cell in the list; the message names
            the rows.
        """
        return self._exchange(list(cells), keys=keys, conflicts=conflicts, forward=True, **how)

    def undo(self, cells: Iterable[Any], **options: Any) -> list[Any]:
        """Return the column as it was before the changes.

        Parameters
        ----------
        cells : sequence
            The column after `apply`.
        **options
            As in `apply`.

        Returns
        -------
        list
            The cells before the changes.

        Raises
        ------
        InputError
            If a cell differs from the result of `apply`; the message names the rows.
        """
        return self._exchange(list(cells), forward=False, **options)

    def raw_places(self, n_rows: int, keys: Sequence[str] | None = None) -> dict[int, str]:
        """Return the text that each changed cell had in the file, by its place in the table.

        Parameters
        ----------
        n_rows : int
            Number of rows of the table.
        keys : sequence of str, optional
            Keys of the rows: see `row_keys`.

        Returns
        -------
        dict from int to str
            Rows that are not found are left out.
        """
        raw = {}
        for row, place in self._places(n_rows, keys):
            if row in self.raw and not isinstance(place, InputError):
                raw[place] = self.raw[row]
        return raw

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write the list to a .csv file, completely or not at all.

        A string that a spreadsheet would run as a formula gets a leading apostrophe, which
        `read_changes` removes.

        Parameters
        ----------
        path : path-like
            An existing file is replaced.

        Raises
        ------
        InputError
            If a tag cannot be encoded.
        """
        content = list_content(self, path)
        with atomic_write(path) as stream:
            stream.write(content)

    def _exchange(
        self,
        cells: list[Any],
        *,
        forward: bool,
        keys: Sequence[str] | None = None,
        conflicts: list[str] | None = None,
        **how: Any,
    ) -> list[Any]:
        """Replace the old cells by the new ones, or the other way round."""
        if not self.cells:
            return cells
        places = list(self._places(len(cells), keys))
        # The cells before the changes show how the column represents tags.
        originals = list(cells)
        for row, place in places:
            if not forward and not isinstance(place, InputError):
                originals[place] = self.cells[row]
        changed = self._after(TagCells.of(originals, self.separator, **how))
        old, new = (self.cells, changed) if forward else (changed, self.cells)
        reasons: list[str] = []
        flags = []
        for row, place in places:
            if isinstance(place, InputError):
                reasons.append(str(place))
            elif not _is_cell(cells[place], old[row]):
                flags.append(_is_cell(cells[place], new[row]))
                name = self._name(row) if self.id_column else f"row {place + 1}"
                reasons.append(
                    f"{name} holds {brief(cells[place])}, but the list of changes expects "
                    f"{brief(old[row])}"
                )
            else:
                cells[place] = new[row]
        if conflicts is not None:
            conflicts += reasons
        elif reasons:
            raise InputError(_refusal(reasons, all(flags) and len(flags) == len(reasons), forward))
        return cells

    def _places(
        self, n_rows: int, keys: Sequence[str] | None
    ) -> Iterator[tuple[int, int | InputError]]:
        """Yield each row of the list with its place in a column, or with an error."""
        places: dict[str, list[int]] = {}
        for place, key in enumerate(keys or ()):
            places.setdefault(key, []).append(place)
        # A new column changes the hashes of all rows, but not their numbers.
        by_key = bool(self.id_column) or any(key in places for key in self.keys.values())
        for row in self.cells:
            key = self.keys.get(row, "") if keys is not None and by_key else ""
            name = self._name(row)
            at = places.get(key, [])
            if not key:
                yield row, row if row < n_rows else _no_row(row, n_rows)
            elif row in at and not self.id_column:
                # One of several rows that are equal apart from their tags.
                yield row, row
            elif len(at) == 1:
                yield row, at[0]
            else:
                what = f"is in the table {len(at)} times" if at else "is no longer in the table"
                yield row, InputError(f"{name} {what}")

    def _name(self, row: int) -> str:
        """Return what a message calls a row of the list."""
        return f"the row {brief(self.keys.get(row, ''))}" if self.id_column else f"row {row + 1}"

    def _after(self, tags: TagCells) -> dict[int, Any]:
        """Return the changed cells."""
        changed = {}
        for row, lines in groupby(self.changes, key=lambda each: each.row):
            try:
                changed[row] = self._changed(tags, self.cells[row], list(lines))
            except InputError as error:
                raise InputError(f"{self._name(row)}: {error}") from None
        return changed

    def _changed(self, tags: TagCells, cell: Any, lines: list[Change]) -> Any:
        """Return one cell after its changes."""
        present = tags.split(cell)
        replaced: dict[str, list[str]] = {}
        added: list[str] = []
        for change in lines:
            # A string may be edited to several tags; a tag of a list may contain the separator.
            text = change.after if tags.holds == "text" and not tags.notation else [change.after]
            names = split_tags(text, self.separator)
            if not change.before:
                added += names
            elif change.before in replaced:
                raise InputError(f"{brief(change.before)} is changed twice")
            elif change.before not in present:
                raise InputError(f"{brief(change.before)} is not among the tags of {brief(cell)}")
            else:
                replaced[change.before] = names
        return tags.change(cell, replaced, added)


def apply_changes(cells: Any, changes: ChangeList) -> Any:
    """Apply changes to a column, and return a container of the same type.

    Parameters
    ----------
    cells : list, tuple, array, Series or Arrow column
        The column before the changes. A Series keeps its index and name.
    changes : ChangeList
        The changes to apply.

    Returns
    -------
    list, tuple, array, Series or Arrow column
        The column after the changes.

    Examples
    --------
    >>> from schirn.cleaning import Change, ChangeList
    >>> tags = ("beach;dgo", "dog")
    >>> changes = ChangeList.from_cells(tags, [Change(0, "rename", "dgo", "dog")])
    >>> apply_changes(tags, changes)
    ('beach;dog', 'dog')
    """
    new = changes.apply(as_plain(cells))
    if hasattr(cells, "index") and hasattr(cells, "iloc"):
        # A changed cell may be a new category.
        kind = "category" if hasattr(cells.dtype, "categories") else cells.dtype
        return type(cells)(new, index=cells.index, name=cells.name, dtype=kind)
    if hasattr(cells, "to_arrow") and hasattr(cells, "to_list"):
        kind = {} if str(cells.dtype).startswith("Enum") else {"dtype": cells.dtype}
        return type(cells)(cells.name, new, **kind)
    if hasattr(cells, "to_pylist"):
        arrow = optional("pyarrow", "table", "Changing an Arrow column")
        array = arrow.array(new, type=cells.type)
        return arrow.chunked_array([array]) if hasattr(cells, "chunks") else array
    if isinstance(cells, np.ndarray):
        if cells.dtype != object:
            return np.array(new)
        objects = np.empty(len(new), dtype=object)
        objects[:] = new
        return objects
    return type(cells)(new) if isinstance(cells, list | tuple) else new


def _refusal(reasons: list[str], is_done: bool, forward: bool) -> str:
    """Return the error message about rows that cannot be changed."""
    if is_done:
        return f"{reasons[0]}; it seems that the changes were {_DONE[forward]} already"
    if len(reasons) == 1:
        return reasons[0]
    limit = 3
    ending = f"; and {len(reasons) - limit:,} more" if len(reasons) > limit else ""
    return f"{len(reasons):,} rows cannot be changed: {'; '.join(reasons[:limit])}{ending}"


def changes_of(
    ranking: "NoisyLabels",
    cells: Iterable[Any] | None = None,
    *,
    column: str = "tags",
    separator: str = ";",
    **how: Any,
) -> ChangeList:
    """List removals and additions; see `NoisyLabels.changes`."""
    if cells is None:
        cells = [[] for _ in range(ranking.n_rows)]
        for row, label in zip(ranking.row.tolist(), ranking.label, strict=True):
            cells[row].append(label)
    cells = list(cells)
    if len(cells) != ranking.n_rows:
        raise InputError(
            f"there are {len(cells):,} cells, but the ranking is about {ranking.n_rows:,} rows",
            parameter="cells",
        )
    form = TagCells.of(cells, separator, lists=how.get("lists", False))
    is_text = form.holds == "text" and not form.notation
    dropped = {name for name, rule in ranking.rules.items() if rule == DROP}
    changes = []
    for tags, mask, kind in (
        (ranking, ranking.removed, "removal"),
        (ranking.missing, ranking.added, "addition"),
    ):
        for (row, label), p in zip(cells_of(tags, mask), tags.confidence[mask], strict=True):
            tag = str(label).strip()
            before = tag
            after = ""
            if kind == "addition":
                before = ""
                # In a string of tags, a new tag that contains the separator needs quotes.
                after = form.join([tag]) if is_text else tag
            confidence: float | None
            confidence, why = certainty(ranking, kind, float(p))
            if label in dropped and kind == "removal" and p > 0:
                confidence = None
                why = f"a rule drops every {tag}"
            changes.append(Change(row, kind, before, after, confidence, why))
    return ChangeList.from_cells(cells, changes, column=column, separator=separator, **how)


def certainty(ranking: "NoisyLabels", kind: str, p: float) -> tuple[float, str]:
    """Return the probability that a change is right, and the reason in words.

    Parameters
    ----------
    ranking : NoisyLabels
        The ranking that proposes the change.
    kind : {"removal", "addition"}
        Kind of change.
    p : float
        Probability that the tag is correct.
    """
    by = ranking.method
    n = ranking.n_answers
    if not ranking.is_checked:
        by = f"{by}, not checked"
    elif n:
        by = f"{by}, {n:,} answer{'s' * (n > 1)}"
    share = "less than 0.1%" if p < 0.001 else f"{p:.1%}"
    why = f"{share} likely to be correct ({by})"
    if p in (0, 1):
        why = "called wrong" if kind == "removal" else "called correct"
    return 1 - p if kind == "removal" else p, why


def _plain(cell: Any) -> Any:
    """Return a cell as plain JSON values; a missing value becomes None."""
    if isinstance(cell, str):
        return cell
    if isinstance(cell, list | tuple | np.ndarray):
        return [_plain(element) for element in cell]
    if is_missing(cell):
        return None
    return cell.item() if isinstance(cell, np.generic) else cell


def canonical_cell(cell: Any) -> str:
    """Return a cell of tags as JSON, so that cells can be compared."""
    try:
        return json.dumps(_plain(cell))
    except (TypeError, ValueError):
        raise InputError(f"{brief(cell)} is neither a text of tags nor a list of them") from None


def list_content(changes: ChangeList, path: str | os.PathLike[str]) -> bytes:
    """Return what `ChangeList.write` writes to a path; raise InputError if it cannot be encoded."""
    rows: list[Iterable[Any]] = [FIELDS]
    for edit in changes.changes:
        raw = json.dumps(changes.raw[edit.row]) if edit.row in changes.raw else ""
        record = {
            "row": edit.row + 1,
            "change": edit.change,
            "before": edit.before,
            "after": edit.after,
            "confidence": None if edit.confidence is None else round(float(edit.confidence), 6),
            "why": edit.why,
            "key": changes.keys.get(edit.row, ""),
            "cell": json.dumps(changes.cells[edit.row], ensure_ascii=False),
            "raw": raw,
            "column": changes.column,
            "separator": changes.separator,
            "id_column": changes.id_column,
        }
        line = (record[name] for name in FIELDS)
        rows.append([spreadsheet_safe(v) if isinstance(v, str) else v for v in line])
    content = "".join(csv_rows(rows))
    if "\0" in content:
        raise InputError(f"{path}: a tag or id holds the character U+0000; rename it")
    try:
        return content.encode()
    except UnicodeEncodeError:
        raise InputError(f"{path}: a tag holds half of a surrogate pair; rename it") from None


def check_change(change: Change) -> None:
    """Raise InputError for a change of unknown kind or without any tag."""
    if change.change not in KINDS:
        raise InputError(f"change must be {', '.join(KINDS)}, not {brief(change.change)}")
    if not change.before and not change.after:
        raise InputError("both before and after are empty; delete the line to skip it")


def _kind(change: Change) -> str:
    """Return what a change does, whatever it is called; "" if nothing."""
    if change.before == change.after:
        return ""
    if not change.after:
        return "removal"
    if not change.before:
        return "addition"
    return change.change if change.change in ("merge", "rename") else "rename"


def _no_row(row: int, n_rows: int) -> InputError:
    return InputError(
        f"row {row + 1:,} is to be changed, but the table has {n_rows:,} rows; is it another table?"
    )


def _is_cell(cell: Any, second: Any) -> bool:
    """Return whether two cells are equal; in some formats, "" is a missing value."""
    cells = ("" if is_missing(value) else value for value in (cell, second))
    return len({canonical_cell(value) for value in cells}) == 1
