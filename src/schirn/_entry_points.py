"""What the app, the lab and other packages add to the library, by entry points.

The library imports none of them. Each registers its objects in a group of entry points, such as
``schirn.methods``; an entry point whose house is not installed is skipped.
"""

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
        The entries of all dictionaries, in the order of the names of their entry points.
    """
    entries: dict[str, Any] = {}
    for point in _points(group):
        dictionary = _loaded(point)
        if dictionary is not None:
            entries.update(dictionary)
    return entries


def tool(name: str) -> Any:
    """Return a function or class that another house offers; None if the house is not installed.

    Parameters
    ----------
    name : str
        Name of the entry point in the group ``schirn.tools``.
    """
    points = [point for point in _points(TOOLS) if point.name == name]
    return _loaded(points[0]) if points else None


@cache
def _points(group: str) -> list[EntryPoint]:
    """Return the entry points of a group, sorted by name."""
    return sorted(entry_points(group=group), key=lambda point: point.name)


def _loaded(point: EntryPoint) -> Any:
    """Return the object of an entry point; None if its house is not installed."""
    try:
        return point.load()
    except ModuleNotFoundError as error:
        # Another missing module is a broken installation, which must not go unnoticed.
        if error.name is not None and f"{point.module}.".startswith(f"{error.name}."):
            return None
        raise
