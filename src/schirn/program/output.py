"""Output of the program: tables, notes and JSON."""

import argparse
import json
import logging
import math
import sys
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Any

import numpy as np

from schirn import _progress
from schirn._progress import Display, printable, shown
from schirn.program.provenance import provenance

_ARGS: ContextVar[argparse.Namespace | None] = ContextVar("args", default=None)


@contextmanager
def running(args: argparse.Namespace) -> Iterator[None]:
    """Make output follow the common options, and add the provenance of this run to documents."""
    token = _ARGS.set(args)
    logger = logging.getLogger("schirn")
    handler = logging.StreamHandler()
    level = logger.level
    handler.setFormatter(JsonLines())
    if args.log_json:
        logger.addHandler(handler)
        logger.setLevel(logging.ERROR if args.quiet else logging.INFO)
    try:
        yield
    finally:
        _ARGS.reset(token)
        logger.removeHandler(handler)
        logger.setLevel(level)


def percent(share: float) -> str:
    """Return a share as a percentage that never rounds a small share to zero.

    Parameters
    ----------
    share : float
        From 0 to 1.

    Returns
    -------
    str

    Examples
    --------
    >>> percent(0.123), percent(0.0004), percent(0)
    ('12.3%', 'less than 0.1%', '0.0%')
    """
    return "less than 0.1%" if 0 < share < 0.001 else f"{share:.1%}"


class JsonLines(logging.Formatter):
    """One JSON object per record."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line of a record.

        Parameters
        ----------
        record : LogRecord

        Returns
        -------
        str
        """
        when = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        line = {"time": when, "level": record.levelname.lower(), "logger": record.name}
        line["message"] = record.getMessage()
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False)


def _has(option: str) -> bool:
    """Whether this common option is set for the running command."""
    return bool(getattr(_ARGS.get(), option, False))


def say(text: str = "", *, always: bool = False) -> None:
    """Print to stdout, after closing the display of progress.

    With --quiet, only texts with `always` are printed.

    Parameters
    ----------
    text : str
    always : bool
        Whether to print it with --quiet too.
    """
    display = _progress.current()
    if display is not None:
        display.close()
    if always or not _has("quiet"):
        sys.stdout.write(f"{text}\n")


def note(text: str, *, error: bool = False) -> None:
    """Print one line to stderr, apart from the results; with --quiet, only errors.

    Parameters
    ----------
    text : str
    error : bool
        Whether to print it with --quiet too.
    """
    display = _progress.current()
    if _has("log_json"):
        logging.getLogger("schirn.program").log(logging.ERROR if error else logging.INFO, text)
    elif _has("quiet") and not error:
        return
    elif display is None:
        sys.stderr.write(f"schirn: {printable(text)}\n")
    else:
        display.say(text)


def print_json(document: Any) -> None:
    """Print one JSON document and its provenance; NaN and infinity become null.

    Parameters
    ----------
    document : dict or list
    """
    args = _ARGS.get()
    if isinstance(document, dict) and args is not None:
        document = {**document, "provenance": provenance(args)}
    say(json.dumps(_plain(document), ensure_ascii=False, indent=2, allow_nan=False), always=True)


def table(columns: Sequence[str], rows: Sequence[Sequence[Any]], *, align: str = "") -> None:
    """Print a table; an "r" in `align` aligns the column at that position to the right.

    Parameters
    ----------
    columns : sequence of str
        Names of the columns.
    rows : sequence of sequences
        Cells of each row.
    align : str
        Letters such as "llr", one per column.
    """
    lines = [list(columns), *([printable(str(cell)) for cell in row] for row in rows)]
    widths = [max(map(len, cells)) for cells in zip(*lines, strict=True)]
    lines.insert(1, ["-" * width for width in widths])
    for line in lines:
        cells = [
            cell.rjust(width) if side == "r" else cell.ljust(width)
            for cell, width, side in zip(line, widths, align.ljust(len(line)), strict=True)
        ]
        say("  ".join(cells).rstrip())


def facts(values: dict[str, Any]) -> None:
    """Print names and values, one pair per line, except for empty texts.

    Parameters
    ----------
    values : dict from str to object
    """
    texts = {name: printable(str(value)) for name, value in values.items() if value != ""}
    width = max(map(len, texts))
    for name, text in texts.items():
        say(f"{name.ljust(width)}  {text}")


def number(n: int, noun: str) -> str:
    """Return a count such as "1 row" or "1,200 rows".

    Parameters
    ----------
    n : int
    noun : str
        In the singular.

    Returns
    -------
    str
    """
    return f"{n:,} {noun}{'' if n == 1 else 's'}"


def working(what: str, args: argparse.Namespace) -> AbstractContextManager[Display | None]:
    """Show the progress of long steps on stderr, unless --quiet or --log-json is given.

    Parameters
    ----------
    what : str
    args : Namespace

    Returns
    -------
    context manager
    """
    return shown(what, not (args.quiet or args.log_json), prefix="schirn: ", summary=False)


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
