"""What is known for certain about single labels, as an input of `fit`."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

from schirn.exceptions import InputError

Array = np.ndarray


def as_known(known: Any, Y: Array, names: Sequence[str]) -> Array | None:
    """Knowledge as an int8 array (n, l) of 1 (true), -1 (wrong) and 0; None where there is none.

    Columns of a table are matched to the label names; labels without a column are not known.
    """
    if known is None:
        return None
    values = _values(known)
    if hasattr(known, "columns"):
        values = _match(values, [str(column) for column in known.columns], Y.shape[1], names)
    if values.shape != Y.shape:
        raise InputError(
            f"known must hold one value per row and label, {Y.shape}, not shape {values.shape}"
        )
    bad = ~np.isin(values, (-1, 0, 1))
    if bad.any():
        i, j = (int(k) for k in np.argwhere(bad)[0])
        raise InputError(
            f"known must be 1 (true), -1 (wrong) or 0 (not known), but row {i}, label "
            f"{names[j]!r} holds {values[i, j]}"
        )
    unlisted = (values == 1) & (Y == 0)
    if unlisted.any():
        i, j = (int(k) for k in np.argwhere(unlisted)[0])
        raise InputError(
            f"row {i}, label {names[j]!r} is known to be true but is not among the candidates; "
            f"add it to them"
        )
    return values.astype(np.int8) if values.any() else None


def _values(known: Any) -> Array:
    if sp.issparse(known):
        return np.asarray(known.toarray())
    try:
        values = np.asarray(known.to_numpy() if hasattr(known, "to_numpy") else known)
        values = values if values.dtype.kind in "biuf" else values.astype(np.float64)
    except (TypeError, ValueError):
        raise InputError(
            f"known must be an array of 1, -1 and 0, got {type(known).__name__} with rows of "
            f"unequal length or entries that are not numbers"
        ) from None
    return values[:, None] if values.ndim == 1 else values


def _match(values: Array, found: list[str], n_labels: int, names: Sequence[str]) -> Array:
    place = {name: j for j, name in enumerate(names)}
    unknown = next((name for name in found if name not in place), None)
    if unknown is not None or len(set(found)) < len(found):
        twice = next((name for k, name in enumerate(found) if name in found[:k]), None)
        what = f"a column {unknown!r}, which is no label" if twice is None else f"two {twice!r}"
        raise InputError(f"known has {what}; give one column per label")
    out = np.zeros((len(values), n_labels), dtype=values.dtype)
    out[:, [place[name] for name in found]] = values
    return out
