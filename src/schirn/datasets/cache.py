"""The download cache: its folder, and a record of each file that detects changes."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from schirn._files import file_hash, reason_of
from schirn.exceptions import DataError


def cache_folder(data_home: str | os.PathLike[str] | None = None) -> Path:
    """Return the folder for downloads: `data_home`, ``SCHIRN_CACHE`` or the user's cache."""
    try:
        if data_home is not None:
            return Path(data_home).expanduser()
        if os.environ.get("SCHIRN_CACHE"):
            return Path(os.environ["SCHIRN_CACHE"]).expanduser()
        if os.name == "nt":
            base = os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local"
        else:
            base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    except RuntimeError as error:
        # A user without an entry in the list of users, as in some containers.
        raise DataError(
            f"the folder for downloads is unknown ({reason_of(error)}); name it in the environment "
            f"variable SCHIRN_CACHE"
        ) from None
    return Path(base) / "schirn"


def record_path(path: Path) -> Path:
    """Return the path of the record that belongs to a cached file."""
    return path.with_name(f"{path.name}.json")


def recorded_options(path: Path) -> dict[str, Any]:
    """Return the reader options recorded for a downloaded file after checking its checksum."""
    record_file = record_path(path)
    if not record_file.is_file():
        return {}
    try:
        record = json.loads(record_file.read_text("utf-8"))
        expected, options = record["sha256"], dict(record.get("options", {}))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise DataError(f"{record_file}: not a download record; delete it.") from None
    if file_hash(path) != expected:
        raise DataError(
            f"{path}: the file has changed since it was downloaded; "
            f"download it again with schirn.lab.data.fetch({path.stem!r}, force=True)",
            parameter="force",
        )
    return options
