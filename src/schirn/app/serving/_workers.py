"""Worker processes of a server, supervised by uvicorn."""

import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from starlette.types import ASGIApp
from uvicorn import Config
from uvicorn.supervisors import Multiprocess

from schirn._files import file_hash, reason_of
from schirn.app.serving._access import AccessLog
from schirn.app.serving._connections import OPTIONS, PatientProtocol
from schirn.app.serving._metrics import Metrics
from schirn.app.serving.app import Limits, create_app
from schirn.app.workflow import read_vocabulary, vocabulary_in_training
from schirn.exceptions import InputError
from schirn.features import TagPipeline
from schirn.persist import load, read_notes

# Long enough to import the libraries and read the model on a busy machine.
_START_SECONDS = 120


@dataclass(frozen=True)
class Application:
    """Settings from which each process creates its application."""

    model: str
    token: str | None
    limits: Limits
    counters: Path
    """Folder of the counters of all processes."""
    hosts: tuple[str, ...] = ()
    """Host names that are allowed without a token."""
    access_log: str | None = None
    """File that gets one line per request."""
    vocabulary: str | None = None
    """Vocabulary that is applied to tags before they are judged; by default as in training."""
    add_implied: bool = True
    """True adds the tags that this vocabulary implies."""

    def load(self, metrics: Metrics | None = None, access_log: AccessLog | None = None) -> ASGIApp:
        """Return the application with the present content of the model file."""
        notes = read_notes(self.model)
        origin = notes.get("provenance", {})
        about = {
            "sha256": file_hash(self.model),
            "trained": origin.get("time"),
            "by": origin.get("schirn"),
        }
        # `create_app` rejects any other model.
        model = cast(TagPipeline, load(self.model))
        vocabulary, add_implied = vocabulary_in_training(notes)
        if self.vocabulary is not None:
            vocabulary = read_vocabulary(self.vocabulary)
            add_implied = self.add_implied
        return create_app(
            model,
            token=self.token,
            limits=self.limits,
            metrics=metrics,
            about=about,
            hosts=self.hosts,
            access_log=access_log,
            vocabulary=vocabulary,
            add_implied=add_implied,
        )

    def __call__(self) -> ASGIApp:
        """Return the application of a worker."""
        threading.Thread(target=_stop_with, args=(os.getppid(),), daemon=True).start()
        try:
            access_log = None if self.access_log is None else AccessLog(self.access_log)
            return self.load(Metrics(self.counters), access_log)
        except Exception as error:
            sys.exit(f"schirn: a worker of the server did not start: {reason_of(error)}")


class Workers(Multiprocess):
    """Processes that are restarted if they die, and one after the other on SIGHUP."""

    def __init__(
        self,
        app: Application,
        n_workers: int,
        listener: socket.socket,
        ready: Callable[[], Any],
        tell: Callable[..., None] | None,
    ) -> None:
        config = Config(
            app,
            factory=True,
            workers=n_workers,
            http=PatientProtocol,
            log_level="error",
            timeout_graceful_shutdown=int(app.limits.seconds) + 1,
            timeout_worker_healthcheck=_START_SECONDS,
            **OPTIONS,
        )
        super().__init__(config, [listener])
        # A shell sends these signals to all processes of a job; workers inherit the block.
        if os.name == "posix":
            signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT, signal.SIGHUP))
        self._app = app
        self._ready = ready
        self._tell = tell or (lambda *_, **__: None)

    def init_processes(self) -> None:
        """Start the workers, and wait until all of them are ready."""
        super().init_processes()
        if all(process.wait_until_ready(_START_SECONDS) for process in self.processes):
            self._ready()
        elif not self.signal_queue:
            self.terminate_all()
            raise InputError("a worker of the server did not start; see what it has printed")

    def handle_signals(self) -> None:
        """Handle the signals that have arrived."""
        if os.name == "posix":
            for number in signal.sigpending():
                self.signal_queue.append(signal.sigwait({number}))
        super().handle_signals()

    def keep_subprocess_alive(self) -> None:
        """Restart the workers that have died."""
        workers = list(self.processes)
        super().keep_subprocess_alive()
        for worker in set(workers) - set(self.processes):
            code = worker.exitcode
            self._tell(
                f"a worker of the server died (code {code}); it is started again", error=True
            )

    def restart_all(self) -> None:
        """Replace all workers; if the model cannot be loaded, the old workers stay."""
        try:
            self._app.load()
        # Whatever the error in the new file, the old model keeps answering.
        except Exception as error:
            reason = reason_of(error)
            self._tell(f"the model was not loaded again; the old one stays: {reason}", error=True)
            return
        workers = set(self.processes)
        super().restart_all()
        # uvicorn's log says why a worker did not start.
        if workers.isdisjoint(self.processes):
            self._tell("the model was loaded again by all workers")


def _stop_with(parent: int) -> None:
    """Stop this process if its supervisor is killed."""
    while os.getppid() == parent:
        time.sleep(1)
    os.kill(os.getpid(), signal.SIGTERM)
