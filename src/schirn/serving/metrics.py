"""Counters of a server, shared by its processes, in the text format of Prometheus."""

from pathlib import Path

import numpy as np

PATHS = ("/predict", "/judge", "/health", "/metrics", "/openapi.json", "other")
STATUSES = (200, 400, 401, 404, 405, 413, 415, 500, 503)
# Upper bounds of the time of a request, in seconds.
BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, float("inf"))


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
        n_requests = len(PATHS) * len(STATUSES)
        self._sizes = (n_requests, len(BOUNDS), 3)
        shape = (n_workers, sum(self._sizes))
        if path is None:
            self._all: np.ndarray = np.zeros(shape)
        else:
            path.touch()
            is_new = path.stat().st_size == 0
            self._all = np.memmap(path, np.float64, "w+" if is_new else "r+", shape=shape)
        self._worker = worker
        # A process that was killed leaves its requests in flight.
        self._own[2][2] = 0

    @property
    def _own(self) -> list[np.ndarray]:
        return np.split(self._all[self._worker], np.cumsum(self._sizes)[:-1])

    def begin(self) -> None:
        """Count a request in flight."""
        self._own[2][2] += 1

    def end(self, path: str, status: int, seconds: float) -> None:
        """Count a request that was answered."""
        requests, times, totals = self._own
        line = PATHS.index(path if path in PATHS else "other")
        requests[line * len(STATUSES) + STATUSES.index(status if status in STATUSES else 500)] += 1
        times[int(np.searchsorted(BOUNDS, seconds))] += 1
        totals[0] += seconds
        totals[2] -= 1

    def add_rows(self, n: int) -> None:
        """Count rows that were tagged or judged."""
        self._own[2][1] += n

    def text(self) -> str:
        """Return the counters of all processes."""
        sums = np.asarray(self._all.sum(axis=0))
        requests, times, (seconds, rows, in_flight) = np.split(sums, np.cumsum(self._sizes)[:-1])
        lines = ["# TYPE schirn_requests_total counter"]
        for k, count in enumerate(requests.tolist()):
            if count:
                path, status = PATHS[k // len(STATUSES)], STATUSES[k % len(STATUSES)]
                lines.append(f'schirn_requests_total{{path="{path}",status="{status}"}} {count:g}')
        lines.append("# TYPE schirn_request_seconds histogram")
        for bound, count in zip(BOUNDS, np.cumsum(times).tolist(), strict=True):
            name = "+Inf" if bound == float("inf") else f"{bound:g}"
            lines.append(f'schirn_request_seconds_bucket{{le="{name}"}} {count:g}')
        lines += [
            f"schirn_request_seconds_sum {seconds:.6f}",
            f"schirn_request_seconds_count {times.sum():g}",
            "# TYPE schirn_rows_total counter",
            f"schirn_rows_total {rows:g}",
            "# TYPE schirn_requests_in_flight gauge",
            f"schirn_requests_in_flight {in_flight:g}",
        ]
        return "\n".join(lines) + "\n"
