"""Schirn: sparse noise under a high-rank prediction, by augmented Lagrange multipliers.

The rounds run on blocks of rows (`schirn.scale.blocks`). All updates but the noise step are linear,
so the projections of C and L on the row space of X follow the same recursions as C and L, and of N
only the changed entries are projected: a round costs one product with the features, not two, and
no factorisation. A round needs only the candidate entries of the previous C, so a block keeps
S = L + 2(Y - N) alone: apart from the labels that change, G = S + mu XW and the next S = G - mu C.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from schirn._checkpoint import Rounds
from schirn._checkpoint import load as checkpoint_load
from schirn._checkpoint import save as checkpoint_save
from schirn._progress import track
from schirn.linalg.arrays import Array, eps, namespace, to_numpy
from schirn.linalg.prox import (
    NoiseRule,
    RankTerm,
    noise_threshold,
    shift_by_gram,
    shift_singular_values,
)
from schirn.linalg.row_space import RowSpace
from schirn.scale.blocks import Block, Cells, Coordinates, MemoryRows, RowStore, memory_rows


@dataclass(frozen=True, eq=False)
class SchirnTrace:
    """The result of the rounds, with one trace entry per round; the noise stays with the blocks."""

    w: Array
    """Coordinates of W in the row space."""
    kept: Array
    """F'(Y - N)"""
    objective: np.ndarray
    residual: np.ndarray
    n_noise: np.ndarray


class State(NamedTuple):
    """The state of a block: S = L + 2(Y - N), and C at its candidates; between two steps also G.

    L starts at 1, and its mean would drown small singular values in single precision. There the
    mean of each label is subtracted from S and from G, and kept beside them.
    """

    S: Array
    at: Array
    noise: Array
    offset: Array | None = None
    """Subtracted from S, (l,)."""
    G: Array | None = None
    mean: Array | None = None
    """Subtracted from G, (l,)."""
    change: tuple[Array, Array] | None = None
    """Where Y - N changed, as flat indices of an (l, n) array, and by how much."""
    spare: tuple[Array | None, Array | None] = (None, None)
    """Memory for the next G and C, if a step may write in place."""


def schirn(space: RowSpace, Y: np.ndarray, **options: Any) -> tuple[SchirnTrace, np.ndarray]:
    """Run `schirn_rounds` on an X that is factored in memory; return its result and the noise N.

    Parameters
    ----------
    space : RowSpace
        The factored X; its ridge must cover 2 lam / mu for the largest mu.
    Y : (n, l) array
        Candidates, 0/1.
    **options
        Parameters of `schirn_rounds`.
    """
    store, coordinates = memory_rows(space, Y)

    def whole() -> Array:
        G, mean = store.states[0].G, store.states[0].mean
        return (G if mean is None else G + mean[:, None]).T

    trace = schirn_rounds(store, coordinates, whole=whole, **options)
    return trace, noise_matrix(store, Y.shape)


def schirn_rounds(
    store: RowStore,
    coordinates: Coordinates,
    *,
    alpha: float,
    beta: float,
    lam: float,
    noise_rule: NoiseRule = "exact",
    rank_term: RankTerm = "high",
    mu: float = 1e-4,
    mu_max: float = 10.0,
    rho: float = 1.1,
    max_iter: int = 100,
    tol: float = 0.0,
    whole: Callable[[], Array] | None = None,
) -> SchirnTrace:
    """Minimise ||C - (Y - N)||_F^2 + alpha ||N||_1 - beta ||C||_* + lam ||W||_F^2, C = X W.

    N is binary and at most Y; `rank_term="low"` adds the nuclear norm, "none" leaves it out.

    Parameters
    ----------
    store, coordinates : RowStore and Coordinates
        Blocks of rows with their candidates Y, and the solver of the ridge systems.
    alpha, beta, lam, noise_rule, rank_term, mu, mu_max, rho, max_iter, tol
        As in `schirn.Schirn`; the residual is ||X W - C||_F relative to ||C||_F.
    whole : callable or None
        Returns G (n, l) if it lies in one piece: an SVD takes over from a coarse Gram matrix.
    """
    kept, total, n_cells = store.step(start)
    kept = coordinates.receive(kept)
    C = L = coordinates.receive(total)[:, None] + 0 * kept
    term = "none" if beta == 0 else rank_term
    sign = {"high": -1, "low": 1, "none": 0}[term]
    threshold = noise_threshold(alpha, noise_rule)
    trace, rounds = list[tuple[float, float, int]](), Rounds(max_iter)
    # The arguments of `make_C` travel with the next round, unless something waits for its sums.
    pending: tuple[Any, ...] | None = None
    last: _Round | None = None
    if rounds.state is not None:
        kept, C, L, mu, trace = rounds.state
        store.step(read_state, rounds.blocks(rounds.done))
    for n_iter in track(rounds.left(), "round", before=rounds.done, may_stop=tol > 0):
        # eq. (10), in the row space
        w, normal = coordinates.solve(mu * C - L, mu, 2 * lam)
        # eq. (15), and eq. (17) before its division by 2 + mu
        sums, (change, gram, floor, changed, n_noise) = store.step(
            make_round, pending, (coordinates.send(mu * w), threshold, term != "none")
        )
        if pending is not None and last is not None:
            trace.append(last.measure(*sums))
        if change is not None:
            kept = kept + coordinates.receive(change)
        G = mu * normal + L + 2 * kept
        # eq. (18): singular values of G/(2 + mu) shifted by 2 beta/(2 + mu)
        scale = 1 / (2 + mu)
        matrix, square, nuclear = _shift(gram, floor, beta, term, whole, scale, kept.dtype)
        ridge = lam * float(namespace(w).sum(coordinates.penalty[:, None] * w * w))
        last = _Round(mu, square, n_cells, (alpha * n_noise, sign * beta * nuclear, ridge), n_noise)
        # eq. (19)
        pending = matrix, scale, mu
        may_stop, is_due = tol > 0 and not changed, rounds.due(n_iter)
        if may_stop or is_due or n_iter == max_iter:
            sums, pending = store.step(make_C, *pending), None
            trace.append(last.measure(*sums))
        C = G * scale if matrix is None else G @ matrix
        L = G - 2 * kept - mu * C
        mu = min(mu_max, rho * mu)  # eq. (20)
        if may_stop and trace[-1][1] <= tol * np.sqrt(sums[2] if square is None else square):
            break
        if is_due:
            store.gather(write_state, rounds.blocks(n_iter))
            rounds.save(n_iter, (kept, C, L, mu, trace))
    return SchirnTrace(w, kept, *(np.array(column) for column in zip(*trace, strict=True)))


