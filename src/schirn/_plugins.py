"""Names found when they are used: what the lab adds, public names, and where old names live.

This is the only link from the core to the lab. Its modules ``rivals``, ``model_files``, ``data``
and ``cli`` have a registry each, and are imported when somebody asks for it.
"""

import sys
import warnings
from collections.abc import Callable, Mapping
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any


def from_plugins(module: str, registry: str) -> dict[Any, Any]:
    """Return a registry of a module of the lab, such as `METHODS` of ``rivals``."""
    return dict(getattr(import_module(f"schirn.lab.{module}"), registry))


_METHODS = "FPML GLC NLR PAKS PARD PMLLENFN PMLLRS PMLMA PMLNI PMLPLR ParticleMAP ParticleVLS"
_METHOD_FILES = "fpml glc nlr paks pard particle pmllenfn pmllrs pmlma pmlni pmlplr"
_DATA = "MAX_RANK_BYTES data_card fetch make_cooccurrence prepare_yeast"
_LOSSES = "ROLE SPLC AsymmetricLoss GeneralizedCrossEntropy LargeLoss"
_GRAPH = "nearest_neighbours nonnegative_least_squares propagate_labels reconstruction_weights"

# The new home of public names, by the module that had them.
MOVED_NAMES: dict[str, Mapping[str, str]] = {
    "schirn": dict.fromkeys(_METHODS.split(), "schirn.lab"),
    "schirn.methods": dict.fromkeys(_METHODS.split(), "schirn.lab"),
    "schirn.datasets": dict.fromkeys(_DATA.split(), "schirn.lab.data"),
    "schirn.deep": dict.fromkeys(_LOSSES.split(), "schirn.lab.rivals.losses"),
    "schirn.linalg": {
        **dict.fromkeys(_GRAPH.split(), "schirn.lab.rivals.solvers.graph"),
        "singular_value_threshold": "schirn.lab.rivals.solvers.prox",
        "soft_threshold": "schirn.lab.rivals.solvers.prox",
    },
    "schirn.bench": dict.fromkeys(
        ("Check", "build_leaderboard", "check_results"), "schirn.lab.leaderboard"
    ),
}
# Modules with everything below them.
MOVED_MODULES: dict[str, str] = {
    "schirn.bench.leaderboard": "schirn.lab.leaderboard.pages",
    "schirn.bench.submission": "schirn.lab.leaderboard.submission",
    "schirn.bench": "schirn.lab.bench",
    "schirn.reproduction": "schirn.lab.reproduction",
    "schirn.rank": "schirn.lab.rank",
    "schirn.datasets.tables": "schirn.tables.files",
    "schirn.cleaning.changes": "schirn.tables.changes",
    "schirn.cleaning.expect": "schirn.tables.expect",
    "schirn.cleaning.look": "schirn.tables.checks",
    "schirn.cleaning.merges": "schirn.tables.merges",
    **{f"schirn.methods.{name}": f"schirn.lab.rivals.{name}" for name in _METHOD_FILES.split()},
}


def moved_names(module: str, other: Callable[[str], Any] | None = None) -> Callable[[str], Any]:
    """Return the `__getattr__` of a module that finds names in their new home.

    `other` is the `__getattr__` for names that have not moved.
    """

    def __getattr__(name: str) -> Any:
        home = MOVED_NAMES[module].get(name)
        if home is None and other is not None:
            return other(name)
        if home is None:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        _warn(f"{module}.{name}", f"{home}.{name}")
        return getattr(import_module(home), name)

    return __getattr__


class MovedModules(MetaPathFinder, Loader):
    """Import a module by its old name; both names give the same module."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        """Return a spec for the old name of a module."""
        for old, new in MOVED_MODULES.items():
            if name == old or name.startswith(f"{old}."):
                return ModuleSpec(name, self, loader_state=new + name.removeprefix(old))
        return None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """Import the module by its new name."""
        _warn(spec.name, spec.loader_state)
        module = import_module(spec.loader_state)
        # The import system overwrites the spec of the module before it calls `exec_module`.
        spec.loader_state = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Give the module its own spec back."""
        assert module.__spec__ is not None
        module.__spec__ = module.__spec__.loader_state


def _warn(old: str, new: str) -> None:
    message = f"{old} has moved to {new}; the old name will be removed in the next version"
    warnings.warn(message, DeprecationWarning, stacklevel=3)


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


# Before the other finders, which would load a second copy from the folder of a moved package.
sys.meta_path.insert(0, MovedModules())
