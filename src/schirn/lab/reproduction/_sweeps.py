"""Studies that run Schirn over a grid: sensitivity to the parameters, and the authors' folds."""

import statistics
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from schirn.datasets import Dataset
from schirn.lab.bench import Cell, Table, published, to_dense
from schirn.lab.reproduction._ablations import Request
from schirn.lab.reproduction._studies import Record, Study, printed, show, spread

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_METRIC = "average_precision"

# Near what Schirn chooses on most data sets; smaller alpha calls most candidates noise.
CENTRE = {"alpha": 0.8, "beta": 0.05, "lam": 100.0}
VALUES: dict[str, list[float]] = {
    "alpha": [0.0, 0.1, 0.2, 0.5, 0.8, 1.0, 2.0],
    "beta": [0.0, 0.001, 0.01, 0.05, 0.1, 0.5, 1.0],
    "lam": [0.01, 0.1, 1.0, 10.0, 100.0, 1000.0, 10_000.0],
}
SEARCHED = {"alpha": (0.1, 2.0), "beta": (0.01, 0.1), "lam": (0.1, 1000.0)}
"""Lowest and highest values of the grid of the paper."""
SYMBOLS = {"alpha": "α", "beta": "β", "lam": "λ"}


def sensitivity_request(sets: Sequence[Any], folds: int) -> Request:
    """Request of `sensitivity`: one parameter varies, the others stay at `CENTRE`."""
    params = {"centre": dict(CENTRE)}
    for name, values in VALUES.items():
        for value in values:
            if value != CENTRE[name]:
                params[f"{name}={value:g}"] = {**CENTRE, name: value}
    return {
        "datasets": sets,
        "methods": dict.fromkeys(params, "Schirn"),
        "folds": folds,
        "tuning": "none",
        "params": params,
    }


def sensitivity(results: list[Record]) -> Study:
    """Average precision of Schirn with one parameter varied at a time.

    Parameters
    ----------
    results : list of dict
        Results of `sensitivity_request`; runs that failed are left out.

    Returns
    -------
    Study
        One line per data set and parameter, with the lowest and the highest mean over the folds.
    """
    body = []
    for (dataset, name), curve in sensitivity_curves(results).items():
        low = min(curve, key=curve.__getitem__)
        high = max(curve, key=curve.__getitem__)
        lowest = [show(curve[low]), Cell(f"{low:g}")]
        highest = [show(curve[high]), Cell(f"{high:g}")]
        span = show(curve[high] - curve[low])
        first, last = SEARCHED[name]
        inner = [precision for value, precision in curve.items() if first <= value <= last]
        narrow = show(max(inner) - min(inner) if inner else None)
        body.append([Cell(dataset), Cell(SYMBOLS[name]), *lowest, *highest, span, narrow])
    head = ["data", "parameter", "lowest", "at", "highest", "at", "range", "range, searched"]
    around = ", ".join(f"{SYMBOLS[k]} = {v:g}" for k, v in CENTRE.items())
    limits = ", ".join(f"{SYMBOLS[k]} {low:g} to {high:g}" for k, (low, high) in SEARCHED.items())
    notes = [
        f"Around {around}; nothing is tuned. The paper prints curves without numbers.",
        f"searched: over the values that lie within the ranges that the paper searches: {limits}.",
    ]
    title = "Sensitivity of Schirn: average precision in percent"
    table = Table("sensitivity", title, head, body, notes, stub=2)
    return Study("sensitivity", results, table)


def sensitivity_curves(results: Sequence[Record]) -> dict[tuple[str, str], dict[float, float]]:
    """Mean average precision in percent by value, for every data set and parameter."""
    curves: dict[tuple[str, str], dict[float, float]] = {}
    for dataset in dict.fromkeys(str(result["dataset"]) for result in results):
        finished = [r for r in results if r["dataset"] == dataset and _METRIC in r["metrics"]]
        for name in VALUES:
            settings = {k: v for k, v in CENTRE.items() if k != name}
            folds: dict[float, list[float]] = {}
            for result in finished:
                params = result["params"]
                if all(params[k] == v for k, v in settings.items()):
                    folds.setdefault(params[name], []).append(100 * result["metrics"][_METRIC])
            if folds:
                means = {value: statistics.fmean(folds[value]) for value in sorted(folds)}
                curves[dataset, name] = means
    return curves


