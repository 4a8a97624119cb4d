"""How much of the claimed noise to believe.

Candidates alone never prove that a label is wrong. If false labels are listed at a rate rho, the
model explains how often a label is listed by rho + (1 - rho) p. Every smaller rate r with larger
probabilities explains it equally well, and turns a confidence q into 1 - kappa (1 - q) with
kappa = odds(r)/odds(rho). A kappa of 1 believes the model, a kappa of 0 that all candidates are
right. It changes no ranking within a label.

Three questions decide kappa, each answered by scores of rows left out of their own fit:

- Floor: how large must the rate be at least, if the probabilities of a label vary as much as the
  features explain it?
- Separation: do the scores of a label separate rows that list it from other rows as well as they
  would if the claimed share were wrong? Scores from random features do not.
- Independence: do wrong labels fall on rows independently? If the claimed ones crowd in a few rows,
  they are more likely true labels of rows that the features do not describe.
"""

from typing import NamedTuple

import numpy as np
from scipy.special import betaincinv, expit

from schirn._input import Array

_MARGIN = 1e-4
# Rows that decide how much of the claimed noise to believe.
JUDGED_ROWS = 10_000
# Labels that fewer rows list, or do not list, say nothing about features.
_FEW = 5
# Never 0, so that confidences keep their order.
_SMALLEST = 0.02
# Floor: quantiles that stand for the lowest probability of a label, and rates to try.
_QUANTILES = (0.05, 0.1, 0.2)
_RATE_STEPS = 100
# Separation: an implied AUC below the first is no evidence, above the second it is enough.
_AUC = (0.7, 0.85)
# Spread: how strongly a covariance between labels of a row counts against noise.
_CROWDING = 4.0


class Caution(NamedTuple):
    """What to believe of a posterior."""

    factors: Array
    """kappa of each label, (l,)."""
    separation: float = 1.0
    """How well scores separate rows that list a label from other rows: 0 is not at all."""

    def apply(self, q: Array, label: Array) -> Array:
        """Cautious confidences of candidates with posterior q."""
        return np.asarray(1 - self.factors[label] * (1 - q))


