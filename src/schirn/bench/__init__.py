"""Crash-safe, resumable benchmarks.

`running` turns a request into results on disk (`results` describes the format); `stats` and
`tables` compare the methods; `figures` and `report` show the comparison.
"""

from schirn.bench._overview import overview
from schirn.bench.baselines import BoostingBaseline, CleanlabBaseline, LogisticBaseline
from schirn.bench.results import read_rows
from schirn.bench.running.engine import Report
from schirn.bench.running.methods import GRIDS, RECOMMENDED, default_grid, recommended
from schirn.bench.running.run import DEFAULT_METHODS, run
from schirn.bench.running.scores import rescore

__all__ = [
    "DEFAULT_METHODS",
    "GRIDS",
    "RECOMMENDED",
    "BoostingBaseline",
    "CleanlabBaseline",
    "LogisticBaseline",
    "Report",
    "default_grid",
    "overview",
    "read_rows",
    "recommended",
    "rescore",
    "run",
]
