"""Rivals to compare with: a robust loss, and PARD."""

import torch
from torch import nn
from torch.nn.functional import binary_cross_entropy_with_logits, logsigmoid

from schirn.deep._checks import at_least_single, check_batch, check_number

Tensor = torch.Tensor


class GeneralizedCrossEntropy(nn.Module):
    r"""A robust loss of one exponent for every label: mean of (1 - s^k)/k.

    s is the probability that the network gives to what is listed: p on candidates and 1 - p
    elsewhere. k near 0 is the cross-entropy, k = 1 the absolute error, which forgives most.

    Parameters
    ----------
    exponent : k in (0, 1].

    Examples
    --------
    >>> loss = GeneralizedCrossEntropy(exponent=1.0)
    >>> loss(torch.tensor([[0.0, 0.0]]), torch.tensor([[1, 0]]))
    tensor(0.5000)
    """

    def __init__(self, exponent: float = 0.7):
        super().__init__()
        check_number("exponent", exponent, high=1.0, open_low=True)
        self.exponent = exponent

    def forward(self, logits: Tensor, candidates: Tensor, rows: Tensor | None = None) -> Tensor:
        """Mean loss of a batch; the rows are not used."""
        check_batch(logits, candidates, rows, logits.shape[-1], needs_rows=False)
        logits = at_least_single(logits)
        fit = logsigmoid(torch.where(candidates > 0, logits, -logits))
        return (-torch.expm1(self.exponent * fit) / self.exponent).mean()


class PARDLoss(nn.Module):
    r"""The bound of `schirn.PARD` without its model of the features, as a loss.

    .. math::
        q = s\,\sigma\Big(\frac{\beta_y z + \beta_0 \operatorname{logit} \pi - \log \rho}
        {\beta_y + \beta_0}\Big)

    is the posterior of the hidden labels for logits z and candidates s. The loss is \beta_y times
    the cross-entropy of q under z, whose gradient is that of the bound. \pi is half the candidate
    frequency of a label; \rho follows the posteriors with a momentum.

    Parameters
    ----------
    frequency : (l,) share of the training rows that list each label.
    n_rows : number of training rows, for the warm-up.
    beta_y, beta_0 : weights of the divergences from the network and from the prior.
    warm_up : number of passes in which all candidates count as true.
    momentum : of the rates, per batch.

    Examples
    --------
    >>> loss = PARDLoss(torch.tensor([0.5, 0.2]), n_rows=10, warm_up=0)
    >>> loss(torch.zeros(2, 2), torch.tensor([[1, 0], [1, 1]])).round(decimals=3)
    tensor(0.6930)
    """

    rates: Tensor
    prior: Tensor

    def __init__(
        self,
        frequency: Tensor,
        n_rows: int,
        *,
        beta_y: float = 1.0,
        beta_0: float = 0.1,
        warm_up: float = 5,
        momentum: float = 0.98,
    ):
        super().__init__()
        check_number("beta_y", beta_y, open_low=True)
        check_number("beta_0", beta_0)
        half = torch.as_tensor(frequency, dtype=torch.float32) / 2
        self.register_buffer("prior", half.clamp(1e-3, 0.5))
        self.register_buffer("rates", half.clamp(1e-3, 0.95))
        self.n_rows, self.warm_up, self.momentum = n_rows, warm_up, momentum
        self.beta_y, self.beta_0, self.seen = beta_y, beta_0, 0

    def forward(self, logits: Tensor, candidates: Tensor, rows: Tensor | None = None) -> Tensor:
        """Mean loss of a batch; the rows are not used."""
        check_batch(logits, candidates, rows, len(self.prior), needs_rows=False)
        logits = at_least_single(logits)
        warm = self.seen < self.warm_up * self.n_rows
        with torch.no_grad():
            q = candidates.float() if warm else self.posterior(logits, candidates)
            if self.training:
                self.seen += len(logits)
                self._learn_rates(candidates, q, warm)
        return self.beta_y * binary_cross_entropy_with_logits(logits, q.to(logits.dtype))

    def get_extra_state(self) -> dict[str, int]:
        """How many rows were seen, for `state_dict`."""
        return {"seen": self.seen}

    def set_extra_state(self, state: dict[str, int]) -> None:
        """Go back to such a state."""
        self.seen = state["seen"]

    def posterior(self, logits: Tensor, candidates: Tensor) -> Tensor:
        """The q that is best for the bound."""
        evidence = self.beta_y * logits + self.beta_0 * self.prior.logit() - self.rates.log()
        return torch.where(candidates > 0, (evidence / (self.beta_y + self.beta_0)).sigmoid(), 0)

    def _learn_rates(self, candidates: Tensor, q: Tensor, warm: bool) -> None:
        if warm:
            return
        left = 1 - q
        found = ((candidates > 0) * left).sum(dim=0) / left.sum(dim=0).clamp_min(1e-9)
        self.rates.lerp_(found.clamp(1e-3, 0.95), 1 - self.momentum)
