"""Ridges of Sieve for many sparse rows, such as texts: a linear model on all features.

A sparse row has few of very many features, so that neither landmarks nor a Gram matrix can stand
for them. Here the ridges see every feature: conjugate gradients solve them for all labels and all
ridge weights together, by products with the sparse matrix alone. Each row is scored by the ridges
of the folds that it is not in. The pool is learned from a sample of rows, on their kernel matrix.
"""

from collections.abc import Iterator, Sequence
from functools import reduce
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from sklearn.utils import check_random_state

from schirn._progress import track
from schirn.linalg.arrays import Array, row_slices, take_cells
from schirn.linalg.features import Kernel, KernelExpansion
from schirn.noise.model import make_candidates
from schirn.scale.blocks import Block, RowStore, add_sums, one_block
from schirn.solvers.feature_ridges import MOST_STACKED, fit_stack, stack_sums
from schirn.solvers.kernel_ridges import (
    KernelRidges,
    sample_lams,
    tuning_rows,
)
from schirn.solvers.sieve import (
    NOTHING_KNOWN,
    Combination,
    HeldScores,
    Knowledge,
    LabelStack,
    Ridge,
    Ridges,
    SieveOptions,
    SieveResult,
    first_split,
    sieve,
)

FOLDS = 5
# Each round costs a pass over all folds, and texts are ranked best after two.
MOST_ROUNDS = 2
# Rows whose kernel matrix learns the pool.
POOL_ROWS = 2400
# Labels that are solved together, for memory.
_LABELS = 128
# Conjugate gradients stop when the gradient is this small, relative to the first one. Later steps
# fit the wrong labels, and tags are ranked less well.
_TOLERANCE = 0.2
_MOST_STEPS = 60


def fit_sparse(
    X: sp.csr_array, Y: Any, options: SieveOptions, knowledge: Knowledge = NOTHING_KNOWN
) -> tuple[SieveResult, KernelExpansion]:
    """Choose the ridge weights, run the rounds, and expand the ridges for new rows."""
    Y, rng, trusting = sp.csr_array(Y), check_random_state(options.random_state), options.trusting
    lams = None if options.lam is None else [options.lam]
    lams = lams or linear_lams(X, Y, knowledge, trusting, rng)
    ridges = SparseRidges(X, Y, lams, knowledge, None if trusting else rng)
    max_iter = min(options.max_iter, MOST_ROUNDS)
    result = sieve(ridges, max_iter=max_iter, rng=rng, trusting=trusting)
    return result, linear_expansion(result.ridges)


def linear_lams(
    X: sp.csr_array,
    Y: sp.csr_array,
    knowledge: Knowledge,
    trusting: bool,
    rng: np.random.RandomState,
) -> list[float]:
    """Ridge weights chosen on a sample of rows, as for a kernel matrix; see `fit_sparse`."""
    n = Y.shape[0]
    squares, total = np.sum(X.data**2, dtype=np.float64), X.sum(axis=0, dtype=np.float64)
    variance = float(squares / n - (total / n) @ (total / n))
    options = SieveOptions("linear", trusting=trusting, wide=True)
    rows = tuning_rows(n, options, rng)
    Z = X[rows].astype(np.float64)
    return sample_lams((Z @ Z.T).toarray(), Y, rows, variance, options, knowledge)


