"""The published experiments, in full and as a quick part: data sets, methods and grids."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

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

KERNEL_METHODS = ("Schirn", "NLR", "PMLNI", "GLC", "Sieve", "CandidateRidge", "OracleRidge")
"""Methods of the tables with kernel features."""

ORACLE_GRID = {
    "alpha": [0.1, 0.2, 0.5, 0.8, 1.0, 1.5, 2.0],
    "beta": [0.05],
    "lam": [0.1, 1.0, 10.0, 100.0, 250.0, 1000.0],
}
"""What Schirn† searches on the truth: the published ranges and lam = 1, with fewer values of alpha
and one of beta."""


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
    search_rows : int
        Largest number of training rows of a fold that a grid is searched on.
    some_folds : dict
        Number of folds to run, the first ones of `folds`, where they are not all: by the name of a
        batch ("oracle", "sensitivity"), or by a batch or method and a data set.
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
    search_rows: int = 600
    some_folds: Mapping[Any, int] = field(default_factory=dict)
    fit_seconds: float = math.inf
    draws: int = 50
    every: int = 1
    is_published: bool = True

    def folds_of(self, batch: str, method: str, dataset: str) -> int:
        """Number of folds that a method runs on a data set."""
        keys = (batch, (batch, dataset), (method, dataset))
        limits = (self.some_folds.get(key) for key in keys)
        return min([self.folds, *(limit for limit in limits if limit is not None)])

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
    some_folds={
        "sensitivity": 2,
        "oracle": 2,
        ("oracle", "philosophy"): 1,
        ("oracle", "yeastbp"): 1,
        ("kernel", "philosophy"): 2,
        ("kernel", "yeastbp"): 2,
        ("cooccurrence", "yeastbp_tied"): 2,
        **{(name, "yeastbp"): 2 for name in ("Schirn", "NLR")},
        ("PMLLRS", "yeastbp"): 2,
        **{("GLC", name): 2 for name in ("chess", "philosophy", "yeastbp")},
        **{(name, "philosophy"): 1 for name in ("ParticleMAP", "ParticleVLS", "PAKS")},
        **{(name, "yeastbp"): 2 for name in ("ParticleMAP", "ParticleVLS")},
        **{(name, "yeastbp"): 1 for name in ("PAKS", "PARD")},
        ("PARD", "yeastcc"): 2,
        ("PAKS", "scene"): 2,
    },
)

QUICK = Part(
    "quick",
    ("birds:3", "birds:7", "birds:11", "scene:1", "medical:3", "yeastmf"),
    ("scene:1", "birds:3", "medical:3"),
    ("yeastmf",),
    search_rows=300,
    some_folds={"oracle": 1, "sensitivity": 2, "kernel": 2},
    fit_seconds=10.0,
    draws=10,
    every=2,
)
