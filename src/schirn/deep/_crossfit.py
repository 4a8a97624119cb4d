"""Cross-fitting: networks that judge the rows they were not trained on.

The rows are split into folds. Network k is trained without fold k and scores it, so no network
judges a row it has learned. A final network is trained on all rows and predicts. All networks are
trained on the same confidences, one epoch at a time.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from schirn._input import Array
from schirn.deep._learner import Learner, NetworkInput
from schirn.deep._posterior import NoiseLaw, NoiseSums, row_posterior
from schirn.deep._ridge import RidgeSums
from schirn.exceptions import InputError
from schirn.metrics import average_precision
from schirn.noise.calibration import Calibration, calibrate

if TYPE_CHECKING:
    from schirn.deep._deep_sieve import DeepSieve


# Alternations between the posterior and the noise law, for one set of scores.
_LAW_ROUNDS = 3
# An automatic warm-up lasts at least _SHORTEST epochs, and ends after _STALE without progress.
_SHORTEST = 3
_STALE = 3


# Attributes that a resumed run builds again, or restores separately.
_NOT_STATE = {"rows", "Y", "seed", "params", "trust", "splits", "learners", "law"}


class Verdict(NamedTuple):
    """Judgement of the training rows after an epoch."""

    log_odds: Tensor
    Q: Tensor
    law: NoiseLaw
    calibration: Calibration


class CrossFit:
    """State of a training run: learners, confidences, noise law and best epoch.

    `params` is the estimator whose parameters set the length of the training.
    """

    def __init__(
        self,
        rows: NetworkInput,
        Y: Array,
        make: Callable[[int], Learner],
        params: "DeepSieve",
        seed: int,
    ):
        n, l = Y.shape
        self.rows = rows
        self.Y = torch.as_tensor(Y != 0)
        self.seed = seed
        self.params = params
        self.trust = not params.estimate_noise
        rng = np.random.default_rng([seed, 0])
        self.splits = split_rows(n, params.folds, rng)
        self.learners = [make(k) for k in range(len(self.splits))]
        self.Q = self.Y.float()
        self.law = NoiseLaw.independent(torch.full((l,), 0.1))
        self.n_iter = 0
        self.best_iter = 0
        self.moved = False
        self.best_score = -np.inf
        self.objective: list[float] = []
        self.held_out_score: list[float] = []
        # Weights, log-odds and confidences; noise law, slope and offset of the calibration.
        self.best: tuple[Any, ...] | None = None
        self.warmest: list[dict[str, Any]] = []

    def state(self) -> dict[str, Any]:
        """Return the state of the run as plain tensors, numbers, lists and dictionaries."""
        state = {name: value for name, value in vars(self).items() if name not in _NOT_STATE}
        learners = [learner.state() for learner in self.learners]
        return state | {"law": tuple(self.law), "learners": learners}

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from a state from `state`."""
        vars(self).update({name: state[name] for name in vars(self) if name not in _NOT_STATE})
        self.law = NoiseLaw(*state["law"])
        for learner, learner_state in zip(self.learners, state["learners"], strict=True):
            learner.restore(learner_state)

    @property
    def finished(self) -> bool:
        """Whether training is complete."""
        stale = self.n_iter - self.best_iter >= self.params.n_iter_no_change
        return self.n_iter >= self.params.max_iter or (self.best_iter > 0 and stale)

    def advance(self) -> None:
        """Train all networks for one epoch and update the confidences."""
        losses = [
            learner.epoch(self.rows, self.Q, train, (self.seed, 1 + self.n_iter, k))
            for k, (learner, (train, _)) in enumerate(zip(self.learners, self.splits, strict=True))
        ]
        self.n_iter += 1
        self.objective.append(losses[-1])
        verdict, score = self._judge()
        self.held_out_score.append(score)
        if not self.trust:
            warm_up_ends = not self.moved and self._warmed_up()
            if not self.moved and self.params.warm_up is None:
                verdict, score = self._watch_warm_up(verdict, score, warm_up_ends)
            if self.moved or warm_up_ends:
                self._move(verdict)
        # Epochs before the first update of the confidences are not eligible.
        if (self.moved or self.trust) and score > self.best_score:
            self._keep(verdict, score)

    def _move(self, verdict: Verdict) -> None:
        """Move the confidences towards the verdict; the first one replaces the candidates."""
        keep = self.params.momentum if self.moved else 0.0
        self.Q = torch.lerp(verdict.Q, self.Q, keep)
        self.law = verdict.law
        self.moved = True

    def _watch_warm_up(self, verdict: Verdict, score: float, ends: bool) -> tuple[Verdict, float]:
        """Remember the best epoch of the warm-up, and return to it when the warm-up ends.

        Networks that memorise their rows judge worse with every later epoch.
        """
        if score >= max(self.held_out_score):
            self.warmest = [learner.state() for learner in self.learners]
        elif ends:
            for learner, state in zip(self.learners, self.warmest, strict=True):
                learner.restore(state)
            verdict, score = self._judge()
            self.held_out_score[-1] = score
        if ends:
            self.warmest = []
        return verdict, score

    def _warmed_up(self) -> bool:
        """Whether the warm-up is over: further epochs would only fit the noise."""
        if self.params.warm_up is not None:
            return self.n_iter >= min(self.params.warm_up, self.params.max_iter)
        stale = self.n_iter - 1 - int(np.argmax(self.held_out_score))
        late = self.n_iter >= self.params.max_iter // 2
        return self.n_iter >= min(_SHORTEST, self.params.max_iter) and (stale >= _STALE or late)

    def _keep(self, verdict: Verdict, score: float) -> None:
        """Keep the weights of the predicting network as the best ones."""
        averaged = self.learners[-1].averaged.state_dict()
        weights = {k: v.detach().cpu().clone() for k, v in averaged.items()}
        calibration = verdict.calibration.slope, verdict.calibration.offset
        self.best = weights, verdict.log_odds, self.Q.clone(), tuple(verdict.law), calibration
        self.best_iter = self.n_iter
        self.best_score = score

    def _judge(self) -> tuple[Verdict, float]:
        """Judge all rows by networks not trained on them; return the verdict and its score."""
        logits, ridge = self._held_out()
        candidates = self.Y.numpy()
        score = held_out_score(candidates, logits.numpy())
        if self.trust:
            identity = Calibration(1.0, 0.0, 1e-4)
            return Verdict(logits, self.Q, self.law, identity), score
        calibration = calibrate(logits.numpy(), candidates)
        slope, offset, _ = calibrate(ridge.numpy(), candidates)
        by_network = calibration.slope * logits + calibration.offset
        log_odds = (by_network + (slope * ridge + offset)) / 2
        Q, law = self._posterior(log_odds.sigmoid(), calibration.noise_rate)
        return Verdict(log_odds, Q, law, calibration), score

    def _posterior(self, p: Tensor, first_rate: float) -> tuple[Tensor, NoiseLaw]:
        """Alternate between the posterior of the candidates and the noise law."""
        l = self.Y.shape[1]
        law = self.law if self.moved else NoiseLaw.independent(torch.full((l,), first_rate))
        for _ in range(_LAW_ROUNDS):
            sums = NoiseSums(l)
            sums.judge(p, self.Y, law)
            law = sums.law(self.params.counts)
        return row_posterior(p, self.Y, law).Q.float(), law

    def _held_out(self) -> tuple[Tensor, Tensor]:
        """Logits and ridge scores (n, l) of all rows by networks not trained on them."""
        network = torch.zeros(self.Q.shape)
        ridge = torch.zeros(self.Q.shape)
        # The last network learns from all rows.
        for learner, (train, held) in zip(self.learners[:-1], self.splits[:-1], strict=True):
            features, logits = learner.outputs(self.rows, held)
            network[held] = logits.cpu()
            if self.trust:
                continue
            train_features, _ = learner.outputs(self.rows, train)
            targets = self.Q[torch.as_tensor(train)].to(train_features.device)
            sums = RidgeSums(train_features.shape[1], self.Q.shape[1], train_features.device)
            sums.add(train_features, targets)
            ridge[held] = sums.solve().scores(features).cpu()
        return network, ridge


def held_out_score(candidates: Array, logits: Array) -> float:
    """Average precision on the candidates; negative cross-entropy if no row can be ranked."""
    ranked = candidates.any(axis=1) & ~candidates.all(axis=1)
    if ranked.any():
        return float(average_precision(candidates.astype(np.int8), logits))
    return -float(np.mean(np.logaddexp(0, np.where(candidates, -logits, logits))))


def split_rows(n: int, folds: int, rng: np.random.Generator) -> list[tuple[Array, Array]]:
    """Return the rows to train on and the rows to judge, for each network; the last predicts."""
    if n < 2:
        raise InputError(f"DeepSieve needs at least two rows, got n_samples={n}")
    fold = np.empty(n, dtype=int)
    folds = min(folds, n)
    fold[rng.permutation(n)] = np.arange(n) % folds
    splits = [(np.flatnonzero(fold != k), np.flatnonzero(fold == k)) for k in range(folds)]
    return [*splits, (np.arange(n), np.arange(0))]
