"""The two reference methods: ridge regression on the candidates and on the true labels."""

from collections.abc import Sequence
from typing import Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp

from schirn._input import Array, Number, OneOf, check_same_length, declare_parameters, parameter
from schirn.estimators._base import Fit, MethodInfo, RowSpaceMethod
from schirn.labels.matrix import as_labels
from schirn.linalg.row_space import RidgeResult, RowSpace, ridge
from schirn.noise.calibration import Calibration, calibrate
from schirn.noise.thresholds import ThresholdRule
from schirn.solvers.self_tuning import Filters, Point, ridge_filters


@declare_parameters
class _Ridge(RowSpaceMethod):
    """Ridge regression of a label matrix."""

    lam: float | None = parameter(None, Number(open_low=True, none=True))
    fit_intercept: bool = parameter(False, OneOf((True, False)))
    threshold: ThresholdRule = "cardinality"
    verbose: bool = False

    _grid: ClassVar = {"lam": (10_000.0, 1000.0, 100.0, 10.0, 1.0, 0.1, 0.01)}
    _search_rounds: ClassVar = 1
    _untuned: ClassVar = {"lam": 1.0}

    def _smallest_ridge(self) -> float:
        return self._numbers()["lam"]

    def _points(self, values: dict[str, Sequence[float]]) -> list[Point]:
        return [Point({"lam": lam}, (lam,), ridge=lam) for lam in values["lam"]]

    def _filters(self, space: RowSpace, which: Sequence[tuple[float, ...]]) -> Filters:
        return ridge_filters(space, [lam for (lam,) in which])

    def _coordinates(self, space: RowSpace, Y: Array) -> Array:
        return space.ridge(space.project(Y.astype(space.dtype)), self._numbers()["lam"])

    def _regress(self, space: RowSpace, target: Array) -> RidgeResult:
        result = ridge(space, target.astype(space.dtype), self._numbers()["lam"])
        self._set_weights(space, result.w)
        return result


class CandidateRidge(_Ridge):
    r"""Ridge regression that trusts every candidate: the baseline to beat.

    .. math:: \min_W \|XW - Y\|_F^2 + \lambda \|W\|_F^2

    Under random noise, the candidate frequency given x is an increasing function of the true one,
    so the ranking of labels is consistent: noise adds variance, not bias. A method that does not
    beat this baseline has gained nothing.

    Parameters
    ----------
    lam : float or None
        Ridge weight. None chooses it on held-out candidates; a number is used as it is.
    fit_intercept : bool
        Add an unpenalised intercept.
    threshold : float, array or str
        Rule of `predict`: a number, one number per label, "top-3", or "cardinality".
    verbose : bool
        Show stage, round, share done and time left on stderr.

    Attributes
    ----------
    coef_ : (l, d) weights;  intercept_ : (l,)
    lam_ : ridge weight used by this fit, given or chosen.
    search_ : scores of the ridge weights that were tried, as in `schirn.Schirn`, or None.
    label_confidence_ : (n, l) Bayes posterior that a candidate is true, from leave-one-out scores
        and the estimated rate at which false labels are listed.
    noise_ : (n, l) bool, candidates whose confidence is below one half.
    calibration_, cardinality_, objective_, n_iter_, label_names_, n_features_in_, threshold_

    Examples
    --------
    >>> from schirn import CandidateRidge
    >>> from schirn.datasets import make_partial_multilabel
    >>> data = make_partial_multilabel(n_samples=200, n_labels=6, r=1, random_state=0)
    >>> CandidateRidge(lam=1.0).fit(data.X, data.candidates).predict_proba(data.X).shape
    (200, 6)
    """

    _info: ClassVar = MethodInfo(
        family="baseline: candidates taken as true",
        reference="ridge regression",
        cost="one factorisation",
        memory="n min(n, d) + n l",
    )

    def _fit_space(self, space: RowSpace, Y: Array) -> Fit:
        result = self._regress(space, Y)
        return Fit(None, result.loo_scores, 1, np.array([result.objective]))


