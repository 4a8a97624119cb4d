"""A small client for the HTTP API of Label Studio: sends tasks, fetches annotations."""

import http.client
import ipaddress
import json
import os
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from schirn._files import atomic_write, brief, byte_limit, reason_of
from schirn.app.tables import local_path
from schirn.app.workflow._label_tools import LABEL_CONFIG, Task, open_tasks, task_records
from schirn.app.workflow._ranking_store import RankingStore
from schirn.exceptions import DataError, InputError

TOKEN_VARIABLE = "LABEL_STUDIO_API_KEY"
"""The environment variable with the token, as in Label Studio's own tools."""
# Label Studio limits requests to 250,000 tasks and 200 MB.
_BATCH = 500
_CHUNK = 1 << 20
# The server's access tokens are valid for about five minutes.
_ACCESS_SECONDS = 120
_NETWORK = (
    urllib.error.URLError,
    http.client.HTTPException,
    TimeoutError,
    ConnectionError,
)


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Rejects redirects, which would send the token to another address."""

    def redirect_request(self, *_: Any) -> None:
        return None


class LabelStudio:
    """A project on a Label Studio server.

    Only https addresses and this machine are allowed, redirects are rejected, and the token is
    never printed.

    Parameters
    ----------
    url : str
        Address of the server, such as "http://localhost:8080".
    project : int
        Number of the project, as in its address.
    token : str
        A legacy token or a personal access token.
    timeout : float, default=30
        Seconds to wait for the server, at each step.
    time_limit : float, default=600
        Seconds for one request, or for the import of one batch.

    Examples
    --------
    >>> from schirn.app.workflow import LabelStudio
    >>> LabelStudio("http://localhost:8080", 3, "secret")
    LabelStudio('http://localhost:8080', project=3)
    """

    def __init__(
        self,
        url: str,
        project: int,
        token: str,
        *,
        timeout: float = 30,
        time_limit: float = 600,
    ) -> None:
        self.url = _checked(url)
        self.project = project
        self.timeout = timeout
        self.time_limit = time_limit
        # Characters outside ASCII or line breaks would cause an error that quotes the header.
        if not token or not _is_plain(token):
            raise InputError("the token of Label Studio is empty or contains invalid characters")
        self._token = token
        self._header = ""
        self._exchanged_at = float("-inf")
        handlers: list[Any] = [_NoRedirect]
        if self.url.startswith("http:"):
            # A proxy would read requests meant for this machine.
            handlers.append(urllib.request.ProxyHandler({}))
        self._opener = urllib.request.build_opener(*handlers)

    @classmethod
    def from_environment(
        cls, url: str, project: int, variable: str = TOKEN_VARIABLE
    ) -> "LabelStudio":
        """Return a project whose token is in an environment variable.

        Parameters
        ----------
        url : str
            Address of the server.
        project : int
            Number of the project.
        variable : str, default="LABEL_STUDIO_API_KEY"
            Name of the environment variable.

        Returns
        -------
        LabelStudio

        Raises
        ------
        InputError
            If the variable is not set.
        """
        token = os.environ.get(variable, "").strip()
        if not token:
            raise InputError(f"the variable {variable} does not hold a token of Label Studio")
        return cls(url, project, token)

    def __repr__(self) -> str:
        return f"LabelStudio({self.url!r}, project={self.project})"

    def create_project(self, title: str) -> int:
        """Create a project with a labeling interface for the tasks, and use it.

        Parameters
        ----------
        title : str
            Title of the project.

        Returns
        -------
        int
            Number of the project.
        """
        answer = self._json("/api/projects/", {"title": title, "label_config": LABEL_CONFIG})
        self.project = _number(answer, "id", self.url)
        return self.project

    def send(self, tasks: Sequence[Mapping[str, Any]]) -> int:
        """Import tasks into the project, in batches.

        Parameters
        ----------
        tasks : sequence of dict
            Tasks from `task_records`.

        Returns
        -------
        int
            Number of tasks.
        """
        for start in range(0, len(tasks), _BATCH):
            batch = list(tasks[start : start + _BATCH])
            answer = self._json(f"/api/projects/{self.project}/import", batch)
            if isinstance(answer, dict) and "import" in answer:
                self._wait(_number(answer, "import", self.url))
        return len(tasks)

    def _wait(self, number: int) -> None:
        """Wait for a background import of the server."""
        end = time.monotonic() + self.time_limit
        pause = 0.1
        while True:
            answer = self._json(f"/api/projects/{self.project}/imports/{number}/")
            status = answer.get("status") if isinstance(answer, dict) else None
            if status == "completed":
                return
            if status == "failed":
                reason = brief(answer.get("error"), 200)
                raise DataError(f"{self.url}: the import of the tasks failed ({reason})")
            if time.monotonic() + pause > end:
                raise DataError(
                    f"{self.url}: the import of the tasks takes more than {self.time_limit:g} s"
                )
            time.sleep(pause)
            pause = min(2 * pause, 5)

    def download(self, path: str | os.PathLike[str]) -> None:
        """Write all tasks of the project with their annotations to a .json file.

        Parameters
        ----------
        path : path
            File to write.
        """
        query = "exportType=JSON&download_all_tasks=true"
        content = self._request(f"/api/projects/{self.project}/export?{query}")
        with atomic_write(path) as stream:
            stream.write(content)

    def export(self, table: str) -> str:
        """Write all tasks with their annotations to the folder `.schirn` next to a table.

        Parameters
        ----------
        table : str
            A file or a database.

        Returns
        -------
        str
            Path of the .json file.
        """
        table_path = local_path(table)
        folder = RankingStore(table_path).folder
        folder.mkdir(exist_ok=True)
        path = folder / f"{Path(table_path).name}.label-studio-{self.project}.json"
        self.download(path)
        return str(path)

    def send_new(
        self, tasks: Sequence[Task], export: str, *, show_predictions: bool = False
    ) -> int:
        """Import tasks, except tasks that are already open in the project.

        Parameters
        ----------
        tasks : sequence of Task
            The tasks.
        export : str
            Present content of the project, written by `export`.
        show_predictions : bool, default=False
            Show the likelier answer and its probability, which biases people.

        Returns
        -------
        int
            Number of tasks that were sent.
        """
        waiting = open_tasks(export)
        new = [task for task in tasks if task.key not in waiting]
        return self.send(task_records(new, show_predictions=show_predictions))

    def _json(self, address: str, data: Any = None) -> Any:
        """Return the JSON document in the server's response."""
        content = self._request(address, data)
        try:
            return json.loads(content)
        except (ValueError, RecursionError):
            raise DataError(f"{self.url}: the server did not answer with JSON") from None

    def _request(self, address: str, data: Any = None, *, is_login: bool = False) -> bytes:
        """Return the server's response, within the limits of time and size."""
        headers = {"Accept": "application/json", "Content-Type": "application/json"}
        if not is_login:
            headers["Authorization"] = self._authorization()
        body = None if data is None else json.dumps(data).encode()
        request = urllib.request.Request(self.url + address, body, headers)
        end = time.monotonic() + self.time_limit
        try:
            with self._opener.open(request, timeout=self.timeout) as response:
                return self._read(response, end)
        except urllib.error.HTTPError as error:
            error.close()
            raise DataError(self._sentence(error.code)) from None
        except _NETWORK as error:
            reason = brief(str(getattr(error, "reason", None) or error), 200)
            raise DataError(f"{self.url}: no connection, or it was lost ({reason})") from None

    def _read(self, response: Any, end: float) -> bytes:
        """Return the body of a response."""
        limit = byte_limit()
        content = bytearray()
        while chunk := response.read1(_CHUNK):
            content += chunk
            if len(content) > limit:
                raise DataError(f"{self.url}: the server sends more than {limit:,} bytes")
            if time.monotonic() > end:
                raise DataError(f"{self.url}: the answer takes more than {self.time_limit:g} s")
        return bytes(content)

    def _authorization(self) -> str:
        """Return the header; a personal access token is exchanged for a short-lived one."""
        if self._token.count(".") != 2:
            return f"Token {self._token}"
        moment = time.monotonic()
        if moment - self._exchanged_at > _ACCESS_SECONDS:
            self._header = f"Bearer {self._access()}"
            self._exchanged_at = moment
        return self._header

    def _access(self) -> str:
        """Return an access token for the personal token."""
        content = self._request("/api/token/refresh", {"refresh": self._token}, is_login=True)
        try:
            access = json.loads(content)["access"]
        except (ValueError, KeyError, TypeError, RecursionError):
            access = None
        if not isinstance(access, str) or not _is_plain(access):
            raise DataError(f"{self.url}: the server did not accept the personal access token")
        return access

    def _sentence(self, status: int) -> str:
        """Return a sentence about a status."""
        reasons = {
            400: "it rejects the tasks; the labeling interface of the project must show $tag and "
            "$text, as in the .xml file next to the tasks",
            401: "it does not accept the token",
            403: "the token may not use this project",
            404: f"there is no project {self.project}, or the server does not have this API",
        }
        if 300 <= status < 400:
            return f"{self.url}: the server redirects elsewhere; give its own address"
        reason = reasons.get(status, "try again later" if status >= 500 else "it refuses")
        return f"{self.url}: the server answered {status}: {reason}"


