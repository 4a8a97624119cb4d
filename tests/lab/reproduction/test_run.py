import json
import shutil
import signal
import subprocess
import sys
from datetime import date

import numpy as np
import pytest
from lab.bench.bench_helpers import environment, lines, stable, wait_for
from scipy.io import savemat

from schirn.app.cli import main
from schirn.datasets import make_partial_multilabel
from schirn.exceptions import DataError, InputError
from schirn.lab.bench import read_rows
from schirn.lab.reproduction import make_plan, reproduce
from schirn.lab.reproduction._experiments import FULL, QUICK
from schirn.lab.reproduction._plan import plan_batches

MEASURED = {"average_precision", "ranking_loss", "coverage", "hamming_loss", "one_error"}


@pytest.fixture(scope="module")
def data():
    return make_partial_multilabel(n_samples=60, n_features=5, n_labels=4, r=1, random_state=0)


@pytest.fixture
def place(tmp_path, monkeypatch, data):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SCHIRN_DATA", raising=False)
    np.savez(tmp_path / "tiny.npz", X=data.X, Y=data.y_true, C=data.candidates)
    return tmp_path


def test_plan_skips_with_reasons(place):
    plan = make_plan(FULL)
    assert not plan.shapes
    assert plan.skipped["music_style"].startswith("put the authors' music_style.mat into")
    assert "SCHIRN_DATA" in plan.skipped["yeastmf"]
    with pytest.raises(DataError, match="none of the data sets is available"):
        reproduce(place / "out", plan)
    found = make_plan(QUICK, sets=["tiny.npz:1", "absent:2"], methods=["Schirn"])
    assert found.shapes == {"tiny:1": (60, 5, 4)}
    assert list(found.skipped) == ["absent:2"]
    assert "skipped absent:2" in found.to_text()


def test_music_runs_when_its_file_is_there(place, monkeypatch, data):
    truth, candidates = data.y_true.T.astype(float), data.candidates.T.astype(float)
    parts = {"data": data.X, "target": truth, "candidate_labels": candidates}
    savemat(place / "music_emotion.mat", parts)
    monkeypatch.setenv("SCHIRN_DATA", str(place))
    plan = make_plan(FULL, methods=["Schirn"])
    assert plan.shapes == {"music_emotion": (60, 5, 4)}
    assert "music_style" in plan.skipped


def test_unknown_study(place):
    plan = make_plan(QUICK, sets=["tiny.npz:1"])
    with pytest.raises(InputError, match="there is no study 'ranks'"):
        reproduce(place / "out", plan, chosen=["ranks"])


@pytest.mark.slow
def test_command_from_end_to_end(place, capsys):
    command = ["reproduce", "--quick", "--datasets", "tiny.npz:1,tiny.npz:own,absent:2"]
    command += ["--methods", "Schirn,NLR,CandidateRidge,OracleRidge", "--folds", "2", "--jobs", "0"]
    command += ["--output", "out"]
    studied = ["--studies", "theorem,convergence,ablation"]
    assert main([*command, *studied]) == 0
    captured = capsys.readouterr()
    assert "schirn: skipped absent:2" in captured.err
    assert "start with out" in captured.out
    text = (place / "out" / "reproduction.md").read_text("utf-8")
    assert f"on {date.today().isoformat()}: " in text
    assert "**This is the quick part**" in text
    assert "](results/reproduction.md)" in text
    assert "The bound of the theorem holds" in text
    tables = (place / "out" / "results" / "reproduction.md").read_text("utf-8")
    assert "We compare Schirn, Schirn†, NLR" not in tables
    assert "We compare Schirn, NLR, CandidateRidge and OracleRidge on one data set" in tables
    names = {path.name for path in (place / "out").iterdir()}
    assert {"rows", "report.html", "theorem.jsonl", "ablation.jsonl"} <= names
    assert (place / "out" / "figures" / "gap_closed.svg").stat().st_size > 1000
    made = {path.suffix for path in (place / "out" / "tables").glob("ablation.*")}
    assert made == {".md", ".tex", ".csv"}
    results = read_rows(place / "out" / "rows", history=True)
    assert len(results) == 16
    assert set(results[0]["metrics"]) >= MEASURED
    assert main([*command, "--studies", "none", "--quiet"]) == 0
    assert len(read_rows(place / "out" / "rows", history=True)) == 16


