"""True labels in reach and out of reach of a method, and a watch on what it reads.

`hidden_labels` keeps labels in another process. `labels_in_files`, `labels_in_globals` and
`with_labels_on_the_stack` put them where a dishonest method would look, and `watched` records files
that are read and attempts to walk the call stack.
"""

import atexit
import os
import pickle
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np

from schirn._input import Array
from schirn.datasets import Dataset, make_partial_multilabel
from schirn.metrics import average_precision

N_TRAIN = 300
_NAMES = ("y_true", "truth", "y_clean", "labels", "Y")
_CODE = (".py", ".pyc", ".so", ".pyd")
_SYSTEM = tuple({"/proc/", "/sys/", "/dev/", sys.prefix, sys.base_prefix})
# Frames of these belong to whoever called them.
_LOOKING = ("inspect", "traceback")
_LIBRARIES = (
    *("numpy", "scipy", "sklearn", "joblib", "threadpoolctl", "pandas", "schirn"),
    # PyTorch imports the last two when it first needs them.
    *("torch", "sympy", "typing_extensions"),
)
_STACK_EVENTS = ("sys._getframe", "sys._current_frames", "gc.get_objects", "gc.get_referrers")


class HiddenLabels:
    """A process that makes data sets, passes on features and candidates, and scores."""

    def __init__(self) -> None:
        program = "from schirn.testing._reach import keep_labels; keep_labels()"
        path = os.pathsep.join(filter(None, sys.path))
        self._process = subprocess.Popen(
            [sys.executable, "-c", program],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": path},
        )
        atexit.register(self.close)

    def close(self) -> None:
        """End the process, which stops when its input closes, and wait for it."""
        with self._process:
            self._process.terminate()

    def ask(self, *request: Any) -> Any:
        """Return the answer of the process."""
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        pickle.dump(request, stdin)
        stdin.flush()
        return pickle.load(stdout)

    def data(self, seed: int) -> tuple[Array, Array, Array]:
        """Features and candidates of training rows, and features of test rows."""
        X, candidates, X_test = self.ask("data", seed)
        return X, candidates, X_test

    def score(self, seed: int, scores: Array) -> float:
        """Average precision of scores of the test rows."""
        return float(self.ask("score", seed, np.asarray(scores, dtype=float)))


@cache
def hidden_labels() -> HiddenLabels:
    """The process that keeps labels, started once."""
    return HiddenLabels()


def make_data(seed: int) -> Dataset:
    """A data set that every method can learn."""
    return make_partial_multilabel(
        n_samples=N_TRAIN + 100, n_features=8, n_labels=12, cardinality=2.0, random_state=seed
    )


def keep_labels() -> None:
    """Answer requests until the pipe closes."""
    pipe = os.fdopen(os.dup(1), "wb")
    # A library that prints must not disturb the answers.
    os.dup2(2, 1)
    while True:
        try:
            what, seed, *arguments = pickle.load(sys.stdin.buffer)
        except EOFError:
            return
        data = make_data(seed)
        if what == "data":
            answer: Any = data.X[:N_TRAIN], data.candidates[:N_TRAIN], data.X[N_TRAIN:]
        else:
            answer = average_precision(data.y_true[N_TRAIN:], arguments[0])
        pickle.dump(answer, pipe)
        pipe.flush()


@contextmanager
def labels_in_files(data: Dataset) -> Iterator[None]:
    """Put the true labels into the current folder and into SCHIRN_DATA."""
    start, variable = Path.cwd(), os.environ.get("SCHIRN_DATA")
    with tempfile.TemporaryDirectory() as folder:
        for name in _NAMES:
            np.save(Path(folder, f"{name}.npy"), data.y_true)
        np.savetxt(Path(folder, "y_true.csv"), data.y_true, fmt="%d", delimiter=",")
        np.savez(Path(folder, "data.npz"), X=data.X, Y=data.y_true, C=data.candidates)
        os.chdir(folder)
        os.environ["SCHIRN_DATA"] = folder
        try:
            yield
        finally:
            os.chdir(start)
            os.environ.pop("SCHIRN_DATA")
            if variable is not None:
                os.environ["SCHIRN_DATA"] = variable


@contextmanager
def labels_in_globals(data: Dataset, module: str) -> Iterator[None]:
    """Put the true labels into globals of the program, of `schirn.testing` and of a module."""
    modules = dict.fromkeys(("__main__", "schirn.testing", module))
    places = [sys.modules[name] for name in modules if name in sys.modules]
    names = [(place, name) for place in places for name in (*_NAMES, "data", "TRUTH")]
    names = [(place, name) for place, name in names if not hasattr(place, name)]
    for place, name in names:
        setattr(place, name, data if name == "data" else data.y_true)
    try:
        yield
    finally:
        for place, name in names:
            delattr(place, name)


def with_labels_on_the_stack(action: Callable[[], Any], data: Dataset) -> Any:
    """Call an action from a function that has the true labels in its variables."""
    y_true = truth = y_clean = labels = Y = data.y_true
    assert y_true is truth is y_clean is labels is Y
    return action()


class Watch:
    """What code did while it was watched: files that it read, and looks at the call stack."""

    def __init__(self) -> None:
        self.files: list[str] = []
        self.looks: list[str] = []
        self._written: set[str] = set()
        self._thread = threading.get_ident()
        self._is_busy = False

    def __call__(self, event: str, args: tuple[Any, ...]) -> None:
        """Record an audit event."""
        if self._is_busy or threading.get_ident() != self._thread:
            return
        # Looking at the caller is an event, too.
        self._is_busy = True
        if event == "open":
            self._record_file(*args)
        elif event in _STACK_EVENTS:
            module = _looking_module(sys._getframe(2))
            if module.partition(".")[0] not in (*sys.stdlib_module_names, *_LIBRARIES):
                self.looks.append(f"{event} in {module}")
        self._is_busy = False

    def _record_file(self, path: Any, mode: str | None, flags: int) -> None:
        if isinstance(path, int):
            return
        name = os.path.abspath(os.fsdecode(path))
        if flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT) or (mode and set(mode) & set("wxa+")):
            self._written.add(name)
        elif (
            not name.startswith(_SYSTEM)
            and not name.endswith(_CODE)
            and name not in self._written
            and os.path.isfile(name)
        ):
            self.files.append(name)


def _looking_module(frame: FrameType | None) -> str:
    """Module that looks at the call stack, by itself or through the standard library."""
    while frame is not None and frame.f_globals.get("__name__") in _LOOKING:
        frame = frame.f_back
    return "" if frame is None else str(frame.f_globals.get("__name__", ""))


_watches: list[Watch] = []


@cache
def _install() -> None:
    """Pass audit events on; Python cannot remove a hook."""
    sys.addaudithook(lambda event, args: _watches[-1](event, args) if _watches else None)


@contextmanager
def watched() -> Iterator[Watch]:
    """Watch the code of a block."""
    _install()
    watch = Watch()
    _watches.append(watch)
    try:
        yield watch
    finally:
        _watches.remove(watch)
