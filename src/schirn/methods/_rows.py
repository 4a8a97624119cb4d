"""Training and prediction where the rows are: on a device, in files, on Dask workers.

The solver is the one that runs in memory. This module brings rows and candidates to a place, and
takes from its blocks what a fitted model shows; of n x l numbers only the candidates come back.
"""

from collections.abc import Callable
from contextlib import closing
from copy import copy
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from schirn._input import bad_value, check_same_length
from schirn.exceptions import InputError
from schirn.labels.matrix import (
    Labels,
    as_binary,
    as_labels,
    column_names,
    distinct_names,
    warn_empty_rows,
)
from schirn.linalg.arrays import Array, is_device_array, like, namespace, on_gpu, to_numpy
from schirn.noise.calibration import Calibration, posterior
from schirn.scale.blocks import Block
from schirn.scale.cluster import DaskRows, is_lazy, map_lazy
from schirn.scale.factor import (
    Factor,
    Seen,
    device_bad,
    device_float,
    look,
)
from schirn.scale.files import FileRows, RowFile

# Cells that the calibration and the cut of `predict` are learned from.
_SAMPLE_CELLS = 1_000_000
_PIECE_ROWS = 10_000
_ELSEWHERE = {"dask": "dask", "distributed": "dask", "torch": "device", "cupy": "device"}


def kind_of(X: Any) -> str:
    """Where the rows of X are: "memory", "device", "dask" or "files".

    >>> kind_of(np.zeros((2, 2)))
    'memory'
    """
    if isinstance(X, list | tuple):
        kinds = {_ELSEWHERE.get(_package(block)) for block in X}
        return "dask" if kinds == {"dask"} else "memory"
    if isinstance(X, RowFile):
        return "files"
    kind = _ELSEWHERE.get(_package(X), "memory")
    return "memory" if kind == "dask" and not is_lazy(X) else kind


def check_in_memory(name: str, X: Any) -> None:
    """Refuse rows in files and on a GPU, for what works in main memory only."""
    if isinstance(X, RowFile):
        where, bring = "in files", "load them"
    elif is_device_array(X) and on_gpu(X):
        where, bring = "on a GPU", "bring them there (X.cpu() or X.get())"
    else:
        return
    raise InputError(
        f"{name} works in main memory, but the rows are {where}; {bring}, or take a method that "
        f"trains where the rows are: Schirn or Sieve"
    )


def _package(X: Any) -> str:
    return type(X).__module__.partition(".")[0]


class Told(NamedTuple):
    """What X is like over all blocks."""

    n: int
    d: int
    dtype: np.dtype
    sparse: bool


class Outcome(NamedTuple):
    """What a method hands back after training on blocks; `calibration_` is set by then."""

    scores: np.ndarray
    """Scores (m, l) of a sample of rows, as unseen as the method can make them."""
    listed: np.ndarray
    """Candidates of these rows."""
    noise: sp.csr_array
    """(n, l) bool"""
    confidence: sp.csr_array
    """(n, l), with all candidates in it"""


class Unseen(NamedTuple):
    """The state of a block after the last step."""

    scores: Array
    """Leave-one-out scores of the candidates."""
    noise: Array
    sample: Array
    """Leave-one-out scores (l, m) of every so many rows."""


class Verdicts(NamedTuple):
    """The candidates of a block, row after row."""

    counts: np.ndarray
    labels: np.ndarray
    noise: np.ndarray
    confidence: np.ndarray


def fit_rows(model: Any, kind: str, X: Any, y: Any, label_names: Any) -> None:
    """Train on rows that are not in main memory.

    The method has `_fit_place(place, told)` for blocks and `_fit_tensor(X, Y)` for a device.
    """
    if kind == "device":
        _fit_device(model, X, y, label_names)
        return
    if kind == "files":
        Y, names = sparse_candidates(y, label_names)
        place: Any = FileRows(X, Y)
    else:
        names = label_names
        if not is_lazy(y):
            y, names = sparse_candidates(y, label_names)
        place = DaskRows(X, y, block_candidates)
    with closing(place):
        place.run(lambda: _fit_blocks(model, place, names))


def _fit_blocks(model: Any, place: Any, names: Any) -> None:
    seen = place.gather(look)
    told = _check_blocks(seen)
    names = distinct_names(names) or [str(j) for j in range(seen[0].n_labels)]
    if len(names) != seen[0].n_labels:
        raise InputError(
            f"the candidates have {seen[0].n_labels} label columns, but {len(names)} are expected"
        )
    _set_input(model, told.d, names)
    _finish(model, model._fit_place(place, told))


def _fit_device(model: Any, X: Array, y: Any, label_names: Any) -> None:
    X = check_device(model, X, reset=True)
    Y, names = sparse_candidates(y, label_names)
    check_same_length(X.shape[0], Y.shape[0])
    empty = np.flatnonzero(np.diff(Y.indptr) == 0)
    _check_rows(Y.shape[0], Y.shape[1], len(empty), int(empty[0]) if len(empty) else -1)
    _set_input(model, X.shape[1], names)
    _finish(model, model._fit_tensor(X, Y))
    if not sp.issparse(y):
        model.noise_ = _on_device(model.noise_, X, "own")
        model.label_confidence_ = _on_device(model.label_confidence_, X)


