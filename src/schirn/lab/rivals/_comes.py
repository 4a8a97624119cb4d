"""COMES, consistent risk estimators, with estimated and with true priors."""

from collections.abc import Sequence
from typing import Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp

from schirn._input import Array, Number, check_same_length, declare_parameters, parameter
from schirn.estimators import Fit, MethodInfo, RowSpaceMethod
from schirn.exceptions import InputError
from schirn.lab.rivals.solvers._comes import comes, coordinates
from schirn.labels.matrix import as_labels
from schirn.linalg.row_space import RowSpace
from schirn.noise.calibration import posterior
from schirn.noise.thresholds import ThresholdRule
from schirn.solvers.self_tuning import Filters, Point, ridge_filters

# Smallest probability of a label before its candidates are considered.
_SMALLEST = 1e-6


@declare_parameters
class COMES(RowSpaceMethod):
    r"""Ridge regression on an estimate of the risk on true labels, given the priors of the labels.

    .. math::
        \min_{W, b} \sum_{ij} (x_i^\top w_j + b_j - t_{ij})^2 + \lambda \|W\|_F^2, \qquad
        t_{ij} = 1 - a_j (1 - y_{ij}), \quad
        a_j = \frac{1 - \pi_j}{\tfrac1n \sum_i (1 - y_{ij})}

    If labels are only added, and a false label j is listed at a rate of its own that does not
    depend on x, then these targets give an unbiased estimate of the squared error on true labels,
    and the score is P(y_j = 1 | x) = 1 - a_j (1 - r_j(x)) for the ridge regression r on the
    candidates. Rates that differ between labels are undone; if all are equal, the ranking of the
    labels hardly changes.

    Everything depends on the priors pi. True ones are rarely known (`OracleCOMES` takes them from
    the truth); here they are given, or estimated from the candidates.

    Parameters
    ----------
    lam : float or None
        Ridge weight. None chooses it on held-out candidates; a number is used unchanged.
    priors : array-like of shape (l,) or None
        Probability of each label, for instance from `priors_from_answers`. A prior above the share
        of rows that list the label is lowered to that share. None estimates the priors from the
        candidates: rows with low leave-one-out scores of a label are taken to be without it.
        That is wrong for labels that most rows have.
    threshold : float, array or str
        Rule of `predict`: a number, one number per label, "top-3", or "cardinality".
    verbose : bool
        Show stage, round, share done and time left on stderr.

    Attributes
    ----------
    coef_ : (l, d) weights;  intercept_ : (l,)
    lam_ : the ridge weight of this fit, given or chosen.
    search_ : scores of the ridge weights that were compared, as in `schirn.Schirn`, or None.
    priors_ : (l,) the priors of this fit, given or estimated.
    noise_rate_ : (l,) rate at which a false label is listed, by the priors.
    label_confidence_ : (n, l) Bayes posterior that a candidate is true, from leave-one-out scores
        and the rate of its label; 0 outside the candidates.
    noise_ : (n, l) bool, candidates whose confidence is below one half.
    calibration_, cardinality_, objective_, n_iter_, label_names_, n_features_in_, threshold_

    Notes
    -----
    The authors train networks with the cross-entropy and take the absolute value of negative parts
    of the risk. With the squared loss the minimiser has a closed form and no part is cut off. Their
    second estimator, for the ranking loss, is not implemented.

    References
    ----------
    "Rethinking Consistent Multi-Label Classification Under Inexact Supervision".

    Examples
    --------
    >>> from schirn.lab import COMES
    >>> from schirn.datasets import make_partial_multilabel
    >>> data = make_partial_multilabel(n_samples=200, n_labels=6, r=1, random_state=0)
    >>> model = COMES(lam=1.0).fit(data.X, data.candidates)
    >>> model.predict(data.X[:3]).shape
    (3, 6)
    >>> bool((model.priors_ <= data.candidates.mean(axis=0)).all())
    True
    """

    lam: float | None = parameter(None, Number(open_low=True, none=True))
    priors: Any = None
    threshold: ThresholdRule = "cardinality"
    verbose: bool = False

    fit_intercept: ClassVar[bool] = True  # type: ignore[misc]
    _grid: ClassVar = {"lam": (10_000.0, 1000.0, 100.0, 10.0, 1.0, 0.1, 0.01)}
    _search_rounds: ClassVar = 1
    _untuned: ClassVar = {"lam": 1.0}
    _info: ClassVar = MethodInfo(
        family="unbiased estimate of the risk",
        reference="Rethinking Consistent Multi-Label Classification Under Inexact Supervision",
        cost="one factorisation",
        memory="n min(n, d) + n l",
    )

    def _smallest_ridge(self) -> float:
        return self._numbers()["lam"]

    def _points(self, values: dict[str, Sequence[float]]) -> list[Point]:
        return [Point({"lam": lam}, (lam,), ridge=lam) for lam in values["lam"]]

    def _filters(self, space: RowSpace, which: Sequence[tuple[float, ...]]) -> Filters:
        return ridge_filters(space, [lam for (lam,) in which])

    def _coordinates(self, space: RowSpace, Y: Array) -> Array:
        lam = self._numbers()["lam"]
        return coordinates(space, Y, lam=lam, priors=self._checked_priors(Y))

    def _fit_space(self, space: RowSpace, Y: Array) -> Fit:
        lam = self._numbers()["lam"]
        result = comes(space, Y, lam=lam, priors=self._checked_priors(Y))
        self._set_weights(space, result.w)
        self.priors_ = result.priors
        self.noise_rate_ = result.rates
        confidence = self._posterior(result.loo_scores, Y)
        return Fit(None, result.loo_scores, 1, np.array([result.objective]), confidence)

    def _posterior(self, scores: Array, Y: Array) -> Array:
        # A linear score may be negative; without noise a candidate is right all the same.
        p = np.clip(scores, _SMALLEST, 1)
        confidence = posterior(p, self.noise_rate_)
        return np.where(Y == 1, confidence, 0).astype(scores.dtype)

    def _checked_priors(self, Y: Array) -> Array | None:
        if self.priors is None:
            return None
        n_labels = Y.shape[1]
        try:
            priors = np.asarray(self.priors, dtype=np.float64)
        except (TypeError, ValueError):
            priors = np.empty(0)
        is_valid = priors.shape == (n_labels,) and bool(((priors >= 0) & (priors <= 1)).all())
        if not is_valid:
            raise InputError(
                f"priors must be None or {n_labels} numbers between 0 and 1, one for each label; "
                f"got {self.priors!r}",
                parameter="priors",
            )
        return priors

    def disambiguate(self, X: Any, candidates: Any) -> Array:
        """Return the probability (n, l) that each candidate of unseen rows is true; 0 elsewhere.

        Parameters
        ----------
        X : (n, d) array, CSR matrix or DataFrame
        candidates : array-like
            In any container that `fit` takes; names and table columns are matched to the labels
            known from training.

        Returns
        -------
        (n, l) array
            Bayes posterior with the rate of each label.
        """
        scores = self.decision_function(X)
        return self._posterior(scores, self._candidates_of(X, candidates, len(scores)))


