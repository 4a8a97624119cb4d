"""Studies that run the benchmark, also when some runs fail."""

import numpy as np
import pytest

from schirn.datasets import make_partial_multilabel
from schirn.lab.bench import run
from schirn.lab.reproduction import _ablations as ablations


@pytest.fixture(scope="module")
def data():
    return make_partial_multilabel(n_samples=60, n_features=5, n_labels=4, r=1, random_state=0)


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
