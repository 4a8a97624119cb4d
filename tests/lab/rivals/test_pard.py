"""PARD: figures on real data, early stopping, and a frozen small result."""

import numpy as np
import pytest
from scipy.special import expit

import schirn
from schirn import lab
from schirn.datasets import add_noise
from schirn.exceptions import InputError
from schirn.metrics import average_precision, hamming_loss


def birds(data, r):
    candidates = add_noise(data.y_true, r, random_state=100)
    train, test = data.folds[1]
    return data.X[train], candidates[train], data.X[test], data.y_true[test]


def test_birds_cut_at_one_half_needs_the_prior(real):
    X, candidates, unseen, truth = birds(real("birds_nlr_r3"), 11)

    def loss(**params):
        model = lab.PARD(**params).fit(X, candidates)
        return hamming_loss(truth, model.predict(unseen), empty_rows="keep")

    assert abs(loss(beta_0=0.0) - 0.83) < 0.05
    assert abs(loss() - 0.20) < 0.05
    assert abs(loss(beta_0=1.0) - 0.06) < 0.02


def test_birds_ranking(real):
    X, candidates, unseen, truth = birds(real("birds_nlr_r3"), 11)
    model = lab.PARD().fit(X, candidates)
    assert abs(average_precision(truth, model.decision_function(unseen)) - 0.369) < 0.03


def test_yeastmf(real):
    data = real("yeastmf")
    test = np.arange(data.n_samples) % 5 == 0
    model = lab.PARD(max_iter=25).fit(data.X[~test], data.candidates[~test])
    found = average_precision(data.y_true[test], model.decision_function(data.X[test]))
    assert abs(found - 0.497) < 0.02


def test_frozen_result(small):
    model = lab.PARD().fit(small.X, small.candidates)
    expected = [
        [0.7767626989, -0.8918514406, 0.1471141402],
        [0.7554314186, -0.4925797819, 0.6846430613],
    ]
    np.testing.assert_allclose(model.decision_function(small.X[:2])[:, :3], expected, atol=1e-6)
    assert model.noise_.sum() == 35
    assert model.n_iter_ == len(model.objective_) == 60
    np.testing.assert_allclose(model.objective_[-1], 3.7341181190, rtol=1e-6)
    assert (model.noise_ == ((small.candidates == 1) & (model.label_confidence_ < 0.5))).all()


def test_probabilities_and_posterior_are_those_of_the_model(small):
    model = lab.PARD().fit(small.X, small.candidates)
    p = model.predict_proba(small.X)
    np.testing.assert_allclose(p, expit(model.decision_function(small.X)))
    np.testing.assert_array_equal(model.predict(small.X), p > 0.5)
    q = model.disambiguate(small.X, small.candidates)
    np.testing.assert_allclose(q, model.label_confidence_, atol=1e-9)
    assert not np.allclose(q[small.candidates == 1], p[small.candidates == 1], atol=0.05)


def test_finds_wrong_candidates(small):
    model = lab.PARD(learning_rate=1e-2).fit(small.X, small.candidates)
    assert small.y_true[model.noise_].mean() < 0.1
    assert model.noise_.sum() > 50


def test_seed_matters_and_is_kept(small):
    a, b, c = (
        lab.PARD(max_iter=5, random_state=seed).fit(small.X, small.candidates) for seed in (0, 0, 1)
    )
    np.testing.assert_array_equal(a.decision_function(small.X), b.decision_function(small.X))
    assert not np.allclose(a.decision_function(small.X), c.decision_function(small.X))
    assert lab.PARD(max_iter=2, random_state=None).fit(small.X, small.candidates).n_iter_ == 2


def test_early_stop(small):
    model = lab.PARD(validation_fraction=0.2, max_iter=500, learning_rate=1e-2)
    model.fit(small.X, small.candidates)
    assert 10 < model.n_iter_ < 500
    assert len(model.held_out_bound_) == model.n_iter_
    assert model.noise_.shape == small.candidates.shape


@pytest.mark.parametrize(
    "bad",
    [{"beta_y": 0}, {"hidden_size": 0}, {"scale": "unit"}, {"validation_fraction": 1.0}],
)
def test_bad_parameters_are_quoted(bad, small):
    ((name, value),) = bad.items()
    with pytest.raises(InputError, match=f"{name} must be .* got {value!r}"):
        lab.PARD(**bad).fit(small.X, small.candidates)


def test_file(small, tmp_path):
    model = lab.PARD(max_iter=3).fit(small.X, small.candidates)
    schirn.save(model, tmp_path / "model.schirn")
    again = schirn.load(tmp_path / "model.schirn")
    np.testing.assert_array_equal(
        again.decision_function(small.X), model.decision_function(small.X)
    )
    np.testing.assert_array_equal(
        again.disambiguate(small.X, small.candidates),
        model.disambiguate(small.X, small.candidates),
    )
