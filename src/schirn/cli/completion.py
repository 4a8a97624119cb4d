"""`schirn completion`: a script that lets the shell finish what is typed."""

import argparse
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from schirn.cli._output import say
from schirn.cli._parser import Parser, add_command, build_parser
from schirn.datasets import available
from schirn.methods import methods

_EXAMPLES = """
schirn completion bash > ~/.local/share/bash-completion/completions/schirn
schirn completion zsh > ~/.zfunc/_schirn
schirn completion fish > ~/.config/fish/completions/schirn.fish
"""
_FILES = ("FILE", "MODEL", "TABLE", "DATA")
_SAFE = re.compile(r"[\w.+-]+")


class Values(NamedTuple):
    """What may stand in one place: words, files, folders; `comma` allows several words."""

    words: tuple[str, ...] = ()
    files: bool = False
    folders: bool = False
    comma: bool = False


class Option(NamedTuple):
    """One option: its names, its help, and its values, or None for a switch."""

    flags: tuple[str, ...]
    help: str
    values: Values | None


class Command(NamedTuple):
    """A command by its words ("data list"), its parts, its options and its other arguments."""

    path: str
    help: str
    parts: tuple[tuple[str, str], ...]
    options: tuple[Option, ...]
    places: tuple[Values, ...]


def add(found: Any) -> None:
    """Add the command."""
    parser = add_command(
        found,
        "completion",
        run,
        help="print a script that completes commands in bash, zsh or fish",
        description="Print a script for the shell. It knows the commands, their options, the "
        "methods, and the data sets that are here at this moment. For zsh the folder must be in "
        "fpath; or load the script at once: source <(schirn completion bash).",
        examples=_EXAMPLES,
        json=False,
    )
    parser.add_argument("shell", choices=("bash", "zsh", "fish"))


def run(args: argparse.Namespace) -> None:
    """Print the script."""
    from schirn.cli import COMMANDS
    from schirn.cli._shells import SHELLS

    say(SHELLS[args.shell](list(walk(build_parser(COMMANDS)))))


def walk(parser: Parser, path: str = "", help: str = "") -> Iterator[Command]:
    """The command of a parser, then those below it."""
    below = next((a for a in parser._actions if isinstance(a, argparse._SubParsersAction)), None)
    helps = {part.dest: part.help or "" for part in below._choices_actions} if below else {}
    options = [action for action in parser._actions if action.option_strings]
    places = [a for a in parser._actions if not a.option_strings and a is not below]
    yield Command(
        path,
        help,
        tuple(helps.items()),
        tuple(_option(action, path) for action in options),
        tuple(values(action, path) for action in places),
    )
    for name, child in below.choices.items() if below else ():
        yield from walk(child, f"{path} {name}".strip(), helps[name])


def _option(action: argparse.Action, path: str) -> Option:
    switch = action.nargs == 0
    text = (action.help or "").replace("%%", "%")
    return Option(tuple(action.option_strings), text, None if switch else values(action, path))


def values(action: argparse.Action, path: str) -> Values:
    """What an argument takes, told by its choices, its name and its placeholder."""
    if action.choices is not None:
        return Values(tuple(map(str, action.choices)))
    if action.dest in ("method", "methods") or (path, action.dest) == ("methods", "name"):
        return Values(tuple(methods()), comma=action.dest == "methods")
    if action.dest == "datasets" or action.metavar == "DATA" or path == "data fetch":
        listed = action.dest == "datasets"
        return Values(_sets(path), files=action.metavar == "DATA", comma=listed)
    return Values(files=action.metavar in _FILES, folders=action.metavar == "DIR")


def _sets(path: str) -> tuple[str, ...]:
    """Names of data sets that no shell misreads: those to load, or those to download."""
    wanted = ("downloadable",) if path == "data fetch" else ("built-in", "folder")
    names = [entry.name for entry in available() if entry.where in wanted]
    return tuple(name for name in names if _SAFE.fullmatch(name))
