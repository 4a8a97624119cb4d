"""Ridges of Sieve for many rows, on features whose Gram matrix is a sum over blocks of rows.

The features are Nyström features, or the rows themselves for a linear kernel. The fit on all rows
and the one inner split share them, each with its own eigenvectors. Rows in memory or on a device
form one block, rows in files or on workers many (`schirn.scale.blocks`). Features never leave their
block: soft labels of candidates go in, scores of cells and sums over rows come out.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from sklearn.utils import check_random_state

from schirn._checkpoint import remembered
from schirn._progress import stage, track
from schirn.linalg.arrays import (
    Array,
    dense_part,
    is_device_array,
    like,
    namespace,
    pick,
    piece_rows,
    row_pieces,
    take_cells,
    to_numpy,
)
from schirn.linalg.features import (
    Kernel,
    KernelExpansion,
    nystroem_map,
    on_device,
    sample_width,
    width_sample,
)
from schirn.linalg.leave_one_out import below_one
from schirn.linalg.row_space import column_sums, gram_matrix, gram_spectrum, rounding
from schirn.noise.model import Candidates
from schirn.scale.blocks import Block, PerBlock, RowStore, add_sums, same, stacked_rows
from schirn.solvers.kernel_ridges import SMALLEST, stack_half
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
    choose_lams,
    rankable,
    row_precisions,
    sieve,
)

_BLOCK_ROWS = 5000
# Number of held-out rows whose rankings are used to compare ridge weights.
RANKED_ROWS = 2000
# The cost of the label stack is cubic in the labels; it is left out above this many.
MOST_STACKED = 3000


def fit_features(
    store: RowStore,
    Y: Any,
    options: SieveOptions,
    dtype: Any,
    scaled: Callable[[Any], Any],
    knowledge: Knowledge = NOTHING_KNOWN,
) -> tuple[SieveResult, KernelExpansion]:
    """Choose the ridge weights, run the rounds, and expand the ridges for new rows.

    Parameters
    ----------
    store, options, dtype, scaled
        As in `FeatureRidges`.
    Y, knowledge
        As in `FeatureRidges.use_candidates`.
    """
    ridges = FeatureRidges(store, Y.shape[0], options, dtype, scaled)
    ridges.use_candidates(sp.csr_array(Y), knowledge)
    ridges.choose_lams(options)
    rng = check_random_state(options.random_state)
    result = sieve(ridges, options, rng)
    return result, ridges.source.expansion(result.ridges)


class FeatureRidges(Ridges):
    """Ridges on the features of all rows, and of the three quarters that are not held out.

    Parameters
    ----------
    store : RowStore
    n : int
        Number of rows.
    options : SieveOptions
    dtype : dtype
        Type of the rows.
    scaled : function
        Scales rows.

    Attributes
    ----------
    source : FeatureMap
    drawn : ndarray
        Held-out rows in the order in which they were drawn.
    rows : list of ndarray
        Rows of each block, with the held-out rows last.
    edges : list of int
        Number of rows of each block that are not held out.
    """

    most_stacked = MOST_STACKED

    def __init__(
        self,
        store: RowStore,
        n: int,
        options: SieveOptions,
        dtype: Any,
        scaled: Callable[[Any], Any],
    ):
        rng = check_random_state(options.random_state)
        self._store = store
        self.drawn = np.array_split(rng.permutation(n), 4)[0]

        def scaled_rows(index: np.ndarray) -> Any:
            pieces = [piece for piece in store.gather(_pick_rows, index) if piece.shape[0]]
            return scaled(stacked_rows(pieces))

        self.source = draw_features(n, options, rng, scaled_rows)
        sums = store.start(_make_features, scaled, self.source, np.sort(self.drawn))
        self._single = self.source.support is not None or "float32" in str(dtype)
        stage("factoring the features")
        spectra = remembered("spectra", partial(_spectra, store, sums, self._single))
        # Free the sums of the blocks, which take much memory on the workers. Eigenvectors are sent
        # back here: if a worker lost them, all blocks would be needed to recompute them.
        del sums
        self._spectra = [
            Spectrum(eigenvalues, m, store.near(same, basis, place=k), mean)
            for k, (eigenvalues, m, basis, mean) in enumerate(spectra)
        ]
        self.rows, self.edges = map(list, zip(*store.gather(_row_order), strict=True))

    def use_candidates(self, Y: sp.csr_array, knowledge: Knowledge = NOTHING_KNOWN) -> None:
        """Set the 0/1 candidates (n, l) to learn from."""
        store = self._store
        blocks = self.rows
        inner = [rows[:edge] for rows, edge in zip(blocks, self.edges, strict=True)]
        held = [rows[edge:] for rows, edge in zip(blocks, self.edges, strict=True)]
        # An inner split without any candidate has nothing to learn from.
        kinds = (
            [blocks, inner, held] if np.diff(Y.indptr)[np.concatenate(inner)].any() else [blocks]
        )
        store.step(_set_candidates, PerBlock(Y[rows] for rows in blocks), len(kinds) > 1)
        # With a single block, use its candidates, which may be on a device.
        candidates, self.values = store.gather(_candidates)[0]
        if len(blocks) > 1:
            self.values = to_numpy(self.values)
            candidates = [Candidates(Y[np.concatenate(rows)], self.values) for rows in kinds]
        self._cells = [_edges(Y, rows) for rows in kinds[:2]]
        rows = np.concatenate(blocks)
        self.splits = [Split(RowLabels(candidates[0], knowledge.of(rows)), rows)]
        if len(kinds) > 1:
            train_rows = np.concatenate(inner)
            held_rows = np.concatenate(held)
            place = np.empty(Y.shape[0], dtype=np.int64)
            place[held_rows] = np.arange(len(held_rows))
            train, test = (
                RowLabels(c, knowledge.of(rows))
                for c, rows in zip(candidates[1:], (train_rows, held_rows), strict=True)
            )
            self.splits.append(Split(train, train_rows, test, place[self.drawn]))
        self._held_edges = np.cumsum([0, *map(len, held)])

    def choose_lams(self, options: SieveOptions) -> None:
        """Set the ridge weights: as given, or around the best one for held-out candidates."""
        spectrum = self._spectra[0]
        lams = None if options.lam is None else [options.lam]
        variance = float(spectrum.eigenvalues.sum()) / spectrum.n
        losses = partial(self.losses, ranked=options.kernel == "linear" or options.trusting)
        choose = partial(choose_lams, losses, variance, options)
        self.use_lams(lams or remembered("lams", choose))

    def use_lams(self, lams: Sequence[float]) -> None:
        """Set the ridge weights, and compute the leverages of all rows."""
        self.lams = list(lams)
        self._store.step(_set_leverages, self._spectra[: len(self.splits)], self.lams)

    def losses(self, grid: np.ndarray, ranked: bool) -> tuple[np.ndarray, np.ndarray]:
        """Losses on the held-out rows of ridges fitted to the candidates of the inner split."""
        if len(self.splits) == 1:
            return np.arange(len(grid)), np.zeros((len(grid), 0))
        ones = [split.train.candidates.ones(self.values) for split in self.splits]
        ridges = self._ridges(1, self._project(ones)[1], grid.tolist())
        rows = np.sort(self.drawn[: RANKED_ROWS if ranked else 0])
        blocks = self._store.gather(_held_losses, ridges, len(grid), rows)
        errors, precisions = zip(*blocks, strict=True)
        return np.sum(errors, axis=0), np.concatenate(precisions, axis=1)

    def left_out(self, q: Sequence[Array], leader: int | None = None) -> list[Array]:
        """Fit the ridges of every split to soft labels q, and score the candidates of the split."""
        self._q = list(q)
        self._leader = leader
        self._stacks: list[FittedStack | None] = [None] * len(q)
        self._sums = self._project(q)
        self._W = [self._ridges(k, sums, self.lams) for k, sums in enumerate(self._sums)]
        q_blocks = self._blocks(q)
        scores, stack_sums, self._totals = zip(
            *self._store.step(_score, self._W, q_blocks, len(self.lams), leader), strict=True
        )
        experts = [_joined([S for _, S in sorted(blocks, key=itemgetter(0))]) for blocks in scores]
        if leader is None:
            return experts
        self._stacks = [
            fit_stack(sums, soft, len(split.rows))
            for sums, (_, soft), split in zip(stack_sums, self._sums, self.splits, strict=False)
        ]
        stacked = zip(*self._store.gather(_stack, self._stacks, q_blocks), strict=True)
        return [
            namespace(S).concat([S, _joined(blocks)])
            for S, blocks in zip(experts, stacked, strict=True)
        ]

    def held_out(self, split: int, row: np.ndarray, label: np.ndarray) -> tuple[Array, Array]:
        """Scores of the held-out candidates and of the given held-out cells."""
        ends = np.searchsorted(row, self._held_edges)
        parts = [
            (row[i:j] - first, label[i:j])
            for i, j, first in zip(ends, ends[1:], self._held_edges, strict=False)
        ]
        message = self._W[split], len(self.lams), self._leader, self._stacks[split]
        blocks = self._store.gather(_score_held, *message, PerBlock(parts))
        listed, scored = zip(*blocks, strict=True)
        return _joined(listed), _joined(scored)

    def weights(self) -> tuple[list[Ridge], LabelStack | None]:
        """Weights and intercepts of the ridges on all rows, and the label stack."""
        store = self._store
        stack = self._stacks[0]
        ridges = store.here(store.near(Spectrum.ridges, self._spectra[0], self._sums[0], self.lams))
        pairs = [(to_numpy(W), to_numpy(b)) for W, b in ridges]
        return pairs, None if stack is None else stack.stack

    def unlisted_mean(self, split: int) -> float:
        """Mean score of the last ridge outside the candidates."""
        c = self.splits[split].train.candidates
        unlisted = c.shape[0] * c.shape[1] - c.size
        return self._totals[split] / unlisted if unlisted else 0.5

    def log_odds(self, combination: Combination, split: int = 0) -> Array:
        """Log-odds (n, l) of all cells of a split, in the order of its rows."""
        blocks = self.map_log_odds(combination, None, split)
        return blocks[0] if len(blocks) == 1 else np.concatenate(blocks)

    def map_log_odds(
        self, combination: Combination, function: Callable[..., Any] | None, split: int = 0
    ) -> list[Any]:
        """The log-odds, or function(rows, log-odds), of the rows of a split in every block."""
        parts = PerBlock([blocks[split] for blocks in self._blocks(self._q)])
        scores = self._W[split], len(self.lams), self._leader, self._stacks[split]
        message = (split, *scores, parts, combination, function)
        return self._store.gather(_map_log_odds, *message)

    def _project(self, q: Sequence[Array]) -> list[tuple[Array, np.ndarray]]:
        """X'Q and 1'Q of every split."""
        return list(self._store.step(_project, self._blocks(q)))

    def _ridges(self, k: int, sums: Any, lams: Sequence[float]) -> Any:
        """Weights and intercepts of split k, computed where the rows are; only sums travel."""
        message = self._spectra[k], sums, lams, self._single
        return self._store.near(_joined_ridges, *message, place=k)

    def _blocks(self, q: Sequence[Array]) -> PerBlock:
        """Values of the candidates of every split, block by block."""
        return PerBlock(
            tuple(
                values[ends[b] : ends[b + 1]] for values, ends in zip(q, self._cells, strict=False)
            )
            for b in range(len(self._cells[0]) - 1)
        )


def _edges(Y: sp.csr_array, blocks: Sequence[np.ndarray]) -> np.ndarray:
    """Positions at which the candidates of each block begin and end."""
    sizes = np.diff(Y.indptr)
    return np.cumsum([0, *(sizes[rows].sum() for rows in blocks)])


def _joined(blocks: Sequence[Array]) -> Array:
    """Concatenate the scores (e, cells) of all blocks."""
    return blocks[0] if len(blocks) == 1 else np.concatenate(blocks, axis=1)


# ---- Features and their factors


class Spectrum(NamedTuple):
    """Eigenvalues and eigenvectors of the centred Gram matrix of the features of a split."""

    eigenvalues: Array
    n: int
    basis: Array
    mean: Array

    def ridges(
        self, sums: tuple[Array, np.ndarray], lams: Sequence[float]
    ) -> list[tuple[Array, Array]]:
        """Weights and intercepts of argmin ||X W + b - B||^2 + lam ||W||^2, given X'B and 1'B."""
        XtB = sums[0]
        total = like(sums[1], self.mean)
        projected = self.basis.T @ (XtB - self.mean[:, None] * total)
        W = [self.basis @ (projected / (self.eigenvalues + t)[:, None]) for t in lams]
        return [(A, total / self.n - self.mean @ A) for A in W]

    def leverages(self, X: Any, lams: Sequence[float]) -> Array:
        """Diagonals of the hat matrices, (n, ridge weights), below 1."""
        values = dense_part(X)
        xp = namespace(self.eigenvalues)
        weights = like(xp.stack([1 / (self.eigenvalues + t) for t in lams], axis=1), values)
        basis = like(self.basis, values)
        shift = like(self.mean @ self.basis, values)
        pieces = [
            (A @ basis - shift) ** 2 @ weights + 1 / self.n
            for _, A in row_pieces(X, piece_rows(values, len(weights)))
        ]
        return below_one(namespace(values).concat(pieces))


def gram_sums(X: Any) -> tuple[int, Array, Array]:
    """Number of rows of features, their sum and their Gram matrix, in double precision."""
    stage("multiplying the features")
    return X.shape[0], column_sums(X), gram_matrix(X)


def spectrum(sums: tuple[int, Array, Array], single: bool) -> Spectrum:
    """Spectrum of rows with these sums, of features in single or double precision."""
    n, total, gram = sums
    mean = total / max(n, 1)
    floor = rounding((n, len(mean)), np.dtype(np.float32 if single else np.float64))
    eigenvalues, basis = gram_spectrum(gram - n * mean[:, None] * mean, floor)
    basis = np.ascontiguousarray(basis) if isinstance(basis, np.ndarray) else basis
    return Spectrum(eigenvalues, n, basis, mean)


@dataclass(frozen=True, eq=False)
class FeatureMap:
    """Features of scaled rows: kernel(rows, support) R - shift, or the rows themselves."""

    kernel: Kernel
    support: Any = None
    """Landmarks; None for a linear kernel."""
    nystroem: Array | None = None
    """R, on the device where the landmarks were drawn."""
    shift: np.ndarray | None = None
    """Approximate mean of dense features, subtracted to preserve digits in single precision."""

    def features(self, Z: Any) -> Any:
        """Features of scaled rows Z, in single precision if they come from landmarks."""
        if self.support is None:
            return Z if self.shift is None else Z - like(self.shift, Z)
        R, shift = (like(A, dense_part(Z)) for A in (self.nystroem, self.shift))
        features = self.kernel(Z, on_device(self.support, Z)) @ R - shift
        return namespace(Z).astype(features, namespace(Z).float32, copy=False)

    def ordered(self, X: Any, order: np.ndarray, scaled: Callable[[Any], Any]) -> Any:
        """Features of the rows of X in a new order, a few thousand rows at a time."""
        if self.support is None or not len(order):
            return pick(self.features(scaled(X)), order)
        # Move R and the shift to the device of the rows once instead of with every piece.
        first = scaled(pick(X, order[:1]))
        R, shift = (like(A, dense_part(first)) for A in (self.nystroem, self.shift))
        moved = replace(self, support=on_device(self.support, first), nystroem=R, shift=shift)
        shape = (len(order), R.shape[1])
        out = None
        step = max(_BLOCK_ROWS, piece_rows(R, R.shape[0]))
        for i in track(range(0, len(order), step), "features of block", minor=True):
            piece = moved.features(scaled(pick(X, order[i : i + step])))
            if out is None:
                out = namespace(piece).empty(shape, dtype=piece.dtype, device=piece.device)
            out[i : i + step] = piece
        return out

    def expansion(self, ridges: Sequence[Ridge]) -> KernelExpansion:
        """Combine the ridges of all experts with the feature map, to score new rows."""
        shift = self.shift
        R = self.nystroem
        offsets = [b if shift is None else b - shift @ W for W, b in ridges]
        weights = [W if R is None else to_numpy(R @ like(W, R)) for W, _ in ridges]
        return KernelExpansion(self.kernel, self.support, np.stack(weights), np.stack(offsets))


def draw_features(
    n: int,
    options: SieveOptions,
    rng: np.random.RandomState,
    scaled_rows: Callable[[np.ndarray], Any],
) -> FeatureMap:
    """Draw landmarks and estimate the kernel width; `scaled_rows` takes sorted row indices."""
    stage("drawing landmarks" if options.kernel == "rbf" else "looking at some rows")
    sample = scaled_rows(width_sample(n, rng))
    if options.kernel == "linear":
        dense = not sp.issparse(sample)
        return FeatureMap(Kernel("linear"), shift=to_numpy(sample).mean(0) if dense else None)
    function = Kernel("rbf", sample_width(sample))
    landmarks = scaled_rows(np.sort(rng.choice(n, min(n, options.n_landmarks), replace=False)))
    R = nystroem_map(function, landmarks)
    shift = function(landmarks, landmarks).mean(axis=0) @ like(R, dense_part(landmarks))
    landmarks = landmarks if sp.issparse(landmarks) else to_numpy(landmarks)
    return FeatureMap(function, landmarks, R, to_numpy(shift))


# ---- Label stack computed from sums


def stack_sums(S: Array, q: Array, c: Candidates) -> tuple[np.ndarray, ...]:
    """1'S, S'S and S'Q for scores S (n, l), in double precision."""
    product = c.project(namespace(S).astype(q, namespace(S).float64), S)
    return tuple(to_numpy(A) for A in (column_sums(S), gram_matrix(S), product))


