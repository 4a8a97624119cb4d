"""PML-LRS: low-rank true labels plus sparse wrong ones."""

from collections.abc import Callable, Hashable, Sequence
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp

from schirn._input import Array, Number, OneOf, declare_parameters, parameter
from schirn.estimators import Fit, LinearMethod, MethodInfo
from schirn.lab.rivals.solvers._pmllrs import pmllrs
from schirn.linalg.row_space import ridge, row_space
from schirn.noise.thresholds import ThresholdRule


@declare_parameters
class PMLLRS(LinearMethod):
    r"""Candidates as a low-rank matrix of true labels plus a sparse matrix of wrong ones.

    .. math::
        \min_{P, Q, W} \tfrac{\eta}{2} \|P - XW\|_F^2 + \|P\|_* + \beta \|Q\|_1 + \gamma \|W\|_*
        \quad \text{s.t. } Y = P + Q

    The objective and its weights are known from later papers; the steps of the solver, its
    penalties and the threshold 0.5 are reconstructed.

    Parameters
    ----------
    eta : float
        Weight of the fit of the predictor to the true labels.
    beta : float
        Penalty for a wrong label.
    gamma : float
        Weight of the nuclear norm of the predictor.
    mu, mu_max, rho : float
        First penalty, its upper bound, and its growth per round. A growing penalty stops the
        rounds short of the optimum, so the result depends on the first one: `mu=1e-4` comes closer
        to the optimum; 1 and above stay closer to the candidates and often predict better.
    max_iter : int
        Number of rounds.
    tol : float
        Stop when all relative primal residuals are below this value.
    fit_intercept : bool
        Add an unpenalised intercept.
    threshold : float, array or str
        Rule of `predict`: a number, one number per label, "top-3", "row-0.9" or "cardinality".
    verbose : bool
        Show stage, round, share done and time left on stderr.

    Attributes
    ----------
    coef_ : (l, d) weights;  intercept_ : (l,)
    label_confidence_ : (n, l) the true labels P, clipped to [0, 1] and to the candidates.
    noise_ : (n, l) bool, candidates with Q > P: more wrong than true.
    objective_, residual_ : objective and largest primal residual of the labels per round.
    calibration_, cardinality_, n_iter_, label_names_, n_features_in_, threshold_

    Notes
    -----
    X is factored once. A round costs two products with the factor and one with an l x l matrix:
    O(n l min(n, d) + n l^2) time, O(n min(n, d) + n l) memory. The nuclear norm of P, whose
    weight is one, sacrifices rare labels first: they are cheaper as noise. With few rows and many
    features W follows P closely and the scale of the features matters. `predict_proba` is
    calibrated on leave-one-out scores of a ridge on P that pulls on W as hard as gamma does.

    Examples
    --------
    >>> from schirn.lab import PMLLRS
    >>> from schirn.datasets import make_partial_multilabel
    >>> data = make_partial_multilabel(n_samples=200, n_labels=6, r=1, random_state=0)
    >>> model = PMLLRS().fit(data.X, data.candidates)
    >>> model.predict(data.X[:3]).shape
    (3, 6)
    >>> bool((model.noise_ <= data.candidates).all())
    True
    """

    eta: float = parameter(1.0, Number(open_low=True))
    beta: float = parameter(0.1, Number())
    gamma: float = parameter(0.01, Number())
    mu: float = parameter(1.0, Number(open_low=True))
    mu_max: float = parameter(1e10, Number(open_low=True))
    rho: float = parameter(1.1, Number(low=1.0))
    max_iter: int = parameter(200, Number(low=1, integer=True))
    tol: float = parameter(1e-6, Number())
    fit_intercept: bool = parameter(False, OneOf((True, False)))
    threshold: ThresholdRule = 0.5
    verbose: bool = False

    _info: ClassVar = MethodInfo(
        family="low-rank labels, sparse noise",
        reference="Partial Multi-Label Learning by Low-Rank and Sparse Decomposition",
        cost="n l min(n, d)",
        memory="n min(n, d) + n l",
        reconstructed=True,
    )

    def _fit(self, X: "Array | sp.csr_array", Y: Array) -> Fit:
        space = row_space(X, ridge=self.mu / self.eta, fit_intercept=self.fit_intercept)
        result = pmllrs(space, Y, **self._solver_options(pmllrs))
        self._set_weights(space, result.w)
        self.residual_ = result.residual
        loo_scores = ridge(space, result.P, result.ridge).loo_scores
        is_candidate = Y == 1
        confidence = np.where(is_candidate, np.clip(result.P, 0, 1), 0)
        noise = is_candidate & (result.Q > result.P)
        return Fit(noise, loo_scores, result.n_iter, result.objective, confidence)

    def _share_key(self) -> Hashable:
        return self.fit_intercept

    def _share(self, models: Sequence[Any], train: Any, test: Any) -> Callable[[Any, Array], Array]:
        ridge_weight = min(model.mu / model.eta for model in models)
        space = row_space(train, ridge=ridge_weight, fit_intercept=self.fit_intercept)
        rows = space.transform(test)
        return lambda model, Y: rows @ pmllrs(space, Y, **model._solver_options(pmllrs)).w
