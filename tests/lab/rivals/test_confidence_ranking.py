import numpy as np
import pytest
import scipy.sparse as sp
from lab.rivals.folds import two_folds

import schirn
from schirn.datasets import make_partial_multilabel
from schirn.lab import PMLFP, PMLLC

METHODS = [PMLLC, PMLFP]


@pytest.mark.parametrize(("method", "expected"), [(PMLLC, 76.5), (PMLFP, 78.5)])
def test_learns_on_real_rows(real, method, expected):
    assert two_folds(method(), real("emotions"), 2) == pytest.approx(expected, abs=3)


@pytest.mark.parametrize("method", METHODS)
def test_sparse_rows_give_the_same_model(method):
    data = make_partial_multilabel(n_samples=80, n_labels=5, r=1, random_state=0)
    X = np.where(np.abs(data.X) < 0.5, 0, data.X)
    dense, sparse = (method().fit(rows, data.candidates) for rows in (X, sp.csr_array(X)))
    np.testing.assert_allclose(sparse.coef_, dense.coef_, atol=1e-6)
    np.testing.assert_allclose(sparse.label_confidence_, dense.label_confidence_, atol=1e-6)


@pytest.mark.parametrize("method", METHODS)
def test_confidences_rank_true_candidates_first(method):
    data = make_partial_multilabel(n_samples=300, n_labels=8, r=2, random_state=0)
    model = method().fit(data.X, data.candidates)
    listed, true = data.candidates == 1, data.y_true == 1
    assert (
        model.label_confidence_[true].mean() > model.label_confidence_[listed & ~true].mean() + 0.1
    )
    assert (~true)[model.noise_].mean() > 0.6
    assert schirn.methods()[method.__name__] is method
    assert method._info.reconstructed
