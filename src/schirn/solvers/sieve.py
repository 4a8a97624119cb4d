"""Sieve: leave-one-out ridge scores and an exact posterior of the candidates, in turns.

The same rounds run on all rows and, beside them, on the training part of a few inner splits. The
rows held out there decide how the experts (ridges of different strength, and label correlations)
are pooled into one log-odds: rows that made their own soft labels would praise the weakest ridge.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from scipy.linalg import cho_factor, solve_triangular
from scipy.special import expit

from schirn.linalg import RowSpace
from schirn.noise import NoiseModel, Posterior, candidate_posterior, update_noise

Array = np.ndarray

# Probabilities handed to Bayes' rule stay this far from 0 and 1.
_MARGIN = 1e-4
# Width of the smooth clip that turns ridge scores into positive numbers.
_SOFT = 0.02
# Ridge of the label-correlation expert, relative to the mean variance of its inputs.
_STACK_RIDGE = 0.3
# Imagined cells that pull the pool to equal weights and no shift.
_POOL_RIDGE = 10.0
_POOL_CELLS = 100_000


class Part(NamedTuple):
    """One ridge problem: its factored rows and candidates, and the rows held out from it."""

    space: RowSpace
    Y: Array
    rate: float | Array | None = None
    """Known rate at which false labels are listed, one or one per row; None estimates it."""
    held: Array | None = None
    """Rows of F for the rows held out."""
    Y_held: Array | None = None
    rate_held: float | Array | None = None


class Stack(NamedTuple):
    """The label-correlation expert: soft labels from all scores, (s - centre) W + mean."""

    W: Array
    centre: Array
    mean: Array

    def scores(self, S: Array) -> Array:
        """Scores of this expert from those of the leading one."""
        return self.mean + (S - self.centre) @ self.W


class Pool(NamedTuple):
    """How expert scores become log-odds: weights of bias, experts and label prior."""

    weights: Array
    prior: Array
    """Log-odds of each label's share of soft labels."""
    leader: int
    """The expert that feeds the label correlations."""
    stack: Stack | None

    def log_odds(self, scores: Sequence[Array]) -> Array:
        """Pooled log-odds of the ridge scores of some rows."""
        scores = list(scores)
        if self.stack is not None:
            scores.append(self.stack.scores(scores[self.leader]))
        return _combine(self.weights, scores, self.prior)


class SieveResult(NamedTuple):
    """Coordinates of the experts, the pool, the noise model, and what they say of the rows."""

    w: list[Array]
    pool: Pool
    noise: NoiseModel
    log_odds: Array
    Q: Array
    rates: Array
    objective: Array


def choose_ridge(
    parts: Sequence[Part],
    grid: Array,
    score: Callable[[Array, Array], float] | None = None,
) -> float:
    """The ridge weight whose candidate ridge is best on the candidates of rows held out.

    Parameters
    ----------
    score : f(candidates, scores), higher is better; None takes the negative squared error.
    """
    total = np.zeros(len(grid))
    for part in parts:
        if part.held is None or part.Y_held is None:
            continue
        FtY = part.space.project(part.Y)
        for k, t in enumerate(grid):
            scores = part.held @ part.space.ridge(FtY, t)
            total[k] += (
                -np.mean((scores - part.Y_held) ** 2)
                if score is None
                else score(part.Y_held, scores)
            )
    return float(grid[np.argmax(total)])


