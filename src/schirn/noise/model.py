"""The noise model of candidate sets, and the exact posterior of the candidates.

A row has m true labels, all listed, and r of its l - m false labels are listed as well. The number
r follows a binomial law, tilted towards the counts that occur: P(r | m) is proportional to
Bin(r; l - m, rate) exp(tilt[r]). Which r labels they are is drawn uniformly, or in proportion to
label propensities. Given independent probabilities P that the labels are true, a recursion over
the number of true labels yields the exact posterior of the candidates.

Without a tilt the candidates are independent and the posterior is Bayes' rule p/(p + (1 - p) rate).
The tilt lets the candidates of a row inform each other: if rows carry about three wrong labels, the
fourth doubtful one is more likely true.
"""

from typing import Any, NamedTuple

import numpy as np
from scipy.special import gammaln, logsumexp

from schirn.linalg.arrays import like, namespace

Array = np.ndarray

# Labels share one propensity until their listing rates differ clearly more than chance explains.
_OVER_DISPERSION = 0.05
# The count law counts in full where the variance is below that of the binomial by this share.
_NARROW = 0.15
# Rows with more candidates than this consider only a generous number of true labels.
_MOST_TRUE = 64
_BLOCK_CELLS = 1_000_000


class NoiseModel(NamedTuple):
    """Rate of listed false labels (one, or one per row), tilt of their number, propensities."""

    rate: float | Array
    tilt: Array
    propensity: Array | None = None
    """Logarithm of the relative weight of each label among the false ones; None is uniform."""

    @classmethod
    def independent(cls, rate: float | Array, n_labels: int) -> "NoiseModel":
        """List every false label with the same probability."""
        return cls(rate, np.zeros(n_labels + 1))


class Posterior(NamedTuple):
    """Posterior Q (n, l) of the candidates, and expected histograms of the two counts."""

    Q: Array
    noise_counts: Array
    true_counts: Array


class CellPosterior(NamedTuple):
    """As `Posterior`, with one probability per candidate."""

    q: Array
    noise_counts: Array
    true_counts: Array


class NoiseSums(NamedTuple):
    """Sums over rows from which the noise model is estimated."""

    n_rows: int
    candidates: Array
    """Number of candidates of each label."""
    soft: Array
    """Sum of Q of each label."""
    noise_counts: Array
    true_counts: Array


def candidate_posterior(P: Array, Y: Array, model: NoiseModel) -> Posterior:
    """Probability that each candidate is true, given all candidates of its row.

    Parameters
    ----------
    P : ndarray of shape (n, l)
        Probabilities in (0, 1) that the labels are true, before the candidates are considered.
    Y : ndarray of shape (n, l)
        Candidates, 0/1.
    model : NoiseModel
        A model with one rate per row must have a tilt of zero.

    Examples
    --------
    >>> P, Y = np.array([[0.2, 0.5, 0.9]]), np.array([[1, 1, 0]])
    >>> candidate_posterior(P, Y, NoiseModel.independent(0.25, 3)).Q
    array([[0.5, 0.8, 0. ]])
    """
    row, label = np.nonzero(Y)
    indptr = np.searchsorted(row, np.arange(len(Y) + 1))
    found = cell_posterior(P[row, label], indptr, label, Y.shape[1], model)
    Q = np.zeros(Y.shape)
    Q[row, label] = found.q
    return Posterior(Q, found.noise_counts, found.true_counts)


