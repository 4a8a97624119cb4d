"""MUSER: what its subspaces do, and a frozen small result."""

import numpy as np
import pytest
import scipy.sparse as sp

from schirn import lab
from schirn.datasets import make_partial_multilabel
from schirn.exceptions import InputError
from schirn.metrics import noise_auc


def test_the_label_subspace_tells_wrong_candidates(small):
    model = lab.MUSER().fit(small.X, small.candidates)
    assert noise_auc(small.y_true, small.candidates, model.label_confidence_) > 0.75


def test_the_feature_subspace_bounds_the_rank(small):
    for m in (1, 2, 4):
        model = lab.MUSER(n_components=4, n_directions=m).fit(small.X, small.candidates)
        assert model.rank_ == m
        assert np.linalg.matrix_rank(model.coef_, tol=1e-8) == m


def test_sizes_are_limited_by_the_labels(small):
    one = lab.MUSER(n_components=60, n_directions=80).fit(small.X, small.candidates)
    other = lab.MUSER(n_components=6, n_directions=6).fit(small.X, small.candidates)
    np.testing.assert_array_equal(one.coef_, other.coef_)


def test_sparse_rows_give_the_same_model(small):
    X = np.where(small.X > 0.3, small.X, 0)
    dense = lab.MUSER().fit(X, small.candidates)
    sparse = lab.MUSER().fit(sp.csr_array(X), small.candidates)
    expected = dense.decision_function(X)
    np.testing.assert_allclose(sparse.decision_function(sp.csr_array(X)), expected, atol=1e-6)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("seed", [0, 3, 4])
def test_labels_that_nobody_lists_change_nothing_in_single_precision(seed):
    """They have no direction of their own, and rounding errors along it must not grow."""
    data = make_partial_multilabel(n_samples=150, n_labels=8, r=1, random_state=seed)
    X = data.X.astype(np.float32)
    listed = np.hstack([data.candidates, data.candidates[:, :2]])
    padded = np.hstack([listed, np.zeros((150, 5), dtype=listed.dtype)])
    options = {"beta": 1.0, "tol": 0}
    model = lab.MUSER(**options).fit(X, listed)
    wide = lab.MUSER(**options).fit(X, padded)
    np.testing.assert_allclose(wide.coef_[:10], model.coef_, rtol=0, atol=1e-4)
    np.testing.assert_allclose(wide.coef_[10:], 0, atol=1e-6)


def test_frozen_result(small):
    model = lab.MUSER().fit(small.X, small.candidates)
    np.testing.assert_allclose(model.decision_function(small.X[:2])[:, :3], FROZEN, atol=1e-6)
    assert model.noise_.sum() == FROZEN_NOISE
    assert model.n_iter_ == len(model.objective_) == FROZEN_ROUNDS
    np.testing.assert_allclose(model.objective_[-1], FROZEN_OBJECTIVE, rtol=1e-6)


FROZEN = [[0.4217565633, 0.2304971341, 0.2497170479], [0.4978376053, 0.1932451616, 0.3663521325]]
FROZEN_NOISE = 0
FROZEN_ROUNDS = 13
FROZEN_OBJECTIVE = 70.8729713626


@pytest.mark.parametrize("bad", [{"gamma": 0}, {"alpha": 0}, {"beta": -1}, {"n_components": 0}])
def test_bad_parameters_are_quoted(bad, small):
    ((name, value),) = bad.items()
    with pytest.raises(InputError, match=f"{name} must be .* got {value!r}"):
        lab.MUSER(**bad).fit(small.X, small.candidates)
