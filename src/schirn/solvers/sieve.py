"""Sieve: alternate leave-one-out ridges with the exact posterior of the candidates.

docs/math/sieve.md states the method, tests/reference/sieve.py implements it with plain loops, and
this module implements it fast. A round of `sieve` has five steps:

1. posterior: soft labels q of the candidates from their probabilities p and the noise model;
2. noise: the rate at which false labels are listed, their number per row, label propensities;
3. experts: ridges of several weights fitted to q, and a label stack, scored out of sample;
4. pool: a logistic regression that turns expert scores of held-out rows into log-odds;
5. new probabilities p.

The rounds run on all rows and, alongside, on inner splits whose held-out rows fit the pool: rows
that shaped their own soft labels would favour the least regularised ridge. The features and the
location of the rows are up to the `Ridges`: `kernel_ridges` inverts the kernel matrix of few rows;
`feature_ridges` computes features of many rows in memory, on a device, in files or on workers;
`sparse_ridges` uses all features of many sparse rows. Shapes: n rows, l labels, e experts. p and q
are stored for candidates only, row by row.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple, Protocol

import numpy as np
import scipy.sparse as sp
from scipy.special import expit, logit

from schirn._checkpoint import Rounds, no_section
from schirn._progress import stage, track
from schirn.linalg.arrays import Array, like, namespace, take_cells, to_numpy
from schirn.metrics.rows import Block, average_precision_by_position
from schirn.noise.informativeness import cell_aucs
from schirn.noise.model import (
    LARGEST_RATE,
    SMALLEST_RATE,
    Candidates,
    NoiseModel,
    NoiseSums,
    answered_rates,
    cell_posterior,
    noise_from_sums,
)
from schirn.noise.votes import VoteModel, frequency_shift

# Ridge weights to try, relative to the mean variance of the features. With a linear kernel, a
# feature in large units dominates the variance, and the others need a small weight.
GRIDS = {
    "rbf": 10.0 ** np.arange(-3, 3.01, 0.5),
    "linear": 10.0 ** np.arange(3, -9.01, -0.5),
}
# Ridge weights of the experts, relative to the best weight for the candidates: cleaned labels need
# less regularisation than noisy ones. The weights of a Gaussian kernel are capped.
WINDOW = np.array([0.05, 0.25, 1.0])
LARGEST_RBF_LAM = 6.0
# Bounds of the probabilities that enter Bayes' rule, of rates, and of known labels.
MARGIN = 1e-4
CERTAIN = 1e-9
# Log-odds are clipped to this before votes are added to them.
_LARGEST_LOG_ODDS = 11.0
# Width of the smooth clipping that turns ridge scores into positive numbers.
SOFT = 0.02
# Number of pseudo-observations that pull the pool towards equal experts and no bias, and maximum
# number of cells that the pool is fitted to.
POOL_RIDGE = 10.0
POOL_CELLS = 100_000
# Above this number, cells are drawn without enumerating all of them.
MANY_CELLS = 1_000_000
KNOWN_ROUNDS = 4

Ridge = tuple[np.ndarray, np.ndarray]
Combination = Callable[[Array], Array]
Losses = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]


class SieveOptions(NamedTuple):
    """Parameters of `schirn.Sieve` that apply to every kind of ridges."""

    kernel: str = "rbf"
    lam: float | None = None
    trusting: bool = False
    """Take every candidate as true."""
    max_iter: int = 8
    random_state: Any = 0
    max_kernel_rows: int = 4000
    n_landmarks: int = 1500
    wide: bool = False
    """Whether the features are many, rare and in the same unit, such as words."""


class Knowledge(NamedTuple):
    """What the user knows about the rows before the fit."""

    known: np.ndarray | None = None
    """1 for known true labels, -1 for known wrong labels, 0 for all others, (n, l)."""
    votes: VoteModel | None = None
    groups: np.ndarray | None = None
    """Group of each row; rows of the same group never judge each other."""

    def of(self, rows: np.ndarray) -> "Knowledge":
        """Return the knowledge about the given rows."""
        known, votes, groups = self
        if votes is not None and votes.log_ratio is not None:
            votes = votes._replace(log_ratio=votes.log_ratio[rows])
        known, groups = (None if values is None else values[rows] for values in (known, groups))
        return Knowledge(known, votes, groups)


NOTHING_KNOWN = Knowledge()


@dataclass(frozen=True, eq=False)
class RowLabels:
    """Candidates of some rows, with the knowledge about these rows."""

    candidates: Candidates
    knowledge: Knowledge = NOTHING_KNOWN


@dataclass(frozen=True, eq=False)
class Split:
    """Training rows and held-out rows; the first split holds out none."""

    train: RowLabels
    rows: np.ndarray
    """Indices of the training rows in the data."""
    held: RowLabels = None  # type: ignore[assignment]
    """The held-out rows; None in the first split."""
    drawn: Array = None
    """Indices of the held-out rows in the order in which they were drawn."""


class Ridges(Protocol):
    """Interface of the ridges that Sieve fits to all rows and to inner splits.

    `left_out` fits the ridges; the other methods refer to its last call. It may be called for the
    first split alone. Scores have one row per expert: one ridge per weight in `lams` and, with a
    leader, the label stack.
    """

    splits: list[Split]
    lams: list[float]
    values: Array
    """An empty array with the type and device of all values of candidates."""
    most_stacked: float
    """Largest number of labels that get a label stack."""

    def left_out(self, q: Sequence[Array], leader: int | None = None) -> list[Array]:
        """Fit the ridges of every split to soft labels q, and score the candidates of the split.

        Returns one array (e, candidates) per split, with each row left out of its own fit. The
        label stack, if there is a leader, is fitted to the scores of that ridge.
        """

    def held_out(self, split: int, row: np.ndarray, label: np.ndarray) -> tuple[Array, Array]:
        """Scores of the held-out candidates of an inner split, and of the given held-out cells.

        The cells are sorted by row. The arrays are (e, candidates) and (e, cells).
        """

    def weights(self) -> "tuple[list[Ridge], LabelStack | None]":
        """Weights and intercepts of the ridges on all rows, and the label stack."""

    def unlisted_mean(self, split: int) -> float:
        """Mean score of the last ridge outside the candidates, each row left out."""

    def log_odds(self, combination: Combination, split: int = 0) -> Array:
        """Log-odds (n, l) of all cells of a split, in the order of its rows.

        `combination` turns left-out scores (e, m, l) into log-odds (m, l).
        """


def mean_outside(S: np.ndarray, c: Candidates) -> float:
    """Mean of scores (n, l) outside the candidates; one half if every cell is listed."""
    listed = take_cells(S, c.flat).sum(dtype=np.float64)
    return float((S.sum(dtype=np.float64) - listed) / (S.size - c.size)) if S.size > c.size else 0.5


class TraceEntry(NamedTuple):
    """Summary of a round."""

    rate: float
    """Estimated rate of false labels."""
    cross_entropy: float
    """Mean cross-entropy of the soft labels of the candidates."""
    evidence: float = float("nan")
    """Mean log-likelihood of held-out cells; NaN without inner splits, and with votes."""


@dataclass(frozen=True, eq=False)
class SieveResult:
    """Ridges of the experts, pool, noise model, and a trace of the rounds."""

    ridges: list[Ridge]
    """Dual weights (n, l) or feature weights, and intercepts, of every ridge."""
    lams: list[float]
    pool: "Pool"
    noise: NoiseModel
    trace: list[TraceEntry]
    """All rounds, including a last one that was discarded because the evidence fell."""
    fitted: Ridges
    p: Array
    """Probability of every candidate, in the order of the first split."""
    combination: Combination
    held_auc: float = 0.5
    """Lower bound of the mean AUC of listed against unlisted cells on held-out rows."""

    def confidence(self) -> sp.csr_array:
        """Return the posterior (n, l) of the candidates; zeros are stored too."""
        rows = self.fitted.splits[0].train
        posterior = soft_labels if rows.knowledge.known is None else known_soft_labels
        q, _ = posterior(rows, self.p, self.noise)
        c = rows.candidates
        return sp.csr_array((to_numpy(q), c.indices, c.indptr), shape=c.shape)[self._order()]

    def log_odds(self) -> Array:
        """Log-odds (n, l) of all cells, each row left out of its own fit, on the rows' device."""
        z = self.fitted.log_odds(self.combination)
        return namespace(z).take(z, like(self._order(), z, "own"), axis=0)

    def _order(self) -> np.ndarray:
        """Position of each row of the data in the first split."""
        # A stable sort is fast here: apart from held-out rows, the rows are already sorted.
        return np.argsort(self.fitted.splits[0].rows, kind="stable")