def _finish(model: Any, outcome: Outcome) -> None:
    """Set the fitted attributes that all methods have."""
    model.noise_, model.label_confidence_ = outcome.noise, outcome.confidence
    total = outcome.confidence.sum(dtype=np.float64)
    model.cardinality_ = float(total) / outcome.confidence.shape[0]
    model._learn_thresholds(outcome.scores, outcome.listed)


def _on_device(matrix: sp.csr_array, X: Array, dtype: Any = None) -> Array:
    """A sparse (n, l) matrix as a dense array on the device of X."""
    n, l = matrix.shape
    values, rows = like(matrix.data, X, dtype), np.repeat(np.arange(n), np.diff(matrix.indptr))
    out = namespace(X).zeros(n * l, dtype=values.dtype, device=X.device)
    out[like(rows * l + matrix.indices, X, "own")] = values
    return out.reshape(n, l)


def fit_ridge(model: Any, place: Any, factor: Factor) -> Outcome:
    """Train a method that ends in a ridge on Y - N, and judge its candidates."""
    trace = model._train_rows(place, factor.coordinates)
    W, model.intercept_ = factor.coefficients(trace.w)
    xp = namespace(W)
    model.coef_ = np.ascontiguousarray(W.T) if xp is np else xp.asarray(W.T, copy=True)
    # At the solution W is the ridge on Y - N, whose leave-one-out scores are known.
    coordinates = factor.coordinates
    w, _ = coordinates.solve(trace.kept, 1.0, model.lam)
    n, l = coordinates.n_rows, w.shape[1]
    stride = sample_stride(n, l)
    place.step(score_unseen, coordinates.send(w), factor.leverage(model.lam), stride)
    scores, listed = _stack(place.gather(sample_rows, stride))
    model.calibration_ = model._calibrate(scores, listed)
    return Outcome(scores, listed, *_as_csr(place.gather(judge, model.calibration_), (n, l)))


