"""Losses for candidate labels, drop-in replacements for `BCEWithLogitsLoss`."""

from collections import deque
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits, logsigmoid

from schirn._input import Number
from schirn.deep._confidences import Confidences
from schirn.deep._posterior import NoiseLaw, NoiseSums
from schirn.deep._rank import rank_loss
from schirn.exceptions import InputError
from schirn.noise.calibration import calibrate

# Number of most recent rows whose logits are kept to fit the sigmoid at the end of a pass.
_SAMPLE = 4096


class PartialMultiLabelLoss(nn.Module):
    r"""Cross-entropy with soft labels that are learned along with the network.

    .. math::
        -\frac{1}{nl} \sum_{ij} q_{ij} \log p_{ij} + (1 - q_{ij}) \log(1 - p_{ij})
        - \frac{\beta}{n} \|P\|_*

    Here p = sigmoid(z) for logits z. During the warm-up, q equals the candidates. Afterwards, every
    batch moves the confidences q of its rows towards the posterior probability that a candidate is
    true, given p and the rates at which false labels are listed; q stays 0 outside the candidates.
    The rates are re-estimated from the posteriors after each pass over the rows. A network trained
    on candidates predicts the probability of being listed rather than of being true; a sigmoid of
    the logits, fitted to the candidates of the last rows of each pass, corrects for this.

    Call the loss with logits, candidates (0 or 1) and row indices. In evaluation mode (`eval()`)
    nothing is learned, row indices are not needed, and the value is the mean negative
    log-likelihood of the candidates: use it on held-out rows for early stopping.

    Parameters
    ----------
    n_rows, n_labels : int
        Shape of the training candidates.
    warm_up : float, default=3
        Number of passes over the rows in which every candidate counts as true.
    momentum : float, default=0.9
        Weight of the old confidence when the confidence of a row is updated.
    noise_rates : float or Tensor of shape (n_labels,), optional
        Known rates at which false labels are listed. By default one rate per label is estimated.
    counts : bool, default=False
        Also learn how many wrong candidates rows carry, and compute the posterior of each row as
        a whole.
    rank_weight : float, default=0.0
        Weight \beta of the rank term (`rank_loss`) on the probabilities of the batch.
    confidences : Confidences, optional
        Table of confidences. By default a single-precision table.

    Attributes
    ----------
    confidences : Confidences
        The table; `confidences.read(rows, candidates)` returns the soft labels.
    rates : Tensor of shape (n_labels,)
        Current noise rates.
    calibration : tuple of float
        Slope and offset of the sigmoid of the logits.

    Notes
    -----
    A batch costs O(b l) on top of the network, plus O(b c^2) with `counts` for rows with c
    candidates; a GPU is never waited for if there are at most 128 labels. `state_dict` includes the
    rates and the confidences, so a checkpoint of the enclosing module is complete.

    Examples
    --------
    >>> loss = PartialMultiLabelLoss(n_rows=100, n_labels=3, warm_up=1)
    >>> rows, candidates = torch.arange(4), torch.tensor([[1, 1, 0]] * 4)
    >>> logits = torch.zeros(4, 3, requires_grad=True)
    >>> loss(logits, candidates, rows).backward()
    >>> logits.grad.sign()[0]
    tensor([-1., -1.,  1.])
    """

    rates: Tensor
    tilt: Tensor
    normaliser: Tensor

    def __init__(
        self,
        n_rows: int,
        n_labels: int,
        *,
        warm_up: float = 3,
        momentum: float = 0.9,
        noise_rates: float | Tensor | None = None,
        counts: bool = False,
        rank_weight: float = 0.0,
        confidences: Confidences | None = None,
    ):
        super().__init__()
        Number().check("warm_up", warm_up)
        Number(high=1.0).check("momentum", momentum)
        Number().check("rank_weight", rank_weight)
        self.n_rows = n_rows
        self.n_labels = n_labels
        self.warm_up = warm_up
        self.momentum = momentum
        self.rank_weight = rank_weight
        self.counts = counts
        self.known_rates = noise_rates is not None
        self.confidences = Confidences(n_rows, n_labels) if confidences is None else confidences
        start = torch.as_tensor(0.1 if noise_rates is None else noise_rates, dtype=torch.float32)
        law = NoiseLaw.independent(start.expand(n_labels).clone())
        for name, value in zip(law._fields, law, strict=True):
            self.register_buffer(name, value.clone())
        self.n_seen = 0
        self.calibration = (1.0, 0.0)
        self._sums: NoiseSums | None = None
        self._last: deque[tuple[Tensor, Tensor]] = deque()

    @property
    def passes(self) -> float:
        """Number of passes over the rows so far."""
        return self.n_seen / self.n_rows

    @property
    def law(self) -> NoiseLaw:
        """Current estimate of the noise law."""
        return NoiseLaw(self.rates, self.tilt, self.normaliser)

    def forward(self, logits: Tensor, candidates: Tensor, rows: Tensor | None = None) -> Tensor:
        """Return the mean loss of a batch.

        Parameters
        ----------
        logits : Tensor of shape (n, l)
        candidates : Tensor of shape (n, l)
            0/1.
        rows : Tensor of shape (n,), optional
            Numbers of the rows in training.

        Returns
        -------
        Tensor
            A scalar.
        """
        check_batch(logits, candidates, rows, self.n_labels, needs_rows=self.training)
        logits = at_least_single(logits)
        if not self.training:
            return candidate_nll(logits, candidates, self.rates)
        assert rows is not None
        targets = self.update(logits.detach(), candidates, rows)
        return soft_cross_entropy(logits, targets, self.rank_weight)

    @torch.no_grad()
    def update(self, logits: Tensor, candidates: Tensor, rows: Tensor) -> Tensor:
        """Update the confidences of the rows and return them as soft labels of the batch.

        Parameters
        ----------
        logits : Tensor of shape (n, l)
        candidates : Tensor of shape (n, l)
            0/1.
        rows : Tensor of shape (n,)
            Numbers of the rows in training.

        Returns
        -------
        Tensor of shape (n, l)
        """
        new = old = self.confidences.read(rows, candidates)
        if self.passes >= self.warm_up:
            slope, offset = self.calibration
            if self._sums is None:
                self._sums = NoiseSums(self.n_labels, candidates.device)
            p = (slope * logits + offset).sigmoid()
            Q = self._sums.judge(p, candidates, self.law, self.counts)
            new = torch.lerp(Q.float(), old, self.momentum)
            self.confidences.write(rows, new)
        self._count(logits, candidates)
        return new

    def _count(self, logits: Tensor, candidates: Tensor) -> None:
        """Keep the most recent rows; re-estimate the noise when a pass over the rows ends."""
        self._last.append((logits, candidates))
        while sum(len(z) for z, _ in self._last) - len(self._last[0][0]) >= _SAMPLE:
            self._last.popleft()
        passes = self.n_seen // self.n_rows
        self.n_seen += len(logits)
        if self.n_seen // self.n_rows > passes:
            self._end_pass()

    def _end_pass(self) -> None:
        """Fit the sigmoid to the most recent rows and the noise law to the pass's posteriors."""
        logits, candidates = (torch.cat(batches) for batches in zip(*self._last, strict=True))
        check_values(candidates.cpu())
        fitted = calibrate(logits.cpu().numpy(), candidates.cpu().numpy() > 0)
        self.calibration = fitted.slope, fitted.offset
        if self._sums is None:
            law = NoiseLaw.independent(torch.full((self.n_labels,), fitted.noise_rate))
        else:
            law = self._sums.law(self.counts)
        if not self.known_rates:
            self.rates.copy_(law.rates)
        self.tilt.copy_(law.tilt)
        self.normaliser.copy_(law.normaliser)
        self._sums = None
        self._last.clear()

    def get_extra_state(self) -> dict[str, Any]:
        """Return the progress, for `state_dict`.

        Returns
        -------
        dict
        """
        sums = None if self._sums is None else {k: v.cpu() for k, v in vars(self._sums).items()}
        return {
            "seen": self.n_seen,
            "calibration": self.calibration,
            "sums": sums,
            "last": [(logits.cpu(), candidates.cpu()) for logits, candidates in self._last],
        }

    def set_extra_state(self, state: dict[str, Any]) -> None:
        """Restore the progress from `get_extra_state`.

        Parameters
        ----------
        state : dict
            What `get_extra_state` returned.
        """
        device = self.rates.device
        self.n_seen = state["seen"]
        self.calibration = tuple(state["calibration"])
        self._last = deque(
            (logits.to(device), candidates.to(device)) for logits, candidates in state["last"]
        )
        self._sums = None
        if state["sums"] is not None:
            self._sums = NoiseSums(self.n_labels, device)
            for name, value in state["sums"].items():
                getattr(self._sums, name).copy_(value)