# ---- Rounds


class Round(NamedTuple):
    """State that a round leaves for the next one, split by split."""

    p: list[Array]
    """Probabilities of the candidates."""
    noises: list[NoiseModel]
    a: np.ndarray
    """Weights of the pool: bias, experts, label prior."""
    q: list[Array]
    """Soft labels that the ridges were fitted to."""
    priors: list[np.ndarray]
    """Log-odds of the mean soft label of each label."""
    leader: int | None
    """The ridge that feeds the label stack."""
    held: list[Array]
    """Log-odds of the held-out cells of each inner split."""
    evidence: float
    """Mean log-likelihood of held-out cells; NaN if there are none, and with votes."""


def sieve(ridges: Ridges, options: SieveOptions, rng: np.random.RandomState) -> SieveResult:
    """Alternate between the posterior of the candidates and ridges on the soft labels.

    A round is kept only if the evidence of held-out cells does not fall; the first round that
    lowers it is discarded and ends the fit.

    Parameters
    ----------
    ridges : Ridges
    options : SieveOptions
        With `trusting`, there is a single ridge and no rounds.
    rng : RandomState
        Draws the cells that fit the pool and measure the evidence.

    Returns
    -------
    SieveResult
    """
    if options.trusting:
        return trusting_ridge(ridges)
    cells = draw_held_cells(ridges, rng)
    result = run_rounds(ridges, cells, options.max_iter)
    knowledge = ridges.splits[0].train.knowledge
    if knowledge.known is None:
        return result
    if knowledge.votes is not None:
        return condition_on_known(result)
    rates = rates_of_answers(result)
    # Only the first rounds are checkpointed.
    with no_section():
        result = run_rounds(ridges, cells, options.max_iter, rates)
    return condition_on_known(result, rates)


