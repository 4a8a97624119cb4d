"""Ridge systems by conjugate gradients, for features that are too many to factor."""

import warnings
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from schirn._input import Array

_STEPS = 500


class NormalSolution(NamedTuple):
    """The solution W and the product N W, which the next system can start from."""

    W: Array
    product: Array


def conjugate_gradients(
    normal: Callable[[Array], Array],
    B: Array,
    *,
    mu: float,
    ridge: float,
    diagonal: Array,
    start: NormalSolution | None = None,
    tolerance: float | None = None,
) -> NormalSolution:
    """Solve (mu N + ridge) W = B for all columns of B at once.

    A step costs one product with N, for all columns together.

    Parameters
    ----------
    normal : callable
        W -> N W for a positive semidefinite N, such as X'X.
    B : (d, l) array
    mu, ridge : float
    diagonal : (d,) array
        The diagonal of N, which preconditions the system.
    start : NormalSolution or None
        The solution of a similar system. Columns for which 0 is closer start from 0.
    tolerance : float or None
        Relative size of the residuals to stop at; by default 1e-9, or 1e-5 in single precision.

    Examples
    --------
    >>> N = np.array([[2.0, 1.0], [1.0, 2.0]])
    >>> options = {"mu": 1.0, "ridge": 1.0, "diagonal": np.diag(N)}
    >>> conjugate_gradients(lambda W: N @ W, np.array([[4.0], [4.0]]), **options).W.round(6)
    array([[1.],
           [1.]])
    """
    if tolerance is None:
        tolerance = 1e-9 if B.dtype == np.float64 else 1e-5
    if start is None or start.W.shape != B.shape:
        start = NormalSolution(np.zeros_like(B), np.zeros_like(B))
    size = np.maximum(np.linalg.norm(B, axis=0), np.finfo(B.dtype).tiny)
    r = B - mu * start.product - ridge * start.W
    is_closer = np.linalg.norm(r, axis=0) <= size
    W = np.where(is_closer, start.W, 0)
    product = np.where(is_closer, start.product, 0)
    r = np.where(is_closer, r, B)
    inverse = 1 / (mu * diagonal + ridge)[:, None]
    z = inverse * r
    p = z
    rz = np.sum(r * z, axis=0)
    for _ in range(_STEPS):
        is_open = np.linalg.norm(r, axis=0) > tolerance * size
        if not is_open.any():
            break
        Np = normal(p)
        Ap = mu * Np + ridge * p
        curvature = np.sum(p * Ap, axis=0)
        # Further steps of a solved column would divide by its vanishing residual.
        is_step = is_open & (curvature > 0)
        step = np.divide(rz, curvature, out=np.zeros_like(rz), where=is_step)
        W += step * p
        product += step * Np
        r -= step * Ap
        z = inverse * r
        last = rz
        rz = np.sum(r * z, axis=0)
        p = z + np.divide(rz, last, out=np.zeros_like(rz), where=last > 0) * p
    else:
        worst = float(np.max(np.linalg.norm(r, axis=0) / size))
        warnings.warn(
            f"conjugate gradients stopped after {_STEPS} steps with a relative error of "
            f"{worst:.1e}; scale the features (MaxAbsScaler keeps them sparse) or raise lam",
            ConvergenceWarning,
            stacklevel=2,
        )
    return NormalSolution(W, product)
