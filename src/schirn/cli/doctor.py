"""`schirn doctor`: find out what is wrong with an installation."""

import argparse
import importlib.metadata as metadata
import os
import platform
import re
import sys
import warnings
from contextlib import suppress
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import joblib
from threadpoolctl import threadpool_info

import schirn
from schirn.cli.output import facts, print_json, say, table
from schirn.datasets import available
from schirn.datasets.cache import cache_folder
from schirn.exceptions import DataError

DESCRIPTION = (
    "Check the installation and print what is broken, what is missing, and how to "
    "fix it. The exit code is 1 if something is broken, else 0."
)
EXAMPLES = """
schirn doctor
schirn doctor --json
"""
OPTIONS = ""
_CORE = ("numpy", "scipy", "scikit-learn")
# Extras for work on the library itself.
_DEVELOPMENT = ("all", "test", "docs", "dev")


def run(args: argparse.Namespace) -> int:
    """Examine the installation, print the findings, and return 1 if something is broken."""
    state = examine()
    state["broken"], state["advice"] = broken(state), advice(state)
    if args.json:
        print_json(state)
    else:
        _show(state)
    return int(bool(state["broken"]))


def examine() -> dict[str, Any]:
    """Collect everything there is to know, as one document."""
    return {
        "schirn": {"version": schirn.__version__, "path": str(Path(schirn.__file__).parent)},
        "python": {
            "version": platform.python_version(),
            "path": sys.executable,
            "system": platform.platform(),
        },
        "packages": packages(),
        "linear_algebra": linear_algebra(),
        # Within the limits of a container.
        "processors": joblib.cpu_count(),
        "gpu": gpus(),
        "data": data_folders(),
        "self_test": self_test(),
    }


def packages() -> list[dict[str, Any]]:
    """Required and installed version of every package that schirn uses, and its extras."""
    try:
        lines = metadata.requires("schirn") or []
    except metadata.PackageNotFoundError:
        # Imported from its folder, without being installed.
        lines = [f"{name}>=0" for name in _CORE]
    entries: dict[str, dict[str, Any]] = {}
    for line in lines:
        extra = re.search(r"extra == ['\"]([\w-]+)['\"]", line)
        need = re.match(r"([\w.-]+)(?:\[[\w,-]+\])?\s*>=\s*([\w.]+)", line)
        if need is None or (extra is not None and extra[1] in _DEVELOPMENT):
            continue
        name, oldest = need.groups()
        version = None
        with suppress(metadata.PackageNotFoundError):
            version = metadata.version(name)
        too_old = version is not None and _numbers(version) < _numbers(oldest)
        entry = {"name": name, "oldest": oldest, "version": version, "too_old": too_old}
        entries.setdefault(name, {**entry, "extras": []})
        if extra is not None:
            entries[name]["extras"].append(extra[1])
    return list(entries.values())


def _numbers(version: str) -> tuple[int, ...]:
    """The release of a version as numbers, without suffixes such as rc1."""
    release = re.match(r"\d+(\.\d+)*", version)
    return tuple(int(part) for part in release[0].split(".")) if release else ()


def linear_algebra() -> list[dict[str, Any]]:
    """The BLAS and OpenMP libraries in this process and their threads."""
    # So that their libraries are in the process too.
    import scipy.linalg  # noqa: F401
    import sklearn.neighbors  # noqa: F401

    keys = ("internal_api", "version", "num_threads", "filepath")
    return [{key: library.get(key) for key in keys} for library in threadpool_info()]


def gpus() -> dict[str, Any]:
    """Names of the GPUs that PyTorch or CuPy can use, and the reasons for those that fail."""
    state: dict[str, Any] = {"devices": [], "failed": {}}
    for name, devices in (("torch", _torch_devices), ("cupy", _cupy_devices)):
        if find_spec(name) is None:
            continue
        try:
            state["devices"] += devices(import_module(name))
        except Exception as error:
            # With a mismatched driver any exception is possible.
            state["failed"][name] = _in_short(error)
    return state


def _torch_devices(torch: Any) -> list[str]:
    apple = ["Apple GPU (mps)"] if torch.backends.mps.is_available() else []
    return [torch.cuda.get_device_name(k) for k in range(torch.cuda.device_count())] + apple


def _cupy_devices(cupy: Any) -> list[str]:
    return [f"CUDA device {k}" for k in range(cupy.cuda.runtime.getDeviceCount())]


def _in_short(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())}"


