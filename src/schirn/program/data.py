"""Options that describe a data set, and reading it."""

import argparse
from pathlib import Path
from typing import Any

from schirn import datasets
from schirn._files import brief
from schirn._text import format_suffix
from schirn.datasets import Dataset
from schirn.exceptions import InputError
from schirn.program.parser import is_whole, json_value

TEXT_FORMAT = """
--encoding NAME = utf-8  encoding of the file
--delimiter CHARACTER:character  character between CSV cells (default: ,)
"""
READING = f"""
data DATA  name of a data set, or a file
[how to read DATA]
--labels COLUMNS  a column of tags, or several 0/1 columns such as a,b,c; for ARFF, the number of
    labels
--features COLUMNS  features: an .npy matrix, a column of lists, or numeric columns such as a,b,c
--separator TEXT:separator  text between tags (default: ;)
{TEXT_FORMAT}
"""


def read(args: argparse.Namespace, **defaults: Any) -> Dataset:
    """Load the data set that the arguments describe; options override `defaults`."""
    suffix = format_suffix(Path(args.data))
    options = dict(defaults)
    for name in ("labels", "features"):
        if getattr(args, name) is not None:
            options[name] = _columns(getattr(args, name), name, suffix)
    if args.separator is not None:
        options["separator"] = args.separator
    try:
        data = datasets.load(args.data, **options)
    except TypeError as error:
        # A built-in set has no columns.
        raise InputError(f"{args.data}: cannot be read with these options ({error})") from None
    if not data.n_samples:
        raise InputError(f"{args.data}: has no rows")
    return data


def _columns(text: str, name: str, suffix: str) -> Any:
    """Parse a number, a JSON list, a comma-separated list, or one name."""
    if suffix == ".mat":
        return text
    if name == "labels" and suffix == ".arff" and is_whole(text):
        return int(text)
    if text.startswith("["):
        try:
            return [str(column) for column in json_value(text)]
        except ValueError as error:
            raise InputError(f"--{name} {brief(text)} is not a JSON list ({error})") from None
    one_name = "," not in text and name != "features" and suffix != ".arff"
    return text if one_name else [column.strip() for column in text.split(",")]
