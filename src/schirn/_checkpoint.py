"""Checkpoints: a fit that was killed goes on where it was.

`kept_in` opens a folder for everything that happens inside, and removes what is in it when the work
is done. A fit opens a `section` for its data and parameters. The outermost section of a folder that
was written for others is refused. Inside, `remembered` computes a value once, and `Rounds` saves
the state of a loop. All of it costs nothing where no folder is open.

Values are numbers, texts, arrays, and lists, tuples and dictionaries of them; tuples come back as
lists. They are stored as arrays and JSON, never as code.
"""

import hashlib
import json
import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from typing import Any, TypeVar

import joblib
import numpy as np
import scipy.sparse as sp

import schirn
from schirn._files import atomic_write, disk_errors_named, read_archive
from schirn._progress import current
from schirn.exceptions import DataError, InputError

T = TypeVar("T")

# Seconds between two saved states, and how many times longer than the last one took to save.
_EVERY, _PAUSE = 20.0, 20.0
_HEAD = "checkpoint.json"
# Parameters that do not change the course of a fit.
_FREE = {"checkpoint", "verbose", "threshold", "n_jobs"}


@contextmanager
def kept_in(folder: str | os.PathLike[str] | None) -> Iterator[None]:
    """Keep the states of all fits inside in a folder; remove it when the work is done.

    Parameters
    ----------
    folder : path or None
        A new or empty folder, or that of a killed run. None keeps nothing, unless a folder further
        out is open.
    """
    if folder is None or _FOLDER.get() is not None:
        yield
        return
    found = _Folder(Path(folder))
    token = _FOLDER.set(found)
    try:
        yield
    finally:
        _FOLDER.reset(token)
    found.remove()


@contextmanager
def section(what: str, params: dict[str, Any], *data: Any) -> Iterator[None]:
    """Open a section of the folder, if one is open, for one fit.

    Parameters
    ----------
    what : str
        Name of the method.
    params : dict
        Everything that the result depends on besides the data.
    *data : arrays, sparse matrices, lists of text or blocks of rows
    """
    folder = _FOLDER.get()
    if folder is None:
        yield
        return
    token = _SECTION.set(folder.section(what, params, data))
    try:
        yield
    finally:
        _SECTION.reset(token)


def fit_settings(model: Any) -> dict[str, Any]:
    """Return what a fit depends on besides the data: the class and its parameters."""
    params = model.get_params(deep=False)
    return {
        "method": type(model).__name__,
        "params": {name: value for name, value in params.items() if name not in _FREE},
    }


@contextmanager
def no_section() -> Iterator[None]:
    """Keep nothing of what happens inside: it is part of something that is kept."""
    token = _SECTION.set(None)
    try:
        yield
    finally:
        _SECTION.reset(token)


def remembered(name: str, compute: Callable[[], T]) -> T:
    """Return what an earlier run computed under this name, or compute and save it."""
    own = _SECTION.get()
    if own is None:
        return compute()
    found = own.load(name)
    if found is None:
        # Only what is stored is returned, so that both runs go on with the same numbers.
        own.save(name, {"value": compute()})
        found = own.load(name)
    value: T = found["value"]
    return value


class Rounds:
    """Rounds of a loop, of which an earlier run may have finished some."""

    def __init__(self, max_iter: int, name: str = "rounds"):
        self._max_iter, self._name, self._section = max_iter, name, _SECTION.get()
        self._start = self._saved = time.monotonic()
        self._took = 0.0
        found = None if self._section is None else self._section.load(name)
        self.state: Any = None if found is None else found["state"]
        """What an earlier run saved last, or None."""
        self.done = 0 if found is None else int(found["done"])
        """Rounds that it had finished."""
        display = current()
        if self.done and display is not None:
            display.say(f"going on after round {self.done} of {max_iter}")

    def left(self) -> range:
        """The rounds to do, counted from 1."""
        return range(self.done + 1, self._max_iter + 1)

    def due(self, done: int) -> bool:
        """Whether to save the state: it is long ago, and not the last round."""
        if self._section is None or done == self._max_iter:
            return False
        self._start = time.monotonic()
        return self._start - self._saved >= max(_EVERY, _PAUSE * self._took)

    def blocks(self, done: int) -> str:
        """How the names of the states of blocks start; they are saved before `save`."""
        return f"{self._name}-{done}-"

    def save(self, done: int, state: Any) -> None:
        """Save the state after some rounds; until then, that of an earlier round is valid."""
        assert self._section is not None
        self._section.save(self._name, {"done": done, "state": state})
        self._section.drop(f"{self._name}-", except_for=self.blocks(done))
        self._saved = time.monotonic()
        self._took = self._saved - self._start


def save(name: str, value: Any) -> None:
    """Save a value in the open section."""
    own = _SECTION.get()
    if own is not None:
        own.save(name, value)


def load(name: str) -> Any:
    """A value that an earlier run saved in the open section, or None."""
    own = _SECTION.get()
    return None if own is None else own.load(name)


def is_open() -> bool:
    """Whether there is a folder for checkpoints."""
    return _FOLDER.get() is not None


