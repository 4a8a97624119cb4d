"""A head for any backbone: a linear layer, a closed-form ridge, and confidences of the rows."""

from typing import Any

import torch
from torch import Tensor, nn

from schirn._input import Number
from schirn.deep._confidences import Confidences
from schirn.deep._posterior import NoiseLaw, NoiseSums
from schirn.deep._ridge import Ridge, RidgeSums
from schirn.deep.losses import at_least_single, check_batch, soft_cross_entropy
from schirn.exceptions import InputError
from schirn.noise.calibration import calibrate

# Number of rows per epoch whose features are kept to calibrate the scores of the new ridge.
_SAMPLE = 4096
# Number of rows judged at once: many small steps would slow down a GPU.
_TOGETHER = 8192


class SieveHead(nn.Module):
    r"""A linear layer for logits, with a ridge regression that judges the candidates.

    .. math::
        \min_{W, b} \|F W + 1 b^\top - Q\|_F^2 + \lambda \|W\|_F^2, \qquad
        s_i = q_i - \frac{q_i - \hat q_i}{1 - h_i}

    F are the features of the backbone, Q the confidences and h the leverages. The sums F'F and F'Q
    accumulate as batches pass; `end_epoch` solves for W in closed form, with \lambda chosen by
    generalised cross-validation. In the next epoch every batch gets its leave-one-out scores s, so
    that no row influences its own score. A sigmoid fitted to the candidates turns the scores into
    probabilities, `row_posterior` computes the exact posterior of each row, and the confidences
    move towards it. The network is trained on the confidences.

    Leaving a row out of the ridge does not leave it out of the backbone. If the backbone can
    memorise its rows, keep the warm-up short, or train two backbones with `judge_own=False` and let
    each judge the other's rows with `targets(..., held_out=True)`, as `DeepSieve` does.

    Parameters
    ----------
    in_features : int
        Number of features that the backbone returns.
    n_labels, n_rows : int
        Shape of the training candidates.
    warm_up : int, default=3
        Number of epochs before the confidences start to move; at least 1.
    momentum : float, default=0.7
        Weight of the old confidence in each update.
    lam : float, optional
        Ridge weight \lambda, relative to the mean squared norm of a centred feature column. By
        default it is chosen in every epoch.
    counts : bool, default=True
        Learn how many wrong candidates rows carry, and compute the posterior of each row as a
        whole.
    rank_weight : float, default=0.0
        Weight of the rank term (`rank_loss`) on the probabilities of the batch.
    judge_own : bool, default=True
        Judge the rows that this head is trained on. If False, another head that shares the table
        of confidences judges them with `held_out=True`.
    confidences : Confidences, optional
        Table of confidences. By default a single-precision table.

    Attributes
    ----------
    linear : torch.nn.Linear
        The layer that computes the logits.
    confidences : Confidences
        The table; `confidences.read(rows, candidates)` returns the soft labels.
    ridge : Ridge or None
        The latest closed-form solution; None before the first `end_epoch`.
    law : NoiseLaw or None
        Rates at which false labels are listed, and the distribution of their number per row.

    Notes
    -----
    A batch of b rows costs O(b h^2) for h features on top of the network, and an epoch O(h^3). Rows
    are judged a few thousand at a time; a verdict takes effect in the next epoch.

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
        Number(low=1).check("warm_up", warm_up)
        Number(high=1.0).check("momentum", momentum)
        Number().check("rank_weight", rank_weight)
        Number(open_low=True, none=True).check("lam", lam)
        self.in_features = in_features
        self.n_labels = n_labels
        self.n_rows = n_rows
        self.warm_up = warm_up
        self.momentum = momentum
        self.lam = lam
        self.counts = counts
        self.rank_weight = rank_weight
        self.judge_own = judge_own
        self.confidences = Confidences(n_rows, n_labels) if confidences is None else confidences
        self.linear = nn.Linear(in_features, n_labels)
        self.epoch = 0
        self.ridge = None
        self.law = None
        self.calibration = (1.0, 0.0)
        self._begin()

    ridge: Ridge | None
    law: NoiseLaw | None
    _waiting: list[tuple[Tensor, Tensor, Tensor]]

    def forward(self, features: Tensor) -> Tensor:
        """Return the logits.

        Parameters
        ----------
        features : Tensor of shape (n, d)

        Returns
        -------
        Tensor of shape (n, l)
        """
        logits: Tensor = self.linear(features)
        return logits

    def loss(self, features: Tensor, candidates: Tensor, rows: Tensor) -> Tensor:
        """Return the mean cross-entropy of the logits with the confidences of the rows.

        Parameters
        ----------
        features : Tensor of shape (n, d)
        candidates : Tensor of shape (n, l)
            0/1.
        rows : Tensor of shape (n,)
            Numbers of the rows in training.

        Returns
        -------
        Tensor
            A scalar.
        """
        logits = at_least_single(self(features))
        targets = self.targets(features, candidates, rows)
        return soft_cross_entropy(logits, targets, self.rank_weight)

    @torch.no_grad()
    def targets(
        self, features: Tensor, candidates: Tensor, rows: Tensor, *, held_out: bool = False
    ) -> Tensor:
        """Return the soft labels of a batch; its rows are judged later, for the next epoch.

        After `eval()` nothing is learned or judged.

        Parameters
        ----------
        features : Tensor of shape (n, in_features)
        candidates : Tensor of shape (n, n_labels)
        rows : Tensor of shape (n,)
            Row indices.
        held_out : bool, default=False
            Only judge these rows, immediately. They must not belong to the rows that this head
            and its backbone are trained on.

        Returns
        -------
        Tensor of shape (n, l)
        """
        check_batch(features, candidates, rows, self.n_labels, needs_rows=True)
        if features.shape[1] != self.in_features:
            raise InputError(
                f"the backbone returned {features.shape[1]} features, "
                f"but in_features={self.in_features}"
            )
        if held_out:
            return self._update(features.detach(), candidates, rows, held_out)
        targets = self.confidences.read(rows, candidates)
        if not self.training:
            return targets
        self._waiting.append((features.detach(), candidates, rows))
        if sum(len(batch_rows) for _, _, batch_rows in self._waiting) >= _TOGETHER:
            self._judge_waiting()
        return targets

    def _judge_waiting(self) -> None:
        """Judge the waiting batches together, and add them to the sums of the epoch."""
        if not self._waiting:
            return
        features, candidates, rows = map(torch.cat, zip(*self._waiting, strict=True))
        self._waiting = []
        targets = self._update(features, candidates, rows, held_out=False)
        with torch.autocast(features.device.type, enabled=False):
            self._count(features.float(), targets, candidates)

    def _update(self, features: Tensor, candidates: Tensor, rows: Tensor, held_out: bool) -> Tensor:
        """Update the confidences of some rows and return them."""
        old = self.confidences.read(rows, candidates)
        is_judge = held_out or self.judge_own
        if self.ridge is None or self.epoch < self.warm_up or not is_judge:
            return old
        with torch.autocast(features.device.type, enabled=False):
            F = features.float()
            scores = self.ridge.scores(F) if held_out else self.ridge.leave_one_out(F, old)
            new = torch.lerp(self._judge(scores, candidates), old, self.momentum)
        # The ridge must be fitted to the values as stored: leaving a row out subtracts those.
        return self.confidences.write(rows, new)

    @torch.no_grad()
    def end_epoch(self) -> None:
        """Solve the ridge and estimate the noise law from the batches of this epoch."""
        self._judge_waiting()
        if self._sums is None:
            raise InputError(
                "no batch since the last epoch ended; call loss or targets before end_epoch"
            )
        self.ridge = self._sums.solve(self.lam)
        self._calibrate()
        if self._noise is not None:
            self.law = self._noise.law(self.counts)
        self.epoch += 1
        self._begin()

    def scores(self, features: Tensor) -> Tensor:
        """Return log-odds by the closed-form ridge, for rows it was not fitted to.

        Parameters
        ----------
        features : Tensor of shape (n, d)

        Returns
        -------
        Tensor of shape (n, l)
        """
        if self.ridge is None:
            raise InputError("the ridge is not fitted yet; call end_epoch after the first epoch")
        slope, offset = self.calibration
        return slope * self.ridge.scores(features) + offset

    def _begin(self) -> None:
        self._waiting = []
        self._sums: RidgeSums | None = None
        self._noise: NoiseSums | None = None
        self._sample: list[tuple[Tensor, Tensor, Tensor]] = []

    def _count(self, F: Tensor, targets: Tensor, candidates: Tensor) -> None:
        if self._sums is None:
            self._sums = RidgeSums(self.in_features, self.n_labels, F.device)
        self._sums.add(F, targets)
        room = _SAMPLE - sum(len(sample_targets) for _, sample_targets, _ in self._sample)
        if room > 0:
            self._sample.append((F[:room], targets[:room], candidates[:room]))

    def _judge(self, scores: Tensor, candidates: Tensor) -> Tensor:
        """Turn ridge scores into confidences of the candidates."""
        slope, offset = self.calibration
        assert self.law is not None
        if self._noise is None:
            self._noise = NoiseSums(self.n_labels, scores.device)
        p = (slope * scores + offset).sigmoid()
        return self._noise.judge(p, candidates, self.law, self.counts)

    def _calibrate(self) -> None:
        """Fit a sigmoid to the leave-one-out scores of the sampled rows, and a first noise rate."""
        assert self.ridge is not None
        F, targets, candidates = map(torch.cat, zip(*self._sample, strict=True))
        scores = self.ridge.leave_one_out(F, targets).cpu().numpy()
        fitted = calibrate(scores, candidates.cpu().numpy() > 0)
        self.calibration = fitted.slope, fitted.offset
        if self.law is None:
            rate = torch.full((self.n_labels,), fitted.noise_rate, device=F.device)
            self.law = NoiseLaw.independent(rate)

    def get_extra_state(self) -> dict[str, Any]:
        """Return the state that carries over to the next epoch, for `state_dict`.

        Returns
        -------
        dict
        """
        return {
            "epoch": self.epoch,
            "calibration": self.calibration,
            "ridge": None if self.ridge is None else tuple(self.ridge),
            "law": None if self.law is None else tuple(self.law),
        }

    def set_extra_state(self, state: dict[str, Any]) -> None:
        """Restore the state of `get_extra_state`, at the start of an epoch.

        Parameters
        ----------
        state : dict
            What `get_extra_state` returned.
        """
        device = self.linear.weight.device
        self.epoch = state["epoch"]
        self.calibration = state["calibration"]
        ridge = state["ridge"]
        law = state["law"]
        self.ridge = None if ridge is None else Ridge(*(value.to(device) for value in ridge))
        self.law = None if law is None else NoiseLaw(*law).to(device)
        self._begin()
