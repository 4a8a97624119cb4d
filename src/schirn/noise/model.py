"""The noise model of candidate sets, and the exact posterior of the candidates.

A row has m true labels, all listed, and r of its l - m false labels are listed as well. The number
r follows a binomial distribution, tilted towards the counts that occur: P(r | m) is proportional to
Bin(r; l - m, rate) exp(tilt[r]). The r labels are drawn uniformly, or in proportion to label
propensities. Given independent probabilities P that the labels are true, a recursion over the
number of true labels yields the exact posterior of the candidates.

Without a tilt, candidates are independent and the posterior is Bayes' rule p/(p + (1 - p) rate).
The tilt lets the candidates of a row inform each other: if rows carry about three wrong labels, a
fourth doubtful label is more likely true.
"""

from collections.abc import Iterator
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.special import gammaln, logsumexp

from schirn._input import Array
from schirn.linalg.arrays import (
    cell_rows,
    cells_product,
    dense_part,
    is_device_array,
    like,
    namespace,
    piece_rows,
    row_pieces,
    to_numpy,
)

# Bounds of the rate at which false labels are listed.
SMALLEST_RATE = 1e-4
LARGEST_RATE = 0.98
# Labels share one propensity unless their listing rates differ clearly more than by chance.
_OVER_DISPERSION = 0.05
# Number of pseudo-answers "wrong" that shrink the ratio of all labels towards 1.
ANSWERS_PRIOR = 2.0
# Bounds of the share of wrong candidates of a label: answers never prove that all or none are.
_SHARES = (0.02, 0.98)
# The tilt has full weight if the variance is smaller than that of the binomial by this share.
_NARROW = 0.15
# For rows with more candidates than this, the number of true labels considered is bounded.
_MOST_TRUE = 64
# Size of a block, (candidates + 1)^2 per row, that fits into a processor cache, or on a device.
_BLOCK_CELLS = 200_000
_DEVICE_CELLS = 2**27
# Number of binomial probabilities computed at a time: candidates x labels may be too many.
_LAW_CELLS = 400_000
# On a device, a dense product is used if there are at most this many cells per candidate.
_DENSE_CELLS = 64


class NoiseModel(NamedTuple):
    """Rate at which false labels are listed, tilt of their number, and label propensities.

    Attributes
    ----------
    rate : float
        Rate at which false labels are listed.
    tilt : (l + 1,) array
        Log weight of r listed false labels; zeros make candidates independent.
    propensity : (l,) array or None
        Log relative weight of each label among listed false labels; None means equal weights.
    """

    rate: float
    tilt: Array
    propensity: Array | None = None

    @classmethod
    def independent(cls, rate: float, n_labels: int) -> "NoiseModel":
        """Return the model that lists every false label with the same probability.

        Parameters
        ----------
        rate : float
            Probability that a false label is listed.
        n_labels : int

        Returns
        -------
        NoiseModel
        """
        return cls(rate, np.zeros(n_labels + 1))

    @classmethod
    def of_rates(cls, rates: Array, tilt: Array) -> "NoiseModel":
        """Return the model in which every label has its own rate (l,).

        Parameters
        ----------
        rates : (l,) array
            Rate at which each label is listed when it is false.
        tilt : (l + 1,) array
            Log weight of r listed false labels.

        Returns
        -------
        NoiseModel
        """
        rate = float(rates.mean())
        return cls(rate, tilt, np.log(rates / rate))

    def label_rates(self, label: Array) -> Array:
        """Return the rate at which each of these labels is listed when it is false.

        Parameters
        ----------
        label : int array

        Returns
        -------
        ndarray
            Between `SMALLEST_RATE` and `LARGEST_RATE`.
        """
        rates = np.full(len(label), self.rate)
        if self.propensity is not None:
            rates *= np.exp(self.propensity)[label]
        return np.clip(rates, SMALLEST_RATE, LARGEST_RATE)


