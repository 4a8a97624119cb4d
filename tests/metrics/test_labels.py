"""Macro and micro metrics, against scikit-learn and by hand."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.metrics import (
    accuracy_score,
    average_precision_score,
    f1_score,
    roc_auc_score,
)

from schirn.metrics import LABEL_METRICS, evaluate_labels


def test_values_are_those_of_scikit_learn():
    rng = np.random.RandomState(0)
    truth, scores = rng.randint(0, 2, (60, 5)), rng.rand(60, 5)
    predicted = scores > 0.6
    values = evaluate_labels(truth, sparse.csr_array(scores), predicted)
    assert list(values) == list(LABEL_METRICS)
    assert values == pytest.approx(
        {
            "macro_auc": roc_auc_score(truth, scores, average="macro"),
            "micro_auc": roc_auc_score(truth, scores, average="micro"),
            "mean_average_precision": average_precision_score(truth, scores, average="macro"),
            "macro_f1": f1_score(truth, predicted, average="macro"),
            "micro_f1": f1_score(truth, predicted, average="micro"),
            "subset_accuracy": accuracy_score(truth, predicted),
        }
    )


def test_labels_without_true_rows_are_left_out():
    truth = np.array([[1, 0, 1], [0, 0, 1]])
    values = evaluate_labels(truth, [[0.9, 0.1, 0.5], [0.2, 0.3, 0.4]], truth)
    assert (values["macro_auc"], values["mean_average_precision"], values["macro_f1"]) == (1, 1, 1)
    nothing = evaluate_labels(np.zeros((2, 2)), np.eye(2), np.zeros((2, 2)))
    assert np.isnan(nothing["macro_auc"])
    assert np.isnan(nothing["micro_auc"])
    assert nothing["micro_f1"] == 0
    assert nothing["subset_accuracy"] == 1


def test_bad_input_is_named(sentence):
    two, three = np.eye(2), np.eye(3)
    assert sentence(evaluate_labels, two, three, two).startswith(
        "y_true has shape (2, 2) but scores has shape (3, 3)"
    )
    assert sentence(evaluate_labels, two, two, three).startswith(
        "y_true has shape (2, 2) but y_pred has shape (3, 3)"
    )
    assert sentence(evaluate_labels, two, [[1, 2], [np.nan, 1]], two).startswith(
        "scores is NaN at row 1, column 0"
    )
    odd = np.array([[1, 0], [2, 1]])
    assert sentence(evaluate_labels, odd, two, two).startswith(
        "y_true must be 0 or 1, but row 1, label 0 holds 2"
    )
    assert sentence(evaluate_labels, two, two, odd).startswith(
        "y_pred must be 0 or 1, but row 1, label 0 holds 2"
    )
