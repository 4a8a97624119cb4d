"""How far a benchmark is, and how long it will still take."""

from collections import Counter
from collections.abc import Callable
from typing import NamedTuple

from schirn.bench._plan import Cell
from schirn.bench.rows import Row


class Report(NamedTuple):
    """Told after each finished cell."""

    row: Row
    finished: int
    total: int
    seconds_left: float | None


class Progress:
    """Counts finished cells and learns what the cells of a method cost."""

    def __init__(self, cells: list[Cell], jobs: int, report: Callable[[Report], None] | None):
        self._left = {cell.key: (cell.row["dataset"], cell.row["method"]) for cell in cells}
        self._total, self._jobs, self._report = len(self._left), jobs, report
        self._costs: dict[tuple[str, ...], tuple[float, int]] = {}

    def add(self, row: Row, *, old: bool = False) -> None:
        """Count a row; one from an earlier run is not reported."""
        self._left.pop(row["key"], None)
        names = ("tune_seconds", "fit_seconds", "predict_seconds")
        if row["status"] == "done":
            cost = sum(row[name] or 0.0 for name in names)
            for name in ((row["dataset"], row["method"]), (row["method"],), ()):
                total, count = self._costs.get(name, (0.0, 0))
                self._costs[name] = total + cost, count + 1
        if self._report is not None and not old:
            finished = self._total - len(self._left)
            self._report(Report(row, finished, self._total, self._seconds_left()))

    def _seconds_left(self) -> float | None:
        """From cells of the same set and method, else of the same method, else of all."""
        if not self._costs:
            return None
        seconds = 0.0
        for (dataset, method), count in Counter(self._left.values()).items():
            known = next(n for n in ((dataset, method), (method,), ()) if n in self._costs)
            total, cells = self._costs[known]
            seconds += count * total / cells
        return seconds / min(self._jobs, max(1, len(self._left)))
