r"""Probability that each candidate is true, given the probabilities of a network.

A false label j is listed at the rate \rho_j. Then a candidate is true with probability

.. math:: q_j = p_j / (p_j + (1 - p_j) \rho_j)

and a label outside the candidates is false. If the number r of wrong labels per row is
regular, a tilt t(r) adjusts its distribution, and `schirn.noise.model` computes the exact posterior
of the whole row.
"""

from functools import partial
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from schirn.noise.model import (
    LARGEST_RATE,
    SMALLEST_RATE,
    count_tilt,
    log_normaliser,
    padded_posterior,
    propensities,
)

_MARGIN = 1e-4
# Rows per block are chosen so that a table of (row, candidate, number) has this many entries: on
# the CPU it stays in the cache, and a GPU is kept busy.
_CPU_CELLS = 400_000
_GPU_CELLS = 16_000_000
# With this few labels a GPU goes through all of them, in a few dozen operations for a whole batch.
_FEW_LABELS = 128
# Rows whose candidates have a smaller probability under the law are judged cell by cell: the sums
# over the unit circle cancel.
_LEAST_TOTAL = 1e-9


class NoiseLaw(NamedTuple):
    """Rates (l,) at which false labels are listed, and the tilt of their number per row.

    Attributes
    ----------
    rates : Tensor of shape (l,)
    tilt : Tensor of shape (l + 1,)
        Log weight of r listed false labels; zeros make the candidates independent.
    normaliser : Tensor of shape (l + 1,)
        Logarithm of the total weight if m labels are true.
    """

    rates: Tensor
    tilt: Tensor
    normaliser: Tensor

    @classmethod
    def independent(cls, rates: Tensor) -> "NoiseLaw":
        """Return a law under which false labels are listed independently of each other.

        Parameters
        ----------
        rates : Tensor of shape (l,)
            Rates at which false labels are listed.

        Returns
        -------
        NoiseLaw
        """
        flat = rates.new_zeros(len(rates) + 1, dtype=torch.float64)
        return cls(rates.clamp(SMALLEST_RATE, LARGEST_RATE), flat, flat)

    def to(self, device: torch.device) -> "NoiseLaw":
        """Copy the law to another device.

        Parameters
        ----------
        device : torch.device

        Returns
        -------
        NoiseLaw
        """
        return NoiseLaw(*(tensor.to(device) for tensor in self))


class RowPosterior(NamedTuple):
    """Posterior Q (n, l), and expected histograms of the wrong and the true candidates per row."""

    Q: Tensor
    noise_counts: Tensor
    true_counts: Tensor


