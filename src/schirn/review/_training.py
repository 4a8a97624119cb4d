"""Retraining in a process of its own after every few decisions; the page never waits for it.

The process reads project and journal, trains, and writes the new confidences to stdout as one
array. If it fails, even for lack of memory, the page lives on.
"""

import io
import subprocess
import sys
import tempfile
import threading
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from schirn._files import read_archive
from schirn._input import Array
from schirn._progress import shown
from schirn.datasets.npz import features_of
from schirn.exceptions import DataError, EmptyCandidatesWarning
from schirn.features.pipeline import make_method
from schirn.linalg.features import has_unit_rows
from schirn.review._journal import Journal
from schirn.review._state import DROP, KEEP
from schirn.review.project import Project, read_project
from schirn.review.session import Session

# -P: a module in the user's folder must not replace one of ours.
# The server holds the other end of stdin; when it is gone, reading returns and the process ends.
_COMMAND = (
    *(sys.executable, "-P", "-c"),
    "import os, sys, threading; "
    "threading.Thread(target=lambda: (os.read(0, 1), os._exit(1)), daemon=True).start(); "
    "from schirn.review._training import main; sys.exit(main(*sys.argv[1:]))",
)


class Trainer:
    """Starts a training process after enough decisions and hands its result to the session.

    Parameters
    ----------
    session : Session
        Gets the new confidences.
    every : int
        Decisions between two trainings; 0 never trains.
    command : sequence of str
        Command of the process; project folder and sequence number are appended.
    """

    def __init__(self, session: Session, every: int, command: Sequence[str] = _COMMAND):
        self.session, self.every = session, every
        self._command = command
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._thread: threading.Thread | None = None
        self._stopped = False
        self._failed_at = 0
        self._status, self._message = "idle", ""
        if every == 0 or session.project.features is None:
            self._status = "off"
            self._message = "" if every == 0 else "The project has no features to train on."

    def view(self) -> dict[str, Any]:
        """Return what the page shows about the training."""
        with self._lock:
            left = max(self.every - self._new_decisions(), 0)
            return {
                "status": self._status,
                "message": self._message,
                "waiting": None if self._status == "off" else left,
                "trained_to": self.session.trained_to,
            }

    def start_if_due(self) -> None:
        """Start training if there are enough new decisions and no training is running."""
        with self._lock:
            busy = self._stopped or self._status in ("off", "running")
            if busy or self._new_decisions() < self.every:
                return
            self._status, self._message = "running", ""
            seq = self.session.sequence
            self._thread = threading.Thread(target=self._train, args=(seq,), daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """End a running training; none starts afterwards."""
        with self._lock:
            self._stopped = True
            process = self._process
        if process is not None and process.poll() is None:
            process.kill()
        self.wait(5)

    def wait(self, seconds: float) -> None:
        """Wait for a running training."""
        if self._thread is not None:
            self._thread.join(seconds)

    def _new_decisions(self) -> int:
        """Return the number of decisions after the last training, whether it failed or not."""
        return self.session.decisions_since(max(self.session.trained_to, self._failed_at))

    def _train(self, seq: int) -> None:
        try:
            self.session.use_confidence(self._run(seq), seq)
            self.session.store_confidence()
            status, message = "done", ""
        except Exception as error:
            status, message = "failed", " ".join(str(error).split()) or type(error).__name__
        with self._lock:
            self._failed_at = seq if status == "failed" else self._failed_at
            self._status, self._message = status, message
        self.start_if_due()

    def _run(self, seq: int) -> Array:
        command = [*self._command, str(self.session.project.folder), str(seq)]
        pipe, lines = subprocess.PIPE, [""]
        with tempfile.TemporaryFile() as output:
            with self._lock:
                if self._stopped:
                    raise RuntimeError("stopped")
                # The process ends when its input does, even if this one is killed.
                self._process = subprocess.Popen(command, stdin=pipe, stdout=output, stderr=pipe)
            with self._process as process:
                for line in process.stderr or ():
                    lines.append(line.decode(errors="replace").strip())
                    if lines[-1].startswith("["):
                        with self._lock:
                            self._message = lines[-1]
            if process.returncode != 0:
                code = f"the process ended with code {process.returncode}"
                raise RuntimeError(lines[-1] or code)
            output.seek(0)
            confidence = np.load(output, allow_pickle=False)
        if confidence.shape != self.session.project.confidence.shape:
            raise RuntimeError("the training process returned the wrong number of confidences")
        return np.asarray(confidence, dtype=np.float64)


def main(folder: str, sequence: str) -> int:
    """Train on the first `sequence` decisions; write the confidences, or why not, to stderr."""
    try:
        project = read_project(folder)
        journal = Journal(Path(folder, "journal.jsonl"), project.fingerprint, write=False)
        del journal.records[int(sequence) :]
        session = Session(project, journal)
        added = range(len(project.row), len(session.row))
        pairs = [(session.row[k], session.column[k]) for k in added if session.status[k] == KEEP]
        with shown("training", summary=False):
            confidence = new_confidence(project, session.status[: len(project.row)], pairs)
    except Exception as error:
        sys.stderr.write(f"{' '.join(str(error).split()) or type(error).__name__}\n")
        return 1
    buffer = io.BytesIO()
    np.save(buffer, confidence, allow_pickle=False)
    sys.stdout.buffer.write(buffer.getvalue())
    return 0


def new_confidence(project: Project, status: Array, added: Sequence[tuple[int, int]] = ()) -> Array:
    """Return the confidence of every tag after training with the decisions as knowledge.

    Parameters
    ----------
    project : Project
    status : (m,) array
        Status of each tag.
    added : list of (row, column)
        Tags that a person added; new labels are left out, since the project does not know them.
    """
    X = read_features(project)
    shape = (len(project.items), len(project.labels))
    # A suggested tag that was added counts as listed; one that was rejected says nothing new.
    used = project.listed | (status == KEEP)
    row, column = project.row[used], project.column[used]
    candidates = np.zeros(shape, dtype=np.uint8)
    candidates[row, column] = 1
    # Tags of rows that were checked beforehand come with confidence 1.
    true = (status == KEEP) | ((project.confidence == 1) & (status != DROP))
    known = np.zeros(shape, dtype=np.int8)
    known[row, column] = np.where(true, 1, np.where(status == DROP, -1, 0))[used]
    for i, j in added:
        if j < len(project.labels):
            candidates[i, j] = known[i, j] = 1
    model: Any = make_method(None, scaled=is_scaled(project, X))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", EmptyCandidatesWarning)
        model.fit(X, candidates, known=known, groups=_groups(project, model.max_kernel_rows))
    confidence = project.confidence.copy()
    confidence[used] = model.label_confidence_[row, column]
    if not np.isfinite(confidence).all():
        raise DataError(f"{project.features}: training gave no usable confidences")
    return confidence


def read_features(project: Project) -> Any:
    """Return the features of the items; raise DataError if there are none."""
    path = project.features
    if path is None:
        raise DataError(f"{project.folder}: the project has no features to train on")
    X = features_of(path, read_archive(path))
    if X is None or X.shape[0] != len(project.items):
        found = "no features" if X is None else f"{X.shape[0]} rows"
        raise DataError(f"{path}: {found}, but the project has {len(project.items)} items")
    return X


def is_scaled(project: Project, X: Any) -> bool:
    """Whether the features need no scaling; projects of earlier versions do not say."""
    known = None if project.features is None else read_archive(project.features).get("scaled")
    if known is None or known.shape != () or known.dtype.kind != "b":
        return has_unit_rows(X)
    return bool(known)


def _groups(project: Project, most: int) -> Array | None:
    """Return the group of each item; None if there are none, or too many rows to use them."""
    path, n = project.features, len(project.items)
    groups = None if path is None else read_archive(path).get("groups")
    if groups is None or n > most:
        return None
    if groups.shape != (n,) or groups.dtype.kind not in "iu":
        raise DataError(f"{path}: the groups must be one number per item")
    return groups
