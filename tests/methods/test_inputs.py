"""Containers and values of X that have gone wrong somewhere once."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.preprocessing import StandardScaler

import schirn
from schirn import Sieve
from schirn.datasets import make_partial_multilabel
from schirn.exceptions import InputError
from schirn.methods import _base


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


@pytest.mark.parametrize("cls", [schirn.Sieve, schirn.ParticleMAP, schirn.PAKS, schirn.Schirn])
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


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (Sieve(features=None), r"features must be .* got None"),
        (Sieve(random_state="abc"), r"random_state must be .* got 'abc'"),
        (schirn.FPML(random_state=-1), r"random_state must be .* got -1"),
        (schirn.ParticleVLS(n_jobs=0), r"n_jobs must be at least 1, .* got 0"),
    ],
)
def test_bad_parameters_are_refused_in_one_sentence(data, model, words):
    with pytest.raises(InputError, match=words):
        model.fit(data.X, data.candidates)


def test_a_random_state_of_numpy_is_a_seed(data):
    found = [
        schirn.FPML(random_state=seed).fit(data.X, data.candidates).decision_function(data.X)
        for seed in (7, np.random.RandomState(7))
    ]
    np.testing.assert_array_equal(*found)


def test_who_sees_the_truth():
    assert _base.sees_truth(schirn.OracleRidge)
    assert not _base.sees_truth(schirn.Sieve())
