"""Schirn: sparse label noise under a high-rank prediction."""

import os
from collections.abc import Sequence
from itertools import product
from typing import Any, ClassVar

import numpy as np

from schirn._input import Array, Number, OneOf, declare_parameters, parameter
from schirn.estimators._base import Fit, MethodInfo, RowSpaceMethod
from schirn.linalg.arrays import is_device_array, namespace, threads_for
from schirn.linalg.prox import NoiseRule, RankTerm, noise_threshold
from schirn.linalg.row_space import RowSpace, ridge
from schirn.noise.thresholds import ThresholdRule
from schirn.scale.blocks import Layout, RowStore
from schirn.scale.factor import factor_blocks
from schirn.scale.fit import BlockFit, judge_by_ridge, sample_rows
from schirn.solvers.schirn import SchirnFit, schirn
from schirn.solvers.schirn_blocks import schirn_in_one_block, schirn_on_blocks
from schirn.solvers.self_tuning import Filters, Point, ridge_filters

# Up to this many cells (rows x labels), the paper's loop is fastest. Larger matrices do not fit
# into the cache, and the block solver reads them less often.
_LOOP_CELLS = 2**18


@declare_parameters
class Schirn(RowSpaceMethod):
    r"""Sparse label noise under a high-rank prediction.

    The method of [1]_ minimises

    .. math::
        \min_{W, N} \|XW - (Y - N)\|_F^2 + \alpha \|N\|_1 - \beta \|XW\|_* + \lambda \|W\|_F^2
        \quad \text{s.t. } N \in \{0, 1\}^{n \times l},\; N \le Y

    by augmented Lagrange multipliers on C = XW. The norm of N keeps wrong labels few; maximising
    the nuclear norm keeps the rank of the prediction matrix high.

    Parameters
    ----------
    alpha : float, default=None
        Penalty for declaring a candidate noise. None chooses `alpha` on held-out candidates, and
        likewise `beta` and `lam`.
    beta : float, default=None
        Weight of the rank term.
    lam : float, default=None
        Ridge weight.
    noise_rule : {"exact", "printed"}, default="exact"
        "exact" solves the noise step over {0, 1}: noise if Y - C > (1 + alpha)/2. "printed" is the
        formula in the paper, noise if Y - C > alpha/2. The two rules coincide under
        alpha_printed = 1 + alpha_exact.
    rank_term : {"high", "low", "none"}, default="high"
        "high" raises the singular values of the prediction, "low" shrinks them, "none" leaves them
        unchanged; the last two are the ablations of the paper.
    sparsity : bool, default=True
        False drops the penalty on noise (alpha = 0), an ablation of the paper.
    mu : float, default=1e-4
        Initial penalty of the multipliers.
    mu_max : float, default=10.0
        Upper bound of `mu`.
    rho : float, default=1.1
        Growth factor of `mu` per round.
    max_iter : int, default=100
        Maximum number of rounds.
    tol : float, default=0.0
        Stop when the relative primal residual is below this value and the noise no longer changes;
        0 runs all rounds, as the paper does.
    fit_intercept : bool, default=False
        Add an unpenalised intercept. The paper has none, but centred features need one: without it
        the scores cannot represent label frequencies.
    threshold : float, array or str, default="cardinality"
        Rule of `predict`: a number, one number per label, "top-3", or "cardinality", which predicts
        as many labels per row as `label_confidence_` expects.
    checkpoint : path, default=None
        Folder for the state of a long fit. A killed fit resumes from it when started again with the
        same data and parameters. The folder is removed at the end of the fit.
    verbose : bool, default=False
        Show stage, round, share done and time left on stderr.

    Attributes
    ----------
    coef_ : array of shape (l, d)
        Weights of the features.
    intercept_ : array of shape (l,)
    alpha_, beta_, lam_ : float
        Parameters used by this fit, given or chosen.
    search_ : dict or None
        Arrays with one entry per point of the grid: "alpha", "beta", "lam", the "score" (average
        precision of held-out candidates) and the "rounds" after which the point was last scored.
        "rows" is the number of rows used. None if all parameters were given.
    noise_ : array of shape (n, l)
        The matrix N, as bool: candidates judged wrong.
    label_confidence_ : array of shape (n, l)
        Probability that a candidate is true, from the leave-one-out scores of the ridge on Y - N,
        calibrated on the candidates; 0 outside the candidates.
    objective_ : array of shape (n_iter_,)
        Objective after each round.
    residual_ : array of shape (n_iter_,)
        ||XW - C||_F after each round.
    n_noise_ : array of shape (n_iter_,)
        Number of noise labels after each round.
    calibration_ : Calibration
        The noise-aware sigmoid behind `predict_proba`: slope and offset of the score and the rate
        at which false labels are listed, fitted to the candidates alone.
    cardinality_ : float
        Estimated number of true labels per row.
    threshold_ : LabelThreshold
        The rule that `predict` applies.
    n_iter_ : int
        Number of rounds.
    label_names_ : list of str
    classes_ : int array of shape (max(l, 2),)
        Indices of the labels.
    n_features_in_ : int
    feature_names_in_ : array of shape (d,)
        Only after training on a DataFrame.

    Notes
    -----
    X is factored once, and each round costs one product with the factor: O(n l min(n, d)) time and
    O(n min(n, d)) memory. The singular values are shifted by 2 beta/(2 + mu) as printed in the
    paper, which is exact for a rank weight of 2 beta; `objective_` uses the weight beta of the
    formula above.

    Parameters left at None are chosen from 7 alphas, 2 betas and 7 lams on three splits, each
    factored once. All points run rounds of noise step and ridge side by side, the worse half is
    dropped after each round, and a full fit confirms the best point on one split (see
    docs/schirn.md). For very large X, a sample of the rows is used.

    References
    ----------
    .. [1] C. Si, Y. Cui, F. Yang, X. Yang and W. Shen, "Revisiting Sparsity Constraint Under
       High-Rank Property in Partial Multi-Label Learning", 2025.

    Examples
    --------
    >>> from schirn import Schirn
    >>> from schirn.datasets import make_partial_multilabel
    >>> data = make_partial_multilabel(n_samples=200, n_labels=6, r=1, random_state=0)
    >>> model = Schirn().fit(data.X, data.candidates)
    >>> model.predict(data.X[:3]).shape
    (3, 6)
    >>> model.alpha_, model.beta_, model.lam_
    (2.0, 0.1, 10.0)
    >>> bool((model.noise_ <= data.candidates).all())
    True
    """

    alpha: float | None = parameter(None, Number(none=True))
    beta: float | None = parameter(None, Number(none=True))
    lam: float | None = parameter(None, Number(open_low=True, none=True))
    noise_rule: NoiseRule = parameter("exact", OneOf(("exact", "printed")))
    rank_term: RankTerm = parameter("high", OneOf(("high", "low", "none")))
    sparsity: bool = parameter(True, OneOf((True, False)))
    mu: float = parameter(1e-4, Number(open_low=True))
    mu_max: float = parameter(10.0, Number(open_low=True))
    rho: float = parameter(1.1, Number(low=1.0))
    max_iter: int = parameter(100, Number(low=1, integer=True))
    tol: float = parameter(0.0, Number())
    fit_intercept: bool = parameter(False, OneOf((True, False)))
    threshold: ThresholdRule = "cardinality"
    checkpoint: str | os.PathLike[str] | None = None
    verbose: bool = False

    _info: ClassVar = MethodInfo(
        family="sparse noise, high rank",
        reference="Revisiting Sparsity Constraint Under High-Rank Property in Partial "
        "Multi-Label Learning",
        cost="n l min(n, d)",
        memory="n min(n, d) + n l",
    )
    row_locations: ClassVar = ("device", "dask", "files")
    _grid: ClassVar = {
        "alpha": (2.0, 1.0, 0.95, 0.8, 0.5, 0.2, 0.0),
        "beta": (0.01, 0.1),
        "lam": (10_000.0, 1000.0, 100.0, 10.0, 1.0, 0.1, 0.01),
    }
    _untuned: ClassVar = {"alpha": 1.0, "beta": 0.01, "lam": 10.0}

    _continues: ClassVar = ("memory", "files")

    def _smallest_ridge(self) -> float:
        return self._numbers()["lam"] * self._ridge_per_lam()

    def _ridge_per_lam(self) -> float:
        with np.errstate(over="ignore"):
            largest_mu = min(self.mu_max, self.mu * np.float64(self.rho) ** (self.max_iter - 1))
        return float(2 / largest_mu)

    def _points(self, values: dict[str, Sequence[float]]) -> list[Point]:
        # The printed rule is the exact rule with alpha shifted by one.
        shift = 1.0 if self.noise_rule == "printed" and self.alpha is None else 0.0
        sign = {"high": 1.0, "low": -1.0, "none": 0.0}[self.rank_term]
        per_lam = min(1.0, self._ridge_per_lam())
        points = []
        if not self.sparsity:
            values = {**values, "alpha": values["alpha"][-1:]}
        if self.rank_term == "none":
            values = {**values, "beta": values["beta"][:1]}
        for alpha, lam, beta in product(values["alpha"], values["lam"], values["beta"]):
            params = {"alpha": alpha + shift, "beta": beta, "lam": lam}
            price = params["alpha"] if self.sparsity else 0.0
            threshold = noise_threshold(price, self.noise_rule)
            points.append(Point(params, (lam,), threshold, sign * beta, lam * per_lam))
        return points

    def _filters(self, space: RowSpace, which: Sequence[tuple[float, ...]]) -> Filters:
        return ridge_filters(space, [lam for (lam,) in which])

    def _coordinates(self, space: RowSpace, Y: Array) -> Array:
        return self._run(space, Y).w

    def _fit_space(self, space: RowSpace, Y: Array) -> Fit:
        fit = self._run(space, Y)
        self._set_weights(space, fit.w)
        self.residual_ = fit.residual
        self.n_noise_ = fit.n_noise
        # W is nearly the ridge on Y - N, whose leave-one-out scores have a closed form: the rank
        # term adds beta U V' to Y - N, and the rounds do not converge.
        clean = (Y.astype(bool) & ~fit.N).astype(space.dtype)
        loo_scores = ridge(space, clean, self.lam_).loo_scores
        return Fit(fit.N, loo_scores, len(fit.objective), fit.objective)

    def _run(self, space: RowSpace, Y: Array) -> SchirnFit:
        """Run the rounds on factored features, in memory or on a device."""
        is_small = Y.size <= _LOOP_CELLS and not is_device_array(space.eigenvalues)
        solver = schirn if is_small else schirn_in_one_block
        with threads_for(2 * np.prod(space.shape) * Y.shape[1]):
            return solver(space, Y, **self._options())

    def _fit_blocks(self, store: RowStore, layout: Layout) -> BlockFit:
        X, Y = sample_rows(store, layout) if self._is_open() else (None, None)
        self._choose(X, Y, layout.n)
        ridge = self._smallest_ridge()
        factor = factor_blocks(store, layout, ridge=ridge, fit_intercept=self.fit_intercept)
        trace = schirn_on_blocks(store, factor.coordinates, **self._options())
        W, self.intercept_ = factor.coefficients(trace.w)
        xp = namespace(W)
        self.coef_ = np.ascontiguousarray(W.T) if xp is np else xp.asarray(W.T, copy=True)
        self.residual_ = trace.residual
        self.n_noise_ = trace.n_noise
        self.objective_ = trace.objective
        self.n_iter_ = len(trace.objective)
        return judge_by_ridge(self, store, factor, trace.clean, self.lam_)

    def _options(self) -> dict[str, Any]:
        numbers = self._numbers()
        if not self.sparsity:
            numbers["alpha"] = 0.0
        return {**self._solver_options(schirn), **numbers}
