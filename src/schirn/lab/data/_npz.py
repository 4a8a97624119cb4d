"""Reader for NumPy archives, without unpickling."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from schirn._files import brief, check_sparse, read_archive, reason_of
from schirn.datasets import Dataset
from schirn.exceptions import DataError
from schirn.lab.data._content import dataset_from_file, errors_named, label_matrix
from schirn.lab.data._crowd import crowd_content


def read_npz(
    path: str | os.PathLike[str],
    *,
    max_bytes: int | None = None,
    workers: int = 3,
    share: float = 0.5,
    random_state: int = 0,
) -> Dataset:
    """Read a data set from an npz archive.

    Keys: `X`, or `data`, `indices`, `indptr`, `shape` for a CSR matrix; `Y` (true labels) or
    `Y_indices` and `Y_indptr`; `C` (candidates) or `C_indices` and `C_indptr`; optionally
    `label_names`, `feature_names`, `n_train`, `train_mask` and `test_mask` (rows × folds), and a
    `description`.
    Without features the data set has no feature columns.

    An archive of votes has `asked` (item, worker) and `votes` (item, worker, label), tables of
    numbers that count from 0, `label_names`, and `texts` or features. Of the workers of each item,
    some make the candidates, and the others the truth.

    Parameters
    ----------
    path : path
    max_bytes : int, optional
        A file that would unpack to more raises DataError before anything is allocated; by default
        ``SCHIRN_MAX_BYTES``, else 8 GiB.
    workers : int
        For votes: workers per item, drawn at random, whose choices are the candidates.
    share : float
        For votes: share of the other workers that makes a label true.
    random_state : int
        For votes: seed of the draw.

    Returns
    -------
    Dataset

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
    arrays = read_archive(path, max_bytes)
    with errors_named(path):
        content: dict[str, Any] = {"label_names": _names(arrays, "label_names") or []}
        content["X"] = X = _features_of(path, arrays)
        if "votes" in arrays:
            draw: dict[str, Any] = {"workers": workers, "share": share}
            names = content["label_names"]
            content |= crowd_content(arrays, X, names, random_state=random_state, **draw)
            return dataset_from_file(path, max_bytes, **content)
        y_true = _labels(arrays, "Y")
        candidates = _labels(arrays, "C")
        if y_true is None and candidates is None:
            raise DataError("no labels; the file needs the key 'Y', 'C' or both.")
        if X is None:
            X = np.empty(((candidates if y_true is None else y_true).shape[0], 0))
        description = "" if X.shape[1] else "Labels only: the source has no features."
        if "description" in arrays:
            description = str(_one(arrays, "description", "U"))
        return dataset_from_file(
            path,
            max_bytes,
            X=X,
            y_true=y_true,
            candidates=candidates,
            label_names=content["label_names"],
            feature_names=_names(arrays, "feature_names"),
            n_train=_n_train(arrays, X.shape[0]),
            folds=_folds(arrays, X.shape[0]),
            description=description,
        )


def _labels(arrays: dict[str, np.ndarray], key: str) -> Any:
    """Return a label matrix from the dense key or the CSR arrays, or None."""
    indices = arrays.get(f"{key}_indices")
    indptr = arrays.get(f"{key}_indptr")
    if indptr is None:
        return None if key not in arrays else label_matrix(arrays[key], key)
    if indices is None:
        raise DataError(f"the sparse labels lack the key '{key}_indices'.")
    n_labels = arrays["label_names"].size if "label_names" in arrays else 0
    if f"{key}_shape" in arrays:
        shape = arrays[f"{key}_shape"]
        if len(shape) != 2:
            raise DataError(f"{key} must be a matrix (rows × labels), not {shape}.")
        n_labels = int(shape[1])
    if indices.size and indices.dtype.kind in "iu":
        n_labels = n_labels or int(indices.max()) + 1
    ones = np.ones(indices.size, dtype=np.uint8)
    return _checked_csr(key, ones, indices, indptr, (indptr.size - 1, n_labels))


