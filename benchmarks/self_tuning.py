"""Schirn as it tunes itself: average precision beside the ridge, and what the search costs.

    SCHIRN_DATA=folder python -m benchmarks.self_tuning
    SCHIRN_DATA=folder python -m benchmarks.self_tuning --device cuda --datasets chess:10,scene:2
    python -m benchmarks.self_tuning --cost

The table has one line per data set: mean average precision (percent) over five folds of `Schirn()`
and of `CandidateRidge()`, both of which choose their parameters on held-out candidates, the
parameters that Schirn chose in each fold, and the share of candidates that it calls noise. `--cost`
times a fit with the search and a fit with the numbers it chose, at the shapes of chess and yeastmf.
"""

import argparse
import time
from typing import Any

import numpy as np
from sklearn.model_selection import KFold
from threadpoolctl import threadpool_limits

from benchmarks.measure import Shape
from schirn import CandidateRidge, Schirn
from schirn.datasets import add_noise, load
from schirn.lab import NLR
from schirn.metrics import average_precision

SETS = "chess:10,philosophy:10,yeastbp,enron:7,birds:3,scene:2,medical:7"
# Training folds (four fifths) of the data sets of these names.
SHAPES = (
    Shape("chess", 1340, 585, 227, 2.4, 10, 0.05),
    Shape("yeastmf", 1126, 6139, 39, 3.5, 3, 0.02),
)


def main() -> None:
    """Print the table, or the costs."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--datasets", default=SETS, help="names, with :r if noise is added")
    parser.add_argument("--folds", type=int, default=5)
    parser.add_argument("--device", help="train Schirn on this PyTorch device")
    parser.add_argument("--cost", action="store_true", help="time the search instead")
    args = parser.parse_args()
    if args.cost:
        costs()
        return
    print("| data set | Schirn | CandidateRidge | difference | alpha of the folds | lam | noise |")
    print("|---|---|---|---|---|---|---|")
    for name in args.datasets.split(","):
        print(line(name, args.folds, args.device), flush=True)


def line(name: str, n_folds: int, device: str | None) -> str:
    """One line of the table."""
    stem, _, level = name.partition(":")
    data = load(stem)
    candidates = data.candidates
    if level:
        candidates = add_noise(data.y_true, int(level), kind="legacy")
    own, ridge, models = [], [], []
    for train, test in KFold(n_folds, shuffle=True, random_state=0).split(data.y_true):
        model = Schirn().fit(on_device(data.X[train], device), candidates[train])
        scores = model.decision_function(on_device(data.X[test], device))
        scores = scores if device is None else scores.cpu().numpy()
        own.append(average_precision(data.y_true[test], scores))
        base = CandidateRidge().fit(data.X[train], candidates[train])
        ridge.append(average_precision(data.y_true[test], base.decision_function(data.X[test])))
        wrong = float(model.noise_.sum()) / candidates[train].sum()
        models.append((model.alpha_, model.lam_, wrong))
    alphas, lams, wrong = zip(*models, strict=True)
    values = 100 * np.mean(own), 100 * np.mean(ridge)
    return (
        f"| {name} | {values[0]:.2f} | {values[1]:.2f} | {values[0] - values[1]:+.2f} "
        f"| {' '.join(f'{a:g}' for a in alphas)} | {' '.join(f'{v:g}' for v in lams)} "
        f"| {100 * np.mean(wrong):.0f}% |"
    )


def on_device(X: Any, device: str | None) -> Any:
    """X as it is, or as a dense tensor."""
    if device is None:
        return X
    import torch

    return torch.asarray(X.toarray() if hasattr(X, "toarray") else X, device=device)


def costs() -> None:
    """Time the search at two shapes, with one thread, in units of a fit."""
    print("| shape | method | points | fit (s) | with the search (s) | search in fits |")
    print("|---|---|---|---|---|---|")
    for shape in SHAPES:
        data = shape.make()
        for cls in (Schirn, NLR, CandidateRidge):
            with threadpool_limits(1):
                start = time.process_time()
                model = cls().fit(data.X, data.candidates)
                both = time.process_time() - start
                numbers = {k: getattr(model, f"{k}_") for k in cls._grid}
                start = time.process_time()
                cls(**numbers).fit(data.X, data.candidates)
                fit = time.process_time() - start
            points = len(model.search_["score"])
            print(
                f"| {shape.name}: {shape.n} x {shape.d}, {shape.labels} labels | {cls.__name__} "
                f"| {points} | {fit:.1f} | {both:.1f} | {(both - fit) / fit:.1f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
