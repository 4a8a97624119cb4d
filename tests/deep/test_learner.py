"""Batches of rows, dense and sparse."""

import numpy as np
import pytest
import scipy.sparse as sp

pytest.importorskip("torch", reason="PyTorch (the extra deep) is not installed")

from schirn.deep import DeepSieve
from schirn.deep.learner import NetworkInput, _batches


def test_no_batch_is_empty_or_of_one_row_at_the_end():
    sizes = {n: [len(batch) for batch in _batches(np.arange(n), 4)] for n in (0, 1, 4, 5, 6, 9)}
    assert sizes == {0: [], 1: [1], 4: [4], 5: [5], 6: [4, 2], 9: [4, 5]}
    assert np.concatenate(_batches(np.arange(9), 4)).tolist() == list(range(9))


def test_sparse_rows_are_made_dense_batch_by_batch(monkeypatch):
    X = sp.random_array((300, 50), density=0.1, format="csr", random_state=0)
    asked = []
    take = NetworkInput.__getitem__

    def watch(self, rows):
        asked.append(len(rows))
        return take(self, rows)

    monkeypatch.setattr(NetworkInput, "__getitem__", watch)
    monkeypatch.setattr("schirn.deep.learner._EVALUATION_ROWS", 100)
    Y = (np.random.default_rng(0).random((300, 4)) < 0.5).astype(int)
    Y[:, 0] = 1
    DeepSieve(hidden_sizes=(32,), folds=2, max_iter=2, device="cpu").fit(X, Y)
    assert max(asked) <= 100
