"""The local server, reachable from this machine only, at an address that cannot be guessed."""

import contextlib
import os
import secrets
import threading
import webbrowser
from collections.abc import Callable
from pathlib import Path
from typing import Any

from schirn._optional import optional
from schirn.app.review._session import Session, open_session

HOST = "127.0.0.1"


def serve(
    folder: str | os.PathLike[str],
    *,
    port: int = 0,
    browser: bool = True,
    ready: Callable[[str], None] | None = None,
    session: Session | None = None,
    **options: Any,
) -> int:
    """Serve the review page until Ctrl-C and return the number of decided tags.

    Parameters
    ----------
    folder : path
        Folder written by ``schirn review``.
    port : int, default=0
        Port of the server; 0 chooses a free port.
    browser : bool, default=True
        Open the page in the browser, unless others could read the token that way.
    ready : callable, optional
        Called with the address, including the token, as soon as the page can be opened.
    session : Session, optional
        The folder, if it is already open; it is closed at the end.
    **options
        `name`, `image_root` and `decisions`, passed to `open_session` if no session is given.

    Returns
    -------
    int
        Number of decided tags.

    Examples
    --------
    >>> from schirn.app.review import serve
    >>> serve("/nowhere")
    Traceback (most recent call last):
    ...
    schirn.exceptions.DataError: /nowhere: not a review project (project.json is missing); \
start a review of a table with: schirn review TABLE
    """
    optional("starlette", "review", "The review page")
    uvicorn = optional("uvicorn", "review", "The review page")
    from schirn.app.review._app import create_app
    from schirn.app.serving import OPTIONS, LimitedProtocol, listen

    if session is None:
        session = open_session(folder, **options)
    page: Path | None = None

    def forget() -> None:
        if page is not None:
            page.unlink(missing_ok=True)

    try:
        # A damaged table stops the command now, not the page later.
        session.table.cells  # noqa: B018
        with listen(HOST, port) as listener:
            token = secrets.token_urlsafe(32)
            port = listener.getsockname()[1]
            address = f"http://{HOST}:{port}/?token={token}"
            page = _write_redirect(Path(folder), address) if browser else None
            app = create_app(session, token, port, opened=forget)
            # No log, so that invalid requests cannot flood the terminal. The application reports
            # its own errors.
            usual = {**OPTIONS, "log_level": "critical", "timeout_graceful_shutdown": 2}
            config = uvicorn.Config(app, http=LimitedProtocol, **usual)
            if ready is not None:
                ready(address)
            if page is not None:
                # In a thread, because a browser that runs in the terminal would block.
                threading.Thread(target=webbrowser.open, args=(page.as_uri(),), daemon=True).start()
            # Ctrl-C is the normal way to stop.
            with contextlib.suppress(KeyboardInterrupt):
                uvicorn.Server(config).run(sockets=[listener])
            session.journal.check()
    finally:
        forget()
        session.journal.close()
    return session.n_decided


def _write_redirect(folder: Path, address: str) -> Path | None:
    """Write a private file that redirects the browser to the page; None if others could read it.

    The address contains the token, and all users of the machine can read command lines. The file is
    in the project folder, because a sandboxed browser may not be able to read the temporary folder.
    """
    path = folder.resolve() / f"open-{secrets.token_hex(4)}.html"
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with open(file, "w", encoding="utf-8") as stream:
        # Some file systems do not support permissions.
        if os.name == "posix" and os.fstat(file).st_mode & 0o077:
            path.unlink()
            return None
        stream.write(
            f'<!doctype html><meta charset="utf-8"><title>schirn review</title>'
            f'<meta name="referrer" content="no-referrer">'
            f'<meta http-equiv="refresh" content="0; url={address}">'
            f'<p>If nothing happens, <a href="{address}">open the review page</a>.</p>'
        )
    return path
