"""A few random kills; `python -m benchmarks.soak` does many."""

import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[4]


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="there is no kill -9 here")
@pytest.mark.skipif(not (ROOT / "benchmarks").is_dir(), reason="benchmarks/ is not here")
def test_random_kills_change_nothing():
    options = ("--kills", "1", "--tables", "300", "--seed", "1")
    ran = subprocess.run(
        [sys.executable, "-m", "benchmarks.soak", *options],
        cwd=ROOT, capture_output=True, text=True,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stdout + ran.stderr
    for name in ("bench", "clean", "review", "model"):
        assert re.search(rf"^{name} +[1-9]\d* kills; ", ran.stdout, re.M), ran.stdout
    assert "nothing lost" in ran.stdout


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
    monkeypatch.setattr(soak, "read_rows", lambda folder, history: found[folder.name])
    assert soak.compare(tmp_path / "whole", tmp_path / "killed") == (1, [])
    assert soak.compare(tmp_path / "whole", tmp_path / "twice")[1]
    assert soak.compare(tmp_path / "whole", tmp_path / "other")[1]
