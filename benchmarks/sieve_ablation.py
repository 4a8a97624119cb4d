"""Ablation of Sieve: gap closed without one of its ideas.

    SCHIRN_DATA=folder python -m benchmarks.sieve_ablation

Six settings, three folds, as in `benchmarks.sieve`; all variants of a fold share one factorisation.
"""

import argparse
import json
import warnings
from collections import defaultdict
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
from sklearn.model_selection import KFold
from sklearn.utils import check_random_state

from schirn import Sieve
from schirn.datasets import add_noise, load
from schirn.exceptions import EmptyCandidatesWarning
from schirn.metrics import average_precision
from schirn.noise.model import noise_from_sums
from schirn.solvers import sieve as solver
from schirn.solvers.sieve import choose_lams, first_scores

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


def in_sample(*args: Any) -> Any:
    """Fitted scores instead of leave-one-out scores, after the first ones."""
    split, sums = first_scores(*args)
    return split._replace(factors=np.ones_like(split.factors)), sums


VARIANTS: dict[str, dict[str, Any]] = {
    "Sieve": {},
    "without label correlations": {"options": {"label_correlations": False}},
    "without the count law (plain Bayes)": {
        "patch": (solver, "noise_from_sums", independent_counts)
    },
    "pool with equal weights": {
        "patch": (solver, "fit_pool", lambda p, f, leader, w, equal, rng: equal)
    },
    "one ridge weight instead of three": {"one": True},
    "in-sample scores instead of leave-one-out": {"patch": (solver, "first_scores", in_sample)},
}


def scores(factored: Any, X: Any, Y: np.ndarray, change: dict[str, Any]) -> np.ndarray:
    """Test scores of one variant."""
    problem = factored.problem(Y)
    lams = choose_lams(problem, kernel="rbf", lam=None, trusting=False)
    lams = lams[-1:] if change.get("one") else lams
    with patch.object(*change.get("patch", (solver, "sieve", solver.sieve))):
        result = solver.sieve(problem, lams, rng=check_random_state(0), **change.get("options", {}))
    return result.scores(X)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--folds", type=int, default=3)
    parser.add_argument("--output", type=Path, default=Path("sieve-ablation.jsonl"))
    args = parser.parse_args()
    warnings.simplefilter("ignore", EmptyCandidatesWarning)
    found: dict[str, dict[Any, list[float]]] = defaultdict(lambda: defaultdict(list))
    with args.output.open("w") as file:
        for name, r in SETTINGS:
            data = load(name)
            T = data.y_true
            C = data.candidates if r is None else add_noise(T, r, kind="legacy", seed=r)
            folds = KFold(5, shuffle=True, random_state=0).split(T)
            for train, test in list(folds)[: args.folds]:
                base = Sieve()
                factored = base._factor(base._fit_features(data.X[train]))
                X = factored.source.features(base._scaled(data.X[test]))
                values = {}
                for key, Y in (("candidates", C), ("truth", T)):
                    S = Sieve(noise_level=0)._solve(factored, Y[train]).scores(X)
                    values[key] = average_precision(T[test], S)
                for key, change in VARIANTS.items():
                    S = scores(factored, X, C[train], change)
                    values[key] = average_precision(T[test], S)
                for key, value in values.items():
                    found[key][name, r].append(value)
                file.write(json.dumps({"dataset": name, "r": r, **values}) + "\n")
                file.flush()
    print_table(found)


def print_table(found: Any) -> None:
    """Gap closed per setting and on average."""
    print("| variant | mean | " + " | ".join(f"{n} {r or ''}".strip() for n, r in SETTINGS) + " |")
    print("|---|---|" + "---|" * len(SETTINGS))
    for key in VARIANTS:
        gaps = []
        for setting in SETTINGS:
            c, s, t = (np.mean(found[k][setting]) for k in ("candidates", key, "truth"))
            gaps.append((s - c) / (t - c))
        cells = " | ".join(f"{gap:.2f}" for gap in gaps)
        print(f"| {key} | {np.mean(gaps):.2f} | {cells} |")


if __name__ == "__main__":
    main()
