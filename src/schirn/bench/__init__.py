"""Compare methods: a grid of cells, one row each, in files that survive anything."""

from schirn.bench._overview import overview
from schirn.bench._progress import Report
from schirn.bench._rescore import rescore
from schirn.bench._run import DEFAULT_METHODS, run
from schirn.bench.grids import GRIDS, RECOMMENDED, default_grid, recommended
from schirn.bench.rows import read_rows

__all__ = [
    "DEFAULT_METHODS",
    "GRIDS",
    "RECOMMENDED",
    "Report",
    "default_grid",
    "overview",
    "read_rows",
    "recommended",
    "rescore",
    "run",
]
