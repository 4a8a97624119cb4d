"""PML-lc and PML-fp, the first methods for partial multi-label learning."""

from typing import ClassVar

import numpy as np
import scipy.sparse as sp

from schirn._input import Array, Number, declare_parameters, parameter
from schirn.estimators import Fit, LinearMethod, MethodInfo
from schirn.lab.rivals.solvers._confidence_ranking import (
    FeaturePrototypes,
    LabelCorrelation,
    confidence_ranking,
)
from schirn.lab.rivals.solvers._scaling import biased_row_space, minmax
from schirn.noise.thresholds import ThresholdRule


@declare_parameters
class ConfidenceRanking(LinearMethod):
    """Ranks candidates above other labels, each pair weighted by the candidate's confidence."""

    lam: float = parameter(10.0, Number(open_low=True))
    alpha: float = parameter(1.0, Number(open_low=True))
    gamma: float = parameter(0.5, Number())
    max_iter: int = parameter(10, Number(low=1, integer=True))
    tol: float = parameter(1e-4, Number())
    threshold: ThresholdRule = "cardinality"
    verbose: bool = False

    _structure: ClassVar[type[LabelCorrelation] | type[FeaturePrototypes]]

    def _fit(self, X: "Array | sp.csr_array", Y: Array) -> Fit:
        scaling = minmax(X)
        space = biased_row_space(X, scaling, ridge=self.lam)
        structure = self._structure(space, Y.astype(space.dtype), self.gamma)
        result = confidence_ranking(space, Y, structure, **self._solver_options(confidence_ranking))
        W, self.intercept_ = scaling.undo(space.coefficients(result.w)[0])
        self.coef_ = np.ascontiguousarray(W.T)
        return Fit(None, result.scores, result.n_iter, result.objective, result.P)


@declare_parameters
class PMLLC(ConfidenceRanking):
    r"""Ranking weighted by confidences that follow the correlation of labels (PML-lc).

    .. math::
        \min_{W, P} \sum_{ij} P_{ij} E_{ij}(W) + \tfrac{\lambda}{2} \|W\|_F^2
        + \tfrac{\alpha}{2} \|Y - P\|_F^2 + \tfrac{\gamma}{2} \operatorname{tr}(P L P')

    with confidences 0 <= P <= Y that sum to at least one in every row. E_ij is the mean of
    max(0, 1 - f_ij + f_ik)^2 over the labels k that row i does not list, with scores f; L is the
    normalised Laplacian of the cosines between the columns of candidates. The ranking loss
    weighted by confidences, the alternating steps and the use of label correlation are the
    paper's; the exact terms are reconstructed.

    Parameters
    ----------
    lam : float
        Ridge weight.
    alpha : float
        How firmly the confidences hold to the candidates. At gamma=0 a candidate has the
        confidence 1 - E/alpha.
    gamma : float
        Weight of the label correlation.
    max_iter : int
        Maximum number of rounds, each a step of W and one of P.
    tol : float
        Stop when the objective falls by less than this share of itself.
    threshold : float, array or str
        Rule of `predict`: "cardinality", a number, one number per label or "top-3".
    verbose : bool
        Show stage, round, share done and time left on stderr.

    Attributes
    ----------
    coef_ : (l, d) weights for unscaled features;  intercept_ : (l,)
    label_confidence_ : (n, l) the confidences P.
    noise_ : (n, l) bool, candidates whose confidence is below one half.
    objective_ : objective per round; it never rises.
    calibration_, cardinality_, n_iter_, label_names_, n_features_in_, threshold_

    Notes
    -----
    Features are scaled to [-1, 1] and factored once. A step of W takes a few dozen passes over the
    pairs, each O(c l) for c candidates in all. `predict_proba` is calibrated on the scores of the
    training rows, which are not left out, and is therefore too confident.

    Examples
    --------
    >>> from schirn.lab import PMLLC
    >>> from schirn.datasets import make_partial_multilabel
    >>> data = make_partial_multilabel(n_samples=200, n_labels=6, r=1, random_state=0)
    >>> model = PMLLC().fit(data.X, data.candidates)
    >>> model.predict(data.X[:3]).shape
    (3, 6)
    >>> bool((model.label_confidence_ <= data.candidates).all())
    True
    """

    _structure: ClassVar = LabelCorrelation
    _info: ClassVar = MethodInfo(
        family="ranking weighted by confidences, label correlation",
        reference="Partial Multi-Label Learning",
        cost="c l + n l min(n, d)",
        memory="(n + d) min(n, d)",
        reconstructed=True,
    )


@declare_parameters
class PMLFP(ConfidenceRanking):
    r"""Ranking weighted by confidences that follow prototypes of the labels (PML-fp).

    .. math::
        \min_{W, P, M} \sum_{ij} P_{ij} E_{ij}(W) + \tfrac{\lambda}{2} \|W\|_F^2
        + \tfrac{\alpha}{2} \|Y - P\|_F^2
        + \tfrac{\gamma}{s} \sum_{ij} P_{ij} (\|x_i - m_j\|^2 - \|x_i - \bar m\|^2)

    as in `PMLLC`, with the prototype m_j of each label instead of the label correlation: the mean
    of its rows weighted by their confidences. m-bar is the mean and s the variance of all rows.
    What is the paper's and what is reconstructed is as in `PMLLC`.

    Parameters
    ----------
    lam : float
        Ridge weight.
    alpha : float
        How firmly the confidences hold to the candidates. At gamma=0 a candidate has the
        confidence 1 - E/alpha.
    gamma : float
        Weight of the distances to the prototypes.
    max_iter : int
        Maximum number of rounds, each a step of W, of the prototypes and of P.
    tol : float
        Stop when the objective falls by less than this share of itself.
    threshold : float, array or str
        Rule of `predict`: "cardinality", a number, one number per label or "top-3".
    verbose : bool
        Show stage, round, share done and time left on stderr.

    Attributes
    ----------
    coef_ : (l, d) weights for unscaled features;  intercept_ : (l,)
    label_confidence_ : (n, l) the confidences P.
    noise_ : (n, l) bool, candidates whose confidence is below one half.
    objective_ : objective per round; it never rises.
    calibration_, cardinality_, n_iter_, label_names_, n_features_in_, threshold_

    Notes
    -----
    Features are scaled to [-1, 1] and factored once. Cost and calibration are as in `PMLLC`.

    Examples
    --------
    >>> from schirn.lab import PMLFP
    >>> from schirn.datasets import make_partial_multilabel
    >>> data = make_partial_multilabel(n_samples=200, n_labels=6, r=1, random_state=0)
    >>> model = PMLFP().fit(data.X, data.candidates)
    >>> model.predict(data.X[:3]).shape
    (3, 6)
    >>> bool((np.diff(model.objective_) <= 0).all())
    True
    """

    _structure: ClassVar = FeaturePrototypes
    _info: ClassVar = MethodInfo(
        family="ranking weighted by confidences, label prototypes",
        reference="Partial Multi-Label Learning",
        cost="c l + n l min(n, d)",
        memory="(n + d) min(n, d)",
        reconstructed=True,
    )
