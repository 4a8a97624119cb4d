"""Tables of a benchmark: results, ranks, win/tie/loss, tests, costs, distance from the paper."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from schirn.exceptions import InputError
from schirn.lab.bench import stats
from schirn.lab.bench.comparison import (
    ALL_METRICS,
    AUTO,
    BASELINE_MARK,
    CEILING,
    FLOOR,
    ORACLE_MARK,
    PAPER_NOISE,
    RECONSTRUCTED_MARK,
    Comparison,
    Contender,
    Result,
    Setting,
    compare,
    default_reference,
    key_of,
    value_of,
)
from schirn.lab.bench.published import Published
from schirn.lab.bench.published import published as published_value
from schirn.lab.bench.rendering import Cell, Table
from schirn.lab.bench.stats import TESTS, Pairwise, WinTieLoss, plural
from schirn.metrics import METRICS

__all__ = [
    "Table",
    "against_published",
    "costs",
    "friedman_tests",
    "gaps",
    "ranks",
    "result_table",
    "results",
    "wilcoxon_tests",
    "win_tie_loss",
]

MISSING = "–"
_MARK = {"win": "•", "loss": "◦"}
_FLOOR_OF_P = "With n data sets, no p-value can be below 2/2^n before Holm's correction."
_NO_SETTINGS = WinTieLoss(0, 0, 0)


def result_table(
    rows: Iterable[Result], metric: str | Sequence[str], *, format: str = "text", **options: Any
) -> str:
    """Render the mean ± standard deviation of every method in every setting.

    Parameters
    ----------
    rows, metric
        As in `results`.
    format : {"text", "markdown", "latex", "csv"}
        Format of the table.
    **options
        The other parameters of `results`.

    Returns
    -------
    str

    Examples
    --------
    >>> from schirn.lab.bench.tables import result_table
    >>> results = [
    ...     {"dataset": "d", "r": 1, "method": m, "fold": f, "metrics": {"one_error": v + f / 100}}
    ...     for m, v in [("Schirn", 0.2), ("NLR", 0.3)] for f in range(5)
    ... ]
    >>> print(result_table(results, "one_error", format="csv").splitlines()[1])
    d,1,Schirn,none,,one_error,5,0.22,0.0158114,True,reference,,,,
    """
    return results(rows, metric, **options).render(format)


def results(
    rows: Iterable[Result],
    metric: str | Sequence[str],
    *,
    reference: str | None = AUTO,
    published: bool = False,
    alpha: float = 0.05,
    test: str = "paired",
) -> Table:
    """Mean ± standard deviation of every method in every setting.

    The best oracle-tuned method and the best of the others are marked, and the settings in which
    the reference differs significantly. With "wilcoxon", the last line of each metric has the
    p-values instead.

    Parameters
    ----------
    rows : list of dict
        Results of a benchmark; methods stand in the order of the results.
    metric : str or list of str
        Metric to show; several make one combined table.
    reference : str or None
        Method that the others are tested against; "auto" takes Sieve, else Schirn; None tests
        nothing.
    published : bool
        Add the published value and the distance from it.
    alpha : float
        Significance level.
    test : {"paired", "corrected", "wilcoxon"}
        As in `schirn.lab.bench.stats.win_tie_loss`.

    Returns
    -------
    Table
    """
    rows = list(rows)
    names = [metric] if isinstance(metric, str) else list(metric)
    several = len(names) > 1
    comparison = compare(rows, names[0])
    ours = reference_of(rows, comparison, reference)
    body: list[list[Cell]] = []
    records: list[dict[str, Any]] = []
    groups = []
    for name in names:
        comparison = compare(rows, name)
        groups.append(len(body))
        lines, more = _results(comparison, ours, published, alpha, test)
        if ours is not None and test == "wilcoxon":
            lines.append(_holm_line(rows, comparison, ours, alpha))
        first = [Cell(comparison.info.label), *[Cell("")] * len(lines)]
        body += [
            [start, *line] if several else line for start, line in zip(first, lines, strict=False)
        ]
        records += more
    what = "All metrics" if several else capital(comparison.info.label)
    unit = ", in percent" if comparison.info.in_percent else ""
    return Table(
        "results" if several else f"results_{names[0]}",
        f"{what}{unit}, mean ± standard deviation over the folds" + _tested(ours, alpha, test),
        [*(["metric"] if several else []), "data", "r", *(c.label for c in comparison.contenders)],
        body,
        [
            *([_FLOOR_OF_P] if ours is not None and test == "wilcoxon" else []),
            *_result_notes(comparison, rows, published),
        ],
        stub=3 if several else 2,
        foot=int(not several and ours is not None and test == "wilcoxon"),
        groups=groups[1:],
        records=records,
    )


def against_published(rows: Iterable[Result], metrics: Sequence[str] | None = None) -> Table:
    """Compare our means with those that the paper prints.

    Parameters
    ----------
    rows : list of dict
        Results of a benchmark.
    metrics : list of str, optional
        Metrics to show; all five of the paper by default.

    Returns
    -------
    Table
    """
    rows, body, records = list(rows), [], []
    for metric in METRICS if metrics is None else metrics:
        comparison = compare(rows, metric)
        for setting in comparison.settings:
            for c in comparison.contenders:
                if (found := _published_line(comparison, setting, c)) is not None:
                    body.append(found[0])
                    records.append(found[1])
    return Table(
        "published",
        "Our results and the published numbers, in percent",
        ["metric", "data", "r", "method", "ours", "published", "distance", "reached"],
        body,
        [
            "distance: ours − published. reached: yes, if ours is at least as good; nearly, if it "
            "falls short by no more than the published standard deviation.",
            *_mark_notes(rows),
        ],
        stub=4,
        records=records,
    )


def gaps(rows: Iterable[Result], metric: str = "average_precision") -> Table:
    """Share of the gap between CandidateRidge and OracleRidge that each method closes.

    Parameters
    ----------
    rows : list of dict
        Results of a benchmark.
    metric : str
        Metric to compare.

    Returns
    -------
    Table
    """
    rows = list(rows)
    found = stats.gap_closed(rows, metric)
    comparison = compare(rows, metric)
    body = []
    for setting in comparison.settings:
        values = {label: shares[setting] for label, shares in found.items()}
        body.append([Cell(setting.label), *_shares(values)])
    mean = {label: _finite_mean(shares.values()) for label, shares in found.items()}
    body.append([Cell("mean"), *_shares(mean)])
    return Table(
        f"gap_closed_{metric}",
        f"Gap closed in {comparison.info.label.rstrip(' ↑↓')}, in percent",
        ["setting", *found],
        body,
        [
            f"(method − {FLOOR}) / ({CEILING} − {FLOOR}); 0 is no better than treating every "
            "candidate as true, 100 is as good as the same ridge trained on the truth.",
            "mean: over the settings with a value.",
            *_mark_notes(rows, ceiling=False),
        ],
        foot=1,
    )


def costs(rows: Iterable[Result]) -> Table:
    """Time and memory per method, over all finished runs.

    Parameters
    ----------
    rows : list of dict
        Results of a benchmark.

    Returns
    -------
    Table
    """
    rows = list(rows)
    comparison = compare(rows, "fit_seconds")
    body = []
    for c in comparison.contenders:
        own = [result for result in rows if key_of(result) == c[:3]]
        done = [result for result in own if result.get("metrics")]
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
            "One run is one fold. Wall time depends on other load; CPU time does not.",
            *_mark_notes(rows),
        ],
    )


def ranks(
    rows: Iterable[Result], metrics: Sequence[str] | None = None, *, unit: str = "setting"
) -> Table:
    """Mean rank of every method in every metric over the settings; 1 is best.

    Parameters
    ----------
    rows : list of dict
        Results of a benchmark.
    metrics : list of str, optional
        Metrics to show; by default the five of the papers, as far as the results have them.
    unit : {"dataset", "setting"}
        As in `schirn.lab.bench.stats.wilcoxon_holm`.

    Returns
    -------
    Table
    """
    rows = list(rows)
    names = ranked_metrics(rows) if metrics is None else list(metrics)
    found = {name: stats.friedman(rows, name, unit=unit) for name in names}
    labels = [c.label for c in compare(rows, names[0]).rivals]
    best = {name: min(found[name].ranks.values(), default=math.nan) for name in names}
    body = [
        [Cell(label)] + [_rank(found[name].ranks.get(label), best[name]) for name in names]
        for label in labels
    ]
    counts = {len(found[name].blocks.names) for name in names}
    dropped = dict.fromkeys(s for name in names for s in found[name].blocks.dropped_settings)
    absent = dict.fromkeys(s for name in names for s in found[name].blocks.dropped_contenders)
    notes = [f"Mean over {_range(counts)} {plural(unit)} on which all ranked methods have results."]
    notes += [f"Left out because results are missing: {', '.join(dropped)}."] if dropped else []
    notes += (
        [f"Not ranked in every metric, for lack of results: {', '.join(absent)}."] if absent else []
    )
    heads = [ALL_METRICS[name].label for name in names]
    return Table(
        "ranks", "Mean ranks (1 is best)", ["method", *heads], body, [*notes, *_mark_notes(rows)]
    )


def win_tie_loss(
    rows: Iterable[Result],
    reference: str | None = AUTO,
    metrics: Sequence[str] | None = None,
    *,
    alpha: float = 0.05,
    test: str = "paired",
) -> Table:
    """Win/tie/loss counts of the reference against every method, as in the papers.

    Parameters
    ----------
    rows : list of dict
        Results of a benchmark.
    reference : str or None
        Method that the others are tested against; "auto" takes Sieve, else Schirn.
    metrics : list of str, optional
        Metrics to show; by default the five of the papers, as far as the results have them.
    alpha, test
        As in `schirn.lab.bench.stats.win_tie_loss`.

    Returns
    -------
    Table
    """
    rows = list(rows)
    names = ranked_metrics(rows) if metrics is None else list(metrics)
    ours = reference_of(rows, compare(rows, names[0]), reference)
    if ours is None:
        raise InputError("Win/tie/loss counts need a reference method; name one that has results.")
    counts = {
        name: stats.win_tie_loss(rows, ours.label, name, alpha=alpha, test=test) for name in names
    }
    others = [c for c in compare(rows, names[0]).contenders if c != ours]
    lines = []
    for name in names:
        marks = {}
        if test == "wilcoxon":
            pairs = stats.wilcoxon_holm(rows, ours.label, name, alpha=alpha)
            marks = {pair.contender: _holm(pair).mark for pair in pairs}
        lines.append([Cell(ALL_METRICS[name].label), *_tally(counts[name], others, marks)])
    total = {c.label: _add([counts[name][c.label] for name in names]) for c in others}
    lines.append([Cell("total"), *_tally(total, others, {})])
    notes = []
    if any(c.ceiling for c in others):
        notes.append(f"The total excludes {CEILING}, which is trained on the true labels.")
    if any(w.missing for w in total.values()):
        notes.append("Settings without results of both methods are not counted.")
    return Table(
        "win_tie_loss",
        f"Win/tie/loss of {ours.label} against each method"
        + (
            f": means of the settings{_tested(ours, alpha, test)}"
            if test == "wilcoxon"
            else f": {TESTS[test]}, level {alpha:g}"
        ),
        ["metric", *(c.label for c in others), "total"],
        lines,
        [*notes, *_mark_notes(rows)],
        foot=1,
    )


def friedman_tests(
    rows: Iterable[Result],
    metrics: Sequence[str] | None = None,
    *,
    alpha: float = 0.05,
    unit: str = "dataset",
) -> Table:
    """Friedman's test in every metric, with the critical difference of Nemenyi's test.

    Parameters
    ----------
    rows, metrics
        As in `ranks`.
    alpha : float
        Significance level.
    unit : {"dataset", "setting"}
        As in `schirn.lab.bench.stats.wilcoxon_holm`.

    Returns
    -------
    Table
    """
    rows, body = list(rows), []
    few: dict[str, None] = {}
    for name in ranked_metrics(rows) if metrics is None else metrics:
        result = stats.friedman(rows, name, alpha=alpha, unit=unit)
        few |= dict.fromkeys([text] if (text := stats.few_blocks(result, unit)) else [])
        n, k = result.blocks.values.shape
        best = min(result.ranks, key=result.ranks.__getitem__, default=MISSING)
        body.append(
            [
                Cell(ALL_METRICS[name].label),
                Cell(best),
                _number(result.statistic, "{:.2f}", note=result.note),
                _number(result.pvalue, "{:.3g}", note=result.note),
                _number(result.critical_difference, "{:.2f}", note=result.note),
                Cell(str(k), k),
                Cell(str(n), n),
            ]
        )
    return Table(
        "friedman",
        f"Friedman's test over {plural(unit)}",
        ["metric", "best rank", "chi-square", "p", "critical difference", "methods", plural(unit)],
        body,
        [
            "Two mean ranks further apart than the critical difference differ "
            f"(Nemenyi, {alpha:g}).",
            *few,
        ],
        stub=2,
    )


def wilcoxon_tests(
    rows: Iterable[Result],
    reference: str | None = AUTO,
    metrics: Sequence[str] | None = None,
    *,
    alpha: float = 0.05,
    unit: str = "dataset",
) -> Table:
    """Holm-corrected p-values of Wilcoxon's test of the reference against every method.

    Parameters
    ----------
    rows : list of dict
        Results of a benchmark.
    reference : str or None
        Method that the others are tested against; "auto" takes Sieve, else Schirn.
    metrics : list of str, optional
        Metrics to show; by default the five of the papers, as far as the results have them.
    alpha : float
        Significance level.
    unit : {"dataset", "setting"}
        As in `schirn.lab.bench.stats.wilcoxon_holm`.

    Returns
    -------
    Table
    """
    rows = list(rows)
    names = ranked_metrics(rows) if metrics is None else list(metrics)
    ours = reference_of(rows, compare(rows, names[0]), reference)
    if ours is None:
        raise InputError("Wilcoxon's test needs a reference method; name one that has results.")
    found = {
        name: {
            pair.contender: pair
            for pair in stats.wilcoxon_holm(rows, ours.label, name, alpha=alpha, unit=unit)
        }
        for name in names
    }
    labels = list(dict.fromkeys(label for pairs in found.values() for label in pairs))
    body = [[Cell(label), *(_holm(found[name].get(label)) for name in names)] for label in labels]
    return Table(
        "wilcoxon",
        f"Wilcoxon's test of {ours.label} over {plural(unit)}, Holm-corrected p-values",
        ["against", *(ALL_METRICS[name].label for name in names)],
        body,
        [
            f"• {ours.label} is better, ◦ worse, at level {alpha:g}.",
            _FLOOR_OF_P,
            *_mark_notes(rows),
        ],
    )


def metrics_in(results: Iterable[Result]) -> list[str]:
    """Metrics with at least one value, in the order of the tables."""
    results = list(results)
    return [
        name
        for name in ALL_METRICS
        if any(value_of(result, name) is not None for result in results)
    ]


def ranked_metrics(results: Iterable[Result]) -> list[str]:
    """Metrics that ranks and tests compare: the five of the papers, if there are any.

    Noise detection is shown but not ranked, because precision and recall trade off.
    """
    found = metrics_in(results)
    return [name for name in found if name in METRICS] or found


def _results(
    comparison: Comparison, ours: Contender | None, published: bool, alpha: float, test: str
) -> tuple[list[list[Cell]], list[dict[str, Any]]]:
    """Lines of one metric, as table cells and as CSV records."""
    verdicts = {} if ours is None else stats.verdicts(comparison, ours, alpha=alpha, test=test)
    lines, records = [], []
    for setting in comparison.settings:
        best = _best(comparison, setting)
        line = [Cell(setting.dataset), Cell(setting.level)]
        for c in comparison.contenders:
            verdict = verdicts.get((setting, c), "")
            mark = "" if test == "wilcoxon" else _MARK.get(verdict, "")
            line.append(_result(comparison, setting, c, c in best, mark, published))
            records.append(_record(comparison, setting, c, c in best, verdict, c == ours))
        lines.append(line)
    return lines, records


def _holm_line(
    rows: Sequence[Result], comparison: Comparison, ours: Contender, alpha: float
) -> list[Cell]:
    """P-values of the reference against every method; none against one trained on the truth."""
    found = stats.wilcoxon_holm(rows, ours.label, comparison.metric, alpha=alpha)
    pairs = {pair.contender: pair for pair in found}
    cells = [
        Cell("") if c == ours or c.ceiling else _holm(pairs.get(c.label))
        for c in comparison.contenders
    ]
    return [Cell("p (Holm)"), Cell(""), *cells]


def _result(
    comparison: Comparison,
    setting: Setting,
    c: Contender,
    best: bool,
    mark: str,
    published: bool,
) -> Cell:
    """Mean ± standard deviation with its marks, or a dash with the reason."""
    if (setting, c) in comparison.missing:
        return Cell(MISSING, note=comparison.missing[setting, c])
    mean, std = comparison.mean(setting, c), comparison.std(setting, c)
    return Cell(
        _mean_std(comparison, mean, std),
        mean,
        best,
        mark,
        _distance(comparison, setting, c, mean) if published else "",
        comparison.partial.get((setting, c), ""),
    )


def _mean_std(comparison: Comparison, mean: float, std: float) -> str:
    if not comparison.info.in_percent:
        return f"{mean:.3g}" if math.isnan(std) else f"{mean:.3g} ± {std:.2g}"
    return f"{100 * mean:.1f}" if math.isnan(std) else f"{100 * mean:.1f} ± {100 * std:.1f}"


def _distance(comparison: Comparison, setting: Setting, c: Contender, mean: float) -> str:
    printed = _printed(comparison, setting, c)
    return "" if printed is None else f"[{100 * printed.mean:.1f}, {signed(mean - printed.mean)}]"


def _printed(comparison: Comparison, setting: Setting, c: Contender) -> Published | None:
    """Published value, for the kind of noise that the paper used."""
    if setting.noise not in ("", *PAPER_NOISE):
        return None
    return published_value(setting.dataset, setting.r, c.method, comparison.metric)


def _record(
    comparison: Comparison,
    setting: Setting,
    c: Contender,
    best: bool,
    verdict: str,
    reference: bool,
) -> dict[str, Any]:
    """One line of the CSV file."""
    printed = _printed(comparison, setting, c)
    mean, std = comparison.mean(setting, c), comparison.std(setting, c)
    why = comparison.missing.get((setting, c)) or comparison.partial.get((setting, c), "")
    return {
        "dataset": setting.dataset,
        "r": setting.level,
        "method": c.method,
        "tuning": "oracle" if c.oracle else c.tuning,
        "features": c.features,
        "metric": comparison.metric,
        "folds": len(comparison.values.get((setting, c), {})),
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


def _best(comparison: Comparison, setting: Setting) -> set[Contender]:
    """The best method tuned without true labels, and the best oracle-tuned one."""
    best: set[Contender] = set()
    better = max if comparison.info.greater_is_better else min
    for oracle in (False, True):
        means = {
            c: comparison.mean(setting, c)
            for c in comparison.rivals
            if c.oracle == oracle and (setting, c) in comparison.values
        }
        best |= {c for c, mean in means.items() if mean == better(means.values())}
    return best


def _result_notes(comparison: Comparison, results: Sequence[Result], published: bool) -> list[str]:
    notes = []
    if {c.oracle for c in comparison.rivals} == {False, True}:
        notes.append("The best oracle-tuned method and the best of the others are marked.")
    if published and any(
        _printed(comparison, s, c) for s in comparison.settings for c in comparison.contenders
    ):
        notes.append("In brackets: the published value and ours − published, in points.")
    return [*notes, *_mark_notes(results)]


def _published_line(
    comparison: Comparison, setting: Setting, c: Contender
) -> tuple[list[Cell], dict[str, Any]] | None:
    """One line of the comparison with the paper, as table cells and as a CSV record."""
    printed = _printed(comparison, setting, c)
    if printed is None:
        return None
    stub = [comparison.info.label, setting.dataset, setting.level, c.label]
    mean, std = comparison.mean(setting, c), comparison.std(setting, c)
    theirs = Cell(_mean_std(comparison, printed.mean, printed.std), printed.mean)
    record = _record(comparison, setting, c, False, "", False)
    for name in ("best", "reference_verdict"):
        del record[name]
    if (setting, c) in comparison.missing:
        ours = Cell(MISSING, note=comparison.missing[setting, c])
        rest = [ours, theirs, Cell(MISSING), Cell(MISSING)]
    else:
        gap = mean - printed.mean
        reached = _reached(gap if comparison.info.greater_is_better else -gap, printed.std)
        ours = Cell(_mean_std(comparison, mean, std), mean)
        rest = [ours, theirs, Cell(signed(gap), gap), Cell(reached)]
    return [Cell(text) for text in stub] + rest, record


def _reached(advantage: float, std: float) -> str:
    # Printed numbers have one decimal: half a unit of it is not a shortfall.
    if advantage >= -0.0005:
        return "yes"
    return "nearly" if advantage >= -std else "no"


def _cost(results: Sequence[Result], name: str, summary: Callable[..., Any]) -> Cell:
    values = [value for result in results if (value := value_of(result, name)) is not None]
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


def _rank(rank: float | None, best: float) -> Cell:
    if rank is None or math.isnan(rank):
        return Cell(MISSING)
    return Cell(f"{rank:.2f}", rank, best=rank == best)


def _tally(
    counts: Mapping[str, WinTieLoss], others: Sequence[Contender], marks: Mapping[str, str]
) -> list[Cell]:
    """Counts per contender with their marks, and their sum without the ceiling."""
    own = [(counts[c.label], marks.get(c.label, "")) for c in others]
    total = _add([counts[c.label] for c in others if not c.ceiling])
    return [Cell(str(w), w.win - w.loss, mark=mark) for w, mark in (*own, (total, ""))]


def _add(counts: Sequence[WinTieLoss]) -> WinTieLoss:
    return (
        WinTieLoss(*(sum(values) for values in zip(*counts, strict=True)))
        if counts
        else _NO_SETTINGS
    )


def _holm(pair: Pairwise | None) -> Cell:
    if pair is None or math.isnan(pair.holm):
        return Cell(MISSING, note="fewer than two common values")
    mark = ("•" if pair.median > 0 else "◦") if pair.significant else ""
    return Cell(f"{pair.holm:.3g}", pair.holm, mark=mark)


def _range(counts: set[int]) -> str:
    low, high = min(counts), max(counts)
    return str(low) if low == high else f"{low} to {high}"


def reference_of(
    results: Sequence[Result], comparison: Comparison, reference: str | None
) -> Contender | None:
    """Contender that the others are tested against."""
    name = default_reference(results) if reference == AUTO else reference
    return None if name is None else comparison.find(name)


def _mark_notes(results: Sequence[Result], *, ceiling: bool = True) -> list[str]:
    """Notes on methods that were tuned or trained on true labels, or are reconstructions."""
    contenders = compare(results, next(iter(ALL_METRICS))).contenders
    notes = []
    if any(c.oracle for c in contenders):
        notes.append(
            f"{ORACLE_MARK} oracle-tuned: parameters chosen on the true labels of the test rows."
        )
    if any(c.reconstructed for c in contenders):
        notes.append(
            f"{RECONSTRUCTED_MARK} reconstructed: neither code nor full text was available."
        )
    if any(c.baseline for c in contenders):
        notes.append(f"{BASELINE_MARK} baseline: an ordinary classifier of the candidates.")
    if ceiling and (labels := [c.label for c in contenders if c.ceiling]):
        notes.append(f"{' and '.join(labels)}: trained on the true labels, for reference only.")
    return notes


def _tested(ours: Contender | None, alpha: float, test: str) -> str:
    """End of a caption: what the marks mean, and by which test."""
    if ours is None:
        return ""
    return (
        f". • {ours.label} is significantly better, ◦ significantly worse: {TESTS[test]}, "
        f"level {alpha:g}"
    )


def _number(value: float, form: str, *, note: str = "") -> Cell:
    """A number, or a dash with the reason."""
    return Cell(MISSING, note=note) if math.isnan(value) else Cell(form.format(value), value)


def signed(share: float) -> str:
    """A difference in points with its sign; zero after rounding has none."""
    text = f"{abs(100 * share):.1f}"
    return text if text == "0.0" else ("+" if share > 0 else "−") + text


def capital(text: str) -> str:
    """Text with a capital first letter."""
    return text[:1].upper() + text[1:]
