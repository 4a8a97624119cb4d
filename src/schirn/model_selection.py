"""Tuning that sees candidate labels only."""

import os
import time
import warnings
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from joblib import Parallel, delayed
from scipy.stats import rankdata
from sklearn.base import BaseEstimator, MetaEstimatorMixin, clone
from sklearn.model_selection import KFold, ParameterGrid, check_cv
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from schirn._checkpoint import kept_in, load, no_section, save, section
from schirn._input import Array
from schirn._progress import shown, stage, track
from schirn.estimators import PartialMultiLabelClassifier, RowSpaceMethod, sees_truth
from schirn.exceptions import EmptyCandidatesWarning, InputError
from schirn.labels.matrix import as_labels
from schirn.linalg.arrays import is_device_array, like, to_numpy
from schirn.metrics import METRICS
from schirn.scale.input import check_device_rows

Split = tuple[Array, Array]

# Parameters that do not change a search.
_FREE = {"checkpoint", "verbose", "n_jobs", "refit"}


class _Result(NamedTuple):
    """Score and seconds of one parameter setting on one fold."""

    score: float
    fit_time: float
    score_time: float


def _best_has(name: str) -> Callable[["CandidateSearchCV"], bool]:
    def check(search: "CandidateSearchCV") -> bool:
        return hasattr(getattr(search, "best_estimator_", search.estimator), name)

    return check


