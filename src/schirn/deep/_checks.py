"""Checks of what comes into the losses and heads."""

import torch

from schirn._input import Number
from schirn.exceptions import InputError

Tensor = torch.Tensor


def check_number(
    name: str, value: float, *, low: float = 0.0, high: float = float("inf"), open_low: bool = False
) -> None:
    """Refuse a value out of range."""
    Number(low=low, high=high, open_low=open_low).check(name, value)


def check_batch(
    outputs: Tensor, candidates: Tensor, rows: Tensor | None, n_labels: int, *, needs_rows: bool
) -> None:
    """Refuse a batch whose parts do not fit together; values are not looked at."""
    if candidates.ndim != 2 or candidates.shape[1] != n_labels:
        raise InputError(
            f"the candidates have shape {tuple(candidates.shape)}; (rows, {n_labels}) was expected"
        )
    if len(outputs) != len(candidates) or outputs.ndim != 2:
        raise InputError(
            f"the network gave an output of shape {tuple(outputs.shape)} "
            f"for {len(candidates)} rows of candidates"
        )
    if rows is None and needs_rows:
        raise InputError(
            "the numbers of the rows are needed in training, because each row keeps its own "
            "confidences; let the data set return its index, and call eval() to only measure"
        )
    if rows is not None and (rows.ndim != 1 or len(rows) != len(candidates)):
        raise InputError(
            f"row indices of shape {tuple(rows.shape)} do not fit {len(candidates)} rows"
        )


def at_least_single(x: Tensor) -> Tensor:
    """Half precision, as autocast gives it, brought to single; double stays."""
    return x if x.dtype == torch.float64 else x.float()
