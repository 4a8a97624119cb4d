"""Sieve: alternate leave-one-out ridges with the exact posterior of the candidates.

Seven ideas, in the order of docs/math/sieve.md: scale (`schirn.linalg.features`), kernel, posterior
and noise model (`schirn.noise.model`), leave-one-out ridges (`schirn.linalg.inverse`), label stack
and pool. Here they meet for rows whose kernel matrix fits in memory. For more rows,
`schirn.solvers.sieve_landmarks` takes the same steps with sums over rows.

Shapes: n rows, l labels, e experts. Q holds soft labels, 0 outside the candidates Y.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.linalg import cho_factor, solve_triangular
from scipy.special import expit, logit
from sklearn.utils import check_random_state

from schirn._checkpoint import Rounds
from schirn._progress import stage, track
from schirn.exceptions import InputError
from schirn.linalg.arrays import Array, eps, is_device_array, like, namespace, to_numpy
from schirn.linalg.inverse import KernelInverse, groups_by_size, left_out_scores
from schirn.linalg.kernels import Kernel, sample_width, width_sample
from schirn.linalg.weights import copies, repeat
from schirn.metrics._multilabel import average_precision_rows
from schirn.metrics._rows import Block
from schirn.noise.model import NoiseModel, Posterior, candidate_posterior, update_noise
from schirn.noise.votes import VoteModel, anchored

# Ridge weights to try, relative to the mean variance of the features, and the rows that choose. For
# a linear kernel a feature in large units has all the variance, and others need a small weight.
GRIDS = {
    "rbf": 10.0 ** np.arange(-3, 3.01, 0.5),
    "linear": 10.0 ** np.arange(3, -9.01, -0.5),
}
TUNING_ROWS = 600
# Weights of the experts, relative to the best one for the candidates: cleaned labels need less
# regularisation than noisy ones. A kernel with a width needs no more than the cap.
WINDOW = np.array([0.05, 0.25, 1.0])
LARGEST_RBF_LAM = 6.0
# A third of the rows is held out to fit the pool; few rows need all three thirds. For many rows,
# whose inverses take most of the time, the outer two experts are as good as all three.
FEW_ROWS = 2500
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
# Cells per piece of a product, for memory.
PIECE_CELLS = 2**22
KNOWN_ROUNDS = 4
# Features too weak to tell noise from labels can let the rounds call ever more candidates wrong,
# until the share of true ones falls below this part of the largest so far.
COLLAPSE = 0.4


class SieveResult(NamedTuple):
    """A fitted Sieve: what predictions need, and what it says about its own rows."""

    ridges: list[tuple[Array, Array]]
    """Dual weights (n, l) and intercepts (l,) of every expert."""
    lams: Array
    pool: "Pool"
    noise: NoiseModel
    rates: Array
    """Estimated rate of false labels after each round."""
    objective: Array
    """Mean cross-entropy of the soft labels per round."""
    log_odds: Array
    """Log-odds (n, l) of all cells, each row left out of its own fit."""
    Q: Array
    """Posterior (n, l) of the candidates, 0 elsewhere."""


class Options(NamedTuple):
    """What the user knows beforehand."""

    rates: "float | Array | None" = None
    """Rate at which false labels are listed, one for all rows or one per row."""
    known: Array | None = None
    """1 for labels known to be true, -1 for wrong ones, 0 for the others, (n, l)."""
    votes: VoteModel | None = None
    groups: Array | None = None
    """Rows of one group never judge each other."""
    weights: Array | None = None
    """Weights of the rows, greater than 0."""


NOTHING = Options()


def sieve(
    K: Array,
    Y: Array,
    lams: Sequence[float],
    options: Options = NOTHING,
    *,
    max_iter: int = 8,
    label_correlations: bool = True,
    rng: np.random.RandomState,
) -> SieveResult:
    """Alternate between the posterior of the candidates and ridges on the soft labels.

    The rounds run on all rows and, alongside, on the training rows of inner splits whose held-out
    rows fit the pool: rows that shaped their own soft labels would favour the least regularised
    ridge. If the rounds collapse, the result is the first guess.

    Parameters
    ----------
    K : array of shape (n, n)
        Kernel matrix, of any array library.
    Y : ndarray of shape (n, l)
        Candidates, 0/1.
    lams : sequence of float
        Ridge weights of the experts.
    options : Options
    max_iter : int
    label_correlations : bool
        Use the label stack.
    """
    l = Y.shape[1]
    stage("inverting the kernel")
    splits = make_splits(K, Y, lams, options, rng)
    stacked = label_correlations and l > 1
    n_experts = len(lams) + stacked
    equal = np.r_[0.0, np.full(n_experts, 1 / n_experts), 0.0]
    weights, rates, objective, true = equal, [], [], []
    estimated = options.rates is None and options.votes is None
    noises, logits = map(list, zip(*(first_guess(split) for split in splits), strict=True))
    rounds = Rounds(max_iter)
    if rounds.state is not None:
        models, logits, weights, rates, objective, true, state = rounds.state
        noises = [NoiseModel(*model) for model in models]
        rng.set_state(tuple(state))
    for n_iter in track(rounds.left(), "round", before=rounds.done):
        leader = int(np.argmax(weights[1 : 1 + len(lams)])) if n_iter > 1 else len(lams) // 2
        softened = [soften(s, z, m) for s, z, m in zip(splits, logits, noises, strict=True)]
        true.append(float(softened[0].Q.sum()))
        if estimated and collapsed(true):
            break
        noises = [
            s.noise_of(f, m, z) for s, f, m, z in zip(splits, softened, noises, logits, strict=True)
        ]
        experts = [
            fit_experts(s, f.Q, leader, stacked) for s, f in zip(splits, softened, strict=True)
        ]
        if n_iter > 1 and len(splits) > 1:
            weights = fit_pool(splits[1:], experts[1:], noises[1:], weights, equal, rng)
        logits = [combine(weights, e.left_out, e.prior) for e in experts]
        rates.append(float(np.mean(noises[0].rate)))
        objective.append(cross_entropy(*repeat(splits[0].counts, logits[0], softened[0].Q)))
        if rounds.due(n_iter):
            now = noises, logits, weights, rates, objective, true
            rounds.save(n_iter, (*now, rng.get_state()))
    whole = splits[0]
    if estimated and collapsed(true):
        pool, noise, z, Q = only_guess(whole, len(lams))
    else:
        pool = Pool(weights, experts[0].prior, leader, experts[0].stack)
        noise, z, Q = noises[0], logits[0], softened[0].Q
    if options.known is not None:
        noise, z, Q = condition_on_known(whole, pool, noise, z, options.known)
    ridges, trace = whole.inverse.expansion(Q), (np.array(rates), np.array(objective))
    Q = soften(whole, z, noise, options.known).Q
    return SieveResult(ridges, np.asarray(lams), pool, noise, *trace, z, Q)


def kernel_matrix(
    Z: Any, name: str, rng: np.random.RandomState, counts: Array | None = None
) -> tuple[Kernel, Array]:
    """The kernel, with the median distance as its width, and its matrix for scaled rows Z."""
    stage("computing the kernel")
    kernel = Kernel("linear")
    if name == "rbf":
        (rows,) = repeat(counts, np.arange(Z.shape[0]))
        kernel = Kernel("rbf", sample_width(pick(Z, rows[width_sample(len(rows), rng)])))
    return kernel, kernel_between(kernel, Z, Z)


def kernel_between(kernel: Kernel, A: Any, B: Any) -> Array:
    """The kernel between scaled rows; a linear one in double precision.

    In single precision, features in small units would drown in those in large ones.
    """
    if kernel.name == "linear":
        A, B = (
            rows.astype(np.float64)
            if sp.issparse(rows)
            else namespace(rows).astype(rows, namespace(rows).float64, copy=False)
            for rows in (A, B)
        )
    return kernel(A, B)


def solve(
    K: Array,
    Y: Array,
    *,
    kernel: str,
    lam: float | None = None,
    trusting: bool = False,
    options: Options = NOTHING,
    max_iter: int = 8,
    random_state: Any = 0,
) -> SieveResult:
    """Choose the ridge weights and run the rounds; the parameters are those of `schirn.Sieve`.

    Parameters
    ----------
    K : array of shape (n, n)
    Y : ndarray of shape (n, l)
    trusting : bool
        Take every candidate as true.
    options : Options
    """
    rng = check_random_state(random_state)
    stage("choosing the ridge weights")
    lams = choose_lams(K, Y, options, kernel=kernel, lam=lam, trusting=trusting, rng=rng)
    if trusting:
        return trusting_ridge(K, Y, float(lams[0]), options)
    return sieve(K, Y, lams, options, max_iter=max_iter, rng=rng)


def trusting_ridge(K: Array, Y: Array, lam: float, options: Options = NOTHING) -> SieveResult:
    """One ridge that takes every candidate as true."""
    l, inverse = Y.shape[1], KernelInverse(K, [lam], options.groups, options.weights)
    Y = Y.astype(np.float64)
    pool = Pool(np.array([0.0, 1.0, 0.0]), np.zeros(l), 0, None)
    S = inverse.fit(Y).left_out[0]
    errors = np.average((S - Y) ** 2, axis=0, weights=options.weights)
    loss, noise = np.array([errors.mean()]), NoiseModel.independent(MARGIN, l)
    trace = np.zeros(1), loss
    return SieveResult(inverse.expansion(Y), np.array([lam]), pool, noise, *trace, soft_logit(S), Y)


# ---- Kernel: ridge weights, and predictions for new rows


def choose_lams(
    K: Array,
    Y: Array,
    options: Options = NOTHING,
    *,
    kernel: str,
    lam: float | None,
    trusting: bool,
    rng: np.random.RandomState,
) -> Array:
    """Two or three ridge weights around the best one for the candidates of rows left out.

    A sample of rows chooses, see `best_weight`.
    """
    if lam is not None:
        return np.array([float(lam)])
    xp, n, weights, groups = namespace(K), len(Y), options.weights, options.groups
    diagonal, means = (to_numpy(A) for A in (xp.linalg.diagonal(K), xp.mean(K, axis=0)))
    if weights is not None:
        means = weights @ K / weights.sum()
    # Smaller weights would drown in the rounding errors of K.
    least = n * eps(K) * float(abs(diagonal).max())
    diagonal, means = (np.average(A, weights=weights) for A in (diagonal, means))
    variance = max(float(diagonal - means), 1e-12)
    rows = np.sort(rng.choice(n, min(n, TUNING_ROWS), replace=False))
    some = like(rows, K, "own")
    sample = to_numpy(K[some][:, some]).astype(np.float64)
    y = Y[rows].astype(np.float64)
    own = None if weights is None else weights[rows]
    together = None if groups is None else groups[rows]
    alone = together is None or len(np.unique(together)) == len(rows)
    lams = np.maximum(variance * GRIDS[kernel], least).tolist()
    left_out = (
        left_out_scores(sample, y, lams)
        if own is None and alone
        else (KernelInverse(sample, [t], together, own).fit(y).left_out[0] for t in lams)
    )
    ranked = rankable(y) if kernel == "linear" or trusting else rows[:0]
    errors, precisions = [], []
    for S in left_out:
        errors.append(np.average((S - y) ** 2, axis=0, weights=own).mean())
        precisions.append(row_precisions(y[ranked], S[ranked]))
    sums = TuningSums.of(errors, precisions, None if own is None else own[ranked])
    best = lams[best_weight(sums, kernel, trusting)]
    if kernel == "rbf":
        best = min(best, LARGEST_RBF_LAM * variance)
    if trusting:
        return np.array([best])
    return best * (WINDOW if n < FEW_ROWS else WINDOW[::2])


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


class KernelExpansion(NamedTuple):
    """Scores of scaled rows: kernel(rows, support) @ weights + offsets."""

    kernel: Kernel
    support: Any
    """Training rows or landmarks; None for a linear kernel, whose weights are per feature."""
    weights: np.ndarray
    """(experts, support rows or features, labels)"""
    offsets: np.ndarray
    """(experts, labels)"""

    def scores(self, Z: Any) -> list[Array]:
        """Ridge scores of every expert."""
        K = Z if self.support is None else self.kernel(Z, on_device(self.support, Z))
        if sp.issparse(Z) or isinstance(Z, np.ndarray):
            pairs = zip(self.weights, self.offsets, strict=True)
            return [np.asarray(K @ W) + b for W, b in pairs]
        pairs = zip(like(self.weights, K), like(self.offsets, K), strict=True)
        return [K @ W + b for W, b in pairs]


def expansion(kernel: Kernel, Z: Any, ridges: Sequence[tuple[Array, Array]]) -> KernelExpansion:
    """How the ridges of a fit score new rows; Z are the scaled training rows."""
    support = Z if sp.issparse(Z) else to_numpy(Z)
    weights, offsets = (np.stack(arrays) for arrays in zip(*ridges, strict=True))
    if kernel.name == "linear":
        return KernelExpansion(kernel, None, np.stack([support.T @ A for A in weights]), offsets)
    return KernelExpansion(kernel, support, weights, offsets)


def pick(Z: Any, rows: np.ndarray) -> Any:
    """Some rows of an array of any library."""
    if not is_device_array(Z):
        return Z[rows]
    return namespace(Z).take(Z, like(rows, Z, "own"), axis=0)


def on_device(support: Any, Z: Any) -> Any:
    """Training rows or landmarks on the device of Z."""
    if sp.issparse(Z) or isinstance(Z, np.ndarray):
        return support
    return like(support.toarray() if sp.issparse(support) else support, Z)


# ---- Posterior and noise model


class Split(NamedTuple):
    """Rows to learn from, and rows held out."""

    inverse: Any
    """`KernelInverse`, or the one without the rows held out."""
    Y: Array
    Y_held: Array
    rates: "float | Array | None" = None
    """Known rates: one, or one per training row."""
    rates_held: "float | Array | None" = None
    votes: VoteModel | None = None
    votes_held: VoteModel | None = None
    groups: Array | None = None
    weights: Array | None = None
    counts: Array | None = None
    """How often each training row counts in statistics; None is once."""
    counts_held: Array | None = None

    def noise_of(self, found: Posterior, noise: NoiseModel, z: Array) -> NoiseModel:
        """Noise model of a posterior, which the log-odds z gave; known rates stay."""
        if isinstance(self.rates, np.ndarray):
            return noise
        Y = self.Y
        if self.counts is not None:
            Y, z = repeat(self.counts, Y, z)
            found = posterior(z, Y, noise)
        return update_noise(Y, found, self.rates)


def make_splits(
    K: Array, Y: Array, lams: Sequence[float], options: Options, rng: np.random.RandomState
) -> list[Split]:
    """All rows, and inner splits that hold out a third of the rows or groups each."""
    n = len(Y)
    rates, _, votes, groups, weights = options
    counts = copies(weights)
    Y = Y.astype(np.float64)
    if isinstance(rates, np.ndarray):
        rates = np.clip(rates, *RATES)
    inverse = KernelInverse(K, lams, groups, weights)
    found = [Split(inverse, Y, Y[:0], rates, None, votes, None, groups, weights, counts)]
    group = np.arange(n) if groups is None else np.unique(groups, return_inverse=True)[1]
    thirds = np.array_split(rng.permutation(int(group.max(initial=-1)) + 1), 3)
    for third in thirds if n < FEW_ROWS else thirds[:1]:
        held, train = (np.flatnonzero(np.isin(group, third, invert=k)) for k in (False, True))
        # Without candidates there is nothing to learn from.
        if len(held) and Y[train].any():
            inner = Split(inverse.hold_out(held), Y[train], Y[held], rates, rates, votes, votes)
            if groups is not None:
                inner = inner._replace(groups=groups[train])
            if isinstance(rates, np.ndarray):
                inner = inner._replace(rates=rates[train], rates_held=rates[held])
            if votes is not None:
                ratio: Any = votes.log_ratio
                parts = (votes._replace(log_ratio=ratio[rows]) for rows in (train, held))
                inner = inner._replace(**dict(zip(("votes", "votes_held"), parts, strict=True)))
            if weights is not None and counts is not None:
                inner = inner._replace(weights=weights[train], counts=counts[train])
                inner = inner._replace(counts_held=counts[held])
            found.append(inner)
    return found


def first_guess(split: Split) -> tuple[NoiseModel, Array]:
    """Noise model and log-odds from the strongest ridge on the candidates themselves."""
    l = split.Y.shape[1]
    S = split.inverse.fit(split.Y).left_out[-1]
    # False labels are listed as often as cells outside the candidates look listed.
    outside, listed = repeat(split.counts, S, split.Y)
    outside = outside[listed == 0]
    rate: Any = split.rates
    if rate is None:
        rate = float(np.clip(outside.mean() if outside.size else 0.5, *RATES))
    middle = float(np.clip(np.mean(rate), *RATES))
    p = np.clip((S - middle) / (1 - middle), MARGIN, 1 - MARGIN)
    rate = rate if isinstance(rate, np.ndarray) else middle
    return NoiseModel.independent(rate, l), logit(p)


def collapsed(true: Sequence[float]) -> bool:
    """Whether the rounds, which believed these numbers of candidates, believe hardly any."""
    return true[-1] < COLLAPSE * max(true)


def only_guess(split: Split, n_ridges: int) -> tuple["Pool", NoiseModel, Array, Array]:
    """The first guess as a fit: pool, noise model, log-odds, and what the ridges learn.

    Ridges are linear in what they learn: those on (Y - rate)/(1 - rate) score the probabilities.
    """
    noise, _ = first_guess(split)
    rate = float(np.mean(noise.rate))
    B = (split.Y - rate) / (1 - rate)
    pool = Pool(np.eye(n_ridges + 2)[-2], np.zeros(B.shape[1]), n_ridges - 1, None)
    return pool, noise, pool.log_odds(split.inverse.fit(B).left_out), B


def soften(split: Split, z: Array, noise: NoiseModel, known: Array | None = None) -> Posterior:
    """Posterior of the candidates of the training rows."""
    return posterior(z, split.Y, noise, split.votes, known)


def posterior(
    z: Array,
    Y: Array,
    noise: NoiseModel,
    votes: VoteModel | None = None,
    known: Array | None = None,
) -> Posterior:
    """Posterior of candidates with log-odds z, by the law of the counts or by the votes."""
    if votes is not None:
        # The votes know how often a label is true; the features move it between rows.
        shifted = anchored(np.clip(z, -11, 11), votes.frequency)
        Q = Y * expit(shifted + votes.log_ratio)
        counts = np.zeros(Y.shape[1] + 1)
        found = Posterior(Q, counts, counts[:1])
    else:
        P = np.clip(expit(z), MARGIN, 1 - MARGIN)
        if known is not None:
            P = np.where(known > 0, 1 - CERTAIN, np.where(known < 0, CERTAIN, P))
        found = candidate_posterior(P, Y, noise)
    if known is None:
        return found
    return found._replace(Q=np.where(known > 0, Y, np.where(known < 0, 0.0, found.Q)))


def condition_on_known(
    split: Split, pool: "Pool", noise: NoiseModel, z: Array, known: Array
) -> tuple[NoiseModel, Array, Array]:
    """Run a few more rounds on all rows, conditioned on the known labels.

    Known labels get probability 1 or 0 before every posterior, so that their rows, similar rows
    and correlated labels learn from them. The noise is that of rows with an undecided candidate:
    others may have been corrected. The pool stays as it is.
    """
    undecided = ((known == 0) & (split.Y == 1)).any(axis=1)
    rest = split._replace(Y=split.Y[undecided])
    if isinstance(split.rates, np.ndarray):
        rest = rest._replace(rates=split.rates[undecided])
    for _ in range(KNOWN_ROUNDS):
        Q = soften(split, z, noise, known).Q
        if undecided.any() and split.votes is None:
            own = noise
            if isinstance(rest.rates, np.ndarray):
                own = noise._replace(rate=rest.rates)
            found = soften(rest, z[undecided], own, known[undecided])
            noise = rest.noise_of(found, noise, z[undecided])
        z = pool.log_odds(split.inverse.fit(Q).left_out)
    return noise, z, Q


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


# ---- Leave-one-out ridges and label stack


class Experts(NamedTuple):
    """Scores of all experts in one split, and what the pool needs besides."""

    left_out: list[Array]
    """Scores (n, l) of the training rows, each left out of its own fit."""
    held: list[Array]
    """Scores (m, l) of the rows held out."""
    prior: Array
    """Log-odds of the mean soft label of each label, (l,)."""
    stack: "LabelStack | None"


def fit_experts(split: Split, Q: Array, leader: int, stacked: bool) -> Experts:
    """Ridges of every weight on the soft labels, and the label stack on the leading one."""
    scores = split.inverse.fit(Q)
    left_out, held = list(scores.left_out), list(scores.held)
    mean = np.average(Q, axis=0, weights=split.weights)
    prior = logit(np.clip(mean, MARGIN, 1 - MARGIN))
    stack = None
    if stacked:
        stack, scored = fit_stack(left_out[leader], Q, split.weights, split.groups)
        left_out.append(scored)
        held.append(stack.scores(held[leader]))
    return Experts(left_out, held, prior, stack)


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


def fit_stack(
    S: np.ndarray,
    Q: np.ndarray,
    weights: np.ndarray | None = None,
    groups: np.ndarray | None = None,
) -> tuple[LabelStack, np.ndarray]:
    """Fit the label stack, and score its rows, each row or group left out of its own fit.

    The cost is cubic in min(n, l) only.
    """
    n, l = S.shape
    share = np.full(n, 1 / n) if weights is None else weights / weights.sum()
    root = 1.0 if weights is None else np.sqrt(weights)[:, None]
    centre, mean = (np.average(A, axis=0, weights=weights) for A in (S, Q))
    D, R = root * (S - centre), root * (Q - mean)
    squares = float(np.sum((root * S) ** 2))
    if l <= n:
        half = stack_half(D.T @ D, squares)
        stack = LabelStack(half.T @ (half @ (D.T @ R)), centre, mean)
        E = D @ half.T
        leverages = share + np.sum(E**2, axis=1)
    else:
        G = D @ D.T
        t = stack_ridge(float(np.trace(G)), l, squares)
        inverse = np.linalg.inv(G + t * np.eye(n))
        stack = LabelStack(D.T, centre, mean, inverse @ R)
        leverages = share + 1 - t * np.diagonal(inverse)
    fitted = stack.scores(S)
    left_out = leave_out(fitted, Q, leverages)
    for rows in groups_by_size(groups):
        # Q_G - (I - H_GG)^-1 (Q_G - S_G) with the hat matrix H of the weighted rows.
        k, shares = rows.shape[1], np.sqrt(share[rows])
        inside = (
            E[rows] @ E[rows].transpose(0, 2, 1)
            if l <= n
            else np.eye(k) - t * inverse[rows[:, :, None], rows[:, None, :]]
        )
        H = inside + shares[:, :, None] * shares[:, None, :]
        own = np.broadcast_to(root, (n, 1))[rows]
        # A group of all rows leaves nothing to learn from, and a singular matrix.
        error = np.linalg.solve((1 + 1e-9) * np.eye(k) - H, own * (Q - fitted)[rows])
        left_out[rows] = Q[rows] - error / own
    return stack, left_out


def stack_half(G: np.ndarray, squares: float) -> np.ndarray:
    """half with half' half = (G + t I)^-1 for the Gram matrix G (l, l) of centred scores."""
    l = len(G)
    t = stack_ridge(float(np.trace(G)), l, squares)
    R, _ = cho_factor(G + t * np.eye(l), lower=False)
    return solve_triangular(R, np.eye(l), trans="T", check_finite=False)


