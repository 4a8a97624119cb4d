"""Checkpoints: a killed fit resumes where it stopped.

`kept_in` opens a folder for everything that happens inside, and removes what is in it when the work
is done. A fit opens a `section` for its data and parameters. A folder whose outermost section was
written for other data or parameters is rejected. Inside, `remembered` computes a value once, and
`Rounds` saves the state of a loop. If no folder is open, all of this costs nothing.

Values are numbers, texts, arrays, and lists, tuples and dictionaries of them; tuples come back as
lists. They are stored as arrays and JSON, never as code.
"""

import hashlib
import json
import os
import re
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from typing import Any, TypeVar

import joblib
import numpy as np
import scipy.sparse as sp

import schirn
from schirn._files import atomic_write, disk_errors_named, read_archive
from schirn._progress import current, setting
from schirn.exceptions import DataError, InputError

T = TypeVar("T")

# Seconds between two saved states, and how many times longer than the last one took to save.
_EVERY = 20.0
_PAUSE = 20.0
_HEAD = "checkpoint.json"
# Parameters that do not change the course of a fit.
_FREE = {"checkpoint", "verbose", "threshold", "n_jobs"}
# Key of an array in JSON.
_ARRAY = "__array__"
_ROUNDS = "rounds"
_SECTION_NAME = re.compile("[0-9a-f]{16}")


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
    opened = _Folder(Path(folder))
    with setting(_FOLDER, opened):
        yield
    opened.remove()


def section(what: str, params: dict[str, Any], *data: Any) -> AbstractContextManager[None]:
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
    return setting(_SECTION, None if folder is None else folder.section(what, params, data))


def no_section() -> AbstractContextManager[None]:
    """Save nothing inside this context, because the caller saves the result as a whole."""
    return setting(_SECTION, None)


def fit_settings(model: Any) -> dict[str, Any]:
    """Return what a fit depends on besides the data: the class and its parameters."""
    params = model.get_params(deep=False)
    return {
        "method": type(model).__name__,
        "params": {name: value for name, value in params.items() if name not in _FREE},
    }


def remembered(name: str, compute: Callable[[], T]) -> T:
    """Return what an earlier run computed under this name, or compute and save it."""
    if _SECTION.get() is None:
        return compute()
    record = load(name)
    if record is None:
        # Only what is stored is returned, so that both runs continue with the same numbers.
        save(name, {"value": compute()})
        record = load(name)
    value: T = record["value"]
    return value


class Rounds:
    """Rounds of a loop, of which an earlier run may have finished some."""

    def __init__(self, max_iter: int):
        self._max_iter = max_iter
        self._section = _SECTION.get()
        self.state: Any = None
        """What an earlier run saved last, or None."""
        self.done = 0
        """Rounds that it had finished."""
        if self._section is not None:
            self._resume()

    def _resume(self) -> None:
        """Continue after the rounds of an earlier run, if it saved any."""
        self._start = self._saved = time.monotonic()
        self._took = 0.0
        record = load(_ROUNDS)
        if record is not None:
            self.state = record["state"]
            self.done = int(record["done"])
            if (display := current()) is not None:
                display.say(f"continuing after round {self.done} of {self._max_iter}")

    def left(self) -> range:
        """The rounds to do, counted from 1."""
        return range(self.done + 1, self._max_iter + 1)

    def due(self, n_rounds: int) -> bool:
        """Return True if the last save is long ago and rounds remain."""
        if self._section is None or n_rounds == self._max_iter:
            return False
        self._start = time.monotonic()
        return self._start - self._saved >= max(_EVERY, _PAUSE * self._took)

    def blocks(self, n_rounds: int) -> str:
        """Return the file-name prefix of block states; they are saved before `save`."""
        return f"{_ROUNDS}-{n_rounds}-"

    def save(self, n_rounds: int, state: Any) -> None:
        """Save the state after some rounds; until then, that of an earlier round is valid."""
        assert self._section is not None
        save(_ROUNDS, {"done": n_rounds, "state": state})
        for path in self._section.glob(f"{_ROUNDS}-*.npz"):
            if not path.name.startswith(self.blocks(n_rounds)):
                path.unlink()
        self._saved = time.monotonic()
        self._took = self._saved - self._start


def save(name: str, value: Any) -> None:
    """Save a value in the open section."""
    folder = _SECTION.get()
    if folder is None:
        return
    arrays: dict[str, np.ndarray] = {}

    def replace(item: Any) -> Any:
        """Convert values that JSON cannot represent: arrays to keys, NumPy numbers to numbers."""
        if isinstance(item, np.generic):
            return item.item()
        if not isinstance(item, np.ndarray):
            raise TypeError(f"a checkpoint cannot hold {type(item).__name__}")
        key = f"a{len(arrays)}"
        arrays[key] = item
        return {_ARRAY: key}

    arrays["structure"] = np.array(json.dumps(value, default=replace))
    with atomic_write(folder / f"{name}.npz") as stream:
        np.savez(stream, sum=np.array(_checksum(arrays)), **arrays)  # type: ignore[arg-type]