def caution(log_odds: Array, Y: Array, Q: Array, rate: float) -> Caution:
    """Decide how much of the claimed noise to believe.

    Of many rows, every k-th decides.

    Parameters
    ----------
    log_odds : ndarray of shape (n, l)
        Log-odds that each label is true, each row left out of its own fit.
    Y : ndarray of shape (n, l)
        Candidates, 0/1.
    Q : ndarray of shape (n, l)
        Posterior of the candidates.
    rate : float
        Estimated rate at which false labels are listed.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> Y = (rng.random((200, 4)) < 0.5).astype(float)
    >>> caution(rng.standard_normal((200, 4)), Y, np.full((200, 4), 0.3), 0.4).factors.max() < 0.5
    np.True_
    """
    step = slice(None, None, max(1, len(Y) // JUDGED_ROWS))
    log_odds, Y, Q = log_odds[step], Y[step].astype(np.float64), Q[step]
    listed = Y.sum(axis=0)
    known = (listed >= _FEW) & (listed <= len(Y) - _FEW)
    if not known.any() or not 0 < rate < 1:
        return Caution(np.full(len(listed), _SMALLEST), 0.0)
    wrong = Y * (1 - Q)
    share = wrong.sum() / Y.sum()
    separation, single = _separation(log_odds[:, known], Y[:, known], wrong[:, known], share)
    # Floor. That of all labels together, which believes that wrong labels fall on all labels alike,
    # counts three times as much as the mean of the answers for each label.
    pi = rate + (1 - rate) * np.clip(expit(log_odds[:, known]), _MARGIN, 1 - _MARGIN)
    pooled = _least_odds(pi.mean(keepdims=True)[0], pi.var(keepdims=True)[0], rate)
    floor = np.mean((_least_odds(pi.mean(axis=0), pi.var(axis=0), rate) + 3 * pooled) / 4)
    factors = np.full(len(listed), floor * _independence(wrong) * separation)
    factors[known] *= single
    return Caution(np.maximum(factors, _SMALLEST), separation)


def _least_odds(mean: Array, variance: Array, rate: float) -> Array:
    """odds(r)/odds(rate) of the smallest rate r that explains the least likely cells.

    Probabilities with mean mu of which features explain the share D of the variance are taken to
    follow Beta(mu nu, (1 - mu) nu) with nu = 1/D - 1. A rate r is enough if r + (1 - r) p_low
    reaches the estimated rate, p_low being a low quantile; there is one answer for each quantile.
    """
    r = np.linspace(0, rate, _RATE_STEPS + 1)[:, None]
    mu = np.clip((mean - r) / (1 - r), 1e-6, 1 - 1e-6)
    D = np.clip(variance / (1 - r) ** 2 / (mu * (1 - mu)), 1e-6, 0.9999)
    nu = 1 / D - 1
    ratios = []
    for quantile in _QUANTILES:
        low = betaincinv(mu * nu, (1 - mu) * nu, quantile)
        low = np.average(low, axis=1, weights=1 - mu)
        enough = r[:, 0] + (1 - r[:, 0]) * low >= rate * (1 - 1e-3)
        least = float(r[np.argmax(enough), 0]) if enough.any() else rate
        ratios.append(least / (1 - least) / (rate / (1 - rate)))
    return np.array(ratios)


def _separation(log_odds: Array, Y: Array, wrong: Array, share: float) -> tuple[float, Array]:
    """Belief in all labels, and in each, by the AUC of scores: rows that list it, other rows.

    `share` is that of the wrong ones among all candidates. If a share w of the candidates is wrong
    and scores like other rows, the AUC of the true ones is (AUC - w/2)/(1 - w). All labels together
    set the belief. A single label halves it, so that none of its candidates is called wrong, only
    if its AUC is clearly too small for its number of candidates.
    """
    listed = Y.sum(axis=0)
    others = len(Y) - listed
    ranks = np.array([_rank_sum(s, y > 0) for s, y in zip(log_odds.T, Y.T, strict=True)])
    auc = (ranks - listed * (listed + 1) / 2) / (listed * others)
    spread = np.sqrt((1 / listed + 1 / others) / 12)
    overall = _belief(np.average(auc, weights=listed), share)
    # Three standard errors: of hundreds of labels, few are doubted by chance.
    single = _belief(auc + 3 * spread, wrong.sum(axis=0) / listed)
    return float(overall), (1 + single) / 2


def _rank_sum(scores: Array, chosen: Array) -> float:
    """Sum of the ranks of the chosen scores among all; equal scores share their mean rank."""
    ordered, values = np.sort(scores), np.sort(scores[chosen])
    ends = (np.searchsorted(ordered, values, side).sum() for side in ("left", "right"))
    return float(sum(ends) + len(values)) / 2


def _belief(auc: Array, share: Array | float) -> Array:
    """Whether scores with this AUC separate well enough for the share that is claimed wrong."""
    implied = (auc - share / 2) / np.maximum(1 - share, 1e-3)
    return np.clip((implied - _AUC[0]) / (_AUC[1] - _AUC[0]), 0, 1)


def _independence(wrong: Array) -> float:
    """Belief that the claimed wrong candidates (n, l) of a row come independently.

    The covariance of two labels, relative to the product of their means and on average over all
    pairs, is 0 if they are independent and negative if the number per row is fixed.
    """
    means = wrong.mean(axis=0)
    covariance = wrong.sum(axis=1).var() - wrong.var(axis=0).sum()
    product = means.sum() ** 2 - (means**2).sum()
    excess = covariance / product if product > 0 else 0.0
    return float(1 / (1 + _CROWDING * max(0.0, excess)))
