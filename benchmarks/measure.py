"""Helpers of the benchmarks: time and peak memory of a function, and shapes of data sets."""

import gc
import math
import time
import tracemalloc
from collections.abc import Callable
from typing import Any, NamedTuple

from schirn.datasets import Dataset, make_partial_multilabel
from schirn.lab.bench import peak_memory


class Shape(NamedTuple):
    """Shape of a data set; `density` is 1 for dense features."""

    name: str
    n: int
    d: int
    labels: int
    cardinality: float
    r: int
    density: float = 1.0

    def make(self) -> Dataset:
        """Generate random data of this shape."""
        return make_partial_multilabel(
            n_samples=self.n,
            n_features=self.d,
            n_labels=self.labels,
            cardinality=self.cardinality,
            r=self.r,
            sparse=self.density < 1,
            density=self.density,
            random_state=0,
        )


# Training folds (four fifths) of the data sets of the paper.
PAPER_SHAPES = (
    Shape("birds", 516, 260, 19, 1.0, 3),
    Shape("scene", 1925, 294, 6, 1.1, 1),
    Shape("medical", 782, 1449, 45, 1.2, 3, 0.01),
    Shape("yeastmf", 1408, 6139, 39, 3.5, 3, 0.02),
    Shape("yeastbp", 3035, 6139, 217, 8.8, 10, 0.02),
)


def seconds(run: Callable[[], Any], *, repeats: int = 3, budget: float = 20.0) -> float:
    """Best wall time of a few runs; fewer if they exceed the budget."""
    best, spent = float("inf"), 0.0
    for _ in range(repeats):
        gc.collect()
        start = time.perf_counter()
        run()
        took = time.perf_counter() - start
        best, spent = min(best, took), spent + took
        if spent > budget:
            break
    return best


def peak_gigabytes() -> float:
    """Peak resident memory of this process; NaN if the system does not report it."""
    return (peak_memory() or math.nan) * 2**20 / 1e9


def peak_megabytes(run: Callable[[], Any]) -> float:
    """Peak memory that a run allocates through Python and NumPy."""
    gc.collect()
    tracemalloc.start()
    try:
        run()
        return tracemalloc.get_traced_memory()[1] / 1e6
    finally:
        tracemalloc.stop()
