"""Probability that a tag is right, given its rank and the answers about other tags.

Tags are ranked, the most suspicious first, and s is the normal score of the rank. The model is

    P(right | s) = γ + (1 - γ) sigmoid(b + a s),    log a ~ N(0, 1),  b ~ N(0, 6²),

and the posterior of (a, b, γ) is computed on a grid. The floor γ matters most: even among the most
suspicious tags some are right, because the features do not mention them. Without it, the curve
would be extrapolated to certainty at the top of the ranking, and removals would be too bold however
many answers there are. Steep slopes are needed for easy tables, where wrong and right tags are
separated almost by a step.

For suggestions, "correct" plays the role of "wrong". This module therefore calls a tag that the
ranking looks for a *hit*, and any other tag a *miss*.
"""

from functools import cached_property

import numpy as np
from scipy.special import expit, ndtri

from schirn._input import Array

_SLOPES = np.geomspace(0.15, 12, 12)
_OFFSETS = np.linspace(-20, 20, 61)
_FLOORS = np.array([0, 0.03, 0.07, 0.12, 0.2, 0.3, 0.45])
_SLOPE, _OFFSET, _FLOOR = (
    grid.reshape(-1, 1) for grid in np.meshgrid(_SLOPES, _OFFSETS, _FLOORS, indexing="ij")
)
_LOG_PRIOR = (-0.5 * np.log(_SLOPE) ** 2 - 0.5 * (_OFFSET / 6) ** 2).ravel()
# Tags of neighbouring ranks share one probability. The first hundredth of a long list is divided
# further: few tags may be removed, and a hundredth of 50,000 would be 500 tags at once.
_BINS = 100
_HEAD = np.array([0.1, 0.2, 0.3, 0.5, 0.7])
_LONG = 1000
_TAIL = 0.05
_NORMAL_PARTS = ndtri((np.arange(10) + 0.5) / 10)
# The share of hits must not be far below its target: at most this much, with this probability. The
# expected share alone is far too high in one of ten audits.
_LARGEST_MISS = 0.1
_SAFE = 0.9


def normal_scores(values: Array) -> Array:
    """Return the normal scores of the ranks of values; ties keep their order."""
    rank = np.empty(len(values), dtype=int)
    rank[np.argsort(values, kind="stable")] = np.arange(len(values))
    return np.asarray(ndtri((rank + 0.5) / max(len(values), 1)))


class RankPosterior:
    """Posterior of the share of hits along a ranking.

    Parameters
    ----------
    score : (k,) float array
        Normal scores of the answered tags.
    is_hit : (k,) bool array
        True for hits.
    open_score : (m,) float array
        Normal scores of the tags without an answer, sorted.
    """

    def __init__(self, score: Array, is_hit: Array, open_score: Array) -> None:
        p = np.clip(_miss_probability(score), 1e-9, 1 - 1e-9)
        log_posterior = np.where(is_hit, np.log1p(-p), np.log(p)).sum(axis=1) + _LOG_PRIOR
        weight = np.exp(log_posterior - log_posterior.max())
        self._weight = weight / weight.sum()
        m = self._size = len(open_score)
        head = m / _BINS * _HEAD if m >= _LONG else np.zeros(0)
        ends = np.r_[np.linspace(0, m, min(_BINS, m) + 1), head]
        self._ends = np.unique(ends.astype(int))[1:]
        starts = np.r_[0, self._ends[:-1]]
        self._counts = np.diff(np.r_[0, self._ends])
        self._middles = np.add.reduceat(open_score, starts) / self._counts if m else np.zeros(0)
        # Expected hits in each bin, for every point of the grid.
        self._hits = (1 - _miss_probability(self._middles)) * self._counts

    def hit_probability(self, score: Array) -> Array:
        """Return the probability that a tag with this normal score is a hit."""
        if not self._size:
            return np.zeros(len(score))
        p = self._weight @ self._hits / self._counts
        return np.asarray(np.interp(score, self._middles, p))

    @cached_property
    def _shares(self) -> Array:
        """Share of hits among all open tags up to the end of each bin, for the whole grid."""
        return np.asarray(np.cumsum(self._hits, axis=1) / self._ends)

    def limit(self, target: float, probability: float | None = None) -> int:
        """Return the largest number of open tags, best first, whose hits reach the target.

        Parameters
        ----------
        target : float
            Target share of hits.
        probability : float, optional
            Probability with which the share must reach the target. By default the expected share
            must reach it, and the share must not be far below it with a probability of 0.9.

        Returns
        -------
        int
        """
        share = self._shares
        if probability is None:
            is_reached = self._weight @ share >= target
            is_safe = self._weight @ (share >= target - _LARGEST_MISS) >= _SAFE
            index = np.flatnonzero(is_reached & is_safe)
        else:
            index = np.flatnonzero(self._weight @ (share >= target) >= probability)
        return int(self._ends[index[-1]]) if len(index) else 0

    def expects(self, target: float) -> bool:
        """Check whether the expected share of hits reaches a target for any number of tags.

        Parameters
        ----------
        target : float
            Target share of hits.

        Returns
        -------
        bool
        """
        return bool((self._weight @ self._shares >= target).any())

    def expected_hits(self, count: int) -> float:
        """Return the expected number of hits among the first `count` open tags."""
        hits = np.r_[0, np.cumsum(self._weight @ self._hits)]
        return float(np.interp(count, np.r_[0, self._ends], hits))

    def hits_interval(self, score: Array) -> tuple[float, float]:
        """Return a 90% interval of the number of hits among tags with these normal scores."""
        p = 1 - _miss_probability(score)
        spread = np.sqrt(np.sum(p * (1 - p), axis=1))
        # Each point of the grid stands for a normal distribution, in a few equal parts.
        hits = (p.sum(axis=1)[:, None] + spread[:, None] * _NORMAL_PARTS).ravel()
        order = np.argsort(hits)
        below = np.cumsum(np.repeat(self._weight / len(_NORMAL_PARTS), len(_NORMAL_PARTS))[order])
        at = np.minimum(np.searchsorted(below, (_TAIL, 1 - _TAIL)), len(order) - 1)
        low, high = np.clip(np.round(hits[order][at]), 0, len(score))
        return float(low), float(high)

    def share_interval(self, count: int) -> tuple[float, float, float]:
        """Return mean and 90% interval of the share of hits among the first `count` open tags."""
        if not self._size or not count:
            return np.nan, np.nan, np.nan
        last = min(int(np.searchsorted(self._ends, count)), len(self._ends) - 1)
        share = self._shares[:, last]
        order = np.argsort(share)
        below = np.cumsum(self._weight[order])
        at = np.minimum(np.searchsorted(below, (_TAIL, 1 - _TAIL)), len(order) - 1)
        low, high = share[order][at]
        return float(self._weight @ share), float(low), float(high)


def _miss_probability(score: Array) -> Array:
    """Return the probability of a miss for each grid point (rows) and score (columns)."""
    return np.asarray(_FLOOR + (1 - _FLOOR) * expit(_OFFSET + _SLOPE * score))
