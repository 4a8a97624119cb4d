"""How false labels come into candidate sets, and which candidates are true then.

A row has m true labels, and r of its l - m false labels are listed as well. The number r follows a
binomial law with a rate, bent to the counts that are seen: P(r | m) is proportional to
Bin(r; l - m, rate) exp(tilt[r]). Which r labels they are is drawn uniformly, or in proportion to
label propensities. Given independent probabilities P that the labels are true, the posterior of the
candidates is exact, by recursion over the number of true labels.

With tilt zero the candidates are independent and the posterior is Bayes' rule p/(p + (1 - p) rate).
The tilt is what a candidate learns from its neighbours in the row: if rows carry about three wrong
labels, the fourth doubtful one is more likely true.
"""

from typing import NamedTuple

import numpy as np
from scipy.special import gammaln, logsumexp

Array = np.ndarray

# Labels share one propensity until their listing rates differ clearly more than chance explains.
_OVER_DISPERSION = 0.05
# Rows with more candidates than this are cut to a generous number of possible true labels.
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
        """Every false label is listed with the same probability."""
        return cls(rate, np.zeros(n_labels + 1))


class Posterior(NamedTuple):
    """Q (n, l): probability that a candidate is true; expected histograms of the two counts."""

    Q: Array
    noise_counts: Array
    true_counts: Array


class CellPosterior(NamedTuple):
    """As `Posterior`, with one probability per candidate."""

    q: Array
    noise_counts: Array
    true_counts: Array


class NoiseSums(NamedTuple):
    """What the noise model learns from: sums over rows, which may lie in several blocks."""

    n_rows: int
    candidates: Array
    """Candidates of each label."""
    soft: Array
    """Soft labels of each label, the sums of Q over the rows."""
    noise_counts: Array
    true_counts: Array


