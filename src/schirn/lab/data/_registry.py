"""Load data sets by name or path, and list those available."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from inspect import signature
from pathlib import Path
from typing import Any

from schirn._files import file_hash
from schirn._input import suggest
from schirn._text import format_suffix, is_packed
from schirn.datasets import Dataset, load_digits_attributes
from schirn.datasets.cache import cache_folder
from schirn.exceptions import DataError
from schirn.lab.data._arff import read_arff
from schirn.lab.data._brighter import BRIGHTER_SETS
from schirn.lab.data._emoji import EMOJI_SETS
from schirn.lab.data._mat import read_mat
from schirn.lab.data._npz import read_npz
from schirn.lab.data._palm import PALM_SETS
from schirn.lab.data._svmlight import read_svmlight
from schirn.lab.data._table import read_table

BUILT_IN: dict[str, Callable[..., Dataset]] = {"digits_attributes": load_digits_attributes}

DOWNLOADABLE = (*EMOJI_SETS, *BRIGHTER_SETS, *PALM_SETS)
"""Names that `fetch` needs no address for."""

# Suffix -> reader.
READERS: dict[str, Callable[..., Dataset]] = {
    ".npz": read_npz,
    ".mat": read_mat,
    ".arff": read_arff,
    **dict.fromkeys((".svm", ".svmlight", ".libsvm", ".txt"), read_svmlight),
    **dict.fromkeys((".csv", ".tsv", ".jsonl", ".json", ".parquet", ".xlsx"), read_table),
}

# Formats that may be packed with gzip, as in photos.csv.gz.
PACKABLE = (".arff", ".svm", ".svmlight", ".libsvm", ".txt", ".csv", ".tsv", ".jsonl", ".json")

# Suffixes tried for a bare name; tables and plain text need options to be read.
NAMED_SUFFIXES = (".npz", ".mat", ".arff", ".svm", ".svmlight", ".libsvm")


@dataclass(frozen=True)
class Available:
    """A data set known by name.

    Attributes
    ----------
    name : str
    where : {"built-in", "folder", "downloadable"}
        `load` finds the first two; `fetch` downloads the third.
    path : Path or None
        The file of a set in a folder.
    """

    name: str
    where: str
    path: Path | None = None


def load(
    name_or_path: str | os.PathLike[str],
    *,
    data_home: str | os.PathLike[str] | None = None,
    labels: Any = None,
    **options: Any,
) -> Dataset:
    """Load a data set by name or from a file.

    A path (with a folder or a known suffix) is read by the reader for its suffix. A name is looked
    up in the folders of the environment variable ``SCHIRN_DATA`` (separated as in ``PATH``), then
    in `data_home` or the download cache, then among the built-in sets.

    Parameters
    ----------
    name_or_path : str or path
    data_home : path, optional
        Folder to search instead of the download cache.
    labels : optional
        The label columns, for files that do not name them; see the reader of the format.
    **options
        Passed to the reader or to the built-in generator.

    Returns
    -------
    Dataset

    Examples
    --------
    >>> from schirn.datasets import load
    >>> load("digits_attributes", r=3)
    Dataset('digits_attributes', n=1797, d=64, l=10, y_true, candidates, images)
    """
    if labels is not None:
        options["labels"] = labels
    text = os.fspath(name_or_path)
    path = Path(os.path.expanduser(text))
    if format_suffix(path) in READERS or os.path.basename(text) != text:
        return _read(path, options)
    file = _find(text, data_home)
    if file is not None:
        return _read(file, options)
    if text in BUILT_IN:
        return BUILT_IN[text](**options)
    raise DataError(_unknown(text, data_home))


def available(*, data_home: str | os.PathLike[str] | None = None) -> list[Available]:
    """List the data sets that `load` finds by name, and those that `fetch` can download.

    Parameters
    ----------
    data_home : path, optional
        Folder to search instead of the download cache.

    Returns
    -------
    list of Available

    Examples
    --------
    >>> from schirn.datasets import available
    >>> [entry.where for entry in available() if entry.name == "digits_attributes"]
    ['built-in']
    """
    entries = {name: Available(name, "built-in") for name in BUILT_IN}
    for folder in _folders(data_home):
        for path in sorted(folder.iterdir()) if folder.is_dir() else []:
            if path.suffix.lower() in NAMED_SUFFIXES and path.is_file():
                entries.setdefault(path.stem, Available(path.stem, "folder", path))
    for name in DOWNLOADABLE:
        entries.setdefault(name, Available(name, "downloadable"))
    return sorted(entries.values(), key=lambda entry: entry.name)


def _read(path: Path, options: dict[str, Any]) -> Dataset:
    """Read a file with the reader for its suffix."""
    suffix = format_suffix(path)
    if suffix not in READERS or (is_packed(path) and suffix not in PACKABLE):
        kind = repr("".join(path.suffixes[-2:])) if path.suffix else "a file without suffix"
        raise DataError(f"{path}: no reader for {kind}; known are {', '.join(READERS)}.")
    if not os.path.isfile(path):
        raise DataError(f"{path}: there is no such file.")
    reader = READERS[suffix]
    unknown = sorted(set(options) - set(signature(reader).parameters))
    if unknown:
        raise DataError(f"{path}: {unknown[0]!r} is not an option of {reader.__name__}.")
    return reader(path, **(recorded_options(path) | options))


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
        expected = record["sha256"]
        options = dict(record.get("options", {}))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise DataError(f"{record_file}: not a download record; delete it.") from None
    if file_hash(path) != expected:
        raise DataError(
            f"{path}: the file has changed since it was downloaded; "
            f"download it again with schirn.lab.data.fetch({path.stem!r}, force=True)",
            parameter="force",
        )
    return options


def _find(name: str, data_home: str | os.PathLike[str] | None) -> Path | None:
    """Return the first file with this name in the data folders."""
    for folder in _folders(data_home):
        for suffix in NAMED_SUFFIXES:
            path = folder / f"{name}{suffix}"
            if path.is_file():
                return path
    return None


def _folders(data_home: str | os.PathLike[str] | None) -> list[Path]:
    """Return the folders to search, in this order."""
    names = os.environ.get("SCHIRN_DATA", "").split(os.pathsep)
    folders = [Path(os.path.expanduser(folder)) for folder in names if folder]
    if data_home is not None:
        return [*folders, cache_folder(data_home)]
    with suppress(DataError):
        # Without a folder for downloads there are none.
        folders.append(cache_folder())
    return folders


def _unknown(name: str, data_home: str | os.PathLike[str] | None) -> str:
    """Return the message about an unknown name, with the closest known one."""
    entries = available(data_home=data_home)
    local = [entry.name for entry in entries if entry.where != "downloadable"]
    remote = [entry.name for entry in entries if entry.where == "downloadable"]
    if name in remote:
        return (
            f"The data set {name!r} is not on this machine; download it with "
            f"schirn.lab.data.fetch({name!r}), or in a terminal with: schirn data fetch {name}"
        )
    choices = f"to load: {', '.join(local)}; to fetch: {', '.join(remote)}."
    return f"There is no data set {name!r}; {suggest(name, local + remote, choices)}"
