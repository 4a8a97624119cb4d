"""Expected precision and recall against the threshold, compared with the truth."""

import json

import numpy as np
import pytest

from schirn import CandidateRidge, find_noisy_labels
from schirn.cleaning.threshold_curve import answered_curve, planted_curve
from schirn.datasets import load_digits_attributes


@pytest.fixture(scope="module")
def digits():
    return load_digits_attributes(r=2).subset(range(500))


@pytest.fixture(scope="module")
def found(digits):
    return find_noisy_labels(digits.X, digits.candidates, label_names=digits.label_names)


def truth(found, digits, n_removed):
    """True precision and recall of removing the least likely undecided tags."""
    wrong = digits.y_true[found.row, found.column] == 0
    order = np.argsort(found.confidence, kind="stable")[:n_removed]
    return wrong[order].mean(), wrong[order].sum() / wrong.sum()


def test_planted_tags_foretell_precision_and_recall(found, digits):
    curve = found.threshold_curve
    assert curve.source == "planted tags"
    thresholds = [point.threshold for point in curve]
    assert thresholds == sorted(set(thresholds))
    assert len(curve) == 49
    for point in curve:
        assert point.removed == int((found.confidence < point.threshold).sum())
        precision, recall = truth(found, digits, point.removed)
        assert point.precision == pytest.approx(precision, abs=0.03)
        assert point.recall == pytest.approx(recall, abs=0.03)
        assert 0 <= point.precision_low <= point.precision <= point.precision_high <= 1
        assert 0 <= point.recall_low <= point.recall <= point.recall_high <= 1
    now = curve.at(0.5)
    assert now.recall == pytest.approx(found.trust.caught)
    assert now.precision == pytest.approx(found.trust.expected_precision, abs=0.02)
    assert f"At a threshold of 0.5, {now.removed:,} tags would be removed" in now.sentence


def test_the_threshold_in_force_is_a_point(digits):
    found = find_noisy_labels(digits.X, digits.candidates, threshold=0.333)
    assert found.threshold_curve.at(0.33).threshold == 0.333
    assert len(found.threshold_curve) == 50


def test_weak_features_have_wide_bands(digits):
    weak = find_noisy_labels(digits.X[:, 20:28], digits.candidates)
    point = weak.threshold_curve.at(0.5)
    precision, recall = truth(weak, digits, point.removed)
    assert weak.trust.level == "none"
    assert point.precision_high - point.precision_low > 0.3
    assert point.precision_low < precision < point.precision_high
    assert point.recall == pytest.approx(recall, abs=0.05)


def test_the_bands_of_an_audit_hold(found, digits):
    held = []
    for seed in range(10):
        cells = found.audit_sample(50, random_state=seed)
        right = digits.y_true[cells.row, cells.column] == 1
        checked = found.audited(cells, right)
        curve = checked.threshold_curve
        assert curve.source == "answers"
        assert curve.at(checked.threshold).threshold == checked.threshold
        for point in curve:
            precision, recall = truth(found, digits, point.removed)
            assert 0 <= point.precision_low <= point.precision <= point.precision_high <= 1
            assert 0 <= point.recall_low <= point.recall <= point.recall_high <= 1
            held += [point.precision_low <= precision <= point.precision_high]
            held += [point.recall_low <= recall <= point.recall_high]
    assert np.mean(held) >= 0.9


def test_without_an_answer_the_curve_stays(found):
    cells = found.audit_sample(10)
    assert found.audited(cells, [None] * 10).threshold_curve is found.threshold_curve


def test_more_answers_narrow_the_bands(found, digits):
    width = []
    for n in (20, 400):
        cells = found.audit_sample(n, random_state=0)
        checked = found.audited(cells, digits.y_true[cells.row, cells.column] == 1)
        point = checked.threshold_curve.at(0.5)
        width.append(
            (point.precision_high - point.precision_low, point.recall_high - point.recall_low)
        )
    assert width[1][0] < width[0][0] / 2
    assert width[1][1] < width[0][1] / 2


def test_by_hand():
    curve = planted_curve(
        np.array([0.1, 0.3, 0.6, 0.9]), np.array([0.2, 0.8]), threshold=0.5, shares=(0.2, 0.4, 0.6)
    )
    point = curve.at(0.5)
    assert (point.removed, point.recall) == (2, 0.5)
    assert point.precision == pytest.approx(0.4)
    first = curve.at(0)
    assert (first.removed, first.recall) == (0, 0)
    assert np.isnan(first.precision)
    assert next(curve.records())["precision"] is None
    assert "no tag would be removed" in first.sentence

    # Both answers below the threshold say wrong, the one above says right.
    confidence, called = np.array([0.1, 0.2, 0.7, 0.9]), np.array([True, True, False, False])
    index, answer = np.array([0, 1, 3]), np.array([0.0, 0.0, 1.0])
    point = answered_curve(confidence, called, index, answer, threshold=0.5).at(0.5)
    assert point.precision == pytest.approx(0.85)
    assert point.recall == pytest.approx(1.7 / 2.1)
    # Clopper-Pearson for 2 of 2 at 90 %, and for 2 of 2 beside 0 of 1 at 95 % each.
    assert point.precision_low == pytest.approx(0.05 ** (1 / 2))
    assert point.precision_high == 1
    low, most = 2 * 0.025 ** (1 / 2), 2 * (1 - 0.025)
    assert point.recall_low == pytest.approx(low / (low + most))
    assert point.recall_high == 1


def test_nothing_to_go_by():
    none = np.zeros(0)
    assert planted_curve(none, none, threshold=0.5, shares=(0, 0, 0)) is None
    index = np.zeros(0, dtype=int)
    called = np.ones(1, dtype=bool)
    assert answered_curve(np.array([0.5]), called, index, none, threshold=0.5) is None


def test_other_methods_have_a_curve(digits):
    found = find_noisy_labels(digits.X, digits.candidates, method=CandidateRidge())
    document = json.loads(found.to_json())
    assert len(document["threshold_curve"]) == len(found.threshold_curve)
    frame = found.threshold_curve.to_pandas()
    assert list(frame.columns)[:3] == ["threshold", "removed", "precision"]
    assert repr(found.threshold_curve) == "ThresholdCurve(49 thresholds, from planted tags)"
