"""Rankings stored next to a table, so that a table is ranked once and not by every command.

A ranking is one file of arrays in the folder `.schirn`. Its name is a checksum of the table, of the
options and files that determine the ranks, and of the version of this program. Damaged or foreign
files are ignored, and so are folders that cannot be written.
"""

import hashlib
import json
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import schirn
from schirn._files import atomic_write, content_hash, read_archive
from schirn.cleaning import Answers, MissingTags, NoisyLabels, RankedTags, Storage
from schirn.exceptions import DataError
from schirn.labels.tags import Tags

FOLDER = ".schirn"
FORMAT = 1
# Larger files get no checksum, so tables that use them are ranked by every command.
_MAX_BYTES = 4 * 1024**3
# Number of rankings kept per table, for other options and earlier versions of the table.
_KEPT = 4
_HEAD = "head"
# Whole numbers, probabilities and flags of each tag.
_KINDS = {
    "row": "iu",
    "column": "iu",
    "confidence": "f",
    "judged": "b",
    "known": "i",
    "planted": "f",
    "missing_row": "iu",
    "missing_column": "iu",
    "missing_confidence": "f",
}


@dataclass(frozen=True)
class StoredRanking:
    """A ranking without answers, and notes about its features.

    Attributes
    ----------
    ranking : NoisyLabels
        The ranking.
    about : dict from str to JSON value
        Notes about the features, which are not stored themselves.
    """

    ranking: NoisyLabels
    about: dict[str, Any] = field(default_factory=dict)


class RankingStore:
    """The stored rankings of one table.

    Parameters
    ----------
    table : path
        A file or folder; the rankings are stored in the folder `.schirn` next to it.

    Attributes
    ----------
    folder : Path
        The folder `.schirn`.
    """

    def __init__(self, table: str | os.PathLike[str]) -> None:
        path = Path(os.path.abspath(table))
        self.folder = path.parent / FOLDER
        self._prefix = path.name[:100]

    def path(self, key: Mapping[str, Any]) -> Path:
        """Return the file of the ranking with this key.

        Parameters
        ----------
        key : dict from str to JSON value
            Everything that the ranks depend on. The version of this program is added.

        Returns
        -------
        Path
        """
        return self.folder / f"{self._prefix}.{_digest(key)[:32]}.npz"

    def read(self, key: Mapping[str, Any], tags: Tags) -> StoredRanking | None:
        """Return the stored ranking; None if there is no usable one.

        Parameters
        ----------
        key : dict from str to JSON value
            Key of the ranking; see `path`.
        tags : Tags
            The tags of the table, which must match the ranking.

        Returns
        -------
        StoredRanking or None
        """
        path = self.path(key)
        try:
            if not path.is_file():
                return None
            arrays = read_archive(path)
            head = json.loads(arrays.pop(_HEAD).tobytes())
            return _restored(head, arrays, _digest(key), tags)
        except (DataError, OSError, ValueError, KeyError, TypeError, RecursionError):
            # Damaged, or not written by this program: the table is ranked again.
            return None

    def write(self, key: Mapping[str, Any], stored: StoredRanking) -> bool:
        """Store a ranking; return whether that was possible.

        Parameters
        ----------
        key : dict from str to JSON value
            Key of the ranking; see `path`.
        stored : StoredRanking
            The ranking to store.

        Returns
        -------
        bool
            False if the folder cannot be written, or if the ranking has votes or opinions, which
            are not stored.
        """
        ranking = stored.ranking
        if ranking.ranked.annotators or ranking.ranked.opinions or ranking.missing.opinions:
            return False
        head = {
            "format": FORMAT,
            "key": _digest(key),
            "label_names": ranking.label_names,
            "method": ranking.method,
            "storage": ranking.storage,
            "about": stored.about,
        }
        arrays: dict[str, Any] = {
            "row": ranking.row,
            "column": ranking.column,
            "confidence": ranking.model_confidence,
            "judged": ranking.judged,
            "known": ranking.known,
            "planted": ranking.ranked.planted_confidence,
            "missing_row": ranking.missing.row,
            "missing_column": ranking.missing.column,
            "missing_confidence": ranking.missing.model_confidence,
        }
        try:
            arrays[_HEAD] = np.frombuffer(json.dumps(head).encode(), np.uint8)
            self.folder.mkdir(exist_ok=True)
            with atomic_write(self.path(key)) as stream:
                np.savez(stream, **arrays)
            ignored = self.folder / ".gitignore"
            if not ignored.exists():
                ignored.write_text("*\n", "utf-8")
        except (OSError, DataError, TypeError, ValueError):
            # The folder cannot be written, the disk is full, or a value has no JSON form.
            with suppress(OSError):
                self.folder.rmdir()
            return False
        self._forget_oldest()
        return True

    def _forget_oldest(self) -> None:
        """Delete all but the latest rankings of the table; other processes may do the same."""
        with suppress(OSError):
            name_length = len(self.path({}).name)
            files = [
                path
                for path in self.folder.glob("*.npz")
                if path.name.startswith(f"{self._prefix}.") and len(path.name) == name_length
            ]
            ages = {path: path.stat().st_mtime_ns for path in files}
            for path in sorted(files, key=lambda file: ages[file])[:-_KEPT]:
                path.unlink()


