"""Arrays from .npy and .npz files: sizes are checked first, and nothing is ever unpickled."""

from __future__ import annotations

import lzma
import math
import struct
import zipfile
import zlib
from pathlib import Path
from tokenize import TokenError
from typing import IO, Any

import numpy as np

from schirn._limits import brief, byte_limit, reason_of, too_large
from schirn.exceptions import DataError

MOST_ENTRIES = 1000

# What zipfile, its unpackers and numpy raise for an archive that is not what it says.
DAMAGE = (
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
    struct.error,
    EOFError,
    OSError,
    NotImplementedError,
    RuntimeError,
    ValueError,
    KeyError,
    IndexError,
    TypeError,
    OverflowError,
    SyntaxError,
    MemoryError,
    TokenError,
)


def read_archive(path: Path, max_bytes: int | None = None) -> dict[str, np.ndarray]:
    """Read every array of an npz archive after checking all sizes."""
    limit = byte_limit(max_bytes)
    try:
        with zipfile.ZipFile(path) as archive:
            _check_total(path, archive, limit)
            entries = {
                entry.filename.removesuffix(".npy"): entry
                for entry in archive.infolist()
                if entry.filename.endswith(".npy")
            }
            return dict(_read_entry(path, archive, key, entries) for key in entries)
    except FileNotFoundError:
        raise DataError(f"{path}: there is no such file.") from None
    except DataError:
        raise
    except DAMAGE as error:
        raise DataError(
            f"{path}: not a readable npz archive, or cut short ({reason_of(error)})."
        ) from error


def _check_total(path: Path, archive: zipfile.ZipFile, limit: int) -> None:
    """Refuse an archive with too many entries, or one that unpacks to too much."""
    if len(archive.infolist()) > MOST_ENTRIES:
        raise DataError(
            f"{path}: {len(archive.infolist()):,} entries; an archive of arrays has at most "
            f"{MOST_ENTRIES:,}."
        )
    total = sum(entry.file_size for entry in archive.infolist())
    if total > limit:
        raise DataError(f"{path}: {too_large(f'unpacks to {total:,} bytes', limit)}")


def _read_entry(
    path: Path, archive: zipfile.ZipFile, key: str, entries: dict[str, zipfile.ZipInfo]
) -> tuple[str, np.ndarray]:
    """Read one array; of a dense label matrix that is also there as CSR, only the shape."""
    entry = entries[key]
    with archive.open(entry) as stream:
        shape = _check_header(f"{path}: the entry {brief(entry.filename)}", stream, entry.file_size)
    if f"{key}_indptr" in entries:
        return f"{key}_shape", np.asarray(shape)
    with archive.open(entry) as stream:
        return key, np.asarray(np.lib.format.read_array(stream, allow_pickle=False))


def read_npy(path: Path, max_bytes: int | None = None) -> np.ndarray:
    """Read one array from an .npy file after checking its size."""
    limit = byte_limit(max_bytes)
    try:
        size = path.stat().st_size
        if size > limit:
            raise DataError(f"{path}: {too_large(f'has {size:,} bytes', limit)}")
        with path.open("rb") as stream:
            _check_header(f"{path}: the file", stream, size)
        with path.open("rb") as stream:
            return np.asarray(np.lib.format.read_array(stream, allow_pickle=False))
    except FileNotFoundError:
        raise DataError(f"{path}: there is no such file.") from None
    except DataError:
        raise
    except DAMAGE as error:
        raise DataError(f"{path}: not a readable .npy file ({reason_of(error)}).") from error


def _check_header(where: str, stream: IO[bytes], size: int) -> tuple[int, ...]:
    """Return the shape of an array whose header agrees with the size of its file or entry."""
    form = np.lib.format
    readers = {(1, 0): form.read_array_header_1_0, (2, 0): form.read_array_header_2_0}
    try:
        shape, _, dtype = readers[form.read_magic(stream)](stream)
    except DAMAGE as error:
        raise DataError(f"{where} is not an array.") from error
    if dtype.hasobject:
        raise DataError(
            f"{where} holds Python objects, which are never loaded; save it as numbers or as "
            f"fixed-width text."
        )
    n_bytes = math.prod([dtype.itemsize, *map(int, shape)])
    if min(shape, default=0) < 0 or stream.tell() + n_bytes != size:
        raise DataError(f"{where} is damaged (wrong size).")
    return tuple(shape)


def check_sparse(matrix: Any) -> None:
    """Raise ValueError unless a CSR or CSC matrix points only into itself.

    scipy writes to wherever the indices point. Its own check leaves out the pointers of a matrix
    whose last one says that there are no entries.
    """
    if len(matrix.indptr) > 1 and np.diff(matrix.indptr).min() < 0:
        raise ValueError("the index pointers are not in order")
    matrix.check_format(full_check=True)
