"""Draw the picture of the README, `docs/images/steps-light.svg` and `-dark.svg`.

Cards and figures are those of `schirn demo`: python docs/images/steps.py
"""

from collections.abc import Iterator
from pathlib import Path
from xml.sax.saxutils import escape

import numpy as np

from schirn.app.demo import N_ANSWERS, Demo, run_demo

WIDTH = 1000
HEIGHT = 424
# Left edge and width of the three columns.
COLUMNS = ((12, 312), (352, 284), (664, 324))
TOP = 96
STRIP = 108
# The first image of each of these digits.
DIGITS = (3, 4, 6)
FONT = "system-ui, 'Segoe UI', 'DejaVu Sans', Arial, sans-serif"
THEMES = {
    "light": {
        "card": "#ffffff",
        "line": "#d0d7de",
        "ink": "#1f2328",
        "soft": "#59636e",
        "pill": "#eff1f4",
        "amber": "#f0a83c",
        "red": "#b3261e",
        "green": "#1a7f37",
    },
    "dark": {
        "card": "#161b22",
        "line": "#3d444d",
        "ink": "#f0f6fc",
        "soft": "#9198a1",
        "pill": "#2a313c",
        "amber": "#b86e00",
        "red": "#ff8a80",
        "green": "#57c26f",
    },
}


class Drawing:
    """Elements of an SVG picture in the colours of a theme."""

    def __init__(self, theme: dict[str, str]) -> None:
        self.theme = theme
        self.lines: list[str] = []

    def text(self, x, y, words, size=14, color="ink", weight=400, extra="") -> None:
        """Write a line of text."""
        self.lines.append(
            f'<text x="{x:.0f}" y="{y:.0f}" font-size="{size}" font-weight="{weight}" '
            f'fill="{self.theme[color]}" {extra}>{escape(words)}</text>'
        )

    def tag(self, x, y, words, color="ink", extra="") -> None:
        """Write a tag, as wide in every font."""
        self.text(x, y, words, 12, color, 400, f'textLength="{text_width(words):.1f}" {extra}')

    def box(self, x, y, width, height, fill="card", line="line", radius=8, opacity=1.0) -> None:
        """Draw a rounded box."""
        self.lines.append(
            f'<rect x="{x:.0f}" y="{y:.0f}" width="{width:.0f}" height="{height:.0f}" '
            f'rx="{radius}" fill="{self.theme[fill]}" fill-opacity="{opacity:.2f}" '
            f'stroke="{self.theme[line]}"/>'
        )

    def image(self, x, y, size, pixels) -> None:
        """Draw the image of a digit in its ink, on the card."""
        dot = size / len(pixels)
        for row, column in zip(*np.nonzero(pixels), strict=True):
            self.lines.append(
                f'<rect x="{x + column * dot:.1f}" y="{y + row * dot:.1f}" '
                f'width="{dot + 0.2:.1f}" height="{dot + 0.2:.1f}" '
                f'fill="{self.theme["ink"]}" opacity="{pixels[row, column] / 16:.2f}"/>'
            )

    def arrow(self, x, y) -> None:
        """Point from one column to the next."""
        self.lines.append(
            f'<path d="M{x} {y} h14 m-5 -5 l5 5 l-5 5" fill="none" '
            f'stroke="{self.theme["soft"]}" stroke-width="2"/>'
        )


def text_width(words: str) -> float:
    """Width of a tag at 12 pixels; `textLength` makes every font keep to it."""
    return sum(3.4 if letter in "ijl tfr" else 9.6 if letter in "mw" else 6.8 for letter in words)


def pill_width(words: str) -> float:
    """Width of a tag with its margins."""
    return text_width(words) + 16


def pills(tags: list[str], x: float, y: float, width: float) -> Iterator[tuple[str, float, float]]:
    """Yield where each tag stands, in lines that fit into the width."""
    left = x
    for tag in tags:
        if left > x and left + pill_width(tag) > x + width:
            left = x
            y += 27
        yield tag, left, y
        left += pill_width(tag) + 6


def draw_rank(drawing: Drawing, demo: Demo, row: int, x: float, y: float, width: float) -> None:
    """Draw a card whose tags are the darker, the more suspicious they are."""
    place = suspicion(demo)
    tags = tags_of(demo, row)
    for tag, left, top in pills(list(tags), x + 82, y + 10, width - 88):
        drawing.box(left, top, pill_width(tag), 21, "pill", "pill", 10)
        shade = max(0.0, 1 - 2 * place[tags[tag]])
        drawing.box(left, top, pill_width(tag), 21, "amber", "pill", 10, shade)
        drawing.tag(left + 8, top + 15, tag)


