"""The five metrics of multi-label ranking, and precision at k."""

from collections.abc import Callable, Mapping
from functools import partial
from numbers import Real
from typing import Any

import numpy as np

from schirn._input import Number, OneOf
from schirn.exceptions import InputError
from schirn.metrics import rows
from schirn.metrics._input import as_bool, as_matrix, blocks, refuse_nan, same_table
from schirn.metrics.rows import Block, Floats

# For each convention: the value of each row, and the rows that count.
RowValues = tuple[Callable[[Block], Floats], str]
CONVENTIONS: dict[str, dict[str, RowValues]] = {
    "field": {
        "average_precision": (rows.average_precision_by_position, "has_both"),
        "ranking_loss": (rows.ranking_loss, "has_both"),
        "coverage": (rows.coverage, "has_true"),
        "hamming_loss": (rows.hamming, "has_true"),
        "one_error": (rows.one_error_lenient, "has_both"),
    },
    "random": {
        "average_precision": (rows.average_precision_random, "has_both"),
        "ranking_loss": (rows.ranking_loss_random, "has_both"),
        "coverage": (rows.coverage_random, "has_true"),
        "hamming_loss": (rows.hamming, "has_true"),
        "one_error": (rows.one_error_random, "has_both"),
    },
}


def row_values(names: list[str], convention: str, empty_rows: str) -> dict[str, RowValues]:
    """Return the values and the rows that count of some metrics, after checking the options."""
    OneOf(tuple(CONVENTIONS)).check("convention", convention)
    OneOf(("drop", "keep")).check("empty_rows", empty_rows)
    chosen = {name: CONVENTIONS[convention][name] for name in names}
    if empty_rows == "keep":
        for name in {"coverage", "hamming_loss"} & set(names):
            chosen[name] = chosen[name][0], "every"
    return chosen


def mean_rows(
    y_true: Any,
    scores: Any,
    metrics: Mapping[str, RowValues],
    *,
    name: str = "scores",
    transform: Callable[[Any], Any] | None = None,
) -> dict[str, float]:
    """Mean of each metric over the rows that count, in one pass over row blocks."""
    truth, values = same_table(y_true, scores, ("y_true", name))
    sums = {metric: np.zeros(2) for metric in metrics}
    for start, (truth_rows, score_rows) in blocks(truth, values):
        refuse_nan(score_rows, name, start)
        block_scores = score_rows if transform is None else transform(score_rows)
        block = Block(as_bool(truth_rows, "y_true", start), block_scores)
        if block.n_labels == 0:
            break
        for metric, (row_value, which) in metrics.items():
            counted = getattr(block, which)
            sums[metric] += [np.sum(row_value(block)[counted]), np.sum(counted)]
    for metric, (_, count) in sums.items():
        if count == 0:
            raise InputError(
                f"no row is left to score for {metric}: rows without a true label and, for "
                "rankings, rows with only true labels do not count; give rows with both."
            )
    return {metric: float(total / count) for metric, (total, count) in sums.items()}


def _mean(
    name: str,
    y_true: Any,
    scores: Any,
    convention: str,
    empty_rows: str = "drop",
    transform: Callable[[Any], Any] | None = None,
) -> float:
    """Mean of one metric."""
    metrics = row_values([name], convention, empty_rows)
    return mean_rows(y_true, scores, metrics, transform=transform)[name]


def average_precision(y_true: Any, scores: Any, *, convention: str = "field") -> float:
    """Precision at the rank of each true label, averaged over labels and rows.

    Parameters
    ----------
    y_true : array, CSR matrix or DataFrame of shape (n, l)
        0/1 or bool; 1 where the label is true.
    scores : array, CSR matrix or DataFrame of shape (n, l)
        Higher means more likely true.
    convention : {"field", "random"}
        "field": positions in the ascending stable order, so the later one of two tied labels
        ranks higher; rows with no true label or only true labels are left out. "random", in every
        ranking metric: the value expected if ties are broken at random, over the same rows.

    Returns
    -------
    float
        Between 0 and 1, higher is better.

    Examples
    --------
    The true labels have ranks 1 and 3, so the value is (1/1 + 2/3) / 2.

    >>> from schirn.metrics import average_precision
    >>> round(average_precision([[1, 0, 1, 0]], [[0.9, 0.8, 0.7, 0.1]]), 3)
    0.833
    """
    return _mean("average_precision", y_true, scores, convention)


def ranking_loss(y_true: Any, scores: Any, *, convention: str = "field") -> float:
    """Share of (true, false) label pairs in the wrong order, averaged over rows.

    Parameters
    ----------
    y_true, scores
        As in `average_precision`.
    convention : {"field", "random"}
        "field": a pair with equal scores counts as wrong; rows with no true label or only true
        labels are left out.

    Returns
    -------
    float
        Between 0 and 1, lower is better.

    Examples
    --------
    One of the four pairs is in the wrong order (0.7 below 0.8).

    >>> from schirn.metrics import ranking_loss
    >>> ranking_loss([[1, 0, 1, 0]], [[0.9, 0.8, 0.7, 0.1]])
    0.25
    """
    return _mean("ranking_loss", y_true, scores, convention)


