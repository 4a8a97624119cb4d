"""The key of a run knows the code of its method: results of other code are stale and run again."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from lab.bench.bench_helpers import bench, environment, quick, tiny, write_workplace

import schirn
from schirn.lab.bench import read_rows
from schirn.lab.bench.running._code import code_checksum
from schirn.lab.bench.running._folder import ResultsFolder
from schirn.lab.bench.running._methods import own_methods
from schirn.lab.bench.running._plan import plan_runs

METHOD = '''
"""A method in a package of its own."""
from . import helper
from .numbers import half


class Half:
    def fit(self, X, y):
        """Learn the frequencies."""
        if y.ndim != 2:
            raise ValueError("no labels")
        self.mean_ = helper.mean(y) * half()  # halved
        return self

    def decision_function(self, X):
        return self.mean_ * (1 + 0.01 * X[:, :1])
'''
HELPER = "def mean(y: object) -> object:\n    return y.mean(axis=0)\n"
NUMBERS = "def half():\n    return 0.5\n"
CHECKSUM = """
from mypkg.method import Half
from schirn.lab.bench.running._code import code_checksum
print(code_checksum(Half))
"""


@pytest.fixture
def place(tmp_path):
    package = write_workplace(tmp_path) / "mypkg"
    package.mkdir()
    for name, text in (("__init__", ""), ("method", METHOD), ("helper", HELPER)):
        (package / f"{name}.py").write_text(text)
    (package / "numbers.py").write_text(NUMBERS)
    return tmp_path


def checksum(place):
    """Checksum in a new process, which has not imported the package before."""
    command = [sys.executable, "-c", CHECKSUM]
    shown = subprocess.run(command, cwd=place, env=environment(), capture_output=True, text=True)
    assert shown.returncode == 0, shown.stderr
    return shown.stdout.strip()


def edit(path, old, new):
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def test_words_do_not_count_and_code_does(place):
    before = checksum(place)
    assert len(before) == 64
    edit(place / "mypkg" / "method.py", "  # halved", "")
    edit(place / "mypkg" / "method.py", "Learn the frequencies.", "Count.")
    edit(place / "mypkg" / "method.py", "no labels", "y has no labels")
    edit(place / "mypkg" / "helper.py", ": object) -> object", ")")
    assert checksum(place) == before
    edit(place / "mypkg" / "numbers.py", "0.5", "0.25")
    assert checksum(place) != before


INSIDE = "def half():\n    if 0:\n        print()\n        return 0.25\n    return 0.5\n"
AFTER = "def half():\n    if 0:\n        print()\n    return 0.25\n    return 0.5\n"


def test_indentation_counts(place):
    numbers = place / "mypkg" / "numbers.py"
    numbers.write_text(INSIDE)
    before = checksum(place)
    numbers.write_text(AFTER)
    assert checksum(place) != before


def test_every_method_has_a_checksum_and_rivals_differ():
    sums = {name: code_checksum(cls) for name, cls in own_methods().items()}
    assert all(len(text) == 64 for text in sums.values())
    assert len({sums["NLR"], sums["Schirn"], sums["Sieve"], sums["PAKS"]}) == 4


def test_a_solver_belongs_to_its_own_methods_only(tmp_path):
    """An edited solver of NLR changes NLR, not PAKS; the arithmetic that all share changes both."""
    root = Path(schirn.__file__).parent
    shutil.copytree(root, tmp_path / "schirn", ignore=shutil.ignore_patterns("__pycache__"))
    program = """
from schirn.lab.bench.running._code import code_checksum
from schirn.estimators import methods
print(*(code_checksum(methods()[name]) for name in ("NLR", "PAKS")))
"""

    def sums():
        shown = subprocess.run(
            [sys.executable, "-c", program],
            env={**environment(), "PYTHONPATH": str(tmp_path)},
            cwd=tmp_path,
            capture_output=True,
            text=True,
        )
        assert shown.returncode == 0, shown.stderr
        return shown.stdout.split()

    def append(name):
        with (tmp_path / "schirn" / name).open("a") as stream:
            stream.write("\n\n_EDITED = 1\n")

    nlr, paks = sums()
    append("lab/rivals/solvers/_nlr.py")
    edited, same = sums()
    assert (edited != nlr, same == paks) == (True, True)
    append("linalg/arrays.py")
    after_linalg = sums()
    assert not {nlr, paks, edited} & set(after_linalg)
    # Parameters are chosen by metrics of held-out candidates.
    append("metrics/rows.py")
    assert not {*after_linalg} & set(sums())


def test_results_of_other_code_are_stale_and_run_again(place):
    arguments = ("--methods", "mypkg.method:Half", "--folds", "2", "--tuning", "none", "-o", "out")
    arguments += ("--jobs", "0")
    shown = bench(place, *arguments)
    assert shown.returncode == 0, shown.stderr
    assert "stale" not in shown.stderr
    first = read_rows(place / "out")
    edit(place / "mypkg" / "numbers.py", "0.5", "-0.5")
    shown = bench(place, *arguments)
    assert "2 results are stale: the code of the method has changed; running again" in shown.stderr
    again = read_rows(place / "out")
    assert {r["code_sha256"] for r in first}.isdisjoint(r["code_sha256"] for r in again)
    assert first[0]["metrics"] != again[0]["metrics"]
    assert len(read_rows(place / "out", history=True)) == 4
    assert "stale" not in bench(place, *arguments).stderr


def test_results_without_a_checksum_are_run_again(tmp_path):
    """Results of version 0.2 do not name their code."""
    (result, _) = quick([tiny()], ["CandidateRidge"], tmp_path)
    assert result["code_sha256"] == code_checksum(schirn.CandidateRidge)
    (path,) = tmp_path.glob("*.jsonl")
    old = path.read_text().replace(f'"{result["code_sha256"]}"', "null")
    path.write_text(old.replace('"key": "', '"key": "old'))
    runs = plan_runs([tiny()], ["CandidateRidge"], folds=2, tuning="none")
    folder = ResultsFolder(tmp_path, runs, retry=False, threads=1)
    assert folder.n_stale == 2
    folder.close()
