import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import KFold

from schirn.datasets import add_noise, make_partial_multilabel
from schirn.exceptions import InputError
from schirn.lab import ParticleMAP, ParticleVLS
from schirn.metrics import average_precision
from schirn.noise.thresholds import scale_rows

FROZEN_VLS = [
    [0.89809051, 1.96891681, -1.93452381, -0.98452381],
    [0.83533617, -1.93845463, -0.93845463, 1.96987871],
]
FROZEN_MAP = [
    [-1.15618214, 2.25486962, -3.55621349, -3.51898042],
    [-1.15618214, -3.86762319, -2.30345052, 2.13350876],
]
FROZEN_NOISE = 116
BOTH = pytest.mark.parametrize("cls", [ParticleMAP, ParticleVLS])


def two_folds(model, data, r, seed=0):
    """Average precision and share of true among credible labels, in percent, two of five folds."""
    truth = data.y_true
    candidates = data.candidates if r is None else add_noise(truth, r, random_state=seed)
    found = []
    for train, test in list(KFold(5, shuffle=True, random_state=seed).split(truth))[:2]:
        scores = model.fit(data.X[train], candidates[train]).decision_function(data.X[test])
        precise = truth[train][model.credible_].mean()
        found.append((average_precision(truth[test], scores), precise))
    return 100 * np.mean(found, axis=0)


@pytest.mark.parametrize(
    ("cls", "name", "r", "scale", "expected", "credible"),
    [
        (ParticleVLS, "scene", 1, "none", 84.2, 75),
        (ParticleMAP, "scene", 1, "none", 83.6, 75),
        (ParticleVLS, "medical", 3, "minmax", 73.4, 67),
        (ParticleMAP, "medical", 3, "minmax", 75.8, 67),
        (ParticleVLS, "yeastmf", None, "none", 20.8, 12),
        (ParticleMAP, "yeastmf", None, "none", 21.7, 12),
    ],
)
def test_check_values(real, cls, name, r, scale, expected, credible):
    # Other noise draws and folds than those behind the expected values.
    precision, precise = two_folds(cls(scale=scale), real(name), r)
    assert precision == pytest.approx(expected, abs=3)
    assert precise == pytest.approx(credible, abs=2)


def frozen_data():
    return make_partial_multilabel(
        n_samples=80, n_features=5, n_labels=4, cardinality=1.5, r=1, random_state=1
    )


def test_frozen_vls():
    data = frozen_data()
    model = ParticleVLS(ceil=False).fit(data.X, data.candidates)
    np.testing.assert_allclose(model.decision_function(data.X[:2]), FROZEN_VLS, atol=1e-6)
    assert int(model.noise_.sum()) == FROZEN_NOISE


def test_frozen_map():
    data = frozen_data()
    model = ParticleMAP().fit(data.X, data.candidates)
    np.testing.assert_allclose(model.decision_function(data.X[:2]), FROZEN_MAP, atol=1e-6)
    assert int(model.noise_.sum()) == FROZEN_NOISE


@BOTH
def test_noise_is_what_is_not_credible(cls, small):
    model = cls().fit(small.X, small.candidates)
    np.testing.assert_array_equal(model.noise_, (small.candidates == 1) & ~model.credible_)
    assert model.label_confidence_.max(axis=1).min() == 1


def test_vls_predicts_labels_with_more_votes_than_the_virtual_one(small):
    model = ParticleVLS().fit(small.X, small.candidates)
    scores = model.decision_function(small.X)
    np.testing.assert_array_equal(scores, np.round(scores))
    np.testing.assert_array_equal(model.predict(small.X), scores > 0)
    fine = ParticleVLS(ceil=False).fit(small.X, small.candidates).decision_function(small.X)
    assert np.abs(fine - scores).max() < 1
    assert (fine != np.round(fine)).any()


