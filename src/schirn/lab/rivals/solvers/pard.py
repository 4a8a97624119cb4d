"""PARD without a model of the features: a network, and a posterior of the labels in closed form.

The lower bound splits: for fixed outputs p its best posterior q is one line per cell, for fixed q
the rates rho are averages, and for fixed q and rho the network minimises a cross-entropy. An epoch
does the three in turn. Mini-batches are rows of X in its own container, and the shift of the
scaling is added behind the product with the first layer, so that a sparse X stays sparse.
"""

from typing import Any, NamedTuple, Protocol

import numpy as np
import scipy.sparse as sp
from scipy.special import expit, log_expit, logit, xlogy

from schirn._input import Array
from schirn._progress import track
from schirn.linalg.scaling import Scaling

_BLOCK_ROWS = 4096


class Network(NamedTuple):
    """One hidden layer: f(x) = relu(x W1 + b1) W2 + b2."""

    W1: Array
    b1: Array
    W2: Array
    b2: Array

    def __call__(self, X: "Array | sp.csr_array") -> Array:
        """Outputs (n, l) before the sigmoid."""
        return np.vstack([self._outputs(X[rows]) for rows in blocks(X.shape[0])])

    def _outputs(self, X: "Array | sp.csr_array") -> Array:
        hidden = np.asarray(X @ self.W1) + self.b1
        np.maximum(hidden, 0, out=hidden)
        return hidden @ self.W2 + self.b2

    def for_raw_features(self, scaling: Scaling) -> "Network":
        """The network that takes the features as they were before the scaling."""
        shifted = self.b1 + scaling.shift @ self.W1
        return self._replace(W1=self.W1 * scaling.factor[:, None], b1=shifted)


class LabelModel(NamedTuple):
    """How candidates arise: labels are true with prior pi, and false ones listed at rate rho."""

    pi: Array
    rho: Array
    beta_y: float
    beta_0: float

    def posterior(self, f: Array, S: Array) -> Array:
        """The q that maximises the bound for network outputs f; 0 outside the candidates S."""
        evidence = self.beta_y * f + (self.beta_0 * logit(self.pi) - np.log(self.rho))
        return S * expit(evidence / (self.beta_y + self.beta_0))

    def bound(self, f: Array, S: Array, q: Array) -> float:
        """Lower bound per row: the listing of false labels less the two divergences of q."""
        listed = (1 - q) * np.where(S > 0, np.log(self.rho), np.log1p(-self.rho))
        entropy = xlogy(q, q) + xlogy(1 - q, 1 - q)
        from_p = entropy - q * log_expit(f) - (1 - q) * log_expit(-f)
        from_pi = entropy - q * np.log(self.pi) - (1 - q) * np.log1p(-self.pi)
        total = listed - self.beta_y * from_p - self.beta_0 * from_pi
        return float(total.sum(dtype=np.float64)) / len(S)

    def with_rates(self, S: Array, q: Array) -> "LabelModel":
        """The rates rho that maximise the bound for the posterior q, kept in [0.001, 0.95]."""
        false = np.sum(1 - q, axis=0, dtype=np.float64)
        listed = np.sum(S * (1 - q), axis=0, dtype=np.float64)
        rho = np.clip(listed / np.maximum(false, 1e-12), 1e-3, 0.95)
        return self._replace(rho=rho.astype(self.rho.dtype))


def initial_labels(S: Array, beta_y: float, beta_0: float) -> LabelModel:
    """Prior and rate both half of the candidate frequency of the label."""
    half = S.mean(axis=0, dtype=np.float64) / 2
    pi, rho = (np.clip(half, 1e-3, top).astype(S.dtype) for top in (0.5, 0.95))
    return LabelModel(pi, rho, float(beta_y), float(beta_0))


class Features(NamedTuple):
    """Rows scaled on demand; a sparse X is scaled once and its shift is kept apart."""

    X: "Array | sp.csr_array"
    scaling: Scaling

    @classmethod
    def of(cls, X: "Array | sp.csr_array", scaling: Scaling) -> "Features":
        """The features of X under the scaling."""
        if not sp.issparse(X):
            return cls(X, scaling)
        ones = np.ones_like(scaling.factor)
        return cls(sp.csr_array(X * scaling.factor[None, :]), Scaling(ones, scaling.shift))

    def rows(self, rows: Any) -> tuple[Any, Array]:
        """Some rows, and the shift still to be added to each of them."""
        if sp.issparse(self.X):
            return self.X[rows], self.scaling.shift
        scaled = self.X[rows] * self.scaling.factor + self.scaling.shift
        return scaled, np.zeros_like(self.scaling.shift)

    def dense_rows(self, rows: Any) -> Array:
        """Some rows as an array."""
        scaled, shift = self.rows(rows)
        return scaled.toarray() + shift if sp.issparse(scaled) else scaled


