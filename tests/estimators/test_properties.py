"""What must hold for every method, whatever the data: order, copies, units, amount of noise."""

import warnings

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sklearn.exceptions import ConvergenceWarning

import schirn
from schirn.datasets import add_noise, make_partial_multilabel
from schirn.exceptions import EmptyCandidatesWarning

METHODS = sorted(schirn.methods())

# The factors of FPML start from random numbers, one row for each label; this start is fixed.
FIXED_START = {"FPML": {"init": "svd"}}

# Scores that depend on the order of the labels, each by the design of the method.
LABEL_ORDER = {
    "PARD": "the first weights of the network are random numbers, in the order of the labels",
    "PLAIN": "the first weights of the network are random numbers, in the order of the labels",
    "PMLLENFN": "the first weights of the hidden units are random numbers, in the same order",
    "PMLPLR": "the first matrix P is random, in the order of the labels",
    "ParticleMAP": "a row that speaks for both labels of a pair counts for the lower one",
    "ParticleVLS": "a row that speaks for both labels of a pair counts for the lower one",
}
# Scores that depend on the order of the rows.
ROW_ORDER = {
    "PLAIN": "its batches are drawn by row number",
    "PMLPLR": "its anchors are drawn by row number",
    "Sieve": "its inner splits are drawn by row number",
}
# Copies of a row that are judged differently.
COPIES = {
    "MUSER": "of neighbours equally near, the first are taken, and edges count at both ends",
    "PLAIN": "of neighbours equally near, the first are taken, and edges count at both ends",
    "PMLMA": "of neighbours equally near, the first are taken, and edges count at both ends",
    "PMLPLR": "of neighbours equally near, the first are taken, and edges count at both ends",
}

# Methods that bring every feature to a common scale, so that units do not matter.
WITHOUT_UNITS = (
    "PAKS",
    "PARD",
    "PLAIN",
    "PMLFP",
    "PMLLC",
    "PMLLENFN",
    "PMLMA",
    "PMLNI",
    "PMLPLR",
    "Sieve",
)


def sample(n=60, d=6, l=5, r=1, seed=3):
    data = make_partial_multilabel(
        n_samples=n, n_features=d, n_labels=l, cardinality=min(2.0, l - 0.5), r=r, random_state=seed
    )
    return np.asarray(data.X), np.asarray(data.candidates), np.asarray(data.y_true)


def fit(name, X, candidates):
    model = schirn.methods()[name](**FIXED_START.get(name, {}))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", EmptyCandidatesWarning)
        # With few rows the default weights of PML-MA leave no pseudo-label.
        warnings.filterwarnings("ignore", "lam=10 shrinks all", ConvergenceWarning)
        return model.fit(X, candidates)


def new_rows(d, seed=9):
    return np.random.RandomState(seed).standard_normal((40, d))


def assert_alike(one, other):
    """Scores that agree in order and size, not to the digit."""
    # Equal constants have no correlation.
    assert np.array_equal(one, other) or np.corrcoef(one.ravel(), other.ravel())[0, 1] > 0.85


@pytest.mark.parametrize("name", METHODS)
def test_the_order_of_the_labels_does_not_matter(name):
    X, C, _ = sample()
    order = np.random.RandomState(0).permutation(C.shape[1])
    model, other = fit(name, X, C), fit(name, X, C[:, order])
    test = new_rows(X.shape[1])
    scores, changed = model.decision_function(test)[:, order], other.decision_function(test)
    if name in LABEL_ORDER:
        assert_alike(scores, changed)
    else:
        np.testing.assert_allclose(changed, scores, rtol=1e-6, atol=1e-8)
    if name not in LABEL_ORDER or name.startswith("Particle"):
        np.testing.assert_array_equal(other.noise_, model.noise_[:, order])
        expected = model.label_confidence_[:, order]
        np.testing.assert_allclose(other.label_confidence_, expected, atol=1e-6)


