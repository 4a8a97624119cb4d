"""Studies that run the benchmark, also when some runs fail."""

import numpy as np
import pytest
from lab.bench.bench_helpers import tiny

from schirn.datasets import Dataset, make_partial_multilabel
from schirn.lab.bench import run
from schirn.lab.reproduction import ablations


@pytest.fixture(scope="module")
def data():
    return make_partial_multilabel(n_samples=60, n_features=5, n_labels=4, r=1, random_state=0)


def test_authors_folds_with_runs_that_failed():
    folds = [(np.arange(30), np.arange(30, 60)), (np.arange(30, 60), np.arange(30))]
    data = tiny()
    split = Dataset("mine", data.X, data.y_true, data.candidates, folds=folds)
    fields = {"fold": 0, "oracle": False}
    made = [
        fields | {"method": "ridge(1)", "status": "done", "metrics": {"coverage": 0.5}},
        fields | {"method": "Schirn", "status": "failed", "metrics": {}},
    ]
    study = ablations.authors_folds(made, split)
    ridge, schirn = study.records
    assert ridge["metrics"]["coverage_all_rows"] == pytest.approx(0.5)
    assert schirn["metrics"] == {}
    lines = {line[0].text: [cell.text for cell in line[1:]] for line in study.table.body}
    assert lines["ridge(1)"] == ["–", "–", "–", "50.0", "50.0"]
    assert lines["Schirn"] == ["–"] * 5


def test_ablation_runs_every_variant_once(data, tmp_path):
    results = run(**ablations.ablation_request([data], 2), output=tmp_path, jobs=0)
    study = ablations.ablation(results)
    assert len(study.records) == 2 * len(ablations.VARIANTS)
    assert all(result["status"] == "done" for result in study.records)
    params = {result["method"]: result["params"] for result in study.records}
    assert params["low rank"]["rank_term"] == "low"
    assert params["no sparsity, printed rule"]["noise_rule"] == "printed"


def test_cooccurrence_ties_labels(data, tmp_path):
    tied, level = ablations.tie(data)
    columns = np.asarray(tied.y_true).T
    assert len(np.unique(columns, axis=0)) == 3
    assert (tied.candidates.sum(axis=1) - tied.y_true.sum(axis=1) <= level).all()
    results = run(**ablations.cooccurrence_request([tied], 2), output=tmp_path, jobs=0)
    study = ablations.cooccurrence(results, [data])
    assert {result["method"] for result in study.records} >= {"high rank", "low rank", "NLR"}
    assert any("after tying" in note for note in study.table.notes)


def test_authors_folds_compares_ridge_and_the_best_of_the_grid(data, tmp_path):
    rows = np.arange(60)
    folds = [(rows[rows % 2 == k], rows[rows % 2 != k]) for k in (0, 1)]
    split = Dataset("mine", data.X, data.y_true, data.candidates, folds=folds)
    results = []
    for request in ablations.authors_folds_requests(split):
        results += run(**request, output=tmp_path, jobs=0)
    study = ablations.authors_folds(results, split)
    assert {result["split"] for result in study.records} == {"stored"}
    assert {result["method"] for result in study.records if result["oracle"]} == {
        "Schirn",
        "no high rank",
    }
    first = study.records[0]["metrics"]
    # Every result has a true label here, so the two rules agree.
    assert first["coverage_all_rows"] == pytest.approx(first["coverage"])
    assert study.table.body[1][1].text == "53.9 ± 4.9"


def test_coverage_with_empty_rows_counted():
    assert ablations.coverage_of_all_rows(0.3, 0.5, 10) == pytest.approx((0.5 * 4 - 1) / 10)
