"""The folder of downloads."""

from __future__ import annotations

import os
from pathlib import Path

from schirn._files import reason_of
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
