"""Lazy import of optional packages."""

from importlib import import_module
from types import ModuleType

from schirn.exceptions import MissingExtraError


def optional(package: str, extra: str, purpose: str) -> ModuleType:
    """Import `package`, or raise an error that names the extra to install."""
    try:
        return import_module(package)
    except ImportError as error:
        raise MissingExtraError(
            f"{purpose} needs the package {package.partition('.')[0]!r}; "
            f'install it with: pip install "schirn[{extra}]"'
        ) from error
