"""Label confidences of the training rows: in memory, on a GPU or on disk, read by row index."""

import os
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch

from schirn.exceptions import InputError

Tensor = torch.Tensor

_TYPES = {"float32": torch.float32, "float16": torch.float16}


class Confidences:
    """One confidence for every row and label, of which a batch reads and writes its rows.

    A row that was never written reads as its candidates. So nothing has to be filled in first,
    and a file of ten million rows takes disk space only for the rows that were written.

    Parameters
    ----------
    n_rows, n_labels : shape of the table.
    dtype : "float32" or "float16". Half precision keeps three digits, enough for soft labels.
    path : keep the table in this .npy file, mapped into memory; None keeps it in memory.
    device : where a table without a path lives, for instance "cuda". Reading rows from the main
        memory costs a copy to the device of the rows for every batch.

    Examples
    --------
    >>> table = Confidences(4, 2)
    >>> rows, candidates = torch.tensor([0, 2]), torch.tensor([[1, 0], [1, 1]])
    >>> table.write(rows[:1], torch.tensor([[0.25, 0.0]]))
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
        self.table = self._open(dtype)
        self.written = torch.zeros(n_rows, dtype=torch.bool, device=self.device)

    def _open(self, dtype: str) -> Tensor:
        if self.path is None:
            return torch.zeros(self.shape, dtype=_TYPES[dtype], device=self.device)
        mapped = np.lib.format.open_memmap(self.path, mode="w+", dtype=dtype, shape=self.shape)
        self._mapped = mapped
        return torch.from_numpy(mapped)

    def read(self, rows: Tensor, candidates: Tensor) -> Tensor:
        """Confidences of some rows in single precision, on the device of the candidates."""
        place = self._places(rows)
        values = self.table[place].to(candidates.device, torch.float32, non_blocking=True)
        known = self.written[place].to(candidates.device, non_blocking=True)
        return torch.where(known[:, None], values, candidates.float())

    def write(self, rows: Tensor, values: Tensor) -> None:
        """Replace the confidences of some rows."""
        place = self._places(rows)
        values = values.detach().to(self.table.device, self.table.dtype)
        self.table.index_copy_(0, place, values)
        # An assignment of True would copy it to the device, and wait.
        self.written.index_fill_(0, place, True)

    def flush(self) -> None:
        """Bring a table on disk up to date there."""
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
        """Go back to such a state; a table on disk is taken as it lies there."""
        if tuple(state["written"].shape) != self.shape[:1]:
            raise InputError(
                f"the saved confidences are of {len(state['written'])} rows, "
                f"this table has {self.shape[0]}"
            )
        self.written.copy_(state["written"])
        if "table" in state and self.path is None:
            self.table.copy_(state["table"])

    @classmethod
    def reopen(cls, path: str | os.PathLike[str]) -> "Confidences":
        """Map a table that is on disk already; all its rows count as written."""
        mapped = np.lib.format.open_memmap(path, mode="r+")
        table = cls.__new__(cls)
        table.shape, table.path, table.device = mapped.shape, Path(path), torch.device("cpu")
        table._mapped, table.table = mapped, torch.from_numpy(mapped)
        table.written = torch.ones(len(mapped), dtype=torch.bool)
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
