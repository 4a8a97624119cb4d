"""Crash-safe, resumable benchmarks.

`running` turns a request into results on disk (`results` describes the format); `stats` and
`tables` compare the methods; `figures` and `report` show the comparison.
"""

from schirn._plugins import moved_names
from schirn.lab.bench.baselines import CleanlabBaseline, LogisticBaseline
from schirn.lab.bench.results import read_rows
from schirn.lab.bench.running.methods import GRIDS, RECOMMENDED, default_grid, recommended
from schirn.lab.bench.running.plan import Settings
from schirn.lab.bench.running.run import DEFAULT_METHODS, run
from schirn.lab.bench.running.scores import rescore

__all__ = [
    "DEFAULT_METHODS",
    "GRIDS",
    "RECOMMENDED",
    "CleanlabBaseline",
    "LogisticBaseline",
    "Settings",
    "default_grid",
    "read_rows",
    "recommended",
    "rescore",
    "run",
]

# For `schirn.bench`, the old name of this package.
__getattr__ = moved_names("schirn.bench")
