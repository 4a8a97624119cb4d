"""The share of wrong tags, by the design of the questions.

Every round could have asked about each open tag with a known probability π. So it estimates the
number of hits (wrong tags, or right ones among the missing) nearly without bias, if skipped
questions are like the others:

    hits before the round  +  Σ p over the open tags  +  Σ (y - p) / π  over its answers,

where y is 1 for a hit. The predictions p only make the residuals small. They come from the curve of
`posterior`, fitted in five folds so that no answer predicts itself, and are the same for all
rounds. The rounds are weighted by their predicted precision. The variance is the larger of the
predicted and the observed one, compared once for all rounds and once for each, and averaged. A
round that could not have asked about every open tag decides its own tags, and says nothing about
others.
"""

from typing import NamedTuple

import numpy as np

from schirn._input import Array
from schirn.cleaning._rounds import Sample
from schirn.cleaning.posterior import RankPosterior
from schirn.cleaning.questions import Worklist

_FOLDS = 5
# Quantile of the normal distribution for a two-sided interval of 90%.
_QUANTILE = 1.645
_LEAST_PROBABILITY = 0.003
# A forecast needs this many answers about tags of similar rank, within this many deviations.
_FEWEST_ANSWERS = 5
_LARGEST_SURPRISE = 2.0


# Fewer answers say something about the share only if its interval is narrower than this.
_FEW_ANSWERS = 10
_WIDE = 0.5


class Interval(NamedTuple):
    """An estimate and its 90% interval.

    Attributes
    ----------
    mean : float
        NaN if no answer speaks for tags without one.
    low, high : float
    """

    mean: float
    low: float
    high: float


class _Estimate(NamedTuple):
    """What one round says about the number of hits."""

    mean: float
    predicted_variance: float
    observed_variance: float


def is_vague(n_answers: int, interval: tuple[float, float]) -> bool:
    """Return whether answers say too little about a share: fewer than ten, and a wide interval."""
    low, high = interval
    return n_answers < _FEW_ANSWERS and high - low >= _WIDE


def number_of_hits(work: Worklist) -> Interval:
    """Estimate the number of hits among the usable tags of a worklist."""
    is_hit = work.usable & (work.answer == work.hit)
    is_miss = work.usable & (work.answer == 1 - work.hit)
    n_hits = float(is_hit.sum())
    n_possible = float(work.usable.sum() - is_miss.sum())
    samples = [sample for sample in work.answers.samples if _speaks_for_all(sample, work)]
    if n_hits == n_possible:
        return Interval(n_hits, n_hits, n_possible)
    if not samples:
        return Interval(np.nan, n_hits, n_possible)
    p = cross_fitted(work)
    estimates = np.array([_estimate(sample, work, p) for sample in samples])
    mean, predicted, observed = estimates.T
    # + 1, so that a round with a predicted variance of nearly 0 does not outweigh all others.
    weight = 1 / (predicted + 1)
    weight /= weight.sum()
    largest = max(weight**2 @ predicted, weight**2 @ observed)
    largest_by_round = weight**2 @ np.maximum(predicted, observed)
    # A few residuals tell little about their variance: both ways to be careful count half.
    variance = (largest + largest_by_round) / 2
    # + 0.5, the continuity correction: the number of hits is an integer.
    half = _QUANTILE * np.sqrt(variance) + 0.5
    center = float(weight @ mean)
    # Nobody can say whether the tags answered "unsure" are hits.
    unsure = n_possible - n_hits - np.count_nonzero(work.usable & np.isnan(work.answer))
    ends = np.clip([center, center - half, center + half + unsure], n_hits, n_possible)
    return Interval(*ends.tolist())


def cross_fitted(work: Worklist) -> Array:
    """Probability that each tag is a hit, by the answers of other folds."""
    fold = np.random.default_rng(0).integers(_FOLDS, size=len(work.row))
    answered = work.answered
    score = work.normal_score
    open_score = score[work.order]
    is_hit = work.answer[answered] == work.hit
    p = np.zeros(len(work.row))
    for k in range(_FOLDS):
        is_training = fold[answered] != k
        posterior = RankPosterior(score[answered[is_training]], is_hit[is_training], open_score)
        members = np.flatnonzero(work.usable & (fold == k))
        p[members] = posterior.hit_probability(score[members])
    return np.clip(p, _LEAST_PROBABILITY, 1 - _LEAST_PROBABILITY)


def _speaks_for_all(sample: Sample, work: Worklist) -> bool:
    """Whether a round could have asked about every open tag, and has an answer to prove it."""
    return sample.round.reaches_all and _response(sample, work) > 0


def _response(sample: Sample, work: Worklist) -> float:
    """Share of the drawn questions of a round that were answered "right" or "wrong"."""
    answer = work.answer[sample.tags[sample.is_drawn]]
    n_answered = np.count_nonzero((answer == 0) | (answer == 1))
    return min(n_answered / max(sample.round.n_drawn, 1), 1.0)


def _estimate(sample: Sample, work: Worklist, p: Array) -> _Estimate:
    """Estimate the number of hits from one round."""
    design = sample.round
    is_definite = (work.answer == 0) | (work.answer == 1)
    is_decided = is_definite & (work.answers.number < design.number)
    is_open = work.usable & ~is_decided
    is_hit = work.answer == work.hit
    n_before = np.count_nonzero(work.usable & is_decided & is_hit)
    response = _response(sample, work)
    is_counted = is_definite[sample.tags] & is_open[sample.tags]
    tags = sample.tags[is_counted]
    # π: a tag must be drawn, and its question answered. What no chance chose has π = 1.
    inclusion = np.where(sample.is_drawn, response * sample.inclusion, 1.0)[is_counted]
    residual = (is_hit[tags] - p[tags]) / inclusion
    mean = n_before + p[is_open].sum() + residual.sum()
    open_tags = np.flatnonzero(is_open)
    rank = np.empty(len(open_tags), dtype=int)
    rank[np.argsort(work.normal_score[open_tags], kind="stable")] = np.arange(len(open_tags))
    # The predicted variance needs π of all open tags, also of those without an answer.
    chance = design.inclusion(rank < design.n_ranks, response)
    chance[np.isin(open_tags, tags[inclusion == 1])] = 1
    variance = (p * (1 - p))[open_tags]
    predicted = float(np.sum(variance * (1 / chance - 1)))
    observed = float(np.sum(residual**2 * (1 - inclusion)))
    return _Estimate(float(mean), predicted, observed)


def forecast_of_hits(work: Worklist, k: int) -> float:
    """Expected number of hits among the next k tags, if the answers support the forecast.

    The answers about tags that rank as high, but at least the five highest, are compared with what
    the others predict for them.

    Parameters
    ----------
    work : Worklist
    k : int

    Returns
    -------
    float
        NaN if there are fewer than five answers, or if these are unlikely by the forecast.
    """
    answered = work.answered
    k = min(k, len(work.order))
    if not k or not len(answered):
        return np.nan
    score = work.normal_score
    first = answered[np.argsort(score[answered], kind="stable")]
    n_as_high = np.count_nonzero(score[answered] <= score[work.order[k - 1]])
    comparable = first[: max(n_as_high, _FEWEST_ANSWERS)]
    if len(comparable) < _FEWEST_ANSWERS:
        return np.nan
    p = cross_fitted(work)[comparable]
    surprise = np.sum((work.answer[comparable] == work.hit) - p)
    if abs(surprise) > _LARGEST_SURPRISE * np.sqrt(np.sum(p * (1 - p))):
        return np.nan
    return work.posterior.expected_hits(k)
