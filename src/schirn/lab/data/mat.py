"""Reader for MATLAB files of version 5.

SciPy's reader of version 5 trusts the types, lengths and indices in a file: of files with a few
random bytes, one in twenty ends the process with a segmentation fault (SciPy 1.17). The reader here
checks each element before it is read, never builds cells, structs or objects, and limits the memory
of a variable before it is allocated or unpacked.
"""

from __future__ import annotations

import math
import os
import struct
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
from scipy import sparse

from schirn._files import brief, brief_list, byte_limit, check_sparse, too_large
from schirn.datasets import Dataset
from schirn.exceptions import DataError
from schirn.lab.data.content import dataset_from_file, label_matrix
from schirn.tables.text import check_size, unreadable_named

_KIND = "MATLAB file, or truncated"
# Usual variable names in any case; the first one found wins.
FEATURES = ("data", "features", "feature", "X", "fea")
TRUTH = ("true_target", "true_labels", "ground_truth", "gt", "target", "targets", "labels", "Y")
CANDIDATES = (
    "partial_labels",
    "partial_target",
    "candidates",
    "candidate_labels",
    "candidate_target",
    "PL",
    "C",
)

# Version 5.
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


def read_mat(
    path: str | os.PathLike[str],
    *,
    features: str | None = None,
    truth: str | None = None,
    candidates: str | None = None,
    max_bytes: int | None = None,
) -> Dataset:
    """Read a partial multi-label set from a MATLAB file of version 5 (saved with "-v7" or "-v6").

    Parameters
    ----------
    path : path
    features, truth, candidates : str, optional
        Variable names; by default the usual ones (``data``, ``target``, ``partial_labels``, ...).
        Label matrices may be rows × labels or labels × rows, with values in {0, 1} or {-1, 1}.
    max_bytes : int, optional
        A variable that needs more memory raises DataError; by default ``SCHIRN_MAX_BYTES``, else
        8 GiB.

    Returns
    -------
    Dataset

    Examples
    --------
    >>> import tempfile, numpy as np, scipy.io
    >>> from schirn.datasets import read_mat
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     scipy.io.savemat(f"{folder}/tiny.mat", {"data": np.ones((3, 4)),
    ...                                             "target": np.array([[-1, 1, 1], [1, -1, 1]])})
    ...     read_mat(f"{folder}/tiny.mat")
    Dataset('tiny', n=3, d=4, l=2, y_true)
    """
    path = Path(path)
    check_size(path, max_bytes)
    limit = byte_limit(max_bytes)
    source = Mat5(path, limit)
    names = source.names()
    X = source.get(_pick(path, names, FEATURES, features, "features"))
    X = sparse.csr_array(X) if sparse.issparse(X) else np.asarray(X)
    if X.ndim != 2 or X.dtype.kind not in "iufb":
        kind = f"{X.dtype} of shape {X.shape}"
        raise DataError(f"{path}: the features must be a matrix of numbers, not {kind}.")
    n_samples = X.shape[0]
    labels: dict[str, Any] = {}
    for kind, usual, requested in (("truth", TRUTH, truth), ("candidates", CANDIDATES, candidates)):
        name = _find(path, names, usual, requested)
        if name is not None:
            labels[kind] = _labels(path, name, source.get(name), n_samples)
    if not labels:
        raise DataError(
            f"{path}: no label matrix among the variables {brief_list(names)}; "
            f"name it with truth= or candidates=.",
            parameter="truth",
        )
    return dataset_from_file(
        path,
        max_bytes,
        X=X,
        y_true=labels.get("truth"),
        candidates=labels.get("candidates"),
    )


