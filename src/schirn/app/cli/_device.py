"""`--device`: compute on a GPU, and bring the model back to main memory."""

import argparse
from typing import Any

import scipy.sparse as sp

from schirn._optional import optional
from schirn.exceptions import InputError
from schirn.linalg.arrays import is_device_array, to_numpy
from schirn.program.output import note
from schirn.scale.row_file import RowFile

DEVICE = """
[where to compute]
--device DEVICE  compute on a PyTorch device such as cuda, in single precision (default: NumPy on
    the CPU)
"""


def to_device(X: Any, args: argparse.Namespace) -> Any:
    """Move X to the device of --device; without one return X itself."""
    if args.device is None:
        return X
    torch = optional("torch", "deep", "--device")
    try:
        device = torch.device(args.device)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0]
        raise InputError(f"--device {args.device}: not available here ({reason})") from None
    X = X.mapped() if isinstance(X, RowFile) else X
    if sp.issparse(X):
        gigabytes = X.shape[0] * X.shape[1] * 4 / 1e9
        note(f"note: the sparse features become dense on the device ({gigabytes:.2g} GB)")
        X = X.toarray()
    return torch.asarray(X, dtype=torch.float32, device=device)


def to_memory(model: Any) -> None:
    """Bring the arrays of a fitted model to main memory, so that it loads on any machine."""
    for name, value in vars(model).items():
        if is_device_array(value):
            setattr(model, name, to_numpy(value))
