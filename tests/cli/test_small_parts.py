"""Small functions of the program: values of options, what is printed, how it ends."""

import argparse
import io
import os
import sys
from collections import Counter
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

import schirn.cli as cli
from schirn.cli._bench_output import _cell, _left, duration, progress, seconds
from schirn.cli._output import _plain, rich_console
from schirn.cli._reading import _columns, _part, assignment
from schirn.cli.bench import _verdict
from schirn.datasets import make_partial_multilabel
from schirn.exceptions import InputError


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("a=1", 1),
        ("a=0.5", 0.5),
        ("a=[1, 2]", [1, 2]),
        ("a=true", True),
        ("a=True", True),
        ("a=False", False),
        ("a=None", None),
        ("a=zero", "zero"),
        ("a=", ""),
        ("a=x=y", "x=y"),
    ],
)
def test_assignments(text, value):
    name, found = assignment(text)
    assert name == "a"
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize("text", ["a", "=1", "two words=1", "1a=2"])
def test_what_is_no_assignment(text):
    with pytest.raises(argparse.ArgumentTypeError, match="must look like NAME=VALUE"):
        assignment(text)


@pytest.mark.parametrize(
    ("text", "name", "suffix", "columns"),
    [
        ("Y", "labels", ".mat", "Y"),
        ("6", "labels", ".arff", 6),
        ("6", "truth", ".arff", ["6"]),
        ("a, b", "labels", ".csv", ["a", "b"]),
        ("tags", "labels", ".csv", "tags"),
        ("x", "features", ".csv", ["x"]),
        ('["a,b", 3]', "labels", ".csv", ["a,b", "3"]),
    ],
)
def test_columns(text, name, suffix, columns):
    assert _columns(text, name, suffix) == columns


def test_a_broken_list_of_columns_is_quoted():
    with pytest.raises(InputError, match=r"--labels '\[\"a\"' is not a JSON list"):
        _columns('["a"', "labels", ".csv")


def test_parts_of_a_set():
    data = make_partial_multilabel(n_samples=10, n_labels=3, random_state=0)
    assert _part(data, "all") is data
    with pytest.raises(InputError, match="no training part is marked in it; leave out --part test"):
        _part(data, "test")
    data = replace(data, n_train=7)
    assert [_part(data, part).n_samples for part in ("train", "test")] == [7, 3]
    with pytest.raises(InputError, match="its test part has no rows"):
        _part(replace(data, n_train=10), "test")


def test_what_json_lacks():
    document = {1: np.float64(0.5), "n": np.nan, "a": np.arange(2), "t": (np.inf, None, True)}
    assert _plain(document) == {"1": 0.5, "n": None, "a": [0, 1], "t": [None, None, True]}
    assert _plain(SimpleNamespace) == str(SimpleNamespace)


def test_without_rich_a_terminal_gets_plain_text(monkeypatch):
    monkeypatch.setitem(sys.modules, "rich.console", None)
    monkeypatch.setenv("TERM", "xterm")
    assert rich_console(SimpleNamespace(isatty=lambda: True)) is None


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (MemoryError(), "not enough memory"),
        (MemoryError("8 GiB"), "not enough memory (8 GiB)"),
        (OSError(2, "No such file", "x.csv"), "x.csv: No such file"),
        (OSError("odd\n  thing"), "odd thing"),
        (InputError("two\nlines"), "two lines"),
    ],
)
def test_errors_in_one_line(error, sentence, capsys, monkeypatch):
    def fail(_):
        raise error

    monkeypatch.setattr("schirn.cli.data.read", fail)
    assert cli.main(["data", "card", "digits_attributes"]) == 2
    assert capsys.readouterr().err == f"schirn: {sentence}\n"


def test_a_reader_that_has_gone_without_a_file_behind(monkeypatch):
    def gone(_):
        raise BrokenPipeError

    monkeypatch.setattr("schirn.cli.data.read", gone)
    monkeypatch.setattr(sys, "stdout", io.StringIO())
    assert cli.main(["data", "card", "digits_attributes"]) == 141
    assert sys.stdout.name == os.devnull
    sys.stdout.close()


def test_a_deprecation_is_shown_only_with_debug(capsys, monkeypatch):
    import warnings

    def warn(_):
        warnings.warn("old way", DeprecationWarning, stacklevel=1)
        warnings.warn("look here", UserWarning, stacklevel=1)
        return make_partial_multilabel(n_samples=10, n_labels=3, random_state=0)

    monkeypatch.setattr("schirn.cli.data.read", warn)
    assert cli.main(["data", "card", "x"]) == 0
    assert capsys.readouterr().err == "schirn: note: look here\n"
    assert cli.main(["data", "card", "x", "--debug"]) == 0
    assert "note: old way" in capsys.readouterr().err


