"""Options that say how to read a data set, and the reading."""

import argparse
import json
import os
import re
from pathlib import Path
from typing import Any

from schirn.cli._parser import Parser, separator
from schirn.datasets import Dataset, load
from schirn.datasets._text import format_suffix
from schirn.exceptions import DataError, InputError

TABLES = (".csv", ".tsv", ".parquet", ".jsonl")
SVMLIGHT = (".svm", ".svmlight", ".libsvm", ".txt")


def add_reading(parser: Parser) -> None:
    """Add DATA and the options of the readers."""
    parser.add_argument("data", metavar="DATA", help="name of a data set, or a file")
    group = parser.add_argument_group("how to read DATA")
    group.add_argument(
        "--labels",
        metavar="COLUMNS",
        help="label column with tags, or several 0/1 columns a,b,c; a number for ARFF files",
    )
    group.add_argument("--truth", metavar="COLUMNS", help="columns with the checked labels")
    group.add_argument(
        "--features", metavar="COLUMNS", help="feature columns a,b,c (default: all other numbers)"
    )
    group.add_argument(
        "--separator",
        type=separator,
        metavar="TEXT",
        help="what stands between tags (default: ;)",
    )
    group.add_argument(
        "--part", choices=("all", "train", "test"), default="all", help="rows to use (default: all)"
    )
    group.add_argument(
        "--option",
        action="append",
        default=[],
        type=assignment,
        metavar="NAME=VALUE",
        help="any other option of the reader, such as missing=zero or n_features=500",
    )


def read(args: argparse.Namespace, **defaults: Any) -> Dataset:
    """Load the data set that the arguments describe; `defaults` give way to the user's options."""
    suffix = format_suffix(Path(args.data))
    options = {**defaults, **dict(args.option)}
    for name in ("labels", "truth", "features"):
        if getattr(args, name) is not None:
            options[name] = _columns(getattr(args, name), name, suffix)
    if args.separator is not None:
        options["separator"] = args.separator
    try:
        data = load(args.data, **options)
    except DataError as error:
        raise DataError(_as_typed(str(error))) from error
    except TypeError as error:
        # A built-in generator checks its options by its signature.
        raise InputError(f"{args.data}: cannot be read with these options ({error})") from None
    return _part(data, args.part)


def check_not_input(place: str, *inputs: str) -> None:
    """Refuse an output that is one of the inputs, also under another name."""
    for used in inputs:
        same = os.path.realpath(place) == os.path.realpath(used)
        if same or (_is_file(place) and _is_file(used) and os.path.samefile(place, used)):
            raise InputError(f"{place}: is the input, which is never changed; choose another name")


def inputs(args: argparse.Namespace) -> list[str]:
    """DATA, and whatever the options of its reader name."""
    return [args.data, *(value for _, value in args.option if isinstance(value, str))]


def _is_file(path: str) -> bool:
    return "\0" not in path and os.path.isfile(path)


def _as_typed(message: str) -> str:
    """A message of the library in the words of the program."""
    message = re.sub(r"\b([Pp]ass )?(labels|truth|features)=", r"\1--\2", message)
    message = re.sub(r"\b([Pp]ass )?(xml|candidates|max_bytes)=", r"\1--option \2=", message)
    return re.sub(r"\bfetch\('([\w.-]+)'(, force=True)?\)", _fetch_command, message)


def _fetch_command(call: re.Match[str]) -> str:
    return f"schirn data fetch {call[1]}" + (" --force" if call[2] else "")


def assignment(text: str) -> tuple[str, Any]:
    """NAME=VALUE; the value is JSON where it can be, else text."""
    name, equals, value = text.partition("=")
    if not equals or not name.isidentifier():
        raise argparse.ArgumentTypeError(f"must look like NAME=VALUE, not {text!r}")
    try:
        return name, json.loads(value)
    except ValueError:
        # Python's spelling of the three JSON words is what many will type.
        words = {"True": True, "False": False, "None": None}
        return name, words.get(value, value)


def _columns(text: str, name: str, suffix: str) -> Any:
    """A number, a JSON list, a list with commas, or one name."""
    if suffix == ".mat":
        return text
    if name == "labels" and suffix == ".arff" and text.isdigit():
        return int(text)
    if text.startswith("["):
        try:
            return [str(column) for column in json.loads(text)]
        except ValueError as error:
            raise InputError(f"--{name} {text!r} is not a JSON list ({error})") from None
    one_name = "," not in text and name != "features" and suffix != ".arff"
    return text if one_name else [column.strip() for column in text.split(",")]


def _part(data: Dataset, part: str) -> Dataset:
    """The training or test rows of a set that has these."""
    if part == "all":
        return data
    if data.n_train is None:
        raise InputError(f"{data.name}: no training part is marked in it; leave out --part {part}")
    rows = slice(data.n_train) if part == "train" else slice(data.n_train, None)
    chosen = data.subset(rows)
    if not chosen.n_samples:
        raise InputError(f"{data.name}: its {part} part has no rows")
    return chosen