def content_key(path: str | os.PathLike[str]) -> str | None:
    """Return a checksum of a file or folder; None if it is missing or very large.

    Parameters
    ----------
    path : path
        A file or folder.

    Returns
    -------
    str or None
    """
    file = Path(path)
    if file.is_file() and file.stat().st_size > _MAX_BYTES:
        return None
    return content_hash(file)


def stamp(path: str | os.PathLike[str]) -> list[tuple[str, int, int]]:
    """Return names, sizes and times of a table's files, to detect that it was replaced.

    Parameters
    ----------
    path : path
        A file or folder.

    Returns
    -------
    list of (str, int, int)
    """
    root = Path(path)
    files = sorted(root.rglob("*")) if root.is_dir() else [root]
    stamps = []
    for file in files:
        with suppress(OSError):
            about = file.stat()
            stamps.append((str(file), about.st_size, about.st_mtime_ns))
    return stamps


def _digest(key: Mapping[str, Any]) -> str:
    """Return the checksum of a key and the version of this program."""
    content = {"key": dict(key), "format": FORMAT, "schirn": schirn.__version__}
    text = json.dumps(content, sort_keys=True, default=str)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _restored(
    head: Any, arrays: dict[str, np.ndarray], digest: str, tags: Tags
) -> StoredRanking | None:
    """Return the ranking of a file; None unless it is consistent and matches the tags."""
    if head["format"] != FORMAT or head["key"] != digest or head["label_names"] != tags.names:
        return None
    if any(arrays[name].dtype.kind not in kinds for name, kinds in _KINDS.items()):
        return None
    sizes = {name: arrays[name].shape for name in _KINDS}
    tag_shapes = {sizes[name] for name in ("row", "column", "confidence", "judged", "known")}
    missing_shapes = {sizes[name] for name in _KINDS if name.startswith("missing_")}
    if tag_shapes != {tags.row.shape} or len(missing_shapes) != 1 or arrays["planted"].ndim != 1:
        return None
    same_tags = np.array_equal(arrays["row"], tags.row)
    if not same_tags or not np.array_equal(arrays["column"], tags.column):
        return None
    cells = (arrays["missing_row"], arrays["missing_column"])
    limits = (tags.n_rows, len(tags.names))
    if cells[0].ndim != 1 or any(
        len(values) and not 0 <= values.min() <= values.max() < limit
        for values, limit in zip(cells, limits, strict=True)
    ):
        return None
    if not all(_are_shares(arrays[name]) for name, kinds in _KINDS.items() if kinds == "f"):
        return None
    storage = head["storage"]
    suggestions = MissingTags(*cells, arrays["missing_confidence"], list(tags.names))
    ranked = RankedTags(
        n_rows=tags.n_rows,
        label_names=list(tags.names),
        row=arrays["row"],
        column=arrays["column"],
        model_confidence=arrays["confidence"],
        judged=arrays["judged"],
        method=str(head["method"]),
        known=arrays["known"].astype(np.int8),
        planted_confidence=arrays["planted"],
        storage=None if storage is None else Storage(*storage),
    )
    ranking = NoisyLabels(ranked, Answers.none(len(ranked.row)), suggestions)
    return StoredRanking(ranking, dict(head["about"]))


def _are_shares(values: np.ndarray) -> bool:
    """Check whether all values are probabilities."""
    return bool(((values >= 0) & (values <= 1)).all())
