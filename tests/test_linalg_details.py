"""Sparse targets, types and guards of the factored rows."""

import numpy as np
import pytest
import scipy.sparse as sp

from schirn.linalg.row_space import below_one, row_space

RNG = np.random.default_rng(0)
TALL, WIDE = RNG.normal(size=(40, 6)), RNG.normal(size=(8, 30))
SPARSE_TALL = sp.csr_array(TALL * (RNG.random(TALL.shape) < 0.4))
SPARSE_WIDE = sp.csr_array(WIDE * (RNG.random(WIDE.shape) < 0.4))
MATRICES = {"tall": TALL, "wide": WIDE, "sparse tall": SPARSE_TALL, "sparse wide": SPARSE_WIDE}


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("name", MATRICES)
def test_sparse_targets_project_like_dense_ones(name, intercept):
    X = MATRICES[name]
    B = (RNG.random((X.shape[0], 3)) < 0.5).astype(float)
    space = row_space(X, ridge=0.1, fit_intercept=intercept)
    dense, thin = space.project(B), space.project(sp.csr_array(B))
    assert isinstance(thin, np.ndarray)
    assert dense.shape == thin.shape == (len(space.eigenvalues), 3)
    np.testing.assert_allclose(thin, dense, atol=1e-12)
    if intercept:
        np.testing.assert_allclose(dense[-1], B.sum(axis=0))


@pytest.mark.filterwarnings("ignore::schirn.linalg.row_space.DensifyWarning")
@pytest.mark.parametrize("ridge", [1e-9, 0.1])
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("name", MATRICES)
def test_single_precision_stays_single(name, intercept, ridge):
    X = MATRICES[name].astype(np.float32)
    space = row_space(X, ridge=ridge, fit_intercept=intercept)
    B = np.ones((X.shape[0], 2), dtype=np.float32)
    w = space.ridge(space.project(B), 0.5)
    found = [space.eigenvalues, space.basis, w, space.expand(w), space.transform(X)]
    found += [*space.coefficients(w), space.leverage(0.5)]
    assert {part.dtype for part in found} == {np.dtype(np.float32)}


def test_leverages_are_kept_away_from_one():
    limit = 1 - np.sqrt(np.finfo(float).eps)
    assert below_one(np.array([0.3, 1.0, 1.5])).tolist() == [0.3, limit, limit]
    single = below_one(np.array([0.25, 1.0], dtype=np.float32))
    assert single.dtype == np.float32
    assert single.tolist() == [0.25, np.float32(1 - np.sqrt(np.finfo(np.float32).eps))]
