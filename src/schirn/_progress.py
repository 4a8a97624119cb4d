"""Progress of long work: steps, rounds, the share done and the time left.

Code that runs long wraps its loops in `track` and names its stages with `stage`. Both are logged,
with one logger per package, such as `schirn.cleaning`, and shown if a caller has opened a display
with `shown`. It draws a bar with Rich if that is installed and stderr is a terminal, and otherwise
prints a line every few seconds, less often the longer the work takes.

The share and the time left are those of the outermost counted loop, including the passes of loops
inside it. Work that consists of several such loops begins again with each, so that the line says
"in this step", unless the work counts by itself.
"""

import logging
import os
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Sized
from contextlib import AbstractContextManager, contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Any, TextIO, TypeVar

T = TypeVar("T")

# Seconds before the first line; between two lines, the minimum in seconds, the minimum as a share
# of the time so far, and the maximum in seconds.
_FIRST_LINE = 3.0
_GAP = 5.0
_GAP_SHARE = 0.05
_LARGEST_GAP = 600.0


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
        Whether the loop may end before the last item, so that perhaps less time is left.
    """
    display = _DISPLAY.get()
    if total is None and isinstance(items, Sized):
        total = len(items)
    _log(logging.DEBUG, what if total is None else f"{what}, {total} in all")
    if display is None:
        return items
    level = Level(what, 0, total, before=before, minor=minor, may_stop=may_stop)
    return display.count(items, level)


def stage(what: str) -> None:
    """Name what happens next; it lasts until the next stage, or the next pass of a loop."""
    _log(logging.INFO, what)
    display = _DISPLAY.get()
    if display is not None:
        display.doing = what


def _log(level: int, what: str) -> None:
    """Log what the caller of the caller does, with the logger of its package: `schirn.cleaning`."""
    if logging.getLogger("schirn").isEnabledFor(level):
        name = str(sys._getframe(2).f_globals.get("__name__", "schirn"))
        logging.getLogger(".".join(name.split(".")[:2])).log(level, what)


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
    with setting(_DISPLAY, display):
        display.open()
        try:
            yield display
        finally:
            display.close()
    if summary:
        display.say(f"{title}: done in {duration(time.monotonic() - display.start)}")


def untracked() -> AbstractContextManager[None]:
    """Show nothing of what happens inside: it is part of a stage."""
    return setting(_DISPLAY, None)


@contextmanager
def setting(variable: ContextVar[Any], value: Any) -> Iterator[None]:
    """Give a variable another value for what happens inside."""
    token = variable.set(value)
    try:
        yield
    finally:
        variable.reset(token)


@dataclass(frozen=True)
class Level:
    """A loop that is counted."""

    what: str
    done: int
    total: int | None
    start: float = 0.0
    seen: float = 0.0
    """Time at which the last pass ended."""
    left: float | None = None
    """Seconds left at that time, if known more exactly than by extrapolation."""
    before: int = 0
    minor: bool = False
    may_stop: bool = False


class Display:
    """The loops that run now, shown by a Rich bar or by a thread that prints lines."""

    def __init__(self, title: str, stream: TextIO, prefix: str = ""):
        self.title = title
        self.stream = stream
        self.prefix = prefix
        self.levels: tuple[Level, ...] = ()
        self.doing = ""
        self.start = time.monotonic()
        # The share never falls while the same outermost loop runs.
        self._share = (0.0, 0.0)
        can_draw = bool(stream.isatty()) and os.environ.get("TERM") != "dumb"
        self._bar = _rich_bar(self) if can_draw else None
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._print_lines, daemon=True)

    def open(self) -> None:
        """Begin to show what is counted."""
        if self._bar is None:
            self._thread.start()
        else:
            self._bar.start()

    def close(self) -> None:
        """Show nothing any more."""
        self._stopped.set()
        if self._bar is None:
            self._thread.join()
        else:
            self._bar.stop()

    def count(self, items: Iterable[T], level: "Level") -> Iterator[T]:
        """Iterate over items as the innermost loop."""
        depth = len(self.levels)
        start = time.monotonic()
        level = replace(level, start=start, seen=start)
        try:
            # Set before the first item is requested, because computing it may take long.
            self.levels = (*self.levels, level)
            self.doing = ""
            for item in items:
                yield item
                level = replace(level, done=level.done + 1, seen=time.monotonic())
                # Remove the levels that an inner loop left behind.
                self.levels = (*self.levels[:depth], level)
                self.doing = ""
        finally:
            self.levels = self.levels[:depth]
            self.doing = ""

    def tell(
        self, what: str, n_done: int, total: int, seconds_left: float | None, doing: str
    ) -> None:
        """Set everything at once, for work that counts by itself."""
        time_now = time.monotonic()
        self.levels = (Level(what, n_done, total, self.start, time_now, seconds_left),)
        self.doing = doing

    def say(self, text: str) -> None:
        """Print a line that stays, above the bar."""
        line = f"{self.prefix}{printable(text)}"
        with suppress(OSError, ValueError):
            if self._bar is None:
                self.stream.write(f"{line}\n")
                self.stream.flush()
            else:
                self._bar.console.print(line, markup=False, highlight=False, soft_wrap=True)

    def share(self) -> float | None:
        """Share of the outermost loop that is done, if known."""
        first = self.levels[0] if self.levels else None
        if first is None or first.total is None or first.minor:
            return None
        passes = first.before + first.total * _share(self.levels)
        start, highest = self._share
        highest = highest if start == first.start else 0.0
        share = max(passes / max(first.before + first.total, 1), highest)
        self._share = first.start, share
        return share

    def text(self) -> str:
        """One line: the time so far, the loops, the share, the time left and the stage."""
        levels = self.levels
        doing = self.doing
        time_now = time.monotonic()
        parts = [_place(level) for level in levels] or [doing]
        share = self.share()
        seconds = _left(levels, time_now)
        if share is not None:
            parts.append(f"{int(100 * share)}%")
        if seconds is not None:
            where = " in this step" if levels[0].left is None else ""
            less = ", perhaps less" if levels[0].may_stop else ""
            parts.append(f"about {duration(max(seconds, 1.0))} left{where}{less}")
        elif levels or doing:
            parts.append("time left unknown")
        if levels and doing:
            parts.append(doing)
        ending = f": {', '.join(parts)}" if any(parts) else ""
        return printable(f"[{duration(time_now - self.start)}] {self.title}{ending}")

    def _print_lines(self) -> None:
        pause = _FIRST_LINE
        # A closed stream shows nothing any more.
        with suppress(OSError, ValueError):
            while not self._stopped.wait(pause):
                self.stream.write(f"{self.prefix}{self.text()}\n")
                self.stream.flush()
                passed = time.monotonic() - self.start
                pause = min(max(_GAP, _GAP_SHARE * passed), _LARGEST_GAP)


_DISPLAY: ContextVar[Display | None] = ContextVar("display", default=None)


def current() -> Display | None:
    """The open display, if there is one."""
    return _DISPLAY.get()


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
    minutes, remainder = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes} min"
    if minutes > 9:
        return f"{minutes} min"
    return f"{minutes} min {remainder} s" if minutes else f"{remainder} s"


def _place(level: Level) -> str:
    place = level.before + level.done + 1
    if level.total is None:
        return f"{level.what} {place:,}"
    n_passes = level.before + level.total
    return f"{level.what} {min(place, n_passes):,} of {n_passes:,}"


def _share(levels: tuple[Level, ...]) -> float:
    """Share of the outermost loop that this run has done, counting the passes of loops inside."""
    if not levels or levels[0].minor or not levels[0].total:
        return 0.0
    return min((levels[0].done + _share(levels[1:])) / levels[0].total, 1.0)


def _left(levels: tuple[Level, ...], time_now: float) -> float | None:
    """Seconds left of the outermost loop; None if unknown, or if they should be over."""
    share = _share(levels)
    if not levels or (levels[0].left is None and not share):
        return None
    first = levels[0]
    if first.left is not None:
        seconds = first.left - (time_now - first.seen)
        return seconds if seconds > 0 else None
    expected = (max(level.seen for level in levels if level.done) - first.start) / share
    # While a pass exceeds its expected time, those not yet begun are expected to take as long as
    # the mean of those so far.
    to_come = max((first.total or 0) - first.done - 1, 0)
    slower = (time_now - first.start) / (first.done + 1) * to_come
    seconds = max(first.start + expected - time_now, slower)
    return seconds if seconds > 0 else None


def _rich_bar(display: Display) -> Any:
    """A bar of Rich under the line of a display; None if Rich is not installed."""
    try:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, ProgressColumn, Task
        from rich.table import Column
        from rich.text import Text
    except ImportError:
        return None

    class Line(ProgressColumn):
        def render(self, task: Task) -> Text:
            share = display.share()
            bar.update(task.id, total=None if share is None else 1.0, completed=share or 0.0)
            return Text(display.text(), no_wrap=True, overflow="ellipsis")

    bar = Progress(
        BarColumn(bar_width=12, table_column=Column(no_wrap=True)),
        Line(),
        console=Console(file=display.stream),
        transient=True,
        redirect_stdout=False,
        redirect_stderr=False,
    )
    bar.add_task("", total=None)
    return bar
