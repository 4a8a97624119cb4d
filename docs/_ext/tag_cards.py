"""The picture of the landing page: digit images, and which of their tags fifty answers remove."""

from html import escape
from typing import Any, ClassVar

import numpy as np
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

NAMES = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")


class TagCards(SphinxDirective):
    """Cards of the first image of some digits, cleaned while the site is built."""

    has_content = False
    required_arguments = 1
    final_argument_whitespace = True
    option_spec: ClassVar[dict[str, Any]] = {}

    def run(self) -> list[nodes.Node]:
        """Return the cards of the digits named in the argument."""
        digits = [int(digit) for digit in self.arguments[0].split()]
        html = f'<div class="tag-cards">{"".join(_cards(digits))}</div>'
        return [nodes.raw("", html, format="html")]


def _cards(wanted: list[int]) -> list[str]:
    from sklearn.datasets import load_digits

    from schirn import find_noisy_labels
    from schirn.datasets import load_digits_attributes

    data = load_digits_attributes(r=2)
    ranking = find_noisy_labels(data.X, data.candidates, label_names=data.label_names)
    for _ in range(2):
        asked = ranking.questions(25)
        ranking = ranking.answered(asked, data.y_true[asked.row, asked.column] == 1)
    clean = ranking.clean
    target = load_digits().target
    rows = [int(np.flatnonzero(target == digit)[0]) for digit in wanted]
    return [_card(data, clean, NAMES[target[row]], row) for row in rows]


def _card(data: Any, clean: np.ndarray, name: str, row: int) -> str:
    tags = []
    for j in np.flatnonzero(data.candidates[row]):
        removed = not clean[row, j]
        wrong = not data.y_true[row, j]
        text = escape(data.label_names[j])
        struck = f"<s>{text}</s> {'✓' if wrong else '✗'}" if removed else text
        tags.append(f'<li class="{"right" if removed == wrong else "mistake"}">{struck}</li>')
    picture = _picture(data.images[row])
    return f"<figure>{picture}<figcaption>{name}</figcaption><ul>{''.join(tags)}</ul></figure>"


def _picture(image: np.ndarray) -> str:
    dark = [
        f'<rect x="{x}" y="{y}" width="1.02" height="1.02" opacity="{image[y, x] / 16:.2f}"/>'
        for y, x in zip(*np.nonzero(image), strict=True)
    ]
    return f'<svg viewBox="0 0 8 8" role="img" aria-label="digit">{"".join(dark)}</svg>'


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the directive `tag-cards`."""
    app.add_directive("tag-cards", TagCards)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
