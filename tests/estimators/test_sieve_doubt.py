"""When Sieve does not know: weak features, complete candidates, missing labels, copies."""

import numpy as np
import pytest

from schirn import Sieve
from schirn.datasets import load_digits_attributes, make_partial_multilabel
from schirn.exceptions import InputError
from schirn.solvers.kernel_ridges import fit_kernel_matrix, kernel_matrix
from schirn.solvers.sieve import SieveOptions


@pytest.fixture(scope="module")
def digits():
    return load_digits_attributes(r=2)


@pytest.fixture(scope="module")
def sure(digits):
    """All pixels tell right from wrong."""
    return Sieve().fit(digits.X, digits.candidates)


@pytest.fixture(scope="module")
def doubtful():
    return make_partial_multilabel(
        n_samples=200, n_features=8, n_labels=5, cardinality=2.0, r=1, random_state=0
    )


def test_good_features_find_the_wrong_labels(digits, sure):
    wrong = (digits.candidates == 1) & (digits.y_true == 0)
    found = (sure.noise_ & wrong).sum()
    assert found >= 0.97 * wrong.sum()
    assert found >= 0.98 * sure.noise_.sum()


def test_random_features_call_nothing_wrong(digits):
    Y = digits.y_true[:900]
    model = Sieve().fit(np.random.RandomState(0).standard_normal((900, 20)), Y)
    assert model.noise_.sum() <= 0.05 * Y.sum()
    assert model.informativeness_ < 0.2


@pytest.mark.parametrize("pixel", [20, 36])
def test_one_pixel_calls_little_wrong(digits, pixel):
    Y = digits.candidates[:900]
    model = Sieve().fit(digits.X[:900, [pixel]], Y)
    assert model.noise_.sum() <= 0.1 * Y.sum()


def test_nobody_claims_a_share(sure):
    assert not hasattr(sure, "wrong_share_")
    assert sure.informativeness_ == 1


def test_doubt_in_the_features_keeps_the_order(doubtful):
    X = doubtful.X + 2 * np.random.default_rng(0).normal(size=doubtful.X.shape)
    model = Sieve().fit(X, doubtful.candidates)
    assert 0 < model.informativeness_ < 1
    Z = model.scale_.transform(X)
    _, K = kernel_matrix(Z, "rbf", np.random.RandomState(0))
    Q = fit_kernel_matrix(K, doubtful.candidates, SieveOptions("rbf")).confidence().toarray()
    listed = doubtful.candidates == 1
    order = np.argsort(Q[listed])
    assert (np.diff(model.label_confidence_[listed][order]) >= 0).all()


@pytest.fixture(scope="module")
def copied(doubtful):
    """Sixteen copies of a row with a wrong label."""
    Y = doubtful.candidates.copy()
    plain = Sieve().fit(doubtful.X, doubtful.candidates)
    scores = np.where(doubtful.candidates == 0, plain.decision_function(doubtful.X), np.inf)
    i, j = np.unravel_index(np.argsort(scores, axis=None)[50], scores.shape)
    Y[i, j] = 1
    times = np.r_[np.arange(200), [i] * 15]
    return doubtful.X[times], Y[times], times, (i, j)


def test_copies_in_a_group_do_not_judge_each_other(copied):
    X, Y, groups, (i, j) = copied
    copies = groups == i
    apart = Sieve().fit(X, Y, groups=groups).label_confidence_[copies, j]
    together = Sieve().fit(X, Y).label_confidence_[copies, j]
    alone = Sieve().fit(X[:200], Y[:200]).label_confidence_[i, j]
    np.testing.assert_allclose(apart, apart[0], atol=1e-9)
    np.testing.assert_allclose(apart, alone, atol=0.1)
    assert (apart < 0.5).all()
    assert (together > 0.8).all()


def test_groups_of_one_row_change_nothing(doubtful):
    names = np.array([f"row {k}" for k in range(200)])[::-1]
    grouped = Sieve().fit(doubtful.X, doubtful.candidates, groups=np.sort(names))
    assert grouped.label_confidence_.shape == doubtful.candidates.shape
    with pytest.raises(InputError):
        Sieve().fit(doubtful.X, doubtful.candidates, groups=names[:7])


def test_only_the_partition_into_groups_matters(doubtful):
    groups = np.random.default_rng(0).integers(60, size=200)
    names = np.array([f"author {k}" for k in np.random.default_rng(1).permutation(60)])
    one, other = (
        Sieve(max_iter=3).fit(doubtful.X, doubtful.candidates, groups=g)
        for g in (groups, names[groups])
    )
    np.testing.assert_array_equal(one.label_confidence_, other.label_confidence_)


def test_groups_need_the_kernel_of_all_rows(doubtful):
    model = Sieve(max_kernel_rows=50)
    with pytest.raises(InputError, match="max_kernel_rows=50 rows, and X has 200") as error:
        model.fit(doubtful.X, doubtful.candidates, groups=np.arange(200))
    assert error.value.parameter == "groups"


def test_thousands_of_labels_on_few_rows():
    rng = np.random.RandomState(0)
    X, Y = rng.standard_normal((60, 5)), rng.rand(60, 2000) < 0.01
    model = Sieve().fit(X, Y.astype(int))
    assert np.isfinite(model.decision_function(X)).all()


def test_single_precision_gives_nearly_the_same(doubtful):
    double = Sieve().fit(doubtful.X, doubtful.candidates)
    single = Sieve().fit(doubtful.X.astype(np.float32), doubtful.candidates)
    assert single.label_confidence_.dtype == np.float32
    np.testing.assert_allclose(single.label_confidence_, double.label_confidence_, atol=1e-3)


@pytest.mark.filterwarnings("ignore::schirn.exceptions.EmptyCandidatesWarning")
@pytest.mark.parametrize("value", [0.0, 1.0, 1e6])
def test_rows_that_are_all_alike(value):
    Y = (np.random.RandomState(0).rand(30, 3) < 0.5).astype(int)
    for kernel in ("rbf", "linear"):
        for features in ("none", "text", "spread"):
            model = Sieve(kernel=kernel, features=features).fit(np.full((30, 4), value), Y)
            assert np.isfinite(model.decision_function(np.full((2, 4), value))).all()
            assert not model.noise_.any()
