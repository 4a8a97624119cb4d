"""Searches on candidates: honest, fast, and in scikit-learn's shape."""

import functools

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GroupKFold, KFold, ParameterGrid
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import schirn
from schirn import lab
from schirn.exceptions import InputError
from schirn.lab.rivals import _paks as paks_module
from schirn.linalg.row_space import RowSpace
from schirn.metrics import average_precision, hamming_loss
from schirn.model_selection import CandidateSearchCV

GRID = {"lam": [0.01, 1.0, 100.0]}


def by_hand(model, grid, data, labels, splits):
    """Mean held-out average precision of every setting, by plain fits."""
    means = []
    for setting in ParameterGrid(grid):
        scores = []
        for train, test in splits:
            fitted = clone(model).set_params(**setting).fit(data.X[train], data.candidates[train])
            scores.append(average_precision(labels[test], fitted.decision_function(data.X[test])))
        means.append(np.mean(scores))
    return means


@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("cls", [schirn.Schirn, lab.NLR, schirn.CandidateRidge])
def test_scores_are_those_of_plain_fits_on_held_out_candidates(cls, fit_intercept, small):
    splits = list(KFold(3, shuffle=True, random_state=1).split(small.X))
    model = cls(fit_intercept=fit_intercept)
    search = CandidateSearchCV(model, GRID, cv=splits).fit(small.X, small.candidates)
    expected = by_hand(model, GRID, small, small.candidates, splits)
    np.testing.assert_allclose(search.cv_results_["mean_test_score"], expected, atol=1e-9)
    assert search.best_params_ == {"lam": GRID["lam"][int(np.argmax(expected))]}


def test_each_fold_is_factored_once(small, monkeypatch):
    calls, plain = [], RowSpace.__init__
    counted = functools.wraps(plain)(lambda *a, **k: calls.append(1) or plain(*a, **k))
    monkeypatch.setattr(RowSpace, "__init__", counted)
    grid = {"alpha": [0.1, 0.5], "lam": [1.0, 10.0], "beta": [0.0, 0.1]}
    search = CandidateSearchCV(schirn.Schirn(max_iter=3), grid, cv=4, refit=False)
    search.fit(small.X, small.candidates)
    assert len(calls) == 4


def test_paks_solves_its_first_stage_once_per_scale(small, monkeypatch):
    splits = list(KFold(2, shuffle=True, random_state=1).split(small.X))
    grid = {"scale": ["standard", "none"], "eta": [1.0, 30.0, 1000.0]}
    model = lab.PAKS(max_iter=5)
    expected = by_hand(model, grid, small, small.candidates, splits)
    calls, plain = [], paks_module.paks
    counted = functools.wraps(plain)(lambda *a, **k: calls.append(1) or plain(*a, **k))
    monkeypatch.setattr(paks_module, "paks", counted)
    search = CandidateSearchCV(model, grid, cv=splits, refit=False)
    search.fit(small.X, small.candidates)
    np.testing.assert_allclose(search.cv_results_["mean_test_score"], expected, atol=1e-9)
    assert len(calls) == 4


def test_the_intercept_may_be_searched(small):
    grid = {"fit_intercept": [True, False], "lam": [1.0]}
    search = CandidateSearchCV(schirn.CandidateRidge(), grid).fit(small.X, small.candidates)
    assert len(search.cv_results_["params"]) == 2
    assert len(set(search.cv_results_["mean_test_score"])) == 2


def test_any_classifier_with_scores_can_be_searched(small):
    model = OneVsRestClassifier(LogisticRegression())
    search = CandidateSearchCV(model, {"estimator__C": [0.1, 1.0]}, cv=2)
    search.fit(small.X, small.candidates)
    assert search.predict(small.X).shape == small.candidates.shape


def test_truth_is_refused_unless_the_search_is_called_oracle(small):
    with pytest.raises(InputError, match="oracle=True"):
        CandidateSearchCV(schirn.CandidateRidge(), GRID).fit(
            small.X, small.candidates, y_clean=small.y_true
        )
    with pytest.raises(InputError, match="y_clean"):
        CandidateSearchCV(schirn.CandidateRidge(), GRID, oracle=True).fit(small.X, small.candidates)


def test_oracle_scores_on_truth_and_says_so(small):
    splits = list(KFold(3, shuffle=True, random_state=1).split(small.X))
    search = CandidateSearchCV(schirn.CandidateRidge(), GRID, cv=splits, oracle=True)
    search.fit(small.X, small.candidates, y_clean=small.y_true)
    expected = by_hand(schirn.CandidateRidge(), GRID, small, small.y_true, splits)
    np.testing.assert_allclose(search.cv_results_["mean_test_score"], expected, atol=1e-9)
    assert search.tuned_on_ == "truth (oracle)"
    assert set(search.cv_results_["tuned_on"]) == {"truth (oracle)"}
    assert "oracle=True" in repr(search)


