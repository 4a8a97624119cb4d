"""The heads: closed form, leave-one-out, and what they find on a backbone."""

import copy

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from schirn.datasets import make_partial_multilabel
from schirn.exceptions import InputError
from schirn.noise.calibration import calibrate

torch = pytest.importorskip("torch", reason="PyTorch (the extra deep) is not installed")

from torch import nn  # noqa: E402

from schirn.deep import Confidences, SieveHead, bayes  # noqa: E402


def make_data():
    return make_partial_multilabel(
        n_samples=600, n_features=20, n_labels=8, cardinality=2.5, r=2, random_state=0
    )


def train(head, data, epochs=12, start=0, backbone=None, adam=None, autocast=False):
    torch.manual_seed(0)
    X = torch.as_tensor(data.X, dtype=torch.float32)
    Y = torch.as_tensor(data.candidates)
    if backbone is None:
        backbone = nn.Sequential(nn.Linear(20, 32), nn.ReLU())
        adam = torch.optim.Adam([*backbone.parameters(), *head.parameters()], lr=3e-3)
    for epoch in range(start, epochs):
        order = torch.randperm(len(X), generator=torch.Generator().manual_seed(epoch))
        for rows in order.split(64):
            with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
                loss = head.loss(backbone(X[rows]), Y[rows], rows)
            adam.zero_grad()
            loss.backward()
            adam.step()
        head.end_epoch()
    return backbone, adam


def auc(head, data):
    Y = torch.as_tensor(data.candidates)
    q = head.confidences.read(torch.arange(len(Y)), Y).numpy()
    listed = data.candidates == 1
    assert (q[~listed] == 0).all()
    return roc_auc_score(data.y_true[listed], q[listed])


@pytest.mark.parametrize("autocast", [False, True])
def test_the_head_finds_the_wrong_candidates(autocast):
    data = make_data()
    torch.manual_seed(0)
    head = SieveHead(32, 8, 600)
    backbone, _ = train(head, data, autocast=autocast)
    assert auc(head, data) > 0.8
    scores = head.scores(backbone(torch.as_tensor(data.X, dtype=torch.float32))).detach()
    assert roc_auc_score(data.y_true.ravel(), scores.numpy().ravel()) > 0.85


def test_confidences_rest_in_the_warm_up():
    data = make_data()
    torch.manual_seed(0)
    head = SieveHead(32, 8, 600, warm_up=3)
    train(head, data, epochs=3)
    assert not head.confidences.written.any()
    train(head, data, epochs=1)
    assert head.confidences.written.all()


def test_autocast_leaves_the_closed_form_in_single_precision():
    F, Y = features(40, 5)
    weights = []
    for autocast in (False, True):
        head = SieveHead(5, 3, 40, lam=0.1)
        with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
            head.targets(F, Y, torch.arange(40))
            head.end_epoch()
        weights.append(head.ridge.weights)
    assert torch.equal(*weights)


def test_held_out_rows_are_judged_and_not_learned():
    data = make_data()
    torch.manual_seed(0)
    head = SieveHead(32, 8, 600)
    backbone, _ = train(head, data, epochs=4)
    X = torch.as_tensor(data.X[:10], dtype=torch.float32)
    Y = torch.as_tensor(data.candidates[:10])
    before = head.confidences.read(torch.arange(10), Y)
    after = head.targets(backbone(X), Y, torch.arange(10), held_out=True)
    assert not torch.equal(before, after)
    torch.testing.assert_close(head.confidences.read(torch.arange(10), Y), after)
    with pytest.raises(InputError, match="no batch since"):
        head.end_epoch()


def test_two_heads_judge_the_rows_of_each_other():
    data = make_data()
    X = torch.as_tensor(data.X, dtype=torch.float32)
    Y = torch.as_tensor(data.candidates)
    halves = torch.arange(600).split(300)
    torch.manual_seed(0)
    table = Confidences(600, 8)
    heads = [SieveHead(32, 8, 600, judge_own=False, confidences=table) for _ in halves]
    backbones = [nn.Sequential(nn.Linear(20, 32), nn.ReLU()) for _ in halves]
    for epoch in range(10):
        for k, (head, backbone) in enumerate(zip(heads, backbones, strict=True)):
            adam = torch.optim.Adam([*backbone.parameters(), *head.parameters()], lr=3e-3)
            for rows in halves[k][torch.randperm(300)].split(50):
                adam.zero_grad()
                head.loss(backbone(X[rows]), Y[rows], rows).backward()
                adam.step()
            head.end_epoch()
            if epoch == 6:
                # Nobody has judged the other half yet: a head keeps off its own rows.
                assert not table.written.any()
        if epoch > 6:
            for k in (0, 1):
                rows = halves[1 - k]
                heads[k].targets(backbones[k](X[rows]), Y[rows], rows, held_out=True)
    assert table.written.all()
    assert auc(heads[0], data) > 0.8


