"""Files of options: schirn.toml, or [tool.schirn] in pyproject.toml."""

import os
import tomllib
from pathlib import Path
from typing import Any

from schirn._files import check_no_pipe
from schirn.exceptions import InputError


def read_configuration(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Read the options in a file, with a table for each command that has its own.

    Parameters
    ----------
    path : path
        A .toml file; of pyproject.toml, the table [tool.schirn].

    Returns
    -------
    dict
        Empty if pyproject.toml has no such table.

    Raises
    ------
    InputError
        If the file is a named pipe, or not TOML.
    """
    check_no_pipe(path)
    try:
        content = tomllib.loads(Path(path).read_text("utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InputError(f"{path}: not TOML ({str(error)[:100]})") from None
    if Path(path).name == "pyproject.toml":
        options: dict[str, Any] = content.get("tool", {}).get("schirn", {})
        return options
    return content