class SparseRidges(Ridges):
    """Linear ridges on all rows, which score each row by folds that leave it out.

    Parameters
    ----------
    X : CSR array of shape (n, d)
        Scaled rows.
    Y : CSR array of shape (n, l)
        Candidates, 0/1.
    lams : sequence of float
        Ridge weights of the experts, ascending.
    knowledge : Knowledge
        Rows of one group are in one fold.
    rng : RandomState, optional
        Draws the rows that learn the pool; None leaves its weights equal.
    """

    most_stacked = MOST_STACKED

    def __init__(
        self,
        X: sp.csr_array,
        Y: sp.csr_array,
        lams: Sequence[float],
        knowledge: Knowledge,
        rng: np.random.RandomState | None = None,
    ):
        every = np.arange(X.shape[0])
        self.lams, self.values = list(lams), np.empty(0, dtype=X.dtype)
        self.splits = [first_split(make_candidates(Y), every, knowledge)]
        self._X = X
        self._inner = None
        if rng is not None:
            rows = np.sort(rng.choice(len(every), min(len(every), POOL_ROWS), replace=False))
            Z, known = X[rows].astype(np.float64), knowledge.of(rows)
            self._inner = KernelRidges((Z @ Z.T).toarray(), Y[rows].toarray(), lams, known, rng)
            self.splits += self._inner.splits[1:]
        # By position: another seed or more rows at the end change the folds of no row.
        self._fold = (every if knowledge.groups is None else knowledge.groups) % FOLDS

    def left_out(self, q: Sequence[Array], leader: int | None = None) -> list[Array]:
        """Fit the ridges of every fold to soft labels q, and score its candidates."""
        c = self.splits[0].train.candidates
        self._Q = sp.csr_array((q[0].astype(self._X.dtype), c.label, c.indptr), shape=c.shape)
        n_experts = len(self.lams) + (leader is not None)
        self._scores = np.empty((n_experts, *c.shape), dtype=self._X.dtype)
        for fold in track(range(FOLDS), "fold", minor=True):
            train, test = self._fold != fold, self._fold == fold
            if not test.any():
                continue
            X, X_test = self._X[train], self._X[test]
            for columns, ridges in solve_ridges(X, self._Q[train], self.lams):
                for k, (W, b) in enumerate(ridges):
                    self._scores[k, test, columns] = X_test @ W + b
        self._stack = None
        if leader is not None:
            S, Q = self._scores[leader], self._Q
            fitted = fit_stack(stack_sums(S, Q.data, c), c.total(Q.data), len(S))
            self._stack = fitted.stack
            for rows in row_slices(*S.shape):
                targets, factors = Q[rows].toarray(), fitted.factors(S[rows])[:, None]
                self._scores[-1, rows] = (
                    targets - (targets - fitted.stack.scores(S[rows])) * factors
                )
        experts = [take_cells(self._scores, c.flat)]
        if self._inner is not None and len(q) > 1:
            # The sample as a whole teaches nothing that all rows do not.
            ones = np.ones(self._inner.splits[0].train.candidates.size)
            experts += self._inner.left_out([ones, *q[1:]], leader)[1:]
        return experts

    def held_out(self, cells: Sequence[tuple[np.ndarray, np.ndarray]]) -> list[HeldScores]:
        """Scores of the candidates held out, and of cells held out."""
        return [] if self._inner is None else self._inner.held_out(cells)

    def weights(self) -> tuple[list[Ridge], LabelStack | None]:
        """Weights and intercepts of the ridges on all rows, and the label stack."""
        W = np.empty((len(self.lams), self._X.shape[1], self._Q.shape[1]), dtype=self._X.dtype)
        b = np.empty((len(self.lams), self._Q.shape[1]))
        for columns, ridges in solve_ridges(self._X, self._Q, self.lams):
            for k, (weights, intercept) in enumerate(ridges):
                W[k, :, columns], b[k, columns] = weights, intercept
        return list(zip(W, b, strict=True)), self._stack

    def unlisted_mean(self, split: int) -> float:
        """Mean score of the last ridge outside the candidates."""
        if split and self._inner is not None:
            return self._inner.unlisted_mean(split)
        c, S = self.splits[split].train.candidates, self._scores[len(self.lams) - 1]
        unlisted = c.shape[0] * c.shape[1] - c.size
        listed = float(take_cells(S, c.flat).sum(dtype=np.float64))
        return (float(S.sum(dtype=np.float64)) - listed) / unlisted if unlisted else 0.5

    def log_odds(self, combination: Combination, split: int = 0) -> Array:
        """Log-odds (n, l) of all cells of a split."""
        if split and self._inner is not None:
            return self._inner.log_odds(combination, split)
        return combination(self._scores)


