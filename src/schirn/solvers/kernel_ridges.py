"""Ridges of Sieve for rows whose kernel matrix fits into memory: one inverse per ridge weight.

All leave-one-out and held-out scores follow from the inverses (`schirn.linalg.leave_one_out`).
Rows of one group are left out together.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.linalg import cho_factor, solve_triangular
from sklearn.utils import check_random_state

from schirn._progress import stage
from schirn.linalg.arrays import Array, eps, take_cells
from schirn.linalg.features import Kernel, KernelExpansion, sample_width, width_sample
from schirn.linalg.leave_one_out import (
    KernelInverse,
    groups_by_size,
    leave_one_out,
    left_out_scores,
)
from schirn.noise.model import Candidates
from schirn.solvers.sieve import (
    NOTHING_KNOWN,
    WINDOW,
    Combination,
    Knowledge,
    LabelStack,
    Ridge,
    Ridges,
    RowLabels,
    SieveOptions,
    SieveResult,
    Split,
    choose_lams,
    mean_outside,
    rankable,
    row_precisions,
    sieve,
)

# Size of the sample that chooses the ridge weights; many rare features need more rows.
TUNING_ROWS = 600
WIDE_TUNING_ROWS = 1000
# The pool is fitted to a held-out third of the rows; with fewer rows than this, each third is held
# out in turn. With more rows the inverses take most of the time, and the outer two experts are as
# good as all three; for words, the last expert is enough.
FEW_ROWS = 2500
# Ridge weight of the label stack, relative to the mean variance of its inputs.
STACK_RIDGE = 0.3
# Lower bound of 1 - h for the leverage h of a row in the label stack.
SMALLEST = 1e-3
# Weights of a linear kernel stay per row if there are this many weights per feature (64 MB in
# single precision), for this many times as many features as rows.
_MANY_WEIGHTS = 2**24
_MANY_FEATURES = 4


def fit_kernel(
    Z: Any, Y: Array, options: SieveOptions, knowledge: Knowledge = NOTHING_KNOWN
) -> tuple[SieveResult, KernelExpansion]:
    """Choose the ridge weights, run the rounds, and expand the ridges for new rows.

    Parameters
    ----------
    Z : array or CSR array of shape (n, d)
        Scaled rows.
    Y, knowledge
        As in `KernelRidges`.
    options : SieveOptions
    """
    options = options._replace(wide=options.kernel == "linear" and sp.issparse(Z))
    kernel, K = kernel_matrix(Z, options.kernel, check_random_state(options.random_state))
    result = fit_kernel_matrix(K, Y, options, knowledge)
    return result, kernel_expansion(kernel, Z, result.ridges)


def fit_kernel_matrix(
    K: Array, Y: Array, options: SieveOptions, knowledge: Knowledge = NOTHING_KNOWN
) -> SieveResult:
    """Choose the ridge weights and run the rounds, given the kernel matrix of all rows."""
    rng = check_random_state(options.random_state)
    lams = kernel_lams(K, Y, options, knowledge, rng) if options.lam is None else [options.lam]
    ridges = KernelRidges(K, Y, lams, knowledge, None if options.trusting else rng)
    return sieve(ridges, options, rng)


def kernel_matrix(Z: Any, name: str, rng: np.random.RandomState) -> tuple[Kernel, Array]:
    """The kernel, with the median distance as its width, and its matrix for scaled rows Z.

    A linear kernel is computed in double precision: in single precision, features with large values
    would swamp those with small ones.
    """
    stage("computing the kernel")
    if name == "linear":
        Z = Z.astype(np.float64, copy=False)
        return Kernel("linear"), Kernel("linear")(Z, Z)
    kernel = Kernel("rbf", sample_width(Z[width_sample(Z.shape[0], rng)]))
    return kernel, kernel(Z, Z)


def kernel_lams(
    K: Array, Y: Array, options: SieveOptions, knowledge: Knowledge, rng: np.random.RandomState
) -> list[float]:
    """Ridge weights for the kernel matrix of all rows; see `sample_lams`."""
    rows = tuning_rows(len(Y), options, rng)
    diagonal = K.diagonal()
    variance = float(np.mean(diagonal) - np.mean(K.mean(axis=0)))
    least = len(Y) * eps(K) * float(abs(diagonal).max())
    sample = K[np.ix_(rows, rows)].astype(np.float64)
    return sample_lams(sample, Y, rows, variance, options, knowledge, least)


def tuning_rows(n: int, options: SieveOptions, rng: np.random.RandomState) -> np.ndarray:
    """Draw the rows that choose the ridge weights, and sort them."""
    most = WIDE_TUNING_ROWS if options.wide else TUNING_ROWS
    return np.sort(rng.choice(n, min(n, most), replace=False))


def sample_lams(
    K: np.ndarray,
    Y: Any,
    rows: np.ndarray,
    variance: float,
    options: SieveOptions,
    knowledge: Knowledge,
    least: float = 0.0,
) -> list[float]:
    """One to three ridge weights, chosen by left-out scores of a sample of rows.

    Parameters
    ----------
    K : ndarray of shape (m, m)
        Kernel matrix of the sample.
    Y : array or CSR array of shape (n, l)
        Candidates of all rows, 0/1.
    rows : ndarray of shape (m,)
        The sample, by `tuning_rows`.
    variance, options, least
        As in `choose_lams`.
    knowledge
        As in `KernelRidges`.
    """
    y = sp.csr_array(Y[rows]).toarray().astype(np.float64)
    # Words all have the same unit, so that the more stable squared error can decide.
    is_ranked = (options.kernel == "linear" or options.trusting) and not options.wide
    ranked = rankable(y) if is_ranked else rows[:0]

    def losses(grid: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        errors = np.empty(len(grid))
        precisions = np.empty((len(grid), len(ranked)))
        # One ridge weight at a time, because the scores of all labels take much memory.
        for k, S in enumerate(left_out_scores(K, y, grid, knowledge.of(rows).groups)):
            errors[k] = np.mean((S - y) ** 2, axis=0).mean()
            if len(ranked):
                precisions[k] = row_precisions(y[ranked], S[ranked])
        return errors, precisions

    window = WINDOW
    if Y.shape[0] >= FEW_ROWS:
        window = WINDOW[-1:] if options.wide else WINDOW[::2]
    return choose_lams(losses, variance, options, window, least)


class KernelRidges(Ridges):
    """Ridges on all rows, and on inner splits that each hold out a third of the rows or groups.

    Parameters
    ----------
    K : array of shape (n, n)
        Kernel matrix.
    Y : ndarray of shape (n, l)
        Candidates, 0/1.
    lams : sequence of float
        Ridge weights of the experts.
    knowledge : Knowledge
    rng : RandomState, optional
        Draws the inner splits; None makes none.
    """

    most_stacked = np.inf

    def __init__(
        self,
        K: Array,
        Y: Array,
        lams: Sequence[float],
        knowledge: Knowledge = NOTHING_KNOWN,
        rng: np.random.RandomState | None = None,
    ):
        stage("inverting the kernel")
        self.lams = list(lams)
        self.values = np.empty(0)
        self._inverse = KernelInverse(K, lams, knowledge.groups)
        self._inverses = []
        groups = np.arange(len(Y)) if knowledge.groups is None else knowledge.groups
        permutation = groups[:0] if rng is None else rng.permutation(np.unique(groups))
        thirds = np.array_split(permutation, 3)[: 3 if len(Y) < FEW_ROWS else 1]
        self.splits = []
        # The first split holds out no rows.
        for third in [permutation[:0], *thirds]:
            is_held = np.isin(groups, third)
            train = np.flatnonzero(~is_held)
            held = np.flatnonzero(is_held)
            # Skip splits without held-out rows or without candidates to learn from.
            if self.splits and not (len(held) and Y[train].any()):
                continue
            labels = [RowLabels(Candidates(Y[rows]), knowledge.of(rows)) for rows in (train, held)]
            self.splits.append(Split(labels[0], train, labels[1], np.arange(len(held))))
            self._inverses.append(self._inverse.hold_out(held))

    def left_out(self, q: Sequence[Array], leader: int | None = None) -> list[Array]:
        """Fit the ridges of every split to soft labels q, and score the candidates of the split."""
        self._fits = []
        experts = []
        for split, inverse, values in zip(self.splits, self._inverses, q, strict=False):
            c = split.train.candidates
            stack = None
            Q = c.dense(values)
            S, S_held = inverse.fit(Q)
            if leader is not None:
                stack, stacked = fit_stack(S[leader], Q, split.train.knowledge.groups)
                S = np.concatenate([S, stacked[None]])
                S_held = np.concatenate([S_held, stack.scores(S_held[leader])[None]])
            self._fits.append((S, S_held, Q, stack))
            experts.append(take_cells(S, c.flat))
        return experts

    def held_out(self, split: int, row: np.ndarray, label: np.ndarray) -> tuple[Array, Array]:
        """Scores of the held-out candidates and of the given held-out cells."""
        _, S, *_ = self._fits[split]
        return take_cells(S, self.splits[split].held.candidates.flat), S[:, row, label]

    def weights(self) -> tuple[list[Ridge], LabelStack | None]:
        """Dual weights and intercepts of the ridges, and the label stack."""
        *_, Q, stack = self._fits[0]
        return self._inverse.expansion(Q), stack

    def unlisted_mean(self, split: int) -> float:
        """Mean score of the last ridge outside the candidates."""
        return mean_outside(self._fits[split][0][-1], self.splits[split].train.candidates)

    def log_odds(self, combination: Combination, split: int = 0) -> Array:
        """Log-odds (n, l) of all cells of a split."""
        return combination(self._fits[split][0])


# ---- Label stack


def fit_stack(
    S: np.ndarray, Q: np.ndarray, groups: np.ndarray | None = None
) -> tuple[LabelStack, np.ndarray]:
    """Fit the label stack, and score every row with the row or its group left out.

    The cost is cubic only in min(n, l).
    """
    n, l = S.shape
    centre = S.mean(axis=0)
    mean = Q.mean(axis=0)
    D = S - centre
    R = Q - mean
    squares = float(np.sum(S**2))
    if l <= n:
        half = stack_half(D.T @ D, squares)
        stack = LabelStack(half.T @ (half @ (D.T @ R)), centre, mean)
        E = D @ half.T
    else:
        right, E = wide_stack(D, R, squares)
        stack = LabelStack(D.T, centre, mean, right)
    fitted = stack.scores(S)
    left_out = leave_one_out(Q, fitted, 1 / n + np.sum(E**2, axis=1), SMALLEST)
    if groups is not None:
        leave_groups_out(left_out, Q, fitted, E, groups)
    return stack, left_out


def wide_stack(D: np.ndarray, R: np.ndarray, squares: float) -> tuple[np.ndarray, np.ndarray]:
    """Right factor of the weights, and E with hat matrix E E', for fewer rows than labels.

    With G = D D', the hat matrix is G (G + t I)^-1.
    """
    G = D @ D.T
    t = stack_ridge(float(np.trace(G)), D.shape[1], squares)
    values, vectors = np.linalg.eigh(G)
    values = np.maximum(values, 0)
    right = vectors @ ((vectors.T @ R) / (values + t)[:, None])
    return right, vectors * np.sqrt(values / (values + t))


def leave_groups_out(
    left_out: np.ndarray,
    Q: np.ndarray,
    fitted: np.ndarray,
    E: np.ndarray,
    groups: np.ndarray,
) -> None:
    """Replace scores of groups by Q_G - (I - H_GG)^-1 (Q_G - S_G), with the hat matrix H."""
    for rows in groups_by_size(groups):
        H = E[rows] @ E[rows].transpose(0, 2, 1) + 1 / len(Q)
        # If a group contains all rows, I - H is singular.
        singular = (1 + 1e-9) * np.eye(rows.shape[1]) - H
        left_out[rows] = Q[rows] - np.linalg.solve(singular, (Q - fitted)[rows])


def stack_half(G: np.ndarray, squares: float) -> np.ndarray:
    """A matrix `half` with half' half = (G + t I)^-1, for the Gram matrix G of centred scores."""
    l = len(G)
    t = stack_ridge(float(np.trace(G)), l, squares)
    R, _ = cho_factor(G + t * np.eye(l), lower=False)
    return solve_triangular(R, np.eye(l), trans="T", check_finite=False)


def stack_ridge(trace: float, l: int, squares: float) -> float:
    """Ridge weight of the stack; its last term exceeds rounding errors if all scores are equal."""
    return trace / l * STACK_RIDGE + 1e-12 + 1e-14 * squares


# ---- Predictions for new rows


def kernel_expansion(kernel: Kernel, Z: Any, ridges: Sequence[Ridge]) -> KernelExpansion:
    """Expansion that scores new rows by the ridges of a fit, given scaled training rows Z.

    The weights of a linear kernel are per feature, which is fast. Only if these are very many, and
    the rows are few, they stay per training row: 1,500 short texts have 20,000 words and more.
    """
    weights, offsets = (np.stack(arrays) for arrays in zip(*ridges, strict=True))
    n, d = Z.shape
    is_small = d < _MANY_FEATURES * n or d * offsets.size < _MANY_WEIGHTS
    if kernel.name == "linear" and is_small:
        return KernelExpansion(kernel, None, np.stack([Z.T @ A for A in weights]), offsets)
    return KernelExpansion(kernel, Z, weights, offsets)
