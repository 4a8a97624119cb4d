import io
import os
import re
import subprocess
import sys
import traceback
from types import SimpleNamespace

import numpy as np
import pytest

from schirn.cli import commands, main
from schirn.cli.output import _plain, coloured, colours, rich_console

pytest.importorskip("rich", reason="without Rich nothing is coloured")

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
    """Run a command on a terminal; return what went to stdout and stderr."""
    for name in COLOUR_VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")

    def run(*argv, stream=Terminal):
        out, err = stream(), stream()
        monkeypatch.setattr(sys, "stdout", out)
        monkeypatch.setattr(sys, "stderr", err)
        code = main(list(argv))
        monkeypatch.undo()
        return code, out.getvalue() + err.getvalue()

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
        "demo": ["demo", "--no-page"],
        "fit": ["fit", str(table), *learned, "-o", str(folder / "again.schirn")],
        "predict": ["predict", str(model), str(table)],
        "serve": ["serve", str(table)],
        "export": ["export", str(model), "-o", str(folder / "model.onnx")],
        "clean": ["clean", str(table), "--labels", "tags", "--columns", "x,z"],
        "update": ["update", str(table), "--model", str(model), "--id", "sku"],
        "apply": ["apply", str(changes), str(table)],
        "undo": ["undo", str(changes), str(table)],
        "certificate": ["certificate", "check", str(table)],
        "review": ["review", str(folder / "nothing")],
        "bench": [*bench, "2", "--jobs", "0", "-o", str(folder / "rows")],
        "leaderboard": ["leaderboard", "build", str(table), "-o", str(folder / "site")],
        "reproduce": ["reproduce", "--plan"],
        "methods": ["methods"],
        "data": ["data", "list"],
        "doctor": ["doctor"],
    }


def command_names():
    return [command.name for command in commands()]


def test_every_command_is_tried(calls):
    assert sorted(calls) == sorted(command_names())


# Those that take seconds are tried once: all ask the same functions.
SLOW = ("demo", "clean", "bench", "doctor")
WAYS = [
    (name, how)
    for how in ("NO_COLOR", "--color=never", "dumb")
    for name in command_names()
    if name not in SLOW or how == "--color=never"
]


@pytest.mark.parametrize(("name", "how"), WAYS)
def test_no_command_styles_when_asked_not_to(terminal, calls, name, how):
    argv = list(calls[name])
    if how.startswith("--"):
        argv.append(how)
    elif how == "dumb":
        terminal.setenv("TERM", "dumb")
    else:
        terminal.setenv("NO_COLOR", "1")
    code, text = terminal(*argv)
    assert code in (0, 2)
    assert text
    assert not STYLE.search(text)


def test_a_terminal_gets_styles_and_a_pipe_does_not(terminal):
    assert STYLE.search(terminal("methods")[1])
    assert not STYLE.search(terminal("methods", stream=io.StringIO)[1])


@pytest.mark.parametrize("how", ["FORCE_COLOR", "--color=always"])
def test_styles_can_be_forced_into_a_pipe(terminal, how):
    if how == "FORCE_COLOR":
        terminal.setenv("FORCE_COLOR", "1")
    terminal.setenv("TERM", "dumb")
    argv = ["methods"] + ([how] if how.startswith("--") else [])
    assert STYLE.search(terminal(*argv, stream=io.StringIO)[1])


def test_forced_colours_do_not_animate_a_pipe(terminal, calls):
    terminal.setenv("FORCE_COLOR", "1")
    text = terminal(*calls["bench"], "--no-scores", stream=io.StringIO)[1]
    assert "\x1b[2K" not in text
    assert "\r" not in text


def test_the_option_beats_the_variables_and_no_beats_force(terminal):
    terminal.setenv("NO_COLOR", "1")
    terminal.setenv("FORCE_COLOR", "1")
    assert not STYLE.search(terminal("methods")[1])
    terminal.setenv("NO_COLOR", "1")
    assert STYLE.search(terminal("--color", "always", "methods")[1])


def test_an_empty_variable_says_nothing(terminal, monkeypatch):
    for name in ("NO_COLOR", "FORCE_COLOR"):
        monkeypatch.setenv(name, "")
    monkeypatch.setenv("TERM", "xterm")
    assert coloured(Terminal())
    assert not coloured(io.StringIO())


def test_the_variables_are_put_back(monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "3")
    monkeypatch.delenv("NO_COLOR", raising=False)
    with colours("never"):
        assert os.environ["NO_COLOR"] == "1"
        assert "FORCE_COLOR" not in os.environ
    assert os.environ["FORCE_COLOR"] == "3"
    assert "NO_COLOR" not in os.environ


def test_a_traceback_keeps_to_the_option(monkeypatch):
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setattr("schirn.lab.cli.methods.run", lambda _: 1 / 0)
    with pytest.raises(ZeroDivisionError) as caught:
        main(["methods", "--color=never", "--debug"])
    assert os.environ.get("NO_COLOR") == "1"
    assert not STYLE.search("".join(traceback.format_exception(caught.value)))


@pytest.mark.skipif(not hasattr(os, "openpty"), reason="needs a pseudo-terminal")
@pytest.mark.parametrize(("options", "styled"), [([], True), (["--color=never"], False)])
def test_on_a_real_terminal(options, styled):
    ours, theirs = os.openpty()
    environment = {k: v for k, v in os.environ.items() if k not in COLOUR_VARIABLES}
    environment |= {"TERM": "xterm", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "schirn", "methods", *options]
    done = subprocess.Popen(command, stdout=theirs, stderr=theirs, env=environment)
    os.close(theirs)
    text = b""
    while True:
        try:
            part = os.read(ours, 65536)
        except OSError:
            break
        if not part:
            break
        text += part
    assert done.wait() == 0
    os.close(ours)
    assert "Sieve" in text.decode()
    assert bool(STYLE.search(text.decode())) == styled


def test_without_rich_a_terminal_gets_plain_text(monkeypatch):
    monkeypatch.setitem(sys.modules, "rich.console", None)
    monkeypatch.setenv("TERM", "xterm")
    assert rich_console(SimpleNamespace(isatty=lambda: True)) is None


def test_what_json_lacks():
    document = {1: np.float64(0.5), "n": np.nan, "a": np.arange(2), "t": (np.inf, None, True)}
    assert _plain(document) == {"1": 0.5, "n": None, "a": [0, 1], "t": [None, None, True]}
    assert _plain(SimpleNamespace) == str(SimpleNamespace)
