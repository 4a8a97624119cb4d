"""Choose parameters on held-out candidates: all points of a grid, one factorisation per split.

A method that smooths the candidates linearly and then compares a margin with a threshold,

    w = a F'(Y - N) + b F'1,    N = 1 on candidates where F m < threshold,

differs between the points of its grid only in the filters a, b (one number per singular direction)
and in the threshold. So X is factored once per split, and a round of all points takes one product
with F for the margins and one for the remaining candidates. After two or three such rounds, N is
close to the noise that the method itself finds in a hundred rounds, and the ridge on Y - N is close
to its scores.

Points are scored by the average precision of the *candidates* of the held-out rows, and the worse
half is dropped after every round. A point that declares nearly every candidate noise has nothing
left to learn from, ranks held-out candidates badly, and is dropped.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from schirn._progress import stage, track
from schirn.linalg.arrays import Array, eps, like, namespace, pick, to_numpy
from schirn.linalg.row_space import RowSpace, row_space

_SPLITS = 3
# Fewest groups of points left by halving, and how many of them go on to the final comparisons.
_KEPT = 12
_FINALISTS = 4
# Average precisions that differ by less than this count as equal.
_TIE = 1e-4
# If the full fit scores lower than its few rounds by more than this, they do not represent it.
_SHORTFALL = 5e-3
# Maximum size of an (n, points, l) array in numbers, and the factor by which a device raises it.
_BATCH_CELLS = 2**18
_DEVICE_FACTOR = 64
# Maximum size of the factors, rows times the smaller side of X: 128 MB in double precision.
_MOST_CELLS = 2**24


@dataclass(frozen=True, eq=False)
class Point:
    """One point of a grid."""

    params: dict[str, float]
    filters: tuple[float, ...]
    """Parameters that the filters depend on."""
    threshold: float = -np.inf
    """Candidates with a smaller margin are noise."""
    tilt: float = 0.0
    """Weight of the rank term: the ridge target is Y - N + tilt U V', with U, V of X W."""
    ridge: float = 1.0
    """The smallest ridge weight that this point uses."""


@dataclass(frozen=True, eq=False)
class Filters:
    """Filters of several points, each (points, directions); None stands for zero."""

    a: Array
    b: Array | None = None
    margin_a: Array | None = None
    """None if the margin is the score."""
    margin_b: Array | None = None


def ridge_filters(space: RowSpace, lams: Sequence[float]) -> Filters:
    """Return the filters of ridge regressions with these weights.

    Parameters
    ----------
    space : RowSpace
    lams : list of float
        Ridge weights.

    Returns
    -------
    Filters
    """
    t = like(np.asarray(lams), space.eigenvalues)[:, None]
    return Filters(1 / (space.eigenvalues + t * space.penalty))


MakeFilters = Callable[[RowSpace, Sequence[tuple[float, ...]]], Filters]


@dataclass(frozen=True, eq=False)
class Search:
    """The chosen parameters, and one entry per point of the grid."""

    best: dict[str, float]
    score: np.ndarray
    """Average precision of held-out candidates after the last round of the point."""
    rounds: np.ndarray
    """Rounds after which the point was last scored; the best point has the most."""


