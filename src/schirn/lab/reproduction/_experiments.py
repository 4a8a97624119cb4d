"""The published experiments, in full and as a quick part: data sets, methods and grids."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

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
        Data sets of the ablations.
    cooccurrence : tuple of str
        Data sets whose labels are tied.
    folds : int
        Number of folds.
    search_rows : int
        Largest number of training rows of a fold that a grid is searched on.
    fewer_search_rows : dict of str to int
        The same for methods whose cost grows with the cube of the rows.
    few_folds : dict of str to int
        Number of folds to run, the first ones of `folds`, on large data sets and in the
        tables "kernel". All methods of a row have the same folds.
    left_out : tuple of str
        Methods that take too long.
    draws : int
        Random draws per case of the theorem.
    splits : int
        Random splits of the study of how much their choice changes.
    is_published : bool
        True for the data sets of the paper, False for a user's own.
    preprocessed : tuple of str
        Data sets of the tables that are also run with the preprocessing of the release.
    """

    name: str
    sets: tuple[str, ...]
    ablation: tuple[str, ...]
    cooccurrence: tuple[str, ...]
    folds: int = 5
    search_rows: int = 600
    fewer_search_rows: Mapping[str, int] = field(default_factory=lambda: {"PAKS": 300})
    few_folds: Mapping[str, int] = field(default_factory=dict)
    left_out: tuple[str, ...] = ()
    draws: int = 50
    splits: int = 100
    is_published: bool = True
    preprocessed: tuple[str, ...] = ("scene:1", "birds:7")

    def folds_of(self, table: str, dataset: str) -> int:
        """Number of folds to run on a data set."""
        return min(self.folds, *(self.few_folds.get(key, self.folds) for key in (table, dataset)))

    def search_rows_of(self, method: str) -> int:
        """Return the largest number of training rows that the grid of a method is searched on."""
        return min(self.search_rows, self.fewer_search_rows.get(method, self.search_rows))

    def with_sets(self, sets: tuple[str, ...]) -> "Part":
        """Return the same part for the data sets of a user."""
        return replace(
            self,
            sets=sets,
            ablation=sets,
            cooccurrence=sets,
            is_published=False,
            preprocessed=(),
        )


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
    few_folds=dict.fromkeys(
        ("kernel", "sensitivity", "chess", "philosophy", "yeastcc", "yeastbp", "yeastbp_tied"), 2
    ),
)

QUICK = Part(
    "quick",
    ("birds:3", "birds:7", "birds:11", "scene:1", "medical:3", "yeastmf"),
    ("scene:1", "birds:3", "medical:3"),
    ("yeastmf",),
    search_rows=300,
    few_folds={"kernel": 2, "sensitivity": 2, "yeastmf": 2},
    left_out=("PAKS", "PARD"),
    draws=10,
    splits=20,
)
