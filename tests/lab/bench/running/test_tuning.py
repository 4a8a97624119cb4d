"""How a benchmark chooses parameters, and which methods may see the truth."""

import numpy as np
import pytest
from lab.bench.bench_helpers import quick, tiny

from schirn.datasets import Dataset, add_noise, make_partial_multilabel
from schirn.estimators import OracleRidge, methods
from schirn.lab.bench import GRIDS, default_grid
from schirn.lab.bench.running._execute import load_data
from schirn.lab.bench.running._methods import make_methods
from schirn.lab.bench.running._plan import plan_runs
from schirn.metrics import average_precision
from schirn.model_selection import CandidateSearchCV


def test_tuning_on_candidates_does_not_see_the_truth(tmp_path):
    data = tiny()
    lies = Dataset("synthetic", data.X, 1 - data.y_true, data.candidates)
    grids = {"CandidateRidge": {"lam": [0.01, 1.0, 100.0, 1e4]}}
    honest = quick([data], ["CandidateRidge"], tmp_path / "a", tuning="candidates", grids=grids)
    fooled = quick([lies], ["CandidateRidge"], tmp_path / "b", tuning="candidates", grids=grids)
    assert [result["params"] for result in honest] == [result["params"] for result in fooled]
    assert not any(result["oracle"] for result in honest)
    assert honest[0]["grid"] == grids["CandidateRidge"]


def test_candidate_tuning_is_the_search_of_the_library(tmp_path):
    data = tiny(120)
    (result, _) = quick([data], ["GLC"], tmp_path, tuning="candidates")
    prepared = load_data(plan_runs([data], ["GLC"], folds=2)[0])
    train, _ = prepared.splits[0]
    search = CandidateSearchCV(methods()["GLC"](), default_grid("GLC"), cv=3, random_state=0)
    search.fit(data.X[train], data.candidates[train])
    assert result["params"] == search.best_params_


def test_oracle_tuning_takes_the_best_on_the_test_rows_and_says_so(tmp_path):
    data = tiny()
    lams = [0.01, 1.0, 100.0, 1e4]
    grids = {"CandidateRidge": {"lam": lams}}
    results = quick([data], ["CandidateRidge"], tmp_path, tuning="oracle", grids=grids)
    each = {
        lam: quick([data], ["CandidateRidge"], tmp_path, params={"CandidateRidge": {"lam": lam}})
        for lam in lams
    }
    for result in results:
        values = [each[lam][result["fold"]]["metrics"]["average_precision"] for lam in lams]
        assert result["metrics"]["average_precision"] == pytest.approx(max(values))
        assert result["oracle"]
        assert result["tuning"] == "oracle"


def test_a_method_without_grid_is_not_called_an_oracle(tmp_path):
    (result, _) = quick([tiny()], ["Sieve"], tmp_path, tuning="oracle")
    assert result["status"] == "done"
    assert not result["oracle"]
    assert result["grid"] is None


def test_the_oracle_ridge_learns_from_the_truth(tmp_path):
    results = quick([(tiny(200), 3)], ["CandidateRidge", "OracleRidge"], tmp_path)
    assert [result["sees_truth"] for result in results] == [False, False, True, True]
    assert results[2]["metrics"]["noise_precision"] == 1.0
    assert results[2]["metrics"]["average_precision"] > results[0]["metrics"]["average_precision"]


def test_a_method_that_sees_the_truth_is_tuned_on_the_truth_of_training_rows(tmp_path):
    data = make_partial_multilabel(n_samples=90, n_labels=8, cardinality=2, random_state=0)
    candidates = add_noise(data.y_true, 5, random_state=0)
    noisy = Dataset("noisy", data.X, data.y_true, candidates)
    names = ["CandidateRidge", "OracleRidge"]
    grids = {name: {"lam": [0.1, 1.0, 10.0, 100.0, 1000.0]} for name in names}
    results = quick([noisy], names, tmp_path, tuning="candidates", folds=3, grids=grids)
    runs = plan_runs([noisy], ["OracleRidge"], folds=3)
    trusting, oracle = results[:3], results[3:]
    for result, run in zip(oracle, runs, strict=True):
        train, test = load_data(run).splits[result["fold"]]
        search = CandidateSearchCV(OracleRidge(), result["grid"], cv=3, oracle=True, random_state=0)
        search.fit(data.X[train], candidates[train], y_clean=data.y_true[train])
        assert result["params"] == search.best_params_
        scores = search.decision_function(data.X[test])
        expected = average_precision(data.y_true[test], scores)
        assert result["metrics"]["average_precision"] == pytest.approx(expected)
        assert not result["oracle"]
    assert [result["params"] for result in oracle] != [result["params"] for result in trusting]


def test_the_upper_reference_does_not_depend_on_the_noise(tmp_path):
    data = tiny(120)
    results = quick([(data, 1), (data, 3)], ["OracleRidge"], tmp_path, tuning="candidates")
    few, many = (
        [r["metrics"]["average_precision"] for r in results if r["r"] == k] for k in (1, 3)
    )
    assert few == many


def test_fixed_parameters_are_not_searched(tmp_path):
    params = {"GLC": {"eta": 3.0, "beta": 0.0}}
    (result, _) = quick([tiny()], ["GLC"], tmp_path, params=params, tuning="candidates")
    assert result["grid"] == {"alpha": GRIDS["GLC"]["alpha"]}
    assert {name: result["params"][name] for name in ("eta", "beta")} == params["GLC"]


def test_every_grid_fits_its_method_and_every_method_has_one():
    for name, cls in methods().items():
        grid = default_grid(name)
        assert (grid is None) == (name == "Sieve")
        if grid:
            (method,) = make_methods([name], {}, {})
            size = int(np.prod([len(values) for values in grid.values()]))
            # A search inside `fit` solves its points side by side.
            assert size <= (140 if method.tunes_itself else 20)
            assert set(grid) <= set(cls().get_params())
