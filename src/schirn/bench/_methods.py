"""Methods by name or by import path."""

import hashlib
import importlib
import inspect
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from schirn._input import suggest
from schirn.bench.grids import Grid, Params, default_grid, recommended
from schirn.exceptions import InputError
from schirn.methods import methods as all_methods
from schirn.methods._base import sees_truth


class Method(NamedTuple):
    """A method as it takes part in a benchmark."""

    name: str
    """What the rows call it."""
    path: str
    """`module:Class`, from which another process finds it."""
    params: Params
    grid: Grid | None
    sees_truth: bool
    source: str
    """Checksum of the code of a user's class; empty for our own."""


@contextmanager
def importable_here() -> Iterator[None]:
    """Let modules in the current folder be imported, as Python does for scripts."""
    here = os.getcwd()
    sys.path.insert(0, here)
    try:
        yield
    finally:
        if here in sys.path:
            sys.path.remove(here)


def make_methods(
    chosen: Sequence[Any] | Mapping[str, Any],
    params: Mapping[str, Params],
    grids: Mapping[str, Grid | None],
) -> list[Method]:
    """Resolve names, import paths and classes; apply the user's parameters and grids."""
    named = chosen if isinstance(chosen, Mapping) else {_shown(item): item for item in chosen}
    if not named:
        raise InputError("no method was given; name at least one")
    for name in (*params, *grids):
        if name not in named:
            raise InputError(
                f"parameters or a grid are given for {name!r}, which is not among the methods "
                f"{', '.join(named)}"
            )
    return [
        _make(name, item, dict(params.get(name, {})), grids.get(name, ...))
        for name, item in named.items()
    ]


def check_found_elsewhere(methods: Sequence[Method], processes: bool) -> None:
    """Refuse classes that the processes of a benchmark could not import."""
    for method in methods:
        module, _, name = method.path.partition(":")
        if "<locals>" in name:
            raise InputError(
                f"{method.name} is defined inside a function, where a benchmark cannot find it; "
                f"define it at the top of a module"
            )
        if processes and module == "__main__":
            raise InputError(
                f"{method.name} is defined in this program or notebook, where other processes "
                f"cannot find it; put it into a module of its own, or use jobs=0"
            )


def load_class(path: str) -> type:
    """Import `module:Class`."""
    module, _, name = path.partition(":")
    found: Any = importlib.import_module(module)
    for part in name.split("."):
        found = getattr(found, part)
    return found


def _shown(item: Any) -> str:
    if isinstance(item, str):
        own = {name.lower(): name for name in all_methods()}
        return own.get(item.lower(), item)
    return item.__name__ if inspect.isclass(item) else str(item)


def _make(name: str, item: Any, params: Params, grid: Any) -> Method:
    cls = item if inspect.isclass(item) else find_class(str(item))
    own = all_methods().get(cls.__name__) is cls
    if grid is ...:
        grid = default_grid(cls.__name__) if own else getattr(cls, "bench_grid", None)
    fixed = {**(recommended(cls.__name__) if own else {}), **params}
    known = _parameters(cls)
    for key in (*params, *(grid or {})):
        if known is not None and key not in known:
            raise InputError(f"{name} has no parameter {key!r}; {suggest(key, known)}")
    # What the user fixes is not searched.
    grid = {key: list(values) for key, values in (grid or {}).items() if key not in params}
    path = f"{cls.__module__}:{cls.__qualname__}"
    return Method(name, path, fixed, grid or None, sees_truth(cls), "" if own else _code_sum(cls))


def find_class(text: str) -> type:
    """Find a method of this library by name, or any class by import path."""
    own = {name.lower(): cls for name, cls in all_methods().items()}
    if text.lower() in own:
        return own[text.lower()]
    module, separator, name = text.rpartition(":" if ":" in text else ".")
    if not separator or not module or not name:
        raise InputError(
            f"there is no method {text!r}; {suggest(text, all_methods())} (give a class of your "
            f"own as module:Class)"
        )
    return _imported(text, module, name)


def _imported(text: str, module: str, name: str) -> type:
    try:
        found = getattr(importlib.import_module(module), name, None)
    except Exception as error:
        raise InputError(
            f"the method {text!r} cannot be imported: {type(error).__name__}: {error}"
        ) from error
    if not inspect.isclass(found):
        raise InputError(f"the method {text!r}: the module {module!r} has no class {name!r}")
    scores = hasattr(found, "decision_function") or hasattr(found, "predict_proba")
    if not hasattr(found, "fit") or not scores:
        raise InputError(
            f"the method {text!r} needs fit(X, candidates) and decision_function(X), and lacks "
            f"{'scores' if hasattr(found, 'fit') else 'fit'}"
        )
    return found


def _parameters(cls: type) -> list[str] | None:
    """Names of the constructor's parameters; None where it takes any."""
    parameters = inspect.signature(cls).parameters
    if any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
        return None
    return list(parameters)


def _code_sum(cls: type) -> str:
    """Checksum of the file that holds a class, so that an edited method is run again."""
    try:
        module = inspect.getmodule(cls)
        text = inspect.getsource(module or cls)
    except (OSError, TypeError):
        return ""
    return hashlib.sha256(text.encode()).hexdigest()[:16]
