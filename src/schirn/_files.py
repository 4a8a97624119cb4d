"""Files: size limits, atomic writes, lines of CSV, and arrays read without unpickling."""

from __future__ import annotations

import csv
import errno
import glob
import hashlib
import io
import json
import math
import os
import secrets
import shutil
import stat
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any, BinaryIO

import numpy as np

from schirn.exceptions import DataError, InputError, MissingExtraError

MAX_BYTES = 8 * 1024**3
VARIABLE = "SCHIRN_MAX_BYTES"

_UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}
# A spreadsheet runs a cell that starts with one of these as a formula.
FORMULA = ("=", "+", "-", "@", "\t", "\r")
_END_BYTES = 2**16
_MAX_FOLDER_BYTES = 4 * 1024**3
READER_SECONDS = 5.0
"""Seconds to wait for the reader of a named pipe."""
NO_FILE = "this is a pipe or a device; write its content to a file, and pass that"
"""End of a sentence about what is not read directly."""


def byte_limit(max_bytes: int | None = None) -> int:
    """Return the given limit, else that of the environment, else 8 GiB."""
    if max_bytes is not None:
        return max_bytes
    text = os.environ.get(VARIABLE, "").strip()
    size = parse_bytes(text) if text else MAX_BYTES
    if size < 0:
        raise InputError(f"the variable {VARIABLE} must be a size such as 16G, not {text!r}")
    return size


def parse_bytes(text: str) -> int:
    """Parse a number of bytes such as 500M or 8G; anything else is negative."""
    number, unit = (text[:-1], text[-1].upper()) if text[-1:].isalpha() else (text, "")
    is_number = number.isascii() and number.isdigit() and len(number) < 19
    return int(number) * _UNITS[unit] if is_number and unit in _UNITS else -1


def too_large(what: str, limit: int) -> str:
    """Return the end of a sentence about a file that exceeds the limit."""
    return (
        f"{what}, more than max_bytes={limit:,}; raise max_bytes or {VARIABLE} "
        f"if you trust the file."
    )


def check_limit(path: Path, verb: str, size: int, limit: int) -> None:
    """Raise DataError for a file that "has" or "unpacks to" more bytes than the limit."""
    if size > limit:
        sentence = too_large(f"{verb} {size:,} bytes", limit)
        raise DataError(f"{path}: {sentence}", parameter="max_bytes")


def check_no_pipe(path: str | os.PathLike[str]) -> None:
    """Raise DataError for a named pipe, from which a program may read for ever."""
    # Pipes of the shell, such as that of <(command), are open already; their real path is no file.
    if Path(os.path.realpath(path)).is_fifo():
        raise DataError(f"{path}: {NO_FILE}")


def brief(value: object, limit: int = 60) -> str:
    """Return a value in quotes, shortened; a damaged file can hold anything."""
    try:
        return shortened(repr(value), limit)
    except RecursionError:
        return f"a deeply nested {type(value).__name__}"


def shortened(text: str, limit: int) -> str:
    """Return a text, or its beginning and an ellipsis if it is longer than the limit."""
    return text if len(text) <= limit else f"{text[:limit]}…"


def brief_list(names: Iterable[object], limit: int = 12) -> str:
    """Return the first names, and the number of further ones."""
    texts = [str(name) for name in names]
    head = ", ".join(
        text if text.isprintable() and len(text) <= 40 else brief(text, 40)
        for text in texts[:limit]
    )
    return f"{head} and {len(texts) - limit:,} more" if len(texts) > limit else head


def reason_of(error: BaseException, limit: int = 200) -> str:
    """Return the first line of an error message, shortened, to quote in parentheses."""
    text = str(error).strip() or type(error).__name__
    line = "".join(c if c.isprintable() else "?" for c in text.splitlines()[0])
    return shortened(line, limit)


# A full disk or quota, a limit on file sizes, a failing or read-only disk.
_DISK = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EROFS)


