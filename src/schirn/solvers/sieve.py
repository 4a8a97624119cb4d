"""Sieve: alternate leave-one-out ridges with the exact posterior of the candidates.

The rounds, in the order of docs/math/sieve.md: posterior and noise model (`schirn.noise.model`),
leave-one-out ridges, label stack and pool. They run on all rows and on inner splits. A step is a
function of one split; it returns the split with new values, and sums over its rows. `Problem.each`
runs a step on every split.

What the ridges learn from, and where the rows are, is up to the problem: `sieve_kernel` inverts the
kernel matrix of few rows, `sieve_landmarks` makes features of many rows, and `sieve_blocks` adds up
the sums of rows in blocks.

Shapes: n rows, l labels, e experts. Probabilities p and soft labels q are kept for the candidates
only, row by row, because Q is 0 elsewhere.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.linalg import cho_factor, solve_triangular
from scipy.special import expit, logit

from schirn._checkpoint import Rounds
from schirn._progress import stage, track
from schirn.exceptions import InputError
from schirn.linalg.arrays import (
    Array,
    like,
    namespace,
    to_numpy,
)
from schirn.metrics.multilabel import average_precision_rows
from schirn.metrics.rows import Block
from schirn.noise.model import (
    CellPosterior,
    NoiseModel,
    NoiseSums,
    cell_posterior,
    noise_from_sums,
)
from schirn.noise.votes import anchored
from schirn.solvers.sieve_rows import PIECE_CELLS, Candidates, Rows, Split, dense_part

# Ridge weights to try, relative to the mean variance of the features. For a linear kernel a feature
# in large units has all the variance, and others need a small weight.
GRIDS = {
    "rbf": 10.0 ** np.arange(-3, 3.01, 0.5),
    "linear": 10.0 ** np.arange(3, -9.01, -0.5),
}
# Weights of the experts, relative to the best one for the candidates: cleaned labels need less
# regularisation than noisy ones. A kernel with a width needs no more than the cap.
WINDOW = np.array([0.05, 0.25, 1.0])
LARGEST_RBF_LAM = 6.0
# Bounds of the probabilities that enter Bayes' rule, of rates, and of known labels.
MARGIN, CERTAIN = 1e-4, 1e-9
RATES = (1e-4, 0.98)
# Ridge of the label stack, relative to the mean variance of its inputs.
STACK_RIDGE = 0.3
# A row like no other has a leverage of almost 1; 1 minus it is at least this.
SMALLEST = 1e-3
# Width of the smooth clipping that turns ridge scores into positive numbers.
SOFT = 0.02
# Pseudo-observations that pull the pool towards equal weights and no shift.
POOL_RIDGE = 10.0
POOL_CELLS = 100_000
# From this size on, cells are drawn without listing all of them.
MANY_CELLS = 1_000_000
KNOWN_ROUNDS = 4
# Features too weak to tell noise from labels can let the rounds call ever more candidates wrong,
# until the share of true ones falls below this part of the largest so far.
COLLAPSE = 0.4


class Problem:
    """The split of all rows, inner splits with rows held out, and the ridges on each.

    Parameters
    ----------
    splits : list of Split
    sizes : list of float
        Total weight of the training rows of each split.
    drawn : list of ndarray
        Rows held out of each inner split, in the order of the draw.
    n_labels : int
    rates : float or ndarray of shape (n,), optional
        Known rate at which false labels are listed, for all rows or for each.
    """

    most_stacked: float = np.inf
    """Largest number of labels that get a label stack."""

    def __init__(self, splits: Any, sizes: Any, drawn: Any, n_labels: int, rates: Any = None):
        self.splits, self.sizes, self.drawn = list(splits), list(sizes), list(drawn)
        self.n_labels, self.rates = n_labels, rates
        self.estimated = rates is None
        """Whether nothing is known about the noise."""

    def ridges(
        self, sums: Sequence[Any], lams: Sequence[float], first: Sequence[float] = ()
    ) -> list[Any]:
        """Ridges of every split, given its sums, as messages of `each`; None without sums.

        Their method `score` sets the scores of a split. The first ones get it ready to leave rows
        out of ridges of all the weights `first`, and need not score the rows held out.
        """
        raise NotImplementedError

    def expansion(self, sums: Any, lams: Sequence[float]) -> list[tuple[np.ndarray, np.ndarray]]:
        """Weights and intercepts of the ridges on all rows, given their sums."""
        raise NotImplementedError

    def score(
        self, sums: Sequence[Any], lams: Sequence[float], leader: int, stacked: bool
    ) -> list[Any]:
        """Score all rows by ridges, and fit label stacks to the scores of the leading one.

        A stack is None or has a `stack` and a method `left_out(S, q, candidates)`.
        """
        raise NotImplementedError

    def each(self, step: Callable[..., Any], messages: Sequence[Any], *common: Any) -> list[Any]:
        """Run step(split, message, *common) on every split; the sums of each."""
        pairs = zip(self.splits, messages, strict=True)
        found = [step(split, message, *common) for split, message in pairs]
        self.splits = [split for split, _ in found]
        return [sums for _, sums in found]

    def gather(self, function: Callable[..., Any], *message: Any) -> list[Any]:
        """Call function(splits, *message) on the splits of every block of rows."""
        return [function(self.splits, *message)]

    def keep_first(self) -> None:
        """Drop the inner splits."""
        self.splits, self.sizes, self.drawn = self.splits[:1], self.sizes[:1], []

    def draw_cells(self, rng: np.random.RandomState) -> Iterable[Any]:
        """Cells held out that fit the pool: of each inner split, for each of two turns."""
        most = POOL_CELLS // len(self.drawn)
        for _ in range(2):
            yield [pick_cells(rows, self.n_labels, most, rng) for rows in self.drawn]

    def restore(self, p: list[Any]) -> None:
        """Go on with the probabilities of a checkpoint."""
        self.each(with_probabilities, p[0])


class SieveResult(NamedTuple):
    """Ridges of the experts, pool, noise model, and a trace of the rounds."""

    ridges: list[tuple[np.ndarray, np.ndarray]]
    """Weights and intercepts of every expert: dual ones (n, l), or those of the features."""
    lams: list[float]
    pool: "Pool"
    noise: NoiseModel
    rates: np.ndarray
    """Estimated rate of false labels after each round."""
    objective: np.ndarray
    """Mean cross-entropy of the soft labels per round."""
    problem: Problem

    @property
    def log_odds(self) -> np.ndarray:
        """Leave-one-out log-odds (n, l) of all rows."""
        return np.concatenate(self.problem.gather(log_odds))

    @property
    def Q(self) -> np.ndarray:
        """Posterior (n, l) of the candidates, 0 elsewhere."""
        return np.concatenate([Q.toarray() for Q in self.soft_labels()])

    def soft_labels(self) -> list[sp.csr_array]:
        """Posterior of the candidates as one CSR array per block, with all candidates stored."""
        return self.problem.gather(
            soft_labels, self.noise._replace(rate=float(np.mean(self.noise.rate)))
        )

    def scores(self, X: Array) -> Array:
        """Pooled log-odds of new rows, given their kernel with the training rows, or features."""
        return self.pool.log_odds([X @ W + b for W, b in self.ridges])


# ---- Rounds


def fit(
    problem: Problem,
    lams: Sequence[float],
    *,
    trusting: bool,
    max_iter: int,
    rng: np.random.RandomState,
    known: bool = False,
) -> SieveResult:
    """Run the rounds, or fit one ridge if every candidate is taken as true (`trusting`).

    With `known`, the result is conditioned on the known labels of the rows.
    """
    if trusting:
        return trusting_ridge(problem, lams[0])
    result = sieve(problem, lams, max_iter=max_iter, rng=rng)
    return condition_on_known(result) if known else result


def sieve(
    problem: Problem,
    lams: Sequence[float],
    *,
    label_correlations: bool = True,
    max_iter: int = 8,
    rng: np.random.RandomState,
) -> SieveResult:
    """Alternate between the posterior of the candidates and ridges on the soft labels.

    The rounds run on all rows and, alongside, on the training rows of inner splits whose held-out
    rows fit the pool: rows that shaped their own soft labels would favour the least regularised
    ridge. If the rounds collapse, the result is the first guess.

    Parameters
    ----------
    problem : Problem
    lams : sequence of float
        Ridge weights of the experts.
    label_correlations : bool
        Use the label stack.
    max_iter : int
    """
    stacked = label_correlations and 1 < problem.n_labels <= problem.most_stacked
    n_experts = len(lams) + stacked
    equal = np.r_[0.0, np.full(n_experts, 1 / n_experts), 0.0]
    weights = equal
    own = np.clip(problem.rates, *RATES) if isinstance(problem.rates, np.ndarray) else None
    rates: list[float] = []
    objective: list[float] = []
    true: list[float] = []
    noises = first_round(problem, lams)
    rounds = Rounds(max_iter)
    if rounds.state is not None:
        models, p, weights, rates, objective, true, state = rounds.state
        noises = [NoiseModel(*model) for model in models]
        problem.restore(p)
        rng.set_state(tuple(state))
    sums = problem.each(soften, noises)
    for n_iter in track(rounds.left(), "round", before=rounds.done):
        leader = int(np.argmax(weights[1 : 1 + len(lams)])) if n_iter > 1 else len(lams) // 2
        true.append(float(sums[0].soft.sum()))
        if problem.estimated and true[-1] < COLLAPSE * max(true):
            return only_guess(problem, lams[-1], np.array(rates), np.array(objective))
        noises = [
            update_noise(s.noise, m, problem.rates) for s, m in zip(sums, noises, strict=True)
        ]
        means = [s.soft / n for s, n in zip(sums, problem.sizes, strict=True)]
        priors = [logit(np.clip(mean, MARGIN, 1 - MARGIN)) for mean in means]
        stacks = problem.score(sums, lams, leader, stacked)
        fitted = [Fitted(*model) for model in zip(noises, priors, stacks, strict=True)]
        if n_iter > 1 and problem.drawn:
            weights = fit_pool(problem, fitted, leader, weights, equal, rng)
        if n_iter < max_iter:
            both = list(zip(fitted, noises, strict=True))
            found = problem.each(judge_and_soften, both, weights, leader)
            losses, sums = (list(values) for values in zip(*found, strict=True))
        else:
            losses = problem.each(judge, fitted, weights, leader)
        rates.append(float(noises[0].rate) if own is None else float(own.mean()))
        objective.append(losses[0].total / losses[0].number)
        if rounds.due(n_iter):
            p = problem.gather(current_probabilities)
            now = noises, p, weights, rates, objective, true
            rounds.save(n_iter, (*now, rng.get_state()))
    stack = None if stacks[0] is None else stacks[0].stack
    pool = Pool(weights, priors[0], leader, stack)
    noise = noises[0] if own is None else noises[0]._replace(rate=own)
    trace = np.array(rates), np.array(objective)
    ridges = problem.expansion(sums[0], lams)
    return SieveResult(ridges, list(lams), pool, noise, *trace, problem)


def first_round(problem: Problem, lams: Sequence[float]) -> list[NoiseModel]:
    """First probabilities from the strongest ridge on the candidates, and first noise models."""
    stage("scoring the candidates for the first time")
    counts = problem.each(count, [None] * len(problem.sizes))
    found = problem.each(first_scores, problem.ridges(counts, lams[-1:], lams))
    # Outside the candidates nothing is listed: scores there are the rate of false labels.
    rates = [s.total / s.number if s.number else 0.5 for s in found]
    if isinstance(problem.rates, float):
        rates = [problem.rates] * len(found)
    rates = [float(np.clip(rate, *RATES)) for rate in rates]
    problem.each(first_probabilities, rates)
    return [NoiseModel.independent(rate, problem.n_labels) for rate in rates]


def condition_on_known(result: SieveResult) -> SieveResult:
    """Run a few more rounds on all rows, conditioned on the known labels.

    Before every posterior the probability of a known label is put next to 1 or 0, so that its row,
    similar rows and correlated labels learn from it. A wrong candidate still counts as listed. The
    pool stays as it is.
    """
    problem, pool, noise = result.problem, result.pool, result.noise
    problem.keep_first()
    for _ in range(KNOWN_ROUNDS):
        (sums,) = problem.each(soften, [noise], True)
        noise = update_noise(sums.noise, noise, problem.rates)
        problem.each(score, problem.ridges([sums], result.lams))
        problem.each(judge_by_pool, [pool])
    ridges = problem.expansion(sums, result.lams)
    return result._replace(ridges=ridges, noise=noise)


def only_guess(problem: Problem, lam: float, *trace: np.ndarray) -> SieveResult:
    """The first guess as a result: a ridge on the candidates, and the rate outside them.

    Ridges are linear in what they learn: one on (Y - rate)/(1 - rate) scores the probabilities.
    """
    problem.keep_first()
    (noise,) = first_round(problem, [lam])
    rate = float(noise.rate)
    result = trusting_ridge(problem, lam, rate)
    ridges = [(W / (1 - rate), (b - rate) / (1 - rate)) for W, b in result.ridges]
    rates, objective = trace
    return result._replace(ridges=ridges, noise=noise, rates=rates, objective=objective)


def trusting_ridge(problem: Problem, lam: float, rate: float = 0.0) -> SieveResult:
    """One ridge on the candidates as they are; false labels are listed at the given rate."""
    problem.keep_first()
    (counts,) = problem.each(count, [None])
    (loss,) = problem.each(trust, problem.ridges([counts], [lam], [lam]), rate)
    pool = Pool(np.array([0.0, 1.0, 0.0]), np.zeros(problem.n_labels), 0, None)
    trace = np.zeros(1), np.array([loss.total / loss.number])
    noise = NoiseModel.independent(MARGIN, problem.n_labels)
    return SieveResult(problem.expansion(counts, [lam]), [lam], pool, noise, *trace, problem)


# ---- First scores


class CountSums(NamedTuple):
    """X'Y, and the number of candidates of each label."""

    XtY: Array
    listed: np.ndarray


