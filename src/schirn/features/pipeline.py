"""From a table to tags in one estimator."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from schirn._input import Array, declare_parameters, location
from schirn._sklearn import ClassifierMixin
from schirn.estimators import PartialMultiLabelClassifier, Sieve, TrainingRows, find_method
from schirn.exceptions import InputError
from schirn.features.table import ColumnChoice, TableFeatures, arrays_of
from schirn.labels.tags import read_tags
from schirn.scale.copies import equal_rows


@dataclass(frozen=True)
class Judgement:
    """Verdict of a model about the tags of one row."""

    confidence: dict[str, float]
    """Probability that each listed tag is correct."""
    unseen: list[str]
    """Tags that were not seen during training."""
    suggestions: dict[str, float]
    """Tags that are probably missing, with the probability that they are correct."""


@declare_parameters
class TagPipeline(ClassifierMixin, ColumnChoice):
    """Learn from columns of a table, and tag the rows of other tables.

    `schirn.save` stores a fitted pipeline in one file: words, columns, method and label names.
    `schirn fit` writes such files, and `schirn predict` reads them.

    Parameters
    ----------
    text, columns, categories, vectors, image
        Columns to learn from, as in `TableFeatures`.
    encoder : str, optional
        Name of an `Encoder` for texts or pictures.
    method : estimator, class or str, optional
        A method of this library, or its name; by default `Sieve`.
    separator : str
        Text between the tags of a cell such as "beach;dog".

    Attributes
    ----------
    features_ : TableFeatures
    method_ : fitted method.
    label_names_ : list of str

    Examples
    --------
    >>> from schirn.features import TagPipeline
    >>> titles = ["red pan", "steel pan", "red chair", "oak chair"] * 5
    >>> table = {"title": titles, "tags": ["pan", "pan;oven", "chair", "chair;oak"] * 5}
    >>> tagger = TagPipeline(text="title").fit(table, table["tags"])
    >>> tagger.predict_labels({"title": ["blue pan", "blue chair"]})
    [['pan'], ['chair']]
    """

    method: Any = None
    separator: str = ";"

    def set_params(self, **params: Any) -> "TagPipeline":
        """Set parameters, also those of the method, such as ``method__n_landmarks``.

        Parameters
        ----------
        **params : dict
            Values by name.

        Returns
        -------
        TagPipeline
        """
        method = params.get("method", self.method)
        nested = [name for name in params if name.startswith("method__")]
        if nested and not hasattr(method, "set_params"):
            raise InputError(
                f"{nested[0]} is a parameter of the method, but method is {method!r}; pass an "
                f"estimator, such as TagPipeline(Sieve(), ...)",
                parameter=nested[0],
            )
        super().set_params(**params)
        return self

    def fit(
        self, X: Any, y: Any, *, label_names: Sequence[str] | None = None, **fit_params: Any
    ) -> "TagPipeline":
        """Train on a table and the tags of its rows.

        Parameters
        ----------
        X : DataFrame, dict of columns or list of dicts
        y : sequence of texts or of lists, or (n, l) 0/1 matrix
            Tags of the rows, some of them wrong.
        label_names : list of str, optional
            Names of the columns of a matrix.
        **fit_params
            Passed to the `fit` of the method. By default, the `groups` of `Sieve` are rows with
            their copies and edited versions, see `copies_left_out`.

        Returns
        -------
        TagPipeline
            The fitted pipeline.
        """
        features = TableFeatures(**{k: getattr(self, k) for k in TableFeatures().get_params()})
        tags = read_tags(y, label_names, self.separator)
        candidates = tags.dense()
        rows = arrays_of(features, X, candidates, learn=True)
        method = make_method(self.method, scaled=features.is_scaled, sparse=sp.issparse(rows))
        fit_params = copies_left_out(method, rows, candidates) | fit_params
        self.method_ = method.fit(rows, candidates, label_names=tags.names, **fit_params)
        self.features_ = features
        return self

    @classmethod
    def from_fitted(cls, features: TableFeatures, method: Any, separator: str = ";") -> Any:
        """Build a pipeline from fitted parts.

        Parameters
        ----------
        features : TableFeatures
            Fitted features.
        method : PartialMultiLabelClassifier
            A method fitted to these features.
        separator : str, default=";"
            Text between the tags of a cell.

        Returns
        -------
        TagPipeline
        """
        pipeline = cls(**features.get_params(), method=clone(method), separator=separator)
        pipeline.features_ = features
        pipeline.method_ = method
        return pipeline

    @property
    def label_names_(self) -> list[str]:
        """Names of the labels."""
        names: list[str] = self.method_.label_names_
        return names

    @property
    def classes_(self) -> Array:
        """Indices of the labels."""
        return np.asarray(self.method_.classes_)

    def decision_function(self, X: Any) -> Array:
        """Return the scores (n, l) of the rows of a table; higher means more likely true.

        Parameters
        ----------
        X : DataFrame, dict of columns or list of dicts
            Rows of a table with the same columns as in training.

        Returns
        -------
        (n, l) array of float
        """
        return np.asarray(self._method.decision_function(self._rows(X)))

    def predict(self, X: Any, *, threshold: Any = None) -> Array:
        """Return 0/1 predictions (n, l).

        Parameters
        ----------
        X : DataFrame, dict of columns or list of dicts
            Rows of a table with the same columns as in training.
        threshold : float, array or str, optional
            Overrides the `threshold` parameter of the method for this call.

        Returns
        -------
        (n, l) array of 0 and 1
        """
        return np.asarray(self._method.predict(self._rows(X), threshold=threshold))

    def predict_labels(self, X: Any, *, threshold: Any = None) -> list[list[str]]:
        """Return the names of the predicted labels, one list per row.

        Parameters
        ----------
        X : DataFrame, dict of columns or list of dicts
            Rows of a table with the same columns as in training.
        threshold : float, array or str, optional
            Overrides the `threshold` parameter of the method for this call.

        Returns
        -------
        list of list of str
        """
        return self._method.predict_labels(self._rows(X), threshold=threshold)

    def predict_proba(self, X: Any) -> Array:
        """Return the probability (n, l) that each label is true.

        Parameters
        ----------
        X : DataFrame, dict of columns or list of dicts
            Rows of a table with the same columns as in training.

        Returns
        -------
        (n, l) array of float
        """
        return np.asarray(self._method.predict_proba(self._rows(X)))

    def disambiguate(self, X: Any, candidates: Any) -> Array:
        """Return the probability (n, l) that each tag of new rows is true; 0 elsewhere.

        Parameters
        ----------
        X : DataFrame, dict of columns or list of dicts
        candidates : sequence of texts or of lists, or (n, l) 0/1 matrix
            Tags of the rows; all must have been seen during training.

        Returns
        -------
        (n, l) array of float
        """
        tags = read_tags(candidates, self.label_names_, self.separator)
        return np.asarray(self._method.disambiguate(self._rows(X), tags.dense()))

    def judge(self, X: Any, tags: Any, *, min_confidence: float = 0.5) -> list[Judgement]:
        """Judge the tags of new rows; tags not seen during training are listed without a verdict.

        Parameters
        ----------
        X : DataFrame, dict of columns or list of dicts
        tags : sequence of texts or of lists
        min_confidence : float
            Smallest probability for a tag to be suggested.

        Returns
        -------
        list of Judgement
            One per row.

        Examples
        --------
        >>> from schirn.features import TagPipeline
        >>> colours = ["red", "green", "white", "black", "grey", "brown", "pink"]
        >>> things = ["pan", "steel pan", "chair", "oak chair"]
        >>> titles = [f"{colour} {thing}" for colour in colours for thing in things]
        >>> tags = ["pan", "pan", "chair", "chair"] * 7
        >>> tagger = TagPipeline(text="title").fit({"title": titles}, tags)
        >>> (judgement,) = tagger.judge([{"title": "blue pan"}], [["chair", "wok"]])
        >>> list(judgement.confidence), judgement.unseen, list(judgement.suggestions)
        (['chair'], ['wok'], ['pan'])
        """
        names = self.label_names_
        rows = self._rows(X)
        matrix, others = read_tags(tags, None, self.separator).matched(names)
        confidence = self._method.disambiguate(rows, matrix)
        judgements = [Judgement({}, [], {}) for _ in matrix]
        for i, j in np.argwhere(matrix).tolist():
            judgements[i].confidence[names[j]] = float(confidence[i, j])
        for i, tag in others:
            judgements[i].unseen.append(tag)
        probability = np.where(matrix, 0.0, self._method.predict_proba(rows))
        for i, j in np.argwhere(probability >= min_confidence).tolist():
            judgements[i].suggestions[names[j]] = float(probability[i, j])
        return judgements

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the label-ranking average precision of the scores against the labels y.

        Parameters
        ----------
        X : DataFrame, dict of columns or list of dicts
            Rows of a table with the same columns as in training.
        y : sequence of texts or of lists, or (n, l) 0/1 matrix
            True labels.
        sample_weight : (n,) array, optional
            Weights of the rows.

        Returns
        -------
        float
        """
        tags = read_tags(y, self.label_names_, self.separator)
        return self._method.score(self._rows(X), tags.dense(), sample_weight)

    @property
    def _method(self) -> PartialMultiLabelClassifier:
        check_is_fitted(self, "method_")
        method: PartialMultiLabelClassifier = self.method_
        return method

    def _rows(self, X: Any) -> Any:
        check_is_fitted(self, "method_")
        return arrays_of(self.features_, X)