@contextmanager
def atomic_write(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Open a binary file that appears under its name only if the block succeeds.

    The stream can be read back, also under its `name`, which has the suffix of the file. Links are
    followed. A pipe or device is written to directly, since it cannot be replaced.
    """
    target = followed(path)
    with disk_errors_named(path):
        if target.exists() and not stat.S_ISREG(target.stat().st_mode):
            # Built in a file, since a device is not seekable and must not get half a file.
            suffix = "".join(Path(path).suffixes)
            with tempfile.NamedTemporaryFile(suffix=suffix) as content:
                yield content  # type: ignore[misc]
                content.seek(0)
                with _open_device(target) as device:
                    shutil.copyfileobj(content, device)
            return
        with _replacing(target) as stream:
            yield stream


def _open_device(path: Path) -> BinaryIO:
    """Open a pipe or device to write to; raise OSError for a pipe that nobody reads."""
    if not stat.S_ISFIFO(path.stat().st_mode):
        return path.open("wb")
    # Without O_NONBLOCK, the system would wait for a reader for ever.
    end = time.monotonic() + READER_SECONDS
    while True:
        try:
            handle = os.open(path, os.O_WRONLY | os.O_NONBLOCK)
        except OSError as error:
            if error.errno != errno.ENXIO:
                raise
            if time.monotonic() > end:
                reason = "no program reads from this pipe; start the reader first"
                raise OSError(errno.ENXIO, reason, os.fspath(path)) from None
            time.sleep(0.05)
        else:
            os.set_blocking(handle, True)
            return os.fdopen(handle, "wb")


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Write a text as UTF-8, whole or not at all; half of a surrogate pair becomes "?"."""
    with atomic_write(path) as stream:
        stream.write(text.encode("utf-8", "replace"))


@contextmanager
def disk_errors_named(path: str | os.PathLike[str]) -> Iterator[None]:
    """Name the file in the error of a failed write.

    The error of a full disk names no file, and others name a temporary one in the same folder.
    """
    try:
        yield
    except OSError as error:
        is_nameless = error.filename is None and error.errno in _DISK
        if is_nameless or str(error.filename).startswith(str(followed(path).parent)):
            raise type(error)(error.errno, error.strerror, os.fspath(path)) from error
        raise


def check_writable(path: str | os.PathLike[str]) -> None:
    """Raise OSError for a path that cannot be written, before hours of work.

    Temporary files that killed programs left behind for this path are deleted.
    """
    target = followed(path)
    if target.is_dir():
        raise IsADirectoryError(errno.EISDIR, "is a folder, not a file", os.fspath(path))
    if not target.parent.is_dir():
        raise FileNotFoundError(
            errno.ENOENT, f"the folder {str(target.parent)!r} does not exist", os.fspath(path)
        )
    special = target.exists() and not target.is_file()
    if not os.access(target if special else target.parent, os.W_OK):
        raise PermissionError(errno.EACCES, "no permission to write", os.fspath(path))
    for part in target.parent.glob(f".{'?' * 8}.part.{glob.escape(target.name[-100:])}"):
        # A running program holds a lock on its temporary file.
        with suppress(OSError), part.open("rb") as file:
            if lock(file):
                part.unlink()


def lock(file: Any, *, wait: bool = False) -> bool | None:
    """Lock an open file until it is closed; the system also releases the lock of a dead program.

    Returns
    -------
    bool or None
        False if another program holds it; None on Windows and on network file systems without
        such locks.
    """
    try:
        import fcntl

        fcntl.flock(file, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except (ImportError, OSError):
        return None
    return True


def check_new_folder(path: str | os.PathLike[str]) -> None:
    """Raise unless a folder can be created there, before hours of work."""
    folder = Path(path)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InputError(f"{path}: exists already; give a new or empty folder")
    if not folder.resolve().parent.is_dir():
        raise InputError(f"{path}: the folder {str(folder.resolve().parent)!r} does not exist")
    if not os.access(folder.resolve().parent, os.W_OK | os.X_OK):
        raise PermissionError(errno.EACCES, "no permission to write", os.fspath(path))


def followed(path: str | os.PathLike[str]) -> Path:
    """Return the target of a path after following links; raise OSError for a circular link."""
    target = Path(os.path.realpath(path))
    if target.is_symlink():
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), os.fspath(path))
    return target