class _Folder:
    """A folder with one subfolder per section."""

    def __init__(self, path: Path):
        self.path, self._begun = path, False
        head = path / _HEAD
        if path.is_dir() and not head.exists() and any(path.iterdir()):
            raise InputError(
                f"{path}: not a checkpoint, and not empty; name a new folder",
                parameter="checkpoint",
            )
        with disk_errors_named(path):
            path.mkdir(parents=True, exist_ok=True)

    def section(self, what: str, params: dict[str, Any], data: tuple[Any, ...]) -> "_Section":
        version = schirn.__version__
        stamp = {"method": what, "version": version, "parameters": joblib.hash(params)}
        stamp["data"] = _digest(data)
        if not self._begun:
            self._check(stamp)
        self._begun = True
        name = hashlib.sha256(json.dumps(stamp, sort_keys=True).encode()).hexdigest()[:16]
        path = self.path / name
        path.mkdir(exist_ok=True)
        return _Section(path)

    def _check(self, stamp: dict[str, str]) -> None:
        """Raise InputError if the folder belongs to another fit."""
        head, what, version = self.path / _HEAD, stamp["method"], stamp["version"]
        if not head.exists():
            _write_json(head, stamp)
        before = _read_json(head)
        other = [name for name, value in stamp.items() if before.get(name) != value]
        if other:
            words = {
                "method": f"of {before.get('method')}, not of {what}",
                "version": f"of version {before.get('version')} of schirn, and this is {version}",
                "parameters": "of a fit with other parameters",
                "data": "of a fit on other data",
            }
            raise InputError(
                f"{self.path}: this is a checkpoint {words[other[0]]}; delete it to start over, or "
                f"name another folder",
                parameter="checkpoint",
            )

    def remove(self) -> None:
        """Remove what was written here; the folder too, unless it holds anything else."""
        for path in self.path.iterdir():
            if len(path.name) == 16 and path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
        with suppress(OSError):
            (self.path / _HEAD).unlink(missing_ok=True)
            self.path.rmdir()


class _Section:
    """The saved values of one fit."""

    def __init__(self, path: Path):
        self.path = path

    def save(self, name: str, value: Any) -> None:
        arrays: list[np.ndarray] = []
        text = json.dumps(_pack(value, arrays))
        named = {f"a{k}": array for k, array in enumerate(arrays)}
        with atomic_write(self.path / f"{name}.npz") as stream:
            np.savez(stream, structure=np.array(text), **named)  # type: ignore[arg-type]

    def load(self, name: str) -> Any:
        path = self.path / f"{name}.npz"
        if not path.exists():
            return None
        try:
            arrays = read_archive(path)
            return _unpack(json.loads(str(arrays["structure"])), arrays)
        except (DataError, ValueError, KeyError, TypeError) as error:
            raise InputError(
                f"{path}: damaged ({error}); delete the folder to start over",
                parameter="checkpoint",
            ) from None

    def drop(self, start: str, *, except_for: str) -> None:
        for path in self.path.glob(f"{start}*.npz"):
            if not path.name.startswith(except_for):
                path.unlink()


_FOLDER: ContextVar[_Folder | None] = ContextVar("folder", default=None)
_SECTION: ContextVar[_Section | None] = ContextVar("section", default=None)


def _pack(value: Any, arrays: list[np.ndarray]) -> Any:
    """A value as JSON that refers to arrays."""
    if isinstance(value, dict):
        return {"dict": {str(key): _pack(item, arrays) for key, item in value.items()}}
    if isinstance(value, list | tuple):
        return [_pack(item, arrays) for item in value]
    if isinstance(value, np.ndarray):
        arrays.append(value)
        return {"array": len(arrays) - 1}
    if isinstance(value, np.generic):
        return value.item()
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise TypeError(f"a checkpoint cannot hold {type(value).__name__}")


def _unpack(found: Any, arrays: dict[str, np.ndarray]) -> Any:
    if isinstance(found, list):
        return [_unpack(item, arrays) for item in found]
    if isinstance(found, dict) and "array" in found:
        return arrays[f"a{found['array']}"]
    if isinstance(found, dict):
        return {key: _unpack(item, arrays) for key, item in found["dict"].items()}
    return found


def _digest(data: Any) -> str:
    """Hash of data, whatever holds it."""
    found = hashlib.blake2b(digest_size=32)

    def add(value: Any) -> None:
        if value is None or isinstance(value, bool | int | float | str | np.generic):
            found.update(repr(value).encode())
        elif hasattr(value, "columns") and hasattr(value, "to_numpy"):
            add((list(value.columns), value.to_numpy()))
        elif sp.issparse(value):
            add((value.shape, value.data, value.indices, value.indptr))
        elif isinstance(value, np.ndarray) and value.dtype != object:
            found.update(f"{value.dtype.str}{value.shape}".encode())
            found.update(np.ascontiguousarray(value).data)
        elif hasattr(value, "blocks"):
            # Rows in files are the same data as those in memory, whatever their blocks.
            found.update(f"{value.dtype.str}{value.shape}".encode())
            for block in value.blocks():
                if sp.issparse(block):
                    add(block)
                else:
                    found.update(np.ascontiguousarray(block).data)
        elif isinstance(value, list | tuple) or hasattr(value, "__iter__"):
            found.update(b"[")
            for item in value:
                add(item)
            found.update(b"]")
        else:
            raise InputError(
                f"a checkpoint needs data in main memory or in files, not {type(value).__name__}; "
                f"leave it out",
                parameter="checkpoint",
            )

    add(data)
    return found.hexdigest()


def _write_json(path: Path, value: dict[str, Any]) -> None:
    with atomic_write(path) as stream:
        stream.write(json.dumps(value).encode())


def _read_json(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text("utf-8"))
    except ValueError:
        found = None
    return found if isinstance(found, dict) else {}
