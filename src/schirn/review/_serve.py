"""The local server: reachable from this machine only, at an address that cannot be guessed."""

import contextlib
import errno
import os
import secrets
import socket
import threading
import webbrowser
from collections.abc import Callable

from schirn._optional import optional
from schirn.exceptions import InputError
from schirn.review._session import open_session
from schirn.review._training import Trainer

HOST = "127.0.0.1"


def serve(
    folder: str | os.PathLike[str],
    *,
    port: int = 0,
    browser: bool = True,
    retrain_every: int = 20,
    ready: Callable[[str], None] | None = None,
) -> int:
    """Serve the review page until Ctrl-C and return the number of decided tags.

    Parameters
    ----------
    folder : path
        Folder written by ``schirn clean --project``.
    port : int
        Port of the server; 0 chooses a free one.
    browser : bool
        Whether to open the page in the browser.
    retrain_every : int
        Number of decisions between two trainings; 0 never retrains.
    ready : callable, optional
        Called with the address, including the token, as soon as the page can be opened.

    Returns
    -------
    int

    Examples
    --------
    >>> from schirn.review import serve
    >>> serve("/nowhere")
    Traceback (most recent call last):
    ...
    schirn.exceptions.DataError: /nowhere: not a review project (project.json is missing); \
create one with: schirn clean TABLE --project /nowhere
    """
    optional("starlette", "review", "The review page")
    uvicorn = optional("uvicorn", "review", "The review page")
    from schirn.review._app import create_app

    session = open_session(folder)
    trainer = Trainer(session, retrain_every)
    try:
        with _listen(port) as listener:
            token, port = secrets.token_urlsafe(32), listener.getsockname()[1]
            # No access log, because it would contain the token.
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
            address = f"http://{HOST}:{port}/?token={token}"
            if ready is not None:
                ready(address)
            if browser:
                # In a thread, since a browser that runs in the terminal would block.
                threading.Thread(target=webbrowser.open, args=(address,), daemon=True).start()
            trainer.start_if_due()
            # Ctrl-C is the normal way to stop.
            with contextlib.suppress(KeyboardInterrupt):
                uvicorn.Server(config).run(sockets=[listener])
    finally:
        trainer.stop()
        session.journal.close()
    return int(session.view()["progress"]["decided"])


def _listen(port: int) -> socket.socket:
    """Return a socket that accepts connections from this machine only."""
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
                f"port {port} cannot be used ({error.strerror}); choose another port, or 0 for a "
                f"free one",
                parameter="port",
            ) from None
        raise
    return listener
