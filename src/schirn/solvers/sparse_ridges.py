"""Ridges of Sieve for many sparse rows, such as texts: a linear model on all features.

A sparse row has few of very many features, so that neither landmarks nor a Gram matrix can stand
for them. Here the ridges see every feature: conjugate gradients solve them for all labels and all
ridge weights together, by products with the sparse matrix alone. Each row is scored by the ridges
of the folds that it is not in. The pool is learned from a sample of rows, on their kernel matrix.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils import check_random_state

from schirn._progress import track
from schirn.linalg.arrays import Array
from schirn.linalg.kernels import Kernel, KernelExpansion
from schirn.linalg.leave_one_out import leave_one_out
from schirn.solvers.candidates import (
    NOTHING_KNOWN,
    Knowledge,
    Split,
    knowledge_of,
    make_candidates,
    row_labels,
    take_cells,
)
from schirn.solvers.feature_ridges import MOST_STACKED
from schirn.solvers.kernel_ridges import SMALLEST, KernelRidges, sample_lams, stack_half
from schirn.solvers.sieve import (
    Combination,
    HeldScores,
    LabelStack,
    Ridge,
    Ridges,
    SieveOptions,
    SieveResult,
    fit_ridges,
)

FOLDS = 5
# Each round costs a pass over all folds, and texts are ranked best after two.
MOST_ROUNDS = 2
# Rows whose kernel matrix learns the pool.
POOL_ROWS = 2400
# Labels that are solved together, for memory.
_LABELS = 128
# Conjugate gradients stop at this residual, relative to the soft labels: rankings settle earlier.
_TOLERANCE = 0.05
_MOST_STEPS = 60
# Rows whose label stack is computed together.
_STACK_ROWS = 20_000


def fit_sparse(
    X: sp.csr_array, Y: Any, options: SieveOptions, knowledge: Knowledge = NOTHING_KNOWN
) -> SieveResult:
    """Choose the ridge weights and run the rounds; see `SparseRidges`."""
    Y, rng, trusting = sp.csr_array(Y), check_random_state(options.random_state), options.trusting
    lams = None if options.lam is None else [float(options.lam)]
    lams = lams or linear_lams(X, Y, knowledge, trusting, rng)
    ridges = SparseRidges(X, Y, lams, knowledge, None if trusting else rng)
    options = options._replace(max_iter=min(options.max_iter, MOST_ROUNDS))
    return fit_ridges(ridges, options, knowledge, rng)


def linear_lams(
    X: sp.csr_array,
    Y: sp.csr_array,
    knowledge: Knowledge,
    trusting: bool,
    rng: np.random.RandomState,
) -> list[float]:
    """Ridge weights chosen on a sample of rows, as for a kernel matrix."""
    squares, mean = X.multiply(X).sum(axis=1), np.asarray(X.mean(axis=0)).ravel()
    variance = float(squares.mean() - mean @ mean)

    def kernel_of(rows: np.ndarray) -> Array:
        Z = X[rows].astype(np.float64)
        return (Z @ Z.T).toarray()

    choice: dict[str, Any] = {"kernel": "linear", "trusting": trusting, "wide": True}
    return sample_lams(kernel_of, Y, knowledge, variance=variance, rng=rng, **choice)


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
        self.splits = [Split(row_labels(make_candidates(Y, X), every, knowledge), every)]
        self._X = X
        self._inner = None
        if rng is not None:
            rows = np.sort(rng.choice(len(every), min(len(every), POOL_ROWS), replace=False))
            Z, sample = X[rows].astype(np.float64), knowledge_of(knowledge, rows)
            self._inner = KernelRidges((Z @ Z.T).toarray(), Y[rows].toarray(), lams, sample, rng)
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
            self._stack = fit_stack(self._scores[leader], self._Q, self._scores[-1])
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

    def map_log_odds(
        self, combination: Combination, function: Callable[..., Any], split: int = 0
    ) -> list[Any]:
        """Call function(rows, log-odds) for all rows."""
        if split and self._inner is not None:
            return self._inner.map_log_odds(combination, function, split)
        return [function(self.splits[split].rows, combination(self._scores))]


def solve_ridges(
    X: sp.csr_array, Q: sp.csr_array, lams: Sequence[float]
) -> Iterator[tuple[slice, list[tuple[Array, Array]]]]:
    """Weights and intercepts of argmin ||X W + b - Q||^2 + lam ||W||^2, some labels at a time.

    With centred rows, W = X'A for the dual weights A, (X X' + lam I) A = Q - mean.
    """
    transposed = X.T.tocsr()
    mean = np.asarray(X.mean(axis=0)).ravel().astype(X.dtype)

    def product(A: Array) -> Array:
        W = transposed @ A
        B = X @ W - mean @ W
        return B - B.mean(axis=0)

    for first in range(0, Q.shape[1], _LABELS):
        columns = slice(first, min(first + _LABELS, Q.shape[1]))
        B = Q[:, columns].toarray()
        level = B.mean(axis=0)
        B -= level
        weights = [transposed @ A for A in shifted_solutions(product, B, lams)]
        yield columns, [(W, level - mean @ W) for W in weights]


def shifted_solutions(
    product: Callable[[Array], Array], B: Array, lams: Sequence[float]
) -> list[Array]:
    """Solve (K + lam I) A = B for every column and every lam by conjugate gradients.

    All systems share the products of the one with the smallest lam: the residuals of the others are
    multiples of its residual, by a factor `ratio` that a recursion of three terms yields.

    Parameters
    ----------
    product : function
        Multiplies by the positive semi-definite K.
    B : ndarray of shape (n, k)
    lams : sequence of float
        Ascending.
    """
    shifts = np.asarray(lams, dtype=np.float64)[:, None] - lams[0]
    residual, direction = B.copy(), B.copy()
    solutions = [np.zeros_like(B) for _ in lams]
    directions = [B.copy() for _ in lams]
    squares = np.einsum("ij,ij->j", B, B, dtype=np.float64)
    enough = _TOLERANCE**2 * np.maximum(squares, 1e-30)
    ratio, last_ratio = np.ones((2, len(lams), B.shape[1]))
    step, growth = np.ones(B.shape[1]), np.zeros(B.shape[1])
    for _ in range(_MOST_STEPS):
        running = squares > enough
        if not running.any():
            break
        image = product(direction) + direction * B.dtype.type(lams[0])
        curvature = np.einsum("ij,ij->j", direction, image, dtype=np.float64)
        last_step, step = step, np.where(running, squares / np.maximum(curvature, 1e-300), 0.0)
        # Columns that are done take steps of length 0.
        denominator = step * growth * (last_ratio - ratio) / np.maximum(last_step, 1e-300)
        denominator = denominator + last_ratio * (1 + shifts * step)
        new_ratio = np.where(running, ratio * last_ratio / denominator, ratio)
        relative = new_ratio / ratio
        for A, D, length in zip(solutions, directions, step * relative, strict=True):
            A += D * length.astype(B.dtype)
        residual -= image * step.astype(B.dtype)
        new_squares = np.einsum("ij,ij->j", residual, residual, dtype=np.float64)
        growth = np.where(running, new_squares / np.maximum(squares, 1e-300), 0.0)
        direction = residual + direction * growth.astype(B.dtype)
        for k, D in enumerate(directions):
            D *= (growth * relative[k] ** 2).astype(B.dtype)
            D += residual * new_ratio[k].astype(B.dtype)
        last_ratio, ratio, squares = ratio, new_ratio, np.where(running, new_squares, squares)
    return solutions


def fit_stack(S: Array, Q: sp.csr_array, out: Array) -> LabelStack:
    """Fit the label stack to scores (n, l), and write its left-out scores to `out`."""
    n, l = S.shape
    blocks = [slice(i, i + _STACK_ROWS) for i in range(0, n, _STACK_ROWS)]
    centre, mean = S.mean(axis=0, dtype=np.float64), np.asarray(Q.mean(axis=0)).ravel()
    gram, cross, squares = np.zeros((l, l)), np.zeros((l, l)), 0.0
    for rows in blocks:
        D = S[rows] - centre
        gram += D.T @ D
        # The rows of D have mean 0 over all blocks, so that Q need not be centred.
        cross += (Q[rows].T @ D).T
        squares += float(np.sum(S[rows].astype(np.float64) ** 2))
    half = stack_half(gram, squares)
    stack = LabelStack(half.T @ (half @ cross), centre, mean)
    for rows in blocks:
        leverages = 1 / n + np.sum(((S[rows] - centre) @ half.T) ** 2, axis=1)
        out[rows] = leave_one_out(Q[rows].toarray(), stack.scores(S[rows]), leverages, SMALLEST)
    return stack


def linear_expansion(ridges: Sequence[Ridge]) -> KernelExpansion:
    """How the ridges of a fit score new rows."""
    weights, offsets = (np.stack(arrays) for arrays in zip(*ridges, strict=True))
    return KernelExpansion(Kernel("linear"), None, weights, offsets)
