"""The server: on this machine only, at an address that nobody else can guess."""

import errno
import os
import secrets
import socket
import threading
import webbrowser
from collections.abc import Callable

from schirn._optional import optional
from schirn.exceptions import InputError
from schirn.review._open import open_session
from schirn.review._trainer import Trainer

HOST = "127.0.0.1"


def serve(
    folder: str | os.PathLike[str],
    *,
    port: int = 0,
    browser: bool = True,
    retrain_every: int = 20,
    ready: Callable[[str], None] | None = None,
) -> int:
    """Serve the review page until Ctrl-C; return the number of tags decided.

    Parameters
    ----------
    folder : path of a project
    port : 0 takes a free one
    browser : open the page
    retrain_every : decisions between two trainings; 0 never trains
    ready : gets the address, token included, once it can be opened

    Examples
    --------
    >>> from schirn.review import serve
    >>> serve("/nowhere")
    Traceback (most recent call last):
    ...
    schirn.exceptions.DataError: /nowhere: not a review project (there is no project.json); \
make one with: schirn clean DATA --project /nowhere
    """
    optional("starlette", "review", "The review page")
    uvicorn = optional("uvicorn", "review", "The review page")
    from schirn.review._app import create_app

    session = open_session(folder)
    trainer = Trainer(session, retrain_every)
    try:
        with _listen(port) as listener:
            token, port = secrets.token_urlsafe(32), listener.getsockname()[1]
            # Without an access log: it would hold the token.
            config = uvicorn.Config(
                create_app(session, trainer, token, port),
                access_log=False,
                log_level="warning",
                lifespan="off",
                ws="none",
                server_header=False,
                proxy_headers=False,
                timeout_graceful_shutdown=2,
            )
            _announce(f"http://{HOST}:{port}/?token={token}", browser, ready)
            trainer.poke()
            _run(uvicorn.Server(config), listener)
    finally:
        trainer.stop()
        session.journal.close()
    return int(session.view()["progress"]["decided"])


def _listen(port: int) -> socket.socket:
    """A socket that takes connections from this machine only."""
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        if os.name == "posix":
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((HOST, port))
        listener.listen(64)
    except OSError as error:
        listener.close()
        if error.errno in (errno.EADDRINUSE, errno.EACCES):
            raise InputError(
                f"port {port} cannot be used ({error.strerror}); choose another with --port, "
                f"or leave it out to take a free one"
            ) from None
        raise
    return listener


def _announce(address: str, browser: bool, ready: Callable[[str], None] | None) -> None:
    if ready is not None:
        ready(address)
    if browser:
        # A browser that runs in the terminal would keep us waiting.
        threading.Thread(target=webbrowser.open, args=(address,), daemon=True).start()


def _run(server: object, listener: socket.socket) -> None:
    """Serve until Ctrl-C, which is how this is meant to end."""
    try:
        server.run(sockets=[listener])  # type: ignore[attr-defined]
    except KeyboardInterrupt:
        return