class MeanSums(NamedTuple):
    """Sum and number of some values."""

    total: float
    number: float


def count(split: Split, message: None = None) -> tuple[Split, CountSums]:
    """Begin with every candidate as true."""
    rows, c = split.train, split.train.candidates
    ones = like(np.ones(c.size), dense_part(rows.X))
    listed = c.listed.astype(np.float64)
    return split._replace(p=ones, q=ones), CountSums(rows.project(ones), listed)


def first_scores(split: Split, ridges: Any) -> tuple[Split, MeanSums]:
    """Leave-one-out scores of a ridge on the candidates, and the rate of false labels."""
    split, rows = ridges.score(split), split.train
    (S,) = split.S
    p = take(S, rows.candidates.flat)
    split = split._replace(p=p, S=None if rows.votes is None else S)
    if rows.rates is not None:
        return split, MeanSums(float(np.clip(rows.rates, *RATES).sum()), len(rows.rates))
    listed = rows.cell_sum(p**0)
    return split, MeanSums(rows.sum(S) - rows.cell_sum(p), rows.n_rows * S.shape[1] - listed)


def first_probabilities(split: Split, rate: float) -> tuple[Split, None]:
    """Probabilities by which the first scores exceed the rate of false labels."""
    S = split.p if split.S is None else split.S
    xp = namespace(S)
    P = xp.clip((xp.astype(S, xp.float64) - rate) / (1 - rate), MARGIN, 1 - MARGIN)
    p = P if split.S is None else probabilities(split.train, logit(P))
    return split._replace(p=like(p, split.p), S=None), None


