"""Where the rows of Sieve live: in memory, on a device, in files, on Dask workers.

Few rows are brought together for `schirn.solvers.sieve`. Many rows get features, those of the
Nyström approximation or their own for a linear kernel. `factor` makes them for rows in memory,
`sieve_blocks` for blocks of rows (`schirn.scale.blocks`), which never leave their place: the steps
of `schirn.solvers.sieve_landmarks` travel to them and sums come back.
"""

from collections.abc import Callable, Sequence
from functools import partial, reduce
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from sklearn.utils import check_random_state

from schirn._checkpoint import remembered
from schirn._progress import stage, track
from schirn.exceptions import InputError
from schirn.linalg.arrays import (
    Array,
    is_device_array,
    like,
    namespace,
    release,
    row_pieces,
    to_numpy,
)
from schirn.linalg.features import FeatureScale, FeatureStatistics, feature_statistics, scale_of
from schirn.linalg.kernels import Kernel, nystroem_map, sample_width, width_sample
from schirn.linalg.row_space import gram_spectrum, rounding
from schirn.noise.model import NoiseModel, cell_blocks
from schirn.scale.blocks import Block, RowStore, add_sums
from schirn.scale.factor import MOST_FEATURES
from schirn.scale.files import FileRows
from schirn.scale.memory import large_array
from schirn.solvers.sieve import (
    KernelExpansion,
    Options,
    Pool,
    expansion,
    kernel_matrix,
    known_rates,
    on_device,
    pick,
    trusts,
)
from schirn.solvers.sieve import SieveResult as KernelResult
from schirn.solvers.sieve import solve as solve_kernel
from schirn.solvers.sieve_landmarks import (
    Candidates,
    Problem,
    Rows,
    SieveResult,
    Spectrum,
    Split,
    dense_part,
    log_odds,
    piece_rows,
    solve,
)

_BLOCK_ROWS = 5000


def make_rows(
    X: Any,
    Y: sp.csr_array,
    index: np.ndarray,
    rates: Any = None,
    known: np.ndarray | None = None,
    first: int = 0,
) -> Rows:
    """Some rows of a block with their candidates.

    Parameters
    ----------
    X : array or CSR array of shape (m, d)
        Features of these rows.
    Y : CSR array of shape (n, l)
        Candidates of all rows of the block.
    index : ndarray of shape (m,)
        Which rows of the block these are.
    rates : float or ndarray of shape (n,), optional
    known : ndarray of shape (n, l), optional
    first : int
        Index of the first row of the block among all rows.
    """
    n, l = len(index), Y.shape[1]
    own = Y[index]
    label, indptr = own.indices.astype(np.int64), own.indptr.astype(np.int64)
    row = np.repeat(np.arange(n), np.diff(indptr))
    near = dense_part(X)
    labels, rows, flat = (like(a, near, "own") for a in (label, row, row * l + label))
    listed = np.bincount(label, minlength=l)
    candidates = Candidates(indptr, (n, l), listed, labels, rows, flat)
    if is_device_array(near):
        # Sorting 16-bit integers takes a tenth of the time.
        order = np.argsort(label.astype(np.min_scalar_type(l)), kind="stable")
        by_label = tuple(like(a, near, "own") for a in (order, label[order], row[order]))
        candidates = candidates._replace(by_label=by_label, blocks=cell_blocks(indptr, near))
    own_rates = rates[index] if isinstance(rates, np.ndarray) else None
    certain = None if known is None else known[index][row, label]
    return Rows(X, candidates, index + first, own_rates, certain)


