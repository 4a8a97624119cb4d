"""NLR, noisy label removal."""

from collections.abc import Sequence
from itertools import product
from typing import ClassVar

import numpy as np

from schirn._input import Array, Number, OneOf, declare_parameters, parameter
from schirn.estimators import Fit, MethodInfo, RowSpaceMethod
from schirn.lab.rivals.solvers._nlr import NLRResult, nlr, sweep_filters
from schirn.linalg.arrays import threads_for
from schirn.linalg.row_space import RowSpace
from schirn.noise.thresholds import ThresholdRule
from schirn.solvers.self_tuning import Filters, Point


@declare_parameters
class NLR(RowSpaceMethod):
    r"""Noisy label removal by two competing classifiers.

    .. math::
        \min_{W_1, W_2, N} \|XW_1 - (Y - N)\|_F^2 + \|XW_2 - (\bar Y + N)\|_F^2
        + \beta \|XW_1 + XW_2 - 1\|_F^2
        + \gamma (\|W_1\|_F^2 + \|W_2\|_F^2) + \lambda \|N\|_1
        \quad \text{s.t. } N \in \{0, 1\}^{n \times l},\; N \le Y,\; \bar Y = 1 - Y

    One classifier fits the kept candidates, the other the remaining cells, and a candidate on which
    the second one wins is removed. Only the first one predicts.

    Parameters
    ----------
    beta : float or None
        How strongly the outputs of the two classifiers are tied to a sum of one. A large value
        slows the sweeps down and so acts as early stopping. None chooses it on held-out candidates,
        as it does for `gamma` and `lam`; a number is used unchanged.
    gamma : float or None
        Ridge weight of both classifiers.
    lam : float or None
        Penalty for declaring a candidate noise: it is noise if X W1 - X W2 < 1 - lam/2, so useful
        values are between 0 and 4.
    max_iter : int
        Number of sweeps. The authors run exactly 100; with a large `beta`, more sweeps give a
        different model, not a more accurate one.
    tol : float
        Stop when both classifiers move by less than this times their norm in a sweep and the noise
        does not change; 0 runs all sweeps, as the authors do.
    fit_intercept : bool
        Add an unpenalised intercept. The authors use none.
    threshold : float, array or str
        Rule of `predict`. The authors' "row-0.9" predicts scores above 0.9 after each row is scaled
        to [0, 1]. Alternatives: a number, one number per label, "top-3", or "cardinality".
    verbose : bool
        Show stage, round, share done and time left on stderr.

    Attributes
    ----------
    coef_ : (l, d) weights of the first classifier;  intercept_ : (l,)
    beta_, gamma_, lam_ : the numbers of this fit, given or chosen.
    search_ : scores of the points that were compared, as in `schirn.Schirn`, or None.
    noise_ : (n, l) bool, the matrix N: candidates judged wrong.
    label_confidence_ : (n, l) probability that a candidate is true, from leave-one-out scores
        (with N fixed), calibrated on the candidates; 0 outside them.
    objective_, n_noise_ : objective and number of noise labels per sweep. The noise step of the
        authors is not the exact minimum over {0, 1}, so the objective may rise.
    calibration_ : the noise-aware sigmoid behind `predict_proba`.
    cardinality_ : estimated number of true labels per row.
    n_iter_, label_names_, n_features_in_, feature_names_in_, classes_, threshold_

    Notes
    -----
    X is factored once and a sweep costs two products with the factor: O(n l min(n, d)) time and
    O(n min(n, d)) memory. Features are not scaled. A few cells of the noise may keep changing
    until the last sweep.

    Examples
    --------
    >>> from schirn.lab import NLR
    >>> from schirn.datasets import make_partial_multilabel
    >>> data = make_partial_multilabel(n_samples=200, n_labels=6, r=1, random_state=0)
    >>> model = NLR(beta=0.1, gamma=1.0).fit(data.X, data.candidates)
    >>> model.predict(data.X[:3]).shape
    (3, 6)
    >>> bool((model.noise_ <= data.candidates).all())
    True
    """

    beta: float | None = parameter(None, Number(none=True))
    gamma: float | None = parameter(None, Number(open_low=True, none=True))
    lam: float | None = parameter(None, Number(none=True))
    max_iter: int = parameter(100, Number(low=1, integer=True))
    tol: float = parameter(0.0, Number())
    fit_intercept: bool = parameter(False, OneOf((True, False)))
    threshold: ThresholdRule = "row-0.9"
    verbose: bool = False

    _info: ClassVar = MethodInfo(
        family="two competing classifiers",
        reference="Noisy Label Removal for Partial Multi-Label Learning",
        cost="n l min(n, d)",
        memory="n min(n, d) + n l",
    )
    _grid: ClassVar = {
        "beta": (0.001, 0.1, 10.0, 100.0),
        "gamma": (10_000.0, 1000.0, 100.0, 10.0, 1.0, 0.1),
        "lam": (4.0, 3.2, 2.5, 2.1, 1.8),
    }
    _search_rounds: ClassVar = 3
    _untuned: ClassVar = {"beta": 0.1, "gamma": 10.0, "lam": 4.0}

    def _smallest_ridge(self) -> float:
        numbers = self._numbers()
        return numbers["gamma"] / (1 + numbers["beta"])

    def _points(self, values: dict[str, Sequence[float]]) -> list[Point]:
        return [
            Point(
                {"beta": beta, "gamma": gamma, "lam": lam},
                (beta, gamma),
                threshold=1 - lam / 2,
                ridge=gamma / (1 + beta),
            )
            for lam, gamma, beta in product(values["lam"], values["gamma"], values["beta"])
        ]

    def _filters(self, space: RowSpace, which: Sequence[tuple[float, ...]]) -> Filters:
        beta, gamma = (np.array(column)[:, None] for column in zip(*which, strict=True))
        a1, b1, a2, b2 = sweep_filters(space, self.max_iter, beta, gamma)
        return Filters(a1, b1, a1 - a2, b1 - b2)

    def _coordinates(self, space: RowSpace, Y: Array) -> Array:
        return self._solve(space, Y).w1

    def _fit_space(self, space: RowSpace, Y: Array) -> Fit:
        result = self._solve(space, Y)
        self._set_weights(space, result.w1)
        self.n_noise_ = result.n_noise
        return Fit(result.N, result.loo_scores, result.n_iter, result.objective)

    def _solve(self, space: RowSpace, Y: Array) -> NLRResult:
        rows, rank = space.shape
        with threads_for(2 * rows * rank * Y.shape[1]):
            return nlr(space, Y, **{**self._solver_options(nlr), **self._numbers()})
