"""Speed of Schirn relative to a plain transcription of its formulas and to one ridge fit.

    python -m benchmarks.speed          (or: make benchmark)
    python -m benchmarks.speed --quick  (without the largest shapes)
    python -m benchmarks.speed --small  (birds and yeastmf by CPU time, needs SCHIRN_DATA)

Every figure is a ratio of times measured in the same run. For sparse features there are two ridge
fits: scikit-learn's choice for the sparse matrix, and its fit of the same matrix made dense. If
`SCHIRN_DATA` is set, the real data sets are measured too. `--small` takes turns, so that other load
falls on all of them, and counts CPU time of one thread.
"""

import argparse
import os
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.linear_model import Ridge

from benchmarks.measure import PAPER_SHAPES, Shape, peak_megabytes, seconds
from schirn import Schirn
from schirn.datasets import add_noise, load
from schirn.exceptions import EmptyCandidatesWarning
from schirn.linalg.arrays import threads_for
from schirn.linalg.row_space import row_space
from schirn.solvers.schirn import schirn

ROUNDS = 100
PARAMS = {"alpha": 0.5, "beta": 0.05, "lam": 10.0}
SERIES = {
    "n": [Shape(f"n={n}", n, 300, 30, 3, 3) for n in (1000, 2000, 4000, 8000)],
    "d": [Shape(f"d={d}", 2000, d, 30, 3, 3) for d in (250, 500, 1000, 2000)],
    "l": [Shape(f"l={l}", 2000, 300, l, 3, 3) for l in (25, 50, 100, 200)],
}


def plain(X: np.ndarray, Y: np.ndarray, rounds: int) -> np.ndarray:
    """The formulas of the paper, with a linear solve and an SVD in every round."""
    alpha, beta, lam = PARAMS.values()
    d, mu = X.shape[1], 1e-4
    C, L = np.ones(Y.shape), np.ones(Y.shape)
    XtX = X.T @ X
    for _ in range(rounds):
        A = mu * XtX + 2 * lam * np.eye(d)
        W = np.linalg.solve(A, X.T @ (mu * C - L))
        N = (Y - C > (1 + alpha) / 2) & (Y == 1)
        G = (2 * Y - 2 * N + L + mu * (X @ W)) / (2 + mu)
        U, S, Vt = np.linalg.svd(G, full_matrices=False)
        C = (U * (S + 2 * beta / (2 + mu))) @ Vt
        L = L + mu * (X @ W - C)
        mu = min(10.0, 1.1 * mu)
    return W


def plain_seconds(X: np.ndarray, Y: np.ndarray) -> float:
    """Time of 100 plain rounds, extrapolated from two shorter runs if they are slow."""
    few = seconds(lambda: plain(X, Y, 2), repeats=1)
    if few < 0.5:
        return seconds(lambda: plain(X, Y, ROUNDS), repeats=2)
    more = seconds(lambda: plain(X, Y, 5), repeats=1)
    return few + (ROUNDS - 2) * (more - few) / 3


def row(name: str, X: Any, Y: np.ndarray, *, with_plain: bool) -> list[str]:
    """Measure one data set."""
    sparse = sp.issparse(X)
    dense, targets = (X.toarray() if sparse else X), Y.astype(X.dtype)
    ours = seconds(lambda: Schirn(**PARAMS).fit(X, Y))
    ridge = seconds(lambda: Ridge(alpha=10.0, fit_intercept=False).fit(X, targets))
    ridge_dense = ridge
    if sparse:
        ridge_dense = seconds(lambda: Ridge(alpha=10.0, fit_intercept=False).fit(dense, targets))
    slow = plain_seconds(dense, Y.astype(float)) if with_plain else float("nan")
    memory = peak_megabytes(lambda: Schirn(max_iter=3, **PARAMS).fit(X, Y))
    return [
        name,
        f"{X.shape[0]} x {X.shape[1]}, {Y.shape[1]}",
        f"{slow / ours:.0f}" if with_plain else "–",
        f"{ours / ridge:.2f}",
        f"{ours / ridge_dense:.2f}" if sparse else "–",
        f"{memory:.0f}",
        f"{dense.nbytes / 1e6:.0f}",
        f"{ours:.3f}",
    ]


