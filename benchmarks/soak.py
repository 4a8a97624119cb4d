"""Kill a benchmark at random moments until it is finished, and compare with an undisturbed one.

python -m benchmarks.soak --kills 30
python -m benchmarks.soak --kills 20 --program reproduce

The benchmark is killed with SIGKILL after a random time, then started again, until it ends by
itself or has been killed `--kills` times. Its results must equal those of the undisturbed benchmark
except for times, memory and host; every run must have exactly one result; the stored scores must be
equal. The exit code is 1 if they are not.
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

from schirn.bench import read_rows
from schirn.bench.results import VOLATILE
from schirn.datasets import make_partial_multilabel

GRID = ("--methods", "Schirn,NLR,Sieve,CandidateRidge,OracleRidge")
PROGRAMS = {
    "bench": ("bench", "--datasets", "tiny.npz", "--r", "1,2", *GRID, "--quiet"),
    "reproduce": ("reproduce", "--quick", "--datasets", "tiny.npz:1", *GRID, "--quiet",
                  "--studies", "ablation,label_ranks", "--date", "2026-01-01"),
}  # fmt: skip


def main() -> int:
    """Run both, compare and report."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--program", choices=PROGRAMS, default="bench")
    parser.add_argument("--kills", type=int, default=30, help="maximum number of kills")
    parser.add_argument("--seed", type=int, default=0, help="seed of the random times")
    parser.add_argument("--rows", type=int, default=120, help="rows of the data set")
    parser.add_argument("--folds", type=int, default=3)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--tuning", default="candidates", help="option of schirn bench")
    args = parser.parse_args()
    command = [*PROGRAMS[args.program], "--folds", str(args.folds), "--jobs", str(args.jobs)]
    if args.program == "bench":
        command += ["--tuning", args.tuning]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_data(folder, args.rows)
        start = time.monotonic()
        run(folder, command, "whole")
        alone = time.monotonic() - start
        kills = disturb(folder, command, args.kills, random.Random(args.seed), alone)
        runs, problems = compare(folder / "whole", folder / "killed")
        unfinished = len(list((folder / "killed").rglob("*.part")))
    print(f"{args.program}: {runs} runs, {kills} kills with seed {args.seed}")
    if unfinished:
        print(f"  {unfinished} temporary files of killed processes")
    for problem in problems:
        print(f"  {problem}")
    print("NOT the same" if problems else "the same results and scores as undisturbed")
    return 1 if problems else 0


def write_data(folder: Path, rows: int) -> None:
    """Write a small data set with true labels."""
    data = make_partial_multilabel(
        n_samples=rows, n_features=10, n_labels=6, cardinality=2, r=1, random_state=0
    )
    np.savez(folder / "tiny.npz", X=data.X, Y=data.y_true, C=data.candidates)


def start(folder: Path, command: list[str], output: str) -> subprocess.Popen[bytes]:
    """Start the program."""
    whole = [sys.executable, "-m", "schirn", *command, "--output", output]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(whole, cwd=folder, env=environment, stdout=subprocess.DEVNULL)


def run(folder: Path, command: list[str], output: str) -> None:
    """Run the program to its end."""
    code = start(folder, command, output).wait()
    if code:
        raise SystemExit(f"the undisturbed program ended with exit code {code}")


def disturb(
    folder: Path, command: list[str], most: int, moments: random.Random, seconds: float
) -> int:
    """Kill and start again; return the number of kills."""
    for kills in range(most):
        process = start(folder, command, "killed")
        try:
            # From the first imports to the middle of the last run.
            code = process.wait(timeout=moments.uniform(0.05, 0.5) * seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            continue
        if code:
            raise SystemExit(f"a resumed program ended with exit code {code}")
        return kills
    run(folder, command, "killed")
    return most


def compare(whole: Path, killed: Path) -> tuple[int, list[str]]:
    """Return the number of runs and a description of every difference."""
    problems: list[str] = []
    runs = 0
    for folder in sorted({path.parent for path in whole.rglob("rows-*.jsonl")}):
        other = killed / folder.relative_to(whole)
        name = folder.relative_to(whole).as_posix()
        wanted, found = read(folder), read(other)
        runs += len(wanted)
        twice = [key for key, n in Counter(r["key"] for r in found).items() if n > 1]
        if twice:
            problems.append(f"{name}: {len(twice)} runs have more than one result")
        if stable(wanted) != stable(found):
            problems.append(f"{name}: the results differ")
        problems += [f"{name}: {key}: {why}" for key, why in scores(folder, other, wanted)]
        if (other / "claims").exists():
            problems.append(f"{name}: claims are left behind")
    if not runs:
        problems.append("there are no results")
    return runs, problems


def read(folder: Path) -> list[dict[str, Any]]:
    """Read all results of a folder, including replaced ones."""
    return read_rows(folder, every=True)


def stable(results: list[dict[str, Any]]) -> dict[str, str]:
    """Results by key, without what may differ between runs."""
    return {
        r["key"]: json.dumps({k: v for k, v in r.items() if k not in VOLATILE}, sort_keys=True)
        for r in results
    }


def scores(whole: Path, killed: Path, results: list[dict[str, Any]]) -> list[tuple[str, str]]:
    """Keys of the runs whose stored scores differ."""
    found = []
    for result in results:
        path = result["scores"]
        if path is None:
            continue
        if not (killed / path).is_file():
            found.append((result["key"], "no scores"))
            continue
        with np.load(whole / path) as one, np.load(killed / path) as other:
            if any(not np.array_equal(one[name], other[name]) for name in one.files):
                found.append((result["key"], "other scores"))
    return found


if __name__ == "__main__":
    sys.exit(main())