def features(n=90, h=6):
    """Features of which the first three say which labels are true, and candidates."""
    rng = torch.Generator().manual_seed(0)
    F = torch.randn(n, h, generator=rng)
    true = F[:, :3] > 0
    return F, (true | (torch.rand(n, 3, generator=rng) < 0.2)).int()


def epochs(head, F, Y, number, size=10):
    """Epochs of batches in order, with a backbone that does not change."""
    for _ in range(number):
        for rows in torch.arange(len(F)).split(size):
            head.targets(F[rows], Y[rows], rows)
        head.end_epoch()
    return head


@pytest.mark.parametrize("counts", [False, True])
def test_how_many_rows_are_judged_at_once_changes_nothing(monkeypatch, counts):
    F, Y = features()
    whole = epochs(SieveHead(6, 3, 90, warm_up=1, lam=0.1, counts=counts), F, Y, 3)
    monkeypatch.setattr("schirn.deep._head._TOGETHER", 25)
    split = epochs(SieveHead(6, 3, 90, warm_up=1, lam=0.1, counts=counts), F, Y, 3)
    assert whole.confidences.written.all()
    torch.testing.assert_close(split.confidences.table, whole.confidences.table)
    torch.testing.assert_close(split.law.rates, whole.law.rates)
    torch.testing.assert_close(split.ridge.weights, whole.ridge.weights)


def test_rows_are_judged_while_the_epoch_goes_on(monkeypatch):
    """Of a large set nothing has to wait for the end: the features of few rows are kept."""
    monkeypatch.setattr("schirn.deep._head._TOGETHER", 25)
    F, Y = features()
    head = epochs(SieveHead(6, 3, 90, warm_up=1), F, Y, 1)
    written = []
    for rows in torch.arange(90).split(10):
        head.targets(F[rows], Y[rows], rows)
        written.append(int(head.confidences.written.sum()))
    assert written == [0, 0, 30, 30, 30, 60, 60, 60, 90]


def test_the_sigmoid_is_fitted_to_no_more_rows_than_are_kept(monkeypatch):
    F, Y = features()
    monkeypatch.setattr("schirn.deep._head._TOGETHER", 10)
    monkeypatch.setattr("schirn.deep._head._SAMPLE", 25)
    head = epochs(SieveHead(6, 3, 90, lam=0.1), F, Y, 1)
    scores = head.ridge.leave_one_out(F[:25], Y[:25].float()).numpy()
    expected = calibrate(scores, Y[:25].numpy() > 0)
    np.testing.assert_allclose(head.calibration, (expected.slope, expected.offset), rtol=1e-4)


def test_without_counts_every_candidate_is_judged_by_itself():
    F, Y = features()
    head = epochs(SieveHead(6, 3, 100, warm_up=1, momentum=0.6, counts=False), F, Y, 2)
    new, listed = features(8)
    q = bayes(head.scores(new).sigmoid(), listed, head.law.rates)
    found = head.targets(new, listed, torch.arange(90, 98), held_out=True)
    torch.testing.assert_close(found, 0.6 * listed + 0.4 * q)
    assert (head.law.tilt == 0).all()


def test_training_goes_on_from_a_state_dict_as_if_never_stopped():
    data = make_data()
    torch.manual_seed(0)
    whole = SieveHead(32, 8, 600)
    start = copy.deepcopy(whole)
    expected, _ = train(whole, data, epochs=6)
    backbone, adam = train(start, data, epochs=4)
    again = SieveHead(32, 8, 600)
    again.load_state_dict(copy.deepcopy(start.state_dict()))
    # The optimiser holds the parameters of the head before the break.
    again.linear = start.linear
    train(again, data, epochs=6, start=4, backbone=backbone, adam=adam)
    for one, other in zip(backbone.parameters(), expected.parameters(), strict=True):
        assert torch.equal(one, other)
    assert torch.equal(again.confidences.table, whole.confidences.table)


def test_bad_input_gets_one_sentence():
    head = SieveHead(4, 3, 10)
    Y, rows = torch.ones(2, 3), torch.arange(2)
    with pytest.raises(InputError, match="returned 5 features, but in_features=4"):
        head.targets(torch.zeros(2, 5), Y, rows)
    with pytest.raises(InputError, match=r"\(rows, 3\)"):
        head.targets(torch.zeros(2, 4), Y[:, :2], rows)
    with pytest.raises(InputError, match="end_epoch"):
        head.scores(torch.zeros(2, 4))
    with pytest.raises(InputError, match=r"warm_up.*0"):
        SieveHead(4, 3, 10, warm_up=0)


def test_after_eval_nothing_is_learned():
    data = make_data()
    torch.manual_seed(0)
    head = SieveHead(32, 8, 600, warm_up=1)
    backbone, _ = train(head, data, epochs=2)
    X = torch.as_tensor(data.X[:30], dtype=torch.float32)
    Y, rows = torch.as_tensor(data.candidates[:30]), torch.arange(30)
    before = head.confidences.table.clone()
    head.eval()
    assert head.loss(backbone(X), Y, rows).isfinite()
    with pytest.raises(InputError, match="no batch since"):
        head.end_epoch()
    assert torch.equal(head.confidences.table, before)
