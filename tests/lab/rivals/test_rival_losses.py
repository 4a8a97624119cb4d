"""Losses for missing labels against plain transcriptions of their formulas."""

import copy
import math

import numpy as np
import pytest
from sklearn.metrics import label_ranking_average_precision_score

from schirn.exceptions import InputError

torch = pytest.importorskip("torch", reason="PyTorch (the extra deep) is not installed")

from torch import nn  # noqa: E402

from schirn.lab.rivals.losses import ROLE, SPLC, AsymmetricLoss, LargeLoss  # noqa: E402


def sigmoid(z):
    return 1 / (1 + math.exp(-z))


def batch(n=7, l=5, seed=0):
    rng = np.random.default_rng(seed)
    Z = rng.normal(size=(n, l)) * 2
    Y = (rng.random((n, l)) < 0.3).astype(int)
    return Z, Y


def mean_of_cells(cell, Z, Y):
    return np.mean(
        [[cell(z, y) for z, y in zip(*rows, strict=True)] for rows in zip(Z, Y, strict=True)]
    )


def plain_asl(Z, Y, up, down, margin):
    def cell(z, y):
        p = sigmoid(z)
        if y:
            return -((1 - p) ** up) * math.log(p)
        p = max(p - margin, 0)
        return -(p**down) * math.log(1 - p)

    return mean_of_cells(cell, Z, Y)


def plain_splc(Z, Y, threshold, margin, focus, warm):
    def cell(z, y):
        if y:
            s = sigmoid(z - margin)
        elif not warm and sigmoid(z) > threshold:
            s = sigmoid(z)
        else:
            s = 1 - sigmoid(z)
        return -((1 - s) ** focus) * math.log(s)

    return mean_of_cells(cell, Z, Y)


def plain_large_loss(Z, Y, share):
    losses = np.array(
        [
            [-math.log(sigmoid(z if y else -z)) for z, y in zip(*rows, strict=True)]
            for rows in zip(Z, Y, strict=True)
        ]
    )
    unlisted = sorted(losses[Y == 0], reverse=True)
    count = math.ceil(share * Z.size)
    if count:
        limit = unlisted[count - 1]
        losses[(Y == 0) & (losses >= limit)] = 0
    return losses.mean()


def plain_role(Z, T, Y, expected, weight):
    def side(A, B):
        total = 0.0
        for i in range(len(A)):
            for j in range(A.shape[1]):
                p, q = sigmoid(A[i, j]), sigmoid(B[i, j])
                total -= Y[i, j] * math.log(p) + q * math.log(p) + (1 - q) * math.log(1 - p)
        number = sum(sigmoid(a) for a in A.ravel()) / len(A)
        return total / A.size + weight * ((number - expected) / A.shape[1]) ** 2

    return (side(Z, T) + side(T, Z)) / 2


def value(loss, Z, Y, rows=None):
    return loss(torch.tensor(Z), torch.tensor(Y), rows).item()


@pytest.mark.parametrize(("up", "down", "margin"), [(0, 4, 0.05), (1, 2, 0.3), (0, 0, 0)])
def test_asymmetric_loss(up, down, margin):
    Z, Y = batch()
    loss = AsymmetricLoss(listed_focus=up, unlisted_focus=down, margin=margin)
    assert value(loss, Z, Y) == pytest.approx(plain_asl(Z, Y, up, down, margin))


def test_splc_corrects_after_the_warm_up():
    Z, Y = batch()
    loss = SPLC(7, threshold=0.7, margin=0.5, focus=1.5, warm_up=2)
    for warm in (True, True, False):
        assert value(loss, Z, Y) == pytest.approx(plain_splc(Z, Y, 0.7, 0.5, 1.5, warm))
    assert plain_splc(Z, Y, 0.7, 0.5, 1.5, True) > plain_splc(Z, Y, 0.7, 0.5, 1.5, False) + 0.1


def test_large_loss_leaves_out_more_in_every_pass():
    Z, Y = batch()
    loss = LargeLoss(7, step=0.1)
    for t in range(5):
        assert value(loss, Z, Y) == pytest.approx(plain_large_loss(Z, Y, 0.1 * t))
    assert value(loss.eval(), Z, Y) == pytest.approx(plain_large_loss(Z, Y, 0))


def test_role_is_symmetric_in_network_and_table():
    Z, Y = batch()
    T = np.random.default_rng(1).normal(size=Z.shape)
    loss = ROLE(20, 5, expected=1.5, weight=0.7)
    rows = torch.tensor([3, 1, 19, 0, 4, 7, 2])
    with torch.no_grad():
        loss.estimates[rows] = torch.tensor(T, dtype=torch.float32)
    expected = plain_role(Z, T, Y, 1.5, 0.7)
    assert value(loss, Z, Y, rows) == pytest.approx(expected, rel=1e-5)