def run_rounds(
    ridges: Ridges,
    cells: "Sequence[HeldCells]",
    max_iter: int,
    rates: np.ndarray | None = None,
) -> SieveResult:
    """Run rounds as long as they do not lower the evidence.

    Parameters
    ----------
    ridges : Ridges
    cells : sequence of HeldCells
        Cells that fit the pool and measure the evidence.
    max_iter : int
    rates : ndarray of shape (l,), optional
        Rates at which false labels are listed; None estimates them in every round.

    Returns
    -------
    SieveResult
    """
    rounds = Rounds(max_iter)
    trace: list[TraceEntry] = []
    left = list(rounds.left())
    n_before = rounds.done
    if rounds.state is None:
        # The first guess takes as long as a round, so progress counts it as one.
        left.insert(0, 0)
    else:
        n_before += 1
        state, trace = restored(rounds.state, ridges)
    for n_iter in track(left, "round", before=n_before, may_stop=True):
        if n_iter == 0:
            state = first_guess(ridges, rates)
            if rounds.due(0):
                rounds.save(0, saved(state, trace))
            continue
        following = next_round(ridges, state, cells, rates, is_first=n_iter == 1)
        entropy = mean_cross_entropy(following.p[0], following.q[0])
        trace.append(TraceEntry(following.noises[0].rate, entropy, following.evidence))
        if n_iter > 1 and following.evidence < state.evidence:
            # Refit the ridges to the soft labels of the previous round.
            ridges.left_out(state.q[:1], state.leader)
            break
        state = following
        if rounds.due(n_iter):
            rounds.save(n_iter, saved(state, trace))
    weights, stack = ridges.weights()
    leader = 0 if state.leader is None else state.leader
    return SieveResult(
        ridges=weights,
        lams=ridges.lams,
        pool=Pool(state.a, state.priors[0], leader, stack),
        noise=state.noises[0],
        trace=trace,
        fitted=ridges,
        p=state.p[0],
        combination=partial(combine, state.a, prior=state.priors[0]),
        held_auc=held_auc(ridges, cells, state.held),
    )


