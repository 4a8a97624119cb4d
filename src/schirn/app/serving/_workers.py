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
from uvicorn.supervisors.multiprocess import Process

from schirn._files import file_hash, reason_of, utc_now
from schirn.app.serving._access import AccessLog
from schirn.app.serving._connections import OPTIONS, PatientProtocol
from schirn.app.serving._metrics import Metrics, Reloads
from schirn.app.serving.app import Limits, create_app
from schirn.app.workflow import read_vocabulary, vocabulary_in_training
from schirn.exceptions import InputError
from schirn.features import TagPipeline
from schirn.persist import load, read_notes

# A worker that does not respond for this long is killed and restarted.
_HEALTH_SECONDS = 120
# After a reload that only some workers have finished, the others try again every few seconds.
_RETRY_SECONDS = 10
# How often a wait looks for a signal to stop.
_LOOK_SECONDS = 0.5
_STOPS = {signal.SIGINT, signal.SIGTERM, getattr(signal, "SIGBREAK", signal.SIGTERM)}
# File in which a worker that cannot start gives the reason, next to the counters.
_REASON = "reason"
_JSON_LOG: dict[str, Any] = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"json": {"()": "schirn.program.output.JsonLines"}},
    "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "json"}},
    "loggers": {"uvicorn": {"handlers": ["stderr"], "propagate": False}},
}


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
            "loaded": utc_now(),
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
        # Without requests to finish, a signal ends this process at once.
        finish = signal.signal(signal.SIGTERM, signal.SIG_DFL)
        try:
            access_log = None if self.access_log is None else AccessLog(self.access_log)
            app = self.load(Metrics(self.counters), access_log)
        # The supervisor reports it.
        except Exception as error:
            Path(self.counters, _REASON).write_text(reason_of(error), "utf-8")
            sys.exit(1)
        signal.signal(signal.SIGTERM, finish)
        return app


class Workers(Multiprocess):
    """Processes that are restarted if they die, and one after the other on SIGHUP."""

    def __init__(
        self,
        app: Application,
        n_workers: int,
        listener: socket.socket,
        ready: Callable[[], Any],
        tell: Callable[..., None] | None,
        log_json: bool = False,
        start_seconds: float = 120,
    ) -> None:
        log: dict[str, Any] = {"log_config": _JSON_LOG} if log_json else {}
        config = Config(
            app,
            factory=True,
            workers=n_workers,
            http=PatientProtocol,
            log_level="error",
            timeout_graceful_shutdown=int(app.limits.seconds) + 1,
            timeout_worker_healthcheck=max(_HEALTH_SECONDS, int(start_seconds)),
            **OPTIONS,
            **log,
        )
        super().__init__(config, [listener])
        # A shell sends these signals to all processes of a job; workers inherit the block.
        if os.name == "posix":
            signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT, signal.SIGHUP))
        self._app = app
        self._ready = ready
        self._tell = tell or (lambda *_, **__: None)
        self._reloads = Reloads()
        self._start_seconds = start_seconds
        # Workers that a reload has not replaced yet, although it has replaced others.
        self._outdated: list[Process] = []
        self._retry_time = 0.0

    def init_processes(self) -> None:
        """Start the workers, and wait until all of them are ready."""
        super().init_processes()
        stuck = next((worker for worker in self.processes if not self._starts(worker)), None)
        if stuck is None:
            self._ready()
        elif not self._is_stopping():
            self.terminate_all()
            raise InputError(f"a worker of the server did not start: {self._reason(stuck)}")

    def terminate_all(self) -> None:
        """Stop the workers; new connections are refused rather than left without an answer."""
        for listener in self.sockets:
            listener.close()
        super().terminate_all()

    def handle_signals(self) -> None:
        """Handle the signals that have arrived."""
        if os.name == "posix":
            for number in signal.sigpending():
                self.signal_queue.append(signal.sigwait({number}))
        super().handle_signals()

    def keep_subprocess_alive(self) -> None:
        """Restart the workers that have died, and continue a reload that is not complete."""
        workers = list(self.processes)
        super().keep_subprocess_alive()
        for worker in set(workers) - set(self.processes):
            code = worker.exitcode
            self._tell(
                f"a worker of the server died (code {code}); it is started again", error=True
            )
        for worker in set(self.processes) - set(workers):
            if not (self._starts(worker) or self._is_stopping()):
                reason = self._reason(worker)
                self._tell(f"a worker of the server did not start: {reason}", error=True)
        if self._outdated and time.monotonic() >= self._retry_time and not self._is_stopping():
            self._replace_outdated()

    def restart_all(self) -> None:
        """Replace every worker; a model that no worker can load leaves the old ones."""
        self._outdated = list(self.processes)
        self._replace_outdated()

    def _replace_outdated(self) -> None:
        """Replace the workers with the old model, one after the other.

        A signal to stop ends this at once, and the loop of uvicorn then stops all workers.
        """
        # Workers that died meanwhile were restarted with the new model.
        self._outdated = [worker for worker in self._outdated if worker in self.processes]
        while self._outdated:
            old = self._outdated[0]
            new = Process(self.config, self.sockets)
            new.start()
            if not self._starts(new):
                reason = self._reason(new)
                new.kill()
                new.join()
                if not self._is_stopping():
                    self._end_reload(reason)
                return
            self.processes[self.processes.index(old)] = new
            self._outdated.remove(old)
            old.terminate()
            while old.process.is_alive():
                if self._is_stopping():
                    # Its requests are in flight, too.
                    self.processes.append(old)
                    return
                old.process.join(_LOOK_SECONDS)
        self._end_reload()

    def _end_reload(self, reason: str = "") -> None:
        """Count and report how many workers have reloaded the model, and why others have not."""
        n_workers = len(self.processes)
        n_loaded = n_workers - len(self._outdated)
        self._reloads = self._reloads.after(n_loaded == n_workers)
        self._reloads.write(self._app.counters)
        if n_loaded == n_workers:
            self._tell("the model was loaded again by all workers")
        elif n_loaded == 0:
            self._outdated = []
            self._tell(f"the model was not loaded again; the old one stays: {reason}", error=True)
        else:
            self._retry_time = time.monotonic() + _RETRY_SECONDS
            self._tell(
                f"the model was loaded again by {n_loaded} of {n_workers} workers only, and the "
                f"others try again every {_RETRY_SECONDS} seconds: {reason}",
                error=True,
            )

    def _starts(self, worker: Process) -> bool:
        """Wait until a worker answers; False if it dies, takes too long, or the server stops."""
        deadline = time.monotonic() + self._start_seconds
        while worker.process.is_alive() and time.monotonic() < deadline:
            if self._is_stopping():
                return False
            if worker.wait_until_ready(_LOOK_SECONDS):
                return True
        return False

    def _is_stopping(self) -> bool:
        """Whether a signal to stop has arrived; uvicorn's loop handles it next."""
        arrived = set(self.signal_queue)
        if os.name == "posix":
            arrived |= signal.sigpending()
        return self.should_exit.is_set() or not arrived.isdisjoint(_STOPS)

    def _reason(self, worker: Process) -> str:
        """Return the reason why a worker has not started."""
        if worker.process.is_alive():
            return f"no answer within {self._start_seconds:g} seconds; see --start-timeout"
        file = self._app.counters / _REASON
        if not file.exists():
            return f"it died (code {worker.exitcode})"
        reason = file.read_text("utf-8")
        file.unlink()
        return reason


def _stop_with(parent: int) -> None:
    """Stop this process if its supervisor is killed."""
    while os.getppid() == parent:
        time.sleep(1)
    os.kill(os.getpid(), signal.SIGTERM)