def shape_row(shape: Shape, *, with_plain: bool) -> list[str]:
    """Measure random data of a shape."""
    data = shape.make()
    return row(shape.name, data.X, data.candidates, with_plain=with_plain)


def real_row(name: str, r: int | None) -> list[str]:
    """Measure four fifths of a real data set."""
    data = load(name)
    Y = data.candidates if r is None else add_noise(data.y_true, r, kind="legacy")
    train = np.arange(len(Y)) % 5 != 0
    return row(name, data.X[train].astype(float), Y[train], with_plain=False)


def small_set(name: str, r: int | None, turns: int = 15) -> None:
    """Print the time of 100 rounds on all rows of a data set, beside other ways and a ridge."""
    data = load(name)
    Y = data.candidates if r is None else add_noise(data.y_true, r, kind="legacy")
    X = data.X.toarray() if sp.issparse(data.X) else data.X
    X = X.astype(float)
    targets = Y.astype(float)
    space = row_space(X, ridge=2 * PARAMS["lam"])
    w = np.ones((space.shape[1], Y.shape[1]))
    work: dict[str, Callable[[], Any]] = {
        "rounds": lambda: schirn(space, Y, **PARAMS),
        "their products": lambda: [space.expand(w) for _ in range(ROUNDS)],
        "fit": lambda: Schirn(**PARAMS).fit(X, Y),
        "ridge": lambda: Ridge(alpha=10.0, fit_intercept=False).fit(X, targets),
    }
    # The plain form takes minutes where there are thousands of features.
    if X.shape[1] < 1000:
        work["plain"] = lambda: plain(X, targets, ROUNDS)
    best = cpu_seconds(work, turns)
    print(f"\n{name}: {X.shape[0]} x {X.shape[1]}, {Y.shape[1]} labels")
    for what, seconds_of_cpu in best.items():
        print(f"  {what:14} {1e3 * seconds_of_cpu:8.1f} ms of CPU time")
    ratios = [("rounds", "ridge"), ("fit", "ridge")]
    if "plain" in best:
        ratios += [("plain", "rounds"), ("plain", "their products")]
    for one, other in ratios:
        print(f"  {one} / {other}: {best[one] / best[other]:.1f}")


def cpu_seconds(work: dict[str, Callable[[], Any]], turns: int) -> dict[str, float]:
    """Smallest CPU time of each function over some turns, on one thread."""
    best = dict.fromkeys(work, float("inf"))
    with threads_for(0):
        for _ in range(turns):
            for name, function in work.items():
                start = time.process_time()
                function()
                best[name] = min(best[name], time.process_time() - start)
    return best


HEAD = [
    "shape",
    "rows x features, labels",
    "plain / ours",
    "ours / Ridge",
    "ours / dense Ridge",
    "peak MB",
    "dense X MB",
    "ours s",
]


def table(title: str, rows: list[list[str]]) -> None:
    """Print rows as a Markdown table."""
    print(f"\n### {title}\n")
    print("| " + " | ".join(HEAD) + " |")
    print("|" + "---|" * len(HEAD))
    for cells in rows:
        print("| " + " | ".join(cells) + " |", flush=True)


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="leave out yeastbp and the series")
    parser.add_argument("--small", action="store_true", help="birds and yeastmf only")
    args = parser.parse_args()
    quick = args.quick
    warnings.simplefilter("ignore", EmptyCandidatesWarning)
    if args.small:
        small_set("birds", 3)
        small_set("yeastmf", None)
        return
    shapes = PAPER_SHAPES[:-1] if quick else PAPER_SHAPES
    table("Shapes of the paper", [shape_row(shape, with_plain=True) for shape in shapes])
    if os.environ.get("SCHIRN_DATA"):
        real = (("birds", 3), ("scene", 1), ("medical", 3), ("yeastmf", None), ("yeastbp", None))
        table("The data sets themselves", [real_row(*one) for one in real])
    for name, series in {} if quick else SERIES.items():
        table(f"Growing {name}", [shape_row(shape, with_plain=False) for shape in series])


if __name__ == "__main__":
    main()
