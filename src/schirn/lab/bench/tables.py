"""Tables of a benchmark: results, ranks, win/tie/loss, tests, costs, distance from the paper."""

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from schirn.exceptions import InputError
from schirn.lab.bench import stats
from schirn.lab.bench._comparison import (
    ALL_METRICS,
    AUTO,
    CEILING,
    FLOOR,
    MOST_TIED,
    PAPER_NOISE,
    SMALLEST_GAP,
    Comparison,
    Contender,
    Result,
    Setting,
    compare,
    contender_notes,
    default_reference,
    folds_of,
    key_of,
    mark_notes,
    value_of,
)
from schirn.lab.bench._published import Published, published_counts
from schirn.lab.bench._published import published as published_value
from schirn.lab.bench._rendering import Cell, Table
from schirn.lab.bench.protocol import fixed_parameters, is_tuned_in_fit
from schirn.lab.bench.running._scores import NOTHING_PREDICTED
from schirn.lab.bench.stats import DEFAULT_TEST, TESTS, Pairwise, WinTieLoss
from schirn.metrics import METRICS

__all__ = [
    "Table",
    "costs",
    "friedman_tests",
    "gaps",
    "ranks",
    "results",
    "wilcoxon_tests",
    "win_tie_loss",
]

MISSING = "–"
_POINT = f"{100 * SMALLEST_GAP:g} point"
_MARK = {"win": "•", "loss": "◦"}
_TWO_FOLDS = "A test over 2 folds has one degree of freedom and rarely finds a difference."
_HAMMING = "hamming_loss"
_WITHOUT = " without Hamming loss"
_NO_HAMMING = f"total{_WITHOUT}"
_COSTS: dict[str, tuple[str, Callable[..., Any]]] = {
    "fit s, mean": ("fit_seconds", np.mean),
    "fit s, longest": ("fit_seconds", np.max),
    "fit CPU s, mean": ("fit_cpu_seconds", np.mean),
    "tuning s, mean": ("tune_seconds", np.mean),
    "predict s, mean": ("predict_seconds", np.mean),
    "peak MB": ("peak_memory_mb", np.max),
}


def results(
    rows: Iterable[Result],
    metric: str,
    *,
    reference: str | None = AUTO,
    published: bool = False,
    alpha: float = 0.05,
    test: str = DEFAULT_TEST,
    folds: bool = False,
) -> Table:
    """Return a table of the mean ± standard deviation of every method in every setting.

    The best oracle-tuned method and the best of the others are marked, and the settings in which
    the reference differs significantly.

    Parameters
    ----------
    rows : list of dict
        Results of a benchmark; methods keep the order of the results.
    metric : str
        Metric to show.
    reference : str or None
        Method that the others are tested against; "auto" means Sieve or else Schirn; None tests
        nothing.
    published : bool
        Add the published value and the distance from it.
    alpha : float
        Significance level.
    test : {"corrected", "paired"}
        As in `schirn.lab.bench.stats.win_tie_loss`.
    folds : bool
        Add the number of folds of every setting.

    Returns
    -------
    Table

    Examples
    --------
    >>> from schirn.lab.bench import tables
    >>> results = [
    ...     {"dataset": "d", "r": 1, "method": m, "fold": f, "metrics": {"one_error": v + f / 100}}
    ...     for m, v in [("Schirn", 0.2), ("NLR", 0.3)] for f in range(5)
    ... ]
    >>> print(tables.results(results, "one_error").render("csv").splitlines()[1])
    d,1,22.0 ± 1.6,32.0 ± 1.6 •
    """
    rows = list(rows)
    comparison = compare(rows, metric)
    ours = reference_of(rows, comparison, reference)
    verdicts = {} if ours is None else stats.verdicts(comparison, ours, alpha=alpha, test=test)
    tied = _tied(rows, metric)
    counts = folds_of(rows)
    body = []
    for setting in comparison.settings:
        best = _best(comparison, setting, tied)
        body.append([Cell(setting.dataset), Cell(setting.level)])
        for c in comparison.contenders:
            mark = _MARK.get(verdicts.get((setting, c), ""), "")
            body[-1].append(_result(comparison, setting, c, c in best, mark, published))
        body[-1] += [Cell(str(counts[setting]), counts[setting])] * folds
    notes = [*_best_notes(comparison, tied), *_hamming_notes(rows, metric)]
    if any(cell.detail for line in body for cell in line):
        notes.append("In brackets: the published value and ours − published, in points.")
    if folds and ours is not None and min(counts.values()) == 2:
        notes.append(f"folds: those that were run. {_TWO_FOLDS}")
    last = ["folds"] * folds
    return Table(
        f"results_{metric}",
        _caption(comparison, ours, alpha, test),
        ["data", "r", *(c.label for c in comparison.contenders), *last],
        body,
        [*notes, *fixed_parameters(rows), *_mark_notes(rows)],
        stub=2,
    )


