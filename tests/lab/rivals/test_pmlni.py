import numpy as np
import pytest
import scipy.sparse as sp
from lab.rivals.folds import two_folds

import schirn
from schirn.datasets import make_partial_multilabel
from schirn.exceptions import InputError
from schirn.lab import PMLNI
from schirn.lab.rivals._pmlni import best_row_cuts, linear_threshold

FROZEN_SCORES = [
    [0.29502091, 0.39419293, 0.59331942, 0.55703488],
    [0.71467586, 0.72180342, 0.67443741, 0.57888303],
]
FROZEN_NOISE = 44
FROZEN_PREDICTED = 166
FROZEN_ENTRIES = 2


@pytest.mark.parametrize(
    ("name", "r", "scale", "lam", "expected"),
    [
        ("scene", 1, "none", 10, 82.0),
        ("scene", 1, "minmax", 10, 79.0),
        ("scene", 1, "minmax", 1, 76.4),
        ("birds", 3, "none", 10, 56.8),
        ("birds", 3, "minmax", 10, 56.8),
        ("medical", 3, "none", 10, 87.9),
        ("medical", 3, "minmax", 10, 85.4),
        ("enron", 7, "none", 10, 54.8),
        ("yeastmf", None, "none", 10, 41.3),
    ],
)
def test_check_values(real, name, r, scale, lam, expected):
    # Other noise draws and folds than those behind the expected values.
    assert two_folds(PMLNI(lam=lam, scale=scale), real(name), r) == pytest.approx(expected, abs=3)


def test_minmax_is_learned_from_the_training_rows(small):
    model = PMLNI().fit(small.X, small.candidates)
    low, high = small.X.min(axis=0), small.X.max(axis=0)
    scaled = PMLNI(scale="none").fit(2 * (small.X - low) / (high - low) - 1, small.candidates)
    unseen = small.X * 3 + 1
    np.testing.assert_allclose(
        model.decision_function(unseen),
        scaled.decision_function(2 * (unseen - low) / (high - low) - 1),
        atol=1e-10,
    )


def test_units_of_the_features_do_not_matter(small):
    units = np.logspace(-4, 4, small.X.shape[1])
    model = PMLNI(gamma=0.1).fit(small.X, small.candidates)
    other = PMLNI(gamma=0.1).fit(small.X * units + 3 * units, small.candidates)
    np.testing.assert_allclose(
        other.decision_function(small.X * units + 3 * units),
        model.decision_function(small.X),
        atol=1e-9,
    )


@pytest.mark.parametrize("gamma", [0.1, 0.5])
def test_sparse_rows_many_features(gamma):
    rng = np.random.default_rng(0)
    X = sp.csr_array(np.where(rng.random((50, 300)) < 0.05, rng.random((50, 300)), 0))
    Y = (rng.random((50, 7)) < 0.3).astype(np.uint8)
    Y[:, 0] = 1
    sparse, dense = (PMLNI(gamma=gamma).fit(A, Y) for A in (X, X.toarray()))
    np.testing.assert_allclose(
        sparse.decision_function(X), dense.decision_function(X.toarray()), atol=1e-10
    )
    np.testing.assert_array_equal(sparse.predict(X), dense.predict(X.toarray()))
    np.testing.assert_allclose(sparse.noise_coef_, dense.noise_coef_, atol=1e-10)


def test_frozen_result():
    data = make_partial_multilabel(
        n_samples=60, n_features=5, n_labels=4, cardinality=1.5, r=1, random_state=3
    )
    model = PMLNI(lam=1.0, beta=0.5, gamma=0.4).fit(data.X, data.candidates)
    np.testing.assert_allclose(model.decision_function(data.X[:2]), FROZEN_SCORES, atol=1e-6)
    assert int(model.noise_.sum()) == FROZEN_NOISE
    assert int(model.predict(data.X).sum()) == FROZEN_PREDICTED
    assert int((model.noise_coef_ != 0).sum()) == FROZEN_ENTRIES


