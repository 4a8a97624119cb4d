"""The argument parser: one-sentence errors, and help with examples for every command."""

import argparse
import json
import re
import textwrap
from collections.abc import Iterable
from typing import Any, NoReturn

import schirn
from schirn._input import suggest

_DESCRIPTION = "Learn from noisy label sets: find the wrong labels and predict the correct ones."
_EXAMPLES = """\
examples:
  schirn demo                                  find wrong tags on images of digits
  schirn clean photos.csv --text description   find the wrong tags of a table
  schirn fit photos.csv -o photos.schirn       train on a table with a column of tags
  schirn predict photos.schirn new.csv         predict tags for new rows
  schirn methods Sieve                         show the parameters of a method
  schirn doctor                                check the installation
"""


class Parser(argparse.ArgumentParser):
    """An argument parser with one-sentence errors and no abbreviated options."""

    def __init__(self, **options: Any) -> None:
        options.setdefault("formatter_class", argparse.RawDescriptionHelpFormatter)
        super().__init__(allow_abbrev=False, **options)
        # Python 3.14 colours the help before --color is read.
        self.color = False

    def error(self, message: str) -> NoReturn:
        """Print one sentence and exit with code 2."""
        if message.endswith("required: COMMAND"):
            message = "no command given"
        choice = re.match(r"argument \S+: invalid choice: '(.*?)' \(choose from (.*)\)", message)
        if choice and "COMMAND" in message:
            known = re.findall(r"[\w-]+", choice[2])
            message = f"there is no command {choice[1]!r}; {suggest(choice[1], known)}"
        self.exit(2, f"schirn: {message} (see {self.prog} --help)\n")


def build_parser(commands: Iterable[Any]) -> Parser:
    """Return the parser of the program with all its commands."""
    parser = Parser(prog="schirn", description=_DESCRIPTION, epilog=_EXAMPLES)
    version = f"schirn {schirn.__version__}"
    parser.add_argument(
        "--version", action="version", version=version, help="show the version and exit"
    )
    _add_common(parser, default=True)
    found = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for command in commands:
        command.add(found)
    return parser


def add_command(
    found: Any, name: str, run: Any, *, help: str, examples: str, json: bool = True, **options: Any
) -> Parser:
    """Add one command; `run` is called with the parsed arguments."""
    epilog = "examples:\n" + "".join(f"  {line}\n" for line in examples.strip().splitlines())
    description = options.pop("description", f"{help[0].upper()}{help[1:]}.")
    # The formatter keeps the lines of the epilog, and therefore does not wrap the description.
    description = textwrap.fill(description, 80)
    parser: Parser = found.add_parser(
        name, help=help, description=description, epilog=epilog, **options
    )
    _add_common(parser, default=False)
    if json:
        parser.add_argument("--json", action="store_true", help="print one JSON document")
    parser.set_defaults(run=run)
    return parser


def _add_common(parser: Parser, default: bool) -> None:
    """Options before or after the command; SUPPRESS keeps the command from resetting them."""
    group = parser.add_argument_group("common options")
    group.add_argument(
        "--threads",
        type=positive,
        metavar="N",
        default=None if default else argparse.SUPPRESS,
        help="number of threads for linear algebra (default: all)",
    )
    group.add_argument(
        "--debug",
        action="store_true",
        default=False if default else argparse.SUPPRESS,
        help="show the traceback of an error (also: SCHIRN_DEBUG=1)",
    )

    group.add_argument(
        "--quiet",
        action="store_true",
        default=False if default else argparse.SUPPRESS,
        help="do not show progress",
    )
    when = group.add_mutually_exclusive_group()
    when.add_argument(
        "--color",
        choices=("auto", "always", "never"),
        default="auto" if default else argparse.SUPPRESS,
        help="when to use colours (default: auto, on a terminal; also: NO_COLOR=1, FORCE_COLOR=1)",
    )
    when.add_argument(
        "--no-color",
        dest="color",
        action="store_const",
        const="never",
        default=argparse.SUPPRESS,
        help="the same as --color never",
    )


def add_checkpoint(parser: Any) -> None:
    """Add the option that keeps the state of long work."""
    parser.add_argument(
        "--checkpoint",
        metavar="DIR",
        help="keep the state of a long run in this folder; if the run is killed, the same command "
        "resumes it; the folder is removed at the end",
    )


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


def positive(text: str) -> int:
    """Parse an integer of at least 1."""
    if not is_whole(text) or int(text) < 1:
        raise argparse.ArgumentTypeError(f"must be a whole number of at least 1, not {text!r}")
    return int(text)


def natural(text: str) -> int:
    """Parse an integer of at least 0."""
    if not is_whole(text):
        raise argparse.ArgumentTypeError(f"must be a whole number of at least 0, not {text!r}")
    return int(text)


def separator(text: str) -> str:
    """Parse the text that separates tags."""
    if not text:
        raise argparse.ArgumentTypeError("must be a text such as ; or |, and not empty")
    return text


def memory_size(text: str) -> int:
    """Parse a number of bytes such as 500M or 8G."""
    number, unit = text[:-1], text[-1:].upper()
    powers = {"K": 10, "M": 20, "G": 30, "T": 40}
    if is_whole(unit):
        number, unit = text, ""
    if not is_whole(number) or int(number) < 1 or (unit and unit not in powers):
        raise argparse.ArgumentTypeError(f"must be a size such as 500M or 8G, not {text!r}")
    return int(number) * 2 ** powers.get(unit, 0)
