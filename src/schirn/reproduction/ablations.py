"""Studies that run the benchmark: ablations, tied labels, sensitivity to the parameters.

Every function returns a `Study`; what is finished in its folder is not run again.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from schirn.bench._progress import Report
from schirn.bench._render import Cell, Table
from schirn.bench._run import run
from schirn.bench.published import Published, published
from schirn.datasets import Dataset, add_noise, make_cooccurrence
from schirn.rank.exact import exact_rank
from schirn.reproduction.study import Row, Study, distances, printed, show, spread

RIDGES = [1.0, 10.0, 100.0, 1000.0]

VARIANTS: dict[str, dict[str, Any]] = {
    "Schirn": {},
    "no high rank": {"rank_term": "none"},
    "no sparsity": {"sparsity": False},
    "no sparsity, printed rule": {"sparsity": False, "noise_rule": "printed"},
    "low rank": {"rank_term": "low"},
}

# Rank after tying and wrong labels per row of the published study.
TIED = {"yeastmf": (29, 3), "yeastcc": (37, 5), "yeastbp": (158, 10)}

CENTRE = {"alpha": 0.2, "beta": 0.05, "lam": 10.0}
VALUES: dict[str, list[float]] = {
    "alpha": [0.0, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0],
    "beta": [0.0, 0.001, 0.01, 0.05, 0.1, 0.5, 1.0],
    "lam": [0.01, 0.1, 1.0, 10.0, 100.0, 1000.0, 10_000.0],
}

_HELD = "Schirn with α = 0.2, β = 0.05; λ chosen on held-out candidates."

_Report = Callable[[Report], None] | None
Asked = dict[str, Any]
"""Arguments of `schirn.bench.run` that say which cells are wanted."""


def ablation(
    sets: Sequence[Any],
    output: str | os.PathLike[str],
    *,
    folds: int = 5,
    jobs: int = 0,
    threads: int | None = None,
    report: _Report = None,
) -> Study:
    """Schirn without its rank term, without sparsity, and with the opposite rank term.

    The ridge weight is chosen on held-out candidates in every fold. Parameters as of
    `schirn.bench.run`; an item of `sets` such as "birds:3" names the noise level too.
    """
    asked = ask_ablation(sets, folds)
    rows = run(**asked, output=output, jobs=jobs, threads=threads, report=report)
    levels = {str(row["dataset"]): (str(row["dataset"]), row["r"]) for row in rows}
    note = (
        "no sparsity: α = 0. Under the printed noise rule every candidate whose score is below 1 "
        "then counts as noise."
    )
    return Study(
        "ablation", rows, _beside("ablation", "Ablations of Schirn", rows, levels, [_HELD, note])
    )


def ask_ablation(sets: Sequence[Any], folds: int) -> Asked:
    """What `ablation` asks of `run`."""
    return {
        "datasets": sets,
        "methods": dict.fromkeys(VARIANTS, "Schirn"),
        "folds": folds,
        "params": VARIANTS,
        "grids": {name: {"lam": RIDGES} for name in VARIANTS},
    }


def cooccurrence(
    sets: Sequence[Dataset],
    output: str | os.PathLike[str],
    *,
    folds: int = 5,
    jobs: int = 0,
    threads: int | None = None,
    report: _Report = None,
) -> Study:
    """High rank, low rank and NLR on labels that were tied in pairs until the rank is low."""
    tied = [tie(data) for data in sets]
    names, ranks = {}, {}
    for data, (made, level) in zip(sets, tied, strict=True):
        names[made.name] = (data.name, level)
        ranks[made.name] = (exact_rank(data.y_true), exact_rank(made.y_true))
    asked = ask_cooccurrence([made for made, _ in tied], folds)
    rows = run(**asked, output=output, jobs=jobs, threads=threads, report=report)
    notes = [
        f"{name}: rank {before} before, {after} after tying."
        for name, (before, after) in ranks.items()
    ]
    notes.append(
        f"{_HELD} The published recipe for tying is not known; ours reaches the same ranks."
    )
    title = "Labels tied in pairs"
    return Study("cooccurrence", rows, _beside("cooccurrence", title, rows, names, notes))


def ask_cooccurrence(tied: Sequence[Dataset], folds: int) -> Asked:
    """What `cooccurrence` asks of `run` for sets whose labels are tied."""
    variants = {"high rank": "Schirn", "low rank": "Schirn", "NLR": "NLR"}
    references = {name: name for name in ("CandidateRidge", "OracleRidge")}
    ridge = {"lam": RIDGES}
    return {
        "datasets": tied,
        "methods": variants | references,
        "folds": folds,
        "params": {"low rank": {"rank_term": "low"}},
        "grids": {
            "NLR": {"gamma": [10.0, 1000.0], "lam": [1.8, 2.5]},
            **{name: ridge for name in ("high rank", "low rank", *references)},
        },
    }


def authors_folds(
    data: Dataset,
    output: str | os.PathLike[str],
    *,
    jobs: int = 0,
    threads: int | None = None,
    report: _Report = None,
) -> Study:
    """Ridge with weight 1 and the best of Schirn's grid, on the folds of the authors of NLR.

    The best of a grid is chosen on the true labels of the test rows, to see what could be had.
    """
    rows = []
    for asked in ask_authors_folds(data):
        rows += run(**asked, output=output, jobs=jobs, threads=threads, report=report)
    truth = data.y_true.toarray() if hasattr(data.y_true, "toarray") else data.y_true
    for row in rows:
        if row["status"] == "done" and data.folds:
            test = data.folds[row["fold"]][1]
            filled = float((truth[test].sum(axis=1) > 0).mean())
            row["metrics"]["coverage_all_rows"] = _all_rows(
                row["metrics"]["coverage"], filled, truth.shape[1]
            )
    return Study("authors_folds", rows, _authors_table(rows))


def ask_authors_folds(data: Dataset) -> list[Asked]:
    """What `authors_folds` asks of `run`, one after the other."""
    grid = {"alpha": [0.0, 0.2, 0.5, 1.0], "lam": [0.1, 1.0, 10.0, 100.0, 250.0, 1000.0]}
    fixed: Asked = {"datasets": [(data, None)], "stored_folds": True}
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


def _all_rows(coverage: float, filled: float, labels: int) -> float:
    """Coverage if a row without a true label counts as depth 0."""
    return (filled * (coverage * labels + 1) - 1) / labels


def _authors_table(rows: Sequence[Row]) -> Table:
    metrics = ("average_precision", "ranking_loss", "one_error", "coverage", "coverage_all_rows")
    compared = {
        "ridge(1)": ("GLC", lambda metric: published("birds", 3, "GLC", metric)),
        "Schirn": ("Schirn", lambda metric: published("birds", 3, "Schirn", metric)),
        "no high rank": ("Schirn, β=0", lambda metric: _ablated(metric)),
    }
    body = []
    for name, (paper, find) in compared.items():
        own = [row for row in rows if row["method"] == name]
        line = [Cell(name + (" †" if any(row["oracle"] for row in own) else ""))]
        beside = [Cell(f"{paper}, published")]
        for metric in metrics:
            line.append(
                Cell(spread([v for r in own if (v := r["metrics"].get(metric)) is not None]))
            )
            value = find("coverage" if metric == "coverage_all_rows" else metric)
            beside.append(Cell(f"{100 * value.mean:.1f} ± {100 * value.std:.1f}" if value else "–"))
        body += [line, beside]
    notes = [
        "† the best of the grid in every fold, chosen on the true labels of its test rows.",
        "coverage: rows without a true label are left out; coverage all rows: they count as "
        "depth 0, as in the code behind NLR's numbers.",
    ]
    head = ["method", *(metric.replace("_", " ") for metric in metrics)]
    title = "Birds, r = 3, on the candidates and folds of NLR's authors, in percent"
    return Table("authors_folds", title, head, body, notes)


def _ablated(metric: str) -> Published | None:
    found = printed("ablation", "birds", 3, "no high rank", metric)
    return Published(found.value / 100, (found.std or 0.0) / 100) if found else None


def tie(data: Dataset) -> tuple[Dataset, int]:
    """The set with pairs of labels tied and noise drawn anew, and its wrong labels per row."""
    rank, level = TIED.get(data.name, (None, 1))
    truth = make_cooccurrence(data.y_true, target_rank=rank, random_state=0)
    candidates = add_noise(truth, level, kind="legacy", seed=level)
    return replace(data, name=f"{data.name}_tied", y_true=truth, candidates=candidates), level


def sensitivity(
    sets: Sequence[Any],
    output: str | os.PathLike[str],
    *,
    every: int = 1,
    folds: int = 5,
    jobs: int = 0,
    threads: int | None = None,
    report: _Report = None,
) -> Study:
    """Schirn with one parameter varied at a time; `every` = 2 takes every second value."""
    asked = ask_sensitivity(sets, folds, every)
    rows = run(**asked, output=output, jobs=jobs, threads=threads, report=report)
    return Study("sensitivity", rows, _swept(rows))


def ask_sensitivity(sets: Sequence[Any], folds: int, every: int) -> Asked:
    """What `sensitivity` asks of `run`."""
    params = {"centre": dict(CENTRE)}
    for name, values in VALUES.items():
        for value in values[::every]:
            if value != CENTRE[name]:
                params[f"{name}={value:g}"] = {**CENTRE, name: value}
    return {
        "datasets": sets,
        "methods": dict.fromkeys(params, "Schirn"),
        "folds": folds,
        "tuning": "none",
        "params": params,
    }


def _swept(rows: Sequence[Row]) -> Table:
    """Lowest and highest mean average precision of each sweep."""
    body = []
    for dataset in dict.fromkeys(row["dataset"] for row in rows):
        for name in VALUES:
            means: dict[float, list[float]] = {}
            for row in rows:
                others = {k: v for k, v in CENTRE.items() if k != name}
                value = row["metrics"].get("average_precision")
                if row["dataset"] != dataset or value is None:
                    continue
                if all(row["params"][k] == v for k, v in others.items()):
                    means.setdefault(row["params"][name], []).append(100 * value)
            at = {value: sum(seen) / len(seen) for value, seen in sorted(means.items())}
            if at:
                low, high = min(at, key=at.__getitem__), max(at, key=at.__getitem__)
                cells = [show(at[low]), Cell(f"{low:g}"), show(at[high]), Cell(f"{high:g}")]
                body.append([Cell(str(dataset)), Cell(name), *cells, show(at[high] - at[low])])
    head = ["data", "parameter", "lowest", "at", "highest", "at", "range"]
    notes = [f"Around {', '.join(f'{k} = {v:g}' for k, v in CENTRE.items())}; nothing is tuned."]
    title = "Sensitivity of Schirn: average precision in percent"
    return Table("sensitivity", title, head, body, notes, stub=2)


def _beside(
    study: str,
    title: str,
    rows: Sequence[Row],
    names: Mapping[str, tuple[str, Any]],
    notes: Sequence[str],
) -> Table:
    """Ours with the printed numbers beside, a line per set and variant."""
    metrics = ("average_precision", "ranking_loss", "coverage", "hamming_loss", "one_error")
    body = []
    for dataset in dict.fromkeys(str(row["dataset"]) for row in rows):
        name, level = names.get(dataset, (dataset, None))
        for variant in dict.fromkeys(str(row["method"]) for row in rows):
            own = [r for r in rows if (r["dataset"], r["method"]) == (dataset, variant)]
            line = [Cell(dataset), Cell("" if level is None else str(level)), Cell(variant)]
            for metric in metrics:
                values = [v for r in own if (v := r["metrics"].get(metric)) is not None]
                paper = printed(study, name, level, variant, metric)
                beside = f"({paper.value:.1f} ± {paper.std:.1f})" if paper else ""
                line.append(Cell(spread(values), sum(values), beside=beside))
            body.append(line)
    head = ["data", "r", "variant", *(metric.replace("_", " ") for metric in metrics)]
    return Table(
        study,
        f"{title}, in percent",
        head,
        body,
        ["In brackets: published.", *notes],
        stub=3,
        records=distances(study, rows, names),
    )
