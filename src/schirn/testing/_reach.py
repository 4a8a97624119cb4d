"""True labels where a dishonest method would look, and a watch on the files that it reads."""

import os
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import chdir, contextmanager
from functools import cache
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

from schirn.datasets import Dataset, make_partial_multilabel

N_TRAIN = 300
_NAMES = ("y_true", "truth", "y_clean", "labels", "Y")
_CODE = (".py", ".pyc", ".so", ".pyd")
_SYSTEM = tuple({"/proc/", "/sys/", "/dev/", sys.prefix, sys.base_prefix})


def make_data(seed: int) -> Dataset:
    """A data set that every method can learn."""
    return make_partial_multilabel(
        n_samples=N_TRAIN + 100, n_features=8, n_labels=12, cardinality=2.0, random_state=seed
    )


@contextmanager
def labels_in_files(data: Dataset) -> Iterator[None]:
    """Put the true labels into the current folder and into SCHIRN_DATA."""
    with tempfile.TemporaryDirectory() as folder:
        for name in _NAMES:
            np.save(Path(folder, f"{name}.npy"), data.y_true)
        np.savetxt(Path(folder, "y_true.csv"), data.y_true, fmt="%d", delimiter=",")
        np.savez(Path(folder, "data.npz"), X=data.X, Y=data.y_true, C=data.candidates)
        with chdir(folder), patch.dict(os.environ, SCHIRN_DATA=folder):
            yield


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
    """Files that code read while it was watched."""

    def __init__(self) -> None:
        self.files: list[str] = []
        self._written: set[str] = set()
        self._thread = threading.get_ident()

    def __call__(self, path: Any, mode: str | None, flags: int) -> None:
        """Record a file that is opened."""
        if isinstance(path, int) or threading.get_ident() != self._thread:
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


_watches: list[Watch] = []


@cache
def _install() -> None:
    """Pass on which files are opened; Python cannot remove a hook."""
    sys.addaudithook(
        lambda event, args: _watches[-1](*args) if event == "open" and _watches else None
    )


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