class Candidates:
    """The candidate cells of some rows, row by row; arrays of values follow this order.

    Parameters
    ----------
    Y : array or CSR array of shape (n, l)
        0/1.
    other : array, optional
        An array on the device where values of candidates are stored.

    Attributes
    ----------
    indptr : ndarray of shape (n + 1,)
        Row i has the candidates indptr[i] to indptr[i + 1].
    indices : ndarray
        Label of each candidate.
    label : array
        `indices` on the device of the values.
    row : array
    flat : array
        Positions of the cells in a flattened (n, l) array.
    """

    def __init__(self, Y: Any, other: Any = None) -> None:
        Y = sp.csr_array(Y)
        label = Y.indices if other is None else like(Y.indices, other, "own")
        label = namespace(label).astype(label, namespace(label).int64)
        self._set_cells(Y.indptr.astype(np.int64), Y.indices, label, Y.shape[1])

    def _set_cells(self, indptr: Array, indices: Array, label: Any, l: int) -> None:
        self.indptr = indptr
        self.indices = indices
        self.label = label
        self.shape = (len(indptr) - 1, l)
        self.size = len(indices)
        self.row = cell_rows(indptr, label)
        self.flat = self.row * l + label
        # For sparse candidates on a device: the order by label, and labels and rows in this order.
        self._by_label = None
        if is_device_array(label) and self.shape[0] * l > _DENSE_CELLS * self.size:
            order = namespace(label).argsort(label, stable=True)
            self._by_label = order, label[order], self.row[order]

    @cached_property
    def blocks(self) -> "list[CellBlock]":
        """Blocks of rows for `cell_posterior`."""
        return cell_blocks(self.indptr, self.label)

    @cached_property
    def listed(self) -> Array:
        """Number of candidates of each label."""
        return self.total(namespace(self.label).ones_like(self.label))

    def between(self, first: int, last: int) -> "Candidates":
        """The candidates of rows `first` to `last` (exclusive)."""
        indptr = self.indptr[first : last + 1]
        cells = slice(indptr[0], indptr[-1])
        part = Candidates.__new__(Candidates)
        part._set_cells(indptr - indptr[0], self.indices[cells], self.label[cells], self.shape[1])
        return part

    def ones(self, other: Any) -> Any:
        """The value 1 for each candidate, with the type and on the device of `other`."""
        return namespace(other).ones(self.size, dtype=other.dtype, device=other.device)

    def dense(self, values: Any) -> Any:
        """The (n, l) matrix with these values at the candidates."""
        xp = namespace(values)
        n, l = self.shape
        B = xp.zeros(n * l, dtype=values.dtype, device=values.device)
        B[self.flat] = values
        return xp.reshape(B, (n, l))

    def total(self, values: Any) -> Array:
        """Sum of the values per label."""
        if isinstance(self.label, np.ndarray):
            return np.bincount(self.label, values, minlength=self.shape[1])
        # A matrix product, because sums by atomic additions would differ from run to run.
        kind = {"dtype": namespace(values).float64, "device": values.device}
        return to_numpy(self.project(values, namespace(values).ones((self.shape[0], 1), **kind)))[0]

    def project(self, values: Any, X: Any) -> Any:
        """X'B in double precision for the (n, l) matrix B with these values at the candidates."""
        xp = namespace(values)
        l = self.shape[1]
        if isinstance(self.label, np.ndarray):
            # In pieces of rows, so that X is read once and in order.
            total = np.zeros((l, X.shape[1]))
            for i, piece in row_pieces(X, piece_rows(dense_part(X), X.shape[1])):
                ends = self.indptr[i : i + piece.shape[0] + 1]
                cells = slice(ends[0], ends[-1])
                B = sp.csr_array(
                    (values[cells], self.label[cells], ends - ends[0]), (piece.shape[0], l)
                )
                product = B.T @ piece
                total += product.toarray() if sp.issparse(product) else product
            return total.T
        if self._by_label is None:
            product = X.T @ self.dense(xp.astype(values, X.dtype))
        else:
            order, label, row = self._by_label
            product = cells_product(label, row, xp.astype(values[order], X.dtype), X, l).T
        return xp.astype(product, xp.float64)


class Posterior(NamedTuple):
    """Posterior of the candidates, and expected histograms of wrong and true labels per row."""

    Q: Array
    """Probabilities (n, l), or one per candidate."""
    noise_counts: Array
    true_counts: Array


