"""The command-line program `schirn`."""

import argparse
import os
import signal
import sys
import threading
import warnings
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

from threadpoolctl import threadpool_limits

from schirn._entry_points import COMMANDS, registered
from schirn._files import reason_of
from schirn.app.cli._config import configuration, with_configuration
from schirn.exceptions import InputError, MissingExtraError
from schirn.program.output import note, print_json, running
from schirn.program.parser import Command, UsageError, build_parser

__all__ = ["main"]

_COMMANDS = {
    "demo": "rank, ask and act on images of digits",
    "review": "answer questions about suspicious tags, and remove the wrong ones",
    "clean": "rank the tags of a table, and write a cleaned copy",
    "apply": "apply a list of changes to a copy of a table",
    "undo": "revert a list of changes in a copy of a table",
    "certificate": "check a certificate",
    "vocabulary": "propose what to change in the list of tags",
    "fit": "train a method and write the model to a file",
    "predict": "predict labels, or judge the labels of new rows",
    "update": "judge only new and changed rows of a table",
    "serve": "answer requests for tags over HTTP",
}

_USER_ERRORS = (InputError, MissingExtraError, OSError, MemoryError)
_HIDDEN_WARNINGS = (DeprecationWarning, PendingDeprecationWarning, FutureWarning)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the program; return the exit code.

    0: success. 1: a bug (`--debug` shows the traceback), failed fits in `bench` or `reproduce`, a
    broken installation found by `doctor`, or a result file that fails its check. 2: an error in the
    arguments or the data, explained in one sentence on stderr. 3: fits left to do by `reproduce`,
    rows skipped by `apply --partial`, or a certificate that is not verified. 4: a table that does
    not meet `clean --strict` or `clean --expect`. 129: the terminal was closed. 130: interrupted
    with Ctrl-C. 143: terminated.

    Parameters
    ----------
    argv : list of str, default=None
        The arguments; None takes those of the process.

    Returns
    -------
    int

    Examples
    --------
    >>> from schirn.app.cli import main
    >>> main(["data", "list", "--jsn"])
    2
    """
    words = list(sys.argv[1:] if argv is None else argv)
    if not words:
        words.append("--help")
    debug = "--debug" in words or os.environ.get("SCHIRN_DEBUG", "0") not in ("", "0")
    common = {"quiet": "--quiet" in words, "log_json": "--log-json" in words}
    args = argparse.Namespace(**common, json="--json" in words)
    with ExitStack() as stack:
        try:
            _prepare_streams()
            stack.enter_context(running(args))
            args = _parse(words)
            # From now on, the options of the configuration count as well.
            stack.close()
            stack.enter_context(running(args))
            stack.enter_context(threadpool_limits(args.threads))
            with _termination(), _warnings_as_notes(debug):
                code = args.run(args)
            sys.stdout.flush()
            return code or 0
        except UsageError as error:
            return _fail(error.sentence, 2, args)
        except SystemExit as stop:
            sys.stdout.flush()
            return int(stop.code or 0)
        except KeyboardInterrupt as error:
            number = error.number if isinstance(error, _Terminated) else signal.SIGINT
            word = "interrupted" if number == signal.SIGINT else "terminated"
            return _fail(word, 128 + number, args)
        except BrokenPipeError:
            return _closed_pipe()
        except Exception as error:
            if debug:
                raise
            is_bug = not isinstance(error, _USER_ERRORS)
            sentence = _bug(error) if is_bug else _sentence(error, args)
            return _fail(sentence, 1 if is_bug else 2, args)


def _parse(words: list[str]) -> argparse.Namespace:
    """Return the typed arguments together with the options of the configuration.

    Only the named command is imported, unless a configuration has to be checked against the options
    of all commands.
    """
    path, options = configuration(words)
    known = {command.name: command for command in commands()}
    if len(words) == 1 and words[0] in known and known[words[0]].default:
        words = [*words, known[words[0]].default]
    command_name = None if options else next((word for word in words if word in known), "")
    parser = build_parser(commands(), command_name)
    try:
        # The typed words, for commands that treat options of the configuration differently.
        typed = argparse.Namespace(typed=tuple(words))
        return parser.parse_args(with_configuration(parser, words, path, options), typed)
    except UsageError as error:
        if options:
            error.sentence += f"; options also come from {path}"
        raise


def _fail(sentence: str, code: int, args: argparse.Namespace) -> int:
    """Print an error (with --json also as a document on stdout) and return the exit code."""
    note(sentence, error=True)
    if getattr(args, "json", False):
        try:
            print_json({"error": sentence, "exit_code": code})
            sys.stdout.flush()
        except OSError:
            # For example, the disk of stdout is full, which may be the error itself.
            _discard_stdout()
    return code


def commands() -> list[Command]:
    """Return all commands, in help order."""
    core = [Command(name, help, f"schirn.app.cli._{name}") for name, help in _COMMANDS.items()]
    plugins = registered(COMMANDS)
    return [
        *core,
        *(Command(name, *command) for name, command in plugins.items()),
        Command("doctor", "check the installation", "schirn.app.cli._doctor"),
    ]


def _bug(error: Exception) -> str:
    """Describe an unexpected error."""
    return (
        f"this should not have happened ({type(error).__name__}: {reason_of(error)}); run the "
        f"command again with --debug, and report what it prints as a bug"
    )


def _sentence(error: Exception, args: argparse.Namespace) -> str:
    """Describe an error in one line, including the option for its parameter."""
    if isinstance(error, MemoryError):
        return f"not enough memory ({error})" if str(error) else "not enough memory"
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: {error.strerror}"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    sentence = " ".join(str(error).split())
    names = getattr(error, "parameter", None)
    options = [
        _option(name, args) for name in ((names,) if isinstance(names, str) else names or ())
    ]
    named = " and ".join(filter(None, options))
    return f"{sentence.rstrip('.')} (see {named})" if named else sentence


def _option(parameter: str, args: argparse.Namespace) -> str | None:
    """Return the option for a parameter of the library; None if the command has none."""
    # Typed parameters come first: --param features=... is not --features.
    for name in ("param", "option"):
        if any(pair[0] == parameter for pair in getattr(args, name, ())):
            return f"--{name} {parameter}"
    if parameter in vars(args):
        return f"--{parameter.replace('_', '-')}"
    return None


def _prepare_streams() -> None:
    """Print a question mark for characters that the terminal lacks, instead of failing."""
    # A stream closed by the caller is None; the next opened file must not take its number.
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        reconfigure: Any = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="replace")


# SIGHUP arrives when the terminal is closed.
_ENDING = ("SIGTERM", "SIGHUP")


class _Terminated(KeyboardInterrupt):
    """Raised if a signal asks the program to end."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number


