"""Counters of a server, shared by its processes, in the text format of Prometheus."""

import os
from pathlib import Path

import numpy as np

from schirn._files import lock

PATHS = ("/predict", "/judge", "/health", "/metrics", "/openapi.json", "other")
STATUSES = (200, 400, 401, 404, 405, 413, 415, 421, 500, 503)
# Reasons for responses with status 503.
OVERLOADS = ("connections", "requests", "bytes", "time")
# Upper bounds of the histogram of request times, in seconds.
BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, float("inf"))
_COUNTERS = np.dtype(
    [
        ("requests", float, (len(PATHS), len(STATUSES))),
        ("times", float, len(BOUNDS)),
        ("overloads", float, len(OVERLOADS)),
        *((name, float) for name in ("seconds", "rows", "in_flight", "unlogged")),
    ]
)


class Metrics:
    """Counters of requests, rows and seconds; each process counts in its own file.

    Parameters
    ----------
    folder : Path, optional
        Folder of the files of all processes; by default the counters are kept in memory.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder
        self._own: np.ndarray = np.zeros(1, _COUNTERS)
        if folder is not None:
            # Stays open for its lock, which shows that this process is alive.
            self._file = Path(folder, str(os.getpid())).open("w+b")  # noqa: SIM115
            lock(self._file)
            self._own = np.memmap(self._file, _COUNTERS, "w+", shape=1)

    def begin(self) -> None:
        """Count the start of a request."""
        self._own["in_flight"] += 1

    def n_in_flight(self) -> int:
        """Return the number of unanswered requests of this process."""
        return int(self._own["in_flight"][0])

    def add_overload(self, kind: str) -> None:
        """Count a request that was rejected because of overload.

        Parameters
        ----------
        kind : {"connections", "requests", "bytes", "time"}
            The exceeded limit.
        """
        self._own["overloads"][0, OVERLOADS.index(kind)] += 1

    def add_unlogged(self) -> None:
        """Count a request that could not be logged."""
        self._own["unlogged"] += 1

    def end(self, path: str | None, status: int, seconds: float) -> None:
        """Count the response to a request."""
        line = PATHS.index(path if path in PATHS else "other")
        column = STATUSES.index(status if status in STATUSES else 500)
        self._own["requests"][0, line, column] += 1
        self._own["times"][0, np.searchsorted(BOUNDS, seconds)] += 1
        self._own["seconds"] += seconds
        self._own["in_flight"] -= 1

    def add_rows(self, n: int) -> None:
        """Count rows that were tagged or judged."""
        self._own["rows"] += n

    def text(self) -> str:
        """Return the counters of all processes."""
        files = [] if self._folder is None else self._folder.iterdir()
        counters = np.concatenate([*map(_read, files)] or [self._own])
        total = {name: counters[name].sum(axis=0) for name in _COUNTERS.fields or ()}
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
            "# TYPE schirn_unlogged_requests_total counter",
            f"schirn_unlogged_requests_total {total['unlogged']:g}",
            "# TYPE schirn_overload_total counter",
        ]
        for kind, count in zip(OVERLOADS, total["overloads"].tolist(), strict=True):
            lines.append(f'schirn_overload_total{{reason="{kind}"}} {count:g}')
        return "\n".join(lines) + "\n"


def _read(path: Path) -> np.ndarray:
    """Return the counters of a process; a killed process has no requests in flight."""
    with path.open("rb") as file:
        counters = np.fromfile(file, _COUNTERS)
        if lock(file):
            counters["in_flight"] = 0
    return counters