def rates_of_answers(result: SieveResult) -> np.ndarray:
    """Rates at which false labels are listed, corrected by the known candidates.

    Only rows with an undecided candidate are used, because others may already be cleaned.
    """
    rows = result.fitted.splits[0].train
    c = rows.candidates
    n, l = c.shape
    row = to_numpy(c.row)
    known = np.asarray(rows.knowledge.known)[row, c.indices]
    q, _ = soft_labels(rows, result.p, result.noise)
    doubt = 1 - to_numpy(q)
    n_undecided = np.bincount(row, known == 0, n)
    asked = (known != 0) & (n_undecided[row] > 0)
    wrong = asked & (known < 0)
    return answered_rates(
        wrong=np.bincount(c.indices[wrong], minlength=l).astype(np.float64),
        claimed=np.bincount(c.indices[asked], doubt[asked], l),
        model_wrong=np.bincount(c.indices, doubt, l),
        listed=np.bincount(c.indices, minlength=l),
        n=n,
    )


def next_round(
    ridges: Ridges,
    state: Round,
    cells: "Sequence[HeldCells]",
    rates: np.ndarray | None,
    is_first: bool,
) -> Round:
    """Run one round, which leaves the ridges fitted to the new soft labels."""
    n_ridges = len(ridges.lams)
    n_labels = ridges.splits[0].train.candidates.shape[1]
    noises = []
    q = []
    priors = []
    for split, p, noise in zip(ridges.splits, state.p, state.noises, strict=True):
        # 1. Posterior of the candidates
        soft, sums = soft_labels(split.train, p, noise)
        # 2. Noise model, and how often each label is true
        noises.append(noise_from_sums(sums, rates))
        q.append(like(soft, ridges.values))
        priors.append(logit(np.clip(sums.soft / sums.n_rows, MARGIN, 1 - MARGIN)))
    # 3. Experts: ridges, and a label stack on the best of them
    leader = None
    if 1 < n_labels <= ridges.most_stacked:
        leader = n_ridges // 2 if is_first else int(np.argmax(state.a[1 : 1 + n_ridges]))
    experts = ridges.left_out(q, leader)
    # 4. Pool
    held = [score_held_cells(ridges, each, priors[each.split]) for each in cells]
    if is_first or not held:
        a = equal_weights(len(experts[0]))
    else:
        a = fit_pool(ridges, noises, priors, state.a, held)
    # 5. Probabilities of the next round
    p = []
    for k, (S, prior) in enumerate(zip(experts, priors, strict=True)):
        rows = ridges.splits[k].train
        z = combine(a, S, like(prior, S)[rows.candidates.label])
        p.append(probabilities(ridges, k, rows, z, partial(combine, a, prior=prior)))
    z = [each.inputs @ like(a, each.inputs) for each in held]
    evidence = held_evidence(ridges, cells, z, noises)
    return Round(p, noises, a, q, priors, leader, z, evidence)


def saved(state: Round, trace: "Sequence[TraceEntry]") -> tuple[Any, ...]:
    """Values to store in a checkpoint."""
    p = [to_numpy(values) for values in state.p]
    q = [to_numpy(values) for values in state.q]
    held = [to_numpy(values) for values in state.held]
    return state._replace(p=p, q=q, held=held), trace


def restored(values: Sequence[Any], ridges: Ridges) -> "tuple[Round, list[TraceEntry]]":
    """State and trace restored from a checkpoint."""
    state = Round(*values[0])
    state = state._replace(
        p=[like(each, ridges.values) for each in state.p],
        q=[like(each, ridges.values) for each in state.q],
        noises=[NoiseModel(*each) for each in state.noises],
    )
    return state, [TraceEntry(*each) for each in values[1]]


def first_guess(ridges: Ridges, rates: np.ndarray | None = None) -> Round:
    """Probabilities of the candidates from the most regularised ridge, and first noise models.

    Unlisted cells are false, so their mean score estimates the rate at which false labels are
    listed, unless `rates` gives one rate per label. The probability of a candidate is the excess of
    its score over that rate.
    """
    stage("scoring the candidates for the first time")
    n_labels = ridges.splits[0].train.candidates.shape[1]
    ones = [split.train.candidates.ones(ridges.values) for split in ridges.splits]
    p = []
    noises = []
    for k, S in enumerate(ridges.left_out(ones)):
        rows = ridges.splits[k].train
        if rates is None:
            rate: Any = float(np.clip(ridges.unlisted_mean(k), SMALLEST_RATE, LARGEST_RATE))
            noises.append(NoiseModel.independent(rate, n_labels))
        else:
            rate = like(rates, S)[rows.candidates.label]
            noises.append(NoiseModel.of_rates(rates, np.zeros(n_labels + 1)))
        combination = partial(excess_log_odds, rate=rate)
        values = probabilities(ridges, k, rows, combination(S), combination)
        p.append(like(values, ridges.values))
    return Round(p, noises, np.zeros(0), q=ones, priors=[], leader=None, held=[], evidence=-np.inf)


