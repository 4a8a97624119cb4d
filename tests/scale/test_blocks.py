"""One solver on one block, on many, and in another array library."""

from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp

from schirn.linalg.arrays import to_numpy
from schirn.linalg.row_space import row_space
from schirn.scale.blocks import (
    Block,
    Coordinates,
    DenseRows,
    FeatureRows,
    MemoryRows,
    candidate_cells,
    memory_rows,
)
from schirn.solvers.schirn import schirn
from schirn.solvers.schirn_blocks import noise_cells, schirn_on_blocks

OPTIONS = {"alpha": 0.3, "beta": 0.1, "lam": 5.0}
terms = pytest.mark.parametrize("term", ["high", "low", "none"])


def problem(n=90, d=12, l=7, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.5)
    truth = X @ rng.normal(size=(d, l)) > 0.5
    return X, (truth | (rng.random((n, l)) < 0.25)).astype(float)


def split(space, Y, cuts):
    """The rows of a factored X in several blocks."""
    n = space.shape[0]
    edges = [0, *cuts, n]
    blocks = []
    for i, j in pairwise(edges):
        rows = FeatureRows(space.X[i:j], i) if space.F is None else DenseRows(space.F[i:j])
        blocks.append(Block(rows, candidate_cells(Y[i:j])))
    return MemoryRows(blocks)


@terms
@pytest.mark.parametrize("storage", [np.asarray, sp.csr_array], ids=["dense", "csr"])
@pytest.mark.parametrize("intercept", [False, True])
def test_blocks_give_the_result_of_one(term, storage, intercept):
    X, Y = problem()
    space = row_space(storage(X), ridge=1.0, fit_intercept=intercept)
    expected = schirn(space, Y, rank_term=term, **OPTIONS)
    store = split(space, Y, [1, 40, 41])
    _, coordinates = memory_rows(space, Y)
    found = schirn_on_blocks(store, coordinates, rank_term=term, **OPTIONS)
    np.testing.assert_allclose(found.w, expected.w, rtol=1e-8, atol=1e-9)
    scale = np.abs(expected.objective).max()
    np.testing.assert_allclose(found.objective, expected.objective, rtol=1e-9, atol=1e-10 * scale)
    largest = expected.residual.max()
    np.testing.assert_allclose(found.residual, expected.residual, atol=1e-9 * largest)
    np.testing.assert_array_equal(found.n_noise, expected.n_noise)
    starts = [0, 1, 40, 41]
    N = np.zeros(Y.shape, dtype=bool)
    for start, (cells, noise) in zip(starts, store.gather(noise_cells), strict=True):
        N[start + cells.row[noise], cells.label[noise]] = True
    np.testing.assert_array_equal(N, expected.N)
    assert 0 < N.sum() < Y.sum()


@terms
@pytest.mark.parametrize("precision", ["float64", "float32"])
def test_torch_gives_the_result_of_numpy(term, precision):
    torch = pytest.importorskip("torch", reason="torch is not installed")
    pytest.importorskip("array_api_compat", reason="array-api-compat is not installed")
    X, Y = problem()
    space = row_space(X.astype(precision), ridge=1.0)
    expected = schirn(row_space(X, ridge=1.0), Y, rank_term=term, **OPTIONS)
    F = torch.asarray(space.F)
    store = MemoryRows([Block(DenseRows(F), candidate_cells(Y, F))])
    coordinates = Coordinates(
        torch.asarray(space.eigenvalues), torch.asarray(space.penalty), len(X)
    )
    found = schirn_on_blocks(store, coordinates, rank_term=term, **OPTIONS)
    assert isinstance(found.w, torch.Tensor)
    assert str(found.w.dtype) == f"torch.{precision}"
    tolerance = 1e-8 if precision == "float64" else 2e-4
    scores = row_space(X, ridge=1.0).F @ expected.w
    np.testing.assert_allclose(
        space.F @ to_numpy(found.w), scores, atol=tolerance * np.abs(scores).max()
    )
    scale = np.abs(expected.objective).max()
    np.testing.assert_allclose(found.objective, expected.objective, atol=tolerance * scale)


def test_cells_of_dense_and_sparse_candidates_are_the_same():
    _, Y = problem()
    dense, sparse = candidate_cells(Y), candidate_cells(sp.csr_array(Y))
    for a, b in zip(dense, sparse, strict=True):
        np.testing.assert_array_equal(a, b)
    np.testing.assert_array_equal(Y.T.reshape(-1)[dense.flat], 1)


def test_dask_knows_the_size_of_cells():
    sizes = pytest.importorskip("dask.sizeof", reason="dask is not installed")
    cells = candidate_cells(np.ones((20, 3)))
    assert sizes.sizeof(cells) > cells.row.nbytes
