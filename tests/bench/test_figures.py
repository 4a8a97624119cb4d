from types import SimpleNamespace

import matplotlib
import numpy as np
import pytest
from reference.bench_rows import row, study

from schirn import NLR, Schirn
from schirn.bench import figures, stats
from schirn.bench._drawings import _convergence, _levels, _sensitivity
from schirn.bench._grid import grid
from schirn.bench._style import COLOURS, look, theme
from schirn.exceptions import InputError

matplotlib.use("Agg")
pyplot = pytest.importorskip("matplotlib.pyplot")


@pytest.fixture
def ax():
    figure, ax = pyplot.subplots()
    yield ax
    pyplot.close(figure)


@pytest.fixture(scope="module")
def rows():
    return study()


@pytest.fixture(scope="module")
def sweep():
    """alpha varied at beta = 0.1, and one row off that line."""
    kept = [
        row("scene", r, "Schirn", k, average_precision=a / 10 + r / 100, params=_at(a))
        for r in (1, 2)
        for a in (0.1, 1.0, 3.0)
        for k in range(2)
    ]
    off = row("scene", 1, "Schirn", 0, average_precision=0.99, params=_at(1.0, 0.5))
    return [*kept, off]


def _at(alpha, beta=0.1):
    return {"alpha": alpha, "beta": beta}


def labels(ax):
    return [text.get_text() for text in ax.get_legend().get_texts()]


def test_noise_lines_show_the_means(rows, ax):
    assert figures.noise_levels(rows, "average_precision", "scene", ax=ax) is ax
    cells = grid(rows, "average_precision")
    assert labels(ax) == [c.label for c in cells.contenders]
    lines = [container.lines[0] for container in ax.containers]
    assert len(lines) == 8
    settings = [s for s in cells.settings if s.dataset == "scene"]
    for line, c in zip(lines, cells.contenders, strict=True):
        assert line.get_xdata().tolist() == [1, 2, 3]
        assert line.get_ydata() == pytest.approx([100 * cells.mean(s, c) for s in settings])
    assert (ax.get_title(), ax.get_ylabel()) == ("scene", "average precision ↑ (%)")
    assert ax.get_legend().get_title().get_text() == "† oracle-tuned"


def test_noise_bars(rows, ax):
    figures.noise_levels(rows, "one_error", "yeastmf", ax=ax)
    cells = grid(rows, "one_error")
    heights = [bar.get_height() for bar in ax.patches]
    assert heights == pytest.approx(
        [100 * cells.mean(cells.settings[-1], c) for c in cells.contenders]
    )
    names = [tick.get_text() for tick in ax.get_xticklabels()]
    assert names == [c.label for c in cells.contenders]
    hatched = [name for name, bar in zip(names, ax.patches, strict=True) if bar.get_hatch()]
    assert hatched == ["NLR†"]


def test_bars_of_several_levels(rows, ax):
    figures.noise_levels(rows, "one_error", "birds", kind="bars", ax=ax)
    assert len(ax.patches) == 3 * 8
    assert [tick.get_text() for tick in ax.get_xticklabels()] == ["3", "7", "11"]


def test_sensitivity_holds_the_other_parameters(sweep, ax):
    assert figures.sensitivity(sweep, "alpha", ax=ax) is ax
    assert labels(ax) == ["scene r=1", "scene r=2"]
    assert ax.lines[0].get_xdata().tolist() == [0.1, 1.0, 3.0]
    assert ax.lines[0].get_ydata() == pytest.approx([2.0, 11.0, 31.0])
    assert (ax.get_xlabel(), ax.get_xscale()) == ("α", "log")


def test_sensitivity_has_a_place_for_zero(sweep, ax):
    zero = [row("scene", 1, "Schirn", 0, average_precision=0.1, params=_at(0.0))]
    figures.sensitivity(sweep + zero, "alpha", ax=ax)
    assert ax.get_xscale() == "symlog"


@pytest.mark.parametrize(
    ("quantity", "attribute", "scale"),
    [
        ("objective", "objective_", "linear"),
        ("residual", "residual_", "log"),
        ("n_noise", "n_noise_", "linear"),
    ],
)
def test_convergence_draws_the_trace(small, ax, quantity, attribute, scale):
    model = Schirn(max_iter=20).fit(small.X, small.candidates)
    figures.convergence({"Schirn": model}, quantity, ax=ax)
    assert ax.lines[0].get_ydata() == pytest.approx(np.asarray(getattr(model, attribute)))
    assert ax.lines[0].get_xdata()[0] == 1
    assert (labels(ax), ax.get_yscale()) == (["Schirn"], scale)


def test_convergence_of_one_model_and_of_what_is_not_recorded(small, ax):
    model = NLR().fit(small.X, small.candidates)
    assert figures.convergence(model, ax=ax).get_legend() is None
    with pytest.raises(InputError, match="NLR does not record 'residual_'"):
        figures.convergence(model, "residual", ax=ax)
    with pytest.raises(InputError, match="Unknown quantity 'loss'"):
        figures.convergence(model, "loss", ax=ax)


def test_critical_difference_names_all_ranks(rows, ax):
    pytest.importorskip("scikit_posthocs")
    figures.critical_difference(rows, "average_precision", unit="setting", ax=ax)
    result = stats.friedman(rows, "average_precision", unit="setting")
    texts = " ".join(text.get_text() for text in ax.texts)
    for name, rank in result.ranks.items():
        assert name in texts
        assert f"{rank:.2f}" in texts
    assert f"critical difference {result.critical_difference:.2f}" in texts
    assert "oracle-tuned" in ax.get_title(loc="center") + ax.get_title(loc="left")


