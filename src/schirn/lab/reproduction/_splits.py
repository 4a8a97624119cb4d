"""Effect of the choice of splits: a plain ridge on many random splits, compared with the paper."""

import statistics
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Any

import numpy as np

from schirn._progress import track
from schirn.estimators import CandidateRidge
from schirn.exceptions import InputError
from schirn.lab.bench import Cell, Table, published
from schirn.lab.reproduction._studies import Record, Study, show
from schirn.linalg import row_space
from schirn.metrics import average_precision

BEST = 5
"""Number of best splits that are selected: as many as the paper has folds."""
_METRIC = "average_precision"
_TEST_SHARE = 0.2

Setting = tuple[str, Any, Any, Any, Any]
"""Name of a data set, noise level, features, true labels and candidates."""


def split_choice(settings: Iterable[Setting], n_splits: int = 100, random_state: int = 0) -> Study:
    """Average precision of a ridge on the candidates, on many splits and on the best of them.

    A fifth of the rows are test rows. The ridge weight is chosen once per setting, on the
    candidates of all rows, and nothing else is tuned. The printed figures of Schirn are included.

    Parameters
    ----------
    settings : iterable of tuple
        Name, noise level, features, true labels and candidates; settings of one data set must be
        consecutive and share the factorisation of every split.
    n_splits : int
        Number of random splits.
    random_state : int
        Seed of the splits.

    Returns
    -------
    Study
        One record per setting: mean and deviation over all splits and over the best five, and the
        published ones.

    Examples
    --------
    >>> from schirn.datasets import make_partial_multilabel
    >>> from schirn.lab.reproduction._splits import split_choice
    >>> data = make_partial_multilabel(n_samples=60, n_labels=4, r=1, random_state=0)
    >>> settings = [("mine", 1, data.X, data.y_true, data.candidates)]
    >>> record = split_choice(settings, n_splits=20).records[0]
    >>> record["best_mean"] > record["mean"], record["best_std"] < record["std"]
    (True, True)
    """
    records: list[Record] = []
    for _, group in groupby(settings, key=lambda setting: setting[0]):
        records += _of_one_set(list(group), n_splits, random_state)
    return Study("split_choice", records, _table(records, n_splits))


def _of_one_set(settings: Sequence[Setting], n_splits: int, random_state: int) -> Iterator[Record]:
    """Records of the noise levels of one data set."""
    X = settings[0][2]
    weights = [_chosen_weight(X, candidates) for *_, candidates in settings]
    values: list[list[float]] = [[] for _ in settings]
    rng = np.random.RandomState(random_state)
    n_test = max(1, round(_TEST_SHARE * X.shape[0]))
    for _ in track(range(n_splits), "split"):
        order = rng.permutation(X.shape[0])
        test = order[:n_test]
        train = order[n_test:]
        space = row_space(X[train], ridge=min(weights))
        rows = space.transform(X[test])
        for k, (_, _, _, truth, candidates) in enumerate(settings):
            target = space.project(np.asarray(candidates)[train].astype(space.dtype))
            scores = rows @ space.ridge(target, weights[k])
            precision = _precision(truth[test], scores)
            values[k] += [] if precision is None else [precision]
    for (name, level, *_), precisions in zip(settings, values, strict=True):
        yield _record(name, level, precisions)


def _precision(truth: Any, scores: Any) -> float | None:
    """Average precision in percent, or None if no test row has a true label."""
    try:
        return 100 * average_precision(truth, scores)
    except InputError:
        return None


def _chosen_weight(X: Any, candidates: Any) -> float:
    return float(CandidateRidge().fit(X, candidates).lam_)


def _record(name: str, level: Any, precisions: Sequence[float]) -> Record:
    best = sorted(precisions)[-BEST:]
    paper = published(name, level, "Schirn", _METRIC)
    return {
        "dataset": name,
        "r": level,
        "splits": len(precisions),
        "mean": statistics.fmean(precisions),
        "std": _deviation(precisions),
        "best_mean": statistics.fmean(best),
        "best_std": _deviation(best),
        "published_mean": 100 * paper.mean if paper else None,
        "published_std": 100 * paper.std if paper else None,
    }


def _deviation(values: Sequence[float]) -> float:
    return statistics.stdev(values) if len(values) > 1 else 0.0


def _table(records: Sequence[Record], n_splits: int) -> Table:
    body = []
    for record in records:
        line = [Cell(record["dataset"]), show(record["r"])]
        names = ("", "best_", "published_")
        line += [_spread(record[f"{name}mean"], record[f"{name}std"]) for name in names]
        paper = record["published_mean"]
        line += [_difference(paper, record[name]) for name in ("mean", "best_mean")]
        body.append(line)
    head = ["data", "r", "all splits", f"best {BEST}", "Schirn, published"]
    head += ["published − all", f"published − best {BEST}"]
    notes = [
        f"CandidateRidge on {n_splits} random splits, a fifth of the rows for the test; mean ± "
        "standard deviation over the splits. The ridge weight is chosen once per setting, on "
        "candidates.",
        f"Selecting the best {BEST} of {n_splits} raises any mean; this does not show that splits "
        "were selected.",
    ]
    title = "How much the choice of splits changes: average precision of a ridge, in percent"
    return Table("split_choice", title, head, body, notes, stub=2)


def _spread(mean: float | None, std: float | None) -> Cell:
    return Cell("–") if mean is None else Cell(f"{mean:.1f} ± {std:.1f}", mean)


def _difference(paper: float | None, ours: float) -> Cell:
    if paper is None:
        return Cell("–")
    return Cell(f"{paper - ours:+.1f}".replace("-", "−"), paper - ours)
