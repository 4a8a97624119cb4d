"""Reader for NumPy archives, without unpickling."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from schirn._files import brief, check_sparse, read_archive, reason_of
from schirn.datasets._crowd import SHARE, crowd_dataset
from schirn.datasets._dataset import Dataset, dataset_from_file, label_matrix
from schirn.exceptions import DataError


def read_npz(
    path: str | os.PathLike[str],
    *,
    max_bytes: int | None = None,
    workers: int = 3,
    share: float = SHARE,
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
    names = _names(path, arrays, "label_names") or []
    if "votes" in arrays:
        X = features_of(path, arrays)
        if X is None and "texts" not in arrays:
            raise DataError(f"{path}: votes need 'texts' or features to learn from.")
        drawn: dict[str, Any] = {"workers": workers, "share": share, "random_state": random_state}
        return crowd_dataset(path, arrays, X, names, max_bytes=max_bytes, **drawn)
    y_true = _labels(path, arrays, "Y")
    candidates = _labels(path, arrays, "C")
    if y_true is None and candidates is None:
        raise DataError(f"{path}: no labels; the file needs the key 'Y', 'C' or both.")
    X = features_of(path, arrays)
    if X is None:
        X = np.empty(((y_true if y_true is not None else candidates).shape[0], 0))
    return dataset_from_file(
        path,
        max_bytes,
        X=X,
        y_true=y_true,
        candidates=candidates,
        label_names=names,
        feature_names=_names(path, arrays, "feature_names"),
        n_train=_n_train(path, arrays, X.shape[0]),
        folds=_folds(path, arrays, X.shape[0]),
        description=_description(path, arrays, X.shape[1]),
    )


def features_of(path: Path, arrays: dict[str, np.ndarray]) -> Any:
    """Return X from the dense key or the CSR arrays, or None if the file has neither."""
    if "X" in arrays:
        if arrays["X"].ndim != 2 or arrays["X"].dtype.kind not in "iufb":
            raise DataError(f"{path}: X must be a matrix of numbers, not {arrays['X'].shape}.")
        return arrays["X"]
    keys = ("data", "indices", "indptr", "shape")
    missing = [key for key in keys if key not in arrays]
    if len(missing) == len(keys):
        return None
    if missing:
        raise DataError(f"{path}: the sparse features lack the key {missing[0]!r}.")
    data, indices, indptr, shape = (arrays[key] for key in keys)
    if shape.shape != (2,) or shape.dtype.kind not in "iu" or data.dtype.kind not in "iufb":
        raise DataError(f"{path}: the sparse features are not a matrix of numbers.")
    return _csr(path, "X", data, indices, indptr, (int(shape[0]), int(shape[1])))


def _labels(path: Path, arrays: dict[str, np.ndarray], key: str) -> Any:
    """Return a label matrix from the dense key or the CSR arrays, or None."""
    indices, indptr = arrays.get(f"{key}_indices"), arrays.get(f"{key}_indptr")
    if indptr is None:
        return None if key not in arrays else label_matrix(arrays[key], f"{path}: {key}")
    if indices is None:
        raise DataError(f"{path}: the sparse labels lack the key '{key}_indices'.")
    _check_indices(path, f"{key}_indices", indices)
    _check_indices(path, f"{key}_indptr", indptr)
    n_labels = arrays["label_names"].size if "label_names" in arrays else 0
    if f"{key}_shape" in arrays:
        shape = arrays[f"{key}_shape"]
        if len(shape) != 2:
            raise DataError(f"{path}: {key} must be a matrix (rows × labels), not {shape}.")
        n_labels = int(shape[1])
    n_labels = n_labels or int(indices.max(initial=-1)) + 1
    ones = np.ones(len(indices), dtype=np.uint8)
    return _csr(path, key, ones, indices, indptr, (len(indptr) - 1, n_labels))


def _check_indices(path: Path, key: str, values: np.ndarray) -> None:
    """Raise DataError unless an array is a list of whole numbers."""
    if values.ndim != 1 or values.dtype.kind not in "iu":
        raise DataError(f"{path}: {key!r} must be a list of whole numbers.")


def _csr(
    path: Path,
    key: str,
    data: np.ndarray,
    indices: np.ndarray,
    indptr: np.ndarray,
    shape: tuple[int, ...],
) -> sparse.csr_array:
    """Return a checked CSR matrix."""
    _check_indices(path, f"indices of {key}", indices)
    _check_indices(path, f"indptr of {key}", indptr)
    try:
        matrix = sparse.csr_array((data, indices, indptr), shape=shape)
        check_sparse(matrix)
    except (ValueError, TypeError, IndexError, OverflowError) as error:
        reason = reason_of(error)
        raise DataError(f"{path}: the sparse matrix {key} is damaged ({reason}).") from error
    matrix.sort_indices()
    return matrix


def _names(path: Path, arrays: dict[str, np.ndarray], key: str) -> list[str] | None:
    """Return a list of names, or None if the file has none."""
    if key not in arrays:
        return None
    if arrays[key].ndim != 1:
        raise DataError(f"{path}: {key!r} must be a list of names.")
    names = arrays[key].tolist()
    return [n.decode("utf-8", "replace") if isinstance(n, bytes) else str(n) for n in names]


def _description(path: Path, arrays: dict[str, np.ndarray], n_features: int) -> str:
    """Return what the file says about itself."""
    text = arrays.get("description")
    if text is None:
        return "" if n_features else "Labels only: the source has no features."
    if text.size != 1 or text.dtype.kind != "U":
        raise DataError(f"{path}: 'description' must be one text.")
    return str(text.item())


def _n_train(path: Path, arrays: dict[str, np.ndarray], n_samples: int) -> int | None:
    """Return the number of training rows, or None if the file has none."""
    if "n_train" not in arrays:
        return None
    value = arrays["n_train"]
    if value.size != 1 or value.dtype.kind not in "iu" or not 0 <= value.item() <= n_samples:
        found = brief(value.tolist())
        raise DataError(f"{path}: n_train must be a number of rows up to {n_samples}, not {found}.")
    return int(value.item())


def _folds(
    path: Path, arrays: dict[str, np.ndarray], n_samples: int
) -> list[tuple[np.ndarray, np.ndarray]] | None:
    """Return the (train, test) row indices of each fold, or None without masks."""
    masks = [arrays.get(key) for key in ("train_mask", "test_mask")]
    if all(mask is None for mask in masks):
        return None
    train, test = masks
    if (
        train is None
        or test is None
        or train.shape != test.shape
        or train.ndim != 2
        or len(train) != n_samples
        or any(mask.dtype.kind not in "biuf" for mask in (train, test))
    ):
        raise DataError(
            f"{path}: train_mask and test_mask must be two masks of the same shape, with "
            f"{n_samples} rows."
        )
    return [
        (np.flatnonzero(train[:, fold]), np.flatnonzero(test[:, fold]))
        for fold in range(train.shape[1])
    ]
