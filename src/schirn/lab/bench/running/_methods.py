"""Methods by name or import path, with their recommended parameters and tuning grids."""

import importlib
import inspect
import math
import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any, NamedTuple

from schirn._input import find_name, suggest
from schirn.estimators import methods as all_methods
from schirn.estimators import sees_truth
from schirn.exceptions import InputError
from schirn.lab.bench._baselines import BASELINES
from schirn.lab.bench.running._code import code_checksum

Params = dict[str, Any]
Grid = dict[str, list[Any]]

# In addition to the defaults of each class.
RECOMMENDED: dict[str, Params] = {
    # All methods of a comparison get the same features (see `features` of `schirn.lab.bench.run`).
    "Sieve": {"features": "none", "kernel": "linear"},
    # Support vector machines can take hours on unscaled features.
    "ParticleVLS": {"scale": "minmax"},
    "ParticleMAP": {"scale": "minmax"},
}

# Grids of the methods that choose their parameters in `fit`, as Sieve does without a grid.
SELF_TUNED: dict[str, Grid] = {
    name: {key: sorted(values) for key, values in grid.items()}
    for name, cls in all_methods().items()
    if (grid := getattr(cls, "_grid", None))
}

# Values follow the papers where they state them; otherwise they span the range that changed the
# results of a reconstruction. Every method is given its whole grid on every data set.
GRIDS: dict[str, Grid] = {
    **SELF_TUNED,
    "FPML": {"lam1": [0.1, 1.0], "lam3": [1.0, 10.0, 100.0]},
    "PMLLRS": {"beta": [0.01, 0.1, 1.0], "gamma": [0.01, 1.0, 100.0]},
    "PMLNI": {"lam": [1.0, 10.0, 100.0]},
    "ParticleMAP": {"thr": [0.5, 0.7, 0.9]},
    "ParticleVLS": {"thr": [0.5, 0.7, 0.9]},
    "PAKS": {"scale": ["standard", "none"], "eta": [1.0, 10.0, 100.0, 1000.0]},
    "GLC": {"alpha": [0.1, 1.0, 10.0], "eta": [0.1, 1.0, 10.0, 100.0, 1000.0]},
    "PARD": {"beta_0": [0.01, 0.1], "warm_up": [5, 30], "max_iter": [30, 60]},
    "LogisticBaseline": {"scale": ["standard", "none"], "C": [0.01, 0.1, 1.0, 100.0]},
    "CleanlabBaseline": {"scale": ["standard", "none"], "C": [0.01, 0.1, 1.0, 100.0]},
    "PMLLENFN": {"lam1": [1.0, 10.0, 100.0], "a0": [0.3, 0.7], "nu": [0.1, 0.2, 0.4]},
    "PMLPLR": {"beta": [0.01, 0.1, 1.0], "lam": [0.01, 0.1, 1.0, 10.0]},
    **{key: {"lam": [1.0, 10.0, 100.0], "gamma": [0.1, 0.5]} for key in ("PMLLC", "PMLFP")},
    "MUSER": {"alpha": [1.0, 10.0], "beta": [0.1, 1.0], "gamma": [1.0, 10.0, 100.0]},
    "PLAIN": {"alpha": [0.1, 1.0], "eta": [0.1, 1.0], "learning_rate": [0.01, 0.1]},
    "PMLMA": {"lam": [1.0, 10.0], "alpha": [0.001, 0.01, 0.1], "gamma": [0.1, 1.0, 100.0]},
}


def recommended(name: str) -> Params:
    """Return the parameters used without tuning, in addition to the defaults of the class.

    Parameters
    ----------
    name : str
        Name of a method.

    Returns
    -------
    dict

    Examples
    --------
    >>> from schirn.lab.bench import recommended
    >>> recommended("ParticleVLS")
    {'scale': 'minmax'}
    """
    return dict(RECOMMENDED.get(name, {}))


def default_grid(name: str) -> Grid | None:
    """Return the default tuning grid of a method.

    Parameters
    ----------
    name : str
        Name of a method.

    Returns
    -------
    dict of str to list, or None
        None if the method has nothing to tune.

    Examples
    --------
    >>> from schirn.lab.bench import default_grid
    >>> default_grid("PMLNI")
    {'lam': [1.0, 10.0, 100.0]}
    """
    grid = GRIDS.get(name)
    return None if grid is None else {key: list(values) for key, values in grid.items()}


