"""Progress of long work: steps, rounds, the share done and the time left.

Code that runs long wraps its loops in `track` and names its stages with `stage`. Nothing happens
unless somebody up the call stack has opened a display with `shown`: then a thread of its own shows
where the work is, as one line on a terminal that is drawn again and again, and otherwise as a line
every few seconds, less often the longer it takes.

The share and the time left are those of the outermost loop that is counted. Time left follows from
the passes of this loop that are done, or of the loops inside its first pass.
"""

import os
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Sized
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import Any, NamedTuple, TextIO, TypeVar

T = TypeVar("T")

# Seconds between two drawings on a terminal. Elsewhere: before the first line, at least between
# two lines, the same as a share of the time so far, and at most.
_REDRAW = 0.25
_FIRST_LINE, _GAP, _GAP_SHARE, _LARGEST_GAP = 3.0, 5.0, 0.05, 600.0


def track(
    items: Iterable[T],
    what: str,
    total: int | None = None,
    *,
    before: int = 0,
    minor: bool = False,
    may_stop: bool = False,
) -> Iterable[T]:
    """Iterate over items and count them: `for n_iter in track(range(8), "round")`.

    Parameters
    ----------
    items : iterable
    what : str
        What one item is, in the singular.
    total : int, optional
        Number of items, for iterables without a length.
    before : int
        Number of items that were done before, by a run that was killed.
    minor : bool
        Whether the loop only prepares what takes long, so that its share says nothing.
    may_stop : bool
        Whether the loop may end before the last item, so that the time left is at most what is
        said.
    """
    display = _DISPLAY.get()
    if display is None:
        return items
    if total is None and isinstance(items, Sized):
        total = len(items)
    level = Level(what, 0, total, before=before, minor=minor, may_stop=may_stop)
    return display.count(items, level)


def stage(what: str) -> None:
    """Name what happens next; it lasts until the next stage, or the next pass of a loop."""
    display = _DISPLAY.get()
    if display is not None:
        display.doing = what


@contextmanager
def shown(
    title: str, on: bool = True, *, prefix: str = "", summary: bool = True
) -> Iterator["Display | None"]:
    """Show on stderr what is tracked inside, unless a display further out shows it already.

    Parameters
    ----------
    title : str
        The work as a whole.
    on : bool
        False shows nothing.
    prefix : str
        Begins each line that stays.
    summary : bool
        Print how long it took in the end.
    """
    # A program without a console has no stderr.
    if not on or _DISPLAY.get() is not None or sys.stderr is None:
        yield None
        return
    display = Display(title, sys.stderr, prefix)
    token = _DISPLAY.set(display)
    try:
        with display:
            yield display
    finally:
        _DISPLAY.reset(token)
    if summary:
        display.say(f"{title}: done in {duration(time.monotonic() - display.start)}")


@contextmanager
def untracked() -> Iterator[None]:
    """Show nothing of what happens inside: it is part of a stage."""
    token = _DISPLAY.set(None)
    try:
        yield
    finally:
        _DISPLAY.reset(token)


class Level(NamedTuple):
    """A loop that is counted."""

    what: str
    done: int
    total: int | None
    start: float = 0.0
    seen: float = 0.0
    """When the last pass was done."""
    left: float | None = None
    """Seconds left then, if somebody knows better than the rate."""
    before: int = 0
    minor: bool = False
    may_stop: bool = False


