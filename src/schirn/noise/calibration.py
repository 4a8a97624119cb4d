"""Probabilities from scores, calibrated on candidate labels only.

A candidate is either true, or false and wrongly listed. If false labels are listed at rate rho,

    P(candidate | s) = p(s) + (1 - p(s)) rho,      p(s) = sigmoid(a s + b) = P(true | s).

The candidate frequency at low scores tends to rho, which separates rho from p, so that (a, b, rho)
can be estimated by maximum likelihood from the candidates alone. Bayes' rule then gives the
probability that a candidate is true.
"""

from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit, log_expit

from schirn._input import Array
from schirn.linalg.arrays import is_device_array, namespace

_BINS = 400
_MOST_CELLS = 4_000_000


class Calibration(NamedTuple):
    """P(true | s) = sigmoid(slope s + offset); false labels are listed at rate `noise_rate`.

    Attributes
    ----------
    slope, offset : float
    noise_rate : float
    """

    slope: float
    offset: float
    noise_rate: float

    def probability(self, scores: Array) -> Array:
        """Return the probability that a label is true, given only its score.

        Parameters
        ----------
        scores : (n, l) array

        Returns
        -------
        (n, l) array
        """
        if is_device_array(scores):
            return 1 / (1 + namespace(scores).exp(-(self.slope * scores + self.offset)))
        return expit(self.slope * scores + self.offset)

    def confidence(self, scores: Array, candidates: Array) -> Array:
        """Return the probability that a candidate is true; 0 outside the candidates.

        Parameters
        ----------
        scores : (n, l) array
        candidates : (n, l) array
            0/1.

        Returns
        -------
        (n, l) array
        """
        p = self.probability(scores)
        return np.where(candidates, posterior(p, self.noise_rate), 0).astype(p.dtype, copy=False)


def posterior(p: Array, rate: float | Array) -> Array:
    """Return the probability p / (p + (1 - p) rate) that a listed label is true, by Bayes' rule.

    Parameters
    ----------
    p : float array
        Probabilities that the labels are true, before the candidates are considered.
    rate : float or array
        Rate at which false labels are listed.

    Returns
    -------
    float array

    Examples
    --------
    >>> posterior(np.array([0.2, 0.5]), 0.25)
    array([0.5, 0.8])
    """
    return p / np.maximum(p + (1 - p) * rate, np.finfo(np.float32).tiny)


def calibrate(scores: Array, candidates: Array, *, noise_rate: float | None = None) -> Calibration:
    """Fit the noise-aware sigmoid by maximum likelihood on the candidates.

    Parameters
    ----------
    scores : ndarray of shape (n, l)
        Preferably of rows that the model was not fitted to (leave-one-out).
    candidates : ndarray of shape (n, l)
        0/1.
    noise_rate : float, optional
        Known rate at which false labels are listed; None estimates it.

    Returns
    -------
    Calibration

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> s = rng.normal(size=(2000, 5))
    >>> truth = rng.random(s.shape) < expit(3 * s - 2)
    >>> listed = truth | (rng.random(s.shape) < 0.2)
    >>> fitted = calibrate(s, listed)
    >>> round(fitted.slope), round(fitted.offset), round(fitted.noise_rate, 1)
    (3, -2, 0.2)
    """
    s, counts, listed = _bins(np.asarray(scores), np.asarray(candidates))
    centre = float(np.average(s, weights=counts))
    spread = float(np.sqrt(np.average((s - centre) ** 2, weights=counts)))
    # Avoid dividing by zero if all scores are equal.
    spread = spread if spread > 1e-12 * max(1.0, abs(centre)) else 1.0
    z = (s - centre) / spread
    start = _start(z, counts, listed)
    bounds = [(-4.0, 5.0), (-20.0, 20.0), (-9.0, 4.0)]
    if noise_rate is not None:
        start[2] = _logit(noise_rate)
        bounds[2] = (start[2], start[2])
    optimum = minimize(
        _negative_log_likelihood,
        start,
        args=(z, counts, listed),
        jac=True,
        method="L-BFGS-B",
        bounds=bounds,
    )
    slope = float(np.exp(optimum.x[0])) / spread
    rate = float(expit(optimum.x[2])) if noise_rate is None else noise_rate
    return Calibration(slope, float(optimum.x[1] - slope * centre), rate)


def _negative_log_likelihood(
    theta: Array, z: Array, counts: Array, n_listed: Array
) -> tuple[float, Array]:
    """Mean loss of (log slope, offset, logit rate), with a weak prior for a slope of one."""
    slope = np.exp(theta[0])
    rate = expit(theta[2])
    u = slope * z + theta[1]
    p = expit(u)
    p_listed = np.maximum(p + (1 - p) * rate, 1e-300)
    n_unlisted = counts - n_listed
    total = counts.sum()
    loss = -(n_listed @ np.log(p_listed)) - n_unlisted @ (log_expit(-u) + log_expit(-theta[2]))
    du = -n_listed * (1 - rate) * p * (1 - p) / p_listed + n_unlisted * p
    drate = -(n_listed @ ((1 - p) / p_listed)) * rate * (1 - rate) + n_unlisted.sum() * rate
    gradient = np.array([du @ (slope * z) + theta[0], du.sum(), drate])
    return float(loss + theta[0] ** 2 / 2) / total, gradient / total


def _start(z: Array, counts: Array, n_listed: Array) -> Array:
    """Starting point: the candidate frequency at low scores as the rate, the rest as the offset."""
    low = z <= np.median(z)
    floor = np.clip(n_listed[low].sum() / max(counts[low].sum(), 1), 1e-3, 0.9)
    share = np.clip(n_listed.sum() / counts.sum() - floor, 1e-3, 0.9)
    return np.array([0.0, _logit(share), _logit(floor)])


def _bins(scores: Array, candidates: Array) -> tuple[Array, Array, Array]:
    """Mean score, number of cells and number of candidates in about `_BINS` score bins."""
    step = max(1, scores.size // _MOST_CELLS)
    s = scores[::step].ravel().astype(np.float64)
    y = candidates[::step].ravel()
    order = np.argsort(s, kind="stable")
    edges = np.unique(np.linspace(0, len(s), _BINS + 1).astype(int))[:-1]
    counts = np.diff(np.append(edges, len(s))).astype(np.float64)
    sums = np.add.reduceat(s[order], edges)
    n_listed = np.add.reduceat(y[order].astype(np.float64), edges)
    return sums / counts, counts, n_listed


def _logit(p: float | Array) -> float:
    p = float(np.clip(p, 1e-6, 1 - 1e-6))
    return float(np.log(p / (1 - p)))
