"""PARD with a model of the features, by stochastic gradients in PyTorch.

Four networks are trained together on one bound: f predicts the labels, g is the posterior of the
labels, and an encoder and a decoder explain the features by the labels and a latent z. The labels
enter the decoder as their means q, so that only z is sampled. Weights start, and noise and batches
are drawn, in numpy: the device does not change them. Nothing of torch is returned.
"""

from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from schirn._input import Array
from schirn._optional import optional
from schirn.lab.rivals.solvers.pard import (
    Features,
    LabelModel,
    Network,
    PARDResult,
    Schedule,
    blocks,
    train,
)
from schirn.linalg.arrays import pick_device
from schirn.linalg.scaling import Scaling

Tensor = Any

_ENCODER, _DECODER, _POSTERIOR = (256, 512, 256), (256, 512), (256, 512)
_LOG_VARIANCE = 10.0


def pard_with_features(
    X: "Array | sp.csr_array",
    Y: Array,
    *,
    scaling: Scaling,
    feature_weight: float,
    feature_noise: float = 1.0,
    latent_size: int = 50,
    beta_y: float = 1.0,
    beta_0: float = 0.1,
    hidden_size: int = 256,
    learning_rate: float = 1e-3,
    weight_decay: float = 1e-4,
    schedule: Schedule,
    device: str = "auto",
    seed: int | None = 0,
) -> PARDResult:
    """Maximise the bound of `pard` plus feature_weight times a bound of the features.

    The added bound is -||x - dec(q, z)||^2 / (2 sigma^2) - KL(N(m, v) || N(0, I)) per row, with
    (m, log v) = enc(x, q) and one draw z from N(m, v); sigma is `feature_noise`. The posterior is
    q_j = s_j sigmoid(g_j(x, s)). In the warm-up f, encoder and decoder see q = s, and g follows
    the bound alone.

    Parameters
    ----------
    X : (n, d) array or CSR array
    scaling : Scaling
        Scales the features to [0, 1].
    Y : (n, l) array
        Candidates, 0/1.
    device : {"auto", "cpu", "cuda"}
        A dense X is copied to a GPU as a whole.
    """
    rng = np.random.default_rng(seed)
    S = np.ascontiguousarray(Y != 0, dtype=X.dtype)
    d, l = X.shape[1], S.shape[1]
    networks = _Networks(
        _layers((d, hidden_size, l), rng, X.dtype),
        _layers((d + l, *_POSTERIOR, l), rng, X.dtype),
        _layers((d + l, *_ENCODER, 2 * latent_size), rng, X.dtype),
        _layers((l + latent_size, *_DECODER, d), rng, X.dtype),
    )
    trainer = _Variational(
        Features.of(X, scaling),
        S,
        networks,
        (feature_weight, feature_noise),
        (learning_rate, weight_decay),
        rng.spawn(1)[0],
        pick_device(_torch(), device),
    )
    return train(trainer, X, S, scaling, (beta_y, beta_0), schedule, rng)


def _torch() -> Any:
    return optional("torch", "deep", "PARD with feature_weight > 0")


class _Networks(NamedTuple):
    """Predictor f, posterior g, encoder and decoder: lists of weights and offsets in turn."""

    f: list[Any]
    g: list[Any]
    encoder: list[Any]
    decoder: list[Any]


def _layers(sizes: tuple[int, ...], rng: np.random.Generator, dtype: np.dtype) -> list[Array]:
    """Normal weights of variance two over the number of inputs, zero offsets."""
    layers = []
    for size, out in pairwise(sizes):
        W = rng.normal(size=(size, out)) * np.sqrt(2 / size)
        layers += [W.astype(dtype), np.zeros(out, dtype=dtype)]
    return layers


def _apply(layers: list[Tensor], x: Tensor) -> Tensor:
    """A network with ReLU between its layers."""
    for k in range(0, len(layers), 2):
        x = (x.relu() if k else x) @ layers[k] + layers[k + 1]
    return x