def test_critical_difference_needs_two_data_sets(rows, ax):
    scene = [row for row in rows if row["dataset"] == "scene"]
    with pytest.raises(InputError, match="needs two data sets"):
        figures.critical_difference(scene, "average_precision", ax=ax)


def test_gap_closed_is_sorted_by_the_mean(rows, ax):
    figures.gap_closed(rows, ax=ax)
    shares = stats.gap_closed(rows)
    means = {name: np.nanmean(list(values.values())) for name, values in shares.items()}
    names = [tick.get_text() for tick in ax.get_yticklabels()]
    assert names == sorted(means, key=means.get)
    assert names[-1] == "Sieve"
    dots = ax.lines[2 * names.index("GLC")]
    assert len(dots.get_xdata()) == 9


def test_time_quality_has_a_point_per_method(rows, ax):
    figures.time_quality(rows, ax=ax)
    assert [text.get_text() for text in ax.texts] == [
        c.label for c in grid(rows, "average_precision").contenders
    ]
    assert len(ax.lines) == 8
    assert ax.get_xscale() == "log"
    assert "processor seconds per fit" in ax.get_xlabel()


def test_time_quality_of_rows_without_processor_time(rows, ax):
    figures.time_quality([{**row, "fit_cpu_seconds": None} for row in rows], ax=ax)
    assert ax.get_xlabel().startswith("seconds per fit")


def test_figures_make_their_own_axes(rows):
    ax = figures.noise_levels(rows, "one_error", "scene")
    assert ax.figure.get_size_inches().tolist() == pytest.approx([7, 4.2])
    pyplot.close(ax.figure)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda rows: figures.noise_levels(rows, "one_error", "mars"),
            "'mars'; the rows have: scene",
        ),
        (lambda rows: figures.noise_levels(rows, "one_error", "scene", kind="pie"), "'pie'"),
        (lambda rows: figures.sensitivity(rows, "gamma"), "parameter 'gamma'"),
    ],
)
def test_bad_input(rows, call, message):
    with pytest.raises(InputError, match=message):
        call(rows)


def test_no_two_methods_look_alike(rows):
    more = [row("d", 1, f"m{i}", 0, one_error=0.1) for i in range(8)]
    styles = look(grid(rows + more, "one_error").contenders)
    looks = {(s["color"], s["marker"], s["linestyle"]) for s in styles.values()}
    assert len(looks) == len(styles) == 16
    assert len(set(COLOURS)) == 6


def test_themes_differ_only_in_ink():
    light, dark = theme("light"), theme("dark")
    assert {key for key in light if light[key] != dark[key]} == {
        "text.color",
        "axes.labelcolor",
        "axes.edgecolor",
        "xtick.color",
        "ytick.color",
        "grid.color",
    }


def test_sensitivity_leaves_out_runs_that_failed(sweep, ax):
    failed = row("scene", 1, "Schirn", 9, params=_at(2.0)) | {"status": "failed"}
    figures.sensitivity([*sweep, failed], "alpha", ax=ax)
    assert [line.get_xdata().tolist() for line in ax.lines] == [[0.1, 1.0, 3.0]] * 2


def test_time_quality_needs_a_setting_of_all_methods(ax):
    rows = [row("a", 1, "NLR", 0, one_error=0.5), row("b", 1, "GLC", 0, one_error=0.5)]
    with pytest.raises(InputError, match="No setting has both results and fit seconds of all"):
        figures.time_quality(rows, "one_error", ax=ax)


def test_panels_that_are_not_needed_are_hidden():
    rows = [row(f"d{i}", r, "NLR", 0, one_error=0.1 * r) for i in range(5) for r in (1, 2)]
    figure = pyplot.figure()
    _levels(figure, rows, "one_error")
    assert [ax.get_visible() for ax in figure.axes] == [True] * 5 + [False]
    assert [ax.get_title() for ax in figure.axes[:5]] == ["d0", "d1", "d2", "d3", "d4"]
    pyplot.close(figure)


def test_a_sweep_that_varies_nothing_says_so(sweep):
    drawing = _sensitivity(sweep[:1], "average_precision", "average precision")
    assert drawing.missing == "No row of the sweep varies one of: alpha, beta, lam."
    assert drawing.light == b""


def test_convergence_is_drawn_of_what_was_recorded():
    half = SimpleNamespace(objective_=np.array([2.0, 1.0]))
    whole = SimpleNamespace(objective_=np.array([3.0, 1.0]), n_noise_=np.array([1, 2]))
    drawings = {found.name: found.alt for found in _convergence({"half": half, "whole": whole})}
    assert drawings == {
        "convergence_objective": "Lines of half, whole.",
        "convergence_n_noise": "Lines of whole.",
    }


def test_names_are_no_formulas_and_none_is_left_out():
    rows = [
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
    ax = figures.noise_levels(rows, "one_error", "fee_$5_$10")
    ax.figure.canvas.draw()
    assert len(ax.get_legend().get_texts()) == 3
    figures.time_quality(rows, "one_error").figure.canvas.draw()


def test_seconds_are_no_percentages():
    rows = [
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
    ax = figures.noise_levels(rows, "fit_seconds", "d")
    assert list(ax.lines[0].get_ydata()) == [2, 2]
    ax = figures.noise_levels(rows, "one_error", "d")
    assert list(ax.lines[0].get_ydata()) == [50, 50]
