"""The transition-matrix loss against its formula, and the estimate of the rates."""

import math

import numpy as np
import pytest

from schirn.exceptions import InputError

torch = pytest.importorskip("torch", reason="PyTorch (the extra deep) is not installed")

from torch import nn  # noqa: E402

from schirn.lab.rivals.losses import ForwardCorrection, transition_rates  # noqa: E402


def plain(Z, Y, rates, missing):
    """The mean over cells, each with the transition matrix of its label."""
    total = 0.0
    for z, y in zip(Z, Y, strict=True):
        for j, logit in enumerate(z):
            p = 1 / (1 + math.exp(-logit))
            T = [[1 - rates[j], rates[j]], [missing[j], 1 - missing[j]]]
            listed = (1 - p) * T[0][1] + p * T[1][1]
            total -= math.log(listed if y[j] else 1 - listed)
    return total / Z.size


RATES, MISSING = [0.1, 0.0, 0.6], [0.2, 0.0, 0.3]


def batch(seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(7, 3)) * 2, (rng.random((7, 3)) < 0.4).astype(int)


@pytest.mark.parametrize("missing", [None, MISSING])
def test_equals_the_formula(missing):
    Z, Y = batch()
    loss = ForwardCorrection(RATES, missing)
    found = loss(torch.tensor(Z), torch.tensor(Y)).item()
    assert found == pytest.approx(plain(Z, Y, RATES, missing or [0, 0, 0]))


def test_without_noise_it_is_cross_entropy():
    Z, Y = (torch.tensor(a) for a in batch())
    expected = nn.functional.binary_cross_entropy_with_logits(Z, Y.double())
    assert ForwardCorrection([0, 0, 0])(Z, Y).item() == pytest.approx(expected.item())


@pytest.mark.parametrize("missing", [None, MISSING])
def test_gradients(missing):
    Z, Y = batch()
    loss = ForwardCorrection(RATES, missing)
    logits = torch.tensor(Z, requires_grad=True)
    assert torch.autograd.gradcheck(lambda z: loss(z, torch.tensor(Y)), (logits,))


def test_extreme_logits_stay_finite():
    logits = torch.tensor([[80.0, -80, 80]] * 2, dtype=torch.bfloat16, requires_grad=True)
    total = ForwardCorrection(RATES)(logits, torch.tensor([[0, 1, 0], [1, 0, 1]]))
    total.backward()
    assert total.dtype == torch.float32
    assert total.isfinite()
    assert logits.grad.isfinite().all()


@pytest.fixture(scope="module")
def labels():
    """Correlated true labels and candidates at known rates."""
    rng = np.random.default_rng(0)
    common = rng.normal(size=(60_000, 1))
    truth = common + rng.normal(size=(60_000, 3)) > [0.5, 0.0, 1.0]
    uniform = rng.random(truth.shape)
    listed = np.where(truth, uniform >= MISSING, uniform < RATES)
    return truth, listed.astype(int)


def test_the_rates_are_found_from_right_trusted_cells(labels):
    truth, listed = labels
    found = transition_rates(listed, listed == truth)
    np.testing.assert_allclose(found.rates, RATES, atol=0.04)
    np.testing.assert_allclose(found.missing, MISSING, atol=0.04)


def test_what_says_nothing_has_no_rates(labels):
    _, listed = labels
    alone = transition_rates(listed[:, :1], np.ones((len(listed), 1)))
    assert alone.rates.tolist() == alone.missing.tolist() == [0.0]
    untrusted = transition_rates(listed, np.zeros(listed.shape))
    assert not untrusted.rates.any()
    same = np.tile([[1, 1], [0, 1]], (50, 1))
    assert not transition_rates(same, np.ones(same.shape)).rates.any()


def test_the_network_learns_the_probabilities_of_true_labels():
    """A network without hidden layers: probabilities through the known rates are right."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(4000, 3))
    p = 1 / (1 + np.exp(-(X @ [[2.0], [0.0], [-1.0]]) + 0.5))
    listed = (rng.random(p.shape) < p) | (rng.random(p.shape) < 0.6)
    errors = {}
    for rate in (0.0, 0.6):
        torch.manual_seed(0)
        network = nn.Linear(3, 1).double()
        loss = ForwardCorrection([rate])
        optimiser = torch.optim.LBFGS(network.parameters(), max_iter=60)

        def closure(network=network, loss=loss, optimiser=optimiser):
            optimiser.zero_grad()
            value = loss(network(torch.tensor(X)), torch.tensor(listed))
            value.backward()
            return value

        optimiser.step(closure)
        with torch.no_grad():
            errors[rate] = np.abs(network(torch.tensor(X)).sigmoid().numpy() - p).mean()
    assert errors[0.6] < 0.06
    assert errors[0.0] > 0.2


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: ForwardCorrection([0.2, 1.0]), "rates must be one number from 0 to below 1"),
        (lambda: ForwardCorrection(0.2), "rates must be"),
        (lambda: ForwardCorrection([0.2], [0.1, 0.1]), "missing must be"),
        (lambda: ForwardCorrection([np.nan]), "rates must be"),
        (lambda: transition_rates(np.ones((3, 2)), np.ones((2, 2))), r"shape .*\(3, 2\)"),
    ],
)
def test_bad_input_gets_one_sentence(call, words):
    with pytest.raises(InputError, match=words):
        call()
