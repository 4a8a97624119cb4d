"""How long fits and runs will take, and which grids keep within the time limit."""

import math
from collections.abc import Sequence

from schirn.bench.running.methods import Grid, default_grid
from schirn.bench.running.plan import Run
from schirn.reproduction.experiments import LEAST, METHODS, SMALL, Part

Shape = tuple[int, int, int]
"""Rows, features, labels."""

# Seconds of a fit on one core: a constant, and per unit of n m^2, n l m and n l^2 for n rows, l
# labels and m the smaller of rows and features. Measured on one fold of each data set of the paper.
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
# The same per unit of l^3, for decompositions of label matrices, whatever the number of rows.
_LABEL_COSTS = {"Schirn": 6e-8, "NLR": 3e-8}
# Cost of one grid point on three inner folds, in fits; a shared factorisation makes it cheaper.
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
    """Estimate the seconds of one fit on one core.

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


def run_seconds(method: str, shape: Shape, grid: Grid | None) -> float:
    """Estimate the seconds of one run: a search with three inner folds, and the fit."""
    points = math.prod(len(values) for values in grid.values()) if grid else 0
    fit, fixed = fit_seconds(method, shape), _label_seconds(method, shape)
    return fit + points * (_POINT.get(method, 2.0) * (fit - fixed) + 3 * fixed)


def expected_seconds(run: Run) -> float:
    """Estimate the seconds of a planned run; 0 if it cannot be executed."""
    if run.known["reason"] is not None:
        return 0.0
    sizes = (run.known["n_samples"], run.known["n_features"], run.known["n_labels"])
    shape = train_shape(sizes, run.fields["folds"])
    name = run.method.path.rpartition(":")[2]
    # The oracle has no inner folds, but trains on all rows of the fold.
    share = 0.5 if run.fields["oracle"] else 1.0
    return share * run_seconds(name, shape, run.known["grid"])


def choose_grid(method: str, shape: Shape, part: Part) -> Grid | None:
    """Return the largest grid that keeps within its time limit, or None."""
    whole = default_grid(method) if part.name == "full" else None
    limits = (
        (whole, part.run_seconds),
        (SMALL.get(method), part.run_seconds),
        (LEAST.get(method), part.least_seconds),
    )
    for grid, limit in limits:
        if grid is not None and run_seconds(method, shape, grid) <= limit:
            return grid
    return None


def choose_methods(methods: Sequence[str], shape: Shape, part: Part) -> list[str]:
    """Return the methods that are fast enough for the part."""
    return [name for name in methods if fit_seconds(name, shape) <= part.fit_seconds]


def train_shape(shape: Shape, folds: int) -> Shape:
    """Shape of the training data of a fold."""
    return (max(1, shape[0] * (folds - 1) // folds), *shape[1:])


def describe(seconds: float) -> str:
    """Describe a duration.

    >>> describe(50), describe(700), describe(40_000)
    ('1 minute', '12 minutes', '11 hours')
    """
    amount, unit = (seconds / 3600, "hour") if seconds >= 5400 else (seconds / 60, "minute")
    rounded = max(1, round(amount))
    return f"{rounded} {unit}{'s' if rounded > 1 else ''}"


def choose_grids(methods: Sequence[str], shape: Shape, part: Part) -> dict[str, Grid | None]:
    """Return the grid of each method; a user's own method keeps the one it brings."""
    return {name: choose_grid(name, shape, part) for name in methods if name in METHODS}
