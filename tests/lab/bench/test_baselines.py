"""The baselines of the benchmark: ordinary classifiers that take the candidates as true."""

import sys

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import KFold
from sklearn.multiclass import OneVsRestClassifier
from sklearn.preprocessing import StandardScaler

import schirn
from schirn.datasets import make_partial_multilabel
from schirn.exceptions import MissingExtraError
from schirn.lab import bench
from schirn.lab.bench import CleanlabBaseline, LogisticBaseline, tables
from schirn.lab.bench._baselines import BASELINES
from schirn.metrics import noise_report
from schirn.testing import check_method


@pytest.fixture(scope="module")
def data():
    return make_partial_multilabel(n_samples=150, n_features=6, n_labels=4, r=1, random_state=0)


def test_logistic_regression_is_that_of_scikit_learn(data):
    X = StandardScaler().fit_transform(data.X)
    plain = OneVsRestClassifier(LogisticRegression(C=0.5, tol=1e-6)).fit(X, data.candidates)
    model = LogisticBaseline(C=0.5).fit(data.X, data.candidates)
    np.testing.assert_allclose(
        model.decision_function(data.X), plain.decision_function(X), atol=1e-4
    )
    np.testing.assert_allclose(model.predict_proba(data.X), plain.predict_proba(X), atol=1e-4)
    np.testing.assert_array_equal(model.predict(data.X), plain.predict(X))


def test_training_rows_are_judged_out_of_fold(data):
    model = LogisticBaseline(scale="none", folds=3).fit(data.X, data.candidates)
    train, test = next(KFold(3, shuffle=True, random_state=0).split(data.X))
    other = LogisticBaseline(scale="none").fit(data.X[train], data.candidates[train])
    expected = other.predict_proba(data.X[test]) * data.candidates[test]
    np.testing.assert_allclose(model.label_confidence_[test], expected, atol=1e-6)
    listed = data.candidates[test] == 1
    np.testing.assert_array_equal(model.noise_[test], listed & (expected < 0.5))


@pytest.mark.filterwarnings("ignore::schirn.exceptions.EmptyCandidatesWarning")
def test_cleanlab_takes_out_labels_and_trains_on_the_rest(data):
    pytest.importorskip("cleanlab", reason="cleanlab is not installed")
    model = CleanlabBaseline().fit(data.X, data.candidates)
    assert model.noise_.any()
    assert not (model.noise_ & (data.candidates == 0)).any()
    rest = np.where(model.noise_, 0, data.candidates)
    again = LogisticBaseline().fit(data.X, rest)
    np.testing.assert_allclose(model.coef_, again.coef_, atol=1e-6)
    found = noise_report(data.y_true, data.candidates, model.noise_, model.label_confidence_)
    share = (data.candidates > data.y_true).sum() / data.candidates.sum()
    assert found["precision"] > share + 0.2


def test_a_missing_package_is_named_and_skipped_by_a_benchmark(data, monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "cleanlab", None)
    monkeypatch.setitem(sys.modules, "cleanlab.filter", None)
    with pytest.raises(MissingExtraError, match='pip install "cleanlab>='):
        CleanlabBaseline().fit(data.X, data.candidates)
    (result, *_) = bench.run(
        [(data, 1)], ["CleanlabBaseline"], output=tmp_path, folds=2, jobs=0, tuning="none"
    )
    assert result["status"] == "skipped"


@pytest.mark.parametrize("cls", [LogisticBaseline, CleanlabBaseline])
def test_linear_baselines_keep_the_contract(cls):
    if cls is CleanlabBaseline:
        pytest.importorskip("cleanlab", reason="cleanlab is not installed")
    check_method(cls, folds=2)


def test_baselines_are_named_tuned_and_marked(data, tmp_path):
    results = bench.run(
        [(data, 1)],
        ["logistic-baseline", "CandidateRidge"],
        output=tmp_path,
        folds=2,
        inner_folds=2,
        jobs=0,
        grids={"LogisticBaseline": {"C": [0.1, 10.0]}},
    )
    assert all(result["status"] == "done" for result in results)
    own = [result for result in results if result["method"] == "LogisticBaseline"]
    assert {result["params"]["C"] for result in own} <= {0.1, 10.0}
    assert own[0]["metrics"]["noise_auc"] is not None
    shown = str(tables.results(results, "average_precision"))
    assert "LogisticBaseline§" in shown
    assert "CandidateRidge§" not in shown
    assert "§ baseline: an ordinary classifier of the candidates." in shown


def test_baselines_are_no_methods_of_the_library():
    assert not set(BASELINES) & set(schirn.methods())
    for name in BASELINES:
        assert bench.default_grid(name)
