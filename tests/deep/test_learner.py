"""Batches of rows, dense and sparse."""

import numpy as np
import pytest
import scipy.sparse as sp

pytest.importorskip("torch", reason="PyTorch (the extra deep) is not installed")

import torch

from schirn.deep import DeepSieve


class Batches(torch.nn.Module):
    """Notes the size of each batch, when it trains and when it judges."""

    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(50, 8)
        self.trained, self.judged = [], []

    def forward(self, x):
        (self.trained if self.training else self.judged).append(len(x))
        return self.linear(x)

    def __deepcopy__(self, memo):
        # All copies write to the same lists.
        copied = Batches()
        copied.load_state_dict(self.state_dict())
        copied.trained, copied.judged = self.trained, self.judged
        return copied


def fit(n, **options):
    X = sp.random_array((n, 50), density=0.1, format="csr", random_state=0)
    Y = (np.random.default_rng(0).random((n, 4)) < 0.5).astype(int)
    Y[:, 0] = 1
    module = Batches()
    DeepSieve(module=module, folds=2, device="cpu", **options).fit(X, Y)
    return module


@pytest.mark.parametrize(
    ("n", "sizes"), [(8, [4]), (10, [5]), (12, [4, 2]), (18, [4, 5])], ids=lambda value: str(value)
)
def test_no_batch_is_empty_or_of_one_row_at_the_end(n, sizes):
    assert fit(n, batch_size=4, max_iter=1).trained[: 2 * len(sizes)] == 2 * sizes


def test_sparse_rows_are_made_dense_batch_by_batch():
    module = fit(2500, max_iter=1)
    assert sum(module.judged) >= 2500
    assert max(module.judged) <= 1024
    assert max(module.trained) < 1024
