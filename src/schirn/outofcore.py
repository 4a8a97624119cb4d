"""Blocks of rows in files, for data larger than memory.

Rows and states are read and written explicitly, into buffers that are used again; nothing is
mapped, because mapped pages count as memory of the process. While one block is computed, the next
is read and the last is written.
"""

import os
import shutil
import tempfile
import weakref
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
import scipy.sparse as sp

from schirn._scratch import Noting, Pool, Shelf, named, read_all, write_all
from schirn.blocks import Block, Cells, Step, add_sums, candidate_cells
from schirn.exceptions import DataError, InputError
from schirn.factor import FeatureRows

Array = np.ndarray
_T = TypeVar("_T")

_BLOCK_BYTES = 64 * 2**20
# Interpreter-sized pieces of a fit: the sample of the calibration, pieces of products, lists.
_FIXED_BYTES = 96 * 2**20


def peak_bytes(
    block_rows: int,
    n_features: int,
    n_labels: int,
    dtype: Any = "float64",
    *,
    per_row: float | None = None,
    n_rows: int = 0,
) -> int:
    """Memory that `Schirn.fit` on a dense `RowFile` adds to the process, at most.

    Parameters
    ----------
    block_rows, n_features, n_labels, dtype : sizes and type of a block
    per_row : mean number of candidates per row; by default all labels
    n_rows : number of all rows; their candidates and verdicts are kept in memory

    Examples
    --------
    >>> peak_bytes(10_000, 300, 50, "float32", per_row=5) < 200e6
    True
    """
    size = np.dtype(dtype).itemsize
    cells = float(n_labels if per_row is None else per_row)
    features = 2 * block_rows * n_features * size
    states = 7 * block_rows * n_labels * size
    listed = block_rows * cells * (5 * 24 + 4 * size)
    kept = n_rows * cells * (2 * 4 + 2 * size + 16)
    square = 4 * 8 * n_features**2
    return int(features + states + listed + kept + square) + _FIXED_BYTES


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
    >>> from schirn import Schirn
    >>> from schirn.datasets import make_partial_multilabel
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
            raise InputError(f"block_rows must be at least 1, got {block_rows!r}")
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


class _Rows:
    """As `FeatureRows`, but X is read when it is asked for."""

    def __init__(self, first: int, read: Callable[[], Any]):
        self.first = first
        self._read = read
        self._X: Any = None

    @property
    def X(self) -> Any:
        """The rows."""
        if self._X is None:
            self._X = self._read()
        return self._X

    @property
    def used(self) -> bool:
        """Whether X was asked for."""
        return self._X is not None

    def __iter__(self) -> Iterator[Any]:
        return iter((self.X, self.first))

    expand = FeatureRows.expand
    project = FeatureRows.project
    total = FeatureRows.total
    squares = FeatureRows.squares


class _Fetched(NamedTuple):
    """A block and its state, and the buffers that they lie in."""

    block: Block
    state: Any
    taken: list[Any]


