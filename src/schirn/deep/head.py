"""Heads for any backbone: a linear layer, a closed-form judge, and the confidences of the rows."""

from typing import Any

import torch
from torch import nn
from torch.nn.functional import binary_cross_entropy_with_logits

from schirn.deep._checks import at_least_single, check_batch, check_number
from schirn.deep.confidences import Confidences
from schirn.deep.posterior import NoiseLaw, NoiseSums, RowPosterior, bayes, row_posterior
from schirn.deep.rank import rank_loss
from schirn.deep.ridge import Ridge, RidgeSums
from schirn.exceptions import InputError
from schirn.linalg.prox import noise_threshold
from schirn.noise.calibration import calibrate

Tensor = torch.Tensor

# Rows whose features are kept through an epoch to calibrate the scores of the new ridge.
_SAMPLE = 4096
# Rows are judged this many at a time: a GPU is not slowed down by many small steps.
_TOGETHER = 8192


class SieveHead(nn.Module):
    r"""A linear layer for logits, beside a ridge regression that judges the candidates.

    .. math::
        \min_{W, b} \|F W + 1 b^\top - Q\|_F^2 + \lambda \|W\|_F^2, \qquad
        s_i = q_i - \frac{q_i - \hat q_i}{1 - h_i}

    F are the features of the backbone, Q the confidences, h the leverage. The sums F'F and F'Q are
    taken from the batches as they pass; `end_epoch` solves for W in closed form, with the weight
    \lambda of the least generalised cross-validation error. In the next epoch every batch gets its
    leave-one-out scores s, in which a row has no say in its own score. They become probabilities by
    a sigmoid fitted to the candidates, the exact posterior of the row follows (`row_posterior`),
    and the confidences move towards it. The network is trained on the confidences.

    Leaving a row out of the ridge does not take it out of the backbone. Where a backbone can learn
    its rows by heart, keep the warm-up short, or train two with `judge_own=False` and let each
    judge the rows of the other, as `DeepSieve` does: `targets(..., held_out=True)`.

    Parameters
    ----------
    in_features : number of features that the backbone gives.
    n_labels, n_rows : shape of the training candidates.
    warm_up : number of epochs before the confidences start to move, at least 1.
    momentum : share of the old confidence that is kept in each epoch.
    lam : weight of the ridge relative to the mean squared length of a feature column; None
        chooses it in every epoch.
    counts : learn how many wrong candidates rows carry, and judge a row as a whole.
    rank_weight : weight of the rank term (`rank_loss`) on the batch of probabilities.
    judge_own : judge the rows that are trained on; False leaves them to another head, which shares
        the table and sees them with `held_out=True`.
    confidences : the table of confidences; None keeps one in memory in single precision.

    Attributes
    ----------
    linear : the layer that gives logits.
    confidences : the table; `confidences.read(rows, candidates)` gives soft labels.
    ridge : the last closed-form solution, or None before the first `end_epoch`.
    law : rates per label at which false labels are listed, and the law of their number.

    Notes
    -----
    A batch of b rows costs O(b h^2) for h features beside the network, and an epoch O(h^3). Rows
    are judged a few thousand at a time; a verdict counts from the next epoch on.

    Examples
    --------
    >>> _ = torch.manual_seed(0)
    >>> x, rows = torch.randn(64, 8), torch.arange(64)
    >>> candidates = (x[:, :3] > 0).int()
    >>> backbone, head = nn.Linear(8, 16), SieveHead(16, n_labels=3, n_rows=64)
    >>> loss = head.loss(backbone(x), candidates, rows)
    >>> loss.backward()
    >>> head.end_epoch()
    >>> head(backbone(x)).shape
    torch.Size([64, 3])
    """

    def __init__(
        self,
        in_features: int,
        n_labels: int,
        n_rows: int,
        *,
        warm_up: int = 3,
        momentum: float = 0.7,
        lam: float | None = None,
        counts: bool = True,
        rank_weight: float = 0.0,
        judge_own: bool = True,
        confidences: Confidences | None = None,
    ):
        super().__init__()
        check_number("warm_up", warm_up, low=1)
        check_number("momentum", momentum, high=1.0)
        check_number("rank_weight", rank_weight)
        if lam is not None:
            check_number("lam", lam, open_low=True)
        self.in_features, self.n_labels, self.n_rows = in_features, n_labels, n_rows
        self.warm_up, self.momentum, self.lam = warm_up, momentum, lam
        self.counts, self.rank_weight, self.judge_own = counts, rank_weight, judge_own
        self.confidences = Confidences(n_rows, n_labels) if confidences is None else confidences
        self.linear = nn.Linear(in_features, n_labels)
        self.epoch, self.ridge, self.law = 0, None, None
        self.calibration = (1.0, 0.0)
        self._begin()

    ridge: Ridge | None
    law: NoiseLaw | None
    _waiting: list[tuple[Tensor, Tensor, Tensor]]

    def forward(self, features: Tensor) -> Tensor:
        """Logits."""
        logits: Tensor = self.linear(features)
        return logits

    def loss(self, features: Tensor, candidates: Tensor, rows: Tensor) -> Tensor:
        """Mean cross-entropy of the logits with the confidences of the rows."""
        logits = at_least_single(self(features))
        targets = self.targets(features, candidates, rows)
        loss = binary_cross_entropy_with_logits(logits, targets.to(logits.dtype))
        if self.rank_weight:
            loss = loss + self.rank_weight * rank_loss(logits.sigmoid()) / len(logits)
        return loss

    @torch.no_grad()
    def targets(
        self, features: Tensor, candidates: Tensor, rows: Tensor, *, held_out: bool = False
    ) -> Tensor:
        """Soft labels of a batch; its rows are judged soon after, for the next epoch.

        After `eval()` nothing is learned or judged.

        Parameters
        ----------
        held_out : these rows are judged at once and only that: they were not, and will not be,
            among the rows that this head and its backbone are trained on.
        """
        check_batch(features, candidates, rows, self.n_labels, needs_rows=True)
        if features.shape[1] != self.in_features:
            raise InputError(
                f"the backbone gave {features.shape[1]} features, in_features={self.in_features}"
            )
        if held_out:
            return self._update(features.detach(), candidates, rows, held_out)
        found = self.confidences.read(rows, candidates)
        if not self.training:
            return found
        self._waiting.append((features.detach(), candidates, rows))
        if sum(len(part[2]) for part in self._waiting) >= _TOGETHER:
            self._judge_waiting()
        return found

    def _judge_waiting(self) -> None:
        """New confidences of the batches that came since the last time, in one go."""
        if not self._waiting:
            return
        features, candidates, rows = (torch.cat(part) for part in zip(*self._waiting, strict=True))
        self._waiting = []
        targets = (
            self._update(features, candidates, rows, held_out=False)
            if self.judge_own
            else self.confidences.read(rows, candidates)
        )
        with torch.autocast(features.device.type, enabled=False):
            self._count(features.float(), targets, candidates)

    def _update(self, features: Tensor, candidates: Tensor, rows: Tensor, held_out: bool) -> Tensor:
        """Move the confidences of some rows and return them."""
        old = self.confidences.read(rows, candidates)
        if self.ridge is None or self.epoch < self.warm_up:
            return old
        with torch.autocast(features.device.type, enabled=False):
            found = self._judge(self._scores(features.float(), old, held_out), candidates)
        new = torch.lerp(found, old, self.momentum)
        # What the table keeps is what the ridge has to learn: the next epoch takes it out again.
        return self.confidences.write(rows, new)

    @torch.no_grad()
    def end_epoch(self) -> None:
        """Solve for the ridge and learn the law of the noise from the batches of this epoch."""
        self._judge_waiting()
        if self._sums is None or self._sample is None:
            raise InputError("end_epoch was called, but no batch came since the last epoch ended")
        self.ridge = self._sums.solve(self.lam)
        self._calibrate()
        if self._noise is not None:
            self.law = self._noise.law(self.counts)
        self.epoch += 1
        self._begin()

    def scores(self, features: Tensor) -> Tensor:
        """Log-odds by the closed-form ridge, for rows that it was not fitted to."""
        if self.ridge is None:
            raise InputError("the ridge is not there yet; call end_epoch after the first epoch")
        slope, offset = self.calibration
        return slope * self.ridge.scores(features) + offset

    def _begin(self) -> None:
        self._waiting = []
        self._sums: RidgeSums | None = None
        self._noise: NoiseSums | None = None
        self._sample: list[tuple[Tensor, Tensor, Tensor]] | None = None
        self._sampled = 0

    def _count(self, F: Tensor, targets: Tensor, candidates: Tensor) -> None:
        if self._sums is None or self._sample is None:
            self._sums, self._sample = RidgeSums(self.in_features, self.n_labels, F.device), []
        self._sums.add(F, targets)
        room = _SAMPLE - self._sampled
        if room > 0:
            self._sample.append((F[:room], targets[:room], candidates[:room]))
            self._sampled += len(F)

    def _scores(self, F: Tensor, old: Tensor, held_out: bool) -> Tensor:
        assert self.ridge is not None
        return self.ridge.scores(F) if held_out else self.ridge.leave_one_out(F, old)

    def _judge(self, scores: Tensor, candidates: Tensor) -> Tensor:
        """New confidences from scores."""
        slope, offset = self.calibration
        assert self.law is not None
        p = (slope * scores + offset).sigmoid()
        if self.counts:
            found = row_posterior(p, candidates, self.law)
        else:
            none = self.law.tilt.new_zeros(())
            found = RowPosterior(bayes(p, candidates, self.law.rates), none, none)
        if self._noise is None:
            self._noise = NoiseSums(self.n_labels, scores.device)
        self._noise.add(candidates, found)
        return found.Q

    def _calibrate(self) -> None:
        """A sigmoid of the leave-one-out scores, and a first rate, from the rows kept."""
        assert self.ridge is not None
        assert self._sample is not None
        F, targets, candidates = (torch.cat(part) for part in zip(*self._sample, strict=True))
        scores = self.ridge.leave_one_out(F, targets).cpu().numpy()
        found = calibrate(scores, candidates.cpu().numpy() > 0)
        self.calibration = found.slope, found.offset
        if self.law is None:
            rate = torch.full((self.n_labels,), found.noise_rate, device=F.device)
            self.law = NoiseLaw.independent(rate)

    def get_extra_state(self) -> dict[str, Any]:
        """What an epoch leaves to the next one, for `state_dict`."""
        return {
            "epoch": self.epoch,
            "calibration": self.calibration,
            "ridge": None if self.ridge is None else tuple(self.ridge),
            "law": None if self.law is None else tuple(self.law),
            "confidences": self.confidences.state(),
        }

    def set_extra_state(self, state: dict[str, Any]) -> None:
        """Go back to such a state, at the start of an epoch."""
        device = self.linear.weight.device
        self.epoch, self.calibration = state["epoch"], state["calibration"]
        ridge, law = state["ridge"], state["law"]
        self.ridge = None if ridge is None else Ridge(*(part.to(device) for part in ridge))
        self.law = None if law is None else NoiseLaw(*(part.to(device) for part in law))
        self.confidences.restore(state["confidences"])
        self._begin()


