"""What Sieve decides before its rounds: known rates, ridge weights, whether to trust."""

from collections.abc import Callable
from typing import Any

import numpy as np

from schirn.exceptions import InputError
from schirn.metrics import average_precision
from schirn.solvers.sieve import Problem, SieveResult, choose_ridge, sieve, trusting_ridge
from schirn.solvers.sieve_known import with_knowledge

Array = np.ndarray

# Ridge weights tried, and those of the experts, relative to the mean variance of the features and
# to the weight that is best for the candidates.
_GRID = 10.0 ** np.arange(-3, 3.01, 0.5)
_WINDOW = np.array([0.05, 0.25, 1.0])
# Noise asks for a stronger ridge than the cleaned labels want.
_LARGEST_RBF_LAM = 6.0


def trusts(noise_level: Any) -> bool:
    """Whether a noise level says that every candidate is true."""
    return noise_level is not None and not isinstance(noise_level, str) and not np.any(noise_level)


def known_rates(noise_level: Any, sizes: Array, n_labels: int) -> "float | Array | None":
    """Rates of listed false labels from the expected numbers of wrong labels.

    Parameters
    ----------
    sizes : number of candidates of each row
    """
    if noise_level is None:
        return None
    n = len(sizes)
    try:
        wrong = np.asarray(noise_level, dtype=np.float64)
    except (TypeError, ValueError):
        wrong = np.array(np.nan)
    if wrong.shape not in ((), (n,)) or not np.isfinite(wrong).all() or (wrong < 0).any():
        raise InputError(
            f"noise_level must be None, a number of at least 0 or {n} such numbers (one per "
            f"row), got {noise_level!r}"
        )
    sizes = sizes if wrong.ndim else sizes.mean()
    wrong = np.minimum(wrong, sizes)
    rates = wrong / np.maximum(n_labels - sizes + wrong, 1e-12)
    return rates if wrong.ndim else float(rates)


def choose_lams(problem: Problem, *, kernel: str, lam: float | None, trusting: bool) -> list[float]:
    """Ridge weights of the experts: as told, or around the best one for held-out candidates."""
    if lam is not None:
        return [float(lam)]
    where = problem.coordinates[0]
    variance = max(float(where.eigenvalues[:-1].sum()) / where.n_rows, 1e-12)
    if trusting:
        return [choose_ridge(problem, variance * _GRID, _candidate_precision)]
    best = choose_ridge(problem, variance * _GRID)
    if kernel == "rbf":
        best = min(best, _LARGEST_RBF_LAM * variance)
    return (best * _WINDOW).tolist()


def solve(
    problem: Problem,
    *,
    kernel: str,
    lam: float | None,
    trusting: bool,
    max_iter: int,
    rng: np.random.RandomState,
    callback: Callable[[int], None] | None = None,
    known: bool = False,
) -> tuple[SieveResult, list[float]]:
    """Choose the ridge weights and run the rounds.

    Parameters
    ----------
    known : whether the blocks know about some candidates
    """
    lams = choose_lams(problem, kernel=kernel, lam=lam, trusting=trusting)
    if trusting:
        return trusting_ridge(problem, lams[0]), lams
    result = sieve(problem, lams, max_iter=max_iter, rng=rng, callback=callback)
    return (with_knowledge(result, problem, lams) if known else result), lams


def _candidate_precision(Y: Array, scores: Array) -> float:
    """Average precision against candidates; 0 where no row can be scored."""
    try:
        return average_precision(Y, scores)
    except InputError:
        return 0.0
