"""Sieve for many rows: features whose Gram matrix is a sum over rows.

The features are those of the Nyström approximation, or the rows themselves for a linear kernel. All
rows and one inner split share them, each with eigenvectors of its own. `factor` makes them for rows
in memory, `schirn.solvers.sieve_blocks` for rows elsewhere.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from schirn._checkpoint import remembered
from schirn._progress import stage, track
from schirn.linalg.arrays import Array, like, namespace, release, row_pieces, to_numpy
from schirn.linalg.kernels import Kernel, nystroem_map, sample_width, width_sample
from schirn.linalg.row_space import below_one, gram_spectrum, rounding
from schirn.scale.blocks import add_sums
from schirn.scale.memory import large_array
from schirn.solvers.sieve import (
    GRIDS,
    LARGEST_RBF_LAM,
    SMALLEST,
    WINDOW,
    LabelStack,
    Problem,
    SieveResult,
    TuningSums,
    best_weight,
    count,
    fit,
    leave_out,
    rankable,
    row_precisions,
    score,
    squared_error,
    stack_half,
)
from schirn.solvers.sieve_kernel import KernelExpansion, on_device, pick
from schirn.solvers.sieve_rows import Candidates, Split, dense_part, make_rows, piece_rows

_BLOCK_ROWS = 5000
# Rows held out whose rankings compare ridge weights.
RANKED_ROWS = 2000
# The label stack is cubic in the labels; above this many it is left out.
MOST_STACKED = 3000


def solve(
    problem: "FeatureProblem",
    *,
    kernel: str,
    lam: float | None,
    trusting: bool,
    max_iter: int,
    rng: np.random.RandomState,
    known: bool = False,
) -> SieveResult:
    """Choose the ridge weights and run the rounds; the parameters are those of `schirn.Sieve`.

    Parameters
    ----------
    trusting : bool
        Take every candidate as true.
    known : bool
        Condition on the known labels of the rows.
    """
    stage("choosing the ridge weights")
    options: dict[str, Any] = {"kernel": kernel, "lam": lam, "trusting": trusting}
    lams = remembered("lams", lambda: choose_lams(problem, **options))
    return fit(problem, lams, trusting=trusting, max_iter=max_iter, rng=rng, known=known)


class FactoredRows(NamedTuple):
    """Features of many rows in memory, factored; nothing here depends on the labels."""

    X: Any
    """Features, the rows held out last."""
    indices: np.ndarray
    """Which row of the data each row of X is."""
    edge: int
    """Number of rows that are not held out."""
    spectra: "list[Spectrum]"
    source: "FeatureMap"
    drawn: np.ndarray
    """Rows held out, in the order of the draw."""

    def problem(
        self, Y: Any, rates: Any = None, known: np.ndarray | None = None
    ) -> "FeatureProblem":
        """The splits with candidates Y."""
        Y, k = sp.csr_array(Y), self.edge
        splits = [Split(make_rows(self.X, Y, self.indices, rates, known))]
        drawn = []
        # An inner split without a candidate teaches nothing.
        if np.diff(Y.indptr)[self.indices[:k]].any():
            train = make_rows(self.X[:k], Y, self.indices[:k], rates)
            splits.append(Split(train, make_rows(self.X[k:], Y, self.indices[k:], rates)))
            drawn = [self.drawn]
        return FeatureProblem(splits, self.spectra[: len(splits)], drawn, Y.shape[1], rates)


def factor(
    X: Any,
    *,
    kernel: str,
    n_landmarks: int,
    rng: np.random.RandomState,
    scaled: Callable[[Any], Any] = lambda rows: rows,
) -> FactoredRows:
    """Factor the features of many rows in memory, or in a temporary file if they do not fit.

    Parameters
    ----------
    X : array or CSR array of shape (n, d)
    kernel, n_landmarks
        As in `schirn.Sieve`.
    rng : RandomState
    scaled : function
        Scales some rows of X.
    """
    n = X.shape[0]
    drawn = draw_held(n, rng)
    source = draw_features(n, kernel, n_landmarks, rng, lambda rows: scaled(pick(X, rows)))
    order, k = held_last(n, np.sort(drawn))
    features = source.ordered(X, order, scaled)
    single = single_precision(source, X.dtype)
    found = remembered(
        "spectra", lambda: spectra(gram_sums(features[:k]), gram_sums(features[k:]), single)
    )
    found = [Spectrum(*spectrum) for spectrum in found]
    return FactoredRows(features, order, k, found, source, drawn)


# ---- Ridges on features


class FeatureProblem(Problem):
    """Rows with features, all of them and without those held out.

    Parameters
    ----------
    splits : list of Split
    spectra : list of Spectrum
        One per split.
    drawn, n_labels, rates
        As in `Problem`.
    """

    most_stacked = MOST_STACKED

    def __init__(self, splits: Any, spectra: Any, drawn: Any, n_labels: int, rates: Any = None):
        super().__init__(splits, [own.n for own in spectra], drawn, n_labels, rates)
        self.spectra = list(spectra)

    def ridges(
        self, sums: Sequence[Any], lams: Sequence[float], first: Sequence[float] = ()
    ) -> list[Any]:
        """Ridges of every split, given X'B and 1'B; None for a split without sums."""
        return [
            None
            if own is None
            else FeatureRidges(self.weights(k, own[:2], lams), spectrum if first else None, first)
            for k, (own, spectrum) in enumerate(zip(sums, self.spectra, strict=True))
        ]

    def weights(self, k: int, sums: Any, lams: Sequence[float]) -> Any:
        """Weights and intercepts of the ridges of split k, for `FeatureRidges`."""
        return self.spectra[k].ridges(*sums, lams)

    def expansion(self, sums: Any, lams: Sequence[float]) -> list[tuple[np.ndarray, np.ndarray]]:
        """Weights and intercepts of the ridges on all rows."""
        ridges = self.spectra[0].ridges(*sums[:2], lams)
        return [(to_numpy(W), to_numpy(b)) for W, b in ridges]

    def score(
        self, sums: Sequence[Any], lams: Sequence[float], leader: int, stacked: bool
    ) -> list[Any]:
        """Score all rows by ridges, and fit label stacks to the scores of the leading one."""
        ridges = self.ridges(sums, lams)
        if not stacked:
            return self.each(score, ridges)
        found = self.each(score_and_sum, ridges, leader)
        pairs = zip(found, sums, self.sizes, strict=True)
        return [fit_stack(own, s.soft, n) for own, s, n in pairs]

    def keep_first(self) -> None:
        """Drop the inner splits."""
        super().keep_first()
        self.spectra = self.spectra[:1]


class FeatureRidges(NamedTuple):
    """Ridges on the features of a split."""

    weights: list[tuple[Array, Array]]
    """Weights (d, l) and intercepts (l,) of every ridge."""
    spectrum: "Spectrum | None" = None
    """Of the first ridges, which are the last of those with the ridge weights `lams`."""
    lams: Sequence[float] = ()

    def score(self, split: Split) -> Split:
        """The split with scores of its rows; the first ridges also set the leverages."""
        rows, held, factors = split.train, split.held, split.factors
        if self.spectrum is not None:
            factors, held = 1 / (1 - self.spectrum.leverages(rows.X, self.lams)), None
        S = ridge_scores(rows.X, self.weights)
        for fitted, own in zip(S, factors[-S.shape[0] :], strict=True):
            leave_out(fitted, split.q, rows.candidates, own)
        S_held = None if held is None else ridge_scores(held.X, self.weights)
        return split._replace(factors=factors, S=S, S_held=S_held)


class Spectrum(NamedTuple):
    """Eigenvalues and eigenvectors of the centred Gram matrix of the features of a split."""

    eigenvalues: Array
    n: int
    basis: Array
    mean: Array

    def ridges(
        self, XtB: Array, total: np.ndarray, lams: Sequence[float]
    ) -> list[tuple[Array, Array]]:
        """Weights and intercepts of argmin ||X W + b - B||^2 + lam ||W||^2, given X'B and 1'B."""
        total = like(total, self.mean)
        projected = self.basis.T @ (XtB - self.mean[:, None] * total)
        W = [self.basis @ (projected / (self.eigenvalues + t)[:, None]) for t in lams]
        return [(A, total / self.n - self.mean @ A) for A in W]

    def leverages(self, X: Any, lams: Sequence[float]) -> Array:
        """Diagonals of the hat matrices, (ridge weights, n), below 1."""
        near = dense_part(X)
        xp = namespace(self.eigenvalues)
        weights = like(xp.stack([1 / (self.eigenvalues + t) for t in lams], axis=1), near)
        basis, shift = like(self.basis, near), like(self.mean @ self.basis, near)
        pieces = [
            (A @ basis - shift) ** 2 @ weights + 1 / self.n
            for _, A in row_pieces(X, piece_rows(near, len(weights)))
        ]
        return below_one(namespace(near).concat(pieces).T)


def ridge_scores(X: Any, ridges: Sequence[tuple[Array, Array]]) -> Array:
    """X W + b of several ridges, (ridges, n, l), with one product."""
    near, l = dense_part(X), ridges[0][0].shape[1]
    join = namespace(ridges[0][0]).concat
    W = like(join([W for W, _ in ridges], axis=1), near)
    b = like(join([b for _, b in ridges]), near)
    S = namespace(near).empty((len(ridges), X.shape[0], l), dtype=near.dtype, device=near.device)
    for i, piece in row_pieces(X, piece_rows(near, max(X.shape[1], W.shape[1]))):
        scores = piece @ W + b
        for k in range(len(ridges)):
            S[k, i : i + piece.shape[0]] = scores[:, k * l : (k + 1) * l]
    return S


def held_losses(
    split: Split, ridges: FeatureRidges, ranked: np.ndarray
) -> tuple[Split, TuningSums | None]:
    """Squared errors of the rows held out, and average precisions of those in `ranked`."""
    if split.held is None:
        return split, None
    c = split.held.candidates
    listed = sp.csr_array((np.ones(c.size), to_numpy(c.label), c.indptr), c.shape)
    some = np.flatnonzero(np.isin(split.held.indices, ranked))
    Y = listed[some].toarray()
    rows = rankable(Y)
    near = like(some[rows], c.label, "own")
    errors, precisions = [], []
    for ridge in ridges.weights:
        S = ridge_scores(split.held.X, [ridge])[0]
        errors.append(squared_error(S, split.held).total)
        precisions.append(row_precisions(Y[rows], to_numpy(namespace(S).take(S, near, axis=0))))
    return split, TuningSums.of(errors, precisions)


def choose_ridge(
    problem: FeatureProblem, grid: np.ndarray, *, kernel: str, trusting: bool
) -> float:
    """The ridge weight of the grid that predicts the candidates of the rows held out best."""
    counts = problem.each(count, [None] * len(problem.spectra))
    if not problem.drawn:
        return float(grid[0])
    ranked = problem.drawn[0][: RANKED_ROWS if kernel == "linear" or trusting else 0]
    ridges = problem.ridges([None, *counts[1:]], grid.tolist())
    sums = problem.each(held_losses, ridges, np.sort(ranked))[1]
    return float(grid[best_weight(sums, kernel, trusting)])


def choose_lams(
    problem: FeatureProblem, *, kernel: str, lam: float | None, trusting: bool
) -> list[float]:
    """Ridge weights of the experts: as given, or around the best one for held-out candidates."""
    if lam is not None:
        return [float(lam)]
    whole = problem.spectra[0]
    variance = max(float(whole.eigenvalues.sum()) / whole.n, 1e-12)
    best = choose_ridge(problem, variance * GRIDS[kernel], kernel=kernel, trusting=trusting)
    if trusting:
        return [best]
    if kernel == "rbf":
        best = min(best, LARGEST_RBF_LAM * variance)
    return (best * WINDOW).tolist()


# ---- Label stack from sums


def score_and_sum(split: Split, ridges: FeatureRidges, leader: int) -> tuple[Split, "StackSums"]:
    """Scores of all ridges, and the sums of the label stack."""
    split, _ = score(split, ridges)
    return split, stack_sums(split.S[leader], split.q, split.train.candidates)


class StackSums(NamedTuple):
    """1'S, S'S and S'Q over the rows of a split."""

    total: np.ndarray
    gram: np.ndarray
    product: np.ndarray