SLOW = """
import os, time

class Slow:
    def fit(self, X, y):
        time.sleep(float(os.environ.get("SLOW_SECONDS", "0.4")))
        self.mean_ = y.mean(axis=0)
        return self

    def decision_function(self, X):
        return self.mean_ + 0.01 * X[:, :1]
"""


@pytest.mark.slow
def test_killed_and_resumed_gives_the_same_results(place):
    (place / "slow.py").write_text(SLOW)
    arguments = ["--quick", "--datasets", "tiny.npz:1", "--folds", "3", "--quiet"]
    arguments += ["--methods", "slow:Slow,NLR,CandidateRidge", "--studies", "ablation"]
    command = [sys.executable, "-m", "schirn", "reproduce", *arguments, "--jobs", "1"]
    folder = place / "out" / "rows"
    slower = {**environment(), "SLOW_SECONDS": "3"}
    process = subprocess.Popen([*command, "--output", "out"], cwd=place, env=slower)
    wait_for(lambda: len(lines(folder)) >= 1)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert len(lines(folder)) < 9
    for output in ("out", "whole"):
        assert main(["reproduce", *arguments, "--jobs", "0", "--output", output]) == 0
    for name, count in (("rows", 9), ("ablation", 15)):
        found = lines(place / "out" / name)
        assert len(found) == count
        assert stable(found) == stable(lines(place / "whole" / name))


def test_keys_know_neither_versions_nor_folders(place, monkeypatch):
    """Results of another machine count, whatever its libraries and wherever its data are."""
    other = place / "elsewhere"
    other.mkdir()
    shutil.copy(place / "tiny.npz", other / "tiny.npz")
    keys = []
    for folder, version in ((place, "2.0.0"), (other, "2.5.0")):
        monkeypatch.setattr(np, "__version__", version)
        monkeypatch.setenv("SCHIRN_DATA", str(folder))
        plan = make_plan(QUICK, sets=["tiny:1"], methods=["Schirn", "NLR"], folds=2)
        batches = plan_batches(plan, folder / "out", ["ablation", "cooccurrence"])
        keys.append([(batch.folder.name, run.key) for batch in batches for run in batch.runs])
    assert keys[0] == keys[1]
    # Tables with raw and kernel features and with the oracle, and two studies.
    assert len(set(keys[0])) == len(keys[0]) == 2 * (2 + 2 + 1) + 2 * (5 + 5)


def test_plan_as_json(place, capsys):
    assert main(["reproduce", "--quick", "--datasets", "tiny.npz:1", "--plan", "--json"]) == 0
    plan = json.loads(capsys.readouterr().out)
    assert plan["settings"] == ["tiny:1"]
    assert not (place / "reproduction").exists()


def test_a_failing_method_of_the_user_is_reported(place, capsys):
    (place / "mine.py").write_text(
        "class Failing:\n"
        "    def fit(self, X, y):\n"
        "        raise RuntimeError('no luck')\n"
        "    def decision_function(self, X):\n"
        "        return X\n"
    )
    command = ["reproduce", "--quick", "--datasets", "tiny.npz:1", "--folds", "2", "--jobs", "0"]
    command += ["--methods", "mine:Failing,candidateridge,OracleRidge", "--studies", "none"]
    assert main([*command, "--quiet"]) == 1
    error = capsys.readouterr().err
    assert "2 of 6 fits failed or timed out; the first: RuntimeError: no luck" in error
    assert (place / "reproduction" / "reproduction.md").exists()
