"""The web application: a page, three files, two requests, two downloads."""

import json
from collections.abc import Iterator
from importlib.resources import files
from typing import Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp

from schirn.exceptions import InputError
from schirn.report.records import csv_lines, json_lines
from schirn.review._guard import Guard
from schirn.review._session import Conflict, Session
from schirn.review._trainer import Trainer

MAX_BODY = 64 * 1024

_ASSETS = {
    "/": ("index.html", "text/html"),
    "/page.css": ("page.css", "text/css"),
    "/page.js": ("page.js", "text/javascript"),
    "/icon.svg": ("icon.svg", "image/svg+xml"),
}
_EXPORTS = {"csv": (csv_lines, "text/csv"), "jsonl": (json_lines, "application/x-ndjson")}


class TooLarge(Exception):
    """A request body over the limit."""


def create_app(session: Session, trainer: Trainer, token: str, port: int) -> ASGIApp:
    """The application behind its guard."""
    session.listener = trainer.poke
    routes = [Route(path, _asset(*asset)) for path, asset in _ASSETS.items()]
    routes += [Route(f"/tags.{kind}", _export(session, kind)) for kind in _EXPORTS]
    view = _Api(session, trainer)
    routes += [
        Route("/api/state", view.state),
        Route("/api/decide", view.decide, methods=["POST"]),
    ]
    return Guard(Starlette(routes=routes), token, port)


class _Api:
    def __init__(self, session: Session, trainer: Trainer):
        self._session, self._trainer = session, trainer

    async def state(self, request: Request) -> Response:
        """What the page shows now."""
        return JSONResponse(await run_in_threadpool(self._view))

    async def decide(self, request: Request) -> Response:
        """Take one decision; the answer holds the next question."""
        if request.headers.get("content-type", "").partition(";")[0] != "application/json":
            return JSONResponse({"error": "The request must be JSON."}, 415)
        try:
            wanted = _decision(await _body(request))
            await run_in_threadpool(self._session.decide, *wanted)
        except TooLarge:
            return JSONResponse({"error": "The request is too large."}, 413)
        except ClientDisconnect:
            # Nobody is there to read the answer; without it the terminal would get a traceback.
            return Response(status_code=400)
        except InputError as error:
            return JSONResponse({"error": str(error)}, 400)
        except Conflict as conflict:
            view = await run_in_threadpool(self._view)
            return JSONResponse({"error": str(conflict), "state": view}, 409)
        except OSError as error:
            # A full disk, most likely; the decision does not count, and the user must know.
            text = f"The decision could not be saved: {error.strerror or error}."
            return JSONResponse({"error": text}, 507)
        return JSONResponse(await run_in_threadpool(self._view))

    def _view(self) -> dict[str, Any]:
        return {**self._session.view(), "training": self._trainer.view()}


def _asset(name: str, kind: str) -> Any:
    """A file of the package, read once; no path is ever made from a request."""
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


async def _body(request: Request) -> bytes:
    content = b""
    async for chunk in request.stream():
        content += chunk
        if len(content) > MAX_BODY:
            raise TooLarge
    return content


def _decision(body: bytes) -> tuple[str, str, str, int]:
    """Action, item, label and the sequence that the page has seen."""
    try:
        wanted = json.loads(body)
    except (ValueError, RecursionError):
        raise InputError("the request is not valid JSON") from None
    if not isinstance(wanted, dict):
        raise InputError("the request must be a JSON object")
    texts = [wanted.get(key) for key in ("action", "item", "label")]
    seen = wanted.get("seen")
    if not all(isinstance(text, str) for text in texts):
        raise InputError("the request needs the texts 'action', 'item' and 'label'")
    if not isinstance(seen, int) or isinstance(seen, bool) or seen < 0:
        raise InputError("the request needs 'seen', a whole number of at least 0")
    action, item, label = map(str, texts)
    return action, item, label, seen