class NoiseSums(NamedTuple):
    """Sums over rows from which the noise model is estimated."""

    n_rows: int
    candidates: Array
    """Number of candidates of each label."""
    soft: Array
    """Sum of Q per label."""
    noise_counts: Array
    true_counts: Array


def candidate_posterior(P: Array, Y: Array, model: NoiseModel) -> Posterior:
    """Return the probability that each candidate is true, given all candidates of its row.

    Parameters
    ----------
    P : ndarray of shape (n, l)
        Probabilities in (0, 1) that the labels are true, before the candidates are considered.
    Y : ndarray of shape (n, l)
        Candidates, 0/1.
    model : NoiseModel

    Returns
    -------
    Posterior

    Examples
    --------
    >>> P, Y = np.array([[0.2, 0.5, 0.9]]), np.array([[1, 1, 0]])
    >>> candidate_posterior(P, Y, NoiseModel.independent(0.25, 3)).Q
    array([[0.5, 0.8, 0. ]])
    """
    row, label = np.nonzero(Y)
    indptr = np.searchsorted(row, np.arange(len(Y) + 1))
    posterior = cell_posterior(P[row, label], indptr, label, model)
    Q = np.zeros(Y.shape)
    Q[row, label] = posterior.Q
    return posterior._replace(Q=Q)


def cell_posterior(
    p: Any, indptr: Array, label: Any, model: NoiseModel, blocks: "list[CellBlock] | None" = None
) -> Posterior:
    """Return the posterior of candidates stored row by row, on the device of p.

    Parameters
    ----------
    p : array
        Probability of each candidate, before the others are considered.
    indptr : ndarray of shape (n + 1,)
        Row i has the candidates indptr[i] to indptr[i + 1].
    label : array
        Label of each candidate.
    model : NoiseModel
    blocks : list of CellBlock, optional
        `cell_blocks(indptr, label)`, if it was computed before.

    Returns
    -------
    Posterior
        `Q` has one probability per candidate.

    Examples
    --------
    >>> p, indptr, label = np.array([0.2, 0.5]), np.array([0, 2]), np.array([0, 1])
    >>> cell_posterior(p, indptr, label, NoiseModel.independent(0.25, 3)).Q
    array([0.5, 0.8])
    """
    blocks = cell_blocks(indptr, p) if blocks is None else blocks
    xp = namespace(p)
    p = namespace(p).astype(p, namespace(p).float64)
    rate: Any = model.rate
    if model.propensity is not None:
        rate = rate * like(np.exp(model.propensity), p)[like(label, p, "own")]
    # The last entry is the value for padding.
    padding = xp.ones(1, dtype=p.dtype, device=p.device)
    true = xp.concat([p, 0 * padding])
    false = xp.concat([(1 - p) * rate, padding])
    largest = max((block.cell.shape[0] for block in blocks), default=0)
    normaliser = np.zeros(largest + 1)
    if model.tilt.any():
        normaliser = log_normaliser(model.tilt, model.rate, largest)
    tilt = like(model.tilt, p)
    normaliser = like(normaliser, p)
    q = xp.zeros_like(true)
    noise_counts, true_counts = np.zeros((2, len(model.tilt)))
    for cell, size, sizes, member in blocks:
        q[cell], counts, _ = padded_posterior(true[cell], false[cell], size, tilt, normaliser)
        # A matrix product, because sums by atomic additions would differ from run to run.
        totals = to_numpy(xp.astype(member, counts.dtype) @ counts.T)
        for m, sums in zip(sizes, totals, strict=True):
            sums = sums[: m + 1]
            true_counts[: len(sums)] += sums
            noise_counts[m - np.arange(len(sums))] += sums
    return Posterior(q[:-1], noise_counts, true_counts)


class CellBlock(NamedTuple):
    """Rows with similar numbers of candidates, sorted by that number."""

    cell: Any
    """Index of the c-th candidate of each row, (width, rows); padding points past the last."""
    size: Any
    """Number of candidates of each row."""
    sizes: Array
    """The distinct numbers of candidates, ascending."""
    member: Any
    """Whether each row has each of these numbers of candidates, (sizes, rows)."""


