"""Formulas as MathML, which browsers render without scripts and without a network."""

import re
import xml.etree.ElementTree as ET
from html import escape
from typing import Any

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.application import Sphinx

_NAMESPACE = "{http://www.w3.org/1998/Math/MathML}"
ET.register_namespace("", _NAMESPACE[1:-1])


def mathml(latex: str, display: str) -> str:
    """Convert a formula to MathML; a formula with line breaks is aligned at its `&`."""
    latex = latex.strip()
    if display == "block" and (r"\\" in latex or "&" in latex) and r"\begin" not in latex:
        latex = rf"\begin{{aligned}}{latex}\end{{aligned}}"
    # The converter supports `array` but not `aligned`, which alternates columns r and l.
    latex = latex.replace(r"\begin{aligned}", r"\begin{array}{rlrlrl}")
    root = ET.fromstring(convert(latex.replace(r"\end{aligned}", r"\end{array}"), display=display))
    if display == "block":
        _set_for_display(root)
    return ET.tostring(root, encoding="unicode")


def _set_for_display(root: ET.Element) -> None:
    """Put variables below `min` and `max`, and set tables in display style."""
    for node in root.iter():
        if node.tag == f"{_NAMESPACE}mtable":
            node.set("displaystyle", "true")
        if node.tag == f"{_NAMESPACE}msub" and (node[0].text or "") in ("min", "max"):
            node.tag = f"{_NAMESPACE}munder"
            node[0].set("rspace", "0.2em")


def inline(self: Any, node: nodes.math) -> None:
    """Write a formula inside a line."""
    self.body.append(f'<span class="math">{mathml(node.astext(), "inline")}</span>')
    raise nodes.SkipNode


def block(self: Any, node: nodes.math_block) -> None:
    """Write a displayed formula; blank lines separate formulas."""
    latex = node.astext()
    label = escape(" ".join(latex.split()), quote=True)
    found = [formula for formula in re.split(r"\n\s*\n", latex) if formula.strip()]
    formulas = "".join(mathml(formula, "block") for formula in found)
    self.body.append(f'<div class="math" tabindex="0" aria-label="{label}">{formulas}</div>')
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the renderer; `html_math_renderer = "mathml"` selects it."""
    app.add_html_math_renderer("mathml", (inline, None), (block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
