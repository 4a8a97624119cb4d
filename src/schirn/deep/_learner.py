"""Training of one network: optimiser steps, averaged weights and outputs."""

import copy
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor, nn

from schirn._input import Array
from schirn.deep.losses import soft_cross_entropy
from schirn.exceptions import InputError

if TYPE_CHECKING:
    from schirn.deep._deep_sieve import DeepSieve


_EVALUATION_ROWS = 1024


def mlp(n_features: int, hidden_sizes: Sequence[int], dropout: float) -> nn.Sequential:
    """Return linear layers, each followed by ReLU and dropout."""
    layers: list[nn.Module] = []
    for size, next_size in pairwise((n_features, *hidden_sizes)):
        layers += [nn.Linear(size, next_size), nn.ReLU(), nn.Dropout(dropout)]
    return nn.Sequential(*layers)


class Network(nn.Module):
    """A backbone followed by a linear layer, with output (features, logits)."""

    def __init__(self, backbone: nn.Module, n_features: int, n_labels: int):
        super().__init__()
        self.backbone = backbone
        self.linear = nn.Linear(n_features, n_labels)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return features and logits."""
        features = self.backbone(x)
        return features, self.linear(features)


def _batches(order: Array, size: int) -> list[Array]:
    """Split into batches of `size` rows; batch norm needs two, so a last single row joins."""
    ends = list(range(size, len(order), size))
    if ends and len(order) - ends[-1] == 1:
        ends.pop()
    return np.split(order, ends) if len(order) else []


class NetworkInput:
    """Scaled rows of X as tensors on a device; a sparse X is densified batch by batch."""

    def __init__(
        self,
        X: "Array | sp.csr_array",
        scaling: tuple[Array, Array],
        input_shape: Sequence[int] | None,
        device: str,
    ):
        self.sparse = sp.issparse(X)
        self.shape = input_shape
        self.device = device
        self.factor, self.shift = (torch.as_tensor(a, device=device) for a in scaling)
        self.X: Any = X if self.sparse else torch.as_tensor(_single(X), device=device)

    def __getitem__(self, rows: Array) -> Tensor:
        if self.sparse:
            x = torch.as_tensor(_single(self.X[rows].toarray()), device=self.device)
        else:
            x = self.X[torch.as_tensor(rows, device=self.device)]
        x = x * self.factor + self.shift
        return x if self.shape is None else x.reshape(len(x), *self.shape)


def _single(X: Array) -> Array:
    """Convert to single precision; larger values are clipped to its maximum."""
    top = np.finfo(np.float32).max
    return np.clip(X, -top, top).astype(np.float32)


@contextmanager
def seeded(device: str, *numbers: int) -> Iterator[None]:
    """Seed PyTorch inside the context, and restore its global random state afterwards."""
    devices = [torch.cuda.current_device()] if device.startswith("cuda") else []
    with torch.random.fork_rng(devices=devices):
        torch.manual_seed(int(np.random.SeedSequence(numbers).generate_state(1)[0]))
        yield


class Learner:
    """A network, the running average of its weights, and its optimiser.

    `params` is the estimator whose parameters set the steps of the optimiser.
    """

    def __init__(self, network: Network, params: "DeepSieve", device: str):
        self.network = network.to(device)
        self.params = params
        self.device = device
        self.averaged = copy.deepcopy(self.network)
        self.adam = torch.optim.AdamW(
            self.network.parameters(), lr=params.learning_rate, weight_decay=params.weight_decay
        )
        self.n_steps = 0

    def epoch(
        self, rows: NetworkInput, targets: Tensor, which: Array, seed: tuple[int, ...]
    ) -> float:
        """Train one pass over the rows `which`, and return the mean loss."""
        order = np.random.default_rng(seed).permutation(which)
        total = torch.zeros((), device=self.device)
        self.network.train(len(order) > 1)
        with seeded(self.device, *seed):
            for batch in _batches(order, self.params.batch_size):
                total += len(batch) * self.step(rows[batch], targets[torch.as_tensor(batch)])
        return float(total) / max(len(order), 1)

    def step(self, x: Tensor, targets: Tensor) -> Tensor:
        """Make one optimiser step, and return the loss of the batch."""
        with _precision(self.device, self.params.precision):
            _, logits = self.network(x)
        loss = soft_cross_entropy(logits.float(), targets, self.params.rank_weight)
        self.adam.zero_grad(set_to_none=True)
        loss.backward()
        self.adam.step()
        self._average()
        return loss.detach()

    def outputs(self, rows: NetworkInput, which: Array) -> tuple[Tensor, Tensor]:
        """Return features and logits of the rows `which` by the averaged weights."""
        return outputs(self.averaged.eval(), rows, which, self.params.precision)

    @torch.no_grad()
    def _average(self) -> None:
        self.n_steps += 1
        # Average over few steps at first, to forget the random initial weights.
        decay = min(self.params.average, (1 + self.n_steps) / (10 + self.n_steps))
        weights = zip(self.averaged.parameters(), self.network.parameters(), strict=True)
        for mean, weight in weights:
            mean.lerp_(weight, 1 - decay)
        for copied, buffer in zip(self.averaged.buffers(), self.network.buffers(), strict=True):
            copied.copy_(buffer)

    def state(self) -> dict[str, Any]:
        """Return a copy of everything the next step depends on."""
        state = {
            "network": self.network.state_dict(),
            "averaged": self.averaged.state_dict(),
            "adam": self.adam.state_dict(),
            "n_steps": self.n_steps,
        }
        return copy.deepcopy(state)

    def restore(self, state: dict[str, Any]) -> None:
        """Restore a state from `state`."""
        for name in ("network", "averaged", "adam"):
            getattr(self, name).load_state_dict(state[name])
        self.n_steps = state["n_steps"]


@torch.no_grad()
def outputs(
    network: nn.Module, rows: NetworkInput, which: Array, precision: str
) -> tuple[Tensor, Tensor]:
    """Return features and logits of the rows `which` by a network in evaluation mode."""
    batches = []
    for i in range(0, len(which), _EVALUATION_ROWS):
        with _precision(rows.device, precision):
            features, logits = network(rows[which[i : i + _EVALUATION_ROWS]])
        batches.append((features.float(), logits.float()))
    features, logits = zip(*batches, strict=True)
    return torch.cat(features), torch.cat(logits)


def _precision(device: str, precision: str) -> Any:
    kind = torch.device(device).type
    return torch.autocast(kind, torch.bfloat16, enabled=precision == "bfloat16")


def n_outputs(backbone: nn.Module, rows: NetworkInput) -> int:
    """Return the number of features of a backbone's output."""
    backbone.eval()
    with torch.no_grad():
        features = backbone.to(rows.device)(rows[np.zeros(1, dtype=int)])
    if not isinstance(features, Tensor) or features.ndim != 2:
        got = tuple(features.shape) if isinstance(features, Tensor) else type(features).__name__
        raise InputError(
            f"the module must return one feature vector per row; for 1 row it returned {got}"
        )
    return int(features.shape[1])
