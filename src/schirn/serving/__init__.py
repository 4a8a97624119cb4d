"""A tagger behind HTTP; see `schirn serve`."""

import multiprocessing
import os
import signal
import socket
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from schirn._files import file_hash, reason_of
from schirn._optional import optional
from schirn.exceptions import InputError
from schirn.persist import load, read_notes

__all__ = ["ServerError", "serve"]

_START_SECONDS = 120.0
# Deaths of workers, and the seconds within which that many make the server stop.
_MAX_DEATHS, _DEATH_SECONDS = 5, 60.0
_POLL_SECONDS = 0.05


class ServerError(RuntimeError):
    """The workers of a server die again and again."""


def serve(
    model: str | os.PathLike[str],
    *,
    host: str = "127.0.0.1",
    port: int = 8000,
    workers: int = 1,
    token: str | None = None,
    max_rows: int = 10_000,
    max_bytes: int = 16 * 1024**2,
    timeout: float = 30.0,
    ready: Callable[[str], None] | None = None,
    tell: Callable[..., None] | None = None,
) -> None:
    """Serve a tagger until SIGTERM or Ctrl-C; requests in flight are answered first.

    The workers are processes that share one socket. SIGHUP starts them again, one after the other,
    with the model that the file holds then: a new one answers before the old one stops. A worker
    that dies is started again, unless that happens several times within a minute.

    Parameters
    ----------
    model : path
        File of a `TagPipeline`.
    host : str
        Address to listen at; 0.0.0.0 for all of this machine.
    port : int
        0 chooses a free one.
    workers : int
        Number of processes.
    token : str, optional
        Requests must have the header ``Authorization: Bearer TOKEN``.
    max_rows, max_bytes : int
        Largest request.
    timeout : float
        Seconds for a request.
    ready : callable, optional
        Called with the address as soon as requests are answered.
    tell : callable, optional
        Called with a sentence when a worker has died or the model was loaded again, and with
        ``error=True`` unless all went well.
    """
    optional("starlette", "review", "The server")
    optional("uvicorn", "review", "The server")
    from schirn.serving.app import Limits
    from schirn.serving.connections import listen
    from schirn.serving.metrics import Metrics

    make_app = partial(_make_app, model, token, Limits(max_rows, max_bytes, timeout))
    # What is wrong with the model is said now, not by a worker.
    make_app()
    with tempfile.TemporaryDirectory() as folder, listen(host, port) as listener:
        counters = partial(Metrics, Path(folder, "counters"), workers)
        port = listener.getsockname()[1]
        work = partial(_work, make_app, counters, listener, int(timeout) + 1)
        supervisor = _Supervisor(work, make_app, workers, tell or (lambda *_, **__: None))
        supervisor.run(lambda: ready and ready(f"http://{host}:{port}"))


def _make_app(model: Any, token: str | None, limits: Any, metrics: Any = None) -> Any:
    from schirn.serving.app import create_app

    notes = read_notes(model).get("provenance", {})
    about = {"sha256": file_hash(model), "trained": notes.get("time"), "by": notes.get("schirn")}
    return create_app(load(model), token=token, limits=limits, metrics=metrics, about=about)