@pytest.mark.parametrize(("text", "value"), [("1", 1.0), ("0.5", 0.5)])
def test_seconds(text, value):
    assert seconds(text) == value


@pytest.mark.parametrize("text", ["0", "-1", "inf", "nan", "soon"])
def test_what_are_no_seconds(text):
    with pytest.raises(argparse.ArgumentTypeError, match="a number of seconds above 0"):
        seconds(text)


@pytest.mark.parametrize(("text", "value"), [("90", 90), ("90s", 90), ("9m", 540), ("1.5h", 5400)])
def test_durations(text, value):
    assert duration(text) == value


@pytest.mark.parametrize("text", ["", "0", "-1m", "h", "1d", "infh"])
def test_what_are_no_durations(text):
    with pytest.raises(argparse.ArgumentTypeError, match=r"a time such as 90s, 9m or 1\.5h"):
        duration(text)


@pytest.mark.parametrize(
    ("left", "text"),
    [
        (None, ""),
        (20.2, ", about 20 s left"),
        (125, ", about 2 min 5 s left"),
        (3 * 3600 + 240, ", about 3 h 4 min left"),
    ],
)
def test_the_time_left(left, text):
    report = SimpleNamespace(seconds_left=left, finished=1, total=2)
    assert _left(report, ", ") == text
    report.finished = 2
    assert _left(report) == ""


def test_lines_of_cells(monkeypatch):
    monkeypatch.setattr("schirn.cli._bench_output.set_label", lambda row: "birds")
    monkeypatch.setattr("schirn.cli._bench_output.method_label", lambda row: "Sieve")
    row = {"fold": 1, "seed": 0, "status": "skipped", "reason": "no truth"}
    assert _cell(SimpleNamespace(row=row)) == "birds Sieve fold 1: skipped"
    row |= {"seed": 3, "status": "timeout"}
    assert _cell(SimpleNamespace(row=row)) == "birds Sieve fold 1 seed 3: timeout (no truth)"
    row |= {"seed": 0, "status": "done", "metrics": {"average_precision": 0.5}}
    row |= {"tune_seconds": 1.0, "fit_seconds": 0.5, "predict_seconds": 0.1}
    assert _cell(SimpleNamespace(row=row)) == "birds Sieve fold 1: 0.500 in 1.6 s"


def test_a_cell_that_failed_stays_on_the_screen(monkeypatch):
    """The bar moves on; what went wrong is printed above it."""
    console = pytest.importorskip("rich.console", reason="the bar needs rich")
    screen = io.StringIO()
    shown = console.Console(file=screen, force_terminal=True, color_system=None, width=200)
    monkeypatch.setattr("schirn.cli._bench_output.rich_console", lambda stream: shown)
    monkeypatch.setattr("schirn.cli._bench_output.set_label", lambda row: "birds")
    monkeypatch.setattr("schirn.cli._bench_output.method_label", lambda row: "Sieve")
    row = {"fold": 1, "seed": 0, "reason": "[bold]no memory"}
    with progress(quiet=False) as report:
        for k, status in enumerate(("skipped", "failed")):
            row = {**row, "status": status}
            report(SimpleNamespace(row=row, finished=k + 1, total=2, seconds_left=None))
    lines = [line.strip() for line in screen.getvalue().replace("\r", "\n").splitlines()]
    assert any(line.endswith("birds Sieve fold 1: failed ([bold]no memory)") for line in lines)
    assert "birds Sieve fold 1: skipped\n" not in screen.getvalue()


def test_why_cells_were_not_run(capsys):
    rows = [{"status": "skipped", "reason": f"reason {k // 2}"} for k in range(14)]
    rows += [{"status": "timeout", "reason": "60 s"}] * 3
    assert _verdict(rows, Counter(row["status"] for row in rows)) == 1
    lines = capsys.readouterr().err.splitlines()
    assert lines[0].endswith("3 timeout: 60 s")
    assert lines[-2].endswith("and 3 more reasons; see the rows")
    assert lines[-1].endswith("3 of 17 cells failed or timed out")
    assert len(lines) == 7
    assert _verdict(rows[:2], Counter(skipped=2)) == 1
    assert "no cell was run" in capsys.readouterr().err
    assert _verdict([{"status": "done"}], Counter(done=1)) == 0
