"""PML-NI: a classifier and an identifier of noisy labels, learned together."""

from typing import ClassVar, Literal

import numpy as np
import scipy.sparse as sp

from schirn._input import Array, Number, OneOf, declare_parameters, parameter
from schirn.estimators import Fit, LinearMethod, MethodInfo
from schirn.exceptions import InputError
from schirn.lab.rivals.solvers._pmlni import pmlni
from schirn.lab.rivals.solvers._scaling import biased_row_space, identity, minmax
from schirn.noise.thresholds import LabelThreshold, ThresholdRule


@declare_parameters
class PMLNI(LinearMethod):
    r"""A low-rank classifier plus a sparse identifier of noise that the features explain.

    .. math::
        \min_{W, U, V} \tfrac12 \|Y - \Phi W\|_F^2 + \tfrac{\lambda}{2} \|W\|_F^2
        + \beta \|U\|_* + \gamma \|V\|_1 \quad \text{s.t. } W = U + V

    where Phi has the features and a column of ones. U predicts the labels, V the wrong ones.

    Parameters
    ----------
    lam : float
        Ridge weight; the authors choose it from 1, 10 and 100.
    beta : float
        Weight of the nuclear norm of the classifier.
    gamma : float
        Weight of the entries of the noise identifier. With gamma >= beta (the defaults of the
        authors) the noise identifier is zero: no entry of a matrix exceeds its largest singular
        value, so the nuclear norm is never the more expensive of the two. A gamma far below beta
        moves everything to V and leaves a zero classifier.
    scale : {"minmax", "none"}
        "minmax" scales every feature to [-1, 1] by its range in the training rows, as the authors
        do; "none" uses unscaled features. The column of ones is added afterwards.
    mu, mu_max, rho : float
        First penalty, its upper bound, and its growth per round.
    max_iter : int
        Number of rounds.
    tol : float
        Stop when the relative primal residual is below this value and U has settled.
    tol_change : float
        U has settled when its change times mu is below this share of the norm of W; the penalty
        grows only then.
    threshold : float, array or str
        Rule of `predict`. "linear" is the authors' rule: a threshold per row that is a linear
        function of its scores, here learned from the candidates and the leave-one-out scores, never
        from true labels. Alternatives: a number (0.5), one per label, "top-3" or "cardinality".
    verbose : bool
        Show stage, round, share done and time left on stderr.

    Attributes
    ----------
    coef_ : (l, d) the classifier U for unscaled features;  intercept_ : (l,)
    noise_coef_ : (l, d) the noise identifier V, likewise;  noise_intercept_ : (l,)
    label_confidence_ : (n, l) Bayes posterior that a candidate is true, from the leave-one-out
        scores by U (with the pull of the two norms fixed), calibrated on the candidates.
    noise_ : (n, l) bool, candidates whose confidence is below one half: the method itself
        makes no decision about single labels.
    objective_ : objective per round, with W as the joint model.
    calibration_, cardinality_, n_iter_, label_names_, n_features_in_, threshold_

    Notes
    -----
    X is factored once. A round costs O(l^2 min(n, d)) if V is zero and O(d l min(n, d))
    otherwise; memory is O(n min(n, d)) or O((n + d) min(n, d)). A sparse X stays sparse.

    Examples
    --------
    >>> from schirn.lab import PMLNI
    >>> from schirn.datasets import make_partial_multilabel
    >>> data = make_partial_multilabel(n_samples=200, n_labels=6, r=1, random_state=0)
    >>> model = PMLNI(gamma=0.1).fit(data.X, data.candidates)
    >>> model.predict(data.X[:3]).shape
    (3, 6)
    >>> bool((model.noise_coef_ != 0).any())
    True
    """

    lam: float = parameter(10.0, Number(open_low=True))
    beta: float = parameter(0.5, Number())
    gamma: float = parameter(0.5, Number())
    scale: Literal["minmax", "none"] = parameter("minmax", OneOf(("minmax", "none")))
    mu: float = parameter(1e-4, Number(open_low=True))
    mu_max: float = parameter(1e10, Number(open_low=True))
    rho: float = parameter(1.1, Number(low=1.0))
    max_iter: int = parameter(500, Number(low=1, integer=True))
    tol: float = parameter(1e-7, Number())
    tol_change: float = parameter(1e-5, Number())
    threshold: ThresholdRule = "linear"
    verbose: bool = False

    _info: ClassVar = MethodInfo(
        family="low-rank classifier, sparse noise identifier",
        reference="Partial Multi-Label Learning with Noisy Label Identification",
        cost="d l min(n, d)",
        memory="(n + d) min(n, d)",
    )

    def _fit(self, X: "Array | sp.csr_array", Y: Array) -> Fit:
        scaling = minmax(X) if self.scale == "minmax" else identity(X)
        space = biased_row_space(X, scaling, ridge=self.lam)
        result = pmlni(space, Y, **self._solver_options(pmlni))
        W, self.intercept_ = scaling.undo(result.U)
        self.coef_ = np.ascontiguousarray(W.T)
        V, self.noise_intercept_ = scaling.undo(result.V)
        self.noise_coef_ = np.ascontiguousarray(V.T)
        return Fit(None, result.loo_scores, result.n_iter, result.objective)

    def _learn_thresholds(self, scores: Array, Y: Array) -> None:
        # Learned only on request, because it costs n l^2.
        is_linear = isinstance(self.threshold, str) and self.threshold == "linear"
        self._linear_cut = linear_threshold(scores, Y) if is_linear else None
        super()._learn_thresholds(scores, Y)

    def _make_threshold(self, rule: ThresholdRule) -> LabelThreshold:
        if not (isinstance(rule, str) and rule == "linear"):
            return super()._make_threshold(rule)
        if self._linear_cut is None:
            raise InputError(
                'threshold "linear" is learned from the training rows; '
                'set threshold="linear" on the model before fit'
            )
        return self._linear_cut


def best_row_cuts(scores: Array, candidates: Array) -> Array:
    """The cut of each row with the fewest errors against its candidates, the lowest of equals.

    The choice is between the middles of neighbouring scores and 0.1 outside the extremes.

    >>> scores = np.array([[0.1, 0.9, 0.5], [0.2, 0.3, 0.4]])
    >>> best_row_cuts(scores, np.array([[0, 1, 0], [1, 1, 1]]))
    array([0.7, 0.1])
    """
    order = np.argsort(scores, axis=1, kind="stable")
    s = np.take_along_axis(scores, order, axis=1)
    listed = np.take_along_axis(candidates != 0, order, axis=1)
    cuts = np.column_stack([s[:, 0] - 0.1, (s[:, :-1] + s[:, 1:]) / 2, s[:, -1] + 0.1])
    # A cut that moves up past a candidate makes one error more, past another label one less.
    errors = np.zeros(cuts.shape, dtype=np.int32)
    np.cumsum(np.where(listed, 1, -1), axis=1, out=errors[:, 1:])
    best = errors.argmin(axis=1)
    return np.take_along_axis(cuts, best[:, None], axis=1)[:, 0]


def linear_threshold(scores: Array, candidates: Array) -> LabelThreshold:
    """A threshold per row that is a linear function of its scores, learned from candidates.

    Minimum-norm least squares of the best cut of each row on its scores and a constant.
    """
    scores = np.asarray(scores, dtype=np.float64)
    regressors = np.column_stack([scores, np.ones(len(scores))])
    weights = np.linalg.lstsq(regressors, best_row_cuts(scores, candidates), rcond=None)[0]
    return LabelThreshold(np.asarray(weights[-1]), slopes=weights[:-1])
