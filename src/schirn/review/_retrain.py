"""Retraining in a process of its own: `python -m schirn.review._retrain FOLDER SEQUENCE`.

It reads project and journal, trains, and writes the new confidences to stdout as one array. A
failure, even for want of memory, ends this process and not the page.
"""

import io
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from schirn._files import read_archive
from schirn.datasets._npz import _features
from schirn.exceptions import DataError, EmptyCandidatesWarning
from schirn.methods import Sieve
from schirn.review._journal import Journal
from schirn.review._project import Project, read_project
from schirn.review._session import DROP, KEEP, Session

Array = np.ndarray


def new_confidence(project: Project, status: Array) -> Array:
    """Confidence of every tag after training with the decisions as knowledge."""
    X = _read_features(project)
    shape = (len(project.items), len(project.labels))
    candidates = np.zeros(shape, dtype=np.uint8)
    candidates[project.row, project.column] = 1
    model = Sieve(features="none" if _unit_rows(X) else "auto")
    # Tags of rows that were checked beforehand come with confidence 1.
    true = (status == KEEP) | ((project.confidence == 1) & (status != DROP))
    known = np.zeros(shape, dtype=np.int8)
    known[project.row, project.column] = np.where(true, 1, np.where(status == DROP, -1, 0))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", EmptyCandidatesWarning)
        model.fit(X, candidates, known=known)
    confidence = model.label_confidence_[project.row, project.column].astype(np.float64)
    if not np.isfinite(confidence).all():
        raise DataError(f"{project.features}: training gave no usable confidences")
    return confidence


def _read_features(project: Project) -> Any:
    path = project.features
    if path is None:
        raise DataError(f"{project.folder}: the project has no features to train on")
    X = _features(path, read_archive(path))
    if X is None or X.shape[0] != len(project.items):
        found = "no features" if X is None else f"{X.shape[0]} rows"
        raise DataError(f"{path}: {found}, but the project has {len(project.items)} items")
    return X


def _unit_rows(X: Any) -> bool:
    """Whether the rows are sparse and of length one: text that is weighted already."""
    if not sparse.issparse(X):
        return False
    squares = np.asarray(X.multiply(X).sum(axis=1)).ravel()
    return bool(np.all((squares == 0) | (np.abs(squares - 1) < 1e-3)))


def main(folder: str, sequence: str) -> int:
    """Train and write; one sentence on stderr where that fails."""
    try:
        project = read_project(folder)
        journal = Journal(Path(folder, "journal.jsonl"), project.fingerprint, write=False)
        del journal.records[int(sequence) :]
        confidence = new_confidence(project, Session(project, journal).status)
    except Exception as error:
        sys.stderr.write(f"{' '.join(str(error).split()) or type(error).__name__}\n")
        return 1
    buffer = io.BytesIO()
    np.save(buffer, confidence, allow_pickle=False)
    sys.stdout.buffer.write(buffer.getvalue())
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