def cell_blocks(indptr: Array, other: Any = None) -> list[CellBlock]:
    """Return blocks of rows for `cell_posterior`, on the device of `other`.

    Parameters
    ----------
    indptr : ndarray of shape (n + 1,)
        Row i has the candidates indptr[i] to indptr[i + 1].
    """
    sizes = np.diff(indptr)
    # Sorting the smallest integer type is ten times as fast.
    order = np.argsort(sizes.astype(np.min_scalar_type(sizes.max(initial=0))), kind="stable")
    sizes = sizes[order]
    first_cell = indptr[order]
    done = 0
    blocks = []
    other = sizes if other is None else other
    xp = namespace(other)
    next_step = _device_step if is_device_array(other) else _block_step
    while done < len(sizes):
        rows = slice(done, done + next_step(sizes[done:]))
        first, size = (like(values[rows], other, "own") for values in (first_cell, sizes))
        place = xp.arange(max(1, int(sizes[rows][-1])), device=other.device)[:, None]
        cell = xp.where(place < size, first + place, int(indptr[-1]))
        distinct = np.flatnonzero(np.bincount(sizes[rows]))
        member = size == like(distinct, other, "own")[:, None]
        blocks.append(CellBlock(cell, size, distinct, member))
        done = rows.stop
    return blocks


