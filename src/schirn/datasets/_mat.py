"""Reader for MATLAB files: versions 4 and 5, and version 7.3 (HDF5) with h5py."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import scipy
from scipy import sparse

from schirn._files import brief, brief_list, byte_limit, check_sparse, too_large
from schirn._optional import optional
from schirn.datasets._dataset import Dataset, Fold, dataset_from_file, label_matrix
from schirn.datasets._mat5 import Mat5
from schirn.datasets._text import check_size, unreadable_named
from schirn.exceptions import DataError

_KIND = "MATLAB file, or cut short"
# Usual variable names, first hit wins, upper and lower case alike.
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
FOLDS = ("tr_idx", "te_idx")


def read_mat(
    path: str | os.PathLike[str],
    *,
    features: str | None = None,
    truth: str | None = None,
    candidates: str | None = None,
    max_bytes: int | None = None,
) -> Dataset:
    """Read a partial multi-label set from a MATLAB file (version 5 or 7.3).

    Parameters
    ----------
    path : path
    features, truth, candidates : str, optional
        Variable names; by default the usual ones (``data``, ``target``, ``partial_labels``, ...)
        are looked for. Label matrices may be rows × labels or labels × rows, with values in
        {0, 1} or {-1, 1}. Masks ``tr_idx`` and ``te_idx`` (rows × folds) become folds.
    max_bytes : int, optional
        A variable that would take more memory is refused; by default ``SCHIRN_MAX_BYTES``, else
        8 GiB.

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
    source = _Hdf5(path, limit) if _is_hdf5(path) else _Version5(path, limit)
    names = source.names()
    X = source.get(_pick(path, names, FEATURES, features, "features"))
    X = sparse.csr_array(X) if sparse.issparse(X) else np.asarray(X)
    if X.ndim != 2 or X.dtype.kind not in "iufb":
        kind = f"{X.dtype} of shape {X.shape}"
        raise DataError(f"{path}: the features must be a matrix of numbers, not {kind}.")
    n_samples = X.shape[0]
    found: dict[str, Any] = {}
    for part, usual, given in (("truth", TRUTH, truth), ("candidates", CANDIDATES, candidates)):
        name = _find(path, names, usual, given)
        if name is not None:
            found[part] = _labels(path, name, source.get(name), n_samples)
    if not found:
        raise DataError(
            f"{path}: no label matrix among the variables {brief_list(names)}; "
            f"name it with truth= or candidates=.",
            parameter="truth",
        )
    masks = [source.get(name) for name in FOLDS if name in names]
    return dataset_from_file(
        path,
        max_bytes,
        X=X,
        y_true=found.get("truth"),
        candidates=found.get("candidates"),
        folds=_folds(masks, n_samples),
    )


def _labels(path: Path, name: str, values: Any, n_samples: int) -> Any:
    """Return a rows × labels matrix; the side that has as many entries as X has rows is rows."""
    if values.ndim != 2 or n_samples not in values.shape:
        raise DataError(
            f"{path}: {name!r} has shape {values.shape}, but the features have {n_samples} rows."
        )
    if values.shape[0] == values.shape[1]:
        raise DataError(
            f"{path}: {name!r} is square ({n_samples} × {n_samples}), so rows and labels cannot "
            f"be told apart; save it without the unused rows."
        )
    if values.shape[0] != n_samples:
        values = values.T
    return label_matrix(values, f"{path}: {name!r}")


def _folds(masks: list[Any], n_samples: int) -> list[Fold] | None:
    """Return folds from two masks of the shape rows × folds, if that is what they are."""
    if len(masks) != 2 or any(sparse.issparse(m) or m.shape[:1] != (n_samples,) for m in masks):
        return None
    train, test = masks
    if train.shape != test.shape or not np.isin(np.hstack(masks), (0, 1)).all():
        return None
    return [
        (np.flatnonzero(train[:, k]), np.flatnonzero(test[:, k])) for k in range(train.shape[1])
    ]


def _find(path: Path, names: list[str], usual: Iterable[str], given: str | None) -> str | None:
    """Return the name asked for, or the first usual one that the file has."""
    if given is not None:
        if given not in names:
            raise DataError(f"{path}: no variable {given!r}; there are {brief_list(names)}.")
        return given
    lower = {name.lower(): name for name in reversed(names)}
    return next((lower[name.lower()] for name in usual if name.lower() in lower), None)


