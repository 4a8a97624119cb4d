"""The web application: the page and its assets, actions, downloads, and access control."""

import secrets
import tempfile
import warnings
from collections.abc import Callable, Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import FileResponse, JSONResponse, PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from schirn._files import reason_of
from schirn._input import is_count
from schirn.app.review._questions import FIRST, ORDERS
from schirn.app.review._saving import MAX_BODY, save
from schirn.app.review._session import Session
from schirn.app.review._state import KIND, RULE, STATUS, TARGET
from schirn.app.review._vocabulary_routes import vocabulary_routes
from schirn.app.serving import HEADERS as COMMON_HEADERS
from schirn.app.serving import REFUSALS, read_json
from schirn.exceptions import InputError

_ASSETS = {
    "/": ("index.html", "text/html"),
    "/page.css": ("page.css", "text/css"),
    "/page.js": ("page.js", "text/javascript"),
    "/common.js": ("common.js", "text/javascript"),
    "/vocabulary": ("vocabulary.html", "text/html"),
    "/vocabulary.css": ("vocabulary.css", "text/css"),
    "/vocabulary.js": ("vocabulary.js", "text/javascript"),
    "/icon.svg": ("icon.svg", "image/svg+xml"),
}
_CSP = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {"Content-Security-Policy": _CSP, **COMMON_HEADERS}

# Fields of each action, in addition to its name and the last record that the page has seen.
_NEEDS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(STATUS, ("item", "label")),
    "swap": ("item", "label", "to"),
    **dict.fromkeys(KIND, ("count",)),
    "undo": ("of",),
    TARGET: ("precision",),
    RULE: ("label", "rule"),
}


def create_app(
    session: Session,
    token: str,
    port: int,
    opened: Callable[[], None] | None = None,
) -> ASGIApp:
    """Create the application, protected by a `Guard`.

    Parameters
    ----------
    session : Session
        The review.
    token : str
        Secret that every request must contain.
    port : int
        Port of the server.
    opened : function, optional
        Called when the page is opened.

    Returns
    -------
    ASGI application
    """
    api = _Api(session)
    routes = [Route(path, _asset(*asset)) for path, asset in _ASSETS.items()]
    routes += [
        Route("/table", api.table),
        Route("/changes.csv", api.changes),
        Route("/image/{row:int}", api.image),
        Route("/vocabulary.csv", api.vocabulary),
        Route("/api/state", api.state),
        Route("/api/labels", api.labels),
        Route("/api/decide", api.decide, methods=["POST"]),
        *vocabulary_routes(session),
    ]
    return Guard(Starlette(routes=routes, exception_handlers=REFUSALS), token, port, opened)


class _Api:
    def __init__(self, session: Session):
        self._session = session

    def state(self, request: Request) -> Response:
        """Send the present content of the page."""
        return JSONResponse(self._view(request.query_params))

    async def decide(self, request: Request) -> Response:
        """Record one action; the response contains the next question."""
        body = _checked(await read_json(request, MAX_BODY))
        return await save(lambda: self._act(body), lambda: self._view(body))

    def _act(self, body: Mapping[str, Any]) -> None:
        """Pass a request to the session."""
        session = self._session
        action = body["action"]
        sequence = body["seen"]
        if action == "undo":
            session.undo(sequence, of=body["of"])
        elif action in KIND:
            session.apply_answers(action, body["count"], sequence)
        else:
            record = {"action": action, **{key: body.get(key) for key in _NEEDS[action]}}
            session.act(record, sequence)

    def _view(self, query: Mapping[str, Any]) -> dict[str, Any]:
        view = self._session.view(order=query.get("order", FIRST))
        return {**view, "table": self._suffix}

    @property
    def _suffix(self) -> str:
        """Suffix of the table."""
        return self._session.project.table.file.removeprefix("table")

    def table(self, request: Request) -> Response:
        """Send the whole table with the final tags."""
        media = "application/octet-stream"
        return _sent(f"reviewed{self._suffix}", media, self._session.write_table)

    def changes(self, request: Request) -> Response:
        """Send the list of changes for `schirn apply`."""
        return _sent("changes.csv", "text/csv", self._session.changes().write)

    def vocabulary(self, request: Request) -> Response:
        """Send the vocabulary with all answers and rules for `--vocabulary`."""
        return _sent("vocabulary.csv", "text/csv", self._session.write_vocabulary)

    def labels(self, request: Request) -> Response:
        """Send statistics about the tags of each label."""
        return JSONResponse(self._session.labels())

    def image(self, request: Request) -> Response:
        """Send the image of a row; the request contains only the row number, never a path."""
        row = request.path_params["row"]
        session = self._session
        image = session.table.image_file(row) if row < len(session.project.ids) else None
        if image is None:
            raise HTTPException(404)
        return FileResponse(image[0], media_type=image[1])


