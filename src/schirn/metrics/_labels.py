"""Metrics that compare rows within a label, or all cells: areas under curves, F1, exact rows."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
from scipy import sparse

from schirn.metrics._input import Array, as_bool, refuse_nan, same_table


def evaluate_labels(y_true: Any, scores: Any, y_pred: Any) -> dict[str, float]:
    """Compute the metrics that compare rows within a label, in the order of `LABEL_METRICS`.

    Labels that are true in no row, and for the area under the ROC curve in every row, are left out
    of the macro averages. A value is NaN if nothing is left.

    Parameters
    ----------
    y_true : array, CSR matrix or DataFrame of shape (n, l)
        0/1 or bool; 1 where the label is true.
    scores : array, CSR matrix or DataFrame of shape (n, l)
        Higher means more likely true.
    y_pred : array, CSR matrix or DataFrame of shape (n, l)
        0/1 predictions, for F1 and subset accuracy.

    Returns
    -------
    dict of str to float

    Examples
    --------
    >>> from schirn.metrics import evaluate_labels
    >>> truth, scores = [[1, 0], [0, 1], [1, 1]], [[0.9, 0.2], [0.4, 0.8], [0.3, 0.6]]
    >>> values = evaluate_labels(truth, scores, [[1, 0], [0, 1], [0, 1]])
    >>> {name: round(value, 3) for name, value in values.items()}  # doctest: +NORMALIZE_WHITESPACE
    {'macro_auc': 0.75, 'micro_auc': 0.875, 'mean_average_precision': 0.917, 'macro_f1': 0.833,
     'micro_f1': 0.857, 'subset_accuracy': 0.667}
    """
    from sklearn.metrics import average_precision_score, f1_score, roc_auc_score

    table, values = same_table(y_true, scores, ("y_true", "scores"))
    predicted = same_table(y_true, y_pred, ("y_true", "y_pred"))[1]
    truth, values, labels = (_dense(matrix) for matrix in (table, values, predicted))
    truth = as_bool(truth, "y_true", 0)
    labels = as_bool(labels, "y_pred", 0)
    refuse_nan(values, "scores", 0)
    occurs = np.asarray(truth.any(axis=0))
    columns = [(truth[:, j], values[:, j]) for j in np.flatnonzero(occurs)]
    mixed = truth.any() and not truth.all()
    return {
        "macro_auc": _mean([roc_auc_score(t, s) for t, s in columns if not t.all()]),
        "micro_auc": float(roc_auc_score(truth.ravel(), values.ravel())) if mixed else np.nan,
        "mean_average_precision": _mean([average_precision_score(t, s) for t, s in columns]),
        "macro_f1": _mean(f1_score(truth, labels, average=None, zero_division=0)[occurs]),
        "micro_f1": float(f1_score(truth, labels, average="micro", zero_division=0)),
        "subset_accuracy": _mean((truth == labels).all(axis=1)),
    }


def _dense(matrix: Any) -> Array:
    return np.asarray(matrix.toarray() if sparse.issparse(matrix) else matrix)


def _mean(values: Any) -> float:
    return float(np.mean(values)) if len(values) else float("nan")


LABEL_METRICS: Mapping[str, str] = MappingProxyType(
    {
        "macro_auc": "macro AUC ↑",
        "micro_auc": "micro AUC ↑",
        "mean_average_precision": "mAP ↑",
        "macro_f1": "macro F1 ↑",
        "micro_f1": "micro F1 ↑",
        "subset_accuracy": "subset accuracy ↑",
    }
)
"""Metrics of `evaluate_labels` with their labels in tables; for all of them, higher is better."""
