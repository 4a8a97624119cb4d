"""Schirn on a GPU: time of 100 rounds, and the effect of lower precision on the scores.

    python -m benchmarks.gpu --shape 500000,1000,1000
    python -m benchmarks.gpu --shape 500000,1000,1000 --tf32
    python -m benchmarks.gpu --shape 500000,1000,1000 --compare
    python -m benchmarks.gpu --shape 500000,1000,1000 --single --compare
    python -m benchmarks.gpu --data eurlex4k            (needs SCHIRN_DATA)
    python -m benchmarks.gpu --shape 2000,100,300 --device cpu
    python -m benchmarks.gpu --steps                           (the time of each step)
    python -m benchmarks.gpu --search --shape 20000,100,20     (choose the parameters, too)

`--single` computes all products in single precision. Without it, the library splits the operands of
large products for the TF32 units of the GPU (`schirn.linalg.products`).

The plain rate is that of one product X W of the same shape and precision; the printed share is the
fraction of it that the rounds reach, counting 2 n l (d + 2 l) operations per round. The first two
rounds, which load the libraries of the device, are run twice, and timed the second time only.
"""

import argparse
import time
from typing import Any

import numpy as np
import torch

from benchmarks.sieve_gpu import generated as separable
from schirn import Schirn
from schirn.datasets import add_noise, load
from schirn.linalg import products
from schirn.linalg.arrays import to_numpy
from schirn.scale.blocks import Block, Cells, Coordinates, DenseRows, MemoryRows, candidate_cells
from schirn.solvers import schirn_blocks as solver
from schirn.solvers.schirn_blocks import schirn_on_blocks

ALPHA, BETA, LAM = 0.8, 0.05, 10.0


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--shape", default="500000,1000,1000", help="rows, features, labels")
    parser.add_argument("--data", help="data set to use instead, with 5 wrong labels per row")
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--tf32", action="store_true", help="compute products in TF32")
    parser.add_argument("--single", action="store_true", help="split no products")
    parser.add_argument("--double", action="store_true", help="use double precision")
    parser.add_argument(
        "--compare", action="store_true", help="compare the scores with double precision"
    )
    parser.add_argument("--steps", action="store_true", help="print the time of each step")
    parser.add_argument(
        "--search", action="store_true", help="fit Schirn() here and in main memory instead"
    )
    args = parser.parse_args()
    if args.search:
        search(args)
        return
    torch.backends.cuda.matmul.allow_tf32 = args.tf32
    if args.single:
        products.split_product = torch.matmul
    X, cells = from_file(args) if args.data else generated(args)
    if args.double:
        X = X.double()
    n, d = X.shape
    l = cells.shape[1]
    F, eigenvalues, seconds = clocked(args.device, lambda: factor(X))
    print(f"{n} x {d}, {l} labels, {cells.row.shape[0]} candidates; factored in {seconds:.2f} s")
    rounds(F, eigenvalues, cells, 2)
    w, trace, seconds = clocked(args.device, lambda: rounds(F, eigenvalues, cells, args.rounds))
    rate = plain_rate(X, l, args.device)
    share = 2 * n * l * (d + 2 * l) * args.rounds / seconds / rate
    kind = "TF32" if args.tf32 else str(X.dtype).removeprefix("torch.")
    print(f"{args.rounds} rounds, {kind}: {seconds:.2f} s, {share:.0%} of the plain rate "
          f"({rate / 1e12:.1f} TFLOPS); noise {trace.n_noise[-1]}")  # fmt: skip
    if args.device == "cuda":
        print(f"peak memory {torch.cuda.max_memory_allocated() / 1e9:.1f} GB")
    if args.steps:
        by_step(args, lambda: rounds(F, eigenvalues, cells, args.rounds))
    if args.compare:
        scores = F @ w
        torch.backends.cuda.matmul.allow_tf32 = False
        F, eigenvalues, _ = clocked(args.device, lambda: factor(X.double()))
        exact, double, _ = clocked(args.device, lambda: rounds(F, eigenvalues, cells, args.rounds))
        report(scores, F @ exact, trace, double)


def generated(args: argparse.Namespace) -> tuple[Any, Cells]:
    """Random rows whose labels depend on the features; one false label in a hundred is listed."""
    n, d, l = (int(size) for size in args.shape.split(","))
    rng = torch.Generator(args.device).manual_seed(0)
    options = {"generator": rng, "device": args.device}
    X = torch.randn(n, d, **options)
    W = torch.randn(d, l, **options) / d**0.5
    labels, rows = [], []
    for j in range(0, l, 100):
        scores = X @ W[:, j : j + 100]
        listed = (scores > 2.0) | (torch.rand(scores.shape, **options) < 0.01)
        label, row = torch.nonzero(listed.T, as_tuple=True)
        labels.append(label + j)
        rows.append(row)
    label, row = torch.cat(labels), torch.cat(rows)
    return X, Cells(label, row, (n, l), label * n + row)


