"""Crash-safe, resumable benchmarks.

`running` turns a request into results on disk (`results` describes the format); `stats` and
`tables` compare the methods; `figures` and `report` show the comparison.
"""

from schirn.lab.bench._baselines import BASELINES as BASELINES
from schirn.lab.bench._baselines import CleanlabBaseline, LogisticBaseline
from schirn.lab.bench._comparison import ALL_METRICS as ALL_METRICS
from schirn.lab.bench._comparison import AUTO as AUTO
from schirn.lab.bench._comparison import CEILING as CEILING
from schirn.lab.bench._comparison import FLOOR as FLOOR
from schirn.lab.bench._comparison import ORACLE_MARK as ORACLE_MARK
from schirn.lab.bench._comparison import SMALLEST_GAP as SMALLEST_GAP
from schirn.lab.bench._comparison import Comparison as Comparison
from schirn.lab.bench._comparison import Contender as Contender
from schirn.lab.bench._comparison import Result as Result
from schirn.lab.bench._comparison import Setting as Setting
from schirn.lab.bench._comparison import compare as compare
from schirn.lab.bench._comparison import contender_notes as contender_notes
from schirn.lab.bench._comparison import folds_of as folds_of
from schirn.lab.bench._comparison import mark_notes as mark_notes
from schirn.lab.bench._comparison import names_of as names_of
from schirn.lab.bench._comparison import value_of as value_of
from schirn.lab.bench._overview import counts_text as counts_text
from schirn.lab.bench._overview import overview_table as overview_table
from schirn.lab.bench._overview import settings_text as settings_text
from schirn.lab.bench._overview import tie_warnings as tie_warnings
from schirn.lab.bench._published import Published as Published
from schirn.lab.bench._published import published as published
from schirn.lab.bench._published import published_values as published_values
from schirn.lab.bench._rendering import Cell as Cell
from schirn.lab.bench._rendering import Table as Table
from schirn.lab.bench.results import read_rows
from schirn.lab.bench.running._data import Level as Level
from schirn.lab.bench.running._data import Prepared as Prepared
from schirn.lab.bench.running._data import Source as Source
from schirn.lab.bench.running._data import checksum as checksum
from schirn.lab.bench.running._data import make_splits as make_splits
from schirn.lab.bench.running._data import parse_datasets as parse_datasets
from schirn.lab.bench.running._data import parse_level as parse_level
from schirn.lab.bench.running._data import prepare as prepare
from schirn.lab.bench.running._data import to_dense as to_dense
from schirn.lab.bench.running._data import unusable as unusable
from schirn.lab.bench.running._engine import NOT_RUN as NOT_RUN
from schirn.lab.bench.running._engine import Batch as Batch
from schirn.lab.bench.running._engine import Engine as Engine
from schirn.lab.bench.running._engine import default_threads as default_threads
from schirn.lab.bench.running._execute import execute as execute
from schirn.lab.bench.running._inner import inner_scores as inner_scores
from schirn.lab.bench.running._memory import peak_memory as peak_memory
from schirn.lab.bench.running._methods import GRIDS, RECOMMENDED, default_grid, recommended
from schirn.lab.bench.running._methods import Method as Method
from schirn.lab.bench.running._methods import importable_here as importable_here
from schirn.lab.bench.running._methods import make_methods as make_methods
from schirn.lab.bench.running._methods import name_methods as name_methods
from schirn.lab.bench.running._methods import own_methods as own_methods
from schirn.lab.bench.running._plan import FEATURES as FEATURES
from schirn.lab.bench.running._plan import TUNINGS as TUNINGS
from schirn.lab.bench.running._plan import Facts as Facts
from schirn.lab.bench.running._plan import Run as Run
from schirn.lab.bench.running._plan import Settings
from schirn.lab.bench.running._plan import method_runs as method_runs
from schirn.lab.bench.running._plan import plan_runs as plan_runs
from schirn.lab.bench.running._renewal import Renewal as Renewal
from schirn.lab.bench.running._renewal import renew_results as renew_results
from schirn.lab.bench.running._run import DEFAULT_METHODS, run
from schirn.lab.bench.running._run import results_of as results_of
from schirn.lab.bench.running._scores import compute_metrics as compute_metrics
from schirn.lab.bench.running._scores import read_arrays as read_arrays
from schirn.lab.bench.running._scores import rescore
from schirn.lab.bench.running._workers import ProcessWorker as ProcessWorker

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