@contextmanager
def _termination() -> Iterator[None]:
    """Handle termination like Ctrl-C, so that no temporary files are left."""
    numbers = [getattr(signal, name) for name in _ENDING if hasattr(signal, name)]
    # nohup ignores hangups.
    numbers = [n for n in numbers if signal.getsignal(n) is signal.SIG_DFL]
    if threading.current_thread() is not threading.main_thread():
        numbers = []

    is_ending = False

    def stop(number: int, _: Any) -> None:
        nonlocal is_ending
        # A second signal would interrupt the removal of temporary files.
        if not is_ending:
            is_ending = True
            raise _Terminated(number)

    for number in numbers:
        signal.signal(number, stop)
    try:
        yield
    finally:
        for number in numbers:
            signal.signal(number, signal.SIG_DFL)


def _closed_pipe() -> int:
    """Stay silent after the reader of a pipe has closed it; return the exit code."""
    _discard_stdout()
    return 128 + getattr(signal, "SIGPIPE", 13)


def _discard_stdout() -> None:
    """Discard buffered output, so that Python's flush at exit does not fail."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (OSError, ValueError):
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115


@contextmanager
def _warnings_as_notes(debug: bool) -> Iterator[None]:
    """Print each warning as one line on stderr, without the source line."""

    def show(message: Any, category: type[Warning], *_: Any) -> None:
        if debug or not issubclass(category, _HIDDEN_WARNINGS):
            note(f"note: {' '.join(str(message).split())}")

    with warnings.catch_warnings():
        warnings.simplefilter("default")
        warnings.showwarning = show  # type: ignore[assignment]
        yield
