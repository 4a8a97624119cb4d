"""How much code one call crosses: files, functions and switches between files of the package.

    python -m benchmarks.crossings
    PYTHONPATH=other/src python -m benchmarks.crossings     (another version of the package)

A profiler records every Python function of schirn that runs, in all threads. Files and functions
are counted once; a switch is a call from one schirn file into another. Each call runs once before
it is recorded, so that imports do not count. Modules, lines and public names describe the package
as a whole; public names are those listed in tests/public_api.txt.
"""

import contextlib
import io
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np

import schirn
from schirn.cli import main as program
from schirn.datasets import make_partial_multilabel
from schirn.lab.bench import run

PACKAGE = Path(schirn.__file__).parent
DATA = make_partial_multilabel(
    n_samples=200, n_features=20, n_labels=8, cardinality=2.5, r=2, random_state=0
)


def main() -> None:
    """Print two tables."""
    files = list(PACKAGE.rglob("*.py"))
    n_lines = sum(len(path.read_text("utf-8").splitlines()) for path in files)
    root = [path for path in files if path.parent == PACKAGE]
    listing = (PACKAGE.parents[1] / "tests" / "public_api.txt").read_text("utf-8").splitlines()
    n_names = sum(line[:1] not in ("", " ", "[") for line in listing)
    print("| modules | at the root | lines | public names |\n|--:|--:|--:|--:|")
    print(f"| {len(files)} | {len(root)} | {n_lines:,} | {n_names} |\n")
    print("| call | files | functions | switches |\n|---|--:|--:|--:|")
    with tempfile.TemporaryDirectory() as name:
        for call, action in calls(Path(name)).items():
            action()
            print(f"| {call} | {' | '.join(f'{n:,}' for n in crossings(action))} |")


def calls(folder: Path) -> dict[str, Callable[[], Any]]:
    """The recorded calls."""
    table = folder / "table.csv"
    rows = [
        f"{','.join(map(str, x))},{';'.join(f'tag{j}' for j in np.flatnonzero(y))}"
        for x, y in zip(DATA.X.round(3), DATA.candidates, strict=True)
    ]
    header = ",".join([*(f"x{j}" for j in range(DATA.X.shape[1])), "tags"])
    table.write_text("\n".join([header, *rows]), "utf-8")

    def clean() -> None:
        columns = header.removesuffix(",tags")
        options = ["--labels", "tags", "--columns", columns, "-o", str(folder / "clean.csv")]
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            assert program(["clean", str(table), *options]) == 0

    def bench() -> None:
        with tempfile.TemporaryDirectory(dir=folder) as output:
            run([DATA], ["Schirn"], output=output, folds=2, tuning="none", jobs=0)

    return {
        "`Sieve().fit`": lambda: schirn.Sieve().fit(DATA.X, DATA.candidates),
        "`Schirn().fit`": lambda: schirn.Schirn().fit(DATA.X, DATA.candidates),
        "`schirn clean`": clean,
        "`schirn.lab.bench.run`": bench,
    }


def crossings(action: Callable[[], Any]) -> tuple[int, int, int]:
    """Return the number of files, functions and switches of an action."""
    functions: set[tuple[str, int]] = set()
    switches = 0
    prefix = str(PACKAGE)

    def profile(frame: FrameType, event: str, _: Any) -> None:
        nonlocal switches
        name = frame.f_code.co_filename
        # Older Pythons run comprehensions as functions, which would make versions differ.
        inner = frame.f_code.co_name.startswith("<")
        if event != "call" or inner or not name.startswith(prefix):
            return
        functions.add((name, frame.f_code.co_firstlineno))
        caller = frame.f_back
        while caller and not caller.f_code.co_filename.startswith(prefix):
            caller = caller.f_back
        switches += caller is not None and caller.f_code.co_filename != name

    threading.setprofile(profile)
    sys.setprofile(profile)
    try:
        action()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return len({name for name, _ in functions}), len(functions), switches


if __name__ == "__main__":
    main()