def trust(split: Split, ridges: Any, rate: float) -> tuple[Split, MeanSums]:
    """Leave-one-out log-odds of one ridge, and the squared error of its leave-one-out scores."""
    split, rows = ridges.score(split), split.train
    (S,) = split.S
    z = soft_logit((S - rate) / (1 - rate))
    if rate > 0:
        split = split._replace(p=probabilities(rows, z))
    return split._replace(S=z), squared_error(S, rows)


# ---- Posterior and noise model


class SoftSums(NamedTuple):
    """Sums over the rows of a split: X'Q, 1'Q by weight, and what the noise model needs."""

    XtQ: Array
    soft: np.ndarray
    noise: NoiseSums


def soften(split: Split, noise: NoiseModel, condition: bool = False) -> tuple[Split, SoftSums]:
    """Posterior of the candidates; `condition` makes it that given the known labels."""
    rows, c, p = split.train, split.train.candidates, split.p
    index = None if rows.counts is None else np.repeat(np.arange(c.shape[0]), rows.counts)
    if condition:
        q, p = known_posterior(rows, p, noise), known_probability(rows, p)
        # The noise is that of rows with an undecided candidate: others may have been corrected.
        undecided = (rows.known == 0) & (rows.votes is None)
        index = np.unique(to_numpy(c.row)[undecided])
    else:
        found = posterior(rows, p, noise)
        q = found.q
    soft = c.total(q if rows.weights is None else q * rows.weights[c.row])
    if index is None:
        # A copy: rows in files share buffers, which the next block fills.
        sums = noise_sums(c.shape[0], c.listed.astype(np.float64), soft, found)
    else:
        some, cells = rows.some(index)
        found, label = posterior(some, p[cells], noise), some.candidates.label
        listed, own = (np.bincount(label, v, c.shape[1]) for v in (found.q**0, found.q))
        sums = noise_sums(len(index), listed, own, found)
    q = like(q, split.p)
    return split._replace(q=q), SoftSums(rows.project(q), soft, sums)


