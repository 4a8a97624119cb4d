"""Many labels: Schirn on EUR-Lex (15,539 training rows, 5,000 features, 3,993 labels).

    SCHIRN_DATA=... python -m benchmarks.eurlex --device cuda
    SCHIRN_DATA=... python -m benchmarks.eurlex --rounds 100    (NumPy, half an hour on two cores)
    SCHIRN_DATA=... python -m benchmarks.eurlex --rows 4000 --rounds 20
    SCHIRN_DATA=... python -m benchmarks.eurlex --alpha none [--raw]    (the ridges: two minutes)

Adds wrong labels to the training rows, trains Schirn, predicts the test rows, and prints precision
at 1, 3 and 5 and average precision against the true labels, next to scikit-learn's ridge (one
target per label) on the same candidates and on the true labels. Rows are scaled to length one;
--raw shows what is lost without. If several noise penalties are given, as in --alpha 0.2,0.5,0.9,
the best one on the candidates of a held-out tenth of the training rows is used; --alpha none trains
the ridges only.
"""

import argparse
import time
from typing import Any

import numpy as np
from sklearn.linear_model import Ridge
from sklearn.preprocessing import normalize

from benchmarks.measure import peak_gigabytes
from schirn import Schirn
from schirn.datasets import add_noise, load
from schirn.linalg.arrays import to_numpy
from schirn.metrics import average_precision


def main() -> None:
    """Train, predict and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", help="PyTorch device, such as cuda (default: NumPy)")
    parser.add_argument("--tf32", action="store_true")
    parser.add_argument("--r", type=int, default=5, help="wrong labels per row (default: 5)")
    parser.add_argument("--rows", type=int, help="number of training rows (default: all)")
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--lam", type=float, default=1.0)
    parser.add_argument(
        "--alpha", default="0.2", help="noise penalty, several to choose from, or none"
    )
    parser.add_argument("--raw", action="store_true", help="do not scale rows to length one")
    args = parser.parse_args()
    data = load("eurlex4k")
    train = data.subset(range(args.rows or data.n_train))
    test = data.subset(range(data.n_train, data.n_samples))
    candidates = add_noise(train.y_true, args.r, random_state=0)
    X, X_test = (each.X.astype(np.float32) for each in (train, test))
    if not args.raw:
        X, X_test = normalize(X), normalize(X_test)
    print(f"{X.shape[0]} x {X.shape[1]}, {candidates.shape[1]} labels, {args.r} wrong per row")
    for name, labels in (("candidates", candidates), ("true labels", train.y_true)):
        ridge = Ridge(alpha=args.lam, fit_intercept=False, solver="cholesky")
        start = time.perf_counter()
        ridge.fit(X, labels.toarray().astype(np.float32))
        middle = time.perf_counter()
        scores = ridge.predict(X_test)
        end = time.perf_counter()
        report(f"Ridge on the {name}", test.y_true, scores, middle - start, end - middle)
    if args.alpha != "none":
        alpha = choose_alpha(X, candidates, args)
        model = Schirn(alpha=alpha, beta=0.05, lam=args.lam, max_iter=args.rounds)
        scores, fit, predict = timed(model, X, candidates, X_test, args)
        report(
            f"Schirn(alpha={alpha}), {args.device or 'NumPy'}", test.y_true, scores, fit, predict
        )
    print(f"peak memory {peak_gigabytes():.1f} GB")


def choose_alpha(X: Any, Y: Any, args: argparse.Namespace) -> float:
    """Choose the noise penalty by average precision on held-out candidates."""
    values = [float(alpha) for alpha in args.alpha.split(",")]
    if len(values) == 1:
        return values[0]
    held = np.arange(X.shape[0]) % 10 == 0
    found = {}
    for alpha in values:
        model = Schirn(alpha=alpha, beta=0.05, lam=args.lam, max_iter=args.rounds)
        scores, _, _ = timed(model, X[~held], Y[~held], X[held], args)
        found[alpha] = average_precision(Y[held], scores)
        print(f"alpha {alpha}: {100 * found[alpha]:.1f} against held-out candidates", flush=True)
    return max(found, key=found.__getitem__)


def timed(
    model: Any, X: Any, Y: Any, X_test: Any, args: argparse.Namespace
) -> tuple[Any, float, float]:
    """Scores of the test rows, and seconds of training and prediction."""
    if args.device is not None:
        import torch

        torch.backends.cuda.matmul.allow_tf32 = args.tf32
        X, X_test = (torch.asarray(A.toarray(), device=args.device) for A in (X, X_test))
    start = time.perf_counter()
    model.fit(X, Y)
    middle = time.perf_counter()
    scores = to_numpy(model.decision_function(X_test))
    return scores, middle - start, time.perf_counter() - middle


def report(name: str, truth: Any, scores: np.ndarray, fit: float, predict: float) -> None:
    """Print one line."""
    truth = truth.toarray() if hasattr(truth, "toarray") else np.asarray(truth)
    best = np.argsort(-scores, axis=1, kind="stable")[:, :5]
    hits = np.take_along_axis(truth, best, axis=1)
    precision = ", ".join(f"P@{k} {100 * hits[:, :k].mean():.1f}" for k in (1, 3, 5))
    average = 100 * average_precision(truth, scores)
    print(f"{name}: {precision}, average precision {average:.1f}; "
          f"trained in {fit:.1f} s, predicted in {predict:.1f} s", flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
