"""Execute a list of runs, and record each result as it arrives."""

import math
import os
import statistics
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from schirn._progress import current
from schirn.lab.bench._overview import dataset_label, method_label
from schirn.lab.bench.results import IDENTITY, Result
from schirn.lab.bench.running._execute import without_result
from schirn.lab.bench.running._folder import ResultsFolder
from schirn.lab.bench.running._plan import Run
from schirn.lab.bench.running._trial import check_kinds
from schirn.lab.bench.running._workers import LocalWorker, ProcessWorker

NOT_RUN = "not run: it timed out with another seed"
"""Reason of a timeout whose run was not started."""


class Batch(NamedTuple):
    """Runs and the folder of their results."""

    folder: Path
    runs: list[Run]


class Engine:
    """Executes the runs of a benchmark that are not finished.

    After `stop_after` seconds no run is started, and unfinished runs leave no trace. With
    `timeouts`, a run is skipped if its method timed out on the same setting with another seed, in
    one of these results or in a later one.
    """

    def __init__(
        self,
        batches: Sequence[Batch],
        *,
        jobs: int,
        threads: int,
        time_limit: float | None,
        retry: bool = False,
        report: Callable[[Result], None] | None = None,
        stop_after: float | None = None,
        timeouts: Sequence[Result] | None = None,
    ):
        self.jobs = jobs
        self.threads = threads
        self.time_limit = time_limit
        self._deadline = math.inf if stop_after is None else time.monotonic() + stop_after
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._errors: list[BaseException] = []
        self._folders = [
            ResultsFolder(path, runs, retry=retry, threads=threads) for path, runs in batches
        ]
        pairs = [
            (folder, run)
            for folder, batch in zip(self._folders, batches, strict=True)
            for run in {run.key: run for run in batch.runs}.values()
        ]
        self._gives_up = timeouts is not None
        self._timeouts = {_without_seed(result) for result in timeouts or ()}
        self._pending = [(folder, run) for folder, run in pairs if run.key not in folder.finished]
        self._progress = _Progress([run for _, run in pairs], max(1, jobs), report)

    def check_kinds(self) -> None:
        """Raise InputError if an external class does not support the kinds of data it will get.

        See `schirn.lab.bench.running._trial`.
        """
        runs = [run for _, run in self._pending]
        worker = ProcessWorker(self.threads) if self.jobs else LocalWorker(self.threads)
        try:
            check_kinds(runs, worker.run)
        except BaseException:
            for folder in self._folders:
                folder.close()
            raise
        finally:
            worker.stop()

    def run(self) -> None:
        """Work until every run is finished, or the time is up."""
        workers = [ProcessWorker(self.threads) for _ in range(self.jobs)]
        try:
            for folder in self._folders:
                for result in folder.finished.values():
                    self._progress.add(result, old=True)
                    self._note_timeout(result)
            self._progress.say_stale(sum(folder.n_stale for folder in self._folders))
            if self.jobs:
                self._run_threads(workers)
            else:
                self._work(LocalWorker(self.threads))
        finally:
            self._stop.set()
            for worker in workers:
                worker.stop()
            for folder in self._folders:
                folder.close()
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
                # In short steps, so that Ctrl-C takes effect.
                while thread.is_alive() and time.monotonic() < self._deadline:
                    thread.join(0.1)
        finally:
            self._stop.set()
            for thread, worker in zip(threads, workers, strict=True):
                worker.stop()
                thread.join(5)

    def _work(self, worker: Any) -> None:
        """Execute and record runs until none is left: one job."""
        try:
            while (item := self._next()) is not None:
                folder, run = item
                if run.known["reason"] is not None:
                    output = without_result("skipped", run.known["reason"])
                elif self._gives_up and _without_seed(run.fields) in self._timeouts:
                    output = without_result("timeout", NOT_RUN)
                else:
                    output = worker.run(run, self.time_limit)
                if not self._stop.is_set():
                    with self._lock:
                        result = folder.record(run, output)
                        self._note_timeout(result)
                        self._progress.add(result)
        except BaseException as error:
            self._errors.append(error)
            self._stop.set()

    def _note_timeout(self, result: Result) -> None:
        if result["status"] == "timeout":
            self._timeouts.add(_without_seed(result))

    def _next(self) -> tuple[ResultsFolder, Run] | None:
        """Return the next run, unless there is none or the time is up."""
        with self._lock:
            is_over = self._stop.is_set() or time.monotonic() >= self._deadline
            return self._pending.pop(0) if self._pending and not is_over else None


def _without_seed(result: Result) -> tuple[Any, ...]:
    """Return the values that identify the runs of a method on a setting with any seed."""
    seeds = ("seed", "noise_seed")
    return tuple(result[name] for name in IDENTITY if name not in seeds)


class _Progress:
    """Count finished runs, and estimate how long the runs of a method take."""

    def __init__(self, runs: list[Run], jobs: int, report: Callable[[Result], None] | None):
        self._left = {run.key: run.fields["method"] for run in runs}
        self._total = len(self._left)
        self._jobs = jobs
        self._report = report
        self._costs: dict[str, list[float]] = {}
        # Results are added by other threads, which do not have the display.
        self._display = current()

    def say_stale(self, count: int) -> None:
        """Report results of other code, which are run again."""
        if count and self._display is not None:
            results = f"{count} results are stale" if count > 1 else "1 result is stale"
            self._display.say(f"{results}: the code of the method has changed; running again")

    def add(self, result: Result, *, old: bool = False) -> None:
        """Count a result; results of an earlier call are not reported."""
        self._left.pop(result["key"], None)
        names = ("tune_seconds", "fit_seconds", "predict_seconds")
        if result["status"] == "done":
            cost = sum(result[name] or 0.0 for name in names)
            self._costs.setdefault(result["method"], []).append(cost)
        if old:
            return
        if self._display is not None:
            finished = self._total - len(self._left)
            text = f"last: {in_words(result)}"
            self._display.tell("run", finished, self._total, self._seconds_left(), text)
            if result["status"] in ("failed", "timeout"):
                self._display.say(in_words(result))
        if self._report is not None:
            self._report(result)

    def _seconds_left(self) -> float | None:
        """Estimate from the finished runs of each method, else from all runs."""
        if not self._costs:
            return None
        usual = [cost for costs in self._costs.values() for cost in costs]
        seconds = sum(statistics.fmean(self._costs.get(m, usual)) for m in self._left.values())
        return seconds / min(self._jobs, max(1, len(self._left)))


def in_words(result: Result) -> str:
    """Return a result as part of a line."""
    name = f"{dataset_label(result)} {method_label(result)} fold {result['fold']}"
    if result["seed"]:
        name += f" seed {result['seed']}"
    if result["status"] == "skipped":
        return f"{name}: skipped"
    if result["status"] != "done":
        return f"{name}: {result['status']} ({result['reason']})"
    took = sum(result[key] for key in ("tune_seconds", "fit_seconds", "predict_seconds"))
    return f"{name}: {result['metrics']['average_precision']:.3f} in {took:.1f} s"


def default_threads(jobs: int) -> int:
    """Return the number of threads per job that fits the processors and OMP_NUM_THREADS."""
    if hasattr(os, "sched_getaffinity"):
        processors = len(os.sched_getaffinity(0))
    else:
        processors = os.cpu_count() or 1
    wish = os.environ.get("OMP_NUM_THREADS", "")
    share = max(1, processors // max(1, jobs))
    return min(share, int(wish)) if wish.isdigit() and int(wish) else share
