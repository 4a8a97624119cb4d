"""Which part of the published experiments is run, with what grids, and how long it will take."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from schirn.bench._plan import Cell
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

# Searched where that takes too long too, rather than nothing.
LEAST: dict[str, Grid] = {
    "Schirn": {"lam": [1.0, 10.0, 100.0, 1000.0]},
    "NLR": {"gamma": [10.0, 1000.0]},
    "FPML": {"lam3": [1.0, 100.0]},
    "PMLLRS": {"gamma": [0.01, 1.0, 100.0]},
    "PMLNI": {"lam": [1.0, 100.0]},
    "GLC": {"eta": [10.0, 1000.0]},
    "CandidateRidge": {"lam": [10.0, 1000.0]},
    "OracleRidge": {"lam": [10.0, 1000.0]},
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
    least_seconds : the same for the least grids, which take the place of no search at all
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
    cell_seconds: float = 22.0
    least_seconds: float = 80.0
    fit_seconds: float = math.inf
    draws: int = 50
    sweep: bool = True
    is_published: bool = True

    def with_sets(self, sets: tuple[str, ...]) -> "Part":
        """The same with sets that the user names."""
        return replace(self, sets=sets, ablation=sets, cooccurrence=sets, is_published=False)

    @property
    def every(self) -> int:
        """Steps through the values of a parameter."""
        return 1 if self.sweep else 2

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
    least_seconds=20.0,
    fit_seconds=10.0,
    draws=10,
    sweep=False,
)

# Seconds of a fit on one core: a constant, and per unit of n m^2, n l m and n l^2 for n rows, l
# labels and m the smaller of rows and features. Measured on one fold of each set of the paper.
_COSTS = {
    "Schirn": (0.05, 1.8e-10, 3.0e-9, 0.0),
    "NLR": (0.04, 2.3e-10, 1.7e-9, 0.0),
    "FPML": (0.015, 1.6e-10, 1.1e-9, 0.0),
    "PMLLRS": (0.055, 1.1e-10, 4.2e-9, 0.8e-9),
    "PMLNI": (0.02, 0.6e-10, 4.0e-9, 0.0),
    "GLC": (0.02, 1.0e-10, 3.5e-9, 2.5e-9),
    "CandidateRidge": (0.01, 1.4e-10, 1.5e-10, 0.0),
    "OracleRidge": (0.01, 1.4e-10, 1.5e-10, 0.0),
    "ParticleMAP": (0.2, 0.0, 4.0e-9, 1.2e-7),
    "ParticleVLS": (0.2, 0.0, 4.0e-9, 1.2e-7),
}
# The same per unit of l^3, for decompositions of label matrices, which cost as much on fewer rows.
_LABEL_COSTS = {"Schirn": 6e-8, "NLR": 3e-8}
# One point of a search on three inner folds, in fits; those that share a factorisation cost less.
_POINT = {
    "Schirn": 1.3,
    "NLR": 1.5,
    "PMLLRS": 3.3,
    "PMLNI": 2.5,
    "GLC": 1.4,
    "CandidateRidge": 0.55,
    "OracleRidge": 0.55,
}


def fit_seconds(method: str, shape: Shape) -> float:
    """Rough time of one fit on one core.

    >>> fit_seconds("CandidateRidge", (1000, 100, 10)) < fit_seconds("PAKS", (1000, 100, 10))
    True
    """
    n, d, labels = shape
    m = min(n, d)
    products = float(n) * labels * m
    if method == "PAKS":
        return n**2.5 * (2e-7 + 2e-7 * m / n)
    if method == "Sieve":
        return 0.2 + 4e-10 * n**3 + 1.4e-8 * products
    if method == "PARD":
        return 8e-4 * n + 1.2e-8 * n * d * labels
    constant, factor, rounds, pairs = _COSTS.get(method, _COSTS["ParticleMAP"])
    by_rows = constant + factor * n * m**2 + rounds * products + pairs * n * labels**2
    return by_rows + _label_seconds(method, shape)


def _label_seconds(method: str, shape: Shape) -> float:
    return _LABEL_COSTS.get(method, 0.0) * shape[2] ** 3


def cell_seconds(method: str, shape: Shape, grid: Grid | None) -> float:
    """Rough time of one fold: the search, each point on three inner folds, and the fit."""
    points = math.prod(len(values) for values in grid.values()) if grid else 0
    fit, fixed = fit_seconds(method, shape), _label_seconds(method, shape)
    return fit + points * (_POINT.get(method, 2.0) * (fit - fixed) + 3 * fixed)


def expected_seconds(cell: Cell) -> float:
    """Rough time of a cell; none for one that cannot be run."""
    if cell.known["reason"] is not None:
        return 0.0
    sizes = (cell.known["n_samples"], cell.known["n_features"], cell.known["n_labels"])
    shape = train_shape(sizes, cell.row["folds"])
    name = cell.method.path.rpartition(":")[2]
    # The oracle has no inner folds, but trains on all rows of the fold.
    share = 0.5 if cell.row["oracle"] else 1.0
    return share * cell_seconds(name, shape, cell.known["grid"])


def choose_grid(method: str, shape: Shape, part: Part) -> Grid | None:
    """The whole grid, the small one, the least or none: the first that keeps to its time."""
    whole = default_grid(method) if part.name == "full" else None
    limits = (
        (whole, part.cell_seconds),
        (SMALL.get(method), part.cell_seconds),
        (LEAST.get(method), part.least_seconds),
    )
    for grid, limit in limits:
        if grid is not None and cell_seconds(method, shape, grid) <= limit:
            return grid
    return None


def choose_methods(methods: Sequence[str], shape: Shape, part: Part) -> list[str]:
    """The methods that are not too slow for the part."""
    return [name for name in methods if fit_seconds(name, shape) <= part.fit_seconds]


def train_shape(shape: Shape, folds: int) -> Shape:
    """Shape of the training rows of a fold."""
    return (max(1, shape[0] * (folds - 1) // folds), *shape[1:])


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