class FactoredRows(NamedTuple):
    """Features of many rows in memory, factored; nothing here depends on the labels."""

    X: Any
    """Features, the rows held out last."""
    indices: np.ndarray
    """Which row of the data each row of X is."""
    edge: int
    """Number of rows that are not held out."""
    spectra: list[Spectrum]
    source: "FeatureMap"
    drawn: np.ndarray
    """Rows held out, in the order of the draw."""

    def problem(self, Y: Any, rates: Any = None, known: np.ndarray | None = None) -> Problem:
        """The splits with candidates Y."""
        Y, k = sp.csr_array(Y), self.edge
        splits = [Split(make_rows(self.X, Y, self.indices, rates, known))]
        drawn = []
        # An inner split without a candidate teaches nothing.
        if np.diff(Y.indptr)[self.indices[:k]].any():
            train = make_rows(self.X[:k], Y, self.indices[:k], rates)
            splits.append(Split(train, make_rows(self.X[k:], Y, self.indices[k:], rates)))
            drawn = [self.drawn]
        return Problem(splits, self.spectra[: len(splits)], drawn, Y.shape[1], rates)


def factor(
    X: Any,
    *,
    kernel: str,
    n_landmarks: int,
    rng: np.random.RandomState,
    scaled: Callable[[Any], Any] = lambda rows: rows,
) -> FactoredRows:
    """Factor the features of many rows in memory, or in a temporary file if they do not fit.

    Parameters
    ----------
    X : array or CSR array of shape (n, d)
    kernel, n_landmarks
        As in `schirn.Sieve`.
    rng : RandomState
    scaled : function
        Scales some rows of X.
    """
    n = X.shape[0]
    drawn = draw_held(n, rng)
    source = draw_features(n, kernel, n_landmarks, rng, lambda rows: scaled(pick(X, rows)))
    order, k = held_last(n, np.sort(drawn))
    features = source.ordered(X, order, scaled)
    single = single_precision(source, X.dtype)
    found = remembered(
        "spectra", lambda: spectra(gram_sums(features[:k]), gram_sums(features[k:]), single)
    )
    found = [Spectrum(*spectrum) for spectrum in found]
    return FactoredRows(features, order, k, found, source, drawn)


# ---- Features of many rows


class FeatureMap(NamedTuple):
    """Features of scaled rows: kernel(rows, support) R - shift, or the rows themselves."""

    kernel: Kernel
    support: Any = None
    """Landmarks; None for a linear kernel."""
    nystroem: np.ndarray | None = None
    shift: np.ndarray | None = None
    """About the mean of dense features, so that single precision has digits for the rest."""

    def features(self, Z: Any) -> Any:
        """The features, in single precision if they come from landmarks."""
        if self.support is None:
            return Z if self.shift is None else Z - like(self.shift, Z)
        xp = namespace(Z)
        support = on_device(self.support, Z)
        R, shift = (like(A, dense_part(Z)) for A in (self.nystroem, self.shift))
        pieces = [
            xp.astype(self.kernel(Z[i : i + _BLOCK_ROWS], support) @ R - shift, xp.float32)
            for i in range(0, Z.shape[0], _BLOCK_ROWS)
        ]
        return xp.concat(pieces)

    def ordered(self, X: Any, order: np.ndarray, scaled: Callable[[Any], Any]) -> Any:
        """Features of the rows of X in a new order, some rows at a time."""
        if self.support is None or not len(order):
            return pick(self.features(scaled(X)), order)
        # What the features are made of moves to the rows once, not with every block.
        some = scaled(pick(X, order[:1]))
        R, shift = (like(A, dense_part(some)) for A in (self.nystroem, self.shift))
        near = self._replace(support=on_device(self.support, some), nystroem=R, shift=shift)
        shape, out = (len(order), R.shape[1]), None
        for i in track(range(0, len(order), _BLOCK_ROWS), "features of block", minor=True):
            piece = near.features(scaled(pick(X, order[i : i + _BLOCK_ROWS])))
            if out is None and isinstance(piece, np.ndarray):
                out = large_array(shape, piece.dtype)
            elif out is None:
                out = namespace(piece).empty(shape, dtype=piece.dtype, device=piece.device)
            out[i : i + _BLOCK_ROWS] = piece
            release(out[i : i + _BLOCK_ROWS])
        return out

    def expansion(self, ridges: Sequence[tuple[np.ndarray, Any]]) -> KernelExpansion:
        """Expansion of the ridges of all experts."""
        shift, R = self.shift, self.nystroem
        offsets = [b if shift is None else b - shift @ W for W, b in ridges]
        weights = [W if R is None else R @ W for W, _ in ridges]
        return KernelExpansion(self.kernel, self.support, np.stack(weights), np.stack(offsets))


