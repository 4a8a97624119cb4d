"""Rounds of Sieve in which somebody knows about some candidates."""

from collections.abc import Sequence

import numpy as np

from schirn.noise.model import NoiseSums, noise_from_sums
from schirn.solvers import sieve_steps as steps
from schirn.solvers.sieve import Problem, SieveResult, refit_ridges
from schirn.solvers.sieve_pool import FittedStack

_ROUNDS = 4


def with_knowledge(result: SieveResult, problem: Problem, lams: Sequence[float]) -> SieveResult:
    """A few more rounds after `sieve` that are told which candidates are true and which wrong.

    The probability of a true cell is put to one, that of a wrong one to zero, before every
    posterior: the row itself, rows like it and labels that go with it learn from it. The noise
    model is that of the rows where something is not known, since the others may have been mended
    before. A wrong candidate counts as listed there. The pool stays as it was found.

    Parameters
    ----------
    problem : what `sieve` saw, with `Part.known` in the first part of its blocks; its inner
        splits are given up
    """
    place, where, pool, noise = problem.place, problem.coordinates[0], result.pool, result.noise
    place.step(steps.first_state)
    stack = None if pool.stack is None else FittedStack(pool.stack, np.zeros((0, 0)), 0)
    for _ in range(_ROUNDS):
        projected, *sums, n_rows, listed = place.step(steps.soften_known, noise)
        if n_rows and not problem.own_rates:
            known = None if problem.rate is None else float(noise.rate)
            noise = noise_from_sums(NoiseSums(n_rows, listed, *sums), known)
        w, message = refit_ridges(where, where.receive(projected), lams)
        place.step(steps.score, [message], 0, False)
        place.step(steps.judge, pool.weights, [pool.prior], [stack], pool.leader, False)
    return result._replace(w=w, noise=noise)
