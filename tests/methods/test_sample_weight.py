"""Weights of rows: whole weights are repeated rows, and rows of weight 0 are not learned from."""

import numpy as np
import pytest
import scipy.sparse as sp
import sklearn
from sklearn.model_selection import cross_val_score

import schirn
from schirn import lab
from schirn.datasets import make_partial_multilabel
from schirn.exceptions import InputError

STORAGES = pytest.mark.parametrize("storage", [np.asarray, sp.csr_array], ids=["dense", "csr"])


@pytest.fixture(scope="module")
def data():
    return make_partial_multilabel(n_samples=90, n_features=6, n_labels=5, r=1, random_state=0)


@pytest.fixture(scope="module")
def weights():
    return np.random.default_rng(0).integers(1, 4, size=90)


def repeated(weights, *arrays):
    return [np.repeat(A, weights, axis=0) for A in arrays]


def first_copies(weights):
    return np.cumsum(weights) - weights


@STORAGES
@pytest.mark.parametrize("kernel", ["rbf", "linear"])
def test_whole_weights_are_repeated_rows_for_sieve(data, weights, kernel, storage):
    Y = data.candidates
    model = schirn.Sieve(lam=0.5, kernel=kernel)
    found = schirn.Sieve(lam=0.5, kernel=kernel).fit(storage(data.X), Y, sample_weight=weights)
    X, R, rows = repeated(weights, data.X, Y, np.arange(90))
    model.fit(storage(X), R, groups=rows)
    first = first_copies(weights)
    np.testing.assert_allclose(found.training_log_odds_, model.training_log_odds_[first], atol=1e-6)
    np.testing.assert_allclose(found.label_confidence_, model.label_confidence_[first], atol=1e-6)
    np.testing.assert_allclose(found.predict_proba(data.X), model.predict_proba(data.X), atol=1e-6)
    for name in ("wrong_share_", "cardinality_"):
        assert getattr(found, name) == pytest.approx(getattr(model, name), abs=1e-6)
    np.testing.assert_allclose(found.objective_, model.objective_, atol=1e-6)


@pytest.mark.parametrize("params", [{"noise_level": 0}, {"noise_level": 0.7, "lam": 0.5}], ids=str)
def test_whole_weights_are_repeated_rows_with_a_noise_level(data, weights, params):
    found = schirn.Sieve(**params).fit(data.X, data.candidates, sample_weight=weights)
    X, R, rows = repeated(weights, data.X, data.candidates, np.arange(90))
    copies = schirn.Sieve(**params).fit(X, R, groups=rows)
    np.testing.assert_allclose(found.predict_proba(data.X), copies.predict_proba(data.X), atol=1e-6)
    plain = schirn.Sieve(**params).fit(data.X, data.candidates)
    assert np.abs(found.predict_proba(data.X) - plain.predict_proba(data.X)).max() > 0.05
    assert (found.noise_ <= data.candidates).all()


def test_copies_are_left_out_together_when_the_ridge_is_chosen(data, weights):
    """A copy would predict its row perfectly, and the weakest ridge would seem best."""
    found = schirn.Sieve(max_iter=1).fit(data.X, data.candidates, sample_weight=weights)
    X, R, rows = repeated(weights, data.X, data.candidates, np.arange(90))
    copies = schirn.Sieve(max_iter=1).fit(X, R, groups=rows)
    np.testing.assert_allclose(found.lams_, copies.lams_, rtol=1e-7)


@STORAGES
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_rows_without_weight_are_judged_like_unseen_ones(data, dtype, storage):
    X, Y = storage(data.X.astype(dtype)), data.candidates
    weights = np.ones(90)
    weights[::3] = 0
    kept = weights > 0
    found = schirn.Sieve().fit(X, Y, sample_weight=weights)
    expected = schirn.Sieve().fit(X[kept], Y[kept])
    np.testing.assert_array_equal(found.predict_proba(X), expected.predict_proba(X))
    np.testing.assert_array_equal(found.label_confidence_[kept], expected.label_confidence_)
    unseen = expected.disambiguate(X[~kept], Y[~kept])
    np.testing.assert_array_equal(found.label_confidence_[~kept], unseen)
    assert found.label_confidence_.dtype == dtype
    assert found.noise_.shape == found.training_log_odds_.shape == Y.shape
    assert found.cardinality_ == expected.cardinality_


