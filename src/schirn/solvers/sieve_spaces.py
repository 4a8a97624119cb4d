"""The factorisations that Sieve needs: all rows, and the rest of a few inner splits.

Few rows are factored through their kernel matrix. Many rows get features (those of the Nyström
approximation, or their own for a linear kernel) whose Gram matrix is a sum over rows; all rows and
the inner split then look at the same features, each in a basis of its own.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from schirn.linalg.arrays import Array, is_device_array, like, namespace, to_numpy
from schirn.linalg.kernels import Kernel, kernel_space, nystroem_map, sample_width, width_sample
from schirn.linalg.row_space import RowSpace, row_space
from schirn.scale.blocks import Block, Coordinates, DenseRows, MemoryRows, candidate_cells
from schirn.solvers.sieve import Problem
from schirn.solvers.sieve_blocks import Features, Part, Parts, Slice, row_cells, values_of
from schirn.solvers.sieve_steps import hold

_INNER_SPLITS = 3
_BLOCK_ROWS = 5000
_PIECE_CELLS = 2**22


class Expansion(NamedTuple):
    """How scores are made from scaled rows: kernel(rows, support) @ weights + offsets."""

    kernel: Kernel
    support: Any
    """Training rows or landmarks; None for a linear kernel, whose weights are per feature."""
    weights: np.ndarray
    """(experts, support rows or features, labels)"""
    offsets: np.ndarray
    """(experts, labels)"""

    def scores(self, Z: Any) -> list[Array]:
        """Ridge scores of every expert."""
        K = Z if self.support is None else self.kernel(Z, _near(self.support, Z))
        if sp.issparse(Z) or isinstance(Z, np.ndarray):
            pairs = zip(self.weights, self.offsets, strict=True)
            return [np.asarray(K @ w) + b for w, b in pairs]
        pairs = zip(like(self.weights, K), like(self.offsets, K), strict=True)
        return [K @ w + b for w, b in pairs]


class FeatureMap(NamedTuple):
    """Features of scaled rows: (kernel(rows, support) R - shift), or the rows themselves."""

    kernel: Kernel
    support: Any = None
    """Landmarks; None for a linear kernel."""
    nystroem: np.ndarray | None = None
    shift: np.ndarray | None = None
    """Nearly the mean of dense features, so that single precision has digits for the rest."""

    def __call__(self, Z: Any) -> Any:
        """The features, in single precision where they come from landmarks."""
        if self.support is None:
            return Z if self.shift is None else Z - like(self.shift, Z)
        xp = namespace(Z)
        support = _near(self.support, Z)
        R, shift = (like(A, Z.data if sp.issparse(Z) else Z) for A in (self.nystroem, self.shift))
        pieces = [
            xp.astype(self.kernel(Z[i : i + _BLOCK_ROWS], support) @ R - shift, xp.float32)
            for i in range(0, Z.shape[0], _BLOCK_ROWS)
        ]
        return xp.concat(pieces)

    def coordinates(self, where: Coordinates, Z: Any) -> Array:
        """Rows of F for new rows."""
        basis, mean = where.basis, where.mean
        assert basis is not None
        assert mean is not None
        F = self(Z) @ basis - mean @ basis
        return np.column_stack([F, np.ones(len(F))])

    def expansion(self, where: Coordinates, coordinates: Sequence[np.ndarray]) -> Expansion:
        """What predictions need for weights with these coordinates."""
        pairs = [where.send(w) for w in coordinates]
        shift, R = self.shift, self.nystroem
        offsets = [b if shift is None else b - shift @ W for W, b in pairs]
        weights = [W if R is None else R @ W for W, _ in pairs]
        return Expansion(self.kernel, self.support, np.stack(weights), np.stack(offsets))


class SpaceMap(NamedTuple):
    """The same where all rows were factored in one piece."""

    kernel: Kernel
    support: Any
    space: RowSpace

    def coordinates(self, where: Coordinates, Z: Any) -> Array:
        """Rows of F for new rows."""
        return self.space.transform(Z if self.support is None else self.kernel(Z, self.support))

    def expansion(self, where: Coordinates, coordinates: Sequence[np.ndarray]) -> Expansion:
        """What predictions need for weights with these coordinates."""
        pairs = [self.space.coefficients(like(w, self.space.eigenvalues)) for w in coordinates]
        weights = np.stack([to_numpy(A) for A, _ in pairs])
        offsets = np.stack([to_numpy(b) for _, b in pairs])
        support: Any = self.support
        if support is not None and not sp.issparse(support):
            support = to_numpy(support)
        if support is not None and self.kernel.name == "linear":
            support, weights = None, np.stack([support.T @ A for A in weights])
        return Expansion(self.kernel, support, weights, offsets)


class Cut(NamedTuple):
    """A part without its candidates: rows that learn and rows held out, and where they are."""

    rows: Any
    take: np.ndarray
    held: Any = None
    held_take: np.ndarray | None = None
    """Rising."""


class Spaces(NamedTuple):
    """The features of all rows, factored; nothing here depends on the labels."""

    cuts: list[Cut]
    places: list[Coordinates]
    held: list[np.ndarray]
    """Rows held out of each split, in the order of the draw."""
    source: FeatureMap | SpaceMap
    X: Any = None
    """Features that the parts share."""

    def problem(
        self, Y: Any, rates: "float | np.ndarray | None" = None, known: Array | None = None
    ) -> Problem:
        """The ridge problems for candidates Y; splits without a candidate are left out."""
        Y = sp.csr_array(Y)
        listed = np.diff(Y.indptr)
        use = [k for k, cut in enumerate(self.cuts) if k == 0 or listed[cut.take].any()]
        own = rates if isinstance(rates, np.ndarray) else None
        parts = label_parts(self.X, [self.cuts[k] for k in use], Y, own, known=known)
        place = MemoryRows([Block(None, candidate_cells(Y))])
        place.step(hold, self.X, parts)
        rate = None if own is not None or rates is None else float(rates)
        held = [self.held[k - 1] for k in use[1:]]
        places = [self.places[k] for k in use]
        return Problem(place, places, held, Y.shape[1], rate, own is not None)

    def rows(self, Z: Any) -> Array:
        """New rows in the coordinates of the whole space."""
        return self.source.coordinates(self.places[0], Z)

    def expansion(self, coordinates: Sequence[np.ndarray]) -> Expansion:
        """What predictions need for weights with these coordinates."""
        return self.source.expansion(self.places[0], coordinates)


def factor_spaces(
    Z: Any,
    *,
    kernel: str,
    max_kernel_rows: int,
    n_landmarks: int,
    rng: np.random.RandomState,
) -> Spaces:
    """Factor the features of all rows and of the inner splits.

    Parameters
    ----------
    Z : (n, d) scaled features
    kernel : "rbf" or "linear"
    max_kernel_rows : up to this many rows the kernel is exact and there are three splits; above,
        it is approximated from `n_landmarks` rows, and one hold-out of a quarter is enough.
    """
    n, d = Z.shape
    many = n > max_kernel_rows
    held = draw_held(n, many, rng)
    if many and (kernel == "rbf" or d <= n):
        source = draw_features(n, kernel, n_landmarks, rng, lambda rows: pick(Z, rows))
        X, cuts = feature_cuts(source(Z), np.sort(held[0]))
        places = factor_sums(feature_sums(X, cuts), single_precision(source, Z.dtype))
        return Spaces(cuts, places, held, source, X)
    function, support = Kernel("linear"), None
    if kernel == "linear" and not is_device_array(Z):
        factor = _row_factoring(Z)
    else:
        if kernel == "rbf":
            function = Kernel("rbf", sample_width(pick(Z, width_sample(n, rng))))
        support, K = Z, function(Z, Z)
        factor = _kernel_factoring(namespace(K).astype(K, namespace(K).float64, copy=False))
    return _exact_spaces(factor, held, n, function, support)


def draw_held(n: int, many: bool, rng: np.random.RandomState) -> list[np.ndarray]:
    """Rows held out of each inner split."""
    order = rng.permutation(n)
    return np.array_split(order, 4)[:1] if many else np.array_split(order, min(_INNER_SPLITS, n))


def draw_features(
    n: int,
    kernel: str,
    n_landmarks: int,
    rng: np.random.RandomState,
    scaled_rows: Callable[[np.ndarray], Any],
) -> FeatureMap:
    """The features of many rows.

    Parameters
    ----------
    scaled_rows : f(places, rising) -> these rows, scaled
    """
    sample = scaled_rows(width_sample(n, rng))
    if kernel == "linear":
        dense = not sp.issparse(sample)
        return FeatureMap(Kernel("linear"), shift=to_numpy(sample).mean(0) if dense else None)
    function = Kernel("rbf", sample_width(sample))
    landmarks = scaled_rows(np.sort(rng.choice(n, min(n, n_landmarks), replace=False)))
    landmarks = landmarks if sp.issparse(landmarks) else to_numpy(landmarks)
    R = nystroem_map(function, landmarks)
    shift = (function(landmarks, landmarks) @ R).mean(axis=0)
    return FeatureMap(function, landmarks, R, shift)


def feature_cuts(X: Any, held: np.ndarray) -> tuple[Any, list[Cut]]:
    """The features of a block in another order; all its rows, and those not held out."""
    # Rows held out come last, so that every part is a piece of one array.
    n = X.shape[0]
    rest = np.setdiff1d(np.arange(n), held)
    order, k = np.concatenate([rest, held]), len(rest)
    return pick(X, order), [
        Cut(Slice(0, n), order),
        Cut(Slice(0, k), rest, Slice(k, n), held),
    ]


def feature_sums(X: Any, cuts: Sequence[Cut]) -> tuple[Any, ...]:
    """Number, sum and Gram matrix of the rows of the split, and of those held out."""
    k = cuts[1].rows.stop
    return (*_sums(X[:k]), *_sums(X[k:]))


def factor_sums(sums: Sequence[Any], single: bool) -> list[Coordinates]:
    """Coordinates of all rows and of the split from `feature_sums`."""
    rest, held = sums[:3], sums[3:]
    whole = [a + b for a, b in zip(rest, held, strict=True)]
    return [_coordinates(n, total, gram, single) for n, total, gram in (whole, rest)]


def single_precision(source: FeatureMap, dtype: Any) -> bool:
    """Whether the features of rows of this type have single precision."""
    return source.support is not None or "float32" in str(dtype)


def label_parts(
    X: Any,
    cuts: Sequence[Cut],
    Y: sp.csr_array,
    rates: np.ndarray | None,
    first: int = 0,
    known: Array | None = None,
) -> Parts:
    """Give the rows of each part their candidates and rates; `first` is the first row's place."""
    parts = []
    for cut in cuts:
        other = values_of((X,) if isinstance(cut.rows, Slice) else cut.rows)
        part = Part(cut.rows, row_cells(Y[cut.take], other), _some(rates, cut.take))
        if cut.held_take is not None:
            cells, own = row_cells(Y[cut.held_take], other), _some(rates, cut.held_take)
            part = part._replace(held=Part(cut.held, cells, own), held_rows=cut.held_take + first)
        parts.append(part)
    if known is not None:
        listed = parts[0].candidates.cells
        told = known[cuts[0].take][to_numpy(listed.row), to_numpy(listed.label)]
        parts[0] = parts[0]._replace(known=told)
    return Parts(tuple(parts), cuts[0].take)


