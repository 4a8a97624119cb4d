"""The web application: one page, three assets, two requests, three downloads, and their guard."""

import json
import secrets
import warnings
from collections.abc import Callable, Iterator
from importlib.resources import files
from typing import Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import MutableHeaders
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from schirn._files import reason_of
from schirn.exceptions import DataError, InputError
from schirn.report.records import csv_lines, json_lines
from schirn.review._session import Conflict, Session
from schirn.review._training import Trainer

MAX_BODY = 64 * 1024

_ASSETS = {
    "/": ("index.html", "text/html"),
    "/page.css": ("page.css", "text/css"),
    "/page.js": ("page.js", "text/javascript"),
    "/icon.svg": ("icon.svg", "image/svg+xml"),
}
_EXPORTS = {"csv": (csv_lines, "text/csv"), "jsonl": (json_lines, "application/x-ndjson")}
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


class TooLarge(Exception):
    """A request body over the limit."""


def create_app(
    session: Session,
    trainer: Trainer,
    token: str,
    port: int,
    opened: Callable[[], None] | None = None,
) -> ASGIApp:
    """Return the application behind its guard; `opened` is called when the page is opened."""
    session.on_decision = trainer.start_if_due
    routes = [Route(path, _asset(*asset)) for path, asset in _ASSETS.items()]
    routes += [Route(f"/tags.{kind}", _export(session, kind)) for kind in _EXPORTS]
    view = _Api(session, trainer)
    routes += [
        Route("/certificate.json", _certificate(session)),
        Route("/api/state", view.state),
        Route("/api/decide", view.decide, methods=["POST"]),
    ]
    return Guard(Starlette(routes=routes), token, port, opened)


class _Api:
    def __init__(self, session: Session, trainer: Trainer):
        self._session, self._trainer = session, trainer

    async def state(self, request: Request) -> Response:
        """Answer with what the page shows now."""
        return JSONResponse(await run_in_threadpool(self._view))

    async def decide(self, request: Request) -> Response:
        """Record one decision; the answer holds the next question."""
        if request.headers.get("content-type", "").partition(";")[0] != "application/json":
            return JSONResponse({"error": "The request must be JSON."}, 415)
        try:
            wanted = _decision(await _body(request))
            await run_in_threadpool(self._session.decide, *wanted)
        except TooLarge:
            return JSONResponse({"error": "The request is too large."}, 413)
        except ClientDisconnect:
            # Nobody reads this answer, but without it a traceback would reach the terminal.
            return Response(status_code=400)
        except DataError as error:
            # Another program has replaced the journal.
            return JSONResponse({"error": f"The decision is not saved. {error}."}, 507)
        except InputError as error:
            return JSONResponse({"error": str(error)}, 400)
        except Conflict as conflict:
            view = await run_in_threadpool(self._view)
            return JSONResponse({"error": str(conflict), "state": view}, 409)
        except OSError as error:
            # Most likely a full disk; the decision is not recorded, and the user must know.
            text = f"The decision could not be saved: {error.strerror or error}."
            return JSONResponse({"error": text}, 507)
        return JSONResponse(await run_in_threadpool(self._view))

    def _view(self) -> dict[str, Any]:
        return {**self._session.view(), "training": self._trainer.view()}


def _asset(name: str, kind: str) -> Any:
    """Serve a file of the package, read once; no path is ever built from a request."""
    content = files("schirn.review").joinpath("static", name).read_bytes()

    async def send(request: Request) -> Response:
        return Response(content, media_type=kind)

    return send


def _export(session: Session, kind: str) -> Any:
    lines, media = _EXPORTS[kind]

    def send(request: Request) -> Response:
        content: Iterator[str] = lines(session.final_tags())
        name = f'attachment; filename="tags.{kind}"'
        return StreamingResponse(content, media_type=media, headers={"Content-Disposition": name})

    return send


def _certificate(session: Session) -> Any:
    def send(request: Request) -> Response:
        certificate = session.certificate
        if certificate is None:
            return PlainTextResponse("The audit is not complete, so nothing is certified.", 404)
        name = 'attachment; filename="certificate.json"'
        headers = {"Content-Disposition": name}
        return Response(certificate.to_json(), media_type="application/json", headers=headers)

    return send


async def _body(request: Request) -> bytes:
    content = b""
    async for chunk in request.stream():
        content += chunk
        if len(content) > MAX_BODY:
            raise TooLarge
    return content


def _decision(body: bytes) -> tuple[str, str, str, int]:
    """Return action, item, label and the last sequence number that the page knows."""
    try:
        wanted = json.loads(body)
    except (ValueError, RecursionError):
        raise InputError("the request is not valid JSON") from None
    if not isinstance(wanted, dict):
        raise InputError("the request must be a JSON object")
    texts = [wanted.get(key) for key in ("action", "item", "label")]
    seen = wanted.get("seen")
    if not all(isinstance(text, str) for text in texts):
        raise InputError("the request must give 'action', 'item' and 'label' as text")
    if not isinstance(seen, int) or isinstance(seen, bool) or seen < 0:
        raise InputError("the request must give 'seen' as a whole number of at least 0")
    action, item, label = map(str, texts)
    return action, item, label, seen


class Guard:
    """Admits a request only if Host, Origin and token are right; adds the security headers."""

    def __init__(
        self, app: ASGIApp, token: str, port: int, opened: Callable[[], None] | None = None
    ):
        self._app, self._token, self._opened = app, token.encode(), opened
        self._hosts = {f"127.0.0.1:{port}", f"localhost:{port}"}
        # All ports of a host share their cookies; the name tells two servers apart.
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

        if given is not None and refusal is None and self._opened is not None:
            self._opened()
        try:
            await (refusal or self._app)(scope, receive, send_safely)
        except ClientDisconnect:
            # Nobody reads the answer.
            return
        except Exception as error:
            # Starlette has answered 500; the same error is shown once.
            warnings.warn(f"the page could not answer a request ({reason_of(error)})", stacklevel=1)

    def _refuse(self, request: Request, given: str | None) -> Response | None:
        # Another site could point its own name at 127.0.0.1, but its Host header gives it away.
        hosts = request.headers.getlist("host")
        if len(hosts) != 1 or hosts[0] not in self._hosts:
            return PlainTextResponse("This server answers only at its own address.", 421)
        origins = request.headers.getlist("origin")
        if any(origin not in {f"http://{host}" for host in self._hosts} for origin in origins):
            return PlainTextResponse("Requests from other sites are refused.", 403)
        if request.method not in ("GET", "HEAD") and not origins:
            return PlainTextResponse("Changes must come from the page itself.", 403)
        token = given if given is not None else request.cookies.get(self._cookie, "")
        if not secrets.compare_digest(token.encode("utf-8", "replace"), self._token):
            return PlainTextResponse("Open the address that schirn review printed.", 403)
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
