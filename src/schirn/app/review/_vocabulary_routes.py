"""Routes for the vocabulary part of the page."""

from collections.abc import Mapping
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from schirn._input import OneOf, is_count
from schirn.app.review._saving import MAX_BODY, save
from schirn.app.review._session import Session
from schirn.app.review._vocabulary import ANSWER, PROPOSE, LineKey, VocabularyRoom
from schirn.app.review._vocabulary_view import OPEN, SHOWN, find_names
from schirn.app.serving import read_json
from schirn.exceptions import InputError

_UNDO = "undo"
_ACTIONS = (ANSWER, PROPOSE, _UNDO)
_ACCEPTS = {"yes": True, "no": False, "": None}


def vocabulary_routes(session: Session) -> list[Route]:
    """Return the routes for the vocabulary.

    Parameters
    ----------
    session : Session
        The review.

    Returns
    -------
    list of Route
    """
    api = _VocabularyApi(session)
    return [
        Route("/api/vocabulary", api.state),
        Route("/api/vocabulary", api.act, methods=["POST"]),
        Route("/api/names", api.names),
    ]


class _VocabularyApi:
    def __init__(self, session: Session):
        self._session = session

    def state(self, request: Request) -> Response:
        """Send the list of lines and the line in question."""
        return JSONResponse(self._view(_query(request.query_params)))

    def names(self, request: Request) -> Response:
        """Send tags whose names contain a string."""
        return JSONResponse(find_names(self._session, request.query_params.get("find", "")))

    async def act(self, request: Request) -> Response:
        """Record one action; the response contains the next line."""
        body = _checked(await read_json(request, MAX_BODY))
        return await save(lambda: self._act(body), lambda: self._view(body))

    def _act(self, body: dict[str, Any]) -> None:
        session = self._session
        action = body["action"]
        if action == _UNDO:
            with session.lock:
                line = _line_of_last(session)
                session.undo(body["seen"], of=body["of"])
                # A line that was just undone is asked about again at once.
                body["line"] = line if _has(session.room, line) else None
        elif action == PROPOSE:
            session.propose()
        else:
            with session.lock:
                position = session.room.position(LineKey.from_record(body))
                body["after"] = session.room.current[position].number
                accept = _ACCEPTS[body["accept"]]
                target = body.get("to")
                session.answer_line(position, accept, body["seen"], target=target)

    def _view(self, query: Mapping[str, Any]) -> dict[str, Any]:
        line = query.get("line")
        return self._session.vocabulary_view(
            show=query.get("show", OPEN),
            find=query.get("find", ""),
            # An answer names its line by its key; a number comes from a query or from undo.
            line=line if is_count(line) else None,
            after=query.get("after"),
        )


def _query(parameters: Mapping[str, str]) -> dict[str, Any]:
    """Return the parameters of a request, with numbers converted to int."""
    query: dict[str, Any] = dict(parameters)
    for name in ("line", "after"):
        if name in query:
            if not query[name].isdecimal() or len(query[name]) > 9:
                raise InputError(f"{name} must be a whole number")
            query[name] = int(query[name])
    return query


def _checked(request: Any) -> dict[str, Any]:
    """Return a request after checking that its action has all required fields."""
    if not isinstance(request, dict):
        raise InputError("the request must be a JSON object")
    action = request.get("action")
    if not isinstance(action, str) or action not in _ACTIONS:
        raise InputError(f"the request must give an 'action': {', '.join(_ACTIONS)}")
    for key in ("seen", "of") if action == _UNDO else ("seen",):
        if not is_count(request.get(key)):
            raise InputError(f"the request must give {key!r} as a whole number of at least 0")
    if action == ANSWER:
        LineKey.from_record(request)
        if request.get("accept") not in [*_ACCEPTS]:
            raise InputError("the request must give 'accept': yes, no or an empty text")
    if not isinstance(request.get("find", ""), str):
        raise InputError("'find' must be a text")
    # Checked before anything is saved.
    OneOf(SHOWN).check("show", request.setdefault("show", OPEN))
    # The answer determines the next line of the page.
    request.pop("after", None)
    return request


def _line_of_last(session: Session) -> int | None:
    """Return the number of the line that the last record answered."""
    if not session.history or session.history[-1].record["action"] != ANSWER:
        return None
    step = session.history[-1]
    key = LineKey.from_record(step.record)
    # Undo restores the line as it was before the record.
    lines = step.before[0]
    return next((line.number for line in lines if LineKey.of(line) == key), None)


def _has(room: VocabularyRoom, number: int | None) -> bool:
    return any(line.number == number for line in room.current)
