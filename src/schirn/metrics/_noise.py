"""Metrics of how well a method finds the wrong labels among the candidates."""

from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.stats import rankdata

from schirn.exceptions import InputError
from schirn.metrics._input import Array, as_bool, blocks, same_table

Bools = npt.NDArray[np.bool_]


def _cells(y_true: Any, candidates: Any, values: Any, name: str) -> tuple[Bools, Array]:
    """Return the truth and the values of the candidate cells.

    Values called "noise" must be 0/1, and 0 outside the candidates; others must not be NaN.
    """
    labels, truth = same_table(candidates, y_true, ("candidates", "y_true"))
    _, table = same_table(candidates, values, ("candidates", name))
    truths = [np.empty(0, dtype=bool)]
    cells = [np.empty(0)]
    for start, (listed_rows, truth_rows, rows) in blocks(labels, truth, table):
        is_candidate = as_bool(listed_rows, "candidates", start)
        if name == "noise":
            rows = as_bool(rows, name, start)
            bad = rows & ~is_candidate
            problem = "1 at {}, which is not a candidate; only candidate labels can be noise."
        else:
            bad = is_candidate & np.isnan(rows)
            problem = "NaN at {}, a candidate; replace missing values first."
        if bad.any():
            row, column = np.argwhere(bad)[0]
            raise InputError(f"{name} is " + problem.format(f"row {start + row}, column {column}"))
        truths.append(as_bool(truth_rows, "y_true", start)[is_candidate])
        cells.append(rows[is_candidate])
    return np.concatenate(truths), np.concatenate(cells)


def noise_auc(y_true: Any, candidates: Any, confidence: Any) -> float:
    """Probability that a true candidate has a higher confidence than a wrong one.

    Parameters
    ----------
    y_true : array, CSR matrix or DataFrame of shape (n, l)
        0/1 or bool; 1 where the label is true. Cells outside the candidates are ignored.
    candidates : array, CSR matrix or DataFrame of shape (n, l)
        0/1 or bool; the labels listed for each row.
    confidence : array, CSR matrix or DataFrame of shape (n, l)
        Confidence that the label is true; ignored outside the candidates.

    Returns
    -------
    float
        Area under the ROC curve over all candidate cells; a tie counts half. NaN if no candidate
        is wrong or none is true, since there is no pair to order.

    Examples
    --------
    One of the two pairs (0.9 and 0.4, 0.3 and 0.4) is in the right order.

    >>> from schirn.metrics import noise_auc
    >>> noise_auc([[1, 0, 1, 0]], [[1, 1, 1, 0]], [[0.9, 0.4, 0.3, 0.0]])
    0.5
    """
    truth, belief = _cells(y_true, candidates, confidence, "confidence")
    n_true = int(np.count_nonzero(truth))
    n_wrong = truth.size - n_true
    if n_true == 0 or n_wrong == 0:
        return float("nan")
    above = rankdata(belief)[truth].sum() - n_true * (n_true + 1) / 2
    return float(above / n_true / n_wrong)


def _ratio(count: float, total: float) -> float:
    """Return a share; NaN if the total is 0."""
    return count / total if total else float("nan")


def noise_precision(y_true: Any, candidates: Any, noise: Any) -> float:
    """Share of the candidate cells flagged as noise that are wrong.

    Parameters
    ----------
    y_true, candidates
        As in `noise_auc`.
    noise : array, CSR matrix or DataFrame of shape (n, l)
        0/1 or bool; the candidates flagged as wrong, such as ``noise_`` of an estimator.

    Returns
    -------
    float
        NaN if nothing is flagged.

    Examples
    --------
    >>> from schirn.metrics import noise_precision
    >>> noise_precision([[1, 0, 0, 0]], [[1, 1, 1, 0]], [[1, 1, 0, 0]])
    0.5
    """
    return noise_report(y_true, candidates, noise)["precision"]


def noise_recall(y_true: Any, candidates: Any, noise: Any) -> float:
    """Share of the wrong candidate cells that are flagged as noise.

    Parameters
    ----------
    y_true, candidates, noise
        As in `noise_precision`.

    Returns
    -------
    float
        NaN if no candidate is wrong.

    Examples
    --------
    >>> from schirn.metrics import noise_recall
    >>> noise_recall([[1, 0, 0, 0]], [[1, 1, 1, 0]], [[1, 1, 0, 0]])
    0.5
    """
    return noise_report(y_true, candidates, noise)["recall"]


def noise_f1(y_true: Any, candidates: Any, noise: Any) -> float:
    """Harmonic mean of noise precision and noise recall.

    Parameters
    ----------
    y_true, candidates, noise
        As in `noise_precision`.

    Returns
    -------
    float
        0 if only one of the two is undefined; NaN if no candidate is wrong and nothing is
        flagged.

    Examples
    --------
    >>> from schirn.metrics import noise_f1
    >>> noise_f1([[1, 0, 0, 0]], [[1, 1, 1, 0]], [[1, 1, 0, 0]])
    0.5
    """
    return noise_report(y_true, candidates, noise)["f1"]


def noise_report(
    y_true: Any, candidates: Any, noise: Any = None, confidence: Any = None
) -> dict[str, float]:
    """Compute all metrics of noise detection that the given arrays allow.

    Parameters
    ----------
    y_true, candidates
        As in `noise_auc`.
    noise : array, CSR matrix or DataFrame of shape (n, l), optional
        Adds "n_flagged", "precision", "recall" and "f1".
    confidence : array, CSR matrix or DataFrame of shape (n, l), optional
        Adds "auc".

    Returns
    -------
    dict of str to float
        "n_candidates" and "n_wrong" first, then the above; NaN as in the single functions.

    Examples
    --------
    >>> from schirn.metrics import noise_report
    >>> noise_report([[1, 0, 0, 0]], [[1, 1, 1, 0]], noise=[[1, 1, 0, 0]])
    {'n_candidates': 3, 'n_wrong': 2, 'n_flagged': 2, 'precision': 0.5, 'recall': 0.5, 'f1': 0.5}
    """
    values, name = (candidates, "candidates") if noise is None else (noise, "noise")
    truth, flags = _cells(y_true, candidates, values, name)
    wrong = int(np.count_nonzero(~truth))
    report: dict[str, float] = {"n_candidates": truth.size, "n_wrong": wrong}
    if noise is not None:
        flagged, n_right = (int(np.count_nonzero(cells)) for cells in (flags, flags * ~truth))
        report["n_flagged"] = flagged
        report["precision"] = _ratio(n_right, flagged)
        report["recall"] = _ratio(n_right, wrong)
        report["f1"] = _ratio(2 * n_right, flagged + wrong)
    if confidence is not None:
        report["auc"] = noise_auc(y_true, candidates, confidence)
    return report
