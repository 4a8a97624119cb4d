import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.ensemble import RandomForestClassifier
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression, Ridge, RidgeClassifier
from sklearn.multiclass import OneVsRestClassifier
from sklearn.multioutput import MultiOutputClassifier
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.tree import DecisionTreeClassifier

from schirn import CandidateRidge, CleanThenFit, Sieve
from schirn.datasets import load_digits_attributes
from schirn.exceptions import InputError


@pytest.fixture(scope="module")
def digits():
    return load_digits_attributes(r=2)


@pytest.mark.parametrize(
    "classifier",
    [
        OneVsRestClassifier(LogisticRegression(max_iter=2000)),
        MultiOutputClassifier(LogisticRegression(max_iter=2000)),
        RandomForestClassifier(20, random_state=0),
        RidgeClassifier(),
    ],
    ids=lambda c: type(c).__name__,
)
def test_any_classifier_gets_better_labels(digits, classifier):
    train, test = slice(0, 500), slice(1000, 1400)
    model = CleanThenFit(classifier, method=Sieve(max_iter=3), cv=2)
    model = clone(model).fit(digits.X[train] / 16, digits.candidates[train])
    X = digits.X[test] / 16
    predicted = model.predict(X)
    given = digits.candidates[train].astype(int)
    noisy = clone(classifier).fit(digits.X[train] / 16, given).predict(X)
    truth = digits.y_true[test]
    assert (predicted == truth).mean() > ((noisy > 0.5) == truth).mean()
    if hasattr(model, "predict_proba"):
        proba = model.predict_proba(X)
        assert proba.shape == truth.shape
        assert ((proba > 0.5) == predicted).mean() > 0.99
    if hasattr(model, "decision_function"):
        assert model.decision_function(X).shape == truth.shape


@pytest.mark.parametrize(
    "classifier",
    [
        MultiOutputClassifier(KNeighborsClassifier(3)),
        KNeighborsClassifier(3),
        RandomForestClassifier(6, random_state=0),
    ],
    ids=lambda c: type(c).__name__,
)
def test_a_label_that_no_row_or_every_row_keeps(small, classifier):
    """Its probability is 0 or 1; a forest of as many trees as labels is no special case."""
    candidates = small.candidates.copy()
    candidates[:, 0], candidates[:, 1] = 0, 1
    model = CleanThenFit(classifier, method=CandidateRidge()).fit(small.X, candidates)
    assert model.noisy_labels_.clean[:, 1].all()
    proba = model.predict_proba(small.X)
    assert (proba[:, 0] == 0).all()
    assert (proba[:, 1] == 1).all()
    assert ((proba > 0.5) == model.predict(small.X))[:, 2:].mean() > 0.95


@pytest.mark.filterwarnings("ignore:A column-vector y:sklearn.exceptions.DataConversionWarning")
@pytest.mark.filterwarnings("ignore:Label not 0 is present in all:UserWarning")
@pytest.mark.parametrize(
    "classifier",
    [
        RandomForestClassifier(6, random_state=0),
        OneVsRestClassifier(DecisionTreeClassifier(random_state=0)),
        MultiOutputClassifier(KNeighborsClassifier(3)),
    ],
    ids=lambda c: type(c).__name__,
)
@pytest.mark.parametrize("kept", ["none", "some"])
def test_the_probability_of_one_label_is_that_of_its_prediction(small, classifier, kept):
    y = small.y_true[:, :1].astype(int)
    model = CleanThenFit(classifier, method=CandidateRidge())
    model.fit(small.X, y, known=-y if kept == "none" else y)
    predicted = model.predict(small.X)
    assert predicted.any() == (kept == "some")
    assert ((model.predict_proba(small.X) > 0.5) == predicted).mean() > 0.9


def test_one_label_and_a_method_of_this_library(small):
    """Its probabilities have one column, though it knows two classes."""
    y = small.candidates[:, :1]
    model = CleanThenFit(CandidateRidge(), method=CandidateRidge()).fit(small.X, y)
    expected = model.classifier_.predict_proba(small.X)
    np.testing.assert_array_equal(model.predict_proba(small.X), expected[:, -1:])


def test_scores_take_labels_in_every_container(small):
    names = list("abcdef")
    truth = pd.DataFrame(small.y_true, columns=names)
    lists = [[name for name, y in zip(names, row, strict=True) if y] for row in small.y_true]
    model = CleanThenFit(RidgeClassifier(), method=CandidateRidge())
    model.fit(small.X, pd.DataFrame(small.candidates, columns=names))
    expected = (model.predict(small.X) == small.y_true).all(axis=1).mean()
    assert expected > 0
    texts = [";".join(row) for row in lists]
    for y in (small.y_true, sp.csr_array(small.y_true), truth[names[::-1]], lists, texts):
        assert model.score(small.X, y) == pytest.approx(expected)
    nothing = np.zeros_like(small.y_true)
    assert model.score(small.X, nothing, sample_weight=np.ones(200)) < expected


def test_a_classifier_of_texts():
    texts = ["bark tail", "wave sand", "bark paw", "salt wave", "tail paw", "sand salt"] * 10
    tags = [["dog"] if "bark" in t or "tail" in t else ["sea"] for t in texts]
    tags[0] = ["dog", "sea"]
    pipeline = make_pipeline(CountVectorizer(), OneVsRestClassifier(LogisticRegression()))
    model = CleanThenFit(pipeline, min_count=2).fit(texts, tags)
    assert model.label_names_ == ["dog", "sea"]
    assert not hasattr(model, "n_features_in_")
    assert model.predict(["bark bark", "sand"]).tolist() == [[1, 0], [0, 1]]


def test_a_classifier_is_told_what_is_known(small):
    known = np.where(small.y_true == 1, 0, -1)
    model = CleanThenFit(RidgeClassifier(), method=CandidateRidge())
    found = model.fit(small.X, small.candidates, known=known).noisy_labels_
    assert (found.clean <= small.y_true).all()


def test_delegation_and_contract(small):
    model = CleanThenFit(RidgeClassifier(alpha=2.0), method=CandidateRidge())
    assert not hasattr(model, "predict_proba")
    assert hasattr(model, "decision_function")
    assert model.get_params()["classifier__alpha"] == 2.0
    fitted = model.fit(small.X, pd.DataFrame(small.candidates, columns=list("abcdef")))
    assert fitted.label_names_ == list("abcdef")
    assert not hasattr(model.classifier, "coef_")
    with pytest.raises(InputError, match="scikit-learn classifier"):
        CleanThenFit("ridge").fit(small.X, small.candidates)


def test_a_regressor_is_no_classifier(small):
    with pytest.raises(InputError, match="must be a scikit-learn classifier, not Ridge"):
        CleanThenFit(Ridge()).fit(small.X, small.candidates)
