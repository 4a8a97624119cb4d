"""What a night with few new rows costs: `schirn update` against full runs on the same table.

    python -m benchmarks.update --rows 100000 --new 0.05

Generates product titles, trains on all but the new rows, and measures the CPU time of `schirn
update` on the whole table, and of the full runs, `schirn clean` and `schirn fit`, on the same
table. Every command runs in a process of its own; the time to import the library, which all of them
share, is subtracted.
"""

import argparse
import csv
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.titles import make_titles

_TEXT = ("--text", "title", "--id", "sku")


def main() -> None:
    """Print CPU seconds, and the share of the full runs."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--new", type=float, default=0.05, help="share of new rows")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        old = args.rows - int(args.new * args.rows)
        write_tables(folder, args.rows, old)
        start = cpu_seconds("clean", "--help")
        cpu_seconds("fit", folder / "old.csv", *_TEXT, "-o", folder / "tagger.schirn")
        update = ("update", folder / "items.csv", "--model", folder / "tagger.schirn")
        update += ("--id", "sku", "--decisions", folder / "d.jsonl", "-o", folder / "tonight.csv")
        seconds = {
            "update": cpu_seconds(*update) - start,
            "clean": cpu_seconds("clean", folder / "items.csv", *_TEXT, "-o", folder / "c.csv")
            - start,
            "fit": cpu_seconds("fit", folder / "items.csv", *_TEXT, "-o", folder / "new.schirn")
            - start,
        }
    print(f"{args.rows:,} titles, {args.rows - old:,} of them new")
    for name, value in seconds.items():
        print(
            f"{name:>6} {value:7.1f} s of CPU time, update {seconds['update'] / value:4.0%} of it"
        )


def write_tables(folder: Path, n_rows: int, old: int) -> None:
    """Write the table of last night and the one of tonight."""
    titles = make_titles(n_rows, random_state=0)
    rows = [
        (f"S{i}", text, ";".join(titles.names_of(titles.listed[i])))
        for i, text in enumerate(titles.texts)
    ]
    for name, count in (("old", old), ("items", n_rows)):
        with (folder / f"{name}.csv").open("w", newline="", encoding="utf-8") as stream:
            csv.writer(stream).writerows([("sku", "title", "tags"), *rows[:count]])


def cpu_seconds(*words: object) -> float:
    """Run the program; return the CPU time that it took."""
    command = [sys.executable, "-m", "schirn", *map(str, words)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{' '.join(map(str, words))} ended with code {process.returncode}")
    return usage.ru_utime + usage.ru_stime


if __name__ == "__main__":
    main()
