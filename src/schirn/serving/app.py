"""The web application: tags of rows as JSON, judgements of tags, health, metrics."""

import asyncio
import json
import secrets
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from importlib.resources import files
from typing import Any

from starlette.applications import Starlette
from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

import schirn
from schirn._files import brief
from schirn.exceptions import InputError, suggest
from schirn.features import TagPipeline
from schirn.serving.connections import HEADERS, REFUSALS, read_json
from schirn.serving.metrics import Metrics

_DIGITS = 6

Answer = dict[str, Any]


@dataclass(frozen=True)
class Limits:
    """What one request may ask for."""

    rows: int = 10_000
    bytes: int = 16 * 1024**2
    seconds: float = 30.0
    """Time for a request, including the time that it waits for others."""
    waiting: int = 64
    """Requests that wait for a process; more are answered with status 503."""


def create_app(
    model: TagPipeline,
    *,
    token: str | None = None,
    limits: Limits | None = None,
    metrics: Metrics | None = None,
    about: Answer | None = None,
) -> ASGIApp:
    """Return an ASGI application that tags rows with a model.

    Parameters
    ----------
    model : TagPipeline
    token : str, optional
        Requests must have the header ``Authorization: Bearer TOKEN``, except those for ``/health``.
    limits : Limits, optional
    metrics : Metrics, optional
        Where to count.
    about : dict, optional
        Facts about the model, for ``/health``.

    Examples
    --------
    >>> from starlette.testclient import TestClient
    >>> from schirn.features import TagPipeline
    >>> from schirn.serving.app import create_app
    >>> titles = ["red pan", "steel pan", "red chair", "oak chair"] * 5
    >>> tags = ["pan", "pan", "chair", "chair"] * 5
    >>> tagger = TagPipeline(text="title").fit({"title": titles}, tags)
    >>> client = TestClient(create_app(tagger))
    >>> client.post("/predict", json={"rows": [{"title": "blue pan"}]}).json()["rows"][0]["tags"]
    ['pan']
    """
    if not isinstance(model, TagPipeline):
        raise InputError(
            f"a server needs a model of the columns of a table, not {type(model).__name__}; train "
            f"one with schirn fit on a table"
        )
    if model.image is not None:
        raise InputError(
            "a server does not open the files that a request names; encode the pictures, and train "
            "on a column of vectors"
        )
    api = _Api(model, limits or Limits(), metrics or Metrics(), about or {})
    routes = [
        Route("/predict", api.answering(api.predict, "threshold"), methods=["POST"]),
        Route("/judge", api.answering(api.judge, "column"), methods=["POST"]),
        Route("/health", api.health),
        Route("/metrics", api.metrics),
        Route("/openapi.json", api.openapi),
    ]
    return _Guard(Starlette(routes=routes, exception_handlers=REFUSALS), token, api)


