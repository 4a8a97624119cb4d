"""Array libraries: conversion between them, and products that they lack."""

import numpy as np
import pytest
import scipy.sparse as sp

from schirn.linalg import arrays
from schirn.linalg.arrays import (
    cell_rows,
    cells_product,
    entries,
    flat_cells,
    like,
    namespace,
    symmetric_product,
    to_numpy,
)

torch = pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("array_api_compat", reason="array-api-compat is not installed")


def test_products_and_conversion_of_tensors():
    F = np.random.default_rng(0).normal(size=(5, 3))
    label, row = np.array([0, 0, 2]), np.array([1, 4, 0])
    values = np.array([1.0, -1.0, 2.0])
    expected = cells_product(label, row, values, F, 4)
    tensors = [torch.asarray(A) for A in (label, row, values, F)]
    np.testing.assert_allclose(to_numpy(cells_product(*tensors, 4)), expected)
    assert namespace(tensors[0]).__name__.startswith("array_api_compat")
    assert like(np.zeros(2), tensors[3]).dtype == torch.float64


@pytest.mark.parametrize("other", [np.zeros(0), torch.zeros(0)], ids=["numpy", "torch"])
@pytest.mark.parametrize("density", [0.0, 0.2, 1.0])
def test_cells_of_csr_matrices(other, density):
    """With empty rows, also at both ends."""
    Y = np.random.default_rng(0).random((20, 4)) < density
    Y[[0, 7, 8, 19]] = False
    cells = sp.csr_array(Y)
    row, _ = np.nonzero(Y)
    np.testing.assert_array_equal(to_numpy(cell_rows(cells.indptr, other)), row)
    np.testing.assert_array_equal(to_numpy(flat_cells(cells, other)), np.flatnonzero(Y))
    values = np.arange(80.0)
    at = entries(like(values, other, "own"), flat_cells(cells, other))
    np.testing.assert_array_equal(to_numpy(at), values[Y.ravel()])


@pytest.mark.parametrize("l", [255, 256, 300])
def test_symmetric_products_by_stripes(l):
    """Most of the lower half is copied from the upper one."""
    A = np.random.default_rng(0).normal(size=(l, 20))
    found = to_numpy(symmetric_product(torch.asarray(A), torch.asarray(A.T)))
    np.testing.assert_allclose(found, A @ A.T, atol=1e-12)
    np.testing.assert_allclose(symmetric_product(A, A.T), A @ A.T)
    if l > 255:
        assert (found == found.T).all()


@pytest.mark.parametrize("size", [1e-9, 1.0, 1e9])
@pytest.mark.parametrize("shape", [(1, 1, 1), (5, 3, 200), (65, 64, 31)])
def test_products_by_halves(shape, size, monkeypatch):
    """On the processor the same halves are multiplied in single precision."""
    monkeypatch.setattr(arrays, "_PIECE", 64 * shape[1])
    l, k, n = shape
    rng = np.random.default_rng(0)
    A, B = size * rng.normal(size=(l, k)), rng.normal(size=(k, n)) / size
    found = arrays.product_by_halves(torch.asarray(A).float(), torch.asarray(B).float())
    assert found.dtype == torch.float32
    np.testing.assert_allclose(found, A @ B, atol=1e-6 * np.abs(A).max() * np.abs(B).max() * k**0.5)
    zero = arrays.product_by_halves(torch.zeros(l, k), torch.asarray(B).float())
    assert not zero.any()


def test_an_identity_adds_no_error():
    rng = np.random.default_rng(0)
    A, B = 1e-3 * rng.normal(size=(20, 20)), rng.normal(size=(20, 40))
    out = torch.empty(20, 40)
    found = arrays.product_by_halves(torch.asarray(A).float(), torch.asarray(B).float(), 0.5, out)
    assert found is out
    np.testing.assert_allclose(found, 0.5 * B + A @ B, atol=2e-7)
