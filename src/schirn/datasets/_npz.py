"""Reader for compressed numpy archives; nothing in the file is ever unpickled."""

from __future__ import annotations

import os
import zipfile
import zlib
from pathlib import Path
from typing import IO, Any

import numpy as np
from scipy import sparse

from schirn.datasets._dataset import Dataset, dataset_from_file, label_matrix
from schirn.exceptions import DataError

MAX_BYTES = 8 * 1024**3


def read_npz(path: str | os.PathLike[str], *, max_bytes: int = MAX_BYTES) -> Dataset:
    """Read a data set from an npz archive.

    Keys: `X`, or `data`, `indices`, `indptr`, `shape` for a CSR matrix; `Y` (true labels) or
    `Y_indices` and `Y_indptr`; `C` (candidates) or `C_indices` and `C_indptr`; optional
    `label_names`, `feature_names`, `n_train`, `train_mask` and `test_mask` (rows × folds).
    A file without features gives a set with no feature columns.

    Parameters
    ----------
    path : path
    max_bytes : int
        A file that would unpack to more than this is refused before anything is allocated.

    Examples
    --------
    >>> import tempfile, numpy as np
    >>> from schirn.datasets import read_npz
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.savez(f"{folder}/tiny.npz", X=np.eye(2), Y=np.array([[0, 1], [1, 1]]))
    ...     read_npz(f"{folder}/tiny.npz")
    Dataset('tiny', n=2, d=2, l=2, y_true)
    """
    path = Path(path)
    arrays = _read_arrays(path, max_bytes)
    y_true = _labels(path, arrays, "Y")
    candidates = _labels(path, arrays, "C")
    if y_true is None and candidates is None:
        raise DataError(f"{path}: no labels; the file needs the key 'Y', 'C' or both.")
    X = _features(path, arrays)
    if X is None:
        X = np.empty(((y_true if y_true is not None else candidates).shape[0], 0))
    return dataset_from_file(
        path,
        X=X,
        y_true=y_true,
        candidates=candidates,
        label_names=_names(arrays, "label_names") or [],
        feature_names=_names(arrays, "feature_names"),
        n_train=int(arrays["n_train"]) if "n_train" in arrays else None,
        folds=_folds(path, arrays),
        description="" if X.shape[1] else "Labels only: the source has no features.",
    )


def _read_arrays(path: Path, max_bytes: int) -> dict[str, np.ndarray]:
    """Read every array of the archive after checking all sizes."""
    try:
        with zipfile.ZipFile(path) as archive:
            total = sum(entry.file_size for entry in archive.infolist())
            if total > max_bytes:
                raise DataError(
                    f"{path}: unpacks to {total:,} bytes, more than max_bytes={max_bytes:,}; "
                    f"raise max_bytes if you trust the file."
                )
            entries = {
                entry.filename.removesuffix(".npy"): entry
                for entry in archive.infolist()
                if entry.filename.endswith(".npy")
            }
            return dict(_read_entry(path, archive, key, entries) for key in entries)
    except FileNotFoundError:
        raise DataError(f"{path}: there is no such file.") from None
    except (zipfile.BadZipFile, zlib.error, EOFError, OSError, NotImplementedError) as error:
        raise DataError(f"{path}: not a readable npz archive, or cut short ({error}).") from error


def _read_entry(
    path: Path, archive: zipfile.ZipFile, key: str, entries: dict[str, zipfile.ZipInfo]
) -> tuple[str, np.ndarray]:
    """Read one array; of a dense label matrix that is also there as CSR, only the shape."""
    entry = entries[key]
    with archive.open(entry) as stream:
        shape = _check_header(path, stream, entry)
    if f"{key}_indptr" in entries:
        return f"{key}_shape", np.asarray(shape)
    with archive.open(entry) as stream:
        return key, np.asarray(np.lib.format.read_array(stream, allow_pickle=False))