def _labels(path: Path, name: str, values: Any, n_samples: int) -> Any:
    """Return a rows × labels matrix; the side as long as X has rows holds the rows."""
    if values.ndim != 2 or n_samples not in values.shape:
        raise DataError(
            f"{path}: {name!r} has shape {values.shape}, but the features have {n_samples} rows."
        )
    if values.shape[0] == values.shape[1]:
        raise DataError(
            f"{path}: {name!r} is square ({n_samples} × {n_samples}), so rows and labels cannot "
            f"be distinguished; save it without the unused rows."
        )
    if values.shape[0] != n_samples:
        values = values.T
    return label_matrix(values, f"{path}: {name!r}")


def _find(path: Path, names: list[str], usual: Iterable[str], requested: str | None) -> str | None:
    """Return the given name, or the first usual one that the file has."""
    if requested is not None:
        if requested not in names:
            raise DataError(f"{path}: no variable {requested!r}; there are {brief_list(names)}.")
        return requested
    lower = {name.lower(): name for name in reversed(names)}
    return next((lower[name.lower()] for name in usual if name.lower() in lower), None)


def _pick(
    path: Path, names: list[str], usual: Iterable[str], requested: str | None, what: str
) -> str:
    """Return the name of a required variable."""
    name = _find(path, names, usual, requested)
    if name is None:
        raise DataError(
            f"{path}: no {what} among the variables {brief_list(names) or '(none)'}; "
            f"name them with {what}=."
        )
    return name


@dataclass(frozen=True)
class Variable:
    """A matrix and its position in the file."""

    name: str
    flags: int
    shape: tuple[int, ...]
    start: int
    size: int
    packed: bool


