"""Options of the commands of the lab, and the texts that they take."""

import argparse
import re
from typing import Any

from schirn.lab.bench.baselines import BASELINES
from schirn.lab.bench.running.methods import result_name
from schirn.methods import methods as all_methods


def add_options(parser: Any, text: str, **settings: dict[str, Any]) -> None:
    """Add options that are described as in the help of a program.

    Parameters
    ----------
    parser : argparse.ArgumentParser
        Parser of the command.
    text : str
        One option per line, "--name VALUE: meaning", with further lines indented. A line without
        dashes is the title of a group. An option without VALUE and settings is a switch.
    **settings
        Further arguments of `add_argument`, by the name of the option.
    """
    group = parser
    for line in re.split(r"\n(?! )", text.strip()):
        words = " ".join(line.split())
        if not words.startswith("-"):
            group = parser.add_argument_group(words)
            continue
        option, _, meaning = words.partition(": ")
        names = re.findall(r"(?<!\w)--?\w[\w-]*", option)
        arguments = dict(settings.get(names[-1].strip("-").replace("-", "_"), {}))
        if value := re.search(r" ([A-Z].*)$", option):
            arguments["metavar"] = value[1]
        elif not arguments:
            arguments["action"] = "store_true"
        group.add_argument(*names, help=meaning, **arguments)


def split_list(text: str) -> list[str]:
    """Split a comma-separated list."""
    return [item.strip() for item in text.split(",") if item.strip()]


def parse_methods(text: str) -> dict[str, str]:
    """Methods by their name in the results."""
    methods: dict[str, str] = {}
    groups = {"all": all_methods(), "baselines": BASELINES}
    for item in split_list(text):
        name, equals, method = item.partition("=")
        if not equals:
            name = method = result_name(item)
        methods.update({known: known for known in groups.get(item, ())} or {name: method})
    return methods


_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0}


def duration(text: str) -> float:
    """Parse a duration such as 90, 90s, 9m or 1.5h into seconds."""
    number, unit = (text[:-1], text[-1]) if text[-1:] in _UNITS else (text, "s")
    try:
        value = float(number) * _UNITS[unit]
    except ValueError:
        value = -1.0
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(
            f"must be a duration such as 90s, 9m or 1.5h, not {text!r}"
        )
    return value
