"""Who may talk to the server: this machine's browser, from the page itself, with the token."""

import secrets
from typing import Any

from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

_CSP = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": _CSP,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


class Guard:
    """Lets a request through only if Host, Origin and token are right; adds the headers."""

    def __init__(self, app: ASGIApp, token: str, port: int):
        self._app, self._token = app, token.encode()
        self._hosts = {f"127.0.0.1:{port}", f"localhost:{port}"}
        # Cookies are shared by all ports of a host; the name keeps two servers apart.
        self._cookie = f"schirn_review_{port}"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Check one request."""
        if scope["type"] != "http":
            return
        request = Request(scope, receive)
        given = request.query_params.get("token")
        refusal = self._refuse(request, given)

        async def send_safely(message: Message) -> None:
            if message["type"] == "http.response.start":
                self._add_headers(message, remember=given is not None and refusal is None)
            await send(message)

        await (refusal or self._app)(scope, receive, send_safely)

    def _refuse(self, request: Request, given: str | None) -> Response | None:
        # Another site could point its own name at 127.0.0.1; its Host header gives it away.
        hosts = request.headers.getlist("host")
        if len(hosts) != 1 or hosts[0] not in self._hosts:
            return PlainTextResponse("This server answers only to its own address.", 421)
        origins = request.headers.getlist("origin")
        if any(origin not in {f"http://{host}" for host in self._hosts} for origin in origins):
            return PlainTextResponse("Requests from other sites are refused.", 403)
        if request.method not in ("GET", "HEAD") and not origins:
            return PlainTextResponse("A change must come from the page itself.", 403)
        token = given if given is not None else request.cookies.get(self._cookie, "")
        if not secrets.compare_digest(token.encode("utf-8", "replace"), self._token):
            return PlainTextResponse("Open the address that schirn review has printed.", 403)
        return None

    def _add_headers(self, message: Any, remember: bool) -> None:
        headers = MutableHeaders(scope=message)
        for name, value in HEADERS.items():
            headers[name] = value
        if remember:
            token = self._token.decode()
            headers.append(
                "Set-Cookie", f"{self._cookie}={token}; Path=/; HttpOnly; SameSite=Strict"
            )