def equal_weights(n_experts: int) -> np.ndarray:
    """Weights of a pool with equal experts, and without bias or label prior."""
    return np.r_[0.0, np.full(n_experts, 1 / n_experts), 0.0]


def excess_log_odds(S: Array, rate: Any) -> Array:
    """Log-odds of the excess of the last ridge's scores over the rate of false labels."""
    xp = namespace(S)
    p = xp.clip((xp.astype(S[-1], xp.float64) - rate) / (1 - rate), MARGIN, 1 - MARGIN)
    return xp.log(p) - xp.log1p(-p)


def condition_on_known(result: SieveResult, rates: np.ndarray | None = None) -> SieveResult:
    """Run a few more rounds on all rows, conditioned on the known labels.

    Before every posterior, the probability of a known label is set close to 1 or 0, so that its
    row, similar rows and correlated labels learn from it. A wrong candidate still counts as listed.
    The pool is not refitted.
    """
    ridges = result.fitted
    noise = result.noise
    p = result.p
    combination = result.pool.log_odds
    rows = ridges.splits[0].train
    for _ in range(KNOWN_ROUNDS):
        q, sums = known_soft_labels(rows, p, noise)
        noise = noise_from_sums(sums, rates) if sums.n_rows else noise
        ridges.left_out([like(q, ridges.values)])
        z = take_cells(ridges.log_odds(combination), rows.candidates.flat)
        p = probabilities(ridges, 0, rows, z, combination)
    weights, _ = ridges.weights()
    return replace(result, ridges=weights, noise=noise, p=p, combination=combination)


def trusting_ridge(ridges: Ridges) -> SieveResult:
    """Fit only the most regularised ridge, to the candidates as they are."""
    candidates = ridges.splits[0].train.candidates
    n_labels = candidates.shape[1]
    ones = candidates.ones(ridges.values)
    (S,) = ridges.left_out([ones])
    p = probability(last_log_odds(S))
    noise = NoiseModel.independent(SMALLEST_RATE, n_labels)
    return SieveResult(
        ridges=ridges.weights()[0][-1:],
        lams=ridges.lams[-1:],
        pool=Pool(equal_weights(1), np.zeros(n_labels), 0, None),
        noise=noise,
        trace=[TraceEntry(0.0, mean_cross_entropy(p, ones))],
        fitted=ridges,
        p=ones,
        combination=last_log_odds,
    )


def last_log_odds(S: Array) -> Array:
    """Log-odds of scores of the last ridge."""
    return soft_logit(S[-1])


# ---- Posterior and noise model


def soft_labels(rows: RowLabels, p: Array, noise: NoiseModel) -> tuple[Array, NoiseSums]:
    """Posterior of the candidates, and its sums for the noise model."""
    c = rows.candidates
    n, l = rows.candidates.shape
    if rows.knowledge.votes is not None:
        # p already includes the votes.
        return p, NoiseSums(n, c.listed, c.total(p), np.zeros(l + 1), np.zeros(l + 1))
    q, *counts = cell_posterior(p, c.indptr, c.label, noise, c.blocks)
    return q, NoiseSums(n, c.listed, c.total(q), *counts)


def known_soft_labels(rows: RowLabels, p: Array, noise: NoiseModel) -> tuple[Array, NoiseSums]:
    """Posterior given the known labels, which enter as almost 1 or 0 and get exactly 1 or 0.

    The noise is estimated from rows with an undecided candidate: others may already be cleaned.
    """
    c = rows.candidates
    n, l = rows.candidates.shape
    known_cells = rows.knowledge.known
    known = np.asarray(known_cells)[c.row, c.label]
    p = np.where(known == 0, to_numpy(p), np.where(known > 0, 1 - CERTAIN, CERTAIN))
    is_shown = np.zeros(n, dtype=bool)
    if rows.knowledge.votes is None:
        is_shown[c.row[known == 0]] = True
    cells = is_shown[c.row]
    indptr = np.r_[0, np.cumsum(np.diff(c.indptr)[is_shown])]
    q, *counts = cell_posterior(p[cells], indptr, c.label[cells], noise)
    listed, total = (np.bincount(c.label[cells], values, l) for values in (None, q))
    p[cells] = q
    sums = NoiseSums(int(is_shown.sum()), listed, total, *counts)
    return np.where(known == 0, p, known > 0), sums


