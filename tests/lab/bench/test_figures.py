import matplotlib
import numpy as np
import pytest
from reference.bench_results import make_result, study

from schirn.exceptions import InputError
from schirn.lab.bench import figures, stats
from schirn.lab.bench._comparison import compare

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
    ax = figures.gap_closed(results)
    assert ax.figure.get_size_inches().tolist() == pytest.approx([7, 4.2])
    pyplot.close(ax.figure)


def test_no_two_methods_look_alike():
    contenders = compare(
        [make_result("scene", 1, f"m{i}", 0, one_error=0.1) for i in range(16)], "one_error"
    ).contenders
    looks = {(s["color"], s["marker"], s["linestyle"]) for s in figures.look(contenders).values()}
    assert len(looks) == 16


def test_names_are_not_formulas():
    values = {"CandidateRidge": 0.5, "OracleRidge": 0.7, "_mine": 0.6, "x$^$": 0.6}
    results = [make_result("d", 1, m, 0, average_precision=v) for m, v in values.items()]
    ax = figures.gap_closed(results)
    ax.figure.canvas.draw()
    assert [tick.get_text() for tick in ax.get_yticklabels()] == [" _mine", r"x\$^\$"]
    pyplot.close(ax.figure)
