"""`--device`: compute on a GPU, and move the model back to main memory."""

from typing import Any

from schirn.linalg.arrays import is_device_array, to_numpy

DEVICE = """
[where to compute]
--device DEVICE  compute on a PyTorch device such as cuda, in single precision (default: NumPy on
    the CPU)
"""


def to_memory(model: Any) -> None:
    """Move the arrays of a fitted model to main memory, so that it loads on any machine."""
    for name, value in vars(model).items():
        if is_device_array(value):
            setattr(model, name, to_numpy(value))
