"""Losses of other authors, called like `schirn.deep.PartialMultiLabelLoss`.

`GeneralizedCrossEntropy` and `ForwardCorrection` are for labels that are listed but wrong, the
others are for true labels that are not listed: there, listed labels count as true. Each loss is a
mean over cells, also where its authors take the sum. Requires the extra `deep`.
"""
# ruff: noqa: E402

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from schirn._optional import optional

# Before it is imported below: a missing PyTorch raises MissingExtraError.
optional("torch", "deep", "schirn.lab.rivals.losses")

import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits, logsigmoid

from schirn._input import Number
from schirn.deep.losses import at_least_single, check_batch
from schirn.exceptions import InputError

# Estimated rates stay below it: a rate of one leaves nothing to learn from.
_HIGHEST_RATE = 0.98


class GeneralizedCrossEntropy(nn.Module):
    r"""Generalised cross-entropy over all labels: mean of (1 - s^k)/k.

    s is the probability that the network assigns to the observed cell: p for candidates and 1 - p
    elsewhere. k near 0 gives the cross-entropy; k = 1 gives the absolute error, which is the most
    robust. A baseline that does not model the noise.

    Parameters
    ----------
    exponent : float, default=0.7
        Exponent k in (0, 1].

    Examples
    --------
    >>> loss = GeneralizedCrossEntropy(exponent=1.0)
    >>> loss(torch.tensor([[0.0, 0.0]]), torch.tensor([[1, 0]]))
    tensor(0.5000)
    """

    def __init__(self, exponent: float = 0.7):
        super().__init__()
        Number(high=1.0, open_low=True).check("exponent", exponent)
        self.exponent = exponent

    def forward(self, logits: Tensor, candidates: Tensor, rows: Tensor | None = None) -> Tensor:
        """Return the mean loss of a batch; `rows` is ignored.

        Parameters
        ----------
        logits : Tensor of shape (n, l)
        candidates : Tensor of shape (n, l)
            0/1.
        rows : Tensor of shape (n,), optional
            Ignored.

        Returns
        -------
        Tensor
            A scalar.
        """
        check_batch(logits, candidates, rows, logits.shape[-1], needs_rows=False)
        logits = at_least_single(logits)
        fit = logsigmoid(torch.where(candidates > 0, logits, -logits))
        return (-torch.expm1(self.exponent * fit) / self.exponent).mean()


class _MissingLabelLoss(nn.Module):
    """Counts the passes over the rows in training; subclasses implement `_loss`."""

    needs_rows = False

    def __init__(self, n_rows: int = 1):
        super().__init__()
        Number(low=1, integer=True).check("n_rows", n_rows)
        self.n_rows = n_rows
        self.n_seen: int = 0

    @property
    def passes(self) -> float:
        """Number of passes over the rows so far."""
        return self.n_seen / self.n_rows

    def forward(self, logits: Tensor, candidates: Tensor, rows: Tensor | None = None) -> Tensor:
        """Return the mean loss of a batch."""
        needs_rows = self.needs_rows and self.training
        check_batch(logits, candidates, rows, logits.shape[-1], needs_rows=needs_rows)
        loss = self._loss(at_least_single(logits), candidates > 0, rows)
        self.n_seen += len(logits) if self.training else 0
        return loss

    def _loss(self, logits: Tensor, positive: Tensor, rows: Tensor | None) -> Tensor:
        raise NotImplementedError

    def get_extra_state(self) -> int:
        """Return the number of rows passed, for `state_dict`."""
        return self.n_seen

    def set_extra_state(self, state: int) -> None:
        """Restore the number of rows passed."""
        self.n_seen = state


