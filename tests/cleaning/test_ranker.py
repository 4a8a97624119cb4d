"""The contract of rankers: every implementation keeps it, and classifiers can be one."""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.special import logit
from sklearn.base import BaseEstimator
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import KFold
from sklearn.multioutput import MultiOutputClassifier
from sklearn.naive_bayes import BernoulliNB, GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler

from schirn import CandidateRidge, Sieve, find_noisy_labels
from schirn.cleaning import (
    CentroidRanker,
    Evidence,
    FoldRanker,
    Ranker,
    RankingTask,
    SieveRanker,
)
from schirn.exceptions import InputError
from schirn.labels.matrix import label_lists
from schirn.labels.tags import read_tags


class Ridge(Ranker):
    """Out-of-fold predictions of a ridge, as a whole matrix."""

    def rank(self, X, task):
        log_odds, Y = np.zeros(task.tags.shape), task.tags.dense()
        for train, test in KFold(5, shuffle=True, random_state=0).split(X):
            log_odds[test] = logit(CandidateRidge().fit(X[train], Y[train]).predict_proba(X[test]))
        return Evidence.from_matrix(task, log_odds)


RANKERS = {
    "sieve": SieveRanker(Sieve(max_iter=3)),
    "few": SieveRanker(Sieve(max_kernel_rows=100, n_landmarks=50, max_iter=3)),
    "folds": FoldRanker(CandidateRidge()),
    "classifier": FoldRanker(LogisticRegression(), cv=3),
    "centroids": CentroidRanker(),
    "own": Ridge(),
}


def task_for(data, **options):
    tags = read_tags(data.candidates, None)
    columns = np.flatnonzero(tags.counts >= 5)
    return RankingTask(tags, columns, np.zeros(len(tags.row), dtype=np.int8), **options)


def test_copies_join_the_groups_of_the_caller():
    tags = read_tags([["a"], ["b"], ["a"], ["b"], ["a"], ["b"]], None)
    known = np.zeros(6, dtype=np.int8)
    groups = np.array([0, 0, 1, 1, 2, 3])
    task = RankingTask(tags, np.arange(2), known, groups=groups)
    # Row 5 is a copy of row 2, so it joins the group of rows 2 and 3.
    merged = task.groups_with_copies(np.array([0, 1, 2, 3, 4, 2]))
    pairs = merged[:, None] == merged
    expected = np.array([0, 0, 1, 1, 2, 1])
    np.testing.assert_array_equal(pairs, expected[:, None] == expected)
    assert task.groups_with_copies(np.arange(6)) is groups
    # Two kinds of features for rows of two kinds of tags are copies; for other tags, categories.
    kinds = np.array([0, 1, 0, 1, 0, 1])
    alone = RankingTask(tags, np.arange(2), known)
    assert alone.groups_with_copies(kinds) is kinds
    assert alone.groups_with_copies(np.array([0, 0, 0, 1, 1, 1])) is None


@pytest.mark.parametrize("name", RANKERS)
def test_every_ranker_finds_wrong_tags_and_planted_ones(small, name):
    task = task_for(small)
    evidence = RANKERS[name].rank(small.X, task)
    true = small.y_true[task.tags.row, task.tags.column]
    assert evidence.log_odds.shape == evidence.judged.shape == true.shape
    assert evidence.judged.all()
    assert roc_auc_score(true, evidence.log_odds) > 0.7
    row, column = task.planted
    assert len(row) > 100
    assert not small.candidates[row, column].any()
    assert len(np.unique(row)) == len(row) == len(evidence.planted)
    assert np.median(evidence.planted) < np.median(evidence.log_odds)


@pytest.mark.parametrize("name", ["sieve", "folds", "classifier", "own"])
def test_the_likeliest_unlisted_cells(small, name):
    dropped = small.y_true == 1
    dropped &= np.random.default_rng(0).random(dropped.shape) < 0.1
    tags = read_tags(np.where(dropped, 0, small.candidates), None)
    known = np.zeros(len(tags.row), dtype=np.int8)
    evidence = RANKERS[name].rank(small.X, RankingTask(tags, np.arange(6), known, n_unlisted=40))
    row, column, log_odds = evidence.unlisted
    assert len(row) == 40
    assert not tags.lists(row, column).any()
    assert (np.diff(log_odds) <= 0).all()
    assert dropped[row, column].mean() > 2 * dropped[tags.dense() == 0].mean()


@pytest.fixture(scope="module")
def digits_dropped():
    from schirn.datasets import load_digits_attributes

    digits = load_digits_attributes(r=1).subset(range(500))
    gone = np.random.default_rng(0).random(digits.y_true.shape) < 0.3
    return digits.X, read_tags(np.where((digits.y_true == 1) & gone, 0, digits.candidates), None)


def test_a_ranker_of_ones_own_judges_as_the_method_that_it_wraps(small):
    """Up to the candidates of the row, which only the library's method takes into account."""
    own = find_noisy_labels(small.X, small.candidates, method=Ridge())
    assert own.method == "Ridge"
    ridge = CandidateRidge()
    expected = np.zeros(small.candidates.shape)
    for train, test in KFold(5, shuffle=True, random_state=0).split(small.X):
        expected[test] = ridge.fit(small.X[train], small.candidates[train]).predict_proba(
            small.X[test]
        )
    np.testing.assert_allclose(own.confidence, expected[own.row, own.column])
    assert len(own.ranked.planted_confidence) > 100
    assert len(find_noisy_labels(small.X, small.candidates, method=Ridge).row) == len(own.row)


class Broken(Ridge):
    def rank(self, X, task):
        evidence = super().rank(X, task)
        return evidence._replace(**self.change(evidence))