def _pick(path: Path, names: list[str], usual: Iterable[str], given: str | None, what: str) -> str:
    """Return the name of a variable that must be there."""
    name = _find(path, names, usual, given)
    if name is None:
        raise DataError(
            f"{path}: no {what} among the variables {brief_list(names) or '(none)'}; "
            f"name them with {what}=."
        )
    return name


def _is_hdf5(path: Path) -> bool:
    """Tell a version 7.3 file by the HDF5 signature, which follows a 512-byte header."""
    with path.open("rb") as stream:
        head = stream.read(520)
    signature = b"\x89HDF\r\n\x1a\n"
    return head.startswith(signature) or head[512:] == signature


class _Version5:
    """A file of version 5 or 4."""

    def __init__(self, path: Path, limit: int) -> None:
        self.path = path
        with unreadable_named(path, _KIND), path.open("rb") as stream:
            # Four letters of text begin a file of version 5; a number begins one of version 4.
            is_old = 0 in stream.read(4)
            self._reader: Any = _Version4(path, limit) if is_old else Mat5(path, limit)

    def names(self) -> list[str]:
        return self._reader.names()

    def get(self, name: str) -> Any:
        """Return one variable."""
        with unreadable_named(self.path, _KIND):
            return self._reader.get(name)


class _Version4:
    """A file of version 4, read by scipy."""

    def __init__(self, path: Path, limit: int) -> None:
        self.path, self._names = path, []
        for name, shape, _ in scipy.io.whosmat(path, appendmat=False):
            if prod(map(int, shape)) * 8 > limit:
                raise DataError(f"{path}: {too_large(f'{brief(name)} of shape {shape}', limit)}")
            self._names.append(name)

    def names(self) -> list[str]:
        return self._names

    def get(self, name: str) -> Any:
        """Return one variable."""
        with warnings.catch_warnings():
            # SciPy 1.18 announces another sparse class, which older ones cannot be asked for.
            warnings.simplefilter("ignore", DeprecationWarning)
            found = scipy.io.loadmat(self.path, variable_names=[name], appendmat=False)[name]
        return sparse.csr_array(found) if sparse.issparse(found) else found


class _Hdf5:
    """A file of version 7.3: arrays are stored transposed, sparse ones by columns."""

    def __init__(self, path: Path, limit: int) -> None:
        self.path, self.limit = path, limit
        self.h5py = optional("h5py", "mat73", "Reading MATLAB 7.3 files")

    def names(self) -> list[str]:
        """Return the variables stored in this very file."""
        with unreadable_named(self.path, _KIND), self.h5py.File(self.path, "r") as file:
            links = {name: file.get(name, getlink=True) for name in file if name[:1] != "#"}
            return [name for name, link in links.items() if isinstance(link, self.h5py.HardLink)]

    def get(self, name: str) -> Any:
        """Return one variable."""
        with unreadable_named(self.path, _KIND), self.h5py.File(self.path, "r") as file:
            item = file[name]
            if isinstance(item, self.h5py.Group):
                return self._sparse(item)
            return self._array(item).T

    def _array(self, item: Any) -> np.ndarray:
        """Return a stored array of numbers after checking its size and that it is in the file."""
        name = brief(item.name)
        if not isinstance(item, self.h5py.Dataset) or item.dtype.kind not in "iufb":
            raise DataError(f"{self.path}: {name} is not a plain array of numbers.")
        if item.is_virtual or item.external:
            raise DataError(f"{self.path}: {name} is not a plain array of numbers.")
        n_bytes = int(item.size or 0) * max(item.dtype.itemsize, 8)
        if n_bytes > self.limit:
            raise DataError(
                f"{self.path}: {too_large(f'{name} needs {n_bytes:,} bytes', self.limit)}"
            )
        return np.asarray(item[()])

    def _sparse(self, group: Any) -> sparse.csr_array:
        """Return a sparse matrix from the parts data, ir and jc of its columns."""
        if "MATLAB_sparse" not in group.attrs or "jc" not in group:
            raise DataError(f"{self.path}: {brief(group.name)} is a struct, not a matrix.")
        indptr = self._array(group["jc"]).astype(np.int64)
        shape = (int(group.attrs["MATLAB_sparse"]), len(indptr) - 1)
        if max(shape) * 8 > self.limit:
            what = f"{brief(group.name)} of shape {shape}"
            raise DataError(f"{self.path}: {too_large(what, self.limit)}")
        if "ir" not in group:
            return sparse.csr_array(shape)
        parts = (self._array(group["data"]), self._array(group["ir"]).astype(np.int64), indptr)
        matrix = sparse.csc_array(parts, shape=shape)
        check_sparse(matrix)
        return matrix.tocsr()
