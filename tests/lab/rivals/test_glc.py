"""GLC: published figures on real data, and a frozen small result."""

import numpy as np
import pytest

import schirn
from schirn import lab
from schirn.exceptions import InputError
from schirn.metrics import average_precision, coverage, hamming_loss, one_error, ranking_loss


def birds_figures(data, **params):
    figures = []
    for train, test in data.folds:
        model = lab.GLC(**params).fit(data.X[train], data.candidates[train])
        truth, scores = data.y_true[test], model.decision_function(data.X[test])
        # The published figures keep test rows without a true label in the last two.
        figures.append(
            [
                average_precision(truth, scores),
                ranking_loss(truth, scores),
                one_error(truth, scores),
                coverage(truth, scores, empty_rows="keep"),
                hamming_loss(truth, model.predict(data.X[test]), empty_rows="keep"),
            ]
        )
    return np.mean(figures, axis=0), np.std(figures, axis=0, ddof=1)


def test_birds_without_correlation_gives_the_published_row(real):
    mean, std = birds_figures(real("birds_nlr_r3"), correlation=False)
    np.testing.assert_array_equal(mean.round(3), [0.539, 0.228, 0.520, 0.157, 0.103])
    np.testing.assert_array_equal(std.round(3), [0.049, 0.044, 0.055, 0.041, 0.006])


def test_birds_with_the_reconstructed_model(real):
    mean, std = birds_figures(real("birds_nlr_r3"))
    np.testing.assert_allclose(mean[:2], [0.552, 0.218], atol=2e-3)
    assert abs(std[0] - 0.030) < 2e-3


def test_yeastmf_needs_a_larger_ridge(real):
    data = real("yeastmf")
    test = np.arange(data.n_samples) % 5 == 0

    def precision(**params):
        model = lab.GLC(**params).fit(data.X[~test], data.candidates[~test])
        assert 55 <= model.n_iter_ <= 75
        return average_precision(data.y_true[test], model.decision_function(data.X[test]))

    assert abs(precision() - 0.352) < 0.03
    assert precision(eta=1000) > 0.47


def test_frozen_result(small):
    model = lab.GLC().fit(small.X, small.candidates)
    expected = [
        [0.0489421703, 0.0255702754, 0.0299771853],
        [0.0587402263, 0.0213756141, 0.0466336772],
    ]
    np.testing.assert_allclose(model.decision_function(small.X[:2])[:, :3], expected, atol=1e-6)
    # Every candidate: with the default weights E shrinks all of them by more than a half.
    assert model.noise_.sum() == model.noise_support_ == 600
    assert model.n_iter_ == len(model.objective_) == len(model.residual_) == 67
    np.testing.assert_allclose(model.objective_[-1], 56.9689577794, rtol=1e-6)


def test_dearer_noise_is_less_noise(small):
    models = [
        lab.GLC(alpha=10.0, beta=beta).fit(small.X, small.candidates) for beta in (0.3, 0.5, 1.0)
    ]
    assert [model.noise_.sum() for model in models] == [600, 288, 0]
    assert [model.noise_support_ for model in models] == [600, 600, 0]
    assert models[0].label_coefficients_.shape == (6, 6)
    assert lab.GLC(alpha=100.0, beta=0.5).fit(small.X, small.candidates).rank_ == 3


def test_without_correlation_it_is_ridge(small):
    ridge = schirn.CandidateRidge(lam=3.0).fit(small.X, small.candidates)
    # Without correlation the weights of the other terms have no effect.
    model = lab.GLC(correlation=False, eta=3.0, alpha=50.0, gamma=9.0)
    model.fit(small.X, small.candidates)
    np.testing.assert_array_equal(model.coef_, ridge.coef_)
    np.testing.assert_array_equal(model.label_confidence_, ridge.label_confidence_)
    np.testing.assert_array_equal(model.label_coefficients_, np.eye(6))
    assert model.rank_ == 6
    assert not model.noise_.any()
    assert model.noise_support_ == 0


def test_label_graph_pulls_weights_together(small):
    loose = lab.GLC(gamma=0.0).fit(small.X, small.candidates)
    tied = lab.GLC(gamma=1e4).fit(small.X, small.candidates)
    spread = [np.linalg.norm(m.coef_.std(axis=0)) / np.linalg.norm(m.coef_) for m in (loose, tied)]
    assert spread[1] < 0.2 * spread[0]


def test_intercept(small):
    model = lab.GLC(fit_intercept=True, manifold="outputs", n_neighbors=2)
    model.fit(small.X, small.candidates)
    moved = lab.GLC(fit_intercept=True, manifold="outputs", n_neighbors=2)
    moved.fit(small.X + 5.0, small.candidates)
    np.testing.assert_allclose(model.coef_, moved.coef_, atol=1e-8)
    assert np.abs(model.intercept_).min() > 0


@pytest.mark.parametrize(
    "bad", [{"eta": 0}, {"alpha": -1}, {"manifold": "rows"}, {"n_neighbors": 0}, {"rho": 0.5}]
)
def test_bad_parameters_are_quoted(bad, small):
    ((name, value),) = bad.items()
    with pytest.raises(InputError, match=f"{name} must be .* got {value!r}"):
        lab.GLC(**bad).fit(small.X, small.candidates)
