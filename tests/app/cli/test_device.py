"""`--device` with PyTorch on the CPU."""

import json

import numpy as np
import pytest
from scipy import sparse

import schirn
from schirn.app.cli import main
from schirn.datasets import add_noise, load_digits_attributes

pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("array_api_compat", reason="array-api-compat is not installed")


def fit(tmp_path, name, *options):
    path, data = tmp_path / name, load_digits_attributes()
    noisy = add_noise(data.y_true, 1, random_state=0)
    np.savez(tmp_path / "digits.npz", X=data.X, Y=data.y_true, C=noisy)
    command = ["fit", str(tmp_path / "digits.npz"), "-o", str(path)]
    assert main([*command, "--method", "Schirn", "--param", "lam=1", "--json", *options]) == 0
    return path


def probabilities(tmp_path, model, data, *options):
    out = tmp_path / "out.jsonl"
    assert main(["predict", str(model), str(data), "--proba", "-o", str(out), *options]) == 0
    records = map(json.loads, out.read_text("utf-8").splitlines())
    return np.array([list(record["proba"].values()) for record in records])


def test_a_model_trained_on_a_device_is_that_of_numpy(tmp_path, capsys):
    here = fit(tmp_path, "here.schirn")
    there = fit(tmp_path, "there.schirn", "--device", "cpu")
    first, second = schirn.load(here), schirn.load(there)
    assert (first.noise_ == second.noise_).mean() > 0.999
    np.testing.assert_allclose(second.label_confidence_, first.label_confidence_, atol=1e-3)
    scores = []
    for model, options in ((here, []), (there, []), (there, ["--device", "cpu"])):
        scores.append(probabilities(tmp_path, model, "digits_attributes", *options))
    np.testing.assert_allclose(scores[1], scores[0], atol=1e-3)
    np.testing.assert_allclose(scores[2], scores[1], atol=1e-4)


def test_an_unknown_device_is_refused_with_a_sentence(tmp_path, capsys):
    out = tmp_path / "model.schirn"
    argv = ["fit", "digits_attributes", "--method", "Schirn", "-o", str(out)]
    assert main([*argv, "--device", "abacus"]) == 2
    message = capsys.readouterr().err
    assert "--device" in message
    assert "Traceback" not in message
    assert not out.exists()


def test_sparse_features_become_dense_on_the_device(tmp_path, capsys):
    """A sparse file and the same numbers in a dense one give the same scores."""
    rng = np.random.default_rng(0)
    X = rng.random((60, 5)) * (rng.random((60, 5)) < 0.6)
    Y = np.column_stack([X[:, 0] > 0.2, X[:, 1] > 0.2, np.ones(60)]).astype(np.uint8)
    thin = sparse.csr_array(X)
    parts = {"data": thin.data, "indices": thin.indices, "indptr": thin.indptr, "shape": X.shape}
    np.savez(tmp_path / "thin.npz", C=Y, **parts)
    np.savez(tmp_path / "dense.npz", C=Y, X=X)
    scores = []
    for name in ("thin", "dense"):
        model = tmp_path / f"{name}.schirn"
        argv = ["fit", str(tmp_path / f"{name}.npz"), "--method", "Schirn", "--device", "cpu"]
        assert main([*argv, "--param", "lam=1", "-o", str(model)]) == 0
        noted = "the sparse features become dense on the device" in capsys.readouterr().err
        assert noted == (name == "thin")
        scores.append(probabilities(tmp_path, model, tmp_path / "dense.npz"))
    np.testing.assert_allclose(scores[0], scores[1], atol=1e-4)


def test_clean_on_a_device_gives_the_verdicts_of_numpy(tmp_path, capsys):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 5)).astype(np.float32)
    names = np.array(["a", "b", "c", "d"])
    tags = [";".join(names[np.r_[row > 0.3]]) for row in X[:, :4]]
    tags[0] = "a;b;c;d"
    np.save(tmp_path / "X.npy", X)
    table = tmp_path / "items.csv"
    table.write_text("tags\n" + "\n".join(t or '""' for t in tags) + "\n", encoding="utf-8")
    argv = ["clean", str(table), "--features", str(tmp_path / "X.npy"), "--json"]
    argv += ["--param", "max_kernel_rows=100", "--param", "n_landmarks=50"]
    found = []
    for options in ([], ["--device", "cpu"]):
        assert main([*argv, *options]) == 0
        found.append(json.loads(capsys.readouterr().out))
    for key in ("tags", "removed", "rows"):
        assert found[0][key] == found[1][key]
    planted = "planted_among_suspects"
    assert found[1][planted] == pytest.approx(found[0][planted], abs=1e-3)