def probabilities(
    ridges: Ridges, split: int, rows: RowLabels, z: Array, combination: Combination
) -> Array:
    """Probabilities of the candidates of `rows`, given their log-odds z and their votes.

    `combination` turns scores of all training rows of the split into log-odds.
    """
    votes = rows.knowledge.votes
    if votes is None:
        return probability(z)
    return voted_probability(z, ridges.log_odds(combination, split), votes, rows.candidates)


def voted_probability(
    z: Array, all_log_odds: Array, votes: VoteModel, candidates: Candidates
) -> Array:
    """Probabilities of candidates from their log-odds and their votes.

    Votes determine how often a label is true; features only redistribute it between rows.
    """
    limits = -_LARGEST_LOG_ODDS, _LARGEST_LOG_ODDS
    evidence: Any = votes.log_ratio
    shift = frequency_shift(np.clip(to_numpy(all_log_odds), *limits), votes.frequency)
    cells = take_cells(evidence + shift, candidates.flat)
    return expit(np.clip(to_numpy(z), *limits) + cells)


def probability(z: Array) -> Array:
    """Convert log-odds to probabilities, clipped away from 0 and 1."""
    xp = namespace(z)
    return xp.clip(1 / (1 + xp.exp(-xp.clip(z, -30, 30))), MARGIN, 1 - MARGIN)


def mean_cross_entropy(p: Array, q: Array) -> float:
    """Mean of -q log p - (1 - q) log(1 - p), in double precision."""
    xp = namespace(p)
    # Votes can make a candidate certain.
    p = xp.clip(p, MARGIN, 1 - MARGIN)
    losses = -q * xp.log(p) - (1 - q) * xp.log1p(-p)
    return float(xp.sum(losses, dtype=xp.float64)) / max(len(losses), 1)


# ---- Pool


class LabelStack(NamedTuple):
    """Label correlations: a ridge from the scores of all labels to the soft labels."""

    W: np.ndarray
    """Weights (l, l), or their left factor (l, n) with fewer rows than labels."""
    centre: np.ndarray
    mean: np.ndarray
    right: np.ndarray | None = None
    """Right factor (n, l) of the weights."""

    def scores(self, S: Array) -> Array:
        """Scores (n, l) from those of the leading ridge."""
        stacked = (S - like(self.centre, S)) @ like(self.W, S)
        if self.right is not None:
            stacked = stacked @ like(self.right, S)
        return like(self.mean, S) + stacked


class Pool(NamedTuple):
    """Linear combination of bias, experts and label prior to log-odds."""

    weights: np.ndarray
    """Coefficients, called a in docs/math/sieve.md."""
    prior: np.ndarray
    """Log-odds of the mean soft label of each label."""
    leader: int
    """The ridge that feeds the label stack."""
    stack: LabelStack | None

    def log_odds(self, scores: Sequence[Array]) -> Array:
        """Pooled log-odds (m, l) of the ridge scores of some rows."""
        if self.stack is not None:
            scores = [*scores, self.stack.scores(scores[self.leader])]
        return combine(self.weights, scores, self.prior)


def combine(a: np.ndarray, scores: Sequence[Array], prior: Array) -> Array:
    """Weighted sum of bias, log-odds of the expert scores and label prior."""
    total = 0 * scores[0] + (float(a[0]) + float(a[-1]) * like(prior, scores[0]))
    for coefficient, S in zip(a[1:-1].tolist(), scores, strict=True):
        total += coefficient * soft_logit(S)
    return total


def soft_logit(s: Array) -> Array:
    """Log-odds of ridge scores, clipped smoothly to positive numbers to avoid ties.

    The clipped score is (s + sqrt(s^2 + 4 SOFT^2))/2 = SOFT exp(asinh(s/(2 SOFT))), likewise 1 - s.
    """
    xp = namespace(s)
    return xp.asinh(s / (2 * SOFT)) - xp.asinh((1 - s) / (2 * SOFT))


class HeldCells(NamedTuple):
    """Sampled cells of the held-out rows of an inner split."""

    split: int
    row: np.ndarray
    label: np.ndarray
    candidate: Array
    """Index of each cell among the held-out candidates, or their number for unlisted cells."""


