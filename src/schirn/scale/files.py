"""A row store in files, for data larger than memory.

Rows and states are read and written explicitly instead of memory-mapped, because mapped pages count
as memory of the process. While one block is computed, the next is read and the previous one is
written.
"""

import pickle
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np
import scipy.sparse as sp

from schirn._input import check_same_length
from schirn._progress import track
from schirn.scale.blocks import (
    Block,
    FeatureRows,
    RowStore,
    Step,
    add_sums,
    candidate_cells,
    message_for,
)
from schirn.scale.memory import ScratchFolder
from schirn.scale.row_file import RowFile, disk_error

_T = TypeVar("_T")


class _LazyRows(FeatureRows):
    """Rows whose X is read on first use."""

    def __init__(self, first: int, read: Callable[[], Any]):
        # The fields of the frozen `FeatureRows` cannot be assigned.
        vars(self).update(first=first, _read=read)

    @cached_property
    def X(self) -> Any:
        """The rows, read on first use."""
        return vars(self)["_read"]()


class FileRows(RowStore):
    """A row store with blocks and states in files.

    A state is a named tuple with one file per field. Only fields replaced by a step are written.

    Parameters
    ----------
    X : RowFile
        Features of the rows.
    Y : (n, l) CSR array
        Candidates, 0/1.
    """

    def __init__(self, X: RowFile, Y: sp.csr_array):
        check_same_length(X.shape[0], Y.shape[0])
        self._X = X
        self._scratch = ScratchFolder(X.scratch)
        self._reader = ThreadPoolExecutor(1)
        self._writer = ThreadPoolExecutor(1)
        self._edges = np.concatenate([[0], np.cumsum(X.block_sizes)]).tolist()
        self._preparations: list[tuple[Callable[..., Block], tuple[Any, ...]]] = []
        # Type of the state of each block.
        self._states: list[Any] = [None] * len(X.block_sizes)
        self._uses_rows: dict[Any, bool] = {}
        try:
            for k, (i, j) in enumerate(pairwise(self._edges)):
                self._save(f"{k}.cells", candidate_cells(Y[i:j]))
        except BaseException:
            self.close()
            raise

    def run(self, function: Callable[[], _T]) -> _T:
        """Run a whole fit.

        Parameters
        ----------
        function : callable
            Function without arguments that runs the fit.

        Returns
        -------
        result of the function
        """
        return function()

    def step(self, function: Step, *message: Any) -> tuple[Any, ...]:
        """Run one step on all blocks and return the sums."""
        sums: Any = None
        writing = None
        for k, (block, state) in enumerate(track(self._fetch_all(function), "block")):
            new, block_sums = function(block, state, *message_for(message, k))
            self._uses_rows[function] = "X" in vars(block.rows)
            sums = add_sums(sums, block_sums)
            if writing is not None:
                writing.result()
            writing = self._writer.submit(self._save_state, k, state, new)
        if writing is not None:
            writing.result()
        return sums

    def gather(self, function: Callable[..., Any], *message: Any) -> list[Any]:
        """Return f(block, state, *message) of each block, in order."""
        return [
            function(*self._fetch(k, False), *message_for(message, k))
            for k in range(len(self._states))
        ]

    def prepare(self, function: Callable[..., Block], *message: Any) -> None:
        """Replace each block by f(block, *message) whenever it is read from now on."""
        self._preparations.append((function, message))

    def close(self) -> None:
        """Remove all temporary files."""
        self._reader.shutdown(cancel_futures=True)
        self._writer.shutdown(cancel_futures=True)
        self._scratch.remove()

    def _fetch_all(self, function: Any) -> Iterator[tuple[Block, Any]]:
        """Yield all blocks in order; each is read while the previous one is computed."""
        with_rows = self._uses_rows.get(function, True)
        reading = self._reader.submit(self._fetch, 0, with_rows)
        for k in range(1, len(self._states)):
            block = reading.result()
            reading = self._reader.submit(self._fetch, k, with_rows)
            yield block
        yield reading.result()

    def _fetch(self, k: int, with_rows: bool) -> tuple[Block, Any]:
        cells = self._load(f"{k}.cells")
        rows = _LazyRows(self._edges[k], lambda: self._read_rows(k, cells))
        if with_rows:
            _ = rows.X
        kind = self._states[k]
        if kind is None:
            return Block(rows, cells), None
        fields = {name: self._load(f"{k}.{name}") for name in kind._fields}
        return Block(rows, cells), kind(**fields)

    def _read_rows(self, k: int, cells: Any) -> Any:
        block = Block(FeatureRows(self._X.read(k), self._edges[k]), cells)
        for function, message in self._preparations:
            block = function(block, *message)
        return block.rows.X

    def _save_state(self, k: int, state: Any, new: Any) -> None:
        """Write the new fields of a state."""
        self._states[k] = None if new is None else type(new)
        for name in () if new is None else new._fields:
            value = getattr(new, name)
            if type(state) is not type(new) or value is not getattr(state, name):
                self._save(f"{k}.{name}", value)

    def _save(self, name: str, value: Any) -> None:
        try:
            with (self._scratch.path / name).open("wb") as stream:
                pickle.dump(value, stream, protocol=5)
        except OSError as error:
            raise disk_error(error, self._scratch.path) from error

    def _load(self, name: str) -> Any:
        with (self._scratch.path / name).open("rb") as stream:
            return pickle.load(stream)
