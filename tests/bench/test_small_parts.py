"""Small functions of the benchmark: memory, stored scores, cells of tables, checks."""

import sys
from pathlib import Path

import numpy as np
import pytest

from schirn.bench import run
from schirn.bench._memory import peak_memory
from schirn.bench._scores import read_arrays
from schirn.bench._study import show, spread
from schirn.exceptions import DataError, InputError


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
