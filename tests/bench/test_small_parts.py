"""Small functions of the benchmark: memory, stored scores, cells of tables, checks."""

import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from bench.bench_helpers import tiny

from schirn.bench import overview, run
from schirn.bench._memory import peak_memory
from schirn.bench._methods import importable_here, make_methods
from schirn.bench._render import Cell, Table
from schirn.bench._scores import read_arrays
from schirn.exceptions import DataError, InputError
from schirn.reproduction.run import _complete
from schirn.reproduction.study import show, spread


def test_peak_memory_of_this_process():
    assert peak_memory() > 10


def test_peak_memory_where_linux_does_not_tell(monkeypatch):
    def absent(self, *args, **options):
        raise FileNotFoundError(self)

    resource = pytest.importorskip("resource", reason="Windows counts no resources")
    usage = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    monkeypatch.setattr(Path, "read_text", absent)
    assert peak_memory() >= round(usage * (1 if sys.platform == "darwin" else 1024) / 2**20, 1)
    monkeypatch.setattr(sys, "platform", "darwin")
    assert peak_memory() < usage / 2**19
    monkeypatch.setitem(sys.modules, "resource", None)
    assert peak_memory() is None


def test_scores_that_are_not_there(tmp_path):
    with pytest.raises(DataError, match="the scores of this cell are not there"):
        read_arrays(tmp_path / "none.npz")


@pytest.mark.parametrize(
    "arrays",
    [
        {"scores": np.zeros((2, 3))},
        {"scores": np.zeros(3), "truth": np.zeros(3), "candidate_truth": np.zeros(3)},
        {
            "scores": np.zeros((2, 3), dtype=int),
            "truth": np.zeros((2, 1), np.uint8),
            "candidate_truth": np.zeros(4, np.uint8),
        },
    ],
)
def test_files_that_are_no_scores(tmp_path, arrays):
    path = tmp_path / "x.npz"
    np.savez(path, **arrays)
    with pytest.raises(DataError, match="not the scores of a cell; delete the file"):
        read_arrays(path)


def test_cells_of_a_table():
    assert show(None).text == "–"
    assert (show(True).text, show(False).text) == ("yes", "no")
    assert show(0.256, 2).text == "0.26"
    assert show(3).text == "3"
    assert show("word").text == "word"
    assert spread([]) == "–"
    assert spread([0.5, 0.5]).startswith("50.0")


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"jobs": -1}, "jobs must be at least 0"),
        ({"threads": 0}, "threads at least 1"),
        ({"time_limit": 0}, "time_limit must be more than 0 seconds, not 0"),
    ],
)
def test_numbers_that_make_no_sense(tmp_path, options, sentence):
    with pytest.raises(InputError, match=sentence):
        run("digits_attributes", ["CandidateRidge"], output=tmp_path, **options)


def test_peak_memory_where_the_status_has_no_peak(monkeypatch):
    pytest.importorskip("resource", reason="Windows counts no resources")
    monkeypatch.setattr(Path, "read_text", lambda self: "Name:\tpython\nVmRSS:\t1 kB\n")
    assert peak_memory() > 10


def test_the_overview_of_nothing():
    assert overview([]) == "no cell was run"


def test_a_table_without_notes_has_no_empty_lines_below_it():
    table = Table("t", "Title", ["data", "value"], [[Cell("a"), Cell("1")]])
    text = table.render("latex")
    assert "footnotesize" not in text
    assert text.endswith("\\end{tabular}\n\\end{table}\n")
    noted = Table("t", "Title", ["data", "value"], [[Cell("a"), Cell("1")]], ["A note."])
    assert "\\footnotesize\nA note.\n\\end{table}" in noted.render("latex")


class Anything:
    """Takes every parameter, and scores by probabilities only."""

    def __init__(self, **params):
        self.params = params

    def fit(self, X, y):
        self.mean_ = y.mean(axis=0)
        return self

    def predict_proba(self, X):
        return self.mean_ * (1 + self.params["slope"] * X[:, :1])


def test_a_class_may_take_any_parameter_and_give_probabilities_only(tmp_path):
    data = tiny()
    params = {"Anything": {"slope": 0.25}}
    options = {"folds": 2, "tuning": "none", "jobs": 0, "params": params}
    rows = run([data], [Anything], output=tmp_path, **options)
    assert [row["status"] for row in rows] == ["done", "done"]
    arrays = read_arrays(tmp_path / rows[0]["scores"])
    assert (arrays["scores"] != arrays["scores"][:1]).any()
    assert rows[0]["params"] == {"slope": 0.25}


def test_a_class_without_a_file_has_no_checksum():
    made = type("Typed", (Anything,), {"__module__": "nowhere"})
    (method,) = make_methods({"typed": made}, {}, {})
    (own,) = make_methods({"filed": Anything}, {}, {})
    assert method.source == ""
    assert len(own.source) == 16


def test_the_current_folder_is_importable_for_a_while(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    before = list(sys.path)
    with importable_here():
        assert sys.path == [str(tmp_path), *before]
    assert sys.path == before
    with importable_here():
        # A module of the user may put things right itself.
        sys.path.remove(str(tmp_path))
    assert sys.path == before


def cell(key, method, r=None):
    return SimpleNamespace(key=key, row={"method": method, "dataset": "birds", "r": r})


def test_a_method_counts_in_a_setting_only_with_all_folds():
    cells = [cell("a", "NLR", 3), cell("b", "NLR", 3), cell("c", "NLR"), cell("d", "GLC")]
    rows = [{"key": "a"}, {"key": "c"}]
    kept, missing = _complete(rows, cells)
    assert kept == [{"key": "c"}]
    assert missing == {"GLC": ["birds"], "NLR": ["birds r=3"]}
    assert _complete(rows[1:], cells[2:3]) == (rows[1:], {})