def data_folders() -> dict[str, Any]:
    """The folders of SCHIRN_DATA, the download cache, and the names of the data sets there."""
    variable = os.environ.get("SCHIRN_DATA", "").split(os.pathsep)
    folders = [Path(os.path.expanduser(name)) for name in variable if name]
    writable = False
    try:
        cache = str(cache_folder())
        # Without a cache, the nearest existing folder above it must allow creating one.
        above = (Path(cache), *Path(cache).parents)
        nearest = next(folder for folder in above if folder.exists())
        writable = nearest.is_dir() and os.access(nearest, os.W_OK | os.X_OK)
    except DataError as error:
        cache = str(error)
    names: list[str] = []
    with suppress(OSError):
        names = [entry.name for entry in available() if entry.where == "folder"]
    return {
        "SCHIRN_DATA": [
            {"path": str(path), "readable": path.is_dir() and os.access(path, os.R_OK | os.X_OK)}
            for path in folders
        ],
        "cache": {"path": cache, "writable": writable},
        "sets": names,
    }


def self_test() -> dict[str, Any]:
    """Train on data with known wrong labels; a sound installation finds most of them."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            data = schirn.datasets.make_partial_multilabel(
                n_samples=200, n_features=12, n_labels=6, r=1, random_state=0
            )
            noise = schirn.Sieve().fit(data.X, data.candidates).noise_
    except Exception as error:
        # A broken installation can raise anything.
        return {"recall": None, "error": _in_short(error)}
    wrong = (data.candidates == 1) & (data.y_true == 0)
    return {"recall": round(float(noise[wrong].mean()), 3), "error": None}


def broken(state: dict[str, Any]) -> list[str]:
    """One sentence, with the remedy, for each thing that does not work."""
    sentences = [
        f"{entry['name']} {entry['version']} is too old, schirn needs {entry['oldest']} or newer: "
        f'pip install --upgrade "{entry["name"]}>={entry["oldest"]}"'
        for entry in state["packages"]
        if entry["too_old"]
    ]
    sentences += [
        f"{name} is installed but fails ({failure}): reinstall or remove it"
        for name, failure in state["gpu"]["failed"].items()
    ]
    sentences += [
        f"SCHIRN_DATA names the folder {folder['path']!r}, which cannot be read: correct the "
        f"variable or create the folder"
        for folder in state["data"]["SCHIRN_DATA"]
        if not folder["readable"]
    ]
    cache = state["data"]["cache"]
    if not cache["writable"]:
        sentences.append(
            f"downloads cannot be stored because {cache['path']!r} is not writable: set "
            f"SCHIRN_CACHE to a folder that is"
        )
    test = state["self_test"]
    if test["error"]:
        sentences.append(f"training a small model failed ({test['error']}): reinstall schirn")
    elif test["recall"] < 0.5:
        sentences.append(
            f"a small model found only {test['recall']:.0%} of the wrong labels: the linear "
            f"algebra library computes wrong results, reinstall NumPy and SciPy"
        )
    return sentences


def advice(state: dict[str, Any]) -> list[str]:
    """One sentence for each thing that works but could be faster."""
    n_threads = max((library["num_threads"] for library in state["linear_algebra"]), default=1)
    processors = state["processors"]
    if n_threads <= processors:
        return []
    return [
        f"linear algebra starts {n_threads} threads on {processors} processors: set "
        f"OMP_NUM_THREADS={processors}, or pass --threads {processors}"
    ]


def _show(state: dict[str, Any]) -> None:
    """Print the document as text."""
    data, test = state["data"], state["self_test"]
    folders = ", ".join(folder["path"] for folder in data["SCHIRN_DATA"])
    libraries = [f"{lib['internal_api']} ({lib['num_threads']})" for lib in state["linear_algebra"]]
    facts(
        [
            ("schirn", f"{state['schirn']['version']} in {state['schirn']['path']}"),
            ("python", f"{state['python']['version']} ({state['python']['path']})"),
            ("system", state["python"]["system"]),
            ("processors", state["processors"]),
            ("libraries (threads)", ", ".join(libraries) or "none found"),
            ("gpu", ", ".join(state["gpu"]["devices"]) or "none found"),
            ("data sets", f"{len(data['sets'])} in {folders}" if folders else "set SCHIRN_DATA"),
            ("cache", data["cache"]["path"]),
            ("self-test", test["error"] or f"found {test['recall']:.0%} of the wrong labels"),
        ]
    )
    say()
    table(
        ("package", "installed", "required", "extras"),
        [
            (p["name"], p["version"] or "-", f">={p['oldest']}", ", ".join(p["extras"]) or "(core)")
            for p in state["packages"]
        ],
    )
    say()
    for p in state["packages"]:
        if p["version"] is None and p["extras"]:
            say(f'missing: {p["name"]} (pip install "schirn[{p["extras"][-1]}]")')
    for kind in ("advice", "broken"):
        for sentence in state[kind]:
            say(f"{kind}: {sentence}")
    if not state["broken"]:
        say("Nothing is broken.")
