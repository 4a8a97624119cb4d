"""The preprocessing of the release, step by step, and the study of it."""

import numpy as np
import pytest
from reference.bench_results import lost, make_result
from scipy.sparse import csr_array

from schirn.datasets import make_partial_multilabel
from schirn.lab.bench import run
from schirn.lab.reproduction._experiments import FULL
from schirn.lab.reproduction._findings import findings
from schirn.lab.reproduction._preprocessing import (
    METHODS,
    THRESHOLDS,
    preprocess,
    preprocessing,
    preprocessing_request,
)


def cells(study):
    return [[cell.text for cell in line] for line in study.table.body]


@pytest.mark.parametrize("threshold", [0.0, 0.5, 1.5])
def test_equals_its_steps_entry_by_entry(threshold):
    X = np.random.default_rng(0).normal(3, 5, (30, 4))
    deviations = (X - X.mean(axis=0)) / np.std(X, axis=0, ddof=1)
    large = [value for value in deviations.ravel() if abs(value) >= threshold]
    expected = np.zeros_like(X)
    for i, j in np.ndindex(X.shape):
        if abs(deviations[i, j]) >= threshold:
            expected[i, j] = (deviations[i, j] - min(large)) / (max(large) - min(large))
    np.testing.assert_allclose(preprocess(X, threshold), expected, atol=1e-12)
    np.testing.assert_allclose(preprocess(csr_array(X), threshold), expected, atol=1e-12)


def test_constant_columns_and_thresholds_above_all_entries_give_zeros():
    X = np.column_stack([np.full(5, 0.1), np.arange(5.0)])
    assert (preprocess(X, 0.5)[:, 0] == 0).all()
    assert (preprocess(X, 9.0) == 0).all()
    assert preprocess([[0.0], [1.0], [0.0], [0.0]], 1.0).tolist() == [[0.0], [1.0], [0.0], [0.0]]


def test_all_thresholds_have_the_candidates_and_folds_of_the_tables(tmp_path):
    data = make_partial_multilabel(n_samples=60, n_features=5, n_labels=4, r=1, random_state=0)
    request = preprocessing_request([(data, 1)], 2)
    results = run(**request, output=tmp_path / "studied", jobs=0)
    assert len(results) == len(THRESHOLDS) * len(METHODS) * 2
    plain = run([(data, 1)], ["CandidateRidge"], folds=2, output=tmp_path / "rows", jobs=0)
    for name in ("candidates_sha256", "folds_sha256"):
        assert {result[name] for result in results} == {result[name] for result in plain}
    study = preprocessing(results, plain)
    lines = cells(study)
    assert [line[2] for line in lines] == ["none", "0", "0.5", "1", "2"]
    assert lines[0][3] == "–", "the tables were run without Schirn"
    assert all("±" in text for line in lines[1:] for text in line[3:])


def made():
    names = [f"scene, threshold {threshold:g}" for threshold in THRESHOLDS]
    results = [
        make_result(name, 1, method, fold, average_precision=base - k / 10)
        for k, name in enumerate(names)
        for method, base in (("Schirn", 0.8), ("CandidateRidge", 0.7))
        for fold in range(2)
    ]
    rows = [
        make_result("scene", 1, "Schirn", 0, average_precision=0.85),
        make_result("scene", 2, "Schirn", 0, average_precision=0.1),
        make_result("scene", 1, "NLR", 0, average_precision=0.2),
    ]
    return results, rows


def test_the_finding_compares_the_thresholds_with_the_tables():
    results, rows = made()
    study = preprocessing([*results, lost("scene, threshold 2", 1, "Schirn", 3)], rows)
    (sentence,) = findings([], {"preprocessing": study})
    assert "at thresholds from 0 to 2:" in sentence
    assert sentence.endswith(": scene r=1, Schirn 50.0 to 80.0 (without: 85.0).")
    assert findings([], {"preprocessing": preprocessing(results, [])}) == []


def test_only_data_sets_of_the_paper_are_preprocessed():
    assert FULL.preprocessed == ("scene:1", "birds:7")
    assert FULL.with_sets(("mine:1",)).preprocessed == ()
