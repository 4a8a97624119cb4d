"""From scores to 0/1 predictions: one number, one per label, top-k, or matched cardinality."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from schirn.exceptions import InputError

Array = np.ndarray
ThresholdRule = float | str | Sequence[float] | Array


class LabelThreshold(NamedTuple):
    """A rule ready for use: scores above `cut` (a number or one per label), or the top k."""

    cut: Array | None
    top: int | None = None

    def apply(self, scores: Array) -> Array:
        """0/1 predictions, (n, l)."""
        if self.top is None:
            return (scores > self.cut).astype(np.int8)
        predicted = np.zeros(scores.shape, dtype=np.int8)
        k = min(self.top, scores.shape[1])
        best = np.argsort(-scores, axis=1, kind="stable")[:, :k]
        np.put_along_axis(predicted, best, 1, axis=1)
        return predicted


def label_threshold(
    rule: ThresholdRule, n_labels: int, *, scores: Array | None = None, cardinality: float = 0.0
) -> LabelThreshold:
    """Turn a user's rule into a threshold.

    Parameters
    ----------
    rule : a number; one number per label; "top-3" for the three best labels of every row; or
        "cardinality" for the cut that gives `cardinality` labels per row over `scores`.
    scores : (n, l), needed for "cardinality"

    Examples
    --------
    >>> scores = np.array([[0.9, 0.2], [0.6, 0.1]])
    >>> label_threshold(0.5, 2).apply(scores).tolist()
    [[1, 0], [1, 0]]
    >>> label_threshold("top-2", 2).apply(scores).tolist()
    [[1, 1], [1, 1]]
    >>> label_threshold("cardinality", 2, scores=scores, cardinality=0.5).apply(scores).tolist()
    [[1, 0], [0, 0]]
    """
    if isinstance(rule, str):
        if rule == "cardinality" and scores is not None:
            return LabelThreshold(np.asarray(_cardinality_cut(scores, cardinality)))
        kind, _, number = rule.partition("-")
        if kind == "top" and number.isdigit() and int(number) > 0:
            return LabelThreshold(None, int(number))
        raise InputError(
            f'threshold {rule!r} is unknown; give a number, one number per label, "top-3" or '
            f'"cardinality"'
        )
    cut = np.asarray(rule, dtype=np.float64)
    if cut.ndim > 1 or (cut.ndim == 1 and len(cut) != n_labels) or np.isnan(cut).any():
        raise InputError(
            f"threshold must be one number or {n_labels} numbers (one per label), "
            f"got shape {cut.shape}: {rule!r}"
        )
    return LabelThreshold(cut)


def _cardinality_cut(scores: Array, cardinality: float) -> float:
    """The score between the m-th and the next best cell, m = cardinality x rows."""
    flat = np.asarray(scores).ravel()
    m = round(cardinality * len(scores))
    if m <= 0:
        return np.inf
    if m >= flat.size:
        return -np.inf
    part = np.partition(flat, [flat.size - m - 1, flat.size - m])
    return float((part[flat.size - m - 1] + part[flat.size - m]) / 2)
