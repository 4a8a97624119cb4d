"""Rounds of Sieve that stop by themselves, beside fixed numbers of rounds and the ridges.

    SCHIRN_DATA=folder python -m benchmarks.sieve_rounds
    SCHIRN_DATA=folder python -m benchmarks.sieve_rounds --sets scene,birds --kinds rates --seeds 3

The sets are those of Sieve's design. At most 800 rows are trained on, drawn by the seed, and 1,200
others are tests. Noise is drawn after the split, from the training rows alone. "low" is a tenth of
wrong labels, and "rates" lists the false labels of each label at a rate of its own, between .1 and
.6. Printed is the average precision on the tests, in percent, mean over sets and seeds: the kernel
ridge on candidates, Sieve, Sieve with fixed numbers of rounds, Sieve that knows fifty random
candidates, and the kernel ridge on the truth. The last lines are the worst differences from the
kernel ridge on candidates, over sets of at least 500 training rows.
"""

import argparse
import warnings
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

import numpy as np
from threadpoolctl import threadpool_limits

from schirn import CandidateRidge, Sieve
from schirn.datasets import add_noise, load
from schirn.exceptions import CentredFeaturesWarning, EmptyCandidatesWarning
from schirn.metrics import average_precision
from schirn.solvers import sieve as rounds

Array = np.ndarray

# Wrong labels per row.
SETS = {"scene": 2, "emotions": 2, "yeast": 3, "birds": 3, "flags": 2, "medical": 7, "enron": 7}
KINDS = ("exact", "label", "feature", "two-sided", "low", "rates")
N_TRAIN = 800
N_TEST = 1200
N_ANSWERS = 50
FIXED = (1, 2, 4, 8)
FEW_ROWS = 500


def candidates(kind: str, T: Array, X: Array, r: int, seed: int) -> Array:
    """Candidates of one kind of noise for training rows."""
    if kind == "low":
        rate = T.sum() / 9 / (T.size - T.sum())
        return add_noise(T, kind="rate", rate=rate, random_state=seed)
    if kind == "rates":
        rng = np.random.RandomState(seed)
        rates = rng.uniform(0.1, 0.6, T.shape[1])
        return np.maximum(T, (rng.random_sample(T.shape) < rates).astype(T.dtype))
    return add_noise(T, r, kind=kind, random_state=seed, X=X if kind == "feature" else None)


def answers(Y: Array, T: Array, seed: int) -> Array:
    """What is known after fifty random candidates were asked about."""
    known = np.zeros(Y.shape)
    cells = np.random.RandomState(seed).permutation(np.argwhere(Y))[:N_ANSWERS]
    for row, label in cells:
        known[row, label] = 1 if T[row, label] else -1
    return known


@contextmanager
def all_rounds() -> Iterator[None]:
    """Without evidence, no round is left out."""
    with patch.object(rounds, "held_evidence", lambda *args: float("nan")):
        yield


def run(name: str, kind: str, seed: int) -> tuple[int, dict[str, float]]:
    """Number of training rows, and average precision of all models."""
    data = load(name)
    order = np.random.RandomState(100 + seed).permutation(len(data.y_true))
    n_train = min(N_TRAIN, int(0.6 * len(order)))
    train = order[:n_train]
    test = order[n_train : n_train + N_TEST]
    T = data.y_true[train]
    # A label that no training row has, or all have, cannot be learned.
    labels = np.flatnonzero(T.any(axis=0) & ~T.all(axis=0))
    T = T[:, labels]
    X = data.X[train]
    Y = candidates(kind, T, X, SETS[name], seed)

    def score(model: Sieve, given: Array, **options: Array) -> float:
        scores = model.fit(X, given, **options).decision_function(data.X[test])
        return 100 * average_precision(data.y_true[test][:, labels], scores)

    trusting = Sieve(estimate_noise=False)
    found = {
        "raw ridge": score(CandidateRidge(), Y),
        "kernel ridge": score(trusting, Y),
        "Sieve": score(Sieve(), Y),
        "50 answers": score(Sieve(), Y, known=answers(Y, T, seed)),
    }
    with all_rounds():
        found |= {f"{k} rounds": score(Sieve(max_iter=k), Y) for k in FIXED}
    return n_train, found | {"truth": score(trusting, T)}


def main() -> None:
    """Print a line per kind of noise."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--sets", default=",".join(SETS))
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--each", action="store_true", help="print every setting too")
    args = parser.parse_args()
    warnings.simplefilter("ignore", EmptyCandidatesWarning)
    warnings.simplefilter("ignore", CentredFeaturesWarning)
    means: dict[str, list[list[float]]] = defaultdict(list)
    worst: dict[str, tuple[float, str]] = {}
    with threadpool_limits(1):
        for kind in args.kinds.split(","):
            for name in args.sets.split(","):
                for seed in range(args.seeds):
                    n_train, found = run(name, kind, seed)
                    if not means:
                        print(f"{'':12s}" + "".join(f"{key:>14s}" for key in found), flush=True)
                    means[kind].append(list(found.values()))
                    if args.each:
                        print(line(f"{name} {seed}", list(found.values())), flush=True)
                    for key in found if n_train >= FEW_ROWS else ():
                        loss = found[key] - found["kernel ridge"]
                        worst[key] = min(worst.get(key, (0.0, "")), (loss, f"{name} {kind}"))
            print(line(kind, np.mean(means[kind], axis=0).tolist()), flush=True)
    print(line("mean", np.mean([np.mean(rows, axis=0) for rows in means.values()], 0).tolist()))
    for key, (loss, where) in worst.items():
        print(f"worst of {key}: {loss:.1f} {where}")


def line(name: str, values: list[float]) -> str:
    """A row of the table."""
    return f"{name:12s}" + "".join(f"{value:14.1f}" for value in values)


if __name__ == "__main__":
    main()
