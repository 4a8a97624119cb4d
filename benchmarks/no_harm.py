"""Correct tags that Sieve calls wrong: features that say nothing, little or much, and real noise.

    SCHIRN_DATA=folder python -m benchmarks.no_harm --jobs 2

- Random features with the correct tags of the digits: nothing is wrong.
- Digits with two wrong tags per row and 64, 16, 6, 3 or 1 of their pixels, three draws each.
- The full Yeast sets with the candidates that biologists gave them (skipped without SCHIRN_DATA).

The last lines compare the results with what must hold. True tags are used for scoring only.
"""

import argparse
import os
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from threadpoolctl import threadpool_limits

from schirn import Sieve
from schirn.datasets import load, load_digits_attributes
from schirn.exceptions import EmptyCandidatesWarning
from schirn.metrics import noise_report

PIXELS = (64, 16, 6, 3, 1)
DRAWS = 3
YEAST = ("yeastmf_full", "yeastcc_full", "yeastbp_full")
COLUMNS = ("true", "claimed", "largest", "removed", "precision", "recall")
Task = tuple[str, Any, int]
RANDOM: list[Task] = [("random", None, draw) for draw in range(DRAWS)]
# All 64 pixels are one draw.
DIGITS: list[Task] = [("digits", p, d) for p in PIXELS for d in range(DRAWS if p < 64 else 1)]


def make(kind: str, what: Any, draw: int) -> tuple[Any, np.ndarray, np.ndarray]:
    """Features, candidates and true tags of one problem."""
    if kind == "yeast":
        data = load(what)
        return data.X, data.candidates, data.y_true
    digits, rng = load_digits_attributes(r=2), np.random.default_rng(draw)
    if kind == "random":
        return rng.standard_normal(digits.X.shape), digits.y_true, digits.y_true
    varying = np.flatnonzero(digits.X.std(axis=0) > 0)
    some = rng.choice(varying, min(what, len(varying)), replace=False)
    return digits.X[:, some], digits.candidates, digits.y_true


def measure(kind: str, what: Any, draw: int) -> dict[str, Any]:
    """Shares and removals of one problem."""
    warnings.simplefilter("ignore", EmptyCandidatesWarning)
    X, C, T = make(kind, what, draw)
    with threadpool_limits(1):
        model = Sieve().fit(X, C)
    report = noise_report(T, C, model.noise_)
    total = C.sum()
    return {
        "task": (kind, what, draw),
        "true": float((C & (T == 0)).sum() / total),
        "claimed": model.wrong_share_,
        "largest": model.largest_wrong_share_,
        "removed": float(model.noise_.sum() / total),
        "precision": report["precision"],
        "recall": report["recall"],
    }


def words(kind: str, what: Any, draw: int) -> str:
    """Name of one problem."""
    if kind == "yeast":
        return str(what)
    return (
        f"random features, draw {draw}"
        if kind == "random"
        else f"{what} pixel{'s' * (what > 1)}, draw {draw}"
    )


def verdicts(rows: list[dict[str, Any]]) -> list[tuple[str, bool]]:
    """What must hold, and whether it does."""

    def of(kind: str, what: Any = None) -> list[dict[str, Any]]:
        return [r for r in rows if r["task"][0] == kind and what in (None, r["task"][1])]

    full = of("digits", 64)
    found = [
        ("random features: at most 5 % removed", all(r["removed"] <= 0.05 for r in of("random"))),
        ("1 pixel: at most 10 % removed", all(r["removed"] <= 0.1 for r in of("digits", 1))),
        (
            "64 pixels: at least 97 % found at 98 % precision",
            all(r["recall"] >= 0.97 and r["precision"] >= 0.98 for r in full),
        ),
    ]
    if of("yeast"):
        kept = all(r["removed"] <= 2 * r["true"] for r in of("yeast"))
        found.append(("full Yeast: at most twice the true share removed", kept))
    return found


def parse_jobs(title: str) -> int:
    """The number of processes, from the command line."""
    parser = argparse.ArgumentParser(description=title)
    parser.add_argument("--jobs", type=int, default=1)
    jobs: int = parser.parse_args().jobs
    return jobs


def measure_all(job: Callable[..., Any], tasks: list[Task], jobs: int) -> list[Any]:
    """Measure all problems, the last ones, which are the largest, first."""
    return list(Parallel(n_jobs=jobs)(delayed(job)(*task) for task in tasks[::-1])[::-1])


def print_verdicts(found: list[tuple[str, bool]]) -> None:
    """Print what must hold, and whether it does."""
    print()
    for text, holds in found:
        print(f"- {'holds' if holds else 'FAILS'}: {text}")


def main() -> None:
    """Print one table and what must hold."""
    jobs = parse_jobs(__doc__.partition("\n")[0])
    tasks = [*RANDOM, *DIGITS]
    if os.environ.get("SCHIRN_DATA"):
        tasks += [("yeast", name, 0) for name in YEAST]
    else:
        print("The full Yeast sets are skipped: SCHIRN_DATA names no folder.\n")
    # By its module path, so that workers import it instead of unpacking this script.
    from benchmarks.no_harm import measure as job

    rows = measure_all(job, tasks, jobs)
    print("| data | truly wrong | claimed | largest | removed | precision | recall |")
    print("|---|" + "--:|" * len(COLUMNS))
    for row in rows:
        values = (row[key] for key in COLUMNS)
        cells = " | ".join("–" if np.isnan(v) else f"{100 * v:.1f}" for v in values)
        print(f"| {words(*row['task'])} | {cells} |")
    print_verdicts(verdicts(rows))


if __name__ == "__main__":
    main()
