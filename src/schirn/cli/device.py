"""`--device`: compute on a GPU, and bring the model back to main memory."""

import argparse
from importlib.util import find_spec
from typing import Any

import scipy.sparse as sp

from schirn._optional import optional
from schirn.cli.output import note
from schirn.exceptions import InputError
from schirn.linalg.arrays import is_device_array, to_numpy
from schirn.scale.row_file import RowFile

DEVICE = """
[where to compute]
--device DEVICE  compute on a PyTorch device such as cuda, in single precision; auto uses a GPU if
    there is one (default: NumPy on the CPU)
"""


def to_device(X: Any, args: argparse.Namespace, model: Any) -> Any:
    """Move X to the device of --device, for a model; without one return X itself."""
    if args.device == "auto":
        args.device = _gpu(X, model)
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


def _gpu(X: Any, model: Any) -> str | None:
    """The GPU to use, or None; prints which, or why none is used."""
    why = "no GPU was found"
    if "device" not in getattr(model, "row_locations", ()):
        why = f"{type(model).__name__} has no version for GPUs"
    elif sp.issparse(X):
        why = "the features are sparse"
    elif find_spec("torch") is not None:
        torch = optional("torch", "deep", "--device auto")
        if torch.cuda.is_available():
            note(f"note: computing on {torch.cuda.get_device_name()}")
            return "cuda"
    note(f"note: {why}, so the processor computes")
    return None


def to_memory(model: Any) -> None:
    """Bring the arrays of a fitted model to main memory, so that it loads on any machine."""
    for name, value in vars(model).items():
        if is_device_array(value):
            setattr(model, name, to_numpy(value))