def fit_stack(sums: Sequence[np.ndarray], soft: np.ndarray, n: float) -> "FittedStack":
    """Fit the label stack to n rows whose soft labels sum to `soft`."""
    total, gram, product = sums
    centre = total / n
    mean = soft / n
    half = stack_half(gram - n * np.outer(centre, centre), float(np.trace(gram)))
    W = half.T @ (half @ (product - n * np.outer(centre, mean)))
    return FittedStack(LabelStack(W, centre, mean), half, n)


@dataclass(frozen=True, eq=False)
class FittedStack:
    """A label stack together with the leverages of the rows that it was fitted to."""

    stack: LabelStack
    half: np.ndarray
    """Leverages are the squared column norms of half (S - centre)'."""
    n: float

    def factors(self, S: Array) -> Array:
        """1/(1 - h) with the leverage h of each row."""
        D = S @ like(self.half.T, S) - like(self.half @ self.stack.centre, S)
        return 1 / (1 - below_one(1 / self.n + namespace(S).sum(D**2, axis=1), SMALLEST))

    def left_out(self, S: Array, targets: Array) -> Array:
        """Scores (n, l) of the fitted rows, each left out of the fit to these targets."""
        return targets - (targets - self.stack.scores(S)) * self.factors(S)[:, None]


# ---- Steps that run where the rows are


