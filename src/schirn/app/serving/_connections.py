"""Shared by all servers: sockets, headers, and limits on connections, requests and time."""

import asyncio
import errno
import json
import os
import socket
from collections.abc import Callable
from typing import Any

import h11
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from uvicorn.protocols.http.h11_impl import H11Protocol

from schirn.exceptions import InputError

# Security headers that restrict what browsers do with a response.
HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
# Without uvicorn's access log, which would contain the token of the review page.
OPTIONS: dict[str, Any] = {
    "access_log": False,
    "lifespan": "off",
    "ws": "none",
    "server_header": False,
    "proxy_headers": False,
}
"""Options of uvicorn."""
MAX_CONNECTIONS = 512
"""Maximum number of connections of a process."""
MAX_SURPLUS = 128
"""Number of additional connections whose requests are answered with status 503."""
OVERLOAD = "schirn.overload"
"""Key in the state of a request that came over such a connection."""
SETTLE_SECONDS = 0.5
REQUEST_SECONDS = 10.0
_CLOSE = (b"connection", b"close")
_TOO_MANY = (
    b"HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nRetry-After: 1\r\n"
    b'Connection: close\r\nContent-Length: 32\r\n\r\n{"error":"too many connections"}'
)


class LimitedProtocol(H11Protocol):
    """HTTP protocol that closes connections with incomplete requests or unread responses in time.

    A connection that sends its next request before the response to the last one is closed after
    that response. No browser does this, and many such requests would keep the server busy.

    Above the limit, a new connection replaces the one that has been waiting longest for the rest of
    its request, or for its client to read the response, unless that one is younger than
    `SETTLE_SECONDS`. Otherwise the application finds `OVERLOAD` in the state of the request, and
    responds with status 503. Every client that sends a complete request therefore gets a response,
    no matter how many others never finish theirs.
    """

    _timer: asyncio.TimerHandle | None = None
    _is_stalled = False

    def connection_made(self, transport: Any) -> None:
        """Accept a connection if there is room."""
        surplus = len(self.connections) - MAX_CONNECTIONS
        if surplus >= 0 and not self._make_room():
            if surplus >= MAX_SURPLUS:
                self._refuse(transport)
                return
            self.app_state = {**self.app_state, OVERLOAD: True}
        super().connection_made(transport)
        self._watch()

    def _make_room(self) -> bool:
        """Close the connection that has been waiting longest; return False if none waits."""
        connections: Any = self.connections
        waiting = [connection for connection in connections if connection._timer is not None]
        if not waiting:
            return False
        oldest = min(waiting, key=lambda connection: connection._timer.when())
        age = self.loop.time() - (oldest._timer.when() - REQUEST_SECONDS)
        if age < SETTLE_SECONDS:
            return False
        oldest.give_up()
        return True

    def _refuse(self, transport: Any) -> None:
        """Respond before the request is read, and close."""
        transport.write(_TOO_MANY)
        transport.close()
        count: Any = getattr(self.app, "connection_refused", None)
        if count is not None:
            client = transport.get_extra_info("peername")
            count(client[0] if client else None)

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self._stop_timer()
        # A rejected connection was never made.
        if self.transport is not None:
            super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Read the next bytes of a request."""
        if self.transport is not None:
            super().data_received(data)
            self._watch()

    def send_400_response(self, msg: str) -> None:
        """Answer a malformed request, and let the application answer nothing more."""
        if self.cycle is not None and not self.cycle.response_complete:
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            super().send_400_response(msg)
        else:
            self.transport.close()

    def on_response_complete(self) -> None:
        """Wait for the next request."""
        if self.conn.trailing_data[0]:
            self.transport.close()
        super().on_response_complete()
        self._watch()

    def pause_writing(self) -> None:
        """Wait until the client reads."""
        super().pause_writing()
        self._is_stalled = True
        self._watch()

    def resume_writing(self) -> None:
        """Continue after the client has read."""
        super().resume_writing()
        self._is_stalled = False
        self._watch()

    def shutdown(self) -> None:
        """Close the connection after its response, or at once if its request is incomplete."""
        if self._is_waiting():
            self.give_up()
        else:
            super().shutdown()

    def give_up(self) -> None:
        """Close the connection now."""
        self._stop_timer()
        self.connections.discard(self)
        self.transport.abort()

    def _watch(self) -> None:
        """Run the timer exactly while a request is incomplete or a response unread."""
        is_closed = self.transport.is_closing() and not self._is_stalled
        if is_closed or not (self._is_waiting() or self._is_stalled):
            self._stop_timer()
        elif self._timer is None:
            self._timer = self.loop.call_later(REQUEST_SECONDS, self.give_up)

    def _is_waiting(self) -> bool:
        return self.conn.their_state in (h11.IDLE, h11.SEND_BODY)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


class PatientProtocol(LimitedProtocol):
    """Protocol for seamless restarts: each open connection gets one more response.

    That response announces that the connection closes. A connection without another request is
    closed by the usual time limits.
    """

    _is_last = False

    def shutdown(self) -> None:
        """Close the connection after the next response."""
        self._is_last = True
        headers = self.server_state.default_headers
        if _CLOSE not in headers:
            headers.append(_CLOSE)
        if self.cycle is not None:
            # uvicorn renews the default headers every second; a slow response has older ones.
            self.cycle.default_headers = headers
        if not self._is_waiting():
            H11Protocol.shutdown(self)

    def on_response_complete(self) -> None:
        """Wait for the next request, unless the server stops."""
        if self._is_last:
            self.transport.close()
        super().on_response_complete()


async def refuse(request: Request, error: Any) -> Response:
    """Send the reason as JSON; the default status is 400, for mistakes in the request."""
    status = getattr(error, "status_code", 400)
    headers = getattr(error, "headers", None)
    return JSONResponse({"error": getattr(error, "detail", str(error))}, status, headers)


REFUSALS: Any = {HTTPException: refuse, InputError: refuse}
"""Exception handlers of the applications."""


async def read_json(request: Request, limit: int, hold: Callable[[int], None] | None = None) -> Any:
    """Return the JSON document of a request.

    Parameters
    ----------
    request : starlette Request
        The request.
    limit : int
        Maximum size in bytes.
    hold : callable, optional
        Called with the size of each piece that arrives; may raise HTTPException.

    Returns
    -------
    JSON value

    Raises
    ------
    HTTPException
        If the request is not JSON, or too large.
    """
    if request.headers.get("content-type", "").partition(";")[0] != "application/json":
        raise HTTPException(415, "the request must be JSON (Content-Type: application/json)")
    content = bytearray()
    async for chunk in request.stream():
        content += chunk
        if len(content) > limit:
            raise HTTPException(413, f"the request has more than {limit:,} bytes")
        if hold is not None:
            hold(len(chunk))
    try:
        return json.loads(content)
    except (ValueError, RecursionError):
        raise HTTPException(400, "the request is not valid JSON") from None


def listen(host: str, port: int) -> socket.socket:
    """Return a socket that accepts connections.

    Parameters
    ----------
    host : str
        Address to listen at; 127.0.0.1 accepts connections from this machine only.
    port : int
        Port to listen at; 0 chooses a free port.

    Returns
    -------
    socket
    """
    # asyncio sets TCP_NODELAY only if the protocol is named; without it, each further response on a
    # connection waits 40 ms for the acknowledgement of its headers.
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        if os.name == "posix":
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(1024)
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
