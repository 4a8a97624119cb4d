"""What both servers share: options, headers, and the limit of a request."""

import errno
import os
import socket
from typing import Any

from starlette.requests import Request

from schirn.exceptions import InputError

# For whatever a browser may make of an answer.
HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
# No access log: it would contain the token of the review page.
OPTIONS: dict[str, Any] = {
    "http": "h11",
    "ws": "none",
    "lifespan": "off",
    "access_log": False,
    "server_header": False,
    "proxy_headers": False,
}
"""How uvicorn serves."""


class TooLarge(Exception):
    """A request body over the limit."""


async def read_body(request: Request, limit: int) -> bytes:
    """Return the body of a request; raise TooLarge if it has more bytes than allowed."""
    content = b""
    async for chunk in request.stream():
        content += chunk
        if len(content) > limit:
            raise TooLarge
    return content


def listen(host: str, port: int) -> socket.socket:
    """Return a socket that accepts connections.

    Parameters
    ----------
    host : str
        Address to listen at; 127.0.0.1 accepts connections from this machine only.
    port : int
        0 chooses a free one.
    """
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        if os.name == "posix":
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
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
