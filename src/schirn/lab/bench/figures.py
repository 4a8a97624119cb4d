"""Figures of a benchmark, readable in print and without colour vision."""

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from schirn._optional import optional
from schirn.exceptions import InputError
from schirn.lab.bench import stats
from schirn.lab.bench._comparison import (
    FLOOR,
    Contender,
    Result,
    compare,
    mark_notes,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Okabe and Ito's colours without yellow and black, which vanish on light and dark backgrounds.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "p", "h", "*")
DASHES = ("-", "--", "-.")
GREY = "#8a8f98"

_INK = "#1d2330"
STYLE = {
    "text.color": _INK,
    "axes.labelcolor": _INK,
    "axes.edgecolor": _INK,
    "xtick.color": _INK,
    "ytick.color": _INK,
    "grid.color": "#dcdfe5",
    "legend.frameon": False,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlelocation": "left",
    "axes.titleweight": "bold",
    "font.size": 11.0,
    "axes.titlesize": 12.0,
    "legend.fontsize": 10.0,
    "svg.hashsalt": "schirn",
    # Letters that journals accept and programs can edit.
    "pdf.fonttype": 42,
}
"""Settings of matplotlib for the figures of a report."""


def critical_difference(
    rows: Iterable[Result],
    metric: str,
    *,
    alpha: float = 0.05,
    ax: "Axes | None" = None,
) -> "Axes":
    """Draw mean ranks on an axis; a bar joins methods that Nemenyi's test cannot distinguish.

    Raises InputError if there are fewer than three methods, or so few data sets that no two
    methods could be distinguished.

    Parameters
    ----------
    rows : list of dict
        Results of a benchmark.
    metric : str
        Metric to draw.
    alpha : float
        Significance level.
    ax : matplotlib Axes, optional
        Axes to draw into; new ones by default.

    Returns
    -------
    matplotlib Axes
    """
    rows = list(rows)
    result = stats.friedman(rows, metric, alpha=alpha)
    warning = stats.few_blocks(result)
    if result.note or len(result.blocks.names) < result.needed:
        raise InputError(warning or f"No critical-difference diagram: {result.note}")
    posthocs = optional("scikit_posthocs", "bench", "A critical-difference diagram")
    pandas = optional("pandas", "bench", "A critical-difference diagram")
    ax = _axes(ax)
    ink = ax.xaxis.label.get_color()
    names = list(result.ranks)
    colours = {c.label: s["color"] for c, s in look(compare(rows, metric).contenders).items()}
    k = len(names)
    difference = result.critical_difference
    posthocs.critical_difference_diagram(
        result.ranks,
        pandas.DataFrame(result.nemenyi, index=names, columns=names),
        alpha=alpha,
        ax=ax,
        label_fmt_left="{label}  {rank:.2f} ",
        label_fmt_right=" {rank:.2f}  {label}",
        crossbar_props={"color": ink, "linewidth": 3.5},
        color_palette={name: colours[name] for name in names},
        text_h_margin=0.12 * (k - 1),
    )
    ax.plot([1, 1 + difference], [1.5, 1.5], color=ink, lw=1.5, marker="|", ms=9, clip_on=False)
    ax.text(
        1 + difference / 2, 1.7, f"critical difference {difference:.2f}", ha="center", va="bottom"
    )
    ax.set_ylim(top=2.6)
    ax.set_xlim(1 - 0.12 * (k - 1), k + 0.12 * (k - 1))
    ax.set_xticks(range(1, k + 1))
    ax.spines["top"].set_visible(True)
    ax.spines["top"].set_bounds(1, k)
    comparison = compare(rows, metric)
    title = (
        f"mean rank in {comparison.info.name} over {len(result.blocks.names)} data sets, 1 is best"
    )
    ax.set_title(title + hint(comparison.contenders))
    if warning:
        ax.set_xlabel(warning)
        ax.xaxis.set_label_position("bottom")
    return ax


def gap_closed(
    rows: Iterable[Result], metric: str = "average_precision", *, ax: "Axes | None" = None
) -> "Axes":
    """Draw the share of the gap between the two references that each method closes.

    There is one dot per setting and a bar at the mean, by which the methods are sorted.

    Parameters
    ----------
    rows, metric, ax
        As in `critical_difference`.

    Returns
    -------
    matplotlib Axes
    """
    rows = list(rows)
    closed = stats.gap_closed(rows, metric)
    comparison = compare(rows, metric)
    styles = {c.label: style for c, style in look(comparison.contenders).items()}
    values = {
        name: [100 * v for v in shares.values() if not math.isnan(v)]
        for name, shares in closed.items()
    }
    names = sorted((n for n in values if values[n]), key=lambda n: float(np.mean(values[n])))
    ax = _axes(ax)
    for y, name in enumerate(names):
        style = {k: styles[name][k] for k in ("color", "marker", "markerfacecolor")}
        ax.plot(values[name], [y] * len(values[name]), linestyle="", alpha=0.75, **style)
        ax.plot([np.mean(values[name])] * 2, [y - 0.32, y + 0.32], color=style["color"], lw=3)
    for x in (0, 100):
        ax.axvline(x, color=GREY, linestyle=":", zorder=0)
    ax.set_yticks(range(len(names)), [_name(name) for name in names])
    ax.set_ylim(-0.6, len(names) - 0.4)
    ax.set_xlabel(
        "gap closed (%)" + hint(comparison.contenders) + "\n0 = CandidateRidge, 100 = OracleRidge"
    )
    ax.set_title(comparison.info.label)
    return ax


def look(contenders: Sequence[Contender]) -> dict[Contender, dict[str, Any]]:
    """Return the colour, marker and dashes of each contender; the two references are grey.

    Parameters
    ----------
    contenders : list of Contender
        Methods of a figure.

    Returns
    -------
    dict
        Colour and marker by contender.
    """
    styles: dict[Contender, dict[str, Any]] = {}
    for i, c in enumerate(contenders):
        styles[c] = {
            "color": COLOURS[i % len(COLOURS)],
            "marker": MARKERS[i % len(MARKERS)],
            "linestyle": DASHES[i // len(COLOURS) % len(DASHES)],
            # An open marker means that parameters were chosen on true labels.
            "markerfacecolor": "none" if c.oracle else None,
        }
        if c.ceiling or c.method == FLOOR:
            styles[c] |= {"color": GREY, "linestyle": ":"}
    return styles


def _axes(ax: "Axes | None") -> "Axes":
    if ax is not None:
        return ax
    pyplot = optional("matplotlib.pyplot", "plot", "Drawing a figure")
    return pyplot.subplots(figsize=(7, 4.2), layout="constrained")[1]


def _name(text: str) -> str:
    """Escape a name: no formula between dollars, no underscore that hides it in a legend."""
    text = text.replace("$", r"\$")
    return f" {text}" if text.startswith("_") else text


def hint(contenders: Sequence[Contender]) -> str:
    """Return the meanings of the marks of some contenders, "" if there are none.

    Parameters
    ----------
    contenders : list of Contender
        Methods of a figure.

    Returns
    -------
    str
    """
    words = [note.partition(":")[0] for note in mark_notes(contenders)]
    return f"   ({', '.join(words)})" if words else ""