@declare_parameters
class OracleCOMES(COMES):
    r"""`COMES` with the priors of the true labels of the training rows.

    This is not a practical method: priors of noisy data are unknown. It is what `COMES` reaches
    when the priors are right, and reports mark it as an oracle.

    Parameters
    ----------
    lam : float or None
        Ridge weight. None chooses it on held-out candidates; a number is used unchanged.
    priors : array-like of shape (l,) or None
        Priors that replace the priors estimated from `y_clean`.
    threshold : float, array or str
        Rule of `predict`: a number, one number per label, "top-3", or "cardinality".
    verbose : bool
        Show stage, round, share done and time left on stderr.

    Attributes
    ----------
    priors_ : (l,) the share of the training rows that truly have each label.
    noise_rate_, label_confidence_, noise_, coef_, intercept_, lam_, search_ : as in `COMES`.
    calibration_, cardinality_, objective_, n_iter_, label_names_, n_features_in_, threshold_

    Examples
    --------
    >>> from schirn.lab import OracleCOMES
    >>> from schirn.datasets import make_partial_multilabel
    >>> data = make_partial_multilabel(n_samples=200, n_labels=6, r=1, random_state=0)
    >>> model = OracleCOMES(lam=1.0).fit(data.X, data.candidates, y_clean=data.y_true)
    >>> bool((model.priors_ == data.y_true.mean(axis=0)).all())
    True
    """

    _info: ClassVar = COMES._info._replace(family="oracle: knows the priors of the true labels")

    def fit(
        self,
        X: Any,
        y: Any,
        y_clean: Any = None,
        *,
        label_names: Sequence[str] | None = None,
    ) -> Self:
        """Train on the candidates, with the priors of the true labels.

        Parameters
        ----------
        X : (n, d) array, CSR matrix or DataFrame
        y : array-like
            Candidates.
        y_clean : array-like or None
            The true labels; None takes y as the truth. Request it for cross-validation with
            ``set_fit_request(y_clean=True)``.
        label_names : list of str or None
            Names of the label columns, for candidates that carry none.

        Returns
        -------
        OracleCOMES
        """
        self._fit_checked(X, y, label_names, y_clean=y_clean)
        del self._true_priors
        return self

    def _fit(self, X: "Array | sp.csr_array", Y: Array, y_clean: Any = None) -> Fit:
        truth = Y
        if y_clean is not None:
            truth = as_labels(y_clean, names=self.label_names_, what="true labels").matrix
            check_same_length(len(Y), len(truth))
        self._true_priors = truth.mean(axis=0)
        return super()._fit(X, Y)

    def _checked_priors(self, Y: Array) -> Array | None:
        priors = super()._checked_priors(Y)
        return self._true_priors if priors is None else priors

    def _fit_point(self, space: RowSpace, Y: Array, params: dict[str, float]) -> Array:
        # A clone would not know the truth.
        return COMES(priors=self._true_priors)._fit_point(space, Y, params)

    def _share_key(self) -> None:
        """Each fit needs the priors of its own rows, which a shared search does not pass on."""