def test_a_ranker_need_not_judge_planted_tags(small):
    class Unplanted(Broken):
        def change(self, evidence):
            return {"planted": np.zeros(0)}

    for prior in (None, np.full(small.candidates.shape, 0.7)):
        ranking = find_noisy_labels(small.X, small.candidates, method=Unplanted(), prior=prior)
        assert np.isnan(ranking.planted_among_suspects())


@pytest.mark.parametrize("what", ["log_odds", "judged"])
def test_bad_evidence_is_named(small, what):
    class Short(Broken):
        def change(self, evidence):
            return {what: getattr(evidence, what)[1:]}

    with pytest.raises(InputError, match=r"Short must return log_odds and judged of \d+ tags"):
        find_noisy_labels(small.X, small.candidates, method=Short())


def test_log_odds_that_are_not_numbers_are_named(small):
    class Empty(Broken):
        def change(self, evidence):
            return {"log_odds": np.full(len(evidence.log_odds), np.nan)}

    with pytest.raises(InputError, match=r"Empty must return log_odds .* without NaN"):
        find_noisy_labels(small.X, small.candidates, method=Empty())


def test_folds_belong_to_the_ranker(small):
    with pytest.raises(InputError, match="Ridge does not use cv"):
        find_noisy_labels(small.X, small.candidates, method=Ridge(), cv=3)


def test_a_ranker_without_votes_says_so(small):
    with pytest.raises(InputError, match="Ridge takes no votes"):
        find_noisy_labels(small.X, small.candidates, method=Ridge(), votes=(small.candidates, 1))


class Plain(BaseEstimator):
    """An estimator that does not say that it is a classifier."""

    def fit(self, X, y):
        self.model_ = LogisticRegression().fit(X, y)
        return self

    def predict_proba(self, X):
        return self.model_.predict_proba(X)


CLASSIFIERS = {
    "no classifier by its tags": Plain(),
    "one label at a time": LogisticRegression(),
    "a pipeline": make_pipeline(MaxAbsScaler(), LogisticRegression()),
    "naive Bayes": BernoulliNB(),
    "an array per label": RandomForestClassifier(20, random_state=0),
    "all labels": KNeighborsClassifier(),
    "only all labels": MultiOutputClassifier(LogisticRegression()),
}


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
@pytest.mark.parametrize("kind", CLASSIFIERS)
def test_classifiers_judge_in_folds(small, kind, form):
    classifier = CLASSIFIERS[kind]
    found = find_noisy_labels(form(small.X), small.candidates, method=classifier, cv=4)
    assert found.method == type(classifier).__name__
    assert ((found.confidence > 0) & (found.confidence < 1)).all()
    true = small.y_true[found.row, found.column]
    assert roc_auc_score(true, found.confidence) > 0.6
    # One label alone has a column per class.
    one = find_noisy_labels(form(small.X), small.candidates[:, :1], method=classifier, cv=4)
    first = found.column == 0
    if kind in ("one label at a time", "a pipeline", "naive Bayes", "only all labels"):
        np.testing.assert_allclose(one.confidence, found.confidence[first], rtol=1e-6)
    assert one.judged.all()


def test_the_probabilities_of_a_classifier_are_those_of_the_other_folds(small):
    found = find_noisy_labels(
        small.X, small.candidates, method=LogisticRegression, cv=3, random_state=1
    )
    expected = np.zeros(small.candidates.shape)
    for train, test in KFold(3, shuffle=True, random_state=1).split(small.X):
        for j in range(6):
            model = LogisticRegression().fit(small.X[train], small.candidates[train, j])
            expected[test, j] = model.predict_proba(small.X[test])[:, 1]
    np.testing.assert_allclose(found.matrix(), expected * small.candidates, rtol=1e-6)


def test_a_label_that_is_unseen_in_a_fold_is_not_judged_there(small):
    C = np.hstack([small.candidates, np.zeros((200, 1), dtype=np.uint8)])
    C[:20, 6] = 1
    thirds = [
        (np.setdiff1d(np.arange(200), test), test) for test in np.split(np.arange(200), [20, 110])
    ]
    found = find_noisy_labels(small.X, C, method=LogisticRegression(), cv=thirds)
    judged = found.judged[found.column == 6]
    assert not judged.any()
    assert found.judged[found.column < 6].all()
    np.testing.assert_array_equal(found.confidence[~found.judged], 0.5)


def test_a_classifier_keeps_more_than_256_labels_apart():
    label = np.arange(600) % 300
    X, tags = np.column_stack([label % 20, label // 20]), np.eye(300, dtype=np.uint8)[label]
    ranker = FoldRanker(GaussianNB(var_smoothing=1e-4), cv=KFold(2))
    ranking = find_noisy_labels(X, tags, method=ranker, min_count=1)
    assert (ranking.confidence > 0.9).all()


def test_texts_and_a_classifier():
    words = {"dog": "bark tail paw", "sea": "wave sand salt", "car": "wheel road fuel"}
    names = list(words)
    texts = [words[names[i % 3]] + f" item {i % 7}" for i in range(150)]
    tags = [
        [names[i % 3], names[(i + 1) % 3]] if i % 4 == 0 else [names[i % 3]] for i in range(150)
    ]
    found = find_noisy_labels(texts, tags, method=LogisticRegression()).remove(below=0.5)
    assert label_lists(found.clean, found.label_names) == [[names[i % 3]] for i in range(150)]


def test_confidences_and_log_odds_agree(small):
    model = Sieve().fit(small.X, small.candidates)
    again = model.posterior_of_candidates(model.training_log_odds_, small.candidates)
    np.testing.assert_allclose(again, model.label_confidence_, atol=0.05)