def test_map_decisions(small):
    model = ParticleMAP().fit(small.X, small.candidates)
    log_odds = model.decision_function(small.X)
    predicted = model.predict(small.X)
    np.testing.assert_array_equal(predicted, scale_rows(np.exp(log_odds)) > 0.5)
    assert predicted.sum(axis=1).min() >= 1
    odds = ParticleMAP(decision="map").fit(small.X, small.candidates)
    np.testing.assert_array_equal(odds.predict(small.X), log_odds > 0)
    top = ParticleMAP(threshold="top-2").fit(small.X, small.candidates)
    assert (top.predict(small.X).sum(axis=1) == 2).all()
    assert (model.predict(small.X, threshold="top-2").sum(axis=1) == 2).all()


@BOTH
def test_minmax_is_learned_from_the_training_rows(cls, small):
    low, high = small.X.min(axis=0), small.X.max(axis=0)
    unseen = small.X * 3 + 1
    model = cls(scale="minmax").fit(small.X, small.candidates)
    scaled = cls().fit((small.X - low) / (high - low), small.candidates)
    np.testing.assert_allclose(
        model.decision_function(unseen),
        scaled.decision_function((unseen - low) / (high - low)),
        atol=1e-9,
    )


@BOTH
def test_minmax_makes_ranges_irrelevant(cls, small):
    ranges = np.logspace(-3, 5, small.X.shape[1])
    plain = cls(scale="minmax").fit(small.X, small.candidates)
    wide = cls(scale="minmax").fit(small.X * ranges, small.candidates)
    np.testing.assert_allclose(
        wide.decision_function(small.X * ranges), plain.decision_function(small.X), atol=1e-9
    )
    assert wide.n_capped_ == 0


@BOTH
def test_minmax_divides_sparse_features_by_their_largest_absolute_value(cls, small):
    sparse = sp.csr_array(small.X)
    model = cls(scale="minmax").fit(sparse, small.candidates)
    divided = small.X / np.abs(small.X).max(axis=0)
    expected = cls().fit(sp.csr_array(divided), small.candidates)
    np.testing.assert_allclose(
        model.decision_function(sparse), expected.decision_function(divided), atol=1e-9
    )


@BOTH
def test_the_limit_of_iterations_is_reported(cls, small):
    model = cls(svm_max_iter=2)
    with pytest.warns(
        ConvergenceWarning, match=r"machines reached svm_max_iter=2; set scale="
    ) as w:
        model.fit(small.X, small.candidates)
    assert len(w) == 1
    assert str(w[0].message).startswith(f"{model.n_capped_} of ")
    assert cls().fit(small.X, small.candidates).n_capped_ == 0


@BOTH
@pytest.mark.parametrize("storage", [np.asarray, sp.csr_array])
def test_precisions_agree(cls, storage, small):
    """Rounded to two digits, rows have many neighbours at the same distance."""
    X = storage(np.round(small.X, 1).astype(np.float32))
    single, double = (cls().fit(A, small.candidates) for A in (X, X.astype(np.float64)))
    np.testing.assert_array_equal(single.noise_, double.noise_)
    np.testing.assert_allclose(
        single.predict_proba(X), double.predict_proba(X.astype(np.float64)), rtol=1e-5
    )
    assert single.label_confidence_.dtype == single.decision_function(X).dtype == np.float32


@BOTH
def test_features_too_large_for_the_machines_are_named(cls, small):
    with pytest.raises(InputError, match=r"overflowed on features of up to \de\+20; set scale="):
        cls().fit(small.X * 1e20, small.candidates)
    cls(scale="minmax").fit(small.X * 1e20, small.candidates)


@BOTH
def test_folds_change_training_scores_not_the_machines(cls, small):
    inside = cls().fit(small.X, small.candidates)
    out = cls(folds=4).fit(small.X, small.candidates)
    assert out.calibration_ != inside.calibration_
    np.testing.assert_array_equal(out.noise_, inside.noise_)


@BOTH
@pytest.mark.parametrize(
    ("name", "value"), [("k", 0), ("alpha", 1.5), ("thr", 0), ("C", 0), ("scale", "std")]
)
def test_bad_parameters(cls, name, value, small):
    with pytest.raises(InputError, match=f"{name} must be .*{value}"):
        cls(**{name: value}).fit(small.X, small.candidates)
