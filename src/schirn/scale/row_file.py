"""Rows of features in files, read block by block."""

import os
import shutil
import tempfile
import weakref
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from schirn._files import npy_header
from schirn.exceptions import DataError, InputError
from schirn.scale.scratch import Pool, named, read_all, write_all

_BLOCK_BYTES = 64 * 2**20


class RowFile:
    """Rows of features that are read block by block.

    Parameters
    ----------
    X : path of an .npy file or a `numpy.memmap`, read where they are; or an iterable of blocks
        (dense or sparse arrays, or paths of .npy files or of .npz files by
        `scipy.sparse.save_npz`), which are copied to the scratch folder once
    block_rows : rows of a block; by default blocks of about 64 MB
    scratch : folder for temporary files; by default that of the system

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> from schirn import Schirn
    >>> from schirn.datasets import make_partial_multilabel
    >>> from schirn.scale.files import RowFile
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
        self.scratch = scratch
        self._folder: Path | None = None
        self._pieces: list[_Piece] = []
        if isinstance(X, str | os.PathLike) and Path(X).suffix == ".npz":
            X = [X]
        if isinstance(X, str | os.PathLike):
            self._of_file(*_npy_header(Path(X)), block_rows)
        elif isinstance(X, np.memmap):
            self._of_file(*_memmap_place(X), block_rows)
        else:
            self._copy(X, block_rows)

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and features."""
        return sum(piece.rows for piece in self._pieces), self._pieces[0].columns

    @property
    def dtype(self) -> np.dtype:
        """Floating type of the rows that are handed out."""
        return np.result_type(*{piece.type for piece in self._pieces})

    def blocks(self) -> Iterator[Any]:
        """The blocks of rows, one after the other."""
        for k in range(len(self._pieces)):
            yield self.read(k)

    def read(self, k: int, pool: Pool | None = None) -> Any:
        """One block, in a buffer of the pool if there is one."""
        piece = self._pieces[k]
        rows = piece.read(Pool() if pool is None else pool)
        return rows if rows.dtype in (np.float32, np.float64) else rows.astype(np.float64)

    def close(self) -> None:
        """Remove what was copied; the user's own files stay."""
        if self._folder is not None:
            self._remove()
            self._folder = None

    def __enter__(self) -> "RowFile":
        return self

    def __exit__(self, *error: Any) -> None:
        self.close()

    def _of_file(
        self, path: Path, shape: tuple[int, ...], dtype: np.dtype, start: int, rows: int | None
    ) -> None:
        if len(shape) != 2 or 0 in shape or dtype.kind not in "fiub":
            raise DataError(
                f"{path}: X must be a matrix of numbers, not of shape {shape}, type {dtype}"
            )
        width = shape[1] * dtype.itemsize
        step = rows or max(1, _BLOCK_BYTES // width)
        for i in range(0, shape[0], step):
            count = min(step, shape[0] - i)
            part = _Part(start + i * width, (count, shape[1]), dtype)
            self._pieces.append(_Piece(path, count, shape[1], (part,)))

    def _copy(self, blocks: Iterable[Any], block_rows: int | None) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="schirn-rows-", dir=self.scratch))
        self._remove = weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)
        path = self._folder / "rows.bin"
        try:
            with path.open("wb", buffering=0) as stream:
                for block in blocks:
                    rows = _load(block)
                    step = block_rows or rows.shape[0] or 1
                    for i in range(0, rows.shape[0], step):
                        self._append(path, stream, rows[i : i + step])
            if not self._pieces:
                raise InputError("X has no rows: the blocks are empty, or the iterator was used up")
        except BaseException as error:
            self.close()
            raise named(error, path) from error

    def _append(self, path: Path, stream: Any, rows: Any) -> None:
        arrays = (rows.data, rows.indices, rows.indptr) if sp.issparse(rows) else (rows,)
        parts = []
        for array in map(np.ascontiguousarray, arrays):
            parts.append(_Part(stream.tell(), array.shape, array.dtype))
            write_all(stream, array)
        if self._pieces and self._pieces[0].columns != rows.shape[1]:
            raise InputError(
                f"block {len(self._pieces)} of X has {rows.shape[1]} columns, but block 0 has "
                f"{self._pieces[0].columns}"
            )
        self._pieces.append(_Piece(path, rows.shape[0], rows.shape[1], tuple(parts)))