def stack_sums(S: Array, q: Array, c: Candidates) -> StackSums:
    """Sums for scores S (n, l), in double precision."""
    xp, l = namespace(S), S.shape[1]
    step = piece_rows(S, l)
    kind = {"dtype": xp.float64, "device": S.device}
    total, gram = xp.zeros(l, **kind), xp.zeros((l, l), **kind)
    for i in range(0, S.shape[0], step):
        piece = xp.astype(S[i : i + step], xp.float64)
        total += xp.sum(piece, axis=0)
        gram += piece.T @ piece
    q = xp.astype(q, xp.float64)
    return StackSums(to_numpy(total), to_numpy(gram), to_numpy(c.project(q, S)))


def fit_stack(sums: StackSums, soft: np.ndarray, n: int) -> "FittedStack":
    """Fit the label stack to n rows whose soft labels sum to `soft`."""
    centre, mean = sums.total / n, soft / n
    G = sums.gram - n * np.outer(centre, centre)
    half = stack_half(G, float(np.trace(sums.gram)))
    W = half.T @ (half @ (sums.product - n * np.outer(centre, mean)))
    return FittedStack(LabelStack(W, centre, mean), half, n)


class FittedStack(NamedTuple):
    """A label stack, and what its own rows need to be left out."""

    stack: LabelStack
    half: np.ndarray
    """The squared columns of half (S - centre)' sum to the leverages."""
    n: int

    def left_out(self, S: Array, q: Array, c: Candidates) -> Array:
        """Scores of its own rows, each left out of the fit."""
        return leave_out(self.stack.scores(S), q, c, self.factors(S))

    def factors(self, S: Array) -> Array:
        """1/(1 - h) with the leverage h of each row."""
        xp = namespace(S)
        D = S @ like(self.half.T, S) - like(self.half @ self.stack.centre, S)
        return 1 / xp.clip(1 - 1 / self.n - xp.sum(D**2, axis=1), SMALLEST, None)


