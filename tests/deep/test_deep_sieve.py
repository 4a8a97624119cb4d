"""DeepSieve: contract, scikit-learn, what it learns, resuming and files."""

import json
import pickle
import subprocess
import sys

import numpy as np
import pytest
from estimators.sklearn_checks import EXPECTED_FAILURES
from sklearn.metrics import roc_auc_score
from sklearn.utils.estimator_checks import parametrize_with_checks

from schirn import datasets
from schirn.exceptions import InputError, ModelFileError
from schirn.metrics import average_precision
from schirn.testing import contract_checks

torch = pytest.importorskip("torch", reason="PyTorch (the extra deep) is not installed")

from torch import nn  # noqa: E402

from schirn.deep import DeepSieve  # noqa: E402

CHECKS = dict(contract_checks())
QUICK = {"hidden_sizes": (24,), "folds": 2, "max_iter": 5, "device": "cpu"}
# Log-odds are thresholded at 0, so this check is passed.
REASONS = {k: v for k, v in EXPECTED_FAILURES.items() if k != "check_classifier_multioutput"}
REASONS["check_methods_subset_invariance"] = (
    "in single precision the last digit of a score depends on the size of its batch"
)


@pytest.mark.parametrize("name", CHECKS)
def test_contract(name):
    # A network that has hardly begun to learn predicts nothing.
    long = name in ("learns", "thresholds")
    rounds = {"max_iter": 15, "batch_size": 16} if long else {}
    CHECKS[name](DeepSieve, **QUICK | rounds)


