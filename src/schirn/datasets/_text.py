"""Opening of text files, shared by the readers of text formats."""

from __future__ import annotations

from pathlib import Path

from schirn.exceptions import DataError

MAX_BYTES = 8 * 1024**3


def read_text(path: Path, max_bytes: int = MAX_BYTES) -> str:
    """Return the text of a file (UTF-8, else Latin-1) after checking its size."""
    check_size(path, max_bytes)
    raw = path.read_bytes()
    if b"\0" in raw:
        raise DataError(f"{path}: this is a binary file, not text.")
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        return raw.decode("latin-1")


def check_size(path: Path, max_bytes: int = MAX_BYTES) -> None:
    """Raise when the file is missing, empty or larger than the limit."""
    try:
        size = path.stat().st_size
    except OSError:
        raise DataError(f"{path}: there is no such file.") from None
    if size == 0:
        raise DataError(f"{path}: the file is empty.")
    if size > max_bytes:
        raise DataError(f"{path}: {size:,} bytes are more than max_bytes={max_bytes:,}.")
