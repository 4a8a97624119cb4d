"""The argument parser: one-sentence errors, and help with examples for every command."""

import argparse
import inspect
import json
import math
import os
import re
import textwrap
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib import import_module
from typing import Any, NoReturn, TypeVar

import schirn
from schirn._files import parse_bytes
from schirn.exceptions import suggest

T = TypeVar("T")

_DESCRIPTION = "Learn from noisy label sets: find the wrong labels and predict the correct ones."
_EXAMPLES = """\
examples:
  schirn demo                                  rank, ask and act on images of digits
  schirn review photos.csv                     rank the tags of a table, and ask about them
  schirn fit photos.csv -o photos.schirn       train on a table with a column of tags
  schirn predict photos.schirn new.csv         predict tags for new rows
  schirn methods Sieve                         show the parameters of a method
  schirn doctor                                check the installation
"""
_COMMON = """
[common options]
--threads N:positive  number of threads for linear algebra (default: all)
--debug  show the traceback of an error (also: SCHIRN_DEBUG=1)
--quiet  print only errors, JSON and data
--log-json  write notes, stages and errors to stderr as lines of JSON
--config FILE  options as TOML (default: schirn.toml, or [tool.schirn] in pyproject.toml)
"""
CHECKPOINT = """
--checkpoint DIR  keep the state of a long run in this folder; if the run is killed, the same
    command resumes it; the folder is removed at the end
"""


class UsageError(SystemExit):
    """An error in the arguments; the program prints its sentence and ends with code 2."""

    def __init__(self, sentence: str) -> None:
        super().__init__(2)
        self.sentence = sentence


