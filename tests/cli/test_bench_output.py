"""Progress and summaries of the commands that run benchmarks, and the values of their options."""

import argparse
import io
from collections import Counter
from types import SimpleNamespace

import pytest

from schirn.cli._bench_output import _left, _run, duration, progress, seconds
from schirn.cli.bench import _verdict


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
    with pytest.raises(argparse.ArgumentTypeError, match=r"a duration such as 90s, 9m or 1\.5h"):
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


def test_lines_of_runs(monkeypatch):
    monkeypatch.setattr("schirn.cli._bench_output.dataset_label", lambda row: "birds")
    monkeypatch.setattr("schirn.cli._bench_output.method_label", lambda row: "Sieve")
    row = {"fold": 1, "seed": 0, "status": "skipped", "reason": "no truth"}
    assert _run(SimpleNamespace(row=row)) == "birds Sieve fold 1: skipped"
    row |= {"seed": 3, "status": "timeout"}
    assert _run(SimpleNamespace(row=row)) == "birds Sieve fold 1 seed 3: timeout (no truth)"
    row |= {"seed": 0, "status": "done", "metrics": {"average_precision": 0.5}}
    row |= {"tune_seconds": 1.0, "fit_seconds": 0.5, "predict_seconds": 0.1}
    assert _run(SimpleNamespace(row=row)) == "birds Sieve fold 1: 0.500 in 1.6 s"


def test_a_run_that_failed_stays_on_the_screen(monkeypatch):
    """The bar moves on; what went wrong is printed above it."""
    console = pytest.importorskip("rich.console", reason="the bar needs rich")
    screen = io.StringIO()
    shown = console.Console(file=screen, force_terminal=True, color_system=None, width=200)
    monkeypatch.setattr("schirn.cli._bench_output.rich_console", lambda stream: shown)
    monkeypatch.setattr("schirn.cli._bench_output.dataset_label", lambda row: "birds")
    monkeypatch.setattr("schirn.cli._bench_output.method_label", lambda row: "Sieve")
    row = {"fold": 1, "seed": 0, "reason": "[bold]no memory"}
    with progress(quiet=False) as report:
        for k, status in enumerate(("skipped", "failed")):
            row = {**row, "status": status}
            report(SimpleNamespace(row=row, finished=k + 1, total=2, seconds_left=None))
    lines = [line.strip() for line in screen.getvalue().replace("\r", "\n").splitlines()]
    assert any(line.endswith("birds Sieve fold 1: failed ([bold]no memory)") for line in lines)
    assert "birds Sieve fold 1: skipped\n" not in screen.getvalue()


def test_reasons_for_failed_and_skipped_runs(capsys):
    results = [{"status": "skipped", "reason": f"reason {k // 2}"} for k in range(14)]
    results += [{"status": "timeout", "reason": "60 s"}] * 3
    assert _verdict(results, Counter(result["status"] for result in results)) == 1
    lines = capsys.readouterr().err.splitlines()
    assert lines[0].endswith("3 timeout: 60 s")
    assert lines[-2].endswith("and 3 more reasons; see the results")
    assert lines[-1].endswith("3 of 17 runs failed or timed out")
    assert len(lines) == 7
    assert _verdict(results[:2], Counter(skipped=2)) == 1
    assert "nothing was run" in capsys.readouterr().err
    assert _verdict([{"status": "done"}], Counter(done=1)) == 0