def load(name: str) -> Any:
    """A value that an earlier run saved in the open section, or None."""
    folder = _SECTION.get()
    if folder is None or not (folder / f"{name}.npz").exists():
        return None
    path = folder / f"{name}.npz"
    try:
        arrays = read_archive(path)
        if str(arrays.pop("sum")) != _checksum(arrays):
            raise ValueError("the checksum differs")
        return json.loads(
            str(arrays["structure"]),
            object_hook=lambda item: arrays[item[_ARRAY]] if _ARRAY in item else item,
        )
    except (DataError, ValueError, KeyError, TypeError) as error:
        raise _refusal(f"{path}: damaged ({error}); delete the folder to start over") from None


def _refusal(sentence: str) -> InputError:
    return InputError(sentence, parameter="checkpoint")


def _checksum(arrays: dict[str, np.ndarray]) -> str:
    """Hash of the content of a file, which reveals whether it was changed."""
    digest = hashlib.sha256()
    for name in sorted(arrays):
        digest.update(f"{name} {arrays[name].dtype.str} {arrays[name].shape}".encode())
        digest.update(np.ascontiguousarray(arrays[name]).data)
    return digest.hexdigest()


def is_open() -> bool:
    """Whether there is a folder for checkpoints."""
    return _FOLDER.get() is not None


class _Folder:
    """A folder with one subfolder per section."""

    def __init__(self, path: Path):
        self.path = path
        self._begun = False
        head = path / _HEAD
        if path.is_dir() and not head.exists() and any(path.iterdir()):
            raise _refusal(f"{path}: not a checkpoint, and not empty; name a new folder")
        with disk_errors_named(path):
            path.mkdir(parents=True, exist_ok=True)

    def section(self, what: str, params: dict[str, Any], data: tuple[Any, ...]) -> Path:
        """The subfolder of a fit."""
        version = schirn.__version__
        stamp = {"method": what, "version of schirn": version}
        stamp |= {"set of parameters": joblib.hash(params), "data set": _digest(data)}
        if not self._begun:
            self._check(stamp)
        self._begun = True
        name = hashlib.sha256(json.dumps(stamp, sort_keys=True).encode()).hexdigest()[:16]
        path = self.path / name
        path.mkdir(exist_ok=True)
        return path

    def _check(self, stamp: dict[str, str]) -> None:
        """Raise InputError if the folder belongs to another fit."""
        head = self.path / _HEAD
        if not head.exists():
            with atomic_write(head) as stream:
                stream.write(json.dumps(stamp).encode())
        try:
            owner = dict(json.loads(head.read_text("utf-8")))
        except (ValueError, TypeError):
            owner = {}
        differences = [name for name, value in stamp.items() if owner.get(name) != value]
        if differences:
            raise _refusal(
                f"{self.path}: this is a checkpoint of a fit with another {differences[0]}; delete "
                f"it to start over, or name another folder"
            )

    def remove(self) -> None:
        """Remove what was written here; the folder too, unless it holds anything else."""
        for path in filter(_is_section, self.path.iterdir()):
            shutil.rmtree(path, ignore_errors=True)
        with suppress(OSError):
            (self.path / _HEAD).unlink(missing_ok=True)
            self.path.rmdir()


def _is_section(path: Path) -> bool:
    """Return whether a path is a folder of `_Folder.section` that holds only states."""
    if not _SECTION_NAME.fullmatch(path.name) or path.is_symlink() or not path.is_dir():
        return False
    # Kills leave partly written states, which end in .npz too.
    return all(file.suffix == ".npz" and file.is_file() for file in path.iterdir())


_FOLDER: ContextVar[_Folder | None] = ContextVar("folder", default=None)
_SECTION: ContextVar[Path | None] = ContextVar("section", default=None)


def _digest(data: tuple[Any, ...]) -> str:
    """Hash of data in main memory or in files."""
    digests = []
    for value in data:
        library = type(value).__module__.partition(".")[0]
        if library in ("dask", "distributed", "torch", "cupy"):
            kind = type(value).__name__
            raise _refusal(f"a checkpoint needs data in memory or in files, not {kind}")
        digests.append(_digest_file(value) if hasattr(value, "blocks") else joblib.hash(value))
    return str(joblib.hash(digests))


def _digest_file(X: Any) -> str:
    """Hash of rows in files, whatever their blocks if they are dense."""
    digest = hashlib.blake2b(f"{X.dtype.str}{X.shape}".encode(), digest_size=32)
    for block in X.blocks():
        for array in (block.data, block.indices, block.indptr) if sp.issparse(block) else (block,):
            digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()