def candidate_posterior(P: Array, Y: Array, model: NoiseModel) -> Posterior:
    """Probability that each candidate is true, given all candidates of its row.

    Parameters
    ----------
    P : (n, l) probabilities in (0, 1) that the labels are true, before the candidates are seen
    Y : (n, l) candidates, 0/1
    model : the noise; a model with one rate per row must have tilt zero

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
    """The posterior of candidates that are listed row after row.

    Parameters
    ----------
    p : probability of each candidate before the others are seen
    indptr : candidates of row i are those from indptr[i] to indptr[i + 1]
    label : label of each candidate

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
    normaliser = _log_normaliser(model, n_labels, largest)
    order = np.argsort(sizes, kind="stable")
    done = 0
    while done < n:
        step = max(1, _BLOCK_CELLS // (int(sizes[order[done]]) + 1) ** 2)
        rows = order[done : done + step]
        done += len(rows)
        _posterior_block(p, indptr[rows], sizes[rows], label, rate[rows], model, normaliser, out)
    return out


def update_noise(Y: Array, posterior: Posterior, rate: float | None = None) -> NoiseModel:
    """The noise model that fits the posterior: rate, tilt and, if they differ, propensities.

    Parameters
    ----------
    rate : a known rate; None estimates it as sum Y(1 - Q) / sum (1 - Q).
    """
    sums = NoiseSums(len(Y), Y.sum(axis=0), posterior.Q.sum(axis=0), *posterior[1:])
    return noise_from_sums(sums, rate)


def noise_from_sums(sums: NoiseSums, rate: float | None = None) -> NoiseModel:
    """As `update_noise`, from sums over rows; the soft labels are 0 outside the candidates."""
    noise, false = sums.candidates - sums.soft, sums.n_rows - sums.soft
    if rate is None:
        rate = float(np.clip(noise.sum() / max(false.sum(), 1e-9), 1e-4, 0.99))
    true_counts = np.trim_zeros(sums.true_counts, "b")
    rows = max(float(true_counts.sum()), 1.0)
    law = np.exp(_log_binomial(len(noise), len(true_counts) - 1, rate))
    expected = (true_counts / rows) @ law
    # One imagined row of the binomial law keeps counts that were never seen possible.
    tilt = np.log((sums.noise_counts + expected + 1e-12) / ((rows + 1) * expected + 1e-12))
    return NoiseModel(rate, tilt, _propensity(sums.candidates, noise, false, rate))


def _propensity(candidates: Array, noise: Array, false: Array, rate: float) -> Array | None:
    """Shrunken log ratios of observed to expected noise per label, if they are over-dispersed."""
    expected = rate * false
    excess = ((noise - expected) ** 2 - expected * (1 - rate)).sum()
    dispersion = excess / max(float((expected**2).sum()), 1e-12) - _OVER_DISPERSION
    if len(noise) < 2 or dispersion <= 0 or noise.sum() <= 0.02 * candidates.sum():
        return None
    return np.log((noise + 1 / dispersion) / (expected + 1 / dispersion))


def _posterior_block(
    p: Array,
    start: Array,
    sizes: Array,
    label: Array,
    rate: Array,
    model: NoiseModel,
    normaliser: Array,
    out: CellPosterior,
) -> None:
    """The posterior of some rows with similar numbers of candidates, written into `out`."""
    width = int(sizes.max())
    if width == 0:
        out.noise_counts[0] += len(sizes)
        out.true_counts[0] += len(sizes)
        return
    place = np.arange(width)
    there = place < sizes[:, None]
    cell = np.minimum(start[:, None] + place, len(label) - 1)
    p = np.where(there, p[cell], 0.0)
    q = np.where(there, 1 - p, 1.0)
    if model.propensity is not None:
        q = np.where(there, q * np.exp(model.propensity)[label[cell]], 1.0)
    m = np.arange(_most_true(p, rate, width) + 1)
    r = sizes[:, None] - m
    weight = _count_weights(m, r, rate, model.tilt, normaliser)
    marginal, count = _sum_over_subsets(p, q, there, weight)
    out.q[cell[there]] = marginal[there]
    out.true_counts[: len(m)] += count.sum(axis=0)
    possible = r >= 0
    out.noise_counts[:] += np.bincount(
        r[possible], count[possible], minlength=len(out.noise_counts)
    )


def _sum_over_subsets(p: Array, q: Array, there: Array, weight: Array) -> tuple[Array, Array]:
    """Marginals and size of a random subset S with weight[|S|] prod_S p prod_rest q.

    Forward messages run over the candidates, backward messages are kept; both are indexed by the
    number of true labels so far.
    """
    n, width = p.shape
    # Each candidate is scaled by its larger term, so that long products do not underflow.
    scale = np.where(there, np.maximum(p, q), 1.0)
    p, q = p / scale, q / scale
    backward = np.empty((width + 1, *weight.shape))
    backward[width] = weight
    for c in range(width - 1, -1, -1):
        np.multiply(q[:, c, None], backward[c + 1], out=backward[c])
        backward[c][:, :-1] += p[:, c, None] * backward[c + 1][:, 1:]
    forward = np.zeros_like(weight)
    forward[:, 0] = 1
    marginal = np.empty((n, width))
    for c in range(width):
        marginal[:, c] = p[:, c] * np.einsum("ij,ij->i", forward[:, :-1], backward[c + 1][:, 1:])
        longer = forward * q[:, c, None]
        longer[:, 1:] += forward[:, :-1] * p[:, c, None]
        forward = longer
    total = np.maximum(backward[0][:, :1], 1e-300)
    return np.clip(marginal / total, 0, 1), forward * weight / total


def _count_weights(m: Array, r: Array, rate: Array, tilt: Array, normaliser: Array) -> Array:
    """Weight of m true and r false labels, per row scaled to a largest weight of 1."""
    log_rate = np.log(rate)[:, None]
    # P(r | m) over the number of ways: rate^r (1 - rate)^(l - m - r), the last power being
    # the same for all m because m + r is the number of candidates.
    weight = r * log_rate + tilt[np.clip(r, 0, len(tilt) - 1)] - normaliser[m]
    weight = np.where(r >= 0, weight, -np.inf)
    return np.exp(weight - weight.max(axis=1, keepdims=True))


def _most_true(p: Array, rate: Array, width: int) -> int:
    """Largest number of true labels considered: all, or far above the expected number."""
    if width <= _MOST_TRUE:
        return width
    expected = (p / (p + (1 - p) * rate[:, None])).sum(axis=1)
    return min(width, max(_MOST_TRUE, int((expected + 6 * np.sqrt(expected)).max()) + 10))


def _log_normaliser(model: NoiseModel, l: int, largest: int) -> Array:
    """log sum_r Bin(r; l - m, rate) exp(tilt[r]) for m = 0..largest; 0 without tilt."""
    if not model.tilt.any():
        return np.zeros(largest + 1)
    return logsumexp(_log_binomial(l, largest, float(model.rate)) + model.tilt, axis=1)


def _log_binomial(l: int, largest: int, rate: float) -> Array:
    """log Bin(r; l - m, rate) for m = 0..largest (rows) and r = 0..l (columns)."""
    m, r = np.arange(largest + 1)[:, None], np.arange(l + 1)
    trials = np.maximum(l - m, 0)
    inside = np.minimum(r, trials)
    choose = gammaln(trials + 1) - gammaln(inside + 1) - gammaln(trials - inside + 1)
    law = choose + inside * np.log(rate) + (trials - inside) * np.log1p(-rate)
    return np.where(r <= trials, law, -np.inf)
