import numpy as np
import pytest
import scipy.sparse as sp
from reference.pmlni import minmax_features, with_bias
from sklearn.preprocessing import StandardScaler

from schirn.lab.rivals.solvers._scaling import biased_row_space, identity, minmax
from schirn.linalg.features import is_centred, standard_factor
from schirn.linalg.row_space import DensifyWarning


@pytest.fixture(params=[(60, 9), (15, 40)], ids=["tall", "wide"])
def X(request):
    rng = np.random.default_rng(0)
    X = rng.normal(size=request.param) * (rng.random(request.param) < 0.4)
    X[:, 2] = 3.0
    X[:, 4] = 0.0
    return X


@pytest.mark.parametrize("scale", [minmax, identity])
@pytest.mark.parametrize("container", [np.asarray, sp.csr_array])
def test_factored_features(X, scale, container):
    F = with_bias(minmax_features(X) if scale is minmax else X)
    scaling = scale(container(X))
    space = biased_row_space(container(X), scaling, ridge=0.1)
    rng = np.random.default_rng(1)
    B = rng.normal(size=(len(X), 3))
    expected = np.linalg.solve(F.T @ F + 0.1 * np.eye(F.shape[1]), F.T @ B)
    w = space.ridge(space.project(B), 0.1)
    W, b = space.coefficients(w)
    np.testing.assert_allclose(W, expected, atol=1e-9)
    np.testing.assert_allclose(b, 0)
    np.testing.assert_allclose(space.expand(w), F @ expected, atol=1e-9)
    hat = F @ np.linalg.solve(F.T @ F + 0.1 * np.eye(F.shape[1]), F.T)
    np.testing.assert_allclose(space.leverage(0.1), np.diag(hat), atol=1e-9)
    coef, intercept = scaling.undo(expected)
    np.testing.assert_allclose(container(X) @ coef + intercept, F @ expected, atol=1e-9)


def test_single_precision_survives_the_shift(X):
    sparse = sp.csr_array(X.astype(np.float32))
    wide = biased_row_space(sp.csr_array(X), minmax(sp.csr_array(X)), ridge=0.1)
    narrow = biased_row_space(sparse, minmax(sparse), ridge=0.1)
    B = np.eye(len(X))[:, :3]
    assert narrow.dtype == np.float32
    expected = wide.expand(wide.ridge(wide.project(B), 0.1))
    found = narrow.expand(narrow.ridge(narrow.project(B.astype(np.float32)), 0.1))
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, expected, atol=1e-4)


def test_a_tiny_ridge_says_that_it_densifies(X):
    sparse = sp.csr_array(X)
    with pytest.warns(DensifyWarning, match="raise lam"):
        space = biased_row_space(sparse, minmax(sparse), ridge=1e-12)
    dense = biased_row_space(X, minmax(X), ridge=1e-12)
    np.testing.assert_allclose(np.sort(space.eigenvalues), np.sort(dense.eigenvalues), rtol=1e-9)


@pytest.mark.parametrize("container", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_standard_factor(X, container, dtype):
    X[:, 3] += 1e6
    X[:, 5] = 0.1
    factor = standard_factor(container(X.astype(dtype)))
    assert factor.dtype == dtype
    deviation = X.astype(dtype).astype(np.float64).std(axis=0)
    assert not factor[[2, 4, 5]].any()
    others = np.delete(np.arange(X.shape[1]), [2, 4, 5])
    np.testing.assert_allclose(factor[others], 1 / deviation[others], rtol=1e-5)


@pytest.mark.parametrize(
    ("X", "expected"),
    [
        (np.array([[1.0, 5.0], [-1.0, -5.0]]), True),
        (np.array([[1.0, 0.0], [-1.0, 0.0]]), True),
        (np.array([[1.0, 5.0], [-1.0, 5.0]]), False),
        (np.array([[1.0, 5.0], [-1.0, -4.9]]), False),
        (1e200 * np.array([[1.0, 5.0], [-1.0, -5.0]]), False),
        (np.zeros((3, 2)), False),
        (np.zeros((1, 2)), False),
        (np.zeros((3, 0)), False),
        (sp.csr_array([[1.0], [-1.0]]), False),
    ],
)
def test_centred_features_are_seen(X, expected):
    assert is_centred(X) is expected


def test_scaled_single_precision_is_centred():
    X = np.random.default_rng(0).normal(1, 3, size=(5000, 20)).astype(np.float32)
    assert not is_centred(X)
    assert is_centred(StandardScaler().fit_transform(X))
