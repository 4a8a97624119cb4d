"""Studies of label matrices and of single fits: ranks, the theorem, convergence.

Every function returns a `Study`.
"""

import csv
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from schirn._input import Array
from schirn.datasets import Dataset
from schirn.estimators.schirn import Schirn
from schirn.lab.bench import Cell, Table, to_dense
from schirn.lab.data import data_card
from schirn.lab.rank import exact_rank

Record = dict[str, Any]


@dataclass(frozen=True)
class Study:
    """Result of a study: flat records, ready for JSON, and a table of them."""

    name: str
    records: list[Record]
    table: Table


@cache
def _printed_values() -> dict[tuple[str, ...], tuple[float, float]]:
    text = (
        files("schirn.lab.reproduction")
        .joinpath("published_studies.csv")
        .read_text(encoding="utf-8")
    )
    names = ("study", "dataset", "r", "variant", "metric")
    return {
        tuple(line[name] for name in names): (float(line["value"]), float(line["std"] or 0))
        for line in csv.DictReader(text.splitlines())
    }


def printed(
    study: str, dataset: str, r: Any, variant: str, metric: str
) -> tuple[float, float] | None:
    """Printed number, in percent or a rank, and its deviation, or None if the paper has none.

    >>> printed("ablation", "birds", 3, "Schirn", "average_precision")
    (61.8, 0.6)
    """
    level = "" if r is None else str(r)
    return _printed_values().get((study, dataset, level, variant, metric))


def show(value: Any, digits: int = 1) -> Cell:
    """Format a number, a word or None as a table cell."""
    if value is None:
        return Cell("–")
    if isinstance(value, bool):
        return Cell("yes" if value else "no")
    if isinstance(value, float):
        return Cell(f"{value:.{digits}f}", value)
    return Cell(str(value), float(value) if isinstance(value, int) else None)


def spread(values: Iterable[float]) -> str:
    """Mean ± standard deviation in percent."""
    shares = [100 * value for value in values]
    if not shares:
        return "–"
    mean = f"{statistics.fmean(shares):.1f}"
    return f"{mean} ± {statistics.stdev(shares):.1f}" if len(shares) > 1 else mean


def label_ranks(sets: Iterable[Dataset]) -> Study:
    """Ranks of true and candidate labels, and the share of the smallest column (Table 1).

    Examples
    --------
    >>> from schirn.lab.reproduction._studies import label_ranks
    >>> from schirn.datasets import load
    >>> record = label_ranks([load("digits_attributes")]).records[0]
    >>> record["rank_candidates"], record["rank_true"]
    (10, 9)
    """
    records = []
    for data in sets:
        card = data_card(data)
        name = data.name.removesuffix("_labels_only")
        records.append(
            {
                "dataset": name,
                "n": card["n_samples"],
                "l": card["n_labels"],
                "rank_candidates": card.get("rank_candidates"),
                "published_rank_candidates": _paper_value("label_rank", name, "candidates"),
                "rank_true": card.get("rank_true"),
                "published_rank_true": _paper_value("label_rank", name, "truth"),
                "ratio_percent": None if (ratio := card.get("ratio")) is None else 100 * ratio,
                "published_ratio_percent": _paper_value("label_rank", name, "candidates", "ratio"),
            }
        )
    head = ["data", "n", "l", "r(Y)", "published", "r(Yg)", "published", "ratio %", "published"]
    body = [[show(value, 2) for value in record.values()] for record in records]
    notes = [
        "ratio: entries of the smallest candidate column / (n · l). The paper describes a random "
        "column, but its numbers are those of the smallest one.",
    ]
    return Study(
        "label_ranks", records, Table("label_ranks", "Ranks of label matrices", head, body, notes)
    )


