"""Summaries of the commands that run benchmarks, and the values of their options."""

import argparse
from collections import Counter

import pytest

from schirn.cli.parser import duration
from schirn.lab.cli.bench import _verdict


@pytest.mark.parametrize(("text", "value"), [("90", 90), ("90s", 90), ("9m", 540), ("1.5h", 5400)])
def test_durations(text, value):
    assert duration(text) == value


@pytest.mark.parametrize("text", ["", "0", "-1m", "h", "1d", "infh", "nan", "soon"])
def test_what_are_no_durations(text):
    with pytest.raises(argparse.ArgumentTypeError, match=r"a duration such as 90s, 9m or 1\.5h"):
        duration(text)


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
