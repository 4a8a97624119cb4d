"""Sieve for rows whose kernel matrix fits in memory: one inverse per ridge weight.

All leave-one-out and held-out scores follow from the inverses (`schirn.linalg.inverse`). Here rows
may have weights, groups that are left out together, and votes.
"""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from sklearn.utils import check_random_state

from schirn._progress import stage
from schirn.linalg.arrays import Array, eps, is_device_array, like, namespace, to_numpy
from schirn.linalg.inverse import KernelInverse, groups_by_size, left_out_scores
from schirn.linalg.kernels import Kernel, sample_width, width_sample
from schirn.linalg.weights import copies, repeat
from schirn.noise.votes import VoteModel
from schirn.solvers.sieve import (
    GRIDS,
    LARGEST_RBF_LAM,
    POOL_CELLS,
    SMALLEST,
    WINDOW,
    LabelStack,
    Problem,
    SieveResult,
    TuningSums,
    best_weight,
    fit,
    rankable,
    row_precisions,
    score,
    stack_half,
    stack_ridge,
)
from schirn.solvers.sieve_rows import Candidates, Rows, Split, make_rows

# Rows that choose the ridge weights.
TUNING_ROWS = 600
# A third of the rows is held out to fit the pool; few rows need all three thirds. For many rows,
# whose inverses take most of the time, the outer two experts are as good as all three.
FEW_ROWS = 2500


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
    K, Y, options
        As in `KernelProblem`.
    trusting : bool
        Take every candidate as true.
    """
    rng = check_random_state(random_state)
    stage("choosing the ridge weights")
    lams = choose_lams(K, Y, options, kernel=kernel, lam=lam, trusting=trusting, rng=rng)
    problem = KernelProblem(K, Y, lams, options, rng=None if trusting else rng)
    known = options.known is not None
    return fit(problem, lams, trusting=trusting, max_iter=max_iter, rng=rng, known=known)


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


class KernelProblem(Problem):
    """All rows, and inner splits that hold out a third of the rows or groups each.

    Parameters
    ----------
    K : array of shape (n, n)
        Kernel matrix, of any array library.
    Y : ndarray of shape (n, l)
        Candidates, 0/1.
    lams : sequence of float
        Ridge weights of the experts.
    options : Options
    rng : RandomState, optional
        Draws the inner splits; None makes none.
    """

    def __init__(
        self,
        K: Array,
        Y: Array,
        lams: Sequence[float],
        options: Options = NOTHING,
        rng: np.random.RandomState | None = None,
    ):
        stage("inverting the kernel")
        rates, _, votes, groups, weights = options
        n, listed, counts = len(Y), sp.csr_array(Y), copies(weights)
        group = np.arange(n) if groups is None else np.unique(groups, return_inverse=True)[1]
        self.inverses: list[Any] = [KernelInverse(K, lams, groups, weights)]
        self.groups, self.again = [groups], [np.arange(0)]
        """Groups of the training rows; which rows held out count, each as often as it does."""

        def rows(index: np.ndarray, known: Any = None) -> Rows:
            own = make_rows(None, listed, index, rates, known)
            if votes is not None:
                ratio: Any = votes.log_ratio
                own = own._replace(votes=votes._replace(log_ratio=ratio[index]))
            if weights is not None and counts is not None:
                own = own._replace(weights=weights[index], counts=counts[index])
            return own

        splits = [Split(rows(np.arange(n), options.known))]
        number = int(group.max(initial=-1)) + 1
        thirds = np.array_split(np.arange(0) if rng is None else rng.permutation(number), 3)
        for third in thirds if n < FEW_ROWS else thirds[:1]:
            held, train = (np.flatnonzero(np.isin(group, third, invert=k)) for k in (False, True))
            # Without candidates there is nothing to learn from.
            if len(held) and Y[train].any():
                again = np.repeat(np.arange(len(held)), 1 if counts is None else counts[held])
                out = rows(held[again])._replace(indices=np.arange(len(again)))
                splits.append(Split(rows(train), out))
                self.inverses.append(self.inverses[0].hold_out(held))
                self.groups.append(None if groups is None else groups[train])
                self.again.append(again)
        every = np.ones(n) if weights is None else weights
        sizes = [every[s.train.indices].sum() for s in splits]
        super().__init__(splits, sizes, self.again[1:], Y.shape[1], rates)
        self.estimated = rates is None and votes is None

    def ridges(
        self, sums: Sequence[Any], lams: Sequence[float], first: Sequence[float] = ()
    ) -> list[Any]:
        """Scores of all rows by the last of the ridges, whose targets are the sums."""
        found = []
        for own, inverse, again in zip(sums, self.inverses, self.again, strict=False):
            left_out, held = (S[-len(lams) :] for S in inverse.fit(own[0]))
            found.append(KernelScores(left_out, held[:, again]))
        return found

    def expansion(self, sums: Any, lams: Sequence[float]) -> list[tuple[np.ndarray, np.ndarray]]:
        """Dual weights and intercepts of the last of the ridges."""
        found: list[Any] = self.inverses[0].expansion(sums[0])
        return found[-len(lams) :]

    def score(
        self, sums: Sequence[Any], lams: Sequence[float], leader: int, stacked: bool
    ) -> list[Any]:
        """Score all rows by ridges, and fit label stacks to the scores of the leading one."""
        self.each(score, self.ridges(sums, lams))
        if not stacked:
            return [None] * len(sums)
        return [
            KernelStack(*fit_stack(s.S[leader], own.XtQ, s.train.weights, groups))
            for s, own, groups in zip(self.splits, sums, self.groups, strict=True)
        ]

    def draw_cells(self, rng: np.random.RandomState) -> Iterable[Any]:
        """Cells held out that fit the pool, the same in both turns."""
        l, most = self.n_labels, POOL_CELLS // len(self.drawn)
        sizes = [len(rows) * l for rows in self.drawn]
        drawn = [rng.choice(size, min(size, most), replace=False) for size in sizes]
        return [[np.divmod(np.sort(cells), l) for cells in drawn]] * 2


class KernelScores(NamedTuple):
    """Scores of the rows of a split by its ridges, (e, n, l) and (e, m, l)."""

    S: np.ndarray
    S_held: np.ndarray

    def score(self, split: Split) -> Split:
        """The split with these scores."""
        return split._replace(S=self.S, S_held=self.S_held)


class KernelStack(NamedTuple):
    """A label stack, and the scores of the rows it was fitted to."""

    stack: LabelStack
    S: np.ndarray

    def left_out(self, S: Array, q: Array, c: Candidates) -> np.ndarray:
        """Scores of these rows, each left out of its own fit."""
        return self.S


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
    left_out = Q - (Q - fitted) / np.maximum(1 - leverages, SMALLEST)[:, None]
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


# ---- Predictions for new rows


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
