"""0/1 predictions from scores: fixed or learned thresholds, top-k, or matched cardinality."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from schirn._input import Array
from schirn.exceptions import InputError
from schirn.linalg.arrays import is_device_array, like, namespace

ThresholdRule = float | str | Sequence[float] | Array


class LabelThreshold(NamedTuple):
    """A fitted threshold rule: scores above `cut` (one number or one per label), or the top k.

    With `scale_rows`, the scores of each row are first scaled to [0, 1]; a row with constant
    scores then has no labels. With `slopes` (one per label), every row has its own threshold
    ``scores @ slopes + cut``, and labels at or above it are predicted.

    Attributes
    ----------
    cut : float or (l,) array, or None
        None with `top`.
    top : int or None
        Number of labels to predict per row.
    scale_rows : bool
    slopes : (l,) array or None
    """

    cut: Array | None
    top: int | None = None
    scale_rows: bool = False
    slopes: Array | None = None

    def apply(self, scores: Array) -> Array:
        """Return 0/1 predictions (n, l), on the device of the scores.

        Parameters
        ----------
        scores : (n, l) array

        Returns
        -------
        (n, l) int array
        """
        xp = namespace(scores)
        kind = np.int8
        cut: Any = self.cut
        slopes: Any = self.slopes
        if is_device_array(scores):
            kind = xp.int64
            cut, slopes = (None if x is None else like(x, scores) for x in (cut, slopes))
        if slopes is not None:
            return xp.astype(scores >= (scores @ slopes + cut)[:, None], kind)
        if self.scale_rows:
            scores = scale_rows(scores)
        if self.top is None:
            return xp.astype(scores > cut, kind)
        order = xp.argsort(-scores, axis=1, stable=True)
        return xp.astype(xp.argsort(order, axis=1) < self.top, kind)


def scale_rows(scores: Any) -> Any:
    """Scale each row to [0, 1] by its smallest and largest score; constant rows become 0.

    >>> scale_rows(np.array([[1.0, 2.0, 3.0], [4.0, 4.0, 4.0]]))
    array([[0. , 0.5, 1. ],
           [0. , 0. , 0. ]])
    """
    xp = namespace(scores)
    low = xp.min(scores, axis=1, keepdims=True)
    span = xp.max(scores, axis=1, keepdims=True) - low
    return (scores - low) / xp.where(span > 0, span, 1 + 0 * span)


def label_threshold(rule: ThresholdRule, n_labels: int) -> LabelThreshold:
    """Turn a rule that does not depend on training rows into a threshold.

    Parameters
    ----------
    rule : float, array of shape (l,) or str
        A number; one number per label; "top-3" for the three best labels of every row; or
        "row-0.9" for scores above 0.9 after each row is scaled to [0, 1].
    n_labels : int

    Returns
    -------
    LabelThreshold

    Examples
    --------
    >>> scores = np.array([[0.9, 0.2], [0.6, 0.1]])
    >>> label_threshold(0.5, 2).apply(scores).tolist()
    [[1, 0], [1, 0]]
    >>> label_threshold("top-2", 2).apply(scores).tolist()
    [[1, 1], [1, 1]]
    """
    if isinstance(rule, str):
        return _named_threshold(rule)
    try:
        cut = np.asarray(rule, dtype=np.float64)
    except (TypeError, ValueError):
        cut = np.array(np.nan)
    if cut.shape not in ((), (n_labels,)) or np.isnan(cut).any():
        raise InputError(
            f"threshold must be one number or {n_labels} numbers (one per label), got {rule!r}"
        )
    return LabelThreshold(cut)


def _named_threshold(rule: str) -> LabelThreshold:
    kind, _, number = rule.partition("-")
    if kind == "top" and number.isdecimal() and int(number) > 0:
        return LabelThreshold(None, int(number))
    if kind == "row" and number.replace(".", "", 1).isdecimal():
        return LabelThreshold(np.asarray(float(number)), scale_rows=True)
    if rule == "cardinality":
        raise InputError('threshold "cardinality" is learned from the training rows of a model')
    raise InputError(
        f'threshold {rule!r} is unknown; give a number, one number per label, "top-3", '
        f'"row-0.9" or "cardinality"'
    )


def cardinality_threshold(scores: Array, cardinality: float) -> LabelThreshold:
    """Return the threshold that predicts `cardinality` labels per row on these scores.

    It lies between the m-th and the next best cell, where m = cardinality x rows.

    >>> scores = np.array([[0.9, 0.2], [0.6, 0.1]])
    >>> cardinality_threshold(scores, 0.5).apply(scores).tolist()
    [[1, 0], [0, 0]]
    """
    size = scores.size
    m = round(cardinality * len(scores))
    if not 0 < m < size:
        return LabelThreshold(np.asarray(np.inf if m <= 0 else -np.inf))
    below, above = np.partition(scores, [size - m - 1, size - m], axis=None)[size - m - 1 :][:2]
    # Between neighbouring floating-point numbers, the middle may round up to `above`.
    middle = below + (above - below) / 2
    return LabelThreshold(np.asarray(float(middle if middle < above else below)))
