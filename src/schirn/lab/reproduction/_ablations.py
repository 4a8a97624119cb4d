"""Studies that run the benchmark: ablations and tied labels.

Every study has a function that returns its arguments for `schirn.lab.bench.run` (the
request), and one that makes a `Study` of the results.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from schirn.datasets import Dataset, add_noise
from schirn.lab.bench import Cell, Table
from schirn.lab.data import make_cooccurrence
from schirn.lab.rank import exact_rank
from schirn.lab.reproduction._studies import Record, Study, printed, spread

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
    names = {}
    notes = []
    for data in sets:
        tied, level = tie(data)
        names[tied.name] = (data.name, level)
        full_rank = exact_rank(data.y_true)
        tied_rank = exact_rank(tied.y_true)
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


def tie(data: Dataset) -> tuple[Dataset, int]:
    """Return the data set with tied pairs of labels and new noise, and its wrong labels per row."""
    rank, level = TIED.get(data.name, (None, 1))
    truth = make_cooccurrence(data.y_true, target_rank=rank, random_state=0)
    candidates = add_noise(truth, level, kind="legacy")
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