# ---- Features of many rows


class FeatureMap(NamedTuple):
    """Features of scaled rows: kernel(rows, support) R - shift, or the rows themselves."""

    kernel: Kernel
    support: Any = None
    """Landmarks; None for a linear kernel."""
    nystroem: np.ndarray | None = None
    shift: np.ndarray | None = None
    """About the mean of dense features, so that single precision has digits for the rest."""

    def features(self, Z: Any) -> Any:
        """The features, in single precision if they come from landmarks."""
        if self.support is None:
            return Z if self.shift is None else Z - like(self.shift, Z)
        xp = namespace(Z)
        support = on_device(self.support, Z)
        R, shift = (like(A, dense_part(Z)) for A in (self.nystroem, self.shift))
        pieces = [
            xp.astype(self.kernel(Z[i : i + _BLOCK_ROWS], support) @ R - shift, xp.float32)
            for i in range(0, Z.shape[0], _BLOCK_ROWS)
        ]
        return xp.concat(pieces)

    def ordered(self, X: Any, order: np.ndarray, scaled: Callable[[Any], Any]) -> Any:
        """Features of the rows of X in a new order, some rows at a time."""
        if self.support is None or not len(order):
            return pick(self.features(scaled(X)), order)
        # What the features are made of moves to the rows once, not with every block.
        some = scaled(pick(X, order[:1]))
        R, shift = (like(A, dense_part(some)) for A in (self.nystroem, self.shift))
        near = self._replace(support=on_device(self.support, some), nystroem=R, shift=shift)
        shape, out = (len(order), R.shape[1]), None
        for i in track(range(0, len(order), _BLOCK_ROWS), "features of block", minor=True):
            piece = near.features(scaled(pick(X, order[i : i + _BLOCK_ROWS])))
            if out is None and isinstance(piece, np.ndarray):
                out = large_array(shape, piece.dtype)
            elif out is None:
                out = namespace(piece).empty(shape, dtype=piece.dtype, device=piece.device)
            out[i : i + _BLOCK_ROWS] = piece
            release(out[i : i + _BLOCK_ROWS])
        return out

    def expansion(self, ridges: Sequence[tuple[np.ndarray, Any]]) -> KernelExpansion:
        """Expansion of the ridges of all experts."""
        shift, R = self.shift, self.nystroem
        offsets = [b if shift is None else b - shift @ W for W, b in ridges]
        weights = [W if R is None else R @ W for W, _ in ridges]
        return KernelExpansion(self.kernel, self.support, np.stack(weights), np.stack(offsets))


