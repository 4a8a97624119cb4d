"""Cells on children, in this process and on Dask, when something comes between."""

import io
import os
import pickle
import shutil
import subprocess
import sys
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from bench.bench_helpers import lines, tiny

from schirn.bench import _dask, _worker
from schirn.bench._cell import Outcome, not_done
from schirn.bench._dask import DaskWorker, connected, run_on_worker
from schirn.bench._data import parse_datasets
from schirn.bench._engine import Batch, Engine, _InProcess, default_threads
from schirn.bench._methods import make_methods
from schirn.bench._plan import Settings, make_plan
from schirn.bench._shelf import Shelf
from schirn.bench._worker import Worker
from schirn.exceptions import InputError

DONE = Outcome({"status": "done"}, {})


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    save(tiny())
    return tmp_path


def save(data):
    np.savez("tiny.npz", X=data.X, Y=data.y_true, C=data.candidates)


def plan_tiny(folds=2):
    sets = parse_datasets(["tiny.npz:1"], [None], {})
    methods = make_methods(["CandidateRidge"], {}, {})
    return make_plan(sets, methods, Settings(folds=folds, tuning="none"))


def make_engine(folder, cells, **options):
    fixed = {"jobs": 0, "threads": 1, "time_limit": None, "retry": False}
    fixed |= {"keep_scores": False, "report": None}
    return Engine([Batch(folder, cells)], **{**fixed, **options})


class OnDask:
    def run(self, cell, time_limit):
        return run_on_worker(cell, 1)

    def stop(self):
        del _dask._LOADED.key


@pytest.mark.parametrize("make", [lambda: Worker(1), lambda: _InProcess(1), OnDask])
def test_a_file_that_changes_while_the_benchmark_runs(place, make):
    first, second = plan_tiny()
    worker = make()
    save(tiny(r=2))
    changed = worker.run(first, None)
    assert changed.row["status"] == "failed"
    assert changed.row["reason"] == "tiny changed while the benchmark ran; start it again"
    save(tiny())
    assert worker.run(first, None).row["status"] == "done"
    # The data are loaded once for all cells of a set.
    os.remove("tiny.npz")
    assert worker.run(second, None).row["status"] == "done"
    if hasattr(worker, "stop"):
        worker.stop()


class Stream(io.BytesIO):
    """What a child has answered; something happens before the last answer is read."""

    def __init__(self, answers, before_last):
        *first, last = map(pickle.dumps, answers)
        super().__init__(b"".join([*first, last]))
        self._last, self._before = len(b"".join(first)), before_last

    def readline(self, *args):
        return self._happen(super().readline, *args)

    def read(self, *args):
        return self._happen(super().read, *args)

    def readinto(self, buffer):
        return self._happen(super().readinto, buffer)

    def _happen(self, read, *args):
        if self.tell() >= self._last and self._before:
            before, self._before = self._before, None
            before()
        return read(*args)


@pytest.fixture
def child(monkeypatch):
    """A function that lets a worker have a child made by hand; counts children and kills."""
    counts = SimpleNamespace(launched=0, killed=0)

    def make(worker, before_last, last=DONE):
        def launch(self):
            counts.launched += 1
            stdout = Stream([_worker._STARTED, last], before_last)
            codes = {"poll": lambda: None, "wait": lambda: -9}
            return SimpleNamespace(stdin=io.BytesIO(), stdout=stdout, **codes)

        monkeypatch.setattr(Worker, "_launch", launch)
        return counts

    def kill(process):
        counts.killed += 1

    monkeypatch.setattr(_worker, "_kill", kill)
    return make


def test_a_cell_that_ends_with_its_time_keeps_its_result(place, child):
    cell, _ = plan_tiny()
    worker = Worker(1)
    counts = child(worker, worker._expire)
    assert worker.run(cell, 60.0) == DONE
    assert counts.killed
    assert worker.run(cell, 60.0) == DONE
    assert counts.launched == 2


def test_a_cell_that_is_given_up_has_not_timed_out(place, child):
    cell, _ = plan_tiny()
    worker = Worker(1)

    def give_up():
        worker.stop()
        worker._expire()

    counts = child(worker, give_up)
    outcome = worker.run(cell, 60.0)
    assert outcome.row["status"] == "failed"
    assert counts.killed == 1