def test_the_oracle_ridge_is_trained_on_truth(small):
    search = CandidateSearchCV(schirn.OracleRidge(), GRID, oracle=True)
    search.fit(small.X, small.candidates, y_clean=small.y_true)
    wrong = (small.candidates == 1) & (small.y_true == 0)
    np.testing.assert_array_equal(search.noise_, wrong)
    shared = search.cv_results_["mean_test_score"]
    trusting = CandidateSearchCV(schirn.CandidateRidge(), GRID, oracle=True)
    trusting.fit(small.X, small.candidates, y_clean=small.y_true)
    assert shared.max() > trusting.best_score_


def test_folds_without_a_label_do_not_crash(small):
    Y = small.candidates.copy()
    Y[:, 0] = 0
    Y[:3, 0] = 1
    splits = list(KFold(5).split(small.X))
    search = CandidateSearchCV(schirn.Schirn(max_iter=5), GRID, cv=splits).fit(small.X, Y)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()


def test_a_fold_that_cannot_be_scored_is_left_out(small):
    Y = small.candidates.copy()
    Y[:40] = 1
    splits = list(KFold(5).split(small.X))
    search = CandidateSearchCV(schirn.CandidateRidge(), GRID, cv=splits).fit(small.X, Y)
    assert np.isnan(search.cv_results_["split0_test_score"]).all()
    assert np.isfinite(search.best_score_)


def test_nothing_to_score_is_one_sentence(small):
    Y = np.ones_like(small.candidates)
    with pytest.raises(InputError, match="no parameter setting could be scored"):
        CandidateSearchCV(schirn.CandidateRidge(), GRID).fit(small.X, Y)


def test_containers_groups_jobs_and_scorings(small):
    groups = np.arange(len(small.X)) // 10
    plain = CandidateSearchCV(schirn.CandidateRidge(), GRID, cv=GroupKFold(4))
    plain.fit(small.X, small.candidates, groups=groups)
    sparse = clone(plain).set_params(n_jobs=2)
    sparse.fit(sp.csr_matrix(small.X), sp.csr_array(small.candidates), groups=groups)
    np.testing.assert_allclose(
        sparse.cv_results_["mean_test_score"], plain.cv_results_["mean_test_score"]
    )
    losses = clone(plain).set_params(scoring="ranking_loss", cv=3)
    losses.fit(small.X, small.candidates)
    assert losses.best_score_ <= 0
    with pytest.raises(InputError, match="'accuracy'"):
        CandidateSearchCV(schirn.CandidateRidge(), GRID, scoring="accuracy").fit(
            small.X, small.candidates
        )


def test_results_have_scikit_learns_layout(small):
    grid = [{"lam": [1.0, 10.0]}, {"lam": [1.0], "alpha": [0.1]}]
    search = CandidateSearchCV(schirn.Schirn(max_iter=3), grid, cv=2)
    search.fit(small.X, small.candidates)
    results = search.cv_results_
    assert results["param_alpha"].mask.tolist() == [True, True, False]
    assert sorted(results["rank_test_score"])[0] == 1
    assert {"split0_test_score", "std_test_score", "mean_fit_time"} <= set(results)
    assert search.best_estimator_.get_params()["lam"] == search.best_params_["lam"]
    assert search.score(small.X, small.candidates) > 0.5
    assert search.disambiguate(small.X, small.candidates).shape == small.candidates.shape


def test_bad_parameters_are_refused_before_the_search(small):
    with pytest.raises(InputError, match="lam must be a number of more than 0 or None, got -1"):
        CandidateSearchCV(schirn.Schirn(), {"lam": [-1]}).fit(small.X, small.candidates)


def test_without_refit_there_is_no_model(small):
    search = CandidateSearchCV(schirn.CandidateRidge(), GRID, refit=False)
    search.fit(small.X, small.candidates)
    with pytest.raises(AttributeError):
        search.predict(small.X)


def test_a_function_as_scoring_and_tables(small):
    """A function gets the labels and scores of the rows held out, as the metric does."""
    named = CandidateSearchCV(schirn.CandidateRidge(), GRID, cv=3).fit(small.X, small.candidates)
    own = CandidateSearchCV(schirn.CandidateRidge(), GRID, cv=3, scoring=average_precision)
    table = pd.DataFrame(small.X, columns=[f"x{j}" for j in range(small.X.shape[1])])
    own.fit(table, small.candidates)
    for key in ("mean_test_score", "split1_test_score"):
        np.testing.assert_allclose(own.cv_results_[key], named.cv_results_[key])
    assert list(own.best_estimator_.feature_names_in_) == list(table.columns)


