"""Baselines of the benchmark: common practice without this library, not methods of `schirn`.

All of them treat every listed label as true, one label at a time. Their probabilities come from the
classifier, without a model of the noise, and the verdicts on the training rows are out of fold.
"""

import warnings
from collections.abc import Callable, Hashable, Sequence
from typing import Any, ClassVar, Literal

import numpy as np
import scipy.sparse as sp
from scipy.special import expit

from schirn._input import Array, Number, OneOf, Seed, declare_parameters, parameter
from schirn._optional import optional
from schirn._progress import track
from schirn.estimators import Fit, LinearMethod, MethodInfo, PartialMultiLabelClassifier
from schirn.linalg.features import moments, standard_factor
from schirn.noise.calibration import Calibration
from schirn.noise.thresholds import ThresholdRule

_FEW_FEATURES = 600


@declare_parameters
class LogisticBaseline(LinearMethod):
    """One-vs-rest logistic regression on the candidates.

    Parameters
    ----------
    C : float
        Inverse of the ridge weight, as in `sklearn.linear_model.LogisticRegression`.
    scale : {"standard", "none"}
        "standard" divides each feature by its standard deviation; "none" uses unscaled
        features.
    folds : int
        Number of folds in which the training rows get their `label_confidence_`.
    max_iter : int
        Limit of the iterations of each classifier.
    threshold : float, array or str
        Rule of `predict`: 0 is a probability of one half.
    random_state : int, RandomState or None
        Seed of the folds.
    verbose : bool
        Show stage, round, share done and time left on stderr.

    Attributes
    ----------
    coef_ : (l, d) weights;  intercept_ : (l,)
    label_confidence_ : (n, l) probability out of fold that a candidate is listed; 0 outside them.
    noise_ : (n, l) bool, candidates whose probability is below one half.

    Examples
    --------
    >>> from schirn.lab.bench import LogisticBaseline
    >>> from schirn.datasets import make_partial_multilabel
    >>> data = make_partial_multilabel(n_samples=200, n_labels=6, r=1, random_state=0)
    >>> LogisticBaseline().fit(data.X, data.candidates).predict(data.X[:3]).shape
    (3, 6)
    """

    C: float = parameter(1.0, Number(open_low=True))
    scale: Literal["standard", "none"] = parameter("standard", OneOf(("standard", "none")))
    folds: int = parameter(5, Number(low=2, integer=True))
    max_iter: int = parameter(500, Number(low=1, integer=True))
    threshold: ThresholdRule = 0.0
    random_state: Any = parameter(0, Seed())
    verbose: bool = False

    _info: ClassVar = MethodInfo(
        family="baseline: logistic regression",
        reference="LogisticRegression of scikit-learn, one label at a time",
        cost="n d l",
        memory="n d",
    )

    def _fit(self, X: "Array | sp.csr_array", Y: Array) -> Fit:
        scores = self._out_of_fold(X, Y)
        W, self.intercept_ = self._weights(X, Y)
        self.coef_ = np.ascontiguousarray(W.T)
        return Fit(None, scores, 1, np.zeros(1))

    def _share_key(self) -> Hashable | None:
        return ()

    def _share(self, models: Sequence[Any], train: Any, test: Any) -> Callable[[Any, Array], Array]:
        """A search needs no verdicts on the training rows."""
        return lambda model, Y: model._log_odds(train, Y, test)

    def _out_of_fold(self, X: Any, Y: Array) -> Array:
        """Return the log-odds of each row from classifiers that did not see it."""
        from sklearn.model_selection import KFold

        folds = min(self.folds, len(Y))
        if folds < 2:
            return self._log_odds(X, Y, X)
        scores = np.zeros(Y.shape, dtype=X.dtype)
        seed = self.random_state
        splits = KFold(folds, shuffle=True, random_state=seed).split(Y)
        for train, test in track(splits, "fold", folds):
            scores[test] = self._log_odds(X[train], Y[train], X[test])
        return scores

    def _calibrate(self, scores: Array, Y: Array) -> Calibration:
        # The probability is the sigmoid of the score, and confidences are probabilities.
        return Calibration(1.0, 0.0, 1.0)

    def _log_odds(self, X: Any, Y: Array, X_new: Any) -> Array:
        """Train on X and return the log-odds of other rows."""
        W, b = self._weights(X, Y)
        return np.asarray(X_new @ W + b)

    def _weights(self, X: Any, Y: Array) -> tuple[Array, Array]:
        """Return weights (d, l) and intercepts (l,) for the unscaled features."""
        from sklearn.linear_model import LogisticRegression

        n, d = X.shape
        l = Y.shape[1]
        standard = self.scale == "standard"
        factor = standard_factor(X) if standard else np.ones(d, dtype=X.dtype)
        # The shift only helps the iterations, as the intercept has no penalty.
        shift = np.zeros(d) if sp.issparse(X) or not standard else moments(X)[0]
        shift = shift.astype(X.dtype)
        Z = sp.csr_array(X * factor[None, :]) if sp.issparse(X) else (X - shift) * factor
        # The optimum is unique; Newton's steps reach it whatever the scale of the features.
        solver = "newton-cholesky" if d <= _FEW_FEATURES else "lbfgs"
        W = np.zeros((d, l), dtype=X.dtype)
        b = _prior(Y).astype(X.dtype)
        for j in range(l):
            if 0 < Y[:, j].sum(dtype=np.int64) < n:
                model = LogisticRegression(
                    C=self.C, solver=solver, tol=1e-8, max_iter=self.max_iter
                )
                fitted = model.fit(Z, Y[:, j])
                W[:, j] = fitted.coef_[0] * factor
                b[j] = fitted.intercept_[0]
        return W, b - shift @ W


