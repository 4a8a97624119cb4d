"""Label confidences of the training rows: in memory, on a GPU or on disk, read by row index."""

import os
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch

from schirn.exceptions import InputError

Tensor = torch.Tensor

_TYPES = {"float32": torch.float32, "float16": torch.float16}
_ROWS_AT_ONCE = 100_000


class Confidences:
    """One confidence for every row and label, of which a batch reads and writes its rows.

    A row that was never written reads as its candidates. So nothing has to be filled in first,
    and a file of ten million rows takes disk space only for the rows that were written.

    Parameters
    ----------
    n_rows, n_labels : shape of the table.
    dtype : "float32" or "float16". Half precision keeps three digits, enough for soft labels.
    path : keep the table in this new .npy file, mapped into memory; None keeps it in memory.
        `Confidences.reopen` goes on with a file that is there.
    device : where a table without a path lives, for instance "cuda".

    Notes
    -----
    From a table in main memory the rows of a batch are copied to the GPU and back while it works.
    Give the numbers of the rows as a data loader does, in main memory: to bring them from the GPU
    makes every batch wait.

    Examples
    --------
    >>> table = Confidences(4, 2)
    >>> rows, candidates = torch.tensor([0, 2]), torch.tensor([[1, 0], [1, 1]])
    >>> kept = table.write(rows[:1], torch.tensor([[0.25, 0.0]]))
    >>> table.read(rows, candidates)
    tensor([[0.2500, 0.0000],
            [1.0000, 1.0000]])
    """

    def __init__(
        self,
        n_rows: int,
        n_labels: int,
        *,
        dtype: Literal["float32", "float16"] = "float32",
        path: str | os.PathLike[str] | None = None,
        device: str | torch.device = "cpu",
    ):
        if dtype not in _TYPES:
            raise InputError(f"dtype must be one of 'float32', 'float16', got {dtype!r}")
        if path is not None and torch.device(device).type != "cpu":
            raise InputError(f"confidences in the file {path} cannot live on {device!r} as well")
        self.shape = (int(n_rows), int(n_labels))
        self.path = None if path is None else Path(path)
        self.device = torch.device(device)
        self._table = self._open(dtype)
        self._written = torch.zeros(n_rows, dtype=torch.bool, device=self.device)

    # Rows on their way from a GPU: their places, their values, and when these will be there.
    _coming: tuple[Tensor, Tensor, torch.cuda.Event] | None = None

    @property
    def table(self) -> Tensor:
        """(n_rows, n_labels) values of all rows."""
        self._settle()
        return self._table

    @property
    def written(self) -> Tensor:
        """(n_rows,) whether a row was written."""
        self._settle()
        return self._written

    def _open(self, dtype: str) -> Tensor:
        if self.path is None:
            return torch.zeros(self.shape, dtype=_TYPES[dtype], device=self.device)
        if self.path.exists():
            raise InputError(
                f"{self.path}: there is a file already; Confidences.reopen goes on with it, "
                f"or remove it to start anew"
            )
        mapped = np.lib.format.open_memmap(self.path, mode="w+", dtype=dtype, shape=self.shape)
        self._mapped = mapped
        return torch.from_numpy(mapped)

    def read(self, rows: Tensor, candidates: Tensor) -> Tensor:
        """Confidences of some rows in single precision, on the device of the candidates."""
        place = self._places(rows)
        values = _send(self.table[place], candidates.device).float()
        known = _send(self.written[place], candidates.device)
        return torch.where(known[:, None], values, candidates.float())

    def write(self, rows: Tensor, values: Tensor) -> Tensor:
        """Replace the confidences of some rows; return them as the table keeps them."""
        place = self._places(rows)
        self._settle()
        kept = values.detach().to(self._table.dtype)
        if kept.is_cuda and self.device.type == "cpu":
            buffer = torch.empty(kept.shape, dtype=kept.dtype, pin_memory=True)
            buffer.copy_(kept, non_blocking=True)
            there = torch.cuda.Event()
            there.record(torch.cuda.current_stream(kept.device))
            self._coming = place, buffer, there
        else:
            self._put(place, kept.to(self.device))
        return kept.float()

    def _put(self, place: Tensor, values: Tensor) -> None:
        self._table.index_copy_(0, place, values)
        # An assignment of True would copy it to the device, and wait.
        self._written.index_fill_(0, place, True)

    def _settle(self) -> None:
        """Put the rows that are on their way where they belong."""
        if self._coming is not None:
            place, values, there = self._coming
            there.synchronize()
            self._coming = None
            self._put(place, values)

    def __getstate__(self) -> dict[str, Any]:
        """All but the rows on their way, which are waited for, and what lies in the file."""
        self.flush()
        left_out = () if self.path is None else ("_table", "_mapped")
        return {name: value for name, value in self.__dict__.items() if name not in left_out}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Map the file of the table again: a copy writes to the same file."""
        self.__dict__.update(state)
        if self.path is not None:
            self._map()

    def _map(self) -> None:
        assert self.path is not None
        self._mapped = np.lib.format.open_memmap(self.path, mode="r+")
        self._table = torch.from_numpy(self._mapped)

    def flush(self) -> None:
        """Bring a table on disk up to date there."""
        self._settle()
        if self.path is not None:
            self._mapped.flush()

    def state(self) -> dict[str, Any]:
        """What a checkpoint keeps: the table, or only its place where it is on disk."""
        self.flush()
        state: dict[str, Any] = {"written": self.written.cpu().clone()}
        if self.path is None:
            state["table"] = self.table.cpu().clone()
        return state

    def restore(self, state: dict[str, Any]) -> None:
        """Go back to such a state; a table on disk is taken as it lies there.

        After a break that is a table from `reopen`: a new one has forgotten the rows.
        """
        if tuple(state["written"].shape) != self.shape[:1]:
            raise InputError(
                f"the saved confidences are of {len(state['written'])} rows, "
                f"this table has {self.shape[0]}"
            )
        if "table" not in state and state["written"].any() and not self.written.any():
            raise InputError(
                "the saved confidences are in a file, and this table is a new one; open that file "
                "with Confidences.reopen, and give it as confidences="
            )
        self.written.copy_(state["written"])
        if "table" in state and self.path is None:
            self.table.copy_(state["table"])

    @classmethod
    def reopen(cls, path: str | os.PathLike[str]) -> "Confidences":
        """Map a table that is on disk already; rows of zeros count as never written."""
        table = cls.__new__(cls)
        table.path, table.device = Path(path), torch.device("cpu")
        table._map()
        mapped = table._mapped
        table.shape = mapped.shape
        parts = [
            (mapped[i : i + _ROWS_AT_ONCE] != 0).any(axis=1)
            for i in range(0, len(mapped), _ROWS_AT_ONCE)
        ]
        table._written = torch.from_numpy(np.concatenate(parts))
        return table

    def _places(self, rows: Tensor) -> Tensor:
        if rows.dtype not in (torch.int64, torch.int32):
            raise InputError(f"row indices must be whole numbers, got {rows.dtype}")
        place = rows.to(self.device, torch.int64)
        # Asking a GPU for the largest index would make it wait; there torch checks by itself.
        if self.device.type == "cpu" and len(place):
            low, high = int(place.min()), int(place.max())
            if low < 0 or high >= self.shape[0]:
                raise InputError(
                    f"row index {low if low < 0 else high} is outside of the {self.shape[0]} rows "
                    f"that the confidences were made for"
                )
        return place


def _send(values: Tensor, device: torch.device) -> Tensor:
    """Values on a device; a copy from pinned memory to a GPU is not waited for."""
    if device.type == "cuda" and not values.is_cuda:
        values = values.pin_memory()
    return values.to(device, non_blocking=True)
