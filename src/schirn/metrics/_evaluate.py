"""The five metrics by name, and all of them at once."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from schirn.metrics import _multilabel as multilabel


@dataclass(frozen=True)
class Metric:
    """A metric with the direction, label and response method that tables and scorers need.

    Attributes
    ----------
    function : callable
        Takes true labels and scores, or predictions if that is the response.
    greater_is_better : bool
    label : str
        Name in tables, with an arrow to the better side.
    response : {"decision_function", "predict"}
        What of a classifier the metric is computed from.
    """

    function: Callable[..., float]
    greater_is_better: bool
    label: str
    response: str = "decision_function"


METRICS: Mapping[str, Metric] = MappingProxyType(
    {
        "average_precision": Metric(multilabel.average_precision, True, "average precision ↑"),
        "ranking_loss": Metric(multilabel.ranking_loss, False, "ranking loss ↓"),
        "coverage": Metric(multilabel.coverage, False, "coverage ↓"),
        "hamming_loss": Metric(multilabel.hamming_loss, False, "Hamming loss ↓", "predict"),
        "one_error": Metric(multilabel.one_error, False, "one-error ↓"),
    }
)


def evaluate(
    y_true: Any,
    scores: Any,
    *,
    threshold: float = 0.5,
    y_pred: Any = None,
    convention: str = "field",
    empty_rows: str = "drop",
) -> dict[str, float]:
    """Compute all five metrics, in the order of `METRICS`, sorting the scores only once.

    Parameters
    ----------
    y_true, scores, convention
        As in `average_precision`.
    threshold : float
        Above this score, Hamming loss takes a label as predicted.
    y_pred : array, CSR matrix or DataFrame of shape (n, l), optional
        Predictions for Hamming loss; by default they are made from the scores.
    empty_rows : {"drop", "keep"}
        As in `coverage`; applies to coverage and Hamming loss.

    Returns
    -------
    dict of str to float

    Examples
    --------
    >>> from schirn.metrics import METRICS, evaluate
    >>> values = evaluate([[1, 0, 1, 0]], [[0.9, 0.8, 0.7, 0.1]])
    >>> for name, value in values.items():
    ...     print(f"{METRICS[name].label}: {value:.3f}")
    average precision ↑: 0.833
    ranking loss ↓: 0.250
    coverage ↓: 0.500
    Hamming loss ↓: 0.250
    one-error ↓: 0.000
    """
    rankings = multilabel.row_values(list(METRICS), convention, empty_rows)
    hamming = {"hamming_loss": rankings.pop("hamming_loss")}
    values = multilabel.mean_rows(y_true, scores, rankings)
    labels, name = (scores, "scores") if y_pred is None else (y_pred, "y_pred")
    transform = multilabel.predictor(labels, threshold)
    values |= multilabel.mean_rows(y_true, labels, hamming, name=name, transform=transform)
    return {name: values[name] for name in METRICS}
