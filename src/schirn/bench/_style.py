"""Colours, markers and sizes of the figures: told apart without colour vision, and in print."""

from collections.abc import Sequence
from typing import Any

from schirn.bench._grid import FLOOR, Contender

# Okabe and Ito's colours without yellow and black, which vanish on light and dark paper.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "p", "h", "*")
DASHES = ("-", "--", "-.")
HATCHES = (None, "..", "xx")
GREY = "#8a8f98"

_INK = {"light": "#1d2330", "dark": "#eceff4"}
_LINE = {"light": "#dcdfe5", "dark": "#343b47"}


def theme(name: str = "light") -> dict[str, Any]:
    """Settings of matplotlib for light or dark paper; the paper itself is left clear."""
    ink, line = _INK[name], _LINE[name]
    return {
        "figure.facecolor": "none",
        "axes.facecolor": "none",
        "savefig.facecolor": "none",
        "text.color": ink,
        "axes.labelcolor": ink,
        "axes.edgecolor": ink,
        "xtick.color": ink,
        "ytick.color": ink,
        "grid.color": line,
        "legend.frameon": False,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.titlelocation": "left",
        "axes.titleweight": "bold",
        "font.size": 11.0,
        "axes.titlesize": 12.0,
        "legend.fontsize": 10.0,
        "svg.hashsalt": "schirn",
    }


def look(contenders: Sequence[Contender]) -> dict[Contender, dict[str, Any]]:
    """Colour, marker and dashes of each contender; the references are grey."""
    styles: dict[Contender, dict[str, Any]] = {}
    for i, c in enumerate(contenders):
        dashes = DASHES[i // len(COLOURS) % len(DASHES)]
        reference = c.ceiling or c.method == FLOOR
        styles[c] = {
            "color": GREY if reference else COLOURS[i % len(COLOURS)],
            "marker": MARKERS[i % len(MARKERS)],
            "linestyle": ":" if reference else dashes,
            # An open marker: its parameters were chosen on true labels.
            "markerfacecolor": "none" if c.oracle else None,
        }
    return styles


def bar_look(contenders: Sequence[Contender]) -> dict[Contender, dict[str, Any]]:
    """Colour and hatching of each contender; slanted lines: tuned on true labels."""
    styles: dict[Contender, dict[str, Any]] = {}
    for c, style in look(contenders).items():
        hatch = HATCHES[DASHES.index(style["linestyle"])] if style["linestyle"] in DASHES else None
        styles[c] = {
            "color": style["color"],
            "hatch": "///" if c.oracle else hatch,
            "alpha": 0.55 if c.ceiling else 1.0,
        }
    return styles
