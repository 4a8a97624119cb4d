"""Output of the program: tables, notes and JSON; Rich on a terminal, plain text elsewhere."""

import argparse
import json
import logging
import math
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Any

import numpy as np

from schirn import _progress
from schirn._progress import Display, is_terminal, printable, shown
from schirn.cli.provenance import provenance

_COLOUR_VARIABLES = ("NO_COLOR", "FORCE_COLOR")
_ARGS: ContextVar[argparse.Namespace | None] = ContextVar("args", default=None)


@contextmanager
def running(args: argparse.Namespace) -> Iterator[None]:
    """Print as the common options say, with the provenance of this run in every document."""
    token, logger = _ARGS.set(args), logging.getLogger("schirn")
    handler, level = logging.StreamHandler(), logger.level
    handler.setFormatter(_JsonLines())
    if args.log_json:
        logger.addHandler(handler)
        logger.setLevel(logging.ERROR if args.quiet else logging.INFO)
    try:
        yield
    finally:
        _ARGS.reset(token)
        logger.removeHandler(handler)
        logger.setLevel(level)


class _JsonLines(logging.Formatter):
    """One JSON object per record."""

    def format(self, record: logging.LogRecord) -> str:
        when = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        line = {"time": when, "level": record.levelname.lower(), "logger": record.name}
        return json.dumps({**line, "message": record.getMessage()}, ensure_ascii=False)


def _has(option: str) -> bool:
    """Whether the command that runs has this common option."""
    return bool(getattr(_ARGS.get(), option, False))


def say(text: str = "", *, always: bool = False) -> None:
    """Print to stdout; results end the display of what is being done.

    With --quiet, only what a person needs to go on is printed, which is said `always`.
    """
    _end_display()
    if always or not _has("quiet"):
        sys.stdout.write(f"{text}\n")


def note(text: str, *, error: bool = False) -> None:
    """Print one line to stderr, apart from the results; with --quiet, only errors."""
    display = _progress.current()
    if _has("log_json"):
        logging.getLogger("schirn.cli").log(logging.ERROR if error else logging.INFO, text)
    elif _has("quiet") and not error:
        return
    elif display is None:
        sys.stderr.write(f"schirn: {printable(text)}\n")
    else:
        display.say(text)


def print_json(document: Any) -> None:
    """Print one JSON document and its provenance; NaN and infinity become null."""
    args = _ARGS.get()
    if isinstance(document, dict) and args is not None:
        document = {**document, "provenance": provenance(args)}
    say(json.dumps(_plain(document), ensure_ascii=False, indent=2, allow_nan=False), always=True)


@contextmanager
def colours(when: str) -> Iterator[None]:
    """Pass --color on through environment variables, which child processes read as well."""
    variables = {name: os.environ.get(name) for name in _COLOUR_VARIABLES}
    if when != "auto":
        variable = _COLOUR_VARIABLES[when == "always"]
        os.environ.pop(_COLOUR_VARIABLES[when != "always"], None)
        os.environ[variable] = "1"
    # Not after an exception: Python reads the variables when it prints the traceback.
    yield
    for name, value in variables.items():
        os.environ.pop(name, None)
        if value is not None:
            os.environ[name] = value


def coloured(stream: Any) -> bool:
    """Whether to use colours: NO_COLOR, then FORCE_COLOR, then whether it is a terminal."""
    if os.environ.get("NO_COLOR"):
        return False
    return bool(os.environ.get("FORCE_COLOR")) or is_terminal(stream)


def table(columns: Sequence[str], rows: Sequence[Sequence[Any]], *, right: str = "") -> None:
    """Print a table; an "r" in `right` aligns the column at that position to the right."""
    if _has("quiet"):
        return
    cells = [[printable(str(cell)) for cell in row] for row in rows]
    aligned = [k < len(right) and right[k] == "r" for k in range(len(columns))]
    console = rich_console(sys.stdout)
    _end_display()
    if console is None:
        _plain_table(columns, cells, aligned)
        return
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    grid = Table(box=SIMPLE_HEAD, pad_edge=False, header_style="bold")
    for name, at_right in zip(columns, aligned, strict=True):
        grid.add_column(Text(name), justify="right" if at_right else "left")
    for row in cells:
        grid.add_row(*map(Text, row))
    console.print(grid)


def _plain_table(
    columns: Sequence[str], cells: Sequence[Sequence[str]], aligned: Sequence[bool]
) -> None:
    lines = [list(columns), *cells]
    widths = [max(len(line[k]) for line in lines) for k in range(len(columns))]
    lines.insert(1, ["-" * width for width in widths])
    for line in lines:
        aligned_cells = [
            text.rjust(width) if at_right else text.ljust(width)
            for text, width, at_right in zip(line, widths, aligned, strict=True)
        ]
        say("  ".join(aligned_cells).rstrip())


def facts(pairs: Sequence[tuple[str, Any]]) -> None:
    """Print names and values, one pair per line."""
    width = max(len(name) for name, _ in pairs)
    for name, value in pairs:
        say(f"{name.ljust(width)}  {printable(str(value))}")


def working(what: str, args: argparse.Namespace) -> AbstractContextManager[Display | None]:
    """Show on stderr what long work does, unless --quiet or --log-json is given."""
    return shown(what, not (args.quiet or args.log_json), prefix="schirn: ", summary=False)


def _end_display() -> None:
    display = _progress.current()
    if display is not None:
        display.close()


def rich_console(stream: Any) -> Any:
    """Return a Rich console, or None for plain text."""
    colour = coloured(stream)
    if not is_terminal(stream) and not colour:
        return None
    try:
        from rich.console import Console
    except ImportError:
        return None
    system: Any = ("auto" if is_terminal(stream) else "standard") if colour else None
    return Console(file=stream, highlight=False, force_terminal=True, color_system=system)


def _plain(value: Any) -> Any:
    """Convert NumPy values and non-finite numbers to JSON types."""
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, np.ndarray | np.generic):
        return _plain(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if isinstance(value, bool | int | float | str | None) else str(value)
