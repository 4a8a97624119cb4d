import io
import json
import re
import sys
from types import SimpleNamespace

import numpy as np
import pytest

from schirn.app.cli import commands, main
from schirn.program.output import print_json

STYLE = re.compile(r"\x1b\[[\d;]*m")
COLOUR_VARIABLES = ("NO_COLOR", "FORCE_COLOR", "TERM", "COLORTERM")


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self):
        return True

    def fileno(self):
        raise OSError("no file behind it")


@pytest.fixture
def terminal(monkeypatch):
    """Run a command on a terminal; return the exit code and what went to stdout."""
    for name in COLOUR_VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")

    def run(*argv, stream=Terminal):
        out, err = stream(), stream()
        monkeypatch.setattr(sys, "stdout", out)
        monkeypatch.setattr(sys, "stderr", err)
        code = main(list(argv))
        monkeypatch.undo()
        return code, out.getvalue()

    run.setenv = monkeypatch.setenv
    return run


@pytest.fixture(scope="module")
def calls(tmp_path_factory):
    """A quick call of every command, and whether it prints a table."""
    folder = tmp_path_factory.mktemp("colours")
    table = folder / "photos.csv"
    rows = ["a;b,1,0.5", "b,0,0.1", "a,1,0.4", "b;a,0,0.2"] * 8
    rows = [f"{row},s{k}" for k, row in enumerate(rows)]
    table.write_text("tags,x,z,sku\n" + "\n".join(rows) + "\n")
    model = folder / "model.schirn"
    learned = ["--labels", "tags", "--columns", "x,z"]
    assert main(["fit", str(table), *learned, "-o", str(model)]) == 0
    changes = folder / "changes.csv"
    assert main(["clean", str(table), "--columns", "x,z", "--changes", str(changes)]) == 0
    bench = ["bench", "--datasets", "digits_attributes", "--methods", "CandidateRidge", "--folds"]
    return {
        "demo": ["demo", "-o", str(folder / "demo.html")],
        "fit": ["fit", str(table), *learned, "-o", str(folder / "again.schirn")],
        "predict": ["predict", str(model), str(table)],
        "serve": ["serve", str(table)],
        "clean": ["clean", str(table), "--labels", "tags", "--columns", "x,z"],
        "update": ["update", str(table), "--model", str(model), "--id", "sku"],
        "apply": ["apply", str(changes), str(table)],
        "undo": ["undo", str(changes), str(table)],
        "certificate": ["certificate", "check", str(table)],
        "review": ["review", str(folder / "nothing")],
        "vocabulary": ["vocabulary", str(table), "--labels", "tags"],
        "bench": [*bench, "2", "--jobs", "0", "-o", str(folder / "rows")],
        "leaderboard": ["leaderboard", "build", str(table), "-o", str(folder / "site")],
        "reproduce": ["reproduce", "--plan"],
        "methods": ["methods"],
        "data": ["data", "list"],
        "doctor": ["doctor"],
    }


def test_every_command_is_tried(calls):
    assert sorted(calls) == sorted(command.name for command in commands())


@pytest.mark.parametrize("name", [command.name for command in commands()])
def test_no_command_prints_styles(terminal, calls, name):
    code, text = terminal(*calls[name])
    assert code in (0, 2)
    assert not STYLE.search(text)


def test_what_json_lacks(capsys):
    document = {1: np.float64(0.5), "n": np.nan, "a": np.arange(2), "t": (np.inf, None, True)}
    print_json({**document, "c": SimpleNamespace})
    plain = {"1": 0.5, "n": None, "a": [0, 1], "t": [None, None, True], "c": str(SimpleNamespace)}
    assert json.loads(capsys.readouterr().out) == plain
