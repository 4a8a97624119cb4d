"""Peak memory of this process."""

import re
import sys
from contextlib import suppress
from pathlib import Path

_MIB = 2.0**20


def reset_peak_memory() -> None:
    """Reset the peak, if the system can (Linux)."""
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def peak_memory() -> float | None:
    """Return the peak in MiB since the last reset, or else since the start of the process."""
    with suppress(OSError):
        match = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
        if match:
            return round(int(match[1]) * 1024 / _MIB, 1)
    try:
        import resource
    except ImportError:
        return None
    unit = 1 if sys.platform == "darwin" else 1024
    return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / _MIB, 1)