def posterior(rows: Rows, p: Array, noise: NoiseModel) -> CellPosterior:
    """Posterior of the candidates of some rows, given their probabilities."""
    c = rows.candidates
    if rows.votes is not None:
        return CellPosterior(p, np.zeros(c.shape[1] + 1), np.zeros(1))
    if rows.rates is not None:
        noise = noise._replace(rate=np.clip(rows.rates, *RATES))
    return cell_posterior(p, c.indptr, c.label, c.shape[1], noise, c.blocks)


def known_posterior(rows: Rows, p: Array, noise: NoiseModel) -> np.ndarray:
    """Posterior given the known labels, which get 1 or 0."""
    q = posterior(rows, known_probability(rows, p), noise).q
    return np.where(rows.known > 0, 1.0, np.where(rows.known < 0, 0.0, q))


def known_probability(rows: Rows, p: Array) -> np.ndarray:
    """Probabilities of the candidates, with those of known labels next to 1 or 0."""
    p = to_numpy(p).astype(np.float64)
    return np.where(rows.known > 0, 1 - CERTAIN, np.where(rows.known < 0, CERTAIN, p))


def noise_sums(n: int, listed: np.ndarray, soft: np.ndarray, found: CellPosterior) -> NoiseSums:
    """Sums of a posterior over n rows."""
    true = np.pad(found.true_counts, (0, len(listed) + 1 - len(found.true_counts)))
    return NoiseSums(n, listed, soft, found.noise_counts, true)


