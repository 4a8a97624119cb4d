"""Run the cells of a plan: share them with other processes, record each as it finishes."""

import os
import platform
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy
import scipy
import sklearn

import schirn
from schirn.bench._cell import Outcome, load_for, not_done, run_cell
from schirn.bench._claims import Claims
from schirn.bench._plan import Cell
from schirn.bench._progress import Progress, Report
from schirn.bench._scores import write_arrays
from schirn.bench._worker import Worker, prepared_as
from schirn.bench.rows import FIELDS, Row, RowReader, RowWriter

_POLL_SECONDS = 0.5

_BLANK: Row = {
    "reason": None,
    "metrics": {},
    "params": {},
    "tune_seconds": None,
    "fit_seconds": None,
    "predict_seconds": None,
    "peak_memory_mb": None,
    "n_train": None,
    "n_test": None,
    "scores": None,
    "traceback": None,
}


class Engine:
    """One process's part in a benchmark folder."""

    def __init__(
        self,
        folder: Path,
        cells: list[Cell],
        *,
        jobs: int,
        threads: int,
        time_limit: float | None,
        retry: bool,
        keep_scores: bool,
        report: Callable[[Report], None] | None,
    ):
        self.folder, self.jobs, self.threads = folder, jobs, threads
        self.time_limit, self.retry, self.keep_scores = time_limit, retry, keep_scores
        self._cells = {cell.key: cell for cell in cells}
        self._started = time.time()
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._errors: list[BaseException] = []
        self._reader = RowReader(folder)
        self._claims = Claims(folder / "claims")
        self._writer = RowWriter(folder, self._claims.token)
        self._finished: set[str] = set()
        self._progress = Progress(cells, max(1, jobs), report)
        self._pending = list(cells)

    def run(self) -> None:
        """Run until every cell is finished, here or elsewhere."""
        workers = [Worker(self.threads) for _ in range(self.jobs)]
        try:
            self._refresh(old=True)
            if self.jobs:
                self._run_threads(workers)
            else:
                self._work(_InProcess(self.threads))
            self._claims.sweep(self._finished)
        finally:
            self._stop.set()
            for worker in workers:
                worker.stop()
            self._claims.close()
        if self._errors:
            raise self._errors[0]

    def _run_threads(self, workers: list[Worker]) -> None:
        threads = [
            threading.Thread(target=self._work, args=(worker,), daemon=True) for worker in workers
        ]
        for thread in threads:
            thread.start()
        try:
            for thread in threads:
                # In short steps, so that Ctrl-C is heard.
                while thread.is_alive():
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
                cell = self._next()
                if cell is None:
                    return
                if cell.known["reason"] is not None:
                    outcome = not_done("skipped", cell.known["reason"])
                else:
                    outcome = worker.run(cell, self.time_limit)
                if not self._stop.is_set():
                    self._record(cell, outcome)
        except BaseException as error:
            self._errors.append(error)
            self._stop.set()

    def _next(self) -> Cell | None:
        """Claim a cell; wait while all that are left belong to other processes."""
        while not self._stop.is_set():
            with self._lock:
                for cell in list(self._pending):
                    if self._claim(cell):
                        return cell
                if not self._pending:
                    return None
            self._stop.wait(_POLL_SECONDS)
            with self._lock:
                self._refresh()
        return None

    def _claim(self, cell: Cell) -> bool:
        if not self._claims.take(cell.key):
            return False
        # Another process may have finished it between our last look and the claim.
        self._refresh()
        if cell.key in self._finished:
            self._claims.release(cell.key)
            return False
        self._pending.remove(cell)
        return True

    def _refresh(self, old: bool = False) -> None:
        """See which cells are finished by now."""
        for row in self._reader.refresh():
            if row["key"] in self._cells and self._counts(row):
                if row["key"] not in self._finished:
                    self._progress.add(row, old=old)
                self._finished.add(row["key"])
        self._pending = [cell for cell in self._pending if cell.key not in self._finished]

    def _counts(self, row: Row) -> bool:
        """Whether a row settles its cell, or the cell is to be tried again."""
        if row["finished"] >= self._started or row["status"] == "done":
            return True
        if row["status"] == "skipped":
            return self._cells[row["key"]].known["reason"] is not None
        return not self.retry

    def _record(self, cell: Cell, outcome: Outcome) -> None:
        if not self._claims.holds(cell.key):
            return
        row = {**cell.row, **_BLANK, **cell.known, **outcome.row}
        if outcome.arrays and self.keep_scores:
            row["scores"] = f"scores/{cell.key}.npz"
            write_arrays(self.folder / row["scores"], outcome.arrays)
        row["versions"] = versions()
        row["threads"], row["host"] = self.threads, self._claims.token
        row["finished"] = time.time()
        self._writer.append({name: row[name] for name in FIELDS})
        with self._lock:
            self._refresh()
        self._claims.release(cell.key)


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


def versions() -> dict[str, str]:
    """What made a row."""
    return {
        "schirn": schirn.__version__,
        "python": platform.python_version(),
        "numpy": numpy.__version__,
        "scipy": scipy.__version__,
        "scikit-learn": sklearn.__version__,
    }


def default_threads(jobs: int) -> int:
    """Threads for each of the jobs, so that together they fit the machine and the user's wish."""
    if hasattr(os, "sched_getaffinity"):
        processors = len(os.sched_getaffinity(0))
    else:
        processors = os.cpu_count() or 1
    wish = os.environ.get("OMP_NUM_THREADS", "")
    share = max(1, processors // max(1, jobs))
    return min(share, int(wish)) if wish.isdigit() and int(wish) else share