def stack_ridge(trace: float, l: int, squares: float) -> float:
    """Ridge weight; where all scores are equal, the last term outweighs rounding errors."""
    return trace / l * STACK_RIDGE + 1e-12 + 1e-14 * squares


def leave_out(S: np.ndarray, Q: np.ndarray, leverages: np.ndarray) -> np.ndarray:
    """Leave-one-out scores Q - (Q - S)/(1 - h) of fitted scores S."""
    return Q - (Q - S) / np.maximum(1 - leverages, SMALLEST)[:, None]


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
    """Log-odds of ridge scores, clipped smoothly to positive numbers so that no ties arise."""
    xp = namespace(s)

    def positive(x: Array) -> Array:
        # For negative x the sum would cancel; the product of the two roots is SOFT^2.
        large = (abs(x) + xp.sqrt(x * x + 4 * SOFT**2)) / 2
        return xp.where(x > 0, large, SOFT**2 / large)

    return xp.log(positive(s) / positive(1 - s))


def fit_pool(
    splits: Sequence[Split],
    experts: Sequence[Experts],
    noises: Sequence[NoiseModel],
    weights: np.ndarray,
    equal: np.ndarray,
    rng: np.random.RandomState,
) -> np.ndarray:
    """Logistic regression of the posterior of held-out cells on the expert scores, in two turns."""
    cells, inputs, listed = [], [], []
    for split, e in zip(splits, experts, strict=True):
        Y, *scores = repeat(split.counts_held, split.Y_held, *e.held)
        cells.append(rng.choice(Y.size, min(Y.size, POOL_CELLS // len(splits)), replace=False))
        inputs.append([soft_logit(S) for S in scores])
        listed.append(Y)
    for _ in range(2):
        Z, q = [], []
        for split, e, noise, some, columns, Y in zip(
            splits, experts, noises, cells, inputs, listed, strict=True
        ):
            z = weights[0] + weights[-1] * e.prior
            z = z + sum(a * L for a, L in zip(weights[1:-1], columns, strict=True))
            if isinstance(split.rates_held, np.ndarray):
                noise = noise._replace(rate=repeat(split.counts_held, split.rates_held)[0])
            Q = posterior(z, Y, noise, split.votes_held).Q
            row, label = np.divmod(some, Q.shape[1])
            q.append(Q[row, label])
            columns = [L[row, label] for L in columns]
            Z.append(np.column_stack([np.ones(len(row)), *columns, e.prior[label]]))
        weights = newton(np.concatenate(Z), np.concatenate(q), weights, equal)
    return weights


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


def cross_entropy(z: np.ndarray, Q: np.ndarray) -> float:
    """Mean of -Q log P - (1 - Q) log(1 - P) over all cells, for the probabilities P of z."""
    most = float(logit(1 - MARGIN))
    z = np.clip(z, -most, most)
    return float(np.mean(np.logaddexp(0, z) - Q * z))
