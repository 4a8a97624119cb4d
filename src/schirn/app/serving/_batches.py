"""Batching: rows of small requests are answered together, large requests piece by piece.

One product costs less than many, and small requests need not wait for a large one to finish.
"""

import asyncio
import json
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from starlette.requests import ClientDisconnect

Work = Callable[[list[Any], Any], list[Any]]
"""A function from rows and an option to one answer per row."""

MAX_ROWS = 512
"""Maximum number of rows that are answered together."""
MAX_CHARACTERS = 2**16
"""Maximum length of the texts that are answered together; a single row may be longer."""
MAX_DELAY = 0.002
"""Maximum time in seconds that a request waits for others that are being read."""


@dataclass(frozen=True)
class _Job:
    work: Work
    rows: list[Any]
    option: Any
    n_characters: int
    answers: "asyncio.Future[list[Any]]"

    @property
    def kind(self) -> tuple[Work, str]:
        """Kind of the job; jobs of one kind can be answered together."""
        return self.work, json.dumps(self.option, sort_keys=True)


class Batches:
    """Run work in one thread, for the rows of all waiting requests together.

    A request that is alone in the server is answered at once. If others are in flight, it waits
    until they have been read, at most `MAX_DELAY` seconds. A large request queues again after each
    piece.

    Parameters
    ----------
    n_in_flight : callable
        Returns the number of unanswered requests.

    Examples
    --------
    >>> import asyncio
    >>> from schirn.app.serving._batches import Batches
    >>> def lengths(rows, unit):
    ...     return [f"{len(row)} {unit}" for row in rows]
    >>> batches = Batches(n_in_flight=lambda: 1)
    >>> asyncio.run(batches.answer(lengths, ["pan", "chair"], "letters"))
    ['3 letters', '5 letters']
    """

    def __init__(self, n_in_flight: Callable[[], int]) -> None:
        self._n_in_flight = n_in_flight
        # A single thread, because others would compete with it for the interpreter lock.
        self._thread = ThreadPoolExecutor(1)
        self._queue: deque[_Job] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self._is_busy = False
        self._start_time = 0.0

    @property
    def seconds_busy(self) -> float:
        """Seconds that the thread has worked on the present piece; 0 if it is idle."""
        return time.monotonic() - self._start_time if self._is_busy else 0.0

    async def answer(
        self,
        work: Work,
        rows: list[Any],
        option: Any,
        is_gone: Callable[[], Awaitable[bool]] | None = None,
    ) -> list[Any]:
        """Return the answers to the rows of one request.

        Parameters
        ----------
        work : callable
            Function that returns one answer per row, which must not depend on the other rows.
        rows : list
            Rows of the request.
        option : object
            Second argument of `work`, a JSON value.
        is_gone : callable, optional
            Tells whether the client has left; asked before every piece except the first.

        Returns
        -------
        list
            One answer per row.

        Raises
        ------
        ClientDisconnect
            If the client has left before the last piece.
        Exception
            The error of `work` for these rows; other requests are not affected.
        """
        answers: list[Any] = []
        for piece in _pieces(rows):
            if answers and is_gone is not None and await is_gone():
                raise ClientDisconnect
            answers += await self._answer_piece(work, piece, option)
        return answers

    async def _answer_piece(self, work: Work, rows: list[Any], option: Any) -> list[Any]:
        """Append rows to the queue, and wait for their answers."""
        loop = asyncio.get_running_loop()
        n_characters = sum(n_characters_of(row) for row in rows)
        job = _Job(work, rows, option, n_characters, loop.create_future())
        self._queue.append(job)
        if not self._is_busy:
            self._schedule()
        return await job.answers

    def _schedule(self) -> None:
        """Start now if no other request can join, otherwise soon."""
        n_rows = sum(len(job.rows) for job in self._queue)
        is_complete = len(self._queue) >= self._n_in_flight()
        if is_complete or n_rows >= MAX_ROWS:
            self._start()
        elif self._timer is None:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(MAX_DELAY, self._start)

    def _start(self) -> None:
        """Answer the first requests of the queue, in the thread."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        jobs = self._next_jobs()
        if not jobs:
            return
        self._is_busy = True
        self._start_time = time.monotonic()
        loop = asyncio.get_running_loop()
        outcome = loop.run_in_executor(self._thread, _run, jobs)
        outcome.add_done_callback(lambda done: self._finish(jobs, done.result()))

    def _next_jobs(self) -> list[_Job]:
        """Take requests from the queue until there are enough rows or characters."""
        jobs: list[_Job] = []
        n_rows = 0
        n_characters = 0
        while self._queue:
            job = self._queue[0]
            n_rows += len(job.rows)
            n_characters += job.n_characters
            if jobs and (n_rows > MAX_ROWS or n_characters > MAX_CHARACTERS):
                break
            self._queue.popleft()
            # A request that timed out has been answered already.
            if not job.answers.done():
                jobs.append(job)
        return jobs

    def _finish(self, jobs: list[_Job], outcomes: "list[list[Any] | Exception]") -> None:
        """Deliver the answers, and continue with requests that have arrived meanwhile."""
        self._is_busy = False
        for job, outcome in zip(jobs, outcomes, strict=True):
            if job.answers.done():
                continue
            if isinstance(outcome, Exception):
                job.answers.set_exception(outcome)
            else:
                job.answers.set_result(outcome)
        if self._queue:
            self._schedule()


def _pieces(rows: list[Any]) -> Iterator[list[Any]]:
    """Yield rows in pieces of limited number and length."""
    piece: list[Any] = []
    length = 0
    for row in rows:
        n_characters = n_characters_of(row)
        if piece and (len(piece) == MAX_ROWS or length + n_characters > MAX_CHARACTERS):
            yield piece
            piece = []
            length = 0
        piece.append(row)
        length += n_characters
    if piece or not rows:
        yield piece


def n_characters_of(row: Any) -> int:
    """Return the number of characters of the texts in a row.

    Parameters
    ----------
    row : dict or JSON value
        Cells by the name of their column.

    Returns
    -------
    int
    """
    cells = row.values() if isinstance(row, dict) else (row,)
    return sum(len(cell) for cell in cells if isinstance(cell, str))


def _run(jobs: list[_Job]) -> "list[list[Any] | Exception]":
    """Return the answers or an error for each job."""
    groups: dict[Any, list[_Job]] = {}
    for job in jobs:
        groups.setdefault(job.kind, []).append(job)
    outcomes: dict[int, list[Any] | Exception] = {}
    for group in groups.values():
        for job, outcome in zip(group, _run_together(group), strict=True):
            outcomes[id(job)] = outcome
    return [outcomes[id(job)] for job in jobs]


def _run_together(jobs: list[_Job]) -> "list[list[Any] | Exception]":
    """Return the answers to jobs of one kind; if that fails, run each job alone."""
    work = jobs[0].work
    option = jobs[0].option
    rows = [row for job in jobs for row in job.rows]
    try:
        answers = work(rows, option)
    # Any error is delivered to the request that caused it.
    except Exception as error:
        if len(jobs) == 1:
            return [error]
        return [_run_together([job])[0] for job in jobs]
    outcomes: list[list[Any] | Exception] = []
    start = 0
    for job in jobs:
        stop = start + len(job.rows)
        outcomes.append(answers[start:stop])
        start = stop
    return outcomes