def search_rows(n: int, d: int) -> int:
    """Return the number of rows to search on: all, unless the factors would be too large.

    Parameters
    ----------
    n : int
        Number of rows.
    d : int
        Number of features.

    Returns
    -------
    int

    Examples
    --------
    >>> search_rows(1000, 300), search_rows(10**6, 300), search_rows(10**6, 10**5)
    (1000, 55924, 4096)
    """
    return min(n, max(_MOST_CELLS // max(d, 1), int(_MOST_CELLS**0.5)))


def search_grid(
    X: Any,
    Y: np.ndarray,
    points: Sequence[Point],
    make_filters: MakeFilters,
    *,
    rounds: int = 3,
    fit_intercept: bool = False,
    fit: Callable[[RowSpace, np.ndarray, dict[str, float]], Array] | None = None,
) -> Search | None:
    """Choose the point that ranks the candidates of held-out rows best.

    Parameters
    ----------
    X : (n, d) float array or CSR array
        NumPy, PyTorch or CuPy.
    Y : (n, l) array
        Candidates, 0/1.
    points : list of Point
        In order of preference: the first of equally good points wins.
    make_filters : callable
        Returns the filters for a factored X and a list of `Point.filters`.
    rounds : int
        Rounds of noise step and ridge for points that are not dropped.
    fit_intercept : bool
    fit : callable or None
        The method itself, to confirm the choice on one split: returns the coordinates of the
        weights for a factored X, candidates and parameters.

    Returns
    -------
    Search or None
        None if no held-out row can be scored: too few rows, or no row with both listed and
        unlisted labels.
    """
    names = list(dict.fromkeys(point.filters for point in points))
    groups = [_Group(names.index(point.filters), point.threshold) for point in points]
    ridge = min(point.ridge for point in points)
    tilts = {point.tilt for point in points}
    # Several rank weights are small and compared at the end; a single one may be large.
    tilt = tilts.pop() if len(tilts) == 1 else 0.0
    splits = []
    for train, test in track(_split_rows(X), "factoring split", minor=True):
        scored, listed = _held_out(Y[test])
        if scored.size:
            space = row_space(pick(X, train), ridge=ridge, fit_intercept=fit_intercept)
            rows = space.transform(pick(X, test[scored]))
            filters = make_filters(space, names)
            splits.append(_Split(space, Y[train], rows, listed, filters))
    if not splits:
        return None
    n_scored = sum(split.n_scored for split in splits)
    alive = list(dict.fromkeys(groups))
    score = dict.fromkeys(alive, 0.0)
    last_round = dict.fromkeys(alive, 0)
    for k in track(range(1, rounds + 1), "choosing parameters, round", minor=True):
        for split in track(splits, "split"):
            split.judge(alive, tilt)
        totals = np.sum([split.precision(alive, [tilt] * len(alive)) for split in splits], axis=0)
        for group, total in zip(alive, totals / n_scored, strict=True):
            score[group] = float(total)
            last_round[group] = k
        alive = _best(alive, score, max(_KEPT, -(-len(alive) // 2)))
    final_score = np.array([score[group] for group in groups])
    last = np.array([last_round[group] for group in groups])
    if tilts:
        finalists = set(_best(alive, score, _FINALISTS))
        finalists_left = [p for p, group in enumerate(groups) if group in finalists]
        weights = [points[p].tilt for p in finalists_left]
        final_groups = [groups[p] for p in finalists_left]
        totals = np.sum([split.precision(final_groups, weights) for split in splits], axis=0)
        final_score[finalists_left] = totals / n_scored
        last[finalists_left] = rounds + 1
    best = _leaders(points, final_score, last == last.max())
    chosen = best[0]
    if fit is not None and len(best) > 1:
        stage("confirming the parameters")
        chosen = _confirmed(best, points, groups, splits[0], fit)
    return Search(points[chosen].params, final_score, last)


def _leaders(points: Sequence[Point], score: np.ndarray, final: np.ndarray) -> list[int]:
    """The best point of each threshold, best first; ties go to the preferred point."""
    points_left: list[int] = np.flatnonzero(final).tolist()
    leaders: list[int] = []
    while points_left:
        highest = max(score[p] for p in points_left)
        leaders.append(next(p for p in points_left if score[p] >= highest - _TIE))
        points_left = [
            p for p in points_left if points[p].threshold != points[leaders[-1]].threshold
        ]
    return leaders


def _confirmed(
    leaders: list[int],
    points: Sequence[Point],
    groups: Sequence["_Group"],
    split: "_Split",
    fit: Callable[[RowSpace, np.ndarray, dict[str, float]], Array],
) -> int:
    """The first leader whose full fit is as good on one split as its few rounds suggest.

    A full fit of a hundred rounds may remove candidates that a few rounds keep.
    """
    scores = []
    for p in leaders[:_FINALISTS]:
        promised = split.precision([groups[p]], [points[p].tilt])[0]
        w = fit(split.space, split.candidates, points[p].params)
        precision = split.precision_of(w[:, None])[0]
        if precision >= promised - _SHORTFALL * split.n_scored:
            return p
        scores.append(precision)
    return leaders[int(np.argmax(scores))]


class _Group(NamedTuple):
    """Points with the same filters and threshold, hence with the same noise."""

    filters: int
    threshold: float


def _best(groups: list[_Group], score: dict[_Group, float], count: int) -> list[_Group]:
    """The best groups in their original order; ties go to the first."""
    chosen = set(sorted(groups, key=lambda group: -score[group])[:count])
    return [group for group in groups if group in chosen]


def _split_rows(X: Any) -> list[tuple[np.ndarray, np.ndarray]]:
    """Training and held-out rows of each split.

    Rows are sorted by a random projection and then shuffled with a fixed seed, so that their
    original order does not matter.
    """
    n, d = X.shape
    random = np.random.RandomState(0)
    direction = like(random.normal(size=d), X) if namespace(X) is not np else random.normal(size=d)
    fold = np.empty(n, dtype=int)
    fold[np.argsort(to_numpy(X @ direction), kind="stable")] = random.permutation(n) % _SPLITS
    pairs = [(np.flatnonzero(fold != k), np.flatnonzero(fold == k)) for k in range(_SPLITS)]
    return [(train, test) for train, test in pairs if len(train) and len(test)]


def _held_out(Y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Rows with both listed and unlisted labels, and their candidates as bool.

    With a single label, these are all rows, provided that it varies.
    """
    listed = np.asarray(Y) != 0
    if listed.shape[1] == 1:
        scored = np.full(len(listed), bool(listed.any() and not listed.all()))
    else:
        scored = listed.any(axis=1) & ~listed.all(axis=1)
    return np.flatnonzero(scored), listed[scored]


class _Split:
    """A factored split, with the noise of every group."""

    def __init__(
        self, space: RowSpace, Y: np.ndarray, rows: Array, listed: np.ndarray, filters: Filters
    ):
        self.space = space
        self.rows = rows
        self.filters = filters
        where = space.eigenvalues
        self.xp = namespace(where)
        self.listed = like(listed, where, "own")
        self.n_scored = 1 if listed.shape[1] == 1 else len(listed)
        self.candidates = Y
        self.Y = like(Y, where)
        self.cells = tuple(like(index, where, "own") for index in np.nonzero(Y))
        self.ones_f = space.project(self.xp.ones_like(self.Y[:, :1]))
        self.noise: dict[_Group, Array] = {}

    def judge(self, groups: list[_Group], tilt: float) -> None:
        """Take a noise step for every group."""
        for batch in self._batches(groups):
            margins = self._margins(self._kept(batch), batch, tilt)
            for p, group in enumerate(batch):
                self.noise[group] = margins[:, p] < group.threshold

    def precision(self, groups: Sequence[_Group], tilts: Sequence[float]) -> np.ndarray:
        """Sum of the average precisions of the held-out rows, per group."""
        sums = []
        for batch, weights in zip(self._batches(groups), self._batches(tilts), strict=True):
            sums.append(self.precision_of(self._solve(self._kept(batch), batch, weights)))
        return np.concatenate(sums)

    def precision_of(self, w: Array) -> np.ndarray:
        """Sum of the average precisions of the held-out rows for coordinates (., points, l)."""
        return _sum_of_precisions(self.listed, _map_points(lambda W: self.rows @ W, w))

    def _batches(self, items: Sequence[Any]) -> list[list[Any]]:
        cells = _BATCH_CELLS * (1 if self.xp is np else _DEVICE_FACTOR)
        size = max(1, cells // max(1, math.prod(self.Y.shape)))
        return [list(items[i : i + size]) for i in range(0, len(items), size)]

    def _kept(self, groups: list[_Group]) -> Array:
        """F'(Y - N) of each group, (directions, groups, l)."""
        row, label = self.cells
        targets = self.xp.stack([self.Y] * len(groups), axis=1)
        for p, group in enumerate(groups):
            # Before the first noise step, no candidate is noise.
            if group in self.noise:
                targets[row, p, label] -= self.xp.astype(self.noise[group], targets.dtype)
        return _map_points(self.space.project, targets)

    def _margins(self, targets: Array, groups: list[_Group], tilt: float) -> Array:
        """Margins of the candidate cells, (cells, groups)."""
        filters = self.filters
        if filters.margin_a is None:
            m = self._solve(targets, groups, [tilt] * len(groups))
        else:
            m = self._filtered(targets, groups, filters.margin_a, filters.margin_b)
        row, label = self.cells
        return _map_points(self.space.expand, m)[row, :, label]

    def _solve(self, targets: Array, groups: list[_Group], tilts: Sequence[float]) -> Array:
        """Coordinates of the scores, (directions, groups, l)."""
        w = self._filtered(targets, groups, self.filters.a, self.filters.b)
        s = self.space.eigenvalues[:, None]
        for p, (group, tilt) in enumerate(zip(groups, tilts, strict=True)):
            if tilt:
                # F'U V' = F'F w (w'F'F w)^(-1/2)
                normal = s * w[:, p]
                root = _inverse_root(w[:, p].T @ normal)
                w[:, p] += tilt * self.filters.a[group.filters][:, None] * (normal @ root)
        return w

    def _filtered(self, targets: Array, groups: list[_Group], a: Array, b: Array | None) -> Array:
        which = [group.filters for group in groups]
        w = a[which].T[:, :, None] * targets
        return w if b is None else w + b[which].T[:, :, None] * self.ones_f[:, None]


def _map_points(linear: Callable[[Array], Array], A: Array) -> Array:
    """Apply a linear map of columns to all points of an array (., points, l)."""
    n, count, l = A.shape
    image = linear(A.reshape(n, count * l))
    return image.reshape(len(image), count, l)


def _inverse_root(gram: Array) -> Array:
    """Inverse square root of a Gram matrix, zero in its null directions."""
    xp = namespace(gram)
    values, V = xp.linalg.eigh(gram)
    known = values > eps(gram) * 1e3 * xp.max(values)
    roots = xp.where(known, 1 / xp.sqrt(xp.where(known, values, 1 + 0 * values)), 0 * values)
    return (V * roots) @ V.T


def _sum_of_precisions(listed: Array, scores: Array) -> np.ndarray:
    """Sum over rows of the average precision of scores (m, points, l), for every point.

    Among tied labels the unlisted ones come first, so that constant scores gain nothing. With a
    single label, rows are ranked instead of labels.
    """
    xp = namespace(scores)
    if scores.shape[2] == 1:
        listed = listed.T
        scores = xp.permute_dims(scores, (2, 1, 0))
    mask = xp.stack([listed] * scores.shape[1], axis=1)
    below = xp.nextafter(scores, xp.full_like(scores, -np.inf))
    order = xp.argsort(-xp.where(mask, below, scores), axis=-1)
    hits = xp.take_along_axis(xp.astype(mask, scores.dtype), order, axis=-1)
    depth = like(np.arange(1, scores.shape[2] + 1), scores)
    precision = xp.sum(hits * hits.cumsum(-1) / depth, axis=-1)
    precision = xp.astype(precision / xp.sum(hits, axis=-1), xp.float64)
    return to_numpy(xp.sum(precision, axis=0))
