"""Variables of a MATLAB file of version 7.3, which is HDF5: arrays are transposed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from schirn._files import brief, check_sparse, reason_of, too_large
from schirn._optional import optional
from schirn.exceptions import DataError

_SIGNATURE = b"\x89HDF\r\n\x1a\n"
# MATLAB writes a text header of this length in front.
_HEADER = 512


def is_version_73(path: Path) -> bool:
    """Check whether a .mat file has version 7.3.

    Parameters
    ----------
    path : Path

    Returns
    -------
    bool
    """
    with path.open("rb") as stream:
        head = stream.read(_HEADER + len(_SIGNATURE))
    return head.startswith((_SIGNATURE, b"MATLAB 7.3")) or head[_HEADER:] == _SIGNATURE


class Hdf5Variables(Mapping[str, Any]):
    """The variables of a file by name, each read when it is asked for.

    Only arrays of numbers in the file itself are read: no links to other files, and no variable
    that takes more memory than allowed.

    Parameters
    ----------
    path : Path
    limit : int
        Most bytes of a variable.

    Raises
    ------
    MissingExtraError
        If h5py is not installed.
    DataError
        If the file is damaged.
    """

    def __init__(self, path: Path, limit: int) -> None:
        self.path = path
        self.limit = limit
        self._h5py = optional("h5py", "mat73", "Reading MATLAB 7.3 files")
        with self._open() as file:
            links = {name: file.get(name, getlink=True) for name in file}
        hard = self._h5py.HardLink
        # Names that begin with # are MATLAB's own.
        self._names = [n for n, link in links.items() if n[:1] != "#" and isinstance(link, hard)]

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def __getitem__(self, name: str) -> Any:
        if name not in self._names:
            raise KeyError(name)
        with self._open() as file:
            item = file[name]
            if isinstance(item, self._h5py.Group):
                return self._sparse(item)
            return self._array(item).T

    @contextmanager
    def _open(self) -> Iterator[Any]:
        """Open the file; raise DataError whatever h5py stumbles over."""
        try:
            with self._h5py.File(self.path, "r") as file:
                yield file
        except DataError:
            raise
        except (OSError, RuntimeError, ValueError, KeyError, TypeError, OverflowError) as error:
            reason = brief(reason_of(error))
            raise DataError(
                f"{self.path}: not a readable MATLAB 7.3 file, or truncated ({reason})."
            ) from error

    def _array(self, item: Any) -> np.ndarray:
        """Read an array of numbers after checking its size and that it is in the file."""
        name = brief(item.name)
        is_plain = isinstance(item, self._h5py.Dataset) and item.dtype.kind in "iufb"
        if not is_plain or item.is_virtual or item.external:
            raise DataError(f"{self.path}: {name} is not a plain array of numbers.")
        n_bytes = int(item.size or 0) * max(item.dtype.itemsize, 8)
        if n_bytes > self.limit:
            needed = f"{name} needs {n_bytes:,} bytes"
            raise DataError(f"{self.path}: {too_large(needed, self.limit)}")
        return np.asarray(item[()])

    def _sparse(self, group: Any) -> sparse.csc_array:
        """Read a sparse matrix from the arrays data, ir and jc of its columns."""
        name = brief(group.name)
        if "MATLAB_sparse" not in group.attrs or "jc" not in group:
            raise DataError(f"{self.path}: {name} is a struct, not a matrix.")
        indptr = self._array(group["jc"]).astype(np.int64)
        shape = (int(group.attrs["MATLAB_sparse"]), len(indptr) - 1)
        if max(shape) * 8 > self.limit:
            raise DataError(f"{self.path}: {too_large(f'{name} of shape {shape}', self.limit)}")
        if "ir" not in group:
            return sparse.csc_array(shape)
        values = self._array(group["data"])
        rows = self._array(group["ir"]).astype(np.int64)
        matrix = sparse.csc_array((values, rows, indptr), shape=shape)
        check_sparse(matrix)
        return matrix
