"""Rows of features read block by block, from files or from memory."""

import os
from collections.abc import Iterable, Iterator
from copy import copy
from mmap import ALLOCATIONGRANULARITY
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from schirn._files import npy_header
from schirn._input import Number
from schirn.exceptions import DataError, InputError
from schirn.scale.memory import ScratchFolder, scratch_folder

_BLOCK_BYTES = 64 * 2**20


class RowFile:
    """Rows of features read from disk block by block.

    Parameters
    ----------
    X : path, list of paths or numpy.memmap
        Files in .npy format, stacked in this order, or a mapped array; they are read in place. Rows
        in memory, also a CSR matrix, stay there: only intermediate results are in files.
    block_rows : int or None
        Rows per block. None makes blocks of about 64 MB.
    scratch : path or None
        Folder for temporary files. None uses the system's folder, or /var/tmp if that one is in
        memory.

    Attributes
    ----------
    shape : rows and features.
    dtype : float32 if all rows are, else float64.
    nbytes : bytes of the rows in their files.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> from schirn import Schirn
    >>> from schirn.datasets import make_partial_multilabel
    >>> from schirn.scale import RowFile
    >>> data = make_partial_multilabel(n_samples=200, n_labels=6, r=1, random_state=0)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.save(f"{folder}/X.npy", data.X)
    ...     with RowFile(f"{folder}/X.npy", block_rows=50) as rows:
    ...         model = Schirn(lam=1.0).fit(rows, data.candidates)
    >>> model.predict(data.X).shape
    (200, 6)
    """

    def __init__(
        self,
        X: Any,
        *,
        block_rows: int | None = None,
        scratch: str | os.PathLike[str] | None = None,
    ):
        Number(low=1, integer=True, none=True).check("block_rows", block_rows)
        self.scratch = scratch_folder() if scratch is None else scratch
        self._folder: ScratchFolder | None = None
        paths = [X] if isinstance(X, str | os.PathLike) else X
        if isinstance(paths, list | tuple):
            self._sources = [_map_npy(path) for path in paths]
        else:
            self._sources = [_check_matrix(X)]
        widths = [source.shape[1] for source in self._sources]
        if not widths:
            raise InputError("X must name at least one file")
        if len(set(widths)) > 1:
            raise InputError(f"the files of X must have the same number of columns, got {widths}")
        self.shape = sum(source.shape[0] for source in self._sources), widths[0]
        is_single = all(source.dtype == np.float32 for source in self._sources)
        self.dtype = np.dtype(np.float32 if is_single else np.float64)
        self.nbytes = sum(int(source.size) * source.dtype.itemsize for source in self._sources)
        self._blocks = self._split(block_rows)

    @property
    def block_sizes(self) -> list[int]:
        """Number of rows of each block."""
        return [rows.stop - rows.start for _, rows in self._blocks]

    def blocks(self) -> Iterator[Any]:
        """Yield the blocks of rows in order.

        Yields
        ------
        (m, d) array
        """
        for k in range(len(self._blocks)):
            yield self.read(k)

    def read(self, k: int) -> Any:
        """Read a block.

        Parameters
        ----------
        k : int
            Number of the block, from 0.

        Returns
        -------
        (m, d) array or CSR array
        """
        source, rows = self._blocks[k]
        if _is_file(source):
            return _read(source, rows).astype(self.dtype, copy=False)
        # A copy, because steps may change the rows of a block.
        return source[rows].astype(self.dtype)

    def _split(self, block_rows: int | None) -> list[tuple[Any, slice]]:
        """Return sources and rows of blocks of limited size."""
        blocks = []
        for source in self._sources:
            n = source.shape[0]
            width = int(source.size) * source.dtype.itemsize // source.shape[0]
            step = block_rows or max(1, _BLOCK_BYTES // max(1, width))
            blocks += [(source, slice(i, min(i + step, n))) for i in range(0, n, step)]
        return blocks

    def _finer(self, rows: int) -> "RowFile":
        """Return the same rows in blocks of `rows` rows."""
        finer = copy(self)
        finer._blocks = self._split(rows)
        return finer

    def mapped(self) -> Any:
        """Return all rows as one array, mapped from a single file or read from several files.

        Returns
        -------
        (n, d) array
        """
        if len(self._sources) == 1:
            return self._sources[0]
        return np.concatenate(self._sources)

    def close(self) -> None:
        """Remove the copies in the scratch folder; the user's own files stay."""
        if self._folder is not None:
            self._folder.remove()

    def __enter__(self) -> "RowFile":
        return self

    def __exit__(self, *error: Any) -> None:
        self.close()


def copy_to_file(blocks: Iterable[np.ndarray]) -> RowFile:
    """Copy blocks to a temporary file, which is removed with the result.

    Parameters
    ----------
    blocks : iterable of (m, d) ndarray
        Blocks with the same number of columns and type.

    Returns
    -------
    RowFile
    """
    folder = ScratchFolder(scratch_folder())
    path = folder.path / "rows.bin"
    shapes = []
    dtype = np.dtype(float)
    try:
        with path.open("wb") as stream:
            for block in blocks:
                np.ascontiguousarray(block).tofile(stream)
                shapes.append(block.shape)
                dtype = block.dtype
        widths = {d for _, d in shapes}
        if len(widths) != 1:
            raise InputError(f"all rows must have the same number of columns, got {sorted(widths)}")
        n = sum(n for n, _ in shapes)
        rows = RowFile(np.memmap(path, dtype, mode="r", shape=(n, widths.pop())))
    except BaseException as error:
        folder.remove()
        raise disk_error(error, path) from error
    rows._folder = folder
    return rows


def _map_npy(path: Any) -> np.memmap:
    """Map the rows of an .npy file."""
    if not isinstance(path, str | os.PathLike):
        raise InputError(
            f"X must be an .npy file, a list of .npy files or a numpy.memmap; the list has "
            f"{type(path).__name__}"
        )
    path = Path(path)
    try:
        with path.open("rb") as stream:
            header = npy_header(stream)
    except FileNotFoundError:
        raise DataError(f"{path}: no such file") from None
    except (ValueError, KeyError) as error:
        raise DataError(f"{path}: not a readable .npy file ({error})") from error
    if header.is_fortran and 1 not in header.shape:
        raise DataError(
            f"{path}: the array is stored in Fortran order, so its rows cannot be read one after "
            f"the other; save numpy.ascontiguousarray(X)"
        )
    _check_matrix(header, f"{path}: ")
    if header.n_bytes > path.stat().st_size:
        raise DataError(f"{path}: the file is truncated")
    return np.memmap(path, header.dtype, mode="r", offset=header.start, shape=header.shape)


def _check_matrix(X: Any, place: str = "") -> Any:
    """Raise DataError unless X is a nonempty matrix of numbers."""
    shape = getattr(X, "shape", ())
    dtype = getattr(X, "dtype", np.dtype(object))
    if len(shape) != 2 or 0 in shape or dtype.kind not in "fiub":
        raise DataError(f"{place}X must be a matrix of numbers, not of shape {shape}, type {dtype}")
    return sp.csr_array(X) if sp.issparse(X) else X


def _is_file(source: Any) -> bool:
    """Check whether rows can be read from a file, without changes that exist only in memory."""
    is_mapped = isinstance(source, np.memmap) and source.filename is not None
    return is_mapped and source.mode != "c" and source.flags.c_contiguous


def _read(source: Any, rows: slice) -> np.ndarray:
    """Read rows without touching the mapped pages, which would count as memory of the process."""
    first = np.frombuffer(source._mmap, dtype=np.uint8).ctypes.data
    start = source.offset - source.offset % ALLOCATIONGRANULARITY + source.ctypes.data - first
    n = rows.stop - rows.start
    width = source.shape[1]
    offset = start + rows.start * width * source.dtype.itemsize
    block = np.fromfile(source.filename, source.dtype, n * width, offset=offset)
    if block.size < n * width:
        raise DataError(f"{source.filename}: the file is truncated")
    return block.reshape(n, width)


def disk_error(error: BaseException, path: Path) -> BaseException:
    """Convert an OSError, such as a full disk, into a DataError with advice.

    Parameters
    ----------
    error : exception
        The original error.
    path : Path
        The file being written.

    Returns
    -------
    exception
    """
    if isinstance(error, OSError) and not isinstance(error, InputError):
        return DataError(
            f"{path}: cannot write temporary files ({error.strerror or error}); set TMPDIR to "
            f"another folder, or choose it with scratch=",
            parameter="scratch",
        )
    return error