def _checked(url: str) -> str:
    """Return an address without a trailing slash; only https, or http on this machine."""
    try:
        parts = urllib.parse.urlsplit(url)
        host = parts.hostname or ""
        _ = parts.port
    except ValueError as error:
        raise InputError(f"{brief(url)} is not a web address ({reason_of(error)})") from None
    is_safe = parts.scheme == "https" or (parts.scheme == "http" and is_local_host(host))
    if not host or not is_safe or not _is_plain(url):
        raise InputError(
            f"{brief(url)} is not an https address, nor one of this machine such as "
            f"http://localhost:8080"
        )
    if parts.username is not None or parts.query or parts.fragment:
        raise InputError(
            "the address of Label Studio must not contain a user, a query or a fragment"
        )
    return url.rstrip("/")


def _is_plain(text: str) -> bool:
    """Check whether a string can be part of a request: no line breaks, spaces or non-ASCII."""
    return text.isascii() and text.isprintable() and " " not in text


def is_local_host(host: str) -> bool:
    """Check whether an address can only be reached from this machine.

    Parameters
    ----------
    host : str
        A name or an IP address.

    Returns
    -------
    bool
    """
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _number(answer: Any, name: str, url: str) -> int:
    """Return a number in the server's response."""
    value = answer.get(name) if isinstance(answer, dict) else None
    if not isinstance(value, int):
        raise DataError(f"{url}: the answer of the server has no {name!r}")
    return value
