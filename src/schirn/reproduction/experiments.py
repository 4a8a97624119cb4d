"""The published experiments, in full and as a quick part: data sets, methods and grids."""

import math
from dataclasses import dataclass, replace

from schirn.bench.running.methods import Grid

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

# Searched if the whole grid takes too long.
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

# Searched if even the small grid takes too long.
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
    """The part of the experiments to run.

    Attributes
    ----------
    name : {"quick", "full"}
        Name of the part.
    sets : tuple of str
        Data sets of the main tables, followed by ":r" if noise is added.
    ablation : tuple of str
        Data sets of the ablations and the sensitivity curves.
    cooccurrence : tuple of str
        Data sets whose labels are tied.
    folds : int
        Number of folds.
    run_seconds : float
        Longest estimated time of a run with a whole or small grid.
    least_seconds : float
        Longest estimated time of a run with the least grid.
    fit_seconds : float
        Methods with a longer estimated fit are left out.
    draws : int
        Random draws per case of the theorem.
    every : int
        Take every n-th value of a swept parameter.
    is_published : bool
        Whether these are the data sets of the paper, not those of a user.
    """

    name: str
    sets: tuple[str, ...]
    ablation: tuple[str, ...]
    cooccurrence: tuple[str, ...]
    folds: int = 5
    run_seconds: float = 22.0
    least_seconds: float = 80.0
    fit_seconds: float = math.inf
    draws: int = 50
    every: int = 1
    is_published: bool = True

    def with_sets(self, sets: tuple[str, ...]) -> "Part":
        """Return the same part for the data sets of a user."""
        return replace(self, sets=sets, ablation=sets, cooccurrence=sets, is_published=False)


FULL = Part(
    "full",
    (
        "music_emotion",
        "music_style",
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
    run_seconds=20.0,
    least_seconds=20.0,
    fit_seconds=10.0,
    draws=10,
    every=2,
)
