"""Free memory, and temporary files for data that do not fit into it."""

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

# Assumed free memory if the system does not report it.
_UNKNOWN = 8 * 10**9
_LIMIT: ContextVar[float | None] = ContextVar("memory_limit", default=None)
_CGROUP = Path("/sys/fs/cgroup")
_OWN_GROUPS = Path("/proc/self/cgroup")
_MOUNTS = Path("/proc/mounts")
# Maximum share of the free memory for features and the largest array of a fit.
_SHARE = 0.5


@contextmanager
def memory_limit(gigabytes: float | None) -> Iterator[None]:
    """Choose storages as if only this much memory were free.

    Parameters
    ----------
    gigabytes : float or None
        The limit; None means no limit.
    """
    token = _LIMIT.set(None if gigabytes is None else gigabytes * 1e9)
    try:
        yield
    finally:
        _LIMIT.reset(token)


def free_bytes() -> int:
    """Return the memory that this process can still use, within system and container limits.

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
    """Check whether an array fits into memory, that is, takes at most half of the free memory.

    Parameters
    ----------
    size : int
        Size of the array in bytes.
    free : int, optional
        Free memory in bytes, if known.

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
        Size of the file.
    what : str
        Description of its content for the error message, in the plural.
    """
    folder = scratch_folder()
    if size > free_on_disk(folder):
        raise InputError(
            f"{what} need {size / 1e9:.2g} GB in temporary files, since only "
            f"{free_bytes() / 1e9:.2g} GB of memory are free, but {folder} has "
            f"{free_on_disk(folder) / 1e9:.2g} GB; set TMPDIR to a folder with more room"
        )


def scratch_folder() -> str:
    """Return the system's folder for temporary files, or /var/tmp if that folder is in memory.

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

    A killed process leaves its folder behind. The next process that creates a folder in the same
    place removes it, because the system releases the lock of a process that ends.
    """

    def __init__(self, inside: str | os.PathLike[str]):
        for folder in Path(inside).glob("schirn-*"):
            _remove_abandoned(folder)
        # Other processes must not see the folder before it is locked.
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
        # Not a folder, owned by another user or program, or a system without users.
        return


def _remove(folder: Path, file: IO[bytes]) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    file.close()


def free_on_disk(folder: str | os.PathLike[str]) -> int:
    """Return the space for temporary files in bytes; limited by free memory if in memory.

    Parameters
    ----------
    folder : path
        Folder of the files.

    Returns
    -------
    int
    """
    free = shutil.disk_usage(folder).free
    return min(free, free_bytes()) if _is_in_memory(os.fspath(folder)) else free


def _is_in_memory(folder: str) -> bool:
    """Check whether a folder is in main memory, like /tmp on many systems."""
    try:
        lines = _MOUNTS.read_text().splitlines()
    except OSError:
        return False
    path = Path(os.path.realpath(folder))
    mounts = [line.split()[1:3] for line in lines]
    above = [(len(at), kind) for at, kind in mounts if path.is_relative_to(at)]
    return max(above, default=(0, ""))[1] in ("tmpfs", "ramfs")


def _left_by_container() -> Iterator[int]:
    """Yield the memory left to each control group of this process; file cache counts as free."""
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
