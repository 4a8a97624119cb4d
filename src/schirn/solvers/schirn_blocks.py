"""Schirn on blocks of rows: on a device, in files, on workers, or many rows in memory.

The rounds are those of `schirn.solvers.schirn`, and projections follow the same recursions. Three
things differ, because the n x l matrices are large or remote:

**A block keeps one matrix.** C is needed only at the candidates, and L and Y - N only in the sum
S = L + 2(Y - N). With G = S + mu X W (the division by 2 + mu is part of R here) and C = G R, the
next S is G - mu C, because L becomes L + mu X W - mu C. Where the noise step
changes Y - N, twice the change is added to G.

**A round takes one exchange.** R is known once the Gram matrices of all blocks are added up. The w
of the next round depends only on projections, so R and w are sent to the blocks together, and one
step of the blocks (`finish_and_begin`) ends a round and begins the next. What the trace needs to
know about C is returned with the sums of that step.

**Means are stored separately in single precision.** L starts at 1, so the mean of each label would
swamp the small singular values; it is subtracted from S and G and stored beside them (`Centred`).
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from schirn._checkpoint import Rounds
from schirn._checkpoint import load as checkpoint_load
from schirn._checkpoint import save as checkpoint_save
from schirn._progress import track
from schirn.linalg.arrays import Array, eps, namespace, piece_rows, row_pieces, to_numpy
from schirn.linalg.products import gram_over_rows, product
from schirn.linalg.prox import (
    NoiseRule,
    RankTerm,
    noise_threshold,
    shift_by_gram,
    shift_singular_values,
)
from schirn.linalg.row_space import RowSpace
from schirn.scale.blocks import Block, Cells, Coordinates, MemoryRows, RowStore, memory_rows
from schirn.solvers.schirn import SchirnFit


@dataclass(frozen=True, eq=False)
class SchirnTrace:
    """Result of a fit, with one trace entry per round; the noise stays in the blocks."""

    w: Array
    """Coordinates of W in the row space, (r, l)."""
    clean: Array
    """F'(Y - N), (r, l)."""
    objective: np.ndarray
    residual: np.ndarray
    """||X W - C||_F"""
    n_noise: np.ndarray
    """Number of candidates that are noise."""


class Centred(NamedTuple):
    """An (l, n) matrix, split into centred values and the mean of each row."""

    values: Array
    mean: Array | None
    """(l,), or None if nothing was subtracted."""

    @classmethod
    def of(cls, A: Array) -> "Centred":
        """Wrap A in double precision; in single precision, subtract the means in place.

        Parameters
        ----------
        A : (l, n) array
            Overwritten if it is in single precision.

        Returns
        -------
        Centred
        """
        if eps(A) < 1e-10:
            return cls(A, None)
        mean = namespace(A).mean(A, axis=1)
        A -= mean[:, None]
        return cls(A, mean)

    def whole(self) -> Array:
        """Return the matrix with its means added back.

        Returns
        -------
        (l, n) array
        """
        return self.values if self.mean is None else self.values + self.mean[:, None]

    def at(self, cells: Cells) -> Array:
        """Return the entries at the candidates.

        Parameters
        ----------
        cells : Cells

        Returns
        -------
        (c,) array
        """
        xp = namespace(self.values)
        entries = xp.take(xp.reshape(self.values, (-1,)), cells.flat)
        return entries if self.mean is None else entries + xp.take(self.mean, cells.label)

    def square(self) -> float:
        """Return the squared Frobenius norm, for centred rows.

        Returns
        -------
        float
        """
        return _square(self.values) + _square_of_mean(self.mean, self.values.shape[1])

    def gram(self) -> tuple[Array, float]:
        """Return the Gram matrix over the labels, in double precision, and its rounding error.

        Returns
        -------
        gram : (l, l) array
        floor : float
            Rounding error of the Gram matrix.
        """
        xp = namespace(self.values)
        gram = gram_over_rows(self.values)
        if self.mean is None:
            return gram, 0.0
        floor = eps(self.values) * float(xp.linalg.matrix_norm(gram))
        gram = xp.astype(gram, xp.float64)
        mean = xp.astype(self.mean, xp.float64)
        return gram + self.values.shape[1] * mean[:, None] * mean, floor