def _names(arrays: dict[str, np.ndarray], key: str) -> list[str] | None:
    """Return a list of names, or None if the file has none."""
    if key not in arrays:
        return None
    if arrays[key].ndim != 1:
        raise DataError(f"{key!r} must be a list of names.")
    names = arrays[key].tolist()
    return [n.decode("utf-8", "replace") if isinstance(n, bytes) else str(n) for n in names]


def _n_train(arrays: dict[str, np.ndarray], n_samples: int) -> int | None:
    """Return the number of training rows, or None if the file has none."""
    if "n_train" not in arrays:
        return None
    n_train = int(_one(arrays, "n_train", "iu"))
    if not 0 <= n_train <= n_samples:
        raise DataError(f"n_train must be a number of rows up to {n_samples}, not {n_train}.")
    return n_train


def _one(arrays: dict[str, np.ndarray], key: str, kinds: str) -> Any:
    """Return the single text or number of a key."""
    value = arrays[key]
    if value.size != 1 or value.dtype.kind not in kinds:
        what = "text" if kinds == "U" else "whole number"
        raise DataError(f"{key!r} must be one {what}, not {brief(value.tolist())}.")
    return value.item()


def _folds(
    arrays: dict[str, np.ndarray], n_samples: int
) -> list[tuple[np.ndarray, np.ndarray]] | None:
    """Return the (train, test) row indices of each fold, or None without masks."""
    masks = [arrays[key] for key in ("train_mask", "test_mask") if key in arrays]
    if not masks:
        return None
    agree = len({mask.shape for mask in masks}) == 1 and len(masks) == 2
    if not agree or any(
        mask.ndim != 2 or len(mask) != n_samples or mask.dtype.kind not in "biuf" for mask in masks
    ):
        raise DataError(
            f"train_mask and test_mask must be two masks of the same shape, with {n_samples} rows."
        )
    train, test = (mask.T for mask in masks)
    return [(np.flatnonzero(a), np.flatnonzero(b)) for a, b in zip(train, test, strict=True)]


def _features_of(path: Path, arrays: dict[str, np.ndarray]) -> Any:
    """Return X from the dense key or the CSR arrays, or None if the file has neither."""
    with errors_named(path):
        if "X" in arrays:
            if arrays["X"].ndim != 2 or arrays["X"].dtype.kind not in "iufb":
                raise DataError(f"X must be a matrix of numbers, not {arrays['X'].shape}.")
            return arrays["X"]
        keys = ("data", "indices", "indptr", "shape")
        missing = [key for key in keys if key not in arrays]
        if len(missing) == len(keys):
            return None
        if missing:
            raise DataError(f"the sparse features lack the key {missing[0]!r}.")
        data, indices, indptr, shape = (arrays[key] for key in keys)
        if shape.shape != (2,) or shape.dtype.kind not in "iu" or data.dtype.kind not in "iufb":
            raise DataError("the sparse features are not a matrix of numbers.")
        return _checked_csr("X", data, indices, indptr, (int(shape[0]), int(shape[1])))


def _checked_csr(
    key: str, data: np.ndarray, indices: np.ndarray, indptr: np.ndarray, shape: tuple[int, int]
) -> sparse.csr_array:
    """Return a checked CSR matrix."""
    for name, values in (("indices", indices), ("indptr", indptr)):
        if values.ndim != 1 or values.dtype.kind not in "iu":
            raise DataError(f"{name} of {key} must be a list of whole numbers.")
    try:
        matrix = sparse.csr_array((data, indices, indptr), shape=shape)
        check_sparse(matrix)
    except (ValueError, TypeError, IndexError, OverflowError) as error:
        raise DataError(f"the sparse matrix {key} is damaged ({reason_of(error)}).") from error
    matrix.sort_indices()
    return matrix
