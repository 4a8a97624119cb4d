"""Split and change cells of tags: texts such as "beach;dog", lists, and lists written as text."""

import ast
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from schirn._files import brief, brief_list, spreadsheet_safe, spreadsheet_text
from schirn._input import is_missing
from schirn.exceptions import InputError

LABEL_COLUMNS = ("labels", "tags", "candidates", "label")
"""Names of columns that hold tags by default."""


def check_separator(separator: Any) -> None:
    """Raise InputError unless `separator` can separate tags."""
    if not isinstance(separator, str) or not separator:
        raise InputError(
            f"separator must be a text of at least one character, not {separator!r}",
            parameter="separator",
        )


def split_tags(cell: Any, separator: str) -> list[str]:
    """Return the tags of one cell of a table: a text, a list, a number or a missing value.

    In a text, a tag that contains the separator must be in double quotes.

    >>> split_tags("beach; dog;", ";"), split_tags('"red; blue";dog', ";")
    (['beach', 'dog'], ['red; blue', 'dog'])
    >>> split_tags(["beach", None, 8], ";")
    ['beach', '8']
    """
    if isinstance(cell, str) and '"' not in cell and separator == separator.strip():
        pieces = [piece.strip() for piece in cell.split(separator)]
    elif isinstance(cell, str):
        pieces = [_tag_of(piece, separator) for piece in _pieces(cell, separator)[::2]]
    elif isinstance(cell, list | tuple | np.ndarray):
        nested = next((tag for tag in cell if isinstance(tag, list | tuple | dict)), None)
        if nested is not None:
            raise InputError(
                f"{brief(nested)} is nested in a list of tags; each tag must be a text"
            )
        pieces = [_text(tag).strip() for tag in cell if not is_missing(tag)]
    else:
        pieces = [] if is_missing(cell) else [_text(cell).strip()]
    return [tag for tag in pieces if tag]


def change_tags(
    cell: Any,
    replaced: Mapping[str, Sequence[str]],
    added: Sequence[str],
    separator: str,
    value: Callable[[str], Any] = str,
) -> Any:
    """Return a cell with some tags removed or replaced, and others added at the end.

    A text keeps the spaces around its tags. Tags that the cell already contains are not added.

    Parameters
    ----------
    cell : object
        A text, a list, a number or a missing value, as for `split_tags`.
    replaced : dict from str to list of str
        Tags to replace, and their replacements, which may be empty.
    added : list of str
    separator : str
    value : function from str to object
        Converts a new tag to an element of a list, or to a cell that is neither text nor list.

    Raises
    ------
    InputError
        If the changed cell would not be read as the intended tags.

    Examples
    --------
    >>> change_tags("beach; dgo; cat", {"dgo": ["dog"], "cat": []}, ["sun"], ";")
    'beach; dog; sun'
    """
    listed = split_tags(cell, separator)
    present = {tag for tag in listed if tag not in replaced}

    def new(tags: Iterable[str]) -> list[str]:
        fresh = [tag for tag in dict.fromkeys(tags) if tag not in present]
        present.update(fresh)
        return fresh

    fresh = {tag: new(replaced[tag]) for tag in dict.fromkeys(listed) if tag in replaced}
    additions = new(added)
    # Replacements of a tag that is listed twice are inserted only once.
    unused = dict(fresh)
    intended = [name for tag in listed for name in (unused.pop(tag, []) if tag in fresh else [tag])]
    intended += additions
    if isinstance(cell, str):
        changed: Any = _changed_text(cell, fresh, additions, separator)
    elif isinstance(cell, list | tuple | np.ndarray):
        elements: list[Any] = []
        for element in cell:
            tag = "" if is_missing(element) else _text(element).strip()
            elements += map(value, fresh.pop(tag, [])) if tag in replaced else [element]
        changed = [*elements, *map(value, additions)]
    else:
        if len(intended) > 1:
            raise InputError(f"a cell that holds one number has no room for {brief(intended[-1])}")
        changed = cell if listed == intended else next(iter(map(value, intended)), None)
    if isinstance(cell, str) and split_tags(changed, separator) != intended:
        # Quotation marks inside tags were misread in the new order: quote all tags that need it.
        changed = separator.join(_quoted(tag, separator) for tag in intended)
    if split_tags(changed, separator) != intended:
        raise InputError(
            f"{brief(changed)} would not be read as the tags {brief_list(intended)}; rename the "
            f"tag that holds {separator!r} or a quotation mark"
        )
    return changed