class AsymmetricLoss(_MissingLabelLoss):
    r"""Asymmetric loss (ASL): unlisted labels that look easy hardly count.

    .. math::
        -(1 - p)^{\gamma_+} \log p \text{ if listed}, \qquad
        -p_m^{\gamma_-} \log(1 - p_m), \quad p_m = \max(p - m, 0) \text{ otherwise}

    Parameters
    ----------
    listed_focus, unlisted_focus : float, default=0, 4
        Exponents \gamma_+ and \gamma_-.
    margin : float, default=0.05
        m; unlisted labels with a lower probability do not count at all.

    References
    ----------
    "Asymmetric Loss For Multi-Label Classification".

    Examples
    --------
    >>> loss = AsymmetricLoss(margin=0.2)
    >>> loss(torch.tensor([[0.0, -3.0]]), torch.tensor([[1, 0]])).mul(2).exp()
    tensor(2.)
    """

    def __init__(
        self, *, listed_focus: float = 0.0, unlisted_focus: float = 4.0, margin: float = 0.05
    ):
        super().__init__()
        Number().check("listed_focus", listed_focus)
        Number().check("unlisted_focus", unlisted_focus)
        Number(high=1.0).check("margin", margin)
        self.listed_focus = listed_focus
        self.unlisted_focus = unlisted_focus
        self.margin = margin

    def _loss(self, logits: Tensor, positive: Tensor, rows: Tensor | None) -> Tensor:
        p = logits.sigmoid()
        shifted = (p - self.margin).clamp_min(0)
        true = (1 - p) ** self.listed_focus * logsigmoid(logits)
        false = shifted**self.unlisted_focus * (1 - shifted).clamp_min(1e-8).log()
        return -torch.where(positive, true, false).mean()


class SPLC(_MissingLabelLoss):
    r"""Self-paced loss correction: after the first passes, likely unlisted labels count as true.

    .. math::
        -(1 - s)^\gamma \log s, \qquad s = \begin{cases} \sigma(z - m) & \text{listed} \\
        \sigma(z) & \text{not listed, and } \sigma(z) > \tau \\
        1 - \sigma(z) & \text{otherwise} \end{cases}

    for logits z: focal weights, with a margin on listed labels, as in the released code.

    Parameters
    ----------
    n_rows : int
        Number of training rows.
    threshold : float, default=0.6
        \tau.
    margin : float, default=1.0
        m.
    focus : float, default=2.0
        \gamma.
    warm_up : float, default=1
        Number of passes over the rows before labels are corrected.

    References
    ----------
    "Simple and Robust Loss Design for Multi-Label Learning with Missing Labels".

    Examples
    --------
    >>> loss = SPLC(n_rows=1, warm_up=0, focus=0, margin=0)
    >>> round(loss(torch.tensor([[3.0, 3.0]]), torch.tensor([[1, 0]])).item(), 3)
    0.049
    """

    def __init__(
        self,
        n_rows: int,
        *,
        threshold: float = 0.6,
        margin: float = 1.0,
        focus: float = 2.0,
        warm_up: float = 1,
    ):
        super().__init__(n_rows)
        Number(high=1.0).check("threshold", threshold)
        Number().check("margin", margin)
        Number().check("focus", focus)
        Number().check("warm_up", warm_up)
        self.threshold = threshold
        self.margin = margin
        self.focus = focus
        self.warm_up = warm_up

    def _loss(self, logits: Tensor, positive: Tensor, rows: Tensor | None) -> Tensor:
        true = positive
        if self.passes >= self.warm_up:
            true = positive | (logits.sigmoid() > self.threshold)
        logits = torch.where(positive, logits - self.margin, logits)
        fit = logsigmoid(torch.where(true, logits, -logits))
        return -((-torch.expm1(fit)) ** self.focus * fit).mean()


class LargeLoss(_MissingLabelLoss):
    """Large-loss rejection (LL-R): cross-entropy without the largest losses of unlisted labels.

    A network learns right labels first, so unlisted labels with a large loss are likely missing
    ones. After t full passes the share `t * step` of the cells of a batch is left out.

    Parameters
    ----------
    n_rows : int
        Number of training rows.
    step : float, default=0.002
        Share of the cells that is left out more in every pass.

    References
    ----------
    "Large Loss Matters in Weakly Supervised Multi-Label Classification".

    Examples
    --------
    >>> loss = LargeLoss(n_rows=1, step=0.5)
    >>> logits, candidates = torch.tensor([[0.0, 9.0]]), torch.tensor([[1, 0]])
    >>> [round(loss(logits, candidates).item(), 2) for _ in range(2)]
    [4.85, 0.35]
    """

    def __init__(self, n_rows: int, *, step: float = 0.002):
        super().__init__(n_rows)
        Number(high=1.0).check("step", step)
        self.step = step

    def _loss(self, logits: Tensor, positive: Tensor, rows: Tensor | None) -> Tensor:
        targets = positive.to(logits.dtype)
        losses = binary_cross_entropy_with_logits(logits, targets, reduction="none")
        share = min(1.0, int(self.passes) * self.step)
        count = math.ceil(share * losses.numel()) if self.training else 0
        if count:
            unlisted = torch.where(positive, 0.0, losses.detach())
            limit = unlisted.ravel().topk(count).values[-1]
            losses = losses * (positive | (unlisted < limit))
        return losses.mean()


