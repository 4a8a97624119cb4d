import re

import matplotlib
import numpy as np
import pytest
from reference.bench_results import make_result, study

from schirn.exceptions import InputError
from schirn.lab.bench import figures, stats, tables
from schirn.lab.bench.report import write_outputs

matplotlib.use("Agg")
pyplot = pytest.importorskip("matplotlib.pyplot")


@pytest.fixture
def ax():
    figure, ax = pyplot.subplots()
    yield ax
    pyplot.close(figure)


@pytest.fixture(scope="module")
def results():
    return study()


def means(results, metric):
    """Means in percent by label, one per setting."""
    table = tables.results(results, metric)
    columns = zip(*table.body, strict=True)
    found = dict(zip(table.head, columns, strict=True))
    return {name: [100 * cell.value for cell in found[name]] for name in table.head[2:]}


def labels(ax):
    return [text.get_text() for text in ax.get_legend().get_texts()]


def test_noise_lines_show_the_means(results, ax):
    assert figures.noise_levels(results, "average_precision", "scene", ax=ax) is ax
    expected = means([r for r in results if r["dataset"] == "scene"], "average_precision")
    assert labels(ax) == list(expected)
    lines = [container.lines[0] for container in ax.containers]
    assert len(lines) == 8
    for line, values in zip(lines, expected.values(), strict=True):
        assert line.get_xdata().tolist() == [1, 2, 3]
        assert line.get_ydata() == pytest.approx(values)
    assert (ax.get_title(), ax.get_ylabel()) == ("scene", "average precision ↑ (%)")
    assert ax.get_legend().get_title().get_text() == "† oracle-tuned, ‡ reconstructed"


def test_a_single_level_has_a_dot_per_method(results, ax):
    figures.noise_levels(results, "one_error", "yeastmf", ax=ax)
    expected = means([r for r in results if r["dataset"] == "yeastmf"], "one_error")
    dots = [container.lines[0] for container in ax.containers]
    assert [dot.get_ydata()[0] for dot in dots] == pytest.approx(
        [value for (value,) in expected.values()]
    )
    names = [tick.get_text() for tick in ax.get_xticklabels()]
    assert names == list(expected)
    hollow = [
        name
        for name, dot in zip(names, dots, strict=True)
        if str(dot.get_markerfacecolor()) == "none"
    ]
    assert hollow == ["NLR†"]
    assert ax.get_legend() is None


def test_critical_difference_names_all_ranks(results, ax):
    results = [{**r, "dataset": f"{r['dataset']} {r['r']}"} for r in results]
    figures.critical_difference(results, "average_precision", ax=ax)
    result = stats.friedman(results, "average_precision")
    texts = " ".join(text.get_text() for text in ax.texts)
    for name, rank in result.ranks.items():
        assert name in texts
        assert f"{rank:.2f}" in texts
    assert f"critical difference {result.critical_difference:.2f}" in texts
    assert "oracle-tuned" in ax.get_title(loc="center") + ax.get_title(loc="left")


def test_critical_difference_has_an_axis_and_joins_what_it_cannot_distinguish(ax):
    values = {"A": 0.9, "B": 0.8, "C": 0.2, "D": 0.1}
    results = [
        make_result(f"d{i}", 1, m, 0, average_precision=v)
        for m, v in values.items()
        for i in range(12)
    ]
    figures.critical_difference(results, "average_precision", ax=ax)
    # The critical difference of four methods over 12 data sets is 1.35: one rank, but not two.
    joined = [line.get_xdata() for line in ax.lines if line.get_linewidth() == 3.5]
    assert [sorted(np.round(ends)) for ends in joined] == [[1, 2], [2, 3], [3, 4]]
    assert ax.get_xticks().tolist() == [1, 2, 3, 4]
    assert (ax.spines["top"].get_visible(), ax.spines["bottom"].get_visible()) == (True, False)
    assert ax.spines["top"].get_bounds() == (1, 4)
    assert ax.get_title() == "mean rank in average precision over 12 data sets, 1 is best"


