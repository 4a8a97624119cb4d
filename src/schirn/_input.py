"""Checks that all rows pass, wherever they are, and their sentences."""

from typing import Any

import numpy as np
import scipy.sparse as sp

from schirn.exceptions import InputError

Array = np.ndarray


def check_finite(X: Any, names: Array | None = None) -> None:
    """Refuse NaN and infinity in an array or CSR matrix with the place of the first one."""
    bad = first_bad(X)
    if bad is not None:
        raise bad_value(*bad, names=names)


def check_same_length(rows: int, labels: int) -> None:
    """Refuse candidates for another number of rows."""
    if rows != labels:
        raise InputError(
            f"X has {rows} rows but the candidates have {labels}; "
            f"inconsistent numbers of samples cannot be matched"
        )


def first_bad(X: Any, first: int = 0) -> tuple[int, int, float] | None:
    """Row (counted from `first`), column and value of the first entry that is not finite."""
    values = X.data if sp.issparse(X) else X
    # A sum is finite only if all terms are; it overflows rarely and the scan then decides.
    with np.errstate(over="ignore", invalid="ignore"):
        if np.isfinite(values.sum(dtype=np.float64)) or np.isfinite(values).all():
            return None
    bad = int(np.flatnonzero(~np.isfinite(values))[0])
    if sp.issparse(X):
        row, column = int(np.searchsorted(X.indptr, bad, side="right")) - 1, int(X.indices[bad])
    else:
        row, column = divmod(bad, X.shape[1])
    return first + row, column, float(values.reshape(-1)[bad])


def bad_value(row: int, column: int, value: float, names: Array | None = None) -> InputError:
    """The error for an entry of X that is not finite."""
    kind = "NaN" if np.isnan(value) else "inf"
    where = f"column {column}" if names is None else f"column {names[column]!r}"
    return InputError(
        f"X contains {kind} at row {row}, {where}; impute or remove such values first"
    )
