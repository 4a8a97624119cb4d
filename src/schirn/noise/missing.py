"""Labels that are true but were not listed."""

import numpy as np
from scipy.special import expit
from scipy.stats import beta

Array = np.ndarray

# The surest share of the expected true cells shows how many of them are listed; at least so many.
_SUREST, _LEAST_CELLS = 0.1, 50
# One-sided confidence level of the rate, and the rate below which it counts as zero.
_LEVEL, _SMALLEST_RATE = 0.9, 0.05
# Rate that suggestions assume where none could be shown: some label is always forgotten.
_ASSUMED_RATE = 0.02


def missing_rate(log_odds: Array, Y: Array, rate: float) -> float:
    """Share of the true labels that are missing from the candidates; 0 unless it is clear.

    It is the share of unlisted cells among those that look most true, as a lower confidence
    limit. It takes features that say much: weak ones are never sure.

    Parameters
    ----------
    log_odds : ndarray of shape (n, l)
        Log-odds that each label is true, each row left out of its own fit.
    Y : ndarray of shape (n, l)
        Candidates, 0/1.
    rate : float
        Rate at which false labels are listed.
    """
    expected = max((float(Y.sum()) - rate * Y.size) / (1 - rate), 0.0)
    m = min(max(int(_SUREST * expected), _LEAST_CELLS), Y.size)
    if not m:
        return 0.0
    surest = np.argpartition(-log_odds, m - 1, axis=None)[:m]
    listed = int(Y.ravel()[surest].sum())
    if listed == m:
        return 0.0
    found = float(1 - beta.ppf(_LEVEL, listed + 1, m - listed))
    return found if found > _SMALLEST_RATE else 0.0


def missing_probability(log_odds: Array, rate: float, missing: float) -> Array:
    """Probability that an unlisted label is true, given its log-odds.

    Parameters
    ----------
    log_odds : ndarray
    rate : float
        Rate at which false labels are listed.
    missing : float
        Share of the true labels that are missing.

    Examples
    --------
    >>> missing_probability(np.array([-3.0, 3.0]), 0.1, 0.25).round(3)
    array([0.014, 0.848])
    """
    p, mu = expit(log_odds), max(missing, _ASSUMED_RATE)
    return np.asarray(p * mu / (p * mu + (1 - p) * (1 - rate)))
