"""Who may ask, under which id, and the log of what was asked."""

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
    """Return the id of a request: its header ``X-Request-ID`` if that is plain, or a new one.

    Parameters
    ----------
    request : starlette Request

    Returns
    -------
    str
        Letters, digits and ``._:-``, at most 128 of them.
    """
    name = request.headers.get("x-request-id", "")
    return name if _REQUEST_ID.fullmatch(name) else secrets.token_hex(8)


def is_allowed_host(host: str, names: Iterable[str]) -> bool:
    """Whether a request with this header ``Host`` was meant for this server.

    A web page can point a name of its own at this machine, and a browser then lets it read the
    answers. An address cannot be pointed elsewhere, so that addresses are always allowed.

    Parameters
    ----------
    host : str
        The header, with or without a port.
    names : iterable of str
        Names that are allowed beside ``localhost``; "*" allows all.

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
    """Writes one JSON object per request.

    Tokens, headers, rows and what follows a "?" are never written. Several processes can write to
    one file: each line is one write at its end.

    Parameters
    ----------
    path : path
        "-" is stderr.
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
        """Write a line; return False if that failed, as on a full disk.

        Parameters
        ----------
        record : dict
            What is known of a request.
        """
        time = datetime.now(UTC).isoformat(timespec="milliseconds")
        line = json.dumps({"time": time, **record}) + "\n"
        try:
            return os.write(self._file, line.encode()) == len(line)
        except OSError:
            return False


def record_of(request: Request, name: str) -> dict[str, Any]:
    """Return what the log says of a request before it is answered.

    Parameters
    ----------
    request : starlette Request
    name : str
        Id of the request.
    """
    return {
        "id": name,
        "client": request.client.host if request.client else None,
        "method": request.method,
        "path": request.scope["path"][:_MAX_PATH],
    }
