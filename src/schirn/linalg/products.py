"""Products of large single-precision matrices at the rate of a GPU's TF32 units.

TF32 units read the first 10 of the 23 bits of a mantissa and multiply about seven times as fast as
single precision. A matrix is split into a high part, which these units read exactly, and the
remainder, so that three of their products give nearly the accuracy of single precision: the error
is about four times as large, and the product takes about two thirds of the time.

Sums over very many rows would lose more accuracy, so Gram matrices stay in single precision.
"""

from typing import Any

from schirn._optional import optional
from schirn.linalg.arrays import Array, namespace, on_gpu

# GPUs whose TF32 units are several times as fast as their single precision, by compute capability:
# A100, H100 and B200. On workstation GPUs, three products would take longer than one.
_FAST_TF32 = {(8, 0), (9, 0), (10, 0)}
# A product with fewer operations takes less time than splitting its factors.
_LARGE_PRODUCT = 1e10
# All bits of a single-precision number except for the 13 that TF32 drops.
_TF32_BITS = ~0x1FFF
# Number of rows of a Gram matrix computed together on a GPU.
_PANEL = 256


def product(A: Array, B: Array) -> Array:
    """Return A B, computed by TF32 units if that gives single precision faster.

    Parameters
    ----------
    A : (m, k) array
    B : (k, n) array

    Returns
    -------
    (m, n) array

    Examples
    --------
    >>> import numpy as np
    >>> product(np.eye(2), np.ones((2, 1)))
    array([[1.],
           [1.]])
    """
    return split_product(A, B) if _is_split_faster(A, B) else A @ B


def _is_split_faster(A: Array, B: Array) -> bool:
    """Whether to split: three TF32 products are faster, and plain TF32 is not allowed already."""
    if type(B).__module__.partition(".")[0] != "torch" or B.device.type != "cuda":
        return False
    torch = optional("torch", "deep", "PyTorch arrays")
    n_operations = 2.0 * A.shape[0] * B.shape[0] * B.shape[1]
    if A.dtype != torch.float32 or n_operations < _LARGE_PRODUCT:
        return False
    has_fast_units = torch.cuda.get_device_capability(B.device) in _FAST_TF32
    return has_fast_units and not torch.backends.cuda.matmul.allow_tf32


def split_product(A: Any, B: Any) -> Any:
    """Return A B as the sum of three products of parts that TF32 units read almost exactly.

    Parameters
    ----------
    A : (m, k) tensor of float32
    B : (k, n) tensor of float32

    Returns
    -------
    (m, n) tensor
    """
    torch = optional("torch", "deep", "PyTorch arrays")
    A_high, A_low = tf32_parts(A)
    B_high, B_low = tf32_parts(B)
    settings = torch.backends.cuda.matmul
    allowed = settings.allow_tf32
    settings.allow_tf32 = True
    try:
        # The product of the remainders is omitted: it is below the rounding error of the sum.
        result = A_high @ B_low
        torch.addmm(result, A_low, B_high, out=result)
        torch.addmm(result, A_high, B_high, out=result)
    finally:
        settings.allow_tf32 = allowed
    return result


def tf32_parts(A: Any) -> tuple[Any, Any]:
    """Split A into its values truncated to TF32 and the remainder.

    Parameters
    ----------
    A : tensor of float32

    Returns
    -------
    high : tensor
        Has at most 10 bits after the leading one.
    low : tensor
    """
    torch = optional("torch", "deep", "PyTorch arrays")
    high = (A.view(torch.int32) & _TF32_BITS).view(torch.float32)
    return high, A - high


def gram_over_rows(A: Array) -> Array:
    """Return A A'; only one triangle is computed, on GPUs too.

    Parameters
    ----------
    A : (l, n) array

    Returns
    -------
    (l, l) array

    Examples
    --------
    >>> import numpy as np
    >>> gram_over_rows(np.array([[1.0, 2.0], [0.0, 1.0]]))
    array([[5., 2.],
           [2., 1.]])
    """
    l = A.shape[0]
    if not on_gpu(A) or l <= _PANEL:
        # NumPy computes only one triangle of A A'.
        return A @ A.T
    gram = namespace(A).empty((l, l), dtype=A.dtype, device=A.device)
    for first in range(0, l, _PANEL):
        panel = slice(first, min(first + _PANEL, l))
        products = A[panel] @ A[: panel.stop].T
        gram[panel, : panel.stop] = products
        gram[: panel.stop, panel] = products.T
    return gram
