# ruff: noqa: E402
"""Growth of time with rows, features and labels: doubling series, exponents and a cost model.

    python -m benchmarks.growth                 (some minutes on an idle machine)
    python -m benchmarks.growth --largest 4     (fewer doublings)
    python -m benchmarks.growth --predict       (also extrapolates to large data sets)
    python -m benchmarks.growth --sieve         (only Sieve on few rows with many labels)

Every point is the CPU time of 10 rounds of Schirn, or of the factorisation, on one thread in double
precision. The exponent is the slope between the two largest points of a series, printed next to the
slope of the operation count: 2ndl + 4nl^2 + 11l^3 for a round, nd^2 + 11d^3 for the factorisation.
The cost model has two rates: a fitted one for products and a measured one for eigenproblems.
"""

import os

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = "1"

import argparse
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from schirn import Sieve
from schirn.linalg.row_space import row_space
from schirn.solvers.schirn_blocks import schirn_in_one_block

ROUNDS = 10
BASE = {"n": 4000, "d": 200, "l": 50}
STARTS = {"n": 1000, "d": 50, "l": 25}


class Point(NamedTuple):
    """Seconds of the factorisation and of one round at one shape."""

    n: int
    d: int
    l: int
    factor: float
    round: float


class Large(NamedTuple):
    """A published data set with many labels; d is the size of its bag of words."""

    name: str
    n: int
    d: int
    l: int
    cardinality: float


# Rows and labels from Table 1 of the paper, features and labels per row from the public
# descriptions of the data sets.
LARGE = (
    Large("LF-Amazon-131K", 294_805, 80_000, 131_073, 2.29),
    Large("Amazon-titles", 2_248_619, 128_000, 1_305_265, 22.2),
)


def products(n: float, d: float, l: float) -> float:
    """Operations of the matrix products of a round."""
    return 2 * n * d * l + 4 * n * l**2


def eigenproblem(l: float) -> float:
    """Operations of a symmetric eigenproblem with vectors, and of the product that follows."""
    return 11 * l**3


def main() -> None:
    """Measure, fit the cost model and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--largest", type=int, default=5, help="doublings (default: 5)")
    parser.add_argument("--predict", action="store_true")
    parser.add_argument("--sieve", action="store_true")
    args = parser.parse_args()
    if args.sieve:
        many_labels()
        return
    shapes = [
        tuple({**BASE, name: STARTS[name] * 2**k}.values())
        for name in "ndl"
        for k in range(args.largest + 1)
    ]
    points = [measure(*shape) for shape in dict.fromkeys(shapes)]
    for name in "ndl":
        series(name, [p for p in points if _only(p, name)])
    rates = fitted(points)
    print(f"model: {rates[0] / 1e9:.1f} GFLOPS in products, {rates[1] / 1e9:.1f} in eigenproblems")
    errors = [predicted(p, rates) / p.round for p in points if p.round > 1e-3]
    print(
        f"model / measured: {min(errors):.2f} to {max(errors):.2f}, median {np.median(errors):.2f}"
    )
    if args.predict:
        for data in LARGE:
            forecast(data, rates)


def measure(n: int, d: int, l: int) -> Point:
    """Measure one shape: best of three runs."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, d))
    Y = (X @ rng.normal(size=(d, l)) > 1.5 * d**0.5).astype(float)
    space, factor = clocked(lambda: row_space(X, ridge=1.0))
    options = {"alpha": 0.5, "beta": 0.05, "lam": 10.0, "max_iter": ROUNDS}
    _, rounds = clocked(lambda: schirn_in_one_block(space, Y, **options))
    return Point(n, d, l, factor, rounds / ROUNDS)