def test_critical_difference_is_refused_for_too_few_data_sets(ax):
    results = [
        make_result(f"d{i}", 1, m, 0, one_error=v) for v, m in enumerate("ABCD") for i in range(2)
    ]
    with pytest.raises(InputError, match="4 methods need at least 3, there are 2"):
        figures.critical_difference(results, "one_error", ax=ax)


def test_critical_difference_needs_two_data_sets(results, ax):
    scene = [result for result in results if result["dataset"] == "scene"]
    with pytest.raises(InputError, match="needs two data sets"):
        figures.critical_difference(scene, "average_precision", ax=ax)


def test_gap_closed_is_sorted_by_the_mean(results, ax):
    figures.gap_closed(results, ax=ax)
    shares = stats.gap_closed(results)
    means = {name: np.nanmean(list(values.values())) for name, values in shares.items()}
    names = [tick.get_text() for tick in ax.get_yticklabels()]
    assert names == sorted(means, key=means.get)
    assert names[-1] == "Sieve"
    dots = ax.lines[2 * names.index("GLC‡")]
    assert len(dots.get_xdata()) == 9


def test_figures_make_their_own_axes(results):
    ax = figures.noise_levels(results, "one_error", "scene")
    assert ax.figure.get_size_inches().tolist() == pytest.approx([7, 4.2])
    pyplot.close(ax.figure)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda results: figures.noise_levels(results, "one_error", "mars"),
            "'mars'; there are results for: scene",
        ),
    ],
)
def test_bad_input(results, call, message):
    with pytest.raises(InputError, match=message):
        call(results)


def test_no_two_methods_look_alike(results, ax):
    more = [make_result("scene", 1, f"m{i}", 0, one_error=0.1) for i in range(8)]
    figures.noise_levels(results + more, "one_error", "scene", ax=ax)
    lines = [container.lines[0] for container in ax.containers]
    looks = {(line.get_color(), line.get_marker(), line.get_linestyle()) for line in lines}
    assert len(looks) == len(lines) == 16


def test_panels_that_are_not_needed_are_hidden(tmp_path):
    results = [
        make_result(f"d{i}", r, "NLR", 0, one_error=0.1 * r) for i in range(5) for r in (1, 2)
    ]
    write_outputs(results, tmp_path)
    svg = (tmp_path / "figures" / "noise_levels_one_error.svg").read_text()
    panels = re.findall(r'<g id="axes_\d+">', svg)
    assert len(panels) == 5
    assert re.findall(r"<!-- (d\d) -->", svg) == ["d0", "d1", "d2", "d3", "d4"]


def test_names_are_not_formulas_and_none_is_left_out():
    results = [
        {
            "dataset": "fee_$5_$10",
            "r": r,
            "method": m,
            "fold": f,
            "fit_seconds": 2.0,
            "metrics": {"one_error": r / 10},
        }
        for m in ("_mine", "x$^$", "B")
        for r in (1, 2)
        for f in range(3)
    ]
    ax = figures.noise_levels(results, "one_error", "fee_$5_$10")
    ax.figure.canvas.draw()
    assert len(ax.get_legend().get_texts()) == 3


def test_seconds_are_not_percentages():
    results = [
        {
            "dataset": "d",
            "r": r,
            "method": m,
            "fold": f,
            "fit_seconds": 2.0,
            "metrics": {"one_error": 0.5},
        }
        for m in ("A", "B")
        for r in (1, 2)
        for f in range(3)
    ]
    ax = figures.noise_levels(results, "fit_seconds", "d")
    assert list(ax.lines[0].get_ydata()) == [2, 2]
    ax = figures.noise_levels(results, "one_error", "d")
    assert list(ax.lines[0].get_ydata()) == [50, 50]