def test_the_best_model_is_at_hand(small):
    search = CandidateSearchCV(schirn.CandidateRidge(), GRID, cv=2)
    search.fit(small.X, small.candidates)
    best = clone(search.best_estimator_).fit(small.X, small.candidates)
    np.testing.assert_allclose(search.predict_proba(small.X), best.predict_proba(small.X))
    np.testing.assert_allclose(search.label_confidence_, best.label_confidence_)
    np.testing.assert_array_equal(search.noise_, best.noise_)
    np.testing.assert_array_equal(search.classes_, np.arange(small.candidates.shape[1]))


def test_hamming_loss_is_that_of_the_predictions(small):
    splits = list(KFold(3, shuffle=True, random_state=0).split(small.X))
    grid = {"threshold": ["top-1", "top-3"]}
    for model in (schirn.Sieve(max_iter=2), schirn.CandidateRidge()):
        search = CandidateSearchCV(model, grid, scoring="hamming_loss", cv=splits)
        search.fit(small.X, small.candidates)
        expected = [
            -np.mean(
                [
                    hamming_loss(
                        small.candidates[test],
                        clone(model)
                        .set_params(threshold=rule)
                        .fit(small.X[train], small.candidates[train])
                        .predict(small.X[test]),
                    )
                    for train, test in splits
                ]
            )
            for rule in grid["threshold"]
        ]
        np.testing.assert_allclose(search.cv_results_["mean_test_score"], expected)
        assert expected[0] != expected[1]
        found = search.score(small.X, small.candidates)
        assert found == -hamming_loss(small.candidates, search.predict(small.X))


def test_transformers_with_the_same_text_are_told_apart(small):
    X = np.hstack([small.X] * 16)
    picks = [ColumnTransformer([("keep", "passthrough", list(range(k)))]) for k in (3, 60, 80)]
    assert repr(picks[1]) == repr(picks[2])
    search = CandidateSearchCV(schirn.Sieve(max_iter=1), {"features": picks}, cv=2, refit=False)
    together = search.fit(X, small.candidates).cv_results_["mean_test_score"]
    alone = [
        CandidateSearchCV(schirn.Sieve(max_iter=1), {"features": [pick]}, cv=2, refit=False)
        .fit(X, small.candidates)
        .best_score_
        for pick in picks
    ]
    np.testing.assert_allclose(together, alone)
    assert len({round(score, 6) for score in alone}) > 1


def test_a_number_of_folds_of_numpy_is_a_number_of_folds(small):
    found = [
        CandidateSearchCV(schirn.CandidateRidge(), GRID, cv=cv, random_state=5)
        .fit(small.X, small.candidates)
        .best_score_
        for cv in (3, np.int64(3))
    ]
    assert found[0] == found[1]


def test_columns_of_labels_are_matched_by_name_behind_a_pipeline(small):
    Y = pd.DataFrame(small.candidates, columns=[f"tag {j}" for j in range(6)])
    search = CandidateSearchCV(
        make_pipeline(StandardScaler(), schirn.CandidateRidge(fit_intercept=True)),
        {"candidateridge__lam": [1.0]},
    ).fit(small.X, Y)
    assert search.score(small.X, Y) == search.score(small.X, Y[Y.columns[::-1]])


@pytest.mark.parametrize(
    ("model", "grid"),
    [
        (lab.PMLMA(max_iter=4), {"alpha": [0.01, 1.0], "gamma": [0.1, 10.0]}),
        (lab.PMLPLR(max_iter=4), {"beta": [0.01, 1.0], "lam": [0.1, 10.0]}),
        (
            lab.PARD(hidden_size=8, learning_rate=0.02),
            {"beta_0": [0.01, 1.0], "warm_up": [0, 2, 9], "max_iter": [1, 6, 12]},
        ),
        (lab.PMLLRS(max_iter=20), {"beta": [0.01, 1.0], "gamma": [0.01, 10.0]}),
        (lab.PMLLENFN(max_iter=4), {"lam1": [1.0, 100.0], "a0": [0.1, 0.8], "nu": [0.1, 0.5]}),
    ],
    ids=lambda value: type(value).__name__,
)
def test_methods_that_share_work_score_like_plain_fits(small, model, grid):
    splits = list(KFold(2, shuffle=True, random_state=1).split(small.X))
    search = CandidateSearchCV(model, grid, cv=splits, refit=False)
    search.fit(small.X, small.candidates)
    expected = by_hand(model, grid, small, small.candidates, splits)
    np.testing.assert_allclose(search.cv_results_["mean_test_score"], expected, atol=1e-9)
    assert len(set(expected)) > 1
