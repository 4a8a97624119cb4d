"""The leave-one-out formula of linear smoothers."""

from typing import Any

from schirn.linalg.arrays import Array, eps


def leave_one_out(Q: Any, fitted: Array, leverage: Array, smallest: float | None = None) -> Array:
    """Scores of each row by the fit to all other rows, Q - (Q - fitted)/(1 - h).

    Exact for least squares with a fixed quadratic penalty: there the fit to the other rows is the
    fit to all rows with Q_i replaced by the prediction itself.

    Parameters
    ----------
    Q : (n, l) array or float
        Targets.
    fitted : (n, l) or (e, n, l) array
        Fitted values; e fits to the same targets are corrected at once.
    leverage : array of shape (n,), (e, n) or that of `fitted`
        Diagonal h of the matrix that turns Q into `fitted`.
    smallest : float, optional
        Lower bound of 1 - h, see `below_one`.

    Examples
    --------
    The mean of three numbers has leverages of 1/3, and without a number it is that of the others.

    >>> import numpy as np
    >>> Q = np.array([[0.0], [1.0], [5.0]])
    >>> leave_one_out(Q, np.full((3, 1), 2.0), np.full(3, 1 / 3)).round(9).ravel()
    array([3. , 2.5, 0.5])
    """
    room = 1 - below_one(leverage, smallest)
    return Q - (Q - fitted) / (room if room.ndim == fitted.ndim else room[..., None])


def below_one(leverage: Array, smallest: float | None = None) -> Array:
    """Leverages clipped to at most 1 - `smallest`, by default the root of the rounding unit.

    A row like no other predicts itself: its leverage is 1, up to rounding.
    """
    # A method of the array, because PyTorch without array-api-compat has it too.
    return leverage.clip(None, 1 - (eps(leverage) ** 0.5 if smallest is None else smallest))
