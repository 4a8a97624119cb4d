"""Access control, request ids, and the access log."""

import ipaddress
import json
import os
import re
import secrets
import sys
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from starlette.requests import Request

_REQUEST_ID = re.compile(r"[A-Za-z0-9._:-]{1,128}")
_PORT = re.compile(r":\d*$")
_MAX_PATH = 200


def request_id(request: Request) -> str:
    """Return the id of a request: its header ``X-Request-ID`` if valid, otherwise a new id.

    Parameters
    ----------
    request : starlette Request
        The request.

    Returns
    -------
    str
        Up to 128 letters, digits and characters ``._:-``.
    """
    name = request.headers.get("x-request-id", "")
    return name if _REQUEST_ID.fullmatch(name) else secrets.token_hex(8)


def is_allowed_host(host: str, names: Iterable[str]) -> bool:
    """Check whether a request with this header ``Host`` was meant for this server.

    A web page can point its own name at this machine, and the browser then lets it read the
    responses. Addresses cannot be pointed elsewhere, so they are always allowed.

    Parameters
    ----------
    host : str
        The header, with or without a port.
    names : iterable of str
        Names that are allowed in addition to ``localhost``; "*" allows all.

    Returns
    -------
    bool

    Examples
    --------
    >>> from schirn.app.serving._access import is_allowed_host
    >>> is_allowed_host("127.0.0.1:8000", []), is_allowed_host("evil.com", [])
    (True, False)
    >>> is_allowed_host("tags.example.org:8000", ["tags.example.org"])
    True
    """
    name = _PORT.sub("", host).lower().removesuffix(".")
    allowed = {"localhost", *(allowed_name.lower() for allowed_name in names)}
    if name in allowed or "*" in allowed:
        return True
    try:
        ipaddress.ip_address(name.removeprefix("[").removesuffix("]"))
    except ValueError:
        return False
    return True


class AccessLog:
    """Access log with one JSON object per request.

    Tokens, headers, rows and query strings are never written. Several processes can write to one
    file, because each line is appended by a single write.

    Parameters
    ----------
    path : path
        File to append to; "-" is stderr.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        if str(path) == "-":
            self._file = sys.stderr.fileno()
        else:
            flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT
            self._file = os.open(path, flags, 0o640)

    def close(self) -> None:
        """Close the file."""
        if self._file != sys.stderr.fileno():
            os.close(self._file)

    def write(self, record: dict[str, Any]) -> bool:
        """Write a line; return False if that failed, for example on a full disk.

        Parameters
        ----------
        record : dict
            Fields of the line.

        Returns
        -------
        bool
        """
        time = datetime.now(UTC).isoformat(timespec="milliseconds")
        line = json.dumps({"time": time, **record}) + "\n"
        try:
            return os.write(self._file, line.encode()) == len(line)
        except OSError:
            return False


def record_of(request: Request, name: str) -> dict[str, Any]:
    """Return the fields of the log that are known before a request is answered.

    Parameters
    ----------
    request : starlette Request
        The request.
    name : str
        Id of the request.

    Returns
    -------
    dict
    """
    return {
        "id": name,
        "client": request.client.host if request.client else None,
        "method": request.method,
        "path": request.scope["path"][:_MAX_PATH],
    }