class State(NamedTuple):
    """State of a block: its features, and what the fits on all rows and on the inner split need."""

    X: Any
    """Features, with the held-out rows last."""
    edge: int
    """Number of rows that are not held out."""
    rows: np.ndarray
    """Index of each row of X in the data."""
    candidates: tuple[Candidates, ...] = ()
    """Candidates of all rows, of the rows of the inner split, and of the held-out rows."""
    factors: tuple[Any, ...] = ()
    """1/(1 - h) with the leverage h of each row, (n, e), per split."""
    S: tuple[Any, ...] = ()
    """Left-out scores (n, l) of the leading ridge, per split."""

    def features(self, split: int) -> Any:
        """Features of the rows that a split is fitted to."""
        return self.X[: self.edge] if split else self.X


Sums = tuple[Any, ...]


def _pick_rows(block: Block, state: Any, index: np.ndarray) -> Any:
    """Rows of this block among the sorted row indices."""
    X = block.rows.X
    return pick(X, _inside(index, block.rows.first, X.shape[0]))


def _inside(index: np.ndarray, first: int, n: int) -> np.ndarray:
    """Positions within a block of those sorted row indices that fall into it."""
    low, high = np.searchsorted(index, [first, first + n])
    return index[low:high] - first


def _make_features(
    block: Block, state: Any, scaled: Any, source: FeatureMap, held: np.ndarray
) -> tuple[State, Sums]:
    """Features of a block, and sums over its training rows and over its held-out rows."""
    X = block.rows.X
    first = block.rows.first
    n = X.shape[0]
    held_rows = _inside(held, first, n)
    learned = np.ones(n, dtype=bool)
    learned[held_rows] = False
    order = np.concatenate([np.flatnonzero(learned), held_rows])
    edge = n - len(held_rows)
    X = source.ordered(X, order, scaled)
    return State(X, edge, order + first), (gram_sums(X[:edge]), gram_sums(X[edge:]))


