"""Counters of a server, shared by its processes, in the text format of Prometheus."""

from pathlib import Path
from typing import Any

import numpy as np

PATHS = ("/predict", "/judge", "/health", "/metrics", "/openapi.json", "other")
STATUSES = (200, 400, 401, 404, 405, 413, 415, 500, 503)
# Upper bounds of the time of a request, in seconds.
BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, float("inf"))
_COUNTERS = np.dtype(
    [
        ("requests", float, (len(PATHS), len(STATUSES))),
        ("times", float, len(BOUNDS)),
        *((name, float) for name in ("seconds", "rows", "in_flight")),
    ]
)


class Metrics:
    """Counts requests, rows and seconds; each process counts in a line of one file.

    A process that takes the place of another goes on where that one has stopped.

    Parameters
    ----------
    path : Path, optional
        The file; by default the counters are in memory.
    n_workers, worker : int
        Number of processes, and which one this is.
    """

    def __init__(self, path: Path | None = None, n_workers: int = 1, worker: int = 0) -> None:
        self._worker = worker
        if path is None:
            self._all: np.ndarray = np.zeros(n_workers, _COUNTERS)
        else:
            path.touch()
            mode: Any = "w+" if path.stat().st_size == 0 else "r+"
            self._all = np.memmap(path, _COUNTERS, mode, shape=n_workers)
        # A process that was killed leaves its requests in flight.
        self._all["in_flight"][worker] = 0

    def begin(self) -> None:
        """Count a request in flight."""
        self._all["in_flight"][self._worker] += 1

    def end(self, path: str, status: int, seconds: float) -> None:
        """Count a request that was answered."""
        line = PATHS.index(path if path in PATHS else "other")
        column = STATUSES.index(status if status in STATUSES else 500)
        self._all["requests"][self._worker, line, column] += 1
        self._all["times"][self._worker, np.searchsorted(BOUNDS, seconds)] += 1
        self._all["seconds"][self._worker] += seconds
        self._all["in_flight"][self._worker] -= 1

    def add_rows(self, n: int) -> None:
        """Count rows that were tagged or judged."""
        self._all["rows"][self._worker] += n

    def text(self) -> str:
        """Return the counters of all processes."""
        total = {name: self._all[name].sum(axis=0) for name in _COUNTERS.fields or ()}
        lines = ["# TYPE schirn_requests_total counter"]
        for i, k in np.argwhere(total["requests"]).tolist():
            labels = f'path="{PATHS[i]}",status="{STATUSES[k]}"'
            lines.append(f"schirn_requests_total{{{labels}}} {total['requests'][i, k]:g}")
        lines.append("# TYPE schirn_request_seconds histogram")
        for bound, count in zip(BOUNDS, np.cumsum(total["times"]).tolist(), strict=True):
            name = "+Inf" if bound == float("inf") else f"{bound:g}"
            lines.append(f'schirn_request_seconds_bucket{{le="{name}"}} {count:g}')
        lines += [
            f"schirn_request_seconds_sum {total['seconds']:.6f}",
            f"schirn_request_seconds_count {total['times'].sum():g}",
            "# TYPE schirn_rows_total counter",
            f"schirn_rows_total {total['rows']:g}",
            "# TYPE schirn_requests_in_flight gauge",
            f"schirn_requests_in_flight {total['in_flight']:g}",
        ]
        return "\n".join(lines) + "\n"