LOSSES = {
    "ASL": lambda: AsymmetricLoss(),
    "SPLC": lambda: SPLC(7, warm_up=0),
    "LargeLoss": lambda: LargeLoss(7, step=0.2),
    "ROLE": lambda: ROLE(7, 5, expected=2).double(),
}


@pytest.mark.parametrize("name", LOSSES)
def test_gradients(name):
    Z, Y = batch()
    loss, rows = LOSSES[name](), torch.arange(7)
    loss(torch.tensor(Z), torch.tensor(Y), rows)
    logits = torch.tensor(Z, requires_grad=True)
    loss.eval()
    assert torch.autograd.gradcheck(lambda z: loss(z, torch.tensor(Y), rows), (logits,))


@pytest.mark.parametrize("name", LOSSES)
def test_half_precision_and_extreme_logits_stay_finite(name):
    loss = LOSSES[name]().float()
    logits = torch.tensor([[60.0, -60, 60, -60, 0]] * 7, dtype=torch.bfloat16, requires_grad=True)
    total = loss(logits, torch.tensor([[1, 1, 0, 0, 1]] * 7), torch.arange(7))
    total.backward()
    assert total.dtype == torch.float32
    assert total.isfinite()
    assert logits.grad.isfinite().all()


@pytest.mark.parametrize("name", LOSSES)
def test_passes_go_on_from_a_state_dict_and_do_not_count_in_evaluation(name):
    Z, Y = batch()
    first, second = LOSSES[name]().float(), LOSSES[name]().float()
    rows = torch.arange(7)
    first(torch.tensor(Z), torch.tensor(Y), rows)
    second.load_state_dict(copy.deepcopy(first.state_dict()))
    assert second.passes == first.passes > 0
    second.eval()(torch.tensor(Z), torch.tensor(Y), rows)
    assert second.n_seen == 7


@pytest.fixture(scope="module")
def missing():
    """Rows, their true labels, and those that are listed: two in five."""
    generator = torch.Generator().manual_seed(0)
    X = torch.randn(900, 12, generator=generator)
    truth = (X @ torch.randn(12, 6, generator=generator) > 2).int()
    return X, truth, truth * (torch.rand(truth.shape, generator=generator) < 0.4)


def train(loss, X, listed):
    """Probabilities of the last 300 rows by a network trained on the first 600."""
    torch.manual_seed(1)
    network = nn.Sequential(nn.Linear(12, 32), nn.ReLU(), nn.Linear(32, 6))
    adam = torch.optim.Adam([*network.parameters(), *loss.parameters()], lr=0.01)
    for epoch in range(30):
        order = torch.randperm(600, generator=torch.Generator().manual_seed(epoch))
        for rows in order.split(50):
            adam.zero_grad()
            loss(network(X[rows]), listed[rows], rows).backward()
            adam.step()
    with torch.no_grad():
        return network(X[600:]).sigmoid().numpy()


TRAINED = {
    "ASL": lambda: AsymmetricLoss(),
    "SPLC": lambda: SPLC(600, warm_up=5),
    "LargeLoss": lambda: LargeLoss(600),
    "ROLE": lambda: ROLE(600, 6, expected=1.5),
}


@pytest.mark.parametrize("name", TRAINED)
def test_more_of_the_missing_labels_are_predicted_than_by_cross_entropy(missing, name):
    X, truth, listed = missing
    # Without a focus, a margin and a correction SPLC is cross-entropy.
    plain = train(SPLC(600, focus=0, margin=0, warm_up=99), X, listed)
    robust = train(TRAINED[name](), X, listed)
    share = truth.float().mean().item()
    assert plain.mean() < robust.mean()
    assert abs(robust.mean() - share) < abs(plain.mean() - share)
    assert label_ranking_average_precision_score(truth[600:].numpy(), robust) > 0.9


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda z, y: ROLE(7, 5, expected=2)(z, y), "row indices are required"),
        (lambda z, y: ROLE(7, 5, expected=6), "expected.*6"),
        (lambda z, y: SPLC(7, threshold=2), "threshold.*2"),
        (lambda z, y: LargeLoss(0), "n_rows.*0"),
        (lambda z, y: AsymmetricLoss(margin=-1), "margin.*-1"),
        (lambda z, y: AsymmetricLoss()(z[:3], y), r"\(3, 5\) for 7 rows"),
    ],
)
def test_bad_input_gets_one_sentence(call, words):
    with pytest.raises(InputError, match=words):
        call(*(torch.tensor(a) for a in batch()))
