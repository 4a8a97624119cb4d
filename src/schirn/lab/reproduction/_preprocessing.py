"""The preprocessing of the release: what it changes on some data sets."""

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from schirn._input import Array
from schirn.datasets import Dataset
from schirn.lab.bench import Cell, Level, Table, to_dense
from schirn.lab.reproduction._ablations import Request
from schirn.lab.reproduction._studies import Record, Study, spread

THRESHOLDS = (0.0, 0.5, 1.0, 2.0)
METHODS = ("Schirn", "CandidateRidge")
_METRIC = "average_precision"
_MARK = ", threshold "


def preprocess(X: Any, threshold: float) -> Array:
    """Transform features like ``prepocess_dataset.m`` of the release.

    Columns are standardised, entries below the threshold in absolute value become 0, and all others
    are scaled together so that the lowest becomes 0 and the highest 1. Constant columns become 0.

    Parameters
    ----------
    X : array or sparse matrix
        Features.
    threshold : float
        In standard deviations of the column.

    Returns
    -------
    array

    Examples
    --------
    >>> from schirn.lab.reproduction._preprocessing import preprocess
    >>> preprocess([[1, 5], [2, 5], [3, 5]], threshold=0.5).tolist()
    [[0.0, 0.0], [0.0, 0.0], [1.0, 0.0]]
    """
    features = np.asarray(to_dense(X), dtype=float)
    varying = np.ptp(features, axis=0) > 0
    scaled = np.zeros_like(features)
    columns = features[:, varying]
    scaled[:, varying] = (columns - columns.mean(axis=0)) / columns.std(axis=0, ddof=1)
    scaled[np.abs(scaled) < threshold] = 0.0
    remaining = scaled != 0
    values = scaled[remaining]
    if values.size:
        low = values.min()
        width = values.max() - low
        scaled[remaining] = (values - low) / width if width > 0 else 1.0
    return scaled


def preprocessing_request(sets: Iterable[tuple[Dataset, Level]], folds: int) -> Request:
    """Request of `preprocessing`: every data set at every threshold."""
    items = [
        (replace(data, name=_name(data.name, t), X=preprocess(data.X, t)), level)
        for data, level in sets
        for t in THRESHOLDS
    ]
    return {"datasets": items, "methods": METHODS, "folds": folds}


def _name(dataset: str, threshold: float) -> str:
    return f"{dataset}{_MARK}{threshold:g}"


def preprocessing(results: Sequence[Record], rows: Sequence[Record]) -> Study:
    """Average precision with and without the preprocessing of the release.

    Parameters
    ----------
    results : list of dict
        Results of `preprocessing_request`.
    rows : list of dict
        Results of the tables, with the features as they are.

    Returns
    -------
    Study
        One line per data set and threshold.
    """
    body = []
    settings = dict.fromkeys((r["dataset"].partition(_MARK)[0], r["r"]) for r in results)
    for dataset, level in settings:
        precisions = {"none": _precisions(rows, dataset, level)}
        for t in THRESHOLDS:
            precisions[f"{t:g}"] = _precisions(results, _name(dataset, t), level)
        for threshold, values in precisions.items():
            line = [Cell(dataset), Cell("" if level is None else str(level)), Cell(threshold)]
            body.append([*line, *(_cell(values[method]) for method in METHODS)])
    notes = [
        "The release contains prepocess_dataset.m, but none of its other files calls it, and it "
        "states no threshold. It standardises the columns, sets entries below the threshold to 0, "
        "and scales all others together to [0, 1]; here with all rows, before the folds.",
        "none: the features of the tables, with the same candidates and folds. Parameters are "
        "chosen as for the tables.",
    ]
    title = "Preprocessing of the release: average precision in percent"
    head = ["data", "r", "threshold", *METHODS]
    return Study(
        "preprocessing", list(results), Table("preprocessing", title, head, body, notes, stub=3)
    )


def _cell(values: Sequence[float]) -> Cell:
    """Mean ± standard deviation over the folds."""
    return Cell(spread(values), 100 * statistics.fmean(values) if values else None)


def _precisions(results: Iterable[Record], dataset: str, level: Any) -> dict[str, list[float]]:
    """Average precisions of the finished fits of a setting, by method."""
    precisions: dict[str, list[float]] = {method: [] for method in METHODS}
    for result in results:
        value = result["metrics"].get(_METRIC)
        here = (result["dataset"], result["r"]) == (dataset, level)
        if here and result["method"] in precisions and value is not None:
            precisions[result["method"]].append(value)
    return precisions
