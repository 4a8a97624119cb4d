"""Where rows live: blocks in memory, files larger than memory, devices, Dask workers."""

from schirn.scale.row_file import RowFile

__all__ = ["RowFile"]