def update_noise(sums: NoiseSums, noise: NoiseModel, rates: Any) -> NoiseModel:
    """Noise model of a posterior; known rates stay."""
    if isinstance(rates, np.ndarray) or not sums.n_rows:
        return noise
    return noise_from_sums(sums, None if rates is None else float(noise.rate))


def probabilities(rows: Rows, z: Array) -> Array:
    """Probabilities of the candidates from the log-odds (n, l); with votes, given these."""
    if rows.votes is None:
        return probability(take(z, rows.candidates.flat))
    # The votes know how often a label is true; the features move it between rows.
    shifted = anchored(np.clip(z, -11, 11), rows.votes.frequency)
    return expit(take(shifted + rows.votes.log_ratio, rows.candidates.flat))


def probability(z: Array) -> Array:
    """Probabilities of log-odds, kept off 0 and 1."""
    xp = namespace(z)
    return xp.clip(1 / (1 + xp.exp(-xp.clip(z, -30, 30))), MARGIN, 1 - MARGIN)


def known_rates(noise_level: Any, sizes: np.ndarray, n_labels: int) -> "float | np.ndarray | None":
    """Rates at which false labels are listed, from expected numbers of wrong labels.

    Parameters
    ----------
    noise_level : float or ndarray of shape (n,), optional
        Expected number of wrong labels per row.
    sizes : ndarray of shape (n,)
        Number of candidates of each row.
    n_labels : int
    """
    if noise_level is None:
        return None
    n = len(sizes)
    try:
        wrong = np.asarray(noise_level, dtype=np.float64)
    except (TypeError, ValueError):
        wrong = np.array(np.nan)
    if wrong.shape not in ((), (n,)) or not np.isfinite(wrong).all() or (wrong < 0).any():
        raise InputError(
            f"noise_level must be None, a number of at least 0 or {n} such numbers (one per "
            f"row), got {noise_level!r}",
            parameter="noise_level",
        )
    sizes = sizes if wrong.ndim else sizes.mean()
    wrong = np.minimum(wrong, sizes)
    rates = wrong / np.maximum(n_labels - sizes + wrong, 1e-12)
    return rates if wrong.ndim else float(rates)


def trusts(noise_level: Any) -> bool:
    """Whether a noise level declares every candidate true."""
    return noise_level is not None and not isinstance(noise_level, str) and not np.any(noise_level)


# ---- Leave-one-out scores and label stack


def score(split: Split, ridges: Any) -> tuple[Split, None]:
    """Leave-one-out scores of all ridges, and scores of the rows held out."""
    return ridges.score(split), None


def leave_out(S: Array, q: Array, c: Candidates, factors: Array) -> Array:
    """Q - (Q - S) factors for fitted scores S (n, l), written into S."""
    xp = namespace(S)
    S *= factors[:, None]
    xp.reshape(S, (-1,))[c.flat] += q * xp.take(1 - factors, c.row)
    return S


