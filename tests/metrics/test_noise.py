"""Noise finding over candidate cells."""

from math import isnan

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import sparse
from sklearn.metrics import f1_score, precision_score, recall_score, roc_auc_score

from schirn import metrics
from schirn.exceptions import InputError

CANDIDATES = np.array([[1, 1, 1, 0], [0, 1, 1, 0]])
TRUTH = np.array([[1, 0, 0, 0], [0, 1, 0, 0]])
NOISE = np.array([[0, 1, 0, 0], [0, 1, 1, 0]])
CONFIDENCE = np.array([[0.9, 0.9, 0.1, 0.8], [0.7, 0.6, 0.7, 0.0]])
# Three rows, for errors that are to be located across blocks of rows.
SQUARE_TRUTH = np.array([[1, 0, 0], [0, 1, 0], [0, 1, 1]])
SQUARE_SCORES = np.array([[0.9, 0.2, 0.1], [0.1, 0.8, 0.2], [0.3, 0.2, 0.9]])
SQUARE_CANDIDATES = np.array([[1, 1, 0], [1, 1, 0], [0, 1, 1]])
SQUARE_NOISE = np.array([[0, 1, 0], [0, 0, 0], [0, 0, 0]])


def test_hand_worked_cells():
    # True cells 0.9 and 0.6; wrong cells 0.9, 0.1 and 0.7.
    assert metrics.noise_auc(TRUTH, CANDIDATES, CONFIDENCE) == pytest.approx((2.5 + 1) / 6)
    assert metrics.noise_precision(TRUTH, CANDIDATES, NOISE) == pytest.approx(2 / 3)
    assert metrics.noise_recall(TRUTH, CANDIDATES, NOISE) == pytest.approx(2 / 3)
    assert metrics.noise_f1(TRUTH, CANDIDATES, NOISE) == pytest.approx(2 / 3)
    assert metrics.noise_report(TRUTH, CANDIDATES, NOISE, CONFIDENCE) == pytest.approx(
        {
            "n_candidates": 5,
            "n_wrong": 3,
            "n_flagged": 3,
            "precision": 2 / 3,
            "recall": 2 / 3,
            "f1": 2 / 3,
            "auc": 3.5 / 6,
        }
    )


def test_report_holds_only_what_the_input_allows():
    assert list(metrics.noise_report(TRUTH, CANDIDATES)) == ["n_candidates", "n_wrong"]
    report = metrics.noise_report(TRUTH, CANDIDATES, confidence=CONFIDENCE)
    assert list(report) == ["n_candidates", "n_wrong", "auc"]


@settings(max_examples=100, deadline=None)
@given(st.data(), st.integers(1, 6), st.integers(1, 5))
def test_equals_scikit_learn_on_the_candidate_cells(data, n_rows, n_labels):
    def bits():
        return data.draw(hnp.arrays(bool, (n_rows, n_labels)))

    candidates, truth, noise = bits(), bits(), bits()
    noise &= candidates
    confidence = data.draw(
        hnp.arrays(float, (n_rows, n_labels), elements=st.sampled_from([0.0, 0.25, 0.5, 1.0]))
    )
    report = metrics.noise_report(truth, candidates, noise, confidence)
    wrong, called, belief = ~truth[candidates], noise[candidates], confidence[candidates]
    nan = np.nan
    if 0 < wrong.sum() < wrong.size:
        assert report["auc"] == pytest.approx(roc_auc_score(wrong, -belief))
    else:
        assert isnan(report["auc"])
    if wrong.size:
        expected = [
            score(wrong, called, zero_division=nan)
            for score in (precision_score, recall_score, f1_score)
        ]
        found = [report["precision"], report["recall"], report["f1"]]
        assert found == pytest.approx(expected, nan_ok=True)


def test_nothing_to_find_is_nan():
    none = np.zeros_like(CANDIDATES)
    assert isnan(metrics.noise_auc(CANDIDATES, CANDIDATES, CONFIDENCE))
    assert isnan(metrics.noise_auc(none, CANDIDATES, CONFIDENCE))
    assert isnan(metrics.noise_auc(TRUTH, none, CONFIDENCE))
    assert isnan(metrics.noise_precision(TRUTH, CANDIDATES, none))
    assert metrics.noise_recall(TRUTH, CANDIDATES, none) == 0
    assert metrics.noise_f1(TRUTH, CANDIDATES, none) == 0
    assert isnan(metrics.noise_recall(CANDIDATES, CANDIDATES, NOISE))
    assert metrics.noise_precision(CANDIDATES, CANDIDATES, NOISE) == 0
    assert isnan(metrics.noise_f1(CANDIDATES, CANDIDATES, none))


