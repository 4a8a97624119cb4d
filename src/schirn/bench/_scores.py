"""The arrays kept of a cell, and the measures made of them."""

import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from schirn._atomic import atomic_write
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
    try:
        with np.load(path, allow_pickle=False) as archive:
            return {name: archive[name] for name in archive.files}
    except FileNotFoundError:
        raise DataError(f"{path}: the scores of this cell are not there.") from None
    except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
        raise DataError(f"{path}: not readable as scores ({error}).") from error
