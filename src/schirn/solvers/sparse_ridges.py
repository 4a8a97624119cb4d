"""Ridges of Sieve for many sparse rows, such as texts: a linear model on all features.

A sparse row has few out of very many features, which neither landmarks nor a Gram matrix can
represent. Here the ridges use every feature: conjugate gradients solve for many labels together,
using only products with the sparse matrix. Each row is scored by the ridges of folds that do not
contain it. The pool is fitted to a sample of rows, using their kernel matrix.
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
from schirn.noise.model import Candidates
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
    Knowledge,
    LabelStack,
    Ridge,
    Ridges,
    RowLabels,
    SieveOptions,
    SieveResult,
    Split,
    mean_outside,
    sieve,
)

FOLDS = 5
# Each round costs a pass over all folds, and the ranking of texts is best after two.
MOST_ROUNDS = 2
# Size of the sample whose kernel matrix fits the pool.
POOL_ROWS = 2400
# Number of labels solved at a time, to limit memory.
_LABELS = 128
# Conjugate gradients stop when the gradient is this small relative to the first one. Further steps
# would fit the wrong labels and make the ranking worse.
_TOLERANCE = 0.1
_MOST_STEPS = 60


def fit_sparse(
    X: sp.csr_array, Y: Any, options: SieveOptions, knowledge: Knowledge = NOTHING_KNOWN
) -> tuple[SieveResult, KernelExpansion]:
    """Choose the ridge weight, run the rounds, and expand the ridge for new rows."""
    Y = sp.csr_array(Y)
    rng = check_random_state(options.random_state)
    trusting = options.trusting
    lam = options.lam or linear_lam(X, Y, knowledge, trusting, rng)
    ridges = SparseRidges(X, Y, lam, knowledge, None if trusting else rng)
    options = options._replace(max_iter=min(options.max_iter, MOST_ROUNDS))
    result = sieve(ridges, options, rng)
    ((W, b),) = result.ridges
    return result, KernelExpansion(Kernel("linear"), None, W[None], b[None])


def linear_lam(
    X: sp.csr_array,
    Y: sp.csr_array,
    knowledge: Knowledge,
    trusting: bool,
    rng: np.random.RandomState,
) -> float:
    """Ridge weight chosen on a sample of rows, as for a kernel matrix."""
    n = Y.shape[0]
    squares = np.sum(X.data**2, dtype=np.float64)
    total = X.sum(axis=0, dtype=np.float64)
    variance = float(squares / n - (total / n) @ (total / n))
    options = SieveOptions("linear", trusting=trusting, wide=True)
    rows = tuning_rows(n, options, rng)
    Z = X[rows].astype(np.float64)
    return sample_lams((Z @ Z.T).toarray(), Y, rows, variance, options, knowledge)[-1]


class SparseRidges(Ridges):
    """A linear ridge on all rows, with scores of each row from folds that do not contain it.

    Parameters
    ----------
    X : CSR array of shape (n, d)
        Scaled rows.
    Y : CSR array of shape (n, l)
        Candidates, 0/1.
    lam : float
        Ridge weight. On texts, one expert and the label stack rank as well as several experts.
    knowledge : Knowledge
        Rows of the same group are in the same fold.
    rng : RandomState, optional
        Draws the sample that fits the pool; None keeps its weights equal.
    """

    most_stacked = MOST_STACKED

    def __init__(
        self,
        X: sp.csr_array,
        Y: sp.csr_array,
        lam: float,
        knowledge: Knowledge,
        rng: np.random.RandomState | None = None,
    ):
        every = np.arange(X.shape[0])
        self.lams = [lam]
        self.values = np.empty(0, dtype=X.dtype)
        self.splits = [Split(RowLabels(Candidates(Y), knowledge), every)]
        self._X = X
        self._inner = None
        if rng is not None:
            rows = np.sort(rng.choice(len(every), min(len(every), POOL_ROWS), replace=False))
            Z = X[rows].astype(np.float64)
            known = knowledge.of(rows)
            self._inner = KernelRidges((Z @ Z.T).toarray(), Y[rows].toarray(), [lam], known, rng)
            self.splits += self._inner.splits[1:]
        # Assigned by position: neither the seed nor rows appended later change the fold of a row.
        self._fold = (every if knowledge.groups is None else knowledge.groups) % FOLDS

    def left_out(self, q: Sequence[Array], leader: int | None = None) -> list[Array]:
        """Fit the ridge of every fold to soft labels q, and score the candidates."""
        c = self.splits[0].train.candidates
        self._Q = sp.csr_array((q[0].astype(self._X.dtype), c.label, c.indptr), shape=c.shape)
        self._scores = np.empty((1 + (leader is not None), *c.shape), dtype=self._X.dtype)
        for fold in track(range(FOLDS), "fold"):
            train = self._fold != fold
            test = self._fold == fold
            if not test.any():
                continue
            X = self._X[train]
            X_test = self._X[test]
            for columns, (W, b) in solve_ridge(X, self._Q[train], *self.lams):
                self._scores[0, test, columns] = X_test @ W + b
        self._stack = None
        if leader is not None:
            S = self._scores[0]
            Q = self._Q
            fitted = fit_stack(stack_sums(S, Q.data, c), c.total(Q.data), len(S))
            self._stack = fitted.stack
            for rows in row_slices(*S.shape):
                self._scores[-1, rows] = fitted.left_out(S[rows], Q[rows].toarray())
        experts = [take_cells(self._scores, c.flat)]
        if self._inner is not None and len(q) > 1:
            # Skip the fit on the whole sample: the fit on all rows covers it.
            ones = np.ones(self._inner.splits[0].train.candidates.size)
            experts += self._inner.left_out([ones, *q[1:]], leader)[1:]
        return experts

    def held_out(self, split: int, row: np.ndarray, label: np.ndarray) -> tuple[Array, Array]:
        """Scores of the held-out candidates and of the given held-out cells."""
        assert self._inner is not None
        return self._inner.held_out(split, row, label)

    def weights(self) -> tuple[list[Ridge], LabelStack | None]:
        """Weights and intercepts of the ridge on all rows, and the label stack."""
        W, b = zip(*(pair for _, pair in solve_ridge(self._X, self._Q, *self.lams)), strict=True)
        return [(np.concatenate(W, axis=1), np.concatenate(b))], self._stack

    def unlisted_mean(self, split: int) -> float:
        """Mean score of the last ridge outside the candidates."""
        if split and self._inner is not None:
            return self._inner.unlisted_mean(split)
        return mean_outside(self._scores[0], self.splits[split].train.candidates)

    def log_odds(self, combination: Combination, split: int = 0) -> Array:
        """Log-odds (n, l) of all cells of a split."""
        if split and self._inner is not None:
            return self._inner.log_odds(combination, split)
        return combination(self._scores)


def solve_ridge(
    X: sp.csr_array, Q: sp.csr_array, lam: float
) -> Iterator[tuple[slice, tuple[Array, Array]]]:
    """Yield the weights and intercepts of a ridge on rows in memory, as `solve_on_blocks` does."""
    store = one_block(X)
    store.step(lambda block, state: (Lesson(X, Q), (None,)))
    return solve_on_blocks(store, lesson_sums(store), Q.shape[1], lam)


class Lesson(NamedTuple):
    """Rows of a block that a ridge is fitted to.

    Attributes
    ----------
    X : CSR array of shape (n, d)
    Q : CSR array of shape (n, l)
        Soft labels.
    scores : array
        Anything that the caller stores with the block.
    """

    X: sp.csr_array
    Q: sp.csr_array
    scores: Array | None = None


class LessonSums(NamedTuple):
    """Sums over all fitted rows: number, features (d,), labels (l,) and X'Q (d, l)."""

    n: int
    features: Array
    labels: Array
    cross: Array


