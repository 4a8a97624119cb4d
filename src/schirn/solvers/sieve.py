"""Sieve: leave-one-out ridge scores and an exact posterior of the candidates, in turns.

The same rounds run on all rows and, beside them, on the training part of a few inner splits. The
rows held out there decide how the experts (ridges of different strength, and label correlations)
are pooled into one log-odds: rows that made their own soft labels would praise the weakest ridge.

The rounds run on blocks of rows (see `schirn.scale.blocks`); what a block does is in
`schirn.solvers.sieve_steps`. Here are the decisions between the steps.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from schirn.noise.model import NoiseModel, NoiseSums, noise_from_sums
from schirn.scale.blocks import Coordinates, RowStore
from schirn.solvers import sieve_steps as steps
from schirn.solvers.sieve_pool import FittedStack, Pool, fit_stack, logit, newton
from schirn.solvers.sieve_steps import MARGIN

Array = np.ndarray

_POOL_CELLS = 100_000
# From here on a draw without a list of all cells is worth its other random numbers.
_MANY_CELLS = 20_000_000


class Problem(NamedTuple):
    """Blocks of rows with their parts, and what the driver knows of each part."""

    place: RowStore
    coordinates: list[Coordinates]
    held: list[Array]
    """Per inner split, the rows held out: places among all rows, in the order of the draw."""
    n_labels: int
    rate: float | None = None
    """Known rate at which false labels are listed."""
    own_rates: bool = False
    """Whether the blocks know a rate of each row."""


class SieveResult(NamedTuple):
    """Coordinates of the experts, the pool, the noise model, and a trace of the rounds."""

    w: list[Array]
    pool: Pool
    noise: NoiseModel
    rates: Array
    objective: Array
    place: RowStore

    @property
    def log_odds(self) -> Array:
        """Leave-one-out log-odds (n, l) of all rows."""
        return np.concatenate(self.place.gather(steps.log_odds_of))

    @property
    def Q(self) -> Array:
        """Posterior (n, l) of the candidates, 0 elsewhere."""
        return np.concatenate([Q.toarray() for Q in self.soft_labels()])

    def soft_labels(self) -> list[Any]:
        """Posterior of the candidates as one CSR array per block, with all candidates in it."""
        # Blocks have the rates of their rows themselves.
        noise = self.noise._replace(rate=0.5) if np.ndim(self.noise.rate) else self.noise
        return self.place.gather(steps.soft_labels_of, noise)


class Experts(NamedTuple):
    """What the driver knows of each part in one round."""

    noises: list[NoiseModel]
    w: list[list[Array]]
    priors: list[Array]
    stacks: list[FittedStack | None]
    leader: int


def choose_ridge(
    problem: Problem,
    grid: Array,
    score: Callable[[Array, Array], float] | None = None,
) -> float:
    """The ridge weight whose candidate ridge is best on the candidates of rows held out.

    Parameters
    ----------
    score : f(candidates, scores), higher is better; None takes the negative squared error.
    """
    FtY = _count(problem)[0][1:]
    total = np.zeros(len(grid))
    splits = problem.coordinates[1:]
    for k, t in enumerate(grid):
        if not splits:
            break
        messages = [
            where.send(_ridge(where, right, t)) for where, right in zip(splits, FtY, strict=True)
        ]
        sums = problem.place.step(steps.held_loss, messages, score)
        total[k] = sum(loss / max(size, 1.0) for loss, size in _groups(sums, 2))
    return float(grid[np.argmin(total)])


def sieve(
    problem: Problem,
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
    problem : its first part holds all rows, the others have rows held out
    lams : ridge weights of the experts
    start : the expert that makes the first scores
    label_correlations : add the expert that sees the scores of all labels
    """
    place, n, l = problem.place, problem.coordinates[0].n_rows, problem.n_labels
    correlated = label_correlations and l > 1
    listed, noises = _begin(problem, lams, range(len(lams))[start])
    n_experts = len(lams) + correlated
    equal = np.concatenate([[0.0], np.full(n_experts, 1 / n_experts), [0.0]])
    weights, rates, objective = equal, [], []
    for n_iter in range(1, max_iter + 1):
        leader = int(np.argmax(weights[1 : 1 + len(lams)])) if n_iter > 1 else len(lams) // 2
        experts = _refit(problem, lams, noises, listed, leader, correlated)
        noises = experts.noises
        if n_iter > 1 and len(problem.coordinates) > 1:
            weights = _fit_pool(problem, experts, weights, equal, rng)
        (loss,) = place.step(steps.judge, weights, experts.priors, experts.stacks, leader)
        rates.append(_mean_rate(problem, noises[0]))
        objective.append(loss / (n * l))
        if callback is not None:
            callback(n_iter)
    fitted = experts.stacks[0]
    pool = Pool(weights, experts.priors[0], leader, None if fitted is None else fitted.stack)
    noise = _with_own_rates(problem, noises[0])
    return SieveResult(experts.w[0], pool, noise, np.array(rates), np.array(objective), place)


def trusting_ridge(problem: Problem, lam: float) -> SieveResult:
    """The ridge that takes every candidate as true, in the shape of the other result."""
    where, l = problem.coordinates[0], problem.n_labels
    w = _ridge(where, _count(problem)[0][0], lam)
    (loss,) = problem.place.step(steps.trust, where, lam, where.send(w))
    pool = Pool(np.array([0.0, 1.0, 0.0]), np.zeros(l), 0, None)
    noise = NoiseModel.independent(MARGIN, l)
    objective = np.array([loss / (where.n_rows * l)])
    return SieveResult([w], pool, noise, np.zeros(1), objective, problem.place)


