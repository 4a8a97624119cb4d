"""The candidate cells of rows, as arrays and as tensors, against dense matrices."""

import numpy as np
import pytest
import scipy.sparse as sp

from schirn.noise.model import Candidates


def problem(density, seed=0):
    rng = np.random.default_rng(seed)
    Y = rng.random((30, 7)) < density
    # A row and a label without candidates.
    Y[4], Y[:, 5] = False, False
    B = np.where(Y, rng.normal(size=Y.shape), 0.0)
    return Y, B, rng.normal(size=(30, 3))


@pytest.fixture(params=["array", "tensor"])
def as_library(request):
    """A function that converts arrays, and the array that says where candidates go."""
    if request.param == "array":
        return np.asarray
    return pytest.importorskip("torch", reason="torch is not installed").asarray


@pytest.mark.parametrize("density", [0.01, 0.4])
def test_values_are_those_of_the_dense_matrix(as_library, density):
    Y, B, X = problem(density)
    X = as_library(X)
    cells = Candidates(sp.csr_array(Y.astype(float)), X)
    values = as_library(B[Y])
    assert cells.shape == Y.shape
    assert cells.size == Y.sum()
    np.testing.assert_array_equal(cells.row, np.nonzero(Y)[0])
    np.testing.assert_array_equal(cells.flat, np.flatnonzero(Y))
    np.testing.assert_array_equal(cells.listed, Y.sum(axis=0))
    np.testing.assert_allclose(cells.total(values), B.sum(axis=0), atol=1e-12)
    dense = cells.dense(values)
    assert type(dense) is type(X)
    np.testing.assert_array_equal(dense, B)
    ones = cells.ones(X)
    assert ones.dtype == X.dtype
    np.testing.assert_array_equal(ones, np.ones(Y.sum()))


@pytest.mark.parametrize("density", [0.01, 0.4])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_projections_are_products_in_double_precision(as_library, density, dtype):
    Y, B, X = problem(density)
    X = as_library(X.astype(dtype))
    cells = Candidates(sp.csr_array(Y.astype(float)), X)
    found = cells.project(as_library(B[Y]), X)
    assert str(found.dtype).endswith("float64")
    np.testing.assert_allclose(
        found, np.asarray(X).T @ B, atol=1e-10 if dtype == "float64" else 1e-5
    )


def test_projections_of_sparse_rows_and_of_blocks(monkeypatch):
    Y, B, X = problem(0.3)
    cells = Candidates(sp.csr_array(Y.astype(float)))
    expected = X.T @ B
    np.testing.assert_allclose(cells.project(B[Y], sp.csr_array(X)), expected, atol=1e-12)
    monkeypatch.setattr("schirn.linalg.arrays.BLOCK_CELLS", 4 * 3)
    for rows in (X, sp.csr_array(X)):
        np.testing.assert_allclose(cells.project(B[Y], rows), expected, atol=1e-12)


@pytest.mark.parametrize(("first", "last"), [(0, 30), (0, 5), (4, 5), (7, 20), (29, 30), (3, 3)])
def test_candidates_of_some_rows(as_library, first, last):
    Y, B, X = problem(0.3)
    rows = Y[first:last]
    cells = Candidates(rows, as_library(X))
    assert cells.shape == rows.shape
    np.testing.assert_array_equal(cells.row, np.nonzero(rows)[0])
    np.testing.assert_array_equal(cells.label, np.nonzero(rows)[1])
    values = as_library(B[first:last][rows])
    np.testing.assert_array_equal(cells.dense(values), B[first:last])
