"""The losses: gradients, warm-up, what they learn, and life in training loops."""

import copy

import numpy as np
import pytest

from schirn.datasets import make_partial_multilabel
from schirn.exceptions import InputError
from schirn.noise.calibration import calibrate

torch = pytest.importorskip("torch", reason="PyTorch (the extra deep) is not installed")

from torch import nn  # noqa: E402
from torch.nn.functional import binary_cross_entropy_with_logits  # noqa: E402

from schirn.deep import Confidences, PartialMultiLabelLoss, bayes, candidate_nll  # noqa: E402
from schirn.lab.rivals.losses import GeneralizedCrossEntropy  # noqa: E402


def batch(n=8, l=4, dtype=torch.float64, seed=0):
    rng = torch.Generator().manual_seed(seed)
    logits = torch.randn(n, l, generator=rng, dtype=dtype, requires_grad=True)
    candidates = (torch.rand(n, l, generator=rng) < 0.6).int()
    return logits, candidates, torch.arange(n)


LOSSES = {
    "ours in warm-up": lambda: PartialMultiLabelLoss(10_000, 4),
    "ours": lambda: PartialMultiLabelLoss(10_000, 4, warm_up=0, momentum=1.0),
    "ours with the rank term": lambda: PartialMultiLabelLoss(10_000, 4, rank_weight=0.3),
    "ours in evaluation": lambda: PartialMultiLabelLoss(100, 4).eval(),
    "GCE": lambda: GeneralizedCrossEntropy(0.7),
    "GCE near cross-entropy": lambda: GeneralizedCrossEntropy(1e-3),
}


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.filterwarnings("ignore:Synchronization debug mode")
@pytest.mark.parametrize("counts", [False, True])
def test_no_step_waits_for_the_gpu(counts):
    logits, candidates, rows = (tensor.cuda() for tensor in batch())
    loss = PartialMultiLabelLoss(1000, 4, warm_up=0, counts=counts).cuda()
    loss(logits, candidates, rows)
    torch.cuda.set_sync_debug_mode("error")
    try:
        loss(logits, candidates, rows)
    finally:
        torch.cuda.set_sync_debug_mode("default")


@pytest.mark.parametrize("name", LOSSES)
def test_gradients_in_double_precision(name):
    logits, candidates, rows = batch()
    loss = LOSSES[name]()
    assert torch.autograd.gradcheck(lambda z: loss(z, candidates, rows), (logits,))


def test_warm_up_is_cross_entropy_on_the_candidates():
    logits, candidates, rows = batch(dtype=torch.float32)
    loss = PartialMultiLabelLoss(8, 4, warm_up=2)
    expected = binary_cross_entropy_with_logits(logits, candidates.float())
    for _ in range(2):
        torch.testing.assert_close(loss(logits, candidates, rows), expected)
    assert loss.passes == 2
    assert not torch.isclose(loss(logits, candidates, rows), expected)


def test_confidences_move_by_the_momentum_and_stay_zero_off_the_candidates():
    logits, candidates, rows = batch(dtype=torch.float32)
    loss = PartialMultiLabelLoss(8, 4, warm_up=0, momentum=0.8, noise_rates=0.3)
    loss(logits, candidates, rows)
    q = bayes(logits.detach().sigmoid(), candidates, 0.3)
    expected = 0.8 * candidates + 0.2 * q
    found = loss.confidences.read(rows, candidates)
    torch.testing.assert_close(found, expected)
    assert (found[candidates == 0] == 0).all()
    assert (loss.rates == 0.3).all()


def test_evaluation_learns_nothing_and_measures_the_likelihood():
    logits, candidates, _ = batch(dtype=torch.float32)
    loss = PartialMultiLabelLoss(8, 4, warm_up=0, noise_rates=[0.1, 0.2, 0.3, 0.4]).eval()
    before = copy.deepcopy(loss.state_dict()["_extra_state"])
    p, rho = logits.detach().sigmoid(), loss.rates
    listed = p + (1 - p) * rho
    expected = -torch.where(candidates > 0, listed, 1 - listed).log().mean()
    torch.testing.assert_close(loss(logits, candidates), expected)
    torch.testing.assert_close(candidate_nll(logits, candidates, rho), expected)
    assert loss.state_dict()["_extra_state"]["seen"] == before["seen"]
    assert not loss.confidences.written.any()