@dataclass(frozen=True, eq=False)
class _Round:
    """What a round adds to the trace once the sums over its C are known."""

    mu: float
    square: float | None
    """||C||_F^2, or None if it is among the sums."""
    n_cells: int
    penalties: tuple[float, ...]
    n_noise: int

    def measure(self, residual: float, inside: float, norm: float) -> tuple[float, float, int]:
        """Objective, residual ||XW - C||_F and number of wrong candidates."""
        square = norm if self.square is None else self.square
        loss = square - 2 * inside + self.n_cells - self.n_noise
        return sum(self.penalties, loss), float(np.sqrt(residual)) / self.mu, self.n_noise


def _shift(
    gram: Array | None,
    floor: float,
    beta: float,
    term: RankTerm,
    whole: Callable[[], Array] | None,
    scale: float,
    dtype: Any,
) -> tuple[Array | None, float | None, float]:
    """The matrix that scales G and shifts its singular values; the sums of squares and values."""
    if gram is None:
        return None, None, 0.0
    shifted = shift_by_gram(gram, 2 * beta, term, floor=floor, strict=whole is not None)
    if shifted is None:
        assert whole is not None
        shifted = shift_singular_values(whole(), 2 * beta, term)
    values = to_numpy(shifted.values).astype(np.float64)
    right = namespace(gram).astype(shifted.right * scale, dtype)
    return right, float(values @ values) * scale**2, float(values.sum()) * scale


def start(block: Block, state: State | None) -> tuple[State, tuple[Any, ...]]:
    """C = L = 1 and N = 0; F'Y, F'1 and the number of candidates."""
    cells, (n, l), total = block.cells, block.cells.shape, block.rows.total()
    xp = namespace(total)
    options = {} if xp is np else {"device": total.device}
    n_cells = int(cells.row.shape[0])
    at = xp.ones(n_cells, dtype=total.dtype, **options)
    S = xp.ones((l, n), dtype=total.dtype, **options)
    _add_at(S, cells.flat, 2 * at)
    projected = block.rows.project(cells.label, cells.row, at, l)
    noise = xp.zeros(n_cells, dtype=xp.bool, **options)
    offset = _subtract_mean(S) if eps(S) > 1e-10 else None
    return State(S, at, noise, offset), (projected, total, n_cells)


def make_round(
    block: Block, state: State, pending: tuple[Any, ...] | None, message: tuple[Any, ...]
) -> tuple[State, tuple[Any, ...]]:
    """C of the previous round, unless it is made already, and G of this one."""
    sums = None
    if pending is not None:
        state, sums = make_C(block, state, *pending)
    state, G_sums = make_G(block, state, *message)
    return state, (sums, G_sums)


