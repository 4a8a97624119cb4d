"""Studies that sweep the parameters of Schirn, also when some runs fail."""

import numpy as np
import pytest

from schirn.datasets import Dataset, make_partial_multilabel
from schirn.lab.bench import run
from schirn.lab.reproduction import _sweeps


@pytest.fixture(scope="module")
def data():
    return make_partial_multilabel(n_samples=60, n_features=5, n_labels=4, r=1, random_state=0)


def cells(study):
    return [[cell.text for cell in line] for line in study.table.body]


def test_sweeps_leave_out_runs_that_failed():
    at = {**_sweeps.CENTRE, "alpha": 0.5}
    results = [
        {"dataset": "a", "params": dict(_sweeps.CENTRE), "metrics": {"average_precision": 0.5}},
        {"dataset": "a", "params": at, "metrics": {"average_precision": 0.75}},
        {"dataset": "a", "params": at, "metrics": {}},
        {"dataset": "b", "params": at, "metrics": {}},
        {"dataset": "c", "params": at, "metrics": {"average_precision": 0.6}},
    ]
    assert cells(_sweeps.sensitivity(results)) == [
        ["a", "α", "50.0", "0.8", "75.0", "0.5", "25.0", "25.0"],
        ["a", "β", "50.0", "0.05", "50.0", "0.05", "0.0", "0.0"],
        ["a", "λ", "50.0", "100", "50.0", "100", "0.0", "0.0"],
        ["c", "α", "60.0", "0.5", "60.0", "0.5", "0.0", "0.0"],
    ]
    curves = _sweeps.sensitivity_curves(results)
    assert curves["a", "alpha"] == {0.5: 75.0, 0.8: 50.0}
    assert ("b", "alpha") not in curves


def test_values_that_the_paper_does_not_search_have_a_range_of_their_own():
    results = [
        {"dataset": "a", "params": {**_sweeps.CENTRE, "alpha": value}, "metrics": {name: height}}
        for value, height in ((0.0, 0.1), (0.1, 0.4), (2.0, 0.5))
        for name in ("average_precision",)
    ]
    study = _sweeps.sensitivity(results)
    assert cells(study)[0] == ["a", "α", "10.0", "0", "50.0", "2", "40.0", "10.0"]
    assert study.table.notes[-1].endswith("searches: α 0.1 to 2, β 0.01 to 0.1, λ 0.1 to 1000.")


def test_one_parameter_varies_at_a_time(data, tmp_path, monkeypatch):
    monkeypatch.setattr(_sweeps, "VALUES", {"alpha": [0.8, 1.0], "beta": [0.05], "lam": [0.1]})
    results = run(**_sweeps.sensitivity_request([data], 2), output=tmp_path, jobs=0)
    for result in results:
        changed = [k for k, v in _sweeps.CENTRE.items() if result["params"][k] != v]
        assert len(changed) == (result["method"] != "centre")
    assert {result["params"]["lam"] for result in results} == {0.1, 100.0}
    assert len(results) == 2 * 3


def test_curves_are_drawn_for_every_data_set():
    pytest.importorskip("matplotlib")
    curves = {("a", "alpha"): {0.0: 30.0, 0.8: 50.0}, ("b", "lam"): {1.0: 40.0, 100.0: 45.0}}
    figure = _sweeps.sensitivity_figure(curves)
    panels = figure.axes
    assert [panel.get_xlabel() for panel in panels] == ["α", "β", "λ"]
    assert list(panels[0].lines[0].get_ydata()) == [30.0, 50.0]
    # The values of alpha are at their places in the sweep.
    assert list(panels[0].lines[0].get_xdata()) == [0, 4]
    assert list(panels[2].lines[1].get_ydata()) == [40.0, 45.0]


def test_authors_folds_with_runs_that_failed(data):
    folds = [(np.arange(30), np.arange(30, 60)), (np.arange(30, 60), np.arange(30))]
    truth = data.y_true.copy()
    truth[:, 0] = 1
    split = Dataset("mine", data.X, truth, np.maximum(truth, data.candidates), folds=folds)
    fields = {"fold": 0, "oracle": False}
    made = [
        fields | {"method": "ridge(1)", "status": "done", "metrics": {"coverage": 0.5}},
        fields | {"method": "Schirn", "status": "failed", "metrics": {}},
    ]
    study = _sweeps.authors_folds(made, split)
    ridge, schirn = study.records
    assert ridge["metrics"]["coverage_all_rows"] == pytest.approx(0.5)
    assert schirn["metrics"] == {}
    lines = {line[0]: line[1:] for line in cells(study)}
    assert lines["ridge(1)"] == ["–", "–", "–", "50.0", "50.0"]
    assert lines["Schirn"] == ["–"] * 5
    assert lines["Schirn, published"][0] == "61.8 ± 0.6"


def test_authors_folds_compares_ridge_and_the_best_of_the_grid(data, tmp_path, monkeypatch):
    rows = np.arange(60)
    folds = [(rows[rows % 2 == k], rows[rows % 2 != k]) for k in (0, 1)]
    split = Dataset("mine", data.X, data.y_true, data.candidates, folds=folds)
    results = []
    for request in _sweeps.authors_request(split):
        grids = {name: {"alpha": [0.5, 0.8]} for name in request.get("grids", {})}
        results += run(**request | ({"grids": grids} if grids else {}), output=tmp_path, jobs=0)
    study = _sweeps.authors_folds(results, split)
    assert {result["split"] for result in study.records} == {"stored"}
    assert {r["method"] for r in study.records if r["oracle"]} == {"Schirn", "no high rank"}
    assert cells(study)[2][0] == "Schirn †"


def test_coverage_with_empty_rows_counted():
    assert _sweeps.coverage_of_all_rows(0.3, 0.5, 10) == pytest.approx((0.5 * 4 - 1) / 10)
