"""The share of wrong tags, estimated from the design of the questions.

A round that could have asked about each open tag with a known probability π estimates the number of
hits (wrong tags, or right ones among the missing) nearly without bias, provided that skipped
questions are like the others:

    hits before the round  +  Σ p over the open tags  +  Σ (y - p) / π  over its answers,

where y is 1 for a hit. The predictions p only reduce the residuals. They come from the curve of
`posterior`, fitted in five folds so that no answer predicts itself, and are the same for all
rounds. Rounds are weighted by their predicted precision. The variance is the larger of the
predicted and the observed variance, compared once for all rounds together and once for each round,
and averaged.

With few hits, or few misses, both variances are far too small; with none, they vanish. Then the
interval also contains the Clopper-Pearson interval of the answers alone. If π varies, that interval
uses the effective number of answers, and always allows for one more hit with the smallest π.

A round that could not have asked about every open tag decides its own tags, and says nothing about
others. Of the tags added to the table after a round, all or none may be hits, and likewise of the
tags without an answer that had left the table before it.
"""

from typing import NamedTuple

import numpy as np
from scipy import stats

from schirn._input import Array
from schirn.cleaning._rounds import Sample
from schirn.cleaning.posterior import RankPosterior
from schirn.cleaning.questions import Worklist

_FOLDS = 5
# Quantile of the normal distribution for a two-sided interval of 90%.
_QUANTILE = 1.645
_LEAST_PROBABILITY = 0.003
# With fewer hits or misses, the interval is at least that of the answers alone.
_ENOUGH_HITS = 5
_TAIL = 0.05
# The least parameter of a beta distribution: practically all mass is at 1.
_LEAST_LEFT = 1e-9
# A forecast needs this many answers about tags of similar rank, and their number of hits must be
# within this many standard deviations of its prediction.
_FORECAST_ANSWERS = 5
_LARGEST_SURPRISE = 2.0
# Fewer answers say something about the share only if its interval is narrower than this.
_SHARE_ANSWERS = 10
_WIDE = 0.5


class Interval(NamedTuple):
    """An estimate and its 90% interval.

    Attributes
    ----------
    mean : float
        The estimate; NaN if no answer allows one for the tags without an answer.
    low, high : float
        Bounds of the interval.
    """

    mean: float
    low: float
    high: float


class _Estimate(NamedTuple):
    """Estimate of the number of hits from one round, and the answers that it rests on."""

    mean: float
    predicted_variance: float
    observed_variance: float
    n_new: int
    n_before: int
    n_open: int
    is_hit: Array
    inclusion: Array


def is_vague(n_answers: int, interval: tuple[float, float]) -> bool:
    """Return whether answers say too little about a share: fewer than ten, and a wide interval."""
    low, high = interval
    return n_answers < _SHARE_ANSWERS and high - low >= _WIDE


def number_of_hits(work: Worklist) -> Interval:
    """Estimate the number of hits among the usable tags of a worklist, and those that have left."""
    work = work.whole
    is_hit = work.usable & (work.answer == work.hit)
    is_miss = work.usable & (work.answer == 1 - work.hit)
    n_hits = float(is_hit.sum())
    n_possible = float(work.usable.sum() - is_miss.sum())
    samples = [sample for sample in work.answers.samples if _speaks_for_all(sample, work)]
    if not work.usable.any():
        # Without any tags, nothing is known: every share is possible.
        return Interval(np.nan, 0.0, 1.0)
    if n_hits == n_possible:
        return Interval(n_hits, n_hits, n_possible)
    if not samples:
        return Interval(np.nan, n_hits, n_possible)
    p = cross_fitted(work)
    estimates = [_estimate(sample, work, p) for sample in samples]
    mean = np.array([estimate.mean for estimate in estimates])
    predicted = np.array([estimate.predicted_variance for estimate in estimates])
    observed = np.array([estimate.observed_variance for estimate in estimates])
    n_new_by_round = np.array([estimate.n_new for estimate in estimates])
    # + 1 keeps a round with a predicted variance of nearly 0 from outweighing all others.
    weight = 1 / (predicted + 1)
    weight /= weight.sum()
    largest = max(weight**2 @ predicted, weight**2 @ observed)
    largest_by_round = weight**2 @ np.maximum(predicted, observed)
    # A few residuals are weak evidence of their variance, so both conservative choices count half.
    variance = (largest + largest_by_round) / 2
    # + 0.5, the continuity correction: the number of hits is an integer.
    half = _QUANTILE * np.sqrt(variance) + 0.5
    center = float(weight @ mean)
    low, high = _with_few_hits(estimates, weight, center - half, center + half)
    # Tags answered "unsure" may or may not be hits.
    unsure = n_possible - n_hits - np.count_nonzero(work.usable & np.isnan(work.answer))
    n_new = float(weight @ n_new_by_round)
    ends = np.clip([center, low - n_new, high + unsure + n_new], n_hits, n_possible)
    center, low, high = ends.tolist()
    return Interval(center, low, high)


