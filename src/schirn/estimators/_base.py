"""Base classes of all methods: validation, thresholds, calibration and the public contract."""

import inspect
import warnings
from abc import ABCMeta, abstractmethod
from collections.abc import Callable, Hashable, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from numbers import Real
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.utils import ClassifierTags, TargetTags
from sklearn.utils.validation import check_is_fitted

from schirn._checkpoint import (
    fit_settings,
    is_open,
    kept_in,
    no_section,
    remembered,
    section,
)
from schirn._input import (
    Array,
    Constraint,
    check_params,
    check_same_length,
    check_same_order,
    location,
    validated_rows,
)
from schirn._progress import shown, stage, untracked
from schirn._sklearn import BaseEstimator, ClassifierMixin
from schirn._text_features import TextFeatures, read_texts
from schirn.estimators._training_rows import TrainingRows
from schirn.exceptions import CentredFeaturesWarning, InputError
from schirn.labels.matrix import as_labels, check_empty_rows, label_lists
from schirn.linalg.arrays import is_device_array, near, pick, threads_for, to_numpy
from schirn.linalg.features import is_centred
from schirn.linalg.row_space import RowSpace, coarsest_gram_ridge, row_space
from schirn.noise.calibration import Calibration, calibrate
from schirn.noise.thresholds import (
    LabelThreshold,
    ThresholdRule,
    cardinality_threshold,
    label_threshold,
)
from schirn.scale.factor import LOG
from schirn.scale.fit import fit_rows, map_rows
from schirn.scale.input import check_device_rows, check_in_memory
from schirn.solvers.self_tuning import Filters, Point, search_grid, search_rows

# An SVD of this many operations takes seconds; larger searches use Gram matrices only.
_SVD_OPERATIONS = 1e9
_PLACES = {"device": "on a device", "dask": "on Dask workers", "files": "in files"}


class Fit(NamedTuple):
    """Result of training, as returned by `_fit`.

    Attributes
    ----------
    noise : (n, l) bool array or None
        Candidates judged wrong; None means those with a confidence below one half.
    scores : (n, l) array
        Scores of the training rows, leave-one-out if the method has them.
    n_iter : int
    objective : array
        Value of the objective after each round.
    confidence : (n, l) array or None
        The method's own label confidences; None means the calibrated posterior of the scores.
    """

    noise: Array | None
    scores: Array
    n_iter: int
    objective: Array
    confidence: Array | None = None


class MethodInfo(NamedTuple):
    """What `schirn methods` prints about a method.

    Attributes
    ----------
    family : str
        The kind of method, in a few words.
    reference : str
        Title of the paper.
    cost, memory : str
        Complexity of a fit with n rows, d features and l labels.
    reconstructed : bool
        Whether details that the paper leaves open had to be filled in.
    """

    family: str
    reference: str
    cost: str
    memory: str
    reconstructed: bool = False


