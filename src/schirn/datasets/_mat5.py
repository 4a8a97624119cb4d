"""MATLAB files of version 5: matrices of numbers, dense or sparse, read with every length checked.

The file is a list of elements: a tag (type and number of bytes) and the content, filled up to 8
bytes. A matrix is an element of elements: flags, shape, name, then the numbers; it may be packed as
a whole. SciPy's reader trusts the types and lengths of a file and can crash the process.
"""

from __future__ import annotations

import math
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
from scipy import sparse

from schirn._files import brief, check_sparse, too_large
from schirn.exceptions import DataError

MATRIX, PACKED = 14, 15
# Type of an element -> type of its numbers.
NUMBERS = {
    1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 9: "f8", 12: "i8", 13: "u8",
}  # fmt: skip
# Class of a matrix -> type of its entries, however they are stored.
CLASSES = {
    6: "f8", 7: "f4", 8: "i1", 9: "u1", 10: "i2", 11: "u2", 12: "i4", 13: "u4", 14: "i8", 15: "u8",
}  # fmt: skip
SPARSE = 5
COMPLEX, LOGICAL = 0x0800, 0x0200

HEAD = 128
# Flags, shape and name of a matrix fit into this.
PEEK = 1 << 14
MOST_VARIABLES = 10_000


class Variable(NamedTuple):
    """Where a matrix is in the file, and what it is."""

    name: str
    flags: int
    shape: tuple[int, ...]
    place: int
    size: int
    packed: bool


class Mat5:
    """The variables of a file; ValueError and DataError for one that is damaged."""

    def __init__(self, path: Path, limit: int) -> None:
        self.path, self.limit = path, limit
        with path.open("rb") as stream:
            head = stream.read(HEAD)
            if len(head) < HEAD or head[126:] not in (b"IM", b"MI"):
                raise ValueError("no header of MATLAB")
            self._order = "<" if head[126:] == b"IM" else ">"
            self._variables = {found.name: found for found in self._scan(stream)}

    def names(self) -> list[str]:
        """Return the names of the variables."""
        return list(self._variables)

    def get(self, name: str) -> Any:
        """Return a variable as an array or a CSC matrix."""
        variable = self._variables[name]
        kind = variable.flags & 0xFF
        if (kind not in CLASSES and kind != SPARSE) or variable.flags & COMPLEX:
            raise DataError(f"{self.path}: {brief(name)} is not a matrix of real numbers.")
        with self.path.open("rb") as stream:
            stream.seek(variable.place)
            content = self._content(stream, variable.size, variable.packed, self.limit)
        parts = _Elements(content, self._order)
        for _ in range(3):
            parts.next()
        if kind == SPARSE:
            return self._sparse(parts, variable)
        n_entries = math.prod(variable.shape)
        stored = parts.numbers(n_entries)
        wanted = "?" if variable.flags & LOGICAL else CLASSES[kind]
        return stored.astype(wanted).reshape(variable.shape, order="F")

    def _sparse(self, parts: _Elements, variable: Variable) -> sparse.csc_array:
        if len(variable.shape) != 2:
            raise ValueError("a sparse matrix with other than two sides")
        rows = parts.numbers().astype(np.int64)
        starts = parts.numbers(variable.shape[1] + 1).astype(np.int64)
        n_entries = int(starts[-1])
        data = parts.numbers()
        if not 0 <= n_entries <= min(len(rows), len(data)):
            raise ValueError("a sparse matrix with fewer entries than it says")
        values = data[:n_entries].astype("?" if variable.flags & LOGICAL else "f8")
        matrix = sparse.csc_array((values, rows[:n_entries], starts), shape=variable.shape)
        check_sparse(matrix)
        return matrix

    def _scan(self, stream: IO[bytes]) -> Iterator[Variable]:
        """Yield the variables of the file, reading only what describes them."""
        for _ in range(MOST_VARIABLES):
            tag = stream.read(8)
            if not tag:
                return
            if len(tag) < 8:
                raise ValueError("the last element is cut short")
            kind, size = struct.unpack(f"{self._order}II", tag)
            place = stream.tell()
            if kind in (MATRIX, PACKED):
                start = self._content(stream, min(size, PEEK), kind == PACKED, PEEK, whole=False)
                yield self._describe(start, place, size, kind == PACKED)
            stream.seek(place + size)
        raise ValueError(f"more than {MOST_VARIABLES:,} variables")

    def _content(
        self, stream: IO[bytes], size: int, packed: bool, most: int, whole: bool = True
    ) -> bytes:
        """Return the content of a matrix, unpacked and without its tag; up to `most` bytes."""
        raw = stream.read(size)
        if whole and len(raw) < size:
            raise ValueError("a variable is cut short")
        if not packed:
            return raw
        engine = zlib.decompressobj()
        content = engine.decompress(raw, most + 8)
        if whole and len(content) > most:
            over = too_large(f"a variable unpacks to over {most:,} bytes", most)
            raise DataError(f"{self.path}: {over}")
        if len(content) < 8 or struct.unpack_from(f"{self._order}I", content)[0] != MATRIX:
            raise ValueError("a packed variable is not a matrix")
        return content[8:]

    def _describe(self, content: bytes, place: int, size: int, packed: bool) -> Variable:
        parts = _Elements(content, self._order)
        flags = int(parts.numbers()[:1].astype(np.int64).sum())
        shape = tuple(int(side) for side in parts.numbers())
        if not 2 <= len(shape) <= 32 or min(shape) < 0:
            raise ValueError(f"a variable of shape {brief(shape)}")
        name = parts.next()[1].decode("latin-1")
        kind = flags & 0xFF
        needed = 8 * (max(shape) if kind == SPARSE else math.prod(shape))
        if needed > self.limit and (kind in CLASSES or kind == SPARSE):
            what = f"{brief(name)} of shape {brief(shape)} needs {needed:,} bytes"
            raise DataError(f"{self.path}: {too_large(what, self.limit)}")
        return Variable(name, flags, shape, place, size, packed)


class _Elements:
    """The elements inside a matrix, one after the other."""

    def __init__(self, content: bytes, order: str) -> None:
        self._content, self._order, self._place = content, order, 0

    def next(self) -> tuple[int, bytes]:
        """Return type and content of the next element."""
        head = self._content[self._place : self._place + 8]
        if len(head) < 8:
            raise ValueError("a matrix is cut short")
        kind, size = struct.unpack(f"{self._order}II", head)
        if kind >> 16:
            # A short element has its content in the tag.
            kind, size = kind & 0xFFFF, kind >> 16
            content, self._place = head[4 : 4 + size], self._place + 8
        else:
            start = self._place + 8
            content, self._place = self._content[start : start + size], start + size + -size % 8
        if len(content) < size:
            raise ValueError("a matrix is cut short")
        return kind, content

    def numbers(self, count: int | None = None) -> np.ndarray:
        """Return the next element as numbers; with `count`, exactly so many."""
        kind, content = self.next()
        if kind not in NUMBERS:
            raise ValueError(f"an element of type {kind}, which holds no numbers")
        found = np.frombuffer(content, np.dtype(self._order + NUMBERS[kind]))
        if count is not None and len(found) != count:
            raise ValueError(f"{len(found):,} numbers where {count:,} belong")
        return found
