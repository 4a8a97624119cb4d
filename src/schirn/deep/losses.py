"""Losses for candidate labels, to put where `BCEWithLogitsLoss` was."""

from collections import deque
from typing import Any

import torch
from torch import nn
from torch.nn.functional import binary_cross_entropy_with_logits, logsigmoid

from schirn.deep._checks import at_least_single, check_batch, check_number
from schirn.deep.confidences import Confidences
from schirn.deep.posterior import NoiseLaw, NoiseSums, RowPosterior, bayes, row_posterior
from schirn.deep.rank import rank_loss
from schirn.noise.calibration import calibrate

Tensor = torch.Tensor

# Rows at the end of a pass whose logits are kept to fit the sigmoid.
_SAMPLE = 4096


class PartialMultiLabelLoss(nn.Module):
    r"""Cross-entropy with soft labels that are learned along with the network.

    .. math::
        -\frac{1}{nl} \sum_{ij} q_{ij} \log p_{ij} + (1 - q_{ij}) \log(1 - p_{ij})
        - \frac{\beta}{n} \|P\|_*

    With logits z, p = sigmoid(z). In the warm-up q are the candidates. After it, every batch moves
    the confidences q of its rows towards the probability that a candidate is true given p and the
    rates at which false labels are listed, by Bayes' rule; q stays 0 outside the candidates. The
    rates are estimated from the posteriors of each pass over the rows. A network that was trained
    on candidates gives the probability to be listed, not to be true: a sigmoid of the logits,
    fitted to the candidates of the last rows of each pass, tells the two apart.

    Call it with the logits, the candidates and the numbers of the rows. In evaluation mode
    (`eval()`) nothing is learned, the rows are not needed, and the value is the mean negative
    log-likelihood of the candidates: use it on held-out candidates to stop early.

    Parameters
    ----------
    n_rows, n_labels : shape of the training candidates.
    warm_up : number of passes over the rows in which all candidates count as true.
    momentum : share of the old confidence that is kept when a row is seen again.
    noise_rates : known rate at which false labels are listed, one or one per label; None
        estimates one per label.
    counts : also learn how many wrong candidates rows carry, and judge a row as a whole.
    rank_weight : \beta, weight of the rank term (`rank_loss`) on the batch of probabilities.
    confidences : the table of confidences; None keeps one in memory in single precision.

    Attributes
    ----------
    confidences : the table; `confidences.read(rows, candidates)` gives soft labels.
    rates : (n_labels,) present rates.
    calibration : slope and offset of the sigmoid of the logits.

    Notes
    -----
    A batch costs O(b l) beside the network, or O(b c^2) more with `counts` for rows with c
    candidates. `state_dict` holds the rates and the confidences, so a checkpoint of the
    surrounding module is complete; a table on disk is not copied into it.

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
    seen: int

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
        check_number("warm_up", warm_up)
        check_number("momentum", momentum, high=1.0)
        check_number("rank_weight", rank_weight)
        self.n_rows, self.n_labels = n_rows, n_labels
        self.warm_up, self.momentum, self.rank_weight = warm_up, momentum, rank_weight
        self.counts, self.known_rates = counts, noise_rates is not None
        self.confidences = Confidences(n_rows, n_labels) if confidences is None else confidences
        start = torch.as_tensor(0.1 if noise_rates is None else noise_rates, dtype=torch.float32)
        law = NoiseLaw.independent(start.expand(n_labels).clone())
        for name, part in zip(law._fields, law, strict=True):
            self.register_buffer(name, part.clone())
        self.seen = 0
        self.calibration = (1.0, 0.0)
        self._sums: NoiseSums | None = None
        self._last: deque[tuple[Tensor, Tensor]] = deque()

    @property
    def passes(self) -> float:
        """How many times the rows were gone through."""
        return self.seen / self.n_rows

    @property
    def law(self) -> NoiseLaw:
        """The present law of the noise."""
        return NoiseLaw(self.rates, self.tilt, self.normaliser)

    def forward(self, logits: Tensor, candidates: Tensor, rows: Tensor | None = None) -> Tensor:
        """Mean loss of a batch."""
        check_batch(logits, candidates, rows, self.n_labels, needs_rows=self.training)
        logits = at_least_single(logits)
        if not self.training:
            return candidate_nll(logits, candidates, self.rates)
        assert rows is not None
        targets = self.update(logits.detach(), candidates, rows)
        loss = binary_cross_entropy_with_logits(logits, targets.to(logits.dtype))
        if self.rank_weight:
            loss = loss + self.rank_weight * rank_loss(logits.sigmoid()) / len(logits)
        return loss

    @torch.no_grad()
    def update(self, logits: Tensor, candidates: Tensor, rows: Tensor) -> Tensor:
        """Move the confidences of the rows and return them: the soft labels of the batch."""
        new = old = self.confidences.read(rows, candidates)
        if self.passes >= self.warm_up:
            slope, offset = self.calibration
            found = self._posterior((slope * logits + offset).sigmoid(), candidates)
            new = torch.lerp(found.Q.float(), old, self.momentum)
            self.confidences.write(rows, new)
            if self._sums is None:
                self._sums = NoiseSums(self.n_labels, candidates.device)
            self._sums.add(candidates, found)
        self._count(logits, candidates)
        return new

    def _count(self, logits: Tensor, candidates: Tensor) -> None:
        """Keep the last rows, and learn the noise where a pass over the rows ends."""
        self._last.append((logits, candidates))
        while sum(len(part) for part, _ in self._last) - len(self._last[0][0]) >= _SAMPLE:
            self._last.popleft()
        done = self.seen // self.n_rows
        self.seen += len(logits)
        if self.seen // self.n_rows > done:
            self._end_pass()

    def _end_pass(self) -> None:
        """A new sigmoid from the last rows, and a new law from the posteriors of the pass."""
        logits, candidates = (torch.cat(part) for part in zip(*self._last, strict=True))
        found = calibrate(logits.cpu().numpy(), candidates.cpu().numpy() > 0)
        self.calibration = found.slope, found.offset
        if self._sums is None:
            rates = torch.full((self.n_labels,), found.noise_rate)
            self._set_law(NoiseLaw.independent(rates))
        else:
            self._set_law(self._sums.law(self.counts))
        self._sums = None
        self._last.clear()

    def _posterior(self, p: Tensor, candidates: Tensor) -> RowPosterior:
        if self.counts:
            return row_posterior(p, candidates, self.law)
        none = self.tilt.new_zeros(())
        return RowPosterior(bayes(p, candidates, self.rates), none, none)

    def _set_law(self, law: NoiseLaw) -> None:
        if not self.known_rates:
            self.rates.copy_(law.rates)
        self.tilt.copy_(law.tilt)
        self.normaliser.copy_(law.normaliser)

    def get_extra_state(self) -> dict[str, Any]:
        """Confidences and progress, for `state_dict`."""
        sums = None if self._sums is None else {k: v.cpu() for k, v in vars(self._sums).items()}
        return {
            "seen": self.seen,
            "calibration": self.calibration,
            "sums": sums,
            "last": [(logits.cpu(), candidates.cpu()) for logits, candidates in self._last],
            "confidences": self.confidences.state(),
        }

    def set_extra_state(self, state: dict[str, Any]) -> None:
        """Go back to such a state."""
        device = self.rates.device
        self.seen, self.calibration = state["seen"], tuple(state["calibration"])
        self._last = deque(
            (logits.to(device), listed.to(device)) for logits, listed in state["last"]
        )
        self._sums = None
        if state["sums"] is not None:
            self._sums = NoiseSums(self.n_labels, device)
            for name, part in state["sums"].items():
                getattr(self._sums, name).copy_(part)
        self.confidences.restore(state["confidences"])


def candidate_nll(logits: Tensor, candidates: Tensor, rates: Tensor | float) -> Tensor:
    r"""Mean negative log-likelihood of candidates: P(listed) = p + (1 - p) \rho.

    It needs no true label, is least where p is the true probability, and is differentiable.

    Examples
    --------
    >>> candidate_nll(torch.tensor([[0.0]]), torch.tensor([[1]]), 0.5).exp().reciprocal()
    tensor(0.7500)
    """
    rates = torch.as_tensor(rates, dtype=logits.dtype, device=logits.device)
    listed = torch.logaddexp(logsigmoid(logits), logsigmoid(-logits) + rates.log())
    absent = logsigmoid(-logits) + (-rates).log1p()
    return -torch.where(candidates > 0, listed, absent).mean()
