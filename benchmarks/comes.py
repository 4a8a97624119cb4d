"""COMES: what its priors are worth, true, estimated from candidates and from fifty answers.

    SCHIRN_DATA=folder python -m benchmarks.comes

False labels are listed at a rate of their own, drawn from 0.1 to 0.6 for every label, or all at
0.3. Mean label-ranking average precision on a fifth of the rows, over five splits with new noise;
features are standardised. "true priors" and "trained on the truth" see the truth of the training
rows; the answers are about candidates of the training rows drawn at random.
"""

import argparse
import statistics
import warnings
from collections.abc import Mapping

import numpy as np
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from schirn import CandidateRidge, OracleRidge, lab
from schirn.datasets import Dataset, load
from schirn.exceptions import EmptyCandidatesWarning
from schirn.metrics import average_precision

SETS = ("emotions", "birds", "scene", "yeast", "flags")
ANSWERS = 50


def one_split(data: Dataset, seed: int, uneven: bool) -> Mapping[str, float]:
    """Average precision of every way on new noise and a new split."""
    rng = np.random.default_rng(seed)
    order = rng.permutation(data.n_samples)
    train, test = np.split(order, [int(0.8 * len(order))])
    test = test[data.y_true[test].any(axis=1)]
    scaler = StandardScaler().fit(data.X[train])
    X, X_test = scaler.transform(data.X[train]), scaler.transform(data.X[test])
    truth = data.y_true[train]
    rates = rng.uniform(0.1, 0.6, truth.shape[1]) if uneven else 0.3
    candidates = np.maximum(truth, rng.random(truth.shape) < rates).astype(int)
    models = {
        "ridge on candidates": CandidateRidge(fit_intercept=True).fit(X, candidates),
        "estimated priors": lab.COMES().fit(X, candidates),
        f"{ANSWERS} answers": lab.COMES(priors=answered(candidates, truth, rng)).fit(X, candidates),
        "true priors": lab.OracleCOMES().fit(X, candidates, y_clean=truth),
        "trained on the truth": OracleRidge(fit_intercept=True).fit(X, candidates, y_clean=truth),
    }
    return {
        name: average_precision(data.y_true[test], model.decision_function(X_test))
        for name, model in models.items()
    }


def answered(candidates: np.ndarray, truth: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Priors by answers about some candidates, drawn at random."""
    cells = np.argwhere(candidates)
    row, column = cells[rng.choice(len(cells), ANSWERS, replace=False)].T
    return lab.priors_from_answers(candidates, column, truth[row, column] == 1)


def main(arguments: list[str] | None = None) -> None:
    """Print one line per data set and kind of noise."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--sets", nargs="+", default=SETS)
    parser.add_argument("--seeds", type=int, default=5)
    args = parser.parse_args(arguments)
    # A few rows of birds have no label at all.
    warnings.simplefilter("ignore", EmptyCandidatesWarning)
    for uneven in (True, False):
        print(f"**Rates of the labels {'from 0.1 to 0.6' if uneven else 'all 0.3'}**\n")
        for k, name in enumerate(args.sets):
            with threadpool_limits(1):
                runs = [one_split(load(name), seed, uneven) for seed in range(args.seeds)]
            if k == 0:
                print(f"| data | {' | '.join(runs[0])} |")
                print(f"|---|{'--:|' * len(runs[0])}")
            means = (statistics.fmean(run[way] for run in runs) for way in runs[0])
            print(f"| {name} | {' | '.join(f'{100 * mean:.1f}' for mean in means)} |", flush=True)
        print()


if __name__ == "__main__":
    main()
