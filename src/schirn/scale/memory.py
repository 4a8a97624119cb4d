"""Memory that is free, and arrays that move to a temporary file if they would not fit."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import numpy as np

from schirn.exceptions import InputError

Array = np.ndarray

# What is assumed where the system does not say how much memory is free.
_UNKNOWN = 8 * 10**9
_LIMIT: ContextVar[float | None] = ContextVar("memory_limit", default=None)
_CGROUP = Path("/sys/fs/cgroup")
# Of the memory that is free, the largest arrays of a fit take at most this share.
_SHARE = 0.5


@contextmanager
def memory_limit(gigabytes: float | None) -> Iterator[None]:
    """Keep large arrays in temporary files as if only this much memory were free."""
    before = _LIMIT.set(None if gigabytes is None else gigabytes * 1e9)
    try:
        yield
    finally:
        _LIMIT.reset(before)


def free_bytes() -> int:
    """Memory that this process can still use: what the system and its container leave."""
    free = [_UNKNOWN]
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        free = [int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:")]
    except OSError:
        if hasattr(os, "sysconf") and "SC_AVPHYS_PAGES" in os.sysconf_names:
            free = [os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")]
    for most, used in (
        ("memory.max", "memory.current"),
        ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes"),
    ):
        try:
            free.append(int((_CGROUP / most).read_text()) - int((_CGROUP / used).read_text()))
        except (OSError, ValueError):
            continue
    limit = _LIMIT.get()
    found = max(0, min(free))
    return found if limit is None else min(found, int(limit))


def large_array(shape: tuple[int, ...], dtype: Any) -> Array:
    """An uninitialised array, in memory or, if it needs most of what is free, in a temporary file.

    The file has no name and disappears with the array. `schirn.linalg.arrays.release` takes its
    pages out of memory after use.
    """
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    free = free_bytes()
    if size <= _SHARE * free:
        return np.empty(shape, dtype)
    folder = tempfile.gettempdir()
    on_disk = shutil.disk_usage(folder).free
    if size <= on_disk:
        try:
            with tempfile.TemporaryFile(prefix="schirn-", dir=folder) as stream:
                if hasattr(os, "posix_fallocate"):
                    # Without room on the disk, a write to a mapped page would end the process.
                    os.posix_fallocate(stream.fileno(), 0, size)
                return np.memmap(stream, dtype=dtype, mode="w+", shape=shape)
        except OSError:
            on_disk = shutil.disk_usage(folder).free
    raise InputError(
        f"{shape[0]:,} rows need {size / 1e9:.2g} GB for their features, but only "
        f"{free / 1e9:.2g} GB of memory are free, and {on_disk / 1e9:.2g} GB in {folder}; set "
        f"TMPDIR to a folder with more room, or choose a smaller n_landmarks"
    )