class PARDResult(NamedTuple):
    """The network for raw features, the label model, the posterior, and bounds per epoch."""

    network: Network
    labels: LabelModel
    q: Array
    scores: Array
    n_iter: int
    bound: Array
    held_out_bound: Array


class Schedule(NamedTuple):
    """How long to train, and on which rows.

    The first `warm_up` epochs have q = s. With a `validation_fraction` that share of the rows is
    held out; the epoch with their largest bound is kept, and training stops `n_iter_no_change`
    epochs after it.
    """

    max_iter: int = 60
    warm_up: int = 5
    batch_size: int = 128
    validation_fraction: float = 0.0
    n_iter_no_change: int = 10


class Trainer(Protocol):
    """The interface of a model that `train` drives; rows are given by index."""

    def step(self, rows: Array, q: Array, labels: LabelModel, warm: bool) -> None:
        """One mini-batch with the posterior q of its rows."""

    def assess(self, rows: Array, labels: LabelModel) -> tuple[Array, float]:
        """The posterior of the rows that the model has now, and their bound."""

    def state(self) -> Any:
        """A copy of the parameters."""

    def restore(self, state: Any) -> None:
        """Go back to such a copy."""

    def network(self) -> Network:
        """The network for scaled features."""


def pard(
    X: "Array | sp.csr_array",
    Y: Array,
    *,
    scaling: Scaling,
    beta_y: float = 1.0,
    beta_0: float = 0.1,
    hidden_size: int = 256,
    learning_rate: float = 1e-3,
    weight_decay: float = 1e-4,
    schedule: Schedule,
    seed: int | None = 0,
) -> PARDResult:
    """Maximise the lower bound of the candidates over the network f, the posterior q and rho.

    Per row, with p = sigmoid(f(x)) and candidates s:
    sum_j (1 - q_j) (s_j log rho_j + (1 - s_j) log(1 - rho_j)) - beta_y KL(q_j || p_j)
    - beta_0 KL(q_j || pi_j),  q_j = 0 where s_j = 0.

    Parameters
    ----------
    X : (n, d) array or CSR array
    scaling : Scaling
        Scales the features to [0, 1].
    Y : (n, l) array
        Candidates, 0/1.
    """
    rng = np.random.default_rng(seed)
    S = np.ascontiguousarray(Y != 0, dtype=X.dtype)
    start = initial_network(X.shape[1], hidden_size, S.shape[1], rng, X.dtype)
    trainer = _Backpropagation(Features.of(X, scaling), S, start, learning_rate, weight_decay)
    return train(trainer, X, S, scaling, (beta_y, beta_0), schedule, rng)


def initial_network(
    d: int, hidden: int, l: int, rng: np.random.Generator, dtype: np.dtype
) -> Network:
    """Normal weights of variance two over the number of inputs, zero offsets."""
    W1, W2 = (
        (rng.normal(size=(size, out)) * np.sqrt(2 / size)).astype(dtype)
        for size, out in ((d, hidden), (hidden, l))
    )
    return Network(W1, np.zeros(hidden, dtype=dtype), W2, np.zeros(l, dtype=dtype))


def train(
    trainer: Trainer,
    X: "Array | sp.csr_array",
    S: Array,
    scaling: Scaling,
    betas: tuple[float, float],
    schedule: Schedule,
    rng: np.random.Generator,
) -> PARDResult:
    """Epochs of mini-batches; posterior and rates are renewed between them."""
    rows, held_out = _hold_out(len(S), schedule.validation_fraction, rng)
    labels = initial_labels(S[rows], *betas)
    q, trace, best = S[rows], [], _Best()
    epochs = range(1, schedule.max_iter + 1)
    for n_iter in track(epochs, "epoch", may_stop=len(held_out) > 0):
        warm = n_iter <= schedule.warm_up
        order = rng.permutation(len(rows))
        for batch in np.split(order, range(schedule.batch_size, len(rows), schedule.batch_size)):
            trainer.step(rows[batch], q[batch], labels, warm)
        current, bound = trainer.assess(rows, labels)
        trace.append(bound)
        if len(held_out):
            best.look(trainer, labels, trainer.assess(held_out, labels)[1], warm)
        if n_iter == schedule.max_iter or best.age > schedule.n_iter_no_change:
            break
        if n_iter >= schedule.warm_up:
            q, labels = current, labels.with_rates(S[rows], current)
    if best.kept is not None:
        state, labels = best.kept
        trainer.restore(state)
    network = trainer.network().for_raw_features(scaling)
    q = trainer.assess(np.arange(len(S)), labels)[0]
    bounds = np.array(trace), np.array(best.bounds)
    return PARDResult(network, labels, q, network(X), n_iter, *bounds)


