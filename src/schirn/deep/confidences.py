"""Table of label confidences of the training rows: in memory, on a GPU or on disk."""

import os
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from schirn.exceptions import InputError

_TYPES = {"float32": torch.float32, "float16": torch.float16}
_ROWS_AT_ONCE = 100_000


class Confidences:
    """Table of one confidence per row and label, read and written batch by batch.

    Reading a row that was never written returns its candidates. The table therefore needs no
    initialisation, and a file of ten million rows occupies disk space only for the rows written.

    Parameters
    ----------
    n_rows, n_labels : int
        Shape of the table.
    dtype : {"float32", "float16"}, default="float32"
        Half precision keeps three digits, which is enough for soft labels.
    path : path-like, optional
        Keep the table in this new .npy file, memory-mapped. By default the table is in memory.
        Use `Confidences.reopen` for an existing file.
    device : str or torch.device, default="cpu"
        Device of a table without a path, for instance "cuda".

    Notes
    -----
    Rows of a table in main memory are copied to and from the GPU while it computes. Pass the row
    indices in main memory, as a data loader does: fetching them from the GPU stalls every batch.

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
            raise InputError(f"confidences in the file {path} cannot be on {device!r} as well")
        self.shape = (int(n_rows), int(n_labels))
        self.path = None if path is None else Path(path)
        self.device = torch.device(device)
        self._written = torch.zeros(n_rows, dtype=torch.bool, device=self.device)
        if self.path is None:
            self._table = torch.zeros(self.shape, dtype=_TYPES[dtype], device=self.device)
        elif self.path.exists():
            raise InputError(
                f"{self.path}: the file already exists; continue with Confidences.reopen, "
                f"or delete it to start over"
            )
        else:
            self._map(mode="w+", dtype=dtype, shape=self.shape)

    # Rows being copied from a GPU: row indices, values, and the event that ends the copy.
    _pending: tuple[Tensor, Tensor, torch.cuda.Event] | None = None

    @property
    def table(self) -> Tensor:
        """Values of all rows, of shape (n_rows, n_labels)."""
        self._finish_copy()
        return self._table

    @property
    def written(self) -> Tensor:
        """Boolean mask of the rows written so far, of shape (n_rows,)."""
        self._finish_copy()
        return self._written

    def read(self, rows: Tensor, candidates: Tensor) -> Tensor:
        """Return the confidences of some rows, in single precision on the candidates' device."""
        index = self._check_rows(rows)
        values = _send(self.table[index], candidates.device).float()
        written = _send(self.written[index], candidates.device)
        return torch.where(written[:, None], values, candidates.float())

    def write(self, rows: Tensor, values: Tensor) -> Tensor:
        """Replace the confidences of some rows, and return them as stored."""
        index = self._check_rows(rows)
        self._finish_copy()
        stored = values.detach().to(self._table.dtype)
        if stored.is_cuda and self.device.type == "cpu":
            buffer = torch.empty(stored.shape, dtype=stored.dtype, pin_memory=True)
            buffer.copy_(stored, non_blocking=True)
            copied = torch.cuda.Event()
            copied.record(torch.cuda.current_stream(stored.device))
            self._pending = index, buffer, copied
        else:
            self._put(index, stored.to(self.device))
        return stored.float()

    def _put(self, index: Tensor, values: Tensor) -> None:
        self._table.index_copy_(0, index, values)
        # Assigning True would copy it to the device, and wait.
        self._written.index_fill_(0, index, True)

    def _finish_copy(self) -> None:
        """Store the rows that are being copied from a GPU."""
        if self._pending is not None:
            index, values, copied = self._pending
            copied.synchronize()
            self._pending = None
            self._put(index, values)

    def __getstate__(self) -> dict[str, Any]:
        """Return the state without the contents of a file; pending copies are finished first."""
        self.flush()
        left_out = () if self.path is None else ("_table", "_mapped")
        return {name: value for name, value in self.__dict__.items() if name not in left_out}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Map the file of the table again; a copy of the object shares the file."""
        self.__dict__.update(state)
        if self.path is not None:
            self._map()

    def _map(self, **options: Any) -> None:
        assert self.path is not None
        self._mapped = np.lib.format.open_memmap(self.path, **options)
        self._table = torch.from_numpy(self._mapped)

    def flush(self) -> None:
        """Write all changes of a table on disk to its file."""
        self._finish_copy()
        if self.path is not None:
            self._mapped.flush()

    def state(self) -> dict[str, Any]:
        """Return the state for a checkpoint; a table on disk is not copied into it."""
        self.flush()
        state: dict[str, Any] = {"written": self.written.cpu().clone()}
        if self.path is None:
            state["table"] = self.table.cpu().clone()
        return state

    def restore(self, state: dict[str, Any]) -> None:
        """Restore a state from `state`; a table on disk keeps the contents of its file.

        Open such a table with `reopen` before restoring: a new table holds no rows.
        """
        if tuple(state["written"].shape) != self.shape[:1]:
            raise InputError(
                f"the saved confidences have {len(state['written'])} rows, "
                f"this table has {self.shape[0]}"
            )
        if "table" not in state and state["written"].any() and not self.written.any():
            raise InputError(
                "the saved confidences are in a file, but this table is a new one; open that file "
                "with Confidences.reopen and pass it as confidences="
            )
        self.written.copy_(state["written"])
        if "table" in state and self.path is None:
            self.table.copy_(state["table"])

    @classmethod
    def reopen(cls, path: str | os.PathLike[str]) -> "Confidences":
        """Open an existing table on disk; rows of zeros count as never written."""
        table = cls.__new__(cls)
        table.path, table.device = Path(path), torch.device("cpu")
        table._map()
        mapped = table._mapped
        table.shape = mapped.shape
        written = [
            (mapped[i : i + _ROWS_AT_ONCE] != 0).any(axis=1)
            for i in range(0, len(mapped), _ROWS_AT_ONCE)
        ]
        table._written = torch.from_numpy(np.concatenate(written))
        return table

    def _check_rows(self, rows: Tensor) -> Tensor:
        """Return the row indices on the device of the table; raise InputError if out of range."""
        if rows.dtype not in (torch.int64, torch.int32):
            raise InputError(f"row indices must be integers, got {rows.dtype}")
        index = rows.to(self.device, torch.int64)
        # Fetching the largest index from a GPU would stall it; there torch itself checks.
        if self.device.type == "cpu" and len(index):
            low, high = int(index.min()), int(index.max())
            if low < 0 or high >= self.shape[0]:
                raise InputError(
                    f"row index {low if low < 0 else high} is out of range for confidences of "
                    f"{self.shape[0]} rows"
                )
        return index


def _send(values: Tensor, device: torch.device) -> Tensor:
    """Copy values to a device; a copy to a GPU is asynchronous."""
    if device.type == "cuda" and not values.is_cuda:
        values = values.pin_memory()
    return values.to(device, non_blocking=True)
