"""Containers and values of X that have gone wrong somewhere once."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.exceptions import NotFittedError
from sklearn.preprocessing import StandardScaler

import schirn
from schirn import Sieve, lab
from schirn.datasets import make_partial_multilabel
from schirn.estimators import sees_truth
from schirn.exceptions import InputError


@pytest.fixture(scope="module")
def data():
    return make_partial_multilabel(n_samples=80, n_features=6, n_labels=4, r=1, random_state=0)


@pytest.mark.parametrize("kernel", ["rbf", "linear"])
def test_sparse_rows_get_the_scores_of_dense_ones(data, kernel):
    """Also where the model was trained on dense rows with a mean far from zero."""
    X = data.X + 5
    model = Sieve(kernel=kernel, max_iter=2).fit(X, data.candidates)
    expected = model.decision_function(X)
    np.testing.assert_allclose(model.decision_function(sp.csr_array(X)), expected, atol=1e-9)


def repeated(X):
    """The same matrix with every cell in two halves, in the wrong order."""
    A = sp.coo_array(X)
    rows, columns = A.coords
    order = np.lexsort((-columns, rows))
    data = np.repeat(A.data[order] / 2, 2)
    starts = 2 * np.searchsorted(rows[order], np.arange(len(X) + 1))
    return sp.csr_array((data, np.repeat(columns[order], 2), starts), shape=X.shape)


@pytest.mark.parametrize("cls", [schirn.Sieve, lab.ParticleMAP, lab.PAKS, schirn.Schirn])
def test_cells_that_stand_twice_are_added_and_the_matrix_stays_as_it_was(data, cls):
    X = np.where(data.X > 0, data.X, 0)
    A = repeated(X)
    size = A.nnz
    for part in (A.data, A.indices, A.indptr):
        part.flags.writeable = False
    expected = cls().fit(sp.csr_array(X), data.candidates)
    found = cls().fit(A, data.candidates)
    np.testing.assert_array_equal(found.noise_, expected.noise_)
    np.testing.assert_allclose(
        found.decision_function(A), expected.decision_function(X), rtol=1e-9, atol=1e-9
    )
    assert A.nnz == size


@pytest.mark.parametrize("storage", [np.asarray, sp.csr_array])
def test_a_mark_for_missing_data_in_single_precision_is_named(data, storage):
    X = data.X.astype(np.float32)
    X[3, 2] = -3.4e38
    for cls in (schirn.Schirn, schirn.CandidateRidge, schirn.Sieve):
        with pytest.raises(InputError, match=r"X holds -3\.4e\+38 at row 3, column 2, too large"):
            cls().fit(storage(X), data.candidates)


def test_transformers_may_give_tables(data):
    pytest.importorskip("pandas", reason="pandas is not installed")
    plain = Sieve(features=StandardScaler(), max_iter=2).fit(data.X, data.candidates)
    tables = StandardScaler().set_output(transform="pandas")
    found = Sieve(features=tables, max_iter=2).fit(data.X, data.candidates)
    np.testing.assert_array_equal(found.decision_function(data.X), plain.decision_function(data.X))


def test_rows_in_another_order_are_refused(data):
    pandas = pytest.importorskip("pandas", reason="tables need pandas")
    names = [f"row {i}" for i in range(len(data.X))]
    X = pandas.DataFrame(data.X, index=names).add_prefix("feature ")
    candidates = pandas.DataFrame(data.candidates, index=names).add_prefix("label ")
    known = pandas.DataFrame(np.zeros(candidates.shape), index=names, columns=candidates.columns)
    model = Sieve(max_iter=2).fit(X, candidates, known=known)
    calls = {
        "y": lambda: model.fit(X, candidates[::-1]),
        "known": lambda: model.fit(X, candidates, known=known[::-1]),
        "candidates": lambda: model.disambiguate(X, candidates[::-1]),
        "sample_weight": lambda: model.score(
            X, candidates, sample_weight=pandas.Series(1.0, index=names)[::-1]
        ),
    }
    for name, call in calls.items():
        with pytest.raises(InputError, match=f"{name} has the index of X in another order"):
            call()
    # Another index says nothing about the order.
    model.fit(X, candidates.reset_index(drop=True))


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (Sieve(features=None), r"features must be .* got None"),
        (Sieve(random_state="abc"), r"random_state must be .* got 'abc'"),
        (lab.FPML(random_state=-1), r"random_state must be .* got -1"),
        (lab.ParticleVLS(n_jobs=0), r"n_jobs must be at least 1, .* got 0"),
    ],
)
def test_bad_parameters_are_refused_in_one_sentence(data, model, words):
    with pytest.raises(InputError, match=words):
        model.fit(data.X, data.candidates)


def test_a_random_state_of_numpy_is_a_seed(data):
    found = [
        lab.FPML(random_state=seed).fit(data.X, data.candidates).decision_function(data.X)
        for seed in (7, np.random.RandomState(7))
    ]
    np.testing.assert_array_equal(*found)


def test_who_sees_the_truth():
    assert sees_truth(schirn.OracleRidge)
    assert not sees_truth(schirn.Sieve())


@pytest.mark.parametrize("storage", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("name", sorted(schirn.methods()))
def test_values_whose_squares_overflow_are_named_in_fit_and_predict(data, name, storage):
    X = data.X.copy()
    X[3, 2] = -1e155
    model = schirn.methods()[name]()
    with pytest.raises(InputError, match=r"X holds -1e\+155 at row 3, column 2, too large for dou"):
        model.fit(storage(X), data.candidates)
    model.set_params(**({"max_iter": 5} if hasattr(model, "max_iter") else {}))
    model.fit(np.abs(data.X), data.candidates)
    with pytest.raises(InputError, match=r"X holds -1e\+155 at row 3, column 2"):
        model.predict_proba(storage(X))


@pytest.mark.parametrize("copies", [1, 20], ids=["few features", "many features"])
@pytest.mark.parametrize("name", sorted(schirn.methods()))
def test_squares_that_vanish_in_single_precision_leave_finite_scores(data, name, copies):
    """X'X is zero in single precision, and nothing may be divided by its eigenvalues."""
    X = (np.hstack([data.X] * copies) * 1e-30).astype(np.float32)
    model = schirn.methods()[name]().fit(X, data.candidates)
    assert np.isfinite(model.predict_proba(X)).all()
    assert np.isfinite(model.label_confidence_).all()


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize(
    ("model", "dtype", "named"),
    [
        (schirn.Schirn(beta=1e200), np.float64, r"beta=1e\+200"),
        (schirn.Schirn(beta=1e60), np.float32, r"beta=1e\+60"),
        (lab.PMLLRS(mu_max=1e-300), np.float64, "mu_max=1e-300"),
        (lab.GLC(mu=1e-100), np.float32, "mu=1e-100"),
        (lab.PAKS(gamma=1e300), np.float64, r"gamma=1e\+300"),
        (lab.FPML(lam2=1e100), np.float32, r"lam2=1e\+100"),
        (lab.NLR(beta=1e100), np.float32, r"beta=1e\+100"),
        (lab.PARD(beta_y=1e100, max_iter=8), np.float32, r"beta_y=1e\+100"),
        (lab.PMLMA(beta=1e100), np.float32, r"beta=1e\+100"),
        (lab.PMLPLR(beta=1e300), np.float64, r"beta=1e\+300"),
        (lab.PMLLENFN(step=1e300), np.float64, r"step=1e\+300"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_parameters_too_extreme_for_a_finite_solution_are_named(data, model, dtype, named):
    with pytest.raises(InputError, match=f"found no finite solution .*{named} may be too extreme"):
        model.fit(data.X.astype(dtype), data.candidates)


@pytest.mark.parametrize("name", sorted(schirn.methods()))
def test_methods_of_an_unfitted_model_say_so(data, name):
    model = schirn.methods()[name]()
    for call in (
        lambda: model.score(data.X, data.candidates),
        lambda: model.predict(data.X),
        lambda: model.predict_labels(data.X),
        lambda: model.disambiguate(data.X, data.candidates),
    ):
        with pytest.raises(NotFittedError, match="not fitted yet"):
            call()


@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError])
@pytest.mark.parametrize("name", sorted(schirn.methods()))
def test_an_interrupted_refit_leaves_the_old_model(data, name, error, monkeypatch):
    """The error comes after the solver, when the new weights are there."""
    model = schirn.methods()[name]()
    model.set_params(**({"max_iter": 5} if hasattr(model, "max_iter") else {}))
    model.fit(data.X, data.candidates, label_names=list("abcd"))
    before, expected = dict(vars(model)), model.predict_proba(data.X)

    def stop(*args):
        assert model.label_names_ == list("xyz")
        raise error

    monkeypatch.setattr(model, "_finish", stop)
    with pytest.raises(error):
        model.fit(data.X[:, :5], data.candidates[:, :3], label_names=list("xyz"))
    monkeypatch.undo()
    assert vars(model) == before
    np.testing.assert_array_equal(model.predict_proba(data.X), expected)
