"""On a GPU: the model of the CPU, with results where the features are."""

import numpy as np
import pytest
from sklearn.base import clone

import schirn
from schirn import Schirn, Sieve, find_noisy_labels, lab
from schirn.datasets import make_partial_multilabel
from schirn.exceptions import InputError

torch = pytest.importorskip("torch", reason="PyTorch (the extra deep) is not installed")
if not torch.cuda.is_available():
    pytest.skip("there is no CUDA device here", allow_module_level=True)

MODELS = {
    "Schirn": Schirn(lam=1.0, alpha=0.6),
    "Schirn, many labels": Schirn(lam=1.0, alpha=0.6, fit_intercept=True),
    "Sieve": Sieve(random_state=0),
}


def example(name):
    labels = 120 if "many" in name else 10
    return make_partial_multilabel(
        n_samples=800, n_features=40, n_labels=labels, r=2, random_state=0
    )


def cupy_array(values):
    cupy = pytest.importorskip("cupy", reason="CuPy is not installed")
    return cupy.asarray(values)


ARRAYS = {
    "torch": lambda values: torch.asarray(values, device="cuda"),
    "cupy": cupy_array,
}


def back(values):
    return values.cpu().numpy() if isinstance(values, torch.Tensor) else values.get()


@pytest.mark.parametrize("library", ARRAYS)
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_the_model_of_the_cpu(name, library, dtype):
    data = example(name)
    expected = clone(MODELS[name]).fit(data.X, data.candidates)
    X = ARRAYS[library](data.X.astype(dtype))
    found = clone(MODELS[name]).fit(X, data.candidates)
    scores = found.decision_function(X)
    assert type(scores) is type(X)
    scale = np.abs(expected.decision_function(data.X)).max()
    tolerance = 1e-6 if dtype == "float64" else 5e-3
    np.testing.assert_allclose(
        back(scores), expected.decision_function(data.X), atol=tolerance * scale
    )
    # The likelihood that calibrates is flat: the last digits of scores move it a little.
    proba = back(found.predict_proba(X))
    np.testing.assert_allclose(
        proba, expected.predict_proba(data.X), atol=max(2e-3, 10 * tolerance)
    )
    assert back(found.predict(X)).shape == data.candidates.shape
    differs = _dense(found.noise_) != expected.noise_
    assert differs.sum() <= (0 if dtype == "float64" else 0.01 * expected.noise_.sum())


@pytest.mark.parametrize("library", ARRAYS)
def test_many_rows_are_judged_as_on_the_cpu(library):
    """Landmark features have single precision everywhere."""
    data = make_partial_multilabel(n_samples=3000, n_features=20, n_labels=10, r=2, random_state=0)
    model = Sieve(max_kernel_rows=100, n_landmarks=200)
    X, few = data.X.astype(np.float32), data.candidates
    expected = clone(model).fit(X, few)
    found = clone(model).fit(ARRAYS[library](X), few)
    confidence = back(found.label_confidence_)
    np.testing.assert_allclose(confidence, expected.label_confidence_, atol=5e-3)
    np.testing.assert_allclose(
        back(found.training_log_odds_), expected.training_log_odds_, atol=2e-2
    )
    assert (_dense(found.noise_) != expected.noise_).sum() <= 0.01 * expected.noise_.sum()
    verdicts = find_noisy_labels(ARRAYS[library](X), few, method=model)
    np.testing.assert_allclose(
        verdicts.confidence, find_noisy_labels(X, few, method=model).confidence, atol=5e-3
    )


def test_a_model_of_a_gpu_is_saved_and_judges_rows_in_main_memory(tmp_path):
    data = example("Schirn")
    X = ARRAYS["torch"](data.X)
    model = Schirn(lam=1.0).fit(X, data.candidates)
    schirn.save(model, tmp_path / "model.schirn")
    again = schirn.load(tmp_path / "model.schirn")
    np.testing.assert_allclose(
        np.asarray(again.decision_function(data.X)), back(model.decision_function(X)), atol=1e-6
    )


def test_a_method_for_main_memory_says_so():
    data = example("Schirn")
    with pytest.raises(InputError, match=r"NLR works in main memory, but the rows are on a GPU"):
        lab.NLR().fit(ARRAYS["torch"](data.X), data.candidates)
    model = lab.NLR().fit(data.X, data.candidates)
    with pytest.raises(InputError, match=r"on a GPU; copy them there \(X\.cpu\(\)"):
        model.predict(ARRAYS["torch"](data.X))


def _dense(noise):
    if hasattr(noise, "toarray"):
        return np.asarray(noise.toarray())
    return noise if isinstance(noise, np.ndarray) else back(noise)
