import csv
import io
import json
import os
from pathlib import Path

import numpy as np
import pytest
from app.cli.clean_helpers import refused

import schirn
from schirn.app.cli import main
from schirn.datasets import make_partial_multilabel, read_table


@pytest.fixture(scope="module")
def data():
    return make_partial_multilabel(n_samples=60, n_features=8, n_labels=4, r=1, random_state=0)


@pytest.fixture
def npz(tmp_path, data):
    path = tmp_path / "train.npz"
    names = ["=1+1", "beach", "dog", "cat"]
    np.savez(path, X=data.X, Y=data.y_true, C=data.candidates, label_names=names)
    return str(path)


@pytest.fixture
def model(tmp_path, npz, capsys):
    path = tmp_path / "m.schirn"
    assert main(["fit", npz, "--param", "lam=1", "-o", str(path)]) == 0
    capsys.readouterr()
    return str(path)


def rows_of(text):
    return list(csv.DictReader(io.StringIO(text)))


def test_fit_reports_and_writes_the_same_model_as_the_library(npz, data, tmp_path, capsys):
    path = tmp_path / "m.schirn"
    argv = ["fit", npz, "--method", "Schirn", "--param", "alpha=0.3", "--param", "lam=1"]
    argv += ["-o", str(path)]
    assert main(argv) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    expected = schirn.Schirn(alpha=0.3, lam=1).fit(data.X, data.candidates)
    assert f"tags      {data.candidates.sum():,}\n" in captured.out
    assert f"next      schirn predict {path} new.csv -o tagged.csv\n" in captured.out
    # Nobody has answered a question.
    assert "wrong" not in captured.out
    assert "noise" not in captured.out
    again = schirn.load(path)
    np.testing.assert_array_equal(again.coef_, expected.coef_)
    assert again.label_names_ == ["=1+1", "beach", "dog", "cat"]
    assert main([*argv, "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["tags"] == data.candidates.sum()
    assert report["params"]["alpha"] == 0.3
    assert not any("wrong" in key or "noise" in key for key in report)


def test_fit_notes_true_labels(tmp_path, data, capsys):
    np.savez(tmp_path / "clean.npz", X=data.X, Y=data.y_true)
    argv = ["fit", str(tmp_path / "clean.npz"), "-o", str(tmp_path / "m"), "--json"]
    assert main(argv) == 0
    captured = capsys.readouterr()
    assert captured.err == (
        "schirn: note: clean has only true labels; they are used as the candidates\n"
    )
    assert json.loads(captured.out)["tags"] == data.y_true.sum()


def test_the_oracle_gets_the_truth(npz, data, tmp_path):
    assert main(["fit", npz, "--method", "OracleRidge", "-o", str(tmp_path / "m"), "--json"]) == 0
    wrong = data.candidates > data.y_true
    np.testing.assert_array_equal(schirn.load(tmp_path / "m").noise_, wrong)


def test_verbose_methods_do_not_spoil_json(npz, tmp_path, capsys):
    argv = ["fit", npz, "--method", "Schirn", "--param", "verbose=true"]
    argv += ["-o", str(tmp_path / "m"), "--json"]
    assert main(argv) == 0
    captured = capsys.readouterr()
    json.loads(captured.out)
    assert not captured.err


def test_a_warning_is_one_line(tmp_path, data, capsys):
    candidates = data.candidates.copy()
    candidates[3] = 0
    np.savez(tmp_path / "x.npz", X=data.X, C=candidates)
    assert main(["fit", str(tmp_path / "x.npz"), "-o", str(tmp_path / "m")]) == 0
    err = capsys.readouterr().err
    words = "schirn: note: 1 of 60 rows carry no candidate label (the first is row 4)"
    assert err.startswith(words)
    assert err.count("\n") == 1


def test_drop_training(npz, tmp_path):
    assert main(["fit", npz, "--drop-training", "-o", str(tmp_path / "m")]) == 0
    assert not hasattr(schirn.load(tmp_path / "m"), "noise_")


def test_fit_mistakes(npz, tmp_path, capsys):
    out = str(tmp_path / "m")
    err = refused(capsys, "fit", npz, "-o", out, "--param", "kernle=1")
    assert "Sieve has no parameter 'kernle'; did you mean 'kernel'?" in err
    assert "lam must be" in refused(capsys, "fit", npz, "-o", out, "--param", "lam=-1")
    assert "no method 'x'" in refused(capsys, "fit", npz, "-o", out, "--method", "x")
    assert "--output" in refused(capsys, "fit", npz)
    absent = str(tmp_path / "absent" / "m")
    assert f"{absent}: the folder '" in refused(capsys, "fit", npz, "-o", absent)
    assert "is a folder, not a file" in refused(capsys, "fit", npz, "-o", str(tmp_path))
    assert os.listdir(tmp_path) == ["train.npz"]


def test_an_output_that_cannot_be_written_is_found_before_training(npz, capsys, monkeypatch):
    monkeypatch.setattr("schirn.app.cli._fit.train", lambda *_: pytest.fail("trained"))
    monkeypatch.setattr("schirn._files.os.access", lambda *_: False)
    assert "no permission to write" in refused(capsys, "fit", npz, "-o", "m")


def test_a_device_is_written_to_and_stays_a_device(npz, model, capsys):
    assert main(["fit", npz, "-o", os.devnull]) == 0
    assert not os.path.isfile(os.devnull)


@pytest.mark.parametrize("link", [None, os.symlink, os.link])
def test_the_input_is_never_overwritten(npz, model, tmp_path, capsys, link):
    before = Path(npz).read_bytes()
    out = npz
    if link is not None:
        out = str(tmp_path / "other.npz")
        link(npz, out)
    expected = f"{out}: is the input, which is never changed; choose another name"
    assert expected in refused(capsys, "fit", npz, "-o", out)
    assert expected in refused(capsys, "predict", model, npz, "-o", out)
    assert Path(npz).read_bytes() == before


def test_the_model_is_never_overwritten_by_its_predictions(npz, model, tmp_path, capsys):
    named = tmp_path / "model.csv"
    os.rename(model, named)
    err = refused(capsys, "predict", str(named), npz, "-o", str(named))
    assert f"{named}: is the input" in err
    assert schirn.load(named).label_names_[1] == "beach"


def test_a_set_without_features(tmp_path, data, capsys):
    np.savez(tmp_path / "y.npz", Y=data.y_true)
    assert "no features" in refused(capsys, "fit", str(tmp_path / "y.npz"), "-o", "m")


def test_predict_to_stdout(model, npz, data, capsys):
    assert main(["predict", model, npz]) == 0
    captured = capsys.readouterr()
    rows = rows_of(captured.out)
    names = schirn.load(model).predict_labels(data.X)
    assert [row["row"] for row in rows] == [str(k) for k in range(1, 61)]
    for row, expected in zip(rows, names, strict=True):
        text = ";".join(expected)
        assert row["labels"] == (f"'{text}" if text.startswith("=") else text)
    assert any(row["labels"].startswith("'=1+1") for row in rows)


def test_predict_with_values_and_thresholds(model, npz, data, capsys):
    argv = ["predict", model, npz, "--proba"]
    assert main([*argv, "--threshold", "top-3", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert all(len(row["labels"]) == 3 for row in document["results"])
    fitted = schirn.load(model)
    got = [list(row["proba"].values()) for row in document["results"]]
    np.testing.assert_allclose(got, fitted.predict_proba(data.X))
    assert main([*argv, "--threshold", "1e9"]) == 0
    rows = rows_of(capsys.readouterr().out)
    assert {row["labels"] for row in rows} == {""}
    assert list(rows[0])[:3] == ["row", "labels", "proba =1+1"]
    expected = fitted.predict_proba(data.X)[5, 2]
    assert float(rows[5]["proba dog"]) == pytest.approx(expected, rel=1e-5)


def test_predict_to_files(model, npz, data, tmp_path, capsys):
    fitted = schirn.load(model)
    assert main(["predict", model, npz, "-o", str(tmp_path / "p.csv")]) == 0
    assert capsys.readouterr().err.endswith(f"schirn: wrote 60 rows to {tmp_path / 'p.csv'}\n")
    assert len(rows_of((tmp_path / "p.csv").read_text())) == 60
    assert main(["predict", model, npz, "-o", str(tmp_path / "p.jsonl"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["output"] == str(tmp_path / "p.jsonl")
    lines = (tmp_path / "p.jsonl").read_text().splitlines()
    assert [json.loads(line)["labels"] for line in lines] == fitted.predict_labels(data.X)


def test_disambiguate(model, npz, data, tmp_path, capsys):
    assert main(["predict", model, npz, "--disambiguate"]) == 0
    rows = rows_of(capsys.readouterr().out)
    fitted = schirn.load(model)
    confidence = fitted.disambiguate(data.X, data.candidates)
    cells = np.argwhere(data.candidates)
    assert len(rows) == len(cells)
    for row, (i, j) in zip(rows, cells, strict=True):
        assert row["row"] == str(i + 1)
        assert row["label"].lstrip("'") == fitted.label_names_[j]
        assert float(row["confidence"]) == pytest.approx(confidence[i, j], rel=1e-5)
        assert row["verdict"] == ("wrong" if confidence[i, j] < 0.5 else "true")
    assert main(["predict", model, npz, "--disambiguate", "-o", str(tmp_path / "v.jsonl")]) == 0
    n_wrong = int((confidence[data.candidates == 1] < 0.5).sum())
    assert f"{n_wrong:,} of {len(cells):,} tags are judged wrong" in capsys.readouterr().err
    lines = (tmp_path / "v.jsonl").read_text("utf-8").splitlines()
    values = [json.loads(line)["confidence"] for line in lines]
    np.testing.assert_array_equal(values, confidence[data.candidates == 1])


def test_labels_are_matched_by_name(model, data, tmp_path, capsys):
    order = [2, 0]
    names = ["dog", "=1+1"]
    np.savez(tmp_path / "new.npz", X=data.X, C=data.candidates[:, order], label_names=names)
    path = str(tmp_path / "new.npz")
    assert main(["predict", model, path, "--disambiguate", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    listed = data.candidates * np.isin(np.arange(4), order)
    expected = schirn.load(model).disambiguate(data.X, listed)
    for entry in document["results"]:
        column = {"=1+1": 0, "dog": 2}[entry["label"]]
        assert entry["confidence"] == pytest.approx(expected[entry["row"] - 1, column])
    np.savez(tmp_path / "new.npz", X=data.X, C=data.candidates[:, order], label_names=["a", "b"])
    assert main(["predict", model, path, "--disambiguate", "--json"]) == 0
    captured = capsys.readouterr()
    document = json.loads(captured.out)
    counts = data.candidates[:, order].sum(axis=0)
    assert document["unseen_tags"] == {"a": counts[0], "b": counts[1]}
    assert {entry["verdict"] for entry in document["results"]} == {"unseen"}
    assert "2 tags were not seen in training and cannot be judged: " in captured.err


def test_predict_mistakes(model, npz, data, tmp_path, capsys):
    np.savez(tmp_path / "narrow.npz", X=data.X[:, :3], Y=data.y_true)
    narrow = str(tmp_path / "narrow.npz")
    err = refused(capsys, "predict", model, narrow)
    assert f"{narrow}: the number of features is 3, but {model} was trained on 8" in err
    assert "threshold 'most'" in refused(capsys, "predict", model, npz, "--threshold", "most")
    assert "one number or 4" in refused(capsys, "predict", model, npz, "--threshold", "[1, 2]")
    assert "must end in .csv" in refused(capsys, "predict", model, npz, "-o", "out.xlsx")
    err = refused(capsys, "predict", model, npz, "--disambiguate", "--proba")
    assert "--disambiguate cannot be combined with" in err
    np.savez(tmp_path / "bare.npz", X=data.X, Y=np.zeros((60, 0)))
    err = refused(capsys, "predict", model, str(tmp_path / "bare.npz"), "--disambiguate")
    assert "bare.npz: --disambiguate needs rows with labels" in err
    assert "there is no such file" in refused(capsys, "predict", "absent", npz)
    assert "not a model file" in refused(capsys, "predict", npz.replace("train", "narrow"), npz)
    with open(model, "r+b") as stream:
        stream.truncate(1000)
    assert "truncated" in refused(capsys, "predict", model, npz)


class TestTables:
    @pytest.fixture
    def table(self, tmp_path):
        pytest.importorskip("pandas")
        rng = np.random.default_rng(0)
        lines = ["a,b,tags"]
        for _ in range(60):
            a, b = rng.normal(size=2)
            tags = [name for name, value in (("warm", a), ("wet", b)) if value > 0]
            lines.append(f"{a:.4f},{b:.4f},{';'.join(tags or ['dry'])}")
        path = tmp_path / "weather.csv"
        path.write_text("\n".join(lines) + "\n")
        return str(path)

    @pytest.fixture
    def fitted(self, table, tmp_path, capsys):
        argv = ["fit", table, "--method", "CandidateRidge", "--param", "lam=1"]
        assert main([*argv, "-o", str(tmp_path / "w.schirn")]) == 0
        capsys.readouterr()
        return str(tmp_path / "w.schirn")

    def test_new_rows_need_no_labels_and_columns_go_by_name(self, fitted, tmp_path, capsys):
        new = tmp_path / "new.csv"
        new.write_text("b,extra,a\n-5,1,5\n5,1,-5\n")
        assert main(["predict", fitted, str(new), "--threshold", "top-1"]) == 0
        assert capsys.readouterr().out == "row,labels\n1,warm\n2,wet\n"
        new.write_text("b\n1\n")
        assert "no column 'a'" in refused(capsys, "predict", fitted, str(new))

    def test_tags_of_a_table_are_judged(self, fitted, table, tmp_path, capsys):
        assert main(["predict", fitted, table, "--disambiguate"]) == 0
        rows = rows_of(capsys.readouterr().out)
        assert {row["label"] for row in rows} == {"dry", "warm", "wet"}
        new = tmp_path / "new.csv"
        new.write_text("a,b,tags\n1,1,warm\n1,1,foggy\n")
        assert main(["predict", fitted, str(new), "--disambiguate"]) == 0
        captured = capsys.readouterr()
        first, second = rows_of(captured.out)
        assert first["verdict"] in ("true", "wrong")
        assert second == {"row": "2", "label": "foggy", "confidence": "", "verdict": "unseen"}
        assert "1 tag was not seen in training and cannot be judged: foggy" in captured.err

    def test_a_model_of_the_library_takes_the_columns_as_they_are(
        self, table, tmp_path, data, capsys
    ):
        """It was trained on arrays, so it knows no names of columns."""
        train = read_table(table)
        model = schirn.CandidateRidge(lam=1).fit(train.X, train.candidates)
        schirn.save(model, tmp_path / "m.schirn")
        new = tmp_path / "new.csv"
        new.write_text("p,q\n5,-5\n-5,5\n")
        argv = ["predict", str(tmp_path / "m.schirn"), str(new), "--proba", "--json"]
        assert main(argv) == 0
        document = json.loads(capsys.readouterr().out)
        expected = model.predict_proba(np.array([[5.0, -5], [-5, 5]]))
        values = [list(row["proba"].values()) for row in document["results"]]
        np.testing.assert_allclose(values, expected)

    def test_a_cell_that_is_no_number_is_named(self, fitted, tmp_path, capsys):
        new = tmp_path / "new.csv"
        new.write_text("a,b\n1,1\n1,one\n")
        assert "row 2, column 'b'" in refused(capsys, "predict", fitted, str(new))


def test_svmlight_rows_may_lack_the_last_features(tmp_path, data, capsys):
    lines = [
        ",".join(map(str, np.flatnonzero(y))) + "".join(f" {j + 1}:{v}" for j, v in enumerate(x))
        for x, y in zip(data.X, data.y_true, strict=True)
    ]
    train, new = tmp_path / "train.svm", tmp_path / "new.svm"
    train.write_text("\n".join(lines) + "\n")
    new.write_text("0 1:1 2:1\n")
    assert main(["fit", str(train), "-o", str(tmp_path / "m")]) == 0
    assert main(["predict", str(tmp_path / "m"), str(new)]) == 0


def test_packed_files_are_read_like_others(tmp_path, capsys):
    import gzip

    text = "@relation r\n@attribute a real\n@attribute x {0,1}\n@attribute y {0,1}\n@data\n"
    rows = "".join(f"{k % 7},{int(k % 7 > 3)},{int(k % 7 < 5)}\n" for k in range(40))
    (tmp_path / "x.arff.gz").write_bytes(gzip.compress((text + rows).encode()))
    model = str(tmp_path / "model")
    data = str(tmp_path / "x.arff.gz")
    assert main(["fit", data, "--labels", "2", "--method", "CandidateRidge", "-o", model]) == 0
    assert main(["predict", model, data, "--labels", "2"]) == 0
    assert len(capsys.readouterr().out.splitlines()) > 40


def rare_table(folder):
    """60 rows with one of two common tags, and 40 tags that one row lists each."""
    path = folder / "rare.csv"
    words = ("sand and waves", "snow and rocks")
    lines = [
        f"{words[i % 2]} number {i},{('beach', 'hill')[i % 2]}{f';rare {i}' * (i < 40)}"
        for i in range(60)
    ]
    path.write_text("\n".join(["text,tags", *lines]) + "\n")
    return str(path)


def test_tags_used_only_once_can_be_left_out(tmp_path, capsys):
    table = rare_table(tmp_path)
    model = str(tmp_path / "m.schirn")
    argv = ["fit", table, "--text", "text", "-o", model]
    assert main(argv) == 0
    printed = capsys.readouterr().out
    assert "40 of 42 labels are in only one row" in printed
    assert "--min-count 2 leaves them out" in printed
    megabytes = f"{os.path.getsize(model) / 1e6:,.1f} MB"
    assert f"{model} ({megabytes})" in printed
    assert main([*argv, "--min-count", "2"]) == 0
    captured = capsys.readouterr()
    assert "left out: 40 tags in fewer than 2 rows" in captured.err
    assert "only one row" not in captured.out
    assert schirn.load(model).label_names_ == ["beach", "hill"]
    assert main([*argv, "--min-count", "2", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["labels"], document["used_once"]) == (2, 0)
    assert document["bytes"] == os.path.getsize(model)
    err = refused(capsys, *argv, "--min-count", "31")
    assert "--min-count 31: no tag is listed in so many rows, the most frequent one is in 30" in err


def test_rows_without_predicted_tags_are_counted(tmp_path, capsys):
    table = rare_table(tmp_path)
    model = str(tmp_path / "m.schirn")
    out = str(tmp_path / "tagged.csv")
    assert main(["fit", table, "--text", "text", "--min-count", "2", "-o", model]) == 0
    capsys.readouterr()
    argv = ["predict", model, table, "-o", out]
    assert main([*argv, "--threshold", "top-1"]) == 0
    assert "got no tag" not in capsys.readouterr().err
    new = tmp_path / "new.csv"
    new.write_text('text\nsand and waves\n"something else"\nsnow and rocks\n')
    argv = ["predict", model, str(new), "-o", out]
    for extra in ([], ["--json"]):
        assert main([*argv, *extra]) == 0
        captured = capsys.readouterr()
        n_bare = sum(not row["tags_predicted"] for row in rows_of(Path(out).read_text()))
        assert n_bare
        hint = "--threshold top-1 gives every row its likeliest tag"
        assert f"note: {n_bare} of 3 rows got no tag; {hint}" in captured.err
    assert json.loads(captured.out)["rows_without_tags"] == n_bare
    assert main([*argv, "--threshold", "99"]) == 0
    assert "note: 3 of 3 rows got no tag\n" in capsys.readouterr().err
