"""Ablation of Sieve: gap closed without one of its ideas.

    SCHIRN_DATA=folder python -m benchmarks.sieve_ablation --jobs 2

Six settings, three folds, as in `benchmarks.sieve`; all variants of a fold share one kernel matrix.
"""

import argparse
import json
import warnings
from collections import defaultdict
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
from joblib import Parallel, delayed
from sklearn.model_selection import KFold
from sklearn.utils import check_random_state
from threadpoolctl import threadpool_limits

from schirn.datasets import add_noise, load
from schirn.exceptions import EmptyCandidatesWarning
from schirn.linalg.features import learn_scale
from schirn.linalg.leave_one_out import KernelInverse
from schirn.metrics import average_precision
from schirn.solvers import kernel_ridges as solver
from schirn.solvers import sieve as rounds
from schirn.solvers.sieve import Knowledge

noise_from_sums = rounds.noise_from_sums
SETTINGS = [
    ("scene", 2),
    ("birds", 3),
    ("birds", 11),
    ("medical", 7),
    ("enron", 7),
    ("yeastmf", None),
]


def independent_counts(*args: Any) -> Any:
    """The noise model without its law of counts."""
    model = noise_from_sums(*args)
    return model._replace(tilt=np.zeros_like(model.tilt))


class InSample(KernelInverse):
    """Fitted scores instead of leave-one-out scores: the residual of a ridge is lam times a."""

    def __init__(self, K: Any, lams: Any, *options: Any) -> None:
        self._lams = lams
        super().__init__(K, lams, *options)

    def hold_out(self, held: np.ndarray) -> Any:
        """Fitted scores without the rows held out."""
        inner = super().hold_out(held)
        inner._ridges = [
            (*ridge[:3], np.full(len(ridge[3]), 1 / lam), [])
            for ridge, lam in zip(inner._ridges, self._lams, strict=True)
        ]
        return inner


VARIANTS: dict[str, dict[str, Any]] = {
    "Sieve": {},
    "without label correlations": {"patch": (solver.KernelRidges, "most_stacked", 0)},
    "without the count law (plain Bayes)": {
        "patch": (rounds, "noise_from_sums", independent_counts)
    },
    "pool with equal weights": {"patch": (rounds, "fit_pool", lambda *args: args[4])},
    "one ridge weight instead of three": {"one": True},
    "in-sample scores instead of leave-one-out": {"patch": (solver, "KernelInverse", InSample)},
}


def variant(K: Any, K_test: Any, Y: np.ndarray, change: dict[str, Any]) -> np.ndarray:
    """Test scores of one variant."""
    rng = check_random_state(0)
    lams = solver.kernel_lams(K, Y, rounds.SieveOptions(), Knowledge(), rng)
    lams = lams[-1:] if change.get("one") else lams
    with patch.object(*change.get("patch", (rounds, "sieve", rounds.sieve))):
        ridges = solver.KernelRidges(K, Y, lams, rng=rng)
        result = rounds.sieve(ridges, rng=rng)
    return scores_of(result, K_test)


def scores_of(result: Any, K_test: Any) -> np.ndarray:
    """Pooled log-odds of new rows, given their kernel with the training rows."""
    return np.asarray(result.pool.log_odds([K_test @ W + b for W, b in result.ridges]))


def run_fold(name: str, r: int | None, fold: int) -> dict[str, Any]:
    """Average precision of all variants in one fold."""
    warnings.simplefilter("ignore", EmptyCandidatesWarning)
    data = load(name)
    T = data.y_true
    C = data.candidates if r is None else add_noise(T, r, kind="legacy", seed=r)
    train, test = list(KFold(5, shuffle=True, random_state=0).split(T))[fold]
    found: dict[str, float] = {}
    with threadpool_limits(1):
        scale = learn_scale(data.X[train], "auto")
        Z, Z_test = scale.transform(data.X[train]), scale.transform(data.X[test])
        kernel, K = solver.kernel_matrix(Z, "rbf", check_random_state(0))
        K_test = kernel(Z_test, Z)
        for key, Y in (("candidates", C), ("truth", T)):
            result = solver.fit_kernel_matrix(
                K, Y[train], rounds.SieveOptions("rbf", trusting=True)
            )
            found[key] = average_precision(T[test], scores_of(result, K_test))
        for key, change in VARIANTS.items():
            found[key] = average_precision(T[test], variant(K, K_test, C[train], change))
    return {"dataset": name, "r": r, "fold": fold, **found}


def main() -> None:
    """Run what is missing and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--folds", type=int, default=3)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--output", type=Path, default=Path("sieve-ablation.jsonl"))
    args = parser.parse_args()
    done = []
    if args.output.exists():
        done = [json.loads(line) for line in args.output.read_text().splitlines()]
    finished = {(row["dataset"], row["r"], row.get("fold")) for row in done}
    tasks = [(*s, f) for s in SETTINGS for f in range(args.folds) if (*s, f) not in finished]
    # By its module path, so that workers import it instead of unpacking this script.
    from benchmarks.sieve_ablation import run_fold as task

    work = (delayed(task)(*cell) for cell in tasks)
    with args.output.open("a") as file:
        for row in Parallel(n_jobs=args.jobs, return_as="generator_unordered")(work):
            file.write(json.dumps(row) + "\n")
            file.flush()
            done.append(row)
    found: dict[str, dict[Any, list[float]]] = defaultdict(lambda: defaultdict(list))
    for row in done:
        for key in ("candidates", "truth", *VARIANTS):
            found[key][row["dataset"], row["r"]].append(row[key])
    print_table(found)


def print_table(found: Any) -> None:
    """Gap closed per setting and on average."""
    print("| variant | mean | " + " | ".join(f"{n} {r or ''}".strip() for n, r in SETTINGS) + " |")
    print("|---|---|" + "---|" * len(SETTINGS))
    for key in VARIANTS:
        gaps = []
        for setting in SETTINGS:
            c, s, t = (np.mean(found[k][setting]) for k in ("candidates", key, "truth"))
            gaps.append((s - c) / (t - c) if t - c >= 0.01 else np.nan)
        cells = " | ".join(f"{gap:.2f}" for gap in gaps)
        print(f"| {key} | {np.nanmean(gaps):.2f} | {cells} |")


if __name__ == "__main__":
    main()
