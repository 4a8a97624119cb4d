"""What the readers share: suffixes, sizes, text packed with gzip or not, and cells as numbers."""

from __future__ import annotations

import gzip
import math
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from schirn._files import MAX_BYTES as MAX_BYTES
from schirn._files import brief, byte_limit, reason_of, too_large
from schirn._input import Array, is_missing
from schirn.exceptions import DataError, MissingExtraError

# Deflate cannot shrink data by more than this factor, so a small file need not be counted.
DEFLATE_RATIO = 1032
CHUNK = 1 << 20

# A text without a number in a column of numbers; as a tag each of these is a word.
_EMPTY = {
    *("", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN"),
    *("<NA>", "N/A", "NA", "NULL", "NaN", "None", "n/a", "nan", "null"),
}
_TRUTH_WORDS = {"true": 1.0, "false": 0.0}


def format_suffix(path: Path) -> str:
    """Return the suffix of the format: ".csv" for photos.csv and photos.csv.gz."""
    suffix = path.suffix.lower()
    return Path(path.stem).suffix.lower() if suffix == ".gz" else suffix


def base_name(path: Path) -> str:
    """Return the name of a file without its suffixes: "photos" for photos.csv.gz."""
    return Path(path.stem).stem if is_packed(path) else path.stem


def is_packed(path: Path) -> bool:
    """Whether a file is packed with gzip, by its name."""
    return path.suffix.lower() == ".gz"


def read_text(path: Path, max_bytes: int | None = None) -> str:
    """Return the text of a file (UTF-8, else Latin-1) after checking its size."""
    raw = read_bytes(path, max_bytes)
    if b"\0" in raw:
        raise DataError(f"{path}: this is a binary file, not text.")
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        return raw.decode("latin-1")


def read_bytes(path: Path, max_bytes: int | None = None) -> bytes:
    """Return the content of a file, unpacked, after checking its size."""
    check_size(path, max_bytes)
    if not is_packed(path):
        return path.read_bytes()
    with _damage_named(path), gzip.open(path) as stream:
        raw = stream.read()
    if not raw:
        raise DataError(f"{path}: the file is empty.")
    return raw


def check_size(path: Path, max_bytes: int | None = None) -> None:
    """Raise DataError for a file that is missing, empty, or larger than the limit once unpacked."""
    limit = byte_limit(max_bytes)
    try:
        size = path.stat().st_size
    except (OSError, ValueError):
        raise DataError(f"{path}: there is no such file.") from None
    if size == 0:
        raise DataError(f"{path}: the file is empty.")
    if size > limit:
        what = too_large(f"has {size:,} bytes", limit)
        raise DataError(f"{path}: {what}", parameter="max_bytes")
    if not is_packed(path) or size * DEFLATE_RATIO <= limit:
        return
    unpacked = 0
    with _damage_named(path), gzip.open(path) as stream:
        while chunk := stream.read(CHUNK):
            unpacked += len(chunk)
            if unpacked > limit:
                what = too_large(f"unpacks to over {limit:,} bytes", limit)
                raise DataError(f"{path}: {what}", parameter="max_bytes")


@contextmanager
def _damage_named(path: Path) -> Iterator[None]:
    try:
        yield
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{path}: not a readable gzip file, or truncated ({error}).") from error


@contextmanager
def unreadable_named(path: Path, what: str) -> Iterator[None]:
    """Turn any error while reading a damaged or foreign file into a DataError that names it."""
    try:
        yield
    except (DataError, MissingExtraError):
        raise
    except Exception as error:
        raise DataError(f"{path}: not a readable {what} ({reason_of(error)}).") from error


def check_columns(path: Path, columns: Sequence[str]) -> None:
    """Raise DataError if two columns have the same name."""
    name, times = Counter(columns).most_common(1)[0] if columns else ("", 0)
    if times > 1:
        raise DataError(f"{path}: {times:,} columns are called {brief(name)}; rename them")


def to_numbers(cells: Sequence[Any]) -> Array | None:
    """Return cells as floats, NaN for a missing one; None if a cell is not a number.

    >>> to_numbers(["1.5", "NA", "true"]), to_numbers(["1.5", "dog"])
    (array([1.5, nan, 1. ]), None)
    """
    try:
        # float reads "1_000", which is an identifier rather than a number.
        if "_" not in "".join(cells):
            return np.fromiter(map(float, cells), np.float64, len(cells))
    except (TypeError, ValueError):
        pass
    values = np.empty(len(cells))
    for i, cell in enumerate(cells):
        value = _number(cell)
        if value is None:
            return None
        values[i] = value
    return values


def _number(cell: Any) -> float | None:
    if is_missing(cell):
        return math.nan
    if isinstance(cell, str):
        word = cell.strip()
        if word in _EMPTY or word.lower() in _TRUTH_WORDS or "_" in word:
            return math.nan if word in _EMPTY else _TRUTH_WORDS.get(word.lower())
    try:
        return float(cell)
    except (TypeError, ValueError, OverflowError):
        return None
