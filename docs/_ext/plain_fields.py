"""Show the fields of docstrings, `name : type` or `name : description`, as definition lists.

Napoleon would take a description for a type, and drop the trailing underscore of fitted attributes.
"""

import re
from typing import Any

from sphinx.application import Sphinx

_SECTIONS = ("Parameters", "Attributes", "Other Parameters")
_FIELD = re.compile(r"^(?P<names>[*\w][\w, *]*?) : (?P<text>.+)$")
_NAMES = re.compile(r"^[*\w][\w, *]*$")
# The beginning of a type after the colon of a field.
_TYPE = re.compile(
    r"^(int|float|str|bool|dict|list|tuple|sequence|callable|ndarray|uint8|array|path-like|object"
    r"|CSR|DataFrame|Dataset|RowSpace|Tensor|torch\.|\{)"
)
# A type is shorter than this, and its description starts on the next line.
_LONGEST_TYPE = 80
_BARS = re.compile(r"(?<![\\|`\w])\|(\w+)\|(?![|`])")


def plain_fields(lines: list[str]) -> list[str]:
    """Turn the sections that list fields into definition lists."""
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
    for line, below in zip(lines, [*lines[1:], ""], strict=True):
        for entry in re.split(r";\s{2,}(?=\w+ : )", line):
            field = _FIELD.match(entry)
            if field and _is_type(field["text"], below):
                # Outside of code, a trailing underscore would be a link.
                kind = re.sub(r"(?<=\w)_(?!\w)", r"\_", field["text"])
                result.append(f"{_code(field['names'])} : {kind}")
            elif field:
                result += [_code(field["names"]), f"    {field['text']}"]
            elif _NAMES.match(entry):
                result.append(_code(entry.rstrip(",")))
            else:
                result.append(entry)
    return _apart(result)


def _is_type(text: str, below: str) -> bool:
    """Whether the text after a colon is a type: a known one, or one with a description below."""
    described = below.startswith(" ") and not below.strip()[:1].islower()
    short = len(text) < _LONGEST_TYPE and not text.endswith((".", ",", ":"))
    return bool(_TYPE.match(text)) or (described and short)


def _apart(lines: list[str]) -> list[str]:
    """Put names without a description into their own paragraphs."""
    result: list[str] = []
    for i, line in enumerate(lines):
        bare = line.startswith("``") and not (i + 1 < len(lines) and lines[i + 1].startswith(" "))
        result += ["", line, ""] if bare else [line]
    return result


def _code(names: str) -> str:
    return ", ".join(f"``{name.strip()}``" for name in names.split(",") if name.strip())


def plain_bars(lines: list[str]) -> list[str]:
    """Escape absolute values, which reStructuredText would take for substitutions."""
    return [line if ">>>" in line else _BARS.sub(r"\\|\1\\|", line) for line in lines]


def _process(app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    if (getattr(obj, "__module__", None) or "").startswith("sklearn"):
        # Inherited docstrings refer to pages of scikit-learn.
        lines[:] = ["As in scikit-learn."]
    lines[:] = plain_bars(plain_fields(lines))


def setup(app: Sphinx) -> dict[str, bool]:
    """Run before napoleon reads the sections."""
    app.connect("autodoc-process-docstring", _process, priority=100)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
