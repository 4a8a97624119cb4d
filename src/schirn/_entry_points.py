"""What the app, the lab and other packages add to the library, by entry points.

The library imports none of them. Each registers its objects in a group of entry points, such as
``schirn.methods``; an entry point whose part is not installed is skipped.
"""

import warnings
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any

METHODS = "schirn.methods"
"""Dictionaries from names to classes of methods."""
RECORDS = "schirn.records"
"""Dictionaries from names to named tuples that model files may hold."""
DATASETS = "schirn.datasets"
"""Dictionaries from names to what `schirn.datasets` offers in addition."""
COMMANDS = "schirn.commands"
"""Dictionaries from names to commands of the program."""
TOOLS = "schirn.tools"
"""Single functions and classes, such as the reader of tables."""


def registered(group: str) -> dict[str, Any]:
    """Return all entries of the dictionaries that are registered in a group.

    Parameters
    ----------
    group : str
        One of the groups above.

    Returns
    -------
    dict
        The entries of all dictionaries, our own first. A name that is taken already is left out
        with a warning, and so is what another package registers but cannot import.
    """
    entries: dict[str, Any] = {}
    for point in _points(group):
        for name, value in (_loaded(point) or {}).items():
            if name in entries:
                _warn(f"{name!r} of {point.value} is left out: another package has that name")
            else:
                entries[name] = value
    return entries


def tool(name: str) -> Any:
    """Return a function or class that another part offers; None if that part is not installed.

    Parameters
    ----------
    name : str
        Name of the entry point in the group ``schirn.tools``.
    """
    points = [point for point in _points(TOOLS) if point.name == name]
    return _loaded(points[0]) if points else None


@cache
def _points(group: str) -> list[EntryPoint]:
    """Return the entry points of a group, our own first, sorted by name."""
    return sorted(entry_points(group=group), key=lambda point: (not _is_ours(point), point.name))


def _is_ours(point: EntryPoint) -> bool:
    return point.module.startswith("schirn.")


def _loaded(point: EntryPoint) -> Any:
    """Return the object of an entry point; None if its part is not installed."""
    try:
        return point.load()
    except Exception as error:
        missing = error.name if isinstance(error, ModuleNotFoundError) else None
        if missing is not None and f"{point.module}.".startswith(f"{missing}."):
            return None
        # A broken installation of our own must not go unnoticed; that of others must not stop us.
        if _is_ours(point):
            raise
        _warn(f"{point.value} cannot be imported ({error})")
        return None


def _warn(sentence: str) -> None:
    warnings.warn(f"entry point: {sentence}", UserWarning, stacklevel=3)