def from_file(args: argparse.Namespace) -> tuple[Any, Cells]:
    """A real data set, dense, on the device."""
    data = load(args.data)
    if data.n_train is not None:
        data = data.subset(range(data.n_train))
    Y = add_noise(data.y_true, 5, random_state=0)
    X = data.X.toarray() if hasattr(data.X, "toarray") else data.X
    X = torch.asarray(X.astype(np.float32), device=args.device)
    return X, candidate_cells(Y, X)


def factor(X: Any) -> tuple[Any, Any]:
    """Rows of F = X V, and the squared singular values."""
    gram = torch.zeros(X.shape[1], X.shape[1], dtype=torch.float64, device=X.device)
    for i in range(0, len(X), 50_000):
        block = X[i : i + 50_000].double()
        gram += block.T @ block
    squared, V = torch.linalg.eigh(gram)
    keep = squared > squared[-1] * 1e-10
    return X @ V[:, keep].to(X.dtype), squared[keep].to(X.dtype)


def rounds(F: Any, eigenvalues: Any, cells: Cells, count: int) -> tuple[Any, Any]:
    """Weights in the row space, and the trace."""
    store = MemoryRows([Block(DenseRows(F), cells)])
    coordinates = Coordinates(eigenvalues, torch.ones_like(eigenvalues), len(F))
    trace = schirn_on_blocks(store, coordinates, alpha=ALPHA, beta=BETA, lam=LAM, max_iter=count)
    return trace.w, trace


def by_step(args: argparse.Namespace, work: Any) -> None:
    """Run all rounds again, wait for the device after each function below, and print its time."""
    steps = {
        "scores X W": [(DenseRows, "expand")],
        "Gram matrix of G": [(solver.Centred, "gram")],
        "sums over rows x labels": [(solver, "begin_round"), (solver, "finish_round")],
        "rank step": [(solver, "_shift")],
    }
    seconds, calls = dict.fromkeys(steps, 0.0), dict.fromkeys(steps, 0)
    inner = [0.0]

    def timed(step: str, function: Any) -> Any:
        def run(*values: Any, **options: Any) -> Any:
            inner.append(0.0)
            result, _, taken = clocked(args.device, lambda: (function(*values, **options), None))
            seconds[step] += taken - inner.pop()
            calls[step] += 1
            inner[-1] += taken
            return result

        return run

    for step, places in steps.items():
        for home, name in places:
            setattr(home, name, timed(step, getattr(home, name)))
    *_, total = clocked(args.device, work)
    for step in steps:
        print(f"{step:28} {1e3 * seconds[step] / args.rounds:6.2f} ms a round, {calls[step]} calls")
    print(f"{'the rest':28} {1e3 * (total - sum(seconds.values())) / args.rounds:6.2f} ms a round")


def search(args: argparse.Namespace) -> None:
    """Fit Schirn, which chooses its parameters, on the device and in main memory."""
    n, d, l = (int(size) for size in args.shape.split(","))
    X, _, candidates = separable(n, d, l, args.device)
    Schirn().fit(X, candidates)
    found, _, seconds = clocked(args.device, lambda: (Schirn().fit(X, candidates), None))
    other, _, slow = clocked("cpu", lambda: (Schirn().fit(X.cpu().numpy(), candidates), None))
    print(f"{n} x {d}, {l} labels: {seconds:.2f} s on {args.device}, {slow:.2f} s in main memory")
    for name, model in ((args.device, found), ("main memory", other)):
        print(f"{name}: alpha {model.alpha_}, beta {model.beta_}, lam {model.lam_}")
    noise = found.noise_
    differ = (noise.toarray() if hasattr(noise, "toarray") else to_numpy(noise)) != other.noise_
    print(f"{differ.sum()} of {other.noise_.sum()} noise cells differ")


def clocked(device: str, work: Any) -> tuple[Any, Any, float]:
    """Result of a function, and its time in seconds."""
    synchronize(device)
    start = time.perf_counter()
    first, second = work()
    synchronize(device)
    return first, second, time.perf_counter() - start


def plain_rate(X: Any, l: int, device: str) -> float:
    """Operations per second of the product X W."""
    W = torch.randn(X.shape[1], l, dtype=X.dtype, device=device)
    X @ W
    synchronize(device)
    start = time.perf_counter()
    for _ in range(5):
        X @ W
    synchronize(device)
    return 10 * X.shape[0] * X.shape[1] * l / (time.perf_counter() - start)


def synchronize(device: str) -> None:
    """Wait for the device."""
    if device == "cuda":
        torch.cuda.synchronize()


def report(scores: Any, exact: Any, trace: Any, double: Any) -> None:
    """Print how far scores and decisions are from those in double precision."""
    error = (scores - exact).abs()
    largest, mean = float(error.max()), float((error**2).mean() ** 0.5)
    print(f"against double precision: scores differ by {largest:.1e} at most, by {mean:.1e} in the")
    print(f"root mean square, and reach {float(exact.abs().max()):.2f};", end=" ")
    print(f"noise {trace.n_noise[-1]} and {double.n_noise[-1]}")


if __name__ == "__main__":
    main()
