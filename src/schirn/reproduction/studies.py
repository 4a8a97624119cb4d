"""Studies of label matrices and of single fits: ranks, the theorem, convergence.

Every function returns a `Study`: flat rows, ready for JSON, and a table of them.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils import check_random_state

from schirn.bench._render import Cell, Table
from schirn.datasets import Dataset, data_card
from schirn.methods.schirn import Schirn
from schirn.rank.exact import exact_rank
from schirn.reproduction.study import Printed, Row, Study, printed, show

Array = np.ndarray

__all__ = ["Study", "convergence", "label_ranks", "prediction_ranks", "theorem"]


def label_ranks(sets: Iterable[Dataset]) -> Study:
    """Ranks of true and candidate labels and the share of the smallest column (Table 1).

    Examples
    --------
    >>> from schirn.reproduction.studies import label_ranks
    >>> from schirn.datasets import load
    >>> row = label_ranks([load("digits_attributes")]).rows[0]
    >>> row["rank_candidates"], row["rank_true"]
    (10, 9)
    """
    rows = []
    for data in sets:
        card, name = data_card(data), _paper_name(data.name)
        rows.append(
            {
                "dataset": name,
                "n": card.n_samples,
                "l": card.n_labels,
                "rank_candidates": card.rank_candidates,
                "published_rank_candidates": _value(printed_rank(name, "candidates")),
                "rank_true": card.rank_true,
                "published_rank_true": _value(printed_rank(name, "truth")),
                "ratio_percent": None if card.ratio is None else 100 * card.ratio,
                "published_ratio_percent": _value(
                    printed("label_rank", name, None, "candidates", "ratio")
                ),
            }
        )
    head = ["data", "n", "l", "r(Y)", "published", "r(Yg)", "published", "ratio %", "published"]
    body = [[show(value, 2) for value in row.values()] for row in rows]
    notes = [
        "ratio: entries of the smallest candidate column / (n · l). The paper speaks of a random "
        "column; its numbers are those of the smallest one.",
    ]
    return Study(
        "label_ranks", rows, Table("label_ranks", "Ranks of label matrices", head, body, notes)
    )


def printed_rank(name: str, variant: str) -> Printed | None:
    """The rank that Table 1 prints."""
    return printed("label_rank", name, None, variant, "rank")


def prediction_ranks(sets: Iterable[tuple[Dataset, Any]], **params: Any) -> Study:
    """Ranks of what Schirn predicts for its training rows, with and without the rank term.

    Parameters
    ----------
    sets : pairs of data set and its candidates
    **params : parameters of `Schirn`

    Examples
    --------
    >>> from schirn.reproduction.studies import prediction_ranks
    >>> from schirn.datasets import make_partial_multilabel
    >>> data = make_partial_multilabel(n_samples=60, n_labels=5, r=1, random_state=0)
    >>> prediction_ranks([(data, data.candidates)]).rows[0]["rank_candidates"]
    5
    """
    rows = []
    for data, candidates in sets:
        row: Row = {"dataset": data.name}
        for suffix, beta in (("", params.get("beta", 0.05)), ("_beta0", 0.0)):
            model = Schirn(**{**params, "beta": beta}).fit(data.X, candidates)
            kept = _dense(candidates).astype(bool) & ~model.noise_
            row[f"rank_prediction{suffix}"] = exact_rank(model.predict(data.X))
            row[f"rank_half{suffix}"] = exact_rank(model.decision_function(data.X) > 0.5)
            row[f"rank_kept{suffix}"] = exact_rank(kept)
        row["rank_true"] = None if data.y_true is None else exact_rank(data.y_true)
        row["rank_candidates"] = exact_rank(candidates)
        for name in ("prediction", "prediction, beta=0", "truth", "candidates"):
            paper = printed("prediction_rank", data.name, None, name, "rank")
            row[f"published {name}"] = _value(paper)
        rows.append(row)
    return Study("prediction_ranks", rows, _prediction_table(rows))


def _prediction_table(rows: Sequence[Row]) -> Table:
    shown = {
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
    for row in rows:
        line = [Cell(str(row["dataset"]))]
        for key, name in shown.items():
            paper = row[f"published {name}"] if name else None
            beside = f"({paper:.0f})" if paper is not None else ""
            line.append(Cell(str(row[key]), row[key], beside=beside))
        body.append(line)
    kinds = ("P", "XW > ½", "Y−N")
    ranks = [f"r({kind}){more}" for kind in kinds for more in ("", ", β=0")]
    head = ["data", *ranks, "r(Yg)", "r(Y)"]
    notes = [
        "In brackets: published. P: the labels that predict gives the training rows; XW > ½: "
        "scores cut at one half; Y − N: the candidates that were kept. The paper does not say "
        "which rows and which threshold give its P.",
    ]
    return Table("prediction_ranks", "Ranks after Schirn", head, body, notes)


def theorem(
    matrices: Iterable[tuple[str, Any, Any]] = (), draws: int = 50, random_state: int = 0
) -> Study:
    """Check rank(Y − N) ≥ rank(Y) − ε, for random, worst-case and the actual N.

    Parameters
    ----------
    matrices : triples of name, candidates and true labels (or None)
    draws : random N per case
    random_state : seed

    Examples
    --------
    >>> from schirn.reproduction.studies import theorem
    >>> all(row["holds"] for row in theorem(draws=2).rows)
    True
    """
    rng = check_random_state(random_state)
    rows = []
    for name, candidates, truth in (*_random_matrices(rng), *matrices):
        labels = _dense(candidates).astype(bool)
        rank = exact_rank(labels)
        for removed in sorted({1, labels.shape[1] // 4, labels.shape[1] // 2} - {0}):
            ranks = [exact_rank(_without(labels, removed, rng)) for _ in range(draws)]
            rows.append(_bound(name, labels, rank, "random", removed, ranks))
        smallest = int(np.argmin(labels.sum(axis=0)))
        cleared = labels.copy()
        cleared[:, smallest] = False
        size = int(labels[:, smallest].sum())
        rows.append(_bound(name, labels, rank, "smallest column", size, [exact_rank(cleared)]))
        if truth is not None:
            kept = labels & _dense(truth).astype(bool)
            noise = int(labels.sum() - kept.sum())
            rows.append(_bound(name, labels, rank, "all wrong labels", noise, [exact_rank(kept)]))
    head = ["matrix", "n", "l", "r(Y)", "N", "ε", "bound", "r(Y−N)", "highest", "holds"]
    body = [[show(value) for value in row.values()] for row in rows]
    notes = [
        f"bound: r(Y) − ε, which is min(n, l) − ε for a Y of full rank. random: lowest and "
        f"highest rank of {draws} draws of ε candidates to remove.",
        "A negative bound says nothing: with r wrong labels in every row ε is n · r, far above l, "
        "so the condition ε < l of the theorem is not met by the data of the experiments.",
    ]
    title = "The theorem, checked: rank of Y − N"
    return Study("theorem", rows, Table("theorem", title, head, body, notes))


def _random_matrices(rng: np.random.RandomState) -> list[tuple[str, Array, None]]:
    """A tall, a wide and a worst-case matrix."""
    return [
        ("random, tall", rng.random_sample((200, 40)) < 0.2, None),
        ("random, wide", rng.random_sample((30, 60)) < 0.3, None),
        ("identity", np.eye(40, dtype=bool), None),
    ]


def _without(labels: Array, count: int, rng: np.random.RandomState) -> Array:
    """The labels less `count` random ones."""
    left = labels.copy()
    ones = np.flatnonzero(labels)
    left.ravel()[rng.choice(ones, min(count, len(ones)), replace=False)] = False
    return left


def _bound(
    name: str, labels: Array, rank: int, how: str, removed: int, ranks: Sequence[int]
) -> Row:
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
    sets : triples of name, features and candidates
    **params : parameters of `Schirn`
    """
    rows: list[Row] = []
    body = []
    for name, X, candidates in sets:
        model = Schirn(**params).fit(X, candidates)
        traces = (model.objective_, model.residual_, model.n_noise_)
        for k, (objective, residual, count) in enumerate(zip(*traces, strict=True), 1):
            rows.append(
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
        "last ten rounds: change of the objective in them. residual: of the constraint XW = C, at "
        "the end. half by round: from when on at least half of the labels removed in the end are.",
    ]
    table = Table("convergence", "Convergence of Schirn", head, body, notes)
    return Study("convergence", rows, table)


def _settled(objective: Any, residual: Any, n_noise: Any) -> list[Cell]:
    """Cells of one line of the table."""
    values = np.asarray(objective, dtype=float)
    before = values[max(0, len(values) - 11)]
    change = 100 * abs(float(values[-1] - before)) / max(abs(float(values[-1])), 1e-300)
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


def _paper_name(name: str) -> str:
    return name.removesuffix("_labels_only")


def _value(paper: Printed | None) -> float | None:
    """The printed number; a rank as a whole one."""
    if paper is None:
        return None
    return int(paper.value) if paper.value.is_integer() else paper.value


def _dense(labels: Any) -> Array:
    return labels.toarray() if sparse.issparse(labels) else np.asarray(labels)
