"""Change values inside the text of JSON, and leave the rest of the text as it is.

>>> rewritten('{"n": 1e400, "tags": ["a","b"]}', {"n": float("inf"), "tags": ["b"]})
'{"n": 1e400, "tags": ["b"]}'
"""

import itertools
import json
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

_decode = json.JSONDecoder().raw_decode
_skip_space = re.compile(r"[ \t\n\r]*").match


def rewritten(text: str, value: Any, *, ascii: bool = False) -> str:
    """Return the text of a JSON document with another value; what is equal keeps its text.

    Parameters
    ----------
    text : str
    value : object
    ascii : bool, default=False
        Whether to escape all other characters in new values.
    """
    start = _after_space(text, 0)
    is_tight = re.match(r'[{\[][ \t\n\r]*("(?:[^"\\]|\\.)*":\S|[^"]*,\S)', text[start:]) is not None
    old, end = _decode(text, start)
    writer = _Writer(text, is_tight, ascii)
    return text[:start] + writer.value(Member(None, old, start, start, end), value) + text[end:]


class Member(NamedTuple):
    """A value inside of an object or list: where it starts, with its key, and its own place."""

    key: str | None
    value: Any
    outer: int
    start: int
    end: int


def members(text: str, start: int) -> Iterator[Member]:
    """Yield the values of the object or list that starts at a place of the text."""
    is_object, place = text[start] == "{", _after_space(text, start + 1)
    while text[place] not in "]}":
        outer, key = place, None
        if is_object:
            key, place = _decode(text, place)
            place = _after_space(text, _after_space(text, place) + 1)
        value, end = _decode(text, place)
        yield Member(key, value, outer, place, end)
        place = _after_space(text, end)
        if text[place] == ",":
            place = _after_space(text, place + 1)


# A value with its key, as it is written, and the member that it was before.
Piece = tuple[Member | None, str]


class _Writer:
    """Writes new values in the style of a text."""

    def __init__(self, text: str, is_tight: bool, ascii: bool) -> None:
        self._text, self._ascii = text, ascii
        self._comma, self._colon = (",", ":") if is_tight else (", ", ": ")

    def value(self, old: Member, new: Any) -> str:
        """Return the text of a value that takes the place of an old one."""
        text = self._text
        if _same(old.value, new):
            return text[old.start : old.end]
        if not (isinstance(new, dict | list) and type(old.value) is type(new) and old.value):
            return self.new(new)
        parts = list(members(text, old.start))
        pieces = self._object(parts, new) if isinstance(new, dict) else self._list(parts, new)
        if not pieces:
            return self.new(new)
        # What stands between values stays; between the first two, it tells how to set apart others.
        gaps = {p.outer: text[q.end : p.outer] for q, p in itertools.pairwise(parts)}
        comma = next(iter(gaps.values()), self._comma)
        result = text[old.start : parts[0].outer] + pieces[0][1]
        for part, piece in pieces[1:]:
            result += (gaps.get(part.outer, comma) if part else comma) + piece
        return result + text[parts[-1].end : old.end]

    def _object(self, parts: list[Member], new: dict[str, Any]) -> list[Piece]:
        # The last of several values with the same key counts.
        last = {part.key: part for part in parts}
        pieces: list[Piece] = []
        for part in parts:
            if part.key in new:
                is_last = last[part.key] is part
                value = self.value(part, new[str(part.key)] if is_last else part.value)
                pieces.append((part, self._text[part.outer : part.start] + value))
        added = [key for key in new if key not in last]
        return pieces + [
            (None, f"{self.new(key)}{self._colon}{self.new(new[key])}") for key in added
        ]

    def _list(self, parts: list[Member], new: list[Any]) -> list[Piece]:
        if len(parts) == len(new):
            pairs = zip(parts, new, strict=True)
            return [(part, self.value(part, value)) for part, value in pairs]
        pieces: list[Piece] = []
        candidates = list(parts)
        for value in new:
            match = next((part for part in candidates if _same(part.value, value)), None)
            if match is None:
                pieces.append((None, self.new(value)))
                continue
            pieces.append((match, self._text[match.start : match.end]))
            candidates = candidates[candidates.index(match) + 1 :]
        return pieces

    def new(self, value: Any) -> str:
        separators = self._comma, self._colon
        return json.dumps(value, ensure_ascii=self._ascii, separators=separators, default=str)


def _same(old: Any, new: Any) -> bool:
    return type(old) is type(new) and (old == new or repr(old) == repr(new))


def _after_space(text: str, place: int) -> int:
    match = _skip_space(text, place)
    return place if match is None else match.end()