def refit_ridges(where: Coordinates, FtQ: Array, lams: Sequence[float]) -> tuple[list[Array], Any]:
    """Coordinates of the ridges of all lams, and the message that expands them side by side."""
    w = [_ridge(where, FtQ, t) for t in lams]
    return w, where.send(np.concatenate(w, axis=1))


def _count(problem: Problem) -> tuple[list[Array], list[Array]]:
    """F'Y and the candidates of each label, of each part."""
    groups = _groups(problem.place.step(steps.count), 2)
    pairs = zip(problem.coordinates, groups, strict=True)
    FtY = [where.receive(projected) for where, (projected, _) in pairs]
    return FtY, [listed for _, listed in groups]


def _begin(
    problem: Problem, lams: Sequence[float], start: int
) -> tuple[list[Array], list[NoiseModel]]:
    """Candidates of each label and first noise model of each part; first probabilities."""
    place, parts = problem.place, problem.coordinates
    FtY, listed = _count(problem)
    messages = [
        where.send(_ridge(where, right, lams[start]))
        for where, right in zip(parts, FtY, strict=True)
    ]
    sums = _groups(place.step(steps.begin, parts, lams, start, messages), 2)
    rates = [total / number if number else 0.5 for total, number in sums]
    if problem.rate is not None:
        rates = [problem.rate] * len(parts)
    rates = [float(np.clip(rate, *steps.RATES)) for rate in rates]
    place.step(steps.first_chances, rates)
    return listed, [NoiseModel.independent(rate, problem.n_labels) for rate in rates]


def _refit(
    problem: Problem,
    lams: Sequence[float],
    noises: list[NoiseModel],
    listed: list[Array],
    leader: int,
    correlated: bool,
) -> Experts:
    """Posterior, noise model, and all experts on the new soft labels."""
    parts = problem.coordinates
    sums = _groups(problem.place.step(steps.soften, noises), 4)
    w, messages, priors, soft = [], [], [], []
    for k, (where, (projected, total, *counts)) in enumerate(zip(parts, sums, strict=True)):
        noises = list(noises)
        if not problem.own_rates:
            known = None if problem.rate is None else float(noises[k].rate)
            noises[k] = noise_from_sums(NoiseSums(where.n_rows, listed[k], total, *counts), known)
        coordinates, message = refit_ridges(where, where.receive(projected), lams)
        w.append(coordinates)
        messages.append(message)
        soft.append(total)
        priors.append(logit(np.clip(total / where.n_rows, MARGIN, 1 - MARGIN)))
    sums = _groups(problem.place.step(steps.score, messages, leader, correlated), 3)
    stacks: list[FittedStack | None] = [None] * len(parts)
    if correlated:
        stacks = [
            fit_stack(group, total, where.n_rows)
            for group, total, where in zip(sums, soft, parts, strict=True)
        ]
    return Experts(noises, w, priors, stacks, leader)


def _fit_pool(
    problem: Problem, experts: Experts, weights: Array, equal: Array, rng: np.random.RandomState
) -> Array:
    """Pool weights by logistic regression on the posterior of held-out cells, in two turns."""
    l, most = problem.n_labels, _POOL_CELLS // len(problem.held)
    noises, _, priors, stacks, leader = experts
    for _ in range(2):
        picks = [_pick_cells(held, l, most, rng) for held in problem.held]
        blocks = problem.place.gather(
            steps.pool_cells, weights, priors, stacks, leader, noises, picks
        )
        pieces = [piece for block in blocks for piece in block]
        Z, q = (np.concatenate(column) for column in zip(*pieces, strict=True))
        weights = newton(Z, q, weights, equal)
    return weights


def _pick_cells(held: Array, l: int, most: int, rng: np.random.RandomState) -> tuple[Array, Array]:
    """Rows, rising, and labels of some cells of the rows held out."""
    size = len(held) * l
    if size <= _MANY_CELLS:
        cells = rng.choice(size, min(size, most), replace=False)
    else:
        other = np.random.default_rng(rng.randint(2**31))
        cells = other.choice(size, most, replace=False, shuffle=False)
    place, label = np.divmod(cells, l)
    row = held[place]
    order = np.argsort(row, kind="stable")
    return row[order], label[order]


def _mean_rate(problem: Problem, noise: NoiseModel) -> float:
    if not problem.own_rates:
        return float(noise.rate)
    return float(np.mean(np.concatenate(problem.place.gather(steps.rates_of))))


def _with_own_rates(problem: Problem, noise: NoiseModel) -> NoiseModel:
    if not problem.own_rates:
        return noise
    return noise._replace(rate=np.concatenate(problem.place.gather(steps.rates_of)))


def _ridge(where: Coordinates, FtB: Array, t: float) -> Array:
    """Coordinates of the ridge solution with weight t."""
    return FtB / (where.eigenvalues + t * where.penalty)[:, None]


def _groups(sums: Sequence[Any], size: int) -> list[Sequence[Any]]:
    """The sums of each part."""
    return [sums[i : i + size] for i in range(0, len(sums), size)]
