"""Where a result comes from: versions, parameters, time, and a hash of the data."""

import argparse
import importlib.metadata as metadata
import platform
from typing import Any

import schirn
from schirn._files import content_hash, utc_now

_LIBRARIES = ("numpy", "scipy", "scikit-learn", "torch", "pyarrow", "dask")
# Options that change no result.
_IRRELEVANT = ("run", "debug", "quiet", "json", "log_json", "config", "threads", "typed")


def provenance(args: argparse.Namespace) -> dict[str, Any]:
    """Describe a run of the program, for its JSON documents and model files."""
    options = {name: value for name, value in vars(args).items() if name not in _IRRELEVANT}
    data = options.get("data")
    return {
        "schirn": schirn.__version__,
        "time": utc_now(),
        "parameters": {name: value for name, value in options.items() if value not in (None, [])},
        "seed": options.get("seed", dict(options.get("param", ())).get("random_state")),
        "data_sha256": content_hash(data) if isinstance(data, str) else None,
        "python": platform.python_version(),
        "libraries": {name: number for name in _LIBRARIES if (number := version_of(name))},
    }


def version_of(name: str) -> str | None:
    """Return the version of an installed package."""
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None
