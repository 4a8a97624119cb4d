"""Scorers inside scikit-learn's own cross-validation and search."""

import pickle

import numpy as np
import pytest
import sklearn
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV, KFold, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from schirn import metrics
from schirn.exceptions import InputError


class PlainRidge(ClassifierMixin, BaseEstimator):
    """Ridge regression on the candidates."""

    def __init__(self, lam=1.0):
        self.lam = lam

    def fit(self, X, y):
        y = y.toarray() if sparse.issparse(y) else np.asarray(y)
        self.classes_ = np.arange(y.shape[1])
        self.model_ = Ridge(alpha=self.lam).fit(X, y)
        return self

    def decision_function(self, X):
        return self.model_.predict(X)

    def predict(self, X):
        return (self.decision_function(X) > 0.5).astype(int)


@pytest.fixture
def routing():
    with sklearn.config_context(enable_metadata_routing=True):
        yield


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(90, 6))
    clean = (X @ rng.normal(size=(6, 5)) > 0.3).astype(int)
    candidates = clean | (rng.random(clean.shape) < 0.25)
    return X, clean, candidates


def by_hand(data, name, truth, lam=1.0):
    """Fit on the candidates of each fold and score by calling the function itself."""
    X, _, candidates = data
    metric = metrics.METRICS[name]
    values = []
    for train, test in KFold(3).split(X):
        model = PlainRidge(lam).fit(X[train], candidates[train])
        response = model.predict(X[test]) if name == "hamming_loss" else None
        response = model.decision_function(X[test]) if response is None else response
        values.append(metric.function(truth[test], response))
    return np.array(values) * (1 if metric.greater_is_better else -1)


@pytest.mark.usefixtures("routing")
@pytest.mark.parametrize("name", list(metrics.METRICS))
def test_cross_validate_fits_on_candidates_and_scores_on_truth(data, name):
    X, clean, candidates = data
    found = cross_validate(
        PlainRidge(),
        X,
        candidates,
        cv=KFold(3),
        params={"y_clean": clean},
        scoring=metrics.scorer(name),
        error_score="raise",
    )["test_score"]
    assert found == pytest.approx(by_hand(data, name, clean))
    assert found != pytest.approx(by_hand(data, name, candidates))


@pytest.mark.parametrize("name", list(metrics.METRICS))
def test_against_candidates_needs_no_routing(data, name):
    X, _, candidates = data
    scoring = metrics.scorer(name, against="candidates")
    found = cross_validate(
        PlainRidge(), X, candidates, cv=KFold(3), scoring=scoring, error_score="raise"
    )
    assert found["test_score"] == pytest.approx(by_hand(data, name, candidates))


@pytest.mark.usefixtures("routing")
@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array])
def test_many_metrics_at_once(data, kind):
    X, clean, candidates = data
    found = cross_validate(
        make_pipeline(StandardScaler(with_mean=False, with_std=False), PlainRidge()),
        X,
        candidates,
        cv=KFold(3),
        params={"y_clean": kind(clean)},
        scoring=metrics.scorers(),
        error_score="raise",
    )
    for name in metrics.METRICS:
        assert found[f"test_{name}"] == pytest.approx(by_hand(data, name, clean))


@pytest.mark.usefixtures("routing")
@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array])
def test_grid_search(data, kind):
    X, clean, candidates = data
    search = GridSearchCV(
        PlainRidge(),
        {"lam": [0.1, 1e4]},
        cv=KFold(3),
        scoring=metrics.scorer("ranking_loss"),
        error_score="raise",
    ).fit(X, kind(candidates), y_clean=kind(clean))
    expected = [by_hand(data, "ranking_loss", clean, lam).mean() for lam in (0.1, 1e4)]
    assert search.cv_results_["mean_test_score"] == pytest.approx(expected)
    assert search.best_params_ == {"lam": (0.1, 1e4)[int(np.argmax(expected))]}


@pytest.mark.usefixtures("routing")
def test_grid_search_over_many_metrics_and_candidates(data):
    X, _, candidates = data
    search = GridSearchCV(
        PlainRidge(),
        {"lam": [0.1, 10.0]},
        cv=KFold(3),
        scoring=metrics.scorers(against="candidates"),
        refit="average_precision",
        error_score="raise",
    ).fit(X, candidates)
    expected = by_hand(data, "coverage", candidates, 10.0).mean()
    assert search.cv_results_["mean_test_coverage"][1] == pytest.approx(expected)


