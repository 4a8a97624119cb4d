"""Where features and intermediate results are stored: in memory, in files or elsewhere."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from schirn._input import location
from schirn.exceptions import InputError
from schirn.linalg.arrays import row_pieces, to_numpy
from schirn.scale.cluster import in_memory
from schirn.scale.memory import check_room, fits, free_bytes, scratch_folder
from schirn.scale.row_file import RowFile

# Size of the blocks of rows that are copied to a file.
_BLOCK_BYTES = 2**25


@dataclass(frozen=True)
class Needs:
    """What a ranker needs of main memory.

    Attributes
    ----------
    locations : tuple of {"files", "device", "dask"}
        Where the rows may be besides main memory.
    are_few : bool
        Whether the rows are few enough to be brought from Dask workers to main memory.
    cells, landmarks : int
        Bytes of all that it computes for rows and labels, and of its landmark features.
    """

    locations: tuple[str, ...] = ()
    are_few: bool = True
    cells: int = 0
    landmarks: int = 0


class Storage(NamedTuple):
    """Where the features and what is computed from them are stored; `choose_storage` says when.

    Attributes
    ----------
    name : {"memory", "landmark file", "blocks", "device", "workers"}
    in_file : bool
        Whether the features are in a file, not in memory.
    label_groups : int
        Number of groups in which the labels are judged, one after the other.
    reason : str
        Why, in words.
    """

    name: str
    in_file: bool
    label_groups: int
    reason: str

    @property
    def is_short_of_memory(self) -> bool:
        """Whether files or groups of labels make up for memory."""
        return self.in_file or self.name in ("blocks", "landmark file") or self.label_groups > 1


def choose_storage(features: int, where: str, n_labels: int, needs: Needs) -> Storage:
    """Decide where the features and what is computed from them are stored.

    ============= ===================================== ============== =========================
    storage       chosen if                             features       what is computed
    ============= ===================================== ============== =========================
    workers       many rows are on Dask workers         there          there
    device        X is on a device                      there          there
    blocks        the features are in a file, or what   file           in temporary files, block
                  is computed is more than is free                     by block
    landmark file the landmark features are more than   memory or file in memory, except for the
                  half of what is free                                 landmark features
    memory        otherwise                             memory or file in memory
    ============= ===================================== ============== =========================

    If the ranker does not take rows from where they are, they are brought to main memory, or mapped
    from their file. Without blocks, labels are judged in groups if what is computed for all of them
    is more than is free.

    Parameters
    ----------
    features : int
        Bytes of the features.
    where : {"memory", "files", "device", "dask"}
        Where the features are now.
    n_labels : int
        Number of labels to judge.
    needs : Needs
        What the ranker needs.
    """
    free, computed = free_bytes(), needs.cells + needs.landmarks
    in_file, has_blocks = where == "files", "files" in needs.locations
    groups = max(1, min(-(-needs.cells // max(1, free)), n_labels))
    memory = f"{_gigabytes(free)} of memory"
    size = f"features of {_gigabytes(features)}"
    in_landmark_file = not fits(needs.landmarks, free)
    name, reason = "memory", f"{size} are {'mapped from files' if in_file else 'in memory'}"
    if where == "dask" and not needs.are_few:
        name, groups, reason = "workers", 1, "the features are on Dask workers"
    elif where == "device" and "device" in needs.locations:
        name, reason = "device", "the features are on a device"
    elif in_file and has_blocks:
        why = "where they are" if fits(features, free) else f"as {memory} were free"
        name, groups, reason = "blocks", 1, f"{size} are read from files block by block, {why}"
    elif has_blocks and computed > free:
        name, groups = "blocks", 1
        reason = (
            f"{_gigabytes(computed)} would be needed and {memory} are free, so the rows go through "
            f"in blocks, with temporary files in {scratch_folder()}"
        )
    else:
        if where in ("dask", "device"):
            reason = "the features are brought to memory"
        if in_landmark_file:
            name = "landmark file"
            reason += (
                f"; landmark features of {_gigabytes(needs.landmarks)} are in a temporary file"
            )
        if groups > 1:
            reason += f"; the labels are judged in {groups} groups"
        if in_landmark_file or groups > 1:
            reason += f", as {memory} are free"
    return Storage(name, in_file, groups, reason)


def size_of(X: Any) -> int:
    """Bytes of features, wherever they are; 0 for those of Dask."""
    if sp.issparse(X):
        return int(X.data.nbytes + X.indices.nbytes)
    return int(getattr(X, "nbytes", 0)) if location(X) != "dask" else 0


def bring(X: Any, storage: Storage) -> Any:
    """Return X in main memory, unless it stays on workers, on a device or in a file."""
    where = location(X)
    if where == "dask" and storage.name != "workers":
        return in_memory(X)
    if where == "device" and storage.name != "device":
        return to_numpy(X)
    return X.mapped() if where == "files" and storage.name != "blocks" else X


def to_blocks(X: Any) -> RowFile:
    """Return rows in memory or in a mapped file as a `RowFile`, copied if need be."""
    if isinstance(X, np.memmap) and X.mode != "c" and X.flags.c_contiguous:
        return RowFile(X)
    size = size_of(X)
    check_room(size, f"{X.shape[0]:,} rows")
    return RowFile(piece for _, piece in row_pieces(X, max(1, _BLOCK_BYTES * X.shape[0] // size)))


def check_on_workers(name: str, needs: Needs, arguments: Mapping[str, Any]) -> None:
    """Raise InputError for arguments that need the features of all rows in main memory.

    Parameters
    ----------
    name : str
        Name of the ranker.
    needs : Needs
    arguments : dict
        Names and values of arguments that must be None.
    """
    argument = next((key for key, value in arguments.items() if value is not None), None)
    if argument is None and "dask" in needs.locations:
        return
    what, advice = f"{argument} needs", "leave it out, or give X as an array or CSR matrix"
    if argument is None:
        what, advice = f"{name} judges in folds, which need", "use Sieve"
    raise InputError(
        f"{what} rows in main memory, but those of X are on Dask workers; {advice}",
        parameter=argument or "method",
    )


def _gigabytes(size: float) -> str:
    return f"{size / 1e9:.2g} GB"