class LabelStack(NamedTuple):
    """Label correlations: a ridge from the scores of all labels to the soft labels."""

    W: np.ndarray
    """Weights (l, l), or their left factor (l, n) if there are fewer rows than labels."""
    centre: np.ndarray
    mean: np.ndarray
    right: np.ndarray | None = None
    """Right factor (n, l) of the weights."""

    def scores(self, S: Array) -> Array:
        """Scores (n, l) from those of the leading ridge."""
        found = (S - like(self.centre, S)) @ like(self.W, S)
        if self.right is not None:
            found = found @ like(self.right, S)
        return like(self.mean, S) + found


def stack_half(G: np.ndarray, squares: float) -> np.ndarray:
    """half with half' half = (G + t I)^-1 for the Gram matrix G (l, l) of centred scores."""
    l = len(G)
    t = stack_ridge(float(np.trace(G)), l, squares)
    R, _ = cho_factor(G + t * np.eye(l), lower=False)
    return solve_triangular(R, np.eye(l), trans="T", check_finite=False)


def stack_ridge(trace: float, l: int, squares: float) -> float:
    """Ridge weight; where all scores are equal, the last term outweighs rounding errors."""
    return trace / l * STACK_RIDGE + 1e-12 + 1e-14 * squares


class Fitted(NamedTuple):
    """What a round has fitted to one split, besides the ridges."""

    noise: NoiseModel
    prior: np.ndarray
    """Log-odds of the mean soft label of each label, (l,)."""
    stack: Any


def judge(
    split: Split, fitted: Fitted, weights: np.ndarray, leader: int
) -> tuple[Split, MeanSums | None]:
    """New probabilities; of all rows also the log-odds, and their cross-entropy."""
    experts = [*split.S]
    if fitted.stack is not None:
        S = fitted.stack.left_out(experts[leader], split.q, split.train.candidates)
        experts.append(S)
    return judged(split, combine(weights, experts, fitted.prior))


def judge_and_soften(
    split: Split, message: tuple[Fitted, NoiseModel], weights: np.ndarray, leader: int
) -> tuple[Split, tuple[MeanSums | None, SoftSums]]:
    """The last step of a round and the first one of the next."""
    split, loss = judge(split, message[0], weights, leader)
    split, sums = soften(split, message[1])
    return split, (loss, sums)


def judge_by_pool(split: Split, pool: "Pool") -> tuple[Split, MeanSums | None]:
    """The same with a pool that was fitted before."""
    return judged(split, pool.log_odds(split.S))


def judged(split: Split, z: Array) -> tuple[Split, MeanSums | None]:
    """The split with new log-odds."""
    inner = split.held is not None
    loss = None if inner else cross_entropy(z, split.q, split.train)
    p = probabilities(split.train, z)
    return split._replace(p=p, S=None if inner else z, S_held=None), loss


# ---- Pool


class Pool(NamedTuple):
    """Weights of bias, experts and label prior in the log-odds."""

    weights: np.ndarray
    prior: np.ndarray
    """Log-odds of the mean soft label of each label."""
    leader: int
    """The ridge that feeds the label stack."""
    stack: LabelStack | None

    def log_odds(self, scores: Sequence[Array]) -> Array:
        """Pooled log-odds of the ridge scores of some rows."""
        scores = list(scores)
        if self.stack is not None:
            scores.append(self.stack.scores(scores[self.leader]))
        return combine(self.weights, scores, self.prior)


