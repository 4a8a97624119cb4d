"""`METRICS` and `evaluate`."""

import numpy as np
import pytest

from schirn import metrics
from schirn.exceptions import InputError

TRUTH = np.array([[1, 0, 0, 1], [0, 1, 0, 0], [0, 0, 0, 0], [1, 1, 1, 1]])
SCORES = np.array([[0.9, 0.9, 0.1, 0.2], [0.3, 0.2, 0.2, 0.7], [0.6, 0.5, 0.4, 0.3], [0.9] * 4])


def test_order_labels_and_direction():
    assert list(metrics.METRICS) == [
        "average_precision",
        "ranking_loss",
        "coverage",
        "hamming_loss",
        "one_error",
    ]
    assert [m.greater_is_better for m in metrics.METRICS.values()] == [True] + [False] * 4
    for metric in metrics.METRICS.values():
        assert metric.label.endswith("↑" if metric.greater_is_better else "↓")


def test_table_cannot_be_changed_by_accident():
    with pytest.raises(TypeError):
        metrics.METRICS["new"] = None


@pytest.mark.parametrize("convention", ["field", "random"])
def test_evaluate_equals_the_single_functions(convention):
    values = metrics.evaluate(TRUTH, SCORES, convention=convention)
    assert list(values) == list(metrics.METRICS)
    for name, metric in metrics.METRICS.items():
        single = metric.function(TRUTH, SCORES, convention=convention)
        assert values[name] == single
        assert type(values[name]) is float


def test_evaluate_hands_on_its_options():
    options = {"threshold": 0.4, "empty_rows": "keep"}
    values = metrics.evaluate(TRUTH, SCORES, **options)
    assert values["hamming_loss"] == metrics.hamming_loss(TRUTH, SCORES, **options)
    assert values["hamming_loss"] != metrics.hamming_loss(TRUTH, SCORES)
    assert values["coverage"] == metrics.coverage(TRUTH, SCORES, empty_rows="keep")


def test_evaluate_takes_predictions_for_hamming_loss_only():
    values = metrics.evaluate(TRUTH, SCORES, y_pred=TRUTH)
    assert values["hamming_loss"] == 0
    assert values["average_precision"] == metrics.average_precision(TRUTH, SCORES)
    with pytest.raises(InputError, match=r"y_pred has shape \(4, 3\)"):
        metrics.evaluate(TRUTH, SCORES, y_pred=TRUTH[:, :3])