class _Api:
    def __init__(self, model: TagPipeline, limits: Limits, metrics: Metrics, about: Answer) -> None:
        self.model, self.limits, self.counters, self.about = model, limits, metrics, about
        features = model.features_
        self._columns = {n: kind for kind in features.kinds for n in features.names_of(kind)}
        # One thread: NumPy holds the interpreter most of the time, and a queue has an end.
        self._worker = ThreadPoolExecutor(1)
        self._n_waiting = 0

    def answering(self, make: Callable[[list[Any], Answer], Answer], option: str) -> Any:
        """Return the handler of a function from rows and request, with one option, to an answer."""

        async def handler(request: Request) -> Response:
            query = self._checked(await read_json(request, self.limits.bytes), option)
            return JSONResponse(await self._in_time(make, query))

        return handler

    async def _in_time(self, make: Callable[[list[Any], Answer], Answer], query: Answer) -> Answer:
        if self._n_waiting >= self.limits.waiting:
            raise _busy("too many requests are waiting")
        self._n_waiting += 1
        try:
            loop = asyncio.get_running_loop()
            work = loop.run_in_executor(self._worker, make, query["rows"], query)
            answer = await asyncio.wait_for(work, self.limits.seconds)
        except TimeoutError:
            raise _busy(f"no answer within {self.limits.seconds:g} seconds") from None
        finally:
            self._n_waiting -= 1
        self.counters.add_rows(len(query["rows"]))
        return answer

    def _checked(self, query: Any, option: str) -> Answer:
        """Return a request after checking its rows."""
        rows = query.get("rows") if isinstance(query, dict) else None
        if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
            raise InputError('the request must be {"rows": [{"column": "cell", ...}, ...]}')
        if len(rows) > self.limits.rows:
            raise HTTPException(413, f"the request has more than {self.limits.rows:,} rows")
        for key in query:
            if key not in ("rows", option):
                hint = suggest(key, ["rows", option])
                raise InputError(f"there is no option {brief(key)}; {hint}")
        for k, row in enumerate(rows, 1):
            self._check_row(f"row {k}", row)
        return dict(query)

    def _check_row(self, where: str, row: Answer) -> None:
        """Raise InputError for a row from which the model reads nothing, or no text or number."""
        if not any(name in row for name in self._columns):
            names = " or ".join(map(brief, self._columns))
            raise InputError(f"{where}: there is no column {names}, which the model learned from")
        for name, kind in self._columns.items():
            if kind != "vectors" and isinstance(row.get(name), list | dict):
                raise InputError(
                    f"{where}: the column {brief(name)} must hold a text or a number, not "
                    f"{brief(row[name])}"
                )

    def predict(self, rows: list[Any], query: Answer) -> Answer:
        """Tag rows; the probability is that of the predicted tags."""
        if not rows:
            return {"rows": []}
        method, names = self.model.method_, self.model.label_names_
        scores = self.model.decision_function(rows)
        predicted = method.apply_threshold(scores, threshold=query.get("threshold"))
        probability = method.calibration_.probability(scores)
        answers = []
        for chosen, values in zip(predicted, probability, strict=True):
            pairs = {names[j]: round(float(values[j]), _DIGITS) for j in chosen.nonzero()[0]}
            answers.append({"tags": list(pairs), "probability": pairs})
        return {"rows": answers}

    def judge(self, rows: list[Any], query: Answer) -> Answer:
        """Judge the tags of rows."""
        column = query.get("column", "tags")
        if not isinstance(column, str) or not all(column in row for row in rows):
            raise InputError(f"each row must have its tags in {column!r}: a list or a text")
        if not rows:
            return {"rows": []}
        judgements = self.model.judge(rows, [row[column] for row in rows])
        return {"rows": [_rounded(asdict(judgement)) for judgement in judgements]}

    def health(self, request: Request) -> Response:
        """Answer that the model is loaded."""
        method = type(self.model.method_).__name__
        facts = {"method": method, "labels": len(self.model.label_names_)}
        version = schirn.__version__
        return JSONResponse({"status": "ok", "schirn": version, **facts, "model": self.about})

    def metrics(self, request: Request) -> Response:
        """Answer with the counters."""
        return PlainTextResponse(
            self.counters.text(), media_type="text/plain; version=0.0.4; charset=utf-8"
        )

    def openapi(self, request: Request) -> Response:
        """Answer with the description of all of this."""
        document = json.loads(files("schirn.serving").joinpath("openapi.json").read_bytes())
        document["info"]["version"] = schirn.__version__
        return JSONResponse(document)


class _Guard:
    """Asks for the token, counts, and adds the headers."""

    def __init__(self, app: ASGIApp, token: str | None, api: _Api) -> None:
        self._app, self._api = app, api
        self._token = None if token is None else f"Bearer {token}".encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            return
        counters, start, status = self._api.counters, time.perf_counter(), 500

        async def send_safely(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                MutableHeaders(scope=message).update(HEADERS)
            await send(message)

        counters.begin()
        try:
            await (self._refusal(Request(scope)) or self._app)(scope, receive, send_safely)
        except ClientDisconnect:
            status = 400
        finally:
            counters.end(scope["path"], status, time.perf_counter() - start)

    def _refusal(self, request: Request) -> Response | None:
        sent = request.headers.get("authorization", "").encode("utf-8", "replace")
        is_open = self._token is None or request.url.path == "/health"
        if is_open or secrets.compare_digest(sent, self._token or b""):
            return None
        return JSONResponse({"error": "the header Authorization must be: Bearer TOKEN"}, 401)


def _busy(reason: str) -> HTTPException:
    return HTTPException(503, reason, {"Retry-After": "1"})


def _rounded(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _rounded(item) for key, item in value.items()}
    return round(value, _DIGITS) if isinstance(value, float) else value
