r"""Which candidates are true, given the probabilities of a network: Bayes' rule in PyTorch.

A false label j is listed at the rate \rho_j. Then a candidate is true with probability

.. math:: q_j = p_j / (p_j + (1 - p_j) \rho_j)

and a label outside the candidates is false for sure. Where rows carry a regular number r of wrong
labels, a tilt t(r) bends the law of that number, and the exact posterior of the whole row follows
by recursion over the number of true labels, as in `schirn.noise.model`.
"""

from typing import NamedTuple

import numpy as np
import torch
from scipy.special import logsumexp

from schirn.noise.model import _log_binomial

Tensor = torch.Tensor

_MARGIN = 1e-4
_LOWEST_RATE, _HIGHEST_RATE = 1e-4, 0.98
# Rates of labels differ only as far as they vary more than chance explains, plus this much.
_OVER_DISPERSION = 0.05
# Rows are taken so many that a table of (row, candidate, number) has this many entries: on the CPU
# it stays in the cache, a GPU is kept busy.
_CPU_CELLS, _GPU_CELLS = 400_000, 16_000_000
# On a GPU the longest row is not asked for where there are this few labels: to wait for the answer
# takes longer than to go through all of them.
_FEW_LABELS = 64


class NoiseLaw(NamedTuple):
    """Rates (l,) of listed false labels, and the tilt of their number per row."""

    rates: Tensor
    tilt: Tensor
    """(l + 1,) log weight of r listed false labels; zeros make the candidates independent."""
    normaliser: Tensor
    """(l + 1,) logarithm of the total weight if m labels are true."""

    @classmethod
    def independent(cls, rates: Tensor) -> "NoiseLaw":
        """Every false label is listed at its rate, whatever else is listed."""
        flat = rates.new_zeros(len(rates) + 1, dtype=torch.float64)
        return cls(rates.clamp(_LOWEST_RATE, _HIGHEST_RATE), flat, flat)

    def to(self, device: torch.device) -> "NoiseLaw":
        """The same law on another device."""
        return NoiseLaw(*(part.to(device) for part in self))


class RowPosterior(NamedTuple):
    """Q (n, l), and expected numbers of rows by their number of wrong and of true candidates."""

    Q: Tensor
    noise_counts: Tensor
    true_counts: Tensor


def bayes(p: Tensor, candidates: Tensor, rates: Tensor | float) -> Tensor:
    """Probability that each candidate is true, candidate by candidate; 0 elsewhere.

    Examples
    --------
    >>> bayes(torch.tensor([[0.2, 0.5, 0.9]]), torch.tensor([[1, 1, 0]]), 0.25)
    tensor([[0.5000, 0.8000, 0.0000]])
    """
    p = p.clamp_min(torch.finfo(p.dtype).tiny)
    return torch.where(candidates > 0, p / (p + (1 - p) * rates), 0)