@dataclass(eq=False, repr=False)
class CandidateSearchCV(MetaEstimatorMixin, BaseEstimator):
    """Search over parameters, scored on the candidates of held-out rows.

    Noisy data have no true labels to tune on. Under random noise, candidate frequencies are ordered
    like true frequencies, so a model that ranks the candidates of unseen rows better also ranks
    their true labels better.

    Methods based on one factorisation of X (Sieve, Schirn, NLR, GLC, PMLLENFN, PMLPLR, PMLMA, the
    ridges) factor it once per fold, whatever the size of the grid.

    Parameters
    ----------
    estimator : estimator
        Any method of this library, or an estimator with `decision_function`.
    param_grid : dict of lists, or list of dicts
        Parameter names and the values to try, as for `sklearn.model_selection.ParameterGrid`.
    scoring : str or callable
        Name of a metric of `schirn.metrics`, or a function f(labels, scores); higher is better.
    cv : int, splitter or list of (train, test)
        Number of folds (shuffled by `random_state`), a splitter, or a list of (train, test).
    refit : bool
        Train the best setting on all rows.
    oracle : bool
        Score on the true labels `y_clean` given to `fit`, as the literature does. For reports only;
        the results are marked "oracle".
    n_jobs : int or None
        Parallel jobs over folds.
    random_state : int or None
        Seed of the shuffled folds.
    checkpoint : path, optional
        Folder for the folds that are done. A search that was killed goes on there if it is started
        again with the same data and parameters; when it is done, the folder is removed.
    verbose : bool
        Show fold, setting, share done and time left on stderr.

    Attributes
    ----------
    cv_results_ : dict of arrays as in scikit-learn's searches, and `tuned_on`
    best_params_, best_score_, best_index_, best_estimator_
    tuned_on_ : "candidates" or "truth (oracle)"
    n_splits_, refit_time_

    Examples
    --------
    >>> from schirn import CandidateRidge
    >>> from schirn.datasets import make_partial_multilabel
    >>> data = make_partial_multilabel(n_samples=200, n_labels=6, r=1, random_state=0)
    >>> search = CandidateSearchCV(CandidateRidge(), {"lam": [0.1, 10.0, 1000.0]})
    >>> search.fit(data.X, data.candidates).tuned_on_
    'candidates'
    """

    estimator: Any
    param_grid: Mapping[str, Sequence[Any]] | Sequence[Mapping[str, Sequence[Any]]]
    _: KW_ONLY
    scoring: str | Callable[[Array, Array], float] = "average_precision"
    cv: Any = 5
    refit: bool = True
    oracle: bool = False
    n_jobs: int | None = None
    random_state: int | None = 0
    checkpoint: str | os.PathLike[str] | None = None
    verbose: bool = False

    def fit(
        self, X: Any, y: Any, *, y_clean: Any = None, groups: Any = None
    ) -> "CandidateSearchCV":
        """Search, and train the best setting on all rows.

        Parameters
        ----------
        X : (n, d) array, CSR matrix or DataFrame
            Tensors on a device stay there, for methods that train on one.
        y : array-like
            The candidates, in any container that the methods take.
        y_clean : array-like or None
            The true labels; only with `oracle=True`.
        groups : array-like or None
            Groups of rows, for splitters that use them.

        Returns
        -------
        CandidateSearchCV
            The object itself.
        """
        settings = list(ParameterGrid(self.param_grid))
        labels = as_labels(y)
        self._label_names = labels.names
        truth = self._truth(y_clean, labels.names)
        self._metric()  # An unknown name is an error before any work.
        splits = self._splits(X, labels.matrix, groups)
        params = {k: v for k, v in self.get_params(deep=False).items() if k not in _FREE}
        with (
            kept_in(self.checkpoint),
            shown(type(self).__name__, self.verbose),
            section(type(self).__name__, params, X, labels.matrix, truth, groups, *splits),
        ):
            state = load("folds")
            results = [] if state is None else [[_Result(*e) for e in f] for f in state["results"]]
            folds = Parallel(n_jobs=self.n_jobs, return_as="generator")(
                delayed(self._run_fold)(settings, X, labels.matrix, truth, split)
                for split in splits[len(results) :]
            )
            for result in track(folds, "fold", len(splits) - len(results), before=len(results)):
                results.append(result)
                save("folds", {"results": results})
            self.tuned_on_ = "candidates" if truth is None else "truth (oracle)"
            self.n_splits_ = len(splits)
            self.cv_results_ = _cv_results(settings, results, self.tuned_on_)
            if np.isnan(self.cv_results_["mean_test_score"]).all():
                raise InputError(
                    "no parameter setting could be scored: no held-out row has both listed and "
                    "unlisted labels; use fewer folds or another scoring"
                )
            self.best_index_ = int(np.nanargmax(self.cv_results_["mean_test_score"]))
            self.best_params_ = settings[self.best_index_]
            self.best_score_ = float(self.cv_results_["mean_test_score"][self.best_index_])
            if self.refit:
                stage("training on all rows")
                start = time.perf_counter()
                self.best_estimator_ = clone(self.estimator).set_params(**self.best_params_)
                _fit_model(self.best_estimator_, X, y, y_clean)
                self.refit_time_ = time.perf_counter() - start
        return self

    @available_if(_best_has("decision_function"))
    def decision_function(self, X: Any) -> Array:
        """Scores of the best estimator."""
        return self._best().decision_function(X)

    @available_if(_best_has("predict"))
    def predict(self, X: Any, **options: Any) -> Array:
        """0/1 predictions of the best estimator."""
        return self._best().predict(X, **options)

    @available_if(_best_has("predict_proba"))
    def predict_proba(self, X: Any) -> Array:
        """Probabilities of the best estimator."""
        return self._best().predict_proba(X)

    @available_if(_best_has("disambiguate"))
    def disambiguate(self, X: Any, candidates: Any) -> Array:
        """Probability that each candidate of unseen rows is true, by the best estimator."""
        return self._best().disambiguate(X, candidates)

    def score(self, X: Any, y: Any) -> float:
        """Return the metric of the search on the labels y.

        Parameters
        ----------
        X : (n, d) array, CSR matrix or DataFrame
        y : array-like
            True labels.

        Returns
        -------
        float
        """
        names = getattr(self._best(), "label_names_", self._label_names)
        labels = as_labels(y, names=names, what="labels")
        response = self.predict(X) if self._by_prediction() else self.decision_function(X)
        return self._metric()(labels.matrix, response)

    @property
    def classes_(self) -> Array:
        """Indices of the labels."""
        return self._best().classes_

    @property
    def noise_(self) -> Array:
        """Candidates that the best estimator judges to be wrong."""
        return self._best().noise_

    @property
    def label_confidence_(self) -> Array:
        """Label confidences of the best estimator."""
        return self._best().label_confidence_

    def _best(self) -> Any:
        check_is_fitted(self, "best_estimator_")
        return self.best_estimator_

    def _truth(self, y_clean: Any, names: list[str]) -> Array | None:
        if self.oracle and y_clean is None:
            raise InputError(
                "oracle=True scores on true labels; pass them as y_clean", parameter="y_clean"
            )
        if y_clean is not None and not self.oracle:
            raise InputError(
                "y_clean was given, but a search on candidates must not see true labels; "
                "omit it, or set oracle=True for a report",
                parameter="y_clean",
            )
        if y_clean is None:
            return None
        return as_labels(y_clean, names=names, what="true labels").matrix

    def _metric(self) -> Callable[[Array, Array], float]:
        if callable(self.scoring):
            return self.scoring
        if self.scoring not in METRICS:
            raise InputError(
                f"scoring must be one of {', '.join(METRICS)} or a function, got {self.scoring!r}",
                parameter="scoring",
            )
        metric = METRICS[self.scoring]
        sign = 1.0 if metric.greater_is_better else -1.0
        return lambda labels, scores: sign * metric.function(labels, scores)

    def _by_prediction(self) -> bool:
        """Return True if the metric needs the output of `predict`."""
        return not callable(self.scoring) and METRICS[self.scoring].response == "predict"

    def _splits(self, X: Any, Y: Array, groups: Any) -> list[Split]:
        splitter = self.cv
        if isinstance(splitter, Integral):
            splitter = KFold(int(splitter), shuffle=True, random_state=self.random_state)
        return list(check_cv(splitter).split(X, Y, groups))

    def _run_fold(
        self, settings: list[dict[str, Any]], X: Any, Y: Array, truth: Array | None, split: Split
    ) -> list[_Result]:
        """Fit and score all settings on one fold."""
        train, test = split
        rows = _rows(X, train), _rows(X, test)
        models = [clone(self.estimator).set_params(**setting) for setting in settings]
        for model in models:
            # The search itself saves finished work.
            if getattr(model, "_continues", ()):
                model.set_params(checkpoint=None)
        truth_train = None if truth is None else truth[train]
        target = (Y if truth is None else truth)[test]
        shared = not self._by_prediction() and all(_shares(model, X) for model in models)
        fit_models = self._fit_shared if shared else self._fit_each
        with warnings.catch_warnings(), no_section():
            # The final fit on all rows warns about these rows.
            warnings.simplefilter("ignore", EmptyCandidatesWarning)
            return fit_models(models, *rows, Y[train], truth_train, target)

    def _fit_each(
        self, models: list[Any], train: Any, test: Any, Y: Array, truth: Array | None, target: Array
    ) -> list[_Result]:
        """Fit and score each setting separately."""
        results = []
        for model in track(models, "setting"):
            start = time.perf_counter()
            _fit_model(model, train, Y, truth)
            fitted = time.perf_counter()
            response = model.predict if self._by_prediction() else model.decision_function
            score = self._held_out_score(target, response(test))
            results.append(_Result(score, fitted - start, time.perf_counter() - fitted))
        return results

    def _fit_shared(
        self, models: list[Any], train: Any, test: Any, Y: Array, truth: Array | None, target: Array
    ) -> list[_Result]:
        """Fit and score all settings, with one factorisation for those with the same key."""
        if is_device_array(train):
            train, test = (check_device_rows(models[0], X, reset=True) for X in (train, test))
        else:
            train = models[0]._validate_rows(train, reset=True)
            test = models[0]._validate_rows(test)
        groups: dict[Hashable, list[int]] = {}
        for k, model in enumerate(models):
            model._check()
            groups.setdefault(model._share_key(), []).append(k)
        results: list[_Result] = [_Result(np.nan, 0.0, 0.0)] * len(models)
        for members in track(groups.values(), "factorisation"):
            stage("factoring the features")
            start = time.perf_counter()
            scores = models[members[0]]._share([models[k] for k in members], train, test)
            share = (time.perf_counter() - start) / len(members)
            for k in track(members, "setting"):
                start = time.perf_counter()
                learns = truth if truth is not None and sees_truth(models[k]) else Y
                test_scores = scores(models[k], learns)
                fitted = time.perf_counter()
                score = self._held_out_score(target, test_scores)
                results[k] = _Result(score, fitted - start + share, time.perf_counter() - fitted)
        return results

    def _held_out_score(self, labels: Array, scores: Array) -> float:
        """The score, or NaN if the fold has no row that the metric can score."""
        try:
            return float(self._metric()(labels, to_numpy(scores)))
        except InputError:
            return np.nan

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        inner = self.estimator.__sklearn_tags__()
        tags.estimator_type = inner.estimator_type
        tags.input_tags = inner.input_tags
        tags.classifier_tags = inner.classifier_tags
        tags.target_tags = inner.target_tags
        return tags


