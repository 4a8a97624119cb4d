"""Workers, which execute runs in a child process or in this process.

A worker has `run(run, time_limit)` and `stop()`. A child process makes time limits and memory peaks
reliable. Parent and child exchange pickles over pipes; the child writes no files, so
only the parent records results.
"""

import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import IO, Any

from threadpoolctl import threadpool_limits

from schirn.exceptions import InputError
from schirn.lab.bench.running._data import Prepared
from schirn.lab.bench.running._execute import (
    Output,
    data_key,
    execute,
    load_data,
    one_line,
    without_result,
)
from schirn.lab.bench.running._plan import Run

_THREAD_VARIABLES = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "BLIS_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "LOKY_MAX_CPU_COUNT",
)
_START = "from schirn.lab.bench.running._workers import main; main()"
_STARTED = "started"


class LastData:
    """Prepared data of the last run: consecutive runs usually share them."""

    def __init__(self) -> None:
        self.key: tuple[Any, ...] = ()
        self.data: Any = None

    def load(self, run: Run) -> Prepared:
        """Return the data of a run, loaded only if the last run had others."""
        key = data_key(run)
        if key != self.key:
            # Free the old data first; after an error there are none.
            self.key = ()
            self.data = None
            self.data = load_data(run)
            self.key = key
        return self.data


class LocalWorker:
    """Executes runs in this process: without a time limit, but with classes from anywhere."""

    def __init__(self, threads: int):
        self._threads = threads
        self._last = LastData()

    def run(self, run: Run, time_limit: float | None = None) -> Output:
        """Execute one run."""
        try:
            data = self._last.load(run)
        except Exception as error:
            return without_result("failed", one_line(error))
        with threadpool_limits(self._threads):
            return execute(run, data)

    def stop(self) -> None:
        """Do nothing: a run in this process cannot be stopped."""


class ProcessWorker:
    """Executes runs in a child process: the parent's side."""

    def __init__(self, threads: int):
        self._threads = threads
        self._process: subprocess.Popen[bytes] | None = None
        self._timed_out = False
        self._loaded: tuple[Any, ...] = ()

    def run(self, run: Run, time_limit: float | None) -> Output:
        """Execute one run; a child that dies or is stopped is replaced for the next run."""
        process = self._process = self._process or self._launch()
        assert process.stdin is not None
        assert process.stdout is not None
        self._timed_out = False
        task = self._task(run)
        try:
            process.stdin.write(task)
            process.stdin.flush()
            answer = pickle.load(process.stdout)
            self._loaded = data_key(run) if answer == _STARTED else ()
            if answer == _STARTED:
                answer = self._await(process, time_limit)
        except (OSError, EOFError, ValueError, pickle.UnpicklingError):
            answer = None
        if isinstance(answer, Output):
            if self._timed_out:
                # The run finished just as its time ran out; the next one needs a new child.
                self.stop()
            return answer
        code = self.stop()
        if self._timed_out:
            return without_result("timeout", f"stopped after {time_limit:g} s, the limit for a run")
        return without_result("failed", f"the process of the method ended {_how(code)}")

    def stop(self) -> int | None:
        """End the child and all its children; return its exit code."""
        process = self._process
        self._process = None
        if process is None:
            return None
        with suppress(OSError):
            # Poll first, so that a child that ended by itself keeps its code.
            if process.poll() is None:
                _kill(process)
        for pipe in (process.stdin, process.stdout):
            assert pipe is not None
            with suppress(OSError):
                pipe.close()
        return process.wait()

    def _task(self, run: Run) -> bytes:
        """Pickle a run, without data that the child already has."""
        if data_key(run) == self._loaded:
            run = replace(run, source=run.source._replace(dataset=None))
        try:
            return pickle.dumps(run)
        except (pickle.PicklingError, AttributeError, TypeError) as error:
            raise InputError(
                f"a run of {run.method.name} cannot be sent to another process ({error}); "
                f"use jobs=0"
            ) from error

    def _await(self, process: subprocess.Popen[bytes], time_limit: float | None) -> Any:
        assert process.stdout is not None
        if time_limit is None:
            return pickle.load(process.stdout)
        is_over = threading.Event()
        arguments = (process, time_limit, is_over)
        watch = threading.Thread(target=self._watch, args=arguments, daemon=True)
        watch.start()
        try:
            return pickle.load(process.stdout)
        finally:
            is_over.set()
            watch.join()

    def _watch(
        self, process: subprocess.Popen[bytes], time_limit: float, is_over: threading.Event
    ) -> None:
        """Kill a process after a time limit, in which waiting for a processor does not count.

        Otherwise other work on the machine would decide which methods time out.
        """
        deadline = time.monotonic() + time_limit - _seconds_waited(process)
        seconds_left = time_limit
        while not is_over.wait(seconds_left):
            seconds_left = deadline + _seconds_waited(process) - time.monotonic()
            if seconds_left <= 0:
                self._expire()
                return

    def _expire(self) -> None:
        process = self._process
        if process is not None:
            self._timed_out = True
            with suppress(OSError):
                _kill(process)

    def _launch(self) -> subprocess.Popen[bytes]:
        self._loaded = ()
        environment = {**os.environ, **dict.fromkeys(_THREAD_VARIABLES, str(self._threads))}
        environment["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)
        return subprocess.Popen(
            # -P: a file in the current folder must not shadow a module of Python.
            [sys.executable, "-P", "-c", _START],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
            # Ctrl-C goes to the parent, which then ends the child.
            start_new_session=True,
        )


def _kill(process: subprocess.Popen[bytes]) -> None:
    """Kill a process and its children."""
    if os.name == "posix":
        os.killpg(process.pid, signal.SIGKILL)
    else:
        process.kill()


def _seconds_waited(process: subprocess.Popen[bytes]) -> float:
    """Return the time that a process has waited for a free processor; 0 except on Linux."""
    try:
        # Nanoseconds on a processor, nanoseconds of waiting for one, and the number of turns.
        return int(Path(f"/proc/{process.pid}/schedstat").read_text().split()[1]) / 1e9
    except (OSError, IndexError, ValueError):
        return 0.0


def _how(code: int | None) -> str:
    """Describe how a process ended."""
    if code is not None and code < 0:
        hint = ", perhaps for lack of memory" if code == -signal.SIGKILL else ""
        return f"by signal {-code}{hint}"
    return f"with exit code {code}"


def main() -> None:
    """Read runs from stdin until it closes: the child's side."""
    tasks, answers = _private_pipes()
    threading.Thread(target=_end_with_parent, args=(os.getppid(),), daemon=True).start()
    sys.path.insert(0, os.getcwd())
    last = LastData()
    while True:
        try:
            run = pickle.load(tasks)
        except EOFError:
            return
        try:
            data = last.load(run)
        except Exception as error:
            _send(answers, without_result("failed", one_line(error)))
            continue
        _send(answers, _STARTED)
        _send(answers, execute(run, data))


def _send(stream: IO[bytes], answer: Any) -> None:
    pickle.dump(answer, stream)
    stream.flush()


def _private_pipes() -> tuple[IO[bytes], IO[bytes]]:
    """Move the pipes to the parent out of reach of methods that read or print."""
    tasks = os.fdopen(os.dup(0), "rb")
    answers = os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDWR)
    for handle in (0, 1, 2):
        os.dup2(nothing, handle)
    return tasks, answers


def _end_with_parent(parent: int) -> None:
    """Exit once the parent has been killed, even in the middle of a fit."""
    pause = threading.Event()
    while os.getppid() == parent:
        pause.wait(0.5)
    os._exit(1)
