"""What is on this machine: packages, linear algebra libraries, processors, memory, GPU, data."""

import importlib.metadata as metadata
import os
import platform
import re
import sys
from contextlib import suppress
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from schirn.datasets import available
from schirn.datasets._cache import cache_folder

CORE = ("numpy", "scipy", "scikit-learn")
# Extras for those who work on the library itself.
_OURS = ("all", "test", "docs", "dev")
_CGROUP_LIMITS = (
    "/sys/fs/cgroup/memory.max",
    "/sys/fs/cgroup/memory/memory.limit_in_bytes",
)


def packages() -> list[dict[str, Any]]:
    """Every package that schirn can use: wanted and found version, and the extras it serves."""
    found: dict[str, dict[str, Any]] = {}
    for name, oldest, extra in _requirements():
        entry = found.setdefault(
            name, {"name": name, "oldest": oldest, "version": _version(name), "extras": []}
        )
        if extra is not None:
            entry["extras"].append(extra)
    for entry in found.values():
        version, oldest = entry["version"], entry["oldest"]
        entry["too_old"] = version is not None and _numbers(version) < _numbers(oldest)
    return list(found.values())


def _requirements() -> list[tuple[str, str, str | None]]:
    """Name, oldest version and extra of each requirement of the installed schirn."""
    try:
        listed = metadata.requires("schirn") or []
    except metadata.PackageNotFoundError:
        # Used from its folder, without having been installed.
        return [(name, "0", None) for name in CORE]
    found = []
    for line in listed:
        extra = re.search(r"extra == ['\"]([\w-]+)['\"]", line)
        need = re.match(r"([\w.-]+)(?:\[[\w,-]+\])?\s*>=\s*([\w.]+)", line)
        if need and (extra is None or extra[1] not in _OURS):
            found.append((need[1], need[2], extra[1] if extra else None))
    return found


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _numbers(version: str) -> tuple[int, ...]:
    """The release of a version, without what marks it as a preview."""
    release = re.match(r"\d+(\.\d+)*", version)
    return tuple(int(part) for part in release[0].split(".")) if release else ()


def interpreter() -> dict[str, Any]:
    """Python and the system below it."""
    return {
        "version": platform.python_version(),
        "implementation": platform.python_implementation(),
        "path": sys.executable,
        "system": platform.platform(),
    }


def linear_algebra() -> list[dict[str, Any]]:
    """The BLAS and OpenMP libraries in this process and their threads."""
    import scipy.linalg  # noqa: F401
    import sklearn.neighbors  # noqa: F401
    from threadpoolctl import threadpool_info

    keys = ("user_api", "internal_api", "version", "num_threads", "filepath")
    return [{key: library.get(key) for key in keys} for library in threadpool_info()]


def processors() -> dict[str, int | None]:
    """Processors of the machine, those this process may run on, and those it is granted."""
    import joblib

    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None
    # joblib also counts the share that a container grants.
    return {"machine": os.cpu_count(), "allowed": allowed, "usable": joblib.cpu_count()}


def memory() -> dict[str, int | None]:
    """Bytes of the machine, those free now, and the limit of the container; None if unknown."""
    total = free = None
    with suppress(OSError, ValueError, AttributeError):
        total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    with suppress(OSError):
        line = re.search(r"MemAvailable:\s+(\d+) kB", Path("/proc/meminfo").read_text())
        free = int(line[1]) * 1024 if line else None
    return {"total": total, "free": free, "limit": _memory_limit(total)}


def _memory_limit(total: int | None) -> int | None:
    """The container's limit, where it is one: "max" or more than there is means none."""
    for name in _CGROUP_LIMITS:
        with suppress(OSError, ValueError):
            limit = int(Path(name).read_text())
            return limit if total is None or limit < total else None
    return None


def gpus() -> dict[str, Any]:
    """GPUs that PyTorch or CuPy sees; a package that is not installed is not asked."""
    found: dict[str, Any] = {"devices": [], "failed": {}}
    for name, ask in (("torch", _torch_devices), ("cupy", _cupy_devices)):
        if find_spec(name) is None:
            continue
        try:
            found["devices"] += ask(import_module(name))
        except Exception as error:
            # A driver that does not fit raises whatever its library likes.
            found["failed"][name] = f"{type(error).__name__}: {' '.join(str(error).split())}"
    return found


def _torch_devices(torch: Any) -> list[dict[str, Any]]:
    devices = []
    for k in range(torch.cuda.device_count() if torch.cuda.is_available() else 0):
        facts = torch.cuda.get_device_properties(k)
        devices.append({"package": "torch", "name": facts.name, "memory": facts.total_memory})
    if torch.backends.mps.is_available():
        devices.append({"package": "torch", "name": "Apple GPU (mps)", "memory": None})
    return devices


def _cupy_devices(cupy: Any) -> list[dict[str, Any]]:
    devices = []
    for k in range(cupy.cuda.runtime.getDeviceCount()):
        facts = cupy.cuda.runtime.getDeviceProperties(k)
        name = facts["name"]
        name = name.decode() if isinstance(name, bytes) else name
        devices.append({"package": "cupy", "name": name, "memory": facts["totalGlobalMem"]})
    return devices


def data_folders() -> dict[str, Any]:
    """The folders of SCHIRN_DATA, the download cache, and the sets found there."""
    listed = [part for part in os.environ.get("SCHIRN_DATA", "").split(os.pathsep) if part]
    folders = [Path(part).expanduser() for part in listed]
    cache = cache_folder()
    names: list[str] = []
    with suppress(OSError):
        names = [entry.name for entry in available() if entry.where == "folder"]
    return {
        "SCHIRN_DATA": [{"path": str(path), "readable": _readable(path)} for path in folders],
        "cache": {"path": str(cache), "exists": cache.is_dir(), "writable": _writable(cache)},
        "sets": names,
    }


def _readable(folder: Path) -> bool:
    return folder.is_dir() and os.access(folder, os.R_OK | os.X_OK)


def _writable(folder: Path) -> bool:
    """Whether files could be put there, if need be after making the folder."""
    nearest = next(place for place in (folder, *folder.parents) if place.exists())
    return nearest.is_dir() and os.access(nearest, os.W_OK | os.X_OK)


def terminal() -> dict[str, str | None]:
    """The variables that decide about colours."""
    return {name: os.environ.get(name) for name in ("NO_COLOR", "FORCE_COLOR", "TERM")}