def _some(rates: np.ndarray | None, rows: np.ndarray) -> np.ndarray | None:
    return None if rates is None else rates[rows]


def _exact_spaces(
    factor: Callable[[np.ndarray, np.ndarray], tuple[RowSpace, Any]],
    held: list[np.ndarray],
    n: int,
    function: Kernel,
    support: Any,
) -> Spaces:
    whole, _ = factor(np.arange(n), np.zeros(0, dtype=np.int64))
    cuts, places, drawn = [Cut(_space_rows(whole), np.arange(n))], [_space_place(whole)], []
    for rows in held:
        rest, rising = np.setdiff1d(np.arange(n), rows), np.sort(rows)
        if len(rest):
            space, other = factor(rest, rising)
            new = DenseRows(space.transform(other)) if space.F is not None else Features(other)
            cuts.append(Cut(_space_rows(space), rest, new, rising))
            places.append(_space_place(space))
            drawn.append(rows)
    return Spaces(cuts, places, drawn, SpaceMap(function, support, whole))


def _space_rows(space: RowSpace) -> Any:
    return DenseRows(space.F) if space.F is not None else Features(space.X)


def _space_place(space: RowSpace) -> Coordinates:
    eigenvalues = to_numpy(space.eigenvalues).astype(np.float64)
    penalty, n = to_numpy(space.penalty).astype(np.float64), space.shape[0]
    if space.F is not None:
        return Coordinates(eigenvalues, penalty, n)
    return Coordinates(eigenvalues, penalty, n, space.basis, space.mean)


