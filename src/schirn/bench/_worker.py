"""A child process that runs cells, so that time limits and memory peaks are clean.

Parent and child speak in pickles over pipes. The child writes no file: what it has done is
recorded by the parent or not at all.
"""

import os
import pickle
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from dataclasses import replace
from typing import IO, Any

from schirn.bench._cell import Outcome, load_for, not_done, run_cell
from schirn.bench._plan import Cell
from schirn.exceptions import InputError

_THREAD_VARIABLES = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "BLIS_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "LOKY_MAX_CPU_COUNT",
)
_START = "from schirn.bench._worker import main; main()"
_STARTED = "started"


class Worker:
    """The parent's side."""

    def __init__(self, threads: int):
        self._threads = threads
        self._process: subprocess.Popen[bytes] | None = None
        self._timed_out = False
        self._loaded: tuple[Any, ...] = ()

    def run(self, cell: Cell, time_limit: float | None) -> Outcome:
        """Run one cell; a child that dies or is stopped is replaced for the next one."""
        process = self._process = self._process or self._launch()
        assert process.stdin is not None
        assert process.stdout is not None
        self._timed_out = False
        task = self._task(cell)
        try:
            process.stdin.write(task)
            process.stdin.flush()
            answer = pickle.load(process.stdout)
            self._loaded = prepared_as(cell) if answer == _STARTED else ()
            if answer == _STARTED:
                answer = self._await(process.stdout, time_limit)
        except (OSError, EOFError, ValueError, pickle.UnpicklingError):
            answer = None
        if isinstance(answer, Outcome):
            if self._timed_out:
                # Finished in the moment of its end; the next cell needs a new child.
                self.stop()
            return answer
        code = self.stop()
        if self._timed_out:
            return not_done("timeout", f"stopped after {time_limit:g} s, the limit for a cell")
        return not_done("failed", f"the process of the method ended {_how(code)}")

    def stop(self) -> int | None:
        """End the child and all it started; return its exit code."""
        process, self._process = self._process, None
        if process is None:
            return None
        with suppress(OSError):
            # A child that ended by itself keeps its code: it is polled first.
            if process.poll() is None:
                _kill(process)
        for pipe in (process.stdin, process.stdout):
            assert pipe is not None
            with suppress(OSError):
                pipe.close()
        return process.wait()

    def _task(self, cell: Cell) -> bytes:
        """A cell as bytes, without data that the child has already."""
        if prepared_as(cell) == self._loaded:
            cell = replace(cell, source=cell.source._replace(dataset=None))
        try:
            return pickle.dumps(cell)
        except (pickle.PicklingError, AttributeError, TypeError) as error:
            raise InputError(
                f"a cell of {cell.method.name} cannot be sent to another process ({error}); "
                f"use jobs=0"
            ) from error

    def _await(self, stream: IO[bytes], time_limit: float | None) -> Any:
        if time_limit is None:
            return pickle.load(stream)
        timer = threading.Timer(time_limit, self._expire)
        timer.daemon = True
        timer.start()
        try:
            return pickle.load(stream)
        finally:
            timer.cancel()
            timer.join()

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
            # -P: a file in the current folder must not take the place of a module of Python.
            [sys.executable, "-P", "-c", _START],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
            # Ctrl-C is for the parent, which then ends the child.
            start_new_session=True,
        )


def _kill(process: subprocess.Popen[bytes]) -> None:
    """End a process and those that it started."""
    if os.name == "posix":
        os.killpg(process.pid, signal.SIGKILL)
    else:
        process.kill()


def _how(code: int | None) -> str:
    """How a process ended, in words."""
    if code is not None and code < 0:
        hint = ", perhaps for lack of memory" if code == -signal.SIGKILL else ""
        return f"by signal {-code}{hint}"
    return f"with exit code {code}"


def main() -> None:
    """The child's side: read cells from stdin until it closes."""
    tasks, answers = _private_pipes()
    threading.Thread(target=_end_with_parent, args=(os.getppid(),), daemon=True).start()
    sys.path.insert(0, os.getcwd())
    data: Any = None
    loaded: tuple[Any, ...] = ()
    while True:
        try:
            cell = pickle.load(tasks)
        except EOFError:
            return
        wanted = prepared_as(cell)
        try:
            if wanted != loaded:
                data, loaded = None, ()
                data, loaded = load_for(cell), wanted
        except Exception as error:
            _send(answers, not_done("failed", " ".join(str(error).split())))
            continue
        _send(answers, _STARTED)
        _send(answers, run_cell(cell, data))


def prepared_as(cell: Cell) -> tuple[Any, ...]:
    """Cells that agree on this share their arrays."""
    names = ("r", "noise", "noise_seed", "folds", "seed", "split")
    return (cell.known["data_sha256"], *(cell.row[name] for name in names))


def _send(stream: IO[bytes], answer: Any) -> None:
    pickle.dump(answer, stream)
    stream.flush()


def _private_pipes() -> tuple[IO[bytes], IO[bytes]]:
    """The pipes to the parent, out of reach of methods that read or print."""
    tasks, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDWR)
    for handle in (0, 1, 2):
        os.dup2(nothing, handle)
    return tasks, answers


def _end_with_parent(parent: int) -> None:
    """End when the parent has been killed, also in the middle of a fit."""
    pause = threading.Event()
    while os.getppid() == parent:
        pause.wait(0.5)
    os._exit(1)