def test_cells_outside_the_candidates_are_ignored():
    truth, confidence = TRUTH.copy(), CONFIDENCE.copy()
    truth[0, 3], confidence[1, 0] = 1, np.nan
    expected = metrics.noise_report(TRUTH, CANDIDATES, NOISE, CONFIDENCE)
    assert metrics.noise_report(truth, CANDIDATES, NOISE, confidence) == expected


@pytest.mark.parametrize("kind", [sparse.csr_array, sparse.csr_matrix, pd.DataFrame])
def test_every_kind_of_table_gives_the_same(kind):
    expected = metrics.noise_report(TRUTH, CANDIDATES, NOISE, CONFIDENCE)
    found = metrics.noise_report(kind(TRUTH), kind(CANDIDATES), kind(NOISE), kind(CONFIDENCE))
    assert found == expected


def test_noise_outside_the_candidates_is_refused():
    noise = NOISE.copy()
    noise[1, 3] = 1
    for function in (metrics.noise_precision, metrics.noise_recall, metrics.noise_f1):
        with pytest.raises(InputError, match="row 1, column 3, which is not a candidate"):
            function(TRUTH, CANDIDATES, noise)


def test_bad_cells_are_located():
    confidence = CONFIDENCE.copy()
    confidence[1, 2] = np.nan
    with pytest.raises(InputError, match="confidence is NaN at row 1, column 2"):
        metrics.noise_auc(TRUTH, CANDIDATES, confidence)
    with pytest.raises(InputError, match="candidates must be 0 or 1, but row 0, label 0 holds 3"):
        metrics.noise_auc(TRUTH, 3 * CANDIDATES, CONFIDENCE)
    with pytest.raises(InputError, match="noise must be 0 or 1, but row 0, label 1 holds 2"):
        metrics.noise_recall(TRUTH, CANDIDATES, 2 * NOISE)
    with pytest.raises(InputError, match=r"candidates has shape \(2, 4\) but noise has .*\(1, 4\)"):
        metrics.noise_f1(TRUTH, CANDIDATES, NOISE[:1])


def test_counts_of_noise_add_up_over_blocks(widen):
    noise = np.array([[0, 1, 0], [1, 0, 0], [0, 1, 0]])
    tables = map(widen, (SQUARE_TRUTH, SQUARE_CANDIDATES, noise))
    report = metrics.noise_report(*tables)
    assert (report["n_candidates"], report["n_wrong"], report["n_flagged"]) == (6, 2, 3)
    assert report["precision"] == pytest.approx(2 / 3)
    assert report["recall"] == 1


@pytest.mark.parametrize(
    ("function", "third"), [(metrics.noise_precision, "noise"), (metrics.noise_auc, "confidence")]
)
def test_noise_measures_name_what_does_not_fit(sentence, function, third, widen):
    value = SQUARE_NOISE if third == "noise" else SQUARE_SCORES
    assert sentence(function, SQUARE_TRUTH[:2], SQUARE_CANDIDATES, value) == (
        "candidates has shape (3, 3) but y_true has shape (2, 3); "
        "give the same rows and labels for both."
    )
    assert sentence(function, SQUARE_TRUTH, SQUARE_CANDIDATES, value[:, :2]) == (
        f"candidates has shape (3, 3) but {third} has shape (3, 2); "
        "give the same rows and labels for both."
    )
    bad = SQUARE_CANDIDATES.copy()
    bad[2, 0] = 7
    assert sentence(function, *map(widen, (SQUARE_TRUTH, bad, value))) == (
        "candidates must be 0 or 1, but row 2, label 0 holds 7"
    )
    bad = SQUARE_TRUTH.copy()
    bad[1, 2] = 5
    assert sentence(function, *map(widen, (bad, SQUARE_CANDIDATES, value))) == (
        "y_true must be 0 or 1, but row 1, label 2 holds 5"
    )


def test_noise_outside_the_candidates_is_located(sentence, widen):
    noise = SQUARE_NOISE.copy()
    noise[2, 0] = 1
    tables = map(widen, (SQUARE_TRUTH, SQUARE_CANDIDATES, noise))
    assert sentence(metrics.noise_recall, *tables) == (
        "noise is 1 at row 2, column 0, which is not a candidate; "
        "only candidate labels can be noise."
    )


def test_missing_confidence_is_located(sentence, widen):
    confidence = SQUARE_SCORES.copy()
    confidence[0, 2] = np.nan
    assert np.isfinite(metrics.noise_auc(SQUARE_TRUTH, SQUARE_CANDIDATES, confidence))
    confidence[2, 1] = np.nan
    tables = map(widen, (SQUARE_TRUTH, SQUARE_CANDIDATES, confidence))
    assert sentence(metrics.noise_auc, *tables) == (
        "confidence is NaN at row 2, column 1, a candidate; replace missing values first."
    )
