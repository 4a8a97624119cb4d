"""PML-PLR: check values on real data, the reconstruction, and a frozen small result."""

import sys

import numpy as np
import pytest
from lab.rivals.checks_of_spec import SETS, five_folds

from schirn import lab
from schirn.exceptions import ApproximationWarning, InputError

BIRDS = {"alpha": 0.1, "beta": 0.1, "lam": 0.1, "ratio": 0.9}
EMOTIONS = {"alpha": 0.1, "beta": 0.01, "lam": 1.0, "ratio": 0.8}


@pytest.mark.parametrize(
    ("name", "params", "known", "auc"),
    [
        # Two random starts were measured; H and P are ours here.
        ("birds", BIRDS, (0.5745, 0.5822), 0.782),
        ("emotions", EMOTIONS, (0.7871, 0.7887), 0.791),
    ],
)
def test_check_values(real, name, params, known, auc):
    found, found_auc = five_folds(lab.PMLPLR(**params), *SETS[name](real))
    low, high = known
    assert low - 0.008 < found.mean() < high + 0.008
    assert found_auc == pytest.approx(auc, abs=0.012)


@pytest.mark.parametrize(
    ("name", "params", "known"), [("birds", BIRDS, 0.5881), ("emotions", EMOTIONS, 0.7880)]
)
def test_the_reconstruction_adds_nothing_measurable(real, name, params, known):
    """The known figures stop earlier, because their objective includes what is left out here."""
    found, _ = five_folds(lab.PMLPLR(**params, reconstruct=False), *SETS[name](real))
    assert found.mean() == pytest.approx(known, abs=0.009)


def test_frozen_result(small):
    model = lab.PMLPLR().fit(small.X, small.candidates)
    expected = [
        [0.812138931, 0.6652530068, 0.6830787453],
        [0.7801959121, 0.4421830969, 0.6727429997],
    ]
    np.testing.assert_allclose(model.decision_function(small.X[:2])[:, :3], expected, atol=1e-5)
    assert model.noise_.sum() == 130
    assert model.n_iter_ == len(model.objective_) == 10
    plain = lab.PMLPLR(reconstruct=False).fit(small.X, small.candidates)
    expected = [0.6878969759, 0.5767491517, 0.5870445102]
    np.testing.assert_allclose(plain.decision_function(small.X[:1])[0, :3], expected, atol=1e-6)
    np.testing.assert_allclose(plain.objective_[-1], 147.1348183941, rtol=1e-6)


def test_anchors_follow_the_number_of_features(small):
    model = lab.PMLPLR(max_iter=2).fit(small.X, small.candidates)
    assert model.dual_coef_.shape == (61, 6)


def test_many_rows_are_not_reconstructed(small, monkeypatch):
    monkeypatch.setattr(sys.modules["schirn.lab.rivals._pmlplr"], "MOST_RECONSTRUCTED", 199)
    with pytest.warns(ApproximationWarning, match=r"the reconstruction of 200 rows takes O\(n\^2"):
        model = lab.PMLPLR(max_iter=3).fit(small.X, small.candidates)
    plain, full = (
        lab.PMLPLR(max_iter=3, reconstruct=choice).fit(small.X, small.candidates)
        for choice in (False, True)
    )
    scores = model.decision_function(small.X)
    np.testing.assert_array_equal(plain.decision_function(small.X), scores)
    assert np.abs(full.decision_function(small.X) - scores).max() > 1e-3


@pytest.mark.parametrize(
    "bad", [{"lam": 0}, {"ratio": 1.5}, {"reconstruct": "no"}, {"mu": 0}, {"n_neighbors": 0}]
)
def test_bad_parameters_are_quoted(bad, small):
    ((name, value),) = bad.items()
    with pytest.raises(InputError, match=f"{name} must be .* got {value!r}"):
        lab.PMLPLR(**bad).fit(small.X, small.candidates)
