"""Estimated times, and the methods chosen by them."""

from schirn.lab.bench.running.methods import default_grid
from schirn.lab.reproduction.costs import choose_methods, fit_seconds, run_seconds
from schirn.lab.reproduction.experiments import FULL, METHODS, QUICK


def test_only_the_quick_part_leaves_out_slow_methods():
    large = (50_000, 5000, 500)
    assert choose_methods(METHODS, large, FULL) == list(METHODS)
    assert "PAKS" not in choose_methods(METHODS, (2000, 300, 6), QUICK)


def test_a_search_costs_its_points_and_less_on_fewer_rows():
    shape, grid = (3000, 800, 200), default_grid("GLC")
    whole, some = (run_seconds("GLC", shape, grid, rows) for rows in (None, 600))
    one = run_seconds("GLC", shape, {"eta": [1.0]})
    assert fit_seconds("GLC", shape) < some < whole
    assert one < 4 * fit_seconds("GLC", shape)
    assert whole > 10 * fit_seconds("GLC", shape)
