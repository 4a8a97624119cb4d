"""GLC, global and local label correlation."""

from typing import ClassVar

import numpy as np

from schirn._input import Array, Number, OneOf, declare_parameters, parameter
from schirn.estimators import Fit, MethodInfo, RowSpaceMethod
from schirn.lab.rivals.solvers._glc import GLCResult, Manifold, glc
from schirn.linalg.row_space import RowSpace, ridge
from schirn.noise.thresholds import ThresholdRule


@declare_parameters
class GLC(RowSpaceMethod):
    r"""Global and local label correlation.

    .. math::
        \min_{W, Z, E} \tfrac12 \|XW - YZ\|_F^2 + \alpha \|Z\|_* + \beta \|E\|_1
        + \tfrac{\gamma}{2} \operatorname{tr}(W L W^\top) + \tfrac{\eta}{2} \|W\|_F^2
        \quad \text{s.t. } Y = YZ + E,\; 0 \le E \le Y

    Column j of the low-rank matrix Z reconstructs label j from all labels (global correlation), and
    L is the Laplacian of the graph of labels that are listed together (local correlation). What Z
    cannot reconstruct is noise.

    The ingredients are published; the objective, the graph and the weights are a reconstruction.
    Four means published for this method on the Birds data with r = 3 agree in every digit with
    those of ridge regression with weight 1 on the candidates, which is ``GLC(correlation=False)``.

    Parameters
    ----------
    alpha : float
        Weight of the rank of Z. A large value drives Z, and all scores, to zero.
    beta : float
        Penalty on noise. With a large `beta` or a small `alpha` Z is the identity, and GLC is ridge
        regression except for the label graph; see `rank_` and `noise_support_`.
    gamma : float
        Weight of the label graph.
    eta : float
        Ridge weight. Data with many features may need much more than 1.
    correlation : bool
        False leaves out Z, E and the label graph: ridge regression on the candidates with weight
        `eta`.
    manifold : {"weights", "outputs"}
        What related labels share: similar "weights", or similar "outputs" on the training rows.
    n_neighbors : int or None
        Keep the graph edges to this many nearest labels; None keeps all.
    mu, mu_max, rho : float
        First penalty, its upper bound, and its growth per round.
    max_iter : int
        Maximum number of rounds.
    tol : float
        Stop when no entry violates the constraints by more than this.
    fit_intercept : bool
        Add an unpenalised intercept.
    threshold : float, array or str
        Rule of `predict`. "row-0.9" predicts scores above 0.9 after each row is scaled to [0, 1].
        Alternatives: a number, one number per label, "top-3", or "cardinality".
    verbose : bool
        Show stage, round, share done and time left on stderr.

    Attributes
    ----------
    coef_ : (l, d) weights;  intercept_ : (l,)
    noise_ : (n, l) bool, candidates with E > 0.5; none without `correlation`.
    label_confidence_ : (n, l) probability that a candidate is true, from exact leave-one-out
        scores (Z kept fixed), calibrated on the candidates; 0 outside them.
    label_coefficients_ : (l, l) the matrix Z; the identity without `correlation`.
    rank_ : rank of the low-rank copy of Z at the last round.
    noise_support_ : number of cells with E > 0.
    objective_, residual_ : objective and largest violation of the constraints per round.
    calibration_ : the noise-aware sigmoid behind `predict_proba`.
    cardinality_ : estimated number of true labels per row.
    n_iter_, label_names_, n_features_in_, feature_names_in_, classes_, threshold_

    Notes
    -----
    X is factored once. A round costs O((n + min(n, d)) l^2 + l^3) time, the whole fit
    O(n min(n, d)) memory. The noise matrix says little: E shrinks all candidates alike, so
    E > 0.5 tends to hold for all of them (as on the Birds data with the default weights) or for
    none. `label_confidence_` separates wrong candidates much better.

    Examples
    --------
    >>> from schirn.lab import GLC
    >>> from schirn.datasets import make_partial_multilabel
    >>> data = make_partial_multilabel(n_samples=200, n_labels=6, r=1, random_state=0)
    >>> model = GLC().fit(data.X, data.candidates)
    >>> model.predict(data.X[:3]).shape
    (3, 6)
    >>> bool((model.noise_ <= data.candidates).all())
    True
    """

    alpha: float = parameter(1.0, Number())
    beta: float = parameter(0.1, Number())
    gamma: float = parameter(0.1, Number())
    eta: float = parameter(1.0, Number(open_low=True))
    correlation: bool = parameter(True, OneOf((True, False)))
    manifold: Manifold = parameter("weights", OneOf(("weights", "outputs")))
    n_neighbors: int | None = parameter(None, Number(low=1, integer=True, none=True))
    mu: float = parameter(1e-2, Number(open_low=True))
    mu_max: float = parameter(1e4, Number(open_low=True))
    rho: float = parameter(1.1, Number(low=1.0))
    max_iter: int = parameter(100, Number(low=1, integer=True))
    tol: float = parameter(1e-5, Number())
    fit_intercept: bool = parameter(False, OneOf((True, False)))
    threshold: ThresholdRule = "row-0.9"
    verbose: bool = False

    _info: ClassVar = MethodInfo(
        family="label correlation",
        reference="Global-Local Label Correlation for Partial Multi-Label Learning",
        cost="n l^2 + l^3",
        memory="n min(n, d) + n l",
        reconstructed=True,
    )

    def _smallest_ridge(self) -> float:
        return self.eta

    def _coordinates(self, space: RowSpace, Y: Array) -> Array:
        return self._solve(space, Y).w

    def _fit_space(self, space: RowSpace, Y: Array) -> Fit:
        result = self._solve(space, Y)
        self._set_weights(space, result.w)
        self.label_coefficients_ = result.Z
        self.rank_ = result.rank
        self.noise_support_ = int(np.count_nonzero(result.E))
        self.residual_ = result.residual
        return Fit(result.E > 0.5, result.loo_scores, result.n_iter, result.objective)

    def _solve(self, space: RowSpace, Y: Array) -> GLCResult:
        if not self.correlation:
            return _without_correlation(space, Y, self.eta)
        return glc(space, Y, **self._solver_options(glc))


def _without_correlation(space: RowSpace, Y: Array, eta: float) -> GLCResult:
    """Z is the identity and E is zero: one ridge regression."""
    l = Y.shape[1]
    weights = ridge(space, Y.astype(space.dtype), eta)
    Z = np.eye(l, dtype=space.dtype)
    E = np.zeros(Y.shape, dtype=space.dtype)
    trace = np.array([weights.objective / 2]), np.zeros(1)
    return GLCResult(weights.w, Z, E, l, weights.loo_scores, 1, *trace)
