"""The append-only journal of decisions; a decision counts as soon as its line is on disk."""

import contextlib
import hashlib
import json
import os
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

from schirn._files import Record, atomic_write, complete_lines, lock, put, sync_folder
from schirn.exceptions import DataError, InputError

FORMAT = "schirn-journal"
VERSION = 1


class Journal:
    """An append-only file of numbered records; record 0 names the project it belongs to.

    Each record carries a checksum of itself and all records before it. A last line cut short by a
    crash was never confirmed; it is dropped before the next record is written. Damage anywhere else
    is an error.

    Other programs, such as a synchronisation tool, may replace the file while it is open. Each
    `append` therefore compares the open file with the path, and fails if they differ.

    Parameters
    ----------
    path : Path
        The file; it is created if it does not exist.
    fingerprint : str
        Fingerprint of the project.
    write : bool
        If False, the file is only read.

    Attributes
    ----------
    records : list of dict
        The records so far, without record 0.
    sequence : int
        Number of the last record; 0 before the first.
    repaired : str
        Problem with the last line, or with an empty file; empty if there was none.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp(), "journal.jsonl")
    >>> with Journal(path, "abc") as journal:
    ...     journal.append({"action": "keep"})
    1
    >>> Journal(path, "abc", write=False).records
    [{'seq': 1, 'action': 'keep'}]
    """

    def __init__(self, path: Path, fingerprint: str, *, write: bool = True):
        self.path = path
        self._file: int | None = None
        self._release = _lock(path.parent) if write else None
        self._rescued: Path | None = None
        try:
            # Even without decisions, the first line names the project.
            is_emptied = path.exists() and not path.stat().st_size
            if is_emptied and not write:
                raise DataError(
                    f"{path}: is empty, so the decisions that it held are lost; restore it from a "
                    f"backup, or delete it to start over"
                )
            if write:
                flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_BINARY", 0)
                self._file = os.open(path, flags, 0o666)
            self._load(fingerprint)
            if is_emptied:
                self.repaired = "was empty, so any decisions that it held are lost; it starts over"
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

    def append(self, *records: Record) -> int:
        """Add records, wait until they are on disk, and return the number of the last one."""
        numbered = [{"seq": seq, **record} for seq, record in enumerate(records, self.sequence + 1)]
        self._write(*numbered)
        self.records += numbered
        return self.sequence

    def check(self) -> None:
        """Raise DataError if the path no longer leads to the open file."""
        if self._file is None:
            raise InputError(f"{self.path}: the journal is closed")
        self._check_size(self._size)

    def close(self) -> None:
        """Close the file and release its lock."""
        if self._file is not None:
            os.close(self._file)
            self._file = None
        if self._release is not None:
            self._release()
            self._release = None

    def _load(self, fingerprint: str) -> None:
        content = self.path.read_bytes() if self.path.exists() else b""
        self._chain = hashlib.sha256()
        lines, self._size, self.repaired = _read_lines(self.path, content, self._chain)
        self.records: list[Record] = lines[1:]
        self._head = {"seq": 0, "format": FORMAT, "version": VERSION, "project": fingerprint}
        if lines and lines[0] != self._head:
            raise DataError(
                f"{self.path}: these decisions belong to other items or tags than those in the "
                f"folder, or to another version of schirn; move the file away to start over"
            )
        if self._file is None:
            return
        if lines and not content[: self._size].endswith(b"\n"):
            self._put(b"\n")
        elif self._size < len(content):
            os.ftruncate(self._file, self._size)
        if not lines:
            self._write(self._head)
            sync_folder(self.path.parent)

    def _write(self, *records: Record) -> None:
        """Write complete lines, or leave the file unchanged."""
        self.check()
        chain = self._chain.copy()
        self._put(b"".join([_line(record, chain) for record in records]))
        self._chain = chain

    def _put(self, content: bytes) -> None:
        """Append to the file; if the disk is full, the file is left unchanged."""
        put(self._file, self.path, self._size, content, self._check_size)
        self._size += len(content)

    def _check_size(self, size: int) -> None:
        """Raise DataError unless the path leads to the open file and nothing else wrote to it."""
        file: Any = self._file
        with contextlib.suppress(OSError):
            status = os.stat(self.path)
            if os.path.samestat(status, os.fstat(file)) and status.st_size == size:
                return
        raise DataError(self._replaced())

    def _replaced(self) -> str:
        """Copy all records to another file, and return an error message that names it."""
        if self._rescued is None:
            time = f"{datetime.now():%Y%m%d-%H%M%S}"
            target = self.path.with_name(f"{self.path.stem}-rescued-{time}{self.path.suffix}")
            chain = hashlib.sha256()
            with contextlib.suppress(OSError), atomic_write(target) as stream:
                for record in (self._head, *self.records):
                    stream.write(_line(record, chain))
                self._rescued = target
        n = self.sequence
        copy = f"the {n:,} earlier ones are in {self._rescued}"
        if self._rescued is None:
            copy = f"the {n:,} earlier ones could not be copied"
        return (
            f"{self.path}: another program replaced, changed or deleted this file, so no further "
            f"decision can be saved; {copy}. Stop schirn review, put the right file back under "
            f"this name, and start again"
        )


def _line(record: Record, chain: Any) -> bytes:
    """Return a record as a line, with the checksum of all records so far."""
    signed = {**record, "sum": _checksum(record, chain)}
    return json.dumps(signed, ensure_ascii=False).encode("utf-8", "surrogatepass") + b"\n"


def _checksum(record: Record, chain: Any) -> str:
    """Add a record to a hash of all records before it, and return the checksum."""
    # Hash the content, not the bytes: git may change line ends, which is harmless.
    chain.update(json.dumps(record, sort_keys=True).encode() + b"\n")
    return str(chain.hexdigest()[:16])


def _read_lines(path: Path, content: bytes, chain: Any) -> tuple[list[Record], int, str]:
    """Return the records, their size in bytes, and the problem with the last line."""
    lines = complete_lines(content)
    for number, record in enumerate(lines.records):
        checksum = None if record is None else record.pop("sum", None)
        if record is None or record.get("seq") != number or _checksum(record, chain) != checksum:
            raise DataError(
                f"{path}, line {number + 1}: damaged or edited (expected record "
                f"{number} with a correct checksum); restore the file from a backup, or "
                f"move it away to start over"
            )
    return [record for record in lines.records if record is not None], lines.size, lines.repaired


def _lock(folder: Path) -> Callable[[], None]:
    """Let only one program write to a folder; return the function that releases the lock.

    The folder is locked rather than a file in it, which another program could replace. Where locks
    are not available, the second program fails when it writes.
    """
    try:
        handle = os.open(folder, os.O_RDONLY)
    except PermissionError:
        # Windows cannot open folders.
        return lambda: None
    if lock(handle) is False:
        os.close(handle)
        raise InputError(
            f"{folder}: already open in another schirn review; use that page, or stop it first"
        )
    return lambda: os.close(handle)