def lesson_sums(store: RowStore) -> Any:
    """Sum over blocks whose state is a `Lesson`; the result stays where the rows are."""
    return store.near(_joined_sums, store.start(_sum_lesson))


def _joined_sums(groups: Sequence[tuple[Any, ...]]) -> LessonSums:
    return LessonSums(*reduce(add_sums, groups))


def _sum_lesson(block: Block, lesson: Lesson) -> tuple[Lesson, tuple[Any, ...]]:
    X = lesson.X
    Q = lesson.Q
    return lesson, (X.shape[0], X.sum(axis=0), Q.sum(axis=0), (X.T @ Q).toarray())


def solve_on_blocks(
    store: RowStore, sums: Any, n_labels: int, lam: float, n_steps: int | None = None
) -> Iterator[tuple[slice, Any]]:
    """Solve argmin ||X W + b - Q||^2 + lam ||W||^2 for W and b, some labels at a time.

    With centred rows, (X'X + lam I) W = X'Q, which conjugate gradients solve for many labels at
    once. The blocks only multiply a direction by X'X and keep no state; everything computed from
    these products stays where the rows are.

    Parameters
    ----------
    store : RowStore
        Blocks whose state is a `Lesson`.
    sums : LessonSums
        Result of `lesson_sums`.
    n_labels : int
    lam : float
    n_steps : int, optional
        Number of steps for every label. None stops each label when it has converged, so that a few
        more rows may change the number of steps.

    Yields
    ------
    columns : slice
        Labels.
    ridge : (W, b)
        A result of `RowStore.near`, which stays where the rows are.
    """
    for first in range(0, n_labels, _LABELS):
        columns = slice(first, min(first + _LABELS, n_labels))
        systems = store.near(_begin, sums, columns, _TOLERANCE if n_steps is None else 0.0)
        for _ in range(_MOST_STEPS if n_steps is None else n_steps):
            if not store.here(store.near(_is_running, systems)):
                break
            products = store.start(_multiply, store.near(_direction, systems))
            systems = store.near(_advance, systems, products, sums, lam)
        yield columns, store.near(_weights, systems, sums, columns)