class State(NamedTuple):
    """State of a block after `begin_round`; G and `change` are None between rounds."""

    S: Centred
    """L + 2(Y - N), one row per label."""
    C: Array
    """C at the candidates of the block."""
    noise: Array
    """N at the candidates of the block, bool."""
    G: Centred | None = None
    """S + mu X W, with the new noise."""
    change: tuple[Array, Array] | None = None
    """Flat indices of the cells of S where Y - N has just changed, and twice the change."""


class Shift(NamedTuple):
    """Equation (18) for the blocks: C = G R."""

    R: Array | None
    """(l, l), or None if C = G / (2 + mu)."""
    scale: float
    """1 / (2 + mu)"""
    mu: float
    square: float | None
    """||C||_F^2, or None if the blocks have to sum it up."""
    rank_penalty: float
    """-beta ||C||_*, or +beta ||C||_* for a low rank: the rank term of the objective."""


class SumsOverC(NamedTuple):
    """Sums over the rows of a block that the trace needs."""

    residual: float
    """mu^2 ||X W - C||_F^2"""
    inside: float
    """Sum of C over the candidates that are not noise: <C, Y - N>."""
    square: float | None
    """||C||_F^2, if it does not follow from the singular values."""


class SumsOverG(NamedTuple):
    """Sums over the rows of a block that a round needs."""

    change: Array | None
    """Projection of the change of Y - N."""
    gram: Array | None
    """G'G"""
    floor: float
    """Rounding error of the Gram matrix."""
    n_changed: int
    n_noise: int


def schirn_in_one_block(space: RowSpace, Y: np.ndarray, **options: Any) -> SchirnFit:
    """Run the rounds on a factored X in memory, with less memory than `schirn`.

    Parameters
    ----------
    space : RowSpace
        X, factored accurately enough for the smallest ridge weight, 2 lam / mu at the largest mu.
    Y : (n, l) array
        Candidates, 0/1.
    **options
        Parameters of `schirn_on_blocks`.

    Returns
    -------
    SchirnFit
        N is a NumPy array even if X is on a device.
    """
    store, coordinates = memory_rows(space, Y)

    def whole_G() -> Array:
        return store.states[0].G.whole().T

    trace = schirn_on_blocks(store, coordinates, whole_G=whole_G, **options)
    N = noise_matrix(store, Y.shape)
    return SchirnFit(trace.w, N, trace.objective, trace.residual, trace.n_noise)


