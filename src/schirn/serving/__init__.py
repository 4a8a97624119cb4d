"""A tagger behind HTTP; see `schirn serve`."""

import os
import signal
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

from schirn._files import file_hash, reason_of
from schirn._optional import optional
from schirn.persist import load, read_notes

__all__ = ["serve"]


def serve(
    model: str | os.PathLike[str],
    *,
    host: str = "127.0.0.1",
    port: int = 8000,
    token: str | None = None,
    max_rows: int = 10_000,
    max_bytes: int = 16 * 1024**2,
    timeout: float = 30.0,
    ready: Callable[[str], None] | None = None,
    tell: Callable[..., None] | None = None,
) -> None:
    """Serve a tagger until SIGTERM or Ctrl-C; requests in flight are answered first.

    SIGHUP loads the model file again. Requests that come meanwhile are answered with the old model,
    which also stays if the file cannot be read.

    Parameters
    ----------
    model : path
        File of a `TagPipeline`.
    host : str
        Address to listen at; 0.0.0.0 for all of this machine.
    port : int
        0 chooses a free one.
    token : str, optional
        Requests must have the header ``Authorization: Bearer TOKEN``.
    max_rows, max_bytes : int
        Largest request.
    timeout : float
        Seconds for a request.
    ready : callable, optional
        Called with the address as soon as connections are accepted.
    tell : callable, optional
        Called with a sentence when the model was loaded again, and with ``error=True`` when that
        failed.
    """
    optional("starlette", "review", "The server")
    uvicorn = optional("uvicorn", "review", "The server")
    from schirn.serving.app import Limits
    from schirn.serving.connections import OPTIONS, listen
    from schirn.serving.metrics import Metrics

    limits = Limits(max_rows, max_bytes, timeout)
    app = _Reloadable(partial(_make_app, model, token, limits, Metrics()))

    say = tell or (lambda *_, **__: None)

    def reload() -> None:
        try:
            app.load()
            say("the model was loaded again")
        # Whatever is wrong with the new file, the old model answers.
        except Exception as error:
            say(
                f"the model was not loaded again; the old one stays: {reason_of(error)}", error=True
            )

    config = uvicorn.Config(
        app, log_level="error", timeout_graceful_shutdown=int(timeout) + 1, **OPTIONS
    )
    with listen(host, port) as listener:
        if hasattr(signal, "SIGHUP"):
            # In a thread, so that requests are answered meanwhile.
            signal.signal(signal.SIGHUP, lambda *_: threading.Thread(target=reload).start())
        if ready is not None:
            ready(f"http://{host}:{listener.getsockname()[1]}")
        # uvicorn sends itself the signal again after it has stopped.
        with suppress(KeyboardInterrupt):
            uvicorn.Server(config).run(sockets=[listener])


def _make_app(model: Any, token: str | None, limits: Any, metrics: Any) -> Any:
    from schirn.serving.app import create_app

    notes = read_notes(model).get("provenance", {})
    about = {"sha256": file_hash(model), "trained": notes.get("time"), "by": notes.get("schirn")}
    return create_app(load(model), token=token, limits=limits, metrics=metrics, about=about)


class _Reloadable:
    """The application with the model that was loaded last."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self._make = make
        self.load()

    def load(self) -> None:
        self._app = self._make()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        await self._app(scope, receive, send)