class _Variational:
    """The four networks, their loss and their optimiser."""

    def __init__(
        self,
        features: Features,
        S: Array,
        networks: _Networks,
        feature_terms: tuple[float, float],
        steps: tuple[float, float],
        rng: np.random.Generator,
        device: str,
    ):
        self.torch = _torch()
        self.features, self.S, self.rng, self.device = features, S, rng, device
        self.weight, self.sigma = feature_terms
        self.on_device = _OnDevice.of(self.torch, features, device)
        self.net = _Networks(
            *([self._tensor(array).requires_grad_() for array in net] for net in networks)
        )
        self.parameters = [tensor for net in self.net for tensor in net]
        self.adam = self.torch.optim.Adam(self.parameters, lr=steps[0], weight_decay=steps[1])

    def step(self, rows: Array, q: Array, labels: LabelModel, warm: bool) -> None:
        """One Adam step on minus the bound, with one draw of z per row."""
        x, s = self._rows(rows)
        f, own, entropy = self._label_parts(x, s)
        if warm:
            # f and the decoder see q = s; g follows its own bound at the present outputs.
            y = s
            loss = -self._label_bound(f, s, s, 0.0, labels)
            loss = loss - self._label_bound(f.detach(), s, own, entropy, labels)
        else:
            y = own
            loss = -self._label_bound(f, s, own, entropy, labels)
        noise = self.rng.normal(size=(len(rows), self.net.decoder[0].shape[0] - s.shape[1]))
        loss = loss - self.weight * self._feature_bound(x, y, self._tensor(noise).to(x.dtype))
        self.adam.zero_grad(set_to_none=True)
        (loss / len(rows)).backward()
        self.adam.step()

    def assess(self, rows: Array, labels: LabelModel) -> tuple[Array, float]:
        """The posterior by g, and the bound with z at its mean."""
        posteriors, total = [], 0.0
        with self.torch.no_grad():
            for block in blocks(len(rows)):
                x, s = self._rows(rows[block])
                f, own, entropy = self._label_parts(x, s)
                bound = self._label_bound(f, s, own, entropy, labels)
                total += float(bound + self.weight * self._feature_bound(x, own, None))
                posteriors.append(own.cpu().numpy())
        return np.vstack(posteriors), total / len(rows)

    def state(self) -> list[Tensor]:
        """A copy of the parameters."""
        return [tensor.detach().clone() for tensor in self.parameters]

    def restore(self, state: list[Tensor]) -> None:
        """Go back to such a copy."""
        with self.torch.no_grad():
            for tensor, saved in zip(self.parameters, state, strict=True):
                tensor.copy_(saved)

    def network(self) -> Network:
        """The predictor f, as arrays."""
        return Network(*(tensor.detach().cpu().numpy().copy() for tensor in self.net.f))

    def _rows(self, rows: Array) -> tuple[Tensor, Tensor]:
        """Scaled features and candidates of some rows, on the device."""
        s = self._tensor(self.S[rows])
        if self.on_device is None:
            return self._tensor(self.features.dense_rows(rows)), s
        return self.on_device.rows(rows), s

    def _tensor(self, array: Array) -> Tensor:
        return self.torch.as_tensor(array, device=self.device)

    def _label_parts(self, x: Tensor, s: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Outputs f, the posterior by g, and minus its entropy.

        The entropy is written in the logits: its slope in q is infinite where q is 0.
        """
        log_sigmoid = self.torch.nn.functional.logsigmoid
        logits = _apply(self.net.g, self.torch.cat([x, s], dim=1))
        c = logits.sigmoid()
        entropy = s * (c * log_sigmoid(logits) + (1 - c) * log_sigmoid(-logits))
        return _apply(self.net.f, x), s * c, entropy

    def _label_bound(
        self, f: Tensor, s: Tensor, q: Tensor, entropy: Any, labels: LabelModel
    ) -> Tensor:
        """Sum over the rows of the bound of the candidates."""
        log_sigmoid = self.torch.nn.functional.logsigmoid
        pi, rho = self._tensor(labels.pi), self._tensor(labels.rho)
        listed = (1 - q) * (s * rho.log() + (1 - s) * (1 - rho).log())
        from_p = entropy - q * log_sigmoid(f) - (1 - q) * log_sigmoid(-f)
        from_pi = entropy - q * pi.log() - (1 - q) * (1 - pi).log()
        return (listed - labels.beta_y * from_p - labels.beta_0 * from_pi).sum()

    def _feature_bound(self, x: Tensor, y: Tensor, noise: Tensor | None) -> Tensor:
        """Sum over the rows of the bound of the features, without the constant of sigma."""
        mean, log_v = _apply(self.net.encoder, self.torch.cat([x, y], dim=1)).chunk(2, dim=1)
        log_v = log_v.clamp(-_LOG_VARIANCE, _LOG_VARIANCE)
        z = mean if noise is None else mean + (log_v / 2).exp() * noise
        left = x - _apply(self.net.decoder, self.torch.cat([y, z], dim=1))
        divergence = (mean**2 + log_v.exp() - 1 - log_v).sum() / 2
        return -(left**2).sum() / (2 * self.sigma**2) - divergence


class _OnDevice(NamedTuple):
    """A dense X kept on a GPU, with its scaling."""

    torch: Any
    X: Tensor
    factor: Tensor
    shift: Tensor

    @classmethod
    def of(cls, torch: Any, features: Features, device: str) -> "_OnDevice | None":
        """None if X is sparse or stays in main memory."""
        if device == "cpu" or sp.issparse(features.X):
            return None
        arrays = (features.X, *features.scaling)
        return cls(torch, *(torch.as_tensor(array, device=device) for array in arrays))

    def rows(self, rows: Array) -> Tensor:
        """Some scaled rows."""
        index = self.torch.as_tensor(rows, device=self.X.device)
        return self.X[index] * self.factor + self.shift
