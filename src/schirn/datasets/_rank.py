"""Rank of a 0/1 label matrix."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse


def label_rank(labels: Any) -> int:
    """Return the rank through the Gram matrix of the shorter side.

    Entries of the Gram matrix are whole numbers, so they are exact, and its eigenvalues are zero
    only up to rounding: the usual tolerance tells them apart.
    """
    matrix = labels.astype(np.float64)
    tall = matrix.shape[0] >= matrix.shape[1]
    gram = matrix.T @ matrix if tall else matrix @ matrix.T
    dense = gram.toarray() if sparse.issparse(gram) else gram
    return int(np.linalg.matrix_rank(dense, hermitian=True)) if dense.size else 0
