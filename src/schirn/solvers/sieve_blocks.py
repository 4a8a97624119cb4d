"""Sieve on rows in blocks: few rows are gathered in memory, many rows stay in their blocks."""

from dataclasses import dataclass
from functools import partial, reduce
from typing import Any

import numpy as np
import scipy.sparse as sp

from schirn._progress import stage
from schirn.exceptions import InputError
from schirn.linalg.arrays import is_device_array, like, pick, to_numpy
from schirn.linalg.features import (
    FeatureScale,
    FeatureStatistics,
    KernelExpansion,
    feature_statistics,
)
from schirn.scale.blocks import Block, RowStore, stacked_rows
from schirn.scale.factor import MOST_FEATURES
from schirn.scale.files import FileRows
from schirn.solvers.feature_ridges import fit_features
from schirn.solvers.kernel_ridges import fit_kernel
from schirn.solvers.sieve import SieveOptions, SieveResult

DEFAULTS = SieveOptions()


@dataclass(frozen=True, eq=False)
class SieveFit:
    """Result of Sieve on rows in blocks."""

    expansion: KernelExpansion
    result: SieveResult
    scale: FeatureScale
    posterior: sp.csr_array
    """Posterior of all candidates, (n, l)."""
    sample: tuple[np.ndarray, np.ndarray]
    """Log-odds of all cells and candidates of every k-th row, (m, l) each."""
    log_odds: Any = None
    """Log-odds (n, l) of all rows, each left out of its own fit; for rows on a device, or if
    requested."""


def sieve_blocks(
    blocks: RowStore,
    Y: sp.csr_array | None = None,
    options: SieveOptions = DEFAULTS,
    *,
    features: str = "auto",
    sample_rows: int = 10_000,
    all_log_odds: bool = False,
) -> SieveFit:
    """Train on rows in blocks.

    Up to `max_kernel_rows` rows are gathered in main memory.

    Parameters
    ----------
    blocks : RowStore
        Blocks of `FeatureRows` of X, all dense or all sparse, and their candidates.
    Y : CSR array of shape (n, l), optional
        Candidates of all rows; None reads them from the blocks.
    options : SieveOptions
    features : {"auto", "text", "spread", "none"}
    sample_rows : int
        Approximate size of the sample, which takes every k-th row.
    all_log_odds : bool
        Whether to return the log-odds of all rows: for rows in files in `log_odds`, elsewhere as
        a sample that contains all rows.
    """
    stage("looking at the rows")
    statistics = reduce(FeatureStatistics.merge, blocks.gather(_statistics))
    scale = statistics.scale(features)
    Y = sp.csr_array(sp.vstack(blocks.gather(_candidates))) if Y is None else Y
    n, l = Y.shape
    if n <= options.max_kernel_rows:
        X = stacked_rows(blocks.gather(_rows))
        dense = Y.toarray()
        Z = scale.transform(to_numpy(X) if is_device_array(X) else X)
        result, expansion = fit_kernel(Z, dense, options)
        posterior = result.confidence()
        z = result.log_odds()
        sample = z, dense
        z = like(z, X) if is_device_array(X) else None
        return SieveFit(expansion, result, scale, posterior, sample, z)
    if options.kernel == "linear" and len(statistics.filled) > MOST_FEATURES:
        raise InputError(
            f"X has {len(statistics.filled):,} features; a linear kernel of more than "
            f'{MOST_FEATURES:,} is too large for rows in blocks; set kernel="rbf", or reduce '
            f"the features first"
        )
    result, expansion = fit_features(blocks, Y, options, statistics.dtype, scale.transform)
    ridges: Any = result.fitted
    posterior = result.confidence()
    z = None
    in_files = isinstance(blocks, FileRows)
    stride = 1 if all_log_odds and not in_files else max(1, n // sample_rows)
    if is_device_array(ridges.values):
        z = result.log_odds()
        picked = to_numpy(pick(z, np.arange(0, n, stride)))
    else:
        pieces = ridges.map_log_odds(result.combination, partial(_every, stride))
        picked = np.concatenate(pieces)
    if all_log_odds and in_files:
        z = np.empty((n, l), picked.dtype)
        ridges.map_log_odds(result.combination, partial(_write, z))
    sample = picked, Y[::stride].toarray()
    return SieveFit(expansion, result, scale, posterior, sample, z)


def _statistics(block: Block, state: Any) -> FeatureStatistics:
    return feature_statistics(block.rows.X)


def _candidates(block: Block, state: Any) -> sp.csr_array:
    row = to_numpy(block.cells.row)
    label = to_numpy(block.cells.label)
    # The cells are sorted by label.
    ends = np.searchsorted(label, np.arange(block.cells.shape[1] + 1))
    ones = np.ones(len(row), dtype=np.uint8)
    return sp.csc_array((ones, row, ends), shape=block.cells.shape).tocsr()


def _rows(block: Block, state: Any) -> Any:
    return block.rows.X


def _every(stride: int, rows: np.ndarray, z: np.ndarray) -> np.ndarray:
    """Log-odds of rows 0, stride, 2 stride, ... of the data."""
    order = np.argsort(rows)
    return z[order[rows[order] % stride == 0]]


def _write(out: np.ndarray, rows: np.ndarray, z: np.ndarray) -> None:
    """Write the log-odds of a block in this process to the corresponding rows of `out`."""
    first = int(rows.min())
    out[first : first + len(rows)] = z[np.argsort(rows)]
