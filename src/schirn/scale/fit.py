"""Training and prediction where the rows are stored: on a device, in files, on Dask workers.

The computation is the same as in memory. A method supports other locations through a single hook,
`_fit_blocks(store, layout)`. Of all n x l numbers, only the verdicts on the candidates are
returned.
"""

from contextlib import closing
from copy import copy
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from schirn._input import check_same_length, location
from schirn.labels.matrix import check_empty_rows, column_names, distinct_names
from schirn.linalg.arrays import Array, flat_cells, like, namespace, to_numpy
from schirn.linalg.leave_one_out import below_one
from schirn.scale.blocks import (
    Block,
    FeatureRows,
    Layout,
    MemoryRows,
    RowStore,
    candidate_cells,
    stacked_rows,
)
from schirn.scale.cluster import DaskRows, map_lazy
from schirn.scale.factor import Factor
from schirn.scale.files import FileRows
from schirn.scale.input import (
    block_candidates,
    check_blocks,
    check_device_rows,
    sparse_candidates,
    summarise,
)

# Maximum number of cells to learn the calibration and the threshold of `predict` from.
_SAMPLE_CELLS = 1_000_000
# Size of the sample on which parameters are chosen, in numbers, and its minimum number of rows.
_SEARCH_CELLS = 500_000
_SEARCH_ROWS = 2000


@dataclass(frozen=True, eq=False)
class BlockFit:
    """Result of `_fit_blocks`."""

    scores: np.ndarray
    """Scores (m, l) of a sample of rows, leave-one-out if the method has them."""
    listed: np.ndarray
    """Candidates (m, l) of these rows."""
    confidence: sp.csr_array
    """Confidences (n, l), with all candidates stored."""
    noise: np.ndarray
    """Mask of the stored candidates that are noise."""


def fit_rows(model: Any, X: Any, y: Any, label_names: Any) -> None:
    """Train a model on rows that are not in main memory.

    Parameters
    ----------
    model : PartialMultiLabelClassifier
        A method with the hook `_fit_blocks`.
    X : rows on a device, in files or on workers
        Features of the rows.
    y : candidates, in any container that `fit` takes
        Candidates of the rows.
    label_names : list of str or None
        Names of the labels.
    """
    where = location(X)
    if where == "device":
        _fit_device(model, X, y, label_names)
        return
    is_lazy = where == location(y) == "dask"
    Y, names = (y, label_names) if is_lazy else sparse_candidates(y, label_names)
    store: Any = FileRows(X, Y) if where == "files" else DaskRows(X, Y, block_candidates)
    with closing(store):
        store.run(lambda: fit_store(model, store, names, y))


def fit_store(model: Any, store: RowStore, names: Any, y: Any = None) -> None:
    """Train a model on the blocks of a store, with the candidates y.

    Parameters
    ----------
    model : PartialMultiLabelClassifier
        A method with the hook `_fit_blocks`.
    store : RowStore
        Blocks of rows with their candidates.
    names : list of str or None
        Names of the labels.
    y : candidates, optional
        Candidates whose type determines the type of the predictions.
    """
    blocks = store.gather(summarise)
    layout = check_blocks(blocks)
    names = column_names(blocks[0].n_labels, distinct_names(names), "candidates")
    model.n_features_in_ = layout.d
    model._set_labels(names, y)
    _finish(model, model._fit_blocks(store, layout))


def _fit_device(model: Any, X: Array, y: Any, label_names: Any) -> None:
    X = check_device_rows(model, X, reset=True)
    Y, names = sparse_candidates(y, label_names, X)
    check_same_length(X.shape[0], Y.shape[0])
    check_empty_rows(np.flatnonzero(np.diff(Y.indptr) == 0), Y.shape)
    model.n_features_in_ = X.shape[1]
    model._set_labels(names, y)
    store = MemoryRows([Block(FeatureRows(X), candidate_cells(Y, X))])
    n, d = X.shape
    dtype = to_numpy(X[:0]).dtype
    layout = Layout(n, d, dtype, sparse=False, device=True, Y=Y)
    fit = model._fit_blocks(store, layout)
    if sp.issparse(y):
        _finish(model, fit)
        return
    Q = fit.confidence
    flat = flat_cells(fit.confidence, X)
    _finish(model, fit, _dense(like(fit.noise, X, "own"), flat, Q.shape))
    model.label_confidence_ = _dense(like(Q.data, X), flat, Q.shape)


