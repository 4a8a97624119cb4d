"""The web application: predicted tags, judgements of tags, health and metrics, as JSON."""

import asyncio
import json
import secrets
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

import numpy as np
from starlette.applications import Starlette
from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

import schirn
from schirn._files import brief
from schirn.app.serving._access import AccessLog, is_allowed_host, record_of, request_id
from schirn.app.serving._batches import Batches, Work, n_characters_of
from schirn.app.serving._connections import HEADERS, OVERLOAD, REFUSALS, read_json
from schirn.app.serving._metrics import Metrics
from schirn.cleaning import Vocabulary
from schirn.cleaning.ranker import rows_without_features
from schirn.cleaning.vocabulary import apply_vocabulary
from schirn.exceptions import InputError, suggest
from schirn.features import TagPipeline
from schirn.labels.cells import TagCells

_DIGITS = 6
_RETRY = {"Retry-After": "1"}
_NO_FEATURES = "the row has no text, or none of its words is known"
# Key of a request's log record in its scope.
_RECORD = "schirn.record"

Answer = dict[str, Any]
Check = Callable[[list[Any], Any], tuple[list[Any], Any]]
"""A function that checks rows and an option of a request, and returns the values to work with."""


@dataclass(frozen=True)
class Limits:
    """Limits of a request and of all requests of a process.

    Attributes
    ----------
    rows : int
        Maximum number of rows of a request.
    bytes : int
        Maximum size of a request.
    seconds : float
        Time limit of a request, including the time that it waits for others.
    cell : int
        Maximum number of characters of a cell.
    waiting : int
        Maximum number of requests waiting for a process; further ones get status 503.
    waiting_bytes : int
        Maximum size of all requests held by a process; further ones get status 503.
    characters : int
        Maximum number of characters of all texts of a request.
    """

    rows: int = 10_000
    bytes: int = 16 * 1024**2
    seconds: float = 30.0
    cell: int = 100_000
    waiting: int = 512
    waiting_bytes: int = 128 * 1024**2
    characters: int = 2_000_000


def create_app(
    model: TagPipeline,
    *,
    token: str | None = None,
    limits: Limits | None = None,
    metrics: Metrics | None = None,
    about: Answer | None = None,
    hosts: Sequence[str] = ("*",),
    access_log: AccessLog | None = None,
    vocabulary: Vocabulary | None = None,
    add_implied: bool = True,
) -> ASGIApp:
    """Create an ASGI application that tags rows with a model.

    Parameters
    ----------
    model : TagPipeline
        The fitted model.
    token : str, optional
        Requests must have the header ``Authorization: Bearer TOKEN``, except requests for
        ``/health``. The token must not be empty.
    limits : Limits, optional
        Limits of requests.
    metrics : Metrics, optional
        Counters.
    about : dict, optional
        Facts about the model, for ``/health``.
    hosts : sequence of str
        Without a token, names that the header ``Host`` may have in addition to ``localhost`` and
        addresses; by default all.
    access_log : AccessLog, optional
        Log that gets one line per request.
    vocabulary : Vocabulary, optional
        Vocabulary that is applied to tags before they are judged.
    add_implied : bool, default=True
        Add the tags that the vocabulary implies.

    Returns
    -------
    ASGI application

    Raises
    ------
    InputError
        If the model does not learn from columns of a table, or opens image files, or if the token
        is empty.

    Examples
    --------
    >>> from starlette.testclient import TestClient
    >>> from schirn.features import TagPipeline
    >>> from schirn.app.serving.app import create_app
    >>> titles = ["red pan", "steel pan", "red chair", "oak chair"] * 5
    >>> tags = ["pan", "pan", "chair", "chair"] * 5
    >>> tagger = TagPipeline(text="title").fit({"title": titles}, tags)
    >>> client = TestClient(create_app(tagger))
    >>> client.post("/predict", json={"rows": [{"title": "blue pan"}]}).json()["rows"][0]["tags"]
    ['pan']
    """
    _check_model(model)
    if token is not None and not token.strip():
        raise InputError("the token must not be empty", parameter="token")
    api = _Api(model, limits or Limits(), metrics or Metrics(), about or {})
    api.vocabulary = vocabulary or Vocabulary()
    api.add_implied = add_implied
    routes = [
        Route(
            "/predict",
            api.answering(api.predict, "threshold", api.checked_threshold),
            methods=["POST"],
        ),
        Route("/judge", api.answering(api.judge, "column", api.checked_tags), methods=["POST"]),
        Route("/health", api.health),
        Route("/metrics", api.metrics),
        Route("/openapi.json", api.openapi),
    ]
    starlette = Starlette(routes=routes, exception_handlers=REFUSALS)
    return _Guard(starlette, api, token, hosts, access_log)