def plain_row_cut(scores, candidates):
    """Every cut tried, one row at a time."""
    s = np.sort(scores)
    cuts = [s[0] - 0.1, *((s[:-1] + s[1:]) / 2), s[-1] + 0.1]
    errors = [np.sum((scores >= cut) != candidates) for cut in cuts]
    return cuts[int(np.argmin(errors))]


@pytest.fixture
def rows():
    rng = np.random.default_rng(0)
    scores = rng.normal(size=(300, 7))
    candidates = (scores + rng.normal(size=scores.shape) > 0.5).astype(np.uint8)
    return scores, candidates


def test_row_cuts_try_every_cut(rows):
    scores, candidates = rows
    expected = [plain_row_cut(s, y) for s, y in zip(scores, candidates, strict=True)]
    np.testing.assert_allclose(best_row_cuts(scores, candidates), expected, rtol=1e-14)


def test_row_cuts_by_hand():
    scores = np.array([[0.2, 0.6, 0.4], [0.2, 0.6, 0.4], [0.2, 0.6, 0.4], [0.2, 0.6, 0.4]])
    candidates = np.array([[0, 1, 0], [1, 1, 1], [0, 0, 0], [1, 0, 0]])
    # The last row makes one error with the cut 0.7 and two with all others.
    np.testing.assert_allclose(best_row_cuts(scores, candidates), [0.5, 0.1, 0.7, 0.7])
    assert best_row_cuts(scores[:1], np.array([[1, 0, 1]])) == pytest.approx(0.1)


def test_linear_threshold_is_the_least_squares_fit(rows):
    scores, candidates = rows
    rule = linear_threshold(scores, candidates)
    cuts = best_row_cuts(scores, candidates)
    residual = cuts - scores @ rule.slopes - rule.cut
    # Normal equations: the residual is orthogonal to every score column and to the constant.
    np.testing.assert_allclose(scores.T @ residual, 0, atol=1e-10)
    assert abs(residual.sum()) < 1e-10
    expected = scores >= (scores @ rule.slopes + rule.cut)[:, None]
    np.testing.assert_array_equal(rule.apply(scores), expected)
    assert 0 < expected.mean() < 1


def test_linear_threshold_of_repeated_labels_has_least_norm(rows):
    scores, candidates = rows
    once = linear_threshold(scores, candidates)
    pairs, listed = np.repeat(scores, 2, axis=1), np.repeat(candidates, 2, axis=1)
    twice = linear_threshold(pairs, listed)
    # Equal scores share one slope, and the cut of a row does not change with repetition.
    np.testing.assert_allclose(twice.slopes[::2], twice.slopes[1::2], atol=1e-12)
    np.testing.assert_allclose(twice.slopes[::2] * 2, once.slopes, atol=1e-10)


def test_linear_threshold_is_learned_in_fit(small):
    model = PMLNI().fit(small.X, small.candidates)
    predicted = model.predict(small.X)
    np.testing.assert_array_equal(predicted, model.predict(small.X, threshold="linear"))
    errors = np.mean(predicted != small.candidates)
    assert errors < np.mean(small.candidates != np.round(small.candidates.mean(axis=0)))


def test_linear_threshold_is_learned_in_fit_only(small):
    model = PMLNI(threshold="cardinality").fit(small.X, small.candidates)
    with pytest.raises(InputError, match='set threshold="linear" on the model before fit'):
        model.predict(small.X, threshold="linear")


def test_linear_threshold_in_a_model_file(small, tmp_path):
    model = PMLNI().fit(small.X, small.candidates)
    schirn.save(model, tmp_path / "model.schirn")
    same = schirn.load(tmp_path / "model.schirn")
    np.testing.assert_array_equal(same.predict(small.X), model.predict(small.X))
    np.testing.assert_array_equal(same.predict(small.X, threshold="linear"), model.predict(small.X))
