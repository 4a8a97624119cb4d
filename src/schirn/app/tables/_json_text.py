"""Change values inside the text of a JSON object, and leave the rest of the text unchanged.

>>> rewritten('{"n": 1e400, "tags": ["a","b"]}', {"tags": ["b"]})
'{"n": 1e400, "tags": ["b"]}'
"""

import json
import re
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

_decode = json.JSONDecoder().raw_decode
_skip_space = re.compile(r"[ \t\n\r]*").match
# Key, value, start of the member, start of its value, and end of its value.
Member = tuple[Any, Any, int, int, int]


def rewritten(
    text: str,
    cells: Mapping[str, Any],
    *,
    ascii: bool = False,
    raw: Mapping[str, str] = MappingProxyType({}),
) -> str:
    """Return the text of an object with new values for some keys; new keys come last.

    Parameters
    ----------
    text : str
        Text of the object.
    cells : dict from str to object
        The new values.
    ascii : bool, default=False
        Escape characters outside ASCII in new values.
    raw : dict from str to str, optional
        The text of some of the values; "" removes the key.

    Returns
    -------
    str
    """
    start = _after_space(text, 0)
    is_tight = re.match(r'\{[ \t\n\r]*"(?:[^"\\]|\\.)*":\S', text[start:]) is not None
    separators = (",", ":") if is_tight else (", ", ": ")

    def dump(value: Any) -> str:
        return json.dumps(value, ensure_ascii=ascii, separators=separators, default=str)

    for key in [key for key in cells if raw.get(key) == ""]:
        text = _without(text, start, key)
        cells = {name: value for name, value in cells.items() if name != key}
    parts = list(members(text, start))
    # If a key occurs several times, its last value counts.
    last = {key: place for key, _, _, *place in parts}
    pieces = []
    place = 0
    for key, (first, end) in sorted(last.items(), key=lambda item: item[1]):
        if key in cells:
            value = raw.get(key) or _value(text, first, cells[key], dump, separators[0])
            pieces += [text[place:first], value]
            place = end
    end = parts[-1][-1] if parts else start + 1
    new = [f"{dump(key)}{separators[1]}{dump(cells[key])}" for key in cells if key not in last]
    pieces += [text[place:end], separators[0] if parts and new else "", separators[0].join(new)]
    return "".join(pieces) + text[end:]


def _without(text: str, start: int, key: str) -> str:
    """Return the text of an object without the last member of this key."""
    parts = list(members(text, start))
    places = [k for k, part in enumerate(parts) if part[0] == key]
    if not places:
        return text
    k = places[-1]
    if k:
        return text[: parts[k - 1][-1]] + text[parts[k][-1] :]
    end = parts[1][2] if len(parts) > 1 else parts[0][-1]
    return text[: parts[0][2]] + text[end:]


def _value(text: str, start: int, value: Any, dump: Any, comma: str) -> str:
    """Return the text of a value; old elements of a list keep their text."""
    parts = list(members(text, start)) if text[start] == "[" and isinstance(value, list) else []
    if not parts or not value:
        return str(dump(value))
    old = {repr(element): text[first:end] for _, element, _, first, end in parts}
    if len(parts) > 1:
        comma = text[parts[0][-1] : parts[1][2]]
    elements = [old.get(repr(element)) or dump(element) for element in value]
    return (
        text[start : parts[0][2]]
        + comma.join(elements)
        + text[parts[-1][-1] : _decode(text, start)[1]]
    )


def members(text: str, start: int) -> Iterator[Member]:
    """Yield the members of the object or list that starts at this position."""
    is_object = text[start] == "{"
    place = _after_space(text, start + 1)
    while text[place] not in "]}":
        outer = place
        key = None
        if is_object:
            key, place = _decode(text, place)
            place = _after_space(text, _after_space(text, place) + 1)
        value, end = _decode(text, place)
        yield key, value, outer, place, end
        place = _after_space(text, end)
        if text[place] == ",":
            place = _after_space(text, place + 1)


def _after_space(text: str, place: int) -> int:
    match = _skip_space(text, place)
    return place if match is None else match.end()
