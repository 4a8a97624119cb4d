"""Time and peak memory of every method at the largest shape of the paper.

    python -m benchmarks.methods                 # random data of yeastbp's shape
    SCHIRN_DATA=folder python -m benchmarks.methods --data yeastbp

Each method is fitted once in its own process, with default parameters. Times are multiples of the
CandidateRidge fit of the same run.
"""

import argparse
import json
import subprocess
import sys
import time
import warnings
from typing import Any

import numpy as np

import schirn
from benchmarks.measure import PAPER_SHAPES, peak_gigabytes
from schirn.datasets import load

# One fit without the search for these numbers, which `benchmarks.self_tuning` measures.
NUMBERS = {
    "Schirn": {"alpha": 0.2, "beta": 0.05, "lam": 10.0},
    "NLR": {"beta": 100.0, "gamma": 10.0, "lam": 2.1},
    "CandidateRidge": {"lam": 1.0},
    "OracleRidge": {"lam": 1.0},
}


def problem(name: str) -> tuple[Any, np.ndarray]:
    """Features and candidates: four fifths of a real data set, or random data of a shape."""
    for shape in PAPER_SHAPES:
        if name == f"shape:{shape.name}":
            data = shape.make()
            return data.X, data.candidates
    data = load(name)
    train = np.arange(data.n_samples) % 5 != 0
    return data.X[train], data.candidates[train]


def fit_one(method: str, name: str) -> None:
    """Fit one method and print its time and memory as JSON."""
    warnings.simplefilter("ignore")
    X, Y = problem(name)
    start = time.perf_counter()
    model = schirn.methods()[method](**NUMBERS.get(method, {})).fit(X, Y)
    seconds = time.perf_counter() - start
    peak = peak_gigabytes()
    print(json.dumps({"seconds": seconds, "gb": peak, "rounds": int(model.n_iter_)}))


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data", default="shape:yeastbp")
    parser.add_argument("--methods", default=",".join(schirn.methods()))
    parser.add_argument("--limit", type=float, default=600, help="time limit per method in seconds")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.one:
        fit_one(args.one, args.data)
        return
    names = ["CandidateRidge", *[m for m in args.methods.split(",") if m != "CandidateRidge"]]
    print(
        "| method | fit / CandidateRidge fit | seconds | peak GB | rounds |\n|---|---|---|---|---|"
    )
    base = None
    for name in names:
        command = [sys.executable, "-m", "benchmarks.methods", "--one", name, "--data", args.data]
        try:
            out = subprocess.run(
                command, capture_output=True, text=True, timeout=args.limit, check=True
            )
        except subprocess.TimeoutExpired:
            print(f"| {name} | – | over {args.limit:.0f} | – | – |", flush=True)
            continue
        except subprocess.CalledProcessError as error:
            print(f"| {name} | failed: {error.stderr.strip().splitlines()[-1]} | | | |", flush=True)
            continue
        took = json.loads(out.stdout.splitlines()[-1])
        base = base or took["seconds"]
        print(
            f"| {name} | {took['seconds'] / base:.1f} | {took['seconds']:.1f} | {took['gb']:.2f} "
            f"| {took['rounds']} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
