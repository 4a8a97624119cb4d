"""Sieve on rows that live in blocks: in memory, on a device, in files, on Dask workers.

The blocks of the place hold rows of X as they are (`FeatureRows`). A look at all of
them gives the scale of the features, a sample gives width and landmarks; then every block makes
its own features, and the rounds see only those.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from sklearn.utils import check_random_state

from schirn.exceptions import InputError
from schirn.linalg.arrays import namespace, to_numpy
from schirn.linalg.features import FeatureScale, Look, look, scale_of
from schirn.noise.model import NoiseModel
from schirn.scale.blocks import Block, RowStore
from schirn.scale.factor import MOST_FEATURES
from schirn.solvers.sieve import Problem, SieveResult
from schirn.solvers.sieve_blocks import candidate_matrix
from schirn.solvers.sieve_choice import known_rates, solve, trusts
from schirn.solvers.sieve_pool import Pool
from schirn.solvers.sieve_spaces import (
    Expansion,
    FeatureMap,
    draw_features,
    draw_held,
    factor_spaces,
    factor_sums,
    feature_cuts,
    feature_sums,
    label_parts,
    pick,
    single_precision,
)
from schirn.solvers.sieve_steps import State, first_state, log_odds_of


class SieveRows(NamedTuple):
    """A fitted Sieve: what predictions need, and the place where the rows are judged."""

    scale: FeatureScale
    expansion: Expansion
    lams: np.ndarray
    result: SieveResult

    @property
    def pool(self) -> Pool:
        """How expert scores become log-odds."""
        return self.result.pool

    @property
    def noise(self) -> NoiseModel:
        """The noise of the candidates."""
        return self.result.noise

    @property
    def place(self) -> RowStore:
        """The rows with their last states; one block where few rows were brought together."""
        return self.result.place

    @property
    def rates(self) -> np.ndarray:
        """The estimated rate of false labels after each round."""
        return self.result.rates

    @property
    def objective(self) -> np.ndarray:
        """Mean cross-entropy of the soft labels per round."""
        return self.result.objective

    def soft_labels(self) -> list[Any]:
        """Posterior of the candidates as one CSR array per block, with all candidates in it."""
        return self.result.soft_labels()

    def log_odds(self) -> list[np.ndarray]:
        """Leave-one-out log-odds (rows, l) of each block."""
        return self.place.gather(log_odds_of)


class RowLook(NamedTuple):
    """What the driver asks of a block before anything else."""

    features: Look
    n_labels: int
    sizes: np.ndarray
    """Candidates of each row."""


def sieve_rows(
    place: RowStore,
    *,
    features: str = "auto",
    kernel: str = "rbf",
    noise_level: "float | np.ndarray | None" = None,
    lam: float | None = None,
    max_iter: int = 8,
    max_kernel_rows: int = 4000,
    n_landmarks: int = 1500,
    random_state: int | None = 0,
    callback: Callable[[int], None] | None = None,
) -> SieveRows:
    """Train on the rows of a place; the parameters are those of `schirn.Sieve`.

    Up to `max_kernel_rows` rows are brought together, on the device of the first block.

    Parameters
    ----------
    place : its blocks hold `FeatureRows` of X, all dense or all sparse, and their candidates
    """
    looks = place.gather(look_at)
    seen = looks[0].features
    for other in looks[1:]:
        seen = seen.merge(other.features)
    scale = scale_of(seen, features)
    rates = known_rates(noise_level, np.concatenate([o.sizes for o in looks]), looks[0].n_labels)
    draw = check_random_state(random_state)
    if seen.n <= max_kernel_rows:
        Z, Y = _together(place.gather(raw_rows))
        spaces = factor_spaces(
            scale.transform(Z),
            kernel=kernel,
            max_kernel_rows=max_kernel_rows,
            n_landmarks=n_landmarks,
            rng=draw,
        )
        problem, source = spaces.problem(Y, rates), spaces.source
    else:
        problem, source = _factor_blocks(
            place, seen, looks, scale, kernel, n_landmarks, draw, rates
        )
    result, lams = solve(
        problem,
        kernel=kernel,
        lam=lam,
        trusting=trusts(noise_level),
        max_iter=max_iter,
        rng=check_random_state(random_state),
        callback=callback,
    )
    expansion = source.expansion(problem.coordinates[0], result.w)
    return SieveRows(scale, expansion, np.asarray(lams), result)


def _factor_blocks(
    place: RowStore,
    seen: Look,
    looks: list[RowLook],
    scale: FeatureScale,
    kernel: str,
    n_landmarks: int,
    rng: np.random.RandomState,
    rates: Any,
) -> tuple[Problem, FeatureMap]:
    """Features of all blocks, and their factorisation."""
    n, d = seen.n, len(seen.filled)
    if kernel == "linear" and d > MOST_FEATURES:
        raise InputError(
            f"X has {d:,} features; a linear kernel of more than {MOST_FEATURES:,} is too large "
            f'for rows in blocks; take kernel="rbf", or reduce the features first'
        )
    (held,) = draw_held(n, True, rng)

    def scaled_rows(rows: np.ndarray) -> Any:
        pieces = [piece for piece in place.gather(pick_rows, rows) if piece.shape[0]]
        return scale.transform(_stack(pieces))

    source = draw_features(n, kernel, n_landmarks, rng, scaled_rows)
    own = rates if isinstance(rates, np.ndarray) else None
    *sums, listed = place.step(make_parts, scale, source, np.sort(held), own)
    places, drawn = factor_sums(sums, single_precision(source, seen.dtype)), [held]
    if not listed:
        place.step(first_state)
        places, drawn = places[:1], []
    rate = None if own is not None or rates is None else float(rates)
    n_labels = looks[0].n_labels
    return Problem(place, places, drawn, n_labels, rate, own is not None), source


def look_at(block: Block, state: Any) -> RowLook:
    """Sizes and moments of a block."""
    n, l = block.cells.shape
    return RowLook(look(block.rows.X), l, np.bincount(to_numpy(block.cells.row), minlength=n))


def raw_rows(block: Block, state: Any) -> tuple[Any, sp.csr_array]:
    """Rows and candidates of a block."""
    return block.rows.X, candidate_matrix(block.cells)


def pick_rows(block: Block, state: Any, rows: np.ndarray) -> Any:
    """Those of the rows, rising, that are in this block, in main memory."""
    X = block.rows.X
    inside = _inside(rows, block.rows.first, X.shape[0])
    return X[inside] if sp.issparse(X) else to_numpy(pick(X, inside))


def make_parts(
    block: Block,
    state: Any,
    scale: FeatureScale,
    source: FeatureMap,
    held: np.ndarray,
    rates: np.ndarray | None,
) -> tuple[State, tuple[Any, ...]]:
    """Features and candidates of a block; sums for the factorisation, candidates that learn."""
    X, first = block.rows.X, block.rows.first
    n = X.shape[0]
    features, cuts = feature_cuts(source(scale.transform(X)), _inside(held, first, n))
    own = None if rates is None else rates[first : first + n]
    parts = label_parts(features, cuts, candidate_matrix(block.cells), own, first)
    listed = len(parts.parts[1].candidates.cells)
    return State(features, parts), (*feature_sums(features, cuts), listed)


def _inside(rows: np.ndarray, first: int, n: int) -> np.ndarray:
    """Places in the block of the rows, rising, that are in it."""
    low, high = np.searchsorted(rows, [first, first + n])
    return rows[low:high] - first


def _together(pieces: list[tuple[Any, sp.csr_array]]) -> tuple[Any, sp.csr_array]:
    rows, labels = zip(*pieces, strict=True)
    return _stack(list(rows)), sp.csr_array(sp.vstack(labels))


def _stack(pieces: list[Any]) -> Any:
    if len(pieces) == 1:
        return pieces[0]
    if sp.issparse(pieces[0]):
        return sp.csr_array(sp.vstack(pieces))
    return namespace(pieces[0]).concat(pieces)
