"""From a wheel to the first question on the screen, in seconds by the clock.

    python -m benchmarks.first_question                     # builds a wheel; 2,000 rows
    python -m benchmarks.first_question --wheel dist/schirn-0.4.0-py3-none-any.whl --rows 20000

It does what a newcomer does: install the wheel and what it needs into an empty environment, then
run `schirn review` on a table of texts with tags, in the terminal and on the page. pip downloads
what it has not downloaded before, so the first line depends on the network.
"""

import argparse
import csv
import os
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.request import urlopen

from benchmarks.vocabulary import shop

ROOT = Path(__file__).parents[1]
PROMPT = "Is the tag right: "
ADDRESS = "http://"
REVIEW = ("review", "items.csv", "--labels", "tags", "--text", "title")


class Stopwatch:
    """Measures named steps and prints each as a line of a table."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        print("| step | seconds |\n|---|--:|")

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Measure what is done inside."""
        start = time.perf_counter()
        yield
        self.seconds[name] = time.perf_counter() - start
        print(f"| {name} | {self.seconds[name]:.0f} |", flush=True)


def write_table(path: Path, rows: int) -> None:
    """Write a generated shop: a text, and tags of which some are wrong and some are missing."""
    table = shop(seed=0, n_rows=rows)
    with path.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream)
        writer.writerow(["sku", "title", "tags"])
        for number, (text, tags) in enumerate(zip(table.texts, table.tags, strict=True)):
            writer.writerow([f"A{number}", text, ";".join(tags)])


def build_wheel(folder: Path) -> Path:
    """Build the wheel of this repository."""
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps"]
    subprocess.run([*pip, "--wheel-dir", str(folder), str(ROOT)], check=True)
    return next(folder.glob("*.whl"))


def wait_for(command: list[str], sign: str, folder: Path, environment: dict[str, str]) -> None:
    """Run a command until it asks or has a page to open, then stop it."""
    pipe = subprocess.PIPE
    process = subprocess.Popen(
        command, cwd=folder, env=environment, stdin=pipe, stdout=pipe, stderr=pipe
    )
    text = ""
    # A question is no whole line: the cursor waits behind it.
    while not (sign in text and text.rstrip(" ")[-1] in "]\n"):
        more = os.read(process.stdout.fileno(), 4096)  # type: ignore[union-attr]
        if not more:
            _, problem = process.communicate()
            raise SystemExit(f"{' '.join(command)}: {problem.decode()}")
        text += more.decode()
    if sign == ADDRESS:
        address = text[text.index(ADDRESS) :].split()[0]
        with urlopen(address) as page:
            page.read()
    process.terminate()
    process.communicate()


def main() -> None:
    """Print the seconds of every step."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--wheel", metavar="FILE", help="wheel to install (default: built here)")
    parser.add_argument("--rows", type=int, default=2000, metavar="N", help="rows of the table")
    args = parser.parse_args()
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        wheel = Path(args.wheel).resolve() if args.wheel else build_wheel(folder / "dist")
        write_table(folder / "items.csv", args.rows)
        watch = Stopwatch()
        with watch.step("create an environment, install the wheel with the extra `review`"):
            venv.create(folder / "empty", with_pip=True)
            scripts = folder / "empty" / ("Scripts" if os.name == "nt" else "bin")
            pip = [str(scripts / "python"), "-m", "pip", "install", "--quiet"]
            subprocess.run([*pip, f"{wheel}[review]"], env=environment, check=True)
        review = [str(scripts / "schirn"), *REVIEW]
        terminal = [*review, "--terminal"]
        page = [*review, "--no-browser", "--project", "on-the-page"]
        with watch.step(f"rank {args.rows:,} rows, ask the first question in the terminal"):
            wait_for(terminal, PROMPT, folder, environment)
        total = sum(watch.seconds.values())
        print(f"| **from the wheel to the first question** | **{total:.0f}** |")
        with watch.step("the same with the page, whose ranking is stored by now"):
            wait_for(page, ADDRESS, folder, environment)


if __name__ == "__main__":
    main()
