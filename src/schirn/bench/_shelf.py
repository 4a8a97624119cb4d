"""A folder of rows and the cells that belong into it."""

import platform
import time
from pathlib import Path

import numpy
import scipy
import sklearn

import schirn
from schirn.bench._cell import Outcome
from schirn.bench._claims import Claims
from schirn.bench._plan import Cell
from schirn.bench._scores import write_arrays
from schirn.bench.rows import FIELDS, Row, RowReader, RowWriter

_BLANK: Row = {
    "reason": None,
    "metrics": {},
    "params": {},
    "tune_seconds": None,
    "fit_seconds": None,
    "fit_cpu_seconds": None,
    "predict_seconds": None,
    "peak_memory_mb": None,
    "n_train": None,
    "n_test": None,
    "scores": None,
    "traceback": None,
}


class Shelf:
    """Knows which cells of a folder are finished, claims others and records them."""

    def __init__(
        self, folder: Path, cells: list[Cell], *, retry: bool, threads: int, keep_scores: bool
    ):
        folder.mkdir(parents=True, exist_ok=True)
        self.folder, self.retry, self.threads = folder, retry, threads
        self.keep_scores = keep_scores
        self.finished: set[str] = set()
        self._cells = {cell.key: cell for cell in cells}
        self._started = time.time()
        self._reader = RowReader(folder)
        self._claims = Claims(folder / "claims")
        self._writer = RowWriter(folder, self._claims.token)

    def refresh(self) -> list[Row]:
        """See what was finished since the last time; return the row of each such cell."""
        found = []
        for row in self._reader.refresh():
            if row["key"] in self._cells and self._counts(row):
                if row["key"] not in self.finished:
                    found.append(row)
                self.finished.add(row["key"])
        return found

    def take(self, cell: Cell) -> bool:
        """Claim a cell; False where another process holds it."""
        return self._claims.take(cell.key)

    def release(self, cell: Cell) -> None:
        """Give a claim back."""
        self._claims.release(cell.key)

    def record(self, cell: Cell, outcome: Outcome) -> None:
        """Write the row of a cell, unless another process took this one for dead."""
        if not self._claims.holds(cell.key):
            return
        row = {**cell.row, **_BLANK, **cell.known, **outcome.row}
        if outcome.arrays and self.keep_scores:
            row["scores"] = f"scores/{cell.key}.npz"
            write_arrays(self.folder / row["scores"], outcome.arrays)
        row["versions"] = versions()
        row["threads"], row["host"] = self.threads, self._claims.token
        row["finished"] = time.time()
        self._writer.append({name: row[name] for name in FIELDS})

    def sweep(self) -> None:
        """Remove what dead processes left behind."""
        self._claims.sweep(self.finished)

    def close(self) -> None:
        """Give all claims back."""
        self._claims.close()

    def _counts(self, row: Row) -> bool:
        """Whether a row settles its cell, or the cell is to be tried again."""
        if row["finished"] >= self._started or row["status"] == "done":
            return True
        if row["status"] == "skipped":
            return self._cells[row["key"]].known["reason"] is not None
        return not self.retry


def versions() -> dict[str, str]:
    """What made a row."""
    return {
        "schirn": schirn.__version__,
        "python": platform.python_version(),
        "numpy": numpy.__version__,
        "scipy": scipy.__version__,
        "scikit-learn": sklearn.__version__,
    }
