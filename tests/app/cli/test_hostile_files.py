"""Outputs that would destroy something, pipes without a reader, and names that are not UTF-8."""

import io
import os
import signal
import subprocess
import sys
import threading
import time

import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import schirn
from schirn import Sieve
from schirn.app.cli import main
from schirn.persist import is_model_file, read_notes

ROWS = [("red pan", "pan"), ("steel pan", "pan;steel"), ("red chair", "chair"), ("oak", "chair")]
posix = pytest.mark.skipif(os.name != "posix", reason="named pipes and signals of POSIX")


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "items.csv").write_text(table())
    return tmp_path


def table():
    rows = [f"{i},{title},{tags}" for i, (title, tags) in enumerate(ROWS * 6)]
    return "\n".join(["id,title,tags", *rows, ""])


def fit(*words):
    return main(["fit", "items.csv", "--text", "title", *words])


def test_fit_replaces_model_files_only(place, capsys):
    other = place / "other.csv"
    other.write_text("a,b\n1,2\n")
    before = other.read_bytes()
    assert fit("-o", "other.csv") == 2
    assert "other.csv: exists and is not a model file" in capsys.readouterr().err
    assert other.read_bytes() == before
    assert fit("-o", "other.csv", "--force") == 0
    assert is_model_file("other.csv")
    # A model, and an empty file, may be replaced.
    assert fit("-o", "other.csv") == 0
    (place / "empty").touch()
    assert fit("-o", "empty") == 0
    assert is_model_file("empty")


def test_a_missing_file_is_said_first(place, capsys):
    assert main(["fit", "nothere.csv", "--id", "sku", "-o", "m.schirn"]) == 2
    assert capsys.readouterr().err == "schirn: nothere.csv: there is no such file.\n"


@posix
def test_a_pipe_without_a_reader_does_not_block(place, capsys, monkeypatch):
    assert fit("-o", "m.schirn") == 0
    os.mkfifo("out.csv")
    monkeypatch.setattr("schirn._files.READER_SECONDS", 0.3)
    start = time.monotonic()
    assert main(["predict", "m.schirn", "items.csv", "-o", "out.csv"]) == 2
    assert time.monotonic() - start < 30
    assert "out.csv: no program reads from this pipe" in capsys.readouterr().err


@posix
@pytest.mark.parametrize(
    "words",
    [
        ["items.csv", "--decisions", "pipe.jsonl"],
        ["items.csv", "--answers", "pipe.csv"],
        ["items.csv", "--expect", "pipe.toml"],
        ["items.csv", "--config", "pipe.toml"],
        ["pipe.csv"],
    ],
)
def test_a_pipe_without_a_writer_does_not_block(place, capsys, words):
    pipe = words[-1]
    os.mkfifo(pipe)
    assert main(["clean", *words, "--labels", "tags", "--id", "id"]) == 2
    assert f"{pipe}: this is a pipe or a device; write its content" in capsys.readouterr().err


@posix
def test_a_pipe_with_a_reader_gets_everything(place):
    assert fit("-o", "m.schirn") == 0
    assert main(["predict", "m.schirn", "items.csv", "-o", "file.csv"]) == 0
    os.mkfifo("out.csv")
    received = []
    reader = threading.Thread(target=lambda: received.append((place / "out.csv").read_bytes()))
    reader.start()
    assert main(["predict", "m.schirn", "items.csv", "-o", "out.csv"]) == 0
    reader.join(60)
    assert received == [(place / "file.csv").read_bytes()]


@posix
def test_a_hangup_leaves_no_part_of_a_file(place):
    """The program sleeps while it writes; a second signal comes during its end."""
    code = (
        "import sys, time, zipfile, schirn.persist as persist\n"
        "def wait(*_):\n"
        "    print('ready', flush=True)\n"
        "    time.sleep(60)\n"
        "persist._write_array = wait\n"
        "from schirn.app.cli import main\n"
        "sys.exit(main(['fit', 'items.csv', '--text', 'title', '-o', 'm.schirn']))\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout.readline() == "ready\n"
    assert list(place.glob(".*.part.*"))
    process.send_signal(signal.SIGHUP)
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=60)
    # The second signal may also arrive after the end, when nothing catches it any more.
    assert process.returncode in (128 + signal.SIGHUP, 128 + signal.SIGTERM, -signal.SIGTERM)
    assert err.splitlines()[-1] == "schirn: terminated"
    assert not list(place.glob(".*.part.*"))
    assert not (place / "m.schirn").exists()


@posix
def test_nohup_is_respected(place):
    code = (
        "import os, signal, sys\n"
        "signal.signal(signal.SIGHUP, signal.SIG_IGN)\n"
        "from schirn.app.cli import main\n"
        "import schirn.app.cli._fit as fit\n"
        "train = fit._train\n"
        "fit._train = lambda args: (os.kill(os.getpid(), signal.SIGHUP), train(args))[1]\n"
        "sys.exit(main(['fit', 'items.csv', '--text', 'title', '-o', 'm.schirn']))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=120)
    assert done.returncode == 0


@pytest.mark.skipif(sys.platform != "linux", reason="file names are bytes on Linux only")
def test_names_that_are_no_utf8(place, capsys):
    data, model = (os.fsdecode(name) for name in (b"it\xffems.csv", b"m\xff.schirn"))
    (place / data).write_text(table())
    options = ["--text", "title", "--id", "id"]
    assert main(["fit", data, *options, "-o", model]) == 0
    assert read_notes(model)["provenance"]["parameters"]["data"] == data
    assert main(["predict", model, data, "-o", "out.csv"]) == 0
    assert main(["update", data, "--model", model, "--id", "id"]) == 0
    assert main(["predict", model, data, "--json"]) == 0
    changes, copy = (os.fsdecode(name) for name in (b"c\xff.csv", b"o\xff.csv"))
    assert main(["clean", data, *options, "--remove", "3", "--changes", changes, "-o", copy]) == 0
    assert main(["apply", changes, data]) == 0
    assert main(["predict", os.fsdecode(b"no\xff"), data]) == 2
    captured = capsys.readouterr()
    assert "should not have happened" not in captured.err
    assert captured.err.splitlines()[-1].endswith("there is no such file")


@pytest.mark.parametrize("command", ["fit", "clean"])
@pytest.mark.parametrize("option", ["labels", "text", "id", "columns", "group"])
def test_two_dashes_are_a_name(place, capsys, command, option):
    words = [command, "items.csv", f"--{option}=--"]
    assert main([*words, *["-o", "m.schirn"] * (command == "fit")]) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert "there is no column '--'" in err


def test_versions_of_a_table_have_folders_of_their_own(place, capsys, monkeypatch):
    for name in ("sales.v1.csv", "sales.v2.csv"):
        (place / name).write_text(table())
        monkeypatch.setattr("sys.stdin", io.StringIO("q\n"))
        assert main(["review", name, "--text", "title", "--terminal"]) == 0
    folders = sorted(path.name for path in place.iterdir() if path.is_dir())
    assert folders == [".schirn", "sales.v1-review", "sales.v2-review"]


def test_a_pipeline_of_scikit_learn_is_no_model_of_tables(place, capsys):
    model = make_pipeline(StandardScaler(), Sieve())
    schirn.save(model.fit([[0.0], [1.0], [2.0]] * 5, [[0, 1], [1, 0], [1, 1]] * 5), "m.schirn")
    for command in (["predict", "m.schirn", "items.csv"], ["serve", "m.schirn"]):
        assert main(command) == 2
        err = capsys.readouterr().err
        assert err.count("\n") == 1
        assert "Pipeline" in err
