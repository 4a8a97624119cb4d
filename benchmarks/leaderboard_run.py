"""Run the methods over all tracks of the leaderboard, as long as there is time.

    python -m benchmarks.leaderboard_run --output out/leaderboard --jobs 8 --stop-after 3600
    schirn leaderboard pack out/leaderboard -o benchmarks/leaderboard/NAME.jsonl.gz
    schirn leaderboard check benchmarks/leaderboard
    schirn leaderboard build benchmarks/leaderboard -o site

Run the first command again to go on where it stopped. Tracks are a kind of noise, the features and
the selection of parameters. Every kind adds about `--r` wrong labels per row: "rate" tosses a coin
with the matching probability, and "annotators" shows each row to `--r` + 1 annotators. Data
sets with candidates of their own are also run as they are. The order is that of data sets, then of
selections and features, so that what is finished early is complete.
"""

import argparse
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from schirn.datasets import available, load
from schirn.lab.bench.baselines import BASELINES
from schirn.lab.bench.running.engine import Batch, Engine, Report, default_threads, in_words
from schirn.lab.bench.running.plan import Run, plan_runs
from schirn.methods import methods

NOISES = ("exact", "rate", "label", "feature", "two-sided", "annotators", "own")


def words(text: str) -> list[str]:
    """Split a comma-separated list."""
    return [word for word in text.split(",") if word]


def level(name: str, noise: str, r: int) -> Any:
    """Noise level of a data set for a kind of noise; "skip" if it has none of its own."""
    data = load(name)
    if noise == "own":
        return None if data.candidates is not None else "skip"
    if noise == "rate" and data.y_true is not None:
        negatives = data.n_labels - data.y_true.sum() / data.n_samples
        return round(min(1.0, r / max(negatives, 1.0)), 3)
    return r + 1 if noise == "annotators" else r


def plan(args: argparse.Namespace) -> Iterator[Run]:
    """All runs, those of one data set together."""
    for name in words(args.datasets):
        levels = {noise: level(name, noise, args.r) for noise in words(args.noises)}
        for tuning in words(args.tunings):
            for features in words(args.features):
                for noise, r in levels.items():
                    if r == "skip":
                        continue
                    yield from plan_runs(
                        [(name, r)],
                        words(args.methods),
                        folds=args.folds,
                        seeds=range(args.seeds),
                        tuning=tuning,
                        features=features,
                        noise="exact" if noise == "own" else noise,
                        search_rows=args.search_rows,
                    )


def main() -> None:
    """Run what is left."""
    here = [entry.name for entry in available() if entry.where != "downloadable"]
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--output", required=True, type=Path, help="folder of the results")
    parser.add_argument("--datasets", default="digits_attributes", help=f"of: {', '.join(here)}")
    parser.add_argument("--methods", default=",".join((*methods(), *BASELINES)))
    parser.add_argument("--noises", default=",".join(NOISES))
    parser.add_argument("--features", default="raw,kernel")
    parser.add_argument("--tunings", default="candidates,none,oracle")
    parser.add_argument("--r", type=int, default=2, help="wrong labels per row (default: 2)")
    parser.add_argument("--folds", type=int, default=5)
    parser.add_argument("--seeds", type=int, default=1, help="number of repetitions")
    parser.add_argument("--search-rows", type=int, help="largest number of rows to search on")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--time-limit", type=float, default=600, help="seconds of one run")
    parser.add_argument("--stop-after", type=float, help="seconds of the whole program")
    args = parser.parse_args()
    start, last = time.monotonic(), [0.0]
    runs = list(plan(args))

    def report(state: Report) -> None:
        if time.monotonic() - last[0] > 10:
            last[0] = time.monotonic()
            left = f"{state.seconds_left:.0f} s left" if state.seconds_left else ""
            print(f"{state.finished}/{state.total} {left} {in_words(state.row)}", flush=True)

    spent = time.monotonic() - start
    engine = Engine(
        [Batch(args.output, runs)],
        jobs=args.jobs,
        threads=default_threads(args.jobs),
        time_limit=args.time_limit,
        retry=False,
        report=report,
        stop_after=None if args.stop_after is None else max(1.0, args.stop_after - spent),
    )
    engine.run()
    print(f"{len(runs) - engine.left} of {len(runs)} runs finished in {args.output}")


if __name__ == "__main__":
    main()
