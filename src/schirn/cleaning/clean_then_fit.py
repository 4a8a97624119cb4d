"""Clean the labels first, then train any classifier on them."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone, is_regressor
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from schirn._input import OneOf
from schirn.cleaning.find import find_noisy_labels
from schirn.exceptions import InputError
from schirn.labels.tags import read_tags

Array = np.ndarray

_COPIES = 4


def _has(*names: str) -> Any:
    """Whether the classifier has one of these functions; a regressor predicts scores."""

    def check(self: "CleanThenFit") -> bool:
        inner = getattr(self, "classifier_", self.classifier)
        return is_regressor(inner) or any(hasattr(inner, name) for name in names)

    return check


class CleanThenFit(ClassifierMixin, MetaEstimatorMixin, BaseEstimator):
    """Remove the wrong labels of the training rows, then train a classifier on the rest.

    The labels are judged out of fold by `find_noisy_labels`.

    Parameters
    ----------
    classifier : a scikit-learn classifier that takes several labels per row, such as
        `OneVsRestClassifier(LogisticRegression())`, or a regressor with several outputs
    method : what judges the labels; None is `Sieve`
    cv : number of folds
    threshold : a label less likely right than this is removed
    labels : "clean" trains on what is left. "soft" trains a regressor on the confidences, and a
        classifier on four copies of each row that carry a label as often as its confidence says.
    min_count : a label listed in fewer training rows is not judged
    random_state : seed of the folds

    Attributes
    ----------
    classifier_ : the trained classifier
    noisy_labels_ : what `find_noisy_labels` returned
    label_names_, n_features_in_, classes_

    Examples
    --------
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.multiclass import OneVsRestClassifier
    >>> from schirn import CleanThenFit
    >>> from schirn.datasets import make_partial_multilabel
    >>> data = make_partial_multilabel(n_samples=200, n_labels=6, r=1, random_state=0)
    >>> model = CleanThenFit(OneVsRestClassifier(LogisticRegression()))
    >>> model.fit(data.X, data.candidates).predict_proba(data.X[:3]).shape
    (3, 6)
    """

    def __init__(
        self,
        classifier: Any,
        *,
        method: Any = None,
        cv: Any = 5,
        threshold: float = 0.5,
        labels: str = "clean",
        min_count: int = 5,
        random_state: int | None = 0,
    ):
        self.classifier = classifier
        self.method = method
        self.cv = cv
        self.threshold = threshold
        self.labels = labels
        self.min_count = min_count
        self.random_state = random_state

    def fit(
        self, X: Any, y: Any, *, label_names: Sequence[str] | None = None, known: Any = None
    ) -> "CleanThenFit":
        """Judge the labels, then train the classifier.

        Parameters
        ----------
        X : what the classifier takes; numbers, or one text per row
        y : the candidates, as `find_noisy_labels` takes them
        label_names : names of the label columns, for candidates that carry none
        known : (n, l), 1 where a label is certainly right, -1 where it is certainly wrong, else 0
        """
        OneOf(("clean", "soft")).check("labels", self.labels)
        if not hasattr(self.classifier, "fit"):
            raise InputError(
                f"classifier must be a scikit-learn estimator, not {self.classifier!r}"
            )
        self.noisy_labels_ = find_noisy_labels(
            X,
            y,
            method=self.method,
            cv=self.cv,
            threshold=self.threshold,
            known=known,
            min_count=self.min_count,
            label_names=label_names,
            random_state=self.random_state,
        )
        self.label_names_ = self.noisy_labels_.label_names
        self.classes_ = np.arange(max(2, len(self.label_names_)))
        self.classifier_ = clone(self.classifier).fit(*self._targets(X))
        if hasattr(self.classifier_, "n_features_in_"):
            self.n_features_in_ = self.classifier_.n_features_in_
        return self

    def predict(self, X: Any) -> Array:
        """0/1 predictions (n, l) of the classifier."""
        check_is_fitted(self)
        predicted = self._columns(self.classifier_.predict(X))
        if is_regressor(self.classifier_):
            predicted = predicted >= 0.5
        return predicted.astype(np.int64)

    @available_if(_has("predict_proba"))
    def predict_proba(self, X: Any) -> Array:
        """Probabilities (n, l) of the classifier; a regressor's values cut to [0, 1]."""
        check_is_fitted(self)
        if is_regressor(self.classifier_):
            return np.clip(self._columns(self.classifier_.predict(X)), 0, 1)
        found = self.classifier_.predict_proba(X)
        classes: Any = getattr(self.classifier_, "classes_", ())
        if isinstance(found, list):
            return np.column_stack([_true(p, c) for p, c in zip(found, classes, strict=True)])
        # A classifier of one label that saw one class has one column, for that class.
        if len(self.label_names_) == 1 and np.shape(classes) == np.shape(found)[1:]:
            return _true(found, classes)[:, None]
        return self._columns(found)

    @available_if(_has("decision_function"))
    def decision_function(self, X: Any) -> Array:
        """Scores (n, l) of the classifier, or the values of a regressor."""
        check_is_fitted(self)
        inner = self.classifier_
        return self._columns(
            inner.predict(X) if is_regressor(inner) else inner.decision_function(X)
        )

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Share of rows whose labels are all predicted right; y as `fit` takes it."""
        check_is_fitted(self)
        tags = read_tags(y, self.label_names_)
        labels = tags.dense(np.arange(len(tags.names)))
        return float(super().score(X, labels, sample_weight))

    def _targets(self, X: Any) -> tuple[Any, Array]:
        """Rows and labels that the classifier is trained on."""
        found = self.noisy_labels_
        if self.labels == "clean":
            return X, found.clean.astype(np.int64)
        confidence = found.matrix()
        if is_regressor(self.classifier):
            return X, confidence
        cuts = (np.arange(_COPIES) + 0.5) / _COPIES
        return _stack([X] * _COPIES), np.vstack([confidence > cut for cut in cuts]).astype(np.int64)

    def _columns(self, values: Any) -> Array:
        values = values.toarray() if sp.issparse(values) else np.asarray(values)
        if values.ndim == 2:
            return values[:, -1:] if len(self.label_names_) == 1 else values
        return values[:, None]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.target_tags.single_output = False
        tags.target_tags.multi_output = True
        tags.target_tags.two_d_labels = True
        tags.classifier_tags.multi_label = True
        tags.classifier_tags.multi_class = False
        tags.input_tags.sparse = True
        return tags


def _true(probabilities: Array, classes: Any) -> Array:
    """The column of class 1; zeros where no training row was of it."""
    place = np.flatnonzero(np.asarray(classes) == 1)
    return probabilities[:, place[0]] if len(place) else np.zeros(len(probabilities))


def _stack(parts: list[Any]) -> Any:
    """The rows of all parts, in the container of the first."""
    first = parts[0]
    if sp.issparse(first):
        return sp.vstack(parts, format="csr")
    if hasattr(first, "iloc"):
        return first.iloc[np.tile(np.arange(len(first)), len(parts))]
    return np.concatenate([np.asarray(part) for part in parts])