def candidate_nll(logits: Tensor, candidates: Tensor, rates: Tensor | float) -> Tensor:
    r"""Mean negative log-likelihood of candidates: P(listed) = p + (1 - p) \rho.

    It needs no true labels, is smallest at the true probability p, and is differentiable.

    Parameters
    ----------
    logits : Tensor of shape (n, l)
    candidates : Tensor of shape (n, l)
        0/1.
    rates : Tensor of shape (l,) or float
        Rates at which false labels are listed.

    Returns
    -------
    Tensor
        A scalar.

    Examples
    --------
    >>> candidate_nll(torch.tensor([[0.0]]), torch.tensor([[1]]), 0.5).exp().reciprocal()
    tensor(0.7500)
    """
    rates = torch.as_tensor(rates, dtype=logits.dtype, device=logits.device)
    present = torch.logaddexp(logsigmoid(logits), logsigmoid(-logits) + rates.log())
    absent = logsigmoid(-logits) + (-rates).log1p()
    return -torch.where(candidates > 0, present, absent).mean()


def soft_cross_entropy(logits: Tensor, targets: Tensor, rank_weight: float) -> Tensor:
    """Mean cross-entropy with soft labels, plus the rank term of the batch."""
    loss = binary_cross_entropy_with_logits(logits, targets.to(logits.device, logits.dtype))
    if rank_weight:
        loss = loss + rank_weight * rank_loss(logits.sigmoid()) / len(logits)
    return loss