def solve_ridges(
    X: sp.csr_array, Q: sp.csr_array, lams: Sequence[float]
) -> Iterator[tuple[slice, list[tuple[Array, Array]]]]:
    """Weights and intercepts of the ridges of rows in memory, as `solve_on_blocks` yields them."""
    store = one_block(X)
    store.step(lambda block, state: (Lesson(X, Q), (None,)))
    return solve_on_blocks(store, lesson_sums(store), Q.shape[1], lams)


class Lesson(NamedTuple):
    """Rows of a block that teach a ridge.

    Attributes
    ----------
    X : CSR array of shape (n, d)
    Q : CSR array of shape (n, l)
        Soft labels.
    scores : array
        Whatever the caller keeps with the block.
    """

    X: sp.csr_array
    Q: sp.csr_array
    scores: Array | None = None


class LessonSums(NamedTuple):
    """Sums over all rows that teach: their number, features (d,), labels (l,) and X'Q (d, l)."""

    n: int
    features: Array
    labels: Array
    cross: Array


def lesson_sums(store: RowStore) -> Any:
    """Return the sums over blocks whose state is a `Lesson`, where the rows are."""
    return store.near(_joined_sums, store.start(_sum_lesson))


def _joined_sums(groups: Sequence[tuple[Any, ...]]) -> LessonSums:
    return LessonSums(*reduce(add_sums, groups))


def _sum_lesson(block: Block, lesson: Lesson) -> tuple[Lesson, tuple[Any, ...]]:
    X, Q = lesson.X, lesson.Q
    return lesson, (X.shape[0], X.sum(axis=0), Q.sum(axis=0), (X.T @ Q).toarray())


def solve_on_blocks(
    store: RowStore, sums: Any, n_labels: int, lams: Sequence[float]
) -> Iterator[tuple[slice, Any]]:
    """Weights and intercepts of argmin ||X W + b - Q||^2 + lam ||W||^2, some labels at a time.

    With centred rows, (X'X + lam I) W = X'Q. Conjugate gradients solve it for every label and every
    lam at once. The blocks multiply a direction by X'X and keep nothing, and what is computed of
    the products stays where the rows are.

    Parameters
    ----------
    store : RowStore
        Blocks whose state is a `Lesson`.
    sums : LessonSums
        What `lesson_sums` returns.
    n_labels : int
    lams : sequence of float
        Ascending.

    Yields
    ------
    columns : slice
        Labels.
    ridges : list of (W, b), one for each lam
        Where the rows are, as a result of `RowStore.near`.
    """
    for first in range(0, n_labels, _LABELS):
        columns = slice(first, min(first + _LABELS, n_labels))
        systems = store.near(_begin, sums, columns, lams)
        for _ in range(_MOST_STEPS):
            if not store.here(store.near(_is_running, systems)):
                break
            products = store.start(_multiply, store.near(_direction, systems))
            systems = store.near(_advance, systems, products, sums, lams)
        yield columns, store.near(_weights, systems, sums, columns)


def _multiply(block: Block, lesson: Lesson, W: Array) -> tuple[Lesson, tuple[Array]]:
    """X'X W of the rows that teach."""
    return lesson, (lesson.X.T @ (lesson.X @ W),)


class _Systems(NamedTuple):
    """Conjugate gradients for k labels and every lam.

    All systems share the products of the one with the smallest lam: the residuals of the others are
    multiples of its residual, by a factor `ratio` that a recursion of three terms yields.

    Attributes
    ----------
    residual : array of shape (d, k)
        Of the first lam.
    directions, solutions : lists of arrays of shape (d, k), one for each lam
    ratio, last_ratio : arrays of shape (lams, k)
    squares, enough : arrays of shape (k,)
        Squared length of the residual, and the one at which a label is done.
    step, growth : arrays of shape (k,)
        Length of the last step, and factor of the last direction in the next.
    """

    residual: Array
    directions: list[Array]
    solutions: list[Array]
    ratio: Array
    last_ratio: Array
    squares: Array
    enough: Array
    step: Array
    growth: Array


