"""Rows of features in files, read block by block."""

import math
import os
from collections.abc import Iterable, Iterator
from copy import copy
from dataclasses import dataclass
from mmap import ALLOCATIONGRANULARITY
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from schirn._files import npy_header
from schirn.exceptions import DataError, InputError
from schirn.scale.memory import ScratchFolder, scratch_folder

_BLOCK_BYTES = 64 * 2**20


class RowFile:
    """Rows of features that are read from disk block by block.

    Parameters
    ----------
    X : path, numpy.memmap or iterable
        An .npy file or a memmap is read in place. An iterable yields blocks: dense or sparse
        arrays, paths of .npy files, or paths of .npz files written by `scipy.sparse.save_npz`.
        They are copied to the scratch folder once.
    block_rows : int or None
        Rows per block. None makes blocks of about 64 MB.
    scratch : path or None
        Folder for temporary files. None uses that of the system, or /var/tmp if that is in memory.

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
        if block_rows is not None and block_rows < 1:
            raise InputError(
                f"block_rows must be at least 1, got {block_rows!r}", parameter="block_rows"
            )
        self.scratch = scratch_folder() if scratch is None else scratch
        self._folder: ScratchFolder | None = None
        self._maker: RowFile | None = None
        self._blocks: list[_FileBlock] = []
        if isinstance(X, str | os.PathLike) and Path(X).suffix == ".npz":
            X = [X]
        if isinstance(X, str | os.PathLike):
            self._blocks = _npy_block(Path(X)).split(block_rows)
        elif isinstance(X, np.memmap):
            self._blocks = _memmap_block(X).split(block_rows)
        else:
            self._copy(X, block_rows)

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and features."""
        return sum(block.rows for block in self._blocks), self._blocks[0].columns

    @property
    def dtype(self) -> np.dtype:
        """Floating type of the rows."""
        return np.result_type(*{block.type for block in self._blocks})

    @property
    def nbytes(self) -> int:
        """Bytes of the rows in their files."""
        extents = (extent for block in self._blocks for extent in block.extents)
        return sum(math.prod(piece.shape) * piece.dtype.itemsize for piece in extents)

    def blocks(self) -> Iterator[Any]:
        """Yield the blocks of rows in order."""
        for k in range(len(self._blocks)):
            yield self.read(k)

    def read(self, k: int) -> Any:
        """Read block number k."""
        rows = self._blocks[k].read()
        return rows if rows.dtype in (np.float32, np.float64) else rows.astype(np.float64)

    def _finer(self, rows: int) -> "RowFile":
        """The same rows in blocks of at most `rows` rows; sparse blocks keep their size."""
        finer = copy(self)
        finer._blocks = [piece for block in self._blocks for piece in block.split(rows)]
        # The copies of the rows are removed with the object that made them.
        finer._folder, finer._maker = None, self
        return finer

    def mapped(self) -> Any:
        """All rows as one array that the system reads from the file on use; CSR if sparse."""
        first = self._blocks[0].extents[0]
        if any(len(block.extents) > 1 for block in self._blocks):
            return sp.csr_array(sp.vstack([sp.csr_array(block) for block in self.blocks()]))
        if any(block.extents[0].dtype != first.dtype for block in self._blocks):
            return np.concatenate(list(self.blocks()))
        path = self._blocks[0].path
        return np.memmap(path, first.dtype, mode="r", offset=first.start, shape=self.shape)

    def close(self) -> None:
        """Remove the copies in the scratch folder; the user's own files stay."""
        if self._folder is not None:
            self._folder.remove()
            self._folder = None

    def __enter__(self) -> "RowFile":
        return self

    def __exit__(self, *error: Any) -> None:
        self.close()

    def _copy(self, blocks: Iterable[Any], block_rows: int | None) -> None:
        self._folder = ScratchFolder(self.scratch)
        path = self._folder.path / "rows.bin"
        try:
            with path.open("wb") as stream:
                for block in blocks:
                    rows = _load(block)
                    step = block_rows or rows.shape[0] or 1
                    for i in range(0, rows.shape[0], step):
                        self._append(path, stream, rows[i : i + step])
            if not self._blocks:
                raise InputError("X has no rows: the blocks are empty, or the iterator was used up")
        except BaseException as error:
            self.close()
            raise disk_error(error, path) from error

    def _append(self, path: Path, stream: Any, rows: Any) -> None:
        arrays = (rows.data, rows.indices, rows.indptr) if sp.issparse(rows) else (rows,)
        extents = []
        for array in map(np.ascontiguousarray, arrays):
            extents.append(_Extent(stream.tell(), array.shape, array.dtype))
            array.tofile(stream)
        if self._blocks and self._blocks[0].columns != rows.shape[1]:
            raise InputError(
                f"block {len(self._blocks)} of X has {rows.shape[1]} columns, but block 0 has "
                f"{self._blocks[0].columns}"
            )
        self._blocks.append(_FileBlock(path, rows.shape[0], rows.shape[1], tuple(extents)))