def schirn_on_blocks(
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
    whole_G: Callable[[], Array] | None = None,
) -> SchirnTrace:
    """Run Algorithm 1 of the paper on blocks of rows.

    Parameters
    ----------
    store : RowStore
        Blocks of rows with their candidates Y.
    coordinates : Coordinates
        The solver of the ridge systems.
    alpha, beta, lam, noise_rule, rank_term, mu, mu_max, rho, max_iter, tol
        As in `schirn.Schirn`.
    whole_G : callable or None
        Returns G (n, l) if it is in one piece, for an SVD where the Gram matrix is inaccurate.

    Returns
    -------
    SchirnTrace
    """
    FY, F1, n_cells = store.step(start)
    FY_N = coordinates.receive(FY)
    FC = FL = coordinates.receive(F1)[:, None] + 0 * FY_N
    term = "none" if beta == 0 else rank_term
    threshold = noise_threshold(alpha, noise_rule)
    trace: list[tuple[float, float, int]] = []
    # Equation (18) of a round that the blocks have not applied yet.
    shift: Shift | None = None
    last: _Round | None = None
    rounds = Rounds(max_iter)
    if rounds.state is not None:
        FY_N, FC, FL, mu, trace = rounds.state
        store.step(read_state, rounds.blocks(rounds.done))
    for n_iter in track(rounds.left(), "round", before=rounds.done, may_stop=tol > 0):
        # W, eq. (9) of the paper
        w, FXW = coordinates.solve(mu * FC - FL, mu, 2 * lam)
        # The noise and G, after C and L of the previous round
        message = coordinates.send(mu * w), threshold, term != "none"
        over_C, over_G = store.step(finish_and_begin, shift, message)
        if last is not None and over_C is not None:
            trace.append(last.measure(over_C))
        if over_G.change is not None:
            FY_N = FY_N + coordinates.receive(over_G.change)
        FG = mu * FXW + FL + 2 * FY_N
        # C, eq. (16)
        shift = _shift(over_G, beta, term, mu, whole_G, w.dtype)
        FC = FG * shift.scale if shift.R is None else FG @ shift.R
        # Multipliers and, below, their penalty, eqs. (17) and (18)
        FL = FG - 2 * FY_N - mu * FC
        ridge = lam * float(namespace(w).sum(coordinates.penalty[:, None] * w * w))
        penalties = alpha * over_G.n_noise + shift.rank_penalty + ridge
        last = _Round(shift, penalties, over_G.n_noise, n_cells)
        mu = min(mu_max, rho * mu)

        # Blocks finish a round together with the next one, unless their sums or states are due now.
        may_stop = tol > 0 and over_G.n_changed == 0
        is_due = rounds.due(n_iter)
        if may_stop or is_due or n_iter == max_iter:
            over_C = SumsOverC(*store.step(finish_round, shift))
            trace.append(last.measure(over_C))
            if may_stop and trace[-1][1] <= tol * last.norm(over_C):
                break
            shift = last = None
        if is_due:
            store.gather(write_state, rounds.blocks(n_iter))
            rounds.save(n_iter, (FY_N, FC, FL, mu, trace))
    return SchirnTrace(w, FY_N, *map(np.array, zip(*trace, strict=True)))


@dataclass(frozen=True, eq=False)
class _Round:
    """A round whose sums over C are still pending."""

    shift: Shift
    penalties: float
    """The objective without its loss."""
    n_noise: int
    n_cells: int
    """Number of candidates."""

    def measure(self, over_C: SumsOverC) -> tuple[float, float, int]:
        """Objective, residual ||X W - C||_F and number of noise candidates."""
        # ||C - (Y - N)||^2 expanded; ||Y - N||^2 is the number of candidates that are not noise.
        n_clean = self.n_cells - self.n_noise
        loss = self.norm(over_C) ** 2 - 2 * over_C.inside + n_clean
        residual = float(np.sqrt(over_C.residual)) / self.shift.mu
        return self.penalties + loss, residual, self.n_noise

    def norm(self, over_C: SumsOverC) -> float:
        """Frobenius norm of C."""
        square = self.shift.square if over_C.square is None else over_C.square
        assert square is not None
        return float(np.sqrt(square))


def _shift(
    over_G: SumsOverG,
    beta: float,
    term: RankTerm,
    mu: float,
    whole_G: Callable[[], Array] | None,
    dtype: Any,
) -> Shift:
    """Shift the singular values of G/(2 + mu) by 2 beta/(2 + mu)."""
    scale = 1 / (2 + mu)
    gram = over_G.gram
    if gram is None:
        return Shift(None, scale, mu, None, 0.0)
    is_strict = whole_G is not None
    shifted = shift_by_gram(gram, 2 * beta, term, floor=over_G.floor, strict=is_strict)
    if shifted is None:
        assert whole_G is not None
        shifted = shift_singular_values(whole_G(), 2 * beta, term)
    values = to_numpy(shifted.values).astype(np.float64) * scale
    R = namespace(gram).astype(shifted.right * scale, dtype)
    nuclear_norm = float(values.sum())
    rank_penalty = beta * nuclear_norm if term == "low" else -beta * nuclear_norm
    return Shift(R, scale, mu, float(values @ values), rank_penalty)


