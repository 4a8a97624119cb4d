"""Reader for MATLAB files: version 5 by SciPy in a process of its own, version 7.3 by h5py."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from schirn._files import brief, brief_list, byte_limit, read_archive
from schirn._text import check_size
from schirn.datasets import Dataset
from schirn.exceptions import DataError
from schirn.lab.data._content import dataset_from_file, label_matrix
from schirn.lab.data._mat73 import Hdf5Variables, is_version_73

_PROGRAM = str(Path(__file__).with_name("_mat_variables.py"))
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


def read_mat(
    path: str | os.PathLike[str],
    *,
    features: str | None = None,
    truth: str | None = None,
    candidates: str | None = None,
    max_bytes: int | None = None,
) -> Dataset:
    """Read a partial multi-label set from a MATLAB file of version 5 or 7.3.

    Files of version 7.3 (saved with "-v7.3", or of more than 2 GB) need the extra ``mat73``.

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
    variables = _variables(path, byte_limit(max_bytes))
    name = _find(path, list(variables), FEATURES, features)
    if name is None:
        raise DataError(
            f"{path}: no features among the variables {brief_list(variables) or '(none)'}; "
            "name them with features=."
        )
    X = _get(path, variables, name)
    X = sparse.csr_array(X) if sparse.issparse(X) else np.asarray(X)
    if X.ndim != 2 or X.dtype.kind not in "iufb":
        kind = f"{X.dtype} of shape {X.shape}"
        raise DataError(f"{path}: the features must be a matrix of numbers, not {kind}.")
    n_samples = X.shape[0]
    labels: dict[str, Any] = {}
    for kind, usual, requested in (("truth", TRUTH, truth), ("candidates", CANDIDATES, candidates)):
        label_name = _find(path, list(variables), usual, requested)
        if label_name is not None:
            values = _get(path, variables, label_name)
            labels[kind] = _labels(path, label_name, values, n_samples)
    if not labels:
        raise DataError(
            f"{path}: no label matrix among the variables {brief_list(variables)}; "
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


def _get(path: Path, variables: Mapping[str, Any], name: str) -> Any:
    value = variables[name]
    if value is None:
        raise DataError(f"{path}: {brief(name)} is not a matrix of real numbers.")
    return value


def _labels(path: Path, name: str, values: Any, n_samples: int) -> Any:
    """Return a rows × labels matrix; the dimension that matches X holds the rows."""
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
            raise DataError(f"{path}: no variable {requested!r}; choose from {brief_list(names)}.")
        return requested
    lower = {name.lower(): name for name in reversed(names)}
    return next((lower[name.lower()] for name in usual if name.lower() in lower), None)


def _variables(path: Path, limit: int) -> Mapping[str, Any]:
    """Read the variables of a file; None for any that is not a matrix of real numbers."""
    if is_version_73(path):
        return Hdf5Variables(path, limit)
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder, "variables.npz")
        command = [sys.executable, "-P", _PROGRAM, str(path), str(target), str(limit)]
        ran = subprocess.run(command, capture_output=True, text=True, errors="replace")
        if ran.returncode:
            reason = ran.stderr.strip().rpartition("\n")[2] or f"exit code {ran.returncode}"
            raise DataError(f"{path}: not a readable MATLAB file, or truncated ({brief(reason)}).")
        arrays = read_archive(target, limit)
    return {name: _matrix(arrays, str(k)) for k, name in enumerate(arrays["names"].tolist())}


def _matrix(arrays: dict[str, np.ndarray], key: str) -> Any:
    if f"{key}.0" not in arrays:
        return arrays.get(key)
    data, indices, indptr, shape = (arrays[f"{key}.{part}"] for part in range(4))
    return sparse.csc_array((data, indices, indptr), shape=tuple(shape))