def sample_stride(n: int, l: int) -> int:
    """Every how many rows one is taken into the sample."""
    return max(1, -(-n * l // _SAMPLE_CELLS))


def _stack(parts: list[tuple[np.ndarray, np.ndarray]]) -> tuple[np.ndarray, np.ndarray]:
    return np.concatenate([p[0] for p in parts]), np.concatenate([p[1] for p in parts])


def score_unseen(
    block: Block, state: Any, message: Any, weights: Any, stride: int
) -> tuple[Unseen, tuple[Any, ...]]:
    """Leave-one-out scores B + (XW - B)/(1 - h) of the ridge on B = Y - N."""
    scores = block.rows.expand(message)
    xp = namespace(scores)
    h = block.rows.squares(weights)
    missing = 1 - xp.minimum(h, 0 * h + (1 - float(xp.finfo(h.dtype).eps) ** 0.5))
    flat = xp.reshape(scores, (-1,))
    flat[state.kept] -= 1
    scores /= missing
    flat[state.kept] += 1
    at = xp.take(flat, block.cells.flat)
    return Unseen(at, state.noise, scores[:, offset(block, stride) :: stride] + 0), ()


def sample_rows(block: Block, state: Unseen, stride: int) -> tuple[np.ndarray, np.ndarray]:
    """Scores and candidates (m, l) of the sampled rows."""
    scores = np.ascontiguousarray(to_numpy(state.sample).T)
    return scores, sample_candidates(block, stride)


def sample_candidates(block: Block, stride: int) -> np.ndarray:
    """Candidates (m, l) of the sampled rows."""
    (n, l), first = block.cells.shape, offset(block, stride)
    label, row = to_numpy(block.cells.label), to_numpy(block.cells.row) - first
    chosen = row % stride == 0
    listed = np.zeros((len(range(first, n, stride)), l), dtype=np.uint8)
    listed[row[chosen] // stride, label[chosen]] = 1
    return listed


def offset(block: Block, stride: int) -> int:
    """The first sampled row of a block; over all blocks these are the rows 0, stride, ..."""
    return -getattr(block.rows, "first", 0) % stride


def judge(block: Block, state: Unseen, calibration: Calibration) -> Verdicts:
    """Noise and confidence of the candidates, row after row."""
    scores = to_numpy(state.scores)
    p = calibration.probability(scores)
    confidence = posterior(p, calibration.noise_rate).astype(scores.dtype, copy=False)
    row, label = to_numpy(block.cells.row), to_numpy(block.cells.label)
    order = np.argsort(row, kind="stable")
    counts = np.bincount(row, minlength=block.cells.shape[0])
    noise = to_numpy(state.noise)[order]
    return Verdicts(counts, label[order].astype(np.int32), noise, confidence[order])


def _as_csr(verdicts: list[Verdicts], shape: tuple[int, int]) -> tuple[Any, Any]:
    """`noise_` and `label_confidence_` of all rows."""
    indptr = np.concatenate([[0], np.cumsum(np.concatenate([v.counts for v in verdicts]))])
    labels = np.concatenate([v.labels for v in verdicts])
    confidence = np.concatenate([v.confidence for v in verdicts])
    noise = np.concatenate([v.noise for v in verdicts])
    found = sp.csr_array((noise, labels.copy(), indptr.copy()), shape=shape)
    found.eliminate_zeros()
    return found, sp.csr_array((confidence, labels, indptr), shape=shape)


def _set_input(model: Any, d: int, names: list[str]) -> None:
    model.n_features_in_ = int(d)
    model.label_names_ = names
    model._label_dtype = "<i8"
    model.classes_ = np.arange(max(len(names), 2))


def _check_blocks(seen: list[Seen]) -> Told:
    """Refuse blocks that do not fit together; what X is like."""
    first = seen[0]
    for k, part in enumerate(seen):
        if (part.d, part.sparse) != (first.d, first.sparse) or part.n_labels != first.n_labels:
            raise InputError(
                f"block {k} has {part.d} features and {part.n_labels} labels "
                f"({'sparse' if part.sparse else 'dense'}), but block 0 has {first.d} and "
                f"{first.n_labels} ({'sparse' if first.sparse else 'dense'}); blocks must agree"
            )
        if part.bad is not None:
            raise bad_value(*part.bad)
    empty = sum(part.n_empty for part in seen)
    first_empty = next((part.first_empty for part in seen if part.n_empty), -1)
    n = sum(part.n for part in seen)
    _check_rows(n, first.n_labels, empty, first_empty)
    return Told(n, first.d, np.dtype(max(part.dtype for part in seen)), first.sparse)


def _check_rows(n: int, n_labels: int, n_empty: int, first_empty: int) -> None:
    if n_empty == n:
        raise InputError("no row carries a candidate label, so there is nothing to learn from")
    if n_empty and n_labels > 1:
        warn_empty_rows(n_empty, n, first_empty)


def check_device(model: Any, X: Array, reset: bool = False) -> Array:
    """X of a device as floating numbers, after the checks that all rows pass."""
    if X.ndim != 2 or 0 in X.shape:
        raise InputError(f"X must have rows and columns, got shape {tuple(X.shape)}")
    if not str(getattr(X, "layout", "strided")).endswith("strided"):
        raise InputError(
            f"a sparse tensor ({X.layout}) cannot be used; give X.to_dense(), or a CSR matrix of "
            f"SciPy, which is used in main memory"
        )
    if not reset and X.shape[1] != model.n_features_in_:
        raise InputError(
            f"X has {X.shape[1]} features, but {type(model).__name__} is expecting "
            f"{model.n_features_in_} features as input"
        )
    X = device_float(X)
    bad = device_bad(X)
    if bad is not None:
        raise bad_value(*bad)
    return X


def sparse_candidates(y: Any, names: Any) -> tuple[sp.csr_array, list[str]]:
    """Candidates of any container as CSR of uint8; dense arrays are read in pieces."""
    if y is None:
        raise InputError(
            "fit requires y to be passed, but the target y is None; give the candidate labels"
        )
    if is_device_array(y):
        y = to_numpy(y)
    if sp.issparse(y):
        known = distinct_names(names)
        Y = as_binary(y, "the candidates", names=known)
        return Y, column_names(Y.shape[1], known, "candidates")
    if isinstance(y, np.ndarray) and y.dtype != object and y.ndim == 2 and len(y) > _PIECE_ROWS:
        pieces = [y[i : i + _PIECE_ROWS] for i in range(0, len(y), _PIECE_ROWS)]
        found = [as_labels(piece, names=names) for piece in pieces]
        return sp.csr_array(sp.vstack([_to_csr(part) for part in found])), found[0].names
    labels = as_labels(y, names=names)
    return _to_csr(labels), labels.names


def _to_csr(labels: Labels) -> sp.csr_array:
    return sp.csr_array(labels.matrix)


def block_candidates(Y: Any, first: int) -> Any:
    """The candidates of one block as CSR; errors name the row among all rows."""
    try:
        return sparse_candidates(Y, None)[0]
    except InputError as error:
        raise InputError(f"in the candidates from row {first} on: {error}") from None


def map_rows(model: Any, name: str, X: Any, n_columns: int, **options: Any) -> Any:
    """A method of a fitted model on every block of X, lazily where X is lazy."""
    bare = copy(model)
    for attribute in ("noise_", "label_confidence_"):
        bare.__dict__.pop(attribute, None)
    if kind_of(X) == "files":
        return np.concatenate([_call(block, bare, name, options) for block in X.blocks()])
    return map_lazy(_call, X, (bare, name, options), n_columns)


def _call(block: Any, model: Any, name: str, options: dict[str, Any]) -> Any:
    method: Callable[..., Any] = getattr(model, name)
    return method(block, **options)
