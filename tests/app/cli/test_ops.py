"""Configuration files, logs, quiet runs, errors as JSON, and provenance."""

import hashlib
import json
import logging

import pytest
from app.cli.clean_helpers import make_items, refused, write_csv

import schirn
from schirn.app.cli import main
from schirn.datasets import make_partial_multilabel
from schirn.persist import read_notes


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_csv(tmp_path / "items.csv", make_items(60))
    return tmp_path


def document(capsys, *words, code=0):
    assert main([*words, "--json"]) == code
    return json.loads(capsys.readouterr().out)


def parameters(capsys, *words):
    return document(capsys, *words)["provenance"]["parameters"]


@pytest.mark.parametrize("name", ["schirn.toml", "pyproject.toml", "other.toml"])
def test_options_come_from_a_file(place, capsys, name):
    text = 'id = "id"\n[clean]\ntext = ["description"]\nmin-count = 3\nparam = {max_iter = 2}\n'
    if name == "pyproject.toml":
        text = text.replace("[clean]", "[tool.schirn.clean]")
        text = f"[tool.schirn]\n{text}\n[tool.other]\nx = 1\n"
    (place / name).write_text(text)
    words = ["clean", "items.csv", *["--config=other.toml"] * (name == "other.toml")]
    options = parameters(capsys, *words)
    assert options["id"] == "id"
    assert options["text"] == ["description"]
    assert options["min_count"] == 3
    assert options["param"] == [["max_iter", 2]]
    # What is typed wins, also over options that may be repeated.
    options = parameters(capsys, *words, "--min-count", "4", "--param", "max_iter=1")
    assert options["min_count"] == 4
    assert options["param"] == [["max_iter", 1]]


def test_required_options_and_flags_come_from_a_file(place, capsys):
    (place / "schirn.toml").write_text('json = true\n[fit]\noutput = "m.schirn"\ntext = "code"\n')
    assert main(["fit", "items.csv"]) == 0
    assert json.loads(capsys.readouterr().out)["model"] == "m.schirn"
    # Commands without the options are as before.
    assert main(["methods"]) == 0


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('txt = "a"', "there is no option 'txt'; did you mean 'text'?"),
        (
            "[clean]\nmin_cuont = 2",
            "there is no option 'clean.min_cuont'; did you mean 'min-count'?",
        ),
        ("[claen]\nseed = 2", "there is no option 'claen'; did you mean 'clean'?"),
        ("[clean]\nsuggest = 1", "suggest must be true or false, not 1"),
        ("[clean]\nseed = {a = 1}", "seed cannot be {'a': 1}"),
        ("[clean", "not TOML"),
    ],
)
def test_wrong_configurations_are_refused(place, capsys, text, words):
    (place / "schirn.toml").write_text(text)
    error = refused(capsys, "clean", "items.csv")
    assert words in error
    assert "schirn.toml" in error


def test_a_wrong_value_names_the_file(place, capsys):
    (place / "schirn.toml").write_text("[clean]\nseed = -1\n")
    error = refused(capsys, "clean", "items.csv")
    assert "--seed: must be" in error
    assert "options also come from schirn.toml" in error


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["clean", "absent.csv"], "absent.csv: there is no such file"),
        (["clean", "items.csv", "--seed", "x"], "--seed: must be a whole number"),
        (["claen"], "there is no command 'claen'"),
    ],
)
def test_errors_are_json(place, capsys, words, sentence):
    assert main([*words, "--json"]) == 2
    captured = capsys.readouterr()
    error = json.loads(captured.out)
    assert sentence in error["error"]
    assert error["exit_code"] == 2
    assert captured.err == f"schirn: {error['error']}\n"


def test_quiet_prints_errors_only(place, capsys):
    words = ["clean", "items.csv", "--text", "description", "--quiet"]
    assert main([*words, "-o", "c.csv", "--remove", "3"]) == 0
    assert capsys.readouterr() == ("", "")
    (place / "expect.toml").write_text("removed_share = 0\n")
    assert main([*words, "--remove", "3", "--expect", "expect.toml"]) == 4
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("schirn: removed_share: ")
    assert document(capsys, *words)["rows"] == 60


def test_logs_are_json_lines_by_room(place, capsys):
    words = ["fit", "items.csv", "--text", "description", "-o", "m.schirn", "--log-json"]
    assert main([*words, "--id", "id"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert {line["logger"] for line in lines} >= {"schirn.app", "schirn.solvers"}
    steps = [
        "reading the data",
        "making features",
        "counting words",
        "counting character sequences",
        "looking for copies",
        "writing the model",
    ]
    assert [line["message"] for line in lines if line["message"] in steps] == steps
    assert all(set(line) == {"time", "level", "logger", "message"} for line in lines)
    absent = ["absent" if word == "description" else word for word in words]
    assert main(absent) == 2
    (error,) = [
        line for line in map(json.loads, capsys.readouterr().err.splitlines())
        if line["level"] == "error"
    ]  # fmt: skip
    assert "there is no column 'absent'" in error["message"]
    assert not logging.getLogger("schirn").handlers


def test_a_library_call_is_logged(caplog):
    with caplog.at_level(logging.INFO, logger="schirn"):
        data = make_partial_multilabel(n_samples=60, n_labels=4, random_state=0)
        schirn.find_noisy_labels(data.X, data.candidates)
    assert "schirn.cleaning" in {record.name for record in caplog.records}
    assert {record.name.count(".") for record in caplog.records} == {1}


def test_documents_and_models_say_where_they_come_from(place, capsys):
    words = ["fit", "items.csv", "--text", "description", "-o", "m.schirn"]
    source = document(capsys, *words, "--param", "random_state=7")["provenance"]
    assert source["schirn"] == schirn.__version__
    assert source["seed"] == 7
    assert source["parameters"]["text"] == ["description"]
    data = (place / "items.csv").read_bytes()
    assert source["data_sha256"] == hashlib.sha256(data).hexdigest()
    assert set(source["libraries"]) >= {"numpy", "scipy", "scikit-learn"}
    stored = read_notes("m.schirn")["provenance"]
    assert {**stored, "time": 0} == {**source, "time": 0}
    schirn.load("m.schirn")
