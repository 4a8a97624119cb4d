"""A program that writes the variables of a MATLAB file as an npz archive; `mat.py` runs it.

SciPy's reader trusts the types, lengths and indices in a file: of files with a few random bytes,
one in twenty ends the process with a segmentation fault (SciPy 1.17).
"""

import sys
from contextlib import suppress
from typing import Any

import numpy as np
from scipy import io, sparse

# Address space for the interpreter and its packages.
_OWN_BYTES = 4 * 2**30


def main(path: str, target: str, limit: int) -> None:
    """Write names, and the arrays of those that are matrices of real numbers."""
    with suppress(ImportError, ValueError, OSError):
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (limit + _OWN_BYTES,) * 2)
    variables = {k: v for k, v in io.loadmat(path).items() if not k.startswith("__")}
    arrays: dict[str, Any] = {"names": np.array(list(variables), dtype=str)}
    for k, value in enumerate(variables.values()):
        if value.dtype.kind not in "biuf":
            continue
        if sparse.issparse(value):
            csc = sparse.csc_array(value)
            csc.check_format(full_check=True)
            parts = (csc.data, csc.indices, csc.indptr, np.array(csc.shape))
            arrays |= {f"{k}.{part}": array for part, array in enumerate(parts)}
        else:
            arrays[str(k)] = value
    np.savez(target, **arrays)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