def _with_few_hits(
    estimates: list[_Estimate], weight: Array, low: float, high: float
) -> tuple[float, float]:
    """Widen an interval of the number of hits if the answers have few hits, or few misses."""
    n_before = float(weight @ [estimate.n_before for estimate in estimates])
    n_open = float(weight @ [estimate.n_open for estimate in estimates])
    is_hit = np.concatenate([estimate.is_hit for estimate in estimates])
    # The number of tags that each answer stands for.
    stands_for = np.concatenate(
        [share / estimate.inclusion for share, estimate in zip(weight, estimates, strict=True)]
    )
    if not len(stands_for):
        return low, high
    hits = _clopper_pearson(stands_for[is_hit], stands_for.max(), n_open)
    misses = _clopper_pearson(stands_for[~is_hit], stands_for.max(), n_open)
    if hits is not None:
        low = min(low, n_before + hits[0])
        high = max(high, n_before + hits[1])
    if misses is not None:
        low = min(low, n_before + n_open - misses[1])
        high = max(high, n_before + n_open - misses[0])
    return low, high


def _clopper_pearson(
    stands_for: Array, largest: float, n_open: float
) -> tuple[float, float] | None:
    """Return a 90% interval of a number of tags if few answers count; otherwise None.

    The effective numbers of counted and of all answers are those of equal weights with the same
    mean and variance; for equal weights, they are the actual numbers. The upper end adds an answer
    with the largest weight.
    """
    if len(stands_for) >= _ENOUGH_HITS:
        return None
    total = stands_for.sum()
    squares = np.sum(stands_for**2)
    total_above = total + largest
    squares_above = squares + largest**2
    n_above = total_above**2 / squares_above
    n_answers_above = n_open * total_above / squares_above
    # At least one answer that does not count must remain.
    upper = stats.beta.ppf(1 - _TAIL, n_above, max(n_answers_above - n_above + 1, _LEAST_LEFT))
    lower = 0.0
    if total:
        n_counted = total**2 / squares
        n_answers = n_open * total / squares
        lower = stats.beta.ppf(_TAIL, n_counted, max(n_answers - n_counted + 1, _LEAST_LEFT))
    return n_open * float(lower), n_open * float(upper)


def cross_fitted(work: Worklist) -> Array:
    """Return the probability that each tag is a hit, from the answers of other folds."""
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
    """Check whether a round could have asked about every open tag, and has drawn answers."""
    return sample.round.reaches_all and _response(sample, work) > 0


def _response(sample: Sample, work: Worklist) -> float:
    """Return the share of a round's drawn questions answered "right" or "wrong"."""
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
    # π: a tag must be drawn, and its question answered. Tags not drawn at random have π = 1.
    inclusion = np.where(sample.is_drawn, response * sample.inclusion, 1.0)[is_counted]
    residual = (is_hit[tags] - p[tags]) / inclusion
    mean = n_before + p[is_open].sum() + residual.sum()
    open_tags = np.flatnonzero(is_open)
    rank = np.empty(len(open_tags), dtype=int)
    rank[np.argsort(work.normal_score[open_tags], kind="stable")] = np.arange(len(open_tags))
    # The predicted variance needs π of all open tags, even without an answer.
    chance = design.inclusion(rank < design.n_ranks, response)
    chance[np.isin(open_tags, tags[inclusion == 1])] = 1
    variance = (p * (1 - p))[open_tags]
    predicted = float(np.sum(variance * (1 / chance - 1)))
    observed = float(np.sum(residual**2 * (1 - inclusion)))
    was_asked = ~np.isnan(work.answer) & (work.answers.number < design.number)
    n_new = max(0, int(np.count_nonzero(work.usable & ~was_asked)) - design.n_open)
    return _Estimate(
        mean=float(mean),
        predicted_variance=predicted,
        observed_variance=observed,
        n_new=n_new,
        n_before=int(n_before),
        n_open=len(open_tags),
        is_hit=is_hit[tags],
        inclusion=inclusion,
    )


def forecast_of_hits(work: Worklist, k: int) -> float:
    """Return the expected number of hits among the next k tags, if the answers support it.

    The answers about tags that rank as high (at least the five highest) are compared with their
    predictions from the other answers.

    Parameters
    ----------
    work : Worklist
        The ranked tags and their answers.
    k : int
        Number of tags.

    Returns
    -------
    float
        NaN if there are fewer than five answers, or if they are unlikely under the forecast.
    """
    suspects = work.order[:k]
    whole = work.whole
    answered = whole.answered
    if not len(suspects) or not len(answered):
        return np.nan
    score = whole.normal_score
    first = answered[np.argsort(score[answered], kind="stable")]
    n_as_high = np.count_nonzero(score[answered] <= score[suspects[-1]])
    comparable = first[: max(n_as_high, _FORECAST_ANSWERS)]
    if len(comparable) < _FORECAST_ANSWERS:
        return np.nan
    p = cross_fitted(whole)[comparable]
    surprise = np.sum((whole.answer[comparable] == work.hit) - p)
    if abs(surprise) > _LARGEST_SURPRISE * np.sqrt(np.sum(p * (1 - p))):
        return np.nan
    if whole is work:
        return work.posterior.expected_hits(len(suspects))
    return float(whole.posterior.hit_probability(score[suspects]).sum())