def coverage(
    y_true: Any, scores: Any, *, convention: str = "field", empty_rows: str = "drop"
) -> float:
    """Depth of the ranking at which all true labels are covered.

    Parameters
    ----------
    y_true, scores
        As in `average_precision`.
    convention : {"field", "random"}
        "field": (depth of the last true label - 1) / l, with positions as in
        `average_precision`; rows with only true labels count.
    empty_rows : {"drop", "keep"}
        Treatment of rows without a true label. Some published code keeps them at depth 0, which
        lowers the mean (each such row counts as -1/l); use "keep" to compare with it.

    Returns
    -------
    float
        Lower is better.

    Examples
    --------
    The last true label is third of four: (3 - 1) / 4.

    >>> from schirn.metrics import coverage
    >>> coverage([[1, 0, 1, 0]], [[0.9, 0.8, 0.7, 0.1]])
    0.5
    """
    return _mean("coverage", y_true, scores, convention, empty_rows)


def one_error(y_true: Any, scores: Any, *, convention: str = "field") -> float:
    """Share of rows whose highest-scored label is false.

    Parameters
    ----------
    y_true, scores
        As in `average_precision`.
    convention : {"field", "random"}
        "field": a tie at the top counts as right if any of the tied labels is true; rows with no
        true label or only true labels are left out.

    Returns
    -------
    float
        Between 0 and 1, lower is better.

    Examples
    --------
    >>> from schirn.metrics import one_error
    >>> truth, scores = [[1, 0, 0], [1, 0, 0]], [[0.9, 0.9, 0.1], [0.2, 0.7, 0.1]]
    >>> one_error(truth, scores)
    0.5
    >>> one_error(truth, scores, convention="random")
    0.75
    """
    return _mean("one_error", y_true, scores, convention)


def hamming_loss(
    y_true: Any,
    scores: Any,
    *,
    threshold: float = 0.5,
    convention: str = "field",
    empty_rows: str = "drop",
) -> float:
    """Share of cells whose prediction differs from the truth.

    Parameters
    ----------
    y_true
        As in `average_precision`.
    scores : array, CSR matrix or DataFrame of shape (n, l)
        Scores, or predictions: bool, or integers that are all 0 or 1, are used as they are.
    threshold : float
        A label is predicted if its score is strictly above the threshold.
    convention : {"field", "random"}
        Both are the same: rows without a true label are left out.
    empty_rows : {"drop", "keep"}
        As in `coverage`.

    Returns
    -------
    float
        Between 0 and 1, lower is better.

    Examples
    --------
    >>> from schirn.metrics import hamming_loss
    >>> hamming_loss([[1, 0, 1, 0]], [[0.9, 0.8, 0.7, 0.1]])
    0.25
    """
    transform = predictor(scores, threshold)
    return _mean("hamming_loss", y_true, scores, convention, empty_rows, transform)


def tied_rows(y_true: Any, scores: Any) -> float:
    """Share of rows in which a true and a false label have the same score.

    Such rows depend on the rule for ties: in the field's convention a constant predictor has a
    one-error of 0.

    Parameters
    ----------
    y_true, scores
        As in `average_precision`.

    Returns
    -------
    float
        Between 0 and 1; 0 if no metric depends on the rule for ties.

    Examples
    --------
    >>> from schirn.metrics import one_error, tied_rows
    >>> truth, constant = [[1, 0, 0], [0, 1, 0]], [[0.5, 0.5, 0.5]] * 2
    >>> tied_rows(truth, constant), one_error(truth, constant)
    (1.0, 0.0)
    >>> round(one_error(truth, constant, convention="random"), 3)
    0.667
    """
    metrics = {"tied_rows": (rows.is_tied, "has_both")}
    return mean_rows(y_true, scores, metrics)["tied_rows"]


def predictor(scores: Any, threshold: float) -> Callable[[Any], Any] | None:
    """Return the function from scores to predictions; None if they are predictions already."""
    if isinstance(threshold, bool) or not isinstance(threshold, Real) or np.isnan(float(threshold)):
        raise InputError(f"threshold is {threshold!r}; use a number.")
    values = as_matrix(scores, "scores")
    is_binary = values.dtype == bool
    if values.dtype.kind in "iu" and values.shape[0] and values.shape[1]:
        is_binary = bool(values.min() >= 0 and values.max() <= 1)
    if is_binary:
        return None
    return lambda scores: scores > float(threshold)


def precision_at_k(y_true: Any, scores: Any, k: int = 1) -> float:
    """Share of true labels among the k highest-scored ones, averaged over rows.

    Parameters
    ----------
    y_true, scores
        As in `average_precision`; ties rank as in its field convention.
    k : int
        Number of top labels, from 1 to l. The share is of k even if a row has fewer true labels.
        Rows without a true label are left out.

    Returns
    -------
    float
        Between 0 and 1, higher is better.

    Examples
    --------
    >>> from schirn.metrics import precision_at_k
    >>> precision_at_k([[1, 0, 1, 0]], [[0.9, 0.8, 0.7, 0.1]], k=2)
    0.5
    """
    n_labels = as_matrix(y_true, "y_true").shape[1]
    Number(low=1, high=n_labels, integer=True).check("k", k)
    metrics = {"precision_at_k": (partial(rows.top_k_precision, k=int(k)), "has_true")}
    return mean_rows(y_true, scores, metrics)["precision_at_k"]
