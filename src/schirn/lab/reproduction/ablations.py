"""Studies that run the benchmark: ablations, tied labels, the folds of NLR's authors.

Every study has a function that returns its arguments for `schirn.lab.bench.run` (the
request), and one that makes a `Study` of the results.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from schirn.datasets import Dataset, add_noise
from schirn.lab.bench.published import Published, published
from schirn.lab.bench.rendering import Cell, Table
from schirn.lab.bench.running.data import to_dense
from schirn.lab.data import make_cooccurrence
from schirn.lab.rank import exact_rank
from schirn.lab.reproduction.studies import Record, Study, printed, spread

VARIANTS: dict[str, dict[str, Any]] = {
    "Schirn": {},
    "no high rank": {"rank_term": "none"},
    "no sparsity": {"sparsity": False},
    "no sparsity, printed rule": {"sparsity": False, "noise_rule": "printed"},
    "low rank": {"rank_term": "low"},
}

# Rank after tying, and wrong labels per row, in the published study.
TIED = {"yeastmf": (29, 3), "yeastcc": (37, 5), "yeastbp": (158, 10)}

_TUNED = "α, β and λ are chosen on held-out candidates in every fold."

Request = dict[str, Any]
"""Arguments of `schirn.lab.bench.run` that select the runs."""


def ablation(results: list[Record]) -> Study:
    """Schirn without its rank term, without sparsity, and with the opposite rank term."""
    names = {str(result["dataset"]): (str(result["dataset"]), result["r"]) for result in results}
    note = (
        "no sparsity: α = 0. Under the printed noise rule, every candidate with a score below 1 "
        "then counts as noise."
    )
    table = _with_published("ablation", "Ablations of Schirn", results, names, [_TUNED, note])
    return Study("ablation", results, table)


def ablation_request(sets: Sequence[Any], folds: int) -> Request:
    """Request of `ablation`."""
    return {
        "datasets": sets,
        "methods": dict.fromkeys(VARIANTS, "Schirn"),
        "folds": folds,
        "params": VARIANTS,
    }


def cooccurrence(results: list[Record], sets: Sequence[Dataset]) -> Study:
    """High rank, low rank and NLR on labels that are tied in pairs until the rank is low."""
    names, notes = {}, []
    for data in sets:
        tied, level = tie(data)
        names[tied.name] = (data.name, level)
        full_rank, tied_rank = exact_rank(data.y_true), exact_rank(tied.y_true)
        notes.append(f"{tied.name}: rank {full_rank} before, {tied_rank} after tying.")
    notes.append(
        f"{_TUNED} The published recipe for tying is unknown; ours reaches the same ranks."
    )
    table = _with_published("cooccurrence", "Labels tied in pairs", results, names, notes)
    return Study("cooccurrence", results, table)


def cooccurrence_request(tied: Sequence[Dataset], folds: int) -> Request:
    """Request of `cooccurrence` for data sets with tied labels."""
    variants = {"high rank": "Schirn", "low rank": "Schirn", "NLR": "NLR"}
    references = {name: name for name in ("CandidateRidge", "OracleRidge")}
    return {
        "datasets": tied,
        "methods": variants | references,
        "folds": folds,
        "params": {"low rank": {"rank_term": "low"}},
    }


def authors_folds(results: list[Record], data: Dataset) -> Study:
    """Ridge with weight 1 and the best of Schirn's grid, on the folds of the authors of NLR.

    The best of a grid is chosen on the true labels of the test rows, as an upper bound.
    """
    truth = to_dense(data.y_true)
    for result in results:
        if result["status"] == "done" and data.folds:
            test = data.folds[result["fold"]][1]
            filled = float((truth[test].sum(axis=1) > 0).mean())
            result["metrics"]["coverage_all_rows"] = coverage_of_all_rows(
                result["metrics"]["coverage"], filled, truth.shape[1]
            )
    return Study("authors_folds", results, _authors_table(results))


def authors_folds_requests(data: Dataset) -> list[Request]:
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


def coverage_of_all_rows(coverage: float, filled: float, labels: int) -> float:
    """Coverage if rows without a true label (all but a share `filled`) count as depth 0."""
    return (filled * (coverage * labels + 1) - 1) / labels


def _authors_table(results: Sequence[Record]) -> Table:
    metrics = ("average_precision", "ranking_loss", "one_error", "coverage", "coverage_all_rows")
    compared = {
        "ridge(1)": ("GLC", lambda metric: published("birds", 3, "GLC", metric)),
        "Schirn": ("Schirn", lambda metric: published("birds", 3, "Schirn", metric)),
        "no high rank": ("Schirn, β=0", _published_ablation),
    }
    body = []
    for name, (paper, find) in compared.items():
        runs = [result for result in results if result["method"] == name]
        line = [Cell(name + (" †" if any(result["oracle"] for result in runs) else ""))]
        published_line = [Cell(f"{paper}, published")]
        for metric in metrics:
            line.append(
                Cell(spread([v for r in runs if (v := r["metrics"].get(metric)) is not None]))
            )
            value = find("coverage" if metric == "coverage_all_rows" else metric)
            published_line.append(
                Cell(f"{100 * value.mean:.1f} ± {100 * value.std:.1f}" if value else "–")
            )
        body += [line, published_line]
    notes = [
        "† the best of the grid in every fold, chosen on the true labels of its test rows.",
        "coverage: without rows that have no true label; coverage all rows: these count as depth "
        "0, as in the code behind NLR's numbers.",
    ]
    head = ["method", *(metric.replace("_", " ") for metric in metrics)]
    title = "Birds, r = 3, on the candidates and folds of NLR's authors, in percent"
    return Table("authors_folds", title, head, body, notes)


def _published_ablation(metric: str) -> Published | None:
    paper = printed("ablation", "birds", 3, "no high rank", metric)
    return Published(paper[0] / 100, paper[1] / 100) if paper else None


def tie(data: Dataset) -> tuple[Dataset, int]:
    """Return the data set with tied pairs of labels and new noise, and its wrong labels per row."""
    rank, level = TIED.get(data.name, (None, 1))
    truth = make_cooccurrence(data.y_true, target_rank=rank, random_state=0)
    candidates = add_noise(truth, level, kind="legacy", seed=level)
    return replace(data, name=f"{data.name}_tied", y_true=truth, candidates=candidates), level


def _with_published(
    study: str,
    title: str,
    results: Sequence[Record],
    names: Mapping[str, tuple[str, Any]],
    notes: Sequence[str],
) -> Table:
    """Our means with the printed ones in brackets, one line per data set and variant."""
    metrics = ("average_precision", "ranking_loss", "coverage", "hamming_loss", "one_error")
    body = []
    for dataset in dict.fromkeys(str(result["dataset"]) for result in results):
        name, level = names.get(dataset, (dataset, None))
        for variant in dict.fromkeys(str(result["method"]) for result in results):
            runs = [r for r in results if (r["dataset"], r["method"]) == (dataset, variant)]
            line = [Cell(dataset), Cell("" if level is None else str(level)), Cell(variant)]
            for metric in metrics:
                values = [v for r in runs if (v := r["metrics"].get(metric)) is not None]
                paper = printed(study, name, level, variant, metric)
                detail = "({:.1f} ± {:.1f})".format(*paper) if paper else ""
                line.append(Cell(spread(values), sum(values), detail=detail))
            body.append(line)
    head = ["data", "r", "variant", *(metric.replace("_", " ") for metric in metrics)]
    return Table(
        study,
        f"{title}, in percent",
        head,
        body,
        ["In brackets: published.", *notes],
        stub=3,
    )