class Mat5:
    """The variables of a file of version 5; raises ValueError or DataError if it is damaged.

    The file is a list of elements: a tag (type and number of bytes) and the content, padded to 8
    bytes. A matrix is an element of elements: flags, shape, name, then the numbers; it may be
    compressed as a whole.
    """

    def __init__(self, path: Path, limit: int) -> None:
        self.path, self.limit = path, limit
        with unreadable_named(path, _KIND), path.open("rb") as stream:
            head = stream.read(HEAD)
            if head.startswith(b"MATLAB 7.3"):
                raise DataError(f'{path}: MATLAB 7.3 files are not read; save it with "-v7".')
            if len(head) < HEAD or head[126:] not in (b"IM", b"MI"):
                raise ValueError("not a MATLAB header")
            self._order = "<" if head[126:] == b"IM" else ">"
            self._variables = {variable.name: variable for variable in self._scan(stream)}

    def names(self) -> list[str]:
        """Return the names of the variables."""
        return list(self._variables)

    def get(self, name: str) -> Any:
        """Return a variable as an array or a CSC matrix."""
        variable = self._variables[name]
        kind = variable.flags & 0xFF
        if (kind not in CLASSES and kind != SPARSE) or variable.flags & COMPLEX:
            raise DataError(f"{self.path}: {brief(name)} is not a matrix of real numbers.")
        with unreadable_named(self.path, _KIND):
            return self._values(variable)

    def _values(self, variable: Variable) -> Any:
        kind = variable.flags & 0xFF
        with self.path.open("rb") as stream:
            stream.seek(variable.start)
            content = self._content(stream, variable.size, variable.packed, self.limit)
        elements = _Elements(content, self._order)
        for _ in range(3):
            elements.next()
        if kind == SPARSE:
            return self._sparse(elements, variable)
        n_entries = math.prod(variable.shape)
        stored = elements.numbers(n_entries)
        dtype = "?" if variable.flags & LOGICAL else CLASSES[kind]
        return stored.astype(dtype).reshape(variable.shape, order="F")

    def _sparse(self, elements: _Elements, variable: Variable) -> sparse.csc_array:
        if len(variable.shape) != 2:
            raise ValueError("a sparse matrix with other than two sides")
        rows = elements.numbers().astype(np.int64)
        starts = elements.numbers(variable.shape[1] + 1).astype(np.int64)
        n_entries = int(starts[-1])
        data = elements.numbers()
        if not 0 <= n_entries <= min(len(rows), len(data)):
            raise ValueError("a sparse matrix with fewer entries than its header says")
        values = data[:n_entries].astype("?" if variable.flags & LOGICAL else "f8")
        matrix = sparse.csc_array((values, rows[:n_entries], starts), shape=variable.shape)
        check_sparse(matrix)
        return matrix

    def _scan(self, stream: IO[bytes]) -> Iterator[Variable]:
        """Yield the variables of the file, reading only their descriptions."""
        for _ in range(MOST_VARIABLES):
            tag = stream.read(8)
            if not tag:
                return
            if len(tag) < 8:
                raise ValueError("the last element is truncated")
            kind, size = struct.unpack(f"{self._order}II", tag)
            start = stream.tell()
            if kind in (MATRIX, PACKED):
                head = self._content(
                    stream, min(size, PEEK), kind == PACKED, PEEK, is_complete=False
                )
                yield self._describe(head, start, size, kind == PACKED)
            stream.seek(start + size)
        raise ValueError(f"more than {MOST_VARIABLES:,} variables")

    def _content(
        self, stream: IO[bytes], size: int, packed: bool, limit: int, is_complete: bool = True
    ) -> bytes:
        """Return the content of a matrix, unpacked and without its tag; up to `limit` bytes."""
        raw = stream.read(size)
        if is_complete and len(raw) < size:
            raise ValueError("a variable is truncated")
        if not packed:
            return raw
        engine = zlib.decompressobj()
        content = engine.decompress(raw, limit + 8)
        if is_complete and len(content) > limit:
            message = too_large(f"a variable unpacks to over {limit:,} bytes", limit)
            raise DataError(f"{self.path}: {message}")
        if len(content) < 8 or struct.unpack_from(f"{self._order}I", content)[0] != MATRIX:
            raise ValueError("a packed variable is not a matrix")
        return content[8:]

    def _describe(self, content: bytes, start: int, size: int, packed: bool) -> Variable:
        elements = _Elements(content, self._order)
        flags = int(elements.numbers()[:1].astype(np.int64).sum())
        shape = tuple(int(side) for side in elements.numbers())
        if not 2 <= len(shape) <= 32 or min(shape) < 0:
            raise ValueError(f"a variable of shape {brief(shape)}")
        name = elements.next()[1].decode("latin-1")
        kind = flags & 0xFF
        needed = 8 * (max(shape) if kind == SPARSE else math.prod(shape))
        if needed > self.limit and (kind in CLASSES or kind == SPARSE):
            what = f"{brief(name)} of shape {brief(shape)} needs {needed:,} bytes"
            raise DataError(f"{self.path}: {too_large(what, self.limit)}")
        return Variable(name, flags, shape, start, size, packed)


class _Elements:
    """The elements inside a matrix, one after the other."""

    def __init__(self, content: bytes, order: str) -> None:
        self._content, self._order, self._at = content, order, 0

    def next(self) -> tuple[int, bytes]:
        """Return type and content of the next element."""
        head = self._content[self._at : self._at + 8]
        if len(head) < 8:
            raise ValueError("a matrix is truncated")
        kind, size = struct.unpack(f"{self._order}II", head)
        if kind >> 16:
            # A short element has its content in the tag.
            kind, size = kind & 0xFFFF, kind >> 16
            content, self._at = head[4 : 4 + size], self._at + 8
        else:
            start = self._at + 8
            content, self._at = self._content[start : start + size], start + size + -size % 8
        if len(content) < size:
            raise ValueError("a matrix is truncated")
        return kind, content

    def numbers(self, count: int | None = None) -> np.ndarray:
        """Return the next element as numbers; raise ValueError unless there are `count`."""
        kind, content = self.next()
        if kind not in NUMBERS:
            raise ValueError(f"an element of type {kind}, which is not numeric")
        values = np.frombuffer(content, np.dtype(self._order + NUMBERS[kind]))
        if count is not None and len(values) != count:
            raise ValueError(f"{len(values):,} numbers instead of {count:,}")
        return values
