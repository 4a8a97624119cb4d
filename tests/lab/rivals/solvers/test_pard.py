"""The PARD solver against its plain transcription and the facts known about it."""

import numpy as np
import pytest
import scipy.sparse as sp
from reference.pard import bound, cross_entropy, gradient, plain_pard, posterior, sigmoid

from schirn.lab.rivals.solvers._pard import (
    Adam,
    LabelModel,
    Network,
    initial_labels,
    initial_network,
    pard,
)
from schirn.lab.rivals.solvers._scaling import identity, minmax


def data(n=70, d=9, l=5, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.6)
    X[:, 3] = 2.0
    truth = X @ rng.normal(size=(d, l)) > 1
    return X, (truth | (rng.random((n, l)) < 0.25)).astype(float)


def unit_range(X):
    return minmax(X, 0, 1)


def solve(X, Y, *, scaling=unit_range, **options):
    options = {"hidden_size": 16, "max_iter": 12, "batch_size": 32} | options
    return pard(X, Y, scaling=scaling(X), **options)


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("shape", [(70, 9), (30, 60)])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"beta_y": 0.5, "beta_0": 1.0},
        {"learning_rate": 1e-2, "weight_decay": 0.1, "seed": 3},
    ],
)
def test_equals_the_plain_transcription(sparse, shape, options):
    X, Y = data(*shape)
    renamed = {"learning_rate": "lr", "weight_decay": "decay"}
    plain = {renamed.get(name, name): value for name, value in options.items()}
    f, q, rho, bounds = plain_pard(X, Y, **plain)
    ours = solve(sp.csr_array(X) if sparse else X, Y, **options)
    np.testing.assert_allclose(ours.scores, f, atol=1e-6)
    np.testing.assert_allclose(ours.q, q, atol=1e-6)
    np.testing.assert_allclose(ours.labels.rho, rho, rtol=1e-6)
    np.testing.assert_allclose(ours.bound, bounds, rtol=1e-6)
    assert ours.n_iter == 12
    assert len(ours.held_out_bound) == 0


def test_gradient_of_the_transcription_is_the_slope_of_the_cross_entropy():
    X, q = data()
    network = [w + 0.1 for w in initial_network(9, 4, 5, np.random.default_rng(0), X.dtype)]
    for k, slope in enumerate(gradient(X, q, *network)):
        index = tuple(0 for _ in slope.shape)
        values = []
        for step in (1e-6, -1e-6):
            moved = [w.copy() for w in network]
            moved[k][index] += step
            values.append(cross_entropy(X, q, *moved))
        np.testing.assert_allclose((values[0] - values[1]) / 2e-6, slope[index], rtol=1e-5)


def label_model(l=4, **options):
    rng = np.random.default_rng(1)
    options = {"beta_y": 1.0, "beta_0": 0.3} | options
    return LabelModel(rng.uniform(0.05, 0.5, l), rng.uniform(0.05, 0.9, l), **options)


@pytest.mark.parametrize("betas", [{}, {"beta_y": 0.4, "beta_0": 1.0}, {"beta_0": 0.0}])
def test_posterior_and_rates_maximise_the_bound(betas):
    labels, rng = label_model(**betas), np.random.default_rng(0)
    f, S = rng.normal(size=(30, 4)), (rng.random((30, 4)) < 0.5).astype(float)
    q = labels.posterior(f, S)
    args = labels.pi, labels.rho, labels.beta_y, labels.beta_0
    np.testing.assert_allclose(q, posterior(sigmoid(f), S, *args))
    top = labels.bound(f, S, q)
    np.testing.assert_allclose(top, bound(sigmoid(f), S, q, *args))
    for _ in range(20):
        other = S * np.clip(q + rng.normal(scale=0.05, size=q.shape), 0, 1)
        assert labels.bound(f, S, other) < top
    renewed = labels.with_rates(S, q)
    top = renewed.bound(f, S, q)
    for scale in (0.9, 1.1):
        assert renewed._replace(rho=renewed.rho * scale).bound(f, S, q) < top


def test_bound_is_below_the_likelihood_of_the_candidates():
    labels, rng = label_model(beta_0=0.0), np.random.default_rng(0)
    f, S = rng.normal(size=(30, 4)), (rng.random((30, 4)) < 0.5).astype(float)
    p = sigmoid(f)
    listed = p + (1 - p) * labels.rho
    likelihood = np.sum(np.where(S > 0, np.log(listed), np.log(1 - listed))) / 30
    # Without a prior the best posterior is Bayes' rule, and the bound is tight.
    np.testing.assert_allclose(labels.bound(f, S, labels.posterior(f, S)), likelihood)
    assert labels.bound(f, S, S) < likelihood