def make_G(
    block: Block, state: State, message: Any, threshold: float, needs_gram: bool
) -> tuple[State, tuple[Any, ...]]:
    """N from C; G = mu XW + L + 2(Y - N); projection of the change of N, Gram matrix of G."""
    cells, xp = block.cells, namespace(state.S)
    noise = state.at < threshold
    changed = xp.nonzero(state.noise != noise)[0]
    G = block.rows.expand(message, state.spare[0])
    G += state.S
    change = projected = mean = None
    if changed.shape[0]:
        label, row = cells.label[changed], cells.row[changed]
        values = 1 - 2 * xp.astype(noise[changed], G.dtype)
        change = cells.flat[changed], 2 * values
        projected = block.rows.project(label, row, values, cells.shape[1])
        _add_at(G, *change)
    if state.offset is not None:
        mean = _subtract_mean(G) + state.offset
    gram, floor = _gram(G, mean) if needs_gram else (None, 0.0)
    n_noise = int(xp.sum(xp.astype(noise, xp.int64)))
    sums = (projected, gram, floor, int(changed.shape[0]), n_noise)
    spare = None, state.spare[1]
    return state._replace(noise=noise, G=G, mean=mean, change=change, spare=spare), sums


def make_C(
    block: Block, state: State, matrix: Array | None, scale: float, mu: float
) -> tuple[State, tuple[Any, ...]]:
    """C = G times a matrix; S = G - mu C; the residual, and sums over C."""
    G, cells, mean, offset = state.G, block.cells, state.mean, state.offset
    assert G is not None
    xp = namespace(G)
    square, shift, out = None, None, state.spare[1]
    # mu C as (l, n), without its mean. The map is symmetric.
    if matrix is None:
        C = xp.multiply(G, mu * scale, out=out)
    else:
        C = xp.matmul(mu * matrix, G, out=out)
    if mean is not None:
        shift = mu * (scale * mean if matrix is None else matrix @ mean)
        offset = mean - shift
    at = xp.take(xp.reshape(C, (-1,)), cells.flat)
    at = (at if shift is None else at + xp.take(shift, cells.label)) / mu
    inside = float(xp.sum(at) - xp.sum(at[state.noise]))
    if matrix is None:
        square = (_square(C) + _mean_square(C, shift)) / mu**2
    S = xp.subtract(G, C, out=state.G if block.in_place else C)
    # L changes by mu (XW - C), and so does S where Y - N does not change.
    if state.change is not None:
        _add_at(S, state.change[0], -state.change[1])
    residual = _square(xp.subtract(S, state.S, out=C if block.in_place else None))
    rise = None if offset is None else offset - state.offset
    residual += _mean_square(S, rise)
    if state.change is not None:
        _add_at(S, *state.change)
        if rise is not None:
            # Without the change of N, the rows of S no longer have mean 0.
            cells_changed, values = state.change
            residual -= 2 * float(xp.sum(xp.take(rise, cells_changed // S.shape[1]) * values))
    spare = (state.S, C) if block.in_place else (None, None)
    return State(S, at, state.noise, offset, spare=spare), (residual, inside, square)


def _add_at(A: Array, cells: Array, values: Any) -> None:
    """Add to the entries of A at these distinct flat indices."""
    flat = namespace(A).reshape(A, (-1,))
    flat[cells] += values


def _subtract_mean(A: Array) -> Array:
    """Subtract the mean of each row of A in place, and return it."""
    mean = namespace(A).mean(A, axis=1)
    A -= mean[:, None]
    return mean


def _square(A: Array) -> float:
    """||A||^2."""
    return float(namespace(A).linalg.vector_norm(A)) ** 2


def _mean_square(A: Array, mean: Array | None) -> float:
    """What the mean that was subtracted from each row of A would add to ||A||_F^2."""
    return 0.0 if mean is None else A.shape[1] * _square(mean)


def _gram(G: Array, mean: Array | None) -> tuple[Array, float]:
    """The Gram matrix over the labels of G, and its rounding error.

    The Gram matrix includes the mean that was subtracted from G (l, n), in double precision.
    """
    xp, gram = namespace(G), G @ G.T
    if mean is None:
        return gram, 0.0
    floor = eps(G) * float(xp.linalg.matrix_norm(gram))
    gram, mean = xp.astype(gram, xp.float64), xp.astype(mean, xp.float64)
    return gram + G.shape[1] * mean[:, None] * mean, floor


def write_state(block: Block, state: State, name: str) -> None:
    """Save the state of a block between two rounds."""
    checkpoint_save(f"{name}{getattr(block.rows, 'first', 0)}", state[:4])


def read_state(block: Block, state: State, name: str) -> tuple[State, tuple[Any, ...]]:
    """Go on with a saved state of a block."""
    return State(*checkpoint_load(f"{name}{getattr(block.rows, 'first', 0)}")), ()


def noise_cells(block: Block, state: State) -> tuple[Cells, Array]:
    """The candidates of a block and which of them are noise."""
    return block.cells, state.noise


def noise_matrix(store: MemoryRows, shape: tuple[int, int]) -> np.ndarray:
    """N as a boolean matrix, for rows in one block."""
    ((cells, noise),) = store.gather(noise_cells)
    N = np.zeros(shape, dtype=bool)
    N[cells.row[noise], cells.label[noise]] = True
    return N