def _caption(comparison: Comparison, ours: Contender | None, alpha: float, test: str) -> str:
    """Return the title of a table of results, with the test if there is one."""
    what = capital(comparison.info.label)
    text = f"{what}, in percent, mean ± standard deviation over the folds"
    if ours is None:
        return text
    return (
        f"{text}. • {ours.label} is significantly better, ◦ significantly worse: {TESTS[test]}, "
        f"level {alpha:g}"
    )


def _best_notes(
    comparison: Comparison, tied: Collection[tuple[Setting, Contender]]
) -> Iterator[str]:
    """Yield notes on which methods are marked as best."""
    if {c.oracle for c in comparison.rivals} == {False, True}:
        yield "The best oracle-tuned method and the best of the others are marked."
    if tied:
        names = [c.label for c in comparison.contenders if any(c == tied_c for _, tied_c in tied)]
        yield (
            f"Tied scores of true and false labels in more than {100 * MOST_TIED:g}% of the rows: "
            f"{', '.join(names)}. They are not marked as best there; see the values with ties "
            "broken at random."
        )


def _hamming_notes(rows: Sequence[Result], metric: str) -> Iterator[str]:
    """Yield notes on Hamming loss, and on the score of predicting nothing."""
    if metric != _HAMMING:
        return
    yield "Hamming loss measures the threshold of predict as much as the scores."
    values: dict[str, list[float]] = {}
    for result in rows:
        value = (result.get("metrics") or {}).get(NOTHING_PREDICTED)
        if value is not None:
            values.setdefault(str(result["dataset"]), []).append(value)
    if values:
        means = (f"{name} {100 * np.mean(shares):.1f}" for name, shares in values.items())
        yield f"Predicting no label at all scores: {', '.join(means)}."


def published_records(rows: Iterable[Result], metrics: Sequence[str]) -> list[dict[str, Any]]:
    """Return one record per metric, setting and method for which the paper has a number.

    Parameters
    ----------
    rows : list of dict
        Results of a benchmark.
    metrics : list of str
        Metrics to list.

    Returns
    -------
    list
        Our value and the published value, by setting and method.
    """
    rows = list(rows)
    records = []
    for metric in metrics:
        comparison = compare(rows, metric)
        for setting in comparison.settings:
            for c in comparison.contenders:
                printed = _printed(comparison, setting, c)
                if printed is None:
                    continue
                distance = comparison.mean(setting, c) - printed.mean
                advantage = distance if comparison.info.greater_is_better else -distance
                records.append(
                    {
                        "metric": comparison.info.label,
                        "setting": setting.label,
                        "method": c.method,
                        "label": c.label,
                        "distance": distance,
                        "reached": _reached(advantage, printed.std),
                    }
                )
    return records


def _reached(advantage: float, std: float) -> str:
    if math.isnan(advantage):
        return ""
    # Printed numbers have one decimal, so a difference of half a unit does not count.
    if advantage >= -0.0005:
        return "yes"
    return "nearly" if advantage >= -std else "no"


