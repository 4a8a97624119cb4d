"""Cells on the workers of a Dask cluster."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from schirn._optional import optional
from schirn.bench._cell import Outcome, load_for, not_done, run_cell
from schirn.bench._plan import Cell
from schirn.bench._worker import prepared_as
from schirn.exceptions import InputError

# The last data of each thread of a worker: cells of one set follow each other.
_LOADED = threading.local()


class DaskWorker:
    """One cell at a time, on whichever worker is free; as `schirn.bench._worker.Worker`."""

    def __init__(self, client: Any, threads: int):
        self._client, self._threads = client, threads
        self._future: Any = None

    def run(self, cell: Cell, time_limit: float | None) -> Outcome:
        """Run one cell; a worker that dies over it three times has failed."""
        future = self._future = self._client.submit(
            run_on_worker, cell, self._threads, pure=False, retries=0
        )
        try:
            outcome: Outcome = future.result()
        except Exception as error:
            reason = " ".join(str(error).split()) or type(error).__name__
            return not_done("failed", f"the Dask worker did not finish the cell: {reason}")
        return outcome

    def stop(self) -> None:
        """Give up the cell that is being waited for."""
        if self._future is not None:
            self._future.cancel()


def run_on_worker(cell: Cell, threads: int) -> Outcome:
    """Load what the cell needs, unless it is there already, and run it."""
    from threadpoolctl import threadpool_limits

    wanted = prepared_as(cell)
    if getattr(_LOADED, "key", None) != wanted:
        try:
            _LOADED.key, _LOADED.data = None, load_for(cell)
            _LOADED.key = wanted
        except Exception as error:
            return not_done("failed", " ".join(str(error).split()))
    with threadpool_limits(threads):
        return run_cell(cell, _LOADED.data)


@contextmanager
def connected(address: str) -> Iterator[Any]:
    """A client of the scheduler at this address, with at least one worker."""
    distributed = optional("distributed", "distributed", "a benchmark on a Dask cluster")
    try:
        client = distributed.Client(address, timeout="20s", set_as_default=False)
    except (OSError, ValueError, TimeoutError) as error:
        raise InputError(
            f"no Dask scheduler answers at {address!r} ({error}); give its address as in "
            f"tcp://127.0.0.1:8786"
        ) from error
    with client:
        if not client.nthreads():
            raise InputError(f"the Dask scheduler at {address!r} has no workers")
        yield client
