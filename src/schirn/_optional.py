"""Lazy import of optional packages."""

import re
import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType

from schirn.exceptions import MissingExtraError


def optional(package: str, extra: str, purpose: str) -> ModuleType:
    """Import a package of an extra, or raise an error that says how to install it.

    Parameters
    ----------
    package : str
        Module to import.
    extra : str
        Extra of `pyproject.toml` that lists the package.
    purpose : str
        What needs the package; the error begins with it.

    Returns
    -------
    module

    Raises
    ------
    MissingExtraError
        If the module cannot be imported.
    """
    try:
        return import_module(package)
    except ImportError as error:
        raise MissingExtraError(
            f"{purpose} needs the package {package.partition('.')[0]!r} of the extra {extra!r}; "
            f"install it with: {install_command(extra)}"
        ) from error


def install_command(extra: str) -> str:
    """Return the command that installs the packages of an extra.

    It lists the packages instead of ``schirn[extra]``, which only works if schirn is on PyPI.

    Parameters
    ----------
    extra : str
        Name of the extra.

    Returns
    -------
    str

    Examples
    --------
    >>> from schirn._optional import install_command
    >>> install_command("xlsx")
    'pip install "openpyxl>=3.1"'
    """
    # pipx marks its environments with this file; a plain pip would install elsewhere.
    is_pipx = Path(sys.prefix, "pipx_metadata.json").exists()
    program = "pipx inject schirn" if is_pipx else "pip install"
    packages = _packages(extra) or [f"schirn[{extra}]"]
    return " ".join([program, *(f'"{package}"' for package in packages)])


def _packages(extra: str) -> list[str]:
    """Requirements of an extra; empty if the package runs without being installed."""
    from importlib import metadata

    try:
        lines = metadata.requires("schirn") or []
    except metadata.PackageNotFoundError:
        return []
    marked = rf"([^;]+?) *; *extra == ['\"]{re.escape(extra)}['\"]"
    matches = (re.fullmatch(marked, line) for line in lines)
    return [match[1] for match in matches if match]