def bayes(p: Tensor, candidates: Tensor, rates: Tensor | float) -> Tensor:
    """Probability that each candidate is true, given itself alone; 0 outside the candidates.

    Parameters
    ----------
    p : Tensor of shape (n, l)
        Probabilities that the labels are true.
    candidates : Tensor of shape (n, l)
        0/1.
    rates : Tensor of shape (l,) or float
        Rates at which false labels are listed.

    Returns
    -------
    Tensor of shape (n, l)

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
    p : Tensor of shape (n, l)
        Probabilities that the labels are true, before the candidates are considered.
    candidates : Tensor of shape (n, l)
        0/1.
    law : NoiseLaw
        On the same device.

    Returns
    -------
    RowPosterior

    Examples
    --------
    >>> law = NoiseLaw.independent(torch.full((3,), 0.25))
    >>> row_posterior(torch.tensor([[0.2, 0.5, 0.9]]), torch.tensor([[1, 1, 0]]), law).Q
    tensor([[0.5000, 0.8000, 0.0000]])
    """
    n, l = p.shape
    on_circle = p.is_cuda and l <= _FEW_LABELS
    width = l if on_circle else int(candidates.sum(dim=1).max()) if n else 0
    step = max(1, (_GPU_CELLS if p.is_cuda else _CPU_CELLS) // (width + 1) ** 2)
    block_posterior = _circle_posterior if on_circle else _recursive_posterior
    blocks = [
        block_posterior(p[i : i + step], candidates[i : i + step] > 0, law, width)
        for i in range(0, max(n, 1), step)
    ]
    Q, *counts = zip(*blocks, strict=True)
    return RowPosterior(torch.cat(Q).to(p.dtype), *(torch.stack(c).sum(dim=0) for c in counts))


def _recursive_posterior(p: Tensor, cells: Tensor, law: NoiseLaw, width: int) -> RowPosterior:
    """Posterior of some rows with at most `width` candidates."""
    n, l = p.shape
    noise_counts, true_counts = law.tilt.new_zeros(2, l + 1)
    if width == 0:
        noise_counts[0] = true_counts[0] = n
        return RowPosterior(torch.zeros_like(p), noise_counts, true_counts)
    # The candidates of every row come first.
    label = cells.to(torch.int8).sort(dim=1, descending=True, stable=True).indices[:, :width].T
    is_cell = cells.T.gather(0, label)
    prior = p.double().clamp(_MARGIN, 1 - _MARGIN).T.gather(0, label)
    true = torch.where(is_cell, prior, 0.0)
    false = torch.where(is_cell, (1 - prior) * law.rates.double()[label], 1.0)
    size = is_cell.sum(dim=0)
    q, counts, r = padded_posterior(true, false, size, law.tilt, law.normaliser)
    Q = torch.zeros(l, n, dtype=torch.float64, device=p.device)
    Q.scatter_(0, label, torch.where(is_cell, q, 0.0))
    noise_counts.index_add_(0, r.clamp_min(0).ravel(), torch.where(r >= 0, counts, 0.0).ravel())
    true_counts[: len(counts)] = counts.sum(dim=1)
    return RowPosterior(Q.T, noise_counts, true_counts)


def _circle_posterior(p: Tensor, cells: Tensor, law: NoiseLaw, width: int) -> RowPosterior:
    r"""As `_recursive_posterior`, in a fixed number of operations.

    With t_j the probability that a candidate is true by itself, the number of true candidates has
    the generating function G(z) = \prod_j (1 - t_j + t_j z). Its values on the unit circle give
    the probabilities of the numbers, and divided by one factor those without one candidate.
    """
    l = p.shape[1]
    prior = p.double().clamp(_MARGIN, 1 - _MARGIN)
    true = torch.where(cells, prior, 0.0)
    true = true / (true + (1 - prior) * law.rates.double())
    # An odd number of points leaves out -1, where a factor may vanish. One half of the circle is
    # enough: the other has the conjugate values.
    half = l // 2 + 1
    numbers = torch.arange(max(l, half) + 1, device=p.device, dtype=torch.float64)
    angles = 2 * torch.pi / (2 * half + 1) * numbers[: half + 1]
    share = (2 - (angles == 0).double()) / (2 * half + 1)
    grid = numbers[: l + 1, None] * angles
    cosines = grid.cos() * share
    sines = grid.sin() * share
    x = 1 + true[:, :, None] * (torch.cos(angles) - 1)
    y = true[:, :, None] * torch.sin(angles)
    sizes = (x * x + y * y).log() / 2
    phases = torch.atan2(y, x)
    size = sizes.sum(dim=1)
    phase = phases.sum(dim=1)
    number = (size.exp() * phase.cos()) @ cosines.T + (size.exp() * phase.sin()) @ sines.T
    r = cells.sum(dim=1)[:, None] - torch.arange(l + 1, device=p.device)
    weight = law.tilt[r.clamp_min(0)] - law.normaliser[: l + 1]
    weight = torch.where(r >= 0, weight, -torch.inf)
    weight = (weight - weight.amax(dim=1, keepdim=True)).exp()
    joint = weight * number.clamp_min(0)
    total = joint.sum(dim=1, keepdim=True)
    size = (size[:, None] - sizes).exp()
    phase = phase[:, None] - phases
    ahead = weight[:, 1:]
    along = (ahead @ cosines[:l])[:, None]
    across = (ahead @ sines[:l])[:, None]
    q = true * (size * (phase.cos() * along + phase.sin() * across)).sum(dim=2) / total
    exact = total > _LEAST_TOTAL
    counts = torch.where(exact, joint / total, number.clamp_min(0))
    noise_counts = law.tilt.new_zeros(l + 1)
    noise_counts.index_add_(0, r.clamp_min(0).ravel(), torch.where(r >= 0, counts, 0.0).ravel())
    return RowPosterior(torch.where(exact, q.clamp(0, 1), true), noise_counts, counts.sum(dim=0))


class NoiseSums:
    """Sums over rows from which the noise law is estimated."""

    def __init__(self, n_labels: int, device: torch.device | str = "cpu"):
        zeros = partial(torch.zeros, dtype=torch.float64, device=device)
        self.noise = zeros(n_labels)
        self.false = zeros(n_labels)
        self.listed = zeros(1)
        self.noise_counts = zeros(n_labels + 1)
        self.true_counts = zeros(n_labels + 1)

    def judge(self, p: Tensor, candidates: Tensor, law: NoiseLaw, counts: bool = True) -> Tensor:
        """Add some rows with probabilities p; return the posterior of their candidates.

        With `counts`, it is computed for whole rows, otherwise cell by cell.
        """
        if counts:
            Q, noise_counts, true_counts = row_posterior(p, candidates, law)
            self.noise_counts += noise_counts
            self.true_counts += true_counts
        else:
            Q = bayes(p, candidates, law.rates)
        wrong = 1 - Q.double()
        self.noise += (wrong * (candidates > 0)).sum(dim=0)
        self.false += wrong.sum(dim=0)
        self.listed += (candidates > 0).sum()
        return Q

    def law(self, counts: bool = True) -> NoiseLaw:
        """Estimate the law from the rows added so far; `counts=False` leaves the tilt at zero."""
        noise = self.noise.cpu().numpy()
        false = self.false.cpu().numpy()
        rate = float(np.clip(noise.sum() / max(false.sum(), 1e-9), SMALLEST_RATE, LARGEST_RATE))
        relative = propensities(noise, false, rate, float(self.listed))
        by_label = np.full(len(noise), rate) if relative is None else rate * np.exp(relative)
        rates = torch.tensor(np.clip(by_label, SMALLEST_RATE, LARGEST_RATE))
        rates = rates.to(self.noise.device, torch.float32)
        if not counts:
            return NoiseLaw.independent(rates)
        tilt = count_tilt(self.noise_counts.cpu().numpy(), self.true_counts.cpu().numpy(), rate)
        normaliser = log_normaliser(tilt, rate, len(noise))
        return NoiseLaw(rates, *(torch.tensor(a, device=rates.device) for a in (tilt, normaliser)))