@contextmanager
def _replacing(target: Path) -> Iterator[BinaryIO]:
    """Write a temporary file next to the target, then replace the target."""
    part = target.with_name(f".{secrets.token_hex(4)}.part.{target.name[-100:]}")
    try:
        # "x" leaves the permissions to the umask, unlike a private temporary file.
        with part.open("x+b") as stream:
            lock(stream)
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
    sync_folder(target.parent)


@contextmanager
def whole_folder(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Make a folder of files that appears under its name only if the block succeeds."""
    target = followed(path)
    part = target.with_name(f".{target.name}.{secrets.token_hex(4)}")
    part.mkdir()
    try:
        with disk_errors_named(path):
            yield part
            for item in part.iterdir():
                with item.open("r+b") as stream:
                    os.fsync(stream.fileno())
            sync_folder(part)
        if target.is_dir():
            target.rmdir()
        os.replace(part, target)
    except BaseException:
        shutil.rmtree(part, ignore_errors=True)
        raise
    sync_folder(target.parent)


def sync_folder(folder: Path) -> None:
    """Make a new name survive a power failure, on systems that can sync folders."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


MOST_ENTRIES = 1000

# zipfile, its decompressors, NumPy and openpyxl raise errors of many kinds for a damaged file.
DAMAGE = (Exception,)


def read_archive(path: Path, max_bytes: int | None = None) -> dict[str, np.ndarray]:
    """Read every array of an npz archive after checking all sizes.

    Of a label matrix that is also stored as CSR, only the shape is read.
    """
    limit = byte_limit(max_bytes)
    arrays = {}
    with unreadable_named(path, "npz archive, or truncated"), zipfile.ZipFile(path) as archive:
        entries = archive.infolist()
        if len(entries) > MOST_ENTRIES:
            raise DataError(
                f"{path}: {len(entries):,} entries; an archive of arrays has at most "
                f"{MOST_ENTRIES:,}."
            )
        check_limit(path, "unpacks to", sum(entry.file_size for entry in entries), limit)
        names = archive.namelist()
        for entry in entries:
            key = entry.filename.removesuffix(".npy")
            name = brief(entry.filename)
            if key == entry.filename:
                continue
            with archive.open(entry) as stream:
                shape = _check_header(f"{path}: the entry {name}", stream, entry.file_size)
            if f"{key}_indptr.npy" in names:
                arrays[f"{key}_shape"] = np.asarray(shape)
                continue
            with archive.open(entry) as stream:
                arrays[key] = read_array(stream)
    return arrays


@contextmanager
def unreadable_named(path: Path, what: str) -> Iterator[None]:
    """Raise DataError that names the file if it is missing, damaged or of another kind."""
    try:
        yield
    except FileNotFoundError:
        raise DataError(f"{path}: there is no such file.") from None
    except (DataError, MissingExtraError):
        raise
    except DAMAGE as error:
        raise DataError(f"{path}: not a readable {what} ({reason_of(error)}).") from error


def read_array(stream: Any) -> np.ndarray:
    """Read the array of an .npy file; raise one of `DAMAGE` if its text is invalid."""
    array = np.asarray(np.lib.format.read_array(stream, allow_pickle=False))
    if array.dtype.kind == "U" and array.size and array.dtype.itemsize:
        # Python would raise SystemError for the first use of such a text.
        letters = np.ascontiguousarray(array).view(array.dtype.str[0] + "u4")
        if letters.max() > sys.maxunicode:
            raise ValueError("a text holds a character that does not exist")
    return array


def read_npy(path: Path) -> np.ndarray:
    """Read one array from an .npy file after checking its size; a wrong header takes no memory."""
    with unreadable_named(path, ".npy file"):
        check_limit(path, "has", path.stat().st_size, byte_limit())
        return np.array(np.load(path, mmap_mode="r", allow_pickle=False))


@dataclass(frozen=True)
class NpyHeader:
    """The header of an .npy file: what the array is, and the byte where its data start."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    is_fortran: bool
    start: int

    @property
    def n_bytes(self) -> int:
        """Number of bytes of header and data."""
        return self.start + math.prod([self.dtype.itemsize, *self.shape])


def npy_header(stream: IO[bytes]) -> NpyHeader:
    """Read the header of an .npy file; raise one of `DAMAGE` if it is invalid."""
    form = np.lib.format
    readers = {(1, 0): form.read_array_header_1_0, (2, 0): form.read_array_header_2_0}
    shape, is_fortran, dtype = readers[form.read_magic(stream)](stream)
    if min(shape, default=0) < 0:
        raise ValueError(f"the array has the shape {brief(shape)}")
    return NpyHeader(tuple(map(int, shape)), dtype, is_fortran, stream.tell())


def _check_header(where: str, stream: IO[bytes], size: int) -> tuple[int, ...]:
    """Return the shape of an array whose header agrees with the size of its file or entry."""
    try:
        header = npy_header(stream)
    except DAMAGE as error:
        raise DataError(f"{where} is not an array.") from error
    if header.dtype.hasobject:
        raise DataError(
            f"{where} holds Python objects, which are never loaded; save it as numbers or as "
            f"fixed-width text."
        )
    if header.n_bytes != size:
        raise DataError(f"{where} is damaged (wrong size).")
    return header.shape


def check_sparse(matrix: Any) -> None:
    """Raise ValueError unless a CSR or CSC matrix points only into itself.

    SciPy writes to wherever the indices point. Its own check skips the pointers of a matrix whose
    last pointer is 0.
    """
    if len(matrix.indptr) > 1 and np.diff(matrix.indptr).min() < 0:
        raise ValueError("the index pointers are not in order")
    matrix.check_format(full_check=True)


def csv_rows(rows: Iterable[Iterable[Any]], *, delimiter: str = ",") -> Iterator[str]:
    r"""Yield each row as a line of CSV that every reader splits into the same cells.

    >>> list(csv_rows([["a", "b,c"], ["d\re", 1]]))
    ['a,"b,c"\n', '"d\re",1\n']
    """
    buffer = io.StringIO(newline="")
    # Before Python 3.13, csv quotes a line break only if it is part of the line terminator.
    writer = csv.writer(buffer, delimiter=delimiter, lineterminator="\r\n")
    for row in rows:
        writer.writerow(row)
        yield buffer.getvalue().removesuffix("\r\n") + "\n"
        buffer.seek(0)
        buffer.truncate()


def spreadsheet_safe(text: str) -> str:
    """Return a CSV cell that no spreadsheet runs; `spreadsheet_text` gives the text back.

    >>> spreadsheet_safe("=1+1"), spreadsheet_text("'=1+1"), spreadsheet_text("'tis")
    ("'=1+1", '=1+1', "'tis")
    """
    is_formula = text.startswith(FORMULA) or spreadsheet_text(text) != text
    return f"'{text}" if is_formula else text


def spreadsheet_text(cell: str) -> str:
    """Return the text of a CSV cell without the apostrophe of `spreadsheet_safe`."""
    return cell[1:] if cell[:1] == "'" and cell[1:2] in (*FORMULA, "'") else cell


Record = dict[str, Any]


@dataclass(frozen=True)
class Lines:
    """The complete lines of a file.

    Attributes
    ----------
    records : list of dict or None
        None is a line that holds no JSON object.
    size : int
        Bytes of the complete lines.
    repaired : str
        What was wrong with the last line; empty if nothing was.
    """

    records: list[Record | None]
    size: int
    repaired: str


def complete_lines(content: bytes) -> Lines:
    """Parse a file; a last line that is not JSON was cut short by a crash, and is left out."""
    records: list[Record | None] = []
    size = 0
    for line in io.BytesIO(content):
        record = _parse(line)
        if record is None and size + len(line) == len(content):
            return Lines(records, size, f"the incomplete last line {brief(line)} is left out")
        records.append(record)
        size += len(line)
    ended = not content or content.endswith(b"\n")
    return Lines(records, size, "" if ended else "the last line lacks its line end; it is complete")


def _parse(line: bytes) -> Record | None:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return record if isinstance(record, dict) else None


def append_lines(path: Path, records: Iterable[Record]) -> None:
    """Append records to a file, all or none; other programs may append at the same time."""
    content = "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records)
    if not content:
        return
    with _locked(path) as file:
        size = os.fstat(file).st_size
        last = os.pread(file, 1, size - 1) if size else b"\n"
        if last != b"\n":
            lines = complete_lines(path.read_bytes())
            os.ftruncate(file, lines.size)
            content = "\n" * (lines.size == size) + content
            size = lines.size
        put(file, path, size, content.encode("utf-8", "surrogatepass"))
        if not size:
            sync_folder(path.parent)


@contextmanager
def _locked(path: Path) -> Iterator[int]:
    """Open a file to append to it, and let no other program do so until the end."""
    while True:
        file = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_BINARY", 0), 0o666)
        try:
            lock(file, wait=True)
            # Another program may have replaced the file while this one waited.
            if os.path.samestat(os.stat(path), os.fstat(file)):
                yield file
                return
        finally:
            os.close(file)


def put(
    file: Any, path: Path, size: int, content: bytes, check: Callable[[int], None] | None = None
) -> None:
    """Write after the first `size` bytes of an open file; an error leaves these bytes alone.

    Parameters
    ----------
    file : int
        The open file.
    path : Path
        Its path, for errors.
    size : int
        Bytes of the file so far.
    content : bytes
        What to write.
    check : callable, optional
        Called with the new size once the content is on the disk; its error undoes the writing.
    """
    try:
        with disk_errors_named(path):
            os.lseek(file, size, os.SEEK_SET)
            n_written = 0
            while n_written < len(content):
                n_written += os.write(file, content[n_written:])
            os.fsync(file)
        if check is not None:
            check(size + len(content))
    except BaseException:
        with suppress(OSError):
            os.ftruncate(file, size)
        raise


def stamp_of(path: Path, *, is_whole: bool = False) -> tuple[int, int, str]:
    """Return size, time and a hash of a file, which tell whether it has changed.

    The hash is that of the first and the last block, or of the whole file.
    """
    with path.open("rb") as stream:
        about = os.fstat(stream.fileno())
        if is_whole:
            digest = hashlib.file_digest(stream, "sha256")
        else:
            digest = hashlib.sha256(stream.read(_END_BYTES))
            stream.seek(max(0, about.st_size - _END_BYTES))
            digest.update(stream.read(_END_BYTES))
    return about.st_size, about.st_mtime_ns, digest.hexdigest()


def file_hash(path: str | os.PathLike[str]) -> str:
    """Return the SHA-256 checksum of a file."""
    with open(path, "rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def content_hash(path: str | os.PathLike[str]) -> str | None:
    """Return a checksum of a file, or of a folder with its files; None if it is huge or missing."""
    folder = Path(path)
    digest = hashlib.sha256()
    if not folder.is_dir():
        return file_hash(path) if folder.is_file() else None
    files = sorted(file for file in folder.rglob("*") if file.is_file())
    if sum(file.stat().st_size for file in files) > _MAX_FOLDER_BYTES:
        return None
    for file in files:
        digest.update(f"{file.relative_to(folder)}\n{file_hash(file)}\n".encode())
    return digest.hexdigest()


def utc_now() -> str:
    """Return the time in UTC as text."""
    return utc_text(datetime.now(UTC))


def utc_text(when: datetime) -> str:
    """Return a time such as "2026-11-17T02:11:53.120Z"; later times sort behind earlier ones."""
    return f"{when.replace(tzinfo=None).isoformat(timespec='milliseconds')}Z"