def check_batch(
    outputs: Tensor, candidates: Tensor, rows: Tensor | None, n_labels: int, *, needs_rows: bool
) -> None:
    """Raise InputError if the shapes of a batch do not match, or candidates are not 0 and 1.

    Values on a GPU are not checked, because the check would have to wait for the GPU.
    """
    if candidates.ndim != 2 or candidates.shape[1] != n_labels:
        raise InputError(
            f"the candidates have shape {tuple(candidates.shape)}, expected (rows, {n_labels})"
        )
    if len(outputs) != len(candidates) or outputs.ndim != 2:
        raise InputError(
            f"the network returned an output of shape {tuple(outputs.shape)} "
            f"for {len(candidates)} rows of candidates"
        )
    if rows is None and needs_rows:
        raise InputError(
            "row indices are required in training, because each row keeps its own confidences; "
            "let the data set return the index of each row, or call eval() to evaluate only"
        )
    if rows is not None and (rows.ndim != 1 or len(rows) != len(candidates)):
        raise InputError(
            f"row indices of shape {tuple(rows.shape)} do not match {len(candidates)} rows"
        )
    if candidates.device.type == "cpu":
        check_values(candidates)


def check_values(candidates: Tensor) -> None:
    """Raise InputError for candidates other than 0 and 1.

    Parameters
    ----------
    candidates : Tensor
        In main memory.
    """
    is_wrong = (candidates != 0) & (candidates != 1)
    if is_wrong.any():
        value = candidates[is_wrong][0].item()
        raise InputError(f"candidates must be 0 or 1, but one of them is {value:g}")


def at_least_single(x: Tensor) -> Tensor:
    """Convert half precision, as produced by autocast, to single; keep double."""
    return x if x.dtype == torch.float64 else x.float()