class _Extent(NamedTuple):
    """Position, shape and type of an array in a file."""

    start: int
    shape: tuple[int, ...]
    dtype: np.dtype


@dataclass(frozen=True, eq=False)
class _FileBlock:
    """A block of rows in a file: one array, or the three of a CSR matrix."""

    path: Path
    rows: int
    columns: int
    extents: tuple[_Extent, ...]

    @property
    def type(self) -> np.dtype:
        """float32 or float64."""
        single = self.extents[0].dtype == np.float32
        return np.dtype(np.float32 if single else np.float64)

    def split(self, rows: int | None) -> "list[_FileBlock]":
        """Split a dense block into blocks of limited size; sparse ones stay whole."""
        if len(self.extents) > 1:
            return [self]
        start, shape, dtype = self.extents[0]
        width = shape[1] * dtype.itemsize
        step = rows or max(1, _BLOCK_BYTES // width)
        blocks = []
        for i in range(0, self.rows, step):
            count = min(step, self.rows - i)
            extent = _Extent(start + i * width, (count, shape[1]), dtype)
            blocks.append(_FileBlock(self.path, count, self.columns, (extent,)))
        return blocks

    def read(self) -> Any:
        """Read the rows."""
        arrays = []
        for start, shape, dtype in self.extents:
            count = math.prod(shape)
            array = np.fromfile(self.path, dtype, count, offset=start)
            if array.size < count:
                raise DataError(f"{self.path}: the file is truncated")
            arrays.append(array.reshape(shape))
        if len(arrays) == 1:
            return arrays[0]
        return sp.csr_array(tuple(arrays), shape=(self.rows, self.columns))


def _npy_block(path: Path) -> _FileBlock:
    """All rows of an .npy file."""
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
    if header.n_bytes > path.stat().st_size:
        raise DataError(f"{path}: the file is truncated")
    return _dense_block(path, _Extent(header.start, header.shape, header.dtype))


def _memmap_block(X: np.memmap) -> _FileBlock:
    """All rows of a mapped array, or of consecutive rows of one."""
    if getattr(X, "mode", None) == "c":
        raise InputError(
            "a copy-on-write memmap may hold changes that its file lacks; open it with mode 'r', "
            "or pass blocks of rows as an iterator"
        )
    if X.filename is None or not X.flags.c_contiguous:
        raise InputError(
            "the memmap must map a file and hold complete rows in C order; keep all columns, or "
            "pass blocks of rows as an iterator"
        )
    mapped: Any = X._mmap  # type: ignore[attr-defined]
    start = X.offset - X.offset % ALLOCATIONGRANULARITY
    offset = X.ctypes.data - np.frombuffer(mapped, dtype=np.uint8).ctypes.data
    return _dense_block(Path(X.filename), _Extent(start + offset, X.shape, X.dtype))


def _dense_block(path: Path, extent: _Extent) -> _FileBlock:
    shape, dtype = extent.shape, extent.dtype
    if len(shape) != 2 or 0 in shape or dtype.kind not in "fiub":
        raise DataError(
            f"{path}: X must be a matrix of numbers, not of shape {shape}, type {dtype}"
        )
    return _FileBlock(path, *shape, (extent,))


def _load(block: Any) -> Any:
    """A block of an iterator as an array or CSR array of floats."""
    if isinstance(block, str | os.PathLike):
        path = Path(block)
        if path.suffix == ".npz":
            try:
                block = sp.load_npz(path)
            except FileNotFoundError:
                raise DataError(f"{path}: no such file") from None
            except Exception as error:
                raise DataError(
                    f"{path}: not a sparse matrix written by scipy.sparse.save_npz"
                ) from error
        else:
            block = _npy_block(path).read()
    rows = sp.csr_array(block) if sp.issparse(block) else np.asarray(block)
    if rows.ndim != 2 or rows.dtype.kind not in "fiub":
        raise InputError(
            f"a block of X must be a matrix of numbers, got {type(block).__name__} of shape "
            f"{rows.shape}, type {rows.dtype}"
        )
    return rows if rows.dtype in (np.float32, np.float64) else rows.astype(np.float64)


def disk_error(error: BaseException, path: Path) -> BaseException:
    """Turn an OSError, such as a full disk, into a DataError that names the remedy."""
    if isinstance(error, OSError) and not isinstance(error, InputError):
        return DataError(
            f"{path}: cannot write temporary files ({error.strerror or error}); set TMPDIR to "
            f"another folder, or choose it with scratch=",
            parameter="scratch",
        )
    return error
