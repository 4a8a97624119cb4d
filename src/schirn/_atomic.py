"""Files written whole or not at all."""

import errno
import io
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

# A full disk or quota, a limit on the size of files, a disk that fails or became read-only.
_DISK = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EROFS)


@contextmanager
def atomic_write(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Open a binary file that appears under its name only when the block ends well.

    A link is followed. A pipe or device is written to directly, since it cannot be replaced.
    """
    target = followed(path)
    try:
        if target.exists() and not stat.S_ISREG(target.stat().st_mode):
            with target.open("wb") as device:
                # Built in memory: a device cannot be sought, and half a file is no file.
                whole = io.BytesIO()
                yield whole
                device.write(whole.getbuffer())
            return
        with disk_errors_named(path), _replacing(target) as stream:
            yield stream
    except OSError as error:
        # The user knows the file under its own name, not under that of the temporary one.
        if error.filename is not None and str(error.filename).startswith(str(target.parent)):
            raise type(error)(error.errno, error.strerror, os.fspath(path)) from error
        raise


@contextmanager
def disk_errors_named(path: str | os.PathLike[str]) -> Iterator[None]:
    """Name the file in the error of a write that finds the disk full, which names none."""
    try:
        yield
    except OSError as error:
        if error.filename is not None or error.errno not in _DISK:
            raise
        raise type(error)(error.errno, error.strerror, os.fspath(path)) from error


def check_writable(path: str | os.PathLike[str]) -> None:
    """Raise OSError now for a place that cannot be written to, before hours of work."""
    target = followed(path)
    if target.is_dir():
        raise IsADirectoryError(errno.EISDIR, "is a folder, not a file", os.fspath(path))
    if not target.parent.is_dir():
        raise FileNotFoundError(
            errno.ENOENT, f"the folder {str(target.parent)!r} does not exist", os.fspath(path)
        )
    special = target.exists() and not target.is_file()
    if not os.access(target if special else target.parent, os.W_OK):
        raise PermissionError(errno.EACCES, "no permission to write there", os.fspath(path))


def followed(path: str | os.PathLike[str]) -> Path:
    """The file that a path names in the end; links that go in a circle name none."""
    target = Path(os.path.realpath(path))
    if target.is_symlink():
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), os.fspath(path))
    return target


@contextmanager
def _replacing(target: Path) -> Iterator[BinaryIO]:
    """Write beside the target, then take its place."""
    part = target.with_name(f".{target.name[:100]}.{secrets.token_hex(4)}.part")
    # "x" leaves the permissions to the user's umask, which a private temporary file would not.
    stream = part.open("xb")
    try:
        with stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        if target.exists():
            part.chmod(stat.S_IMODE(target.stat().st_mode))
        os.replace(part, target)
    except BaseException:
        with suppress(OSError):
            part.unlink()
        raise
    _sync_folder(target.parent)


def _sync_folder(folder: Path) -> None:
    """Make the new name last through a power cut, where folders can be synced."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
