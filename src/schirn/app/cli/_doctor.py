"""`schirn doctor`: find out what is wrong with an installation."""

import argparse
import importlib.metadata as metadata
import os
import platform
import re
from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import schirn
from schirn._optional import install_command
from schirn.datasets.cache import cache_folder
from schirn.exceptions import DataError
from schirn.program.output import facts, print_json, say, table
from schirn.program.provenance import version_of

OPTIONS = ""
# Extras for work on the library itself.
_DEVELOPMENT = ("all", "test", "docs", "dev")


def run(args: argparse.Namespace) -> int:
    """Check the installation: what is broken, what is missing, and how to fix it.

    The exit code is 1 if something is broken, else 0.

    Examples
    --------
    schirn doctor
    schirn doctor --json
    """
    entries = packages()
    broken = [
        f"{entry['name']} {entry['version']} is too old, schirn needs {entry['oldest']} or newer: "
        f'pip install --upgrade "{entry["name"]}>={entry["oldest"]}"'
        for entry in entries
        if entry["version"] and _numbers(entry["version"]) < _numbers(entry["oldest"])
    ]
    incomplete = _incomplete_extras()
    gpus = _gpus(broken)
    cache = _cache(broken)
    about = {"schirn": f"{schirn.__version__} in {Path(schirn.__file__).parent}"}
    about |= {"python": platform.python_version(), "system": platform.platform(), "cache": cache}
    if args.json:
        extras = {extra: install_command(extra) for extra in incomplete}
        document = {**about, "gpus": gpus, "packages": entries, "incomplete_extras": extras}
        print_json({**document, "broken": broken})
        return int(bool(broken))
    facts({**about, "gpus": ", ".join(gpus) or "none found"})
    say()
    # A package that only an extra needs is named with that extra.
    shown = [entry for entry in entries if entry["version"] or not entry["extra"]]
    rows = [(e["name"], e["version"] or "-", f">={e['oldest']}", e["extra"]) for e in shown]
    table(("package", "installed", "required", "extra"), rows)
    say()
    if incomplete:
        lines = [(text, install_command(extra)) for extra, text in incomplete.items()]
        table(("incomplete extra", "command"), lines)
        say()
    for entry in shown:
        if entry["version"] is None:
            say(f'missing: {entry["name"]} (pip install "{entry["name"]}>={entry["oldest"]}")')
    for sentence in broken or ["nothing"]:
        say(f"broken: {sentence}")
    return int(bool(broken))


def packages() -> list[dict[str, Any]]:
    """Return the required and installed version of each package that schirn uses, and its extra."""
    entries: dict[str, dict[str, Any]] = {}
    for name, oldest, extra in _requirements():
        entry = {"name": name, "oldest": oldest, "version": version_of(name)}
        entries.setdefault(name, {**entry, "extra": extra})
    return list(entries.values())


def _requirements() -> Iterator[tuple[str, str, str]]:
    """Yield name, oldest version and extra of each requirement; "" is no extra."""
    for line in metadata.requires("schirn") or []:
        extra = re.search(r"extra == ['\"]([\w-]+)['\"]", line)
        need = re.match(r"([\w.-]+)(?:\[[\w,-]+\])?\s*>=\s*([\w.]+)", line)
        if need is not None and (extra is None or extra[1] not in _DEVELOPMENT):
            yield need[1], need[2], extra[1] if extra else ""


def _incomplete_extras() -> dict[str, str]:
    """Return the names of extras with missing packages, and texts that name these packages."""
    extras: dict[str, list[str]] = {}
    for name, _, extra in _requirements():
        extras.setdefault(extra, []).append(name)
    extras.pop("", None)
    texts = {}
    for extra, names in extras.items():
        missing = [name for name in names if version_of(name) is None]
        if missing:
            part = "" if len(missing) == len(names) else f": {', '.join(missing)}"
            texts[extra] = f"{extra}{part}"
    return texts


def _numbers(version: str) -> tuple[int, ...]:
    """Return the release of a version as numbers, without suffixes such as rc1."""
    release = re.match(r"\d+(\.\d+)*", version)
    return tuple(int(part) for part in release[0].split(".")) if release else ()


def _gpus(broken: list[str]) -> list[str]:
    """Return the names of the GPUs that PyTorch can use; a failing driver is added to `broken`."""
    if find_spec("torch") is None:
        return []
    try:
        torch: Any = import_module("torch")
        apple = ["Apple GPU (mps)"] if torch.backends.mps.is_available() else []
        return [torch.cuda.get_device_name(k) for k in range(torch.cuda.device_count())] + apple
    except Exception as error:
        # A mismatched driver can raise any exception.
        failure = " ".join(f"{type(error).__name__}: {error}".split())
        broken.append(f"torch is installed but fails ({failure}): reinstall or remove it")
        return []


def _cache(broken: list[str]) -> str:
    """Return the folder of downloads; if it cannot be written, it is added to `broken`."""
    try:
        folder = cache_folder()
        nearest = next(path for path in (folder, *folder.parents) if path.exists())
        is_writable = nearest.is_dir() and os.access(nearest, os.W_OK | os.X_OK)
    except DataError as error:
        folder = Path(str(error))
        is_writable = False
    if not is_writable:
        broken.append(
            f"downloads cannot be stored because {str(folder)!r} is not writable: set SCHIRN_CACHE "
            f"to a folder that is"
        )
    return str(folder)
