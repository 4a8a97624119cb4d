"""Sieve that is told what people know about some tags."""

from typing import Any, NamedTuple

import numpy as np
from scipy.special import expit

from schirn.methods.sieve import Sieve
from schirn.noise import candidate_posterior
from schirn.solvers.sieve import SieveResult

Array = np.ndarray

_MARGIN = 1e-4
_CERTAIN = 1e-9
_ROUNDS = 4


class InformedSieve(Sieve):
    """Sieve whose last rounds know that some candidates are true, and others wrong.

    The noise model and the pool are those that Sieve finds without this knowledge. Then the
    probability of a known tag is put to one, that of a wrong one to zero, before every posterior:
    the row itself, rows like it and labels that go with it learn from it. A wrong tag still counts
    as listed, since the noise model speaks of how many wrong tags a row was given.
    """

    known: Array | None = None
    wrong: Array | None = None

    def _solve(self, spaces: Any, Y: Array) -> tuple[SieveResult, list[float]]:
        result, lams = super()._solve(spaces, Y)
        if self.known is None or self.wrong is None or not (self.known | self.wrong).any():
            return result, lams
        certain = _Certain(self.known, self.wrong)
        return _with_knowledge(result, spaces.whole, lams, Y.astype(np.float64), certain), lams


class _Certain(NamedTuple):
    true: Array
    wrong: Array


def _with_knowledge(
    result: SieveResult, space: Any, lams: list[float], Y: Array, certain: _Certain
) -> SieveResult:
    """A few more rounds in which some candidates are certain."""
    log_odds, w = result.log_odds, result.w
    for _ in range(_ROUNDS):
        Q = _posterior(log_odds, Y, certain, result)
        FtQ = space.project(Q.astype(space.dtype, copy=False))
        w = [space.ridge(FtQ, t) for t in lams]
        scores = [
            space.leave_one_out(Q, space.expand(coordinates), t)
            for coordinates, t in zip(w, lams, strict=True)
        ]
        log_odds = result.pool.log_odds(scores)
    return result._replace(w=w, log_odds=log_odds, Q=_posterior(log_odds, Y, certain, result))


def _posterior(log_odds: Array, Y: Array, certain: _Certain, result: SieveResult) -> Array:
    P = np.clip(expit(log_odds), _MARGIN, 1 - _MARGIN)
    P[certain.true] = 1 - _CERTAIN
    P[certain.wrong] = _CERTAIN
    return candidate_posterior(P, Y, result.noise).Q