def _finish(model: Any, fit: BlockFit, noise: Any = None) -> None:
    """Set the verdicts of the model; the noise is sparse unless it is given."""
    Q = fit.confidence
    if noise is None:
        wrong = np.flatnonzero(fit.noise)
        ones = np.ones(len(wrong), dtype=bool)
        indptr = np.searchsorted(wrong, Q.indptr)
        noise = sp.csr_array((ones, Q.indices[wrong], indptr), shape=Q.shape)
    model._set_verdicts(noise, Q, fit.scores, fit.listed)


def _dense(values: Array, flat: Array, shape: tuple[int, int]) -> Array:
    """Return a dense (n, l) array with these values at flat positions, and 0 elsewhere."""
    n_cells = shape[0] * shape[1]
    dense = namespace(values).zeros(n_cells, dtype=values.dtype, device=values.device)
    dense[flat] = values
    return dense.reshape(shape)


def map_rows(model: Any, name: str, X: Any, n_columns: int, **options: Any) -> Any:
    """Call a method of a fitted model on each block of X, lazily if X is lazy.

    Parameters
    ----------
    model : PartialMultiLabelClassifier
        The fitted model.
    name : str
        Name of a method that takes rows.
    X : Dask array, delayed blocks or RowFile
        Features of the rows.
    n_columns : int
        Number of columns of the result.
    **options : objects
        Passed to the method.

    Returns
    -------
    array, Dask array or delayed blocks
    """
    bare = copy(model)
    for attribute in ("noise_", "label_confidence_"):
        bare.__dict__.pop(attribute, None)
    if location(X) == "files":
        return np.concatenate([_call(block, bare, name, options) for block in X.blocks()])
    return map_lazy(_call, X, (bare, name, options), n_columns)


def _call(block: Any, model: Any, name: str, options: dict[str, Any]) -> Any:
    return getattr(model, name)(block, **options)


class _LeaveOneOut(NamedTuple):
    """State of a block after the last step."""

    scores: Array
    """Leave-one-out scores of the candidates."""
    noise: Array
    sample: Array
    """Leave-one-out scores (l, m) of the sampled rows."""


def judge_by_ridge(
    model: Any, store: RowStore, factor: Factor, targets: Array, lam: float
) -> BlockFit:
    """Judge candidates by leave-one-out scores of the ridge on Y - N; sets `calibration_`.

    Parameters
    ----------
    model : PartialMultiLabelClassifier
        The model; its `calibration_` is set.
    store : RowStore
        Store whose block states have `noise`.
    factor : Factor
        The factored X.
    targets : array
        F'(Y - N).
    lam : float
        Ridge weight.

    Returns
    -------
    BlockFit
    """
    coordinates = factor.coordinates
    w, _ = coordinates.solve(targets, 1.0, lam)
    n = coordinates.n_rows
    l = w.shape[1]
    stride = sample_stride(n, l)
    store.step(_leave_one_out, coordinates.send(w), factor.leverage(lam), stride)
    sampled = store.gather(_sample, stride)
    scores, candidates = (np.concatenate(arrays) for arrays in zip(*sampled, strict=True))
    model.calibration_ = model._calibrate(scores, candidates)
    verdicts = store.gather(_judge, model.calibration_)
    counts, labels, noise, confidence = (
        np.concatenate(arrays) for arrays in zip(*verdicts, strict=True)
    )
    indptr = np.concatenate([[0], np.cumsum(counts)])
    Q = sp.csr_array((confidence, labels, indptr), shape=(n, l))
    return BlockFit(scores, candidates, Q, noise)


