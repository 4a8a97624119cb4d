"""Figures of a benchmark, readable in print and without colour vision."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from schirn._optional import optional
from schirn.exceptions import InputError
from schirn.lab.bench import stats
from schirn.lab.bench.comparison import (
    FLOOR,
    ORACLE_MARK,
    Comparison,
    Contender,
    Result,
    Setting,
    compare,
    mark_notes,
    setting_of,
    value_of,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Okabe and Ito's colours without yellow and black, which vanish on light and dark backgrounds.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "p", "h", "*")
DASHES = ("-", "--", "-.")
GREY = "#8a8f98"

_INK = {"light": "#1d2330", "dark": "#eceff4"}
_LINE = {"light": "#dcdfe5", "dark": "#343b47"}

QUANTITIES = {
    "objective": ("objective_", "objective"),
    "residual": ("residual_", "residual"),
    "n_noise": ("n_noise_", "labels judged wrong"),
}


def noise_levels(
    rows: Iterable[Result],
    metric: str,
    dataset: str,
    *,
    legend: bool = True,
    ax: "Axes | None" = None,
) -> "Axes":
    """Draw a metric against the noise level of a data set, one line per method.

    With a single level, one dot per method.

    Parameters
    ----------
    rows : list of dict
        Results of a benchmark.
    metric : str
        Metric to draw.
    dataset : str
        Data set to draw.
    legend : bool
        Whether to draw a legend.
    ax : matplotlib Axes, optional
        Axes to draw into; new ones by default.

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")
    >>> from schirn.lab.bench.figures import noise_levels
    >>> results = [
    ...     {"dataset": "d", "r": r, "method": "NLR", "fold": f, "metrics": {"one_error": r / 10}}
    ...     for r in (1, 2, 3) for f in range(5)
    ... ]
    >>> noise_levels(results, "one_error", "d").get_xlabel()
    'wrong labels per row'
    """
    comparison = compare(rows, metric)
    settings = [s for s in comparison.settings if s.dataset == dataset]
    if not settings:
        known = ", ".join(dict.fromkeys(s.dataset for s in comparison.settings))
        raise InputError(
            f"There are no results for data set {dataset!r}; there are results for: {known}."
        )
    ax = _axes(ax)
    single = len(settings) == 1
    # A data set may lack some methods.
    contenders = [
        c for c in comparison.contenders if any((s, c) in comparison.values for s in settings)
    ]
    numeric = all(_is_number(s.r) for s in settings) and len({s.noise for s in settings}) == 1
    levels = [s.r for s in settings] if numeric else list(range(len(settings)))
    styles = look(comparison.contenders)
    for k, c in enumerate(contenders):
        means = [_scale(comparison) * comparison.mean(s, c) for s in settings]
        spread = [_scale(comparison) * np.nan_to_num(comparison.std(s, c)) for s in settings]
        style = styles[c] | {"label": _name(c.label), "capsize": 2, "elinewidth": 0.8}
        ax.errorbar([k] if single else levels, means, yerr=spread, **style)
    if single:
        names = [_name(c.label) for c in contenders]
        ax.set_xticks(
            range(len(contenders)), names, rotation=40, ha="right", rotation_mode="anchor"
        )
        ax.set_xlabel(hint(comparison.contenders).strip() if legend else "")
    else:
        ax.set_xticks(levels, [s.level or "own" for s in settings])
        ax.set_xlabel("wrong labels per row" if numeric else "noise")
    ax.grid(True, axis="y", alpha=0.6)
    ax.set_title(_name(dataset))
    ax.set_ylabel(_unit(comparison))
    if legend and not single:
        title = hint(comparison.contenders).strip(" ()") or None
        ax.legend(title=title, loc="center left", bbox_to_anchor=(1.01, 0.5))
    return ax


def sensitivity(
    rows: Iterable[Result],
    parameter: str,
    metric: str = "average_precision",
    *,
    method: str | None = None,
    ax: "Axes | None" = None,
) -> "Axes":
    """Draw a metric against a parameter on a logarithmic axis, one line per setting.

    The other parameters are fixed at their most frequent values.

    Parameters
    ----------
    rows, metric, ax
        As in `noise_levels`.
    parameter : str
        Parameter to vary, such as "alpha", "beta" or "lam".
    method : str, optional
        Method to draw; all results by default.

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")
    >>> from schirn.lab.bench.figures import sensitivity
    >>> results = [
    ...     {"dataset": "d", "r": 1, "method": "Schirn", "fold": 0, "params": {"alpha": a},
    ...      "metrics": {"average_precision": 0.5 + a / 10}}
    ...     for a in (0.1, 1.0)
    ... ]
    >>> sensitivity(results, "alpha").get_xscale()
    'log'
    """
    results = [result for result in rows if method is None or result["method"] == method]
    results = [
        result for result in results if _is_number((result.get("params") or {}).get(parameter))
    ]
    if not results:
        raise InputError(f"No result has a number for the parameter {parameter!r} in 'params'.")
    results = _at_usual_values(results, parameter)
    ax = _axes(ax)
    comparison = compare(results[:1], metric)
    means: dict[Setting, dict[float, list[float]]] = {}
    for result in results:
        value = value_of(result, metric)
        if value is not None:
            at = means.setdefault(setting_of(result), {})
            at.setdefault(float(result["params"][parameter]), []).append(value)
    for i, (setting, at) in enumerate(means.items()):
        xs = sorted(at)
        ys = [_scale(comparison) * float(np.mean(at[x])) for x in xs]
        ax.plot(xs, ys, label=_name(setting.label), **_cycle(i))
    positive = [x for at in means.values() for x in at if x > 0]
    if any(x <= 0 for at in means.values() for x in at):
        # A linear section shows the zero.
        ax.set_xscale("symlog", linthresh=min(positive, default=1.0))
    else:
        ax.set_xscale("log")
    oracle = any(result.get("oracle") for result in results)
    ax.set_xlabel({"lam": "λ", "alpha": "α", "beta": "β"}.get(parameter, parameter))
    ax.set_ylabel(_unit(comparison) + (f" {ORACLE_MARK} oracle-tuned" if oracle else ""))
    ax.grid(True, alpha=0.6)
    ax.legend()
    return ax


def convergence(models: Any, quantity: str = "objective", *, ax: "Axes | None" = None) -> "Axes":
    """Draw the objective, residual or number of labels judged wrong per round of a solver.

    Parameters
    ----------
    models : estimator, list of float, or dict of str to either
        Fitted methods or traces.
    quantity : {"objective", "residual", "n_noise"}
        Quantity to draw; not every method records all of them.
    ax
        As in `noise_levels`.

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")
    >>> from schirn.lab.bench.figures import convergence
    >>> convergence({"Schirn": [3.0, 2.0, 1.5]}).get_ylabel()
    'objective'
    """
    if quantity not in QUANTITIES:
        raise InputError(f"Unknown quantity {quantity!r}; one of: {', '.join(QUANTITIES)}.")
    named = models if isinstance(models, Mapping) else {type(models).__name__: models}
    traces = {name: _trace(model, quantity, name) for name, model in named.items()}
    ax = _axes(ax)
    for i, (name, trace) in enumerate(traces.items()):
        style = _cycle(i) | {"marker": "" if len(trace) > 30 else MARKERS[i % len(MARKERS)]}
        ax.plot(np.arange(1, len(trace) + 1), trace, label=_name(name), **style)
    if quantity == "residual" and all((trace > 0).all() for trace in traces.values()):
        ax.set_yscale("log")
    ax.set_xlabel("round")
    ax.set_ylabel(QUANTITIES[quantity][1])
    ax.grid(True, alpha=0.6)
    if isinstance(models, Mapping):
        ax.legend()
    return ax


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
    rows, metric, ax
        As in `noise_levels`.
    alpha : float
        Significance level.

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
    k, difference = len(names), result.critical_difference
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
        As in `noise_levels`.

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


def theme(name: str = "light") -> dict[str, Any]:
    """Settings of matplotlib for a light or dark page; the background is transparent."""
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
        # Letters that journals accept and programs can edit.
        "pdf.fonttype": 42,
    }


def look(contenders: Sequence[Contender]) -> dict[Contender, dict[str, Any]]:
    """Colour, marker and dashes of each contender; the two references are grey."""
    styles: dict[Contender, dict[str, Any]] = {}
    for i, c in enumerate(contenders):
        # An open marker means that parameters were chosen on true labels.
        styles[c] = _cycle(i) | {"markerfacecolor": "none" if c.oracle else None}
        if c.ceiling or c.method == FLOOR:
            styles[c] |= {"color": GREY, "linestyle": ":"}
    return styles


def _axes(ax: "Axes | None") -> "Axes":
    if ax is not None:
        return ax
    pyplot = optional("matplotlib.pyplot", "plot", "Drawing a figure")
    return pyplot.subplots(figsize=(7, 4.2), layout="constrained")[1]


def _unit(comparison: Comparison) -> str:
    return comparison.info.label + (" (%)" if comparison.info.in_percent else "")


def _scale(comparison: Comparison) -> int:
    return 100 if comparison.info.in_percent else 1


def _name(text: str) -> str:
    """Escape a name: no formula between dollars, no underscore that hides it in a legend."""
    text = text.replace("$", r"\$")
    return f" {text}" if text.startswith("_") else text


def hint(contenders: Sequence[Contender]) -> str:
    """What the marks mean, as far as there are any."""
    words = [note.partition(":")[0] for note in mark_notes(contenders)]
    return f"   ({', '.join(words)})" if words else ""


def _cycle(i: int) -> dict[str, Any]:
    """Colour, marker and dashes of line i."""
    dashes = DASHES[i // len(COLOURS) % len(DASHES)]
    marker = MARKERS[i % len(MARKERS)]
    return {"color": COLOURS[i % len(COLOURS)], "marker": marker, "linestyle": dashes}


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | np.number) and not isinstance(value, bool)


def _at_usual_values(results: Sequence[Result], parameter: str) -> list[Result]:
    """Results in which the other parameters have their most frequent values."""

    def others(result: Result) -> str:
        return repr(sorted((k, v) for k, v in result["params"].items() if k != parameter))

    usual = Counter(others(result) for result in results).most_common(1)[0][0]
    return [result for result in results if others(result) == usual]


def _trace(model: Any, quantity: str, name: str) -> np.ndarray:
    attribute = QUANTITIES[quantity][0]
    trace = getattr(model, attribute, None if hasattr(model, "get_params") else model)
    if trace is None:
        raise InputError(f"{name} does not record {attribute!r}; fit it first, or leave it out.")
    return np.atleast_1d(np.asarray(trace, dtype=float))
