"""PAKS, prior-knowledge regularised self-representation."""

from collections.abc import Callable, Hashable, Sequence
from typing import Any, ClassVar, Literal

import numpy as np
import scipy.sparse as sp

from schirn._input import Array, Number, OneOf, declare_parameters, parameter
from schirn.estimators import Fit, LinearMethod, MethodInfo
from schirn.lab.rivals.solvers._paks import Membership, PAKSResult, paks
from schirn.linalg.features import standard_factor
from schirn.linalg.row_space import RowSpace, row_space
from schirn.noise.thresholds import ThresholdRule


@declare_parameters
class PAKS(LinearMethod):
    r"""Purified features from a low-rank self-representation that the candidate sets guide.

    .. math::
        &\min_{Z, E} \|Z\|_* + \alpha \|E\|_{2,1} + \beta \|M \circ Z\|_1
        \quad \text{s.t. } X = ZX + E \\
        &\min_W \tfrac12 \|ZXW - Y\|_F^2 + \tfrac{\eta}{2} \|W\|_F^2

    Row i of Z builds row i of X from the others, E absorbs outlying rows, and M makes it expensive
    to build a row from rows with different candidates. The classifier W is fitted to the purified
    rows Z X and is applied to new rows as they are.

    The ingredients are published; the objective, the weights and the solver are a reconstruction.

    Parameters
    ----------
    alpha : float
        Penalty on a row of E, proportional to its length; sensible values are 0.001 to 1.
    beta : float
        Weight of the prior M; sensible values are again 0.001 to 1.
    eta : float
        Ridge weight of W; sensible values are 1 to 1000. It often matters more than `alpha` and
        `beta`.
    gamma : float
        Adds gamma times the second problem to the first one, and solves them in turn. Values
        above 0 tend to fit the wrong candidates through Z.
    membership : {"jaccard", "disjoint"}
        How M compares two candidate sets: "jaccard", one minus shared labels over all labels of the
        two; or "disjoint", 1 if they share no label and 0 otherwise.
    scale : {"standard", "none"}
        "standard" scales every feature to mean 0 and variance 1; "none" leaves them unchanged.
    mu, mu_max, rho : float
        First penalty, its upper bound, and its growth per round.
    max_iter : int
        Maximum number of rounds.
    tol : float
        Stop when the constraints hold to this tolerance.
    threshold : float, array or str
        Rule of `predict`. "row-0.9" predicts scores above 0.9 after each row is scaled to [0, 1].
        Alternatives: a number, one number per label, "top-3", or "cardinality".
    verbose : bool
        Show stage, round, share done and time left on stderr.

    Attributes
    ----------
    coef_ : (l, d) weights for the features as given;  intercept_ : (l,), from the means alone
    outlier_norm_ : (n,) length of the rows of E: how much of each row is treated as outlying.
    rank_ : rank of the self-representation.
    label_confidence_ : (n, l) probability that a candidate is true, from exact leave-one-out
        scores (Z kept fixed), calibrated on the candidates; 0 outside them.
    noise_ : (n, l) bool, candidates whose confidence is below one half: the method itself
        makes no decision about single labels.
    objective_, residual_ : objective of the first problem and largest violation per round.
    calibration_ : the noise-aware sigmoid behind `predict_proba`.
    cardinality_ : estimated number of true labels per row.
    n_iter_, label_names_, n_features_in_, feature_names_in_, classes_, threshold_

    Notes
    -----
    A round costs an n x n eigenproblem, O(n^3), and the fit 48 n^2 + 96 n min(n, d) bytes: 1.3 GB
    and about six minutes on two cores for 3000 rows of 6000 features. A sparse X stays sparse,
    standardised or not. If X has more features than rows and no outliers, Z is close to the
    identity and PAKS is close to ridge regression; see `rank_`.

    Examples
    --------
    >>> from schirn.lab import PAKS
    >>> from schirn.datasets import make_partial_multilabel
    >>> data = make_partial_multilabel(n_samples=200, n_labels=6, r=1, random_state=0)
    >>> model = PAKS(eta=10.0).fit(data.X, data.candidates)
    >>> model.predict(data.X[:3]).shape
    (3, 6)
    """

    alpha: float = parameter(0.1, Number(open_low=True))
    beta: float = parameter(0.01, Number())
    eta: float = parameter(100.0, Number(open_low=True))
    gamma: float = parameter(0.0, Number())
    membership: Membership = parameter("jaccard", OneOf(("jaccard", "disjoint")))
    scale: Literal["standard", "none"] = parameter("standard", OneOf(("standard", "none")))
    mu: float = parameter(1e-2, Number(open_low=True))
    mu_max: float = parameter(1e6, Number(open_low=True))
    rho: float = parameter(1.3, Number(low=1.0))
    max_iter: int = parameter(100, Number(low=1, integer=True))
    tol: float = parameter(1e-4, Number())
    threshold: ThresholdRule = "row-0.9"
    verbose: bool = False

    _info: ClassVar = MethodInfo(
        family="low-rank self-representation",
        reference="Prior Knowledge Regularized Self-Representation Model for "
        "Partial Multilabel Learning",
        cost="n^3",
        memory="n^2",
        reconstructed=True,
    )

    def _fit(self, X: "Array | sp.csr_array", Y: Array) -> Fit:
        space, factor = self._factor(X, self.eta)
        result = self._solve(space, Y)
        self._set_weights(space, result.w)
        self.coef_ *= factor
        self.outlier_norm_ = result.outliers
        self.rank_ = result.rank
        self.residual_ = result.residual
        return Fit(None, result.loo_scores, result.n_iter, result.objective)

    def _share_key(self) -> Hashable | None:
        """All but the ridge weight, which the self-representation does not depend on."""
        if self.gamma:
            return None
        unshared = ("eta", "threshold", "verbose")
        return tuple((k, v) for k, v in self.get_params(deep=False).items() if k not in unshared)

    def _share(self, models: Sequence[Any], train: Any, test: Any) -> Callable[[Any, Array], Array]:
        space, factor = self._factor(train, min(model.eta for model in models))
        rows = space.transform(_scaled(test, factor))
        solved: list[PAKSResult] = []

        def scores(model: "PAKS", Y: Array) -> Array:
            if not solved:
                solved.append(model._solve(space, Y))
            return rows @ solved[0].with_eta(space, Y, model.eta)

        return scores

    def _factor(self, X: "Array | sp.csr_array", eta: float) -> tuple[RowSpace, Array]:
        """The scaled X, factored for ridge weights from eta on, and its scaling."""
        standard = self.scale == "standard"
        factor = standard_factor(X) if standard else np.ones(X.shape[1], dtype=X.dtype)
        return row_space(_scaled(X, factor), ridge=min(eta, 2.0), fit_intercept=standard), factor

    def _solve(self, space: RowSpace, Y: Array) -> PAKSResult:
        return paks(space, Y, **self._solver_options(paks))


def _scaled(X: "Array | sp.csr_array", factor: Array) -> "Array | sp.csr_array":
    return sp.csr_array(X * factor[None, :]) if sp.issparse(X) else X * factor
