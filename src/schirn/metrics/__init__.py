"""Metrics of multi-label ranking and of noise detection, and scorers for scikit-learn."""

from schirn.metrics._evaluate import METRICS, Metric, evaluate
from schirn.metrics._labels import LABEL_METRICS, evaluate_labels
from schirn.metrics._multilabel import (
    average_precision,
    coverage,
    hamming_loss,
    one_error,
    precision_at_k,
    ranking_loss,
    tied_rows,
)
from schirn.metrics._noise import noise_auc, noise_f1, noise_precision, noise_recall, noise_report
from schirn.metrics._scorers import scorer, scorers

__all__ = [
    "LABEL_METRICS",
    "METRICS",
    "Metric",
    "average_precision",
    "coverage",
    "evaluate",
    "evaluate_labels",
    "hamming_loss",
    "noise_auc",
    "noise_f1",
    "noise_precision",
    "noise_recall",
    "noise_report",
    "one_error",
    "precision_at_k",
    "ranking_loss",
    "scorer",
    "scorers",
    "tied_rows",
]