# ---- Steps of the blocks


def start(block: Block, state: None) -> tuple[State, tuple[Array, Array, int]]:
    """C = L = 1 and N = 0; return F'Y, F'1 and the number of candidates.

    Parameters
    ----------
    block : Block
    state : None

    Returns
    -------
    state : State
    sums : (FY, F1, number of candidates)
    """
    cells = block.cells
    n, l = cells.shape
    F1 = block.rows.total()
    xp = namespace(F1)
    place = {} if xp is np else {"device": F1.device}
    n_cells = int(cells.row.shape[0])
    ones = xp.ones(n_cells, dtype=F1.dtype, **place)
    S = xp.ones((l, n), dtype=F1.dtype, **place)
    _add_at(S, cells.flat, 2 * ones)
    noise = xp.zeros(n_cells, dtype=xp.bool, **place)
    FY = block.rows.project(cells.label, cells.row, ones, l)
    return State(Centred.of(S), ones, noise), (FY, F1, n_cells)


def finish_and_begin(
    block: Block, state: State, shift: Shift | None, message: tuple[Any, float, bool]
) -> tuple[State, tuple[SumsOverC | None, SumsOverG]]:
    """Finish the previous round, unless that is already done, and begin the next.

    Parameters
    ----------
    block : Block
    state : State
    shift : Shift or None
        Equation (18) of the previous round; None if `finish_round` already ran.
    message : tuple
        The other arguments of `begin_round`.

    Returns
    -------
    state : State
    sums : (SumsOverC or None, SumsOverG)
    """
    over_C = None
    if shift is not None:
        state, over_C = finish_round(block, state, shift)
    state, over_G = begin_round(block, state, *message)
    return state, (over_C, over_G)


def begin_round(
    block: Block, state: State, message: Any, threshold: float, needs_gram: bool
) -> tuple[State, SumsOverG]:
    """Compute N from C, then G = S + mu X W with the new noise.

    Parameters
    ----------
    block : Block
    state : State
    message : object
        mu w, for `rows.expand`.
    threshold : float
        Candidates with a smaller C are noise.
    needs_gram : bool
        Whether there is a rank term.

    Returns
    -------
    state : State
    sums : SumsOverG
    """
    cells = block.cells
    # N: eq. (13) with the printed threshold
    noise = state.C < threshold
    xp = namespace(noise)
    changed = xp.nonzero(state.noise != noise)[0]
    n_changed = int(changed.shape[0])
    # G of eq. (15)
    G = block.rows.expand(message)
    G += state.S.values
    change = projection = None
    if n_changed:
        # Y - N drops by 1 where a candidate became noise, and rises by 1 where it no longer is.
        values = 1 - 2 * xp.astype(noise[changed], G.dtype)
        change = cells.flat[changed], 2 * values
        _add_at(G, *change)
        label = cells.label[changed]
        row = cells.row[changed]
        projection = block.rows.project(label, row, values, cells.shape[1])
    G = Centred.of(G)
    if G.mean is not None:
        G = Centred(G.values, G.mean + state.S.mean)
    gram, floor = G.gram() if needs_gram else (None, 0.0)
    n_noise = int(xp.sum(xp.astype(noise, xp.int64)))
    sums = SumsOverG(projection, gram, floor, n_changed, n_noise)
    return State(state.S, state.C, noise, G, change), sums


def finish_round(block: Block, state: State, shift: Shift) -> tuple[State, SumsOverC]:
    """Compute C = G R and the next S = G - mu C.

    Parameters
    ----------
    block : Block
    state : State
    shift : Shift
        Equation (18).

    Returns
    -------
    state : State
    sums : SumsOverC
    """
    G = state.G
    assert G is not None
    # C, eq. (16)
    mu_C = _times(G, shift)
    C = mu_C.at(block.cells) / shift.mu
    xp = namespace(C)
    inside = float(xp.sum(C) - xp.sum(C[state.noise]))
    square = mu_C.square() / shift.mu**2 if shift.R is None else None
    # L, computed in the memory of mu C
    values = xp.subtract(G.values, mu_C.values, out=mu_C.values)
    mean = None if G.mean is None else G.mean - mu_C.mean
    S = Centred(values, mean)
    residual = _square_of_change(S, state.S, state.change)
    return State(S, C, state.noise), SumsOverC(residual, inside, square)