def sieve(
    parts: Sequence[Part],
    lams: Sequence[float],
    *,
    start: int = -1,
    label_correlations: bool = True,
    max_iter: int = 8,
    rng: np.random.RandomState,
    callback: Callable[[int], None] | None = None,
) -> SieveResult:
    """Alternate between soft labels on the candidates and ridge regression on them.

    Each round: the posterior Q of the candidates given the current probabilities; the noise model
    from Q; the ridge of every lam on Q with its leave-one-out scores; the label-correlation expert
    on these; the pool, fitted to the posterior of the rows held out; new probabilities.

    Parameters
    ----------
    parts : the first holds all rows, the others have rows held out
    lams : ridge weights of the experts
    start : the expert that makes the first scores
    label_correlations : add the expert that sees the scores of all labels
    """
    correlated = label_correlations and parts[0].Y.shape[1] > 1
    states = [_State(part, lams, start, correlated) for part in parts]
    n_experts = len(lams) + correlated
    equal = np.concatenate([[0.0], np.full(n_experts, 1 / n_experts), [0.0]])
    weights, rates, objective = equal, [], []
    for n_iter in range(1, max_iter + 1):
        leader = int(np.argmax(weights[1 : 1 + len(lams)])) if n_iter > 1 else len(lams) // 2
        for state in states:
            state.refit(leader)
        if n_iter > 1 and len(states) > 1:
            weights = _fit_pool(states[1:], weights, equal, rng)
        for state in states:
            state.judge(weights)
        rates.append(float(np.mean(states[0].noise.rate)))
        objective.append(states[0].cross_entropy())
        if callback is not None:
            callback(n_iter)
    whole = states[0]
    pool = Pool(weights, whole.prior, leader, whole.stack)
    Q = candidate_posterior(whole.P, whole.Y, whole.noise).Q
    return SieveResult(
        whole.w, pool, whole.noise, whole.log_odds, Q, np.array(rates), np.array(objective)
    )


def trusting_ridge(part: Part, lam: float) -> SieveResult:
    """The ridge that takes every candidate as true, in the shape of the other result."""
    w = part.space.ridge(part.space.project(part.Y), lam)
    fitted = part.space.expand(w)
    pool = Pool(np.array([0.0, 1.0, 0.0]), np.zeros(part.Y.shape[1]), 0, None)
    log_odds = pool.log_odds([part.space.leave_one_out(part.Y, fitted, lam)])
    noise = NoiseModel.independent(_MARGIN, part.Y.shape[1])
    loss = float(np.mean((fitted - part.Y) ** 2))
    Q = part.Y.astype(np.float64)
    return SieveResult([w], pool, noise, log_odds, Q, np.zeros(1), np.array([loss]))


class _State:
    """The running quantities of one part."""

    def __init__(self, part: Part, lams: Sequence[float], start: int, correlated: bool):
        self.space, self.Y, self.lams, self.part = part.space, part.Y, lams, part
        self.correlated = correlated
        self.keep = [1 - part.space.leverage(t)[:, None] for t in lams]
        self._fit(self.Y)
        S = self.loo[start]
        off = self.Y == 0
        first = float(S[off].mean()) if off.any() else 0.5
        rate = np.clip(first if part.rate is None else part.rate, 1e-4, 0.98)
        self.noise = NoiseModel.independent(rate, self.Y.shape[1])
        column = np.reshape(rate, (-1, 1))
        self.P = np.clip((S - column) / (1 - column), _MARGIN, 1 - _MARGIN)

    def refit(self, leader: int) -> None:
        """Posterior, noise model, and all experts on the new soft labels."""
        posterior = candidate_posterior(self.P, self.Y, self.noise)
        self._update_noise(posterior)
        self._fit(posterior.Q)
        self.stack = None
        if self.correlated:
            self.stack, scores = _fit_stack(self.loo[leader], posterior.Q)
            self.loo.append(scores)
        self.prior = _logit(np.clip(posterior.Q.mean(axis=0), _MARGIN, 1 - _MARGIN))
        if self.part.held is not None:
            self.held_scores = [self.part.held @ w for w in self.w]
            if self.stack is not None:
                self.held_scores.append(self.stack.scores(self.held_scores[leader]))

    def judge(self, weights: Array) -> None:
        """New probabilities of all rows."""
        self.log_odds = _combine(weights, self.loo, self.prior)
        self.P = np.clip(expit(self.log_odds), _MARGIN, 1 - _MARGIN)

    def held_posterior(self, weights: Array) -> Array:
        """Posterior of the candidates of the rows held out."""
        P = expit(_combine(weights, self.held_scores, self.prior))
        P = np.clip(P, _MARGIN, 1 - _MARGIN)
        noise, part = self.noise, self.part
        assert part.Y_held is not None
        if np.ndim(noise.rate):
            noise = noise._replace(rate=np.clip(np.asarray(part.rate_held), 1e-4, 0.98))
        return candidate_posterior(P, part.Y_held, noise).Q

    def cross_entropy(self) -> float:
        """Mean cross-entropy of the soft labels under the new probabilities."""
        Q, P = self.Q, self.P
        return float(-np.mean(Q * np.log(P) + (1 - Q) * np.log1p(-P)))

    def _fit(self, Q: Array) -> None:
        self.Q = Q
        FtQ = self.space.project(Q.astype(self.space.dtype, copy=False))
        self.w = [self.space.ridge(FtQ, t) for t in self.lams]
        self.loo = [
            Q - (Q - self.space.expand(w)) / keep for w, keep in zip(self.w, self.keep, strict=True)
        ]

    def _update_noise(self, posterior: Posterior) -> None:
        if np.ndim(self.noise.rate):
            return
        known = None if self.part.rate is None else float(self.noise.rate)
        self.noise = update_noise(self.Y, posterior, known)


