import numpy as np
import pytest
from lab.rivals.folds import two_folds

from schirn.datasets import make_partial_multilabel
from schirn.lab import PMLLRS

FROZEN_SCORES = [
    [-0.4953945, -0.28949465, -0.12270902, -0.01539769],
    [0.16317487, 0.17534965, 0.03326295, -0.00231506],
]
FROZEN_NOISE = 47


@pytest.mark.parametrize(
    ("name", "r", "mu", "expected"),
    [
        ("scene", 1, 1.0, 76.8),
        ("scene", 1, 1e-4, 73.9),
        ("scene", 3, 1.0, 63.0),
        ("medical", 3, 1.0, 73.1),
        ("medical", 3, 10.0, 80.1),
        ("medical", 7, 1.0, 58.0),
        ("enron", 3, 1.0, 49.4),
        ("yeastmf", None, 1.0, 33.0),
    ],
)
def test_check_values(real, name, r, mu, expected):
    # Other noise draws and folds than those behind the expected values.
    assert two_folds(PMLLRS(mu=mu), real(name), r) == pytest.approx(expected, abs=3)


def test_confidence_and_noise_are_the_two_parts_of_the_labels(small):
    model = PMLLRS(beta=0.3).fit(small.X, small.candidates)
    listed = small.candidates == 1
    # Y = P + Q, so that Q > P is P < 1/2.
    confident = np.abs(model.label_confidence_ - 0.5) > 1e-5
    np.testing.assert_array_equal(
        model.noise_[listed & confident], model.label_confidence_[listed & confident] < 0.5
    )
    assert 0 < model.noise_.sum() < listed.sum()


def test_intercept(small):
    model = PMLLRS(beta=0.3, fit_intercept=True).fit(small.X, small.candidates)
    moved = PMLLRS(beta=0.3, fit_intercept=True).fit(small.X + 5, small.candidates)
    assert model.intercept_.any()
    np.testing.assert_allclose(
        moved.decision_function(small.X + 5), model.decision_function(small.X), atol=1e-6
    )


def test_calibration_scores_are_like_those_of_unseen_rows():
    data = make_partial_multilabel(
        n_samples=240, n_features=60, n_labels=5, cardinality=1.5, r=1, random_state=0
    )
    half = slice(0, 120), slice(120, 240)
    model = PMLLRS(beta=0.3, mu=10.0).fit(data.X[half[0]], data.candidates[half[0]])
    expected = model.predict_proba(data.X[half[1]])[data.y_true[half[1]] == 1].mean()
    seen = model.predict_proba(data.X[half[0]])[data.y_true[half[0]] == 1].mean()
    assert 0.3 < expected < seen


def test_frozen_result():
    data = make_partial_multilabel(
        n_samples=60, n_features=5, n_labels=4, cardinality=1.5, r=1, random_state=3
    )
    model = PMLLRS(beta=0.6).fit(data.X, data.candidates)
    np.testing.assert_allclose(model.decision_function(data.X[:2]), FROZEN_SCORES, atol=1e-6)
    assert int(model.noise_.sum()) == FROZEN_NOISE
