"""Where a result comes from: versions, parameters, time, and a hash of the data."""

import argparse
import hashlib
import importlib.metadata as metadata
import platform
from pathlib import Path
from typing import Any

import schirn
from schirn._files import file_hash, utc_now

_LIBRARIES = ("numpy", "scipy", "scikit-learn", "torch", "pyarrow", "dask")
_MAX_BYTES = 4 * 1024**3
# Options that change no result.
_IRRELEVANT = ("run", "debug", "quiet", "json", "log_json", "config", "threads")


def provenance(args: argparse.Namespace) -> dict[str, Any]:
    """Describe a run of the program, for its JSON documents and model files."""
    options = {name: value for name, value in vars(args).items() if name not in _IRRELEVANT}
    return {
        "schirn": schirn.__version__,
        "time": utc_now(),
        "parameters": {name: value for name, value in options.items() if value not in (None, [])},
        "seed": options.get("seed", dict(options.get("param", ())).get("random_state")),
        "data_sha256": _hash_data(options.get("data")),
        "python": platform.python_version(),
        "libraries": {name: number for name in _LIBRARIES if (number := version_of(name))},
    }


def version_of(name: str) -> str | None:
    """Return the version of an installed package."""
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _hash_data(data: Any) -> str | None:
    """Hash of a file, or of the names and hashes of the files of a folder that is not huge."""
    if not isinstance(data, str) or "\0" in data or not Path(data).exists():
        return None
    path = Path(data)
    if path.is_file():
        return file_hash(path)
    digest = hashlib.sha256()
    files = sorted(file for file in path.rglob("*") if file.is_file())
    if sum(file.stat().st_size for file in files) > _MAX_BYTES:
        return None
    for item in files:
        digest.update(f"{item.relative_to(path)}\n{file_hash(item)}\n".encode())
    return digest.hexdigest()
