"""FPML: label confidences from a joint factorisation of candidates and features."""

from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from sklearn.utils import check_random_state

from schirn._input import Array, Number, OneOf, Seed, declare_parameters, parameter
from schirn.estimators import Fit, LinearMethod, MethodInfo
from schirn.lab.rivals.solvers._fpml import Start, fpml
from schirn.linalg.row_space import ridge, row_space
from schirn.noise.thresholds import ThresholdRule


@declare_parameters
class FPML(LinearMethod):
    r"""Joint factorisation of candidates and features, with a predictor of the factored labels.

    .. math::
        \min_{S, G, B, W} \|Y - SG'\|_F^2 + \lambda_1 \|X - SB'\|_F^2
        + \lambda_2 \|XW - SG'\|_F^2 + \lambda_3 \|W\|_F^2

    with S of k columns. The idea and the three weights are known from later papers; this
    objective, its steps, k and the threshold 0.5 are reconstructed.

    Parameters
    ----------
    lam1 : float
        Weight of the factored features; 0.1 is also in use and often predicts better.
    lam2 : float
        Weight of the fit of the predictor to the factored labels.
    lam3 : float
        Ridge weight of the predictor.
    n_components : int or None
        Columns k of the factors; None uses a third of the labels, at least 2. Larger values often
        predict better.
    init : {"random", "svd"}
        "random" starts from uniform factors drawn with `random_state`; "svd" from the leading
        singular vectors of [Y, sqrt(lam1) X].
    max_iter : int
        Number of sweeps.
    tol : float
        Stop when the relative change of the objective falls below this value.
    threshold : float, array or str
        Rule of `predict`: a number, one number per label, "top-3", "row-0.9" or "cardinality".
    random_state : int, RandomState or None
        Seed of the start.
    verbose : bool
        Show stage, round, share done and time left on stderr.

    Attributes
    ----------
    coef_ : (l, d) weights;  intercept_ : (l,) zeros
    label_confidence_ : (n, l) the factored labels SG', clipped to [0, 1] and to the candidates.
    noise_ : (n, l) bool, candidates whose confidence is below one half.
    objective_ : objective per sweep.
    calibration_, cardinality_, n_iter_, label_names_, n_features_in_, threshold_

    Notes
    -----
    X is factored once. A sweep costs O(n k (min(n, d) + l)); memory is O(n min(n, d) + n l).
    `predict_proba` is calibrated on the leave-one-out scores of the ridge on SG'. Features are
    used as they are; scale them first if their units differ.

    Examples
    --------
    >>> from schirn.lab import FPML
    >>> from schirn.datasets import make_partial_multilabel
    >>> data = make_partial_multilabel(n_samples=200, n_labels=6, r=1, random_state=0)
    >>> model = FPML(n_components=4).fit(data.X, data.candidates)
    >>> model.predict(data.X[:3]).shape
    (3, 6)
    >>> bool((np.diff(model.objective_) <= 0).all())
    True
    """

    lam1: float = parameter(1.0, Number())
    lam2: float = parameter(1.0, Number(open_low=True))
    lam3: float = parameter(10.0, Number(open_low=True))
    n_components: int | None = parameter(None, Number(low=1, integer=True, none=True))
    init: Start = parameter("random", OneOf(("random", "svd")))
    max_iter: int = parameter(100, Number(low=1, integer=True))
    tol: float = parameter(1e-5, Number())
    threshold: ThresholdRule = 0.5
    random_state: Any = parameter(0, Seed())
    verbose: bool = False

    _info: ClassVar = MethodInfo(
        family="joint factorisation of labels and features",
        reference="Feature-Induced Partial Multi-label Learning",
        cost="n k min(n, d)",
        memory="n min(n, d) + n l",
        reconstructed=True,
    )

    def _fit(self, X: "Array | sp.csr_array", Y: Array) -> Fit:
        weight = self.lam3 / self.lam2
        space = row_space(X, ridge=weight)
        result = fpml(
            space,
            Y,
            max(2, -(-Y.shape[1] // 3)) if self.n_components is None else self.n_components,
            start=self.init,
            rng=check_random_state(self.random_state),
            **self._solver_options(fpml),
        )
        self._set_weights(space, result.w)
        C = result.S @ result.G.T
        loo_scores = ridge(space, C, weight).loo_scores
        confidence = np.where(Y == 1, np.clip(C, 0, 1), 0)
        noise = (Y == 1) & (confidence < 0.5)
        return Fit(noise, loo_scores, result.n_iter, result.objective, confidence)