def _changed_text(
    cell: str, fresh: dict[str, list[str]], added: Sequence[str], separator: str
) -> str:
    """Return a text with some tags replaced and some added at the end."""
    tokens = _pieces(cell, separator)
    first = tokens[0]
    last = tokens[-1]
    fresh = dict(fresh)
    removed = set(fresh)
    parts: list[str] = []
    # Pair each piece with the separator that follows it; the last one has none.
    for piece, end in zip(tokens[::2], [*tokens[1::2], ""], strict=True):
        tag = _tag_of(piece, separator)
        names = fresh.pop(tag, []) if tag in removed else None
        if names is None:
            parts += [piece, end]
            continue
        space = _space_before(piece), _space_after(piece)
        for k, name in enumerate(names):
            parts += [
                _quoted(name, separator).join(space),
                separator if k < len(names) - 1 else end,
            ]
        if not names and not end and parts:
            parts[-1] = ""
    if removed:
        # The new first and last tags get the outer spacing of the old ones.
        if not parts:
            parts = ["", ""]
        parts[0] = _space_before(first) + parts[0].lstrip() if parts[0].strip() else parts[0]
        parts[-2] = parts[-2].rstrip() + _space_after(last) if parts[-2].strip() else parts[-2]
    names = [_quoted(name, separator) for name in added]
    place = max((k for k in range(0, len(parts), 2) if parts[k].strip()), default=None)
    if names and place is None:
        return separator.join(names)
    if names and place is not None:
        # Follow the existing spacing: "beach | dog" becomes "beach | dog | sun".
        gap = separator
        if place > 0:
            gap = f"{_space_after(parts[0])}{separator}{_space_before(parts[2])}"
        parts[place] = gap.join([parts[place].rstrip(), *names])
    return "".join(parts)


def _pieces(text: str, separator: str) -> list[str]:
    """Split a text into tags as written and the separators between them."""
    pieces = []
    start = 0
    # At the ends of a cell, the spaces of the separator may be missing: "| beach | dog |".
    head = separator.lstrip()
    tail = separator.rstrip()
    if head and head != separator and text.startswith(head):
        pieces = ["", head]
        start = len(head)
    end = len(text)
    if tail and tail != separator and text.endswith(tail) and end - len(tail) >= start:
        end -= len(tail)
    # A space after a quotation mark may belong to the separator.
    quoted = re.compile(rf'\s*+"(?:[^"]|"")*+"\s*?(?={re.escape(separator)}|\Z)')
    while True:
        match = quoted.match(text, start, end) if '"' in text else None
        is_one = match is not None and _is_quoted(match[0].strip(), separator)
        stop = match.end() if match and is_one else text.find(separator, start, end)
        if not 0 <= stop < end:
            break
        pieces += [text[start:stop], separator]
        start = stop + len(separator)
    return [*pieces, text[start:end], *([text[end:], ""] if end < len(text) else [])]


def _tag_of(piece: str, separator: str) -> str:
    """Return the tag in a piece, without spaces and quotation marks."""
    tag = piece.strip()
    return tag[1:-1].replace('""', '"').strip() if _is_quoted(tag, separator) else tag


def _is_quoted(tag: str, separator: str) -> bool:
    """Whether the quotation marks only protect a tag that could not be written without them."""
    inside = tag[1:-1]
    if len(tag) < 2 or not tag[0] == tag[-1] == '"' or '"' in inside.replace('""', ""):
        return False
    return separator in inside or '""' in inside


def _quoted(tag: str, separator: str) -> str:
    """Return the text of a tag, in quotation marks if needed."""
    doubled = tag.replace('"', '""')
    return f'"{doubled}"' if separator in tag or tag[:1] == '"' else tag


def _space_before(piece: str) -> str:
    return piece[: len(piece) - len(piece.lstrip())]


def _space_after(piece: str) -> str:
    return piece[len(piece.rstrip()) :]


