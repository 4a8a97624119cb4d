"""Buffers that are used again, and trees of arrays in temporary files."""

import pickle
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from schirn.exceptions import DataError, InputError

Array = np.ndarray

_ALIGNMENT = 64


class Pool:
    """Buffers that are used again; safe for threads."""

    def __init__(self) -> None:
        self._free: list[Any] = []
        self._lock = threading.Lock()

    def take(self, size: int) -> Any:
        """So many bytes, of any content."""
        with self._lock:
            fits = [memory for memory in self._free if 0 <= _room(memory) - size <= size + 4096]
            if fits:
                best = min(fits, key=_room)
                self._free = [memory for memory in self._free if memory is not best]
                return _aligned(best, size)
        return _aligned(np.empty(size + _ALIGNMENT, dtype=np.uint8), size)

    def give(self, buffers: Iterable[Any]) -> None:
        """Take buffers back; of many that nobody asked for, the oldest go."""
        with self._lock:
            self._free = [*self._free, *(buffer.base for buffer in buffers)][-24:]


def _room(memory: Any) -> int:
    return int(memory.nbytes) - _ALIGNMENT


def _aligned(memory: Any, size: int) -> Any:
    first = -memory.ctypes.data % _ALIGNMENT
    return memory[first : first + size]


class Shelf:
    """Trees of arrays in files of one folder: what they are made of stays in memory."""

    def __init__(self, folder: Path):
        self._folder = folder
        self._known: dict[str, tuple[bytes, list[int]]] = {}

    def __contains__(self, name: str) -> bool:
        return name in self._known

    def pack(self, value: Any) -> tuple[bytes, list[Array]]:
        """A tree as a skeleton and the bytes of its arrays."""
        buffers: list[pickle.PickleBuffer] = []
        skeleton = pickle.dumps(value, protocol=5, buffer_callback=buffers.append)
        return skeleton, [np.frombuffer(buffer.raw(), dtype=np.uint8) for buffer in buffers]

    def write(self, name: str, skeleton: bytes, buffers: list[Array]) -> None:
        """Put a packed tree into its file, over what is there."""
        path = self._folder / name
        with path.open("r+b" if path.exists() else "wb", buffering=0) as stream:
            for buffer in buffers:
                write_all(stream, buffer)
        self._known[name] = skeleton, [buffer.nbytes for buffer in buffers]

    def read(self, name: str, pool: Pool, taken: list[Any]) -> Any:
        """A tree from its file; its buffers are added to `taken`."""
        skeleton, sizes = self._known[name]
        buffers = [pool.take(size) for size in sizes]
        taken += buffers
        path = self._folder / name
        with path.open("rb", buffering=0) as stream:
            for buffer in buffers:
                read_all(stream, buffer, path)
        return pickle.loads(skeleton, buffers=[memoryview(buffer) for buffer in buffers])


class Noting(Pool):
    """A pool that notes what was taken from it."""

    def __init__(self, pool: Pool, taken: list[Any]):
        self._pool, self._taken = pool, taken

    def take(self, size: int) -> Any:
        """Uninitialised buffer of `size` bytes."""
        buffer = self._pool.take(size)
        self._taken.append(buffer)
        return buffer


def read_all(stream: Any, buffer: Any, path: Path) -> None:
    """Fill the buffer from the stream."""
    view = memoryview(buffer)
    while view:
        count = stream.readinto(view)
        if not count:
            raise DataError(f"{path}: the file is cut short")
        view = view[count:]


def write_all(stream: Any, array: Any) -> None:
    """Write all bytes of the array."""
    view = memoryview(array.reshape(-1).view(np.uint8))
    while view:
        view = view[stream.write(view) :]


def named(error: BaseException, path: Path) -> BaseException:
    """An error of a full disk as one sentence."""
    if isinstance(error, OSError) and not isinstance(error, InputError):
        return DataError(
            f"{path}: temporary files cannot be written ({error.strerror or error}); give another "
            f"folder with scratch="
        )
    return error
