"""Options from a file: schirn.toml, or [tool.schirn] in pyproject.toml, in the current folder.

Options at the top apply to every command that has them, those in a table to one command:

    id = "sku"
    text = ["title", "description"]

    [update]
    model = "tagger.schirn"

Paths are relative to the current folder, wherever the file is.
"""

import argparse
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from schirn._files import brief
from schirn.exceptions import InputError, suggest
from schirn.program.configuration import read_configuration

FILES = ("schirn.toml", "pyproject.toml")


def configuration(words: Sequence[str]) -> tuple[str, dict[str, Any]]:
    """Return path and content of the configuration: after --config, or in the current folder.

    Both are empty if there is none.
    """
    for k, word in enumerate(words):
        if word == "--config" and k + 1 < len(words):
            path = words[k + 1]
            return path, read_configuration(path)
        if word.startswith("--config="):
            path = word.partition("=")[2]
            return path, read_configuration(path)
    for name in FILES:
        options = read_configuration(name) if Path(name).is_file() else {}
        if options:
            return name, options
    return "", {}


def with_configuration(
    parser: argparse.ArgumentParser, words: Sequence[str], path: str, options: dict[str, Any]
) -> list[str]:
    """Return the words of a command, with configured options added that were not typed.

    Parameters
    ----------
    parser : ArgumentParser
        Parser with all commands.
    words : sequence of str
        The typed words.
    path, options : str and dict
        Result of `configuration`.

    Returns
    -------
    list of str
    """
    _check(parser, options, path, "")
    words = list(words)
    end = 0
    levels = [options]
    while (commands := _commands(parser)) and (names := [w for w in words[end:] if w in commands]):
        end = words.index(names[0], end) + 1
        parser = commands[names[0]]
        table = levels[-1].get(names[0])
        levels.append(table if isinstance(table, dict) else {})
    settings = {_name(key): value for level in levels for key, value in level.items()}
    new: list[str] = []
    for action in parser._actions:
        typed = any(w == f or w.startswith(f"{f}=") for w in words for f in action.option_strings)
        if action.option_strings and not typed and _name(action.dest) in settings:
            new += _words(action, settings[_name(action.dest)], path)
    return [*words[:end], *new, *words[end:]]


def _check(parser: argparse.ArgumentParser, options: dict[str, Any], path: str, table: str) -> None:
    """Raise InputError for a name that is neither an option nor a command."""
    commands = _commands(parser)
    known = set(_options(parser))
    for key, value in options.items():
        if isinstance(value, dict) and key in commands:
            _check(commands[key], value, path, f"{table}{key}.")
        elif _name(key) not in known:
            hint = suggest(_name(key), sorted({*known, *commands}))
            raise InputError(f"{path}: there is no option {brief(table + key)}; {hint}")


def _commands(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    groups = [a for a in parser._actions if isinstance(a, argparse._SubParsersAction)]
    return dict(groups[0].choices) if groups else {}


def _options(parser: argparse.ArgumentParser) -> Iterator[str]:
    """Yield the options of a command and of all commands below it."""
    for action in parser._actions:
        if action.option_strings and action.dest not in ("help", "version", "config"):
            yield _name(action.dest)
    for command in _commands(parser).values():
        yield from _options(command)


def _name(key: str) -> str:
    return key.replace("_", "-")


def _words(action: argparse.Action, value: Any, path: str) -> list[str]:
    """Return an option and its value as command-line words."""
    flag = action.option_strings[-1]
    name = _name(action.dest)
    if action.nargs == 0:
        if not isinstance(value, bool):
            raise InputError(f"{path}: {name} must be true or false, not {brief(value)}")
        return [flag] * value
    several = isinstance(action, argparse._AppendAction)
    values = value if isinstance(value, list) and several else [value]
    if isinstance(value, dict) and several:
        values = [f"{name}={json.dumps(item)}" for name, item in value.items()]
    words = []
    for item in values:
        text = ",".join(map(str, item)) if isinstance(item, list) else str(item)
        if isinstance(item, dict | bool):
            raise InputError(f"{path}: {name} cannot be {brief(item)}")
        words.append(f"{flag}={text}")
    return words