@STORAGES
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("cls", [schirn.CandidateRidge, schirn.OracleRidge])
def test_whole_weights_are_repeated_rows_for_ridges(data, weights, cls, intercept, dtype, storage):
    """Also weights of zero: such rows are removed, and judged like unseen ones."""
    X, Y, weights = data.X.astype(dtype), data.candidates, np.where(weights == 1, 0, weights)
    model = cls(lam=2.0, fit_intercept=intercept)
    if intercept and storage is sp.csr_array:
        with pytest.raises(InputError, match="sample_weight with fit_intercept=True would make"):
            model.fit(storage(X), Y, sample_weight=weights)
        return
    truth = {"y_clean": data.y_true} if cls is schirn.OracleRidge else {}
    model.fit(storage(X), Y, sample_weight=weights, **truth)
    tolerance = {"rtol": 1e-3, "atol": 1e-5} if dtype == np.float32 else {"rtol": 1e-7}
    A, B, T = repeated(weights, X, Y, data.y_true)
    copies = cls(lam=2.0, fit_intercept=intercept).fit(
        storage(A), B, **({"y_clean": T} if truth else {})
    )
    np.testing.assert_allclose(model.coef_, copies.coef_, **tolerance)
    np.testing.assert_allclose(model.intercept_, copies.intercept_, rtol=1e-3, atol=1e-6)
    # Row 0 without any of its copies.
    others = weights.copy()
    others[0] = 0
    A, B, T = repeated(others, X, Y, data.y_true)
    without = cls(lam=2.0, fit_intercept=intercept).fit(
        storage(A), B, **({"y_clean": T} if truth else {})
    )
    left_out = without.decision_function(storage(X[:1]))
    confidence = model.calibration_.confidence(left_out, Y[:1])
    np.testing.assert_allclose(model.label_confidence_[:1], confidence, **tolerance)
    unseen = model.disambiguate(storage(X[weights == 0]), Y[weights == 0])
    np.testing.assert_allclose(model.label_confidence_[weights == 0], unseen, **tolerance)
    assert model.coef_.dtype == model.label_confidence_.dtype == dtype


@STORAGES
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("rank_term", ["high", "low", "none"])
@pytest.mark.parametrize("n", [90, 4], ids=["many rows", "fewer rows than labels"])
def test_whole_weights_are_repeated_rows_for_schirn(data, weights, rank_term, dtype, storage, n):
    """Also weights of zero: such rows are removed, and judged like unseen ones."""
    X, Y = data.X[:n].astype(dtype), data.candidates[:n]
    weights = np.where(weights == 1, 0, weights)[:n]
    params = {"alpha": 0.3, "beta": 0.1, "lam": 2.0, "rank_term": rank_term, "max_iter": 40}
    found = schirn.Schirn(**params).fit(storage(X), Y, sample_weight=weights)
    A, B, rows = repeated(weights, X, Y, np.arange(n))
    copies = schirn.Schirn(**params).fit(storage(A), B)
    tolerance = {"rtol": 1e-2, "atol": 1e-3} if dtype == np.float32 else {"atol": 1e-8}
    np.testing.assert_allclose(found.coef_, copies.coef_, **tolerance)
    np.testing.assert_allclose(found.objective_, copies.objective_, **tolerance)
    inside = np.flatnonzero(weights)
    first = first_copies(weights)[inside]
    np.testing.assert_array_equal(found.noise_[inside], copies.noise_[first])
    assert found.noise_.any()
    assert found.cardinality_ == pytest.approx(found.label_confidence_[rows].sum() / len(rows))
    # Row 0 without any of its copies, by the ridge on the candidates that are kept.
    others = weights.copy()
    others[inside[0]] = 0
    A, B = repeated(others, X, (Y.astype(bool) & ~found.noise_).astype(np.uint8))
    without = schirn.CandidateRidge(lam=2.0).fit(storage(A), B)
    row = inside[:1]
    left_out = without.decision_function(storage(X[row]))
    confidence = found.calibration_.confidence(left_out, Y[row])
    np.testing.assert_allclose(found.label_confidence_[row], confidence, rtol=1e-3, atol=1e-5)
    assert found.coef_.dtype == found.label_confidence_.dtype == dtype


