"""Which part of the published experiments is run, with what grids, and how long it will take."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from schirn.bench.grids import Grid, default_grid

Shape = tuple[int, int, int]
"""Rows, features, labels."""

METHODS = (
    "Schirn",
    "NLR",
    "FPML",
    "PMLLRS",
    "PMLNI",
    "ParticleMAP",
    "ParticleVLS",
    "PAKS",
    "GLC",
    "PARD",
    "Sieve",
    "CandidateRidge",
    "OracleRidge",
)

# Searched where the whole grid takes too long.
SMALL: dict[str, Grid] = {
    "Schirn": {"alpha": [0.0, 0.2, 0.5, 1.0], "lam": [1.0, 10.0, 100.0, 1000.0]},
    "NLR": {"gamma": [10.0, 1000.0], "lam": [1.8, 2.5]},
    "FPML": {"lam3": [1.0, 10.0, 100.0]},
    "PMLLRS": {"gamma": [0.01, 1.0, 100.0]},
    "PMLNI": {"lam": [1.0, 10.0, 100.0]},
    "GLC": {"eta": [1.0, 10.0, 100.0, 1000.0]},
    "CandidateRidge": {"lam": [1.0, 10.0, 100.0, 1000.0]},
    "OracleRidge": {"lam": [1.0, 10.0, 100.0, 1000.0]},
}


@dataclass(frozen=True)
class Part:
    """What of the experiments is run.

    Attributes
    ----------
    name : "quick" or "full"
    sets : data sets of the main tables, with ":r" where noise is added
    ablation : data sets of the ablations and the sensitivity curves
    folds : number of folds of everything that has some
    cell_seconds : most that the search of one fold may take, by the estimate
    fit_seconds : methods whose single fit takes longer, by the estimate, are left out
    draws : random draws per case of the theorem
    sweep : whether to go through all values of the parameters or every second one
    is_published : whether these are the sets of the paper, not those of a user
    """

    name: str
    sets: tuple[str, ...]
    ablation: tuple[str, ...]
    cooccurrence: tuple[str, ...]
    folds: int = 5
    cell_seconds: float = 150.0
    fit_seconds: float = math.inf
    draws: int = 50
    sweep: bool = True
    is_published: bool = True

    def with_sets(self, sets: tuple[str, ...]) -> "Part":
        """The same with sets that the user names."""
        return replace(self, sets=sets, ablation=sets, cooccurrence=sets, is_published=False)

    def with_folds(self, folds: int) -> "Part":
        """The same with another number of folds."""
        return replace(self, folds=folds)


_MUSIC = ("music_emotion", "music_style")

FULL = Part(
    "full",
    (
        *_MUSIC,
        "yeastmf",
        "yeastcc",
        "yeastbp",
        *(f"scene:{r}" for r in (1, 2, 3)),
        *(f"{name}:{r}" for name in ("birds", "medical", "enron") for r in (3, 7, 11)),
        *(f"{name}:{r}" for name in ("chess", "philosophy") for r in (10, 20, 30)),
    ),
    ("scene:1", "birds:3", "medical:3", "enron:3", "chess:10", "philosophy:10"),
    ("yeastmf", "yeastcc", "yeastbp"),
)

QUICK = Part(
    "quick",
    ("birds:3", "birds:7", "birds:11", "scene:1", "medical:3", "yeastmf"),
    ("scene:1", "birds:3", "medical:3"),
    ("yeastmf",),
    cell_seconds=20.0,
    fit_seconds=10.0,
    draws=10,
    sweep=False,
)

# Seconds per unit of n l min(n, d) of the methods that go round after round.
_ROUNDS = {
    "Schirn": 5e-9,
    "NLR": 4e-9,
    "FPML": 2e-9,
    "PMLLRS": 4e-9,
    "PMLNI": 3e-9,
    "GLC": 5e-9,
    "CandidateRidge": 0.0,
    "OracleRidge": 0.0,
}


def fit_seconds(method: str, shape: Shape) -> float:
    """Rough time of one fit on one core, from measured fits of sets between 500 and 2000 rows.

    >>> fit_seconds("CandidateRidge", (1000, 100, 10)) < fit_seconds("PAKS", (1000, 100, 10))
    True
    """
    n, d, labels = shape
    m = min(n, d)
    products = float(n) * labels * m
    if method in _ROUNDS:
        eigen = 1e-7 * labels**3 if _ROUNDS[method] else 0.0
        return 0.03 + 2e-10 * n * m**2 + _ROUNDS[method] * products + eigen
    if method == "PAKS":
        return 3e-7 * n**2.5
    if method == "Sieve":
        return 0.2 + 6e-10 * n**3
    if method == "PARD":
        return 0.4 + 1e-3 * n + 8e-8 * products
    return 0.15 + 1.3e-8 * products


def cell_seconds(method: str, shape: Shape, grid: Grid | None, inner_folds: int = 3) -> float:
    """Rough time of one fold: the search, each point on inner folds, and the fit."""
    fit = fit_seconds(method, shape)
    points = math.prod(len(values) for values in grid.values()) if grid else 0
    # A fit on the smaller inner training part takes some 60 % of the time.
    return fit * (1 + 0.6 * inner_folds * points)


def choose_grid(method: str, shape: Shape, part: Part) -> Grid | None:
    """The whole grid, the small one or none: the first that keeps to the time of a fold."""
    whole = default_grid(method) if part.name == "full" else None
    for grid in (whole, SMALL.get(method)):
        if grid is not None and cell_seconds(method, shape, grid) <= part.cell_seconds:
            return grid
    return None


def choose_methods(methods: Sequence[str], shape: Shape, part: Part) -> list[str]:
    """The methods that are not too slow for the part."""
    return [name for name in methods if fit_seconds(name, shape) <= part.fit_seconds]


def train_shape(shape: Shape, folds: int) -> Shape:
    """Shape of the training rows of a fold."""
    return (max(1, shape[0] * (folds - 1) // folds), *shape[1:])


def estimate(shapes: Mapping[str, Shape], methods: Sequence[str], part: Part) -> float:
    """Rough seconds of the main tables on one core; `shapes` by data set and level."""
    total = 0.0
    for shape in shapes.values():
        rows = train_shape(shape, part.folds)
        for name in choose_methods(methods, rows, part):
            cell = cell_seconds(name, rows, choose_grid(name, rows, part))
            total += part.folds * cell
    return total


def describe(seconds: float) -> str:
    """Words for a length of time.

    >>> describe(50), describe(700), describe(40_000)
    ('1 minute', '12 minutes', '11 hours')
    """
    amount, unit = (seconds / 3600, "hour") if seconds >= 5400 else (seconds / 60, "minute")
    rounded = max(1, round(amount))
    return f"{rounded} {unit}{'s' if rounded > 1 else ''}"


def grids_of(methods: Sequence[str], shape: Shape, part: Part) -> dict[str, Any]:
    """The grid of each method; a user's own method keeps the one it brings."""
    return {name: choose_grid(name, shape, part) for name in methods if name in METHODS}
