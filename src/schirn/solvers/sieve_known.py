"""Rounds of Sieve in which somebody knows about some candidates."""

from collections.abc import Sequence

import numpy as np
from scipy.special import expit

from schirn.linalg import RowSpace
from schirn.noise import candidate_posterior
from schirn.solvers.sieve import SieveResult

Array = np.ndarray

# Probabilities handed to Bayes' rule stay this far from 0 and 1, those of known cells less so.
_MARGIN = 1e-4
_CERTAIN = 1e-9
_ROUNDS = 4


def with_knowledge(
    result: SieveResult, space: RowSpace, lams: Sequence[float], Y: Array, known: Array
) -> SieveResult:
    """A few more rounds after `sieve` that are told which candidates are true and which wrong.

    The noise model and the pool are those found without this knowledge. The probability of a true
    cell is put to one, that of a wrong one to zero, before every posterior: the row itself, rows
    like it and labels that go with it learn from it. A wrong candidate still counts as listed,
    since the noise model speaks of how many wrong ones a row was given.

    Parameters
    ----------
    space : the factored rows that `sieve` saw as its first part
    known : (n, l), 1 where a candidate is true, -1 where a label is wrong, else 0
    """
    log_odds, w = result.log_odds, result.w
    for _ in range(_ROUNDS):
        Q = _posterior(log_odds, Y, known, result)
        FtQ = space.project(Q.astype(space.dtype, copy=False))
        w = [space.ridge(FtQ, t) for t in lams]
        scores = [
            space.leave_one_out(Q, space.expand(coordinates), t)
            for coordinates, t in zip(w, lams, strict=True)
        ]
        log_odds = result.pool.log_odds(scores)
    return result._replace(w=w, log_odds=log_odds, Q=_posterior(log_odds, Y, known, result))


def _posterior(log_odds: Array, Y: Array, known: Array, result: SieveResult) -> Array:
    true, wrong = known > 0, known < 0
    P = np.clip(expit(log_odds), _MARGIN, 1 - _MARGIN)
    P[true] = 1 - _CERTAIN
    P[wrong] = _CERTAIN
    Q = candidate_posterior(P, Y, result.noise).Q
    Q[true], Q[wrong] = 1, 0
    return Q
