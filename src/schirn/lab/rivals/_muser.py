"""MUSER, multi-subspace representation."""

from typing import ClassVar

import numpy as np
import scipy.sparse as sp

from schirn._input import Array, Number, OneOf, declare_parameters, parameter
from schirn.estimators import Fit, LinearMethod, MethodInfo
from schirn.lab.rivals.solvers._muser import muser
from schirn.lab.rivals.solvers.graph import neighbour_graph
from schirn.linalg.row_space import row_space
from schirn.noise.thresholds import ThresholdRule


@declare_parameters
class MUSER(LinearMethod):
    r"""A label subspace that a feature subspace predicts, smooth over a graph of the rows.

    .. math::
        \min_{U, P, Q, W} \tfrac12 \|U - XQW\|_F^2 + \tfrac\alpha2 \|Y - UP\|_F^2
        + \tfrac\beta2 \operatorname{tr}(U^\top L U)
        + \tfrac\gamma2 (\|W\|_F^2 + \|U\|_F^2 + \|P\|_F^2) \quad \text{s.t. } Q^\top Q = I

    with U of c columns and Q of m columns. Scores are X Q W P. The objective is known from the
    abstract and from a reimplementation by others; the graph, c, m, the start and the steps are
    reconstructed. The authors move U and Q by gradient steps; here every step is exact.

    Parameters
    ----------
    alpha : float
        Weight of the candidates.
    beta : float
        Weight of the graph.
    gamma : float
        Ridge weight of all factors.
    n_components : int or None
        Columns c of the label subspace; None uses as many as there are labels, the maximum. With
        fewer, candidates that few others come with are lost.
    n_directions : int or None
        Columns m of the feature subspace; None uses c, which constrains nothing.
    n_neighbors : int
        Number of neighbours in the graph.
    max_iter : int
        Number of rounds.
    tol : float
        Stop when the relative change of the objective falls below this value.
    fit_intercept : bool
        Add an unpenalised intercept.
    threshold : float, array or str
        Rule of `predict`: a number, one number per label, "top-3", "row-0.9" or "cardinality".
    verbose : bool
        Show stage, round, share done and time left on stderr.

    Attributes
    ----------
    coef_ : (l, d) weights;  intercept_ : (l,)
    label_confidence_ : (n, l) the matrix U P, clipped to [0, 1] and to the candidates.
    noise_ : (n, l) bool, candidates whose confidence is below one half.
    rank_ : rank of the weights from features to the label subspace.
    objective_ : objective per round.
    calibration_, cardinality_, n_iter_, label_names_, n_features_in_, threshold_

    Notes
    -----
    X is factored once. A round costs O(n c (min(n, d) + l)) time and some products with the sparse
    graph; memory is O(n min(n, d) + n l). `predict_proba` is calibrated on leave-one-out scores
    with U and P fixed. Features are not scaled; scale them first if their units differ.

    References
    ----------
    "Partial Multi-Label Learning via Multi-Subspace Representation".

    Examples
    --------
    >>> from schirn.lab import MUSER
    >>> from schirn.datasets import make_partial_multilabel
    >>> data = make_partial_multilabel(n_samples=200, n_labels=6, r=1, random_state=0)
    >>> model = MUSER(n_components=4).fit(data.X, data.candidates)
    >>> model.predict(data.X[:3]).shape
    (3, 6)
    >>> bool((np.diff(model.objective_) <= 0).all())
    True
    """

    alpha: float = parameter(1.0, Number(open_low=True))
    beta: float = parameter(0.1, Number())
    gamma: float = parameter(1.0, Number(open_low=True))
    n_components: int | None = parameter(None, Number(low=1, integer=True, none=True))
    n_directions: int | None = parameter(None, Number(low=1, integer=True, none=True))
    n_neighbors: int = parameter(5, Number(low=1, integer=True))
    max_iter: int = parameter(50, Number(low=1, integer=True))
    tol: float = parameter(1e-5, Number())
    fit_intercept: bool = parameter(False, OneOf((True, False)))
    threshold: ThresholdRule = "cardinality"
    verbose: bool = False

    _info: ClassVar = MethodInfo(
        family="subspaces of labels and features",
        reference="Partial Multi-Label Learning via Multi-Subspace Representation",
        cost="n c min(n, d)",
        memory="n min(n, d) + n l",
        reconstructed=True,
    )

    def _fit(self, X: "Array | sp.csr_array", Y: Array) -> Fit:
        n_components, n_directions = self._sizes(Y.shape[1])
        graph = neighbour_graph(X, self.n_neighbors)
        space = row_space(X, ridge=self.gamma, fit_intercept=self.fit_intercept)
        options = self._solver_options(muser)
        options["n_components"] = n_components
        options["n_directions"] = n_directions
        result = muser(space, Y, graph.laplacian(), **options)
        self._set_weights(space, result.w @ result.P)
        self.rank_ = result.rank
        confidence = np.where(Y == 1, np.clip(result.U @ result.P, 0, 1), 0)
        noise = (Y == 1) & (confidence < 0.5)
        return Fit(noise, result.loo_scores, result.n_iter, result.objective, confidence)

    def _sizes(self, n_labels: int) -> tuple[int, int]:
        """Numbers of columns of U and Q."""
        n_components = min(self.n_components or n_labels, n_labels)
        return n_components, min(self.n_directions or n_components, n_components)