def prediction_ranks(sets: Iterable[tuple[Dataset, Any]], **params: Any) -> Study:
    """Ranks of Schirn's predictions for its training rows, with and without the rank term.

    Parameters
    ----------
    sets : list of tuple
        Pairs of data set and candidates.
    **params
        Parameters of `Schirn`.

    Examples
    --------
    >>> from schirn.lab.reproduction._studies import prediction_ranks
    >>> from schirn.datasets import make_partial_multilabel
    >>> data = make_partial_multilabel(n_samples=60, n_labels=5, r=1, random_state=0)
    >>> prediction_ranks([(data, data.candidates)]).records[0]["rank_candidates"]
    5
    """
    records = []
    for data, candidates in sets:
        record: Record = {"dataset": data.name}
        for suffix, beta in (("", params.get("beta", 0.05)), ("_beta0", 0.0)):
            model = Schirn(**{**params, "beta": beta}).fit(data.X, candidates)
            purified = to_dense(candidates).astype(bool) & ~model.noise_
            record[f"rank_prediction{suffix}"] = exact_rank(model.predict(data.X))
            record[f"rank_half{suffix}"] = exact_rank(model.decision_function(data.X) > 0.5)
            record[f"rank_kept{suffix}"] = exact_rank(purified)
        record["rank_true"] = None if data.y_true is None else exact_rank(data.y_true)
        record["rank_candidates"] = exact_rank(candidates)
        for name in ("prediction", "prediction, beta=0", "truth", "candidates"):
            record[f"published {name}"] = _paper_value("prediction_rank", data.name, name)
        records.append(record)
    return Study("prediction_ranks", records, _prediction_table(records))


def _prediction_table(records: Sequence[Record]) -> Table:
    columns = {
        "rank_prediction": "prediction",
        "rank_prediction_beta0": "prediction, beta=0",
        "rank_half": None,
        "rank_half_beta0": None,
        "rank_kept": None,
        "rank_kept_beta0": None,
        "rank_true": "truth",
        "rank_candidates": "candidates",
    }
    body = []
    for record in records:
        line = [Cell(str(record["dataset"]))]
        for key, name in columns.items():
            paper = record[f"published {name}"] if name else None
            detail = f"({paper:.0f})" if paper is not None else ""
            line.append(Cell(str(record[key]), record[key], detail=detail))
        body.append(line)
    kinds = ("P", "XW > ½", "Y−N")
    ranks = [f"r({kind}){suffix}" for kind in kinds for suffix in ("", ", β=0")]
    head = ["data", *ranks, "r(Yg)", "r(Y)"]
    notes = [
        "In brackets: published. P: the labels that predict gives the training rows; XW > ½: "
        "scores above one half; Y − N: the candidates that were kept. The paper does not state "
        "the rows and the threshold of its P.",
    ]
    return Table("prediction_ranks", "Ranks after Schirn", head, body, notes)


