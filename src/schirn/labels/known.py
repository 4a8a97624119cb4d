"""Known labels: candidates that the user has verified to be true or wrong."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

from schirn._input import Array
from schirn.exceptions import InputError
from schirn.labels.matrix import as_numbers, in_order, table_columns
from schirn.labels.tags import Tags


def as_known(known: Any, Y: Array, names: Sequence[str]) -> Array | None:
    """Return known labels as an int8 array (n, l) of 1 (true), -1 (wrong) and 0, or None.

    Columns of a table are matched to the label names; labels without a column are unknown. The
    result is None if nothing is known.
    """
    if known is None:
        return None
    values = read_cells(known, names, "known")
    values = values[:, None] if values.ndim == 1 else values
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


def known_tags(known: Any, known_clean: Any, tags: Tags) -> Array:
    """Return 1 for tags known to be correct, -1 for tags known to be wrong, 0 for all others."""
    certain = np.zeros(len(tags.row), dtype=np.int8)
    if known is not None:
        values = as_known(known, tags.dense(), tags.names)
        certain = certain if values is None else values[tags.row, tags.column]
    if known_clean is None:
        return certain
    checked = read_cells(known_clean, tags.names, "known_clean")
    if checked.shape not in ((tags.n_rows,), tags.shape) or not np.isin(checked, (0, 1)).all():
        raise InputError(
            f"known_clean must hold one truth value per row ({tags.n_rows}) or per cell "
            f"{tags.shape}, got {checked.dtype} of shape {checked.shape}"
        )
    correct = checked[tags.row] if checked.ndim == 1 else checked[tags.row, tags.column]
    conflicts = np.flatnonzero((correct == 1) & (certain < 0))
    if len(conflicts):
        row = tags.row[conflicts[0]]
        name = tags.names[tags.column[conflicts[0]]]
        raise InputError(
            f"row {row}, label {name!r} is wrong by known but correct by known_clean; change one"
        )
    return np.where(correct == 1, np.int8(1), certain)


def read_prior(prior: Any, tags: Tags) -> Array:
    """Return the prior probability of each tag, given one per row and label."""
    values = read_cells(prior, tags.names, "prior", default=0.5)
    if values.shape != tags.shape:
        raise InputError(f"prior has shape {values.shape}, but the tags have {tags.shape}")
    p = values[tags.row, tags.column]
    bad = np.flatnonzero(~((p >= 0) & (p <= 1)))
    if len(bad):
        where = f"row {tags.row[bad[0]]}, label {tags.column[bad[0]]}"
        raise InputError(f"prior must be between 0 and 1, but {where} holds {p[bad[0]]}")
    return np.asarray(p)


def read_cells(given: Any, names: Sequence[str], what: str, default: float = 0) -> Array:
    """Read numbers from an array, a sparse matrix or a table.

    Columns of a table are matched to the label names; labels without a column get the default.
    """
    values = given.toarray() if sp.issparse(given) else as_numbers(given, what)
    columns = table_columns(given, what)
    return values if columns is None else in_order(values, columns, names, what, default)
