"""Responses to requests that are recorded: the next content of the page, or an error."""

from collections.abc import Callable
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response

from schirn.app.review._session import Conflict
from schirn.exceptions import DataError

MAX_BODY = 64 * 1024


async def save(act: Callable[[], Any], view: Callable[[], Any]) -> Response:
    """Record an action, and respond with the next content of the page.

    Parameters
    ----------
    act : function
        Writes to the journal.
    view : function
        Returns the content of the page as a JSON document.

    Returns
    -------
    Response
        Status 409 if another tab was first, with the content that the page should show.

    Raises
    ------
    HTTPException
        Status 507 if the journal could not be written.
    """
    try:
        await run_in_threadpool(act)
    except Conflict as conflict:
        state = await run_in_threadpool(view)
        return JSONResponse({"error": str(conflict), "state": state}, 409)
    except (DataError, OSError) as failure:
        # The user must know if another program has replaced the journal, or the disk is full.
        reason = getattr(failure, "strerror", None) or failure
        raise HTTPException(507, f"The decision is not saved. {reason}.") from failure
    return JSONResponse(await run_in_threadpool(view))
