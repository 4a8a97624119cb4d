"""Kill a benchmark at random moments until it is finished, and compare with a run left alone.

python -m benchmarks.soak --kills 30
python -m benchmarks.soak --kills 20 --program reproduce

Every run is killed with SIGKILL after a time drawn with `--seed`, then started again, until it ends
by itself or has been killed `--kills` times. The rows must be those of the undisturbed run but for
times, memory and host; every cell must have one row; the stored scores must be equal. Exit code
1 says that they are not.
"""

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

from schirn.bench.rows import VOLATILE
from schirn.datasets import make_partial_multilabel

GRID = ("--methods", "Schirn,NLR,Sieve,CandidateRidge,OracleRidge")
PROGRAMS = {
    "bench": ("bench", "--datasets", "tiny.npz", "--r", "1,2", *GRID, "--quiet"),
    "reproduce": ("reproduce", "--quick", "--datasets", "tiny.npz:1", *GRID, "--quiet",
                  "--studies", "ablation,label_ranks", "--date", "2026-01-01"),
}  # fmt: skip


def main() -> int:
    """Run both, compare, tell."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--program", choices=PROGRAMS, default="bench")
    parser.add_argument("--kills", type=int, default=30, help="at most so many")
    parser.add_argument("--seed", type=int, default=0, help="of the moments")
    parser.add_argument("--rows", type=int, default=120, help="rows of the data set")
    parser.add_argument("--folds", type=int, default=3)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--tuning", default="candidates", help="of schirn bench")
    args = parser.parse_args()
    command = [*PROGRAMS[args.program], "--folds", str(args.folds), "--jobs", str(args.jobs)]
    if args.program == "bench":
        command += ["--tuning", args.tuning]
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        write_data(place, args.rows)
        start = time.monotonic()
        run(place, command, "whole")
        alone = time.monotonic() - start
        kills = disturb(place, command, args.kills, random.Random(args.seed), alone)
        cells, problems = compare(place / "whole", place / "killed")
        parts = len(list((place / "killed").rglob("*.part")))
    print(f"{args.program}: {cells} cells, {kills} kills with seed {args.seed}")
    if parts:
        print(f"  {parts} unfinished files of killed processes, under names of their own")
    for problem in problems:
        print(f"  {problem}")
    print("NOT the same" if problems else "the same rows and scores as undisturbed")
    return 1 if problems else 0


def write_data(place: Path, rows: int) -> None:
    """Make a small set with true labels."""
    data = make_partial_multilabel(
        n_samples=rows, n_features=10, n_labels=6, cardinality=2, r=1, random_state=0
    )
    np.savez(place / "tiny.npz", X=data.X, Y=data.y_true, C=data.candidates)


def start(place: Path, command: list[str], output: str) -> subprocess.Popen[bytes]:
    """Start the program."""
    whole = [sys.executable, "-m", "schirn", *command, "--output", output]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(whole, cwd=place, env=environment, stdout=subprocess.DEVNULL)


def run(place: Path, command: list[str], output: str) -> None:
    """Run the program to its end."""
    code = start(place, command, output).wait()
    if code:
        raise SystemExit(f"the undisturbed program ended with {code}")


def disturb(
    place: Path, command: list[str], most: int, moments: random.Random, seconds: float
) -> int:
    """Kill and start again; return the number of kills."""
    for kills in range(most):
        process = start(place, command, "killed")
        try:
            # From the first imports to the middle of the last cell.
            code = process.wait(timeout=moments.uniform(0.05, 0.5) * seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            continue
        if code:
            raise SystemExit(f"a resumed program ended with {code}")
        return kills
    run(place, command, "killed")
    return most


def compare(whole: Path, killed: Path) -> tuple[int, list[str]]:
    """Number of cells, and what differs between the two folders, in words."""
    problems: list[str] = []
    cells = 0
    for folder in sorted({path.parent for path in whole.rglob("rows-*.jsonl")}):
        other = killed / folder.relative_to(whole)
        name = folder.relative_to(whole).as_posix()
        wanted, found = read(folder), read(other)
        cells += len(wanted)
        twice = [key for key, n in Counter(row["key"] for row in found).items() if n > 1]
        if twice:
            problems.append(f"{name}: {len(twice)} cells have more than one row")
        if stable(wanted) != stable(found):
            problems.append(f"{name}: the rows differ")
        problems += [f"{name}: {key}: {why}" for key, why in scores(folder, other, wanted)]
        if (other / "claims").exists():
            problems.append(f"{name}: claims are left behind")
    if not cells:
        problems.append("there are no rows")
    return cells, problems


def read(folder: Path) -> list[dict[str, Any]]:
    """All rows of a folder, also those that others replace."""
    from schirn.bench import read_rows

    return read_rows(folder, every=True)


def stable(rows: list[dict[str, Any]]) -> dict[str, str]:
    """Rows by key, without what may differ between runs."""
    return {
        row["key"]: json.dumps({k: v for k, v in row.items() if k not in VOLATILE}, sort_keys=True)
        for row in rows
    }


def scores(whole: Path, killed: Path, rows: list[dict[str, Any]]) -> list[tuple[str, str]]:
    """Cells whose stored scores differ."""
    found = []
    for row in rows:
        if row["scores"] is None:
            continue
        if not (killed / row["scores"]).is_file():
            found.append((row["key"], "no scores"))
            continue
        with np.load(whole / row["scores"]) as one, np.load(killed / row["scores"]) as other:
            if any(not np.array_equal(one[name], other[name]) for name in one.files):
                found.append((row["key"], "other scores"))
    return found


if __name__ == "__main__":
    sys.exit(main())