def test_what_cannot_be_sent_to_a_child_is_told(place):
    cell, _ = plan_tiny()
    odd = replace(cell, method=cell.method._replace(params={"lam": lambda: 1}))
    with pytest.raises(InputError, match=r"a cell of CandidateRidge cannot be sent .*use jobs=0"):
        Worker(1)._task(odd)


def test_a_child_is_ended_where_there_are_no_process_groups(monkeypatch):
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]) as process:
        with monkeypatch.context() as windows:
            windows.setattr(os, "name", "nt")
            windows.delattr(os, "killpg")
            _worker._kill(process)
        assert process.wait(10) != 0


def test_a_cell_that_another_process_has_just_finished_is_not_run_again(place, monkeypatch):
    cells = plan_tiny()
    make_engine(place / "theirs", cells).run()
    take = Shelf.take

    def finished_by_others(self, cell):
        for path in (place / "theirs").glob("*.jsonl"):
            shutil.copy(path, self.folder)
        return take(self, cell)

    monkeypatch.setattr(Shelf, "take", finished_by_others)
    engine = make_engine(place / "ours", cells)
    engine.run()
    assert engine.left == 0
    assert lines(place / "ours") == lines(place / "theirs")
    assert not (place / "ours" / "claims").exists()


def test_cells_of_others_are_waited_for_no_longer_than_the_clock_allows(place):
    cells = plan_tiny()
    other = Shelf(place / "out", cells, retry=False, threads=1, keep_scores=False)
    assert all(other.take(cell) for cell in cells)
    engine = make_engine(place / "out", cells, jobs=1, stop_after=0.2)
    engine.run()
    assert engine.left == 2
    other.close()
    assert lines(place / "out") == []


def test_a_result_counts_only_with_a_claim_and_only_once(place):
    (cell, _) = cells = plan_tiny()
    options = {"retry": False, "threads": 1, "keep_scores": False}
    ours, theirs = (Shelf(place / "out", cells, **options) for _ in range(2))
    outcome = _InProcess(1).run(cell, None)
    ours.record(cell, outcome)
    assert ours.refresh() == []
    assert theirs.take(cell)
    theirs.record(cell, outcome)
    assert [row["key"] for row in ours.refresh()] == [cell.key]
    theirs.record(cell, outcome)
    assert ours.refresh() == []
    assert ours.finished == {cell.key}
    ours.close()
    theirs.close()


def test_threads_share_the_processors(monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: range(8), raising=False)
    assert [default_threads(jobs) for jobs in (0, 1, 3, 20)] == [8, 8, 2, 1]
    monkeypatch.delattr(os, "sched_getaffinity")
    monkeypatch.setattr(os, "cpu_count", lambda: 6)
    assert default_threads(2) == 3
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert default_threads(2) == 1
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setattr(os, "cpu_count", lambda: 6)
    assert default_threads(2) == 1


class Client:
    """A client whose only future ends as it is told."""

    def __init__(self, result):
        self.result, self.cancelled = result, 0

    def submit(self, function, cell, threads, **options):
        def cancel():
            self.cancelled += 1

        return SimpleNamespace(result=self.result, cancel=cancel)


def test_a_dask_worker_that_dies_fails_its_cell():
    def die():
        raise RuntimeError("the worker\nis gone")

    outcome = DaskWorker(Client(die), 1).run(None, None)
    assert outcome == not_done(
        "failed", "the Dask worker did not finish the cell: the worker is gone"
    )


def test_a_dask_cell_is_given_up_once_it_is_waited_for():
    client = Client(lambda: DONE)
    worker = DaskWorker(client, 1)
    worker.stop()
    assert client.cancelled == 0
    assert worker.run(None, None) == DONE
    worker.stop()
    assert client.cancelled == 1


def test_a_scheduler_without_workers_is_refused():
    distributed = pytest.importorskip("distributed", reason="dask.distributed is not installed")
    with (
        distributed.LocalCluster(
            n_workers=0, processes=False, dashboard_address=":0", silence_logs=50
        ) as cluster,
        pytest.raises(InputError, match=r"the Dask scheduler at '.*' has no workers"),
        connected(cluster.scheduler_address),
    ):
        pass
