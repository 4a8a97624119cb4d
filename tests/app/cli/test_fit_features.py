"""Features of new rows are matched with training, by name or by the index base."""

import json

import numpy as np
import pytest
from app.cli.clean_helpers import refused

import schirn
from schirn.app.cli import main
from schirn.datasets import make_partial_multilabel
from schirn.persist import read_notes


@pytest.fixture(scope="module")
def data():
    return make_partial_multilabel(n_samples=40, n_features=3, n_labels=3, r=1, random_state=0)


def write_arff(path, X, Y, names):
    labels = "".join(f"@attribute l{j} {{0,1}}\n" for j in range(Y.shape[1]))
    features = "".join(f"@attribute {name} real\n" for name in names)
    rows = "".join(",".join(map(str, [*x, *y])) + "\n" for x, y in zip(X, Y, strict=True))
    path.write_text(f"@relation r\n{features}{labels}@data\n{rows}")
    return str(path)


def write_npz(path, X, Y, names):
    np.savez(path, X=X, Y=Y, feature_names=names)
    return str(path)


def probabilities(tmp_path, model, path, *more):
    out = tmp_path / "s.jsonl"
    assert main(["predict", model, path, *more, "--proba", "-o", str(out)]) == 0
    records = map(json.loads, out.read_text("utf-8").splitlines())
    return np.array([list(record["proba"].values()) for record in records])


@pytest.mark.parametrize("write", [write_arff, write_npz])
def test_named_features_may_come_in_another_order(tmp_path, data, capsys, write):
    suffix, options = (".arff", ["--labels", "3"]) if write is write_arff else (".npz", [])
    train = write(tmp_path / f"a{suffix}", data.X, data.y_true, ["u", "v", "w"])
    model = str(tmp_path / "m")
    assert main(["fit", train, *options, "--method", "CandidateRidge", "-o", model]) == 0
    expected = probabilities(tmp_path, model, train, *options)
    order = [1, 2, 0]
    mixed = write(tmp_path / f"b{suffix}", data.X[:, order], data.y_true, ["v", "w", "u"])
    np.testing.assert_array_equal(probabilities(tmp_path, model, mixed, *options), expected)
    other = write(tmp_path / f"c{suffix}", data.X, data.y_true, ["u", "v", "z"])
    capsys.readouterr()
    err = refused(capsys, "predict", model, other, *options)
    assert f"there is no feature 'w', which {model} was trained on" in err


def test_repeated_names_of_features_are_not_matched(tmp_path, data, capsys):
    train = write_npz(tmp_path / "a.npz", data.X, data.y_true, ["u", "u", "w"])
    other = write_npz(tmp_path / "b.npz", data.X, data.y_true, ["w", "u", "u"])
    model = str(tmp_path / "m")
    assert main(["fit", train, "--method", "CandidateRidge", "-o", model]) == 0
    assert main(["predict", model, train]) == 0
    capsys.readouterr()
    assert "two features have the same name" in refused(capsys, "predict", model, other)


def write_svm(path, X, Y, start):
    lines = [
        ",".join(map(str, np.flatnonzero(y)))
        + "".join(f" {j + start}:{v}" for j, v in enumerate(x) if v)
        for x, y in zip(X, Y, strict=True)
    ]
    path.write_text("\n".join(lines) + "\n")
    return str(path)


def test_features_of_svmlight_files_are_counted_as_in_training(tmp_path, data, capsys):
    train = write_svm(tmp_path / "train.svm", data.X, data.y_true, 0)
    model = str(tmp_path / "m")
    assert main(["fit", train, "--method", "CandidateRidge", "-o", model]) == 0
    assert read_notes(model)["zero_based"] is True
    capsys.readouterr()
    rows = data.X.copy()
    rows[:, 0] = 0
    new = write_svm(tmp_path / "new.svm", rows, data.y_true, 0)
    expected = schirn.load(model).predict_proba(rows)
    np.testing.assert_allclose(probabilities(tmp_path, model, new), expected)


def test_the_index_that_pandas_writes_is_left_out(tmp_path, capsys):
    pytest.importorskip("pandas")
    rows = "".join(f"{i},{i % 5},{'ab'[i % 5 > 2]}\n" for i in range(30))
    (tmp_path / "t.csv").write_text(",x,tags\n" + rows)
    model = str(tmp_path / "m")
    argv = ["fit", str(tmp_path / "t.csv"), "--method", "CandidateRidge", "-o", model]
    assert main(argv) == 0
    assert "learned from  x" in capsys.readouterr().out
    assert read_notes(model)["feature_names"] == ["x"]
    (tmp_path / "new.csv").write_text("x\n1\n4\n")
    assert main(["predict", model, str(tmp_path / "new.csv")]) == 0


@pytest.mark.parametrize("command", ["fit", "clean"])
def test_an_empty_separator_is_refused(tmp_path, capsys, command):
    (tmp_path / "t.csv").write_text("x,tags\n1,a\n2,b\n")
    argv = [command, str(tmp_path / "t.csv"), "-o", str(tmp_path / "o.csv"), "--separator", ""]
    assert "--separator: must be a text such as ; or |" in refused(capsys, *argv)
