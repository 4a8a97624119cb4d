"""Memory of this process: its peak, and a limit."""

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
    """Peak in MiB since the last reset, or since the start of the process without one."""
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


def can_limit_memory() -> bool:
    """Whether this system enforces a limit: Linux does."""
    return sys.platform == "linux"


def limit_memory(megabytes: float) -> None:
    """Let the system refuse this process more private memory than this many MiB.

    RLIMIT_DATA counts what the process may write to, but not code, files and address space that
    is merely reserved, as RLIMIT_AS would. Each child process has the same limit for itself.
    """
    import resource

    limit = int(megabytes * _MIB)
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