def _shares(model: Any, X: Any) -> bool:
    """Whether models can share a factorisation of X; on a device only factors of X itself."""
    kind = RowSpaceMethod if is_device_array(X) else PartialMultiLabelClassifier
    return isinstance(model, kind) and model._share_key() is not None


def _fit_model(model: Any, X: Any, y: Any, y_clean: Any) -> None:
    """Train; pass the truth only to a method that takes it."""
    if y_clean is not None and sees_truth(model):
        model.fit(X, y, y_clean=y_clean)
    else:
        model.fit(X, y)


def _rows(X: Any, rows: Array) -> Any:
    """Some rows of an array, a sparse matrix or a table."""
    if hasattr(X, "iloc"):
        return X.iloc[rows]
    if is_device_array(X):
        return X[like(rows, X, "own")]
    return sp.csr_array(X)[rows] if sp.issparse(X) else np.asarray(X)[rows]


def _cv_results(
    settings: list[dict[str, Any]], folds: list[list[_Result]], tuned_on: str
) -> dict[str, Any]:
    """`cv_results_` in scikit-learn's layout."""
    scores = np.array([[result.score for result in fold] for fold in folds])
    results: dict[str, Any] = {"params": settings}
    for name in sorted({name for setting in settings for name in setting}):
        values = np.ma.masked_all(len(settings), dtype=object)
        for k, setting in enumerate(settings):
            if name in setting:
                values[k] = setting[name]
        results[f"param_{name}"] = values
    for k, row in enumerate(scores):
        results[f"split{k}_test_score"] = row
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        mean = np.nanmean(scores, axis=0)
        std = np.nanstd(scores, axis=0)
    results["mean_test_score"] = mean
    results["std_test_score"] = std
    worst_last = np.where(np.isnan(mean), -np.inf, mean)
    results["rank_test_score"] = rankdata(-worst_last, method="min").astype(int)
    for field in ("fit_time", "score_time"):
        seconds = np.array([[getattr(result, field) for result in fold] for fold in folds])
        results[f"mean_{field}"] = seconds.mean(0)
        results[f"std_{field}"] = seconds.std(0)
    results["tuned_on"] = np.array([tuned_on] * len(settings))
    return results