def thin_grid(grid: Grid, points: int, usual: Mapping[str, Any] | None = None) -> Grid:
    """Shorten a grid to at most `points` points: the longest lists lose inner values first.

    The usual value of a parameter stays, so that a search is never worse off for its budget alone:
    it replaces the nearest inner value, or the nearest value of a list of two.

    Examples
    --------
    >>> from schirn.lab.bench.running._methods import thin_grid
    >>> thin_grid({"a": [1, 2, 3], "b": [1, 2, 3, 4, 5]}, 6)
    {'a': [1, 3], 'b': [1, 3, 5]}
    >>> thin_grid({"a": [1, 2, 3], "b": [1, 2, 3, 4, 5]}, 6, {"a": 2, "b": 4})
    {'a': [2, 3], 'b': [1, 4, 5]}
    """
    usual = usual or {}
    lengths = {key: len(values) for key, values in grid.items()}
    while math.prod(lengths.values()) > points and max(lengths.values()) > 1:
        lengths[max(lengths, key=lengths.__getitem__)] -= 1
    return {key: _spread(values, lengths[key], usual.get(key)) for key, values in grid.items()}


def _spread(values: list[Any], count: int, usual: Any) -> list[Any]:
    """Return `count` values from the first to the last, the usual one among them."""
    places = [k * (len(values) - 1) // max(count - 1, 1) for k in range(count)]
    if usual in values and values.index(usual) not in places:
        place = values.index(usual)
        replaceable = range(1, count - 1) if count > 2 else range(count)
        nearest = min(replaceable, key=lambda k: abs(places[k] - place))
        places[nearest] = place
    return [values[place] for place in sorted(places)]


class Method(NamedTuple):
    """A method with the parameters and the grid of a benchmark."""

    name: str
    """Name in the results."""
    path: str
    """`module:Class`, so that another process can import it."""
    params: Params
    grid: Grid | None
    sees_truth: bool
    code: str
    """Checksum of the code that determines its results; empty for a class without a file."""
    tunes_itself: bool = False
    """True if `fit` chooses all parameters of the grid on held-out candidates."""
    usual: Mapping[str, Any] = MappingProxyType({})
    """Value of each parameter of the grid if it is not searched."""


@contextmanager
def importable_here() -> Iterator[None]:
    """Make modules in the current folder importable, as Python does for scripts."""
    folder = os.getcwd()
    sys.path.insert(0, folder)
    try:
        yield
    finally:
        if folder in sys.path:
            sys.path.remove(folder)


def make_methods(
    chosen: Sequence[Any] | Mapping[str, Any],
    params: Mapping[str, Params],
    grids: Mapping[str, Grid | None],
) -> list[Method]:
    """Resolve names, import paths and classes; apply the user's parameters and grids."""
    named = chosen if isinstance(chosen, Mapping) else name_methods(chosen)
    if not named:
        raise InputError("no method was given; name at least one")
    for name in (*params, *grids):
        if name not in named:
            raise InputError(
                f"parameters or a grid were given for {name!r}, which is not among the methods "
                f"{', '.join(named)}"
            )
    return [
        _make(name, item, dict(params.get(name, {})), grids.get(name, ...))
        for name, item in named.items()
    ]


def check_importable(methods: Sequence[Method], processes: bool) -> None:
    """Raise if another process could not import one of the classes."""
    for method in methods:
        module, _, name = method.path.partition(":")
        if "<locals>" in name:
            raise InputError(
                f"{method.name} is defined inside a function, where a benchmark cannot import it; "
                f"define it at the top level of a module"
            )
        if processes and module == "__main__":
            raise InputError(
                f"{method.name} is defined in this program or notebook, which other processes "
                f"cannot import; move it into a module, or use jobs=0"
            )


def import_class(path: str) -> type:
    """Import `module:Class`."""
    module, _, name = path.partition(":")
    item: Any = importlib.import_module(module)
    for attribute in name.split("."):
        item = getattr(item, attribute)
    return item


def own_methods() -> dict[str, type]:
    """Return the methods and the baselines of this library by name."""
    return {**all_methods(), **BASELINES}


def is_own(path: str) -> bool:
    """Check whether an import path leads to a method or a baseline of this library."""
    module, _, name = path.partition(":")
    cls = own_methods().get(name)
    return cls is not None and cls.__module__ == module


def name_methods(items: Iterable[Any]) -> dict[str, Any]:
    """Return the names of methods in results, by default the name of the class.

    Classes that share their name, or have the name of a method of this library, keep their import
    paths.

    Parameters
    ----------
    items : list of str or type
        Names, import paths or classes.

    Returns
    -------
    dict of str to str or type

    Examples
    --------
    >>> from schirn.lab.bench import name_methods
    >>> list(name_methods(["sieve", "mypkg:Mine", "mypkg:NLR", "one:Same", "two:Same"]))
    ['Sieve', 'Mine', 'mypkg:NLR', 'one:Same', 'two:Same']
    """
    items = list(dict.fromkeys(items))
    short = [_short_name(item) for item in items]
    named: dict[str, Any] = {}
    for item, name in zip(items, short, strict=True):
        is_taken = find_name(name, own_methods()) is not None and not _is_name_of_own(item)
        is_shared = short.count(name) > 1
        named[_path_of(item) if is_taken or is_shared else name] = item
    return named


def _short_name(item: Any) -> str:
    if not isinstance(item, str):
        return str(item.__name__)
    return find_name(item, own_methods()) or re.split("[:.]", item)[-1]


def _path_of(item: Any) -> str:
    """Import path of a method from elsewhere."""
    return item if isinstance(item, str) else f"{item.__module__}:{item.__qualname__}"


def _is_name_of_own(item: Any) -> bool:
    """Check whether an item is the name or the class of a method of this library."""
    if isinstance(item, str):
        return find_name(item, own_methods()) is not None
    return own_methods().get(getattr(item, "__name__", "")) is item


def _make(name: str, item: Any, params: Params, grid: Any) -> Method:
    cls = item if inspect.isclass(item) else find_class(str(item))
    is_ours = own_methods().get(cls.__name__) is cls
    is_default = grid is ...
    if is_default:
        grid = default_grid(cls.__name__) if is_ours else getattr(cls, "bench_grid", None)
    fixed = {**(recommended(cls.__name__) if is_ours else {}), **params}
    known = _parameters(cls)
    for key in (*params, *(grid or {})):
        if known is not None and key not in known:
            raise InputError(f"{name} has no parameter {key!r}; {suggest(key, known)}")
    # Parameters fixed by the user are not searched.
    grid = {key: list(values) for key, values in (grid or {}).items() if key not in params}
    defaults = inspect.signature(cls).parameters
    usual = {key: default.default for key, default in defaults.items()} | fixed
    # A parameter of our methods that is None is chosen in `fit`.
    tunes_itself = is_ours and is_default and all(defaults[key].default is None for key in grid)
    return Method(
        name,
        f"{cls.__module__}:{cls.__qualname__}",
        fixed,
        grid or None,
        sees_truth(cls),
        code_checksum(cls),
        tunes_itself,
        {key: usual[key] for key in grid if key in usual},
    )


def find_class(text: str) -> type:
    """Look up a method of this library by name, or any class by import path."""
    name = find_name(text, own_methods())
    if name is not None:
        return own_methods()[name]
    module, separator, name = text.rpartition(":" if ":" in text else ".")
    if not separator or not module or not name:
        raise InputError(
            f"there is no method {text!r}; {suggest(text, own_methods())} "
            f"(give your own class as module:Class)"
        )
    return _imported(text, module, name)


def _imported(text: str, module: str, name: str) -> type:
    try:
        cls = getattr(importlib.import_module(module), name, None)
    except Exception as error:
        raise InputError(
            f"the method {text!r} cannot be imported: {type(error).__name__}: {error}"
        ) from error
    if not inspect.isclass(cls):
        raise InputError(f"the method {text!r}: the module {module!r} has no class {name!r}")
    scores = hasattr(cls, "decision_function") or hasattr(cls, "predict_proba")
    if not hasattr(cls, "fit") or not scores:
        raise InputError(
            f"the method {text!r} must have fit(X, candidates) and decision_function(X); it lacks "
            f"{'decision_function' if hasattr(cls, 'fit') else 'fit'}"
        )
    return cls


def _parameters(cls: type) -> list[str] | None:
    """Return the names of the constructor's parameters, or None if it accepts any."""
    parameters = inspect.signature(cls).parameters
    if any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
        return None
    return list(parameters)
