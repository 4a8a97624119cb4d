"""Tables of ablations whose runs failed in part."""

import numpy as np
import pytest
from bench.bench_helpers import tiny

from schirn.datasets import Dataset
from schirn.reproduction import ablations


def test_sweeps_leave_out_runs_that_failed():
    at = {**ablations.CENTRE, "alpha": 1.0}
    rows = [
        {"dataset": "a", "params": dict(ablations.CENTRE), "metrics": {"average_precision": 0.5}},
        {"dataset": "a", "params": at, "metrics": {"average_precision": 0.75}},
        {"dataset": "a", "params": at, "metrics": {}},
        {"dataset": "b", "params": at, "metrics": {}},
        {"dataset": "c", "params": at, "metrics": {"average_precision": 0.6}},
    ]
    assert [[cell.text for cell in line] for line in ablations._swept(rows).body] == [
        ["a", "alpha", "50.0", "0.2", "75.0", "1", "25.0"],
        ["a", "beta", "50.0", "0.05", "50.0", "0.05", "0.0"],
        ["a", "lam", "50.0", "10", "50.0", "10", "0.0"],
        ["c", "alpha", "60.0", "1", "60.0", "1", "0.0"],
    ]


def test_authors_folds_with_runs_that_failed(tmp_path, monkeypatch):
    folds = [(np.arange(30), np.arange(30, 60)), (np.arange(30, 60), np.arange(30))]
    data = tiny()
    split = Dataset("mine", data.X, data.y_true, data.candidates, folds=folds)
    fields = {"fold": 0, "oracle": False}
    made = {
        "ridge(1)": fields | {"status": "done", "metrics": {"coverage": 0.5}},
        "Schirn": fields | {"status": "failed", "metrics": {}},
    }

    def run(*, methods, **_):
        return [row | {"method": name} for name, row in made.items() if name in methods]

    monkeypatch.setattr(ablations, "run", run)
    study = ablations.authors_folds(split, tmp_path)
    ridge, schirn = study.rows
    assert ridge["metrics"]["coverage_all_rows"] == pytest.approx(0.5)
    assert schirn["metrics"] == {}
    lines = {line[0].text: [cell.text for cell in line[1:]] for line in study.table.body}
    assert lines["ridge(1)"] == ["–", "–", "–", "50.0", "50.0"]
    assert lines["Schirn"] == ["–"] * 5
