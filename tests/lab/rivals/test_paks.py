"""PAKS: figures on real data, the choice of the solver, and a frozen small result."""

import numpy as np
import pytest
import scipy.sparse as sp

from schirn import lab
from schirn.datasets import add_noise
from schirn.exceptions import InputError
from schirn.metrics import average_precision, ranking_loss


def figures(model, data, candidates, train, test):
    model.fit(data.X[train], candidates[train])
    truth, scores = data.y_true[test], model.decision_function(data.X[test])
    return average_precision(truth, scores), ranking_loss(truth, scores)


def test_birds_with_eleven_wrong_labels(real):
    data = real("birds_nlr_r3")
    candidates = add_noise(data.y_true, 11, random_state=100)
    train, test = data.folds[1]
    model = lab.PAKS()
    precision, ranking = figures(model, data, candidates, train, test)
    # The draw of the wrong labels is another one than that of the known figures.
    assert abs(precision - 0.330) < 0.02
    assert abs(ranking - 0.375) < 0.02
    assert 34 <= model.n_iter_ <= 41
    assert figures(lab.PAKS(eta=1000), data, candidates, train, test)[0] > precision + 0.02


def test_frozen_result(small):
    model = lab.PAKS().fit(small.X, small.candidates)
    expected = [
        [0.3133906101, 0.1477680917, 0.1780467903],
        [0.3125749869, 0.0931566976, 0.1952873385],
    ]
    np.testing.assert_allclose(model.decision_function(small.X[:2])[:, :3], expected, atol=1e-6)
    assert model.noise_.sum() == 173
    assert model.n_iter_ == len(model.objective_) == len(model.residual_) == 31
    np.testing.assert_allclose(model.objective_[-1], 15.3884607089, rtol=1e-6)


def test_scores_do_not_depend_on_the_units(small):
    units = np.logspace(-2, 2, 12)
    shifted = (small.X + 2.0) * units
    models = [
        lab.PAKS().fit(X, small.candidates) for X in (small.X, shifted, sp.csr_array(shifted))
    ]
    scores = models[0].decision_function(small.X)
    for model in models[1:]:
        np.testing.assert_allclose(model.decision_function(shifted), scores, atol=1e-6)
    raw = lab.PAKS(scale="none").fit(shifted, small.candidates)
    assert np.abs(raw.decision_function(shifted) - scores).max() > 1e-2
    assert not raw.intercept_.any()


def test_joint_variant_bends_the_rows_to_the_candidates(small):
    apart, joint = (
        lab.PAKS(eta=1.0, gamma=gamma).fit(small.X, small.candidates) for gamma in (0.0, 1.0)
    )
    assert not apart.outlier_norm_.any()
    assert joint.outlier_norm_.max() > 1


@pytest.mark.parametrize("bad", [{"eta": 0}, {"alpha": 0}, {"membership": "cosine"}, {"rho": 0.5}])
def test_bad_parameters_are_quoted(bad, small):
    ((name, value),) = bad.items()
    with pytest.raises(InputError, match=f"{name} must be .* got {value!r}"):
        lab.PAKS(**bad).fit(small.X, small.candidates)
