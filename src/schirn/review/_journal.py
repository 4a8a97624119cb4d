"""The append-only journal of decisions; a decision counts once its line is on the disk."""

import contextlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from schirn._files import sync_folder
from schirn.exceptions import DataError, InputError

FORMAT, VERSION = "schirn-journal", 1

Record = dict[str, Any]


class Journal:
    """An append-only file of numbered records; record 0 names the project it belongs to.

    A last line that a crash cut short was never confirmed to anyone: it is ignored, and removed
    before the next record is written. Damage anywhere else is an error.

    Parameters
    ----------
    path : Path
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
    repaired : bool
        Whether an incomplete last line was ignored.

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
        """Add a record, wait until it is on the disk, and return its number."""
        numbered = {"seq": self.sequence + 1, **record}
        self._write(numbered)
        self.records.append(numbered)
        return self.sequence

    def close(self) -> None:
        """Close the file and release its lock."""
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
            sync_folder(self.path.parent)

    def _write(self, record: Record) -> None:
        """Write one complete line; a full disk leaves the file as it was."""
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
    """Return the records and their size in bytes; what follows is an incomplete last line."""
    records: list[Record] = []
    size = 0
    for line, last in _lines(content):
        record = _parse(line)
        if record is None or record.get("seq") != len(records):
            if last:
                break
            raise DataError(
                f"{path}, line {len(records) + 1}: damaged (expected record {len(records)}); "
                f"restore the file from a backup, or move it away to start over"
            )
        records.append(record)
        size += len(line)
    return records, size


def _lines(content: bytes) -> Iterator[tuple[bytes, bool]]:
    """Yield every line with its line end, and whether it is the last."""
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
            f"version {head.get('version')!r}); move it away to start over"
        )
    if head.get("project") != fingerprint:
        raise DataError(
            f"{path}: these decisions belong to other items or tags than those in the folder; "
            f"move the file away to start over"
        )


def _lock(file: int, path: Path) -> None:
    """Lock the file for one program at a time; the system releases the lock of a dead one."""
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
        # Some network file systems have no locks; the page works there nevertheless.
        return