@pytest.mark.filterwarnings("ignore::schirn.exceptions.EmptyCandidatesWarning")
@parametrize_with_checks(
    [DeepSieve(**QUICK | {"max_iter": 2})], expected_failed_checks=lambda _: REASONS
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.fixture
def safetensors():
    return pytest.importorskip(
        "safetensors", reason="safetensors (the extra deep) is not installed"
    )


@pytest.fixture(scope="module")
def data():
    return datasets.make_partial_multilabel(
        n_samples=500, n_features=20, n_labels=8, cardinality=2.5, r=2, random_state=0
    )


def model(**options):
    defaults = {"hidden_sizes": (32,), "folds": 2, "max_iter": 12, "device": "cpu"}
    return DeepSieve(**defaults | options)


LONGER = {"hidden_sizes": (64,), "learning_rate": 5e-3, "max_iter": 30}


@pytest.fixture(scope="module")
def fitted(data):
    return model(**LONGER).fit(data.X[:350], data.candidates[:350])


def test_it_beats_plain_cross_entropy_and_finds_the_noise(data, fitted):
    plain = model(**LONGER, estimate_noise=False).fit(data.X[:350], data.candidates[:350])
    scores = [
        average_precision(data.y_true[350:], m.decision_function(data.X[350:]))
        for m in (plain, fitted)
    ]
    assert scores[1] > scores[0] + 0.02
    listed = data.candidates[:350] == 1
    truth = data.y_true[:350][listed]
    assert roc_auc_score(truth, fitted.label_confidence_[listed]) > 0.85
    assert not plain.noise_.any()
    assert (
        plain.disambiguate(data.X[350:], data.candidates[350:])[data.candidates[350:] == 1].min()
        > 0.5
    )


def test_unseen_candidates_are_judged(data, fitted):
    Y = data.candidates[350:]
    q = fitted.disambiguate(data.X[350:], Y)
    assert roc_auc_score(data.y_true[350:][Y == 1], q[Y == 1]) > 0.85


def test_seeds(data):
    X, Y = data.X[:150], data.candidates[:150]
    before = torch.get_rng_state()
    one, same, other = (model(random_state=s, max_iter=3).fit(X, Y) for s in (0, 0, 1))
    assert torch.equal(before, torch.get_rng_state())
    assert np.array_equal(one.decision_function(X), same.decision_function(X))
    assert not np.allclose(one.decision_function(X), other.decision_function(X))


def test_early_stop_keeps_the_best_epoch(data):
    found = model(max_iter=60, n_iter_no_change=3, learning_rate=0.02, warm_up=3).fit(
        data.X[:200], data.candidates[:200]
    )
    assert found.n_iter_ < 60
    # Before the warm-up is over there is nothing to choose.
    best = 2 + int(np.argmax(found.held_out_score_[2:])) + 1
    assert found.best_iter_ == best
    assert found.n_iter_ == best + 3


def test_the_warm_up_ends_at_its_best_epoch(data):
    # Steps this long make the networks learn their rows by heart at once.
    options = {"hidden_sizes": (256,), "learning_rate": 0.02, "max_iter": 30}
    score = model(**options).fit(data.X[:150], data.candidates[:150]).held_out_score_
    end = next(t for t in range(3, 15) if t - int(np.argmax(score[:t])) >= 3)
    best = int(np.argmax(score[:end]))
    assert score[end - 1] < score[best]
    assert score[end] == score[best]


class Convolution(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(1, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Dropout(0.1)
        )

    def forward(self, x):
        return self.layers(x)


def images():
    digits = datasets.load_digits_attributes(r=2)
    return digits.X[:300] / 16, digits.candidates[:300], digits.y_true[:300]


@pytest.mark.usefixtures("safetensors")
def test_a_module_of_the_user_on_images(tmp_path):
    X, Y, truth = images()
    options = {"input_shape": (1, 8, 8), "scale": "none", "max_iter": 6}
    torch.manual_seed(0)
    module = Convolution()
    first = module.layers[0].weight.detach().clone()
    found = model(module=module, **options).fit(X, Y)
    assert torch.equal(first, module.layers[0].weight), "the user's module was changed"
    assert average_precision(truth, found.decision_function(X)) > 0.85
    found.save(tmp_path / "images.safetensors")
    with pytest.raises(InputError, match="your own backbone"):
        DeepSieve.load(tmp_path / "images.safetensors")
    again = DeepSieve.load(tmp_path / "images.safetensors", module=Convolution())
    np.testing.assert_array_equal(again.decision_function(X), found.decision_function(X))


def test_a_module_that_gives_no_vectors_is_refused():
    X, Y, _ = images()
    with pytest.raises(InputError, match=r"for 1 row it returned \(1, 1, 8, 8\)"):
        model(module=nn.Identity(), input_shape=(1, 8, 8)).fit(X, Y)


def test_bfloat16_learns_the_same(data):
    options = LONGER | {"precision": "bfloat16", "rank_weight": 0.01}
    found = model(**options).fit(data.X[:350], data.candidates[:350])
    listed = data.candidates[:350] == 1
    assert roc_auc_score(data.y_true[:350][listed], found.label_confidence_[listed]) > 0.85
    assert next(found.network_.parameters()).dtype == torch.float32


class Interrupted(Exception):
    pass


def interrupt_after(n, monkeypatch):
    """Stop training after n epochs, as a kill would, with what was written so far."""
    from schirn.deep._crossfit import CrossFit

    advance = CrossFit.advance

    def limited(self):
        if self.n_iter == n:
            raise Interrupted
        advance(self)

    monkeypatch.setattr(CrossFit, "advance", limited)


@pytest.mark.parametrize("epochs", [5, 2])
def test_a_resumed_run_ends_like_one_without_a_break(data, tmp_path, monkeypatch, epochs):
    X, Y = data.X[:150], data.candidates[:150]
    whole = model(max_iter=8, folds=2).fit(X, Y)
    path = tmp_path / "run.pt"
    with monkeypatch.context() as patch:
        interrupt_after(epochs, patch)
        with pytest.raises(Interrupted):
            model(max_iter=8, folds=2, checkpoint=path).fit(X, Y)
    assert path.exists()
    resumed = model(max_iter=8, folds=2, checkpoint=path).fit(X, Y)
    for name in ("label_confidence_", "noise_rate_", "held_out_score_", "objective_"):
        np.testing.assert_array_equal(getattr(resumed, name), getattr(whole, name))
    np.testing.assert_array_equal(resumed.decision_function(X), whole.decision_function(X))


def test_a_checkpoint_of_other_data_is_refused(data, tmp_path):
    path = tmp_path / "run.pt"
    X, Y = data.X[:100], data.candidates[:100]
    model(max_iter=2, checkpoint=path).fit(X, Y)
    with pytest.raises(InputError, match="other data or other parameters"):
        model(max_iter=2, checkpoint=path).fit(X + 1, Y)
    with pytest.raises(InputError, match="other data or other parameters"):
        model(max_iter=2, checkpoint=path, momentum=0.1).fit(X, Y)
    longer = model(max_iter=3, checkpoint=path).fit(X, Y)
    assert longer.n_iter_ == 3
    for content in (b"", path.read_bytes()[:-100], pickle.dumps(Interrupted)):
        path.write_bytes(content)
        with pytest.raises(ModelFileError, match=r"run\.pt: not a checkpoint of DeepSieve"):
            model(max_iter=3, checkpoint=path).fit(X, Y)


@pytest.mark.usefixtures("safetensors")
def test_files_give_the_same_model_back(data, fitted, tmp_path):
    path = tmp_path / "model.safetensors"
    fitted.save(path)
    again = DeepSieve.load(path)
    assert again.get_params() == fitted.get_params()
    X, Y = data.X[350:], data.candidates[350:]
    for call in ("decision_function", "predict", "predict_proba"):
        np.testing.assert_array_equal(getattr(again, call)(X), getattr(fitted, call)(X))
    np.testing.assert_array_equal(again.disambiguate(X, Y), fitted.disambiguate(X, Y))
    np.testing.assert_array_equal(again.noise_, fitted.noise_)
    assert again.predict(X, threshold="cardinality").shape == Y.shape


@pytest.mark.usefixtures("safetensors")
def test_damaged_and_foreign_files_are_named(fitted, tmp_path):
    from safetensors.torch import save_file

    path = tmp_path / "model.safetensors"
    with pytest.raises(ModelFileError, match="no such file"):
        DeepSieve.load(path)
    fitted.save(path)
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(ModelFileError, match=r"model\.safetensors.*damaged"):
        DeepSieve.load(path)
    save_file({"x": torch.zeros(2)}, path)
    with pytest.raises(ModelFileError, match="not a schirn-deep-model"):
        DeepSieve.load(path)
    head = {"schirn": '{"format": "schirn-deep-model", "version": 99}'}
    save_file({"x": torch.zeros(2)}, path, metadata=head)
    with pytest.raises(ModelFileError, match=r"newer version of schirn \(file format 99"):
        DeepSieve.load(path)
    head = {"schirn": '{"format": "schirn-deep-model", "version": 2}'}
    save_file({"x": torch.zeros(2)}, path, metadata=head)
    with pytest.raises(ModelFileError, match=r"by schirn before 0\.4, whose .* train the model"):
        DeepSieve.load(path)
    with pytest.raises(InputError, match="not fitted"):
        DeepSieve().save(path)


@pytest.mark.usefixtures("safetensors")
@pytest.mark.parametrize("sizes", [[24, 24], [10**9]])
def test_a_file_that_asks_for_another_network_takes_no_memory(fitted, tmp_path, sizes):
    from safetensors import safe_open
    from safetensors.torch import save_file

    path = tmp_path / "model.safetensors"
    fitted.save(path)
    with safe_open(path, framework="pt") as file:
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        text = file.metadata()["schirn"]
    described = json.loads(text)["model"]["params"]["hidden_sizes"]
    assert json.dumps(described) in text
    changed = text.replace(json.dumps(described), json.dumps({**described, "tuple": sizes}))
    assert changed != text
    save_file(tensors, path, metadata={"schirn": changed})
    with pytest.raises(ModelFileError, match="do not match the network described in the file"):
        DeepSieve.load(path)


def test_bad_parameters_are_refused(data):
    for options, words in (
        ({"folds": 1}, r"folds.*1"),
        ({"estimate_noise": 2}, r"estimate_noise.*2"),
        ({"precision": "float8"}, r"precision.*float8"),
    ):
        with pytest.raises(InputError, match=words):
            DeepSieve(**options).fit(data.X, data.candidates)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="PyTorch sees no CUDA device")
@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_on_a_gpu(data, precision):
    options = LONGER | {"device": "cuda", "precision": precision}
    found = model(**options).fit(data.X[:350], data.candidates[:350])
    listed = data.candidates[:350] == 1
    assert roc_auc_score(data.y_true[:350][listed], found.label_confidence_[listed]) > 0.85


def test_cuda_is_asked_for_in_vain(data):
    if torch.cuda.is_available():
        pytest.skip("there is a CUDA device here")
    with pytest.raises(InputError, match="no CUDA device"):
        DeepSieve(device="cuda").fit(data.X, data.candidates)


def run_python(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)


def test_schirn_does_not_import_torch():
    ran = run_python("import schirn, sys; sys.exit('torch' in sys.modules)")
    assert ran.returncode == 0, ran.stderr


def test_without_torch_one_sentence_says_what_to_install():
    hide = "class Hide:\n def find_spec(self, name, *_):\n  if name == 'torch': raise ImportError\n"
    ran = run_python(f"import sys\n{hide}sys.meta_path.insert(0, Hide())\nimport schirn.deep")
    last = ran.stderr.strip().splitlines()[-1]
    assert "MissingExtraError: schirn.deep needs the package 'torch' of the extra 'deep'" in last
    assert 'install it with: pip install "' in last
    assert '"torch>=' in last


@pytest.mark.parametrize("n", [33, 65, 97, 98])
def test_batch_norm_with_any_number_of_rows(data, n):
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(20, 16), nn.BatchNorm1d(16), nn.ReLU())
    found = DeepSieve(module=module, folds=2, max_iter=1, device="cpu", batch_size=32)
    found.fit(data.X[:n], data.candidates[:n])
    assert np.isfinite(found.decision_function(data.X)).all()
