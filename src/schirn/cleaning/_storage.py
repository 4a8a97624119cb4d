"""Storage of features and intermediate results: in memory, in files or elsewhere."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import scipy.sparse as sp

from schirn._input import location
from schirn.exceptions import InputError
from schirn.linalg.arrays import to_numpy
from schirn.scale.cluster import in_memory
from schirn.scale.memory import fits, free_bytes, scratch_folder


@dataclass(frozen=True)
class Needs:
    """A ranker's requirements on main memory.

    Attributes
    ----------
    locations : tuple of {"files", "device", "dask"}
        Locations of the rows that the ranker supports in addition to main memory.
    are_few : bool
        True if the rows are few enough to be moved from Dask workers to main memory.
    memory, blocks : int
        Bytes of all intermediate results, and bytes that stay in memory if rows are processed in
        blocks.
    """

    locations: tuple[str, ...] = ()
    are_few: bool = True
    memory: int = 0
    blocks: int = 0


class Storage(NamedTuple):
    """Where features and intermediate results are stored; see `choose_storage`.

    Attributes
    ----------
    name : {"memory", "blocks", "device", "workers"}
        Name of the strategy.
    in_file : bool
        True if the features are in a file, not in memory.
    reason : str
        Reason for the choice, in words.
    """

    name: str
    in_file: bool
    reason: str

    @property
    def is_short_of_memory(self) -> bool:
        """True if files are used for lack of memory."""
        return self.in_file or self.name == "blocks"


def choose_storage(features: int, where: str, needs: Needs) -> Storage:
    """Choose where features and intermediate results are stored.

    ======= ============================================== ============== ==========================
    storage chosen if                                      features       intermediate results
    ======= ============================================== ============== ==========================
    workers many rows are on Dask workers                  on the workers on the workers
    device  X is on a device                               on the device  on the device
    blocks  the features are in a file, or intermediate    not moved      in temporary files, block
            results exceed the free memory                                by block
    memory  otherwise                                      memory or file in memory
    ======= ============================================== ============== ==========================

    If the ranker does not support the location of the rows, they are moved to main memory, or
    mapped from their file.

    Parameters
    ----------
    features : int
        Bytes of the features.
    where : {"memory", "files", "device", "dask"}
        Present location of the features.
    needs : Needs
        Requirements of the ranker.

    Returns
    -------
    Storage

    Raises
    ------
    InputError
        If the data that must be in memory exceed the free memory.
    """
    free = free_bytes()
    in_file = where == "files"
    has_blocks = "files" in needs.locations
    memory = f"{_gigabytes(free)} of memory"
    size = f"features of {_gigabytes(features)}"
    if where == "dask" and not needs.are_few:
        return Storage("workers", False, "the features are on Dask workers")
    if where == "device" and "device" in needs.locations:
        return Storage("device", False, "the features are on a device")
    name = "memory"
    needed = needs.memory
    reason = f"{size} are {'mapped from files' if in_file else 'in memory'}"
    if where in ("dask", "device"):
        reason = "the features are copied to main memory"
    if has_blocks and (in_file or needed > free):
        reason = (
            f"{_gigabytes(needed)} would be needed and {memory} are free, so the rows are "
            f"processed in blocks, with temporary files in {scratch_folder()}"
        )
        if in_file:
            why = "where they are" if fits(features, free) else f"as {memory} were free"
            reason = f"{size} are read from files block by block, {why}"
        name = "blocks"
        needed = needs.blocks
    if needed > free:
        raise InputError(
            f"what is computed from {size} needs {_gigabytes(needed)} of memory, but "
            f"{_gigabytes(free)} are free; clean fewer rows or labels at a time, "
            f"or use Dask workers or a machine with more memory"
        )
    return Storage(name, in_file, reason)


def size_of(X: Any) -> int:
    """Return the size of features in bytes; 0 for Dask."""
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


def check_on_workers(name: str, needs: Needs, arguments: Mapping[str, Any]) -> None:
    """Raise InputError for arguments that need the features of all rows in main memory.

    Parameters
    ----------
    name : str
        Name of the ranker.
    needs : Needs
        Requirements of the ranker.
    arguments : dict
        Names and values of arguments that must be None.
    """
    argument = next((key for key, value in arguments.items() if value is not None), None)
    if argument is None and "dask" in needs.locations:
        return
    what = f"{argument} needs"
    advice = "leave it out, or give X as an array or CSR matrix"
    if argument is None:
        what = f"{name} judges in folds, which need"
        advice = "use Sieve"
    raise InputError(
        f"{what} rows in main memory, but those of X are on Dask workers; {advice}",
        parameter=argument or "method",
    )


def _gigabytes(size: float) -> str:
    return f"{size / 1e9:.2g} GB"
