"""Equal rows, wherever they lie."""

import hashlib
from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse as sp

from schirn.linalg.arrays import row_pieces
from schirn.scale.row_file import RowFile

Array = np.ndarray


def equal_rows(X: Any) -> Array:
    """Number the distinct rows of an array, a canonical CSR matrix or a dense `RowFile`."""

    def digest(*values: Array) -> bytes:
        found = hashlib.blake2b(digest_size=16)
        for value in values:
            # Adding 0 makes -0.0 equal to 0.0.
            found.update((value + 0).tobytes())
        return found.digest()

    number: dict[bytes, int] = {}
    if sp.issparse(X):
        ends = X.indptr.tolist()
        spans = (slice(*pair) for pair in pairwise(ends))
        keys = (digest(X.indices[span], X.data[span]) for span in spans)
    else:
        blocks = X.blocks() if isinstance(X, RowFile) else (rows for _, rows in row_pieces(X, 1000))
        keys = (digest(row) for rows in blocks for row in rows)
    return np.array([number.setdefault(key, len(number)) for key in keys], dtype=np.int64)