def _leave_one_out(
    block: Block, state: Any, message: Any, weights: Any, stride: int
) -> tuple[_LeaveOneOut, tuple[Any, ...]]:
    """Compute leave-one-out scores B + (XW - B)/(1 - h) of the ridge on B = Y - N."""
    scores = block.rows.expand(message)
    xp = namespace(scores)
    flat = xp.reshape(scores, (-1,))
    clean = block.cells.flat[~state.noise]
    flat[clean] -= 1
    scores /= 1 - below_one(block.rows.squares(weights))
    flat[clean] += 1
    candidates = xp.take(flat, block.cells.flat)
    sample = scores[:, sample_start(block, stride) :: stride] + 0
    return _LeaveOneOut(candidates, state.noise, sample), ()


def _sample(block: Block, state: _LeaveOneOut, stride: int) -> tuple[np.ndarray, np.ndarray]:
    """Return scores and candidates (m, l) of the sampled rows."""
    return np.ascontiguousarray(to_numpy(state.sample).T), sample_candidates(block, stride)


def _judge(block: Block, state: _LeaveOneOut, calibration: Any) -> tuple[np.ndarray, ...]:
    """Return the candidates per row, and their labels, noise and confidence, sorted by row."""
    scores = to_numpy(state.scores)
    confidence = calibration.confidence(scores, np.ones(len(scores), dtype=np.uint8))
    row = to_numpy(block.cells.row)
    label = to_numpy(block.cells.label)
    order = np.argsort(row, kind="stable")
    counts = np.bincount(row, minlength=block.cells.shape[0])
    noise = to_numpy(state.noise)[order]
    return counts, label[order].astype(np.int32), noise, confidence[order]


def sample_stride(n: int, l: int) -> int:
    """Return the stride of the sampled rows 0, stride, 2 stride, ... of n rows with l labels.

    Parameters
    ----------
    n : int
        Number of rows.
    l : int
        Number of labels.

    Returns
    -------
    int
    """
    return max(1, -(-n * l // _SAMPLE_CELLS))


def sample_start(block: Block, stride: int) -> int:
    """Return the index of the first sampled row within a block.

    Parameters
    ----------
    block : Block
        The block.
    stride : int
        Stride of the sampled rows.

    Returns
    -------
    int
    """
    return -getattr(block.rows, "first", 0) % stride


def sample_candidates(block: Block, stride: int) -> np.ndarray:
    """Return the candidates (m, l) of the sampled rows.

    Parameters
    ----------
    block : Block
        The block.
    stride : int
        Stride of the sampled rows.

    Returns
    -------
    (m, l) ndarray of uint8
    """
    n, l = block.cells.shape
    first = sample_start(block, stride)
    label = to_numpy(block.cells.label)
    row = to_numpy(block.cells.row) - first
    chosen = row % stride == 0
    candidates = np.zeros((len(range(first, n, stride)), l), dtype=np.uint8)
    candidates[row[chosen] // stride, label[chosen]] = 1
    return candidates


def sample_rows(store: RowStore, layout: Layout) -> tuple[Any, np.ndarray]:
    """Return evenly spaced rows that fit in main memory, and their candidates (m, l).

    Parameters
    ----------
    store : RowStore
        Blocks of rows.
    layout : Layout
        Shape and type of X.

    Returns
    -------
    X : (m, d) array or CSR array
    Y : (m, l) ndarray
    """
    count = layout.n if layout.device else max(_SEARCH_ROWS, _SEARCH_CELLS // layout.d)
    stride = max(1, -(-layout.n // count))
    X, candidates = zip(*store.gather(_sample_features, stride), strict=True)
    return stacked_rows(X), np.concatenate(candidates)


def _sample_features(block: Block, state: Any, stride: int) -> tuple[Any, np.ndarray]:
    X = block.rows.X[sample_start(block, stride) :: stride]
    # A view would keep the whole block in memory.
    X = X.copy() if isinstance(X, np.ndarray) else X
    return X, sample_candidates(block, stride)
