"""PML-MA: check values on real data, shared searches, and a frozen small result."""

import numpy as np
import pytest
import scipy.sparse as sp
from lab.rivals.checks_of_spec import SETS, five_folds
from sklearn.exceptions import ConvergenceWarning

from schirn import lab
from schirn.exceptions import InputError


@pytest.mark.parametrize(
    ("name", "params", "precision", "deviation", "auc"),
    [
        ("birds", {"lam": 10, "alpha": 0.001, "beta": 0.01, "gamma": 0.1}, 0.5568, 0.041, 0.815),
        ("birds", {"lam": 30, "alpha": 0.001, "beta": 0.01, "gamma": 0.1}, 0.5679, None, None),
        ("birds", {"lam": 10, "alpha": 0.1, "beta": 0.01, "gamma": 0.1}, 0.5742, None, None),
        ("emotions", {"lam": 10, "alpha": 0.1, "beta": 0.1, "gamma": 1}, 0.7877, 0.012, 0.828),
        ("emotions", {"lam": 10, "alpha": 0.1, "beta": 0.01, "gamma": 10}, 0.7860, None, None),
    ],
)
def test_check_values(real, name, params, precision, deviation, auc):
    """Nothing is random with all rows as anchors, so the printed digits are met."""
    found, found_auc = five_folds(lab.PMLMA(**params), *SETS[name](real))
    assert found.mean() == pytest.approx(precision, abs=6e-5)
    if deviation is not None:
        assert found.std(ddof=1) == pytest.approx(deviation, abs=6e-4)
        assert found_auc == pytest.approx(auc, abs=6e-4)


def test_the_right_factor_gives_smaller_pseudo_labels(real):
    """Released, the candidates pull twice as hard as the objective says."""
    X, _, candidates, folds = SETS["birds"](real)
    train = folds[0][0]
    params = {"lam": 10, "alpha": 0.001, "beta": 0.01, "gamma": 0.1}
    for weight, expected in ((2.0, 0.93), (1.0, 0.34)):
        model = lab.PMLMA(**params, target_weight=weight, tol=0).fit(X[train], candidates[train])
        mean = model.pseudo_labels_[candidates[train] == 1].mean()
        assert mean == pytest.approx(expected, abs=0.03)


def test_frozen_result(small):
    model = lab.PMLMA().fit(small.X, small.candidates)
    expected = [
        [0.9247270189, 0.7651210733, 0.8570144275],
        [0.969539595, 0.595381871, 0.8650438002],
    ]
    np.testing.assert_allclose(model.decision_function(small.X[:2])[:, :3], expected, atol=1e-6)
    assert model.noise_.sum() == 172
    assert model.n_iter_ == len(model.objective_) == 11
    np.testing.assert_allclose(model.objective_[-1], 864.6821091673, rtol=1e-6)


@pytest.mark.parametrize(("n", "expected"), [(999, 999), (1000, 500), (5000, 1667)])
def test_number_of_anchors_of_the_released_code(n, expected):
    X, candidates = np.random.default_rng(0).normal(size=(n, 3)), np.eye(2)[np.arange(n) % 2]
    model = lab.PMLMA(max_iter=1).fit(X, candidates)
    assert model.dual_coef_.shape == (expected + 1, 2)


def test_anchors_are_drawn_by_the_seed(small):
    one, same, other = (
        lab.PMLMA(n_anchors=40, random_state=seed).fit(small.X, small.candidates)
        for seed in (1, 1, 2)
    )
    assert one.dual_coef_.shape == (41, 6)
    scores = one.decision_function(small.X)
    np.testing.assert_array_equal(same.decision_function(small.X), scores)
    assert np.abs(other.decision_function(small.X) - scores).max() > 1e-3


def test_sparse_rows_give_the_same_model(small):
    X = np.where(small.X > 0.3, small.X, 0)
    dense, sparse = (lab.PMLMA(n_anchors=50).fit(A, small.candidates) for A in (X, sp.csr_array(X)))
    assert sp.issparse(sparse.map_.anchors)
    expected = dense.decision_function(X)
    for model in (dense, sparse):
        np.testing.assert_allclose(model.decision_function(sp.csr_array(X)), expected, atol=1e-7)


def test_too_large_a_weight_warns_and_still_predicts(small):
    with pytest.warns(ConvergenceWarning, match="lam=10000 shrinks all pseudo-labels to zero"):
        model = lab.PMLMA(lam=1e4).fit(small.X, small.candidates)
    assert not model.pseudo_labels_.any()
    assert model.decision_function(small.X).std() > 0.1


@pytest.mark.parametrize(
    "bad", [{"gamma": 0}, {"alpha": -1}, {"n_anchors": 0}, {"random_state": "x"}, {"tol": None}]
)
def test_bad_parameters_are_quoted(bad, small):
    ((name, value),) = bad.items()
    with pytest.raises(InputError, match=f"{name} must be .* got {value!r}"):
        lab.PMLMA(**bad).fit(small.X, small.candidates)
