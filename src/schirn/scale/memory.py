"""Free memory, and temporary files for what does not fit into it."""

import os
import shutil
import tempfile
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import IO

from schirn._files import lock
from schirn.exceptions import InputError

# What is assumed where the system does not say how much memory is free.
_UNKNOWN = 8 * 10**9
_LIMIT: ContextVar[float | None] = ContextVar("memory_limit", default=None)
_CGROUP = Path("/sys/fs/cgroup")
_OWN_GROUPS = Path("/proc/self/cgroup")
_MOUNTS = Path("/proc/mounts")
# Of the memory that is free, features and the largest array of a fit take at most this share.
_SHARE = 0.5


@contextmanager
def memory_limit(gigabytes: float | None) -> Iterator[None]:
    """Choose storages as if only this much memory were free.

    Parameters
    ----------
    gigabytes : float or None
        None is no limit.
    """
    token = _LIMIT.set(None if gigabytes is None else gigabytes * 1e9)
    try:
        yield
    finally:
        _LIMIT.reset(token)


def free_bytes() -> int:
    """Memory that this process can still use: what system and container leave.

    Returns
    -------
    int
    """
    free = [_UNKNOWN]
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        available = [line for line in lines if line.startswith("MemAvailable:")]
        free = [int(line.split()[1]) * 1024 for line in available]
    except OSError:
        if hasattr(os, "sysconf") and "SC_AVPHYS_PAGES" in os.sysconf_names:
            free = [os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")]
    free += _left_by_container()
    limit = _LIMIT.get()
    if limit is not None:
        free.append(int(limit))
    return max(0, min(free))


def fits(size: int, free: int | None = None) -> bool:
    """Whether an array of `size` bytes may lie in memory: it takes at most half of what is free.

    Parameters
    ----------
    size : int
    free : int, optional
        Bytes that are free, if known.

    Returns
    -------
    bool
    """
    return size <= _SHARE * (free_bytes() if free is None else free)


def check_room(size: int, what: str) -> None:
    """Raise InputError if a temporary file of `size` bytes would not fit on the disk.

    Parameters
    ----------
    size : int
    what : str
        What needs the room, in the plural.
    """
    folder = scratch_folder()
    if size > free_on_disk(folder):
        raise InputError(
            f"{what} need {size / 1e9:.2g} GB in temporary files, since only "
            f"{free_bytes() / 1e9:.2g} GB of memory are free, but {folder} has "
            f"{free_on_disk(folder) / 1e9:.2g} GB; set TMPDIR to a folder with more room"
        )


def scratch_folder() -> str:
    """The folder for temporary files: that of the system, or /var/tmp if that is in memory.

    Returns
    -------
    str
    """
    folder = tempfile.gettempdir()
    fallback = "/var/tmp"
    chosen = any(name in os.environ for name in ("TMPDIR", "TEMP", "TMP"))
    if chosen or not _is_in_memory(folder):
        return folder
    if os.access(fallback, os.W_OK) and not _is_in_memory(fallback):
        return fallback
    return folder


class ScratchFolder:
    """A folder for temporary files that is removed with this object.

    A process that is killed leaves its folder behind. The next one that makes a folder in the same
    place removes it: the system unlocks the lock file of a process that ends.
    """

    def __init__(self, inside: str | os.PathLike[str]):
        for folder in Path(inside).glob("schirn-*"):
            _remove_abandoned(folder)
        # Until the lock is there, no other process must see the folder.
        hidden = Path(tempfile.mkdtemp(prefix=".schirn-", dir=inside))
        file = (hidden / "lock").open("wb")
        lock(file)
        self.path = hidden.rename(hidden.with_name(hidden.name[1:]))
        self.remove = weakref.finalize(self, _remove, self.path, file)


def _remove_abandoned(folder: Path) -> None:
    """Remove a scratch folder of this user whose process has ended."""
    try:
        with (folder / "lock").open("r+b") as file:
            if os.fstat(file.fileno()).st_uid == os.getuid() and lock(file):
                shutil.rmtree(folder, ignore_errors=True)
    except (OSError, AttributeError):
        # No folder, of another user or program, or a system without users.
        return


def _remove(folder: Path, file: IO[bytes]) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    file.close()


def free_on_disk(folder: str | os.PathLike[str]) -> int:
    """Bytes that temporary files may take; no more than the free memory if they lie there.

    Parameters
    ----------
    folder : path

    Returns
    -------
    int
    """
    free = shutil.disk_usage(folder).free
    return min(free, free_bytes()) if _is_in_memory(os.fspath(folder)) else free


def _is_in_memory(folder: str) -> bool:
    """Whether a folder lies in main memory, as /tmp does on many systems."""
    try:
        lines = _MOUNTS.read_text().splitlines()
    except OSError:
        return False
    path = Path(os.path.realpath(folder))
    mounts = [line.split()[1:3] for line in lines]
    above = [(len(at), kind) for at, kind in mounts if path.is_relative_to(at)]
    return max(above, default=(0, ""))[1] in ("tmpfs", "ramfs")


def _left_by_container() -> Iterator[int]:
    """What each group of processes that this one is in may still use; its file cache is free."""
    try:
        lines = _OWN_GROUPS.read_text().splitlines()
    except OSError:
        lines = []
    # The line of the only hierarchy of cgroup 2, such as 0::/user.slice.
    names = [line[3:].lstrip("/") for line in lines if line.startswith("0::")]
    innermost = Path(names[0] if names else "")
    for group in {innermost, *innermost.parents}:
        folder = _CGROUP / group
        try:
            unused = int((folder / "memory.max").read_text())
            unused -= int((folder / "memory.current").read_text())
            stat = dict(line.split() for line in (folder / "memory.stat").read_text().splitlines())
            yield unused + int(stat.get("inactive_file", 0))
        except (OSError, ValueError):
            continue
