"""How large a file may get in memory, and short quotes for messages about files."""

import os
from collections.abc import Iterable

from schirn.exceptions import InputError

MAX_BYTES = 8 * 1024**3
VARIABLE = "SCHIRN_MAX_BYTES"

_UNITS = {"": 1, "K": 1024, "M": 1024**2, "G": 1024**3}


def byte_limit(max_bytes: int | None = None) -> int:
    """The limit asked for, else that of the environment, else 8 GiB."""
    if max_bytes is not None:
        return max_bytes
    text = os.environ.get(VARIABLE, "").strip()
    if not text:
        return MAX_BYTES
    number, unit = (text[:-1], text[-1].upper()) if text[-1].isalpha() else (text, "")
    if not (number.isascii() and number.isdigit() and len(number) < 20 and unit in _UNITS):
        raise InputError(
            f"the environment variable {VARIABLE} must be a number of bytes such as 16G or "
            f"2000000000, not {text!r}"
        )
    return int(number) * _UNITS[unit]


def too_large(what: str, limit: int) -> str:
    """The end of a sentence about a file that is over the limit."""
    return (
        f"{what}, more than max_bytes={limit:,}; raise max_bytes or {VARIABLE} "
        f"if you trust the file."
    )


def brief(value: object, most: int = 60) -> str:
    """A value in quotes, cut where it is long; a damaged file can hold anything."""
    text = repr(value)
    return text if len(text) <= most else f"{text[:most]}…"


def brief_list(names: Iterable[object], most: int = 12) -> str:
    """The first names, and how many more there are."""
    listed = [str(name) for name in names]
    shown = ", ".join(
        name if name.isprintable() and len(name) <= 40 else brief(name, 40)
        for name in listed[:most]
    )
    return f"{shown} and {len(listed) - most:,} more" if len(listed) > most else shown


def reason_of(error: BaseException, most: int = 200) -> str:
    """The first line of what an error says, for the brackets of a sentence."""
    text = str(error).strip() or type(error).__name__
    line = "".join(c if c.isprintable() else "?" for c in text.splitlines()[0])
    return line if len(line) <= most else f"{line[:most]}…"
