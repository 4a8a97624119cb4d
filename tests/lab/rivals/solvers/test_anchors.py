"""The kernel map against its plain version, in every container."""

import numpy as np
import pytest
import scipy.sparse as sp
from reference.kernel_map import kernel_map

from schirn.lab.rivals.solvers._anchors import anchor_map


def rows(n=30, d=4, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.5) + np.arange(d)


@pytest.mark.parametrize("n_anchors", [12, 30, 99])
@pytest.mark.parametrize("storage", [np.asarray, sp.csr_array])
def test_equals_the_plain_map(n_anchors, storage, monkeypatch):
    monkeypatch.setattr("schirn.linalg.arrays.BLOCK_CELLS", 40)
    X, X_new = rows(), rows(seed=1)
    drawn = np.sort(np.random.RandomState(3).permutation(30)[:n_anchors])
    Phi, Phi_new = kernel_map(X, X_new, drawn if n_anchors < 30 else np.arange(30))
    found, ours = anchor_map(storage(X), n_anchors, np.random.RandomState(3))
    np.testing.assert_allclose(ours, Phi, atol=1e-10)
    for other in (np.asarray, sp.csr_array):
        np.testing.assert_allclose(found.transform(other(X_new)), Phi_new, atol=1e-10)
        W = np.random.default_rng(2).normal(size=(Phi.shape[1], 3))
        np.testing.assert_allclose(found.scores(other(X_new), W), Phi_new @ W, atol=1e-9)
    assert sp.issparse(found.anchors) == (storage is sp.csr_array)


def test_rows_that_are_all_alike():
    found, Phi = anchor_map(np.ones((5, 2)), 5, np.random.RandomState(0))
    np.testing.assert_array_equal(Phi, np.column_stack([np.zeros((5, 5)), np.ones(5)]))
    assert found.width == 1


def test_single_precision_is_kept():
    found, Phi = anchor_map(rows().astype(np.float32), 10, np.random.RandomState(0))
    assert Phi.dtype == found.centre.dtype == np.float32
    assert found.transform(rows(seed=1).astype(np.float32)).dtype == np.float32
