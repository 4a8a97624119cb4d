"""Detection of equal rows, wherever they are stored."""

import hashlib
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse as sp

from schirn._input import Array
from schirn.linalg.arrays import row_pieces
from schirn.scale.row_file import RowFile


def equal_rows(X: Any) -> Array:
    """Number the distinct rows of an array, a canonical CSR matrix or a `RowFile` of dense rows.

    Parameters
    ----------
    X : (n, d) array, CSR array or RowFile
        Features of the rows.

    Returns
    -------
    (n,) ndarray of int
    """
    return number_distinct(row_digests(X))


def number_distinct(digests: Iterable[bytes]) -> Array:
    """Number the distinct digests of rows, in order of first appearance.

    Parameters
    ----------
    digests : iterable of bytes
        Digest of each row.

    Returns
    -------
    ndarray of int
    """
    number: dict[bytes, int] = {}
    return np.array([number.setdefault(key, len(number)) for key in digests], dtype=np.int64)


def row_digests(X: Any) -> Iterator[bytes]:
    """Yield a hash of each row.

    Parameters
    ----------
    X : (n, d) array, CSR array or RowFile
        Features of the rows, as in `equal_rows`.

    Yields
    ------
    bytes
    """

    def digest(*values: Array) -> bytes:
        state = hashlib.blake2b(digest_size=16)
        for value in values:
            # Adding 0 makes -0.0 equal to 0.0.
            state.update((value + 0).tobytes())
        return state.digest()

    if sp.issparse(X):
        for start, end in pairwise(X.indptr.tolist()):
            yield digest(X.indices[start:end], X.data[start:end])
        return
    blocks = X.blocks() if isinstance(X, RowFile) else (rows for _, rows in row_pieces(X, 1000))
    for rows in blocks:
        yield from map(digest, rows)
