"""Names found when they are used: what plugin packages add, and public names.

This is the only link from the core to the lab.

A plugin package may have the modules ``rivals`` (with `METHODS`), ``model_files`` (with `RECORDS`)
and ``cli`` (with `COMMANDS`). They are imported when somebody asks for them.
"""

import sys
from collections.abc import Callable, Mapping
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import Any

PACKAGES = ("schirn.lab",)


@cache
def plugin_modules(name: str) -> tuple[ModuleType, ...]:
    """Import the module of this name from every plugin package."""
    return tuple(import_module(f"{package}.{name}") for package in PACKAGES)


def from_plugins(module: str, registry: str) -> dict[Any, Any]:
    """Return the entries of a registry of every plugin package."""
    return {
        key: value
        for plugin in plugin_modules(module)
        for key, value in getattr(plugin, registry).items()
    }


def lazy_names(package: str, homes: Mapping[str, str]) -> Callable[[str], Any]:
    """Return the `__getattr__` of a package that imports its public names when they are used.

    Parameters
    ----------
    package : str
        The package, which may already have submodules of the same names.
    homes : dict from str to str
        The module of each name; a submodule is its own home.
    """
    module = sys.modules[package]
    module.__class__ = type("Package", (_Package,), {"homes": homes})

    def __getattr__(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        home = import_module(homes[name])
        value = home if homes[name] == f"{package}.{name}" else getattr(home, name)
        setattr(module, name, value)
        return vars(module)[name]

    return __getattr__


class _Package(ModuleType):
    """A package in which a name stays what it is when a submodule of that name is imported."""

    homes: Mapping[str, str]

    def __setattr__(self, name: str, value: Any) -> None:
        is_module = isinstance(value, ModuleType) and name in self.homes
        if is_module and self.homes[name] == value.__name__ and hasattr(value, name):
            value = getattr(value, name)
        super().__setattr__(name, value)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *self.homes})
