"""How much code one call crosses: files, functions, their lines, and switches between files.

    python -m benchmarks.crossings
    PYTHONPATH=other/src python -m benchmarks.crossings     (another version of the package)

A profiler records every Python function of schirn that runs, in all threads. Files and functions
are counted once, with their lines of code (no blank lines, comments or docstrings); a switch is a
call from one schirn file into another. Each call runs once before it is recorded, so that imports
do not count. Modules, lines and public names describe the package
as a whole; public names are those listed in tests/public_api.txt.
"""

import ast
import contextlib
import io
import sys
import tempfile
import threading
import tokenize
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np

import schirn
from schirn.cli import main as program
from schirn.datasets import load_digits_attributes, make_partial_multilabel
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
    print("| call | files | functions | code lines | switches |\n|---|--:|--:|--:|--:|")
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

    digits = load_digits_attributes().subset(range(400))
    return {
        "`Sieve().fit`, 400 digits": lambda: schirn.Sieve().fit(digits.X, digits.candidates),
        "`Sieve().fit`": lambda: schirn.Sieve().fit(DATA.X, DATA.candidates),
        "`Schirn().fit`": lambda: schirn.Schirn().fit(DATA.X, DATA.candidates),
        "`schirn clean`": clean,
        "`schirn.lab.bench.run`": bench,
    }


@cache
def code_lines(name: str) -> tuple[dict[int, int], frozenset[int]]:
    """Last line of each function of a file by its first line, and the lines that hold code."""
    source = Path(name).read_text("utf-8")
    tree, ends, texts = ast.parse(source), {}, set()
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            first = min([node.lineno, *(d.lineno for d in node.decorator_list)])
            ends[first] = node.end_lineno or first
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            texts.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    empty = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT}
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in empty:
            lines.update(range(token.start[0], token.end[0] + 1))
    return ends, frozenset(lines - texts)


def crossings(action: Callable[[], Any]) -> tuple[int, int, int, int]:
    """Return the number of files, functions, their code lines and switches of an action."""
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
    total = 0
    for name, first in functions:
        ends, lines = code_lines(name)
        total += len(lines & set(range(first, ends[first] + 1)))
    return len({name for name, _ in functions}), len(functions), total, switches


if __name__ == "__main__":
    main()