class SchirnHead(SieveHead):
    r"""The objective of Schirn on the features of a backbone.

    .. math::
        \min_{W, N} \|F W + 1 b^\top - (Y - N)\|_F^2 + \alpha \|N\|_1 + \lambda \|W\|_F^2,
        \quad N \in \{0, 1\}^{n \times l}, \; N \le Y

    W is solved for in closed form after every epoch. A candidate is noise where its leave-one-out
    score s has 1 - s > (1 + \alpha)/2, and the confidences move towards Y - N. The rank term
    -\beta \|P\|_* is taken on the predictions of the batches.

    Parameters
    ----------
    in_features, n_labels, n_rows, warm_up, momentum, lam, judge_own, confidences : as in
        `SieveHead`.
    alpha : price of calling a candidate noise.
    rank_weight : \beta.

    Examples
    --------
    >>> head = SchirnHead(16, n_labels=3, n_rows=64, alpha=0.2)
    >>> head(torch.zeros(2, 16)).shape
    torch.Size([2, 3])
    """

    def __init__(
        self,
        in_features: int,
        n_labels: int,
        n_rows: int,
        *,
        alpha: float = 0.2,
        rank_weight: float = 0.01,
        warm_up: int = 3,
        momentum: float = 0.7,
        lam: float | None = None,
        judge_own: bool = True,
        confidences: Confidences | None = None,
    ):
        super().__init__(
            in_features,
            n_labels,
            n_rows,
            warm_up=warm_up,
            momentum=momentum,
            lam=lam,
            rank_weight=rank_weight,
            judge_own=judge_own,
            confidences=confidences,
        )
        check_number("alpha", alpha)
        self.alpha = alpha

    def _judge(self, scores: Tensor, candidates: Tensor) -> Tensor:
        noise = scores < noise_threshold(self.alpha, "exact")
        return ((candidates > 0) & ~noise).float()