def _check_header(path: Path, stream: IO[bytes], entry: zipfile.ZipInfo) -> tuple[int, ...]:
    """Return the shape of an array whose header agrees with the size of its entry."""
    form = np.lib.format
    readers = {(1, 0): form.read_array_header_1_0, (2, 0): form.read_array_header_2_0}
    try:
        shape, _, dtype = readers[form.read_magic(stream)](stream)
    except (ValueError, KeyError) as error:
        raise DataError(f"{path}: the entry {entry.filename!r} is not an array.") from error
    if dtype.hasobject:
        raise DataError(
            f"{path}: the array {entry.filename!r} holds Python objects, which are never "
            f"loaded; save it as numbers or as fixed-width text."
        )
    n_bytes = dtype.itemsize
    for side in shape:
        n_bytes *= int(side)
    if stream.tell() + n_bytes != entry.file_size:
        raise DataError(f"{path}: the array {entry.filename!r} is damaged (wrong size).")
    return tuple(shape)


def _features(path: Path, arrays: dict[str, np.ndarray]) -> Any:
    """Return X from the dense key or the CSR parts, or None where the file has neither."""
    if "X" in arrays:
        if arrays["X"].ndim != 2 or arrays["X"].dtype.kind not in "iufb":
            raise DataError(f"{path}: X must be a matrix of numbers, not {arrays['X'].shape}.")
        return arrays["X"]
    parts = ("data", "indices", "indptr", "shape")
    missing = [key for key in parts if key not in arrays]
    if len(missing) == len(parts):
        return None
    if missing:
        raise DataError(f"{path}: the sparse features lack the key {missing[0]!r}.")
    data, indices, indptr, shape = (arrays[key] for key in parts)
    return _csr(path, "X", data, indices, indptr, tuple(int(side) for side in shape))


def _labels(path: Path, arrays: dict[str, np.ndarray], key: str) -> Any:
    """Return a label matrix from the dense key or the CSR parts, or None."""
    indices, indptr = arrays.get(f"{key}_indices"), arrays.get(f"{key}_indptr")
    if indptr is None:
        return None if key not in arrays else label_matrix(arrays[key], f"{path}: {key}")
    if indices is None:
        raise DataError(f"{path}: the sparse labels lack the key '{key}_indices'.")
    n_labels = len(arrays["label_names"]) if "label_names" in arrays else 0
    if f"{key}_shape" in arrays:
        n_labels = int(arrays[f"{key}_shape"][1])
    n_labels = n_labels or int(indices.max(initial=-1)) + 1
    ones = np.ones(len(indices), dtype=np.uint8)
    return _csr(path, key, ones, indices, indptr, (len(indptr) - 1, n_labels))


def _csr(
    path: Path,
    key: str,
    data: np.ndarray,
    indices: np.ndarray,
    indptr: np.ndarray,
    shape: tuple[int, ...],
) -> sparse.csr_array:
    """Return a checked CSR matrix."""
    try:
        matrix = sparse.csr_array((data, indices, indptr), shape=shape)
        matrix.check_format(full_check=True)
    except (ValueError, TypeError, IndexError) as error:
        raise DataError(f"{path}: the sparse matrix {key} is damaged ({error}).") from error
    matrix.sort_indices()
    return matrix


def _names(arrays: dict[str, np.ndarray], key: str) -> list[str] | None:
    """Return a list of names, or None where the file has none."""
    return [str(name) for name in arrays[key]] if key in arrays else None


def _folds(path: Path, arrays: dict[str, np.ndarray]) -> list[tuple[np.ndarray, np.ndarray]] | None:
    """Return (train, test) row indices of each column of the two masks."""
    train, test = arrays.get("train_mask"), arrays.get("test_mask")
    if train is None and test is None:
        return None
    if train is None or test is None or train.shape != test.shape or train.ndim != 2:
        raise DataError(f"{path}: train_mask and test_mask must be two masks of the same shape.")
    return [
        (np.flatnonzero(train[:, fold]), np.flatnonzero(test[:, fold]))
        for fold in range(train.shape[1])
    ]
