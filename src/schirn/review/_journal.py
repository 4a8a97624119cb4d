"""The journal of decisions: lines are only ever added, and each is on the disk when it counts."""

import contextlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from schirn._files import _sync_folder
from schirn.exceptions import DataError, InputError

FORMAT, VERSION = "schirn-journal", 1

Record = dict[str, Any]


class Journal:
    """An append-only file of numbered records; line 0 says to which project it belongs.

    A last line that was cut short by a crash was never confirmed to anyone; it is ignored, and
    removed before the next record is written. Damage elsewhere is an error.

    Parameters
    ----------
    path : path
    fingerprint : of the project
    write : False reads only, and changes nothing

    Attributes
    ----------
    records : the records so far, without line 0
    sequence : number of the last record; 0 before the first

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from schirn.review import Journal
    >>> path = pathlib.Path(tempfile.mkdtemp(), "journal.jsonl")
    >>> with Journal(path, "abc") as journal:
    ...     journal.append({"action": "keep"})
    1
    >>> Journal(path, "abc", write=False).records
    [{'seq': 1, 'action': 'keep'}]
    """

    def __init__(self, path: Path, fingerprint: str, *, write: bool = True):
        self.path = path
        self.repaired = False
        self._file: int | None = None
        if write:
            self._file = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_BINARY", 0), 0o666)
        try:
            if self._file is not None:
                _lock(self._file, path)
            self._load(fingerprint)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> "Journal":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    @property
    def sequence(self) -> int:
        """Number of the last record."""
        return len(self.records)

    def append(self, record: Record) -> int:
        """Add a record and return its number; when this returns, it is on the disk."""
        numbered = {"seq": self.sequence + 1, **record}
        self._write(numbered)
        self.records.append(numbered)
        return self.sequence

    def close(self) -> None:
        """Close the file, which also frees it for others."""
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _load(self, fingerprint: str) -> None:
        content = self.path.read_bytes() if self.path.exists() else b""
        lines, self._size = _whole_lines(self.path, content)
        self.records: list[Record] = lines[1:]
        self.repaired = self._size < len(content)
        if lines:
            _check_head(self.path, lines[0], fingerprint)
        if self._file is None:
            return
        os.ftruncate(self._file, self._size)
        if not lines:
            head = {"format": FORMAT, "version": VERSION, "project": fingerprint}
            self._write({"seq": 0, **head})
            _sync_folder(self.path.parent)

    def _write(self, record: Record) -> None:
        """Write one line whole; a disk that is full leaves the file as it was."""
        if self._file is None:
            raise InputError(f"{self.path}: the journal is closed")
        line = json.dumps(record, ensure_ascii=False).encode("utf-8", "surrogatepass") + b"\n"
        try:
            os.lseek(self._file, self._size, os.SEEK_SET)
            done = 0
            while done < len(line):
                done += os.write(self._file, line[done:])
            os.fsync(self._file)
        except OSError:
            with contextlib.suppress(OSError):
                os.ftruncate(self._file, self._size)
            raise
        self._size += len(line)


def _whole_lines(path: Path, content: bytes) -> tuple[list[Record], int]:
    """The records, and the number of bytes they take; the rest is a torn last line."""
    records: list[Record] = []
    size = 0
    for line, last in _lines(content):
        record = _parse(line)
        if record is None or record.get("seq") != len(records):
            if last:
                break
            raise DataError(
                f"{path}, line {len(records) + 1}: damaged (expected record {len(records)}); "
                f"restore the file from a copy, or move it away to start anew"
            )
        records.append(record)
        size += len(line)
    return records, size


def _lines(content: bytes) -> Iterator[tuple[bytes, bool]]:
    """Every line with its end, and whether it is the last."""
    *whole, rest = content.split(b"\n")
    for k, line in enumerate(whole):
        yield line + b"\n", not rest and k == len(whole) - 1
    if rest:
        yield rest, True


def _parse(line: bytes) -> Record | None:
    if not line.endswith(b"\n"):
        return None
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return record if isinstance(record, dict) else None


def _check_head(path: Path, head: Record, fingerprint: str) -> None:
    if head.get("format") != FORMAT or head.get("version") != VERSION:
        raise DataError(
            f"{path}: not a journal that this program can read (format {head.get('format')!r}, "
            f"version {head.get('version')!r}); move it away to start anew"
        )
    if head.get("project") != fingerprint:
        raise DataError(
            f"{path}: these decisions were made on other items or tags than those in the folder; "
            f"move the file away to start anew"
        )


def _lock(file: int, path: Path) -> None:
    """One program at a time; the system frees the lock of a program that dies."""
    try:
        import fcntl
    except ImportError:
        return
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise InputError(
            f"{path.parent}: already open in another schirn review; use that page, or stop it first"
        ) from None
    except OSError:
        # Some network file systems have no locks; the page works there all the same.
        return