class OracleRidge(_Ridge):
    r"""Ridge regression on the true labels: the score of the same ridge without noise.

    .. math:: \min_W \|XW - T\|_F^2 + \lambda \|W\|_F^2

    This is not a practical method, because noisy data come without true labels. Reports use it to
    state how much of the gap between `CandidateRidge` and this oracle a method closes. It is a
    reference, not an upper bound: a model better than a ridge can beat it.

    Parameters
    ----------
    lam : float or None
        Ridge weight. None chooses it on held-out true labels; a number is used as it is.
    fit_intercept : bool
        Add an unpenalised intercept.
    threshold : float, array or str
        Rule of `predict`: a number, one number per label, "top-3", or "cardinality".
    verbose : bool
        Show stage, round, share done and time left on stderr.

    Attributes
    ----------
    coef_ : (l, d) weights;  intercept_ : (l,)
    lam_ : ridge weight used by this fit, given or chosen.
    search_ : scores of the ridge weights that were tried, as in `schirn.Schirn`, or None.
    noise_ : (n, l) bool, candidates that are not true.
    label_confidence_ : (n, l) Bayes posterior that a candidate is true, from leave-one-out scores.
    calibration_, cardinality_, objective_, n_iter_, label_names_, n_features_in_, threshold_

    Examples
    --------
    >>> from schirn import OracleRidge
    >>> from schirn.datasets import make_partial_multilabel
    >>> data = make_partial_multilabel(n_samples=200, n_labels=6, r=1, random_state=0)
    >>> model = OracleRidge(lam=1.0).fit(data.X, data.candidates, y_clean=data.y_true)
    >>> bool((model.noise_ == (data.candidates > data.y_true)).all())
    True
    """

    _info: ClassVar = MethodInfo(
        family="oracle: sees the truth",
        reference="ridge regression",
        cost="one factorisation",
        memory="n min(n, d) + n l",
    )

    def fit(
        self,
        X: Any,
        y: Any,
        y_clean: Any = None,
        *,
        label_names: Sequence[str] | None = None,
    ) -> Self:
        """Train on the true labels.

        Parameters
        ----------
        X : (n, d) array, CSR matrix or DataFrame
        y : array-like
            Candidates, to which `noise_` and `label_confidence_` refer.
        y_clean : array-like or None
            True labels; None takes y as the truth. For cross-validation, request it with
            ``set_fit_request(y_clean=True)``.
        label_names : list of str or None
            Names of the label columns, for candidates that carry none.

        Returns
        -------
        OracleRidge
            The fitted estimator.
        """
        self._fit_checked(X, y, label_names, y_clean=y_clean)
        del self._truth
        return self

    def _fit(self, X: "Array | sp.csr_array", Y: Array, y_clean: Any = None) -> Fit:
        self._truth = Y
        if y_clean is not None:
            self._truth = as_labels(y_clean, names=self.label_names_, what="true labels").matrix
            check_same_length(len(Y), len(self._truth))
        return super()._fit(X, Y)

    def _choose(self, X: Any, Y: Any, n: int | None = None) -> None:
        super()._choose(X, self._truth, n)

    def _fit_space(self, space: RowSpace, Y: Array) -> Fit:
        result = self._regress(space, self._truth)
        noise = (Y == 1) & (self._truth == 0)
        return Fit(noise, result.loo_scores, 1, np.array([result.objective]))

    def _learn_thresholds(self, scores: Array, Y: Array) -> None:
        """Learn the thresholds from the true labels, so that they do not depend on the noise."""
        self.cardinality_ = float(self._truth.sum() / len(Y))
        super()._learn_thresholds(scores, self._truth)

    def _calibrate(self, scores: Array, Y: Array) -> Calibration:
        """Fit the sigmoid to the true labels, and compute the noise rate by counting."""
        false = self._truth == 0
        rate = float(np.clip((Y[false] == 1).mean() if false.any() else 0.0, 1e-6, 0.999))
        return calibrate(scores, self._truth, noise_rate=1e-6)._replace(noise_rate=rate)
