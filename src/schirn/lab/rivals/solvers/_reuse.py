"""Work on the rows of one fold that several fits have in common.

A benchmark fits many methods, and many points of their grids, to the same rows. Inside
`shared_work` the results of `reused` are kept until another fold begins; outside nothing is kept.
"""

import hashlib
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import numpy as np
import scipy.sparse as sp

Value = TypeVar("Value")

# Results beyond this many bytes are computed again rather than kept.
_MOST_BYTES = 512 * 2**20


class _Memory:
    """Results of one fold, and their size."""

    def __init__(self) -> None:
        self.is_open = False
        self.fold: Hashable = None
        self.results: dict[Hashable, Any] = {}
        self.n_bytes = 0

    def clear(self, fold: Hashable) -> None:
        """Forget all results."""
        self.fold = fold
        self.results = {}
        self.n_bytes = 0


_MEMORY = _Memory()


@contextmanager
def shared_work(fold: Hashable) -> Iterator[None]:
    """Keep the results of `reused` as long as the same fold is named.

    Parameters
    ----------
    fold : hashable
        Names the rows that the fits have in common. Another one forgets all results.

    Examples
    --------
    >>> from schirn.lab.rivals.solvers import reused, shared_work
    >>> for _ in range(2):
    ...     with shared_work("fold 0"):
    ...         _ = reused("mean", lambda: print("computed"), size=0)
    computed
    """
    if _MEMORY.fold != fold:
        _MEMORY.clear(fold)
    was_open = _MEMORY.is_open
    _MEMORY.is_open = True
    try:
        yield
    finally:
        _MEMORY.is_open = was_open


def reused(key: Hashable, compute: Callable[[], Value], *, size: int) -> Value:
    """Return the result for this key, computed once per fold inside `shared_work`.

    Parameters
    ----------
    key : hashable
        Everything that the result depends on besides the fold; `fingerprint` stands for arrays.
    compute : callable
        Its result must not be changed by whoever receives it.
    size : int
        Bytes that the result takes, about.

    Returns
    -------
    object
    """
    if not _MEMORY.is_open:
        return compute()
    if key in _MEMORY.results:
        return _MEMORY.results[key]
    value = compute()
    if _MEMORY.n_bytes + size <= _MOST_BYTES:
        _MEMORY.results[key] = value
        _MEMORY.n_bytes += size
    return value


def fingerprint(*arrays: Any) -> str:
    """Checksum of the content, type and shape of some arrays or CSR arrays.

    Examples
    --------
    >>> fingerprint(np.zeros(3)) == fingerprint(np.zeros(3)) != fingerprint(np.ones(3))
    True
    """
    digest = hashlib.sha1(usedforsecurity=False)
    for array in arrays:
        parts = (array.indptr, array.indices, array.data) if sp.issparse(array) else (array,)
        digest.update(repr(array.shape).encode())
        for part in parts:
            digest.update(part.dtype.str.encode())
            digest.update(np.ascontiguousarray(part).tobytes())
    return digest.hexdigest()