class _Part(NamedTuple):
    """Where an array lies in a file."""

    start: int
    shape: tuple[int, ...]
    dtype: np.dtype


class _Piece(NamedTuple):
    """A block of rows in a file: one array, or the three of a CSR matrix."""

    path: Path
    rows: int
    columns: int
    parts: tuple[_Part, ...]

    @property
    def type(self) -> np.dtype:
        """float32 or float64."""
        single = self.parts[0].dtype == np.float32
        return np.dtype(np.float32 if single else np.float64)

    def read(self, pool: Pool) -> Any:
        """The rows."""
        arrays = []
        with self.path.open("rb", buffering=0) as stream:
            for start, shape, dtype in self.parts:
                array = pool.take(int(np.prod(shape)) * dtype.itemsize)
                stream.seek(start)
                read_all(stream, array, self.path)
                arrays.append(array.view(dtype).reshape(shape))
        if len(arrays) == 1:
            return arrays[0]
        return sp.csr_array(tuple(arrays), shape=(self.rows, self.columns))


def _npy_header(path: Path) -> tuple[Path, tuple[int, ...], np.dtype, int]:
    """Path, shape, type and first byte of an .npy file."""
    try:
        with path.open("rb") as stream:
            header = npy_header(stream)
    except FileNotFoundError:
        raise DataError(f"{path}: there is no such file") from None
    except (ValueError, KeyError) as error:
        raise DataError(f"{path}: not a readable .npy file ({error})") from error
    if header.is_fortran and 1 not in header.shape:
        raise DataError(
            f"{path}: the array is stored column after column, so its rows cannot be read one "
            f"after the other; save numpy.ascontiguousarray(X)"
        )
    if header.n_bytes > path.stat().st_size:
        raise DataError(f"{path}: the file is cut short")
    return path, header.shape, header.dtype, header.start


def _memmap_place(X: np.memmap) -> tuple[Path, tuple[int, ...], np.dtype, int]:
    """Path, shape, type and first byte of a mapped array, also of a slice of rows."""
    if getattr(X, "mode", None) == "c":
        raise InputError(
            "a copy-on-write memmap may hold changes that its file lacks; open it with mode 'r', "
            "or pass blocks of rows as an iterator"
        )
    if X.filename is None or not X.flags.c_contiguous:
        raise InputError(
            "the memmap must be of a file and hold whole rows one after the other; give all "
            "columns, or pass blocks of rows as an iterator"
        )
    from mmap import ALLOCATIONGRANULARITY

    mapped: Any = X._mmap  # type: ignore[attr-defined]
    start = X.offset - X.offset % ALLOCATIONGRANULARITY
    inside = X.ctypes.data - np.frombuffer(mapped, dtype=np.uint8).ctypes.data
    return Path(X.filename), X.shape, X.dtype, start + inside


def _load(block: Any) -> Any:
    """A block of an iterator as an array or CSR array of floating numbers."""
    if isinstance(block, str | os.PathLike):
        path = Path(block)
        if path.suffix == ".npz":
            try:
                block = sp.load_npz(path)
            except FileNotFoundError:
                raise DataError(f"{path}: there is no such file") from None
            except Exception as error:
                raise DataError(f"{path}: not a sparse matrix of scipy.sparse.save_npz") from error
        else:
            with RowFile(path, block_rows=2**62) as whole:
                block = whole.read(0)
    rows = sp.csr_array(block) if sp.issparse(block) else np.asarray(block)
    if rows.ndim != 2 or rows.dtype.kind not in "fiub":
        raise InputError(
            f"a block of X must be a matrix of numbers, got {type(block).__name__} of shape "
            f"{rows.shape}, type {rows.dtype}"
        )
    return rows if rows.dtype in (np.float32, np.float64) else rows.astype(np.float64)