def many_labels(n: int = 60, d: int = 20) -> None:
    """Print the time of Sieve for a growing number of labels."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, d))
    print(f"Sieve, {n} rows\n{'labels':>8} {'fit s':>10}")
    for l in (500, 1000, 2000, 4000):
        Y = rng.random((n, l)) < 10 / l
        Y[np.arange(n), rng.integers(l, size=n)] = True
        _, seconds = clocked(lambda Y=Y: Sieve().fit(X, Y))
        print(f"{l:8} {seconds:10.2f}")


def clocked(work: Callable[[], Any]) -> tuple[Any, float]:
    """Result of a function, and the smallest CPU time of three runs."""
    best = np.inf
    for _ in range(3):
        start = time.process_time()
        result = work()
        best = min(best, time.process_time() - start)
    return result, best


def series(name: str, points: list[Point]) -> None:
    """Print one doubling series with its exponents."""
    points = sorted(points, key=lambda p: getattr(p, name))
    print(f"\nagainst {name}" + "".join(f", {k}={v}" for k, v in BASE.items() if k != name))
    print(f"{name:>8} {'factor s':>10} {'round s':>10}")
    for p in points:
        print(f"{getattr(p, name):8} {p.factor:10.4f} {p.round:10.4f}")
    before, last = points[-2:]
    counts = [
        (p.n * p.d**2 + eigenproblem(p.d), products(p.n, p.d, p.l) + eigenproblem(p.l))
        for p in (before, last)
    ]
    factor, rounds = np.log2(last.factor / before.factor), np.log2(last.round / before.round)
    theory = np.log2(np.array(counts[1]) / np.array(counts[0]))
    print(f"exponent of the factorisation {factor:.2f} (operations: {theory[0]:.2f}), "
          f"of a round {rounds:.2f} (operations: {theory[1]:.2f})")  # fmt: skip


def fitted(points: list[Point]) -> tuple[float, float]:
    """Operations per second in products (relative least squares) and in an eigenproblem."""
    rng = np.random.default_rng(0)
    A = rng.normal(size=(1000, 1000))
    _, seconds = clocked(lambda: np.linalg.eigh(A @ A.T))
    eigen_rate = eigenproblem(1000) / seconds
    ratios = np.array([products(p.n, p.d, p.l) / _rest(p, eigen_rate) for p in points])
    return float(np.exp(np.mean(np.log(ratios)))), eigen_rate


def _rest(p: Point, eigen_rate: float) -> float:
    """Seconds of a round without its eigenproblem."""
    return max(p.round - eigenproblem(p.l) / eigen_rate, p.round / 10)


def predicted(p: Point, rates: tuple[float, float]) -> float:
    """Seconds of a round by the model."""
    return products(p.n, p.d, p.l) / rates[0] + eigenproblem(p.l) / rates[1]


def forecast(data: Large, rates: tuple[float, float]) -> None:
    """Print memory, messages and time that the model predicts for a large data set."""
    n, d, l = data.n, data.d, data.l
    state = 3 * n * l * 4
    print(f"\n{data.name}: {n:,} rows, {d:,} features, {l:,} labels")
    print(f"  candidates as CSR: {n * data.cardinality * 12 / 1e9:.2g} GB; "
          f"three n x l arrays in float32: {state / 1e12:.3g} TB")  # fmt: skip
    print(f"  l x l matrices in float64, three of them: {3 * l**2 * 8 / 1e12:.3g} TB; "
          f"weights d x l in float32: {d * l * 4 / 1e9:.3g} GB")  # fmt: skip
    message = 4 * (2 * d * l + 2 * l * l)
    print(f"  network per round and worker: {message / 1e9:.3g} GB "
          f"(two sums and two broadcasts in float32)")  # fmt: skip
    operations = products(n, d, l) + eigenproblem(l)
    one_core = products(n, d, l) / rates[0] + eigenproblem(l) / rates[1]
    print(f"  operations per round: {operations:.2g}; one core {_time(one_core)} per round, "
          f"a GPU of 50 TFLOPS {_time(operations / 5e13)}")  # fmt: skip


def _time(seconds: float) -> str:
    for size, unit in (
        (86400 * 365.25, "years"),
        (86400, "days"),
        (3600, "hours"),
        (60, "minutes"),
    ):
        if seconds >= 2 * size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds:.3g} seconds"


def _only(p: Point, name: str) -> bool:
    return all(getattr(p, k) == v for k, v in BASE.items() if k != name)


if __name__ == "__main__":
    main()
