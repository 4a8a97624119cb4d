"""Schirn or Sieve on Dask: time with two single-thread workers and with one, and agreement.

OMP_NUM_THREADS=1 python -m benchmarks.dask_workers --rows 200000 --features 300 --labels 50
OMP_NUM_THREADS=1 python -m benchmarks.dask_workers --method Sieve --rows 40000 --rounds 8

Times are the best of a few fits; importing the library on the workers does not count. On a busy
machine, CPU time tells more: the fit takes at least that of this program and of the busiest worker.
"""

import argparse
import time
import warnings
from typing import Any

import numpy as np
import scipy.sparse as sp

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


def on_workers(n_workers: int, args: argparse.Namespace) -> tuple[float, float, Any]:
    """Time of the fastest fit on `n_workers` workers, its CPU time, and its model."""
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
        best = cpu = np.inf
        for _ in range(args.repeats):
            before, own = client.run(time.process_time), time.process_time()
            start = time.perf_counter()
            model = make_model(args, args.rounds).fit(X, Y)
            best = min(best, time.perf_counter() - start)
            own = time.process_time() - own
            after = client.run(time.process_time)
            cpu = min(cpu, own + max(after[worker] - before[worker] for worker in after))
        return best, cpu, model


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
    args = parser.parse_args()
    warnings.simplefilter("ignore", EmptyCandidatesWarning)
    one, cpu_one, _ = on_workers(1, args)
    two, cpu_two, model = on_workers(2, args)
    size = -(-args.rows // args.blocks)
    starts = range(0, args.rows, size)
    X = np.vstack([make_rows(i, min(size, args.rows - i), args.features) for i in starts])
    Y = sp.vstack([make_candidates(i, X[i : i + size], args.labels) for i in starts])
    start = time.perf_counter()
    local = make_model(args, args.rounds).fit(X, Y)
    alone = time.perf_counter() - start
    difference = np.abs(model.decision_function(X) - local.decision_function(X)).max()
    shape = f"{args.rows} x {args.features}, {args.labels} labels"
    print(f"{args.method}, {shape}, {args.rounds} rounds")
    print(f"one worker {one:.1f} s, two workers {two:.1f} s, without Dask {alone:.1f} s")
    print(f"one worker / two workers {one / two:.2f}")
    print(f"CPU of program and busiest worker {cpu_one:.1f} s, {cpu_two:.1f} s")
    print(f"one worker / two workers by CPU {cpu_one / cpu_two:.2f}")
    print(f"largest difference from the scores without Dask {difference:.1e}")
    different = int((model.noise_.toarray() != local.noise_).sum())
    print(f"different verdicts {different} of {int(Y.sum())}")


if __name__ == "__main__":
    main()
