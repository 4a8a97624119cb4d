"""Schirn against a plain transcription of its formulas and against one ridge fit.

Run with `python -m benchmarks.speed` (or `make benchmark`). Every figure is a ratio of times
taken in the same run; `--quick` leaves out the largest shapes.
"""

import argparse
import warnings

import numpy as np
import scipy.linalg
from sklearn.linear_model import Ridge

from benchmarks.measure import PAPER_SHAPES, Shape, peak_megabytes, seconds
from schirn import Schirn
from schirn.exceptions import EmptyCandidatesWarning

ROUNDS = 100
PARAMS = {"alpha": 0.5, "beta": 0.05, "lam": 10.0}
SERIES = {
    "n": [Shape(f"n={n}", n, 300, 30, 3, 3) for n in (1000, 2000, 4000, 8000)],
    "d": [Shape(f"d={d}", 2000, d, 30, 3, 3) for d in (250, 500, 1000, 2000)],
    "l": [Shape(f"l={l}", 2000, 300, l, 3, 3) for l in (25, 50, 100, 200)],
}


def plain(X: np.ndarray, Y: np.ndarray, rounds: int) -> np.ndarray:
    """The formulas as printed: a linear solve and a singular value decomposition per round."""
    alpha, beta, lam = PARAMS.values()
    d, mu = X.shape[1], 1e-4
    C, L = np.ones(Y.shape), np.ones(Y.shape)
    XtX = X.T @ X
    for _ in range(rounds):
        A = mu * XtX + 2 * lam * np.eye(d)
        W = scipy.linalg.solve(A, X.T @ (mu * C - L), assume_a="pos")
        N = (Y - C > (1 + alpha) / 2) & (Y == 1)
        G = (2 * Y - 2 * N + L + mu * (X @ W)) / (2 + mu)
        U, S, Vt = np.linalg.svd(G, full_matrices=False)
        C = (U * (S + 2 * beta / (2 + mu))) @ Vt
        L = L + mu * (X @ W - C)
        mu = min(10.0, 1.1 * mu)
    return W


def plain_seconds(X: np.ndarray, Y: np.ndarray) -> float:
    """Time of 100 plain rounds, from the difference of two shorter runs where they are slow."""
    few = seconds(lambda: plain(X, Y, 2), repeats=1)
    if few < 0.5:
        return seconds(lambda: plain(X, Y, ROUNDS), repeats=2)
    more = seconds(lambda: plain(X, Y, 5), repeats=1)
    return few + (ROUNDS - 2) * (more - few) / 3


def row(shape: Shape, *, with_plain: bool) -> list[str]:
    """Measure one shape."""
    data = shape.make()
    X, Y = data.X, data.candidates
    dense = X if shape.density == 1 else X.toarray()
    ours = seconds(lambda: Schirn(**PARAMS).fit(X, Y))
    ridge = seconds(lambda: Ridge(alpha=10.0, fit_intercept=False).fit(X, Y.astype(float)))
    if shape.density < 1:
        ridge_dense = seconds(
            lambda: Ridge(alpha=10.0, fit_intercept=False).fit(dense, Y.astype(float))
        )
    else:
        ridge_dense = ridge
    slow = plain_seconds(dense, Y.astype(float)) if with_plain else float("nan")
    memory = peak_megabytes(lambda: Schirn(max_iter=3, **PARAMS).fit(X, Y))
    return [
        shape.name,
        f"{shape.n} x {shape.d}, {shape.labels}",
        f"{slow / ours:.0f}" if with_plain else "-",
        f"{ours / ridge:.2f}",
        f"{ours / ridge_dense:.2f}",
        f"{memory:.0f}",
        f"{dense.nbytes / 1e6:.0f}",
        f"{ours:.3f}",
    ]


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
    quick = parser.parse_args().quick
    warnings.simplefilter("ignore", EmptyCandidatesWarning)
    shapes = PAPER_SHAPES[:-1] if quick else PAPER_SHAPES
    table("Shapes of the paper", [row(shape, with_plain=True) for shape in shapes])
    for name, series in {} if quick else SERIES.items():
        table(f"Growing {name}", [row(shape, with_plain=False) for shape in series])


if __name__ == "__main__":
    main()
