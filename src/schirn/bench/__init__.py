"""Crash-safe, resumable benchmarks.

`running` turns a request into results on disk (`results` describes the format); `stats` and
`tables` compare the methods; `figures` and `report` show the comparison. `submission` checks
results of others, and `leaderboard` makes static pages of them.
"""

from schirn.bench._overview import overview
from schirn.bench.baselines import BoostingBaseline, CleanlabBaseline, LogisticBaseline
from schirn.bench.leaderboard import build_leaderboard
from schirn.bench.results import read_rows
from schirn.bench.running.engine import Report
from schirn.bench.running.methods import GRIDS, RECOMMENDED, default_grid, recommended
from schirn.bench.running.run import DEFAULT_METHODS, run
from schirn.bench.running.scores import rescore
from schirn.bench.submission import Check, check_results

__all__ = [
    "DEFAULT_METHODS",
    "GRIDS",
    "RECOMMENDED",
    "BoostingBaseline",
    "Check",
    "CleanlabBaseline",
    "LogisticBaseline",
    "Report",
    "build_leaderboard",
    "check_results",
    "default_grid",
    "overview",
    "read_rows",
    "recommended",
    "rescore",
    "run",
]
