"""The six sets with real candidates, from the archives at their authors' address.

Every archive holds one MATLAB file with `data`, `target` and `candidate_labels` (or
`partial_labels`). No checksum is fixed: the one of the first download is recorded and verified.
"""

from __future__ import annotations

import io
import zipfile
from pathlib import PurePosixPath

from schirn._files import brief_list, reason_of, too_large
from schirn.exceptions import DataError

_FOLDER = "https://palm.seu.edu.cn/zhangml/files"

PALM_SETS = {
    "music_emotion": f"{_FOLDER}/pml_music_emotion.zip",
    "music_style": f"{_FOLDER}/pml_music_style.zip",
    "mirflickr": f"{_FOLDER}/pml_mirflickr.zip",
    "yeastbp": f"{_FOLDER}/pml_YeastBP.zip",
    "yeastcc": f"{_FOLDER}/pml_YeastCC.zip",
    "yeastmf": f"{_FOLDER}/pml_YeastMF.zip",
}
"""Addresses of the archives by the name of the set."""


def palm_matrices(name: str, content: bytes, max_bytes: int) -> bytes:
    """Return the MATLAB file of an archive.

    Parameters
    ----------
    name : str
        Name of the set, for the file if the archive has several, and for errors.
    content : bytes
        The archive.
    max_bytes : int
        Largest size of the file when unpacked.

    Returns
    -------
    bytes

    Raises
    ------
    DataError
        If the archive is damaged, too large, or has no such file.
    """
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            entry = _matlab_file(name, archive.infolist())
            if entry.file_size > max_bytes:
                size = f"{entry.filename} unpacks to {entry.file_size:,} bytes"
                raise DataError(f"{name}: {too_large(size, max_bytes)}", parameter="max_bytes")
            with archive.open(entry) as stream:
                # The size in the header may be wrong.
                matrices = stream.read(max_bytes + 1)
    except DataError:
        raise
    except (zipfile.BadZipFile, OSError, EOFError, ValueError, NotImplementedError) as error:
        raise DataError(f"{name}: the archive cannot be unpacked ({reason_of(error)}).") from error
    if len(matrices) > max_bytes:
        size = f"{entry.filename} unpacks to over {max_bytes:,} bytes"
        raise DataError(f"{name}: {too_large(size, max_bytes)}", parameter="max_bytes")
    return matrices


def _matlab_file(name: str, entries: list[zipfile.ZipInfo]) -> zipfile.ZipInfo:
    """Return the only MATLAB file, or the one with the name of the data set."""
    matches = [entry for entry in entries if _path(entry).suffix.lower() == ".mat"]
    # Archives made on a Mac have a second entry for every file.
    matches = [entry for entry in matches if not _path(entry).name.startswith("._")]
    named = [entry for entry in matches if _plain(_path(entry).stem) == _plain(name)]
    if len(matches) != 1:
        matches = named
    if len(matches) != 1:
        names = brief_list([entry.filename for entry in entries]) or "nothing"
        raise DataError(f"{name}: the archive holds {names}, not one MATLAB file of this set.")
    return matches[0]


def _path(entry: zipfile.ZipInfo) -> PurePosixPath:
    return PurePosixPath(entry.filename)


def _plain(text: str) -> str:
    """Letters and digits alone, in lower case."""
    return "".join(letter for letter in text.lower() if letter.isalnum())