class TagCells(NamedTuple):
    """Notation of the tags in the cells of a column, as detected by `TagCells.of`.

    Cells are texts such as "beach;dog", lists, or single numbers. A text may also be a list in JSON
    or Python notation.

    Examples
    --------
    >>> cells = TagCells.of(['["beach", "dog"]', "[]"])
    >>> cells.notation, cells.split('["beach", "dog"]'), cells.join(["cat"])
    ('json', ['beach', 'dog'], '["cat"]')
    """

    separator: str = ";"
    notation: str = ""
    """Notation of texts: "json" or "python" for lists, "" for tags with separators."""
    spreadsheet: bool = False
    """Whether texts are CSV cells, in which an apostrophe prevents evaluation as a formula."""
    holds: str = "text"
    """Type of a cell that gets its first tag: "text", "list" or "number"."""

    @classmethod
    def of(
        cls,
        cells: Sequence[Any],
        separator: str = ";",
        *,
        spreadsheet: bool = False,
        lists: bool = False,
    ) -> "TagCells":
        """Detect the notation of a column.

        Parameters
        ----------
        cells : sequence
        separator : str, default=";"
            Text between the tags of a cell.
        spreadsheet : bool, default=False
            Whether the cells come from a CSV file.
        lists : bool, default=False
            Whether the column can only hold lists, even if all cells are missing.

        Raises
        ------
        InputError
            If most but not all texts are lists in JSON or Python notation, or if most are lists in
            another notation.
        """
        check_separator(separator)
        filled = [cell for cell in cells if not is_missing(cell)]
        if lists or (filled and isinstance(filled[0], list | tuple | np.ndarray)):
            elements = [tag for cell in filled if not isinstance(cell, str) for tag in _each(cell)]
            numbers = bool(elements) and not any(isinstance(tag, str) for tag in elements)
            return cls(separator, "", spreadsheet, "list of numbers" if numbers else "list")
        texts = [
            (i, cell) for i, cell in enumerate(cells) if isinstance(cell, str) and cell.strip()
        ]
        if filled and not any(isinstance(cell, str) for cell in filled):
            return cls(separator, "", spreadsheet, "number")
        bracketed = [pair for pair in texts if pair[1].strip()[0] in "[({"]
        if 2 * len(bracketed) <= len(texts):
            return cls(separator, "", spreadsheet)
        for notation, read in _NOTATIONS.items():
            wrong = next(((i, cell) for i, cell in texts if read(cell) is None), None)
            if wrong is None:
                return cls(separator, notation, spreadsheet)
        looks = [cell for _, cell in bracketed if _looks_like_list(cell, separator)]
        if 2 * len(looks) > len(texts) and wrong is not None:
            raise InputError(
                f"most cells are lists such as {brief(looks[0])}, but row {wrong[0] + 1} holds "
                f"{brief(wrong[1])}, which is no list in the notation of JSON or Python; "
                f"write all cells as lists, or all as tags with {separator!r} between them"
            )
        return cls(separator, "", spreadsheet)

    def split(self, cell: Any) -> list[str]:
        """Return the tags of a cell."""
        return split_tags(self._plain(cell), self.separator)

    def change(self, cell: Any, replaced: Mapping[str, Sequence[str]], added: Sequence[str]) -> Any:
        """Return a cell with changed tags, as by `change_tags`, in the notation of the column."""
        plain = self._plain(cell)
        if is_missing(plain):
            empty: dict[str, Any] = {"text": [] if self.notation else "", "number": None}
            plain = empty.get(self.holds, [])
        known = {_text(tag).strip(): tag for tag in _each(plain)}

        def value(tag: str) -> Any:
            return known.get(tag, _number(tag) if "number" in self.holds else tag)

        return self._written(change_tags(plain, replaced, added, self.separator, value), cell)

    def join(self, tags: Iterable[str]) -> Any:
        """Join tags to one text."""
        if self.notation:
            return self._written([*tags])
        return self._written(self.separator.join(_quoted(tag, self.separator) for tag in tags))

    def _plain(self, cell: Any) -> Any:
        """Convert a cell of the column to a form that `split_tags` reads."""
        if not isinstance(cell, str):
            return cell
        if self.notation and cell.strip():
            return _NOTATIONS[self.notation](cell)
        return spreadsheet_text(cell) if self.spreadsheet else cell

    def _written(self, plain: Any, old_cell: Any = None) -> Any:
        """Convert the result back to a cell of the column."""
        if self.notation == "python":
            return repr(list(plain))
        if self.notation:
            is_tight = isinstance(old_cell, str) and "," in old_cell and ", " not in old_cell
            is_ascii = isinstance(old_cell, str) and "\\u" in old_cell and old_cell.isascii()
            separators = ("," if is_tight else ", ", ": ")
            return json.dumps(list(plain), ensure_ascii=is_ascii, separators=separators)
        return spreadsheet_safe(plain) if self.spreadsheet and isinstance(plain, str) else plain


def _json_list(text: str) -> list[Any] | None:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, list) else None


def _python_list(text: str) -> list[Any] | None:
    # NumPy prints no commas between texts, which Python would read as one concatenated text.
    if re.search(r"""['"]\s+['"]""", text):
        return None
    try:
        value = ast.literal_eval(text.strip())
    except (ValueError, SyntaxError, RecursionError, MemoryError, TypeError):
        return None
    if isinstance(value, set | frozenset):
        return sorted(value, key=str)
    return list(value) if isinstance(value, list | tuple) else None


_NOTATIONS = {"json": _json_list, "python": _python_list}


def _looks_like_list(cell: str, separator: str) -> bool:
    """Whether a text in brackets is a list rather than a tag, by a separator between brackets."""
    if any(read(cell) for read in _NOTATIONS.values()):
        return True
    is_closed = cell.strip()[-1] in "])}" and not _is_torn(cell)
    return is_closed and any(map(_is_torn, split_tags(cell, separator)))


def _is_torn(tag: str) -> bool:
    """Whether a tag has unbalanced brackets."""
    return any(tag.count(left) != tag.count(right) for left, right in ("[]", "()", "{}"))


def _each(cell: Any) -> list[Any]:
    elements = cell if isinstance(cell, list | tuple | np.ndarray) else [cell]
    return [tag for tag in elements if not is_missing(tag)]


def _number(tag: str) -> Any:
    for kind in (int, float):
        try:
            return kind(tag)
        except ValueError:
            pass
    return tag


def _text(tag: Any) -> str:
    if isinstance(tag, float | np.floating) and float(tag).is_integer():
        # In a column with missing values, integers are stored as floats.
        return str(int(tag))
    if isinstance(tag, str | int | float | np.number):
        return str(tag)
    raise InputError(f"{brief(tag)} is neither a text of tags nor a list of them")