def row_posterior(p: Tensor, candidates: Tensor, law: NoiseLaw) -> RowPosterior:
    """Probability that each candidate is true, given all candidates of its row.

    Parameters
    ----------
    p : (n, l) probabilities that the labels are true, before the candidates are seen
    candidates : (n, l) 0/1
    law : the noise, on the same device

    Examples
    --------
    >>> law = NoiseLaw.independent(torch.full((3,), 0.25))
    >>> row_posterior(torch.tensor([[0.2, 0.5, 0.9]]), torch.tensor([[1, 1, 0]]), law).Q
    tensor([[0.5000, 0.8000, 0.0000]])
    """
    n, l = p.shape
    widest = l if p.is_cuda and l <= _FEW_LABELS else _widest(candidates)
    step = max(1, (_GPU_CELLS if p.is_cuda else _CPU_CELLS) // (widest + 1) ** 2)
    parts = [
        _block(p[i : i + step], candidates[i : i + step] > 0, law, widest)
        for i in range(0, n, step)
    ]
    if not parts:
        none = law.tilt.new_zeros(l + 1)
        return RowPosterior(torch.zeros_like(p), none, none)
    return RowPosterior(
        torch.cat([part.Q for part in parts]).to(p.dtype),
        torch.stack([part.noise_counts for part in parts]).sum(dim=0),
        torch.stack([part.true_counts for part in parts]).sum(dim=0),
    )


def _widest(candidates: Tensor) -> int:
    return int(candidates.sum(dim=1).max()) if len(candidates) else 0


def _block(p: Tensor, listed: Tensor, law: NoiseLaw, width: int) -> RowPosterior:
    """The posterior of some rows with at most `width` candidates."""
    n, l = p.shape
    sizes = listed.sum(dim=1)
    # The candidates of every row come first; what is left over counts as false and free.
    label = listed.to(torch.int8).sort(dim=1, descending=True, stable=True).indices[:, :width]
    there = listed.gather(1, label)
    true = p.double().clamp(_MARGIN, 1 - _MARGIN).gather(1, label)
    false = torch.where(there, (1 - true) * law.rates.double()[label], 1.0)
    true = torch.where(there, true, 0.0)
    largest = torch.maximum(true, false)
    m = torch.arange(width + 1, device=p.device)
    r = sizes[:, None] - m
    weight = law.tilt[r.clamp_min(0)] - law.normaliser[m]
    weight = torch.where(r >= 0, weight, -torch.inf)
    weight = (weight - weight.max(dim=1, keepdim=True).values).exp()
    marginal, number = _sum_over_subsets(true / largest, false / largest, weight)
    Q = torch.zeros(n, l, dtype=torch.float64, device=p.device)
    Q.scatter_(1, label, torch.where(there, marginal, 0.0))
    noise_counts = weight.new_zeros(l + 1)
    noise_counts.index_add_(0, r.clamp_min(0).ravel(), torch.where(r >= 0, number, 0.0).ravel())
    true_counts = weight.new_zeros(l + 1)
    true_counts[: width + 1] = number.sum(dim=0)
    return RowPosterior(Q, noise_counts, true_counts)


def _sum_over_subsets(true: Tensor, false: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
    """Marginals and size of a random subset S with weight[|S|] prod_S true prod_rest false."""
    width = true.shape[1]
    # Entry c of both tables lies between candidates c - 1 and c.
    backward = weight.new_empty(width + 1, *weight.shape)
    forward = torch.zeros_like(backward)
    backward[width] = weight
    forward[0, :, 0] = 1
    for c in range(width - 1, -1, -1):
        torch.mul(backward[c + 1], false[:, c, None], out=backward[c])
        backward[c, :, :-1].addcmul_(backward[c + 1, :, 1:], true[:, c, None])
    for c in range(width):
        torch.mul(forward[c], false[:, c, None], out=forward[c + 1])
        forward[c + 1, :, 1:].addcmul_(forward[c, :, :-1], true[:, c, None])
    total = backward[0, :, :1].clamp_min(1e-300)
    marginal = true * (forward[:-1, :, :-1] * backward[1:, :, 1:]).sum(dim=2).T
    return (marginal / total).clamp(0, 1), forward[width] * weight / total


class NoiseSums:
    """Sums over rows from which the law of the noise is estimated."""

    def __init__(self, n_labels: int, device: torch.device | str = "cpu"):
        def zeros(size: int) -> Tensor:
            return torch.zeros(size, dtype=torch.float64, device=device)

        self.noise, self.false, self.listed = zeros(n_labels), zeros(n_labels), zeros(1)
        self.noise_counts, self.true_counts = zeros(n_labels + 1), zeros(n_labels + 1)

    def add(self, candidates: Tensor, posterior: RowPosterior) -> None:
        """Count some rows."""
        left = 1 - posterior.Q.double()
        self.noise += (left * (candidates > 0)).sum(dim=0)
        self.false += left.sum(dim=0)
        self.listed += (candidates > 0).sum()
        self.noise_counts += posterior.noise_counts
        self.true_counts += posterior.true_counts

    def law(self, counts: bool = True) -> NoiseLaw:
        """The law that fits the rows counted; `counts=False` leaves the tilt at zero."""
        noise, false = self.noise.cpu().numpy(), self.false.cpu().numpy()
        rate = float(np.clip(noise.sum() / max(false.sum(), 1e-9), _LOWEST_RATE, 0.95))
        rates = torch.tensor(label_rates(noise, false, rate, float(self.listed)))
        rates = rates.to(self.noise.device, torch.float32)
        if not counts:
            return NoiseLaw.independent(rates)
        tilt, normaliser = _tilt(
            self.noise_counts.cpu().numpy(), self.true_counts.cpu().numpy(), rate
        )
        parts = (torch.tensor(part, device=rates.device) for part in (tilt, normaliser))
        return NoiseLaw(rates, *parts)


def label_rates(noise: np.ndarray, false: np.ndarray, rate: float, listed: float) -> np.ndarray:
    """One rate per label, shrunk to the common one; equal ones unless they clearly differ.

    Parameters
    ----------
    noise, false : expected numbers of wrong candidates and of false labels, per label
    rate : the common rate
    listed : number of candidates
    """
    expected = rate * false
    excess = ((noise - expected) ** 2 - expected * (1 - rate)).sum()
    dispersion = excess / max(float((expected**2).sum()), 1e-12) - _OVER_DISPERSION
    if len(noise) < 2 or dispersion <= 0 or noise.sum() <= 0.02 * listed:
        return np.full(len(noise), rate)
    ratio = (noise + 1 / dispersion) / (expected + 1 / dispersion)
    return np.clip(rate * ratio, _LOWEST_RATE, _HIGHEST_RATE)


def _tilt(
    noise_counts: np.ndarray, true_counts: np.ndarray, rate: float
) -> tuple[np.ndarray, np.ndarray]:
    """Tilt that bends the binomial law to the counts, and its normaliser."""
    l = len(noise_counts) - 1
    rows = max(float(true_counts.sum()), 1.0)
    law = _log_binomial(l, l, rate)
    expected = (true_counts / rows) @ np.exp(law)
    # One imagined row of the binomial law keeps counts that were never seen possible.
    tilt = np.log((noise_counts + expected + 1e-12) / ((rows + 1) * expected + 1e-12))
    return tilt, logsumexp(law + tilt, axis=1)