def draw_held(n: int, rng: np.random.RandomState) -> np.ndarray:
    """Rows held out of the inner split: a quarter."""
    return np.array_split(rng.permutation(n), 4)[0]


def draw_features(
    n: int,
    kernel: str,
    n_landmarks: int,
    rng: np.random.RandomState,
    scaled_rows: Callable[[np.ndarray], Any],
) -> FeatureMap:
    """Draw landmarks and the kernel width, from rows that `scaled_rows` gets by sorted index."""
    stage("drawing landmarks" if kernel == "rbf" else "looking at some rows")
    sample = scaled_rows(width_sample(n, rng))
    if kernel == "linear":
        dense = not sp.issparse(sample)
        return FeatureMap(Kernel("linear"), shift=to_numpy(sample).mean(0) if dense else None)
    function = Kernel("rbf", sample_width(sample))
    landmarks = scaled_rows(np.sort(rng.choice(n, min(n, n_landmarks), replace=False)))
    R = nystroem_map(function, landmarks)
    shift = function(landmarks, landmarks).mean(axis=0) @ like(R, dense_part(landmarks))
    landmarks = landmarks if sp.issparse(landmarks) else to_numpy(landmarks)
    return FeatureMap(function, landmarks, to_numpy(R), to_numpy(shift))


def single_precision(source: FeatureMap, dtype: Any) -> bool:
    """Whether the features of rows of this type have single precision."""
    return source.support is not None or "float32" in str(dtype)


def held_last(n: int, held: np.ndarray) -> tuple[np.ndarray, int]:
    """The order of n rows that puts those held out last, so that splits are slices; the edge."""
    learned = np.ones(n, dtype=bool)
    learned[held] = False
    rest = np.flatnonzero(learned)
    return np.concatenate([rest, held]), len(rest)


class GramSums(NamedTuple):
    """Number of rows, their sum and their Gram matrix, in double precision."""

    n: int
    total: Array
    gram: Array


def gram_sums(X: Any) -> GramSums:
    """Sums over some rows of features."""
    if sp.issparse(X):
        X = X.astype(np.float64)
        return GramSums(X.shape[0], X.T @ np.ones(X.shape[0]), (X.T @ X).toarray())
    xp, (n, d) = namespace(X), X.shape
    stage("multiplying the features")
    kind = {"dtype": xp.float64, "device": X.device}
    total, gram = xp.zeros(d, **kind), xp.zeros((d, d), **kind)
    for _, rows in row_pieces(X, piece_rows(X, d)):
        piece = xp.astype(rows, xp.float64)
        total += xp.sum(piece, axis=0)
        gram += piece.T @ piece
    return GramSums(n, total, gram)


def spectra(rest: GramSums, held: GramSums, single: bool) -> list[Spectrum]:
    """Spectra of all rows, and of those that are not held out."""
    stage("factoring the features")
    return [spectrum(sums, single) for sums in (add_sums(rest, held), rest)]


def spectrum(sums: GramSums, single: bool) -> Spectrum:
    """Spectrum of rows with these sums, of features in single or double precision."""
    n, total, gram = sums
    mean = total / max(n, 1)
    floor = rounding((n, len(mean)), np.dtype(np.float32 if single else np.float64))
    eigenvalues, basis = gram_spectrum(gram - n * mean[:, None] * mean, floor)
    basis = np.ascontiguousarray(basis) if isinstance(basis, np.ndarray) else basis
    return Spectrum(eigenvalues, n, basis, mean)


# ---- Rows in blocks


