"""Stored scores of the runs, and the metrics computed from them."""

import os
import secrets
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.metrics import average_precision_score

from schirn._files import atomic_write, read_archive
from schirn._input import Array
from schirn.exceptions import DataError
from schirn.lab.bench.results import Result, ResultWriter, plain, read_rows
from schirn.metrics import METRICS, evaluate, evaluate_labels, noise_report, tied_rows

NOTHING_PREDICTED = "hamming_loss_of_nothing"
"""Hamming loss of a method that predicts no label at all."""

# Metrics of the candidates that their order alone does not give.
_OF_VALUES = ("noise_precision", "noise_recall", "calibration_error")

Extra = Mapping[str, Callable[[Array, Array], float]]


def compute_metrics(
    arrays: Mapping[str, Array], extra: Extra | None = None, *, ranks_only: bool = False
) -> dict[str, float]:
    """Compute all metrics in the field's convention, and further ones f(truth, scores).

    Parameters
    ----------
    arrays : dict of str to array
        What a run stored.
    extra : dict of str to callable, optional
        Further metrics by name.
    ranks_only : bool
        The scores are ranks within each row, and the confidences are ranks: omit metrics that
        need their values.

    Returns
    -------
    dict of str to float
    """
    scores = arrays["scores"]
    truth = _unpack(arrays["truth"], scores.shape)
    predicted = arrays.get("predicted")
    y_pred = None if predicted is None else _unpack(predicted, scores.shape)
    values = evaluate(truth, scores, y_pred=y_pred)
    if "candidate_truth" in arrays:
        values |= _noise_metrics(arrays)
    if ranks_only:
        for name in _OF_VALUES:
            values.pop(name, None)
    elif y_pred is not None:
        values |= evaluate_labels(truth, scores, y_pred)
    values["tied_rows"] = tied_rows(truth, scores)
    for name in ("average_precision", "one_error"):
        values[f"{name}_random_ties"] = METRICS[name].function(truth, scores, convention="random")
    nothing = evaluate(truth, scores, y_pred=np.zeros_like(truth))
    values[NOTHING_PREDICTED] = nothing["hamming_loss"]
    for name, function in (extra or {}).items():
        values[name] = float(function(truth, scores))
    return values


def _noise_metrics(arrays: Mapping[str, Array]) -> dict[str, float]:
    # Noise detection is scored on the candidates only, laid out as a single row.
    candidate_truth = arrays["candidate_truth"][None]
    detected: dict[str, Any] = {
        name: arrays[name][None] for name in ("noise", "confidence") if name in arrays
    }
    report = noise_report(candidate_truth, np.ones_like(candidate_truth), **detected)
    values = {
        f"noise_{name}": report.get(name, float("nan")) for name in ("auc", "precision", "recall")
    }
    values |= {"noise_auprc": float("nan"), "calibration_error": float("nan")}
    if "confidence" in arrays:
        is_true = arrays["candidate_truth"].astype(bool)
        confidence = arrays["confidence"]
        if not is_true.all():
            values["noise_auprc"] = float(average_precision_score(~is_true, -confidence))
        values["calibration_error"] = _calibration_error(is_true, confidence)
    return values


def _calibration_error(is_true: Array, confidence: Array) -> float:
    """Return the mean distance between confidence and share of true candidates over ten bins."""
    bins = np.minimum((10 * confidence).astype(int), 9)
    excess = np.bincount(bins, weights=confidence - is_true, minlength=10)
    return float(np.abs(excess).sum() / max(len(is_true), 1))


def _unpack(bits: Array, shape: tuple[int, ...]) -> Array:
    return np.unpackbits(bits, axis=1, count=shape[1]).astype(bool)


def write_arrays(path: Path, arrays: Mapping[str, Array]) -> None:
    """Write the arrays of a run, completely or not at all."""
    path.parent.mkdir(exist_ok=True)
    with atomic_write(path) as stream:
        np.savez_compressed(stream, **arrays)  # type: ignore[arg-type]


def read_arrays(path: Path) -> dict[str, Array]:
    """Read the arrays of a run."""
    if not path.is_file():
        raise DataError(f"{path}: the scores of this run are missing.")
    arrays = read_archive(path)
    if not _are_consistent(arrays):
        raise DataError(f"{path}: not the scores of a run; delete the file and run it again.")
    return arrays


def _are_consistent(arrays: Mapping[str, Array]) -> bool:
    """Check whether the required arrays are present, with matching types and shapes."""
    if any(name not in arrays for name in ("scores", "truth", "candidate_truth")):
        return False
    scores = arrays["scores"]
    cells = arrays["candidate_truth"]
    if scores.ndim != 2 or not scores.size or scores.dtype.kind != "f" or cells.ndim != 1:
        return False
    bits = (scores.shape[0], (scores.shape[1] + 7) // 8)
    masks = [arrays[name] for name in ("truth", "predicted") if name in arrays]
    per_cell = [arrays[name] for name in ("noise", "confidence") if name in arrays]
    return (
        bool(np.isfinite(scores).all())
        and all(mask.dtype == np.uint8 and mask.shape == bits for mask in masks)
        and all(array.shape == cells.shape and array.dtype.kind in "bf" for array in per_cell)
        and cells.dtype.kind in "bu"
    )


def rescore(folder: str | os.PathLike[str], *, extra: Extra | None = None) -> list[Result]:
    """Recompute the metrics of all finished runs from their stored scores, without fitting.

    Parameters
    ----------
    folder : path
        Output folder of a benchmark.
    extra : dict of str to callable, optional
        Further metrics by name: functions f(truth, scores) of a 0/1 matrix and the scores.

    Returns
    -------
    list of dict
        All results of the folder. Results whose metrics changed are also written to it.

    Examples
    --------
    >>> import tempfile
    >>> from schirn.lab import bench
    >>> from schirn.datasets import make_partial_multilabel
    >>> from schirn.metrics import precision_at_k
    >>> data = make_partial_multilabel(n_samples=100, n_labels=5, r=1, random_state=0)
    >>> folder = tempfile.mkdtemp()
    >>> results = bench.run([data], ["CandidateRidge"], output=folder, folds=2, jobs=0)
    >>> results = bench.rescore(folder, extra={"precision_at_1": precision_at_k})
    >>> "precision_at_1" in results[0]["metrics"]
    True
    """
    folder = Path(folder)
    writer = ResultWriter(folder, f"rescored-{secrets.token_hex(4)}")
    results = []
    for result in read_rows(folder):
        if result["status"] == "done" and result["scores"]:
            values = plain(compute_metrics(read_arrays(folder / result["scores"]), extra))
            metrics = {**result["metrics"], **values}
            if metrics != result["metrics"]:
                result = {**result, "metrics": metrics, "finished": time.time()}
                writer.append(result)
        results.append(result)
    return results
