"""PLAIN: labels propagated over two graphs, and a network that learns the result.

Before every epoch the pseudo-labels Z take some gradient steps on a quadratic objective, from the
candidates on; the epoch then trains the network on Z. PyTorch is needed for the training alone:
graphs, propagation and scores are NumPy, so that a fitted model predicts without it.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.special import expit
from sklearn.utils import gen_batches

from schirn._input import Array
from schirn._optional import optional
from schirn._progress import track
from schirn.lab.rivals.solvers._scaling import Scaling
from schirn.linalg.arrays import rows_per_block
from schirn.linalg.features import standard_factor

_MOMENTUM = 0.9
# Exponent of the kernel max(cos, 0)^3 of the rows.
_EXPONENT = 3
# Cosines that agree to so many decimals are equal: rounding must not choose between copies.
_DECIMALS = {4: 5, 8: 10}
_BLOCK_ROWS = 4096


class Layers(NamedTuple):
    """Weights and offsets of linear layers with ReLU in between."""

    weights: Sequence[Array]
    offsets: Sequence[Array]

    def outputs(self, X: "Array | sp.csr_array") -> Array:
        """Return logits (n, l).

        Parameters
        ----------
        X : (n, d) array or CSR array

        Returns
        -------
        (n, l) array
        """
        blocks = [self._block(X[rows]) for rows in gen_batches(X.shape[0], _BLOCK_ROWS)]
        return np.vstack(blocks)

    def _block(self, X: "Array | sp.csr_array") -> Array:
        values = np.asarray(X @ self.weights[0]) + self.offsets[0]
        for W, b in zip(self.weights[1:], self.offsets[1:], strict=True):
            values = np.maximum(values, 0) @ W + b
        return np.asarray(values)

    def for_raw_features(self, scaling: Scaling) -> "Layers":
        """Return the layers that take the features as they were before the scaling.

        Parameters
        ----------
        scaling : Scaling

        Returns
        -------
        Layers
        """
        W, *weights = self.weights
        b, *offsets = self.offsets
        raw = W * scaling.factor[:, None]
        return Layers([raw, *weights], [b + scaling.shift @ W, *offsets])


class PLAINResult(NamedTuple):
    """Result of `plain`.

    Attributes
    ----------
    layers : Layers
        The network, for features before the scaling.
    Z : (n, l) array
        Pseudo-labels of the last epoch, in [0, 1].
    scores : (n, l) array
        Logits of the training rows.
    objective : (n_iter,) array
        Mean cross-entropy of every epoch.
    """

    layers: Layers
    Z: Array
    scores: Array
    objective: Array


def standard(X: "Array | sp.csr_array") -> Scaling:
    """Return the scaling to mean 0 and standard deviation 1; a constant feature becomes 0.

    Parameters
    ----------
    X : (n, d) array or CSR array

    Returns
    -------
    Scaling

    Examples
    --------
    >>> standard(np.array([[0.0, 5.0], [4.0, 5.0]]))
    Scaling(factor=array([0.5, 0. ]), shift=array([-1.,  0.]))
    """
    factor = standard_factor(X)
    mean = np.asarray(X.mean(axis=0, dtype=np.float64)).ravel()
    # Adding zero turns the -0.0 of constant features into 0.0.
    shift = -mean * factor + 0.0
    return Scaling(factor, shift.astype(X.dtype))


def instance_graph(X: "Array | sp.csr_array", scaling: Scaling, k: int) -> sp.csr_array:
    """Return the normalised graph of the k rows with the largest cosines to each row.

    An edge weighs max(cos, 0)^3, edges of both directions add up, and the sum W becomes
    D^-1/2 W D^-1/2 for the diagonal matrix D of its row sums.

    Parameters
    ----------
    X : (n, d) array or CSR array
    scaling : Scaling
        Applied to the rows before cosines are computed.
    k : int
        Neighbours per row; all other rows if there are fewer.

    Returns
    -------
    (n, n) CSR array

    Examples
    --------
    >>> from schirn.lab.rivals.solvers._scaling import identity
    >>> X = np.array([[1.0, 0.0], [2.0, 0.0], [0.0, 1.0]])
    >>> instance_graph(X, identity(X), 1).toarray().round(6)
    array([[0., 1., 0.],
           [1., 0., 0.],
           [0., 0., 0.]])
    """
    n = X.shape[0]
    k = min(k, n - 1)
    if k < 1:
        return sp.csr_array((n, n), dtype=X.dtype)
    cosines = _Cosines(X, scaling)
    blocks = []
    for rows in gen_batches(n, min(n, rows_per_block(n))):
        C = cosines.block(rows)
        # No row is its own neighbour.
        C[np.arange(len(C)), np.arange(rows.start, rows.stop)] = -np.inf
        weights = np.where(_largest(C, k), np.maximum(C, 0) ** _EXPONENT, 0)
        blocks.append(sp.csr_array(weights))
    A = sp.csr_array(sp.vstack(blocks))
    return _normalised(sp.csr_array(A + A.T)).astype(X.dtype)


class _Cosines:
    """Cosines between scaled rows, some rows against all at a time; a sparse X stays sparse."""

    def __init__(self, X: "Array | sp.csr_array", scaling: Scaling):
        if sp.issparse(X):
            self.A: Any = sp.csr_array(X * scaling.factor[None, :])
            self.shift = scaling.shift
        else:
            self.A = X * scaling.factor + scaling.shift
            self.shift = np.zeros_like(scaling.shift)
        # (a + c)(b + c)' = a b' + a c' + b c' + c c' for the shift c.
        self.cross = self.A @ self.shift
        self.constant = self.shift @ self.shift
        squares = np.asarray((self.A * self.A).sum(axis=1)).ravel() + 2 * self.cross + self.constant
        self.norms = np.sqrt(np.maximum(squares, 0))

    def block(self, rows: slice) -> Array:
        """Cosines (m, n) of some rows; those of zero rows are zero."""
        product = self.A[rows] @ self.A.T
        dots = product.toarray() if sp.issparse(product) else product
        dots = dots + self.cross[rows, None] + self.cross + self.constant
        scale = self.norms[rows, None] * self.norms
        C = np.divide(dots, scale, out=np.zeros_like(dots), where=scale > 0)
        return np.round(C, _DECIMALS[C.dtype.itemsize])


def _largest(C: Array, k: int) -> Array:
    """The k largest cells of every row; of equal ones the first."""
    limit = np.partition(C, -k, axis=1)[:, [-k]]
    is_above = C > limit
    is_tied = C == limit
    room = k - is_above.sum(axis=1, keepdims=True)
    return np.asarray(is_above | (is_tied & (is_tied.cumsum(axis=1) <= room)))


def label_graph(Y: Array) -> Array:
    """Return the normalised graph of the labels.

    Two labels are joined by the number of rows that list both, over the sum of their frequencies.

    Parameters
    ----------
    Y : (n, l) array
        Candidates, 0/1.

    Returns
    -------
    (l, l) array

    Examples
    --------
    >>> label_graph(np.array([[1.0, 1.0, 0.0], [1.0, 1.0, 0.0], [0.0, 0.0, 1.0]]))
    array([[0., 1., 0.],
           [1., 0., 0.],
           [0., 0., 0.]])
    """
    count = Y.sum(axis=0)
    total = count[:, None] + count
    R = np.divide(Y.T @ Y, total, out=np.zeros((len(count), len(count)), Y.dtype), where=total > 0)
    np.fill_diagonal(R, 0)
    return _normalised(sp.csr_array(R)).toarray().astype(Y.dtype)


def _normalised(W: sp.csr_array) -> sp.csr_array:
    """D^-1/2 W D^-1/2 for the row sums D; rows without edges stay zero."""
    degree = np.asarray(W.sum(axis=1)).ravel()
    root = np.divide(1, np.sqrt(degree), out=np.zeros_like(degree), where=degree > 0)
    return sp.csr_array(sp.diags_array(root) @ W @ sp.diags_array(root))


def propagate(
    S: sp.csr_array,
    L: Array,
    Y: Array,
    P: Array,
    *,
    alpha: float,
    beta: float,
    eta: float,
    propagation_rate: float,
    n_propagations: int,
) -> Array:
    """Take gradient steps from Z = Y on the objective of the pseudo-labels.

    alpha/2 tr(Z'(I - S)Z) + beta/2 tr(Z(I - L)Z') + eta/2 ||Z - Y||^2 + 1/2 ||Z - P||^2

    Parameters
    ----------
    S : (n, n) CSR array
        Graph of the rows.
    L : (l, l) array
        Graph of the labels.
    Y, P : (n, l) arrays
        Candidates, and probabilities of the network.
    alpha, beta, eta : float
        Weights of the rows' graph, the labels' graph and the candidates.
    propagation_rate : float
        Size of the steps.
    n_propagations : int
        Number of steps.

    Returns
    -------
    (n, l) array
        Z before it is scaled.

    Examples
    --------
    >>> Y = np.array([[1.0], [0.0]])
    >>> S = sp.csr_array(np.array([[0.0, 1.0], [1.0, 0.0]]))
    >>> options = {"alpha": 1.0, "beta": 0.0, "eta": 0.0, "propagation_rate": 0.5}
    >>> propagate(S, np.zeros((1, 1)), Y, Y, **options, n_propagations=1).ravel()
    array([0.5, 0.5])
    """
    keep = 1 - propagation_rate * (alpha + beta + eta + 1)
    fixed = propagation_rate * (eta * Y + P)
    Z = Y
    for _ in range(n_propagations):
        neighbours = alpha * (S @ Z) + beta * (Z @ L)
        Z = keep * Z + propagation_rate * neighbours + fixed
    return Z


def unit_columns(Z: Array) -> Array:
    """Bring every label to [0, 1] by its smallest and largest value; clip a constant one.

    Parameters
    ----------
    Z : (n, l) array

    Returns
    -------
    (n, l) array

    Examples
    --------
    >>> unit_columns(np.array([[0.2, 0.5], [0.6, 0.5], [0.4, 0.5]])).round(6)
    array([[0. , 0.5],
           [1. , 0.5],
           [0.5, 0.5]])
    """
    least = Z.min(axis=0)
    span = Z.max(axis=0) - least
    # Rounding makes a constant column vary a little.
    varies = span > 1e3 * np.finfo(Z.dtype).eps
    scaled = np.divide(Z - least, span, out=Z.copy(), where=varies)
    return np.clip(scaled, 0, 1)


def plain(
    X: "Array | sp.csr_array",
    Y: Array,
    *,
    scaling: Scaling,
    alpha: float = 0.1,
    beta: float = 0.01,
    eta: float = 1.0,
    n_neighbors: int = 10,
    propagation_rate: float = 0.1,
    n_propagations: int = 20,
    hidden_sizes: Sequence[int] = (64, 64),
    max_iter: int = 30,
    batch_size: int = 32,
    learning_rate: float = 0.01,
    weight_decay: float = 5e-5,
    seed: int | None = 0,
) -> PLAINResult:
    """Alternate between propagation of the labels and one epoch of training.

    Parameters
    ----------
    X : (n, d) array or CSR array
    Y : (n, l) array
        Candidates, 0/1.
    scaling : Scaling
        Of the features, for the graph and for the network.
    alpha, beta, eta, propagation_rate, n_propagations
        As in `propagate`.
    n_neighbors : int
        Neighbours in the graph of the rows.
    hidden_sizes : sequence of int
        Widths of the hidden layers.
    max_iter : int
        Number of epochs.
    batch_size : int
        Rows per step.
    learning_rate, weight_decay : float
        Of stochastic gradient descent with momentum 0.9.
    seed : int or None

    Returns
    -------
    PLAINResult
    """
    torch = optional("torch", "deep", "PLAIN")
    rng = np.random.default_rng(seed)
    Y = np.ascontiguousarray(Y != 0, dtype=X.dtype)
    S = instance_graph(X, scaling, n_neighbors)
    L = label_graph(Y)
    sizes = (X.shape[1], *hidden_sizes, Y.shape[1])
    start = _initial_layers(sizes, rng, X.dtype)
    trainer = _Trainer(torch, X, scaling, start, learning_rate, weight_decay)
    P = Y
    objective = []
    for _ in track(range(max_iter), "epoch"):
        Z = propagate(
            *(S, L, Y, P),
            alpha=alpha,
            beta=beta,
            eta=eta,
            propagation_rate=propagation_rate,
            n_propagations=n_propagations,
        )
        Z = unit_columns(Z)
        objective.append(trainer.epoch(Z, rng.permutation(len(Y)), batch_size))
        layers = trainer.layers()
        scores = layers.outputs(X)
        P = expit(scores)
    return PLAINResult(layers, Z, scores, np.array(objective))


def _initial_layers(sizes: Sequence[int], rng: np.random.Generator, dtype: np.dtype) -> Layers:
    """Uniform weights and offsets up to one over the root of the number of inputs."""
    weights = []
    offsets = []
    for n_inputs, n_outputs in pairwise(sizes):
        limit = 1 / np.sqrt(n_inputs)
        weights.append(rng.uniform(-limit, limit, (n_inputs, n_outputs)).astype(dtype))
        offsets.append(rng.uniform(-limit, limit, n_outputs).astype(dtype))
    return Layers(weights, offsets)


class _Trainer:
    """The layers as PyTorch tensors, and their optimiser."""

    def __init__(
        self,
        torch: ModuleType,
        X: "Array | sp.csr_array",
        scaling: Scaling,
        start: Layers,
        learning_rate: float,
        weight_decay: float,
    ):
        self.torch = torch
        self.X = X
        self.scaling = scaling
        self.weights = [torch.tensor(W, requires_grad=True) for W in start.weights]
        self.offsets = [torch.tensor(b, requires_grad=True) for b in start.offsets]
        self.optimiser = torch.optim.SGD(
            [*self.weights, *self.offsets],
            lr=learning_rate,
            momentum=_MOMENTUM,
            weight_decay=weight_decay,
        )

    def epoch(self, Z: Array, order: Array, batch_size: int) -> float:
        """Train one pass over the rows in the given order; return the mean loss."""
        total = 0.0
        with _one_thread(self.torch):
            for i in range(0, len(order), batch_size):
                rows = order[i : i + batch_size]
                total += len(rows) * self._step(rows, Z[rows])
        return total / len(order)

    def _step(self, rows: Array, targets: Array) -> float:
        functional = self.torch.nn.functional
        x = self.X[rows]
        x = x.toarray() if sp.issparse(x) else x
        values = self.torch.from_numpy(x * self.scaling.factor + self.scaling.shift)
        values = values @ self.weights[0] + self.offsets[0]
        for W, b in zip(self.weights[1:], self.offsets[1:], strict=True):
            values = functional.relu(values) @ W + b
        loss = functional.binary_cross_entropy_with_logits(values, self.torch.from_numpy(targets))
        self.optimiser.zero_grad()
        loss.backward()
        self.optimiser.step()
        return float(loss.detach())

    def layers(self) -> Layers:
        """Copies of the layers, for features before the scaling."""
        weights = [W.detach().numpy().copy() for W in self.weights]
        offsets = [b.detach().numpy().copy() for b in self.offsets]
        return Layers(weights, offsets).for_raw_features(self.scaling)


@contextmanager
def _one_thread(torch: ModuleType) -> Iterator[None]:
    """Let PyTorch use one thread: sums must not depend on how many there are."""
    n_threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(n_threads)
