"""The kernel features as a transformer of scikit-learn, and as the map that Sieve uses."""

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

from schirn import CandidateRidge, Schirn, Sieve
from schirn.datasets import make_partial_multilabel
from schirn.exceptions import InputError
from schirn.features import KernelFeatures


@pytest.fixture(scope="module")
def data():
    return make_partial_multilabel(n_samples=150, n_features=8, n_labels=5, r=1, random_state=0)


@parametrize_with_checks([KernelFeatures()])
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def test_inner_products_are_the_kernel(data):
    found = KernelFeatures().fit(data.X)
    Phi, Z = found.transform(data.X), found.scale_.transform(data.X)
    np.testing.assert_allclose(Phi @ Phi.T, rbf_kernel(Z, gamma=1 / found.width_), atol=1e-6)


def test_with_fewer_landmarks_the_kernel_is_exact_between_them(data):
    found = KernelFeatures(n_landmarks=40).fit(data.X)
    Phi, Z = found.transform(data.X), found.scale_.transform(data.X)
    K = rbf_kernel(Z, gamma=1 / found.width_)
    exact = np.isclose(Phi @ Phi.T, K, atol=1e-6)
    assert Phi.shape == (150, 40)
    own = [int(np.flatnonzero((Z == row).all(axis=1))[0]) for row in found.landmarks_]
    assert exact[np.ix_(own, own)].all()
    assert not exact.all()


def test_the_width_and_the_scale_are_those_of_sieve(data):
    for X in (data.X, sp.csr_array(np.where(data.X > 1, data.X, 0))):
        sieve = Sieve(max_iter=1).fit(X, data.candidates)
        found = KernelFeatures().fit(X)
        assert found.width_ == sieve.expansion_.kernel.width
        assert found.scale_.kind == sieve.scale_.kind
        np.testing.assert_array_equal(found.scale_.weights, sieve.scale_.weights)


def test_sieve_on_the_features_ranks_like_sieve_with_its_kernel(data):
    own = Sieve().fit(data.X, data.candidates)
    shared = make_pipeline(KernelFeatures(), Sieve(features="none", kernel="linear"))
    shared.fit(data.X, data.candidates)
    scores = (model.decision_function(data.X).ravel() for model in (own, shared))
    assert np.corrcoef(*scores)[0, 1] > 0.99


def test_sparse_rows_give_the_features_of_dense_rows(data):
    X = np.where(data.X > 1.0, data.X, 0)
    dense, sparse = (KernelFeatures(scale="text").fit_transform(A) for A in (X, sp.csr_array(X)))
    assert isinstance(sparse, np.ndarray)
    np.testing.assert_allclose(sparse @ sparse.T, dense @ dense.T, atol=1e-8)


def test_single_precision_is_kept(data):
    found = KernelFeatures().fit(data.X.astype(np.float32))
    single = found.transform(data.X.astype(np.float32))
    assert single.dtype == np.float32
    double = KernelFeatures().fit_transform(data.X)
    np.testing.assert_allclose(single @ single.T, double @ double.T, atol=2e-3)


def test_names_pickles_and_pipelines(data):
    model = make_pipeline(KernelFeatures(n_landmarks=30), Schirn(fit_intercept=True))
    model.fit(data.X, data.candidates)
    features = model[0]
    assert list(features.get_feature_names_out()[:2]) == ["kernelfeatures0", "kernelfeatures1"]
    assert len(features.get_feature_names_out()) == features.transform(data.X[:1]).shape[1]
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict(data.X), model.predict(data.X))
    assert clone(features).get_params() == features.get_params()


def test_a_linear_method_learns_what_only_a_kernel_can_show():
    rng = np.random.RandomState(0)
    X = rng.uniform(-1, 1, (300, 2))
    inside = (X**2).sum(axis=1) < 0.5
    Y = np.column_stack([inside, ~inside]).astype(int)
    flat = CandidateRidge(lam=1e-3)
    curved = make_pipeline(KernelFeatures(), clone(flat))
    right = [
        np.mean(model.fit(X, Y).decision_function(X).argmax(axis=1) == ~inside)
        for model in (flat, curved)
    ]
    assert right[0] < 0.8 < 0.95 < right[1]


@pytest.mark.parametrize("X", [np.ones((5, 3)), np.zeros((1, 2)), sp.csr_array((4, 3))])
def test_rows_that_are_all_equal(X):
    found = KernelFeatures().fit_transform(X)
    assert found.shape == (X.shape[0], 1)
    np.testing.assert_allclose(found, found[0, 0])


def test_wrong_parameters_and_values_are_named():
    with pytest.raises(InputError, match="scale must be one of 'auto', 'text', 'spread', 'none'"):
        KernelFeatures(scale="minmax").fit(np.eye(3))
    with pytest.raises(InputError, match="n_landmarks"):
        KernelFeatures(n_landmarks=0).fit(np.eye(3))
    with pytest.raises(ValueError, match="row 1"):
        KernelFeatures().fit(np.array([[0.0, 1.0], [np.nan, 1.0]]))
