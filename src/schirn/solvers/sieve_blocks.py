"""Where the rows of Sieve live: in memory, on a device, in files, on Dask workers.

Few rows are brought together for `schirn.solvers.sieve_kernel`. Many rows get features
(`schirn.solvers.sieve_landmarks`) and never leave their place: the steps of `schirn.solvers.sieve`
travel to the blocks (`schirn.scale.blocks`), and sums come back.
"""

from collections.abc import Callable, Sequence
from functools import partial, reduce
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from sklearn.utils import check_random_state

from schirn._checkpoint import remembered
from schirn._progress import stage
from schirn.exceptions import InputError
from schirn.linalg.arrays import Array, is_device_array, like, namespace, release, to_numpy
from schirn.linalg.features import FeatureScale, FeatureStatistics, feature_statistics, scale_of
from schirn.noise.model import NoiseModel
from schirn.scale.blocks import Block, RowStore, add_sums
from schirn.scale.factor import MOST_FEATURES
from schirn.scale.files import FileRows
from schirn.scale.memory import large_array
from schirn.solvers.sieve import (
    Pool,
    Problem,
    SieveResult,
    known_rates,
    log_odds,
    trusts,
)
from schirn.solvers.sieve_kernel import KernelExpansion, Options, expansion, kernel_matrix, pick
from schirn.solvers.sieve_kernel import solve as solve_kernel
from schirn.solvers.sieve_landmarks import (
    FeatureMap,
    FeatureProblem,
    Spectrum,
    draw_features,
    draw_held,
    gram_sums,
    held_last,
    single_precision,
    solve,
    spectrum,
)
from schirn.solvers.sieve_rows import Split, make_rows


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


class BlockProblem(FeatureProblem):
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
        super().keep_first()
        self.blocks.step(_keep_first)

    def weights(self, k: int, sums: Any, lams: Sequence[float]) -> Any:
        """Weights and intercepts of split k, made near the rows: only sums travel there."""
        return self.blocks.near(_ridges, self.spectra[k], sums, lams, self.single, place=k)

    def expansion(self, sums: Any, lams: Sequence[float]) -> list[tuple[np.ndarray, np.ndarray]]:
        """Weights and intercepts of the ridges on all rows."""
        found = self.blocks.near(_ridges, self.spectra[0], sums[:2], lams, False)
        return [(to_numpy(W), to_numpy(b)) for W, b in self.blocks.here(found)]

    def restore(self, p: list[Any]) -> None:
        """Go on with the probabilities of a checkpoint, one list per block."""
        firsts = self.blocks.gather(_first)
        self.blocks.step(_restore, dict(zip(firsts, p, strict=True)))


def _ridges(
    spectrum: Spectrum, sums: tuple[Array, np.ndarray], lams: Sequence[float], single: bool
) -> list[tuple[Array, Array]]:
    found = spectrum.ridges(*sums, lams)
    # Rows of single precision use ridges of single precision: half of the bytes for other workers.
    return [_single(*ridge) for ridge in found] if single else found


def _single(W: Array, b: Array) -> tuple[Array, Array]:
    xp = namespace(W)
    return xp.astype(W, xp.float32), xp.astype(b, xp.float32)


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
    expansion: KernelExpansion, result: SieveResult, scale: FeatureScale, stride: int
) -> SieveFit:
    """Collect what the rounds found."""
    pieces = [Sample(*some) for some in result.problem.gather(_sample, stride)]
    log_odds, Y = (np.concatenate(arrays) for arrays in list(zip(*pieces, strict=True))[:2])
    confidence = sp.csr_array(sp.vstack(result.soft_labels()))
    Q = confidence[::stride].toarray()
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
        fit = gather_fit(expansion(function, Z, result.ridges), result, scale, 1)
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
    fit = gather_fit(source.expansion(many.ridges), many, scale, stride)
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
