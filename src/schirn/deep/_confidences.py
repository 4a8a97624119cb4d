"""Table of label confidences of the training rows."""

from typing import Literal

import torch
from torch import Tensor, nn

from schirn._input import OneOf
from schirn.exceptions import InputError


class Confidences(nn.Module):
    """Table of one confidence per row and label, read and written batch by batch.

    Reading a row that was never written returns its candidates, so the table needs no
    initialisation. It is part of the loss or head that uses it: `to` moves it to another device,
    and `state_dict` includes it.

    Parameters
    ----------
    n_rows, n_labels : int
        Shape of the table.
    dtype : {"float32", "float16"}, default="float32"
        Half precision keeps three digits, which is enough for soft labels.

    Attributes
    ----------
    table : Tensor of shape (n_rows, n_labels)
        Values of all rows.
    written : Tensor of shape (n_rows,)
        Boolean mask of the rows written so far.

    Examples
    --------
    >>> table = Confidences(4, 2)
    >>> rows, candidates = torch.tensor([0, 2]), torch.tensor([[1, 0], [1, 1]])
    >>> stored = table.write(rows[:1], torch.tensor([[0.25, 0.0]]))
    >>> table.read(rows, candidates)
    tensor([[0.2500, 0.0000],
            [1.0000, 1.0000]])
    """

    table: Tensor
    written: Tensor

    def __init__(
        self, n_rows: int, n_labels: int, *, dtype: Literal["float32", "float16"] = "float32"
    ):
        super().__init__()
        OneOf(("float32", "float16")).check("dtype", dtype)
        self.register_buffer("table", torch.zeros(n_rows, n_labels, dtype=getattr(torch, dtype)))
        self.register_buffer("written", torch.zeros(n_rows, dtype=torch.bool))

    def read(self, rows: Tensor, candidates: Tensor) -> Tensor:
        """Return the confidences of some rows, in single precision on the candidates' device.

        Parameters
        ----------
        rows : Tensor of shape (n,)
            Numbers of the rows in training.
        candidates : Tensor of shape (n, l)
            0/1.

        Returns
        -------
        Tensor of shape (n, l)
        """
        index = self._check_rows(rows)
        values = self.table[index].float()
        written = self.written[index][:, None]
        return torch.where(written, values, candidates.to(values)).to(candidates.device)

    def write(self, rows: Tensor, values: Tensor) -> Tensor:
        """Replace the confidences of some rows, and return them as stored.

        Parameters
        ----------
        rows : Tensor of shape (n,)
            Numbers of the rows in training.
        values : Tensor of shape (n, l)

        Returns
        -------
        Tensor of shape (n, l)
        """
        index = self._check_rows(rows)
        stored = values.detach().to(self.table.device, self.table.dtype)
        self.table.index_copy_(0, index, stored)
        # Assigning True would copy it to the device, and wait.
        self.written.index_fill_(0, index, True)
        return stored.to(values.device, torch.float32)

    def _check_rows(self, rows: Tensor) -> Tensor:
        """Return the row indices on the device of the table; raise InputError if out of range."""
        if rows.dtype not in (torch.int64, torch.int32):
            raise InputError(f"row indices must be integers, got {rows.dtype}")
        index = rows.to(self.table.device, torch.int64, non_blocking=True)
        # Fetching the largest index from a GPU would stall it; there torch itself checks.
        if not index.is_cuda and len(index):
            low = int(index.min())
            high = int(index.max())
            if low < 0 or high >= len(self.table):
                raise InputError(
                    f"row index {low if low < 0 else high} is out of range for confidences of "
                    f"{len(self.table)} rows"
                )
        return index
