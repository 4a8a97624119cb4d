"""Weights of rows: a row of weight 2 counts like two copies that are always left out together.

Ridge regressions take weights as they are. Statistics over rows, such as noise, calibration and
thresholds, count every row as often as its weight says.
"""

from typing import Any

import numpy as np

from schirn.exceptions import InputError

# Copies of an average row, where weights are not whole numbers, and at most where they are.
_COPIES = 4
_MOST_COPIES = 20


def as_weights(sample_weight: Any, n: int) -> np.ndarray | None:
    """Return checked weights of n rows, or None if all count once."""
    if sample_weight is None:
        return None
    try:
        weights = np.array(sample_weight, dtype=np.float64)
    except (TypeError, ValueError):
        weights = np.zeros(0)
    if weights.ndim == 0:
        weights = np.full(n, float(weights))
    if weights.shape != (n,) or not np.isfinite(weights).all() or (weights < 0).any():
        raise InputError(
            f"sample_weight must be {n} numbers of at least 0 (one per row), got {sample_weight!r}",
            parameter="sample_weight",
        )
    if not weights.any():
        raise InputError(
            "all weights are zero, so there is no row to learn from", parameter="sample_weight"
        )
    return None if (weights == 1).all() else weights


def copies(weights: np.ndarray, most: int | None = None) -> np.ndarray:
    """How often each row counts in statistics: whole weights as they are, others rounded.

    Rounded weights make no more than `most` copies, if that many rows have room for them.

    >>> copies(np.array([1.0, 3.0, 2.0])), copies(np.array([0.5, 0.25, 0.25])).tolist()
    (array([1, 3, 2]), [6, 3, 3])
    """
    whole = weights.astype(np.int64)
    if (whole == weights).all() and whole.sum() <= _MOST_COPIES * len(weights):
        return whole
    times = _COPIES if most is None else max(1, min(_COPIES, most // len(weights)))
    edges = np.floor(np.cumsum(times * weights / weights.mean()) + 0.5)
    return np.diff(edges, prepend=0).astype(np.int64)