def _check_model(model: Any) -> None:
    """Raise InputError for a model that cannot be served."""
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


class _Api:
    def __init__(self, model: TagPipeline, limits: Limits, metrics: Metrics, about: Answer) -> None:
        self.model = model
        self.limits = limits
        self.counters = metrics
        self.about = about
        self.vocabulary = Vocabulary()
        self.add_implied = True
        features = model.features_
        self._columns = {n: kind for kind in features.kinds for n in features.names_of(kind)}
        self._batches = Batches(metrics.n_in_flight)
        self._n_waiting = 0
        self._n_bytes = 0

    def answering(self, work: Work, option: str, check: Check) -> Any:
        """Return the request handler for a function of rows and one option."""

        async def handler(request: Request) -> Response:
            if self._n_waiting >= self.limits.waiting:
                raise self._overload("requests", "too many requests are waiting")
            size = 0

            def hold(n_bytes: int) -> None:
                nonlocal size
                size += n_bytes
                self._n_bytes += n_bytes
                if self._n_bytes > max(self.limits.waiting_bytes, size):
                    raise self._overload("bytes", "the requests that are waiting are too large")

            self._n_waiting += 1
            try:
                query = await read_json(request, self.limits.bytes, hold)
                query = self._checked(query, option)
                rows, value = check(query["rows"], query.get(option))
                request.scope[_RECORD]["rows"] = len(rows)
                answers = await self._in_time(request, work, rows, value)
            finally:
                self._n_waiting -= 1
                self._n_bytes -= size
            self.counters.add_rows(len(rows))
            return JSONResponse({"rows": answers})

        return handler

    async def _in_time(
        self, request: Request, work: Work, rows: list[Any], option: Any
    ) -> list[Any]:
        """Return the answers; raise HTTPException if they take too long."""
        answers = self._batches.answer(work, rows, option, request.is_disconnected)
        try:
            return await asyncio.wait_for(answers, self.limits.seconds)
        except TimeoutError:
            seconds = f"{self.limits.seconds:g} seconds"
            reason = f"no answer within {seconds}, so the work was dropped; send fewer rows"
            raise self._overload("time", reason) from None

    def _overload(self, kind: str, reason: str) -> HTTPException:
        """Count a request that is rejected because of overload; return the exception."""
        self.counters.add_overload(kind)
        return HTTPException(503, reason, _RETRY)

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
        n_characters = sum(map(n_characters_of, rows))
        if n_characters > self.limits.characters:
            raise HTTPException(
                413,
                f"the texts of the request have {n_characters:,} characters, more than "
                f"{self.limits.characters:,}; send fewer rows at a time",
            )
        return dict(query)

    def _check_row(self, where: str, row: Answer) -> None:
        """Raise InputError for a row without the model's columns, or with invalid cells."""
        if not any(name in row for name in self._columns):
            names = " or ".join(map(brief, self._columns))
            raise InputError(f"{where}: there is no column {names}, which the model learned from")
        for name, kind in self._columns.items():
            if kind != "vectors" and isinstance(row.get(name), list | dict):
                raise InputError(
                    f"{where}: the column {brief(name)} must hold a text or a number, not "
                    f"{brief(row[name])}"
                )
        for name, cell in row.items():
            size = _size(cell)
            if size > self.limits.cell:
                raise HTTPException(
                    413,
                    f"{where}: the column {brief(name)} has {size:,} characters, more than "
                    f"{self.limits.cell:,}",
                )

    def checked_threshold(self, rows: list[Any], threshold: Any) -> tuple[list[Any], Any]:
        """Check and return the rows and the threshold of a prediction request."""
        is_number = isinstance(threshold, int | float) and not isinstance(threshold, bool)
        # Compared, because an integer may be too large to become a float.
        if is_number and abs(threshold) <= sys.float_info.max:
            return rows, threshold
        if threshold is None or isinstance(threshold, str):
            return rows, threshold
        raise InputError(
            f"threshold must be a finite number or a text such as 'top-3', not {brief(threshold)}"
        )

    def checked_tags(self, rows: list[Any], column: Any) -> tuple[list[Any], Any]:
        """Check and return the rows and the name of their column of tags."""
        column = "tags" if column is None else column
        if not isinstance(column, str) or not all(column in row for row in rows):
            raise InputError(f"each row must have its tags in {column!r}: a list or a text")
        for k, row in enumerate(rows, 1):
            for tag in _elements(row[column]):
                if isinstance(tag, bool) or not isinstance(tag, str | int | float):
                    raise InputError(
                        f"row {k}: {brief(tag)} is not a tag; tags are texts or numbers"
                    )
        return rows, column

    def predict(self, rows: list[Any], threshold: Any) -> list[Answer]:
        """Predict the tags of rows, with their probabilities."""
        if not rows:
            return []
        method = self.model.method_
        names = self.model.label_names_
        X = self.model.features_.transform(rows)
        scores = method.decision_function(X)
        predicted = method.apply_threshold(scores, threshold=threshold)
        probability = method.calibration_.probability(scores)
        answers: list[Answer] = []
        for chosen, values in zip(predicted, probability, strict=True):
            pairs = {names[j]: round(float(values[j]), _DIGITS) for j in chosen.nonzero()[0]}
            answers.append({"tags": list(pairs), "probability": pairs})
        for i in np.flatnonzero(rows_without_features(X)).tolist():
            answers[i]["reason"] = _NO_FEATURES
        return answers

    def judge(self, rows: list[Any], column: Any) -> list[Answer]:
        """Judge the tags of rows, each together with the others of its row and alone."""
        if not rows:
            return []
        tags = self._after_vocabulary([self._tags_of(row[column]) for row in rows])
        X = self.model.features_.transform(rows)
        number = {name: j for j, name in enumerate(self.model.label_names_)}
        probability = self.model.method_.predict_proba(X)
        answers = []
        judgements = self.model.judge(rows, tags)
        for judgement, values in zip(judgements, probability, strict=True):
            confidence = judgement.confidence
            marginal = {name: float(values[number[name]]) for name in confidence}
            others = {"unseen": judgement.unseen, "suggestions": judgement.suggestions}
            answers.append(_rounded({"confidence": confidence, "probability": marginal, **others}))
        for i in np.flatnonzero(rows_without_features(X)).tolist():
            unknown = dict.fromkeys(answers[i]["confidence"])
            answers[i] |= {"confidence": unknown, "probability": unknown, "suggestions": {}}
            answers[i]["reason"] = _NO_FEATURES
        return answers

    def _tags_of(self, cell: Any) -> list[str]:
        """Return the tags of a cell; a number is the name of a tag."""
        if isinstance(cell, str):
            # Alone, because the notation of a cell must not depend on rows of other requests.
            return TagCells.of([cell], self.model.separator).split(cell)
        return [str(tag) for tag in _elements(cell)]

    def _after_vocabulary(self, tags: list[list[str]]) -> list[list[str]]:
        """Return the tags of rows after the vocabulary."""
        if not self.vocabulary.accepted:
            return tags
        return apply_vocabulary(self.vocabulary, tags, self.add_implied).rows

    def health(self, request: Request) -> Response:
        """Report that the model is loaded; status 503 if requests are not answered in time."""
        is_stuck = self._batches.seconds_busy > self.limits.seconds
        facts = {
            "status": "stuck" if is_stuck else "ok",
            "schirn": schirn.__version__,
            "method": type(self.model.method_).__name__,
            "labels": len(self.model.label_names_),
            "model": self.about,
            "failed_reload": self.counters.reloads().failed,
        }
        return JSONResponse(facts, 503 if is_stuck else 200)

    def metrics(self, request: Request) -> Response:
        """Send the counters."""
        return PlainTextResponse(
            self.counters.text(self.about), media_type="text/plain; version=0.0.4; charset=utf-8"
        )

    def openapi(self, request: Request) -> Response:
        """Send the OpenAPI description of the server."""
        document = json.loads(files("schirn.app.serving").joinpath("openapi.json").read_bytes())
        document["info"]["version"] = schirn.__version__
        return JSONResponse(document)