def _fit_stack(S: Array, Q: Array) -> tuple[Stack, Array]:
    """Ridge from the scores of all labels to the soft labels, with leave-one-out scores."""
    n, l = S.shape
    centre, mean = S.mean(axis=0), Q.mean(axis=0)
    C = S - centre
    G = C.T @ C
    G[np.diag_indices(l)] += np.trace(G) / l * _STACK_RIDGE + 1e-12
    R, _ = cho_factor(G, lower=False)
    half = solve_triangular(R, C.T, trans="T", check_finite=False)
    W = solve_triangular(R, half @ (Q - mean), check_finite=False)
    keep = np.maximum(1 - 1 / n - np.einsum("ij,ij->j", half, half), 1e-3)
    return Stack(W, centre, mean), Q - (Q - mean - C @ W) / keep[:, None]


def _fit_pool(
    states: Sequence[_State], weights: Array, equal: Array, rng: np.random.RandomState
) -> Array:
    """Pool weights by logistic regression on the posterior of held-out cells, in two turns."""
    for _ in range(2):
        inputs, targets = [], []
        for state in states:
            Q = state.held_posterior(weights)
            cells = rng.choice(Q.size, min(Q.size, _POOL_CELLS // len(states)), replace=False)
            row, label = np.divmod(cells, Q.shape[1])
            columns = [_soft_logit(S[row, label]) for S in state.held_scores]
            inputs.append(np.column_stack([np.ones(len(row)), *columns, state.prior[label]]))
            targets.append(Q[row, label])
        weights = _newton(np.concatenate(inputs), np.concatenate(targets), weights, equal)
    return weights


def _newton(Z: Array, q: Array, weights: Array, equal: Array, steps: int = 3) -> Array:
    """A few damped Newton steps of logistic regression with soft targets q."""
    for _ in range(steps):
        p = expit(Z @ weights)
        gradient = Z.T @ (q - p) - _POOL_RIDGE * (weights - equal)
        hessian = (Z * (p * (1 - p))[:, None]).T @ Z + _POOL_RIDGE * np.eye(len(weights))
        step = np.linalg.solve(hessian, gradient)
        weights = weights + step * min(1.0, 2 / max(float(np.abs(step).max()), 1e-12))
    return weights


def _combine(weights: Array, scores: Sequence[Array], prior: Array) -> Array:
    """Weighted sum of bias, expert log-odds and label prior."""
    total = weights[0] + weights[-1] * prior + np.zeros_like(scores[0])
    for weight, S in zip(weights[1:-1], scores, strict=True):
        total += weight * _soft_logit(S)
    return total


def _soft_logit(s: Array) -> Array:
    """Log-odds of ridge scores clipped smoothly to positive numbers; no ties are made."""
    return np.log(_positive(s)) - np.log(_positive(1 - s))


def _positive(x: Array) -> Array:
    # For negative x the sum would cancel; the product of the two roots is _SOFT^2.
    large = (np.abs(x) + np.sqrt(x * x + 4 * _SOFT**2)) / 2
    return np.where(x > 0, large, _SOFT**2 / large)


def _logit(p: Array) -> Array:
    return np.log(p) - np.log1p(-p)