def _kernel_factoring(K: Array) -> Callable[[np.ndarray, np.ndarray], tuple[RowSpace, Any]]:
    def factor(rows: np.ndarray, held: np.ndarray) -> tuple[RowSpace, Any]:
        if len(rows) == len(K):
            return kernel_space(K), K[:0]
        columns = pick(K.T, rows).T
        return kernel_space(pick(columns, rows)), pick(columns, held)

    return factor


def _row_factoring(Z: Any) -> Callable[[np.ndarray, np.ndarray], tuple[RowSpace, Any]]:
    def factor(rows: np.ndarray, held: np.ndarray) -> tuple[RowSpace, Any]:
        # The features are scaled, so a Gram matrix is accurate enough for any ridge of the grid.
        some = Z if len(rows) == Z.shape[0] else Z[rows]
        return row_space(some, ridge=np.inf, fit_intercept=True), Z[held]

    return factor


def _sums(X: Any) -> tuple[int, np.ndarray, np.ndarray]:
    """Number of rows, their sum and their Gram matrix, in double precision."""
    if sp.issparse(X):
        X = X.astype(np.float64)
        return X.shape[0], X.T @ np.ones(X.shape[0]), (X.T @ X).toarray()
    xp, (n, d) = namespace(X), X.shape
    total, gram = np.zeros(d), np.zeros((d, d))
    step = max(1, _PIECE_CELLS // max(1, d))
    for i in range(0, n, step):
        piece = xp.astype(X[i : i + step], xp.float64)
        total += to_numpy(xp.sum(piece, axis=0))
        gram += to_numpy(piece.T @ piece)
    return n, total, gram


def _coordinates(n: int, total: np.ndarray, gram: np.ndarray, single: bool) -> Coordinates:
    """The spectrum of centred features, with the intercept last."""
    mean = total / max(n, 1)
    eigenvalues, basis = np.linalg.eigh(gram - n * np.outer(mean, mean))
    double, own = (
        float(np.finfo(t).eps) for t in (np.float64, np.float32 if single else np.float64)
    )
    floor = max(max(n, len(mean)) * double, (16 * own) ** 2)
    keep = eigenvalues > eigenvalues[-1] * floor
    penalty = np.append(np.ones(int(keep.sum())), 0.0)
    spectrum = np.append(eigenvalues[keep], float(n))
    return Coordinates(spectrum, penalty, n, np.ascontiguousarray(basis[:, keep]), mean)


def pick(Z: Any, rows: np.ndarray) -> Any:
    """Some rows of an array of any library."""
    if not is_device_array(Z):
        return Z[rows]
    return namespace(Z).take(Z, like(rows, Z, "own"), axis=0)


def _near(support: Any, Z: Any) -> Any:
    """Support rows where Z is."""
    if sp.issparse(Z) or isinstance(Z, np.ndarray):
        return support
    return like(support.toarray() if sp.issparse(support) else support, Z)