def sensitivity_figure(curves: Mapping[tuple[str, str], Mapping[float, float]]) -> "Figure":
    """Draw one panel per parameter and one curve per data set."""
    from matplotlib.figure import Figure

    from schirn.lab.bench.figures import COLOURS, DASHES, MARKERS

    figure = Figure(figsize=(9, 3.2), layout="constrained")
    panels = figure.subplots(1, len(VALUES), sharey=True)
    names = list(dict.fromkeys(dataset for dataset, _ in curves))
    for panel, (name, values) in zip(panels, VALUES.items(), strict=True):
        for k, dataset in enumerate(names):
            curve = curves.get((dataset, name), {})
            places = [values.index(value) for value in curve]
            style = {
                "color": COLOURS[k % len(COLOURS)],
                "marker": MARKERS[k % len(MARKERS)],
                "linestyle": DASHES[k // len(COLOURS) % len(DASHES)],
            }
            panel.plot(places, list(curve.values()), label=dataset, markersize=4, **style)
        # The values are neither evenly spaced nor all positive.
        panel.set_xticks(range(len(values)), [f"{value:g}" for value in values])
        panel.set_xlabel(SYMBOLS[name])
        panel.grid(axis="y")
    panels[0].set_ylabel("average precision, %")
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside right center")
    return figure


def authors_request(data: Dataset) -> list[Request]:
    """Requests of `authors_folds`."""
    grid = {"alpha": [0.0, 0.2, 0.5, 0.8, 1.0], "lam": [0.1, 1.0, 10.0, 100.0, 250.0, 1000.0]}
    fixed: Request = {"datasets": [(data, None)], "stored_folds": True}
    ridge = {
        "methods": {"ridge(1)": "CandidateRidge"},
        "tuning": "none",
        "params": {"ridge(1)": {"lam": 1.0}},
    }
    best = {
        "methods": dict.fromkeys(("Schirn", "no high rank"), "Schirn"),
        "tuning": "oracle",
        "params": {"no high rank": {"rank_term": "none"}},
        "grids": {"Schirn": {**grid, "beta": [0.01, 0.1, 1.0]}, "no high rank": grid},
    }
    return [fixed | ridge, fixed | best]


def authors_folds(results: list[Record], data: Dataset) -> Study:
    """Ridge with weight 1 and the best of Schirn's grid, on the folds of the authors of NLR.

    The best of a grid is chosen on the true labels of the test rows, as an upper bound.

    Parameters
    ----------
    results : list of dict
        Results of `authors_request`; those that are done get the metric "coverage_all_rows".
    data : Dataset
        With the candidates and the folds.

    Returns
    -------
    Study
    """
    truth = to_dense(data.y_true)
    for result in results:
        if result["status"] == "done" and data.folds:
            test = data.folds[result["fold"]][1]
            filled = float((truth[test].sum(axis=1) > 0).mean())
            coverage = result["metrics"]["coverage"]
            all_rows = coverage_of_all_rows(coverage, filled, truth.shape[1])
            result["metrics"]["coverage_all_rows"] = all_rows
    return Study("authors_folds", results, _authors_table(results))


def coverage_of_all_rows(coverage: float, filled: float, labels: int) -> float:
    """Coverage if rows without a true label (all but a share `filled`) count as depth 0."""
    return (filled * (coverage * labels + 1) - 1) / labels


def _authors_table(results: Sequence[Record]) -> Table:
    metrics = (_METRIC, "ranking_loss", "one_error", "coverage", "coverage_all_rows")
    papers = {"ridge(1)": "GLC", "Schirn": "Schirn", "no high rank": "Schirn, β=0"}
    body = []
    for name, paper in papers.items():
        runs = [result for result in results if result["method"] == name]
        line = [Cell(name + (" †" if any(result["oracle"] for result in runs) else ""))]
        printed_line = [Cell(f"{paper}, published")]
        for metric in metrics:
            values = [v for r in runs if (v := r["metrics"].get(metric)) is not None]
            line.append(Cell(spread(values)))
            theirs = "coverage" if metric == "coverage_all_rows" else metric
            printed_line.append(Cell(_printed_on_birds(name, paper, theirs)))
        body += [line, printed_line]
    notes = [
        "† the best of the grid in every fold, chosen on the true labels of its test rows.",
        "coverage: without rows that have no true label; coverage all rows: these count as depth "
        "0, as in the code behind NLR's numbers.",
    ]
    head = ["method", *(metric.replace("_", " ") for metric in metrics)]
    title = "Birds, r = 3, on the candidates and folds of NLR's authors, in percent"
    return Table("authors_folds", title, head, body, notes)


def _printed_on_birds(variant: str, method: str, metric: str) -> str:
    """Printed mean ± deviation in percent, of a method or of an ablation."""
    if variant == "no high rank":
        values = printed("ablation", "birds", 3, variant, metric)
    else:
        value = published("birds", 3, method, metric)
        values = (100 * value.mean, 100 * value.std) if value else None
    return "{:.1f} ± {:.1f}".format(*values) if values else "–"
