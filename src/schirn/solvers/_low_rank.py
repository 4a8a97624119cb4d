"""The proximal step of the nuclear norm, with the norm of its result."""

import numpy as np

from schirn.linalg.prox import shift_singular_values

Array = np.ndarray


def shrink(A: Array, t: float) -> tuple[Array, float]:
    """Minimise 1/2 ||B - A||_F^2 + t ||B||_* over B; return B and ||B||_*."""
    if A.shape[0] < A.shape[1]:
        left, values = shift_singular_values(A.T, t, "low")
        B = left.T @ A
    else:
        right, values = shift_singular_values(A, t, "low")
        B = A @ right
    return B, float(np.sum(values, dtype=np.float64))