def _times(G: Centred, shift: Shift) -> Centred:
    """mu C = mu R'G, where R is symmetric."""
    if shift.R is None:
        factor = shift.mu * shift.scale
        return Centred(factor * G.values, None if G.mean is None else factor * G.mean)
    mu_R = shift.mu * shift.R
    return Centred(product(mu_R, G.values), None if G.mean is None else mu_R @ G.mean)


def _square_of_change(S: Centred, before: Centred, change: tuple[Array, Array] | None) -> float:
    """||mu (X W - C)||_F^2: the squared change of S, ignoring the part 2(Y - N).

    The cells in `change` are reset temporarily.
    """
    n = S.values.shape[1]
    if change is not None:
        cells, values = change
        _add_at(S.values, cells, -values)
    total = 0.0
    for first, rows in row_pieces(S.values, piece_rows(S.values, n)):
        total += _square(rows - before.values[first : first + len(rows)])
    if change is not None:
        _add_at(S.values, cells, values)
    if S.mean is None or before.mean is None:
        return total
    rise = S.mean - before.mean
    total += _square_of_mean(rise, n)
    if change is not None:
        # Without the change of N, the rows of S do not have mean 0.
        total -= 2 * float(namespace(rise).sum(namespace(rise).take(rise, cells // n) * values))
    return total


def _add_at(A: Array, cells: Array, values: Any) -> None:
    """Add to the entries of A at these distinct flat indices."""
    flat = namespace(A).reshape(A, (-1,))
    flat[cells] += values


def _square(A: Array) -> float:
    """||A||^2."""
    return float(namespace(A).linalg.vector_norm(A)) ** 2


def _square_of_mean(mean: Array | None, n: int) -> float:
    """What a mean that was subtracted from n columns contributes to ||A||_F^2."""
    return 0.0 if mean is None else n * _square(mean)


# ---- Checkpoints, and the noise


def write_state(block: Block, state: State, name: str) -> None:
    """Save the state of a block between two rounds.

    Parameters
    ----------
    block : Block
    state : State
    name : str
        Prefix of the file name.
    """
    first = getattr(block.rows, "first", 0)
    checkpoint_save(f"{name}{first}", (state.S, state.C, state.noise))


def read_state(block: Block, state: State, name: str) -> tuple[State, tuple[()]]:
    """Continue with a saved state of a block.

    Parameters
    ----------
    block : Block
    state : State
    name : str
        Prefix of the file name.

    Returns
    -------
    state : State
    sums : ()
    """
    first = getattr(block.rows, "first", 0)
    S, C, noise = checkpoint_load(f"{name}{first}")
    return State(Centred(*S), C, noise), ()


def noise_cells(block: Block, state: State) -> tuple[Cells, Array]:
    """Return the candidates of a block and which of them are noise.

    Parameters
    ----------
    block : Block
    state : State

    Returns
    -------
    cells : Cells
    noise : (c,) array of bool
    """
    return block.cells, state.noise


def noise_matrix(store: MemoryRows, shape: tuple[int, int]) -> np.ndarray:
    """Return N as a boolean matrix, for rows in one block.

    Parameters
    ----------
    store : MemoryRows
        After the rounds.
    shape : (n, l)

    Returns
    -------
    (n, l) ndarray of bool
    """
    ((cells, noise),) = store.gather(noise_cells)
    is_noise = to_numpy(noise)
    row = to_numpy(cells.row)[is_noise]
    label = to_numpy(cells.label)[is_noise]
    N = np.zeros(shape, dtype=bool)
    N[row, label] = True
    return N