class _Best:
    """The state with the largest held-out bound after the warm-up."""

    def __init__(self) -> None:
        self.bounds: list[float] = []
        self.age, self._bound = 0, -np.inf
        self.kept: tuple[Any, LabelModel] | None = None

    def look(self, trainer: Trainer, labels: LabelModel, bound: float, warm: bool) -> None:
        """Keep the state if its bound is the largest so far."""
        self.bounds.append(bound)
        if warm:
            return
        self.age += 1
        if bound > self._bound:
            self.age, self._bound = 0, bound
            self.kept = trainer.state(), labels


def _hold_out(n: int, fraction: float, rng: np.random.Generator) -> tuple[Array, Array]:
    """Sorted indices of training and held-out rows; at least one of each if any is held out."""
    size = min(max(round(fraction * n), 1), n - 1) if fraction else 0
    order = rng.permutation(n) if size else np.arange(n)
    return np.sort(order[size:]), np.sort(order[:size])


class Adam:
    """Adam steps with an L2 weight decay added to the gradient."""

    def __init__(
        self,
        parameters: Array,
        learning_rate: float,
        weight_decay: float = 0.0,
        decays: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
    ):
        self.parameters = parameters
        self.learning_rate, self.weight_decay = learning_rate, weight_decay
        self.decays, self.eps = decays, eps
        self.mean, self.square = np.zeros_like(parameters), np.zeros_like(parameters)
        self._scratch = np.empty_like(parameters)
        self.n_steps = 0

    def step(self, gradient: Array) -> None:
        """Update the parameters; overwrites `gradient`."""
        self.n_steps += 1
        first, second = self.decays
        np.multiply(self.parameters, self.weight_decay, out=self._scratch)
        gradient += self._scratch
        self.mean *= first
        np.multiply(gradient, 1 - first, out=self._scratch)
        self.mean += self._scratch
        self.square *= second
        gradient *= gradient
        gradient *= 1 - second
        self.square += gradient
        # lr (mean / (1 - first^t)) / (sqrt(square / (1 - second^t)) + eps)
        np.sqrt(self.square, out=gradient)
        gradient /= np.sqrt(1 - second**self.n_steps)
        gradient += self.eps
        np.divide(self.mean, gradient, out=self._scratch)
        self._scratch *= self.learning_rate / (1 - first**self.n_steps)
        self.parameters -= self._scratch


class _Backpropagation:
    """The network and the gradient of its cross-entropy, written out."""

    def __init__(
        self,
        features: Features,
        S: Array,
        start: Network,
        learning_rate: float,
        weight_decay: float,
    ):
        self.features, self.S = features, S
        self._parameters = np.concatenate([array.ravel() for array in start])
        self._gradient = np.empty_like(self._parameters)
        self._net, self._slope = (_views(v, start) for v in (self._parameters, self._gradient))
        self._adam = Adam(self._parameters, learning_rate, weight_decay)

    def step(self, rows: Array, q: Array, labels: LabelModel, warm: bool) -> None:
        """One Adam step on the cross-entropy of q and the outputs."""
        net, slope = self._net, self._slope
        x, shift, hidden = self._hidden(rows)
        G = (expit(hidden @ net.W2 + net.b2) - q) / len(rows)
        np.matmul(hidden.T, G, out=slope.W2)
        np.sum(G, axis=0, out=slope.b2)
        H = (G @ net.W2.T) * (hidden > 0)
        np.sum(H, axis=0, out=slope.b1)
        slope.W1[...] = x.T @ H
        if shift.any():
            slope.W1[...] += np.outer(shift, slope.b1)
        self._adam.step(self._gradient)

    def _hidden(self, rows: Any) -> tuple[Any, Array, Array]:
        """Features of the rows, their shift, and the hidden layer."""
        x, shift = self.features.rows(rows)
        hidden = np.asarray(x @ self._net.W1) + (self._net.b1 + shift @ self._net.W1)
        np.maximum(hidden, 0, out=hidden)
        return x, shift, hidden

    def assess(self, rows: Array, labels: LabelModel) -> tuple[Array, float]:
        """The best posterior for the outputs of the network, and the bound."""
        outputs = [self._hidden(rows[block])[2] @ self._net.W2 for block in blocks(len(rows))]
        f, S = np.vstack(outputs) + self._net.b2, self.S[rows]
        q = labels.posterior(f, S)
        return q, labels.bound(f, S, q)

    def state(self) -> Array:
        """A copy of the parameters."""
        return self._parameters.copy()

    def restore(self, state: Array) -> None:
        """Go back to such a copy."""
        self._parameters[...] = state

    def network(self) -> Network:
        """A copy of the network."""
        return Network(*(array.copy() for array in self._net))


def _views(flat: Array, like: Network) -> Network:
    """Views of a flat vector in the shapes of a network."""
    ends = np.cumsum([array.size for array in like])[:-1]
    views = zip(np.split(flat, ends), like, strict=True)
    return Network(*(view.reshape(array.shape) for view, array in views))


def blocks(n: int) -> list[slice]:
    """Slices that cover n rows."""
    return [slice(i, min(i + _BLOCK_ROWS, n)) for i in range(0, n, _BLOCK_ROWS)]