class HeldScores(NamedTuple):
    """Inputs of the pool for the held-out cells and candidates of a split."""

    cells: HeldCells
    inputs: Array
    """Bias, log-odds of the experts and label prior of every cell, (cells, experts + 2)."""
    listed: Array
    """Scores (e, candidates) of the held-out candidates."""


def draw_held_cells(ridges: Ridges, rng: np.random.RandomState) -> list[HeldCells]:
    """Draw cells that fit the pool, once for all rounds so that their evidence is comparable."""
    most = POOL_CELLS // max(len(ridges.splits) - 1, 1)
    return [
        HeldCells(k, *draw_cells(split, most, rng))
        for k, split in enumerate(ridges.splits)
        if split.held is not None and k > 0
    ]


def score_held_cells(ridges: Ridges, cells: HeldCells, prior: np.ndarray) -> HeldScores:
    """Score held-out cells with the current ridges."""
    listed, S = ridges.held_out(cells.split, cells.row, cells.label)
    inputs = pool_inputs(S, prior[cells.label])
    return HeldScores(cells, inputs, listed)


def fit_pool(
    ridges: Ridges,
    noises: Sequence[NoiseModel],
    priors: Sequence[np.ndarray],
    a: np.ndarray,
    held: Sequence[HeldScores],
) -> np.ndarray:
    """Logistic regression of the posterior of held-out cells on expert scores, in two passes."""
    equal = equal_weights(len(a) - 2)
    xp = namespace(held[0].inputs)
    Z = xp.concat([scores.inputs for scores in held])
    for _ in range(2):
        targets = []
        for scores in held:
            k = scores.cells.split
            rows = ridges.splits[k].held
            S = scores.listed
            z = combine(a, S, like(priors[k], S)[rows.candidates.label])
            p = probabilities(ridges, k, rows, z, partial(combine, a, prior=priors[k]))
            q = like(soft_labels(rows, p, noises[k])[0], Z)
            # Unlisted cells are false; their index points at the appended 0.
            targets.append(xp.concat([q, 0 * Z[:1, 0]])[scores.cells.candidate])
        a = newton(Z, xp.concat(targets), a, equal)
    return a


def held_evidence(
    ridges: Ridges,
    held: Sequence[HeldCells],
    log_odds: Sequence[Array],
    noises: Sequence[NoiseModel],
) -> float:
    """Mean log-likelihood of the held-out cells, listed or not; NaN if there are none.

    A cell is listed if its label is true, or false and listed at the rate of its label. Dependence
    between the labels of a row is ignored. With votes there is no evidence: votes and candidates
    come from the same people, so neither can check the other.
    """
    if ridges.splits[0].train.knowledge.votes is not None:
        return float("nan")
    total = 0.0
    n_cells = 0
    for cells, z in zip(held, log_odds, strict=True):
        xp = namespace(z)
        p = probability(z)
        listed = p + (1 - p) * like(noises[cells.split].label_rates(cells.label), p)
        likelihood = xp.where(are_listed(ridges, cells), listed, 1 - listed)
        total += float(xp.sum(xp.log(likelihood)))
        n_cells += len(cells.label)
    return total / n_cells if n_cells else float("nan")


def are_listed(ridges: Ridges, cells: HeldCells) -> Array:
    """Return True for held-out cells that are candidates."""
    return cells.candidate < ridges.splits[cells.split].held.candidates.size


def held_auc(ridges: Ridges, held: Sequence[HeldCells], log_odds: Sequence[Array]) -> float:
    """Lower bound of the mean AUC, computed per label and split on held-out rows; 0.5 without any.

    Leave-one-out scores would be misleading: with uninformative features, they decrease with the
    soft label of the row.
    """
    n_labels = ridges.splits[0].train.candidates.shape[1]
    if not held:
        return 0.5
    label = np.concatenate([cells.label + k * n_labels for k, cells in enumerate(held)])
    z = np.concatenate([to_numpy(values) for values in log_odds])
    listed = np.concatenate([to_numpy(are_listed(ridges, cells)) for cells in held])
    size = n_labels * len(held)
    return cell_aucs(label[listed], z[listed], label[~listed], z[~listed], size).least_mean()