def combine(weights: np.ndarray, scores: Sequence[Array], prior: np.ndarray) -> Array:
    """Weighted sum of bias, log-odds of the expert scores and label prior."""
    if isinstance(scores[0], np.ndarray) and scores[0].ndim == 2 and scores[0].size > PIECE_CELLS:
        # The logarithms need several arrays of this size.
        whole, step = np.empty_like(scores[0]), max(1, PIECE_CELLS // scores[0].shape[1])
        for i in range(0, len(whole), step):
            rows = slice(i, i + step)
            whole[rows] = combine(weights, [S[rows] for S in scores], prior)
        return whole
    total = 0 * scores[0] + like(float(weights[0]) + float(weights[-1]) * prior, scores[0])
    for weight, S in zip(weights[1:-1].tolist(), scores, strict=True):
        total += weight * soft_logit(S)
    return total


def soft_logit(s: Array) -> Array:
    """Log-odds of ridge scores, clipped smoothly to positive numbers so that no ties arise.

    The clipped score is (s + sqrt(s^2 + 4 SOFT^2))/2 = SOFT exp(asinh(s/(2 SOFT))), likewise 1 - s.
    """
    xp = namespace(s)
    return xp.asinh(s / (2 * SOFT)) - xp.asinh((1 - s) / (2 * SOFT))


def fit_pool(
    problem: Problem,
    fitted: Sequence[Fitted],
    leader: int,
    weights: np.ndarray,
    equal: np.ndarray,
    rng: np.random.RandomState,
) -> np.ndarray:
    """Logistic regression of the posterior of held-out cells on the expert scores, in two turns."""
    for cells in problem.draw_cells(rng):
        blocks = problem.gather(pool_cells, fitted, leader, weights, cells)
        found = [
            pooled(S, label, q, model.prior)
            for block in blocks
            for (S, label, q), model in zip(block, fitted[1:], strict=True)
        ]
        Z, q = (namespace(a[0]).concat(list(a)) for a in zip(*found, strict=True))
        weights = newton(Z, q, weights, equal)
    return weights


def pick_cells(
    rows: np.ndarray, l: int, most: int, rng: np.random.RandomState
) -> tuple[np.ndarray, np.ndarray]:
    """Draw at most `most` cells of the rows held out; their rows, sorted, and labels."""
    size = len(rows) * l
    if size <= MANY_CELLS:
        cells = rng.choice(size, min(size, most), replace=False)
    else:
        other = np.random.default_rng(rng.randint(2**31))
        cells = other.choice(size, most, replace=False, shuffle=False)
    position, label = np.divmod(cells, l)
    row, label = np.divmod(np.sort(rows[position] * l + label), l)
    # They travel to the rows: as few bytes as can hold them.
    return row.astype(np.min_scalar_type(row.max(initial=0))), label.astype(np.min_scalar_type(l))


def pool_cells(
    splits: Sequence[Split],
    fitted: Sequence[Fitted],
    leader: int,
    weights: np.ndarray,
    cells: Sequence[tuple[np.ndarray, np.ndarray]],
) -> list[tuple[Array, Array, Array]]:
    """Expert scores, labels and posterior of the given cells held out, per inner split."""
    found = []
    for split, model, (rows, labels) in zip(splits[1:], fitted[1:], cells, strict=True):
        held: Any = split.held
        c = held.candidates
        S, stack = split.S_held, model.stack
        xp = namespace(S)
        arrays = [S] if stack is None else [S, stack.stack.scores(S[leader])[None]]
        prior = like(model.prior, S, xp.float64)
        if held.votes is None:
            z = combine(weights, xp.concat([take(A, c.flat) for A in arrays]), prior[c.label])
            p = probability(z)
        else:
            p = probabilities(held, combine(weights, [A for e in arrays for A in e], prior))
        target = c.dense(posterior(held, p, model.noise).q, prior)
        row = np.searchsorted(held.indices, rows)
        inside = np.append(held.indices, -1)[row] == rows
        row, label = row[inside], labels[inside]
        flat = like(row * c.shape[1] + label, c.flat)
        scores = xp.concat([take(A, flat) for A in arrays])
        found.append((scores, label, take(target, flat)))
    return found


def pooled(S: Array, label: np.ndarray, q: Array, prior: np.ndarray) -> tuple[Array, Array]:
    """Inputs (cells, experts + 2) and targets of the pool."""
    xp = namespace(S)
    Z = soft_logit(xp.astype(S, xp.float64))
    last = like(prior[label], Z)
    return xp.stack([xp.ones_like(last), *Z, last], axis=1), q


def newton(
    Z: Array, q: Array, weights: np.ndarray, equal: np.ndarray, steps: int = 3
) -> np.ndarray:
    """Take damped Newton steps of logistic regression with soft targets q."""
    xp = namespace(Z)
    for _ in range(steps):
        p = 1 / (1 + xp.exp(-xp.clip(Z @ like(weights, Z), -700, 700)))
        gradient = to_numpy(Z.T @ (q - p)) - POOL_RIDGE * (weights - equal)
        hessian = to_numpy((Z * (p * (1 - p))[:, None]).T @ Z) + POOL_RIDGE * np.eye(len(weights))
        step = np.linalg.solve(hessian, gradient)
        weights = weights + step * min(1.0, 2 / max(float(np.abs(step).max()), 1e-12))
    return weights


# ---- What the rounds found


def soft_labels(splits: Sequence[Split], noise: NoiseModel) -> sp.csr_array:
    """Posterior (n, l) of the candidates, rows in the order of their index."""
    rows, p = splits[0].train, splits[0].p
    c = rows.candidates
    known = rows.known is not None
    q = known_posterior(rows, p, noise) if known else posterior(rows, p, noise).q
    cells = to_numpy(q), to_numpy(c.label), c.indptr
    return sp.csr_array(cells, shape=c.shape)[np.argsort(rows.indices)]


def log_odds(splits: Sequence[Split]) -> np.ndarray:
    """Log-odds (n, l) of all labels, rows in the order of their index."""
    return to_numpy(splits[0].S)[np.argsort(splits[0].train.indices)]


def current_probabilities(splits: Sequence[Split]) -> list[np.ndarray]:
    """Probabilities of the candidates of each split, for a checkpoint."""
    # A copy: rows in files share buffers, which the next block fills.
    return [to_numpy(split.p).copy() for split in splits]


def with_probabilities(split: Split, p: np.ndarray) -> tuple[Split, None]:
    """A split with other probabilities of the candidates."""
    return split._replace(p=like(p, split.p)), None


def take(S: Array, flat: Array) -> Array:
    """Entries of (n, l) arrays at flat positions; S may be a stack of them."""
    xp = namespace(S)
    return xp.take(xp.reshape(S, (*S.shape[:-2], -1)), flat, axis=-1)


def cross_entropy(z: Array, q: Array, rows: Rows) -> MeanSums:
    """-Q log P - (1 - Q) log(1 - P) over all cells, for the probabilities P of z."""
    xp = namespace(z)
    most = float(logit(1 - MARGIN))
    z = xp.clip(z, -most, most)
    # log(1 + exp(z)), and for the candidates minus q z.
    total = rows.sum(xp.log(1 + xp.exp(-abs(z)))) + rows.sum(xp.clip(z, 0, None))
    total -= rows.cell_sum(q * take(z, rows.candidates.flat))
    return MeanSums(total, rows.n_rows * z.shape[1])


def squared_error(S: Array, rows: Rows) -> MeanSums:
    """(S - Y)^2 over all cells."""
    total = rows.sum(S * S) + rows.cell_sum(1 - 2 * take(S, rows.candidates.flat))
    return MeanSums(total, rows.n_rows * S.shape[1])


# ---- Choice of the ridge weight


class TuningSums(NamedTuple):
    """Sums over rows left out that compare g ridge weights."""

    error: Array
    """Squared errors, (g,)."""
    precision: Array
    """Average precision of the rows that can be ranked, (g,)."""
    products: Array
    """Products of the average precisions by two weights, (g, g)."""
    ranked: float
    """Number of rows that can be ranked."""

    @classmethod
    def of(cls, errors: Any, precisions: Any, weights: Array | None = None) -> "TuningSums":
        """Sums from the average precision (g, n) of every row."""
        A = np.asarray(precisions)
        B = A if weights is None else A * weights
        ranked = A.shape[1] if weights is None else weights.sum()
        return cls(np.asarray(errors), B.sum(axis=1), B @ A.T, float(ranked))


def rankable(Y: Array) -> np.ndarray:
    """Rows with listed and unlisted labels, which have an average precision."""
    listed = (Y > 0).sum(axis=1)
    return np.flatnonzero((listed > 0) & (listed < Y.shape[1]))


def row_precisions(Y: Array, S: Array) -> np.ndarray:
    """Average precision of the scores S (n, l) in each row."""
    return average_precision_rows(Block(Y > 0, S), "field")[0]


def best_weight(sums: TuningSums, kernel: str, trusting: bool) -> int:
    """Which ridge weight predicts the candidates of other rows best.

    For the Gaussian kernel the one with the least squared error or, if candidates are trusted, with
    the best average precision. With a linear kernel on features in different units, the least
    squared error may belong to a weight that hides all features but a few in large units. There it
    decides only between weights whose average precision is within one standard error of the best.
    """
    if kernel == "rbf" or not sums.ranked:
        return int(np.argmax(sums.precision) if trusting and sums.ranked else np.argmin(sums.error))
    n, top, own = sums.ranked, int(np.argmax(sums.precision)), np.diag(sums.products)
    behind = (sums.precision[top] - sums.precision) / n
    square = (own[top] - 2 * sums.products[top] + own) / n
    near = behind <= np.sqrt(np.maximum(square - behind**2, 0) / n)
    return int(np.argmin(np.where(near, sums.error, np.inf)))