class CleanlabBaseline(LogisticBaseline):
    """One-vs-rest logistic regression on the candidates that cleanlab's filter leaves.

    cleanlab judges the out-of-fold probabilities of logistic regression, label by label, with its
    default filter. The listed labels that it finds wrong are removed, and logistic regression is
    trained on the rest. Needs the extra `cleanlab`.

    Parameters
    ----------
    C : float
        Inverse of the ridge weight, as in `sklearn.linear_model.LogisticRegression`.
    scale : {"standard", "none"}
        "standard" divides each feature by its standard deviation; "none" uses unscaled
        features.
    folds : int
        Number of folds in which the training rows get the probabilities that cleanlab judges.
    max_iter : int
        Limit of the iterations of each classifier.
    threshold : float, array or str
        Rule of `predict`: 0 is a probability of one half.
    random_state : int, RandomState or None
        Seed of the folds.
    verbose : bool
        Show stage, round, share done and time left on stderr.

    Attributes
    ----------
    coef_ : (l, d) weights;  intercept_ : (l,)
    label_confidence_ : (n, l) probability out of fold that a candidate is listed, which is also
        cleanlab's quality score of it; 0 outside them.
    noise_ : (n, l) bool, candidates that the filter removes.
    """

    _info: ClassVar = MethodInfo(
        family="baseline: cleanlab, then logistic regression",
        reference="cleanlab.filter.find_label_issues on LogisticRegression of scikit-learn",
        cost="n d l",
        memory="n d",
    )

    def _fit(self, X: "Array | sp.csr_array", Y: Array) -> Fit:
        scores, P, noise = self._filter(X, Y)
        W, self.intercept_ = self._weights(X, _without(Y, noise))
        self.coef_ = np.ascontiguousarray(W.T)
        confidence = np.where(Y == 1, P, 0).astype(scores.dtype)
        return Fit(noise, scores, 1, np.zeros(1), confidence)

    def _share(self, models: Sequence[Any], train: Any, test: Any) -> Callable[[Any, Array], Array]:
        return lambda model, Y: model._log_odds(
            train, _without(Y, model._filter(train, Y)[2]), test
        )

    def _filter(self, X: Any, Y: Array) -> tuple[Array, Array, Array]:
        """Return log-odds and probabilities out of fold, and the candidates that are removed."""
        filters = optional("cleanlab.filter", "cleanlab", "CleanlabBaseline")
        scores = self._out_of_fold(X, Y)
        P = np.clip(expit(scores.astype(np.float64)), 1e-9, 1 - 1e-9)
        noise = np.zeros(Y.shape, dtype=bool)
        with warnings.catch_warnings():
            # cleanlab warns about every rare label.
            warnings.simplefilter("ignore", UserWarning)
            for j in range(Y.shape[1]):
                is_candidate = Y[:, j] == 1
                # A label that all or no rows list has no rates to estimate.
                if is_candidate.any() and not is_candidate.all():
                    probabilities = np.column_stack([1 - P[:, j], P[:, j]])
                    issues = filters.find_label_issues(
                        is_candidate.astype(int), probabilities, n_jobs=1
                    )
                    noise[:, j] = issues & is_candidate
        return scores, P, noise


def _without(Y: Array, noise: Array) -> Array:
    return np.where(noise, 0, Y).astype(Y.dtype)


def _prior(Y: Array) -> Array:
    """Return the smoothed log-odds of every label."""
    counts = Y.sum(axis=0, dtype=np.float64)
    return np.log((counts + 1) / (len(Y) - counts + 1))


BASELINES: dict[str, type[PartialMultiLabelClassifier]] = {
    cls.__name__: cls for cls in (LogisticBaseline, CleanlabBaseline)
}
"""Baselines by name, which `schirn bench --methods` accepts like methods."""