class PartialMultiLabelClassifier(ClassifierMixin, BaseEstimator, metaclass=ABCMeta):
    """Base class of all methods. Subclasses implement `_fit` and `_scores`.

    `predict_proba` is calibrated without true labels: a sigmoid of the score and the rate at which
    false labels are listed are fitted together to the candidates of the training rows (see
    `schirn.noise.calibration`), using leave-one-out scores if the method has them.
    """

    _constraints: ClassVar[dict[str, Constraint]] = {}
    _info: ClassVar[MethodInfo]
    row_locations: ClassVar[tuple[str, ...]] = ()
    """Where rows may be besides main memory (see `schirn._input.location`). A method that
    lists any location implements `_fit_blocks(store, layout)` for `schirn.scale.fit`."""
    _takes_sparse: ClassVar[bool] = True
    """Whether X may be sparse; a dense-only method raises InputError for sparse features."""
    _continues: ClassVar[tuple[str, ...]] = ()
    """Where rows may be for a killed fit to be resumed. A method that lists any location has a
    `checkpoint` parameter."""
    threshold: ThresholdRule
    checkpoint: Any

    def fit(self, X: Any, y: Any, *, label_names: Sequence[str] | None = None) -> Self:
        """Train on rows and their candidate labels.

        Parameters
        ----------
        X : (n, d) array, CSR matrix or DataFrame, or sequence of n texts
            Texts are converted by `TextFeatures`, and later calls then take texts too. Some methods
            also take arrays on a device, Dask arrays and files (docs/scale.md).
        y : array-like
            The candidates: 0/1 or bool array, sparse matrix, DataFrame, or a list with one list of
            label names per row.
        label_names : list of str or None
            Names of the label columns, for candidates that carry none.

        Returns
        -------
        PartialMultiLabelClassifier
            The fitted estimator.
        """
        self._fit_checked(X, y, label_names)
        return self

    def _fit_checked(self, X: Any, y: Any, label_names: Any, **extras: Any) -> None:
        """Validate the data, call `_fit` with `extras`, and set the fitted attributes.

        With `verbose`, progress is reported. An error restores the previous state.
        """
        self._check()
        check_same_order(("X", X), ("y", y), *extras.items())
        state = dict(vars(self))
        self._forget_fit()
        try:
            with ExitStack() as around:
                if self._continues and self.checkpoint is not None:
                    around.enter_context(kept_in(self.checkpoint))
                if getattr(self, "verbose", False):
                    around.enter_context(shown(type(self).__name__))
                if location(X) in self.row_locations:
                    self._fit_elsewhere(X, y, label_names)
                    return
                X = self._validate_rows(X, reset=True)
                labels = as_labels(y, names=label_names)
                check_same_length(X.shape[0], len(labels.matrix))
                check_empty_rows(np.flatnonzero(~labels.matrix.any(axis=1)), labels.matrix.shape)
                self._set_labels(labels.names, y)
                if not getattr(self, "fit_intercept", True):
                    self._check_centring(X)
                if is_open():
                    around.enter_context(self._section(X, labels.matrix, *extras.values()))
                fit = self._fit(X, labels.matrix, **extras)
                self._finish(fit, labels.matrix)
                self._remember(X, fit.scores)
        except BaseException as error:
            self.__dict__ = state
            if isinstance(error, np.linalg.LinAlgError):
                raise self._not_finite(str(error)) from error
            raise

    def _forget_fit(self) -> None:
        """Delete the attributes of an earlier fit.

        Which attributes a fit sets depends on where the rows are: only rows in memory, for example,
        are recognised later.
        """
        parameters = self.get_params(deep=False)
        for name in list(vars(self)):
            is_fitted = name.endswith("_") and not name.startswith("_")
            if name not in parameters and (is_fitted or name == "_cardinality_cut"):
                delattr(self, name)

    def _fit_elsewhere(self, X: Any, y: Any, label_names: Any) -> None:
        """Train on rows that are not in main memory."""
        with self._section(X, y) if is_open() else nullcontext():
            fit_rows(self, X, y, label_names)

    def _check_centring(self, X: "Array | sp.csr_array") -> None:
        """Warn about centred features, which need an intercept."""
        if is_centred(X):
            warnings.warn(
                "the features are centred, so without an intercept the scores cannot represent "
                f"label frequencies; use {type(self).__name__}(fit_intercept=True)",
                CentredFeaturesWarning,
                stacklevel=4,
            )

    def _section(self, X: Any, *data: Any) -> AbstractContextManager[None]:
        """Section of the open checkpoint that belongs to this fit."""
        if not self._continues:
            return no_section()
        name = type(self).__name__
        where = location(X)
        if where not in self._continues:
            raise InputError(
                f"{name} keeps no checkpoint of rows {_PLACES[where]}; leave checkpoint out",
                parameter="checkpoint",
            )
        params = fit_settings(self)["params"]
        if params.get("random_state", 0) is None:
            raise InputError(
                f"a fit of {name} with random_state=None cannot be continued; set it to a number",
                parameter="checkpoint",
            )
        # The state of a fit differs between rows in blocks and rows in memory.
        return section(name, {**params, "rows": where}, X, *data)

    def _check(self) -> None:
        """Raise InputError for invalid constructor parameters."""
        check_params(self.get_params(deep=False), self._constraints)

    def _not_finite(self, reason: str) -> InputError:
        """Return the error to raise when a fit has no finite result."""
        extreme = [
            f"{name}={value!r}"
            for name, value in self.get_params(deep=False).items()
            if isinstance(value, Real) and not 1e-12 <= abs(float(value) or 1.0) <= 1e12
        ]
        cause = f"{', '.join(extreme)} may be too extreme; " if extreme else ""
        return InputError(
            f"{type(self).__name__} found no finite solution ({reason}); {cause}choose other "
            f"parameters, scale the features, or pass X in double precision"
        )

    @abstractmethod
    def _fit(self, X: "Array | sp.csr_array", Y: Array) -> Fit:
        """Train on validated data, and set the attributes that `_scores` needs."""

    @abstractmethod
    def _scores(self, X: "Array | sp.csr_array") -> Array:
        """Return the scores (n, l) of validated rows."""

    def _share_key(self) -> Hashable | None:
        """Models with equal keys can share a factorisation; None if the model cannot share any."""
        return None

    def _share(self, models: Sequence[Any], train: Any, test: Any) -> Callable[[Any, Array], Array]:
        """Factor once for models with equal keys; return a function (model, Y) -> test scores."""
        raise TypeError(f"{type(self).__name__} shares nothing between models")

    def decision_function(self, X: Any) -> Array:
        """Return scores (n, l); higher means more likely true.

        Dask arrays give lazy scores; arrays on a device give scores on that device.

        Parameters
        ----------
        X : (n, d) array, CSR matrix or DataFrame
            Some methods also take rows on a device, in files or on Dask workers.

        Returns
        -------
        (n, l) array of float
        """
        check_is_fitted(self)
        where = location(X)
        if where in ("dask", "files"):
            return self._map("decision_function", X)
        if where == "device" and "device" in self.row_locations:
            return self._scores(check_device_rows(self, X))
        return self._scores(self._validate_rows(X))

    def predict(self, X: Any, *, threshold: ThresholdRule | None = None) -> Array:
        """Return 0/1 predictions (n, l).

        Parameters
        ----------
        X : (n, d) array, CSR matrix or DataFrame
        threshold : float, array or str, optional
            Overrides the `threshold` parameter of the estimator for this call.

        Returns
        -------
        (n, l) array of 0 and 1
        """
        if location(X) in ("dask", "files"):
            return self._map("predict", X, threshold=threshold)
        return self.apply_threshold(self.decision_function(X), threshold=threshold)

    def apply_threshold(self, scores: Array, *, threshold: ThresholdRule | None = None) -> Array:
        """Turn scores (n, l) returned by `decision_function` into the predictions of `predict`.

        Parameters
        ----------
        scores : (n, l) array
        threshold : float, array or str, optional
            Overrides the `threshold` parameter of the estimator for this call.

        Returns
        -------
        (n, l) array of 0 and 1
        """
        rule = self.threshold_ if threshold is None else self._make_threshold(threshold)
        predicted = rule.apply(scores)
        if is_device_array(predicted):
            return predicted
        return predicted.astype(self._label_dtype, copy=False)

    def predict_labels(self, X: Any, *, threshold: ThresholdRule | None = None) -> list[list[str]]:
        """Return the names of the predicted labels, one list per row.

        Parameters
        ----------
        X : (n, d) array, CSR matrix or DataFrame
        threshold : float, array or str, optional
            Overrides the `threshold` parameter of the estimator for this call.

        Returns
        -------
        list of list of str
        """
        return label_lists(self.predict(X, threshold=threshold), self.label_names_)

    def predict_proba(self, X: Any) -> Array:
        """Return the probability (n, l) that each label is true, calibrated on candidates only.

        Parameters
        ----------
        X : (n, d) array, CSR matrix or DataFrame

        Returns
        -------
        (n, l) array of float
        """
        if location(X) in ("dask", "files"):
            return self._map("predict_proba", X)
        scores = self.decision_function(X)
        return self.calibration_.probability(scores)

    def _map(self, name: str, X: Any, **options: Any) -> Any:
        """Apply a method to every block of X."""
        check_is_fitted(self)
        return map_rows(self, name, X, len(self.label_names_), **options)

    def disambiguate(self, X: Any, candidates: Any) -> Array:
        """Return the probability (n, l) that each candidate of new rows is true; 0 elsewhere.

        Label names and DataFrame columns are matched to the labels seen during training.

        Parameters
        ----------
        X : (n, d) array, CSR matrix or DataFrame
        candidates : array-like of shape (n, l), or list of lists of str
            In any container that `fit` takes.

        Returns
        -------
        (n, l) array of float
        """
        scores = self.held_out_scores(X)
        Y = self._candidates_of(X, candidates, len(scores))
        return near(self.calibration_.confidence(to_numpy(scores), Y), scores)

    def _candidates_of(self, X: Any, candidates: Any, n_rows: int) -> Array:
        """Return the candidates of new rows as a 0/1 matrix, with the labels of training."""
        check_same_order(("X", X), ("candidates", candidates))
        labels = as_labels(candidates, names=self.label_names_)
        check_same_length(n_rows, len(labels.matrix))
        return labels.matrix

    def training_row_of(self, X: Any) -> Array:
        """Find training rows, their copies and edited versions among new rows.

        Parameters
        ----------
        X : (n, d) array, CSR matrix or DataFrame

        Returns
        -------
        (n,) int array
            Index of the training row, or -1 if there is none. Always -1 for a model that was saved
            without its training rows, or trained on rows in files, on a device or on workers.
        """
        check_is_fitted(self)
        rows = getattr(self, "training_rows_", None)
        if rows is None or location(X) != "memory":
            return np.full(X.shape[0] if hasattr(X, "shape") else len(X), -1)
        return rows.find(self._validate_rows(X))

    def held_out_scores(self, X: Any) -> Array:
        """Return scores (n, l) that do not depend on the labels of the scored row itself.

        A model tends to reproduce the labels it was trained on, including the wrong ones. A
        training row therefore gets the scores that were computed during training with the row left
        out. An edited training row gets the scores of `decision_function` minus the influence of
        the training row on its own scores. All other rows get the scores of `decision_function`.

        Parameters
        ----------
        X : (n, d) array, CSR matrix or DataFrame

        Returns
        -------
        (n, l) array of float
        """
        scores = self.decision_function(X)
        row = self.training_row_of(X)
        is_known = row >= 0
        if is_known.any():
            scores = np.array(scores)
            scores[is_known] -= self.training_influence_[row[is_known]]
        return scores

    def _remember(self, X: "Array | sp.csr_array", scores: Array) -> None:
        """Store what `held_out_scores` needs, given leave-one-out scores of the training rows."""
        self.training_rows_ = TrainingRows.of(X)
        self.training_influence_ = self._scores(X) - scores

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the label-ranking average precision of the scores against the labels y.

        Parameters
        ----------
        X : (n, d) array, CSR matrix or DataFrame
        y : array-like of shape (n, l), or list of lists of str
            True labels.
        sample_weight : (n,) array, optional
            Weights of the rows.

        Returns
        -------
        float
        """
        # Imported here because it is slow to import and `fit` does not need it.
        from sklearn.metrics import label_ranking_average_precision_score

        check_is_fitted(self)
        check_same_order(("X", X), ("y", y), ("sample_weight", sample_weight))
        labels = as_labels(y, names=self.label_names_, what="labels")
        scores = to_numpy(self.decision_function(X))
        weights = {"sample_weight": sample_weight}
        return float(label_ranking_average_precision_score(labels.matrix, scores, **weights))

    def _validate_rows(self, X: Any, reset: bool = False) -> "Array | sp.csr_array":
        if location(X) != "memory":
            check_in_memory(type(self).__name__, X)
        X = self._features_of_texts(X, reset)
        if sp.issparse(X) and not self._takes_sparse:
            raise InputError(
                f"{type(self).__name__} takes dense features only, but X is sparse; "
                f"pass X.toarray() if it fits into memory"
            )
        return validated_rows(self, X, reset)

    def _features_of_texts(self, X: Any, reset: bool) -> Any:
        """Convert texts to features; return any other X unchanged."""
        if reset:
            vars(self).pop("text_features_", None)
        if isinstance(X, str):
            raise InputError("X must be a sequence of texts, not one text")
        texts = read_texts(X)
        if texts is None:
            return X
        if reset:
            self.text_features_ = TextFeatures()
            return self.text_features_.fit_transform(texts)
        if "text_features_" not in vars(self):
            raise InputError(
                f"X holds texts, but {type(self).__name__} was fitted to rows of "
                f"{self.n_features_in_} numbers"
            )
        return self.text_features_.transform(texts)

    def _finish(self, fit: Fit, Y: Array) -> None:
        """Set the fitted attributes that all methods share."""
        if not np.isfinite(fit.scores).all():
            raise self._not_finite("the scores overflow")
        self.n_iter_ = fit.n_iter
        self.objective_ = fit.objective
        self.calibration_ = self._calibrate(fit.scores, Y)
        confidence = fit.confidence
        if confidence is None:
            confidence = self.calibration_.confidence(fit.scores, Y)
        noise = (Y == 1) & (confidence < 0.5) if fit.noise is None else fit.noise
        self._set_verdicts(noise, confidence, fit.scores, Y)

    def _set_labels(self, names: list[str], y: Any) -> None:
        """Set the label names and the integer type of the predictions."""
        self.label_names_ = names
        self._label_dtype = _integer_type(y)
        self.classes_ = np.arange(max(len(names), 2))

    def _set_verdicts(self, noise: Any, confidence: Any, scores: Array, listed: Array) -> None:
        """Set `noise_`, the confidences and the thresholds; `scores` may be those of a sample."""
        self.noise_ = noise
        self.label_confidence_ = confidence
        self.cardinality_ = float(confidence.sum(dtype=np.float64) / confidence.shape[0])
        self._learn_thresholds(scores, listed)

    def _learn_thresholds(self, scores: Array, Y: Array) -> None:
        """Learn what thresholds need from scores of training rows, and set `threshold_`."""
        self._cardinality_cut = cardinality_threshold(scores, self.cardinality_)
        self.threshold_ = self._make_threshold(self.threshold)

    def _calibrate(self, scores: Array, Y: Array) -> Calibration:
        return calibrate(scores, Y)

    def _make_threshold(self, rule: ThresholdRule) -> LabelThreshold:
        if isinstance(rule, str) and rule == "cardinality":
            return self._cardinality_cut
        return label_threshold(rule, len(self.label_names_))

    def _solver_options(self, solver: Callable[..., Any]) -> dict[str, Any]:
        """Return the parameters of the estimator that the solver takes by the same name."""
        names = inspect.signature(solver).parameters
        return {k: v for k, v in self.get_params(deep=False).items() if k in names}

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = self._takes_sparse
        tags.target_tags = TargetTags(
            required=True, two_d_labels=True, multi_output=True, single_output=False
        )
        tags.classifier_tags = ClassifierTags(multi_class=False, multi_label=True)
        return tags


class LinearMethod(PartialMultiLabelClassifier):
    """A method with scores X W + b; `coef_` is (l, d) and `intercept_` is (l,)."""

    def _scores(self, X: "Array | sp.csr_array") -> Array:
        scores = X @ near(self.coef_, X).T
        return (np.asarray(scores) if sp.issparse(X) else scores) + near(self.intercept_, X)

    def _set_weights(self, space: RowSpace, w: Array) -> None:
        W, self.intercept_ = space.coefficients(w)
        self.coef_ = np.ascontiguousarray(W.T)


class RowSpaceMethod(LinearMethod):
    """A linear method whose solver needs X only as a `RowSpace`.

    A parameter search then factors each fold once and calls `_coordinates` instead of `fit`.
    """

    fit_intercept: bool
    lam_: float
    _grid: ClassVar[dict[str, tuple[float, ...]]] = {}
    """Values to try for each parameter that may be None, in order of preference."""
    _untuned: ClassVar[dict[str, float]] = {}
    """Values to use if no held-out row can be scored."""
    _search_rounds: ClassVar[int] = 3
    """Number of rounds after which a search approximates the noise found by a full fit."""

    def _is_open(self) -> bool:
        """Return True if `fit` has to choose a parameter."""
        return any(getattr(self, name) is None for name in self._grid)

    def _numbers(self) -> dict[str, Any]:
        """Return the parameters of `_grid`, as given or as chosen by `_choose`."""
        values = {name: getattr(self, name) for name in self._grid}
        return {k: getattr(self, f"{k}_") if v is None else v for k, v in values.items()}

    def _points(self, values: dict[str, Sequence[float]]) -> list[Point]:
        """Return the points of a grid, in order of preference."""
        raise TypeError(f"{type(self).__name__} has no grid")

    def _filters(self, space: RowSpace, which: Sequence[tuple[float, ...]]) -> Filters:
        """Return the filters that `schirn.solvers.self_tuning` needs for the given points."""
        raise TypeError(f"{type(self).__name__} has no grid")

    def _choose(self, X: Any, Y: Any, n: int | None = None) -> None:
        """Set `search_` and the parameters used by this fit, such as `lam_`.

        X and Y may be a sample of n rows. Large X are sampled here.
        """
        values = {name: getattr(self, name) for name in self._grid}
        self.search_: dict[str, Any] | None = None
        chosen = {name: value for name, value in values.items() if value is not None}
        if self._is_open():
            open_values = {k: self._grid[k] if v is None else (v,) for k, v in values.items()}
            best, self.search_ = remembered("search", lambda: self._search(X, Y, n, open_values))
            chosen = self._untuned | chosen | best
        for name, value in chosen.items():
            setattr(self, f"{name}_", value)

    def _search(
        self, X: Any, Y: Any, n: int | None, values: dict[str, Any]
    ) -> tuple[dict[str, float], dict[str, Any] | None]:
        """Return the best parameters and the scores of all points that were tried."""
        n = n or X.shape[0]
        rows = search_rows(*X.shape)
        if rows < X.shape[0]:
            sample = np.sort(np.random.RandomState(0).permutation(X.shape[0])[:rows])
            X = pick(X, sample)
            Y = Y[sample]
        Y = Y.toarray() if sp.issparse(Y) else Y
        points = self._points(values)
        if sp.issparse(X) or np.prod(X.shape) * min(X.shape) > _SVD_OPERATIONS or n > X.shape[0]:
            # With features on very different scales, smaller ridge weights would need an SVD.
            lowest = coarsest_gram_ridge(X) * max(1.0, n / max(1, rows))
            points = [point for point in points if point.ridge >= lowest] or [
                max(points, key=lambda point: point.ridge)
            ]
        with threads_for(2 * X.shape[0] * min(X.shape) * Y.shape[1]):
            result = search_grid(
                X,
                Y,
                points,
                self._filters,
                rounds=self._search_rounds,
                fit_intercept=self.fit_intercept,
                fit=self._fit_point,
            )
        if result is None:
            LOG.info("%s: no held-out row can be scored, so nothing is tuned", type(self).__name__)
            return {}, None
        columns = {name: np.array([point.params[name] for point in points]) for name in values}
        table = {**columns, "score": result.score, "rounds": result.rounds, "rows": rows}
        return result.best, table

    def _fit_point(self, space: RowSpace, Y: Array, params: dict[str, float]) -> Array:
        with untracked(), no_section():
            return clone(self).set_params(**params)._coordinates(space, Y)

    @abstractmethod
    def _smallest_ridge(self) -> float:
        """Return the smallest weight that the solver adds to the squared singular values."""

    @abstractmethod
    def _coordinates(self, space: RowSpace, Y: Array) -> Array:
        """Return only the coordinates w of the weights in the row space."""

    @abstractmethod
    def _fit_space(self, space: RowSpace, Y: Array) -> Fit:
        """Train on factored features."""

    def _share_key(self) -> Hashable | None:
        return None if self._is_open() else self.fit_intercept

    def _share(self, models: Sequence[Any], train: Any, test: Any) -> Callable[[Any, Array], Array]:
        ridge = min(model._smallest_ridge() for model in models)
        space = row_space(train, ridge=ridge, fit_intercept=self.fit_intercept)
        rows = space.transform(test)
        return lambda model, Y: rows @ model._coordinates(space, Y)

    def _fit(self, X: "Array | sp.csr_array", Y: Array) -> Fit:
        self._choose(X, Y)
        stage("factoring the features")
        ridge = self._smallest_ridge()
        return self._fit_space(row_space(X, ridge=ridge, fit_intercept=self.fit_intercept), Y)


def sees_truth(method: Any) -> bool:
    """Return True if a method can learn from true labels, that is, if its `fit` takes `y_clean`."""
    return "y_clean" in inspect.signature(method.fit).parameters


def _integer_type(y: Any) -> str:
    """Return the integer type of the predictions: that of the candidates, or int64."""
    dtype = getattr(y, "dtype", None)
    return dtype.str if isinstance(dtype, np.dtype) and dtype.kind in "iu" else "<i8"
