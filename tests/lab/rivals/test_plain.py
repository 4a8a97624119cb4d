"""PLAIN: what the graphs and the network do, a frozen small result, and life without PyTorch."""

import subprocess
import sys

import numpy as np
import pytest
import scipy.sparse as sp

import schirn
from schirn import lab
from schirn.exceptions import InputError, MissingExtraError
from schirn.metrics import average_precision, noise_auc


@pytest.fixture
def torch():
    return pytest.importorskip("torch", reason="PyTorch (the extra deep) is not installed")


def test_without_pytorch_it_is_listed_and_fit_names_the_extra(small, monkeypatch):
    # None makes the import fail, as if the package were absent.
    monkeypatch.setitem(sys.modules, "torch", None)
    assert schirn.methods()["PLAIN"] is lab.PLAIN
    with pytest.raises(MissingExtraError, match=r'PLAIN needs .*"torch>='):
        lab.PLAIN().fit(small.X, small.candidates)


def test_a_saved_model_predicts_without_pytorch(torch, small, tmp_path):
    model = lab.PLAIN(max_iter=2).fit(small.X, small.candidates)
    schirn.save(model, tmp_path / "model.schirn")
    np.save(tmp_path / "X.npy", small.X)
    np.save(tmp_path / "expected.npy", model.predict_proba(small.X))
    # The program imports this module instead of PyTorch.
    (tmp_path / "torch.py").write_text("raise ImportError")
    program = """
import numpy as np
import schirn

probability = schirn.load("model.schirn").predict_proba(np.load("X.npy"))
assert np.array_equal(probability, np.load("expected.npy"))
"""
    subprocess.run([sys.executable, "-c", program], cwd=tmp_path, check=True)


def test_the_listing_loads_no_pytorch():
    code = (
        "import sys, schirn\nassert 'PLAIN' in schirn.methods()\nassert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_pseudo_labels_tell_wrong_candidates(torch, small):
    model = lab.PLAIN().fit(small.X, small.candidates)
    assert noise_auc(small.y_true, small.candidates, model.label_confidence_) > 0.8
    assert model.objective_[-1] < model.objective_[0]


def test_the_network_learns_more_than_frequencies(torch, small):
    model = lab.PLAIN(learning_rate=0.1).fit(small.X[:140], small.candidates[:140])
    scores = model.decision_function(small.X[140:])
    constant = np.tile(small.candidates[:140].mean(axis=0), (60, 1))
    truth = small.y_true[140:]
    gain = average_precision(truth, scores) - average_precision(truth, constant)
    assert gain > 0.25


def test_one_seed_gives_one_model(torch, small):
    rows = small.X[:80]
    listed = small.candidates[:80]
    first = lab.PLAIN(max_iter=3).fit(rows, listed)
    torch.manual_seed(7)
    n_threads = torch.get_num_threads()
    torch.set_num_threads(2)
    again = lab.PLAIN(max_iter=3).fit(rows, listed)
    assert torch.get_num_threads() == 2
    torch.set_num_threads(n_threads)
    other = lab.PLAIN(max_iter=3, random_state=1).fit(rows, listed)
    scores = first.decision_function(rows)
    np.testing.assert_array_equal(again.decision_function(rows), scores)
    assert np.abs(other.decision_function(rows) - scores).max() > 1e-3


def test_the_random_numbers_of_pytorch_are_left_alone(torch, small):
    before = torch.get_rng_state()
    lab.PLAIN(max_iter=2).fit(small.X, small.candidates)
    assert torch.equal(torch.get_rng_state(), before)


def test_sparse_rows_give_the_same_model(torch, small):
    X = np.where(small.X > 0.3, small.X, 0)
    dense = lab.PLAIN().fit(X, small.candidates)
    sparse = lab.PLAIN().fit(sp.csr_array(X), small.candidates)
    expected = dense.decision_function(X)
    np.testing.assert_allclose(sparse.decision_function(sp.csr_array(X)), expected, atol=1e-6)


def test_single_precision_stays(torch, small):
    model = lab.PLAIN(max_iter=2).fit(small.X.astype(np.float32), small.candidates)
    assert {W.dtype for W in model.coefs_} == {np.dtype(np.float32)}
    assert model.label_confidence_.dtype == np.float32


@pytest.mark.parametrize("sizes", [(), (3,), (5, 4, 3)])
def test_the_layers_have_the_sizes_that_were_asked_for(torch, small, sizes):
    model = lab.PLAIN(hidden_sizes=sizes, max_iter=1).fit(small.X, small.candidates)
    assert [len(b) for b in model.intercepts_] == [*sizes, 6]
    assert [W.shape[0] for W in model.coefs_] == [12, *sizes]


@pytest.mark.parametrize("n", [1, 2])
def test_few_rows_are_no_trouble(torch, small, n):
    model = lab.PLAIN(max_iter=2).fit(small.X[:n], small.candidates[:n])
    assert np.isfinite(model.decision_function(small.X)).all()


def test_labels_of_all_rows_and_of_none_are_no_trouble(torch, small):
    listed = small.candidates.copy()
    listed[:, 0] = 1
    listed[:, 1] = 0
    model = lab.PLAIN(max_iter=2).fit(small.X, listed)
    assert np.isfinite(model.predict_proba(small.X)).all()
    assert (model.label_confidence_[:, 1] == 0).all()


def test_frozen_result(torch, small):
    model = lab.PLAIN().fit(small.X, small.candidates)
    np.testing.assert_allclose(model.decision_function(small.X[:2])[:, :3], FROZEN, atol=1e-5)
    assert model.noise_.sum() == FROZEN_NOISE
    assert model.n_iter_ == len(model.objective_) == 30
    np.testing.assert_allclose(model.objective_[-1], FROZEN_OBJECTIVE, rtol=1e-5)


FROZEN = [[0.3393860106, -0.3550730939, 0.6064338562], [0.1817182526, -0.2664270475, 0.2105578259]]
FROZEN_NOISE = 0
FROZEN_OBJECTIVE = 0.6672580334


@pytest.mark.parametrize("bad", [{"alpha": -1}, {"learning_rate": 0}, {"hidden_sizes": (4, 0)}])
def test_bad_parameters_are_quoted(bad, small):
    ((name, value),) = bad.items()
    value = value[-1] if isinstance(value, tuple) else value
    with pytest.raises(InputError, match=f"{name} must be .* got {value!r}"):
        lab.PLAIN(**bad).fit(small.X, small.candidates)


def test_steps_that_diverge_are_refused(small):
    # 2 / (2 (0.1 + 0.01) + 1 + 1)
    with pytest.raises(InputError, match=r"propagation_rate must be below 0\.901 .* got 1: larger"):
        lab.PLAIN(propagation_rate=1).fit(small.X, small.candidates)
