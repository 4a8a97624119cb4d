"""Every example of the gallery runs, in a reduced form, and draws something."""

import sys
import types
import warnings
from pathlib import Path

import pytest

matplotlib = pytest.importorskip("matplotlib", reason="the examples draw figures")
pytest.importorskip("pandas", reason="some examples show tables")

FOLDER = Path(__file__).parents[1] / "examples"
EXAMPLES = sorted(FOLDER.glob("plot_*.py"))


def run_as_script(path, monkeypatch):
    """Run a file as `python path` would: classes defined in it belong to `__main__`."""
    main = types.ModuleType("__main__")
    main.__file__ = str(path)
    monkeypatch.setitem(sys.modules, "__main__", main)
    exec(compile(path.read_text("utf-8"), str(path), "exec"), main.__dict__)
    return main


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_example_runs(path, monkeypatch, tmp_path, capsys):
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    monkeypatch.setenv("SCHIRN_EXAMPLE_QUICK", "1")
    monkeypatch.chdir(tmp_path)
    plt.close("all")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run_as_script(path, monkeypatch)
        figures = [plt.figure(number) for number in plt.get_fignums()]
        assert figures
        for figure in figures:
            figure.canvas.draw()
            assert all(axes.has_data() for axes in figure.axes)
    plt.close("all")
    assert capsys.readouterr().out.strip()
    assert not list(tmp_path.iterdir())


def test_there_are_enough_examples():
    assert len(EXAMPLES) >= 10


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_example_opens_with_a_title_and_can_be_reduced(path):
    text = path.read_text("utf-8")
    lines = text.splitlines()
    assert set(lines[1]) == {"="}
    assert len(lines[1]) >= len(lines[0].strip('"'))
    assert "SCHIRN_EXAMPLE_QUICK" in text
