"""Training in the background after every few decisions; the page never waits for it."""

import io
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from schirn._files import atomic_write, read_archive
from schirn.exceptions import DataError
from schirn.review._project import Project
from schirn.review._session import Session

Array = np.ndarray

STORE = "confidence.npz"


class Trainer:
    """Starts a training process when enough was decided, and takes over what it finds.

    Parameters
    ----------
    session : gets the new confidences
    every : decisions between two trainings; 0 never trains
    command : the process, to which folder and sequence number are added
    """

    def __init__(self, session: Session, every: int, command: Sequence[str] | None = None):
        self.session, self.every = session, every
        # -P: a module in the user's folder must not take the place of one of ours.
        module = [sys.executable, "-P", "-m", "schirn.review._retrain"]
        self._command = list(command or module)
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
        """What the page shows of the training."""
        with self._lock:
            done = self.session.decisions_since(self._base())
            waiting = max(self.every - done, 0) if self._status != "off" else None
            return {
                "status": self._status,
                "message": self._message,
                "waiting": waiting,
                "trained_to": self.session.trained_to,
            }

    def poke(self) -> None:
        """Start training if enough was decided and none is under way."""
        with self._lock:
            busy = self._stopped or self._status in ("off", "running")
            if busy or self.session.decisions_since(self._base()) < self.every:
                return
            self._status, self._message = "running", ""
            seq = self.session.sequence
            self._thread = threading.Thread(target=self._train, args=(seq,), daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """End a training that is under way."""
        with self._lock:
            self._stopped = True
            process = self._process
        if process is not None and process.poll() is None:
            process.kill()
        if self._thread is not None:
            self._thread.join(5)

    def wait(self, seconds: float) -> None:
        """Wait for the training that is under way."""
        if self._thread is not None:
            self._thread.join(seconds)

    def _base(self) -> int:
        """Decisions up to here were tried already, with or without success."""
        return max(self.session.trained_to, self._failed_at)

    def _train(self, seq: int) -> None:
        try:
            confidence = self._run(seq)
            self.session.use_confidence(confidence, seq)
            write_confidence(self.session.project, confidence, seq)
            status, message = "done", ""
        except Exception as error:
            status, message = "failed", " ".join(str(error).split()) or type(error).__name__
        with self._lock:
            self._failed_at = seq if status == "failed" else self._failed_at
            self._status, self._message = status, message
        self.poke()

    def _run(self, seq: int) -> Array:
        command = [*self._command, str(self.session.project.folder), str(seq)]
        pipe = subprocess.PIPE
        with self._lock:
            if self._stopped:
                raise RuntimeError("stopped")
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe
            )
        out, err = self._process.communicate()
        if self._process.returncode != 0:
            lines = err.decode(errors="replace").strip().splitlines()
            raise RuntimeError(lines[-1] if lines else f"ended with {self._process.returncode}")
        confidence = np.load(io.BytesIO(out), allow_pickle=False)
        if confidence.shape != self.session.confidence.shape:
            raise RuntimeError("the training process gave the wrong number of confidences")
        return np.asarray(confidence, dtype=np.float64)


def write_confidence(project: Project, confidence: Array, seq: int) -> None:
    """Keep the confidences for the next start and for the export."""
    with atomic_write(project.folder / STORE) as stream:
        np.savez(stream, confidence=confidence, seq=seq, project=np.array(project.fingerprint))


def read_confidence(project: Project, sequence: int) -> tuple[Array, int] | None:
    """Confidences of an earlier training; None where there are none that fit."""
    path = Path(project.folder, STORE)
    if not path.is_file():
        return None
    try:
        store = read_archive(path)
        confidence, seq = np.asarray(store["confidence"], np.float64), int(store["seq"])
        mine = str(store["project"]) == project.fingerprint
    except (DataError, OSError, ValueError, KeyError, TypeError):
        return None
    fits = confidence.shape == project.confidence.shape and np.isfinite(confidence).all()
    return (confidence, seq) if mine and fits and 0 <= seq <= sequence else None