def test_without_the_prior_the_posterior_collapses():
    X, Y = data(n=200)
    trusting, sceptical = (
        solve(X, Y, beta_0=b, max_iter=200, learning_rate=1e-2) for b in (0.0, 1.0)
    )
    assert trusting.q[Y == 1].mean() > sceptical.q[Y == 1].mean() + 0.2
    assert trusting.labels.rho.mean() < sceptical.labels.rho.mean() / 3


def test_start_is_half_of_the_frequency():
    S = np.array([[1, 1, 0], [1, 0, 0], [1, 1, 0], [1, 0, 0]], dtype=float)
    labels = initial_labels(S, 1.0, 0.1)
    np.testing.assert_allclose(labels.pi, [0.5, 0.25, 1e-3])
    np.testing.assert_allclose(labels.rho, [0.5, 0.25, 1e-3])


def test_held_out_rows_choose_the_epoch():
    X, Y = data(n=200)
    options = {"validation_fraction": 0.25, "n_iter_no_change": 7, "learning_rate": 2e-2}
    ours = solve(X, Y, max_iter=200, **options)
    best = 5 + int(np.argmax(ours.held_out_bound[5:]))
    assert ours.n_iter == len(ours.bound) == len(ours.held_out_bound) < 200
    assert ours.n_iter == best + 1 + 8
    shorter = solve(X, Y, max_iter=best + 1, **options)
    np.testing.assert_array_equal(shorter.scores, ours.scores)
    assert (ours.q[Y == 1] > 0).all()


@pytest.mark.parametrize(
    ("n", "fraction", "size"), [(10, 0.0, 0), (10, 0.3, 3), (10, 0.01, 1), (1, 0.5, 0), (2, 0.9, 1)]
)
def test_held_out_rows_are_not_trained_on(n, fraction, size):
    X, Y = data(n)
    # Only one epoch can be chosen.
    options = {"max_iter": 3, "warm_up": 2, "validation_fraction": fraction}
    ours = solve(X, Y, **options)
    assert len(ours.held_out_bound) == (3 if size else 0)
    n_without_influence = 0
    for i in range(n):
        other = Y.copy()
        other[i] = 1 - other[i]
        n_without_influence += np.array_equal(solve(X, other, **options).scores, ours.scores)
    assert n_without_influence == size


def test_network_for_raw_features():
    X, _ = data()
    rng = np.random.default_rng(0)
    network = Network(*(w + 0.1 for w in initial_network(9, 6, 3, rng, X.dtype)))
    scaling = unit_range(X)
    expected = network(X * scaling.factor + scaling.shift)
    raw = network.for_raw_features(scaling)
    np.testing.assert_allclose(raw(X), expected)
    np.testing.assert_allclose(raw(sp.csr_array(X)), expected)


def test_adam_decays_weights_and_finds_a_minimum():
    target, parameters = np.array([3.0, -2.0]), np.zeros(2)
    adam = Adam(parameters, 0.1)
    for _ in range(500):
        adam.step(parameters - target)
    np.testing.assert_allclose(parameters, target, atol=1e-3)
    adam = Adam(parameters, 0.1, weight_decay=1.0)
    for _ in range(500):
        adam.step(parameters - target)
    np.testing.assert_allclose(parameters, target / 2, atol=1e-2)


@pytest.mark.parametrize("container", [np.asarray, sp.csr_array])
def test_single_precision_is_kept(container):
    X, Y = data()
    narrow = solve(container(X.astype(np.float32)), Y)
    assert narrow.scores.dtype == narrow.q.dtype == np.float32
    assert {part.dtype.name for part in narrow.network} == {"float32"}
    np.testing.assert_allclose(narrow.scores, solve(X, Y).scores, atol=1e-3)


@pytest.mark.parametrize("X", [np.zeros((12, 3)), np.ones((12, 3)), np.eye(12)[:, :1]])
@pytest.mark.parametrize("scaling", [identity, unit_range])
def test_features_that_say_nothing(X, scaling):
    Y = np.tile([1.0, 0.0, 1.0], (12, 1))
    ours = solve(X, Y, scaling=scaling)
    assert np.isfinite(ours.scores).all()
    assert np.isfinite(ours.bound).all()
