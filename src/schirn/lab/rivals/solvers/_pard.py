"""PARD: a network, and a posterior of the labels in closed form.

The lower bound splits: for fixed outputs p its best posterior q is one line per cell, for fixed q
the rates rho are averages, and for fixed q and rho the network minimises a cross-entropy. An epoch
does the three in turn. Mini-batches are rows of X in its own container, and the shift of the
scaling is added behind the product with the first layer, so that a sparse X stays sparse.
"""

import copy
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.special import expit, log_expit, logit, xlogy
from sklearn.utils import gen_batches

from schirn._input import Array
from schirn._progress import track
from schirn.lab.rivals.solvers._scaling import Scaling

_BLOCK_ROWS = 4096
# Constants of Adam: decays of the averages of the gradient and of its square, and the term that
# keeps the division finite.
_DECAYS = 0.9, 0.999
_EPS = 1e-8


class Network(NamedTuple):
    """One hidden layer: f(x) = relu(x W1 + b1) W2 + b2."""

    W1: Array
    b1: Array
    W2: Array
    b2: Array

    def __call__(self, X: "Array | sp.csr_array") -> Array:
        """Outputs (n, l) before the sigmoid."""
        return np.vstack([self._outputs(X[rows]) for rows in gen_batches(X.shape[0], _BLOCK_ROWS)])

    def _outputs(self, X: "Array | sp.csr_array") -> Array:
        hidden = np.asarray(X @ self.W1) + self.b1
        np.maximum(hidden, 0, out=hidden)
        return hidden @ self.W2 + self.b2

    def for_raw_features(self, scaling: Scaling) -> "Network":
        """The network that takes the features as they were before the scaling."""
        shifted = self.b1 + scaling.shift @ self.W1
        return self._replace(W1=self.W1 * scaling.factor[:, None], b1=shifted)


class LabelModel(NamedTuple):
    """Model of the candidates: labels are true with prior pi, and false ones listed at rate rho."""

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
        false_terms = (1 - q) * np.where(S > 0, np.log(self.rho), np.log1p(-self.rho))
        entropy = xlogy(q, q) + xlogy(1 - q, 1 - q)
        from_p = entropy - q * log_expit(f) - (1 - q) * log_expit(-f)
        from_pi = entropy - q * np.log(self.pi) - (1 - q) * np.log1p(-self.pi)
        total = false_terms - self.beta_y * from_p - self.beta_0 * from_pi
        return float(total.sum(dtype=np.float64)) / len(S)

    def with_rates(self, S: Array, q: Array) -> "LabelModel":
        """The rates rho that maximise the bound for the posterior q, kept in [0.001, 0.95]."""
        false = np.sum(1 - q, axis=0, dtype=np.float64)
        counts = np.sum(S * (1 - q), axis=0, dtype=np.float64)
        rho = np.clip(counts / np.maximum(false, 1e-12), 1e-3, 0.95)
        return self._replace(rho=rho.astype(self.rho.dtype))


def initial_labels(S: Array, beta_y: float, beta_0: float) -> LabelModel:
    """Prior and rate both half of the candidate frequency of the label."""
    half = S.mean(axis=0, dtype=np.float64) / 2
    pi, rho = (np.clip(half, 1e-3, top).astype(S.dtype) for top in (0.5, 0.95))
    return LabelModel(pi, rho, float(beta_y), float(beta_0))