@pytest.mark.parametrize("name", METHODS)
def test_the_order_of_the_rows_does_not_matter(name):
    X, C, _ = sample(n=200 if name in ROW_ORDER else 60)
    order = np.random.RandomState(1).permutation(len(X))
    model, other = fit(name, X, C), fit(name, X[order], C[order])
    test = new_rows(X.shape[1])
    scores, changed = model.decision_function(test), other.decision_function(test)
    if name in ROW_ORDER:
        assert_alike(scores, changed)
        assert (other.noise_ == model.noise_[order]).mean() > 0.95
        assert_alike(other.label_confidence_, model.label_confidence_[order])
        return
    np.testing.assert_allclose(changed, scores, rtol=1e-6, atol=1e-8)
    np.testing.assert_array_equal(other.noise_, model.noise_[order])
    np.testing.assert_allclose(other.label_confidence_, model.label_confidence_[order], atol=1e-6)


@pytest.mark.parametrize("name", METHODS)
def test_copies_of_a_row_are_judged_alike(name):
    X, C, _ = sample(n=50)
    model = fit(name, np.vstack([X, X, X[:5]]), np.vstack([C, C, C[:5]]))
    for copies in (model.noise_, model.label_confidence_, model.decision_function(X.repeat(2, 0))):
        half = copies[: len(X)], copies[len(X) : 2 * len(X)]
        if copies.shape[0] == 2 * len(X):
            half = copies[::2], copies[1::2]
        if name in COPIES:
            assert_alike(*half)
            continue
        np.testing.assert_allclose(*(np.asarray(part, float) for part in half), atol=1e-6)


@pytest.mark.parametrize("name", WITHOUT_UNITS)
def test_the_units_of_the_features_do_not_matter(name):
    X, C, _ = sample()
    units = 10.0 ** np.arange(-2, X.shape[1] - 2)
    model, other = fit(name, X, C), fit(name, X * units, C)
    test = new_rows(X.shape[1])
    np.testing.assert_allclose(
        other.decision_function(test * units), model.decision_function(test), rtol=1e-5, atol=1e-6
    )
    np.testing.assert_array_equal(other.noise_, model.noise_)


@pytest.mark.parametrize("name", METHODS)
def test_more_noise_never_crashes(name):
    """From no wrong label to every label a candidate of every row."""
    X, _, Y = sample(n=40, l=6)
    rows, test = np.flatnonzero(Y.sum(axis=1) < 4), new_rows(X.shape[1])
    for r in (0, 1, 3, 6):
        C = np.ones_like(Y[rows]) if r == 6 else add_noise(Y[rows], r, random_state=0)
        model = fit(name, X[rows], C)
        check_contract(model, C)
        assert np.isfinite(model.decision_function(test)).all()


def check_contract(model, C):
    outside = C == 0
    assert not (model.noise_ & outside).any(), "noise_ outside the candidates"
    confidence = model.label_confidence_
    assert np.isfinite(confidence).all()
    assert (confidence[outside] == 0).all(), "confidence outside the candidates"
    assert ((confidence >= 0) & (confidence <= 1)).all()


SHAPES = st.tuples(st.integers(2, 25), st.integers(1, 8), st.integers(1, 6), st.floats(0, 1))


@pytest.mark.parametrize("name", METHODS)
def test_noise_is_found_among_the_candidates_only(name):
    @settings(
        max_examples=8,
        deadline=None,
        database=None,
        derandomize=True,
        suppress_health_check=list(HealthCheck),
    )
    @given(SHAPES, st.integers(0, 1000), st.sampled_from((1.0, 1e-6, 1e6, 0.0)))
    def check(shape, seed, size):
        n, d, l, share = shape
        random = np.random.RandomState(seed)
        X = size * random.standard_normal((n, d)).round(1)
        C = (random.uniform(size=(n, l)) < share).astype(np.uint8)
        C[0, 0] = 1
        model = fit(name, X, C)
        check_contract(model, C)
        assert np.isfinite(model.decision_function(X)).all()
        judged = model.disambiguate(X, C)
        assert (judged[C == 0] == 0).all()
        assert ((judged >= 0) & (judged <= 1)).all()

    check()
