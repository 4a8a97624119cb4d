"""Runs in child processes and in this process, when something goes wrong."""

import io
import os
import pickle
import subprocess
import sys
import time
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from lab.bench.bench_helpers import tiny

from schirn.exceptions import InputError
from schirn.lab.bench import read_rows
from schirn.lab.bench.running import _workers as workers
from schirn.lab.bench.running._engine import Batch, Engine, default_threads
from schirn.lab.bench.running._execute import Output
from schirn.lab.bench.running._folder import ResultsFolder
from schirn.lab.bench.running._methods import importable_here
from schirn.lab.bench.running._plan import plan_runs
from schirn.lab.bench.running._workers import (
    LocalWorker,
    ProcessWorker,
)

DONE = Output({"status": "done"}, {})


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    save(tiny())
    return tmp_path


def save(data):
    np.savez("tiny.npz", X=data.X, Y=data.y_true, C=data.candidates)


def plan_tiny(folds=2):
    return plan_runs(["tiny.npz:1"], ["CandidateRidge"], folds=folds, tuning="none")


def make_engine(folder, runs, **options):
    fixed = {"jobs": 0, "threads": 1, "time_limit": None, "retry": False}
    fixed |= {"report": None}
    return Engine([Batch(folder, runs)], **{**fixed, **options})


@pytest.mark.parametrize("make", [ProcessWorker, LocalWorker])
def test_a_file_that_changes_while_the_benchmark_runs(place, monkeypatch, make):
    first, second = plan_tiny()
    worker = make(1)
    save(tiny(r=2))
    changed = worker.run(first, None)
    assert changed.fields["status"] == "failed"
    assert changed.fields["reason"] == "tiny changed while the benchmark ran; start it again"
    save(tiny())
    assert worker.run(first, None).fields["status"] == "done"
    # The data are loaded once for all runs of a data set.
    os.remove("tiny.npz")
    assert worker.run(second, None).fields["status"] == "done"
    worker.stop()


class Stream(io.BytesIO):
    """The answers of a child; calls a function before the last one is read."""

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
    """A function that gives a worker an artificial child; counts children and kills."""
    counts = SimpleNamespace(launched=0, killed=0)

    def make(worker, before_last, last=DONE):
        def launch(self):
            counts.launched += 1
            stdout = Stream([workers._STARTED, last], before_last)
            codes = {"poll": lambda: None, "wait": lambda: -9}
            return SimpleNamespace(pid=0, stdin=io.BytesIO(), stdout=stdout, **codes)

        monkeypatch.setattr(ProcessWorker, "_launch", launch)
        return counts

    def kill(process):
        counts.killed += 1

    monkeypatch.setattr(workers, "_kill", kill)
    return make


def test_a_run_that_ends_with_its_time_keeps_its_result(place, child):
    run, _ = plan_tiny()
    worker = ProcessWorker(1)
    counts = child(worker, worker._expire)
    assert worker.run(run, 60.0) == DONE
    assert counts.killed
    assert worker.run(run, 60.0) == DONE
    assert counts.launched == 2


def test_a_run_that_is_given_up_has_not_timed_out(place, child):
    run, _ = plan_tiny()
    worker = ProcessWorker(1)

    def give_up():
        worker.stop()
        worker._expire()

    counts = child(worker, give_up)
    output = worker.run(run, 60.0)
    assert output.fields["status"] == "failed"
    assert counts.killed == 1


BUSY = """
import time


class Busy:
    def __init__(self, seconds=1.0):
        self.seconds = seconds

    def fit(self, X, y):
        self.mean_ = y.mean(axis=0)
        begin = time.process_time()
        while time.process_time() - begin < self.seconds:
            pass
        return self

    def decision_function(self, X):
        return self.mean_ * (1 + 0.01 * X[:, :1])
"""


@pytest.mark.skipif(not os.path.exists("/proc/self/schedstat"), reason="needs /proc")
def test_waiting_for_a_processor_does_not_count_towards_the_time_limit(place):
    (place / "busy.py").write_text(BUSY)
    chosen = {"folds": 2, "tuning": "none"}
    with importable_here():
        run = plan_runs(["tiny.npz:1"], ["busy:Busy"], **chosen)[0]
        endless = plan_runs(
            ["tiny.npz:1"], ["busy:Busy"], params={"Busy": {"seconds": 600.0}}, **chosen
        )[0]
    processors = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(processors)})
    others = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(3)]
    worker = ProcessWorker(1)
    try:
        begin = time.monotonic()
        output = worker.run(run, 1.6)
        # The run is worth its name: without the rule it would have timed out.
        assert time.monotonic() - begin > 1.6
        assert output.fields["status"] == "done"
        assert worker.run(endless, 0.5).fields["status"] == "timeout"
    finally:
        worker.stop()
        for other in others:
            other.kill()
            other.wait()
        os.sched_setaffinity(0, processors)


def test_a_run_that_cannot_be_pickled_is_an_error(place):
    run, _ = plan_tiny()
    odd = replace(run, method=run.method._replace(params={"lam": lambda: 1}))
    worker = ProcessWorker(1)
    with pytest.raises(InputError, match=r"a run of CandidateRidge cannot be sent .*use jobs=0"):
        worker.run(odd, None)
    worker.stop()


def test_a_child_is_ended_where_there_are_no_process_groups(monkeypatch):
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]) as process:
        with monkeypatch.context() as windows:
            windows.setattr(os, "name", "nt")
            windows.delattr(os, "killpg")
            workers._kill(process)
        assert process.wait(60) != 0


def test_one_process_at_a_time_writes_to_a_folder(place):
    runs = plan_tiny()
    other = ResultsFolder(place / "out", runs, retry=False, threads=1)
    with pytest.raises(InputError, match="another process writes its results there"):
        make_engine(place / "out", runs)
    other.close()
    engine = make_engine(place / "out", runs)
    engine.run()
    assert len(read_rows(place / "out")) == len(runs)
    assert not (place / "out" / "lock").exists()


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
