"""Estimated times, and the grids and methods chosen by them."""

import numpy as np

from schirn.reproduction.costs import choose_grid, choose_methods, fit_seconds, run_seconds
from schirn.reproduction.experiments import FULL, METHODS, QUICK


def test_grids_shrink_with_the_size():
    small, large = (500, 200, 10), (50_000, 5000, 500)
    assert len(choose_grid("Schirn", small, FULL)) == 3
    assert len(choose_grid("Schirn", small, QUICK)) == 2
    assert choose_grid("Schirn", large, FULL) is None
    assert "PAKS" not in choose_methods(METHODS, (2000, 300, 6), QUICK)
    assert choose_methods(METHODS, large, FULL) == list(METHODS)
    grid = {"lam": [1.0, 2.0]}
    assert run_seconds("NLR", small, grid) > 3 * fit_seconds("NLR", small)
    medium = (3000, 800, 230)
    points = [
        np.prod([len(v) for v in choose_grid("Schirn", s, FULL).values()])
        for s in (small, (1100, 1000, 50), medium)
    ]
    assert points == [60, 16, 4]


def test_every_method_is_searched_on_every_set_of_the_paper_where_others_are():
    largest = (3035, 6139, 217)
    for name in ("Schirn", "NLR", "FPML", "PMLNI", "GLC", "CandidateRidge", "OracleRidge"):
        assert choose_grid(name, largest, FULL) is not None, name
