"""Neighbours and weights against plain searches and solvers."""

import numpy as np
import pytest
import scipy.sparse as sp
from reference.kernel_map import neighbour_graph as plain_graph
from reference.pmlni import minmax_features
from scipy.optimize import nnls

from schirn.lab.rivals.solvers.graph import (
    nearest_neighbours,
    neighbour_graph,
    nonnegative_least_squares,
    propagate_labels,
    reconstruction_weights,
)


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def kkt_error(G, b, w):
    """Largest violation of w >= 0, slope <= 0 and w slope = 0, relative to the diagonal of G."""
    slope = b - np.einsum("ijk,ik->ij", G, w)
    size = np.einsum("ijj->ij", G).max(axis=1)[:, None]
    return max((-w).max(), (slope / size).max(), np.abs(slope / size)[w > 0].max(initial=0))


@pytest.mark.parametrize("container", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("include_self", [False, True])
def test_neighbours_are_the_nearest(rng, container, include_self):
    X = rng.normal(size=(40, 5)) + 100
    found = nearest_neighbours(container(X), 7, include_self=include_self)
    D = np.sqrt(((X[:, None] - X[None]) ** 2).sum(axis=2))
    if not include_self:
        np.fill_diagonal(D, np.inf)
    np.testing.assert_array_equal(found.indices, np.argsort(D, axis=1)[:, :7])
    np.testing.assert_allclose(found.distances, np.sort(D, axis=1)[:, :7], atol=1e-5)


def test_fewer_rows_than_neighbours(rng):
    X = rng.normal(size=(4, 2))
    assert nearest_neighbours(X, 10).indices.shape == (4, 3)
    assert nearest_neighbours(X[:1], 10).indices.shape == (1, 0)
    assert reconstruction_weights(X[:1], np.zeros((1, 0), dtype=int)).nnz == 0


def test_a_repeated_row_is_not_its_own_neighbour():
    found = nearest_neighbours(np.ones((6, 3)), 3)
    assert not (found.indices == np.arange(6)[:, None]).any()


@pytest.mark.parametrize("scale", [1e-8, 1.0, 1e8])
def test_weights_equal_a_solver_of_one_row(rng, scale):
    A, x = rng.normal(size=(60, 6, 9)), rng.normal(size=(60, 9))
    # Unscaled: SciPy before 1.15 takes small slopes for zero. The weights do not change with it.
    expected = [nnls(A[i].T, x[i])[0] for i in range(60)]
    A, x = A * scale, x * scale
    G, b = A @ A.transpose(0, 2, 1), (A @ x[:, :, None])[:, :, 0]
    np.testing.assert_allclose(nonnegative_least_squares(G, b), expected, atol=1e-9)


def test_optimal_where_the_solution_is_not_unique(rng):
    A = rng.normal(size=(80, 10, 4)) + 1
    A[:, 5:] = A[:, :5]
    A[:20, 3] = 0
    x = rng.normal(size=(80, 4)) + 1
    G, b = A @ A.transpose(0, 2, 1), (A @ x[:, :, None])[:, :, 0]
    assert kkt_error(G, b, nonnegative_least_squares(G, b)) < 1e-8


def test_optimal_for_nearly_equal_neighbours(rng):
    A = rng.normal(size=(80, 1, 30)) + 1e-6 * rng.normal(size=(80, 10, 30))
    x = A[:, 0] + 1e-6 * rng.normal(size=(80, 30))
    G, b = A @ A.transpose(0, 2, 1), (A @ x[:, :, None])[:, :, 0]
    assert kkt_error(G, b, nonnegative_least_squares(G, b)) < 1e-8


def test_zero_gram_gives_zero_weights():
    np.testing.assert_array_equal(
        nonnegative_least_squares(np.zeros((2, 3, 3)), np.ones((2, 3)) * 0), 0
    )


def test_rows_of_weights_sum_to_one_or_zero(rng):
    X = np.abs(rng.normal(size=(50, 6)))
    X[7] = 0
    near = nearest_neighbours(X, 5).indices
    before = near.copy()
    dense = reconstruction_weights(X, near)
    sparse = reconstruction_weights(sp.csr_array(X), near)
    np.testing.assert_array_equal(near, before)
    np.testing.assert_allclose(dense.toarray(), sparse.toarray(), atol=1e-9)
    total = dense.sum(axis=1)
    assert total[7] == 0
    np.testing.assert_allclose(np.delete(total, 7), 1)
    assert dense.min() >= 0


def test_blocks_do_not_change_the_weights(rng, monkeypatch):
    X = rng.normal(size=(90, 6))
    near = nearest_neighbours(X, 5).indices
    whole = reconstruction_weights(X, near).toarray()
    monkeypatch.setattr("schirn.linalg.arrays.BLOCK_CELLS", 6 * 6 * 7)
    for container in (np.asarray, sp.csr_array):
        np.testing.assert_allclose(
            reconstruction_weights(container(X), near).toarray(), whole, atol=1e-9
        )


def test_propagation_ends_at_a_fixed_point_on_the_candidates(rng):
    X, Y = rng.normal(size=(60, 4)), (rng.random((60, 5)) < 0.5).astype(float)
    Y[3] = 0
    T = reconstruction_weights(X, nearest_neighbours(X, 6).indices)
    P, changes = propagate_labels(T, Y, alpha=0.9, tol=1e-10)
    again = (0.9 * (T @ P) + 0.1 * Y) * Y
    again /= np.maximum(again.sum(axis=1, keepdims=True), 1e-300)
    np.testing.assert_allclose(P, again, atol=1e-9)
    assert (P[Y == 0] == 0).all()
    assert changes[-1] < 1e-10 < changes[-2]


def test_the_change_is_a_spectral_norm(rng):
    Y = (rng.random((30, 4)) < 0.5).astype(float)
    T = reconstruction_weights(Y + rng.random((30, 4)), rng.integers(0, 30, size=(30, 1)))
    P, changes = propagate_labels(T, Y, alpha=0.5, max_iter=1)
    np.testing.assert_allclose(changes, [np.linalg.norm(P - Y, 2)])


@pytest.mark.parametrize("sparse", [False, True])
def test_neighbour_graph_equals_the_plain_one(sparse):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 4))
    Z = minmax_features(X)
    A, S = plain_graph(X, k=3)
    found = neighbour_graph(sp.csr_array(Z) if sparse else Z, 3)
    np.testing.assert_allclose(found.S.toarray(), S, atol=1e-9)
    np.testing.assert_allclose(found.degree, A.sum(axis=1), atol=1e-9)
    np.testing.assert_allclose(found.laplacian().toarray(), np.diag(S.sum(axis=1)) - S, atol=1e-9)


def test_neighbour_graph_of_copies_and_of_few_rows():
    X = np.random.default_rng(0).normal(size=(6, 3)) + 10
    copies = neighbour_graph(np.vstack([X, X]), 1)
    np.testing.assert_array_equal(copies.degree, 2)
    assert neighbour_graph(X[:1], 5).S.toarray().tolist() == [[1.0]]
    np.testing.assert_array_equal((neighbour_graph(X[:3], 5).S.toarray() > 0).sum(axis=1), 3)
    assert neighbour_graph(X.astype(np.float32), 2).S.dtype == np.float32
