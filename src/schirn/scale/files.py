"""Blocks of rows in files, for data larger than memory.

Rows and states are read and written explicitly, into buffers that are used again; nothing is
mapped, because mapped pages count as memory of the process. While one block is computed, the next
is read and the last is written.
"""

import shutil
import tempfile
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
import scipy.sparse as sp

from schirn.exceptions import DataError, InputError
from schirn.scale.blocks import Block, Cells, Step, add_sums, candidate_cells
from schirn.scale.factor import FeatureRows
from schirn.scale.row_file import RowFile
from schirn.scale.scratch import Noting, Pool, Shelf, named

Array = np.ndarray
_T = TypeVar("_T")

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