def theorem(
    matrices: Iterable[tuple[str, Any, Any]] = (), draws: int = 50, random_state: int = 0
) -> Study:
    """Check rank(Y − N) ≥ rank(Y) − ε for random, worst-case and actual N.

    Parameters
    ----------
    matrices : list of tuple
        Triples of name, candidates and true labels (or None).
    draws : int
        Number of random N per case.
    random_state : int
        Seed.

    Examples
    --------
    >>> from schirn.lab.reproduction._studies import theorem
    >>> all(record["holds"] for record in theorem(draws=2).records)
    True
    """
    rng = check_random_state(random_state)
    records = []
    draw_ranks = [
        ("random, tall", rng.random_sample((200, 40)) < 0.2, None),
        ("random, wide", rng.random_sample((30, 60)) < 0.3, None),
        ("identity", np.eye(40, dtype=bool), None),
    ]
    for name, candidates, truth in (*draw_ranks, *matrices):
        labels = to_dense(candidates).astype(bool)
        rank = exact_rank(labels)
        for removed in sorted({1, labels.shape[1] // 4, labels.shape[1] // 2} - {0}):
            ranks = [exact_rank(_without(labels, removed, rng)) for _ in range(draws)]
            records.append(_bound(name, labels, rank, "random", removed, ranks))
        smallest = int(np.argmin(labels.sum(axis=0)))
        cleared = labels.copy()
        cleared[:, smallest] = False
        size = int(labels[:, smallest].sum())
        records.append(_bound(name, labels, rank, "smallest column", size, [exact_rank(cleared)]))
        if truth is not None:
            purified = labels & to_dense(truth).astype(bool)
            noise = int(labels.sum() - purified.sum())
            records.append(
                _bound(name, labels, rank, "all wrong labels", noise, [exact_rank(purified)])
            )
    head = ["matrix", "n", "l", "r(Y)", "N", "ε", "bound", "r(Y−N)", "highest", "holds"]
    body = [[show(value) for value in record.values()] for record in records]
    notes = [
        f"bound: r(Y) − ε, which is min(n, l) − ε for a Y of full rank. random: lowest and "
        f"highest rank over {draws} draws of ε candidates to remove.",
        "A negative bound says nothing: with r wrong labels in every row, ε is n · r, far above l, "
        "so the data of the experiments do not satisfy the condition ε < l of the theorem.",
    ]
    title = "The theorem, checked: rank of Y − N"
    return Study("theorem", records, Table("theorem", title, head, body, notes))


def singular_values(matrices: Iterable[tuple[str, Any, Any]] = (), random_state: int = 0) -> Study:
    """Singular values and subspaces of Y − N besides the ranks: the bounds of Weyl and Wedin.

    No singular value moves by more than ‖N‖₂ (Weyl), so the rank cannot fall while ‖N‖₂ is below
    the smallest one. The angle between leading subspaces is at most ‖N‖₂ / δ (Wedin), with the gap
    δ between the k-th value of Y and the next one of Y − N.

    Parameters
    ----------
    matrices : list of tuple
        Triples of name, candidates and true labels (or None).
    random_state : int
        Seed of the labels that are removed at random.

    Examples
    --------
    >>> from schirn.lab.reproduction._studies import singular_values
    >>> record = singular_values([("five", np.eye(5), None)]).records[-1]
    >>> record["norm"], record["smallest"], record["smallest_after"], record["rank_after"]
    (1.0, 1.0, 0.0, 4)
    """
    rng = check_random_state(random_state)
    records = []
    tall = [("random, tall", rng.random_sample((200, 40)) < 0.2, None)]
    for name, candidates, truth in (*tall, *matrices):
        labels = to_dense(candidates).astype(bool)
        count = max(1, labels.shape[1] // 4)
        remainders = {"random": _without(labels, count, rng)}
        if truth is not None:
            remainders["all wrong labels"] = labels & to_dense(truth).astype(bool)
        records += [_perturbed(name, labels, matrix, how) for how, matrix in remainders.items()]
    head = ["matrix", "n", "l", "N", "ε", "‖N‖₂", "σmin(Y)", "σmin(Y−N)", "largest shift"]
    head += ["k", "sin θ", "Wedin", "r(Y)", "r(Y−N)", "rank safe"]
    body = [[show(value, 2) for value in record.values()] for record in records]
    notes = [
        "N: a quarter of l candidates at random, or all wrong labels; ε: their number. largest "
        "shift: of any singular value, at most ‖N‖₂ by Weyl. θ: angle between the right singular "
        "subspaces of the k largest values, k at the largest gap; Wedin: the bound of sin θ, void "
        "above 1. rank safe: ‖N‖₂ < σmin(Y), so that the rank cannot fall.",
    ]
    table = Table("singular_values", "Singular values of Y − N", head, body, notes)
    return Study("singular_values", records, table)


def _perturbed(name: str, labels: Array, remainder: Array, how: str) -> Record:
    """Norm of N, and how far it moves singular values and subspaces."""
    N = labels.astype(float) - remainder
    (_, values, V), (_, new_values, new_V) = (
        np.linalg.svd(matrix.astype(float), full_matrices=False) for matrix in (labels, remainder)
    )
    norm = float(np.linalg.norm(N, 2))
    k = 1 + int(np.argmax(values[:-1] - values[1:]))
    gap = float(values[k - 1] - new_values[k]) if len(values) > k else float(values[0])
    cosine = float(np.linalg.svd(V[:k] @ new_V[:k].T, compute_uv=False)[-1])
    return {
        "matrix": name,
        "n": labels.shape[0],
        "l": labels.shape[1],
        "noise": how,
        "removed": int(N.sum()),
        "norm": norm,
        "smallest": float(values[-1]),
        "smallest_after": float(new_values[-1]),
        "shift": float(np.abs(values - new_values).max()),
        "k": k,
        "sine": float(np.sqrt(max(0.0, 1 - min(cosine, 1.0) ** 2))),
        "wedin": norm / gap if gap > 0 else None,
        "rank": exact_rank(labels),
        "rank_after": exact_rank(remainder),
        "safe": norm < float(values[-1]),
    }


def _without(labels: Array, count: int, rng: np.random.RandomState) -> Array:
    """Return the labels without `count` random ones."""
    remaining = labels.copy()
    ones = np.flatnonzero(labels)
    remaining.ravel()[rng.choice(ones, min(count, len(ones)), replace=False)] = False
    return remaining


def _bound(
    name: str, labels: Array, rank: int, how: str, removed: int, ranks: Sequence[int]
) -> Record:
    return {
        "matrix": name,
        "n": labels.shape[0],
        "l": labels.shape[1],
        "rank": rank,
        "noise": how,
        "removed": removed,
        "bound": rank - removed,
        "lowest": min(ranks),
        "highest": max(ranks),
        "holds": min(ranks) >= rank - removed,
    }


def convergence(sets: Iterable[tuple[str, Any, Any]], **params: Any) -> Study:
    """Objective, residual and number of labels judged wrong after each round of Schirn.

    Parameters
    ----------
    sets : list of tuple
        Triples of name, features and candidates.
    **params
        Parameters of `Schirn`.
    """
    records: list[Record] = []
    body = []
    for name, X, candidates in sets:
        model = Schirn(**params).fit(X, candidates)
        traces = (model.objective_, model.residual_, model.n_noise_)
        for k, (objective, residual, count) in enumerate(zip(*traces, strict=True), 1):
            records.append(
                {
                    "dataset": name,
                    "round": k,
                    "objective": float(objective),
                    "residual": float(residual),
                    "n_noise": int(count),
                }
            )
        body.append([Cell(name), *_settled(*traces)])
    head = ["data", "rounds", "last ten rounds, %", "residual", "labels removed", "half by round"]
    notes = [
        "last ten rounds: change of the objective. residual: final residual of the constraint "
        "XW = C. half by round: first round from which on at least half of the labels removed in "
        "the end are removed.",
    ]
    table = Table("convergence", "Convergence of Schirn", head, body, notes)
    return Study("convergence", records, table)


def _settled(objective: Any, residual: Any, n_noise: Any) -> list[Cell]:
    """Cells of one line of the table of convergence."""
    values = np.asarray(objective, dtype=float)
    earlier = values[max(0, len(values) - 11)]
    change = 100 * abs(float(values[-1] - earlier)) / max(abs(float(values[-1])), 1e-300)
    counts = np.asarray(n_noise)
    fewer = np.flatnonzero(counts < counts[-1] / 2)
    last = float(np.asarray(residual)[-1])
    return [
        show(len(values)),
        show(change),
        Cell(f"{last:.2g}", last),
        show(int(counts[-1])),
        show(int(fewer[-1]) + 2 if len(fewer) else 1),
    ]


def _paper_value(study: str, dataset: str, variant: str, metric: str = "rank") -> float | None:
    """Printed number, as an integer if it is whole."""
    paper = printed(study, dataset, None, variant, metric)
    if paper is None:
        return None
    return int(paper[0]) if paper[0].is_integer() else paper[0]
