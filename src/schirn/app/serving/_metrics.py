"""Counters of a server, shared by its processes, in the text format of Prometheus."""

import json
import os
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np

from schirn._files import atomic_write, lock, utc_now

PATHS = ("/predict", "/judge", "/health", "/metrics", "/openapi.json", "other")
STATUSES = (200, 400, 401, 404, 405, 413, 415, 421, 500, 503)
# Reasons for responses with status 503.
OVERLOADS = ("connections", "requests", "bytes", "time")
# Upper bounds of the histogram of request times, in seconds.
BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, float("inf"))
_COUNTERS = np.dtype(
    [
        ("requests", float, (len(PATHS), len(STATUSES))),
        ("times", float, (len(PATHS), len(BOUNDS))),
        ("seconds", float, len(PATHS)),
        ("overloads", float, len(OVERLOADS)),
        *((name, float) for name in ("rows", "in_flight", "unlogged")),
    ]
)
# Next to the counters of the workers, whose files are named after their processes.
_RELOADS = "reloads.json"


@dataclass(frozen=True)
class Reloads:
    """Number of attempts to reload the model; only the supervisor of the workers counts.

    Attributes
    ----------
    n_ok, n_failed : int
    failed : str, optional
        When the last attempt failed, if it did.
    """

    n_ok: int = 0
    n_failed: int = 0
    failed: str | None = None

    def after(self, is_ok: bool) -> "Reloads":
        """Return the counts after one more attempt."""
        if is_ok:
            return replace(self, n_ok=self.n_ok + 1, failed=None)
        return replace(self, n_failed=self.n_failed + 1, failed=utc_now())

    def write(self, folder: Path) -> None:
        """Write the counts, which all workers read."""
        with atomic_write(folder / _RELOADS) as stream:
            stream.write(json.dumps(asdict(self)).encode())

    @classmethod
    def read(cls, folder: Path | None) -> "Reloads":
        """Return the latest counts of `write`."""
        if folder is None or not Path(folder, _RELOADS).exists():
            return cls()
        return cls(**json.loads(Path(folder, _RELOADS).read_bytes()))


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
        self._own["times"][0, line, np.searchsorted(BOUNDS, seconds)] += 1
        self._own["seconds"][0, line] += seconds
        self._own["in_flight"] -= 1

    def add_rows(self, n: int) -> None:
        """Count rows that were tagged or judged."""
        self._own["rows"] += n

    def reloads(self) -> Reloads:
        """Return the attempts to reload the model."""
        return Reloads.read(self._folder)

    def text(self, about: dict[str, Any] | None = None) -> str:
        """Return the counters of all processes.

        Parameters
        ----------
        about : dict, optional
            Facts about the model of this process.
        """
        files = [] if self._folder is None else self._folder.glob("[0-9]*")
        counters = np.concatenate([*map(_read, files)] or [self._own])
        total = {name: counters[name].sum(axis=0) for name in _COUNTERS.fields or ()}
        lines = _model_lines(about or {})
        lines.append("# TYPE schirn_requests_total counter")
        for i, k in np.argwhere(total["requests"]).tolist():
            labels = f'path="{PATHS[i]}",status="{STATUSES[k]}"'
            lines.append(f"schirn_requests_total{{{labels}}} {total['requests'][i, k]:g}")
        lines.append("# TYPE schirn_request_seconds histogram")
        for path, times, seconds in zip(PATHS, total["times"], total["seconds"], strict=True):
            if times.any():
                lines += _histogram(path, times, seconds)
        lines += [
            "# TYPE schirn_rows_total counter",
            f"schirn_rows_total {total['rows']:g}",
            "# TYPE schirn_requests_in_flight gauge",
            f"schirn_requests_in_flight {total['in_flight']:g}",
            "# TYPE schirn_unlogged_requests_total counter",
            f"schirn_unlogged_requests_total {total['unlogged']:g}",
            "# TYPE schirn_reloads_total counter",
            f'schirn_reloads_total{{result="ok"}} {self.reloads().n_ok}',
            f'schirn_reloads_total{{result="failed"}} {self.reloads().n_failed}',
            "# TYPE schirn_overload_total counter",
        ]
        for kind, count in zip(OVERLOADS, total["overloads"].tolist(), strict=True):
            lines.append(f'schirn_overload_total{{reason="{kind}"}} {count:g}')
        return "\n".join(lines) + "\n"


def _histogram(path: str, times: np.ndarray, seconds: float) -> list[str]:
    """Return the lines about the duration of requests to a path."""
    name = "schirn_request_seconds"
    lines = []
    for bound, count in zip(BOUNDS, np.cumsum(times).tolist(), strict=True):
        limit = "+Inf" if bound == float("inf") else f"{bound:g}"
        lines.append(f'{name}_bucket{{path="{path}",le="{limit}"}} {count:g}')
    lines.append(f'{name}_sum{{path="{path}"}} {seconds:.6f}')
    lines.append(f'{name}_count{{path="{path}"}} {times.sum():g}')
    return lines


def _model_lines(about: dict[str, Any]) -> list[str]:
    """Return the lines about a model: its hash, and when it was trained and loaded."""
    lines = []
    if "sha256" in about:
        lines.append("# TYPE schirn_model_info gauge")
        lines.append(f'schirn_model_info{{sha256="{about["sha256"]}"}} 1')
    for event in ("trained", "loaded"):
        try:
            seconds = datetime.fromisoformat(about[event]).timestamp()
        # The notes of a model file may hold anything, or nothing.
        except (KeyError, TypeError, ValueError):
            continue
        name = f"schirn_model_{event}_timestamp_seconds"
        lines += [f"# TYPE {name} gauge", f"{name} {seconds:.0f}"]
    return lines


def _read(path: Path) -> np.ndarray:
    """Return the counters of a process; a killed process has no requests in flight."""
    with path.open("rb") as file:
        counters = np.fromfile(file, _COUNTERS)
        if lock(file):
            counters["in_flight"] = 0
    return counters