def draw_act(drawing: Drawing, demo: Demo, row: int, x: float, y: float, width: float) -> None:
    """Draw a card whose removed tags are struck out, with a mark whether that is right."""
    tags = tags_of(demo, row)
    for tag, left, top in pills(list(tags), x + 82, y + 10, width - 88):
        number = tags[tag]
        if not demo.answered.removed[number]:
            drawing.box(left, top, pill_width(tag), 21, "pill", "pill", 10)
            drawing.tag(left + 8, top + 15, tag)
            continue
        is_wrong = demo.wrong[number]
        color = "green" if is_wrong else "red"
        drawing.box(left, top, pill_width(tag), 21, "card", color, 10)
        drawing.tag(left + 8, top + 15, tag, "soft", 'text-decoration="line-through"')
        # On the edge: the mark needs no room between the tags.
        mark = "✓" if is_wrong else "✗"
        drawing.text(left + pill_width(tag) - 7, top + 8, mark, 13, color, 700)


def suspicion(demo: Demo) -> np.ndarray:
    """Place of every tag in the ranking, from 0, the most suspicious, to 1."""
    place = np.empty(len(demo.ranking.confidence))
    place[demo.ranking.worklist.order] = np.linspace(0, 1, len(place))
    return place


def tags_of(demo: Demo, row: int) -> dict[str, int]:
    """Tags of a row, and their numbers in the ranking."""
    numbers = np.flatnonzero(demo.ranking.row == row)
    return {str(demo.ranking.label[k]): int(k) for k in numbers}


def draw_question(drawing: Drawing, demo: Demo, x: float, width: float) -> None:
    """Draw a question as the page asks it, about the most suspicious tag."""
    row = int(demo.suspects.row[0])
    drawing.box(x, TOP, width, 3 * STRIP - 12)
    drawing.image(x + (width - 136) / 2, TOP + 14, 136, demo.train.images[row])
    center = 'text-anchor="middle"'
    middle = x + width / 2
    drawing.text(middle, TOP + 184, "Is this tag correct?", 14, "soft", 400, center)
    drawing.text(middle, TOP + 210, str(demo.suspects.label[0]), 19, "ink", 700, center)
    buttons = (("Keep", "green"), ("Drop", "red"), ("Unsure", "soft"))
    for number, (word, color) in enumerate(buttons):
        left = x + 16 + number * (width - 28) / 3
        drawing.box(left, TOP + 236, (width - 56) / 3, 36, "card", color)
        drawing.text(
            left + (width - 56) / 6, TOP + 259, word, 14, color, 600, 'text-anchor="middle"'
        )


def picture(demo: Demo, theme: str) -> str:
    """Return the SVG in a theme."""
    drawing = Drawing(THEMES[theme])
    low, high = demo.answered.wrong_share_interval
    removed = demo.answered.removed
    share = demo.wrong[removed].mean()
    heads = (
        ("1  Rank", "Every tag gets a place: the more", "orange, the more suspicious."),
        (
            "2  Ask",
            f"{N_ANSWERS} answers: {low:.0%} to {high:.0%} of the",
            f"tags are wrong (in truth: {demo.wrong.mean():.0%}).",
        ),
        (
            "3  Act",
            f"{removed.sum():,} of {len(removed):,} tags are removed;",
            f"{share:.0%} of them are truly wrong (✓).",
        ),
    )
    for (x, _), (head, *lines) in zip(COLUMNS, heads, strict=True):
        drawing.text(x, 28, head, 20, "ink", 700)
        for number, line in enumerate(lines):
            drawing.text(x, 52 + 20 * number, line, 14, "soft")
    rows = [int(np.flatnonzero(demo.digits == digit)[0]) for digit in DIGITS]
    for column, draw in ((0, draw_rank), (2, draw_act)):
        x, width = COLUMNS[column]
        for number, row in enumerate(rows):
            y = TOP + number * STRIP
            drawing.box(x, y, width, STRIP - 12)
            drawing.image(x + 10, y + 18, 62, demo.train.images[row])
            draw(drawing, demo, row, x, y, width)
    draw_question(drawing, demo, *COLUMNS[1])
    drawing.arrow(331, TOP + 1.5 * STRIP)
    drawing.arrow(643, TOP + 1.5 * STRIP)
    words = " ".join(" ".join(" ".join(head).split()) for head in heads)
    opening = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
        f'font-family="{FONT}" role="img" aria-label="{escape(words)}">'
    )
    return "\n".join([opening, *drawing.lines, "</svg>"]) + "\n"


def main() -> None:
    """Run the demo and write both pictures."""
    demo = run_demo()
    for theme in THEMES:
        path = Path(__file__).with_name(f"steps-{theme}.svg")
        path.write_text(picture(demo, theme), encoding="utf-8")


if __name__ == "__main__":
    main()