@dataclass(eq=False)
class _Supervisor:
    """Starts workers, starts those that die again, and stops them."""

    work: Callable[..., None]
    check: Callable[[], Any]
    n_workers: int
    tell: Callable[..., None]
    deaths: list[float] = field(default_factory=list)
    workers: list[Any] = field(default_factory=list)
    is_over: bool = False
    is_stale: bool = False

    def run(self, ready: Callable[[], Any]) -> None:
        """Serve until a signal says otherwise."""
        handlers = {"SIGTERM": self._stop, "SIGINT": self._stop, "SIGHUP": self._restart}
        # Windows has no SIGHUP.
        numbers = {
            getattr(signal, name): handlers[name] for name in handlers if hasattr(signal, name)
        }
        usual = {number: signal.signal(number, handler) for number, handler in numbers.items()}
        try:
            self.workers = [self._start(k) for k in range(self.n_workers)]
            if not all(worker.is_alive() for worker in self.workers) and not self.is_over:
                raise InputError("a worker of the server did not start; see what it has printed")
            ready()
            while not self.is_over:
                if self.is_stale:
                    self.is_stale = False
                    self._replace_all()
                for k, worker in enumerate(self.workers):
                    if not worker.is_alive() and not self.is_over:
                        self._count_death(worker.exitcode)
                        self.workers[k] = self._start(k)
                time.sleep(_POLL_SECONDS)
        finally:
            for worker in self.workers:
                worker.terminate()
            for worker in self.workers:
                worker.join()
            for number, handler in usual.items():
                signal.signal(number, handler)

    def _stop(self, *_: Any) -> None:
        self.is_over = True

    def _restart(self, *_: Any) -> None:
        self.is_stale = True

    def _count_death(self, code: int) -> None:
        """Say that a worker is started again, or raise if that happens too often."""
        now = time.monotonic()
        self.deaths = [then for then in self.deaths if now - then < _DEATH_SECONDS] + [now]
        if len(self.deaths) >= _MAX_DEATHS:
            raise ServerError(
                f"workers of the server have died {_MAX_DEATHS} times within a minute, the last "
                f"one with code {code}"
            )
        self.tell(f"a worker of the server died (code {code}); it is started again", error=True)

    def _replace_all(self) -> None:
        """Start every worker again; a model that cannot be loaded leaves the old ones."""
        try:
            self.check()
        # Whatever is wrong with the new file, the old model answers.
        except Exception as error:
            reason = reason_of(error)
            self.tell(f"the model was not loaded again; the old one stays: {reason}", error=True)
            return
        for k, old in enumerate(self.workers):
            new = self._start(k)
            if not new.is_alive():
                self.tell(
                    "a worker with the new model did not start; the old one stays", error=True
                )
                return
            self.workers[k] = new
            old.terminate()
            old.join()
        self.tell("the model was loaded again by all workers")

    def _start(self, k: int) -> Any:
        """Start a worker and wait until it answers; one that does not is not alive."""
        methods = multiprocessing.get_all_start_methods()
        context: Any = multiprocessing.get_context("fork" if "fork" in methods else "spawn")
        is_ready = context.Event()
        worker = context.Process(target=self.work, args=(k, is_ready), daemon=True)
        worker.start()
        deadline = time.monotonic() + _START_SECONDS
        while not is_ready.wait(_POLL_SECONDS) and worker.is_alive() and not self.is_over:
            if time.monotonic() > deadline:
                worker.kill()
        return worker


def _work(
    make_app: Callable[[Any], Any],
    counters: Callable[[int], Any],
    listener: socket.socket,
    seconds: int,
    k: int,
    is_ready: Any,
) -> None:
    """Serve in one process, until SIGTERM."""
    import uvicorn

    from schirn.serving.connections import OPTIONS, PatientProtocol

    # Ctrl-C reaches all processes of the terminal; the supervisor decides.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    threading.Thread(target=_stop_with, args=(os.getppid(),), daemon=True).start()
    config = uvicorn.Config(
        make_app(counters(k)),
        http=PatientProtocol,
        log_level="error",
        timeout_graceful_shutdown=seconds,
        **OPTIONS,
    )

    class Server(uvicorn.Server):
        async def startup(self, sockets: Any = None) -> None:
            await super().startup(sockets)
            is_ready.set()

        async def shutdown(self, sockets: Any = None) -> None:
            self.server_state.default_headers.append((b"connection", b"close"))
            await super().shutdown(sockets)

    # uvicorn sends itself the signal again after it has stopped.
    signal.signal(signal.SIGTERM, lambda *_: None)
    Server(config).run(sockets=[listener])


def _stop_with(parent: int) -> None:
    """Stop this process when its supervisor was killed."""
    while os.getppid() == parent:
        time.sleep(1)
    os.kill(os.getpid(), signal.SIGTERM)
