"""Blocks of rows, and the steps that solvers run on them wherever the rows are stored.

A solver is a sequence of steps. A step is a function of one block, the state of that block and a
small message; it returns the new state and small sums. A *row store* runs the step on all its
blocks and adds up the sums: `MemoryRows` here, `schirn.scale.files.FileRows` for files and
`schirn.scale.cluster.DaskRows` for Dask workers. Only messages and sums ever leave a block.

Matrices of n rows and l labels are stored as (l, n), one label after the other, because a block
has few labels and many rows.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
import scipy.sparse as sp

from schirn.linalg.arrays import Array, cell_rows, cells_product, like, namespace, row_pieces
from schirn.linalg.products import product
from schirn.linalg.row_space import RowSpace

_PROJECTED_CELLS = 2**20


class Cells(NamedTuple):
    """The candidate cells of a block, sorted by label."""

    label: Array
    row: Array
    shape: tuple[int, int]
    """Rows and labels."""
    flat: Array
    """Indices of the cells in a flattened (l, n) array."""


def candidate_cells(Y: Any, other: Array | None = None) -> Cells:
    """Return the cells of a 0/1 matrix (n, l) on the device of `other`.

    Parameters
    ----------
    Y : (n, l) array or CSR array
        Candidates; a CSR array must have neither duplicates nor stored zeros.
    other : array, optional
        An array on the device; None means main memory.

    Returns
    -------
    Cells

    Examples
    --------
    >>> cells = candidate_cells(np.array([[0, 1], [1, 1]]))
    >>> cells.label.tolist(), cells.row.tolist()
    ([0, 1, 1], [1, 0, 1])
    """
    Y = sp.csr_array(Y)
    n, l = (int(size) for size in Y.shape)
    # Sorting 16-bit integers is ten times faster.
    labels = Y.indices.astype(np.int16 if l < 2**15 else np.int64)
    label = labels if other is None else like(labels, other, "own")
    xp = namespace(label)
    row = cell_rows(Y.indptr, label)
    order = xp.argsort(label, stable=True)
    label = xp.astype(label[order], xp.int64)
    row = row[order]
    return Cells(label, row, (n, l), label * n + row)


@dataclass(frozen=True, eq=False)
class DenseRows:
    """Rows of F, the features in the basis of their singular vectors."""

    F: Array

    def expand(self, w: Array) -> Array:
        """Return (F w)', one label after the other.

        Parameters
        ----------
        w : (r, l) array
            Coordinates.

        Returns
        -------
        (l, n) array
        """
        return product(w.T, self.F.T)

    def project(self, label: Array, row: Array, values: Array, n_labels: int) -> Array:
        """Return B'F, where B is 0 except for the given cells.

        Parameters
        ----------
        label, row : (c,) arrays of int
            Cells of B, sorted by label.
        values : (c,) array
            Values of these cells.
        n_labels : int
            Number of labels.

        Returns
        -------
        (l, r) array
        """
        return cells_product(label, row, values, self.F, n_labels)

    def total(self) -> Array:
        """Return 1'F.

        Returns
        -------
        (r,) array
        """
        return namespace(self.F).sum(self.F, axis=0)

    def squares(self, weights: Array) -> Array:
        """Return the diagonal of F diag(weights) F', some rows at a time.

        Parameters
        ----------
        weights : (r,) or (r, k) array

        Returns
        -------
        (n,) or (n, k) array
        """
        return namespace(self.F).concat([F**2 @ weights for _, F in row_pieces(self.F)])


@dataclass(frozen=True, eq=False)
class FeatureRows:
    """Unchanged rows of X: messages are weights of the features, results are sums over rows."""

    X: Any
    first: int = 0
    """Index of the first row among all rows."""

    def expand(self, message: tuple[Array, Array]) -> Array:
        """Return (X W + b)', one label after the other.

        Parameters
        ----------
        message : (W, b)
            Weights (d, l) and intercepts (l,).

        Returns
        -------
        (l, n) array
        """
        W, b = message
        if sp.issparse(self.X):
            return np.add((self.X @ W).T, b[:, None], order="C")
        scores = W.T @ self.X.T
        if b.any():
            scores += b[:, None]
        return scores

    def project(self, label: Array, row: Array, values: Array, n_labels: int) -> Array:
        """Return B'X with the sums of B as last column; B is 0 except for the given cells.

        Parameters
        ----------
        label, row : (c,) arrays of int
            Cells of B, sorted by label.
        values : (c,) array
            Values of these cells.
        n_labels : int
            Number of labels.

        Returns
        -------
        (l, d + 1) array
        """
        values = values.astype(self.X.dtype)
        sums = np.bincount(label, values, minlength=n_labels).astype(self.X.dtype)
        product = cells_product(label, row, values, self.X, n_labels)
        return np.column_stack([product, sums])

    def total(self) -> Array:
        """Return 1'X and the number of rows.

        Returns
        -------
        (d + 1,) array
        """
        n = self.X.shape[0]
        return np.append(np.ones(n, dtype=self.X.dtype) @ self.X, self.X.dtype.type(n))

    def squares(self, message: tuple[Array, Array, float]) -> Array:
        """Return ||A'x - a||^2 + c of each row x, some rows at a time.

        Parameters
        ----------
        message : (A, a, c)
            A matrix (d, r), a vector (r,) and a number.

        Returns
        -------
        (n,) array
        """
        A, a, c = message
        pieces = []
        for _, X in row_pieces(self.X, max(1, _PROJECTED_CELLS // max(1, A.shape[1]))):
            projected = X @ A
            projected -= a
            pieces.append(np.einsum("ij,ij->i", projected, projected))
        return np.concatenate(pieces) + self.X.dtype.type(c)


@dataclass(eq=False)
class Coordinates:
    """The spectrum of X, and the conversion between coordinates and messages to blocks."""

    eigenvalues: Array
    penalty: Array
    n_rows: int
    basis: Any = None
    """The basis of the features, dense or sparse; None if blocks hold rows of F themselves."""
    mean: np.ndarray | None = None

    def send(self, w: Array) -> Any:
        """Return the message for `FeatureRows.expand`.

        Parameters
        ----------
        w : (r, l) array
            Coordinates.

        Returns
        -------
        array, or (W, b)
        """
        if self.basis is None:
            return w
        if self.mean is None:
            return self.basis @ w, np.zeros(w.shape[1], dtype=w.dtype)
        W = self.basis @ w[:-1]
        return W, w[-1] - self.mean @ W

    def receive(self, total: Array) -> Array:
        """Return F'B from the sums of `FeatureRows.project` (or `total`) over all blocks.

        Parameters
        ----------
        total : array
            The sums, with labels as rows.

        Returns
        -------
        (r, l) or (r,) array
        """
        if self.basis is None:
            return total if total.ndim == 1 else total.T
        XtB = total[..., :-1].T
        sums = total[..., -1]
        if self.mean is None:
            return self.basis.T @ XtB
        centred = XtB - np.multiply.outer(self.mean, sums)
        return np.concatenate([self.basis.T @ centred, sums[None]])

    def solve(self, rhs: Array, mu: float, ridge: float) -> tuple[Array, Array]:
        """Solve (mu F'F + ridge) w = rhs; return w and F'F w.

        Parameters
        ----------
        rhs : (r, l) array
            Right-hand sides.
        mu : float
            Weight of the Gram matrix.
        ridge : float
            Ridge weight.

        Returns
        -------
        w : (r, l) array
        normal : (r, l) array
            F'F w.
        """
        column = (slice(None), None)
        w = rhs / (mu * self.eigenvalues[column] + ridge * self.penalty[column])
        return w, self.eigenvalues[column] * w


class Block(NamedTuple):
    """Rows, their candidates, and whether a step may overwrite the state it receives.

    A step that passes an array on under the same name in the new state must not change it.
    """

    rows: Any
    cells: Cells
    in_place: bool = True


Step = Callable[..., tuple[Any, tuple[Any, ...]]]


@dataclass(frozen=True, eq=False)
class Layout:
    """Shape, dtype and sparsity of X over all blocks, and whether it is on a device."""

    n: int
    d: int
    dtype: np.dtype
    sparse: bool
    device: bool = False
    Y: sp.csr_array | None = None
    """Candidates of all rows on a device; other candidates are in the blocks."""


class PerBlock(list[Any]):
    """A message, or a part of one, with a separate entry for each block."""


def message_for(message: tuple[Any, ...], block: int) -> tuple[Any, ...]:
    """Return the message for one block.

    Parameters
    ----------
    message : tuple
        The message for all blocks.
    block : int
        Number of the block.

    Returns
    -------
    tuple

    Examples
    --------
    >>> message_for((1, PerBlock(["a", "b"])), 1)
    (1, 'b')
    """
    return tuple(item[block] if isinstance(item, PerBlock) else item for item in message)


class RowStore(Protocol):
    """Blocks stored together; runs steps on all of them and adds up the sums in block order.

    Lists among the sums are concatenated, in any order.
    """

    def step(self, function: Step, *message: Any) -> tuple[Any, ...]:
        """Run one step on all blocks and return the sums.

        Parameters
        ----------
        function : callable
            f(block, state, *message) -> (new state, sums).
        *message : objects
            Sent to all blocks.

        Returns
        -------
        tuple of sums
        """

    def gather(self, function: Callable[..., Any], *message: Any) -> list[Any]:
        """Return f(block, state, *message) of each block, in order.

        Parameters
        ----------
        function : callable
            f(block, state, *message).
        *message : objects
            Sent to all blocks.

        Returns
        -------
        list
        """

    def prepare(self, function: Callable[..., Block], *message: Any) -> None:
        """Replace each block by f(block, *message).

        Parameters
        ----------
        function : callable
            f(block, *message) -> Block.
        *message : objects
            Sent to all blocks.
        """

    def start(self, function: Step, *message: Any) -> list[Any]:
        """Run one step on all blocks and return sums over groups of blocks, for `near` or `here`.

        If the rows are remote, the program continues while the step runs.

        Parameters
        ----------
        function : callable
            f(block, state, *message) -> (new state, sums).
        *message : objects
            Sent to all blocks.

        Returns
        -------
        list of sums, or of their futures
        """
        return [self.step(function, *message)]

    def near(self, function: Callable[..., Any], *args: Any, place: int = 0) -> Any:
        """Return f(*args), computed where the rows are stored, for other `near` calls or messages.

        Parameters
        ----------
        function : callable
            Function to call.
        *args : objects
            Arguments; like messages, they may contain results of `start` and `near`.
        place : int, default=0
            Number of the place; different places may compute in parallel.

        Returns
        -------
        result, or its future
        """
        return function(*args)

    def here(self, value: Any) -> Any:
        """Fetch a result of `start` or `near` to this process.

        Parameters
        ----------
        value : object
            The result.

        Returns
        -------
        object
        """
        return value


class MemoryRows(RowStore):
    """Blocks in main memory or on one device."""

    def __init__(self, blocks: Sequence[Block]):
        self.blocks = list(blocks)
        self.states: list[Any] = [None] * len(self.blocks)

    def step(self, function: Step, *message: Any) -> tuple[Any, ...]:
        """Run one step on all blocks and return the sums."""
        sums: Any = None
        for i, block in enumerate(self.blocks):
            message_here = message_for(message, i)
            self.states[i], block_sums = function(block, self.states[i], *message_here)
            sums = add_sums(sums, block_sums)
        return sums

    def gather(self, function: Callable[..., Any], *message: Any) -> list[Any]:
        """Return f(block, state, *message) of every block, in order."""
        pairs = enumerate(zip(self.blocks, self.states, strict=True))
        return [function(*pair, *message_for(message, i)) for i, pair in pairs]

    def prepare(self, function: Callable[..., Block], *message: Any) -> None:
        """Replace every block by f(block, *message)."""
        self.blocks = [function(block, *message) for block in self.blocks]


def add_sums(a: Any, b: Any) -> Any:
    """Add the sums of two blocks, entry by entry, even in nested tuples; None counts as zero.

    Parameters
    ----------
    a, b : tuples, numbers, arrays, lists or None
        Sums of the same structure.

    Returns
    -------
    the same structure

    Examples
    --------
    >>> add_sums((1, None, (2, 2)), (2, 3.0, (1, 0)))
    (3, 3.0, (3, 2))
    """
    if a is None or b is None:
        return b if a is None else a
    if not isinstance(a, tuple):
        return a + b
    sums = (add_sums(x, y) for x, y in zip(a, b, strict=True))
    return type(a)(*sums) if hasattr(a, "_fields") else tuple(sums)


def one_block(X: Any) -> MemoryRows:
    """Return rows in memory, without candidates, as one block.

    Parameters
    ----------
    X : (n, d) array or CSR array
        Features of the rows.

    Returns
    -------
    MemoryRows
    """
    no_labels = sp.csr_array((X.shape[0], 0))
    return MemoryRows([Block(FeatureRows(X), candidate_cells(no_labels))])


def memory_rows(space: RowSpace, Y: Any) -> tuple[MemoryRows, Coordinates]:
    """Return all rows of a factored X as one block.

    Parameters
    ----------
    space : RowSpace
        The factored X, in memory or on a device.
    Y : (n, l) array or CSR array
        Candidates, 0/1.

    Returns
    -------
    store : MemoryRows
    coordinates : Coordinates
    """
    cells = candidate_cells(Y, None if namespace(space.eigenvalues) is np else space.F)
    rows: Any = FeatureRows(space.X) if space.F is None else DenseRows(space.F)
    frame = (space.basis, space.mean) if space.F is None else ()
    coordinates = Coordinates(space.eigenvalues, space.penalty, space.shape[0], *frame)
    return MemoryRows([Block(rows, cells)]), coordinates


def stacked_rows(pieces: Sequence[Any]) -> Any:
    """Stack the rows of several blocks.

    Parameters
    ----------
    pieces : list of arrays or CSR arrays
        Rows of each block.

    Returns
    -------
    array or CSR array
    """
    if len(pieces) == 1:
        return pieces[0]
    if sp.issparse(pieces[0]):
        return sp.csr_array(sp.vstack(pieces))
    return namespace(pieces[0]).concat(list(pieces))


def same(value: Any) -> Any:
    """Return the value itself; with `RowStore.near`, this moves it to the rows.

    Parameters
    ----------
    value : object
        Any value.

    Returns
    -------
    object
    """
    return value
