"""Schirn or Sieve on Dask: time with two single-thread workers and with one, and agreement.

OMP_NUM_THREADS=1 python -m benchmarks.dask_workers --rows 200000 --features 300 --labels 50
OMP_NUM_THREADS=1 python -m benchmarks.dask_workers --method Sieve --rows 40000 --rounds 8
OMP_NUM_THREADS=1 python -m benchmarks.dask_workers --text --rows 500000 --labels 200

Fits with one and with two workers alternate, so that other work on the machine disturbs both; the
best and the median time are printed. Importing the library on the workers does not count. On a busy
machine, CPU time tells more: the fit takes at least that of this program, which includes the
scheduler, and of the busiest worker. What these processes use while they wait is subtracted.

`--text` runs the program `schirn clean` on a .csv file of generated product titles, with two
workers, and prints CPU time and peak memory of every process.
"""

import argparse
import csv
import os
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from benchmarks.clean_scale import peak_gigabytes
from benchmarks.titles import make_titles
from schirn import Schirn, Sieve
from schirn.exceptions import EmptyCandidatesWarning


def make_rows(first: int, n: int, d: int) -> np.ndarray:
    """Random rows that depend only on the index of the first one."""
    return np.random.default_rng([1, first]).normal(size=(n, d))


def make_candidates(first: int, X: np.ndarray, l: int) -> sp.csr_array:
    """Candidates: labels of a linear model, plus some wrong ones."""
    W = np.random.default_rng(0).normal(size=(X.shape[1], l)) / np.sqrt(X.shape[1])
    wrong = np.random.default_rng([2, first]).random((len(X), l)) < 0.03
    return sp.csr_array(((X @ W > 1.5) | wrong).astype(np.uint8))


def make_model(args: argparse.Namespace, rounds: int) -> Any:
    """An untrained method."""
    if args.method == "Sieve":
        return Sieve(max_iter=rounds)
    return Schirn(alpha=0.2, beta=0.05, lam=10.0, max_iter=rounds)


class Timing(NamedTuple):
    """Seconds of a fit, and CPU seconds of this program and of the busiest worker."""

    wall: float
    program: float
    worker: float

    @property
    def cpu(self) -> float:
        """CPU time of the program, then of the busiest worker."""
        return self.program + self.worker


def stop_heartbeat(dask_worker: Any) -> None:
    """End the messages that would fail, with a traceback, while the cluster closes."""
    for callback in dask_worker.periodic_callbacks.values():
        callback.stop()