def test_candidate_nll_is_stable_far_out():
    logits = torch.tensor([[1e4, -1e4, 1e4, -1e4]], requires_grad=True)
    loss = candidate_nll(logits, torch.tensor([[1, 1, 0, 0]]), 0.1)
    loss.backward()
    assert loss.isfinite()
    assert logits.grad.isfinite().all()


def test_robust_loss_goes_from_cross_entropy_to_absolute_error():
    logits, candidates, _ = batch(dtype=torch.float32)
    fit = torch.where(candidates > 0, logits.sigmoid(), 1 - logits.sigmoid())
    absolute = GeneralizedCrossEntropy(1.0)(logits, candidates)
    torch.testing.assert_close(absolute, (1 - fit).mean())
    near = GeneralizedCrossEntropy(1e-4)(logits, candidates)
    torch.testing.assert_close(near, -fit.log().mean(), atol=1e-3, rtol=1e-3)


def make_data():
    return make_partial_multilabel(
        n_samples=600, n_features=20, n_labels=8, cardinality=2.5, r=2, random_state=0
    )


def train(loss, data, epochs=40, autocast=False, start=0, model=None, adam=None):
    """The plain loop of the documentation."""
    torch.manual_seed(0)
    X = torch.as_tensor(data.X, dtype=torch.float32)
    Y = torch.as_tensor(data.candidates)
    if model is None:
        model = nn.Sequential(nn.Linear(20, 32), nn.ReLU(), nn.Linear(32, 8))
        adam = torch.optim.Adam(model.parameters(), lr=3e-3)
    for epoch in range(start, epochs):
        order = torch.randperm(len(X), generator=torch.Generator().manual_seed(epoch))
        for rows in order.split(64):
            with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
                value = loss(model(X[rows]), Y[rows], rows)
            adam.zero_grad()
            value.backward()
            adam.step()
    return model, adam


def noise_auc(loss, data):
    from sklearn.metrics import roc_auc_score

    Y = torch.as_tensor(data.candidates)
    q = loss.confidences.read(torch.arange(len(Y)), Y).numpy()
    listed = data.candidates == 1
    return roc_auc_score(data.y_true[listed], q[listed])


@pytest.mark.parametrize("counts", [False, True])
def test_a_training_loop_finds_the_wrong_candidates(counts):
    data = make_data()
    loss = PartialMultiLabelLoss(600, 8, counts=counts)
    train(loss, data)
    assert noise_auc(loss, data) > 0.85
    share = ((data.candidates == 1) & (data.y_true == 0)).sum() / (data.y_true == 0).sum()
    assert abs(float(loss.rates.mean()) - share) < 0.1


def test_mixed_precision_learns_the_same():
    data = make_data()
    loss = PartialMultiLabelLoss(
        600, 8, counts=True, rank_weight=0.01, confidences=Confidences(600, 8, dtype="float16")
    )
    model, _ = train(loss, data, autocast=True)
    assert noise_auc(loss, data) > 0.85
    assert all(weights.isfinite().all() for weights in model.parameters())


def test_the_sigmoid_is_fitted_to_the_last_rows_only(monkeypatch):
    monkeypatch.setattr("schirn.deep.losses._SAMPLE", 20)
    logits, candidates, rows = batch(n=60, dtype=torch.float32)
    loss = PartialMultiLabelLoss(60, 4)
    for index in rows.split(10):
        loss(logits[index], candidates[index], index)
    assert loss.passes == 1
    expected = calibrate(logits[-20:].detach().numpy(), candidates[-20:].numpy() > 0)
    np.testing.assert_allclose(loss.calibration, (expected.slope, expected.offset), rtol=1e-5)


@pytest.mark.parametrize("counts", [False, True])
def test_a_break_in_the_middle_of_a_pass_changes_nothing(counts):
    logits, candidates, rows = batch(n=60, dtype=torch.float32)
    batches = [*rows.split(20), *rows.split(20)]
    whole, first, second = (
        PartialMultiLabelLoss(60, 4, counts=counts, warm_up=0) for _ in range(3)
    )
    for index in batches:
        whole(logits[index], candidates[index], index)
    for index in batches[:4]:
        first(logits[index], candidates[index], index)
    second.load_state_dict(copy.deepcopy(first.state_dict()))
    assert second.passes == pytest.approx(4 / 3)
    for index in batches[4:]:
        second(logits[index], candidates[index], index)
    assert second.calibration == whole.calibration
    assert torch.equal(second.rates, whole.rates)
    assert torch.equal(second.tilt, whole.tilt)
    assert torch.equal(second.confidences.table, whole.confidences.table)


