"""Labels that are true but were not listed."""

from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.special import expit, logit
from scipy.stats import beta

from schirn._input import Array
from schirn.linalg.arrays import flat_cells, is_device_array, namespace, to_numpy

# Surest shares of the expected true cells, of at least 50 cells, that show how many are listed.
_SUREST, _LEAST_CELLS = (0.02, 0.05, 0.1), 50
# One-sided confidence level of the shares, and the limit below which the rate is zero.
_LEVEL, _SMALLEST_RATE = 0.9, 0.07
# Rate that suggestions assume where none could be shown: some label is always forgotten.
_ASSUMED_RATE = 0.02
# Missing labels explain at most this share of the doubt that a label is true.
_EXPLAINED = 0.95


def missing_rate(log_odds: Array, Y: Array, rate: float) -> float:
    """Share of the true labels that are missing from the candidates; 0 unless it is clear.

    It is the share of unlisted cells among those that look most true: the median of several such
    shares. Labels that go missing at random are missing among the surest cells too, so the lower
    confidence limits of all these shares must be large: features that are merely unsure become sure
    in the end.

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
    sizes = [min(max(int(share * expected), _LEAST_CELLS), Y.size) for share in _SUREST]
    if not Y.size:
        return 0.0
    surest = np.argpartition(-log_odds, sizes[-1] - 1, axis=None)[: sizes[-1]]
    surest = surest[np.argsort(-log_odds.ravel()[surest], kind="stable")]
    listed = Y.ravel()[surest].cumsum()
    least, shares = 1.0, []
    for m in sizes:
        k = int(listed[m - 1])
        least = min(least, float(1 - beta.ppf(_LEVEL, k + 1, m - k)) if k < m else 0.0)
        shares.append(1 - k / m)
    return float(np.median(shares)) if least > _SMALLEST_RATE else 0.0


def completed(log_odds: Array, missing: float) -> Array:
    """Log-odds that a label is true, from those that it is true and listed.

    A model that learns from candidates with missing labels gives a true label p (1 - missing).

    Parameters
    ----------
    log_odds : ndarray
    missing : float
        Share of the true labels that are missing.

    Examples
    --------
    >>> completed(np.array([-3.0, 0.0, 1.0]), 0.25).round(2)
    array([-2.7 ,  0.69,  3.65])
    """
    p = np.clip(expit(log_odds), 1e-9, 1 - 1e-9)
    return np.asarray(logit(np.minimum(p / (1 - missing), 1 - (1 - _EXPLAINED) * (1 - p))))


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


def unlisted_probability(log_odds: Array, rate: float, missing: float) -> Array:
    """Probability that unlisted labels are true, from log-odds that they are true and listed."""
    return missing_probability(completed(log_odds, missing), rate, missing)


def likely_missing(
    log_odds: Any, Y: Any, rate: float, missing: float, min_confidence: float = 0.5
) -> sp.csr_array:
    """Probability (n, l) that unlisted labels are true, where it is at least `min_confidence`.

    Parameters
    ----------
    log_odds : array of shape (n, l)
        Log-odds that each label is true and listed, on any device.
    Y : array or CSR array of shape (n, l)
        What is listed.
    rate, missing
        As in `missing_probability`.
    min_confidence : float
    """
    low, l = least_log_odds(rate, missing, min_confidence), Y.shape[1]
    if is_device_array(log_odds):
        cells, z = _unlisted_on_device(log_odds, Y, low)
    else:
        cells = np.flatnonzero((log_odds >= low) & (Y == 0))
        z = log_odds.ravel()[cells]
    return missing_cells(*np.divmod(cells, l), z, Y.shape, rate, missing, min_confidence)


def _unlisted_on_device(log_odds: Any, Y: Any, low: float) -> tuple[Array, Array]:
    """Flat positions and log-odds of the unlisted cells from `low` on."""
    xp = namespace(log_odds)
    z = xp.reshape(log_odds + 0, (-1,))
    z[flat_cells(sp.csr_array(Y), z)] = -np.inf
    unlisted = xp.nonzero(z >= low)[0]
    return to_numpy(unlisted), to_numpy(xp.take(z, unlisted))


def missing_cells(
    row: Array,
    label: Array,
    log_odds: Array,
    shape: tuple[int, int],
    rate: float,
    missing: float,
    min_confidence: float = 0.5,
) -> sp.csr_array:
    """The same for unlisted cells (row, label) with these log-odds."""
    p = unlisted_probability(log_odds, rate, missing)
    likely = p >= max(min_confidence, np.finfo(p.dtype).tiny)
    return sp.csr_array((p[likely], (row[likely], label[likely])), shape=shape)


def least_log_odds(rate: float, missing: float, min_confidence: float = 0.5) -> float:
    """Log-odds of a grid below which no label is missing with this probability."""
    grid = np.linspace(-40, 40, 80_001)
    enough = unlisted_probability(grid, rate, missing) >= min_confidence
    first = int(np.argmax(enough)) if enough.any() else len(grid)
    return float(grid[first - 1]) if first else -np.inf
