"""Checksum of the code that determines the results of a method.

The code of a method is the module of its class and every module that it imports, directly or not,
from its own package and from the numerical packages of this library; and `execute`, which scales,
tunes, fits and scores. Comments, docstrings, annotations, formatting and the wording of errors do
not count. Other packages are not included, because each result records their versions.
"""

import ast
import hashlib
import importlib.util
import sys
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

_PACKAGES = (
    "_input",
    "_text",
    "_text_features",
    "estimators",
    "features",
    "lab.rivals",
    "labels",
    "linalg",
    "metrics",
    "model_selection",
    "noise",
    "scale",
    "solvers",
)
_EXECUTE = "schirn.lab.bench.running._execute"


class _Source(NamedTuple):
    """Checksum of a module's code, and the names that it imports: (module, name or None)."""

    digest: str
    imports: tuple[tuple[str, str | None], ...]


def code_checksum(cls: type) -> str:
    """Return the SHA-256 of the code behind the results of a class; "" without a source file."""
    if _file(cls.__module__) is None:
        return ""
    package = cls.__module__.partition(".")[0]
    modules: set[str] = set()
    waiting = [cls.__module__, _EXECUTE]
    while waiting:
        module = waiting.pop()
        if module not in modules:
            modules.add(module)
            homes = (_home(*name) for name in _source(module).imports)
            waiting += [home for home in homes if home and _counts(home, package)]
    lines = (f"{module} {_source(module).digest}\n" for module in sorted(modules))
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def _counts(module: str, package: str) -> bool:
    top, _, path = module.partition(".")
    if top != "schirn":
        return top == package
    return any(path == name or path.startswith(f"{name}.") for name in _PACKAGES)


def _file(module: str) -> Path | None:
    """Return the source file of a module; None if it has none."""
    try:
        origin = getattr(sys.modules.get(module), "__file__", None)
        spec = None if origin else importlib.util.find_spec(module)
    except (ImportError, ValueError, AttributeError):
        return None
    path = Path(origin or getattr(spec, "origin", None) or "")
    return path if path.suffix == ".py" and path.is_file() else None


def _home(module: str, name: str | None) -> str | None:
    """Return the module that defines a name, which may be a submodule of a package."""
    path = _file(module)
    if path is None or name is None or path.name != "__init__.py":
        return module if path else None
    if _file(f"{module}.{name}"):
        return f"{module}.{name}"
    origins = (origin for origin, passed_on in _source(module).imports if passed_on == name)
    origin = next(origins, None)
    return module if origin is None else _home(origin, name)


def _source(module: str) -> _Source:
    path = _file(module)
    return _Source("", ()) if path is None else _read(module, path, path.stat().st_mtime_ns)


@lru_cache(maxsize=1024)
def _read(module: str, path: Path, changed: int) -> _Source:
    tree = ast.parse(path.read_bytes())
    digest = hashlib.sha256("\n".join(_describe(tree)).encode()).hexdigest()
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    return _Source(digest, tuple(_imports(tree, package)))


def _imports(tree: ast.Module, package: str) -> Iterator[tuple[str, str | None]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, None) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            dots = "." * node.level + (node.module or "")
            origin = importlib.util.resolve_name(dots, package)
            yield from ((origin, alias.name) for alias in node.names)


def _describe(node: ast.AST) -> Iterator[str]:
    """Yield the syntax tree as words that do not depend on the version of Python."""
    yield type(node).__name__
    if isinstance(node, ast.Raise):
        return
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns"):
            continue
        for item in value if isinstance(value, list) else [value]:
            if isinstance(item, ast.AST) and not _is_docstring(item):
                yield f"{name}:"
                yield from _describe(item)
            elif item is not None and not isinstance(item, ast.AST):
                yield f"{name}={item!r}"
    # Without an end mark, a statement inside a block would look like one after it.
    yield "end"


def _is_docstring(node: ast.AST) -> bool:
    """Check whether a statement is only a string, that is, documentation."""
    text = node.value if isinstance(node, ast.Expr) else None
    return isinstance(text, ast.Constant) and isinstance(text.value, str)