def gaps(rows: Iterable[Result], metric: str = "average_precision") -> Table:
    """Return a table of the share of the gap to OracleRidge that each method closes.

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
    closed = stats.gap_closed(rows, metric)
    comparison = compare(rows, metric)
    lines = {s.label: [shares[s] for shares in closed.values()] for s in comparison.settings}
    lines["pooled"] = list(stats.pooled_gap_closed(rows, metric).values())
    exceeded = stats.settings_above_ceiling(comparison)
    gap_notes = {s.label: _why_no_gap(comparison, s, exceeded) for s in comparison.settings}
    body = []
    for name, shares in lines.items():
        best = max((share for share in shares if not math.isnan(share)), default=math.nan)
        note = gap_notes.get(name, "no setting has a value")
        body.append([Cell(name)])
        for share in shares:
            text = "" if math.isnan(share) else str(round(100 * share)).replace("-", "−")
            body[-1].append(_number(share, text, note=note, best=share == best))
    return Table(
        f"gap_closed_{metric}",
        f"Gap closed in {comparison.info.name}, in percent",
        ["setting", *closed],
        body,
        [
            f"(method − {FLOOR}) / ({CEILING} − {FLOOR}); 0 is no better than treating every "
            "candidate as true, 100 is as good as the same ridge trained on the truth.",
            "pooled: gains summed over the settings with a value.",
            *_left_out(exceeded, len(comparison.settings)),
            *mark_notes(comparison.contenders),
        ],
        foot=1,
    )


def _why_no_gap(comparison: Comparison, setting: Setting, exceeded: Collection[Setting]) -> str:
    """Return the reason why a share of the gap has no value in a setting."""
    if setting in exceeded:
        return f"no upper bound: a method is over {_POINT} better than {CEILING}"
    gap = comparison.mean(setting, comparison.find(CEILING))
    gap -= comparison.mean(setting, comparison.find(FLOOR))
    gap *= 1 if comparison.info.greater_is_better else -1
    if gap < SMALLEST_GAP:
        return f"no gap to close: {CEILING} is less than {_POINT} better"
    return "no result of the method or of a reference"


def _left_out(exceeded: Sequence[Setting], n_settings: int) -> list[str]:
    """Return a note on the settings in which the oracle is no upper bound, if there are any."""
    if not exceeded:
        return []
    return [
        f"Left out: {len(exceeded)} of {n_settings} settings, in which a method is over {_POINT} "
        f"better than {CEILING}, which has no intercept on raw features."
    ]


def costs(rows: Iterable[Result]) -> Table:
    """Return a table of time and memory per method, over all finished runs.

    Parameters
    ----------
    rows : list of dict
        Results of a benchmark.

    Returns
    -------
    Table
    """
    rows = list(rows)
    body = []
    for c in compare(rows, next(iter(ALL_METRICS))).contenders:
        runs = [result for result in rows if key_of(result) == c.key]
        finished = [result for result in runs if result.get("metrics")]
        counts = [len(finished), len(runs) - len(finished)]
        cells = [_cost(finished, *column) for column in _COSTS.values()]
        search = Cell(", ".join(sorted({_search(result) for result in finished})) or MISSING)
        body.append([Cell(c.label), search, *cells, *(Cell(str(n), n) for n in counts)])
    return Table(
        "costs",
        "Time and memory per run",
        ["method", "search", *_COSTS, "runs", "failed"],
        body,
        [
            "One run is one fold. Wall time depends on other load; CPU time does not.",
            "search in fit: the method chooses its parameters in fit, and the times of fit include "
            "that search. separate: the benchmark searches, and tuning is its time.",
            *_mark_notes(rows),
        ],
        stub=2,
    )


def _search(result: Result) -> str:
    """Return where the parameters of a run were searched."""
    if result.get("grid"):
        return "separate"
    return "in fit" if is_tuned_in_fit(str(result["method"])) else "none"


def _cost(results: Sequence[Result], name: str, summary: Callable[..., Any]) -> Cell:
    values = [value for result in results if (value := result.get(name)) is not None]
    value = float(summary(values)) if values else math.nan
    return _number(value, f"{value:.0f}" if value >= 100 else f"{value:.3g}", note="not measured")


def ranks(rows: Iterable[Result], metrics: Sequence[str] | None = None) -> Table:
    """Return a table of mean ranks over data sets, as in Friedman's test; 1 is best.

    Parameters
    ----------
    rows : list of dict
        Results of a benchmark.
    metrics : list of str, optional
        Metrics to show; by default the five of the papers, as far as the results have them.

    Returns
    -------
    Table
    """
    rows = list(rows)
    names = ranked_metrics(rows) if metrics is None else list(metrics)
    tests = [stats.friedman(rows, name) for name in names]
    best = [min(test.ranks.values(), default=math.nan) for test in tests]
    body = []
    for c in compare(rows, names[0]).rivals:
        values = [test.ranks.get(c.label, math.nan) for test in tests]
        cells = [_number(v, f"{v:.2f}", best=v == b) for v, b in zip(values, best, strict=True)]
        body.append([Cell(c.label), *cells])
    counts = sorted({len(test.blocks.names) for test in tests})
    n_sets = str(counts[0]) if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    dropped = dict.fromkeys(s for test in tests for s in test.blocks.dropped_settings)
    absent = dict.fromkeys(s for test in tests for s in test.blocks.dropped_contenders)
    notes = [
        f"Mean over {n_sets} data sets on which all ranked methods have results. In each data set, "
        f"methods are ranked by their mean over all settings."
    ]
    if dropped:
        notes.append(f"Left out because results are missing: {', '.join(dropped)}.")
    if absent:
        notes.append(f"Not ranked in every metric, for lack of results: {', '.join(absent)}.")
    heads = [ALL_METRICS[name].label for name in names]
    return Table(
        "ranks", "Mean ranks (1 is best)", ["method", *heads], body, [*notes, *_mark_notes(rows)]
    )


def win_tie_loss(
    rows: Iterable[Result],
    reference: str | None = AUTO,
    metrics: Sequence[str] | None = None,
    *,
    published: bool = False,
    alpha: float = 0.05,
    test: str = DEFAULT_TEST,
) -> Table:
    """Return a table of win/tie/loss counts of the reference against every method.

    Settings with fewer folds than others are counted apart.

    Parameters
    ----------
    rows : list of dict
        Results of a benchmark.
    reference : str or None
        Method that the others are tested against; "auto" means Sieve or else Schirn.
    metrics : list of str, optional
        Metrics to show; by default the five of the papers, as far as the results have them.
    published : bool
        Add the counts of Schirn that the paper prints.
    alpha, test
        As in `schirn.lab.bench.stats.win_tie_loss`.

    Returns
    -------
    Table
    """
    rows, names, ours = _tested_rows(rows, reference, metrics, "Win/tie/loss counts need")
    folds = folds_of(rows)
    most = max(folds.values())
    tested = [setting for setting, count in folds.items() if count == most]
    apart = [setting for setting in folds if setting not in tested]
    counts, few = (
        {
            name: stats.win_tie_loss(
                rows, ours.label, name, alpha=alpha, test=test, settings=chosen
            )
            for name in names
        }
        for chosen in (tested, apart)
    )
    rivals = [c for c in compare(rows, names[0]).contenders if c != ours]
    lines = [[Cell(ALL_METRICS[name].label), *_tally(counts[name], rivals)] for name in names]
    lines += _totals(counts, rivals, "total")
    notes = []
    if published and ours.method == "Schirn":
        columns = [c.method for c in rivals] + ["total"]
        kinds = [*names, "total", _NO_HAMMING]
        for line, name in zip(lines, kinds, strict=False):
            line[1:] = [
                replace(cell, detail=f"[{theirs}]") if theirs else cell
                for cell, column in zip(line[1:], columns, strict=True)
                for theirs in [_printed_counts(name, column)]
            ]
        notes.append("In brackets: the counts of the paper, over its 23 settings.")
    if apart:
        lines += _totals(few, rivals, f"total of {_settings_words([folds[s] for s in apart])}")
        notes.append(_apart_note(folds, apart, most))
    elif most == 2:
        notes.append(f"All settings have 2 folds. {_TWO_FOLDS}")
    if _has_other_metrics(names):
        notes.append(f"{_NO_HAMMING}: Hamming loss depends on the threshold of predict.")
    if any(c.ceiling for c in rivals):
        notes.append(f"The total excludes {CEILING}, which is trained on the true labels.")
    if any(w.missing for found in (counts, few) for by in found.values() for w in by.values()):
        notes.append("Settings without results of both methods are not counted.")
    return Table(
        "win_tie_loss",
        f"Win/tie/loss of {ours.label} against each method: {TESTS[test]}, level {alpha:g}",
        ["metric", *(c.label for c in rivals), "total"],
        lines,
        [*notes, *_mark_notes(rows)],
        foot=len(lines) - len(names),
    )


def _totals(
    counts: Mapping[str, Mapping[str, WinTieLoss]], rivals: Sequence[Contender], title: str
) -> list[list[Cell]]:
    """Return a line with the sums over the metrics, and one without Hamming loss."""
    sums = {title: list(counts)}
    if _has_other_metrics(counts):
        sums[f"{title}{_WITHOUT}"] = [name for name in counts if name != _HAMMING]
    lines = []
    for words, names in sums.items():
        total = {c.label: _add([counts[name][c.label] for name in names]) for c in rivals}
        lines.append([Cell(words), *_tally(total, rivals)])
    return lines


def _has_other_metrics(names: Collection[str]) -> bool:
    """Check whether there is Hamming loss, and anything to add up without it."""
    return _HAMMING in names and len(names) > 1


def _printed_counts(metric: str, method: str) -> str:
    """Return the printed counts of a metric, of "total", or of the total without Hamming loss."""
    known = published_counts()
    if metric != _NO_HAMMING:
        return known.get((metric, method), "")
    parts = [known.get((name, method), "") for name in METRICS if name != _HAMMING]
    if not all(parts):
        return ""
    columns = zip(*(part.split("/") for part in parts), strict=True)
    return "/".join(str(sum(map(int, column))) for column in columns)


def _settings_words(counts: Sequence[int]) -> str:
    """Describe settings by the numbers of their folds, such as "8 settings with 2 folds"."""
    numbers = " or ".join(str(count) for count in sorted(set(counts)))
    noun = "setting" if len(counts) == 1 else "settings"
    return f"{len(counts)} {noun} with {numbers} {'fold' if numbers == '1' else 'folds'}"


def _apart_note(folds: Mapping[Setting, int], apart: Sequence[Setting], most: int) -> str:
    """Say which settings are counted apart, and why."""
    counted = _settings_words([count for count in folds.values() if count == most])
    names = ", ".join(setting.label for setting in apart)
    why = f" {_TWO_FOLDS}" if min(folds.values()) == 2 else ""
    return f"Counted: {counted}. Settings with fewer folds have totals of their own: {names}.{why}"


def _tally(counts: Mapping[str, WinTieLoss], rivals: Sequence[Contender]) -> list[Cell]:
    """Return the counts per contender, and their sum without the ceiling."""
    total = _add([counts[c.label] for c in rivals if not c.ceiling])
    return [Cell(str(w), w.win - w.loss) for w in (*(counts[c.label] for c in rivals), total)]


def _add(counts: Sequence[WinTieLoss]) -> WinTieLoss:
    return WinTieLoss(*(sum(values) for values in zip(WinTieLoss(0, 0, 0), *counts, strict=True)))


def friedman_tests(
    rows: Iterable[Result],
    metrics: Sequence[str] | None = None,
    *,
    alpha: float = 0.05,
) -> Table:
    """Return a table of Friedman's test per metric, with Nemenyi's critical difference.

    Parameters
    ----------
    rows, metrics
        As in `ranks`.
    alpha : float
        Significance level.

    Returns
    -------
    Table
    """
    rows = list(rows)
    body = []
    warnings: dict[str, None] = {}
    for name in ranked_metrics(rows) if metrics is None else metrics:
        result = stats.friedman(rows, name, alpha=alpha)
        warnings |= dict.fromkeys([text] if (text := stats.few_blocks(result)) else [])
        n, k = result.blocks.values.shape
        best = min(result.ranks, key=result.ranks.__getitem__, default=MISSING)
        body.append(
            [
                Cell(ALL_METRICS[name].label),
                Cell(best),
                _number(result.statistic, f"{result.statistic:.2f}", note=result.note),
                _number(result.pvalue, f"{result.pvalue:.3g}", note=result.note),
                *(
                    _number(value, f"{value:.3g}", note=result.note)
                    for value in result.iman_davenport
                ),
                _number(result.critical_difference, f"{result.critical_difference:.2f}"),
                Cell(str(k), k),
                Cell(str(n), n),
            ]
        )
    return Table(
        "friedman",
        "Friedman's test over data sets",
        [
            *("metric", "best rank", "chi-square", "p", "F", "p of F"),
            *("critical difference", "methods", "data sets"),
        ],
        body,
        [
            "F is the statistic of Iman and Davenport. "
            "Two mean ranks further apart than the critical difference differ "
            f"(Nemenyi, {alpha:g}).",
            *warnings,
        ],
        stub=2,
    )


def wilcoxon_tests(
    rows: Iterable[Result],
    reference: str | None = AUTO,
    metrics: Sequence[str] | None = None,
    *,
    alpha: float = 0.05,
) -> Table:
    """Return a table of Holm-corrected p-values of Wilcoxon's test against every method.

    Parameters
    ----------
    rows, reference, metrics
        As in `win_tie_loss`.
    alpha : float
        Significance level.

    Returns
    -------
    Table
    """
    rows, names, ours = _tested_rows(rows, reference, metrics, "Wilcoxon's test needs")
    lines: dict[str, list[Cell]] = {}
    for k, name in enumerate(names):
        for pair in stats.wilcoxon_holm(rows, ours.label, name, alpha=alpha):
            cells = lines.setdefault(pair.contender, [Cell(MISSING)] * len(names))
            cells[k] = _holm(pair)
    return Table(
        "wilcoxon",
        f"Wilcoxon's test of {ours.label} over data sets, Holm-corrected p-values",
        ["against", *(ALL_METRICS[name].label for name in names)],
        [[Cell(label), *cells] for label, cells in lines.items()],
        [
            f"• {ours.label} is better, ◦ worse, at level {alpha:g}.",
            "With n data sets, no p-value can be below 2/2^n before Holm's correction.",
            *_mark_notes(rows),
        ],
    )


def _tested_rows(
    rows: Iterable[Result], reference: str | None, metrics: Sequence[str] | None, what: str
) -> tuple[list[Result], list[str], Contender]:
    """Return results, metrics and reference of a test; raise InputError without a reference."""
    rows = list(rows)
    names = ranked_metrics(rows) if metrics is None else list(metrics)
    ours = reference_of(rows, compare(rows, names[0]), reference)
    if ours is None:
        raise InputError(f"{what} a reference method; name one that has results.")
    return rows, names, ours


def metrics_in(results: Iterable[Result]) -> list[str]:
    """Return the metrics with at least one value, in table order.

    Parameters
    ----------
    results : list of dict
        Results of a benchmark.

    Returns
    -------
    list of str
        Names of the metrics that some result has.
    """
    results = list(results)
    return [
        name
        for name in ALL_METRICS
        if any(value_of(result, name) is not None for result in results)
    ]


def ranked_metrics(results: Iterable[Result]) -> list[str]:
    """Return the metrics for ranks and tests: the papers' five, if there are any results.

    Noise detection is shown but not ranked, because precision and recall trade off.

    Parameters
    ----------
    results : list of dict
        Results of a benchmark.

    Returns
    -------
    list of str
        Names of the metrics.
    """
    names = metrics_in(results)
    return [name for name in names if name in METRICS] or names


def _holm(pair: Pairwise) -> Cell:
    if math.isnan(pair.holm):
        return Cell(MISSING, note="fewer than two common values")
    mark = ("•" if pair.median > 0 else "◦") if pair.significant else ""
    return Cell(f"{pair.holm:.3g}", pair.holm, mark=mark)


def _result(
    comparison: Comparison,
    setting: Setting,
    c: Contender,
    best: bool,
    mark: str,
    published: bool,
) -> Cell:
    """Return a cell with mean ± standard deviation and marks, or a dash with the reason."""
    if (setting, c) in comparison.missing:
        return Cell(MISSING, note=comparison.missing[setting, c])
    mean = comparison.mean(setting, c)
    printed = _printed(comparison, setting, c)
    detail = ""
    if published and printed is not None:
        detail = f"[{100 * printed.mean:.1f}, {signed(mean - printed.mean)}]"
    std = comparison.std(setting, c)
    text = f"{100 * mean:.1f}" if math.isnan(std) else f"{100 * mean:.1f} ± {100 * std:.1f}"
    return Cell(text, mean, best, mark, detail, comparison.partial.get((setting, c), ""))


def _printed(comparison: Comparison, setting: Setting, c: Contender) -> Published | None:
    """Return the published value, for the kind of noise that the paper used."""
    if setting.noise not in ("", *PAPER_NOISE):
        return None
    return published_value(setting.dataset, setting.r, c.method, comparison.metric)


def _tied(rows: Sequence[Result], metric: str) -> set[tuple[Setting, Contender]]:
    """Return the settings and contenders for which a metric depends on the rule for ties."""
    if metric not in METRICS or "tied_rows" not in metrics_in(rows):
        return set()
    shares = compare(rows, "tied_rows")
    return {pair for pair in shares.values if shares.mean(*pair) > MOST_TIED}


def _best(
    comparison: Comparison, setting: Setting, tied: Collection[tuple[Setting, Contender]]
) -> set[Contender]:
    """Return the best method tuned without true labels, and the best oracle-tuned one.

    Means over different folds are not comparable, so only methods with all folds count.
    """
    best: set[Contender] = set()
    better = max if comparison.info.greater_is_better else min
    for oracle in (False, True):
        folds = {
            c: comparison.values.get((setting, c), {}).keys()
            for c in comparison.rivals
            if c.oracle == oracle
        }
        all_folds = set().union(*folds.values())
        means = {
            c: comparison.mean(setting, c)
            for c in folds
            if all_folds and folds[c] == all_folds and (setting, c) not in tied
        }
        best |= {c for c, mean in means.items() if mean == better(means.values())}
    return best


def reference_of(
    results: Sequence[Result], comparison: Comparison, reference: str | None
) -> Contender | None:
    """Return the contender that the others are tested against.

    Parameters
    ----------
    results : list of dict
        Results of a benchmark.
    comparison : Comparison
        Their values of one metric.
    reference : str or None
        Name of the reference, "auto", or None.

    Returns
    -------
    Contender or None
        The reference, if there is one.
    """
    name = default_reference(results) if reference == AUTO else reference
    return None if name is None else comparison.find(name)


def _mark_notes(results: Sequence[Result]) -> list[str]:
    """Return notes on methods that use true labels, or are reconstructions."""
    return contender_notes(compare(results, next(iter(ALL_METRICS))).contenders)


def _number(value: float, text: str, *, note: str = "", best: bool = False) -> Cell:
    """Return a cell with a number, or a dash with the reason."""
    return Cell(MISSING, note=note) if math.isnan(value) else Cell(text, value, best)


def finite_mean(values: Iterable[float]) -> float:
    """Return the mean of the values that are not NaN; NaN if there are none.

    Parameters
    ----------
    values : list of float
        Numbers, some of which may be NaN.

    Returns
    -------
    float
        NaN if none is finite.
    """
    finite = [value for value in values if not math.isnan(value)]
    return sum(finite) / len(finite) if finite else math.nan


def signed(share: float) -> str:
    """Return a difference in points with its sign; rounded zeros have no sign.

    Parameters
    ----------
    share : float
        A difference as a fraction.

    Returns
    -------
    str
    """
    text = f"{abs(100 * share):.1f}"
    return text if text == "0.0" else ("+" if share > 0 else "−") + text


def capital(text: str) -> str:
    """Return a text with a capital first letter.

    Parameters
    ----------
    text : str
        A phrase.

    Returns
    -------
    str
    """
    return text[:1].upper() + text[1:]
