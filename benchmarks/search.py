"""Cost of tuning: the whole grid of the paper for Schirn, on one fold of the shape of birds.

    python -m benchmarks.search

A search over 20 alphas x 10 betas x 5 lams shares one factorisation per fold. The main figure is
the time of the search divided by the time of one solver run on the factored X (the rounds alone).
"""

import time

import numpy as np
from sklearn.model_selection import KFold
from threadpoolctl import threadpool_limits

from benchmarks.measure import PAPER_SHAPES
from schirn import CandidateRidge, Schirn, Sieve
from schirn.linalg.row_space import row_space
from schirn.model_selection import CandidateSearchCV

GRID = {
    "alpha": np.round(np.arange(0.1, 2.01, 0.1), 1).tolist(),
    "beta": np.round(np.arange(0.01, 0.101, 0.01), 2).tolist(),
    "lam": [0.1, 10.0, 100.0, 250.0, 1000.0],
}
NUMBERS = {"alpha": 0.2, "beta": 0.05, "lam": 10.0}


def main() -> None:
    """Print the ratios."""
    shape = PAPER_SHAPES[0]
    data = shape.make()
    X, Y = data.X, data.candidates
    split = [next(KFold(5, shuffle=True, random_state=0).split(X))]
    size = int(np.prod([len(values) for values in GRID.values()]))
    with threadpool_limits(1):
        model = Schirn(**NUMBERS)
        space = row_space(X[split[0][0]], ridge=model._smallest_ridge())
        rounds = []
        for _ in range(20):
            start = time.perf_counter()
            model._solve(space, Y[split[0][0]])
            rounds.append(time.perf_counter() - start)
        search = CandidateSearchCV(Schirn(), GRID, cv=split, refit=False)
        start = time.perf_counter()
        search.fit(X, Y)
        total = time.perf_counter() - start
        start = time.perf_counter()
        Schirn(**NUMBERS).fit(X[split[0][0]], Y[split[0][0]])
        fit = time.perf_counter() - start
    one = float(np.median(rounds))
    print(f"{size} settings on one fold of {shape.n} x {shape.d}, {shape.labels} labels")
    print(f"search / one solver run: {total / one:.0f} (goal: at most {size})")
    print(f"search / one full fit, including factorisation and calibration: {total / fit:.0f}")
    yeast = PAPER_SHAPES[3].make()
    with threadpool_limits(2):
        start = time.perf_counter()
        CandidateRidge(lam=1.0, fit_intercept=True).fit(yeast.X, yeast.candidates)
        ridge = time.perf_counter() - start
        start = time.perf_counter()
        Sieve().fit(yeast.X, yeast.candidates)
        sieve = time.perf_counter() - start
    print(f"one tuned Sieve fit / one CandidateRidge fit at yeastmf's shape: {sieve / ridge:.1f}")


if __name__ == "__main__":
    main()