def draw_held(n: int, rng: np.random.RandomState) -> np.ndarray:
    """Rows held out of the inner split: a quarter."""
    return np.array_split(rng.permutation(n), 4)[0]


def draw_features(
    n: int,
    kernel: str,
    n_landmarks: int,
    rng: np.random.RandomState,
    scaled_rows: Callable[[np.ndarray], Any],
) -> FeatureMap:
    """Draw landmarks and the kernel width, from rows that `scaled_rows` gets by sorted index."""
    stage("drawing landmarks" if kernel == "rbf" else "looking at some rows")
    sample = scaled_rows(width_sample(n, rng))
    if kernel == "linear":
        dense = not sp.issparse(sample)
        return FeatureMap(Kernel("linear"), shift=to_numpy(sample).mean(0) if dense else None)
    function = Kernel("rbf", sample_width(sample))
    landmarks = scaled_rows(np.sort(rng.choice(n, min(n, n_landmarks), replace=False)))
    R = nystroem_map(function, landmarks)
    shift = function(landmarks, landmarks).mean(axis=0) @ like(R, dense_part(landmarks))
    landmarks = landmarks if sp.issparse(landmarks) else to_numpy(landmarks)
    return FeatureMap(function, landmarks, to_numpy(R), to_numpy(shift))