def _spectra(store: RowStore, sums: Any, single: bool) -> list[Spectrum]:
    """Spectra of all rows and of the rows that are not held out, given sums of `_make_features`."""
    spectra = [store.near(_split_spectrum, sums, k, single, place=k) for k in range(2)]
    return [store.here(result) for result in spectra]


def _split_spectrum(sums: Sequence[Any], k: int, single: bool) -> Spectrum:
    total = reduce(add_sums, (pair[0] for pair in sums))
    total = total if k else reduce(add_sums, (pair[1] for pair in sums), total)
    return spectrum(total, single)


def _row_order(block: Block, state: State) -> tuple[np.ndarray, int]:
    return state.rows, state.edge


def _set_candidates(
    block: Block, state: State, Y: sp.csr_array, has_split: bool
) -> tuple[State, Sums]:
    c = Candidates(Y, dense_part(state.X))
    edges = [(0, state.edge), (state.edge, Y.shape[0])] if has_split else []
    return state._replace(candidates=(c, *(c.between(i, j) for i, j in edges))), ()


def _candidates(block: Block, state: State) -> tuple[tuple[Candidates, ...], Array]:
    return state.candidates, dense_part(state.X[:0])


def _set_leverages(
    block: Block, state: State, spectra: Sequence[Spectrum], lams: Sequence[float]
) -> tuple[State, Sums]:
    factors = [1 / (1 - s.leverages(state.features(k), lams)) for k, s in enumerate(spectra)]
    return state._replace(factors=tuple(factors)), ()


