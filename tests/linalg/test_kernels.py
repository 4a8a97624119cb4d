"""Kernels and the Nyström map."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.metrics.pairwise import rbf_kernel

from schirn.linalg.features import Kernel, nystroem_map, sample_width


@pytest.fixture
def rows():
    return np.random.default_rng(0).normal(size=(40, 5))


@pytest.mark.parametrize("container", [np.asarray, sp.csr_array])
def test_kernels_are_scikit_learns(rows, container):
    A, B = container(rows), container(rows[:7])
    np.testing.assert_allclose(Kernel("rbf", 2.5)(A, B), rbf_kernel(rows, rows[:7], gamma=1 / 2.5))
    np.testing.assert_allclose(Kernel("linear")(A, B), rows @ rows[:7].T)


def test_the_width_is_the_median_squared_distance(rows):
    from scipy.spatial.distance import pdist

    expected = np.median(pdist(rows) ** 2)
    assert sample_width(rows) == pytest.approx(expected)
    assert sample_width(np.ones((5, 2))) == 1.0


def test_nystroem_with_all_rows_is_the_kernel(rows):
    kernel = Kernel("rbf", 4.0)
    features = kernel(rows, rows) @ nystroem_map(kernel, rows)
    np.testing.assert_allclose(features @ features.T, kernel(rows, rows), atol=1e-6)