def _begin(sums: LessonSums, columns: slice, lams: Sequence[float]) -> _Systems:
    """The residual is the right-hand side: X'Q of centred rows."""
    target = sums.cross[:, columns] - sums.features[:, None] * (sums.labels[columns] / sums.n)
    target = target.astype(sums.cross.dtype, copy=False)
    squares = _squared_lengths(target)
    ratio, last_ratio = np.ones((2, len(lams), len(squares)))
    return _Systems(
        residual=target,
        directions=[target for _ in lams],
        solutions=[np.zeros_like(target) for _ in lams],
        ratio=ratio,
        last_ratio=last_ratio,
        squares=squares,
        enough=_TOLERANCE**2 * np.maximum(squares, 1e-30),
        step=np.ones(len(squares)),
        growth=np.zeros(len(squares)),
    )


def _is_running(systems: _Systems) -> bool:
    return bool((systems.squares > systems.enough).any())


def _direction(systems: _Systems) -> Array:
    return systems.directions[0]


def _advance(
    systems: _Systems, products: Sequence[tuple[Array]], sums: LessonSums, lams: Sequence[float]
) -> _Systems:
    """Take a step of conjugate gradients, given the product of the first direction with X'X."""
    direction, running = systems.directions[0], systems.squares > systems.enough
    real = direction.dtype.type
    (image,) = reduce(add_sums, products)
    # Of centred rows, and with the ridge weight.
    image = image - sums.features[:, None] * (sums.features @ direction / real(sums.n))
    image += direction * real(lams[0])
    curvature = np.einsum("ij,ij->j", direction, image, dtype=np.float64)
    # Columns that are done take steps of length 0.
    step = np.where(running, systems.squares / np.maximum(curvature, 1e-300), 0.0)
    ratio, last_ratio = systems.ratio, systems.last_ratio
    shifts = np.asarray(lams, dtype=np.float64)[:, None] - lams[0]
    denominator = step * systems.growth * (last_ratio - ratio) / np.maximum(systems.step, 1e-300)
    denominator = denominator + last_ratio * (1 + shifts * step)
    new_ratio = np.where(running, ratio * last_ratio / denominator, ratio)
    relative = new_ratio / ratio
    residual = systems.residual - image * step.astype(real)
    squares = np.where(running, _squared_lengths(residual), systems.squares)
    growth = np.where(running, squares / np.maximum(systems.squares, 1e-300), 0.0)
    lengths, turns = (step * relative).astype(real), (growth * relative**2).astype(real)
    experts = list(zip(systems.solutions, systems.directions, strict=True))
    return systems._replace(
        residual=residual,
        directions=[
            D * turn + residual * factor
            for (_, D), turn, factor in zip(experts, turns, new_ratio.astype(real), strict=True)
        ],
        solutions=[W + D * length for (W, D), length in zip(experts, lengths, strict=True)],
        ratio=new_ratio,
        last_ratio=ratio,
        squares=squares,
        step=step,
        growth=growth,
    )


def _weights(systems: _Systems, sums: LessonSums, columns: slice) -> list[tuple[Array, Array]]:
    """Weights and intercepts."""
    level, mean = sums.labels[columns] / sums.n, sums.features / sums.n
    return [(W, level - mean @ W) for W in systems.solutions]


def _squared_lengths(columns: Array) -> Array:
    return np.asarray(np.einsum("ij,ij->j", columns, columns, dtype=np.float64))


def linear_expansion(ridges: Sequence[Ridge]) -> KernelExpansion:
    """How the ridges of a fit score new rows."""
    weights, offsets = (np.stack(arrays) for arrays in zip(*ridges, strict=True))
    return KernelExpansion(Kernel("linear"), None, weights, offsets)
