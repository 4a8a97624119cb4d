"""Which road the rows take: what memory is free, what is needed, and what follows from both."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from schirn.exceptions import InputError
from schirn.linalg.arrays import row_pieces, to_numpy
from schirn.scale.cluster import in_memory
from schirn.scale.input import location
from schirn.scale.memory import check_room, fits, free_bytes, scratch_folder
from schirn.scale.row_file import RowFile
from schirn.solvers.feature_ridges import MOST_STACKED as MANY_LABELS

# Peak memory of a fit of Sieve per row and label, and per row and landmark, besides the features.
_BYTES_PER_CELL = 75
_BYTES_PER_LANDMARK = 4
# Size of the blocks of rows that are copied to a file.
_BLOCK_BYTES = 2**25


class Road(NamedTuple):
    """Where the features lie, and what is computed of them: `choose_road` says when.

    Attributes
    ----------
    name : {"memory", "landmark file", "blocks", "many labels", "device", "workers"}
    in_file : bool
        Whether the features are in a file, not in memory.
    label_groups : int
        Number of groups in which the labels are judged, one after the other.
    free, features, computed : int
        Bytes of memory that are free, and that the features and what `Sieve` computes of them need.
    reason : str
        Why, in words.
    """

    name: str
    in_file: bool
    label_groups: int
    free: int
    features: int
    computed: int
    reason: str

    @property
    def is_short_of_memory(self) -> bool:
        """Whether files or groups of labels make up for memory."""
        return self.in_file or self.name in ("blocks", "landmark file") or self.label_groups > 1


def choose_road(
    features: int,
    n_rows: int,
    where: str = "unread",
    *,
    n_labels: int = 0,
    model: Any = None,
    one_fit: bool = False,
    knowledge: bool = False,
    may_change_method: bool = False,
) -> Road:
    """Decide where the features and what is computed of them lie.

    ============= ==================================== ============== ========================
    road          taken if                             features       what is computed
    ============= ==================================== ============== ========================
    workers       X is on Dask workers                 there          there
    device        X is on a device                     there          there
    many labels   more than `MANY_LABELS`, and the     memory or file of listed cells and a
                  program may change the method                       sample of the others
    blocks        the features are in a file, or what  file           in temporary files, block
                  is computed is more than is free                    by block
    landmark file the landmark features are more than  memory or file in memory, except for the
                  half of what is free                                landmark features
    memory        otherwise                            memory or file in memory
    ============= ==================================== ============== ========================

    Features that have not been read yet stay in a file if they are more than half of what is free.
    Only one fit of `Sieve` to more than `max_kernel_rows` rows can go through blocks or workers,
    without known tags and votes. Fewer rows, and on a device known tags and votes, are brought to
    main memory; features in a file are mapped where there are no blocks. If what is computed for
    all labels is more than is free and there are no blocks, labels are judged in groups.

    Parameters
    ----------
    features : int
        Bytes of the features.
    n_rows : int
    where : {"unread", "memory", "files", "device", "dask"}
        Where the features are now.
    n_labels : int
        Number of labels to judge.
    model : estimator, optional
        The method; None while only the features are of interest.
    one_fit : bool
        Whether one fit judges all rows, not folds.
    knowledge : bool
        Whether known tags or votes are given.
    may_change_method : bool
        Whether very many labels may be judged by another method.
    """
    free = free_bytes()
    has_many_rows = n_rows > getattr(model, "max_kernel_rows", 0)
    landmarks = _BYTES_PER_LANDMARK * n_rows * getattr(model, "n_landmarks", 0) * has_many_rows
    cells = _BYTES_PER_CELL * n_rows * n_labels * one_fit
    computed = cells + landmarks
    in_file = where == "files" or (where == "unread" and not fits(features, free))
    has_blocks = one_fit and has_many_rows and not knowledge and "files" in model._locations
    groups = max(1, min(-(-cells // max(1, free)), n_labels))

    def road(name: str, reason: str, label_groups: int = 1) -> Road:
        return Road(name, in_file, label_groups, free, features, computed, reason)

    are_free = f"{_gigabytes(free)} of memory"
    size = f"features of {_gigabytes(features)}"
    held = f"{size} are {'mapped from files' if in_file else 'in memory'}"
    if where in ("dask", "device"):
        held = "the features are brought to memory"
    if may_change_method and n_labels > MANY_LABELS:
        return road("many labels", f"{held}, and of {n_labels:,} labels only some cells are scored")
    if where == "dask" and has_many_rows:
        return road("workers", "the features are on Dask workers")
    if where == "device" and has_many_rows and not knowledge:
        return road("device", "the features are on a device", groups)
    if in_file and has_blocks:
        why = "where they are" if fits(features, free) else f"as {are_free} were free"
        return road("blocks", f"{size} are read from files block by block, {why}")
    if has_blocks and computed > free:
        return road(
            "blocks",
            f"{_gigabytes(computed)} would be needed and {are_free} are free, so the rows go "
            f"through in blocks, with temporary files in {scratch_folder()}",
        )
    # A linear kernel has no landmark features.
    in_landmark_file = (
        one_fit and getattr(model, "kernel", "") == "rbf" and not fits(landmarks, free)
    )
    if in_landmark_file:
        held += f"; landmark features of {_gigabytes(landmarks)} are in a temporary file"
    if groups > 1:
        held += f"; the labels are judged in {groups} groups"
    if in_landmark_file or groups > 1:
        held += f", as {are_free} are free"
    return road("landmark file" if in_landmark_file else "memory", held, groups)


def size_of(X: Any) -> int:
    """Bytes of features, wherever they are; 0 for those of Dask."""
    if sp.issparse(X):
        return int(X.data.nbytes + X.indices.nbytes)
    return int(getattr(X, "nbytes", 0)) if location(X) != "dask" else 0


def brought(X: Any, road: Road) -> Any:
    """X in main memory if it must not stay on workers, on a device or in a file."""
    where = location(X)
    if where == "dask" and road.name != "workers":
        return in_memory(X)
    if where == "device" and road.name != "device":
        return to_numpy(X)
    return X.mapped() if where == "files" and road.name != "blocks" else X


def in_blocks(X: Any) -> RowFile:
    """Rows in memory or in a mapped file as a `RowFile`, copied if need be."""
    if isinstance(X, np.memmap) and X.mode != "c" and X.flags.c_contiguous:
        return RowFile(X)
    size = size_of(X)
    check_room(size, f"{X.shape[0]:,} rows")
    return RowFile(piece for _, piece in row_pieces(X, max(1, _BLOCK_BYTES * X.shape[0] // size)))


def check_on_workers(model: Any, given: Mapping[str, Any]) -> None:
    """Raise InputError for what needs the features of all rows in main memory."""
    name = next((name for name, value in given.items() if value is not None), None)
    if name is not None:
        raise InputError(
            f"{name} needs rows in main memory, but those of X are on Dask workers; leave it out, "
            f"or give X as an array or CSR matrix",
            parameter=name,
        )
    if "dask" not in model._locations or not model._judges_own_rows:
        raise InputError(
            f"{type(model).__name__} judges in folds, which need rows in main memory, but those of "
            f"X are on Dask workers; use Sieve",
            parameter="method",
        )


def _gigabytes(size: float) -> str:
    return f"{size / 1e9:.2g} GB"
