"""Docstrings here say `name : what it is`; the reference shows that as a list of names with text.

Napoleon would take the text for a type, and lose the underscore at the end of fitted attributes.
"""

import re
from typing import Any

from sphinx.application import Sphinx

_SECTIONS = ("Parameters", "Attributes", "Other Parameters")
_FIELD = re.compile(r"^(?P<names>[*\w][\w, *]*?) : (?P<text>.+)$")
_NAMES = re.compile(r"^[*\w][\w, *]*$")
# What a numpy docstring puts after the colon when it follows the usual form.
_TYPE = re.compile(r"^(int|float|str|bool|dict|list|ndarray|uint8|array|\{)")
_BARS = re.compile(r"(?<![\\|`\w])\|(\w+)\|(?![|`])")


def plain_fields(lines: list[str]) -> list[str]:
    """Write the sections that list names as definition lists."""
    result: list[str] = []
    i = 0
    while i < len(lines):
        if lines[i] in _SECTIONS and i + 1 < len(lines) and set(lines[i + 1]) == {"-"}:
            end = _end_of_section(lines, i + 2)
            result += [f".. rubric:: {lines[i]}", "", *_definitions(lines[i + 2 : end]), ""]
            i = end
        else:
            result.append(lines[i])
            i += 1
    return result


def _end_of_section(lines: list[str], start: int) -> int:
    for i in range(start, len(lines)):
        heading = i + 1 < len(lines) and lines[i + 1] and set(lines[i + 1]) == {"-"}
        if heading and not lines[i].startswith(" "):
            return i
    return len(lines)


def _definitions(lines: list[str]) -> list[str]:
    result: list[str] = []
    for line in lines:
        for part in re.split(r";\s{2,}(?=\w+ : )", line):
            field = _FIELD.match(part)
            if field and _TYPE.match(field["text"]):
                result.append(f"{_code(field['names'])} : {field['text']}")
            elif field:
                result += [_code(field["names"]), f"    {field['text']}"]
            elif _NAMES.match(part):
                result.append(_code(part.rstrip(",")))
            else:
                result.append(part)
    return _apart(result)


def _apart(lines: list[str]) -> list[str]:
    """Names without a text stand in a paragraph of their own."""
    result: list[str] = []
    for i, line in enumerate(lines):
        bare = line.startswith("``") and not (i + 1 < len(lines) and lines[i + 1].startswith(" "))
        result += ["", line, ""] if bare else [line]
    return result


def _code(names: str) -> str:
    return ", ".join(f"``{name.strip()}``" for name in names.split(",") if name.strip())


def plain_bars(lines: list[str]) -> list[str]:
    """Absolute values, which reStructuredText would take for substitutions."""
    return [line if ">>>" in line else _BARS.sub(r"\\|\1\\|", line) for line in lines]


def _process(app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    if (getattr(obj, "__module__", None) or "").startswith("sklearn"):
        # Inherited as it is: its text refers to pages of scikit-learn.
        lines[:] = ["As in scikit-learn."]
    lines[:] = plain_bars(plain_fields(lines))


def setup(app: Sphinx) -> dict[str, bool]:
    """Run before napoleon reads the sections."""
    app.connect("autodoc-process-docstring", _process, priority=100)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
