"""PML-LENFN: check values on real data, its random starts, and a frozen small result."""

import sys

import numpy as np
import pytest
import scipy.sparse as sp
from lab.rivals.checks_of_spec import SETS, five_folds

from schirn import lab
from schirn.exceptions import InputError


@pytest.mark.parametrize(
    ("name", "precision", "deviation", "auc"),
    [("birds", 0.5386, 0.035, 0.445), ("emotions", 0.7555, 0.025, 0.681)],
)
def test_check_values(real, name, precision, deviation, auc, monkeypatch):
    """With the random starts of the known figures their digits are met."""
    seeds = iter(range(5))
    starts = lambda seed: Generator(next(seeds))  # noqa: E731
    monkeypatch.setattr(sys.modules["schirn.lab.rivals._pmllenfn"], "check_random_state", starts)
    found, found_auc = five_folds(lab.PMLLENFN(), *SETS[name](real))
    assert found.mean() == pytest.approx(precision, abs=6e-5)
    assert found.std(ddof=1) == pytest.approx(deviation, abs=6e-4)
    assert found_auc == pytest.approx(auc, abs=6e-4)


class Generator:
    """Normal numbers of numpy's newer generators."""

    def __init__(self, seed):
        self.standard_normal = np.random.default_rng(seed).standard_normal


def test_frozen_result(small):
    model = lab.PMLLENFN().fit(small.X, small.candidates)
    expected = [
        [0.656616997, 0.5703468491, 0.6433356321],
        [0.6836673565, 0.5000192111, 0.6972007808],
    ]
    np.testing.assert_allclose(model.decision_function(small.X[:2])[:, :3], expected, atol=1e-6)
    assert model.noise_.sum() == 156
    assert model.n_iter_ == len(model.objective_) == 200
    np.testing.assert_allclose(model.objective_[-1], 243.9606692053, rtol=1e-6)


def test_starts_are_averaged(small):
    """Two starts from one generator are the mean of the first and of the second."""
    both = lab.PMLLENFN(max_iter=20, n_starts=2).fit(small.X, small.candidates)
    rng = np.random.RandomState(0)
    first = lab.PMLLENFN(max_iter=20, random_state=rng).fit(small.X, small.candidates)
    second = lab.PMLLENFN(max_iter=20, random_state=rng).fit(small.X, small.candidates)
    assert np.abs(first.coef_ - second.coef_).max() > 1e-2
    np.testing.assert_allclose(both.coef_, (first.coef_ + second.coef_) / 2, atol=1e-10)


def test_sparse_rows_give_the_same_model(small):
    X = np.where(small.X > 0.3, small.X, 0)
    dense, sparse = (
        lab.PMLLENFN(max_iter=20).fit(A, small.candidates) for A in (X, sp.csr_array(X))
    )
    np.testing.assert_allclose(sparse.coef_, dense.coef_, atol=1e-7)
    np.testing.assert_allclose(sparse.pseudo_labels_, dense.pseudo_labels_, atol=1e-9)


def test_shares_of_an_enhanced_label_cannot_exceed_one(small):
    with pytest.raises(InputError, match=r"a0 \+ b0 must be at most 1, got 0.9 \+ 0.2"):
        lab.PMLLENFN(a0=0.9, b0=0.2).fit(small.X, small.candidates)
    everything = lab.PMLLENFN(a0=1.0, b0=0.0, max_iter=2).fit(small.X, small.candidates)
    np.testing.assert_array_equal(everything.pseudo_labels_, small.candidates)


@pytest.mark.parametrize(
    "bad", [{"lam1": 0}, {"nu": 2}, {"n_starts": 0}, {"n_hidden": 0.5}, {"include_self": 3}]
)
def test_bad_parameters_are_quoted(bad, small):
    ((name, value),) = bad.items()
    with pytest.raises(InputError, match=f"{name} must be .* got {value!r}"):
        lab.PMLLENFN(**bad).fit(small.X, small.candidates)