def copies_left_out(
    method: PartialMultiLabelClassifier, X: Any, candidates: Array
) -> dict[str, Array]:
    """Return the `groups` with which a fit never judges a row by its copies or edited versions.

    A copy that repeats the tags of a row would confirm the wrong ones. Similar rows with other tags
    were tagged independently and stay evidence.

    Parameters
    ----------
    method : estimator
        The method to be fitted.
    X : (n, d) array or CSR array
        Features of the training rows.
    candidates : (n, l) array of 0 and 1
        Candidates of the training rows.

    Returns
    -------
    dict
        Empty if no row has a copy, if the method cannot leave several rows out together, or if most
        rows have copies: then features are categories, and equal rows tell about each other.
    """
    if not isinstance(method, Sieve) or location(X) != "memory":
        return {}
    if not method.leaves_groups_out(X.shape[0], sp.issparse(X)):
        return {}
    similar = np.c_[TrainingRows.of(X).copy_groups(), equal_rows(candidates)]
    distinct, groups = np.unique(similar, axis=0, return_inverse=True)
    n_rows = len(groups)
    return {"groups": groups.ravel()} if n_rows / 2 <= len(distinct) < n_rows else {}


def make_method(
    method: Any, *, scaled: bool = False, sparse: bool = False
) -> PartialMultiLabelClassifier:
    """Return an unfitted method, given a name, a class, an estimator or None.

    Parameters
    ----------
    method : estimator, class, str or None
        None means `Sieve`. An estimator keeps its parameters.
    scaled : bool
        Whether the features are already scaled, as features of texts and pictures are; `Sieve` then
        does not scale them again.
    sparse : bool
        Whether the features are a sparse matrix, as features of texts are; then a linear kernel is
        as accurate, for any number of rows, and predicts faster.
    """
    if isinstance(method, str):
        method = find_method(method)
    elif method is None:
        method = Sieve
    if isinstance(method, type):
        options = {"features": "none", "kernel": "linear" if sparse else "rbf"}
        model = method(**(options if scaled and method is Sieve else {}))
    else:
        model = clone(method)
    if not isinstance(model, PartialMultiLabelClassifier):
        raise InputError(
            f"method must be a method of this library or its name, not {method!r}",
            parameter="method",
        )
    return model