def draw_cells(
    split: Split, most: int, rng: np.random.RandomState
) -> tuple[np.ndarray, np.ndarray, Array]:
    """Row and label of at most `most` cells of the held-out rows, sorted by row.

    The last array is the index of each cell among the candidates, or their number if unlisted.
    """
    c = split.held.candidates
    l = c.shape[1]
    size = c.shape[0] * c.shape[1]
    if size <= MANY_CELLS:
        picked = rng.choice(size, min(size, most), replace=False)
    else:
        # Unlike RandomState, a Generator draws a few cells without enumerating all of them.
        generator = np.random.default_rng(rng.randint(2**31))
        picked = generator.choice(size, most, replace=False, shuffle=False)
    drawn = np.sort(split.drawn[picked // l] * l + picked % l)
    # Look up each cell among the sorted candidates, on their device.
    xp = namespace(c.flat)
    cells = like(drawn, c.flat)
    candidate = xp.searchsorted(c.flat, cells)
    listed = xp.concat([c.flat, -xp.ones(1, dtype=c.flat.dtype, device=c.flat.device)])
    return *np.divmod(drawn, l), xp.where(listed[candidate] == cells, candidate, c.size)


def pool_inputs(S: Array, prior: np.ndarray) -> Array:
    """Inputs (cells, experts + 2) of the pool: bias, log-odds of the experts, label prior."""
    xp = namespace(S)
    Z = soft_logit(xp.astype(S, xp.float64))
    last = like(prior, Z)
    return xp.stack([xp.ones_like(last), *Z, last], axis=1)


def newton(Z: Array, q: Array, a: np.ndarray, equal: np.ndarray, steps: int = 3) -> np.ndarray:
    """Take damped Newton steps of logistic regression with soft targets q."""
    xp = namespace(Z)
    for _ in range(steps):
        p = 1 / (1 + xp.exp(-xp.clip(Z @ like(a, Z), -700, 700)))
        gradient = to_numpy(Z.T @ (q - p)) - POOL_RIDGE * (a - equal)
        hessian = to_numpy((Z * (p * (1 - p))[:, None]).T @ Z) + POOL_RIDGE * np.eye(len(a))
        step = np.linalg.solve(hessian, gradient)
        a = a + step * min(1.0, 2 / max(float(np.abs(step).max()), 1e-12))
    return a


# ---- Choice of the ridge weights


def choose_lams(
    losses: Losses, variance: float, options: SieveOptions, window: Array = WINDOW, least: float = 0
) -> list[float]:
    """Ridge weights of the experts, around the best weight for candidates of left-out rows.

    Parameters
    ----------
    losses : function from g ridge weights to squared errors (g,) and average precisions (g, rows)
    variance : float
        Mean variance of the features, which scales the grid.
    options : SieveOptions
        With `trusting`, a single weight is returned.
    window : ndarray
        Weights of the experts relative to the best weight.
    least : float
        Lower bound, below which rounding errors would dominate.
    """
    stage("choosing the ridge weights")
    variance = max(variance, 1e-12)
    grid = np.maximum(variance * GRIDS[options.kernel], least)
    best = float(grid[best_weight(*losses(grid), options)])
    if options.kernel == "rbf":
        best = min(best, LARGEST_RBF_LAM * variance)
    return [best] if options.trusting else np.maximum(best * window, least).tolist()


def best_weight(errors: np.ndarray, precisions: np.ndarray, options: SieveOptions) -> int:
    """Index of the ridge weight that best predicts the candidates of left-out rows.

    For the Gaussian kernel, the weight with the least squared error or, if candidates are trusted,
    with the best average precision. With a linear kernel on features in different units, the weight
    with the least squared error may hide all features but a few in large units. There, the squared
    error only decides between weights whose average precision is within one standard error of the
    best.
    """
    n = precisions.shape[1]
    totals = precisions.sum(axis=1)
    if options.kernel == "rbf" or not n:
        return int(np.argmax(totals) if options.trusting and n else np.argmin(errors))
    behind = precisions[np.argmax(totals)] - precisions
    close = behind.mean(axis=1) <= behind.std(axis=1) / np.sqrt(n)
    return int(np.argmin(np.where(close, errors, np.inf)))


def rankable(Y: Array) -> np.ndarray:
    """Rows with both listed and unlisted labels, for which average precision is defined."""
    listed = (Y > 0).sum(axis=1)
    return np.flatnonzero((listed > 0) & (listed < Y.shape[1]))


def row_precisions(Y: Array, S: Array) -> np.ndarray:
    """Average precision of the scores S (n, l) in each row."""
    return average_precision_by_position(Block(Y > 0, S))
