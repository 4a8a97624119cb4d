"""A few random kills; `python -m benchmarks.soak` does many."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="there is no kill -9 here")
@pytest.mark.skipif(not (ROOT / "benchmarks").is_dir(), reason="benchmarks/ is not here")
def test_random_kills_change_nothing():
    options = ("--kills", "2", "--rows", "60", "--folds", "2", "--seed", "1")
    options += ("--tuning", "none")
    ran = subprocess.run(
        [sys.executable, "-m", "benchmarks.soak", *options],
        cwd=ROOT, capture_output=True, text=True,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "20 runs" in ran.stdout
    assert "the same results and scores as undisturbed" in ran.stdout


def test_the_comparison_can_fail(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT))
    soak = pytest.importorskip("benchmarks.soak", reason="benchmarks/ is not here")
    result = {"key": "a", "scores": None, "metrics": {"x": 1}, "finished": 1.0}
    found = {
        "whole": [result],
        "killed": [result],
        "twice": [result, result],
        "other": [{**result, "metrics": {}}],
    }
    for name in found:
        (tmp_path / name).mkdir()
        (tmp_path / name / "rows-x.jsonl").touch()
    monkeypatch.setattr(soak, "read", lambda folder: found[folder.name])
    assert soak.compare(tmp_path / "whole", tmp_path / "killed") == (1, [])
    assert soak.compare(tmp_path / "whole", tmp_path / "twice")[1]
    assert soak.compare(tmp_path / "whole", tmp_path / "other")[1]