def single_precision(source: FeatureMap, dtype: Any) -> bool:
    """Whether the features of rows of this type have single precision."""
    return source.support is not None or "float32" in str(dtype)


def held_last(n: int, held: np.ndarray) -> tuple[np.ndarray, int]:
    """The order of n rows that puts those held out last, so that splits are slices; the edge."""
    learned = np.ones(n, dtype=bool)
    learned[held] = False
    rest = np.flatnonzero(learned)
    return np.concatenate([rest, held]), len(rest)


class GramSums(NamedTuple):
    """Number of rows, their sum and their Gram matrix, in double precision."""

    n: int
    total: Array
    gram: Array


def gram_sums(X: Any) -> GramSums:
    """Sums over some rows of features."""
    if sp.issparse(X):
        X = X.astype(np.float64)
        return GramSums(X.shape[0], X.T @ np.ones(X.shape[0]), (X.T @ X).toarray())
    xp, (n, d) = namespace(X), X.shape
    stage("multiplying the features")
    kind = {"dtype": xp.float64, "device": X.device}
    total, gram = xp.zeros(d, **kind), xp.zeros((d, d), **kind)
    for _, rows in row_pieces(X, piece_rows(X, d)):
        piece = xp.astype(rows, xp.float64)
        total += xp.sum(piece, axis=0)
        gram += piece.T @ piece
    return GramSums(n, total, gram)


def spectra(rest: GramSums, held: GramSums, single: bool) -> list[Spectrum]:
    """Spectra of all rows, and of those that are not held out."""
    stage("factoring the features")
    return [spectrum(sums, single) for sums in (add_sums(rest, held), rest)]


def spectrum(sums: GramSums, single: bool) -> Spectrum:
    """Spectrum of rows with these sums, of features in single or double precision."""
    n, total, gram = sums
    mean = total / max(n, 1)
    floor = rounding((n, len(mean)), np.dtype(np.float32 if single else np.float64))
    eigenvalues, basis = gram_spectrum(gram - n * mean[:, None] * mean, floor)
    basis = np.ascontiguousarray(basis) if isinstance(basis, np.ndarray) else basis
    return Spectrum(eigenvalues, n, basis, mean)