class Display:
    """The loops that run now, and the thread that shows them."""

    def __init__(self, title: str, stream: TextIO, prefix: str = ""):
        self.title, self.stream, self.prefix = title, stream, prefix
        self.levels: tuple[Level, ...] = ()
        self.doing = ""
        self.start = time.monotonic()
        # The share never falls while the same outermost loop runs.
        self._share = (0.0, 0.0)
        self._moving = is_terminal(stream)
        self._drawn = 0
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._show, daemon=True)

    def __enter__(self) -> "Display":
        self._thread.start()
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def close(self) -> None:
        """Show nothing any more."""
        self._stopped.set()
        self._thread.join()
        with self._lock:
            self._erase()

    def count(self, items: Iterable[T], level: "Level") -> Iterator[T]:
        """Iterate over items as the innermost loop."""
        depth, start = len(self.levels), time.monotonic()
        level = level._replace(start=start, seen=start)
        try:
            # Set before the first item, which may be made while it is asked for.
            self.levels, self.doing = (*self.levels, level), ""
            for item in items:
                yield item
                level = level._replace(done=level.done + 1, seen=time.monotonic())
                # Cut off what a loop inside has left behind.
                self.levels, self.doing = (*self.levels[:depth], level), ""
        finally:
            self.levels, self.doing = self.levels[:depth], ""

    def tell(self, what: str, done: int, total: int, left: float | None, doing: str) -> None:
        """Set everything at once, for work that counts by itself."""
        now = time.monotonic()
        self.levels, self.doing = (Level(what, done, total, self.start, now, left),), doing

    def say(self, text: str) -> None:
        """Print a line that stays, above the one that is drawn."""
        with self._lock, suppress(OSError, ValueError):
            self._erase()
            self.stream.write(f"{self.prefix}{printable(text)}\n")
            self.stream.flush()

    def text(self) -> str:
        """One line: the time so far, the loops, the share, the time left and the stage."""
        levels, doing, now = self.levels, self.doing, time.monotonic()
        where = [_place(level) for level in levels] or [doing]
        if levels and levels[0].total and not levels[0].minor:
            of, before = self._share
            share = max(_share(levels), before if of == levels[0].start else 0.0)
            self._share = levels[0].start, share
            where.append(f"{int(100 * share)}%")
        left = _left(levels, now)
        if left is not None:
            about = "at most" if levels[0].may_stop else "about"
            where.append(f"{about} {duration(max(left, 1.0))} left")
        elif levels or doing:
            where.append("time left unknown")
        if levels and doing:
            where.append(doing)
        rest = f": {', '.join(where)}" if any(where) else ""
        return printable(f"[{duration(now - self.start)}] {self.title}{rest}")

    def _show(self) -> None:
        pause = _REDRAW if self._moving else _FIRST_LINE
        # A closed stream shows nothing any more.
        with suppress(OSError, ValueError):
            while not self._stopped.wait(pause):
                text = self.text()
                with self._lock:
                    if self._moving:
                        self._draw(text)
                        continue
                    self.stream.write(f"{self.prefix}{text}\n")
                    self.stream.flush()
                passed = time.monotonic() - self.start
                pause = min(max(_GAP, _GAP_SHARE * passed), _LARGEST_GAP)

    def _draw(self, text: str) -> None:
        text = text[: max(_width(self.stream) - 1, 0)]
        self.stream.write("\r" + text.ljust(self._drawn))
        self.stream.flush()
        self._drawn = len(text)

    def _erase(self) -> None:
        if self._drawn:
            with suppress(OSError, ValueError):
                self.stream.write("\r" + " " * self._drawn + "\r")
                self.stream.flush()
        self._drawn = 0


_DISPLAY: ContextVar[Display | None] = ContextVar("display", default=None)


def current() -> Display | None:
    """The open display, if there is one."""
    return _DISPLAY.get()


def is_terminal(stream: Any) -> bool:
    """Whether the stream is a terminal that can show more than plain lines."""
    return bool(stream.isatty()) and os.environ.get("TERM") != "dumb"


def printable(text: str) -> str:
    """Escape control characters: names from files must not control the terminal."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def duration(seconds: float) -> str:
    """A number of seconds in words.

    >>> duration(0.21), duration(7.6), duration(125), duration(11 * 60 + 8), duration(11040)
    ('0.2 s', '8 s', '2 min 5 s', '11 min', '3 h 4 min')
    """
    if seconds < 0.95:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes} min"
    if minutes > 9:
        return f"{minutes} min"
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"


def _place(level: Level) -> str:
    place = level.before + level.done + 1
    if level.total is None:
        return f"{level.what} {place:,}"
    whole = level.before + level.total
    return f"{level.what} {min(place, whole):,} of {whole:,}"


def _share(levels: tuple[Level, ...]) -> float:
    """Share of the outermost loop that is done, counting the passes of loops inside."""
    first, inside = levels[0], levels[1:]
    if not first.total:
        return 0.0
    within = 0.0 if not inside or inside[0].minor else _share(inside)
    return min((first.before + first.done + within) / (first.before + first.total), 1.0)


def _left(levels: tuple[Level, ...], now: float) -> float | None:
    """Seconds left of the outermost loop, if known."""
    if not levels:
        return None
    first = levels[0]
    if first.left is not None:
        return max(first.left - (now - first.seen), 0.0)
    expected = _expected(levels)
    if expected is None or first.total is None or first.minor:
        return None
    # A pass may take longer than those before it; the ones that are not begun are still to come.
    to_come = expected * max(first.total - first.done - 1, 0) / first.total
    return max(first.start + expected - now, to_come)


def _expected(levels: tuple[Level, ...]) -> float | None:
    """Seconds that the outermost loop takes as a whole, if known."""
    first, inside = levels[0], levels[1:]
    if not first.total:
        return None
    if first.done:
        return (first.seen - first.start) / first.done * first.total
    within = None if not inside or inside[0].minor else _expected(inside)
    return None if within is None else (inside[0].start - first.start + within) * first.total


def _width(stream: Any) -> int:
    try:
        return os.get_terminal_size(stream.fileno()).columns or 80
    except (OSError, ValueError):
        return 80