def _asset(name: str, kind: str) -> Callable[[Request], Response]:
    """Serve a file of the package, read once; paths are never built from a request."""
    content = files("schirn.app.review").joinpath("static", name).read_bytes()
    return lambda request: Response(content, media_type=kind)


def _sent(name: str, media: str, write: Callable[[Path], Any]) -> Response:
    """Send a file written by a function."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, name)
        write(path)
        headers = {"Content-Disposition": f'attachment; filename="{name}"'}
        return Response(path.read_bytes(), media_type=media, headers=headers)


def _checked(request: Any) -> dict[str, Any]:
    """Return a request after checking that its action has all required fields."""
    if not isinstance(request, dict):
        raise InputError("the request must be a JSON object")
    action = request.get("action")
    if not isinstance(action, str) or action not in _NEEDS:
        raise InputError(f"the request must give an 'action': {', '.join(_NEEDS)}")
    # The session checks the strings.
    for key in ("seen", *({"count", "of"} & {*_NEEDS[action]})):
        if not is_count(request.get(key)):
            raise InputError(f"the request must give {key!r} as a whole number of at least 0")
    if request.get("order", FIRST) not in ORDERS:
        raise InputError(f"the order must be one of {', '.join(ORDERS)}")
    return request


class Guard:
    """Middleware that checks Host, Origin and token of requests, and adds security headers."""

    def __init__(
        self, app: ASGIApp, token: str, port: int, opened: Callable[[], None] | None = None
    ):
        self._app = app
        self._token = token.encode()
        self._opened = opened
        self._hosts = {f"127.0.0.1:{port}", f"localhost:{port}"}
        # All ports of a host share cookies; the name distinguishes two servers.
        self._cookie = f"schirn_review_{port}"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Check one request."""
        if scope["type"] != "http":
            return
        request = Request(scope, receive)
        token = request.query_params.get("token")
        refusal = self._refuse(request, token)
        is_visit = token is not None and refusal is None

        async def send_safely(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers.update(HEADERS)
                if is_visit:
                    value = f"{self._cookie}={token}; Path=/; HttpOnly; SameSite=Strict"
                    headers.append("Set-Cookie", value)
            await send(message)

        if is_visit and self._opened is not None:
            self._opened()
        try:
            await (refusal or self._app)(scope, receive, send_safely)
        except ClientDisconnect:
            # Nobody reads the response.
            return
        except Exception as error:
            # Starlette has sent status 500; the same error is shown only once.
            warnings.warn(f"the page could not answer a request ({reason_of(error)})", stacklevel=1)

    def _refuse(self, request: Request, query_token: str | None) -> Response | None:
        # Another site could point its own name at 127.0.0.1, but its Host header reveals it.
        hosts = request.headers.getlist("host")
        if len(hosts) != 1 or hosts[0] not in self._hosts:
            return PlainTextResponse("This server answers only at its own address.", 421)
        origins = request.headers.getlist("origin")
        if any(origin not in {f"http://{host}" for host in self._hosts} for origin in origins):
            return PlainTextResponse("Requests from other sites are refused.", 403)
        if request.method not in ("GET", "HEAD") and not origins:
            return PlainTextResponse("Changes must come from the page itself.", 403)
        token = query_token if query_token is not None else request.cookies.get(self._cookie, "")
        if not secrets.compare_digest(token.encode("utf-8", "replace"), self._token):
            return PlainTextResponse("Open the address that schirn review printed.", 403)
        return None
