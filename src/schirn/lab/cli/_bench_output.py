"""Options shared by the commands that run benchmarks."""

import argparse

from schirn.lab.bench.baselines import BASELINES
from schirn.lab.bench.running.methods import result_name
from schirn.methods import methods as all_methods


def split_list(text: str) -> list[str]:
    """Split a comma-separated list."""
    return [item.strip() for item in text.split(",") if item.strip()]


def parse_methods(text: str) -> dict[str, str]:
    """Methods by their name in the results."""
    found: dict[str, str] = {}
    groups = {"all": all_methods(), "baselines": BASELINES}
    for item in split_list(text):
        name, equals, method = item.partition("=")
        if not equals:
            name = method = result_name(item)
        found.update({known: known for known in groups.get(item, ())} or {name: method})
    return found


def seconds(text: str) -> float:
    """Parse a number of seconds above 0."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"must be a number of seconds above 0, not {text!r}")
    return value


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


def megabytes(text: str) -> float:
    """Parse a size such as 500m or 4g into MiB."""
    units = {"m": 1.0, "g": 1024.0}
    try:
        value = float(text[:-1]) * units[text[-1:].lower()]
    except (ValueError, KeyError):
        value = -1.0
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"must be a size such as 500m or 4g, not {text!r}")
    return value