class ROLE(_MissingLabelLoss):
    r"""Regularised online label estimation: a table of label estimates learns with the network.

    .. math::
        & \tfrac12 \left[ L(P \mid Q) + L(Q \mid P) \right] \\
        & L(P \mid Q) = -\overline{y \log p + q \log p + (1 - q) \log(1 - p)}
        + \lambda (\bar k(P) - k)^2 / l^2

    P are the probabilities of the network and Q those of the table, each constant where it is the
    target; \bar k(P) is the mean number of labels per row that P expects in the batch.

    Add `loss.parameters()` to the optimiser: they are the table (n_rows, n_labels) of logits of
    the estimates, which start at one half.

    Parameters
    ----------
    n_rows, n_labels : int
        Shape of the training candidates.
    expected : float
        Number k of true labels that a row has on average.
    weight : float, default=1.0
        \lambda.

    References
    ----------
    "Multi-Label Learning from Single Positive Labels".

    Examples
    --------
    >>> loss = ROLE(n_rows=100, n_labels=3, expected=1.5)
    >>> rows, candidates = torch.arange(4), torch.tensor([[1, 0, 0]] * 4)
    >>> loss(torch.zeros(4, 3), candidates, rows).backward()
    >>> loss.estimates.grad[0].sign()
    tensor([-1.,  0.,  0.])
    """

    needs_rows = True

    def __init__(self, n_rows: int, n_labels: int, *, expected: float, weight: float = 1.0):
        super().__init__(n_rows)
        Number(high=n_labels).check("expected", expected)
        Number().check("weight", weight)
        self.expected = expected
        self.weight = weight
        self.estimates = nn.Parameter(torch.zeros(n_rows, n_labels))

    def _loss(self, logits: Tensor, positive: Tensor, rows: Tensor | None) -> Tensor:
        if rows is None:
            return self._one_sided(logits, None, positive)
        q = self.estimates[rows].to(logits.dtype)
        return (self._one_sided(logits, q, positive) + self._one_sided(q, logits, positive)) / 2

    def _one_sided(self, logits: Tensor, target: Tensor | None, positive: Tensor) -> Tensor:
        """L of one side; without another side, the terms of listed labels and of their number."""
        cells = torch.where(positive, -logsigmoid(logits), 0.0).mean()
        if target is not None:
            targets = target.detach().sigmoid()
            cells = cells + binary_cross_entropy_with_logits(logits, targets)
        excess = logits.sigmoid().sum(dim=1).mean() - self.expected
        return cells + self.weight * (excess / logits.shape[1]) ** 2


class ForwardCorrection(nn.Module):
    r"""Cross-entropy through the transition matrices of the labels.

    .. math::
        -\overline{y \log s + (1 - y) \log (1 - s)}, \qquad
        s_j = P(\text{listed} \mid x) = (1 - \mu_j)\, p_j + \rho_j (1 - p_j)

    The network learns the probabilities p of the true labels, because the loss compares the
    candidates with what the noise makes of p. If labels are only added, \mu is zero.

    Parameters
    ----------
    rates : array-like of shape (l,)
        \rho, the rate at which each label is listed where it is false, below 1.
    missing : array-like of shape (l,), optional
        \mu, the rate at which each label is not listed where it is true, below 1.

    See Also
    --------
    transition_rates : Estimate both from label correlations.

    Examples
    --------
    >>> loss = ForwardCorrection(rates=[0.5])
    >>> loss(torch.tensor([[0.0]]), torch.tensor([[0]])).neg().exp()
    tensor(0.2500)
    """

    rates: Tensor
    missing: Tensor

    def __init__(self, rates: ArrayLike, missing: ArrayLike | None = None):
        super().__init__()
        rates = np.asarray(rates, dtype=np.float64)
        missing = np.zeros_like(rates) if missing is None else np.asarray(missing, np.float64)
        for name, values in (("rates", rates), ("missing", missing)):
            is_valid = values.shape == rates.shape and bool(((values >= 0) & (values < 1)).all())
            if rates.ndim != 1 or not is_valid:
                raise InputError(
                    f"{name} must be one number from 0 to below 1 for each label, got {values!r}",
                    parameter=name,
                )
        self.register_buffer("rates", torch.as_tensor(rates))
        self.register_buffer("missing", torch.as_tensor(missing))

    def forward(self, logits: Tensor, candidates: Tensor, rows: Tensor | None = None) -> Tensor:
        """Return the mean loss of a batch; `rows` is ignored.

        Parameters
        ----------
        logits : Tensor of shape (n, l)
        candidates : Tensor of shape (n, l)
            0/1.
        rows : Tensor of shape (n,), optional
            Ignored.

        Returns
        -------
        Tensor
            A scalar.
        """
        check_batch(logits, candidates, rows, len(self.rates), needs_rows=False)
        logits = at_least_single(logits)
        rates = self.rates.to(logits)
        missing = self.missing.to(logits)
        true = logsigmoid(logits)
        false = logsigmoid(-logits)
        listed = torch.logaddexp(true + torch.log1p(-missing), false + rates.log())
        unlisted = torch.logaddexp(true + missing.log(), false + torch.log1p(-rates))
        return -torch.where(candidates > 0, listed, unlisted).mean()


