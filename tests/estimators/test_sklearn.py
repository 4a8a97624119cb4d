"""scikit-learn's own checks, and life inside its pipelines and searches."""

import pickle

import numpy as np
import pytest
import sklearn
from estimators.sklearn_checks import ROUNDS, expected_failures
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.kernel_approximation import Nystroem
from sklearn.model_selection import GridSearchCV, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

import schirn
from schirn.metrics import scorer


def quick(cls):
    """The method with few rounds, for checks that are not about quality."""
    model = cls()
    rounds = ROUNDS.get(cls.__name__, 5)
    return model.set_params(max_iter=rounds) if "max_iter" in model.get_params() else model


@pytest.mark.filterwarnings("ignore::schirn.exceptions.EmptyCandidatesWarning")
# The data of some checks have few rows, and lam weighs more then.
@pytest.mark.filterwarnings("ignore:lam=10 shrinks all:sklearn.exceptions.ConvergenceWarning")
@parametrize_with_checks(
    [quick(cls) for cls in schirn.methods().values()],
    expected_failed_checks=expected_failures,
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.fixture
def routing():
    with sklearn.config_context(enable_metadata_routing=True):
        yield


@pytest.mark.parametrize("cls", list(schirn.methods().values()))
def test_clone_and_pickle_keep_parameters_and_results(cls, small):
    model = clone(quick(cls)).fit(small.X, small.candidates)
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(
        again.decision_function(small.X), model.decision_function(small.X)
    )


def test_pipeline_with_kernel_map(small):
    model = make_pipeline(
        Nystroem(n_components=30, random_state=0),
        PCA(20),
        schirn.Schirn(lam=0.1, fit_intercept=True),
    )
    model.fit(small.X, small.candidates)
    assert model.predict(small.X).shape == small.candidates.shape


@pytest.mark.usefixtures("routing")
def test_fit_on_candidates_score_on_truth(small):
    out = cross_validate(
        schirn.CandidateRidge(),
        small.X,
        small.candidates,
        cv=3,
        params={"y_clean": small.y_true},
        scoring=scorer("average_precision"),
        error_score="raise",
    )
    on_candidates = cross_validate(
        schirn.CandidateRidge(),
        small.X,
        small.candidates,
        cv=3,
        scoring=scorer("average_precision", against="candidates"),
        error_score="raise",
    )
    assert not np.allclose(out["test_score"], on_candidates["test_score"])


@pytest.mark.usefixtures("routing")
def test_oracle_gets_the_truth_through_grid_search(small):
    search = GridSearchCV(
        schirn.OracleRidge().set_fit_request(y_clean=True),
        {"lam": [0.1, 10.0]},
        scoring=scorer("average_precision"),
        cv=3,
        error_score="raise",
    )
    search.fit(small.X, small.candidates, y_clean=small.y_true)
    expected = (small.candidates == 1) & (small.y_true == 0)
    np.testing.assert_array_equal(search.best_estimator_.noise_, expected)
