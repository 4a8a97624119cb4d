"""Counters of a server, in the text format of Prometheus."""

from bisect import bisect_left
from collections import Counter
from itertools import accumulate

PATHS = ("/predict", "/judge", "/health", "/metrics")
# Upper bounds of the time of a request, in seconds.
BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, float("inf"))


class Metrics:
    """Counts requests, rows and seconds."""

    def __init__(self) -> None:
        self._requests: Counter[tuple[str, int]] = Counter()
        self._times = [0] * len(BOUNDS)
        self._seconds, self._n_rows, self._n_in_flight = 0.0, 0, 0

    def begin(self) -> None:
        """Count a request in flight."""
        self._n_in_flight += 1

    def end(self, path: str, status: int, seconds: float) -> None:
        """Count a request that was answered."""
        self._requests[path if path in PATHS else "other", status] += 1
        self._times[bisect_left(BOUNDS, seconds)] += 1
        self._seconds += seconds
        self._n_in_flight -= 1

    def add_rows(self, n: int) -> None:
        """Count rows that were tagged or judged."""
        self._n_rows += n

    def text(self) -> str:
        """Return all counters."""
        lines = ["# TYPE schirn_requests_total counter"]
        for (path, status), count in sorted(self._requests.items()):
            lines.append(f'schirn_requests_total{{path="{path}",status="{status}"}} {count}')
        lines.append("# TYPE schirn_request_seconds histogram")
        for bound, count in zip(BOUNDS, accumulate(self._times), strict=True):
            name = "+Inf" if bound == float("inf") else f"{bound:g}"
            lines.append(f'schirn_request_seconds_bucket{{le="{name}"}} {count}')
        lines += [
            f"schirn_request_seconds_sum {self._seconds:.6f}",
            f"schirn_request_seconds_count {sum(self._times)}",
            "# TYPE schirn_rows_total counter",
            f"schirn_rows_total {self._n_rows}",
            "# TYPE schirn_requests_in_flight gauge",
            f"schirn_requests_in_flight {self._n_in_flight}",
        ]
        return "\n".join(lines) + "\n"