class FileRows:
    """A place whose blocks and states live in files.

    Parameters
    ----------
    X : the rows
    Y : CSR matrix (n, l) of candidates
    """

    def __init__(self, X: RowFile, Y: sp.csr_array):
        if X.shape[0] != Y.shape[0]:
            raise InputError(
                f"X has {X.shape[0]} rows but the candidates have {Y.shape[0]}; "
                f"inconsistent numbers of samples cannot be matched"
            )
        self._X = X
        self._folder = Path(tempfile.mkdtemp(prefix="schirn-", dir=X.scratch))
        self._remove = weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)
        self._shelf, self._pool = Shelf(self._folder), Pool()
        self._reader, self._writer = ThreadPoolExecutor(1), ThreadPoolExecutor(1)
        self._edges = np.concatenate([[0], np.cumsum([p.rows for p in X._pieces])]).tolist()
        self._preparations: list[tuple[Callable[..., Block], tuple[Any, ...]]] = []
        self._states: list[Any] = [None] * len(X._pieces)
        self._uses_rows: dict[Any, bool] = {}
        try:
            for k, (i, j) in enumerate(pairwise(self._edges)):
                packed = self._shelf.pack(tuple(candidate_cells(Y[i:j])))
                self._write(f"{k}.cells", *packed)
        except BaseException:
            self.close()
            raise

    def run(self, function: Callable[[], _T]) -> _T:
        """Run a whole fit."""
        return function()

    def step(self, function: Step, *message: Any) -> tuple[Any, ...]:
        """Run one step on all blocks; the sums."""
        sums: tuple[Any, ...] | None = None
        written: Future[None] | None = None
        for k, found in self._fetch_all(function):
            new, part = function(found.block, found.state, *message)
            self._uses_rows[function] = found.block.rows.used
            sums = part if sums is None else add_sums(sums, part)
            if written is not None:
                written.result()
            written = self._keep(k, found, new)
        assert sums is not None
        assert written is not None
        written.result()
        return sums

    def gather(self, function: Callable[..., Any], *message: Any) -> list[Any]:
        """f(block, state, *message) of all blocks."""
        results = []
        for k in range(len(self._states)):
            # The result may be a part of the state, so its buffers are not used again.
            found = self._fetch(k, Pool(), False)
            results.append(function(found.block, found.state, *message))
        return results

    def prepare(self, function: Callable[..., Block], *message: Any) -> None:
        """Replace every block by f(block, *message), from now on when it is read."""
        self._preparations.append((function, message))

    def close(self) -> None:
        """Remove all temporary files."""
        self._reader.shutdown(cancel_futures=True)
        self._writer.shutdown(cancel_futures=True)
        self._remove()

    def _fetch_all(self, function: Any) -> Iterator[tuple[int, _Fetched]]:
        """All blocks in their order; each is read while the one before is worked on."""
        rows = self._uses_rows.get(function, True)
        pending = self._reader.submit(self._fetch, 0, self._pool, rows)
        for k in range(len(self._states)):
            found = pending.result()
            if k + 1 < len(self._states):
                pending = self._reader.submit(self._fetch, k + 1, self._pool, rows)
            yield k, self._with_spare(k, found)

    def _fetch(self, k: int, pool: Pool, rows: bool) -> _Fetched:
        taken: list[Any] = []
        cells = Cells(*self._shelf.read(f"{k}.cells", pool, taken))
        lazy = _Rows(self._edges[k], lambda: self._read_rows(k, cells, pool, taken))
        if rows:
            _ = lazy.X
        state = self._states[k]
        if state is not None:
            names = [name for name in state._fields if f"{k}.{name}" in self._shelf]
            read = {name: self._shelf.read(f"{k}.{name}", pool, taken) for name in names}
            state = state._replace(**read)
        return _Fetched(Block(lazy, cells, in_place=True), state, taken)

    def _read_rows(self, k: int, cells: Cells, pool: Pool, taken: list[Any]) -> Any:
        counting = Noting(pool, taken)
        rows = FeatureRows(self._X.read(k, counting), self._edges[k])
        for function, message in self._preparations:
            rows = function(Block(rows, cells, in_place=True), *message).rows
        return rows.X

    def _with_spare(self, k: int, found: _Fetched) -> _Fetched:
        """Memory for arrays that have no content (see `schirn.solvers.schirn.State`)."""
        spare = getattr(found.state, "spare", None)
        if not spare:
            return found
        arrays: list[Any] = []
        for shape in spare:
            if shape is None:
                arrays.append(None)
                continue
            sides, dtype = shape
            buffer = self._pool.take(int(np.prod(sides)) * dtype.itemsize)
            found.taken.append(buffer)
            arrays.append(buffer.view(dtype).reshape(sides))
        return found._replace(state=found.state._replace(spare=tuple(arrays)))

    def _keep(self, k: int, found: _Fetched, new: Any) -> "Future[None]":
        """Write what is new in the state, and give back the buffers."""
        if new is None:
            self._pool.give(found.taken)
            return self._writer.submit(lambda: None)
        empty: dict[str, Any] = dict.fromkeys(new._fields)
        packed = {}
        for name, value in zip(new._fields, new, strict=True):
            if name == "spare":
                empty[name] = tuple(None if a is None else (a.shape, a.dtype) for a in value)
            elif found.state is None or value is not getattr(found.state, name, None):
                packed[f"{k}.{name}"] = self._shelf.pack(value)
        self._states[k] = new._replace(**empty)
        if k == 0:
            self._check_room(sum(b.nbytes for _, buffers in packed.values() for b in buffers))
        waiting = [b for _, buffers in packed.values() for b in buffers]
        held = [b for b in found.taken if any(np.may_share_memory(b, w) for w in waiting)]
        self._pool.give(b for b in found.taken if not any(b is h for h in held))
        return self._writer.submit(self._write_all, packed, held)

    def _write_all(self, packed: dict[str, tuple[bytes, list[Array]]], held: list[Array]) -> None:
        for name, (skeleton, buffers) in packed.items():
            self._write(name, skeleton, buffers)
        self._pool.give(held)

    def _write(self, name: str, skeleton: bytes, buffers: list[Array]) -> None:
        try:
            self._shelf.write(name, skeleton, buffers)
        except OSError as error:
            raise named(error, self._folder) from error

    def _check_room(self, first: int) -> None:
        """Refuse early where the states of all blocks would not fit on the disk."""
        used = sum(path.stat().st_size for path in self._folder.iterdir())
        needed = first * self._edges[-1] / max(1, self._edges[1])
        free = shutil.disk_usage(self._folder).free
        if needed > free + used:
            raise DataError(
                f"the scratch folder {self._folder.parent} has {free / 1e9:.2g} GB free, but the "
                f"fit needs {needed / 1e9:.2g} GB there; give a larger one with scratch="
            )


def _npy_header(path: Path) -> tuple[Path, tuple[int, ...], np.dtype, int]:
    """Path, shape, type and first byte of an .npy file."""
    form = np.lib.format
    readers = {(1, 0): form.read_array_header_1_0, (2, 0): form.read_array_header_2_0}
    try:
        with path.open("rb") as stream:
            shape, fortran, dtype = readers[form.read_magic(stream)](stream)
            start = stream.tell()
    except FileNotFoundError:
        raise DataError(f"{path}: there is no such file") from None
    except (ValueError, KeyError) as error:
        raise DataError(f"{path}: not a readable .npy file ({error})") from error
    if fortran and 1 not in shape:
        raise DataError(
            f"{path}: the array is stored column after column, so its rows cannot be read one "
            f"after the other; save numpy.ascontiguousarray(X)"
        )
    if start + int(np.prod(shape)) * dtype.itemsize > path.stat().st_size:
        raise DataError(f"{path}: the file is cut short")
    return path, tuple(shape), dtype, start


def _memmap_place(X: np.memmap) -> tuple[Path, tuple[int, ...], np.dtype, int]:
    """Path, shape, type and first byte of a mapped array, also of a slice of rows."""
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
