"""Clean the labels, then train any classifier on them."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone, is_regressor
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from schirn._progress import shown, stage
from schirn.cleaning.find import find_noisy_labels
from schirn.exceptions import InputError
from schirn.labels.tags import read_tags

Array = np.ndarray


def _has(name: str) -> Any:
    """Check that the classifier has a method."""
    return lambda self: hasattr(getattr(self, "classifier_", self.classifier), name)


class CleanThenFit(ClassifierMixin, MetaEstimatorMixin, BaseEstimator):
    """Remove the wrong labels of the training rows, then train a classifier on the rest.

    The labels are judged by `find_noisy_labels`, each without its own row.

    Parameters
    ----------
    classifier : estimator
        A scikit-learn classifier for multi-label targets, such as
        `OneVsRestClassifier(LogisticRegression())`.
    method : estimator, class or str, default=None
        The method that judges the labels; None is `Sieve`.
    cv : int, splitter or iterable, optional
        Folds of `find_noisy_labels`; None judges by one fit of `Sieve`.
    threshold : float, default=0.5
        A label is removed when its probability of being correct is below this value.
    min_count : int, default=5
        A label listed in fewer training rows than this is not judged.
    random_state : int, default=0
        Seed of the folds.
    verbose : bool, default=False
        Show stage, round, share done and time left on stderr.

    Attributes
    ----------
    classifier_ : estimator
        The trained classifier.
    noisy_labels_ : NoisyLabels
        Ranking of the training labels, with the removals.
    label_names_ : list of str
    classes_ : (l,) array
    n_features_in_ : int
        Defined if the classifier defines it.

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
        cv: Any = None,
        threshold: float = 0.5,
        min_count: int = 5,
        random_state: int | None = 0,
        verbose: bool = False,
    ):
        self.classifier = classifier
        self.method = method
        self.cv = cv
        self.threshold = threshold
        self.min_count = min_count
        self.random_state = random_state
        self.verbose = verbose

    def fit(
        self, X: Any, y: Any, *, label_names: Sequence[str] | None = None, known: Any = None
    ) -> "CleanThenFit":
        """Judge the labels, then train the classifier.

        Parameters
        ----------
        X : array, CSR matrix, DataFrame or sequence of texts
            Input of both `find_noisy_labels` and the classifier.
        y : array, sparse matrix, DataFrame or sequence of n lists or texts
            Candidates, in any form that `find_noisy_labels` accepts.
        label_names : sequence of str, optional
            Names of the label columns, if `y` has none.
        known : (n, l) array, sparse matrix or DataFrame, optional
            1 for a label known to be correct, -1 for one known to be wrong, 0 elsewhere.

        Returns
        -------
        self
        """
        if not hasattr(self.classifier, "fit") or is_regressor(self.classifier):
            raise InputError(
                f"classifier must be a scikit-learn classifier, not {self.classifier!r}"
            )
        with shown(type(self).__name__, self.verbose):
            # A classifier is trained on what is left, and no table loses a tag.
            self.noisy_labels_ = find_noisy_labels(
                X,
                y,
                method=self.method,
                cv=self.cv,
                keep_one=False,
                known=known,
                min_count=self.min_count,
                label_names=label_names,
                random_state=self.random_state,
            ).remove(below=self.threshold)
            self.label_names_ = self.noisy_labels_.label_names
            self.classes_ = np.arange(max(2, len(self.label_names_)))
            stage("training the classifier")
            clean = self.noisy_labels_.clean.astype(np.int64)
            self.classifier_ = clone(self.classifier).fit(X, clean)
        if hasattr(self.classifier_, "n_features_in_"):
            self.n_features_in_ = self.classifier_.n_features_in_
        return self

    def predict(self, X: Any) -> Array:
        """Predict the labels as an (n, l) 0/1 array."""
        check_is_fitted(self)
        return self._columns(self.classifier_.predict(X)).astype(np.int64)

    @available_if(_has("predict_proba"))
    def predict_proba(self, X: Any) -> Array:
        """Predict the (n, l) probabilities."""
        check_is_fitted(self)
        probabilities = self.classifier_.predict_proba(X)
        classes: Any = getattr(self.classifier_, "classes_", ())
        if isinstance(probabilities, list):
            return np.column_stack(
                [_true(p, c) for p, c in zip(probabilities, classes, strict=True)]
            )
        # With one label and one class in training, the only column is that of the class.
        if len(self.label_names_) == 1 and np.shape(classes) == np.shape(probabilities)[1:]:
            return _true(probabilities, classes)[:, None]
        return self._columns(probabilities)

    @available_if(_has("decision_function"))
    def decision_function(self, X: Any) -> Array:
        """Return the (n, l) scores of the classifier."""
        check_is_fitted(self)
        return self._columns(self.classifier_.decision_function(X))

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the share of rows whose labels are all predicted correctly."""
        check_is_fitted(self)
        labels = read_tags(y, self.label_names_).dense()
        return float(super().score(X, labels, sample_weight))

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
    """Return the column of class 1, or zeros if no training row was of it."""
    column = np.flatnonzero(np.asarray(classes) == 1)
    return probabilities[:, column[0]] if len(column) else np.zeros(len(probabilities))