def cell_posterior(
    p: Array, indptr: Array, label: Array, n_labels: int, model: NoiseModel
) -> CellPosterior:
    """Posterior of candidates that are listed row by row.

    Parameters
    ----------
    p : ndarray
        Probability of each candidate, before the others are considered.
    indptr : ndarray of shape (n + 1,)
        The candidates of row i are those from indptr[i] to indptr[i + 1].
    label : ndarray
        Label of each candidate.

    Examples
    --------
    >>> p, indptr, label = np.array([0.2, 0.5]), np.array([0, 2]), np.array([0, 1])
    >>> cell_posterior(p, indptr, label, 3, NoiseModel.independent(0.25, 3)).q
    array([0.5, 0.8])
    """
    sizes = np.diff(indptr)
    n, largest = len(sizes), int(sizes.max(initial=0))
    out = CellPosterior(np.zeros(len(label)), np.zeros(n_labels + 1), np.zeros(largest + 1))
    p = np.asarray(p, dtype=np.float64)
    rate = np.broadcast_to(model.rate, n)
    weight = None if model.propensity is None else np.exp(model.propensity)
    normaliser = np.zeros(largest + 1)
    if model.tilt.any():
        normaliser = log_normaliser(model.tilt, float(model.rate), largest)
    # Rows of similar size lie together, so that little is padded.
    order = np.argsort(sizes, kind="stable")
    done = 0
    while done < n:
        step = max(1, _BLOCK_CELLS // (int(sizes[order[done]]) + 1) ** 2)
        rows = order[done : done + step]
        done += len(rows)
        if not sizes[rows[-1]]:
            out.noise_counts[0] += len(rows)
            out.true_counts[0] += len(rows)
            continue
        place = np.arange(int(sizes[rows[-1]]))[:, None]
        there = place < sizes[rows]
        cell = np.minimum(indptr[rows] + place, len(label) - 1)
        rates = rate[rows] if weight is None else rate[rows] * weight[label[cell]]
        q, counts, r = padded_posterior(p[cell], there, rates, model.tilt, normaliser)
        out.q[cell[there]] = q[there]
        out.true_counts[: len(counts)] += counts.sum(axis=1)
        possible = r >= 0
        out.noise_counts[:] += np.bincount(r[possible], counts[possible], minlength=n_labels + 1)
    return out


def padded_posterior(
    p: Any, there: Any, rates: Any, tilt: Any, normaliser: Any
) -> tuple[Any, Any, Any]:
    """Posterior of rows with at most `width` candidates, as arrays of NumPy or PyTorch.

    Parameters
    ----------
    p : array of shape (width, n)
        Probabilities in (0, 1) of the candidates of each row.
    there : array of shape (width, n)
        False for padding.
    rates : array that broadcasts to (width, n)
        Rate at which each label is listed if it is false.
    tilt : array of shape (l + 1,)
        Logarithmic weight of r listed false labels.
    normaliser : array of at least width + 1 entries
        Logarithm of the total weight if m labels are true.

    Returns
    -------
    q : array of shape (width, n)
        Probability that each candidate is true.
    counts : array of shape (most + 1, n)
        Probability that m labels of the row are true.
    r : array of shape (most + 1, n)
        Number of wrong candidates if m labels are true; negative where that is impossible.
    """
    xp = namespace(p)
    true, false = xp.where(there, p, 0.0), xp.where(there, (1 - p) * rates, 1.0)
    # Each candidate is scaled by its larger term, so that long products do not underflow.
    largest = xp.maximum(true, false)
    true, false = true / largest, false / largest
    sizes = xp.sum(there, axis=0)
    m = like(np.arange(_most_true(true, false) + 1), sizes)
    r = sizes - m[:, None]
    # (1 - rate)^(l - m - r) is the same for all m, because m + r is the number of candidates.
    weight = tilt[xp.clip(r, 0, None)] - normaliser[m][:, None]
    weight = xp.where(r >= 0, weight, -xp.inf)
    weight = xp.exp(weight - xp.max(weight, axis=0))
    q, counts = _sum_over_subsets(true, false, weight)
    return q, counts, r


def _sum_over_subsets(true: Any, false: Any, weight: Any) -> tuple[Any, Any]:
    """Marginals and size of a random subset S with weight[|S|] prod_S true prod_rest false.

    Backward messages are kept, forward messages run over the candidates. Both are indexed by the
    number of true labels so far, which is at most the number of candidates so far.
    """
    xp, width, most = namespace(weight), true.shape[0], len(weight) - 1
    backward = [weight]
    for c in range(width - 1, 0, -1):
        last = backward[-1]
        message = last[: c + 1] * false[c]
        message[: len(last) - 1] += last[1:] * true[c]
        backward.append(message)
    forward, none = xp.ones_like(weight[:1]), xp.zeros_like(weight[:1])
    marginal = []
    for c in range(width):
        rest = backward.pop()[1:]
        marginal.append(xp.sum(forward[: len(rest)] * rest, axis=0))
        message = xp.concat([forward * false[c], none])
        message[1:] += forward * true[c]
        forward = message[: most + 1]
    counts = forward * weight
    total = xp.clip(xp.sum(counts, axis=0), 1e-300, None)
    return xp.clip(true * xp.stack(marginal) / total, 0, 1), counts / total


def _most_true(true: Any, false: Any) -> int:
    """Largest number of true labels to consider: all, or far above the expected number."""
    width = int(true.shape[0])
    if width <= _MOST_TRUE:
        return width
    xp = namespace(true)
    expected = xp.sum(true / (true + false), axis=0)
    return min(width, max(_MOST_TRUE, int(xp.max(expected + 6 * xp.sqrt(expected))) + 10))


def update_noise(Y: Array, posterior: Posterior, rate: float | None = None) -> NoiseModel:
    """Estimate the noise model from the posterior: rate, tilt and, if they differ, propensities.

    Parameters
    ----------
    Y : ndarray of shape (n, l)
        Candidates, 0/1.
    posterior : Posterior
    rate : float, optional
        A known rate; None estimates it as sum Y(1 - Q) / sum (1 - Q).
    """
    sums = NoiseSums(len(Y), Y.sum(axis=0), posterior.Q.sum(axis=0), *posterior[1:])
    return noise_from_sums(sums, rate)


def noise_from_sums(sums: NoiseSums, rate: float | None = None) -> NoiseModel:
    """As `update_noise`, from sums over rows; the soft labels are 0 outside the candidates."""
    noise, false = sums.candidates - sums.soft, sums.n_rows - sums.soft
    if rate is None:
        rate = float(np.clip(noise.sum() / max(false.sum(), 1e-9), 1e-4, 0.99))
    tilt = count_tilt(sums.noise_counts, sums.true_counts, rate)
    return NoiseModel(rate, tilt, propensities(noise, false, rate, sums.candidates.sum()))


def count_tilt(noise_counts: Array, true_counts: Array, rate: float) -> Array:
    """Tilt (l + 1,) that narrows the binomial law to the expected histograms of the two counts.

    Numbers of wrong labels that vary more than a binomial law allows are no evidence of noise:
    labels that come together make the number of true ones vary. The tilt fades as the variance
    nears that of the binomial law, and plain Bayes remains.
    """
    true_counts = np.trim_zeros(true_counts, "b")
    rows = max(float(true_counts.sum()), 1.0)
    law = np.exp(_log_binomial(len(noise_counts) - 1, len(true_counts) - 1, rate))
    expected = (true_counts / rows) @ law
    r = np.arange(len(noise_counts))
    mean = noise_counts @ r / rows
    variance = noise_counts @ (r - mean) ** 2 / rows
    true = float(true_counts @ np.arange(len(true_counts))) / rows
    binomial = max((len(r) - 1 - true) * rate * (1 - rate), 1e-12)
    narrow = float(np.clip((1 - variance / binomial) / _NARROW, 0, 1))
    # One imagined row of the binomial law keeps counts that never occurred possible.
    tilt = np.log((noise_counts + expected + 1e-12) / ((rows + 1) * expected + 1e-12))
    return narrow * tilt


def propensities(noise: Array, false: Array, rate: float, n_candidates: float) -> Array | None:
    """Logarithms of the relative rates of the labels, or None unless they clearly differ.

    Parameters
    ----------
    noise, false : ndarray of shape (l,)
        Expected numbers of wrong candidates and of false labels.
    rate : float
        The rate that all labels share.
    n_candidates : float
        Number of candidates of all labels.
    """
    expected = rate * false
    excess = ((noise - expected) ** 2 - expected * (1 - rate)).sum()
    dispersion = excess / max(float((expected**2).sum()), 1e-12) - _OVER_DISPERSION
    if len(noise) < 2 or dispersion <= 0 or noise.sum() <= 0.02 * n_candidates:
        return None
    return np.log((noise + 1 / dispersion) / (expected + 1 / dispersion))


def log_normaliser(tilt: Array, rate: float, largest: int) -> Array:
    """log sum_r Bin(r; l - m, rate) exp(tilt[r]) for m = 0..largest."""
    return logsumexp(_log_binomial(len(tilt) - 1, largest, rate) + tilt, axis=1)


def _log_binomial(l: int, largest: int, rate: float) -> Array:
    """log Bin(r; l - m, rate) for m = 0..largest (rows) and r = 0..l (columns)."""
    m, r = np.arange(largest + 1)[:, None], np.arange(l + 1)
    trials = np.maximum(l - m, 0)
    inside = np.minimum(r, trials)
    choose = gammaln(trials + 1) - gammaln(inside + 1) - gammaln(trials - inside + 1)
    law = choose + inside * np.log(rate) + (trials - inside) * np.log1p(-rate)
    return np.where(r <= trials, law, -np.inf)
