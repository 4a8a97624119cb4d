"""Methods of the user: parameters, checksums and imports."""

import sys

import numpy as np
from lab.bench.bench_helpers import tiny

from schirn.lab.bench import run
from schirn.lab.bench.running._methods import importable_here, make_methods


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
    results = run([data], [Anything], output=tmp_path, **options)
    assert [result["status"] for result in results] == ["done", "done"]
    scores = np.load(tmp_path / results[0]["scores"])["scores"]
    assert (scores != scores[:1]).any()
    assert results[0]["params"] == {"slope": 0.25}


def test_a_class_without_a_file_has_no_checksum():
    made = type("Typed", (Anything,), {"__module__": "nowhere"})
    (method,) = make_methods({"typed": made}, {}, {})
    (own,) = make_methods({"filed": Anything}, {}, {})
    assert method.code == ""
    assert len(own.code) == 64


def test_the_current_folder_is_importable_for_a_while(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    before = list(sys.path)
    with importable_here():
        assert sys.path == [str(tmp_path), *before]
    assert sys.path == before
    with importable_here():
        # A module of the user may already have removed it.
        sys.path.remove(str(tmp_path))
    assert sys.path == before
