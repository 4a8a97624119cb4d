"""What the votes of several annotators say about each cell, without using features.

An annotator votes for a true label with probability s and for a false label j with probability f_j.
With identities, annotator a has a sensitivity s_a of their own and multiplies all f_j by g_a.
Expectation maximisation estimates these parameters and the frequency t_j of each label. To account
for few votes, f_j is shrunk towards the mean over all labels, s_a towards s and g_a towards 1.
"""

from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.special import expit, logit

from schirn._input import Array
from schirn.labels.votes import Ballots

# Number of pseudo-votes that shrink the rate of a label, and the quality of an annotator.
_LABEL_VOTES = 20.0
_ANNOTATOR_VOTES = 10.0
_MAX_ITER = 200
_TOLERANCE = 1e-6
_RATES = (1e-5, 0.9)


class VoteModel(NamedTuple):
    """How often annotators are right, and the evidence of their votes."""

    sensitivity: float
    """Probability that a true label gets a vote."""
    false_rates: Array
    """Probability that each label gets a vote when it is false, (l,)."""
    frequency: Array
    """Share of the rows in which each label is true, (l,)."""
    log_ratio: Array | None
    """log P(votes | true) - log P(votes | false) of every cell, (n, l)."""
    annotator_sensitivity: Array | None = None
    annotator_false_factor: Array | None = None
    """Factor by which each annotator votes for false labels more often than average."""

    @property
    def posterior(self) -> Array:
        """Return the probability (n, l) that each label is true, given only the votes."""
        return expit(logit(self.frequency) + self.log_ratio)


def vote_model(counts: Array, voters: Array, ballots: Ballots | None = None) -> VoteModel:
    """Estimate the quality of the votes by expectation maximisation.

    Parameters
    ----------
    counts : ndarray of shape (n, l)
        Number of votes for each label in each row.
    voters : ndarray of shape (n,)
        Number of annotators who saw each row.
    ballots : Ballots, optional
        Individual votes; without them, all annotators are assumed to be equally good.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> truth = rng.random((400, 5)) < 0.3
    >>> counts = rng.binomial(3, np.where(truth, 0.8, 0.05))
    >>> model = vote_model(counts, np.full(400, 3))
    >>> round(model.sensitivity, 1), model.false_rates.mean().round(2)
    (0.8, np.float64(0.05))
    """
    V = np.asarray(counts, dtype=np.float64)
    k = np.broadcast_to(np.asarray(voters, dtype=np.float64)[:, None], V.shape)
    n, l = V.shape
    t = np.clip(V.sum(axis=0) / max(float(k[:, 0].sum()), 1.0), 1e-3, 0.9)
    s = 0.7
    f = np.full(l, 0.05)
    own: tuple[Array, Array] | tuple[()] = ()
    ratio = _count_ratio(V, k, s, f)
    Q = expit(logit(t) + ratio)
    for _ in range(_MAX_ITER):
        s = float(np.clip((Q * V).sum() / max((Q * k).sum(), 1e-9), 0.05, 0.99))
        wrong = ((1 - Q) * V).sum(axis=0)
        chances = ((1 - Q) * k).sum(axis=0)
        mean = wrong.sum() / max(chances.sum(), 1e-9)
        f = np.clip((wrong + _LABEL_VOTES * mean) / (chances + _LABEL_VOTES), *_RATES)
        t = np.clip(Q.sum(axis=0) / max(n, 1), 1e-4, 0.99)
        if ballots is None:
            ratio = _count_ratio(V, k, s, f)
        else:
            own = _annotators(ballots, Q, s, f)
            ratio = _ballot_ratio(ballots, *own, f, n)
        new = expit(logit(t) + ratio)
        moved = float(np.abs(new - Q).max(initial=0))
        Q = new
        if moved < _TOLERANCE:
            break
    return VoteModel(s, f, t, ratio, *own)


def frequency_shift(log_odds: Array, frequency: Array, steps: int = 30) -> Array:
    """Return the shift (l,) of the log-odds that matches mean probabilities to label frequencies.

    Parameters
    ----------
    log_odds : ndarray of shape (n, l)
    frequency : ndarray of shape (l,)
    """
    shift = np.zeros(log_odds.shape[1])
    for _ in range(steps):
        p = expit(log_odds + shift)
        slope = np.maximum((p * (1 - p)).mean(axis=0), 1e-6)
        step = np.clip((frequency - p.mean(axis=0)) / slope, -1, 1)
        shift += step
        if np.abs(step).max(initial=0) < 1e-9:
            break
    return shift


def _count_ratio(V: Array, k: Array, s: float, f: Array) -> Array:
    return V * np.log(s / f) + (k - V) * np.log((1 - s) / (1 - f))


def _annotators(ballots: Ballots, Q: Array, s: float, f: Array) -> tuple[Array, Array]:
    """Sensitivity and false-vote factor of each annotator, shrunk towards the common values."""
    row, who, chosen = ballots
    size = int(who.max(initial=-1)) + 1

    def add(values: Array) -> Array:
        return np.bincount(who, values, minlength=size)

    hit = np.asarray(chosen.multiply(Q[row]).sum(axis=1)).ravel()
    wrong = np.asarray(chosen.sum(axis=1)).ravel() - hit
    expected = f.sum() - Q[row] @ f
    a = _ANNOTATOR_VOTES
    sensitivity = (add(hit) + a * s) / (add(Q[row].sum(axis=1)) + a)
    factor = (add(wrong) + a) / (add(expected) + a)
    return np.clip(sensitivity, 0.02, 0.98), factor


def _ballot_ratio(ballots: Ballots, sensitivity: Array, factor: Array, f: Array, n: int) -> Array:
    """Sum of the log likelihood ratios of all ballots of a row."""
    row, who, chosen = ballots
    S = sensitivity[who][:, None]
    F = np.clip(factor[who][:, None] * f, *_RATES)
    silent = np.log((1 - S) / (1 - F))
    voted = chosen.multiply(np.log(S / F) - silent)
    by_row = sp.csr_array((np.ones(len(row)), (row, np.arange(len(row)))), shape=(n, len(row)))
    return np.asarray(by_row @ silent + (by_row @ sp.csr_array(voted)).toarray())