def _project(block: Block, state: State, q: Sequence[Array]) -> tuple[State, Sums]:
    """X'Q and 1'Q of every split."""
    sums = []
    for k, (c, values) in enumerate(zip(state.candidates, q, strict=False)):
        X = state.features(k)
        values = like(values, dense_part(X))
        sums.append((c.project(values, X), c.total(values)))
    return state, tuple(sums)


def _joined_ridges(
    spectrum: Spectrum, sums: tuple[Array, Any], lams: Sequence[float], single: bool
) -> tuple[Array, ...]:
    """Weights (d, e l) and intercepts (e l,) of all ridges, concatenated."""
    W, b = zip(*spectrum.ridges(sums, lams), strict=True)
    xp = namespace(W[0])
    joined = xp.concat(list(W), axis=1), xp.concat(list(b))
    # Ridges for rows in single precision are cast too, which halves what is sent to workers.
    return tuple(xp.astype(A, xp.float32) for A in joined) if single else joined


def _pieces(X: Any, ridges: tuple[Array, Array], n_ridges: int) -> Iterator[tuple[int, Array]]:
    """Yield the first row and the scores (m, e, l) of all ridges, a few rows at a time."""
    W, b = (like(A, dense_part(X)) for A in ridges)
    # On a device the rows are already there, so that only the scores take extra memory.
    width = W.shape[1] if is_device_array(W) else max(W.shape)
    for i, rows in row_pieces(X, piece_rows(dense_part(X), width)):
        S = rows @ W + b
        yield i, namespace(S).reshape(S, (S.shape[0], n_ridges, W.shape[1] // n_ridges))


def _left_out(S: Array, factors: Array, q: Array, row: Array, label: Array) -> Array:
    """Q - (Q - S) factors for scores S (m, e, l), where Q holds q at the candidates and else 0."""
    S = S * factors[:, :, None]
    S[row, :, label] += q[:, None] * (1 - factors[row])
    return S


def _left_out_pieces(
    state: State, split: int, ridges: Any, n_ridges: int, q: Array
) -> Iterator[tuple[slice, tuple[Array, Array, Array], Array]]:
    """Yield rows of a split in pieces, with their candidates (q, row, label) and scores (m, e, l).

    Each row is left out of its own fit.
    """
    c = state.candidates[split]
    factors = state.factors[split]
    for i, S in _pieces(state.features(split), ridges, n_ridges):
        rows = slice(i, i + S.shape[0])
        cells = _cells_of(c, i, S.shape[0])
        candidates = q[cells], c.row[cells] - i, c.label[cells]
        yield rows, candidates, _left_out(S, factors[rows], *candidates)


def _cells_of(c: Candidates, first: int, n: int) -> slice:
    """Positions of the candidates of n rows."""
    return slice(int(c.indptr[first]), int(c.indptr[first + n]))


def _score(
    block: Block, state: State, ridges: Any, q: Any, n_ridges: int, leader: int | None
) -> tuple[State, Sums]:
    """Left-out scores of the candidates of every split, and sums for the stack or the unlisted."""
    sums = []
    leading = []
    for k, (pair, values) in enumerate(zip(ridges, q, strict=True)):
        c = state.candidates[k]
        other = dense_part(state.X)
        xp = namespace(other)
        values = like(values, other)
        scores = []
        total = 0.0
        stack = None
        S_leader: Any = None
        if leader is not None:
            S_leader = xp.empty(c.shape, dtype=values.dtype, device=values.device)
        for rows, (_, row, label), S in _left_out_pieces(state, k, pair, n_ridges, values):
            at = S[row, :, label].T
            scores.append(at)
            if leader is not None:
                S_leader[rows] = S[:, leader]
            else:
                last = S[:, -1]
                total += float(xp.sum(last, dtype=xp.float64) - xp.sum(at[-1], dtype=xp.float64))
        leading.append(S_leader)
        stack = None if leader is None else stack_sums(S_leader, values, c)
        sums.append(([(int(state.rows.min()), xp.concat(scores, axis=1))], stack, total))
    return state._replace(S=tuple(leading)), tuple(sums)


def _stack(block: Block, state: State, stacks: Sequence[FittedStack], q: Any) -> list[Array]:
    """Left-out scores (1, candidates) of the label stack of every split."""
    scores = []
    for c, S, stack, values in zip(state.candidates, state.S, stacks, q, strict=False):
        f = stack.factors(S)[c.row]
        at = take_cells(stack.stack.scores(S), c.flat)
        scores.append((at * f + like(values, S) * (1 - f))[None])
    return scores


def _score_held(
    block: Block,
    state: State,
    ridges: Any,
    n_ridges: int,
    leader: int | None,
    stack: FittedStack | None,
    cells: tuple[np.ndarray, np.ndarray],
) -> tuple[Array, Array]:
    """Scores of the held-out candidates and of the given held-out cells."""
    row, label = cells
    X = state.X[state.edge :]
    c = state.candidates[2]
    xp = namespace(dense_part(X))
    listed = []
    scored = []
    for i, S in _pieces(X, ridges, n_ridges):
        if stack is not None:
            S = xp.concat([S, stack.stack.scores(S[:, leader])[:, None]], axis=1)
        places = _cells_of(c, i, S.shape[0])
        listed.append(S[c.row[places] - i, :, c.label[places]].T)
        first, last = np.searchsorted(row, [i, i + S.shape[0]])
        place, column = (like(A[first:last], c.row, "own") for A in (row - i, label))
        scored.append(S[place, :, column].T)
    return xp.concat(listed, axis=1), xp.concat(scored, axis=1)


def _map_log_odds(
    block: Block,
    state: State,
    split: int,
    ridges: Any,
    n_ridges: int,
    leader: int,
    stack: FittedStack | None,
    q: Array,
    combination: Combination,
    function: Callable[..., Any] | None,
) -> Any:
    """Log-odds (n, l) of all cells of a split, or function(rows, log-odds) if one is given."""
    q = like(q, dense_part(state.X))
    pieces = []
    xp = namespace(q)
    for _, cells, S in _left_out_pieces(state, split, ridges, n_ridges, q):
        if stack is not None:
            L = S[:, leader]
            stacked = _left_out(stack.stack.scores(L)[:, None], stack.factors(L)[:, None], *cells)
            S = xp.concat([S, stacked], axis=1)
        pieces.append(combination(xp.permute_dims(S, (1, 0, 2))))
    z = xp.concat(pieces)
    rows = state.rows[: state.edge] if split else state.rows
    return z if function is None else function(rows, z)


def _held_losses(
    block: Block, state: State, ridges: Any, n_ridges: int, ranked: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Squared errors on the held-out rows, and average precisions of the rows in `ranked`."""
    c = state.candidates[2]
    X = state.X[state.edge :]
    listed = sp.csr_array((np.ones(c.size), c.indices, c.indptr), c.shape)
    rows = np.flatnonzero(np.isin(state.rows[state.edge :], ranked))
    rows = rows[rankable(listed[rows].toarray())]
    Y = listed[rows].toarray()
    errors = np.zeros(n_ridges)
    scores = []
    for i, S in _pieces(X, ridges, n_ridges):
        xp = namespace(S)
        m = S.shape[0]
        places = _cells_of(c, i, m)
        at = S[c.row[places] - i, :, c.label[places]]
        errors += to_numpy(xp.sum(1 - 2 * at, axis=0, dtype=xp.float64))
        errors += to_numpy(xp.sum(S * S, axis=(0, 2), dtype=xp.float64))
        positions = rows[(rows >= i) & (rows < i + m)] - i
        scores.append(to_numpy(pick(S, positions)))
    ranked_scores = np.moveaxis(np.concatenate(scores), 1, 0)
    return errors, np.stack([row_precisions(Y, S) for S in ranked_scores])
