"""The figures of a report, each drawn for light and for dark paper."""

import base64
import io
import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from schirn._optional import optional
from schirn.bench import figures
from schirn.bench._grid import Row, grid
from schirn.bench._style import theme
from schirn.exceptions import InputError, MissingExtraError

PARAMETERS = ("alpha", "beta", "lam")


class Drawing(NamedTuple):
    """A figure as SVG for both kinds of paper and as PNG, with words for those who cannot see it.

    `missing` says why there is no figure, or is empty.
    """

    name: str
    title: str
    alt: str
    light: bytes = b""
    dark: bytes = b""
    png: bytes = b""
    missing: str = ""

    def uri(self, kind: str = "light") -> str:
        """The SVG as a data URI."""
        data: bytes = getattr(self, kind)
        return "data:image/svg+xml;base64," + base64.b64encode(data).decode()


def drawings(
    rows: Sequence[Row],
    metrics: Sequence[str],
    *,
    alpha: float = 0.05,
    sweep: Sequence[Row] = (),
    models: Mapping[str, Any] | None = None,
) -> list[Drawing]:
    """Draw all figures there are rows for."""
    first = metrics[0]
    label = grid(rows, first).measure.label.rstrip(" ↑↓")
    found = [
        _draw(
            f"noise_levels_{metric}",
            f"{_label(rows, metric)} against the noise level",
            "Mean and standard deviation over the folds; the numbers are in the tables.",
            partial(_levels, rows=rows, metric=metric),
            _levels_size(rows),
        )
        for metric in metrics
    ]
    found.append(
        _draw(
            "gap_closed",
            f"Gap closed in {label}",
            "One dot per setting, the bar is the mean; the numbers are in the table.",
            lambda figure: figures.gap_closed(rows, first, ax=figure.subplots()),
            (7.5, 1.6 + 0.42 * len(grid(rows, first).contenders)),
        )
    )
    found.append(
        _draw(
            "critical_difference",
            f"Critical-difference diagram of {label}",
            "Mean ranks over the data sets; bars join methods that cannot be told apart.",
            lambda figure: figures.critical_difference(
                rows, first, alpha=alpha, ax=figure.subplots()
            ),
            (8.5, 4.2),
        )
    )
    found.append(
        _draw(
            "time_quality",
            f"{label[:1].upper()}{label[1:]} against the time of a fit",
            "Both averaged over the settings; up and to the left is better for a score.",
            lambda figure: figures.time_quality(rows, first, ax=figure.subplots()),
            (7.5, 4.4),
        )
    )
    if sweep:
        found.append(_sensitivity(sweep, first, label))
    if models:
        found += _convergence(models)
    return found


def _label(rows: Sequence[Row], metric: str) -> str:
    label = grid(rows, metric).measure.label.rstrip(" ↑↓")
    return label[:1].upper() + label[1:]


def _draw(
    name: str, title: str, alt: str, paint: Callable[[Any], Any], size: tuple[float, float]
) -> Drawing:
    """Paint once per kind of paper, or note why it cannot be done."""
    matplotlib = optional("matplotlib", "plot", "Drawing a figure")
    module = optional("matplotlib.figure", "plot", "Drawing a figure")
    saved = {}
    try:
        for paper in ("light", "dark"):
            with matplotlib.rc_context(theme(paper)):
                figure = module.Figure(figsize=size, layout="constrained")
                paint(figure)
                saved[paper] = _save(figure, "svg")
                if paper == "light":
                    saved["png"] = _save(figure, "png", dpi=150, facecolor="white")
    except (InputError, MissingExtraError) as error:
        return Drawing(name, title, alt, missing=str(error))
    return Drawing(name, title, alt, saved["light"], saved["dark"], saved["png"])


def _save(figure: Any, format: str, **options: Any) -> bytes:
    stream = io.BytesIO()
    # Without a date the same rows give the same file.
    metadata = {"Date": None} if format == "svg" else {}
    figure.savefig(stream, format=format, metadata=metadata, bbox_inches="tight", **options)
    return stream.getvalue()


def _levels_size(rows: Sequence[Row]) -> tuple[float, float]:
    n = len({row["dataset"] for row in rows})
    columns = _columns(n)
    return (4.0 if columns == 3 else 5.2) * columns, 3.4 * math.ceil(n / columns) + 0.5


def _columns(n: int) -> int:
    return 2 if n in (2, 4) else min(3, n)


def _levels(figure: Any, rows: Sequence[Row], metric: str) -> None:
    """One panel per data set, one legend for all."""
    names = list(dict.fromkeys(str(row["dataset"]) for row in rows))
    columns = _columns(len(names))
    axes = figure.subplots(math.ceil(len(names) / columns), columns, squeeze=False).ravel()
    for ax, name in zip(axes, names, strict=False):
        figures.noise_levels(rows, metric, name, legend=False, ax=ax)
    for ax in axes[len(names) :]:
        ax.set_visible(False)
    drawn: dict[str, Any] = {}
    for ax in axes[: len(names)]:
        for handle, label in zip(*ax.get_legend_handles_labels(), strict=True):
            drawn.setdefault(label, handle)
    oracle = any(c.oracle for c in grid(rows, metric).contenders)
    figure.legend(
        drawn.values(),
        drawn,
        loc="outside lower center",
        ncols=min(6, len(drawn)),
        title="† oracle-tuned" if oracle else None,
    )


def _sensitivity(sweep: Sequence[Row], metric: str, label: str) -> Drawing:
    def value_count(name: str) -> int:
        return len({repr((row.get("params") or {}).get(name)) for row in sweep})

    swept = [name for name in PARAMETERS if value_count(name) > 1]

    def paint(figure: Any) -> None:
        if not swept:
            raise InputError(f"No row of the sweep varies one of: {', '.join(PARAMETERS)}.")
        for ax, name in zip(figure.subplots(1, len(swept), squeeze=False)[0], swept, strict=True):
            figures.sensitivity(sweep, name, metric, ax=ax)

    alt = "One line per setting; the other parameters are held at their usual values."
    size = (4.4 * max(1, len(swept)), 3.8)
    return _draw("sensitivity", f"Sensitivity of {label} to the parameters", alt, paint, size)


def _convergence(models: Mapping[str, Any]) -> list[Drawing]:
    found = []
    for quantity, (attribute, words) in figures.QUANTITIES.items():
        own = {name: m for name, m in models.items() if getattr(m, attribute, None) is not None}
        if own:
            found.append(
                _draw(
                    f"convergence_{quantity}",
                    f"Convergence: {words} per round",
                    f"Lines of {', '.join(own)}.",
                    partial(_trace, models=own, quantity=quantity),
                    (6.5, 3.8),
                )
            )
    return found


def _trace(figure: Any, models: Mapping[str, Any], quantity: str) -> None:
    figures.convergence(models, quantity, ax=figure.subplots())
