"""What other packages register: their methods are found, and their faults stop nothing."""

import os
import subprocess
import sys

import pytest

CODE = """
import warnings
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    import schirn
    methods = schirn.methods()
    from schirn.estimators import find_method
    print(methods["Sieve"] is schirn.Sieve, "Theirs" in methods, methods["PMLNI"].__module__)
    print(find_method("theirs").__name__ if "Theirs" in methods else None)
for warning in caught:
    print(warning.message)
"""
THEIRS = """
from schirn import CandidateRidge


class Theirs(CandidateRidge):
    pass


METHODS = {"Theirs": Theirs, "Sieve": Theirs, "PMLNI": Theirs}
"""


def run_with(tmp_path, module, *words):
    (tmp_path / "theirs.py").write_text(module)
    info = tmp_path / "theirs-1.0.dist-info"
    info.mkdir(exist_ok=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: theirs\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[schirn.methods]\naaa = theirs:METHODS\n")
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    return subprocess.run(
        [sys.executable, *words], env=environment, capture_output=True, text=True, cwd=tmp_path
    )


def test_methods_of_other_packages_are_found_and_replace_none(tmp_path):
    done = run_with(tmp_path, THEIRS, "-c", CODE)
    assert done.returncode == 0, done.stderr
    first, second, *others = done.stdout.splitlines()
    assert first == "True True schirn.lab.rivals._pmlni"
    assert second == "Theirs"
    assert any("'PMLNI' of theirs:METHODS is left out" in line for line in others)


@pytest.mark.parametrize("module", ["import not_there", "1 / 0", "X = 1"])
def test_a_broken_package_stops_nothing(tmp_path, module):
    done = run_with(tmp_path, module, "-c", CODE)
    assert done.returncode == 0, done.stderr
    assert "theirs:METHODS cannot be imported" in done.stdout
    done = run_with(tmp_path, module, "-m", "schirn", "methods")
    assert done.returncode == 0
    assert "Sieve" in done.stdout
