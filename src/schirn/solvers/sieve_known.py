"""Rounds of Sieve in which somebody knows about some candidates."""

from collections.abc import Sequence

import numpy as np
from scipy.special import expit

from schirn.linalg import RowSpace
from schirn.noise import NoiseModel, candidate_posterior, update_noise
from schirn.solvers.sieve import SieveResult

Array = np.ndarray

# Probabilities handed to Bayes' rule stay this far from 0 and 1, those of known cells less so.
_MARGIN = 1e-4
_CERTAIN = 1e-9
_ROUNDS = 4


def with_knowledge(
    result: SieveResult,
    space: RowSpace,
    lams: Sequence[float],
    Y: Array,
    known: Array,
    *,
    rate: float | Array | None = None,
) -> SieveResult:
    """A few more rounds after `sieve` that are told which candidates are true and which wrong.

    The probability of a true cell is put to one, that of a wrong one to zero, before every
    posterior: the row itself, rows like it and labels that go with it learn from it. The noise
    model is that of the rows where something is not known, since the others may have been mended
    before. A wrong candidate counts as listed there. The pool stays as it was found.

    Parameters
    ----------
    space : the factored rows that `sieve` saw as its first part
    known : (n, l), 1 where a candidate is true, -1 where a label is wrong, else 0
    rate : known rate at which false labels are listed; None estimates it
    """
    noise, log_odds, w = result.noise, result.log_odds, result.w
    rest = ((Y == 1) & (known == 0)).any(axis=1)
    for _ in range(_ROUNDS):
        P = _probabilities(log_odds, known)
        Q = _posterior(P, Y, known, noise)
        if rest.any() and not np.ndim(noise.rate):
            posterior = candidate_posterior(P[rest], Y[rest], noise)
            noise = update_noise(Y[rest], posterior, None if rate is None else float(noise.rate))
        FtQ = space.project(Q.astype(space.dtype, copy=False))
        w = [space.ridge(FtQ, t) for t in lams]
        scores = [
            space.leave_one_out(Q, space.expand(coordinates), t)
            for coordinates, t in zip(w, lams, strict=True)
        ]
        log_odds = result.pool.log_odds(scores)
    Q = _posterior(_probabilities(log_odds, known), Y, known, noise)
    return result._replace(w=w, log_odds=log_odds, Q=Q, noise=noise)


def _probabilities(log_odds: Array, known: Array) -> Array:
    P = np.clip(expit(log_odds), _MARGIN, 1 - _MARGIN)
    P[known > 0] = 1 - _CERTAIN
    P[known < 0] = _CERTAIN
    return P


def _posterior(P: Array, Y: Array, known: Array, noise: NoiseModel) -> Array:
    Q = candidate_posterior(P, Y, noise).Q
    Q[known > 0], Q[known < 0] = 1, 0
    return Q