@pytest.mark.usefixtures("routing")
def test_missing_truth_is_named(data):
    X, _, candidates = data
    search = GridSearchCV(
        PlainRidge(),
        {"lam": [1.0]},
        scoring=metrics.scorer("coverage"),
        error_score="raise",
    )
    with pytest.raises(InputError, match="pass y_clean"):
        search.fit(X, candidates)
    with pytest.raises(InputError, match="pass y_clean"):
        metrics.scorer("coverage")(PlainRidge().fit(X, candidates), X, candidates)


@pytest.mark.parametrize("make", [lambda: metrics.scorer("coverage"), metrics.scorers])
def test_routing_must_be_on(make):
    with pytest.raises(InputError, match="enable_metadata_routing=True"):
        make()


@pytest.mark.usefixtures("routing")
def test_options_reach_the_function(data):
    X, clean, candidates = data
    model = PlainRidge().fit(X, candidates)
    scores = model.decision_function(X)
    depth = metrics.scorer("coverage", convention="random")
    assert depth(model, X, candidates, y_clean=clean) == pytest.approx(
        -metrics.coverage(clean, scores, convention="random")
    )
    top = metrics.scorer("precision_at_k", against="candidates", k=2)
    assert top(model, X, candidates) == metrics.precision_at_k(candidates, scores, k=2)
    # Without labels to learn from, all scores are tied, and the conventions differ.
    flat = PlainRidge().fit(X, np.zeros_like(candidates))
    every = metrics.scorers(convention="random")["average_precision"]
    values = [
        metrics.average_precision(clean, flat.decision_function(X), convention=convention)
        for convention in ("field", "random")
    ]
    assert values[0] != values[1]
    assert every(flat, X, candidates, y_clean=clean) == pytest.approx(values[1])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"name": "auc"}, "name must be one of 'average_precision'.* got 'auc'"),
        ({"name": "coverage", "against": "truth"}, "against must be one of .* got 'truth'"),
        ({"name": "coverage", "k": 3}, "coverage has no option 'k'; use convention, empty_rows"),
        ({"name": "coverage", "convention": "mulan"}, "convention must be one of .* got 'mulan'"),
    ],
)
def test_bad_arguments_are_refused_before_any_fit(arguments, message):
    with pytest.raises(InputError, match=message):
        metrics.scorer(**{"against": "candidates", **arguments})


@pytest.mark.usefixtures("routing")
def test_scorers_survive_pickling(data):
    X, clean, candidates = data
    model = PlainRidge().fit(X, candidates)
    again = pickle.loads(pickle.dumps(metrics.scorer("one_error")))
    assert again(model, X, candidates, y_clean=clean) == -metrics.one_error(
        clean, model.decision_function(X)
    )


@pytest.mark.parametrize("option", ["y_true", "scores", "sample_weight", "konvention"])
def test_a_scorer_takes_no_data_as_options(sentence, option):
    assert (
        sentence(metrics.scorer, "ranking_loss", against="candidates", **{option: 1})
        == f"ranking_loss has no option {option!r}; use convention."
    )


def test_a_scorer_says_how_to_switch_routing_on(sentence):
    assert sentence(metrics.scorer, "coverage") == (
        "scorer('coverage') with against='clean' needs metadata routing; call "
        "sklearn.set_config(enable_metadata_routing=True) first, or use against='candidates'."
    )


def test_a_scorer_says_how_to_hand_over_the_truth(sentence):
    X, Y = np.eye(3), np.eye(3, dtype=int)
    with sklearn.config_context(enable_metadata_routing=True):
        made = metrics.scorer("hamming_loss")
        model = PlainRidge().fit(X, Y)
        assert sentence(made, model, X, Y) == (
            "the scorer 'hamming_loss' compares with the true labels but got none; pass y_clean, "
            "as in cross_validate(..., params={'y_clean': Y}) or search.fit(X, candidates, "
            "y_clean=Y), or use scorer(..., against='candidates')."
        )