def test_training_goes_on_from_a_state_dict_as_if_never_stopped():
    data = make_data()
    whole = PartialMultiLabelLoss(600, 8, counts=True, warm_up=2)
    expected, _ = train(whole, data, epochs=6)
    first = PartialMultiLabelLoss(600, 8, counts=True, warm_up=2)
    model, adam = train(first, data, epochs=4)
    second = PartialMultiLabelLoss(600, 8, counts=True, warm_up=2)
    second.load_state_dict(copy.deepcopy(first.state_dict()))
    train(second, data, epochs=6, start=4, model=model, adam=adam)
    for one, other in zip(model.parameters(), expected.parameters(), strict=True):
        assert torch.equal(one, other)
    assert torch.equal(second.rates, whole.rates)
    assert torch.equal(second.confidences.table, whole.confidences.table)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda z, c, i: PartialMultiLabelLoss(8, 5)(z, c, i), r"\(rows, 5\)"),
        (lambda z, c, i: PartialMultiLabelLoss(8, 4)(z, c), "row indices are required"),
        (lambda z, c, i: PartialMultiLabelLoss(8, 4)(z[:3], c, i), r"\(3, 4\) for 8 rows"),
        (lambda z, c, i: PartialMultiLabelLoss(8, 4)(z, c, i[:2]), r"\(2,\)"),
        (lambda z, c, i: PartialMultiLabelLoss(5, 4, warm_up=0)(z, c, i), "row index 7"),
        (lambda z, c, i: PartialMultiLabelLoss(8, 4, momentum=1.5), r"momentum.*1.5"),
        (lambda z, c, i: GeneralizedCrossEntropy(0), r"exponent.*0"),
    ],
)
def test_bad_input_gets_one_sentence(call, words):
    with pytest.raises(InputError, match=words):
        call(*batch())


@pytest.mark.filterwarnings("ignore")  # those of Lightning are not ours
def test_under_lightning(tmp_path):
    lightning = pytest.importorskip("lightning.pytorch", reason="lightning is not installed")
    data = make_data()
    X, Y = torch.as_tensor(data.X, dtype=torch.float32), torch.as_tensor(data.candidates)

    class Module(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.model = nn.Linear(20, 8)
            self.loss = PartialMultiLabelLoss(600, 8, warm_up=1)

        def training_step(self, batch, _):
            x, candidates, rows = batch
            return self.loss(self.model(x), candidates, rows)

        def validation_step(self, batch, _):
            x, candidates, _ = batch
            self.log("held out", self.loss(self.model(x), candidates))

        def configure_optimizers(self):
            return torch.optim.Adam(self.parameters(), lr=0.01)

    sets = torch.utils.data.TensorDataset(X, Y, torch.arange(600))
    loader = torch.utils.data.DataLoader(sets, batch_size=64, shuffle=True)
    trainer = lightning.Trainer(
        max_epochs=3,
        accelerator="cpu",
        logger=False,
        default_root_dir=tmp_path,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    module = Module()
    trainer.fit(module, loader, loader)
    assert module.loss.passes == 3
    assert module.loss.confidences.written.all()
    assert np.isfinite(float(trainer.callback_metrics["held out"]))


@pytest.mark.parametrize("value", [2, -1, 0.5, float("nan")])
def test_candidates_are_zero_or_one(value):
    loss = PartialMultiLabelLoss(n_rows=4, n_labels=3)
    candidates = torch.ones(4, 3)
    candidates[2, 1] = value
    with pytest.raises(InputError, match="candidates must be 0 or 1, but one of them is"):
        loss(torch.zeros(4, 3), candidates, torch.arange(4))
    with pytest.raises(InputError, match="candidates must be 0 or 1"):
        loss.eval()(torch.zeros(4, 3), candidates)
