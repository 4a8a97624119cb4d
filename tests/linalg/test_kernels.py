"""Kernels and the row space of a kernel matrix."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.kernel_ridge import KernelRidge
from sklearn.metrics.pairwise import rbf_kernel

from schirn.linalg.kernels import Kernel, kernel_space, median_width, nystroem_map
from schirn.linalg.row_space import row_space


@pytest.fixture
def rows():
    return np.random.default_rng(0).normal(size=(40, 5))


@pytest.mark.parametrize("container", [np.asarray, sp.csr_array])
def test_kernels_are_scikit_learns(rows, container):
    A, B = container(rows), container(rows[:7])
    np.testing.assert_allclose(Kernel("rbf", 2.5)(A, B), rbf_kernel(rows, rows[:7], gamma=1 / 2.5))
    np.testing.assert_allclose(Kernel("linear")(A, B), rows @ rows[:7].T)


def test_median_width_is_the_median_squared_distance(rows):
    from scipy.spatial.distance import pdist

    expected = np.median(pdist(rows) ** 2)
    assert median_width(rows, np.random.RandomState(0)) == pytest.approx(expected)
    assert median_width(np.ones((5, 2)), np.random.RandomState(0)) == 1.0


def test_linear_kernel_space_is_the_row_space_with_intercept(rows):
    B = np.random.default_rng(1).normal(size=(40, 3))
    K = Kernel("linear")
    kernel, plain = kernel_space(K(rows, rows)), row_space(rows, ridge=1.0, fit_intercept=True)
    new = np.random.default_rng(2).normal(size=(6, 5))
    for t in (0.1, 10.0):
        w, v = kernel.ridge(kernel.project(B), t), plain.ridge(plain.project(B), t)
        np.testing.assert_allclose(kernel.expand(w), plain.expand(v), atol=1e-9)
        np.testing.assert_allclose(kernel.leverage(t), plain.leverage(t), atol=1e-9)
        W, b = plain.coefficients(v)
        np.testing.assert_allclose(kernel.transform(K(new, rows)) @ w, new @ W + b, atol=1e-9)
        A, a = kernel.coefficients(w)
        np.testing.assert_allclose(K(new, rows) @ A + a, new @ W + b, atol=1e-9)


def test_leave_one_out_equals_refitting(rows):
    B = np.random.default_rng(1).normal(size=(40, 2))
    K = Kernel("rbf", 4.0)(rows, rows)
    space = kernel_space(K)
    fitted = space.expand(space.ridge(space.project(B), 0.5))
    got = space.leave_one_out(B, fitted, 0.5)
    for i in (0, 17):
        rest = np.delete(np.arange(40), i)
        inner = kernel_space(K[np.ix_(rest, rest)])
        w = inner.ridge(inner.project(B[rest]), 0.5)
        expected = inner.transform(K[[i]][:, rest]) @ w
        np.testing.assert_allclose(got[i], expected[0], atol=1e-8)


def test_centred_kernel_ridge_equals_scikit_learns_on_centred_targets(rows):
    B = np.random.default_rng(1).normal(size=(40, 2))
    H = np.eye(40) - 1 / 40
    K = H @ Kernel("rbf", 4.0)(rows, rows) @ H
    model = KernelRidge(alpha=0.3, kernel="precomputed").fit(K, B - B.mean(axis=0))
    space = kernel_space(Kernel("rbf", 4.0)(rows, rows))
    fitted = space.expand(space.ridge(space.project(B), 0.3))
    np.testing.assert_allclose(fitted, model.predict(K) + B.mean(axis=0), atol=1e-8)


def test_nystroem_with_all_rows_is_the_kernel(rows):
    kernel = Kernel("rbf", 4.0)
    features = kernel(rows, rows) @ nystroem_map(kernel, rows)
    np.testing.assert_allclose(features @ features.T, kernel(rows, rows), atol=1e-6)
