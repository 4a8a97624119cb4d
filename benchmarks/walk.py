"""The walk of `Sieve().fit` or `schirn clean`: which functions run, and their lines of code.

    python -m benchmarks.walk            files, functions and code lines of a fit on 400 digits
    python -m benchmarks.walk --clean    of `schirn clean` on a table of 400 texts
    python -m benchmarks.walk --stored   of the same command when the ranking is stored
    python -m benchmarks.walk --list     also the functions of each file

Lines of code are those of a function that runs, without blank lines, comments and docstrings. Of
nested functions every line counts once.
"""

import argparse
import ast
import io
import sys
import tempfile
import tokenize
from collections import defaultdict
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
from sklearn.datasets import load_digits

import schirn
from schirn.app.cli import main as main_of_program

PACKAGE = Path(schirn.__file__).parent
LAYOUT = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
}


def main() -> None:
    """Print the walk."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--list", action="store_true", help="list the functions of each file")
    parser.add_argument("--clean", action="store_true", help="the walk of schirn clean")
    parser.add_argument("--stored", action="store_true", help="of schirn clean, ranked before")
    args = parser.parse_args()
    files = walk_of_clean(fresh=args.clean) if args.clean or args.stored else walk()
    for path, functions in sorted(files.items(), key=lambda item: -sum(item[1].values())):
        print(f"{sum(functions.values()):5}  {path}")
        for name, lines in functions.items() if args.list else ():
            print(f"       {lines:5}  {name}")
    lines, names = (sum(map(count, files.values())) for count in (_lines, len))
    print(f"{lines:5}  code lines of {names} functions in {len(files)} files")


def walk() -> dict[str, dict[str, int]]:
    """Lines of code of each function that a fit runs, by file."""
    X, digit = load_digits(return_X_y=True)
    X, digit = X[:400], digit[:400]
    candidates = np.eye(10, dtype=int)[digit]
    candidates |= np.random.default_rng(0).random(candidates.shape) < 0.2
    return walk_of(lambda: schirn.Sieve().fit(X, candidates))


def walk_of_clean(*, fresh: bool) -> dict[str, dict[str, int]]:
    """Lines of code of each function that `schirn clean` runs on 400 texts, by file."""
    words = {"beach": "sand wave shore", "dog": "bark tail leash", "city": "street tower neon"}
    names = list(words)
    rng = np.random.default_rng(0)
    lines = []
    for i in range(400):
        tag, other = rng.choice(names, 2, replace=False)
        text = f"picture {i} {words[tag]} {rng.choice(words[other].split())}"
        tags = f"{tag};{other}" if rng.random() < 0.3 else tag
        lines.append(f"{i},{text},{tags}")
    with tempfile.TemporaryDirectory() as folder:
        table = Path(folder, "items.csv")
        table.write_text("\n".join(["id,description,tags", *lines]))
        command = ["clean", str(table), "--labels", "tags", "--text", "description"]
        command += ["--fresh"] if fresh else []

        def clean() -> None:
            with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
                main_of_program(command)

        return walk_of(clean)


def walk_of(run: Callable[[], object]) -> dict[str, dict[str, int]]:
    """Lines of code of each function that runs the second time, by file."""
    # What happens only once in a process, such as imports, is no part of the walk.
    run()
    calls: set[tuple[str, int]] = set()

    def note(frame: FrameType, event: str, arg: Any) -> None:
        if event == "call":
            calls.add((frame.f_code.co_filename, frame.f_code.co_firstlineno))

    sys.setprofile(note)
    try:
        run()
    finally:
        sys.setprofile(None)
    files: dict[str, dict[str, int]] = {}
    starts = defaultdict(set)
    for file, line in calls:
        starts[Path(file)].add(line)
    for path in sorted(path for path in starts if path.is_relative_to(PACKAGE)):
        functions = _functions(path, starts[path])
        if functions:
            files[path.relative_to(PACKAGE).as_posix()] = functions
    return files


def _lines(functions: dict[str, int]) -> int:
    return sum(functions.values())


def _functions(path: Path, starts: set[int]) -> dict[str, int]:
    """Lines of code of the functions of a file that start at these lines."""
    source = path.read_text("utf-8")
    tree, counted, functions = ast.parse(source), set(), {}
    code = _code_lines(source, tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            first = min(item.lineno for item in (node, *node.decorator_list))
            if first in starts:
                lines = code.intersection(range(first, (node.end_lineno or first) + 1)) - counted
                functions[f"{node.name}:{first}"] = len(lines)
                counted |= lines
    return functions


def _code_lines(source: str, tree: ast.Module) -> set[int]:
    """Numbers of the lines with code on them."""
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in LAYOUT:
            lines.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(tree):
        is_text = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        if is_text and isinstance(node.value.value, str):
            lines.difference_update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return lines


if __name__ == "__main__":
    main()
