"""Recommended parameters and tuning grids of the methods.

A grid is small enough to be searched in every fold. The values follow the papers where these say
them; where they do not, they span what moved the results of a reconstruction.
"""

from typing import Any

Params = dict[str, Any]
Grid = dict[str, list[Any]]

# Besides the defaults of the classes.
RECOMMENDED: dict[str, Params] = {
    # Support vector machines on unscaled features may take hours.
    "ParticleVLS": {"scale": "minmax"},
    "ParticleMAP": {"scale": "minmax"},
}

_RIDGE = [0.01, 0.1, 1.0, 10.0, 100.0, 1000.0, 10_000.0]

# Sieve has none: it tunes itself.
GRIDS: dict[str, Grid] = {
    "Schirn": {
        "alpha": [0.0, 0.1, 0.2, 0.5, 1.0],
        "beta": [0.01, 0.1],
        "lam": [0.1, 1.0, 10.0, 100.0, 250.0, 1000.0],
    },
    "NLR": {
        "beta": [0.001, 0.1, 10.0, 100.0],
        "gamma": [0.01, 10.0, 100.0, 1000.0],
        "lam": [1.3, 1.8, 2.1, 2.5, 3.2],
    },
    "FPML": {"lam1": [0.1, 1.0], "lam3": [1.0, 10.0, 100.0]},
    "PMLLRS": {"beta": [0.01, 0.1, 1.0], "gamma": [0.01, 1.0, 100.0]},
    "PMLNI": {"lam": [1.0, 10.0, 100.0]},
    "ParticleMAP": {"thr": [0.5, 0.7, 0.9]},
    "ParticleVLS": {"thr": [0.5, 0.7, 0.9]},
    "PAKS": {"eta": [1.0, 10.0, 100.0, 1000.0]},
    "GLC": {"alpha": [0.1, 1.0, 10.0], "eta": [0.1, 1.0, 10.0, 100.0, 1000.0]},
    "PARD": {"beta_0": [0.01, 0.1]},
    "CandidateRidge": {"lam": _RIDGE},
    "OracleRidge": {"lam": _RIDGE},
}


def recommended(name: str) -> Params:
    """Parameters to use without tuning, besides the defaults of the class.

    >>> recommended("ParticleVLS")
    {'scale': 'minmax'}
    """
    return dict(RECOMMENDED.get(name, {}))


def default_grid(name: str) -> Grid | None:
    """The grid searched by default; None for a method with nothing to tune.

    >>> default_grid("PMLNI")
    {'lam': [1.0, 10.0, 100.0]}
    """
    grid = GRIDS.get(name)
    return None if grid is None else {key: list(values) for key, values in grid.items()}
