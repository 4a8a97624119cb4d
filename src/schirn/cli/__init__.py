"""The program `schirn`."""

import argparse
import os
import signal
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

import schirn.cli.bench as bench
import schirn.cli.clean as clean
import schirn.cli.completion as completion
import schirn.cli.data as data
import schirn.cli.demo as demo
import schirn.cli.doctor as doctor
import schirn.cli.fit as fit
import schirn.cli.methods as methods
import schirn.cli.predict as predict
import schirn.cli.reproduce as reproduce
import schirn.cli.review as review
from schirn.cli._output import colours, note
from schirn.cli._parser import build_parser
from schirn.exceptions import InputError, MissingExtraError

__all__ = ["main"]

COMMANDS = (
    demo,
    fit,
    predict,
    clean,
    review,
    bench,
    reproduce,
    methods,
    data,
    doctor,
    completion,
)

_USER_ERRORS = (InputError, MissingExtraError, OSError, MemoryError)
_HIDDEN_WARNINGS = (DeprecationWarning, PendingDeprecationWarning, FutureWarning)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the program; return the exit code.

    0: done; 1: a fault of the program, a part of `bench` that failed, or something broken that
    `doctor` found; 2: a fault in what was asked, told in one sentence on stderr; 130: stopped
    with Ctrl-C.

    Examples
    --------
    >>> from schirn.cli import main
    >>> main(["data", "list", "--jsn"])
    2
    """
    try:
        args = build_parser(COMMANDS).parse_args(argv)
    except SystemExit as stop:
        return int(stop.code or 0)
    with colours(args.color):
        return _run(args)


def _run(args: argparse.Namespace) -> int:
    """Run one command; turn what stops it into a sentence and an exit code."""
    debug = args.debug or os.environ.get("SCHIRN_DEBUG", "0") not in ("", "0")
    try:
        _prepare_streams()
        with _warnings_as_notes(debug), _threads(args.threads):
            code = args.run(args)
        sys.stdout.flush()
        return code or 0
    except KeyboardInterrupt:
        note("stopped")
        return 128 + signal.SIGINT
    except BrokenPipeError:
        return _reader_gone()
    except _USER_ERRORS as error:
        if debug:
            raise
        note(_sentence(error))
        return 2


def _sentence(error: Exception) -> str:
    """One line for an error, without the decoration of OSError."""
    if isinstance(error, MemoryError):
        return f"not enough memory ({error})" if str(error) else "not enough memory"
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: {error.strerror}"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return " ".join(str(error).split())


def _prepare_streams() -> None:
    """A terminal that lacks a character shows a question mark, not a traceback."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure: Any = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="replace")


def _reader_gone() -> int:
    """Whoever read our output has left: be quiet, also when Python flushes at exit."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (OSError, ValueError):
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115
    return 128 + getattr(signal, "SIGPIPE", 13)


@contextmanager
def _warnings_as_notes(debug: bool) -> Iterator[None]:
    """Show a warning as one line on stderr, without the source line."""

    def show(message: Any, category: type[Warning], *_: Any) -> None:
        if debug or not issubclass(category, _HIDDEN_WARNINGS):
            note(f"note: {' '.join(str(message).split())}")

    with warnings.catch_warnings():
        warnings.simplefilter("default")
        warnings.showwarning = show  # type: ignore[assignment]
        yield


def _threads(number: int | None) -> Any:
    """Limit the threads of the linear algebra libraries."""
    if number is None:
        return nullcontext()
    from threadpoolctl import threadpool_limits

    return threadpool_limits(number)
