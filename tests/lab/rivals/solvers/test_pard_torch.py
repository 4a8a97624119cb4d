"""PARD with a model of the features: its bound, its warm-up and its devices, on the CPU."""

import numpy as np
import pytest
import scipy.sparse as sp
from lab.rivals.solvers.test_pard import data, unit_range
from reference.pard import bound, feature_bound, network, sigmoid

from schirn.exceptions import InputError
from schirn.lab.rivals.solvers.pard import Features, Schedule, initial_labels, pard
from schirn.lab.rivals.solvers.pard_torch import (
    _layers,
    _Networks,
    _Variational,
    pard_with_features,
)
from schirn.linalg.arrays import pick_device

torch = pytest.importorskip("torch", reason="PyTorch (the extra deep) is not installed")


def solve(X, Y, **options):
    options = {
        "schedule": Schedule(max_iter=8, batch_size=32),
        "hidden_size": 16,
        "latent_size": 4,
        "feature_weight": 0.1,
        "device": "cpu",
    } | options
    return pard_with_features(X, Y, scaling=unit_range(X), **options)


def trainer(X, S, weight=0.3, sigma=0.5, latent=4, lr=1e-3, width=7):
    rng, (d, l) = np.random.default_rng(0), (X.shape[1], S.shape[1])
    sizes = (d, 6, l), (d + l, width, l), (d + l, 8, 5, 2 * latent), (l + latent, 9, d)
    nets = _Networks(*(_layers(size, rng, X.dtype) for size in sizes))
    features = Features.of(X, unit_range(X))
    made = _Variational(features, S, nets, (weight, sigma), (lr, 0.0), rng, "cpu")
    return made, nets, features.dense_rows(slice(None))


def test_bound_equals_the_plain_transcription():
    X, S = data()
    made, nets, scaled = trainer(X, S)
    labels = initial_labels(S, 0.7, 0.2)
    q = S * sigmoid(network(nets.g, np.hstack([scaled, S])))
    expected = bound(sigmoid(network(nets.f, scaled)), S, q, labels.pi, labels.rho, 0.7, 0.2)
    still = np.zeros((len(X), 4))
    expected += 0.3 * feature_bound(scaled, q, nets.encoder, nets.decoder, 0.5, still)
    found_q, found = made.assess(np.arange(len(X)), labels)
    np.testing.assert_allclose(found_q, q)
    np.testing.assert_allclose(found, expected)


def test_sampled_feature_bound_equals_the_plain_transcription():
    X, S = data()
    made, nets, scaled = trainer(X, S)
    noise = np.random.default_rng(5).normal(size=(len(X), 4))
    expected = feature_bound(scaled, S, nets.encoder, nets.decoder, 0.5, noise)
    found = made._feature_bound(*(torch.as_tensor(a) for a in (scaled, S, noise)))
    np.testing.assert_allclose(float(found.detach()) / len(X), expected)


@pytest.mark.parametrize("warm", [False, True])
def test_steps_raise_the_bound(warm):
    X, S = data()
    made, _, _ = trainer(X, S, lr=1e-2)
    labels, rows = initial_labels(S, 1.0, 0.1), np.arange(len(X))
    before = made.assess(rows, labels)[1]
    for _ in range(50):
        made.step(rows, S, labels, warm)
    assert made.assess(rows, labels)[1] > before + 0.1


def test_posterior_network_learns_the_closed_form():
    X, S = data()
    made, _, _ = trainer(X, S, weight=1e-9, lr=1e-2, width=200)
    labels, rows = initial_labels(S, 1.0, 0.5), np.arange(len(X))
    for _ in range(600):
        made.step(rows, S, labels, warm=True)
    f = made.network()(Features.of(X, unit_range(X)).dense_rows(rows))
    q = made.assess(rows, labels)[0]
    error = np.abs(q - labels.posterior(f, S))[S == 1]
    assert error.mean() < 0.02
    # Without the prior or the rate the posterior would be elsewhere.
    assert np.abs(q - S * sigmoid(f))[S == 1].mean() > 5 * error.mean()


def test_warm_up_of_the_predictor_is_that_of_the_core():
    X, Y = data()
    schedule = Schedule(max_iter=6, warm_up=6, batch_size=100)
    full = solve(X, Y, schedule=schedule)
    core = pard(X, Y, scaling=unit_range(X), hidden_size=16, schedule=schedule)
    np.testing.assert_allclose(full.scores, core.scores, atol=1e-8)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_sparse_equals_dense(dtype):
    X, Y = data()
    X = X.astype(dtype)
    dense, sparse = solve(X, Y), solve(sp.csr_array(X), Y)
    assert dense.scores.dtype == dense.q.dtype == dtype
    np.testing.assert_allclose(sparse.scores, dense.scores, atol=1e-5)
    np.testing.assert_allclose(sparse.q, dense.q, atol=1e-5)
    assert all(type(part) is np.ndarray for part in dense.network)


def test_features_change_the_posterior():
    X, Y = data(n=150)
    plain, strong = (solve(X, Y, feature_weight=w, learning_rate=5e-3) for w in (1e-6, 5.0))
    assert np.abs(plain.q - strong.q).max() > 0.02
    assert (strong.q[Y == 0] == 0).all()


def test_held_out_rows_choose_the_epoch():
    X, Y = data(n=150)
    schedule = Schedule(80, 3, 32, validation_fraction=0.3, n_iter_no_change=4)
    ours = solve(X, Y, schedule=schedule, learning_rate=2e-2)
    assert ours.n_iter == len(ours.held_out_bound) < 80
    assert ours.n_iter == 3 + int(np.argmax(ours.held_out_bound[3:])) + 1 + 5


def test_devices():
    assert pick_device(torch, "cpu") == "cpu"
    if torch.cuda.is_available():
        assert pick_device(torch, "auto") == "cuda"
        return
    assert pick_device(torch, "auto") == "cpu"
    with pytest.raises(InputError, match="device='cuda' was asked for"):
        pick_device(torch, "cuda")
