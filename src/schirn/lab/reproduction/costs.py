"""How long fits and runs will take."""

import math
from collections.abc import Sequence

from schirn.lab.bench.running.methods import Grid
from schirn.lab.bench.running.plan import Run
from schirn.lab.reproduction.experiments import Part

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
_LABEL_COSTS = {"Schirn": 6e-8, "NLR": 3e-8, "GLC": 8e-8, "PMLNI": 1.2e-7, "PMLLRS": 8e-8}
# Cost of a grid point on one inner fold, in fits of that size; methods that share a factorisation
# or a first stage between points are cheaper.
_POINT = {"Schirn": 0.6, "PMLLRS": 1.3, "CandidateRidge": 0.4, "OracleRidge": 0.4, "PAKS": 0.3}
_INNER_FOLDS = 3
# Cost of a search inside `fit`, in fits.
_OWN_SEARCH = {"Schirn": 4.0, "NLR": 10.0, "CandidateRidge": 4.0, "OracleRidge": 4.0}
# Landmarks of `schirn.features.KernelFeatures`, and seconds per cubed landmark.
_LANDMARKS, _EIGEN = 1500, 1.2e-9


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
    return by_rows + _LABEL_COSTS.get(method, 0.0) * labels**3


def run_seconds(
    method: str, shape: Shape, grid: Grid | None, search_rows: int | None = None
) -> float:
    """Estimate the seconds of one run: a search with three inner folds, and the fit."""
    fit = fit_seconds(method, shape)
    if not grid:
        return fit
    rows = min(shape[0], search_rows or shape[0]) * (_INNER_FOLDS - 1) // _INNER_FOLDS
    points = math.prod(len(values) for values in grid.values())
    inner = fit_seconds(method, (max(1, rows), *shape[1:]))
    return fit + points * _INNER_FOLDS * _POINT.get(method, 1.0) * inner


def expected_seconds(run: Run) -> float:
    """Estimate the seconds of a planned run; 0 if it cannot be executed."""
    if run.known["reason"] is not None:
        return 0.0
    sizes = (run.known["n_samples"], run.known["n_features"], run.known["n_labels"])
    n, d, l = train_shape(sizes, run.fields["folds"])
    mapping = 0.0
    if run.fields["features"] == "kernel":
        d = min(n, _LANDMARKS)
        mapping = _EIGEN * d**3 + 3e-10 * n * d**2
    name, grid = run.method.path.rpartition(":")[2], run.known["grid"]
    if run.fields["oracle"]:
        # No inner folds, but every point is fitted to all rows of the fold.
        points = math.prod(len(values) for values in grid.values())
        return mapping + (1 + points * _POINT.get(name, 1.0)) * fit_seconds(name, (n, d, l))
    seconds = run_seconds(name, (n, d, l), grid, run.known["search_rows"])
    if run.method.tunes_itself and run.fields["tuning"] == "candidates":
        searched = [key for key in run.method.grid or () if key not in run.method.params]
        seconds *= 1 + _OWN_SEARCH.get(name, 0.0) * bool(searched)
    return mapping + seconds


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
