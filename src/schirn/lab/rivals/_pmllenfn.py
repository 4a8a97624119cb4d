"""PML-LENFN, near-far neighbourhood label enhancement and nonlinear guidance."""

from collections.abc import Callable, Hashable, Sequence
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from sklearn.utils import check_random_state

from schirn._input import Array, Number, OneOf, Seed, declare_parameters, parameter
from schirn._progress import stage, track
from schirn.estimators import Fit, LinearMethod, MethodInfo
from schirn.exceptions import InputError
from schirn.lab.rivals.solvers._pmllenfn import NearFar, PMLLENFNResult, near_and_far, pmllenfn
from schirn.lab.rivals.solvers._scaling import Scaling, biased_row_space, minmax
from schirn.linalg.row_space import RowSpace
from schirn.noise.thresholds import ThresholdRule


@declare_parameters
class PMLLENFN(LinearMethod):
    r"""Candidates weighted by near and far rows, and a linear model guided by a sigmoid layer.

    .. math::
        & J_i = Y_i \circ (a_0 Y_i + (1 - a_0 - b_0) \bar Y_{\text{near}(i)}
        + b_0 (1 - \bar Y_{\text{far}(i)})) \\
        & \min_{W, U, V} \|XW - J\|_F^2 + \|XW - h(XV) U\|_F^2 + \lambda_1 \|W\|_F^2
        + \lambda_2 \operatorname{tr}(W L W^\top) + \lambda_3 \|U\|_F^2 + \lambda_4 \|V\|_F^2

    X are the features, scaled to [-1, 1], with a column of ones; h is the sigmoid, and L the
    Laplacian of a graph of labels that are listed together. V hardly leaves its random start, so
    the scores vary with `random_state`; average several starts to reduce that.

    The steps follow the released code, which has one setting of its parameters for all
    data sets; here they are chosen as for any other method.

    Parameters
    ----------
    lam1 : float
        Ridge weight of W.
    lam2 : float
        Weight of the label graph.
    lam3, lam4 : float
        Ridge weights of U and of V.
    a0, b0 : float
        Shares of the candidate itself and of the far rows in an enhanced label; the near rows have
        the rest. Their sum is at most 1.
    nu : float
        Near rows are within this share of a row's range of similarities below the largest one, far
        rows within this share above the smallest.
    include_self : bool
        Count a row among its own near rows, as the released code does. Often no other row is near
        then.
    n_hidden : int or None
        Number of hidden units; None is the number of labels.
    step : float
        Length of the gradient steps of V.
    n_starts : int
        Number of random starts whose weights are averaged.
    max_iter : int
        Maximum number of rounds.
    tol : float
        Stop from round 6 on when the relative fall of the objective is below this value.
    threshold : float, array or str
        Rule of `predict`. "row-0.9", as in the released code, predicts scores above 0.9 after each
        row is scaled to [0, 1]. Alternatives: a number, one number per label, "top-3", or
        "cardinality".
    random_state : int, RandomState or None
        Seed of the starts.
    verbose : bool
        Show stage, round, share done and time left on stderr.

    Attributes
    ----------
    coef_ : (l, d) weights for unscaled features;  intercept_ : (l,)
    pseudo_labels_ : (n, l) the enhanced labels J; 0 outside the candidates.
    label_confidence_ : (n, l) probability that a candidate is true, from leave-one-out scores (with
        J and the hidden layer fixed), calibrated on the candidates; 0 outside them.
    noise_ : (n, l) bool, candidates whose confidence is below one half.
    objective_ : objective per round, of the last start.
    calibration_, cardinality_, n_iter_, label_names_, n_features_in_, threshold_

    Notes
    -----
    The first step costs O(n^2 (d + l)) time, in blocks of rows. X is factored once; a round costs
    O(n l min(n, d)), and the fit O(n min(n, d)) memory. A sparse X stays sparse.

    Examples
    --------
    >>> from schirn.lab import PMLLENFN
    >>> from schirn.datasets import make_partial_multilabel
    >>> data = make_partial_multilabel(n_samples=200, n_labels=6, r=1, random_state=0)
    >>> model = PMLLENFN(max_iter=20).fit(data.X, data.candidates)
    >>> model.predict(data.X[:3]).shape
    (3, 6)
    >>> bool((model.pseudo_labels_ <= data.candidates).all())
    True
    """

    lam1: float = parameter(10.0, Number(open_low=True))
    lam2: float = parameter(1.0, Number())
    lam3: float = parameter(0.01, Number(open_low=True))
    lam4: float = parameter(10.0, Number())
    a0: float = parameter(0.7, Number(high=1.0))
    b0: float = parameter(0.1, Number(high=1.0))
    nu: float = parameter(0.2, Number(high=1.0))
    include_self: bool = parameter(True, OneOf((True, False)))
    n_hidden: int | None = parameter(None, Number(low=1, integer=True, none=True))
    step: float = parameter(1e-3, Number())
    n_starts: int = parameter(1, Number(low=1, integer=True))
    max_iter: int = parameter(200, Number(low=1, integer=True))
    tol: float = parameter(1e-3, Number())
    threshold: ThresholdRule = "row-0.9"
    random_state: Any = parameter(0, Seed())
    verbose: bool = False

    _info: ClassVar = MethodInfo(
        family="enhanced labels, sigmoid guidance",
        reference="Partial Multi-label Learning Based On Near-Far Neighborhood Label Enhancement "
        "And Nonlinear Guidance",
        cost="n l min(n, d)",
        memory="n min(n, d)",
    )

    def _check(self) -> None:
        super()._check()
        if self.a0 + self.b0 > 1 + 1e-12:
            raise InputError(
                f"a0 + b0 must be at most 1, got {self.a0!r} + {self.b0!r}", parameter="b0"
            )

    def _fit(self, X: "Array | sp.csr_array", Y: Array) -> Fit:
        stage("factoring the features")
        scaling, space = self._factor(X, self.lam1)
        J = self._near_and_far(X, scaling, Y).enhance(Y, self.a0, self.b0)
        results = self._solve(space, J)
        W, self.intercept_ = scaling.undo(space.coefficients(_mean(results, "w"))[0])
        self.coef_ = np.ascontiguousarray(W.T)
        self.pseudo_labels_ = J
        loo_scores = _mean(results, "loo_scores")
        return Fit(None, loo_scores, results[-1].n_iter, results[-1].objective)

    def _share_key(self) -> Hashable | None:
        return ()

    def _share(self, models: Sequence[Any], train: Any, test: Any) -> Callable[[Any, Array], Array]:
        scaling, space = self._factor(train, min(model.lam1 for model in models))
        known: dict[Hashable, NearFar] = {}

        def scores(model: "PMLLENFN", Y: Array) -> Array:
            key = model.nu, model.include_self
            if key not in known:
                known[key] = model._near_and_far(train, scaling, Y)
            J = known[key].enhance(Y, model.a0, model.b0)
            w = _mean(model._solve(space, J), "w")
            W, intercept = scaling.undo(space.coefficients(w)[0])
            return np.asarray(test @ W) + intercept

        return scores

    def _factor(self, X: "Array | sp.csr_array", lam1: float) -> tuple[Scaling, RowSpace]:
        scaling = minmax(X)
        return scaling, biased_row_space(X, scaling, ridge=lam1 / 2)

    def _near_and_far(self, X: "Array | sp.csr_array", scaling: Scaling, Y: Array) -> NearFar:
        # Distances do not change with the shift, without which a sparse X stays sparse.
        return near_and_far(scaling.apply(X), Y, nu=self.nu, include_self=self.include_self)

    def _solve(self, space: RowSpace, J: Array) -> list[PMLLENFNResult]:
        """One result per start."""
        rng = check_random_state(self.random_state)
        l = J.shape[1]
        k = l if self.n_hidden is None else self.n_hidden
        results = []
        starts = range(self.n_starts)
        for _ in starts if self.n_starts == 1 else track(starts, "start"):
            U = rng.standard_normal((k, l)).astype(space.dtype)
            V = rng.standard_normal((space.X.shape[1], k)).astype(space.dtype)
            v = space.project(space.X @ V) / space.eigenvalues[:, None]
            results.append(pmllenfn(space, J, U, v, **self._solver_options(pmllenfn)))
        return results


def _mean(results: list[PMLLENFNResult], name: str) -> Array:
    return np.asarray(sum(getattr(result, name) for result in results) / len(results))