class TransitionRates(NamedTuple):
    """Rates of the transition matrices of all labels, for `ForwardCorrection`.

    Attributes
    ----------
    rates : (l,) float array
        Rate at which a false label is listed.
    missing : (l,) float array
        Rate at which a true label is not listed.
    """

    rates: NDArray[np.float64]
    missing: NDArray[np.float64]


def transition_rates(candidates: ArrayLike, trusted: ArrayLike) -> TransitionRates:
    r"""Estimate the transition matrices of the labels from label correlations.

    For two labels whose noise is independent,

    .. math::
        P(s_j = a, s_i = b) = \sum_c P(y_j = c)\, T_j[c, a]\, P(s_i = b \mid y_j = c) .

    The left side is counted in all rows, the last factor in the rows whose listing of label j is
    trusted; the rest follows by least squares over all other labels i. It is identified if some
    other label goes along with label j.

    The equations are those of the paper. It solves them for pairs of labels and chooses the trusted
    cells by a mixture model of the losses of a network after a few epochs; the least squares over
    all labels are ours, and the trusted cells are yours.

    Parameters
    ----------
    candidates : (n, l) array-like
        0/1.
    trusted : (n, l) array-like of bool
        Cells whose listing is likely right, for instance those with a small loss.

    Returns
    -------
    TransitionRates
        Both zero for a label that the other labels, or the trusted cells, say nothing about.

    References
    ----------
    "Estimating Noise Transition Matrix with Label Correlations for Noisy Multi-Label Learning".

    Examples
    --------
    >>> candidates = np.array([[1, 1], [1, 1], [1, 0], [0, 0]])
    >>> trusted = np.array([[1, 1], [1, 1], [0, 1], [1, 1]], dtype=bool)
    >>> transition_rates(candidates, trusted).rates.round(2)
    array([0.5, 0. ])
    """
    Y = np.asarray(candidates) > 0
    is_trusted = np.asarray(trusted, dtype=bool)
    if Y.ndim != 2 or Y.shape != is_trusted.shape:
        raise InputError(
            f"trusted must have the shape of the candidates, {Y.shape}, got {is_trusted.shape}",
            parameter="trusted",
        )
    rates = np.zeros(Y.shape[1])
    missing = np.zeros(Y.shape[1])
    for j in range(Y.shape[1]):
        others = np.delete(Y, j, axis=1)
        states = [others[is_trusted[:, j] & (Y[:, j] == listed)] for listed in (False, True)]
        if not others.shape[1] or not all(map(len, states)):
            continue
        # P(s_i = 1 | y_j = c) for both c, and P(s_j = a, s_i = 1) for both a.
        given = np.array([rows.mean(axis=0) for rows in states])
        joint = np.array([(others & (Y[:, [j]] == a)).mean(axis=0) for a in (False, True)])
        share = np.array([1 - Y[:, j].mean(), Y[:, j].mean()])
        left = np.hstack([joint, share[:, None] - joint])
        right = np.hstack([given, 1 - given])
        if np.linalg.matrix_rank(right, tol=1e-6) < 2:
            continue
        A = np.linalg.lstsq(right.T, left.T, rcond=None)[0].T
        weights = np.maximum(A, 0)
        total = np.maximum(weights.sum(axis=0), np.finfo(np.float64).tiny)
        rates[j] = min(weights[1, 0] / total[0], _HIGHEST_RATE)
        missing[j] = min(weights[0, 1] / total[1], _HIGHEST_RATE)
    return TransitionRates(rates, missing)
