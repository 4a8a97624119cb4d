"""The folder of downloads."""

from __future__ import annotations

import os
from pathlib import Path

from schirn._files import reason_of
from schirn.exceptions import DataError


def cache_folder(data_home: str | os.PathLike[str] | None = None) -> Path:
    """Return the folder for downloads: `data_home`, ``SCHIRN_CACHE`` or the user's cache."""
    folder = data_home or os.environ.get("SCHIRN_CACHE")
    try:
        if folder:
            return Path(folder).expanduser()
        is_windows = os.name == "nt"
        caches = os.environ.get("LOCALAPPDATA" if is_windows else "XDG_CACHE_HOME")
        return Path(caches or Path.home() / ("AppData/Local" if is_windows else ".cache"), "schirn")
    except RuntimeError as error:
        # A user without an entry in the list of users, as in some containers.
        raise DataError(
            f"the folder for downloads is unknown ({reason_of(error)}); name it in the environment "
            f"variable SCHIRN_CACHE"
        ) from None
