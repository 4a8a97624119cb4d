"""A tagger as an HTTP service; see `schirn serve`. Requires the extra `review`."""
# ruff: noqa: E402

import os
import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from schirn._optional import optional

# Before the modules below import them: a missing package raises MissingExtraError.
optional("starlette", "review", "The server")
optional("uvicorn", "review", "The server")

from schirn.app.serving._connections import HEADERS as HEADERS
from schirn.app.serving._connections import OPTIONS as OPTIONS
from schirn.app.serving._connections import REFUSALS as REFUSALS
from schirn.app.serving._connections import LimitedProtocol as LimitedProtocol
from schirn.app.serving._connections import listen as listen
from schirn.app.serving._connections import read_json as read_json

__all__ = ["serve"]


def serve(
    model: str | os.PathLike[str],
    *,
    host: str = "127.0.0.1",
    port: int = 8000,
    workers: int = 1,
    token: str | None = None,
    max_rows: int = 10_000,
    max_bytes: int = 16 * 1024**2,
    max_characters: int = 2_000_000,
    timeout: float = 30.0,
    start_timeout: float = 120.0,
    allow_hosts: Sequence[str] = (),
    access_log: str | os.PathLike[str] | None = None,
    vocabulary: str | os.PathLike[str] | None = None,
    add_implied: bool = True,
    ready: Callable[[str], None] | None = None,
    tell: Callable[..., None] | None = None,
    log_json: bool = False,
) -> None:
    """Serve a tagger until SIGTERM or Ctrl-C; requests in flight are answered first.

    Workers are processes that share a socket. On SIGHUP, new workers with the present content of
    the model file replace them one by one, and each answers before the old one stops. If only some
    of them start, the others try again until all have the same model. Dead workers are restarted.

    Parameters
    ----------
    model : path
        File of a `TagPipeline`.
    host : str, default="127.0.0.1"
        Address to listen at; 0.0.0.0 for all addresses of this machine.
    port : int, default=8000
        Port to listen at; 0 chooses a free port.
    workers : int, default=1
        Number of processes.
    token : str, optional
        Requests must have the header ``Authorization: Bearer TOKEN``.
    max_rows, max_bytes, max_characters : int
        Maximum size of a request; characters are those of its texts.
    timeout : float, default=30
        Time limit of a request in seconds.
    start_timeout : float, default=120
        Time in seconds within which a worker must have loaded the model.
    allow_hosts : sequence of str
        Without a token, requests are answered if their header ``Host`` is an address, localhost,
        `host`, or one of these names; "*" allows all.
    access_log : path, optional
        File that gets one line with a JSON object per request; "-" is stderr.
    vocabulary, add_implied : path, optional, and bool, default=True
        Vocabulary for the tags to judge (default: as in training), and whether it adds tags.
    ready, tell : callable, optional
        Called with the address as soon as requests are answered; and with a sentence when a worker
        has died or the model was reloaded, with ``error=True`` if anything failed.
    log_json : bool, default=False
        Write the errors of the workers to stderr as lines of JSON.
    """
    from schirn.app.serving._access import AccessLog
    from schirn.app.serving._connections import listen
    from schirn.app.serving._workers import Application, Workers
    from schirn.app.serving.app import Limits

    with tempfile.TemporaryDirectory() as folder:
        app = Application(
            str(model),
            token=token,
            limits=Limits(max_rows, max_bytes, timeout, characters=max_characters),
            counters=Path(folder),
            hosts=(host, *allow_hosts),
            access_log=None if access_log is None else str(access_log),
            vocabulary=None if vocabulary is None else str(vocabulary),
            add_implied=add_implied,
        )
        # Errors in the model or the log are reported now, not by a worker.
        app.load()
        if app.access_log is not None:
            AccessLog(app.access_log).close()
        with listen(host, port) as listener:
            address = f"http://{host}:{listener.getsockname()[1]}"
            announce = (lambda: None) if ready is None else partial(ready, address)
            Workers(
                app,
                workers,
                listener,
                ready=announce,
                tell=tell,
                log_json=log_json,
                start_seconds=start_timeout,
            ).run()
