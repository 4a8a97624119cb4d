"""A row store in files, for data larger than memory.

Rows and states are read and written explicitly, into reused buffers. Nothing is memory-mapped,
because mapped pages count as memory of the process. While one block is computed, the next is read
and the previous one is written.
"""

import pickle
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
import scipy.sparse as sp

from schirn._input import check_same_length
from schirn._progress import track
from schirn.exceptions import DataError
from schirn.scale.blocks import (
    Block,
    Cells,
    FeatureRows,
    RowStore,
    Step,
    add_sums,
    candidate_cells,
    message_for,
)
from schirn.scale.memory import ScratchFolder, free_on_disk
from schirn.scale.row_file import BufferPool, RowFile, disk_error, read_all, write_all

Array = np.ndarray
_T = TypeVar("_T")

# Memory of a fit that does not grow with its blocks: the calibration sample, products, lists.
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
    """Upper bound on the memory, in bytes, that `Schirn.fit` on a dense `RowFile` adds.

    Parameters
    ----------
    block_rows, n_features, n_labels : int
        Sizes of a block.
    dtype : dtype
        Type of the features.
    per_row : float or None
        Mean number of candidates per row. None assumes that every label is a candidate.
    n_rows : int
        Number of all rows; their candidates and verdicts are kept in memory.

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


class _LazyRows:
    """Like `FeatureRows`, but X is read on first use."""

    def __init__(self, first: int, read: Callable[[], Any]):
        self.first = first
        self._read = read
        self._X: Any = None

    @property
    def X(self) -> Any:
        """The rows, read on first use."""
        if self._X is None:
            self._X = self._read()
        return self._X

    @property
    def used(self) -> bool:
        """Whether X was read."""
        return self._X is not None

    def __iter__(self) -> Iterator[Any]:
        return iter((self.X, self.first))

    expand = FeatureRows.expand
    project = FeatureRows.project
    total = FeatureRows.total
    squares = FeatureRows.squares


class _Fetched(NamedTuple):
    """A block and its state, and the buffers that hold them."""

    block: Block
    state: Any
    taken: list[Any]


class ArrayFiles:
    """Nested tuples of arrays in files of one folder; their structure stays in memory."""

    def __init__(self, folder: Path):
        self._folder = folder
        self._known: dict[str, tuple[bytes, list[int]]] = {}

    def __contains__(self, name: str) -> bool:
        return name in self._known

    def pack(self, value: Any) -> tuple[bytes, list[Array]]:
        """Split a value into its structure and the bytes of its arrays."""
        buffers: list[pickle.PickleBuffer] = []
        structure = pickle.dumps(value, protocol=5, buffer_callback=buffers.append)
        return structure, [np.frombuffer(buffer.raw(), dtype=np.uint8) for buffer in buffers]

    def write(self, name: str, structure: bytes, buffers: list[Array]) -> None:
        """Write a packed value to its file, over the previous one."""
        path = self._folder / name
        try:
            with path.open("r+b" if path.exists() else "wb", buffering=0) as stream:
                for buffer in buffers:
                    write_all(stream, buffer)
        except OSError as error:
            raise disk_error(error, self._folder) from error
        self._known[name] = structure, [buffer.nbytes for buffer in buffers]

    def read(self, name: str, take: Callable[[int], Any]) -> Any:
        """Read a value into buffers from `take`, a function of the size."""
        structure, sizes = self._known[name]
        buffers = [take(size) for size in sizes]
        path = self._folder / name
        with path.open("rb", buffering=0) as stream:
            for buffer in buffers:
                read_all(stream, buffer, path)
        return pickle.loads(structure, buffers=[memoryview(buffer) for buffer in buffers])


class FileRows(RowStore):
    """A row store whose blocks and states live in files.

    Parameters
    ----------
    X : RowFile
    Y : (n, l) CSR array
        Candidates, 0/1.
    """

    def __init__(self, X: RowFile, Y: sp.csr_array):
        check_same_length(X.shape[0], Y.shape[0])
        self._X = X
        self._scratch = ScratchFolder(X.scratch)
        self._folder = self._scratch.path
        self._files, self._pool = ArrayFiles(self._folder), BufferPool()
        self._reader, self._writer = ThreadPoolExecutor(1), ThreadPoolExecutor(1)
        self._edges = np.concatenate([[0], np.cumsum([b.rows for b in X._blocks])]).tolist()
        self._preparations: list[tuple[Callable[..., Block], tuple[Any, ...]]] = []
        self._states: list[Any] = [None] * len(X._blocks)
        self._uses_rows: dict[Any, bool] = {}
        try:
            for k, (i, j) in enumerate(pairwise(self._edges)):
                packed = self._files.pack(tuple(candidate_cells(Y[i:j])))
                self._files.write(f"{k}.cells", *packed)
        except BaseException:
            self.close()
            raise

    def run(self, function: Callable[[], _T]) -> _T:
        """Run a whole fit."""
        return function()

    def step(self, function: Step, *message: Any) -> tuple[Any, ...]:
        """Run one step on all blocks and return the sums."""
        sums: tuple[Any, ...] | None = None
        written: Future[None] | None = None
        for k, found in track(self._fetch_all(function), "block"):
            new, own = function(found.block, found.state, *message_for(message, k))
            self._uses_rows[function] = found.block.rows.used
            sums = own if sums is None else add_sums(sums, own)
            if written is not None:
                written.result()
            written = self._keep(k, found, new)
        assert sums is not None
        assert written is not None
        written.result()
        return sums

    def gather(self, function: Callable[..., Any], *message: Any) -> list[Any]:
        """Return f(block, state, *message) of every block, in order."""
        results = []
        for k in range(len(self._states)):
            # The result may share memory with the state, so its buffers are not reused.
            found = self._fetch(k, BufferPool(), False)
            results.append(function(found.block, found.state, *message_for(message, k)))
        return results

    def prepare(self, function: Callable[..., Block], *message: Any) -> None:
        """Replace every block by f(block, *message), whenever it is read from now on."""
        self._preparations.append((function, message))

    def close(self) -> None:
        """Remove all temporary files."""
        self._reader.shutdown(cancel_futures=True)
        self._writer.shutdown(cancel_futures=True)
        self._scratch.remove()

    def _fetch_all(self, function: Any) -> Iterator[tuple[int, _Fetched]]:
        """Yield all blocks in order; each is read while the one before is computed."""
        rows = self._uses_rows.get(function, True)
        pending = self._reader.submit(self._fetch, 0, self._pool, rows)
        for k in range(len(self._states)):
            found = pending.result()
            if k + 1 < len(self._states):
                pending = self._reader.submit(self._fetch, k + 1, self._pool, rows)
            yield k, self._with_spare(k, found)

    def _fetch(self, k: int, pool: BufferPool, rows: bool) -> _Fetched:
        taken: list[Any] = []

        def take(size: int) -> Any:
            taken.append(pool.take(size))
            return taken[-1]

        cells = Cells(*self._files.read(f"{k}.cells", take))
        lazy = _LazyRows(self._edges[k], lambda: self._read_rows(k, cells, take))
        if rows:
            _ = lazy.X
        state = self._states[k]
        if state is not None:
            names = [name for name in state._fields if f"{k}.{name}" in self._files]
            state = state._replace(
                **{name: self._files.read(f"{k}.{name}", take) for name in names}
            )
        return _Fetched(Block(lazy, cells, in_place=True), state, taken)

    def _read_rows(self, k: int, cells: Cells, take: Callable[[int], Any]) -> Any:
        rows = FeatureRows(self._X._read_into(k, take), self._edges[k])
        for function, message in self._preparations:
            rows = function(Block(rows, cells, in_place=True), *message).rows
        return rows.X

    def _with_spare(self, k: int, found: _Fetched) -> _Fetched:
        """Give a state its uninitialised arrays (see `schirn.solvers.schirn.State`)."""
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
        """Write what is new in the state and return the buffers."""
        if new is None:
            self._pool.give(found.taken)
            return self._writer.submit(lambda: None)
        empty: dict[str, Any] = dict.fromkeys(new._fields)
        packed = {}
        for name, value in zip(new._fields, new, strict=True):
            if name == "spare":
                empty[name] = tuple(None if a is None else (a.shape, a.dtype) for a in value)
            elif found.state is None or value is not getattr(found.state, name, None):
                packed[f"{k}.{name}"] = self._files.pack(value)
        self._states[k] = new._replace(**empty)
        if k == 0:
            self._check_room(sum(b.nbytes for _, buffers in packed.values() for b in buffers))
        waiting = [b for _, buffers in packed.values() for b in buffers]
        held = [b for b in found.taken if any(np.may_share_memory(b, w) for w in waiting)]
        self._pool.give(b for b in found.taken if not any(b is h for h in held))
        return self._writer.submit(self._write, packed, held)

    def _write(self, packed: dict[str, tuple[bytes, list[Array]]], held: list[Array]) -> None:
        for name, (structure, buffers) in packed.items():
            self._files.write(name, structure, buffers)
        self._pool.give(held)

    def _check_room(self, first: int) -> None:
        """Raise DataError early if the states of all blocks would not fit on the disk."""
        used = sum(path.stat().st_size for path in self._folder.iterdir())
        needed = first * self._edges[-1] / max(1, self._edges[1])
        free = free_on_disk(self._folder)
        if needed > free + used:
            raise DataError(
                f"the scratch folder {self._folder.parent} has {free / 1e9:.2g} GB free, but the "
                f"fit needs {needed / 1e9:.2g} GB; set TMPDIR to another folder, or choose it with "
                f"scratch=",
                parameter="scratch",
            )