class State(NamedTuple):
    """State of a block: its features and splits, then the values of `Split`, one per split."""

    X: Any
    """Features, the rows held out last."""
    edge: int
    """Number of rows that are not held out."""
    splits: tuple[Split, ...]
    """Splits without features and values."""
    factors: tuple[Any, ...] = ()
    p: tuple[Any, ...] = ()
    q: tuple[Any, ...] = ()
    S: tuple[Any, ...] = ()
    S_held: tuple[Any, ...] = ()

    def full(self) -> list[Split]:
        """The splits with features and values."""
        values = self[3:] if self.p else [(None,) * len(self.splits)] * len(_VALUES)
        inner = self.X[: self.edge], self.X[self.edge :]
        found = []
        for k, (split, *now) in enumerate(zip(self.splits, *values, strict=True)):
            train = split.train._replace(X=inner[0] if k else self.X)
            held = None if split.held is None else split.held._replace(X=inner[1])
            found.append(Split(train, held, *now))
        return found


_VALUES = ("factors", "p", "q", "S", "S_held")


class BlockProblem(Problem):
    """Splits of rows in blocks; `single` if their features have single precision.

    The eigenvectors of the spectra are results of `blocks.near`.
    """

    def __init__(
        self,
        blocks: RowStore,
        spectra: Any,
        drawn: Any,
        n_labels: int,
        rates: Any = None,
        single: bool = False,
    ):
        super().__init__([], spectra, drawn, n_labels, rates)
        self.blocks, self.single = blocks, single

    def each(self, step: Callable[..., Any], messages: Sequence[Any], *common: Any) -> list[Any]:
        """Run step(split, message, *common) on every split; the sums of each over all blocks."""
        return list(self.blocks.step(_each, step, list(messages), common))

    def gather(self, function: Callable[..., Any], *message: Any) -> list[Any]:
        """Call function(splits, *message) on the splits of every block."""
        return self.blocks.gather(_gather, function, message)

    def keep_first(self) -> None:
        """Drop the inner split."""
        self.blocks.step(_keep_first)
        self.spectra, self.drawn = self.spectra[:1], []

    def ridges(self, sums: Sequence[Any], lams: Sequence[float], exact: bool = False) -> list[Any]:
        """Ridges of every split, made near the rows: only sums travel there."""
        near = self.blocks.near
        single = self.single and not exact
        found = [
            None if own is None else near(_ridges, spectrum, own[:2], lams, single, place=k)
            for k, (spectrum, own) in enumerate(zip(self.spectra, sums, strict=True))
        ]
        return [self.blocks.here(ridges) for ridges in found] if exact else found

    def restore(self, p: list[Any]) -> None:
        """Go on with the probabilities of a checkpoint, one list per block."""
        firsts = self.blocks.gather(_first)
        self.blocks.step(_restore, dict(zip(firsts, p, strict=True)))


def _ridges(
    spectrum: Spectrum, sums: tuple[Array, np.ndarray], lams: Sequence[float], single: bool
) -> list[tuple[Array, Array | None]]:
    found = spectrum.ridges(*sums, lams)
    # Rows of single precision use ridges of single precision: half of the bytes for other workers.
    return [_single(*ridge) for ridge in found] if single else found


def _single(W: Array, b: Array | None) -> tuple[Array, Array | None]:
    xp = namespace(W)
    return xp.astype(W, xp.float32), None if b is None else xp.astype(b, xp.float32)


def _each(
    block: Block, state: State, step: Callable[..., Any], messages: list[Any], common: Any
) -> tuple[State, tuple[Any, ...]]:
    before = state.full()
    found = [step(s, message, *common) for s, message in zip(before, messages, strict=True)]
    changed: dict[str, Any] = {}
    for name in _VALUES:
        new = tuple(getattr(split, name) for split, _ in found)
        # Blocks in files write only what is another object than before.
        if not state.p or any(a is not getattr(b, name) for a, b in zip(new, before, strict=True)):
            changed[name] = new
    return state._replace(**changed), tuple(sums for _, sums in found)


