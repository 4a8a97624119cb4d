"""Run the cells of a plan: share them with other processes, record each as it finishes."""

import math
import os
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from schirn.bench._cell import Outcome, load_for, not_done, run_cell
from schirn.bench._plan import Cell
from schirn.bench._progress import Progress, Report
from schirn.bench._shelf import Shelf
from schirn.bench._worker import Worker, prepared_as

_POLL_SECONDS = 0.5
# Expected times are rough, and what is stopped at the end is lost.
_SLACK = 1.5


class Batch(NamedTuple):
    """Cells and the folder that their rows belong into."""

    folder: Path
    cells: list[Cell]


class Engine:
    """One process's part in a benchmark.

    With `cost`, the seconds that a cell will take, the longest cells come first, so that many
    jobs stay busy to the end. With `stop_after` the shortest do, so that most is done by then; no
    cell is begun that would end later, and what is not finished is given up without a trace;
    `left` counts such cells.
    """

    def __init__(
        self,
        batches: Sequence[Batch],
        *,
        jobs: int,
        threads: int,
        time_limit: float | None,
        retry: bool,
        keep_scores: bool,
        report: Callable[[Report], None] | None,
        cost: Callable[[Cell], float] | None = None,
        stop_after: float | None = None,
        make_worker: Callable[[int], Any] = Worker,
    ):
        self._make_worker = make_worker
        self.jobs, self.threads, self.time_limit = jobs, threads, time_limit
        self._deadline = math.inf if stop_after is None else time.monotonic() + stop_after
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._errors: list[BaseException] = []
        self._pending: list[tuple[Shelf, Cell]] = []
        for folder, cells in batches:
            shelf = Shelf(folder, cells, retry=retry, threads=threads, keep_scores=keep_scores)
            self._pending += [(shelf, cell) for cell in cells]
        self._all = list(self._pending)
        self._shelves = list(dict.fromkeys(shelf for shelf, _ in self._pending))
        self._cost = cost if cost is not None else lambda cell: 0.0
        sign = -1 if stop_after is None else 1
        self._pending.sort(key=lambda item: sign * self._cost(item[1]))
        self._progress = Progress([cell for _, cell in self._pending], max(1, jobs), report)

    @property
    def left(self) -> int:
        """Number of cells that are not finished."""
        return sum(cell.key not in shelf.finished for shelf, cell in self._all)

    def run(self) -> None:
        """Run until every cell is finished, here or elsewhere, or the time is over."""
        workers = [self._make_worker(self.threads) for _ in range(self.jobs)]
        try:
            self._refresh(old=True)
            if self.jobs:
                self._run_threads(workers)
            else:
                self._work(_InProcess(self.threads))
            for shelf in self._shelves:
                shelf.sweep()
        finally:
            self._stop.set()
            for worker in workers:
                worker.stop()
            for shelf in self._shelves:
                shelf.close()
        if self._errors:
            raise self._errors[0]

    def _run_threads(self, workers: list[Any]) -> None:
        threads = [
            threading.Thread(target=self._work, args=(worker,), daemon=True) for worker in workers
        ]
        for thread in threads:
            thread.start()
        try:
            for thread in threads:
                # In short steps, so that Ctrl-C is heard.
                while thread.is_alive() and time.monotonic() < self._deadline:
                    thread.join(0.1)
        finally:
            self._stop.set()
            for thread, worker in zip(threads, workers, strict=True):
                worker.stop()
                thread.join(5)

    def _work(self, worker: Any) -> None:
        """One job: take a cell, run it, record it, until none is left."""
        try:
            while not self._stop.is_set():
                item = self._next()
                if item is None:
                    return
                shelf, cell = item
                if cell.known["reason"] is not None:
                    outcome = not_done("skipped", cell.known["reason"])
                else:
                    outcome = worker.run(cell, self.time_limit)
                if not self._stop.is_set():
                    shelf.record(cell, outcome)
                    with self._lock:
                        self._refresh()
                    shelf.release(cell)
        except BaseException as error:
            self._errors.append(error)
            self._stop.set()

    def _next(self) -> tuple[Shelf, Cell] | None:
        """Claim a cell; wait while all that are left belong to other processes."""
        while not self._stop.is_set():
            with self._lock:
                time_left = (self._deadline - time.monotonic()) / _SLACK
                for item in list(self._pending):
                    if self._cost(item[1]) < time_left and self._claim(*item):
                        return item
                if not any(self._cost(cell) < time_left for _, cell in self._pending):
                    return None
            self._stop.wait(_POLL_SECONDS)
            with self._lock:
                self._refresh()
        return None

    def _claim(self, shelf: Shelf, cell: Cell) -> bool:
        if not shelf.take(cell):
            return False
        # Another process may have finished it between our last look and the claim.
        self._refresh()
        if cell.key in shelf.finished:
            shelf.release(cell)
            return False
        self._pending.remove((shelf, cell))
        return True

    def _refresh(self, old: bool = False) -> None:
        """See which cells are finished by now."""
        for shelf in self._shelves:
            for row in shelf.refresh():
                self._progress.add(row, old=old)
        self._pending = [item for item in self._pending if item[1].key not in item[0].finished]


class _InProcess:
    """Runs cells in this process: no time limit, but classes from anywhere."""

    def __init__(self, threads: int):
        self._threads = threads
        self._loaded: tuple[Any, ...] = ()
        self._data: Any = None

    def run(self, cell: Cell, time_limit: float | None) -> Outcome:
        """Run one cell."""
        from threadpoolctl import threadpool_limits

        if prepared_as(cell) != self._loaded:
            try:
                self._data, self._loaded = load_for(cell), prepared_as(cell)
            except Exception as error:
                return not_done("failed", " ".join(str(error).split()))
        with threadpool_limits(self._threads):
            return run_cell(cell, self._data)


def default_threads(jobs: int) -> int:
    """Threads for each of the jobs, so that together they fit the machine and the user's wish."""
    if hasattr(os, "sched_getaffinity"):
        processors = len(os.sched_getaffinity(0))
    else:
        processors = os.cpu_count() or 1
    wish = os.environ.get("OMP_NUM_THREADS", "")
    share = max(1, processors // max(1, jobs))
    return min(share, int(wish)) if wish.isdigit() and int(wish) else share
