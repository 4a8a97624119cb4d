"""Docstrings here say `name : what it is`; the reference shows the text as text, not as a type."""

import re
from typing import Any

from sphinx.application import Sphinx

_SECTIONS = ("Parameters", "Attributes", "Other Parameters")
_FIELD = re.compile(r"^(?P<names>[*\w][\w, *]*?) : (?P<text>.+)$")
# What a numpy docstring puts after the colon when it follows the usual form.
_TYPE = re.compile(r"^(int|float|str|bool|dict|list|ndarray|uint8|array)\b")


def plain_fields(lines: list[str]) -> list[str]:
    """Move the text behind `name :` to a line of its own, in the sections that list names."""
    result: list[str] = []
    inside = False
    for i, line in enumerate(lines):
        following = lines[i + 1] if i + 1 < len(lines) else ""
        if following and set(following.strip()) == {"-"}:
            inside = line.strip() in _SECTIONS
        field = _FIELD.match(line) if inside else None
        if field is None or _TYPE.match(field["text"]):
            result.append(line)
            continue
        for part in re.split(r";\s{2,}(?=\w+ : )", line):
            names, _, text = part.partition(" : ")
            result += [names, f"    {text}"]
    return result


def _process(app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    lines[:] = plain_fields(lines)


def setup(app: Sphinx) -> dict[str, bool]:
    """Run before napoleon reads the sections."""
    app.connect("autodoc-process-docstring", _process, priority=100)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
