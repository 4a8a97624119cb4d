"""The arrays kept of a cell, and the measures made of them."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from schirn._files import atomic_write, read_archive
from schirn.exceptions import DataError
from schirn.metrics import evaluate, noise_report

Array = np.ndarray
Extra = Mapping[str, Callable[[Array, Array], float]]


def measures(arrays: Mapping[str, Array], extra: Extra | None = None) -> dict[str, float]:
    """All measures in the field's convention, and further ones f(truth, scores)."""
    scores = arrays["scores"]
    truth = unpack(arrays["truth"], scores.shape)
    predicted = arrays.get("predicted")
    y_pred = None if predicted is None else unpack(predicted, scores.shape)
    values = evaluate(truth, scores, y_pred=y_pred)
    found = _noise(arrays)
    for name in ("auc", "precision", "recall"):
        values[f"noise_{name}"] = found.get(name, float("nan"))
    for name, function in (extra or {}).items():
        values[name] = float(function(truth, scores))
    return values


def _noise(arrays: Mapping[str, Array]) -> dict[str, float]:
    """Noise finding over the candidate cells, laid out as one row."""
    truth = arrays["candidate_truth"][None]
    parts: dict[str, Any] = {
        name: arrays[name][None] for name in ("noise", "confidence") if name in arrays
    }
    return noise_report(truth, np.ones_like(truth), **parts)


def unpack(bits: Array, shape: tuple[int, ...]) -> Array:
    """0/1 matrix from its bits."""
    return np.unpackbits(bits, axis=1, count=shape[1]).astype(bool)


def write_arrays(path: Path, arrays: Mapping[str, Array]) -> None:
    """Write the arrays of a cell, whole or not at all."""
    path.parent.mkdir(exist_ok=True)
    with atomic_write(path) as stream:
        np.savez_compressed(stream, **arrays)  # type: ignore[arg-type]


def read_arrays(path: Path) -> dict[str, Array]:
    """Read the arrays of a cell."""
    if not path.is_file():
        raise DataError(f"{path}: the scores of this cell are not there.")
    arrays = read_archive(path)
    if not _fit_together(arrays):
        raise DataError(f"{path}: not the scores of a cell; delete the file and run it again.")
    return arrays


def _fit_together(arrays: Mapping[str, Array]) -> bool:
    """Whether the arrays are there, of their types, and of one shape."""
    if any(name not in arrays for name in ("scores", "truth", "candidate_truth")):
        return False
    scores, cells = arrays["scores"], arrays["candidate_truth"]
    if scores.ndim != 2 or not scores.size or scores.dtype.kind != "f" or cells.ndim != 1:
        return False
    bits = (scores.shape[0], (scores.shape[1] + 7) // 8)
    masks = [arrays[name] for name in ("truth", "predicted") if name in arrays]
    beside = [arrays[name] for name in ("noise", "confidence") if name in arrays]
    return (
        bool(np.isfinite(scores).all())
        and all(mask.dtype == np.uint8 and mask.shape == bits for mask in masks)
        and all(part.shape == cells.shape and part.dtype.kind in "bf" for part in beside)
        and cells.dtype.kind in "bu"
    )