def _gather(block: Block, state: State, function: Callable[..., Any], message: Any) -> Any:
    return function(state.full(), *message)


def _first(block: Block, state: State) -> int:
    return int(block.rows.first)


def _restore(
    block: Block, state: State, p: dict[int, list[np.ndarray]]
) -> tuple[State, tuple[Any, ...]]:
    new = zip(p[block.rows.first], state.p, strict=True)
    return state._replace(p=tuple(like(values, before) for values, before in new)), ()


def _keep_first(block: Block, state: State) -> tuple[State, tuple[Any, ...]]:
    return State(*state[:2], *(values[:1] for values in state[2:])), ()


class Sample(NamedTuple):
    """Some rows: log-odds of all cells, candidates and their posterior, (m, l) each."""

    log_odds: np.ndarray
    Y: np.ndarray
    Q: np.ndarray


class SieveFit(NamedTuple):
    """A Sieve fitted to rows wherever they are."""

    expansion: KernelExpansion
    lams: np.ndarray
    pool: Pool
    noise: NoiseModel
    rates: np.ndarray
    objective: np.ndarray
    confidence: sp.csr_array
    """Posterior of all candidates, (n, l)."""
    sample: Sample
    scale: FeatureScale
    log_odds: Any = None
    """Log-odds (n, l) of all rows, each left out of its own fit: on a device, or if asked for."""
    problem: Problem | None = None
    """The rows, if there are many."""

    def unlisted(self, low: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Row, label and log-odds of the cells of many rows that are not listed, from `low` on."""
        assert self.problem is not None
        found = self.problem.gather(_unlisted, low)
        row, label, z = (np.concatenate(arrays) for arrays in zip(*found, strict=True))
        return row, label, z


def gather_fit(
    source: FeatureMap, result: SieveResult, scale: FeatureScale, stride: int
) -> SieveFit:
    """Collect what a fit of many rows found."""
    pieces = [Sample(*some) for some in result.problem.gather(_sample, stride)]
    log_odds, Y = (np.concatenate(arrays) for arrays in list(zip(*pieces, strict=True))[:2])
    confidence = sp.csr_array(sp.vstack(result.soft_labels()))
    Q = confidence[::stride].toarray()
    expansion = source.expansion(result.ridges)
    return SieveFit(
        expansion,
        np.asarray(result.lams),
        result.pool,
        result.noise,
        result.rates,
        result.objective,
        confidence,
        Sample(log_odds, Y, Q),
        scale,
        result.problem.gather(_device_log_odds)[0],
        result.problem,
    )


def kernel_fit(
    kernel: Kernel, Z: Any, Y: np.ndarray, result: KernelResult, scale: FeatureScale, stride: int
) -> SieveFit:
    """The same for rows whose kernel matrix is in memory."""
    row, label = np.nonzero(Y)
    indptr = np.searchsorted(row, np.arange(len(Y) + 1))
    confidence = sp.csr_array((result.Q[row, label], label, indptr), shape=Y.shape)
    some = Sample(result.log_odds[::stride], Y[::stride], result.Q[::stride])
    found = result[1:6]
    return SieveFit(expansion(kernel, Z, result.ridges), *found, confidence, some, scale)


def _device_log_odds(splits: Sequence[Split]) -> Any:
    """Log-odds of all rows in the order of their index; None for rows in main memory."""
    z = splits[0].S
    return pick(z, np.argsort(splits[0].train.indices)) if is_device_array(z) else None


def _unlisted(splits: Sequence[Split], low: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rows, z = splits[0].train, to_numpy(splits[0].S)
    likely = z >= low
    likely[to_numpy(rows.candidates.row), to_numpy(rows.candidates.label)] = False
    row, label = np.nonzero(likely)
    order = np.lexsort((label, rows.indices[row]))
    row, label = row[order], label[order]
    return rows.indices[row], label, z[row, label]


def _copy_log_odds(splits: Sequence[Split], out: np.ndarray) -> None:
    """Write the log-odds of a block in this process to their rows of `out`."""
    first = int(splits[0].train.indices.min())
    found = log_odds(splits)
    out[first : first + len(found)] = found
    release(out[first : first + len(found)])


def _sample(splits: Sequence[Split], stride: int) -> tuple[np.ndarray, np.ndarray, None]:
    """Log-odds and candidates (m, l) of the rows 0, stride, 2 stride, ... among all rows."""
    indices, c = splits[0].train.indices, splits[0].train.candidates
    listed = np.zeros(c.shape, dtype=np.uint8)
    listed[to_numpy(c.row), to_numpy(c.label)] = 1
    order = np.argsort(indices)
    chosen = order[indices[order] % stride == 0]
    return to_numpy(pick(splits[0].S, chosen)), listed[chosen], None


class RowLook(NamedTuple):
    """What the driver needs to know about a block before anything else."""

    features: FeatureStatistics
    n_labels: int
    sizes: np.ndarray
    """Number of candidates of each row."""


def sieve_blocks(
    blocks: RowStore,
    *,
    features: str = "auto",
    kernel: str = "rbf",
    noise_level: "float | np.ndarray | None" = None,
    lam: float | None = None,
    max_iter: int = 8,
    max_kernel_rows: int = 4000,
    n_landmarks: int = 1500,
    random_state: int | None = 0,
    sample_rows: int = 10_000,
    all_log_odds: bool = False,
) -> SieveFit:
    """Train on rows in blocks; the parameters are those of `schirn.Sieve`.

    Up to `max_kernel_rows` rows are brought together, on the device of the first block.

    Parameters
    ----------
    blocks : RowStore
        Blocks of `FeatureRows` of X, all dense or all sparse, and their candidates.
    sample_rows : int
        The sample has every k-th row, where k is the number of rows divided by this.
    all_log_odds : bool
        Whether to bring back the log-odds of all rows: in `log_odds` for rows in files, which may
        lie in a temporary file themselves; elsewhere the sample has all rows.
    """
    stage("looking at the rows")
    looks = blocks.gather(_look)
    whole = looks[0].features
    for other in looks[1:]:
        whole = whole.merge(other.features)
    scale = scale_of(whole, features)
    n, l = whole.n, looks[0].n_labels
    sizes = np.concatenate([o.sizes for o in looks])
    rates = known_rates(noise_level, sizes, l)
    rng = check_random_state(random_state)
    common: dict[str, Any] = {"kernel": kernel, "lam": lam, "trusting": trusts(noise_level)}
    common["max_iter"] = max_iter
    in_files = isinstance(blocks, FileRows)
    if n <= max_kernel_rows:
        rows, labels = zip(*blocks.gather(_rows_and_candidates), strict=True)
        Z, Y = scale.transform(_stack(rows)), sp.vstack(labels).toarray()
        function, K = kernel_matrix(Z, kernel, rng)
        result = solve_kernel(K, Y, options=Options(rates), random_state=random_state, **common)
        fit = kernel_fit(function, Z, Y, result, scale, 1)
        return fit._replace(log_odds=like(result.log_odds, Z)) if is_device_array(Z) else fit
    if kernel == "linear" and len(whole.filled) > MOST_FEATURES:
        raise InputError(
            f"X has {len(whole.filled):,} features; a linear kernel of more than "
            f'{MOST_FEATURES:,} is too large for rows in blocks; set kernel="rbf", or reduce '
            f"the features first"
        )
    drawn = draw_held(n, rng)

    def scaled_rows(index: np.ndarray) -> Any:
        pieces = [piece for piece in blocks.gather(_pick_rows, index) if piece.shape[0]]
        return scale.transform(_stack(pieces))

    source = draw_features(n, kernel, n_landmarks, rng, scaled_rows)
    own = rates if isinstance(rates, np.ndarray) else None
    sums = blocks.start(_make_splits, scale, source, np.sort(drawn), own)
    stage("factoring the features")
    single = single_precision(source, whole.dtype)
    found = remembered("spectra", partial(_factored, blocks, sums, single))
    # The sums of many blocks take much memory on the workers. Eigenvectors are sent back, because
    # what was made there from all blocks would take all blocks to make again if it were lost.
    del sums
    found = [
        Spectrum(eigenvalues, m, blocks.near(_same, basis, place=k), mean)
        for k, (eigenvalues, m, basis, mean) in enumerate(found)
    ]
    problem = BlockProblem(blocks, found, [drawn], l, rates, single)
    # An inner split without a candidate teaches nothing.
    if sizes.sum() == sizes[drawn].sum():
        problem.keep_first()
    many = solve(problem, rng=check_random_state(random_state), **common)
    stride = 1 if all_log_odds and not in_files else max(1, n // sample_rows)
    fit = gather_fit(source, many, scale, stride)
    if all_log_odds and in_files:
        z = large_array((n, l), fit.sample.log_odds.dtype)
        problem.gather(_copy_log_odds, z)
        fit = fit._replace(log_odds=z)
    return fit


def _look(block: Block, state: Any) -> RowLook:
    n, l = block.cells.shape
    return RowLook(
        feature_statistics(block.rows.X), l, np.bincount(to_numpy(block.cells.row), minlength=n)
    )


def _candidates(block: Block) -> sp.csr_array:
    row, label = to_numpy(block.cells.row), to_numpy(block.cells.label)
    # The cells are sorted by label.
    ends = np.searchsorted(label, np.arange(block.cells.shape[1] + 1))
    return sp.csc_array((np.ones(len(row)), row, ends), shape=block.cells.shape).tocsr()


def _rows_and_candidates(block: Block, state: Any) -> tuple[Any, sp.csr_array]:
    return block.rows.X, _candidates(block)


def _pick_rows(block: Block, state: Any, index: np.ndarray) -> Any:
    """Those of the rows that are in this block."""
    X = block.rows.X
    return pick(X, _inside(index, block.rows.first, X.shape[0]))


def _make_splits(
    block: Block,
    state: Any,
    scale: FeatureScale,
    source: FeatureMap,
    held: np.ndarray,
    rates: np.ndarray | None,
) -> tuple[State, tuple[Any, ...]]:
    """Features and splits of a block; sums over the rows learned from and over those held out."""
    X, first = block.rows.X, block.rows.first
    n = X.shape[0]
    index, k = held_last(n, _inside(held, first, n))
    X = source.ordered(X, index, scale.transform)
    own, Y = None if rates is None else rates[first : first + n], _candidates(block)
    rows = [make_rows(X[:0], Y, i, own, first=first) for i in (index, index[:k], index[k:])]
    whole, train, out = (r._replace(X=None) for r in rows)
    state = State(X, k, (Split(whole), Split(train, out)))
    return state, (gram_sums(X[:k]), gram_sums(X[k:]))


def _factored(blocks: RowStore, sums: Sequence[Any], single: bool) -> list[Spectrum]:
    """Spectra of all rows, and of those that are not held out, from the sums of `_make_splits`."""
    found = [blocks.near(_split_spectrum, sums, k, single, place=k) for k in range(2)]
    return [blocks.here(spectrum) for spectrum in found]


def _split_spectrum(sums: Sequence[Any], k: int, single: bool) -> Spectrum:
    total = reduce(add_sums, (own[0] for own in sums))
    total = total if k else reduce(add_sums, (own[1] for own in sums), total)
    return spectrum(total, single)


def _same(value: Array) -> Array:
    return value


def _inside(index: np.ndarray, first: int, n: int) -> np.ndarray:
    """Positions in a block of the sorted rows that are in it."""
    low, high = np.searchsorted(index, [first, first + n])
    return index[low:high] - first


def _stack(pieces: Sequence[Any]) -> Any:
    if len(pieces) == 1:
        return pieces[0]
    if sp.issparse(pieces[0]):
        return sp.csr_array(sp.vstack(pieces))
    return namespace(pieces[0]).concat(list(pieces))
