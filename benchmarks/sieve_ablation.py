"""Ablation of Sieve: gap closed without one of its ideas.

    SCHIRN_DATA=folder python -m benchmarks.sieve_ablation --jobs 2
    SCHIRN_DATA=folder python -m benchmarks.sieve_ablation --held-back

Six settings, three folds, as in `benchmarks.sieve`; all variants of a fold share one kernel matrix.
With --held-back: differences from Sieve on flags and on data sets that had no part in its design,
with intervals over random halves of their rows.
"""

import argparse
import json
import warnings
from collections import defaultdict
from contextlib import nullcontext
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
from joblib import Parallel, delayed
from scipy import stats
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import KFold
from sklearn.utils import check_random_state
from threadpoolctl import threadpool_limits

from schirn.datasets import add_noise, load
from schirn.estimators import Sieve
from schirn.estimators import sieve as method
from schirn.exceptions import EmptyCandidatesWarning
from schirn.linalg.features import learn_scale
from schirn.linalg.leave_one_out import KernelInverse
from schirn.metrics import average_precision
from schirn.noise import model
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
    law = noise_from_sums(*args)
    return law._replace(tilt=np.zeros_like(law.tilt))


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
        result = rounds.sieve(ridges, rounds.SieveOptions(), rng)
    return scores_of(result, K_test)


def scores_of(result: Any, K_test: Any) -> np.ndarray:
    """Pooled log-odds of new rows, given their kernel with the training rows."""
    return np.asarray(result.pool.log_odds([K_test @ W + b for W, b in result.ridges]))


def run_fold(name: str, r: int | None, fold: int) -> dict[str, Any]:
    """Average precision of all variants in one fold."""
    warnings.simplefilter("ignore", EmptyCandidatesWarning)
    data = load(name)
    T = data.y_true
    C = data.candidates if r is None else add_noise(T, r, kind="legacy")
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


HELD_BACK = {"flags": 2, "corel5k": 10, "bibtex": 10, "mediamill": 10, "cmc": None}
HELD_BACK_ROWS = 600
# Parameters of Sieve, or what to replace in which module.
CHANGES: dict[str, Any] = {
    "Sieve": {},
    "without the count law": (rounds, "noise_from_sums", independent_counts),
    "whatever the features say": (method, "informativeness", lambda *args: 1.0),
    "without label correlations": (solver.KernelRidges, "most_stacked", 0),
    "linear kernel": {"kernel": "linear"},
    "one round": {"max_iter": 1},
    "two rounds": {"max_iter": 2},
    "sixteen rounds": {"max_iter": 16},
    "ridge weights 1, ½, ⅛": (solver, "WINDOW", np.array([0.125, 0.5, 1.0])),
    "ridge weights 1, ⅛, 1/40": (solver, "WINDOW", np.array([0.025, 0.125, 1.0])),
    "scores clipped at half": (rounds, "SOFT", rounds.SOFT / 2),
    "scores clipped at twice": (rounds, "SOFT", 2 * rounds.SOFT),
    "count law from half the narrowing": (model, "_NARROW", model._NARROW / 2),
    "count law from twice the narrowing": (model, "_NARROW", 2 * model._NARROW),
    "pool held ten times as firmly": (rounds, "POOL_RIDGE", 10 * rounds.POOL_RIDGE),
    "pool held a tenth as firmly": (rounds, "POOL_RIDGE", rounds.POOL_RIDGE / 10),
}


def run_half(name: str, r: int | None, seed: int) -> dict[str, list[float]]:
    """Average precision, noise AUC and calibration error of every change, trained on one half."""
    warnings.simplefilter("ignore")
    data = load(name, **({"workers": 2} if r is None else {}))
    rng = check_random_state(seed)
    rows = rng.permutation(data.n_samples)[:HELD_BACK_ROWS]
    train, test = np.array_split(rows, 2)
    X, T = data.X, np.asarray(data.y_true)
    C = data.candidates if r is None else add_noise(T, r, kind="exact", random_state=seed)
    found = {}
    for key, change in CHANGES.items():
        is_patch = isinstance(change, tuple)
        with patch.object(*change) if is_patch else nullcontext():
            sieve = Sieve(**({} if is_patch else change)).fit(X[train], C[train])
        cells = C[train] == 1
        confidence, truth = sieve.label_confidence_[cells], T[train][cells]
        found[key] = [
            average_precision(T[test], sieve.decision_function(X[test])),
            float(roc_auc_score(truth, confidence)),
            abs(float(confidence.mean() - truth.mean())),
        ]
    return found


def print_held_back(seeds: int, jobs: int) -> None:
    """Differences from Sieve, mean over data sets with a 95 % interval over seeds."""
    # By its module path, so that workers import it instead of unpacking this script.
    from benchmarks.sieve_ablation import run_half as task

    work = (delayed(task)(*item, seed) for item in HELD_BACK.items() for seed in range(seeds))
    found = Parallel(n_jobs=jobs)(work)
    values = np.array([[row[key] for key in CHANGES] for row in found])
    values = 100 * values.reshape(len(HELD_BACK), seeds, len(CHANGES), -1)
    values[:, :, 1:, :2] -= values[:, :, :1, :2]
    width = stats.t.ppf(0.975, seeds - 1) * stats.sem(values.mean(axis=0), axis=0)
    means = values.mean(axis=(0, 1))
    heads = ["variant", "average precision", "noise AUC", "error of the claimed share", *HELD_BACK]
    print(f"| {' | '.join(heads)} |\n|---|{'--:|' * (len(heads) - 1)}")
    for k, key in enumerate(CHANGES):
        sign = "+" if k else ""
        cells = [f"{means[k, m]:{sign}.1f} ± {width[k, m]:.1f}" for m in range(2)]
        cells += [f"{means[k, 2]:.1f} ± {width[k, 2]:.1f}"]
        cells += [f"{value:{sign}.1f}" for value in values[:, :, k, 0].mean(axis=1)]
        print(f"| {key} | {' | '.join(cells)} |")


def main() -> None:
    """Run what is missing and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--held-back", action="store_true")
    parser.add_argument("--seeds", type=int, default=5, help="halves of each set, --held-back")
    parser.add_argument("--folds", type=int, default=3)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--output", type=Path, default=Path("sieve-ablation.jsonl"))
    args = parser.parse_args()
    if args.held_back:
        print_held_back(args.seeds, args.jobs)
        return
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
