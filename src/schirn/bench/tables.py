"""Tables of a benchmark: results, ranks, win/tie/loss, tests, costs, distance from the paper."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from schirn.bench import stats
from schirn.bench._grid import (
    CEILING,
    FLOOR,
    PAPER_NOISE,
    Contender,
    Grid,
    Row,
    Setting,
    grid,
    key_of,
    value_of,
)
from schirn.bench._render import FORMATS, SUFFIXES, Cell, Table, latex_escape
from schirn.bench._table_parts import (
    AUTO,
    MISSING,
    capital,
    mark_notes,
    measured,
    note_on_test,
    reference_of,
    signed,
)
from schirn.bench._test_tables import friedman_tests, ranks, wilcoxon_tests, win_tie_loss
from schirn.bench.published import Published
from schirn.bench.published import published as published_value
from schirn.metrics import METRICS

__all__ = [
    "FORMATS",
    "SUFFIXES",
    "Cell",
    "Table",
    "against_published",
    "costs",
    "friedman_tests",
    "gaps",
    "latex_escape",
    "measured",
    "ranks",
    "result_table",
    "results",
    "wilcoxon_tests",
    "win_tie_loss",
]

_MARK = {"win": "•", "loss": "◦"}


def result_table(
    rows: Iterable[Row],
    metric: str,
    *,
    format: str = "text",
    reference: str | None = AUTO,
    published: bool = False,
    alpha: float = 0.05,
    test: str = "paired",
) -> str:
    """Mean ± standard deviation of every method in every setting, as text of a format.

    Parameters
    ----------
    rows : benchmark rows
    metric : the measure
    format : "text", "markdown", "latex" or "csv"
    reference : the method others are tested against; "auto" takes Sieve or Schirn, None marks
        nothing
    published : whether to set the value of the paper and the distance from it beside ours
    alpha, test : as in `schirn.bench.stats.win_tie_loss`

    Examples
    --------
    >>> from schirn.bench.tables import result_table
    >>> rows = [
    ...     {"dataset": "d", "r": 1, "method": m, "fold": f, "metrics": {"one_error": v + f / 100}}
    ...     for m, v in [("Schirn", 0.2), ("NLR", 0.3)] for f in range(5)
    ... ]
    >>> print(result_table(rows, "one_error", format="csv").splitlines()[1])
    d,1,Schirn,none,,one_error,5,0.22,0.0158114,True,reference,,,,
    """
    table = results(rows, metric, reference=reference, published=published, alpha=alpha, test=test)
    return table.render(format)


def results(
    rows: Iterable[Row],
    metric: str,
    *,
    reference: str | None = AUTO,
    published: bool = False,
    alpha: float = 0.05,
    test: str = "paired",
) -> Table:
    """The table of `result_table` as an object; the best of each kind of tuning is marked."""
    rows = list(rows)
    cells = grid(rows, metric)
    ours = reference_of(rows, cells, reference)
    verdicts = {} if ours is None else stats.verdicts(cells, ours, alpha=alpha, test=test)
    body, records = [], []
    for setting in cells.settings:
        best = _best(cells, setting)
        line = [Cell(setting.dataset), Cell(setting.level)]
        for c in cells.contenders:
            verdict = verdicts.get((setting, c), "")
            line.append(_result(cells, setting, c, c in best, verdict, published))
            records.append(_record(cells, setting, c, c in best, verdict, c == ours))
        body.append(line)
    unit = ", in percent" if cells.measure.in_percent else ""
    return Table(
        f"results_{metric}",
        f"{capital(cells.measure.label)}{unit}, mean ± standard deviation over the folds",
        ["data", "r", *(c.label for c in cells.contenders)],
        body,
        _result_notes(cells, rows, ours, published, alpha, test),
        stub=2,
        records=records,
    )


def against_published(rows: Iterable[Row], metrics: Sequence[str] | None = None) -> Table:
    """Ours beside the numbers of the paper, with the distance; only cells the paper has."""
    rows, body, records = list(rows), [], []
    for metric in METRICS if metrics is None else metrics:
        cells = grid(rows, metric)
        for setting in cells.settings:
            for c in cells.contenders:
                if (found := _beside_paper(cells, setting, c)) is not None:
                    body.append(found[0])
                    records.append(found[1])
    return Table(
        "published",
        "Ours beside the published numbers, in percent",
        ["metric", "data", "r", "method", "ours", "published", "distance", "reached"],
        body,
        [
            "distance: ours − published. reached: yes, if ours is at least as good; nearly, if it "
            "falls short by no more than the published standard deviation.",
            *mark_notes(rows),
        ],
        stub=4,
        records=records,
    )


def gaps(rows: Iterable[Row], metric: str = "average_precision") -> Table:
    """Share of the gap between CandidateRidge and OracleRidge that each method closes."""
    rows = list(rows)
    found = stats.gap_closed(rows, metric)
    cells = grid(rows, metric)
    body = []
    for setting in cells.settings:
        values = {label: shares[setting] for label, shares in found.items()}
        body.append([Cell(setting.label), *_shares(values)])
    mean = {label: _finite_mean(shares.values()) for label, shares in found.items()}
    body.append([Cell("mean"), *_shares(mean)])
    return Table(
        f"gap_closed_{metric}",
        f"Gap closed in {cells.measure.label.rstrip(' ↑↓')}, in percent",
        ["setting", *found],
        body,
        [
            f"(method − {FLOOR}) / ({CEILING} − {FLOOR}); 0 is no better than taking every "
            "candidate for true, 100 as good as the same ridge trained on the truth.",
            "mean: over the settings with a value.",
            *mark_notes(rows, ceiling=False),
        ],
        foot=1,
    )


def costs(rows: Iterable[Row]) -> Table:
    """Time and memory per method, over all runs that ended well."""
    rows = list(rows)
    cells = grid(rows, "fit_seconds")
    body = []
    for c in cells.contenders:
        own = [row for row in rows if key_of(row) == c[:3]]
        done = [row for row in own if row.get("metrics")]
        body.append(
            [
                Cell(c.label),
                _cost(done, "fit_seconds", np.mean),
                _cost(done, "fit_seconds", np.max),
                _cost(done, "fit_cpu_seconds", np.mean),
                _cost(done, "tune_seconds", np.mean),
                _cost(done, "predict_seconds", np.mean),
                _cost(done, "peak_memory_mb", np.max),
                Cell(str(len(done)), len(done)),
                Cell(str(len(own) - len(done)), len(own) - len(done)),
            ]
        )
    head = [
        "method",
        "fit s, mean",
        "fit s, longest",
        "fit CPU s, mean",
        "tuning s, mean",
        "predict s, mean",
        "peak MB",
        "runs",
        "failed",
    ]
    return Table(
        "costs",
        "Time and memory per run",
        head,
        body,
        [
            "One run is one fold. Times are by the clock, which other work stretches; "
            "CPU s: seconds of the processor, which it does not.",
            *mark_notes(rows),
        ],
    )


def _result(
    cells: Grid, setting: Setting, c: Contender, best: bool, verdict: str, beside: bool
) -> Cell:
    """Mean ± standard deviation with its marks, or the dash with its reason."""
    if (setting, c) in cells.missing:
        return Cell(MISSING, note=cells.missing[setting, c])
    mean, std = cells.mean(setting, c), cells.std(setting, c)
    return Cell(
        _mean_std(cells, mean, std),
        mean,
        best,
        _MARK.get(verdict, ""),
        _distance(cells, setting, c, mean) if beside else "",
        cells.partial.get((setting, c), ""),
    )


def _mean_std(cells: Grid, mean: float, std: float) -> str:
    if not cells.measure.in_percent:
        return f"{mean:.3g}" if math.isnan(std) else f"{mean:.3g} ± {std:.2g}"
    return f"{100 * mean:.1f}" if math.isnan(std) else f"{100 * mean:.1f} ± {100 * std:.1f}"


def _distance(cells: Grid, setting: Setting, c: Contender, mean: float) -> str:
    printed = _printed(cells, setting, c)
    return "" if printed is None else f"[{100 * printed.mean:.1f}, {signed(mean - printed.mean)}]"


def _printed(cells: Grid, setting: Setting, c: Contender) -> Published | None:
    """The value of the paper, for noise of the kind it used."""
    if setting.noise not in ("", *PAPER_NOISE):
        return None
    return published_value(setting.dataset, setting.r, c.method, cells.metric)


def _record(
    cells: Grid, setting: Setting, c: Contender, best: bool, verdict: str, reference: bool
) -> dict[str, Any]:
    """One line of the CSV file."""
    printed = _printed(cells, setting, c)
    mean, std = cells.mean(setting, c), cells.std(setting, c)
    why = cells.missing.get((setting, c)) or cells.partial.get((setting, c), "")
    return {
        "dataset": setting.dataset,
        "r": setting.level,
        "method": c.method,
        "tuning": "oracle" if c.oracle else c.tuning,
        "features": c.features,
        "metric": cells.metric,
        "folds": len(cells.values.get((setting, c), {})),
        "mean": _plain(mean),
        "std": _plain(std),
        "best": best,
        "reference_verdict": "reference" if reference else verdict,
        "published_mean": "" if printed is None else _plain(printed.mean),
        "published_std": "" if printed is None else _plain(printed.std),
        "distance": "" if printed is None else _plain(mean - printed.mean),
        "missing": why,
    }


def _plain(value: float) -> str:
    return "" if math.isnan(value) else f"{value:.6g}"


def _best(cells: Grid, setting: Setting) -> set[Contender]:
    """The best of those that saw no true label, and the best of the oracle-tuned ones."""
    best: set[Contender] = set()
    better = max if cells.measure.greater_is_better else min
    for oracle in (False, True):
        means = {
            c: cells.mean(setting, c)
            for c in cells.rivals
            if c.oracle == oracle and (setting, c) in cells.values
        }
        best |= {c for c, mean in means.items() if mean == better(means.values())}
    return best


def _result_notes(
    cells: Grid, rows: Sequence[Row], ours: Contender | None, beside: bool, alpha: float, test: str
) -> list[str]:
    notes = []
    if {c.oracle for c in cells.rivals} == {False, True}:
        notes.append("The best is marked among the oracle-tuned and among the others.")
    if ours is not None:
        notes.append(f"• {ours.label} is significantly better, ◦ significantly worse.")
        notes.append(note_on_test(alpha, test))
    if beside and any(_printed(cells, s, c) for s in cells.settings for c in cells.contenders):
        notes.append("In brackets: the published value and ours − published, in points.")
    return [*notes, *mark_notes(rows)]


def _beside_paper(
    cells: Grid, setting: Setting, c: Contender
) -> tuple[list[Cell], dict[str, Any]] | None:
    """A line of the comparison with the paper, and the same for CSV."""
    printed = _printed(cells, setting, c)
    if printed is None:
        return None
    stub = [cells.measure.label, setting.dataset, setting.level, c.label]
    mean, std = cells.mean(setting, c), cells.std(setting, c)
    theirs = Cell(_mean_std(cells, printed.mean, printed.std), printed.mean)
    record = _record(cells, setting, c, False, "", False)
    for name in ("best", "reference_verdict"):
        del record[name]
    if (setting, c) in cells.missing:
        ours = Cell(MISSING, note=cells.missing[setting, c])
        rest = [ours, theirs, Cell(MISSING), Cell(MISSING)]
    else:
        gap = mean - printed.mean
        reached = _reached(gap if cells.measure.greater_is_better else -gap, printed.std)
        ours = Cell(_mean_std(cells, mean, std), mean)
        rest = [ours, theirs, Cell(signed(gap), gap), Cell(reached)]
    return [Cell(text) for text in stub] + rest, record


def _reached(advantage: float, std: float) -> str:
    # Printed numbers have one digit after the point: half of it is no shortfall.
    if advantage >= -0.0005:
        return "yes"
    return "nearly" if advantage >= -std else "no"


def _cost(rows: Sequence[Row], name: str, summary: Callable[..., Any]) -> Cell:
    values = [value for row in rows if (value := value_of(row, name)) is not None]
    if not values:
        return Cell(MISSING, note="not measured")
    value = float(summary(values))
    return Cell(f"{value:.0f}" if value >= 100 else f"{value:.3g}", value)


def _shares(values: Mapping[str, float]) -> list[Cell]:
    best = max((v for v in values.values() if not math.isnan(v)), default=math.nan)
    return [
        Cell(MISSING, note="a result is missing, or there is no gap to close")
        if math.isnan(value)
        else Cell(f"{round(100 * value)}".replace("-", "−"), value, best=value == best)
        for value in values.values()
    ]


def _finite_mean(values: Iterable[float]) -> float:
    kept = [value for value in values if not math.isnan(value)]
    return sum(kept) / len(kept) if kept else math.nan