def _block_step(sizes: Array) -> int:
    """Number of rows, sorted by size, whose padded block fits into the cache."""
    step = max(1, _BLOCK_CELLS // (int(sizes[0]) + 1) ** 2)
    padded = np.arange(1, len(sizes[:step]) + 1) * (sizes[:step] + 1) ** 2
    return max(1, int(np.searchsorted(padded, _BLOCK_CELLS, side="right")))


def _device_step(sizes: Array) -> int:
    """Number of rows of the next block on a device, where blocks are few and large.

    With many rows, a block never mixes sizes that differ by more than a factor of two.
    """
    if len(sizes) * (int(sizes[-1]) + 1) ** 2 <= _DEVICE_CELLS:
        return len(sizes)
    limit = max(8, 1 << int(sizes[0]).bit_length())
    step = max(1, _DEVICE_CELLS // (limit + 1) ** 2)
    return min(step, int(np.searchsorted(sizes, limit, side="right")))


def padded_posterior(
    true: Any, false: Any, size: Any, tilt: Any, normaliser: Any
) -> tuple[Any, Any, Any]:
    """Return the posterior of rows with at most `width` candidates, as NumPy or PyTorch arrays.

    Parameters
    ----------
    true : array of shape (width, n)
        Probability that each candidate is true; 0 for padding.
    false : array of shape (width, n)
        Probability that each candidate is false and listed; 1 for padding.
    size : array of shape (n,)
        Number of candidates of each row.
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
    xp = namespace(true)
    # Scale each candidate by its larger term, so that long products do not underflow.
    largest = xp.maximum(true, false)
    true = true / largest
    false = false / largest
    # Created on the device: a copy from main memory would wait for all pending work.
    most = len(true) if len(true) <= _MOST_TRUE else _most_true(true, false)
    m = xp.arange(most + 1, device=true.device)
    r = size - m[:, None]
    # (1 - rate)^(l - m - r) is omitted: m + r is the number of candidates, so it is a constant.
    weight = tilt[xp.clip(r, 0, None)] - normaliser[m][:, None]
    weight[r < 0] = -xp.inf
    weight = xp.exp(weight - xp.max(weight, axis=0))
    q, counts = _sum_over_subsets(true, false, weight)
    return q, counts, r


def _sum_over_subsets(true: Any, false: Any, weight: Any) -> tuple[Any, Any]:
    """Marginals and size of a random subset S with weight[|S|] prod_S true prod_rest false.

    Backward messages are stored and multiplied by the forward messages, which run over the
    candidates. Both are indexed by the number of true labels so far, which is at most the number of
    candidates so far. All arrays are allocated beforehand, because allocation takes longer than the
    sums. Slices have names, because `a[i:j] += b` in PyTorch also copies the slice onto itself.
    """
    xp = namespace(true)
    width, n = true.shape
    most = weight.shape[0] - 1
    kind = {"dtype": true.dtype, "device": true.device}
    backward, forward = (xp.zeros((*size, most + 1, n), **kind) for size in ((width,), ()))
    product = xp.empty((most + 1, n), **kind)
    backward[width - 1] = weight
    for c in range(width - 1, 0, -1):
        size = min(c, most) + 1
        up = min(c + 1, most)
        last = backward[c]
        message = backward[c - 1, :up]
        added = product[:up]
        xp.multiply(last[:size], false[c], out=backward[c - 1, :size])
        xp.multiply(last[1 : up + 1], true[c], out=added)
        message += added
    forward[0] = 1
    for c in range(width):
        size = min(c, most) + 1
        up = min(c + 1, most)
        joint = backward[c, 1 : up + 1]
        added = product[:up]
        unchanged = forward[:size]
        one_more = forward[1 : up + 1]
        joint *= forward[:up]
        xp.multiply(forward[:up], true[c], out=added)
        unchanged *= false[c]
        one_more += added
    forward *= weight
    total = xp.clip(xp.sum(forward, axis=0), 1e-300, None)
    marginal = xp.sum(backward[:, 1:], axis=1) * true / total
    return xp.clip(marginal, 0, 1), forward / total


def _most_true(true: Any, false: Any) -> int:
    """Largest number of true labels to consider in long rows, far above the expected number."""
    xp = namespace(true)
    expected = xp.sum(true / (true + false), axis=0)
    most = max(_MOST_TRUE, int(xp.max(expected + 6 * xp.sqrt(expected))) + 10)
    return min(int(true.shape[0]), most)


def noise_from_sums(sums: NoiseSums, rates: Array | None = None) -> NoiseModel:
    """Estimate the noise model: rate, tilt and, if labels differ, propensities.

    Soft labels are 0 outside the candidates. The rate is sum Y(1 - Q) / sum (1 - Q).

    Parameters
    ----------
    sums : NoiseSums
    rates : ndarray of shape (l,), optional
        Known rates at which false labels are listed; with these, only the tilt is estimated.

    Returns
    -------
    NoiseModel
    """
    if rates is not None:
        rate = float(rates.mean())
        tilt = count_tilt(sums.noise_counts, sums.true_counts, rate)
        return NoiseModel.of_rates(rates, tilt)
    noise = sums.candidates - sums.soft
    false = sums.n_rows - sums.soft
    rate = float(np.clip(noise.sum() / max(false.sum(), 1e-9), SMALLEST_RATE, LARGEST_RATE))
    tilt = count_tilt(sums.noise_counts, sums.true_counts, rate)
    return NoiseModel(rate, tilt, propensities(noise, false, rate, sums.candidates.sum()))


def answered_rates(
    wrong: Array, claimed: Array, model_wrong: Array, listed: Array, n: int
) -> Array:
    """Return the rates (l,) at which false labels are listed, corrected by answers.

    A model claims that some candidates of each label are wrong. If answers find more or fewer wrong
    ones among the same candidates, the claimed share of the label is multiplied by the ratio.
    Ratios are shrunk towards the ratio over all labels, to the extent that chance explains the
    difference, and that ratio is shrunk towards 1. The choice of candidates to ask about may depend
    on the claims.

    Parameters
    ----------
    wrong : ndarray of shape (l,)
        Number of candidates answered "wrong".
    claimed : ndarray of shape (l,)
        Number of wrong candidates that the model expects among the answered ones.
    model_wrong : ndarray of shape (l,)
        Number of wrong candidates that the model expects among all candidates.
    listed : ndarray of shape (l,)
        Number of candidates.
    n : int
        Number of rows.

    Returns
    -------
    ndarray of shape (l,)

    Examples
    --------
    >>> wrong, claimed = np.array([9.0, 1.0]), np.array([5.0, 5.0])
    >>> answered_rates(wrong, claimed, np.array([25.0, 25.0]), np.array([50.0, 50.0]), 100).round(2)
    array([0.44, 0.18])
    """
    # If answers cover only a few labels, they say less about all labels: the prior is stronger.
    n_answered = int(np.count_nonzero(claimed))
    prior = ANSWERS_PRIOR * len(claimed) / max(n_answered, 1)
    common = (wrong.sum() + prior) / (claimed.sum() + prior)
    expected = common * claimed
    spread = float(max(dispersion(wrong, expected, expected.sum()), _OVER_DISPERSION))
    ratio = common * (wrong + 1 / spread) / (expected + 1 / spread)
    share = np.clip(ratio * model_wrong / np.maximum(listed, 1), *_SHARES)
    n_wrong = share * listed
    return np.clip(n_wrong / np.maximum(n - listed + n_wrong, 1), SMALLEST_RATE, LARGEST_RATE)


def dispersion(counts: Array, expected: Array, variance: float) -> float:
    """Variance of the ratios of observed to expected counts in excess of chance."""
    excess = ((counts - expected) ** 2).sum() - variance
    return float(excess) / max(float((expected**2).sum()), 1e-12)


def count_tilt(noise_counts: Array, true_counts: Array, rate: float) -> Array:
    """Return the tilt (l + 1,) that fits the binomial to the expected histogram of wrong labels.

    The tilt only narrows the binomial. A larger variance is no evidence about the noise, because
    correlated labels also make the number of true labels vary. The tilt vanishes as the variance
    approaches that of the binomial, which leaves plain Bayes.
    """
    true_counts = np.trim_zeros(true_counts, "b")
    rows = max(float(true_counts.sum()), 1.0)
    expected = np.zeros(len(noise_counts))
    for m, law in _log_binomial(len(noise_counts) - 1, len(true_counts) - 1, rate):
        expected += (true_counts[m] / rows) @ np.exp(law)
    r = np.arange(len(noise_counts))
    mean = noise_counts @ r / rows
    variance = noise_counts @ (r - mean) ** 2 / rows
    true = float(true_counts @ np.arange(len(true_counts))) / rows
    binomial = max((len(r) - 1 - true) * rate * (1 - rate), 1e-12)
    narrow = float(np.clip((1 - variance / binomial) / _NARROW, 0, 1))
    # One binomial pseudo-row keeps counts that never occurred possible.
    tilt = np.log((noise_counts + expected + 1e-12) / ((rows + 1) * expected + 1e-12))
    return narrow * tilt


def propensities(noise: Array, false: Array, rate: float, n_candidates: float) -> Array | None:
    """Return the log relative rates of the labels, or None unless they clearly differ.

    Parameters
    ----------
    noise, false : ndarray of shape (l,)
        Expected numbers of wrong candidates and of false labels.
    rate : float
        Common rate of all labels.
    n_candidates : float
        Total number of candidates.
    """
    expected = rate * false
    spread = dispersion(noise, expected, expected.sum() * (1 - rate)) - _OVER_DISPERSION
    if len(noise) < 2 or spread <= 0 or noise.sum() <= 0.02 * n_candidates:
        return None
    return np.log((noise + 1 / spread) / (expected + 1 / spread))


def log_normaliser(tilt: Array, rate: float, largest: int) -> Array:
    """log sum_r Bin(r; l - m, rate) exp(tilt[r]) for m = 0..largest."""
    laws = _log_binomial(len(tilt) - 1, largest, rate)
    return np.concatenate([logsumexp(law + tilt, axis=1) for _, law in laws])


def _log_binomial(l: int, largest: int, rate: float) -> Iterator[tuple[Array, Array]]:
    """Yield some m of 0..largest at a time, with log Bin(r; l - m, rate) for r = 0..l (columns)."""
    r = np.arange(l + 1)
    step = max(1, _LAW_CELLS // len(r))
    for first in range(0, largest + 1, step):
        m = np.arange(first, min(first + step, largest + 1))
        trials = np.maximum(l - m, 0)[:, None]
        # For r above the number of trials, the last term is infinite and the probability 0.
        choose = gammaln(trials + 1) - gammaln(r + 1) - gammaln(trials - r + 1)
        yield m, choose + r * np.log(rate) + (trials - r) * np.log1p(-rate)
