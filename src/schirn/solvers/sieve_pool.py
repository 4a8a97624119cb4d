"""How the scores of Sieve's experts become one log-odds: label correlations and the pool."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import cho_factor, solve_triangular
from scipy.special import expit

from schirn.linalg.arrays import Array, cells_product, like, namespace, to_numpy
from schirn.scale.blocks import Cells

# Width of the smooth clip that turns ridge scores into positive numbers.
_SOFT = 0.02
# Ridge of the label-correlation expert, relative to the mean variance of its inputs.
_STACK_RIDGE = 0.3
# Imagined cells that pull the pool to equal weights and no shift.
_POOL_RIDGE = 10.0
# Cells that are worked on at a time stay in the cache of a processor.
_PIECE = 2**15


class Stack(NamedTuple):
    """The label-correlation expert: soft labels from all scores, (s - centre) W + mean."""

    W: np.ndarray
    centre: np.ndarray
    mean: np.ndarray

    def scores(self, S: Array) -> Array:
        """Scores (n, l) of this expert from those of the leading one."""
        return like(self.mean, S) + (S - like(self.centre, S)) @ like(self.W, S)

    def fitted(self, S: Array) -> Array:
        """The same as (l, n), from (l, n)."""
        shift = like(self.mean - self.centre @ self.W, S)
        return like(self.W.T, S) @ S + shift[:, None]


class Pool(NamedTuple):
    """How expert scores become log-odds: weights of bias, experts and label prior."""

    weights: np.ndarray
    prior: np.ndarray
    """Log-odds of each label's share of soft labels."""
    leader: int
    """The expert that feeds the label correlations."""
    stack: Stack | None

    def log_odds(self, scores: Sequence[Array]) -> Array:
        """Pooled log-odds of the ridge scores of some rows."""
        scores = list(scores)
        if self.stack is not None:
            scores.append(self.stack.scores(scores[self.leader]))
        return combine(self.weights, scores, self.prior)


class FittedStack(NamedTuple):
    """The expert as it was fitted, which its own rows need to be left out."""

    stack: Stack
    half: np.ndarray
    """The squared columns of half (S - centre)' sum to the leverages."""
    n_rows: int

    def leave_one_out(self, S: Array) -> tuple[Array, Array]:
        """Fitted values (l, n) for the scores (l, n), and 1/(1 - h) with the leverages h."""
        xp = namespace(S)
        centre = like(self.half @ self.stack.centre, S)
        h = 1 / self.n_rows + xp.sum((like(self.half, S) @ S - centre[:, None]) ** 2, axis=0)
        return self.stack.fitted(S), 1 / xp.clip(1 - h, 1e-3, None)


def stack_sums(S: Array, q: Array, cells: Cells) -> list[np.ndarray]:
    """Sums over the rows of a block: S, S S' and S Q' for scores S (l, n), in double precision."""
    xp = namespace(S)
    S = xp.astype(S, xp.float64, copy=False)
    product = cells_product(cells.label, cells.row, xp.astype(q, xp.float64), S.T, cells.shape[1])
    return [to_numpy(A) for A in (xp.sum(S, axis=1), S @ S.T, product.T)]


def fit_stack(sums: Sequence[np.ndarray], soft: np.ndarray, n: int) -> FittedStack:
    """Ridge from the scores of all labels to the soft labels.

    Parameters
    ----------
    sums : what `stack_sums` gave, added up
    soft : sums of the soft labels over the rows
    n : number of rows
    """
    total, gram, product = sums
    centre, mean, l = total / n, soft / n, len(soft)
    G = gram - n * np.outer(centre, centre)
    G[np.diag_indices(l)] += np.trace(G) / l * _STACK_RIDGE + 1e-12
    R, _ = cho_factor(G, lower=False)
    half = solve_triangular(R, np.eye(l), trans="T", check_finite=False)
    W = half.T @ (half @ (product - n * np.outer(centre, mean)))
    return FittedStack(Stack(W, centre, mean), half, n)


def newton(
    Z: np.ndarray, q: np.ndarray, weights: np.ndarray, equal: np.ndarray, steps: int = 3
) -> np.ndarray:
    """A few damped Newton steps of logistic regression with soft targets q."""
    for _ in range(steps):
        p = expit(Z @ weights)
        gradient = Z.T @ (q - p) - _POOL_RIDGE * (weights - equal)
        hessian = (Z * (p * (1 - p))[:, None]).T @ Z + _POOL_RIDGE * np.eye(len(weights))
        step = np.linalg.solve(hessian, gradient)
        weights = weights + step * min(1.0, 2 / max(float(np.abs(step).max()), 1e-12))
    return weights


def combine(weights: np.ndarray, scores: Sequence[Array], prior: np.ndarray) -> Array:
    """Weighted sum of bias, expert log-odds and label prior."""
    total = 0 * scores[0] + like(weights[0] + weights[-1] * prior, scores[0])
    for weight, S in zip(weights[1:-1], scores, strict=True):
        _add_log_odds(total, float(weight), S)
    return total


def _add_log_odds(total: Any, weight: float, S: Any) -> None:
    """total += weight times the log-odds of S, in pieces where that helps."""
    pieces = isinstance(total, np.ndarray) and total.flags.c_contiguous and S.flags.c_contiguous
    if not pieces:
        total += weight * soft_logit(S)
        return
    out, scores = total.reshape(-1), S.reshape(-1)
    for i in range(0, len(out), _PIECE):
        out[i : i + _PIECE] += weight * soft_logit(scores[i : i + _PIECE])


def soft_logit(s: Array) -> Array:
    """Log-odds of ridge scores clipped smoothly to positive numbers; no ties are made."""
    return namespace(s).log(_positive(s) / _positive(1 - s))


def _positive(x: Array) -> Array:
    # For negative x the sum would cancel; the product of the two roots is _SOFT^2.
    xp = namespace(x)
    large = (abs(x) + xp.sqrt(x * x + 4 * _SOFT**2)) / 2
    return xp.where(x > 0, large, _SOFT**2 / large)


def logit(p: np.ndarray) -> np.ndarray:
    """Log-odds of probabilities."""
    return np.log(p) - np.log1p(-p)