def on_workers(n_workers: int, args: argparse.Namespace) -> tuple[Timing, Any]:
    """Time a fit on `n_workers` workers; its model."""
    from dask import delayed
    from dask.distributed import Client, LocalCluster, wait

    options: dict[str, Any] = {"threads_per_worker": 1, "dashboard_address": ":0"}
    with LocalCluster(n_workers=n_workers, **options) as cluster, Client(cluster) as client:
        size = -(-args.rows // args.blocks)
        starts = range(0, args.rows, size)
        blocks = [(i, min(size, args.rows - i)) for i in starts]
        X = client.compute([delayed(make_rows)(i, n, args.features) for i, n in blocks])
        Y = [
            client.submit(make_candidates, i, rows, args.labels)
            for (i, _), rows in zip(blocks, X, strict=True)
        ]
        wait(Y)
        # Workers import the library on first use, which should not count.
        make_model(args, 1).fit(X, Y)

        def used(work: Callable[[], Any]) -> tuple[Timing, Any]:
            before, own = client.run(time.process_time), time.process_time()
            start = time.perf_counter()
            found = work()
            wall, own = time.perf_counter() - start, time.process_time() - own
            after = client.run(time.process_time)
            return Timing(wall, own, max(after[worker] - before[worker] for worker in after)), found

        before, _ = used(lambda: time.sleep(4))
        total, model = used(lambda: make_model(args, args.rounds).fit(X, Y))
        after, _ = used(lambda: time.sleep(4))
        waited = before.wall + after.wall
        program, worker = (
            busy - (early + late) * total.wall / waited
            for busy, early, late in zip(total[1:], before[1:], after[1:], strict=True)
        )
        client.run(stop_heartbeat)
        return Timing(total.wall, program, worker), model


def clean_texts(n_rows: int, n_labels: int) -> None:
    """Clean titles by the program on two workers, and print what every process used."""
    from dask.distributed import Client, LocalCluster

    titles = make_titles(n_rows, n_labels, random_state=0)
    n_wrong = int((titles.listed > titles.truth).sum())
    with tempfile.TemporaryDirectory() as folder:
        table, changes = Path(folder, "items.csv"), Path(folder, "changes.csv")
        with table.open("w", encoding="utf-8", newline="") as stream:
            writer = csv.writer(stream)
            writer.writerow(["title", "tags"])
            rows = zip(titles.texts, titles.listed, strict=True)
            writer.writerows((text, ";".join(titles.names_of(row))) for text, row in rows)
        cluster = LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0")
        with cluster, Client(cluster) as client:
            command = [sys.executable, "-m", "schirn", "clean", str(table), "--text", "title"]
            command += ["--scheduler", cluster.scheduler_address, "--changes", str(changes)]
            start = time.perf_counter()
            program = subprocess.Popen([*command, "--remove", str(n_wrong), "--quiet"])
            _, status, usage = os.wait4(program.pid, 0)
            seconds = time.perf_counter() - start
            peaks = client.run(peak_gigabytes).values()
            cpu = client.run(time.process_time).values()
            client.run(stop_heartbeat)
        if status:
            raise SystemExit(f"the program ended with status {status}")
        with changes.open(encoding="utf-8", newline="") as stream:
            removed = list(csv.DictReader(stream))
    column = {name: j for j, name in enumerate(titles.labels)}
    wrong = [titles.truth[int(line["row"]) - 1, column[line["before"]]] == 0 for line in removed]
    print(
        f"{n_rows:,} titles, {n_labels} tags, {int(titles.listed.sum()):,} listed: {seconds:.0f} s"
    )
    own = f"{usage.ru_utime + usage.ru_stime:.0f} s of CPU time, {usage.ru_maxrss / 1e6:.2f} GB"
    print(f"program: {own}")
    for number, (seconds, peak) in enumerate(zip(cpu, peaks, strict=True), 1):
        print(f"worker {number}: {seconds:.0f} s of CPU time, {peak:.2f} GB")
    print(
        f"this process, with the scheduler: {time.process_time():.0f} s, {peak_gigabytes():.2f} GB"
    )
    print(f"of the {len(wrong):,} most suspicious tags, {np.mean(wrong):.1%} are wrong")


def main() -> None:
    """Print times, their ratio and the difference of the models."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--method", choices=("Schirn", "Sieve"), default="Schirn")
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--features", type=int, default=300)
    parser.add_argument("--labels", type=int, default=50)
    parser.add_argument("--blocks", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--text", action="store_true", help="clean titles by the program")
    args = parser.parse_args()
    if args.text:
        clean_texts(args.rows, args.labels)
        return
    warnings.simplefilter("ignore", EmptyCandidatesWarning)
    shape = f"{args.rows} x {args.features}, {args.labels} labels"
    print(f"{args.method}, {shape}, {args.rounds} rounds")
    timings: dict[int, list[Timing]] = {1: [], 2: []}
    for _ in range(args.repeats):
        for n_workers, found in timings.items():
            timing, model = on_workers(n_workers, args)
            found.append(timing)
            cpu = f"CPU {timing.program:.1f} s here, {timing.worker:.1f} s busiest worker"
            print(f"workers {n_workers}: {timing.wall:.1f} s; {cpu}", flush=True)
    for name, value in (("best", np.min), ("median", np.median)):
        one, two = (value([t.wall for t in timings[k]]) for k in (1, 2))
        print(f"{name}: one worker {one:.1f} s, two workers {two:.1f} s, ratio {one / two:.2f}")
    one, two = (min(t.cpu for t in timings[k]) for k in (1, 2))
    print(f"least CPU here and of the busiest worker: {one:.1f} s, {two:.1f} s, {one / two:.2f}")
    size = -(-args.rows // args.blocks)
    starts = range(0, args.rows, size)
    X = np.vstack([make_rows(i, min(size, args.rows - i), args.features) for i in starts])
    Y = sp.vstack([make_candidates(i, X[i : i + size], args.labels) for i in starts])
    start = time.perf_counter()
    local = make_model(args, args.rounds).fit(X, Y)
    alone = time.perf_counter() - start
    difference = np.abs(model.decision_function(X) - local.decision_function(X)).max()
    print(f"without Dask {alone:.1f} s")
    print(f"largest difference from the scores without Dask {difference:.1e}")
    different = int((model.noise_.toarray() != local.noise_).sum())
    print(f"different verdicts {different} of {int(Y.sum())}")


if __name__ == "__main__":
    main()
