"""Array libraries: conversion between them, and products that they lack."""

import numpy as np
import pytest
import scipy.sparse as sp

from schirn.linalg.arrays import (
    cell_rows,
    cells_product,
    flat_cells,
    like,
    namespace,
    take_cells,
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
    values = np.arange(80.0).reshape(20, 4)
    at = take_cells(like(values, other, "own"), flat_cells(cells, other))
    np.testing.assert_array_equal(to_numpy(at), values[Y])