class Parser(argparse.ArgumentParser):
    """An argument parser with one-sentence errors and no abbreviated options."""

    def __init__(self, **options: Any) -> None:
        options.setdefault("formatter_class", argparse.RawDescriptionHelpFormatter)
        super().__init__(allow_abbrev=False, **options)
        # Python 3.14 colours the help.
        self.color = False
        self.given: set[str] = set()

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse arguments; no option with one value may be given twice."""
        self.given.clear()
        return super().parse_known_args(args, namespace)

    def _get_values(self, action: argparse.Action, arg_strings: list[str]) -> Any:
        """Return the value of an option; "--" after "=" is a value like any other."""
        # Before Python 3.13, argparse takes the value of "--separator=--" for the mark that ends
        # the options, and returns an empty list. No public method sees the value before that.
        if action.option_strings and action.nargs is None and arg_strings == ["--"]:
            return self._get_value(action, "--")
        return super()._get_values(action, arg_strings)

    def error(self, message: str) -> NoReturn:
        """Raise one sentence."""
        if message.endswith("required: COMMAND"):
            message = "no command given"
        message = message.replace("the following arguments are required:", "missing:")
        choice = re.match(r"argument \S+: invalid choice: '(.*?)' \(choose from (.*)\)", message)
        if choice and "COMMAND" in message:
            known = re.findall(r"[\w-]+", choice[2])
            message = f"there is no command {choice[1]!r}; {suggest(choice[1], known)}"
        raise UsageError(f"{message.removeprefix('argument ')} (see {self.prog} --help)")


class _Once(argparse.Action):
    """An option with one value; giving it twice is an error."""

    def __call__(
        self, parser: Any, namespace: argparse.Namespace, values: Any, option_string: Any = None
    ) -> None:
        if self.dest in parser.given:
            raise argparse.ArgumentError(self, "is given twice, but takes one value")
        parser.given.add(self.dest)
        setattr(namespace, self.dest, values)


@dataclass(frozen=True)
class Command:
    """A command, whose module is imported when it is used."""

    name: str
    summary: str
    """Its line in the help of the program."""
    module: str
    """The module with `run` and OPTIONS, or with COMMANDS: summary, function and options of each
    command below it. The docstring of the function is the help."""
    default: str = ""
    """The command below it that runs if none is named."""


def build_parser(commands: Iterable[Command], command_name: str | None = None) -> Parser:
    """Return the parser of the program.

    Parameters
    ----------
    commands : iterable of Command
    command_name : str, optional
        The command whose options are needed; of the others, the parser knows only the names. By
        default it knows the options of all commands.
    """
    usage = "schirn COMMAND [options]"
    parser = Parser(prog="schirn", usage=usage, description=_DESCRIPTION, epilog=_EXAMPLES)
    version = f"schirn {schirn.__version__}"
    parser.add_argument(
        "--version", action="version", version=version, help="show the version and exit"
    )
    subparsers: Any = parser.add_subparsers(
        title="commands", metavar="COMMAND", required=True, prog="schirn"
    )
    _add_common(parser, default=True)
    for command in commands:
        name = command.name
        summary = command.summary
        if command_name not in (None, name):
            subparsers.add_parser(name, help=summary)
            continue
        module = import_module(command.module)
        if hasattr(module, "COMMANDS"):
            _add_group(subparsers, name, summary, module.COMMANDS)
        else:
            has_json = getattr(module, "HAS_JSON", True)
            _add_command(subparsers, name, summary, module.run, module.OPTIONS, has_json=has_json)
    return parser


def _add_group(commands: Any, name: str, summary: str, below: dict[str, Any]) -> None:
    """Add a command with commands below it."""
    examples = "\n".join(_help(run)[1] for _, run, _ in below.values())
    parser = _new_parser(commands, name, summary, f"{summary[0].upper()}{summary[1:]}.", examples)
    subparsers = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for subname, (line, run, options) in below.items():
        _add_command(subparsers, subname, line, run, options)


def _add_command(
    commands: Any, name: str, summary: str, run: Any, options: str, *, has_json: bool = True
) -> None:
    """Add one command; `run` is called with the parsed arguments."""
    parser = _new_parser(commands, name, summary, *_help(run))
    if has_json:
        parser.add_argument("--json", action="store_true", help="print one JSON document")
    parser.set_defaults(run=run)
    add_options(parser, options)
    needed = (a for a in parser._actions if a.required or not a.option_strings)
    form = {"?": "[{}]", "+": "{} ..."}
    words = (
        " ".join((*a.option_strings[:1], form.get(str(a.nargs), "{}").format(a.metavar)))
        for a in needed
    )
    parser.usage = " ".join((parser.prog, *words, "[options]"))


def _new_parser(commands: Any, name: str, summary: str, description: str, examples: str) -> Parser:
    epilog = "examples:\n" + textwrap.indent(examples, "  ") + "\n"
    parser: Parser = commands.add_parser(name, help=summary, description=description, epilog=epilog)
    _add_common(parser, default=False)
    return parser


def _help(run: Any) -> tuple[str, str]:
    """Return the description, in lines of 80 characters, and the examples of a docstring."""
    text, _, examples = (inspect.getdoc(run) or "").partition("\n\nExamples\n--------\n")
    return "\n\n".join(textwrap.fill(part, 80) for part in text.split("\n\n")), examples


def add_options(parser: Any, options: str, **settings: Any) -> Any:
    """Add options that are written as in the help, and return the group of the last one.

    A line such as ``--folds N:positive = 5  number of folds`` names the option, the word for its
    value, the function that parses it, the default and the help, after two spaces. Further lines of
    the help are indented. ``one|two`` are choices, as is one word in lower case, ``FILE...`` may be
    repeated, and ``FILE!`` is required. An option without a value is a flag, and a name without
    dashes is an argument; ``FILE?`` may be left out, and ``FILE+`` is one or more. A line in
    brackets starts a group; empty brackets end it. The `settings` of `add_argument` are for all
    options.
    """
    group = parser
    for line in re.sub(r"\n +", " ", options).strip().splitlines():
        if line.startswith("["):
            group = parser.add_argument_group(line[1:-1]) if line != "[]" else parser
        elif line:
            head, _, text = line.partition("  ")
            _add_option(group, head, text.strip(), settings)
    return group


def _add_option(group: Any, head: str, text: str, settings: dict[str, Any]) -> None:
    """Add the option of one line, with its default in the help."""
    head, _, default = head.partition(" = ")
    flags, _, value = head.rpartition(" ") if re.search(r"[^,] ", head) else (head, "", "")
    metavar, _, kind = value.removesuffix("...").rstrip("!?+").partition(":")
    keywords: dict[str, Any] = {"required": True} if value.endswith("!") else {}
    if "|" in metavar or metavar.islower():
        keywords["choices"] = tuple(metavar.split("|"))
    elif metavar:
        keywords["metavar"] = metavar
    else:
        keywords["action"] = "store_true"
    if value and flags.startswith("-"):
        keywords["action"] = _Once
    if kind:
        keywords["type"] = _TYPES[kind]
    if value.endswith("..."):
        keywords |= {"action": "append", "default": []}
    if value.endswith(("?", "+")):
        keywords["nargs"] = value[-1]
    if default:
        keywords["default"] = _TYPES[kind](default) if kind else default
        text += "" if "(default: " in text else f" (default: {default})"
    group.add_argument(*flags.split(", "), help=text, **{**keywords, **settings})


def _add_common(parser: Parser, default: bool) -> None:
    """Options before or after the command; SUPPRESS keeps the command from resetting them."""
    unset = {} if default else {"default": argparse.SUPPRESS}
    add_options(parser, _COMMON, **unset)


def is_whole(text: str) -> bool:
    """Whether a text is a whole number, of a size that a processor can hold."""
    return text.isascii() and text.isdigit() and len(text) < 19


def json_value(text: str) -> Any:
    """Parse JSON; raise JSONDecodeError for other text and ValueError for what is too large."""

    def whole(digits: str) -> int:
        if not is_whole(digits.removeprefix("-")):
            raise ValueError(f"a number of {len(digits)} digits is too large")
        return int(digits)

    try:
        return json.loads(text, parse_int=whole)
    except RecursionError:
        raise ValueError("too many brackets") from None


def _parser(
    what: str, parse: Callable[[str], T], is_valid: Callable[[T], bool]
) -> Callable[[str], T]:
    """Return a function that parses a value, and whose error says what it must be."""

    def parsed(text: str) -> T:
        try:
            value = parse(text)
            if is_valid(value):
                return value
        except ValueError:
            pass
        raise argparse.ArgumentTypeError(f"must be {what}, not {text!r}")

    return parsed


def _whole(text: str) -> int:
    return int(text) if is_whole(text) else -1


natural = _parser("a whole number of at least 0", _whole, lambda value: value >= 0)


def _seconds(text: str) -> float:
    """Parse a duration such as 90, 90s, 9m or 1.5h."""
    units = {"s": 1, "m": 60, "h": 3600}
    number, unit = (text[:-1], text[-1]) if text[-1:] in units else (text, "s")
    return float(number) * units[unit]


duration = _parser("a duration such as 90s, 9m or 1.5h", _seconds, lambda s: 0 < s < math.inf)


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def _naturals(text: str) -> list[int]:
    return [natural(name) for name in _names(text)]


def encoder(text: str) -> str:
    """Return the name of an encoder; a folder is kept as an absolute path, for model files."""
    kind, colon, model = text.partition(":")
    if "\0" not in text and os.path.isdir(text):
        return os.path.abspath(text)
    if colon and "\0" not in model and os.path.exists(model):
        return f"{kind}:{os.path.abspath(model)}"
    return text


def assignment(text: str) -> tuple[str, Any]:
    """Parse NAME=VALUE; a value that is not JSON is text."""
    name, equals, value = text.partition("=")
    if not equals or not name.isidentifier():
        raise argparse.ArgumentTypeError(f"must look like NAME=VALUE, not {text!r}")
    try:
        return name, json_value(value)
    except json.JSONDecodeError:
        # Many users type Python's spelling of true, false and null.
        words = {"True": True, "False": False, "None": None}
        return name, words.get(value, value)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{name}: {error}") from None


_TYPES: dict[str, Any] = {
    "positive": _parser("a whole number of at least 1", _whole, lambda value: value >= 1),
    "natural": natural,
    "port": _parser("a port from 0 to 65535", _whole, lambda value: 0 <= value <= 65535),
    "memory_size": _parser("a size such as 500M or 8G", parse_bytes, lambda size: size > 0),
    "share": _parser("a number from 0 to 1", float, lambda value: 0 <= value <= 1),
    "gigabytes": _parser("a number of gigabytes", float, lambda value: 0 < value < math.inf),
    "duration": duration,
    "separator": _parser("a text such as ; or |", str, bool),
    "character": _parser("one character", str, lambda sign: len(sign) == 1 and sign not in '\r\n"'),
    "names": _parser("names such as a,b,c", _names, bool),
    "naturals": _naturals,
    "encoder": encoder,
    "assignment": assignment,
}