class PARDResult(NamedTuple):
    """The network for raw features, the label model, the posterior, and bounds per epoch."""

    network: Network
    labels: LabelModel
    q: Array
    scores: Array
    n_iter: int
    bound: Array
    held_out_bound: Array


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
    max_iter: int = 60,
    warm_up: int = 5,
    batch_size: int = 128,
    validation_fraction: float = 0.0,
    n_iter_no_change: int = 10,
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
    warm_up : int
        Number of initial epochs with q = s.
    validation_fraction : float
        Share of the rows that is held out. The epoch with their largest bound is kept, and training
        stops `n_iter_no_change` epochs after it.
    """
    rng = np.random.default_rng(seed)
    S = np.ascontiguousarray(Y != 0, dtype=X.dtype)
    start = initial_network(X.shape[1], hidden_size, S.shape[1], rng, X.dtype)
    trainer = _Trainer(X, scaling, S, start, learning_rate, weight_decay)
    rows, held_out = _hold_out(len(S), validation_fraction, rng)
    labels = initial_labels(S[rows], beta_y, beta_0)
    q = S[rows]
    bounds = list[float]()
    held_out_bounds = list[float]()
    best = None
    best_bound = -np.inf
    best_epoch = warm_up
    for n_iter in track(range(1, max_iter + 1), "epoch", may_stop=len(held_out) > 0):
        trainer.epoch(rows, q, batch_size, rng)
        current, bound = trainer.assess(rows, labels)
        bounds.append(bound)
        if len(held_out):
            bound = trainer.assess(held_out, labels)[1]
            held_out_bounds.append(bound)
            if n_iter > warm_up and bound > best_bound:
                best_bound = bound
                best_epoch = n_iter
                best = trainer.parameters.copy(), labels
            if n_iter - best_epoch > n_iter_no_change:
                break
        if warm_up <= n_iter < max_iter:
            q = current
            labels = labels.with_rates(S[rows], current)
    if best is not None:
        trainer.parameters[...], labels = best
    network = trainer.raw_network()
    q = trainer.assess(np.arange(len(S)), labels)[0]
    traces = np.array(bounds), np.array(held_out_bounds)
    return PARDResult(network, labels, q, network(X), n_iter, *traces)


class Schedule(NamedTuple):
    """The parameters of PARD that networks of one search may differ in."""

    beta_0: float
    warm_up: int
    max_iter: int

    @property
    def branches_at(self) -> int:
        """Last epoch with q = s; the first one always has it."""
        return max(self.warm_up, 1)


def networks_of_schedules(
    X: "Array | sp.csr_array",
    Y: Array,
    schedules: Sequence[Schedule],
    *,
    scaling: Scaling,
    beta_y: float = 1.0,
    hidden_size: int = 256,
    learning_rate: float = 1e-3,
    weight_decay: float = 1e-4,
    batch_size: int = 128,
    seed: int | None = 0,
) -> dict[Schedule, Network]:
    """The networks that `pard` ends with, all from one training that branches.

    Until the end of the warm-up nothing depends on `beta_0`, and a shorter training is the
    beginning of a longer one. No epoch is run twice.

    Parameters
    ----------
    X : (n, d) array or CSR array
    Y : (n, l) array
        Candidates, 0/1.
    schedules : list of Schedule
    scaling, beta_y, hidden_size, learning_rate, weight_decay, batch_size, seed
        As in `pard`, which is called without held-out rows.

    Returns
    -------
    dict of Schedule to Network
        Networks for raw features.
    """
    rng = np.random.default_rng(seed)
    S = np.ascontiguousarray(Y != 0, dtype=X.dtype)
    start = initial_network(X.shape[1], hidden_size, S.shape[1], rng, X.dtype)
    trainer = _Trainer(X, scaling, S, start, learning_rate, weight_decay)
    rows = np.arange(len(S))
    networks: dict[Schedule, Network] = {}
    last_warm_up = max(min(s.branches_at, s.max_iter) for s in schedules)
    for n_iter in track(range(1, last_warm_up + 1), "epoch of the warm-up"):
        trainer.epoch(rows, S, batch_size, rng)
        ended = [s for s in schedules if s.max_iter == n_iter <= s.branches_at]
        networks.update({schedule: trainer.raw_network() for schedule in ended})
        branching = [s for s in schedules if s.branches_at == n_iter < s.max_iter]
        for beta_0 in dict.fromkeys(schedule.beta_0 for schedule in branching):
            branch = [s for s in branching if s.beta_0 == beta_0]
            labels = initial_labels(S, beta_y, beta_0)
            # The random numbers of a branch are those that follow the warm-up.
            networks |= _finish_branch(
                trainer.copy(), rows, labels, branch, batch_size, copy.deepcopy(rng)
            )
    return networks


def _finish_branch(
    trainer: "_Trainer",
    rows: Array,
    labels: LabelModel,
    schedules: Sequence[Schedule],
    batch_size: int,
    rng: np.random.Generator,
) -> dict[Schedule, Network]:
    """Networks of schedules that differ in the last epoch alone, from the end of the warm-up."""
    networks = {}
    last = max(schedule.max_iter for schedule in schedules)
    for n_iter in track(range(schedules[0].branches_at + 1, last + 1), "epoch"):
        q, _ = trainer.assess(rows, labels)
        labels = labels.with_rates(trainer.S[rows], q)
        trainer.epoch(rows, q, batch_size, rng)
        ended = [s for s in schedules if s.max_iter == n_iter]
        networks.update({schedule: trainer.raw_network() for schedule in ended})
    return networks


def initial_network(
    d: int, hidden: int, l: int, rng: np.random.Generator, dtype: np.dtype
) -> Network:
    """Normal weights of variance two over the number of inputs, zero offsets."""
    W1, W2 = (
        (rng.normal(size=(size, width)) * np.sqrt(2 / size)).astype(dtype)
        for size, width in ((d, hidden), (hidden, l))
    )
    return Network(W1, np.zeros(hidden, dtype=dtype), W2, np.zeros(l, dtype=dtype))


def _hold_out(n: int, fraction: float, rng: np.random.Generator) -> tuple[Array, Array]:
    """Sorted indices of training and held-out rows; at least one of each if any is held out."""
    size = min(max(round(fraction * n), 1), n - 1) if fraction else 0
    order = rng.permutation(n) if size else np.arange(n)
    return np.sort(order[size:]), np.sort(order[:size])


class Adam:
    """Adam steps with an L2 weight decay added to the gradient.

    The averages are kept without the factors 1 - decay, which enter as two numbers at the end: the
    steps are bound by memory, and every pass over the parameters counts.
    """

    def __init__(self, parameters: Array, learning_rate: float, weight_decay: float = 0.0):
        self.parameters = parameters
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self._mean = np.zeros_like(parameters)
        self._square = np.zeros_like(parameters)
        self._scratch = np.empty_like(parameters)
        self.n_steps = 0

    def copy(self, parameters: Array) -> "Adam":
        """The same averages for other parameters."""
        other = Adam(parameters, self.learning_rate, self.weight_decay)
        other._mean[...] = self._mean
        other._square[...] = self._square
        other.n_steps = self.n_steps
        return other

    def step(self, gradient: Array) -> None:
        """Update the parameters; overwrites `gradient`."""
        self.n_steps += 1
        first, second = _DECAYS
        np.multiply(self.parameters, self.weight_decay, out=self._scratch)
        gradient += self._scratch
        self._mean *= first
        self._mean += gradient
        self._square *= second
        gradient *= gradient
        self._square += gradient
        # lr (mean / (1 - first^t)) / (sqrt(square / (1 - second^t)) + eps)
        mean_scale = (1 - first) / (1 - first**self.n_steps)
        root_scale = np.sqrt((1 - second) / (1 - second**self.n_steps))
        np.sqrt(self._square, out=gradient)
        gradient += _EPS / root_scale
        np.divide(self._mean, gradient, out=self._scratch)
        self._scratch *= self.learning_rate * mean_scale / root_scale
        self.parameters -= self._scratch


class _Trainer:
    """The network, whose arrays are views of `parameters`, and its Adam steps."""

    def __init__(
        self,
        X: "Array | sp.csr_array",
        scaling: Scaling,
        S: Array,
        start: Network,
        learning_rate: float,
        weight_decay: float,
    ):
        # A sparse X is scaled once, without its shift; dense rows are scaled on demand.
        self.X = scaling.apply(X) if sp.issparse(X) else X
        self.scaling = scaling
        self.S = S
        self.parameters = np.concatenate([array.ravel() for array in start])
        self._gradient = np.empty_like(self.parameters)
        self.network, self._slope = (_views(v, start) for v in (self.parameters, self._gradient))
        self._adam = Adam(self.parameters, learning_rate, weight_decay)

    def copy(self) -> "_Trainer":
        """A trainer that goes on from here on its own; rows and labels are shared."""
        other = copy.copy(self)
        other.parameters = self.parameters.copy()
        other._gradient = np.empty_like(self.parameters)
        other.network = _views(other.parameters, self.network)
        other._slope = _views(other._gradient, self.network)
        other._adam = self._adam.copy(other.parameters)
        return other

    def raw_network(self) -> Network:
        """The network of this moment, for raw features."""
        arrays = (array.copy() for array in self.network)
        return Network(*arrays).for_raw_features(self.scaling)

    def epoch(self, rows: Array, q: Array, batch_size: int, rng: np.random.Generator) -> None:
        """Adam steps over all rows, in batches drawn by `rng`."""
        order = rng.permutation(len(rows))
        for batch in np.split(order, range(batch_size, len(rows), batch_size)):
            self.step(rows[batch], q[batch])

    def step(self, rows: Array, q: Array) -> None:
        """One Adam step on the cross-entropy of q and the outputs."""
        net = self.network
        slope = self._slope
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

    def _hidden(self, rows: Array) -> tuple[Any, Array, Array]:
        """Features of the rows, the shift still to be added to them, and the hidden layer."""
        x = self.X[rows]
        shift = self.scaling.shift
        if not sp.issparse(x):
            x = self.scaling.apply(x)
            shift = np.zeros_like(shift)
        hidden = np.asarray(x @ self.network.W1) + (self.network.b1 + shift @ self.network.W1)
        np.maximum(hidden, 0, out=hidden)
        return x, shift, hidden

    def assess(self, rows: Array, labels: LabelModel) -> tuple[Array, float]:
        """The best posterior for the outputs of the network, and the bound."""
        blocks = [rows[block] for block in gen_batches(len(rows), _BLOCK_ROWS)]
        outputs = [self._hidden(block)[2] @ self.network.W2 for block in blocks]
        f = np.vstack(outputs) + self.network.b2
        S = self.S[rows]
        q = labels.posterior(f, S)
        return q, labels.bound(f, S, q)


def _views(flat: Array, like: Network) -> Network:
    """Views of a flat vector in the shapes of a network."""
    ends = np.cumsum([array.size for array in like])[:-1]
    views = zip(np.split(flat, ends), like, strict=True)
    return Network(*(view.reshape(array.shape) for view, array in views))
