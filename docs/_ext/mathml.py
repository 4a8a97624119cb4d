"""Formulas as MathML: browsers draw it themselves, so a page needs no script and no network."""

import re
import xml.etree.ElementTree as ET
from html import escape
from typing import Any

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.application import Sphinx

_SPACE = "{http://www.w3.org/1998/Math/MathML}"
ET.register_namespace("", _SPACE[1:-1])


def mathml(latex: str, display: str) -> str:
    """MathML of one formula; a formula with line breaks is aligned at its `&`."""
    latex = latex.strip()
    if display == "block" and (r"\\" in latex or "&" in latex) and r"\begin" not in latex:
        latex = rf"\begin{{aligned}}{latex}\end{{aligned}}"
    # The converter knows `array` but not `aligned`, which is the same with columns r and l in turn.
    latex = latex.replace(r"\begin{aligned}", r"\begin{array}{rlrlrl}")
    root = ET.fromstring(convert(latex.replace(r"\end{aligned}", r"\end{array}"), display=display))
    if display == "block":
        _set_for_display(root)
    return ET.tostring(root, encoding="unicode")


def _set_for_display(root: ET.Element) -> None:
    """Put the variables below `min` and `max`, and set tables as large as the formula."""
    for node in root.iter():
        if node.tag == f"{_SPACE}mtable":
            node.set("displaystyle", "true")
        if node.tag == f"{_SPACE}msub" and (node[0].text or "") in ("min", "max"):
            node.tag = f"{_SPACE}munder"
            node[0].set("rspace", "0.2em")


def inline(self: Any, node: nodes.math) -> None:
    """Write a formula inside a line."""
    self.body.append(f'<span class="math">{mathml(node.astext(), "inline")}</span>')
    raise nodes.SkipNode


def block(self: Any, node: nodes.math_block) -> None:
    """Write a formula on lines of its own; blank lines part two formulas."""
    latex = node.astext()
    label = escape(" ".join(latex.split()), quote=True)
    parts = [part for part in re.split(r"\n\s*\n", latex) if part.strip()]
    formulas = "".join(mathml(part, "block") for part in parts)
    self.body.append(f'<div class="math" tabindex="0" aria-label="{label}">{formulas}</div>')
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the renderer; `html_math_renderer = "mathml"` selects it."""
    app.add_html_math_renderer("mathml", (inline, None), (block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