def test_weights_of_schirn_need_no_intercept_and_main_memory(data, weights):
    model = schirn.Schirn(fit_intercept=True)
    with pytest.raises(InputError, match="sample_weight needs fit_intercept=False"):
        model.fit(data.X, data.candidates, sample_weight=weights)


@pytest.mark.parametrize(
    "cls", [schirn.Schirn, schirn.Sieve, schirn.CandidateRidge, schirn.OracleRidge]
)
def test_weights_of_one_change_nothing(data, cls):
    found = cls().fit(data.X, data.candidates, sample_weight=np.ones(90))
    expected = cls().fit(data.X, data.candidates)
    np.testing.assert_array_equal(found.label_confidence_, expected.label_confidence_)


@pytest.mark.parametrize("cls", [schirn.CandidateRidge, schirn.OracleRidge])
def test_the_ridge_chosen_for_equal_weights_gives_the_same_model(data, cls):
    found = cls().fit(data.X, data.candidates, sample_weight=np.full(90, 3.0))
    expected = cls().fit(data.X, data.candidates)
    assert found.lam_ == pytest.approx(3 * expected.lam_)
    np.testing.assert_allclose(found.coef_, expected.coef_)


def test_fractions_lie_between_their_neighbours(data):
    """The more a row counts, the more the model follows it, here in an unlikely label."""
    Y, p = data.candidates.copy(), []
    plain = schirn.Sieve(lam=1.0, noise_level=0).fit(data.X, Y)
    label = int(np.argmin(plain.decision_function(data.X[:1])))
    Y[0, label] = 1
    for weight in (0.1, 1.5, 30.7):
        w = np.full(90, 1.0)
        w[0] = weight
        model = schirn.Sieve(lam=1.0, noise_level=0).fit(data.X, Y, sample_weight=w)
        p.append(model.decision_function(data.X[:1])[0, label])
    assert p[0] < p[1] < p[2]


@pytest.mark.parametrize(
    ("weights", "words"),
    [
        (np.ones(89), "sample_weight must be 90 numbers of at least 0"),
        (-np.ones(90), "sample_weight must be 90 numbers of at least 0"),
        (np.full(90, np.nan), "sample_weight must be 90 numbers"),
        (["a"] * 90, "sample_weight must be 90 numbers"),
        (np.zeros(90), "all weights are zero"),
    ],
)
def test_bad_weights_are_refused(data, weights, words):
    with pytest.raises(InputError, match=words) as caught:
        schirn.Sieve().fit(data.X, data.candidates, sample_weight=weights)
    assert caught.value.parameter == "sample_weight"


def test_where_weights_are_not_supported_the_error_says_so(data, weights):
    torch = pytest.importorskip("torch", reason="torch is not installed")
    X, Y = data.X, data.candidates
    with pytest.raises(InputError, match="sample_weight needs rows in main memory"):
        schirn.Sieve().fit(torch.from_numpy(X), Y, sample_weight=weights)
    with pytest.raises(InputError, match="up to max_kernel_rows=50 copies of rows"):
        schirn.Sieve(max_kernel_rows=50).fit(X, Y, sample_weight=weights)
    with pytest.raises(InputError, match="cannot be combined with known"):
        schirn.Sieve().fit(X, Y, sample_weight=weights, known=Y)
    with pytest.raises(TypeError, match="sample_weight"):
        lab.PARD().fit(X, Y, sample_weight=weights)


def test_weights_are_routed_through_cross_validation(data, weights):
    with sklearn.config_context(enable_metadata_routing=True):
        model = schirn.Sieve(max_iter=2).set_fit_request(sample_weight=True)
        model = model.set_score_request(sample_weight=True)
        params = {"sample_weight": weights}
        scores = cross_val_score(model, data.X, data.candidates, cv=2, params=params)
        plain = cross_val_score(schirn.Sieve(max_iter=2), data.X, data.candidates, cv=2)
    assert (scores != plain).all()