class _Guard:
    """Middleware that checks host and token, counts, logs, and adds headers."""

    def __init__(
        self,
        app: ASGIApp,
        api: _Api,
        token: str | None,
        hosts: Sequence[str],
        access_log: AccessLog | None,
    ) -> None:
        self._app = app
        self._api = api
        self._token = None if token is None else token.encode()
        self._hosts = hosts
        self._log = access_log

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] != "http":
            return
        start = time.perf_counter()
        request = Request(scope)
        name = request_id(request)
        record = record_of(request, name)
        scope[_RECORD] = record
        status = 500

        async def send_safely(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = MutableHeaders(scope=message)
                headers.update(HEADERS)
                headers["X-Request-ID"] = name
            await send(message)

        self._api.counters.begin()
        try:
            await (self._refusal(request) or self._app)(scope, receive, send_safely)
        except ClientDisconnect:
            status = 400
        finally:
            self._end(record, status, time.perf_counter() - start)

    def connection_refused(self, client: str | None) -> None:
        """Count and log a connection that got status 503 before its request was read."""
        counters = self._api.counters
        counters.begin()
        counters.add_overload("connections")
        self._end({"id": None, "client": client, "method": None, "path": None}, 503, 0.0)

    def _end(self, record: Answer, status: int, seconds: float) -> None:
        """Count and log a request."""
        counters = self._api.counters
        counters.end(record["path"], status, seconds)
        if self._log is None:
            return
        milliseconds = round(1e3 * seconds, 3)
        if not self._log.write({**record, "status": status, "ms": milliseconds}):
            counters.add_unlogged()

    def _refusal(self, request: Request) -> Response | None:
        """Return the response to a request that is rejected; None if it is allowed."""
        if request.scope.get("state", {}).get(OVERLOAD):
            self._api.counters.add_overload("connections")
            headers = {**_RETRY, "Connection": "close"}
            return JSONResponse({"error": "too many connections"}, 503, headers)
        if self._token is None:
            hosts = request.headers.getlist("host")
            if len(hosts) == 1 and is_allowed_host(hosts[0], self._hosts):
                return None
            reason = "this server does not answer under this name; see --allow-host"
            return JSONResponse({"error": reason}, 421)
        scheme, _, sent = request.headers.get("authorization", "").partition(" ")
        is_token = secrets.compare_digest(sent.encode("utf-8", "replace"), self._token)
        if request.scope["path"] == "/health" or (is_token and scheme.lower() == "bearer"):
            return None
        return JSONResponse({"error": "the header Authorization must be: Bearer TOKEN"}, 401)


def _elements(cell: Any) -> list[Any]:
    """Return a list unchanged, an empty list for None, and any other cell as a list of one."""
    if cell is None:
        return []
    return cell if isinstance(cell, list) else [cell]


def _size(cell: Any) -> int:
    """Return the number of characters of a cell; one separates the elements of a list."""
    size = 0
    items = [cell]
    # Not recursive, because lists may be nested more deeply than Python calls functions.
    while items:
        item = items.pop()
        if isinstance(item, list):
            size += len(item) - 1
            items += item
        else:
            size += len(item) if isinstance(item, str) else 1
    return size


def _rounded(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _rounded(item) for key, item in value.items()}
    return round(value, _DIGITS) if isinstance(value, float) else value
