"""Where rows live: blocks in memory, files larger than memory, devices, Dask workers."""

from schirn.scale.files import RowFile, peak_bytes

__all__ = ["RowFile", "peak_bytes"]