def _multiply(block: Block, lesson: Lesson, W: Array) -> tuple[Lesson, tuple[Array]]:
    """X'X W for the rows of a block."""
    return lesson, (lesson.X.T @ (lesson.X @ W),)


class _Systems(NamedTuple):
    """Conjugate gradients for k labels.

    Attributes
    ----------
    residual, direction, solution : arrays of shape (d, k)
    squares, enough : arrays of shape (k,)
        Squared norm of the residual, and the value at which a label has converged.
    """

    residual: Array
    direction: Array
    solution: Array
    squares: Array
    enough: Array


def _begin(sums: LessonSums, columns: slice, tolerance: float) -> _Systems:
    """Start from zero weights, where the residual is the right-hand side X'Q of centred rows."""
    target = sums.cross[:, columns] - sums.features[:, None] * (sums.labels[columns] / sums.n)
    target = target.astype(sums.cross.dtype, copy=False)
    squares = _squared_lengths(target)
    enough = tolerance**2 * np.maximum(squares, 1e-30)
    return _Systems(target, target, np.zeros_like(target), squares, enough)


def _is_running(systems: _Systems) -> bool:
    return bool((systems.squares > systems.enough).any())


def _direction(systems: _Systems) -> Array:
    return systems.direction


def _advance(
    systems: _Systems, products: Sequence[tuple[Array]], sums: LessonSums, lam: float
) -> _Systems:
    """Take a step of conjugate gradients, given the product of the direction with X'X."""
    residual, direction, solution, squares, enough = systems
    running = squares > enough
    real = direction.dtype.type
    (image,) = reduce(add_sums, products)
    # Account for the centring of the rows, and add the ridge weight.
    image = image - sums.features[:, None] * (sums.features @ direction / real(sums.n))
    image += direction * real(lam)
    curvature = np.einsum("ij,ij->j", direction, image, dtype=np.float64)
    # Converged columns take steps of length 0.
    step = np.where(running, squares / np.maximum(curvature, 1e-300), 0.0).astype(real)
    residual = residual - image * step
    left = np.where(running, _squared_lengths(residual), squares)
    growth = np.where(running, left / np.maximum(squares, 1e-300), 0.0).astype(real)
    solution = solution + direction * step
    direction = direction * growth + residual
    return _Systems(residual, direction, solution, left, enough)


def _weights(systems: _Systems, sums: LessonSums, columns: slice) -> tuple[Array, Array]:
    """Weights, and the intercepts that follow from the means."""
    W = systems.solution
    return W, sums.labels[columns] / sums.n - sums.features / sums.n @ W


def _squared_lengths(columns: Array) -> Array:
    return np.asarray(np.einsum("ij,ij->j", columns, columns, dtype=np.float64))
